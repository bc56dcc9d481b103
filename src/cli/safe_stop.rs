//! `safe-stop`: stills the motors of a board once, without a loop. What a service runs after the
//! main process has died, whatever it died of; and what a person runs who wants a robot to stand.
//!
//! In turn, and none waits for another for long: a runtime that still runs is disarmed, the guard is
//! asked to take its line back, stillness is written to every drive motor, and where neither of the
//! last two has worked, the controller's reset line or the motors' enable line is pulled. One success
//! is enough.

use super::exit::Failure;
use super::wires;
use crate::board::plan::{Board, BusPlan, GuardHold};
use crate::bus::{BusFault, Edge, Gpio, Line, LineUse, OpenError, Usage, Wires};
use crate::control::{self, CONTROL_SOCKET};
use crate::device::Ports;
use crate::guard::frame::Ask;
use crate::guard::socket::{GUARD_SOCKET, ask_once};
use crate::robot::{actuators, motor_lines};
use crate::time::{Clock, MonotonicClock, Span};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Arguments of `safe-stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion safe-stop --board picarx-v4      no pulse on any drive motor, or an exit code
  ganglion safe-stop                        the same on the simulator

Disarms the runtime, if one runs; asks the guard to take its line back, if one runs; writes stillness
to every drive motor; where that fails, pulls the controller's reset line or the enable line. Takes
less than a second. Exit 0 only when one of them has worked.")]
pub struct Args {
    /// Board file, or the name of a built-in board
    #[arg(long, value_name = "FILE", default_value = "sim")]
    board: PathBuf,
    /// Socket of the runtime
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    control: PathBuf,
    /// Socket of the guard
    #[arg(long, value_name = "PATH", default_value = GUARD_SOCKET)]
    guard: PathBuf,
}

/// Times that stillness is written before a line is pulled: a brush on the wire spoils one write,
/// hardly three.
const TRIES: usize = 3;
/// A runtime that is alive answers within two slots.
const DISARM_PATIENCE: Duration = Duration::from_millis(200);
/// A guard that is alive answers within a millisecond.
const GUARD_PATIENCE: Span = Span::from_millis(150);
/// A bus that has not taken a few frames by now hangs: that is what the lines are for.
const BUS_PATIENCE: Duration = Duration::from_millis(300);
/// The lines are moved by a system call each.
const LINE_PATIENCE: Duration = Duration::from_millis(150);
/// How long the reset line has to be low (as `device::robot_hat` has it).
const RESET_LOW: Span = Span::from_millis(10);

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let loaded = super::arguments::board(&args.board)?;
    let board = Arc::new(loaded.board);
    if matches!(board.bus, BusPlan::Log) {
        say!("board '{}' has no motors on a bus: nothing to stop", board.name);
        return Ok(());
    }
    let mut troubles = Vec::new();
    let mut note = |step: Result<String, String>| match step {
        Ok(words) => {
            say!("{words}");
            true
        }
        Err(words) => {
            troubles.push(words);
            false
        }
    };
    let disarmed = disarm(&args.control).is_some_and(&mut note);
    let guarded = board.guard.is_some() && note(trip(&args.guard));
    let opened = wires::open(&board, &wires::clock()).map_err(|failure| failure.to_string());
    let stilled = note(within(BUS_PATIENCE, "the bus", {
        let (board, wires) = (board.clone(), opened.clone());
        move || still(&board, wires?.as_ref())
    }));
    let pulled = !guarded
        && !stilled
        && note(within(LINE_PATIENCE, "a line", {
            let board = board.clone();
            move || pull(&board, opened?.as_ref())
        }));
    if disarmed || guarded || stilled || pulled {
        troubles.iter().for_each(|words| log::warn!("{words}"));
        return Ok(());
    }
    Err(Failure::unavailable(format!("the motors could not be stilled: {}", troubles.join("; ")))
        .fix("cut their power"))
}

/// A runtime that runs would write its next command over our stillness. `None`: there is none.
fn disarm(socket: &Path) -> Option<Result<String, String>> {
    let socket = socket.to_path_buf();
    let asked =
        within(DISARM_PATIENCE, "the runtime", move || match control::ask(&socket, control::Ask::Disarm) {
            Ok(reply) if reply.done => Ok(Some("the running robot is disarmed".into())),
            Ok(reply) => Err(format!("the running robot: {}", reply.why.join("; "))),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                Err(format!("the runtime: {error}"))
            }
            Err(_) => Ok(None),
        });
    asked.transpose()
}

/// Asks the guard to take its line back.
fn trip(socket: &Path) -> Result<String, String> {
    match ask_once(socket, Ask::Trip, GUARD_PATIENCE) {
        Ok(answer) if !answer.standing.line_on && answer.standing.line_sound => {
            Ok("the guard holds its line off".into())
        }
        Ok(_) => Err("the guard's line does not follow".into()),
        Err(error) => Err(format!("the guard at {}: {error}", socket.display())),
    }
}

/// Writes stillness to every drive motor.
fn still(board: &Board, wires: &dyn Wires) -> Result<String, String> {
    let mut actuators = actuators(board).map_err(|error| error.to_string())?;
    let mut i2c = wires.i2c(0).map_err(|error| error.to_string())?;
    // Not the lines that are pulled: to take one is to drive it. Those that somebody holds are not needed to stop.
    let lines: Vec<LineUse> =
        motor_lines(board).into_iter().filter(|used| !is_pulled(board, used.line)).collect();
    let mut gpio = wires.gpio("safe-stop", &lines).unwrap_or(Box::new(NoLines));
    let clock = MonotonicClock;
    let mut outcome = Err("nothing was written".to_string());
    for _ in 0..TRIES {
        let mut ports = Ports { i2c: i2c.as_mut(), gpio: gpio.as_mut(), clock: &clock };
        outcome = actuators.stop(&mut ports).map_err(|fault| fault.to_string());
        if outcome.is_ok() {
            break;
        }
    }
    outcome.map(|()| format!("drive motors of board '{}' are still", board.name))
}

fn is_pulled(board: &Board, line: Line) -> bool {
    let reset = board.mcu.as_ref().is_some_and(|mcu| mcu.reset == line);
    reset || board.enable.is_some_and(|enable| enable.line == line)
}

/// Pulls the enable line, the reset line, or both: what nobody else holds.
fn pull(board: &Board, wires: &dyn Wires) -> Result<String, String> {
    let clock = MonotonicClock;
    let mut pulled = Vec::new();
    let mut troubles = Vec::new();
    if let Some(enable) = board.enable {
        match hold(wires, enable.line, !enable.on_high) {
            Ok(_) => pulled.push("enable"),
            Err(words) => troubles.push(words),
        }
    }
    if let Some(mcu) = &board.mcu {
        match hold(wires, mcu.reset, false) {
            Ok(mut gpio) => {
                clock.sleep_until(clock.now() + RESET_LOW);
                let _ = gpio.set(mcu.reset, true); // its pull does it otherwise
                pulled.push("reset");
            }
            Err(words) => troubles.push(words),
        }
    }
    match (pulled.is_empty(), &board.guard) {
        (false, _) => Ok(format!(
            "the bus did not answer; pulled the {} line of board '{}'",
            pulled.join(" and "),
            board.name
        )),
        (true, None) if troubles.is_empty() => Err("the board names no reset or enable line".into()),
        (true, guard) => {
            let held = guard.map(|plan| match plan.holds {
                GuardHold::Reset => "; a guard holds the reset line",
                GuardHold::Enable => "; a guard holds the enable line",
            });
            Err(format!("{}{}", troubles.join("; "), held.unwrap_or_default()))
        }
    }
}

/// Takes a line at a level.
fn hold(wires: &dyn Wires, line: Line, high: bool) -> Result<Box<dyn Gpio>, String> {
    let taken: Result<_, OpenError> =
        wires.gpio("safe-stop", &[LineUse { line, usage: Usage::Output { high } }]);
    let mut gpio = taken.map_err(|error| error.to_string())?;
    gpio.set(line, high).map_err(|fault| format!("line {}: {fault:?}", line.0))?;
    Ok(gpio)
}

/// Does `work` on a thread of its own and waits for it no longer than `patience`: a transfer that
/// hangs cannot be broken off, only left behind.
fn within<T: Send + 'static>(
    patience: Duration,
    what: &str,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (say, heard) = crossbeam_channel::bounded(1);
    let started = thread::Builder::new().name("safe-stop".into()).spawn(move || say.send(work()));
    started.map_err(|error| format!("a thread cannot be started: {error}"))?;
    match heard.recv_deadline(Instant::now() + patience) {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("{what} did not answer within {} ms", patience.as_millis())),
    }
}

/// No line at all.
struct NoLines;

impl Gpio for NoLines {
    fn set(&mut self, _line: Line, _high: bool) -> Result<(), BusFault> {
        Err(BusFault::Absent)
    }
    fn get(&mut self, _line: Line) -> Result<bool, BusFault> {
        Err(BusFault::Absent)
    }
    fn next_edge(&mut self, _wait: Span) -> Result<Option<Edge>, BusFault> {
        Ok(None)
    }
}
