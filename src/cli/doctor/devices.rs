//! Buses and rights: which nodes there are and whether this user may open them. Nothing
//! is opened: opening a GPIO chip is harmless, opening an I2C adapter may wake what is behind it.

use std::path::Path;

use rustix::fs::Access;

use super::{Finding, names, text};
use crate::board::plan::{Board, BusPlan};

/// Everything below `root`.
pub(super) fn look(root: &Path, board: Option<&Board>) -> Vec<Finding> {
    let wanted = board.and_then(|board| match &board.bus {
        BusPlan::Linux { i2c_path, gpio_labels, .. } => Some((i2c_path.as_str(), gpio_labels.as_slice())),
        BusPlan::Sim(_) | BusPlan::Log => None,
    });
    vec![i2c(root, wanted.map(|(path, _)| path)), gpio(root, wanted.map(|(_, labels)| labels)), groups(root)]
}

/// I2C adapters, as `i2c-1 (bcm2835 (i2c@7e804000))`.
fn i2c(root: &Path, wanted: Option<&str>) -> Finding {
    let found: Vec<String> = names(root, "dev")
        .into_iter()
        .filter(|name| name.starts_with("i2c-"))
        .map(|name| described(root, &name, &format!("sys/class/i2c-dev/{name}/name")))
        .collect();
    let found = if found.is_empty() { "no adapter".to_string() } else { found.join(", ") };
    let Some(path) = wanted else { return Finding::ok("i2c", found) };
    let node = path.trim_start_matches('/');
    let enable = "enable the bus (Pi: 'dtparam=i2c_arm=on' in config.txt; then load i2c-dev), or name the \
                  right adapter in the board file";
    if !root.join(node).exists() {
        return Finding::refused("i2c", format!("no {path}; {found}"), enable).needed(true);
    }
    match writable(root, node) {
        true => Finding::ok("i2c", found),
        false => Finding::refused("i2c", format!("{path} may not be opened"), join_group("i2c")),
    }
    .needed(true)
}

/// GPIO chips with their labels: numbers change from boot to boot and from kernel to kernel.
fn gpio(root: &Path, wanted: Option<&[String]>) -> Finding {
    let chips: Vec<(String, String)> = names(root, "dev")
        .into_iter()
        .filter(|name| name.starts_with("gpiochip"))
        .map(|name| (chip_label(root, &name).unwrap_or_default(), name))
        .collect();
    let found: Vec<String> = chips
        .iter()
        .map(|(label, name)| if label.is_empty() { name.clone() } else { format!("{name} ({label})") })
        .collect();
    let found = if found.is_empty() { "no chip".to_string() } else { found.join(", ") };
    let Some(labels) = wanted else { return Finding::ok("gpio", found) };
    // First label that matches wins, as when the bus is opened.
    let chip = labels.iter().find_map(|wanted| chips.iter().find(|(label, _)| label == wanted));
    let Some((_, name)) = chip else {
        let found = format!("no chip labelled {}; {found}", labels.join(" or "));
        let fix = "name the label of this machine's chip in the board file (bus.gpio_labels)";
        return Finding::refused("gpio", found, fix).needed(true);
    };
    match writable(root, &format!("dev/{name}")) {
        true => Finding::ok("gpio", found),
        false => Finding::refused("gpio", format!("/dev/{name} may not be opened"), join_group("gpio")),
    }
    .needed(true)
}

/// The label that the chip's driver gave: below the device of the character node, or (older
/// kernels) of the sysfs class.
fn chip_label(root: &Path, name: &str) -> Option<String> {
    let device = format!("sys/bus/gpio/devices/{name}");
    text(root, &format!("{device}/label")).or_else(|| {
        let classes = names(root, "sys/class/gpio");
        let chip = classes.iter().find(|class| {
            class.starts_with("gpiochip")
                && names(root, &format!("sys/class/gpio/{class}/device")).iter().any(|entry| entry == name)
        })?;
        text(root, &format!("sys/class/gpio/{chip}/label"))
    })
}

/// Who this process is: root passes, others need the groups of the nodes.
fn groups(root: &Path) -> Finding {
    let user = rustix::process::geteuid().as_raw();
    if user == 0 {
        return Finding::warn(
            "user",
            "root: may do everything, which hides what a service user may not",
            "try 'ganglion doctor' as the user that will run it",
        );
    }
    let group_file = text(root, "etc/group").unwrap_or_default();
    let mine: Vec<u32> =
        rustix::process::getgroups().unwrap_or_default().iter().map(|g| g.as_raw()).collect();
    let name_of = |id: u32| {
        let line = group_file.lines().find(|line| line.split(':').nth(2) == Some(&id.to_string()))?;
        line.split(':').next().map(str::to_string)
    };
    let names: Vec<String> = mine.iter().map(|&id| name_of(id).unwrap_or_else(|| id.to_string())).collect();
    Finding::ok("user", format!("uid {user}, groups: {}", names.join(" ")))
}

fn described(root: &Path, name: &str, label: &str) -> String {
    match text(root, label) {
        Some(label) => format!("{name} ({label})"),
        None => name.to_string(),
    }
}

fn writable(root: &Path, node: &str) -> bool {
    rustix::fs::access(root.join(node), Access::READ_OK | Access::WRITE_OK).is_ok()
}

fn join_group(group: &str) -> String {
    format!("put the user into the group '{group}': usermod -aG {group} USER, then log in again")
}
