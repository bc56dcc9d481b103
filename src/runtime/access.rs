//! Access to a board's buses and lines: opens them, claims the motors for this process, and finds the process
//! that holds them.

use crate::base::plan::{Board, BusPlan, I2cNode, PwmPlan};
use crate::base::time::MonotonicClock;
use crate::hardware::bus::linux::{self, Claim, ClaimError, LinuxHardware};
use crate::hardware::bus::{Hardware, OpenError};
use crate::runtime::selftest::hat::{self, WrongHat};
use crate::sim::Plant;
use crate::system::rt::flock::Holder;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the buses and lines of a board are not available.
#[derive(Clone, Debug)]
pub enum AccessError {
    /// The board with this name has no hardware: its bus is a log.
    NoWires(String),
    /// A bus or a line does not exist, or cannot be opened.
    Closed(OpenError),
    /// The board file is for a different HAT than the one on this computer.
    WrongHat(WrongHat),
    /// Another process drives the motors.
    Held {
        /// Name of the board.
        board: String,
        /// What is locked: a folder in /sys, or a device node.
        place: PathBuf,
        /// The process that holds it.
        holder: Holder,
    },
}

/// Opens the buses and lines of a board on Linux, to run the robot, through the interface that the board
/// requests.
pub fn open_wires(board: &Board) -> Result<Arc<dyn Hardware>, AccessError> {
    let hardware = LinuxHardware::as_requested(board, Path::new("/"));
    Ok(Arc::new(hardware.map_err(AccessError::Closed)?))
}

/// Refuses a board that requests an interface that this machine does not have. Opens nothing.
pub fn check(board: &Board) -> Result<(), AccessError> {
    linux::check_access(board, Path::new("/")).map_err(AccessError::Closed)
}

/// The buses and lines of `board`, for a program that examines hardware without running the robot: those of a
/// new simulated robot, or of this machine.
pub fn open(board: &Board) -> Result<Arc<dyn Hardware>, AccessError> {
    match board.bus {
        BusPlan::Sim => Ok(Arc::new(Plant::new(board, 1, &[], Arc::new(MonotonicClock)))),
        BusPlan::Linux { .. } => Ok(Arc::new(LinuxHardware::open(board).map_err(AccessError::Closed)?)),
        BusPlan::Log => Err(AccessError::NoWires(board.name.clone())),
    }
}

/// Claims the motors of `board` for this process alone, until the returned value is dropped; `None`: the
/// board's bus is simulated or a log, so there is nothing to claim. A program that drives the motors must
/// claim them before it opens a bus or a line. Refused if the HAT on this computer is not the board's.
pub fn claim(board: &Board) -> Result<Option<Claim>, AccessError> {
    if !matches!(board.bus, BusPlan::Linux { .. }) {
        return Ok(None);
    }
    hat::matches(board, Path::new("/")).map_err(AccessError::WrongHat)?;
    let hardware = LinuxHardware::open(board).map_err(AccessError::Closed)?;
    hardware.claim(pwm_chip(board)).map(Some).map_err(|error| match error {
        ClaimError::Open(error) => AccessError::Closed(error),
        ClaimError::Held { place, holder } => AccessError::Held { board: board.name.clone(), place, holder },
    })
}

/// The process that has claimed the motors of `board`; `None`: no such process was found. Claims nothing.
pub fn claimed_by(board: &Board) -> Option<Holder> {
    let BusPlan::Linux { .. } = board.bus else { return None };
    LinuxHardware::open(board).ok()?.claimed_by(pwm_chip(board)).ok()?
}

/// The device in /sys of the PWM chip that generates the motors' pulses; `None`: the board uses no such chip.
fn pwm_chip(board: &Board) -> Option<&str> {
    match &board.pwm {
        Some(PwmPlan::Sysfs { device, .. }) => Some(device),
        Some(PwmPlan::Pca9685 { .. }) | None => None,
    }
}

/// The process that has I2C bus `bus` of `board` open, e.g. `ganglion (4711)`. Only root can see which files
/// the processes of other users have open.
pub fn holder(board: &Board, bus: usize) -> Option<String> {
    let node = match (&board.bus, board.i2c.get(bus).map(|plan| &plan.node)) {
        (BusPlan::Linux { .. }, Some(I2cNode::Path(path))) => PathBuf::from(path),
        (BusPlan::Linux { .. }, Some(I2cNode::Adapter(device))) => {
            let adapters = LinuxHardware::open(board).ok()?.survey(&[]).adapters;
            adapters.into_iter().find(|seen| seen.device.as_ref().is_some_and(|d| d.contains(device)))?.node
        }
        _ => return None,
    };
    holder_of(&node)
}

fn holder_of(node: &Path) -> Option<String> {
    let me = std::process::id().to_string();
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let pid = process.file_name().to_string_lossy().into_owned();
        if pid == me || !pid.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let Ok(open) = std::fs::read_dir(process.path().join("fd")) else { continue };
        if open.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to == node)) {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("{} ({pid})", name.trim()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_holding_a_device_node_is_named() {
        let node = std::env::temp_dir().join(format!("ganglion-held-{}", std::process::id()));
        std::fs::write(&node, "").unwrap();
        assert_eq!(holder_of(&node), None, "closed again");
        let file = std::fs::File::open(&node).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let found = holder_of(&node);
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(&node).unwrap();
        // Between fork and exec the child still has our process name.
        assert!(found.is_some_and(|found| found.ends_with(&format!("({})", child.id()))));
    }
}
