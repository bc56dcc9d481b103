//! A folder that stands for the root of a machine, for tests of look-ups in /sys and /dev. Removed when
//! dropped. Attributes are plain files here: a shorter number overwrites only the start of a longer one, so
//! only the first line counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Tree(PathBuf);

impl Tree {
    /// An empty machine.
    pub(super) fn new(name: &str) -> Tree {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("ganglion-{name}-{}-{nth}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder for a tree");
        Tree(root)
    }
    pub(super) fn root(&self) -> &Path {
        &self.0
    }
    pub(super) fn file(&self, path: &str, content: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, format!("{content}\n")).expect("a file");
    }
    pub(super) fn link(&self, path: &str, to: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::os::unix::fs::symlink(to, path).expect("a link");
    }
    pub(super) fn read(&self, path: &str) -> String {
        let text = fs::read_to_string(self.0.join(path)).expect(path);
        text.lines().next().unwrap_or_default().to_string()
    }
    pub(super) fn number(&self, path: &str) -> u64 {
        let text = self.read(path);
        text.parse().unwrap_or_else(|_| panic!("{path} has {text:?}"))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A machine with two adapters that have a parent device and one that has none. On the first adapter there
/// are two chips: one with a kernel driver, one without.
pub(super) fn i2c_tree() -> Tree {
    let tree = Tree::new("i2c");
    for (number, device) in [(1, "platform/3160000.i2c"), (7, "platform/c250000.i2c"), (12, "virtual")] {
        let folder = format!("sys/devices/{device}/i2c-{number}");
        tree.file(
            &format!("{folder}/name"),
            if number == 12 { "bench adapter" } else { "Tegra I2C adapter" },
        );
        tree.file(&format!("dev/i2c-{number}"), "");
        tree.link(
            &format!("sys/bus/i2c/devices/i2c-{number}"),
            &format!("../../../devices/{device}/i2c-{number}"),
        );
    }
    tree.file("sys/bus/i2c/drivers/ina3221/bind", "");
    for (chip, driver) in [("1-0040", Some("ina3221")), ("1-0057", None)] {
        let folder = format!("sys/devices/platform/3160000.i2c/i2c-1/{chip}");
        tree.file(&format!("{folder}/name"), "chip");
        if let Some(driver) = driver {
            tree.link(&format!("{folder}/driver"), &format!("../../../../../bus/i2c/drivers/{driver}"));
        }
        tree.link(
            &format!("sys/bus/i2c/devices/{chip}"),
            &format!("../../../devices/platform/3160000.i2c/i2c-1/{chip}"),
        );
    }
    for device in ["3160000.i2c", "c250000.i2c"] {
        tree.file("sys/bus/platform/drivers/tegra-i2c/unbind", "");
        tree.file("sys/bus/platform/drivers/tegra-i2c/bind", "");
        tree.link(
            &format!("sys/devices/platform/{device}/driver"),
            "../../../bus/platform/drivers/tegra-i2c",
        );
    }
    tree
}
