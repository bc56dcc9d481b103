//! A board's wires: is this the machine, open them, try them. What was found becomes words and exit codes here.

use super::exit::Failure;
use crate::board::machine;
use crate::board::plan::{Board, BusPlan, I2cNode};
use crate::bus::linux::LinuxWires;
use crate::bus::{OpenError, Wires};
use crate::selftest::{self, Verdict};
use crate::sim::Plant;
use crate::time::{Clock, MonotonicClock};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Refuses a board file that is of another machine than this.
pub fn is_this_machine(board: &Board) -> Result<(), Failure> {
    let found = machine::matches(board, Path::new("/"));
    found.map(drop).map_err(|mismatch| {
        Failure::config(mismatch)
            .at(format!("board '{}'", board.name))
            .fix("name the board file of this machine, or put a part of its name into 'compatible'")
    })
}

/// Opens the wires of a board on Linux.
pub fn open_wires(board: &Board) -> Result<Arc<dyn Wires>, Failure> {
    Ok(Arc::new(LinuxWires::open(board).map_err(|error| closed(&error))?))
}

/// The wires of `board` for verbs that look at hardware without running the robot: a fresh simulated robot's, or this
/// machine's.
pub fn open(board: &Board, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Wires>, Failure> {
    match board.bus {
        BusPlan::Sim => Ok(Arc::new(Plant::new(board, 1, &[], clock.clone()))),
        BusPlan::Linux { .. } => open_wires(board),
        BusPlan::Log => {
            Err(Failure::config(format!("board '{}' has no wires: its bus is a log", board.name)))
        }
    }
}

/// The time that passes.
pub fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}

/// How a verb ends that cannot have a wire.
pub fn closed(error: &OpenError) -> Failure {
    Failure::unavailable(&error.why).at(&error.what).fix(&error.fix)
}

/// A process that has I2C bus `bus` of `board` open, as `ganglion (4711)`: whoever runs the robot. Processes of other
/// users are seen only by root.
pub fn holder(board: &Board, bus: usize) -> Option<String> {
    let node = match (&board.bus, board.i2c.get(bus).map(|plan| &plan.node)) {
        (BusPlan::Linux { .. }, Some(I2cNode::Path(path))) => PathBuf::from(path),
        (BusPlan::Linux { .. }, Some(I2cNode::Adapter(device))) => {
            let adapters = LinuxWires::open(board).ok()?.survey(&[]).adapters;
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

/// The self-test: whatever is required has to pass; what could be better is logged. `any_machine`: the machine need not
/// be the board's.
pub fn self_test(
    board: &Board,
    any_machine: bool,
    wires: &dyn Wires,
    clock: &dyn Clock,
) -> Result<(), Failure> {
    let board = match any_machine {
        true => &Board { compatible: Vec::new(), ..board.clone() },
        false => board,
    };
    let mut failed = Vec::new();
    for check in selftest::self_test(board, wires, Path::new("/"), clock) {
        match check.verdict {
            Verdict::Failed => failed.push(check),
            Verdict::Warned => log::warn!("self-test: {check}; {}", check.fix.as_deref().unwrap_or("")),
            Verdict::Passed | Verdict::Skipped => log::info!("self-test: {check}"),
        }
    }
    let Some(worst) = failed.first() else { return Ok(()) };
    let all: Vec<String> = failed.iter().map(ToString::to_string).collect();
    let failure = Failure::unavailable(format!("the self-test failed: {}", all.join("; ")));
    Err(match &worst.fix {
        Some(fix) => failure.fix(fix),
        None => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_node_open_is_found_by_name() {
        let node = std::env::temp_dir().join(format!("ganglion-held-{}", std::process::id()));
        std::fs::write(&node, "").unwrap();
        assert_eq!(holder_of(&node), None, "closed again");
        let file = std::fs::File::open(&node).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let found = holder_of(&node);
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(&node).unwrap();
        // Between fork and exec the child still has our name.
        assert!(found.is_some_and(|found| found.ends_with(&format!("({})", child.id()))));
    }
}
