//! Factory-fresh machines with the package installed, and fake system programs.

use super::super::programs::{ProgramError, Programs};
use crate::hardware::device::sysfs::tree::Tree;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

pub const PI4: &str = "raspberrypi,4-model-b\0brcm,bcm2711\0";
pub const PI5: &str = "raspberrypi,5-model-b\0brcm,bcm2712\0";
pub const V5: &str = "9daeea78-0000-076e-0032-582369ac3e02\0";
pub const CONFIG: &str = "boot/firmware/config.txt";
/// The beginning of the config.txt that Raspberry Pi OS ships.
pub const CONFIG_TEXT: &str = "# For more options see the documentation\n#dtparam=i2c_arm=on\n#dtparam=spi=on\n\n\
                               dtparam=audio=on\ndtoverlay=vc4-kms-v3d\n\n[cm4]\notg_mode=1\n\n[all]\n";

/// Files that the package manager has installed on every machine.
const PACKAGE: &[(&str, &str)] = &[
    ("usr/lib/systemd/system/ganglion.service", include_str!("../../../../systemd/ganglion.service")),
    (
        "usr/lib/systemd/system/ganglion-guard.service",
        include_str!("../../../../systemd/ganglion-guard.service"),
    ),
    (
        "usr/lib/systemd/system/ganglion-sleep.service",
        include_str!("../../../../systemd/ganglion-sleep.service"),
    ),
    ("usr/share/ganglion/drop-ins/jetson.conf", include_str!("../../../../systemd/drop-ins/jetson.conf")),
    ("usr/share/ganglion/drop-ins/nvidia.conf", include_str!("../../../../systemd/drop-ins/nvidia.conf")),
    ("usr/share/ganglion/allowed_signers", "fleet namespaces=\"ganglion-package\" ssh-ed25519 AAAA\n"),
    ("etc/group", "root:x:0:\ngpio:x:986:ann,ganglion\ni2c:x:987:ann,ganglion\nganglion:x:988:\n"),
    ("proc/sys/kernel/random/boot_id", "first\n"),
    ("var/lib/ganglion/.keep", ""),
];

fn machine(files: &[(&str, &str)]) -> Tree {
    let tree = Tree::of(PACKAGE);
    files.iter().for_each(|(path, content)| tree.put(path, content));
    tree
}

fn pi(compatible: &str, model: &str) -> Tree {
    let tree = machine(&[
        ("proc/device-tree/compatible", compatible),
        ("proc/device-tree/model", model),
        ("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
        (CONFIG, CONFIG_TEXT),
        ("boot/firmware/cmdline.txt", "console=tty1 root=PARTUUID=1\n"),
        ("dev/watchdog0", ""),
    ]);
    (0..4).for_each(|core| {
        tree.put(&format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"), "ondemand\n");
    });
    tree
}

/// A Pi 4 with a Robot HAT v5, which has an EEPROM.
pub fn pi4() -> Tree {
    let tree = pi(PI4, "Raspberry Pi 4 Model B Rev 1.5\0");
    tree.put("proc/device-tree/hat/uuid", V5);
    tree.put("proc/device-tree/hat/product", "Robot HAT 5\0");
    tree.put("proc/device-tree/hat/vendor", "SunFounder\0");
    tree.put("proc/device-tree/hat/product_id", "0x076e\0");
    tree
}

/// A Pi 5 without a HAT's EEPROM: its HAT is a v4, or it has none.
pub fn pi5() -> Tree {
    pi(PI5, "Raspberry Pi 5 Model B Rev 1.0\0")
}

pub fn orin_nano() -> Tree {
    machine(&[
        (
            "proc/device-tree/compatible",
            "nvidia,p3768-0000+p3767-0005-super\0nvidia,p3767-0005\0nvidia,tegra234\0",
        ),
        ("proc/device-tree/model", "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super\0"),
        ("etc/os-release", "PRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
        ("sys/power/state", "freeze mem\n"),
        ("dev/i2c-7", ""),
    ])
}

pub fn pc() -> Tree {
    machine(&[("sys/class/dmi/id/product_name", "Desk 3000\n"), ("sys/power/state", "freeze mem disk\n")])
}

/// Fake programs that change a tree as the real ones change a machine.
pub struct InTree<'t> {
    pub root: &'t Path,
    pub ran: RefCell<Vec<String>>,
}

impl InTree<'_> {
    pub fn new(root: &Path) -> InTree<'_> {
        InTree { root, ran: RefCell::new(Vec::new()) }
    }
}

impl Programs for InTree<'_> {
    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), ProgramError> {
        let command = [&[program], arguments].concat().join(" ");
        self.ran.borrow_mut().push(command.clone());
        let (user, group) = match (program, arguments) {
            ("usermod", ["-aG", group, user]) | ("gpasswd", ["-d", user, group]) => (*user, *group),
            _ => return Err(ProgramError { command, why: "not expected".to_string() }),
        };
        let path = self.root.join("etc/group");
        let groups = std::fs::read_to_string(&path).unwrap();
        let changed = groups.lines().map(|line| {
            let (fields, members) = line.rsplit_once(':').unwrap();
            if !line.starts_with(&format!("{group}:")) {
                return format!("{line}\n");
            }
            let mut members: Vec<&str> =
                members.split(',').filter(|one| !one.is_empty() && *one != user).collect();
            members.extend((program == "usermod").then_some(user));
            format!("{fields}:{}\n", members.join(","))
        });
        std::fs::write(path, changed.collect::<String>()).unwrap();
        Ok(())
    }
}

/// Everything below a root: each path with its kind, mode and content.
pub fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let found = std::fs::symlink_metadata(&path).unwrap();
            let said = if found.is_symlink() {
                format!("link to {}", std::fs::read_link(&path).unwrap().display())
            } else if found.is_dir() {
                folders.push(path.clone());
                "folder".to_string()
            } else {
                let content = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
                // The kernel's files return their value with a line end, even if it was written without one.
                let content =
                    if path.ends_with("scaling_governor") { content.trim().to_string() } else { content };
                format!("{:o} {content}", found.permissions().mode())
            };
            all.insert(path.strip_prefix(root).unwrap().to_path_buf(), said);
        }
    }
    all
}

/// Moves a file or folder elsewhere and puts a link to it in its place.
pub fn make_link(tree: &Tree, path: &str) {
    let (from, to) = (tree.root().join(path), tree.root().join("elsewhere"));
    std::fs::rename(&from, &to).unwrap();
    symlink(&to, &from).unwrap();
}
