//! Turns library errors into failures of a verb: an exit code, a message, a place, and what to do.

use super::arguments;
use super::exit::Failure;
use crate::deploy::setup::action::SetupActionError;
use crate::field::brain::BrainError;
use crate::hardware::bus::OpenError;
use crate::runtime::access::AccessError;
use crate::runtime::robot::BuildError;
use crate::runtime::runner::RunnerError;
use crate::runtime::selftest::Check;
use crate::runtime::session::{START_GUARD, SessionError, why_untrusted};
use crate::system::codec::FileError;
use crate::system::rt::Refusal;
use std::fmt::Display;
use std::path::Path;

/// The system refused a request of a strict board (77).
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::permission(refusal).fix(refusal.fix())
    }
}

/// A bus or line could not be opened. If a permission is missing (77), a restart does not help.
impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        let failure = match error.denied {
            true => Failure::permission(&error.why),
            false => Failure::unavailable(&error.why),
        };
        failure.at(&error.what).fix(&error.fix)
    }
}

/// A change of the machine's files failed.
impl From<SetupActionError> for Failure {
    fn from(error: SetupActionError) -> Failure {
        match error {
            SetupActionError::File(path, error) => {
                let failure = Failure::file(&path, &error);
                match error.kind() {
                    std::io::ErrorKind::PermissionDenied => failure.fix("run it as root: with sudo"),
                    _ => failure,
                }
            }
            SetupActionError::Program(error) => Failure::unavailable(error.why).at(error.command),
        }
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Failure {
        match error {
            AccessError::NoWires(board) => {
                Failure::config(format!("board '{board}' has no wires: its bus is a log"))
            }
            AccessError::Closed(error) => error.into(),
            AccessError::WrongHat(wrong) => Failure::config(&wrong).fix(wrong.fix()),
            AccessError::Held { board, place, holder } => {
                Failure::unavailable(format!("{holder} already drives the motors of board '{board}'"))
                    .at(place.display())
                    .fix("stop it first: 'ganglion stop', or 'systemctl stop ganglion'")
            }
        }
    }
}

/// Why a file of this program could not be read or written.
pub(super) fn of_file(error: FileError) -> Failure {
    match error {
        FileError::Io { path, error } => Failure::file(&path, &error),
        FileError::Codec { path, error } => Failure::data(error).at(path.display()),
    }
}

/// Why a run could not begin. `snapshot` is the file to resume from.
pub(super) fn of_session(error: SessionError, snapshot: Option<&Path>) -> Failure {
    match error {
        SessionError::Machine(board, mismatch) => Failure::config(mismatch)
            .at(format!("board '{board}'"))
            .fix("use a board file for this machine, or put part of the machine's name into 'compatible'"),
        SessionError::Access(error) => error.into(),
        SessionError::Heartbeat(error) => Failure::unavailable(format!("the guard's heartbeat: {error}")),
        SessionError::Refused(refusal) => refusal.into(),
        SessionError::NoGuard(socket, refused) => {
            let why = why_untrusted(refused);
            Failure::unavailable(format!("no guard: {why}")).at(socket.display()).fix(START_GUARD)
        }
        SessionError::Unfit(failed) => unfit(&failed),
        SessionError::NotReady(within, reasons) => {
            let reasons = if reasons.is_empty() { "no known reason".to_string() } else { reasons.join("; ") };
            Failure::unavailable(format!("not ready within {:.0} s: {reasons}", within.as_secs_f64())).fix(
                "'ganglion doctor --board BOARD --test' shows the cause; --ready-within waits for longer",
            )
        }
        SessionError::Build(error) => of_build(error, snapshot.unwrap_or(Path::new(""))),
        SessionError::Control(path, error) => Failure::file(&path, &error),
        SessionError::Occupied(path, error) => {
            Failure::file(&path, &error).fix("stop that runtime first, or name another socket with --control")
        }
        SessionError::Server(error) => Failure::unavailable(format!("cannot start a thread: {error}")),
        SessionError::Drive(error) => match error {
            RunnerError::Thread(_) => Failure::unavailable(error),
            RunnerError::Refused { refusal, .. } => Failure::permission(error).fix(refusal.fix()),
        },
    }
}

/// Why a robot could not be built.
fn of_build(error: BuildError, snapshot: &Path) -> Failure {
    match error {
        BuildError::NoBus { .. } | BuildError::NoLog | BuildError::Thread(_) => Failure::unavailable(error),
        BuildError::Wires(wire) => wire.into(),
        BuildError::Brain(BrainError::Thread(_)) => Failure::unavailable(error),
        BuildError::Room(_) => Failure::unavailable(error).fix(arguments::SMALLER),
        BuildError::Snapshot(_) | BuildError::Brain(BrainError::State(_)) => misfit(error, snapshot),
        BuildError::Misfit { .. } => Failure::config(error),
        BuildError::Readout(_) => Failure::data(error),
    }
}

/// The file at `path` contains another robot's brain.
pub(super) fn misfit(error: impl Display, path: &Path) -> Failure {
    Failure::config(error)
        .at(path.display())
        .fix("use the snapshot with the board it was made for, or name another file to start from rest")
}

/// The checks that a robot failed. If this user may not open a bus or line, that check decides the exit code
/// and the fix, because it may be the cause of the others.
fn unfit(failed: &[Check]) -> Failure {
    let all: Vec<String> = failed.iter().map(ToString::to_string).collect();
    let what = format!("the self-test failed: {}", all.join("; "));
    let denied = failed.iter().find(|check| check.denied);
    let failure = if denied.is_some() { Failure::permission(what) } else { Failure::unavailable(what) };
    match denied.or(failed.first()).and_then(|worst| worst.fix.as_ref()) {
        Some(fix) => failure.fix(fix),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::super::exit::Exit;
    use super::*;
    use crate::base::time::Span;
    use crate::runtime::selftest::Verdict;
    use crate::runtime::selftest::machine::Mismatch;
    use crate::system::rt::grant::Request;
    use crate::system::rt::room::NoRoom;
    use std::io::{Error, ErrorKind};

    fn wire(denied: bool) -> OpenError {
        OpenError {
            what: "/dev/i2c-1".into(),
            why: "this user may not open it".into(),
            fix: "add the user to group 'i2c'".into(),
            denied,
        }
    }

    fn check(what: &str, denied: bool, fix: &str) -> Check {
        Check {
            what: what.into(),
            verdict: Verdict::Failed,
            found: "closed".into(),
            fix: Some(fix.into()),
            denied,
        }
    }

    #[test]
    fn an_inaccessible_bus_is_the_first_failed_check() {
        assert_eq!(
            [true, false].map(|denied| Failure::from(wire(denied)).exit()),
            [Exit::Permission, Exit::Unavailable]
        );
        let mut failed = vec![check("range", false, "look at its wires")];
        assert_eq!(unfit(&failed).exit(), Exit::Unavailable);
        failed.push(check("bus motors", true, "add the user to group 'i2c'"));
        let failure = unfit(&failed);
        assert_eq!(failure.exit(), Exit::Permission);
        let words = failure.to_string();
        assert!(
            words.contains("range: closed; bus motors: closed") && words.contains("group 'i2c'"),
            "{words}"
        );
    }

    /// Which variant an error is, and how it ends the program. There is no `_` arm, so that a new variant
    /// must be added here.
    fn nth(error: &SessionError) -> (usize, Exit) {
        match error {
            SessionError::Machine(..) => (0, Exit::Config),
            SessionError::Access(_) => (1, Exit::Unavailable),
            SessionError::Heartbeat(_) => (2, Exit::Unavailable),
            SessionError::Refused(_) => (3, Exit::Permission),
            SessionError::NoGuard(..) => (4, Exit::Unavailable),
            SessionError::Unfit(_) => (5, Exit::Unavailable),
            SessionError::NotReady(..) => (6, Exit::Unavailable),
            SessionError::Build(_) => (7, Exit::Unavailable),
            SessionError::Control(..) => (8, Exit::Permission),
            SessionError::Occupied(..) => (9, Exit::Unavailable),
            SessionError::Server(_) => (10, Exit::Unavailable),
            SessionError::Drive(_) => (11, Exit::Permission),
        }
    }

    #[test]
    fn each_error_before_a_run_has_an_exit_code_and_a_fix() {
        let failed = || Error::from(ErrorKind::OutOfMemory);
        let refusal = Refusal { what: Request::Priority(80), errno: libc::EPERM };
        let mismatch = Mismatch { machine: Default::default(), wanted: vec!["brcm,bcm2712".into()] };
        let errors = [
            (SessionError::Machine("car".into(), mismatch), "part of the machine's name into 'compatible'"),
            (SessionError::Access(AccessError::Closed(wire(false))), "add the user to group"),
            (SessionError::Heartbeat(failed()), "the guard's heartbeat: "),
            (SessionError::Refused(refusal), refusal.fix()),
            (
                SessionError::NoGuard("/run/guard.sock".into(), None),
                "/run/guard.sock: no guard: it does not answer",
            ),
            (SessionError::Unfit(vec![check("range", false, "look at its wires")]), "look at its wires"),
            (
                SessionError::NotReady(Span::from_millis(30_000), vec!["a sensor is lost", "no field"]),
                "not ready within 30 s: a sensor is lost; no field",
            ),
            (SessionError::Build(BuildError::Room(NoRoom { wanted: 2, left: 1 })), arguments::SMALLER),
            (SessionError::Control("/a".into(), ErrorKind::PermissionDenied.into()), "/a: "),
            (SessionError::Occupied("/a".into(), ErrorKind::AddrInUse.into()), "stop that runtime first"),
            (SessionError::Server(failed()), "cannot start a thread"),
            (SessionError::Drive(RunnerError::Refused { thread: "tick", refusal }), "the board is strict"),
        ];
        for (place, (error, part)) in errors.into_iter().enumerate() {
            let (nth, exit) = nth(&error);
            let failure = of_session(error, None);
            assert_eq!((nth, failure.exit()), (place, exit), "{failure}");
            assert!(failure.to_string().contains(part), "{failure}: no '{part}'");
        }
    }
}
