//! Which machine this is, from its device tree, and whether a board file is for it.

use crate::base::plan::Board;
use std::fmt;
use std::path::Path;

/// Where the device tree is: the documented path and the actual one.
pub(super) const TREES: [&str; 2] = ["proc/device-tree", "sys/firmware/devicetree/base"];

/// What a machine reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its model, human-readable.
    pub model: Option<String>,
    /// The device tree's `compatible`, most specific first; empty if there is no device tree.
    pub compatible: Vec<String>,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model.as_deref().unwrap_or("unknown model"))?;
        if !self.compatible.is_empty() {
            write!(f, " ({})", self.compatible.join(" "))?;
        }
        Ok(())
    }
}

/// A board file for another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The actual machine.
    pub machine: Machine,
    /// The machines that the board file is for.
    pub wanted: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // "raspberrypi," stands for every name that begins so; a comma at the end would look cut off.
        let wanted: Vec<&str> = self.wanted.iter().map(|word| word.trim_end_matches(',')).collect();
        write!(f, "{}; the board is for {}", self.machine, wanted.join(" or "))
    }
}

impl std::error::Error for Mismatch {}

/// What the machine in `root` (`/`, or a folder in a test) reports about itself.
pub fn machine(root: &Path) -> Machine {
    let text = |path: &str| {
        let bytes = std::fs::read(root.join(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        // The device tree's strings end in NUL; a list of them has one after each.
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_string())
    };
    let tree = |name: &str| TREES.iter().find_map(|tree| text(&format!("{tree}/{name}")));
    let compatible = tree("compatible").unwrap_or_default();
    Machine {
        model: tree("model").or_else(|| text("sys/class/dmi/id/product_name")),
        compatible: compatible.split('\0').filter(|word| !word.is_empty()).map(str::to_string).collect(),
    }
}

/// Whether `board` is for the machine in `root`: one of the board's `compatible` words must be a substring of
/// one of the device tree's. A board without `compatible` is for any machine.
pub fn matches(board: &Board, root: &Path) -> Result<Machine, Mismatch> {
    let machine = machine(root);
    let wanted = &board.compatible;
    let fits = |part: &String| machine.compatible.iter().any(|word| word.contains(part.as_str()));
    if wanted.is_empty() || wanted.iter().any(fits) {
        return Ok(machine);
    }
    Err(Mismatch { machine, wanted: wanted.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::board::built_in;

    fn matched(folder: &str, files: &[(&str, &str)], board: &str) -> Result<Machine, Mismatch> {
        let root = std::env::temp_dir().join(format!("ganglion-machine-{}-{folder}", std::process::id()));
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let found = matches(&built_in(board).unwrap().unwrap().board, &root);
        let _ = std::fs::remove_dir_all(&root);
        found
    }

    const SUPER: &[(&str, &str)] = &[
        ("proc/device-tree/model", "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super\0"),
        (
            "proc/device-tree/compatible",
            "nvidia,p3768-0000+p3767-0005-super\0nvidia,p3767-0005\0nvidia,tegra234\0",
        ),
    ];

    #[test]
    fn a_super_counts_as_a_nano_but_not_as_an_nx() {
        let nano = matched("nano", SUPER, "jetson-orin-nano").unwrap();
        assert_eq!(nano.compatible.len(), 3);
        assert_eq!(nano.compatible[2], "nvidia,tegra234");
        let mismatch = matched("nx", SUPER, "jetson-orin-nx").unwrap_err();
        assert_eq!(mismatch.wanted, ["p3767-0000", "p3767-0001"]);
        assert!(mismatch.to_string().contains("Developer Kit Super (nvidia,p3768-0000"), "{mismatch}");
        assert!(matched("pi", SUPER, "picarx-v4").is_err());
    }

    #[test]
    fn without_a_device_tree_only_generic_boards_match() {
        let desk = &[("sys/class/dmi/id/product_name", "Desk 3000\n")];
        assert_eq!(matched("desk-sim", desk, "sim").unwrap().to_string(), "Desk 3000");
        let mismatch = matched("desk-car", desk, "picarx-v4").unwrap_err();
        assert_eq!(mismatch.to_string(), "Desk 3000; the board is for raspberrypi");
        let other = &[("sys/firmware/devicetree/base/compatible", "raspberrypi,5-model-b\0brcm,bcm2712\0")];
        assert!(matched("elsewhere", other, "picarx-v4").is_ok(), "the tree under its other name");
    }
}
