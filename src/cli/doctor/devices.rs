//! Buses and permissions: which device nodes exist and whether this user may open them. No node is opened:
//! opening a GPIO chip is harmless, but opening an I2C adapter may wake the device on it.

use std::path::Path;

use rustix::fs::Access;

use super::{Finding, names, text};
use crate::base::plan::{Board, BusPlan, I2cNode};

/// All findings below `root`.
pub(super) fn look(root: &Path, board: Option<&Board>) -> Vec<Finding> {
    let linux = board.filter(|board| matches!(board.bus, BusPlan::Linux { .. }));
    let labels = linux.and_then(|board| match &board.bus {
        BusPlan::Linux { gpio_labels, .. } => Some(gpio_labels.as_slice()),
        BusPlan::Sim | BusPlan::Log => None,
    });
    let nodes: Vec<&I2cNode> =
        linux.map_or(Vec::new(), |board| board.i2c.iter().map(|bus| &bus.node).collect());
    let mut findings = i2c(root, &nodes);
    findings.push(gpio(root, labels.filter(|labels| !labels.is_empty())));
    findings.push(groups(root));
    findings
}

/// I2C adapters, formatted as `i2c-1 (bcm2835 (i2c@7e804000))`, and whether each adapter that the board names
/// exists.
fn i2c(root: &Path, wanted: &[&I2cNode]) -> Vec<Finding> {
    let adapters: Vec<String> =
        names(root, "dev").into_iter().filter(|name| name.starts_with("i2c-")).collect();
    let found: Vec<String> = adapters
        .iter()
        .map(|name| described(root, name, &format!("sys/class/i2c-dev/{name}/name")))
        .collect();
    let found = if found.is_empty() { "no adapter".to_string() } else { found.join(", ") };
    if wanted.is_empty() {
        return vec![Finding::ok("i2c", found)];
    }
    let enable = "enable the bus (Pi: 'dtparam=i2c_arm=on' in config.txt; then load i2c-dev), or name the \
                  right adapter in the board file";
    let judge = |node: &&I2cNode| {
        let (name, wanted) = match node {
            I2cNode::Path(path) => {
                let name = path.trim_start_matches('/').to_string();
                (root.join(&name).exists().then_some(name), path.clone())
            }
            I2cNode::Adapter(device) => {
                let carries = |name: &&String| device_of(root, name).is_some_and(|of| of.contains(device));
                let name = adapters.iter().find(carries).map(|name| format!("dev/{name}"));
                (name, format!("adapter of {device}"))
            }
        };
        let Some(name) = name else {
            return Finding::refused("i2c", format!("no {wanted}; {found}"), enable).needed(true);
        };
        match writable(root, &name) {
            true => Finding::ok("i2c", found.clone()),
            false => Finding::refused("i2c", format!("this user may not open /{name}"), join_group("i2c")),
        }
        .needed(true)
    };
    let mut findings: Vec<Finding> = wanted.iter().map(judge).collect();
    findings.dedup(); // one line covers all buses that are present
    findings
}

/// The name of the adapter's parent device, such as `c250000.i2c`.
fn device_of(root: &Path, adapter: &str) -> Option<String> {
    let device = root.join(format!("sys/bus/i2c/devices/{adapter}")).canonicalize().ok()?;
    Some(device.parent()?.file_name()?.to_string_lossy().into_owned())
}

/// GPIO chips with their labels: a chip's number may change from boot to boot and from kernel to kernel.
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
    // The first label that matches wins, as when the runtime opens the bus.
    let chip = labels.iter().find_map(|wanted| chips.iter().find(|(label, _)| label == wanted));
    let Some((_, name)) = chip else {
        let found = format!("no chip labelled {}; {found}", labels.join(" or "));
        let fix = "name the label of this machine's chip in the board file (bus.gpio_labels)";
        return Finding::refused("gpio", found, fix).needed(true);
    };
    match writable(root, &format!("dev/{name}")) {
        true => Finding::ok("gpio", found),
        false => Finding::refused("gpio", format!("this user may not open /dev/{name}"), join_group("gpio")),
    }
    .needed(true)
}

/// The label from the chip's driver: in sysfs in the folder of the character device or, with older kernels,
/// in that of the class.
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

/// Which user runs this process: root may do everything; other users need the groups of the nodes.
fn groups(root: &Path) -> Finding {
    let user = rustix::process::geteuid().as_raw();
    if user == 0 {
        return Finding::warn(
            "user",
            "root: may do everything, which hides missing permissions of a service user",
            "run 'ganglion doctor' as the user that will run the robot",
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
    format!("add the user to the group '{group}': usermod -aG {group} USER, then log in again")
}
