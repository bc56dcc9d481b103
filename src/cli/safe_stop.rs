//! `safe-stop`: reports what the steps in `runtime::safe_stop` found and did, as text and as an exit code.

use super::exit::Failure;
use super::hidden::BOARD as INSTALLED;
use super::interrupt::Interrupt;
use crate::base::plan::{BusPlan, GuardHold};
use crate::runtime::control::CONTROL_SOCKET;
use crate::runtime::guard::socket::GUARD_SOCKET;
use crate::runtime::safe_stop::{Pulled, Runtime, StepError, StopFindings, Threat, stop};
use std::path::{Path, PathBuf};

/// Arguments of `safe-stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion safe-stop                        this robot: the board in /etc/ganglion/board.toml
  ganglion safe-stop --board picarx-v4      stops every drive motor, or fails with an exit code

At the same time: asks the board's guard, if it has one, to switch its line off; disarms a running
runtime; and writes the stop command to every drive motor. If that is not enough, pulls the enable
line and the controller's reset line, if the board has them. Takes less than two seconds.

Exit 0: the guard's line is off; or the stop command was written and every process that holds the
motors' wires was disarmed; or the enable line was pulled; or the reset line was, and no process can
drive the motors again. Otherwise 69, with what to do.

The guard remembers the stop: it switches its line on for a runtime only after that runtime has
disarmed, and then a person must arm the robot.")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board [default:
    /// /etc/ganglion/board.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    board: Option<PathBuf>,
    /// Control socket of the runtime
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    control: PathBuf,
    /// Socket of the guard
    #[arg(long, value_name = "PATH", default_value = GUARD_SOCKET)]
    guard: PathBuf,
    /// For a service manager, after the runtime has ended: the guard does not remember the stop, so the next
    /// runtime may arm by itself if its board allows it. A runtime that still runs is stopped as usual
    #[arg(long)]
    after_exit: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    // Once started, the command runs to its end, even if the session is lost; it also runs if the signals
    // cannot be caught.
    let _watched = Interrupt::watch();
    let loaded = super::arguments::board(&board_of(args.board, Path::new(INSTALLED))?)?;
    if matches!(loaded.board.bus, BusPlan::Log) {
        say!("board '{}' has no motors on a bus: nothing to stop", loaded.board.name);
        return Ok(());
    }
    let found = stop(&loaded.board, loaded.digest, args.control, &args.guard, !args.after_exit);
    let is_simulated = matches!(loaded.board.bus, BusPlan::Sim);
    done(&found, is_simulated).iter().for_each(|words| say!("{words}"));
    verdict(&found)?;
    troubles(&found).iter().for_each(|words| log::warn!("{words}"));
    Ok(())
}

/// The board to stop: the named one, or the installed one. No other board may stand in for it: stopping a
/// simulated robot would look like success while the real one drives on.
fn board_of(named: Option<PathBuf>, installed: &Path) -> Result<PathBuf, Failure> {
    match named {
        Some(named) => Ok(named),
        // If this cannot be checked, opening it reports why.
        None if installed.try_exists().unwrap_or(true) => Ok(installed.to_path_buf()),
        None => Err(Failure::usage(format!("which robot? there is no {}", installed.display())).fix(
            "name its board: 'ganglion safe-stop --board FILE'; to stop the motors now, cut their power",
        )),
    }
}

/// The steps that worked, one line each.
fn done(found: &StopFindings, is_simulated: bool) -> Vec<String> {
    let mut done = Vec::new();
    if found.guarded() {
        done.push("the guard keeps its line off until a runtime has disarmed".to_string());
    }
    if let Runtime::Answers { board, same_board, disarmed: Ok(()), .. } = &found.runtime {
        done.push(match same_board {
            true => "the running robot is disarmed".to_string(),
            false => {
                format!("a runtime of another board ('{board}') is disarmed; that does not stop this board")
            }
        });
    }
    if found.stopped.is_ok() {
        done.push(match is_simulated {
            false => format!("the stop command was written to the drive motors of board '{}'", found.board),
            true => format!("board '{}' has simulated motors: no real motor was stopped", found.board),
        });
    }
    for (line, words) in [
        (Pulled::Enable, "the enable line is off: the motors have no current"),
        (Pulled::Reset, "the reset line was pulled: the controller has restarted and sends no pulses"),
    ] {
        if found.pulled(line) {
            done.push(words.to_string());
        }
    }
    done
}

