//! Detects which machine this is: model, HAT, processor, operating system, GPU.

use super::files::{names, text};
use crate::runtime::selftest::hat::{self, Named};
use crate::runtime::selftest::machine::{Machine, machine};
use std::path::Path;

/// The detected machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Model and device tree.
    pub machine: Machine,
    /// The HATs that the device tree names.
    pub hats: Vec<Named>,
    /// The processor's architecture.
    pub architecture: &'static str,
    /// Name of the operating system.
    pub system: Option<String>,
    /// Its GPU.
    pub gpu: Gpu,
}

/// A GPU for which the service needs access rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// No NVIDIA GPU.
    None,
    /// The GPU of a Jetson.
    Jetson,
    /// A card with its driver loaded.
    Card,
}

impl MachineFacts {
    /// Detects the machine in `root`.
    pub fn look(root: &Path) -> MachineFacts {
        let machine = machine(root);
        let jetson = machine.compatible.iter().any(|word| word.starts_with("nvidia,tegra"));
        let card = root.join("proc/driver/nvidia/version").exists()
            || names(root, "dev").iter().any(|name| name == "nvidiactl");
        MachineFacts {
            hats: hat::named(root),
            architecture: std::env::consts::ARCH,
            system: system(root),
            gpu: match (jetson, card) {
                (true, _) => Gpu::Jetson,
                (false, true) => Gpu::Card,
                (false, false) => Gpu::None,
            },
            machine,
        }
    }

    /// Whether this is a Raspberry Pi, whose firmware reads config.txt.
    pub fn is_pi(&self) -> bool {
        self.machine.compatible.iter().any(|word| word.starts_with("raspberrypi,"))
    }
}

/// PRETTY_NAME in os-release(5).
fn system(root: &Path) -> Option<String> {
    let said = text(root, "etc/os-release").or_else(|| text(root, "usr/lib/os-release"))?;
    let line = said.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches(['"', '\'']).to_string())
}