/// What did not work, one line each.
fn troubles(found: &StopFindings) -> Vec<String> {
    let mut troubles = Vec::new();
    if let Some(Err(error)) = &found.guard {
        troubles.push(why(error));
    }
    if let Runtime::Answers { disarmed: Err(reasons), .. } = &found.runtime {
        troubles.push(format!("the running robot: {}", reasons.join("; ")));
    }
    troubles.extend(found.stopped.as_ref().err().map(why));
    if let Some(Err(error)) = &found.pulled {
        troubles.push(why(error));
    }
    troubles.extend(found.threat().map(|threat| match threat {
        Threat::Silent(error) => format!("a runtime listens but does not answer ({})", why(error)),
        Threat::Driving(holder) => format!("{holder} holds the motors' wires and was not disarmed"),
        Threat::Armed(reasons) => {
            format!("the runtime of this board was not disarmed ({})", reasons.join("; "))
        }
    }));
    troubles
}

fn why(error: &StepError) -> String {
    match error {
        StepError::Thread(error) => format!("cannot start a thread: {error}"),
        StepError::Late(what, timeout) => {
            format!("{what} did not answer within {} ms", timeout.as_millis())
        }
        StepError::Access(error) => Failure::from(error.clone()).to_string(),
        StepError::Open(error) => error.to_string(),
        StepError::Driver(error) => error.to_string(),
        StepError::Motors(fault) => fault.to_string(),
        StepError::Line(line, fault) => format!("line {}: {fault:?}", line.0),
        StepError::Runtime(error) => error.to_string(),
        StepError::Guard(socket, error) => format!("the guard at {}: {error}", socket.display()),
        StepError::GuardLine => "the guard could not switch its line off".to_string(),
        StepError::NoLine => "the board names no reset or enable line".to_string(),
        StepError::NotPulled(errors, held) => {
            let held = match held {
                Some(GuardHold::Reset) => "; a guard holds the reset line",
                Some(GuardHold::Enable) => "; a guard holds the enable line",
                None => "",
            };
            format!("{}{held}", errors.iter().map(why).collect::<Vec<_>>().join("; "))
        }
    }
}

/// Success, or a failure with what to do.
fn verdict(found: &StopFindings) -> Result<(), Failure> {
    if found.is_stopped() {
        return Ok(());
    }
    let done = if found.stopped.is_ok() { "may move again" } else { "could not be stopped" };
    let what = format!("the motors of board '{}' {done}: {}", found.board, troubles(found).join("; "));
    let fix = match (found.threat(), found.holder.and_then(|holder| holder.pid)) {
        (Some(_), Some(pid)) => {
            format!("end that process (kill {pid}) and run safe-stop again, or cut the motors' power")
        }
        (Some(_), None) => "end that process and run safe-stop again, or cut the motors' power".to_string(),
        (None, _) => "cut their power".to_string(),
    };
    Err(Failure::unavailable(what).fix(fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;
    use crate::system::rt::flock::Holder;

    #[test]
    fn a_process_that_may_move_the_motors_is_named() {
        let (holder, runtime) = (Some(Holder { pid: Some(4711) }), Runtime::Absent);
        let found =
            StopFindings { board: "car".into(), guard: None, runtime, holder, stopped: Ok(()), pulled: None };
        let failure = verdict(&found).unwrap_err();
        let words = failure.to_string();
        assert!(
            words.contains("may move again") && words.contains("4711") && words.contains("kill 4711"),
            "{words}"
        );
        assert_eq!(failure.exit(), Exit::Unavailable);
        assert_eq!(verdict(&StopFindings { holder: None, ..found }), Ok(()));
    }

    #[test]
    fn without_a_board_the_installed_one_is_stopped_or_none() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"); // any file that exists
        assert_eq!(board_of(None, &here), Ok(here.clone()));
        assert_eq!(board_of(Some("car.toml".into()), &here), Ok("car.toml".into()));
        let refused = board_of(None, Path::new("/nowhere/board.toml")).unwrap_err();
        assert_eq!(refused.exit(), Exit::Usage);
        let words = refused.to_string();
        assert!(words.contains("/nowhere/board.toml") && words.contains("--board FILE"), "{words}");
    }
}
