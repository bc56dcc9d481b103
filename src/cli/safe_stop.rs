//! `safe-stop`: stills the motors of a board once, without a loop. What a service runs after the
//! main process has died, whatever it died of; and what a person runs who wants a robot to stand.
//!
//! At once, and none waits for another: the guard is asked to take its line back, a runtime that
//! still runs is disarmed, and stillness is written to every drive motor. Where that does not make
//! sure that they stand, the controller's reset line or the motors' enable line is pulled. What was
//! found is judged in `verdict`.

mod verdict;

use super::exit::Failure;
use super::interrupt::Interrupt;
use crate::access;
use crate::board::Loaded;
use crate::bus::{BusFault, Edge, Gpio, LineUse, OpenError, Usage, Wires};
use crate::control::{self, CONTROL_SOCKET};
use crate::device::Ports;
use crate::device::robot_hat::RESET_LOW;
use crate::guard::frame::Ask;
use crate::guard::socket::{GUARD_SOCKET, ask_once};
use crate::plan::{Board, BusPlan, GuardHold, Line};
use crate::robot::{actuators, motor_lines};
use crate::time::{Clock, MonotonicClock, Span};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use verdict::{Found, Pulled, Runtime};

/// Arguments of `safe-stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion safe-stop --board picarx-v4      no pulse on any drive motor, or an exit code
  ganglion safe-stop                        the same on the simulator

Asks the guard to take its line back, if one runs; disarms the runtime, if one runs; writes stillness to
every drive motor; where that is not enough, pulls the controller's reset line or the enable line. Takes
less than two seconds.

Exit 0: the guard's line is off; or stillness was written, and no process that was not disarmed has the
motors' wires; or a line was pulled that stays pulled. Otherwise 69, with what to do.

A guard remembers it: no runtime gets the line before it has disarmed, and then a person has to arm it.")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE", default_value = "sim")]
    board: PathBuf,
    /// Socket of the runtime
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    control: PathBuf,
    /// Socket of the guard
    #[arg(long, value_name = "PATH", default_value = GUARD_SOCKET)]
    guard: PathBuf,
    /// For a service manager, when the runtime has ended: the one that it starts next may arm by itself as its board
    /// says. A runtime that still runs is stopped as without this
    #[arg(long)]
    after_exit: bool,
}

/// Times that stillness is written before a line is pulled: a brush on the wire spoils one write,
/// hardly three.
const TRIES: usize = 3;
/// A runtime that is alive answers within two slots, or after half a second that its loop does not run.
const DISARM_PATIENCE: Duration = Duration::from_millis(700);
/// A guard that is alive answers within a millisecond.
const GUARD_PATIENCE: Span = Span::from_millis(150);
/// A bus that has not taken a few frames by now hangs: that is what the lines are for.
const BUS_PATIENCE: Duration = Duration::from_millis(300);
/// The lines are moved by a system call each.
const LINE_PATIENCE: Duration = Duration::from_millis(150);

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    // Once begun it is carried out, also where the session is lost meanwhile. Should that be refused, it is carried out too.
    let _watched = Interrupt::watch();
    let loaded = super::arguments::board(&args.board)?;
    if matches!(loaded.board.bus, BusPlan::Log) {
        say!("board '{}' has no motors on a bus: nothing to stop", loaded.board.name);
        return Ok(());
    }
    let found = stop(&args, &loaded);
    found.done().iter().for_each(|words| say!("{words}"));
    found.verdict()?;
    found.troubles().iter().for_each(|words| log::warn!("{words}"));
    Ok(())
}

/// Every step, and what it found.
fn stop(args: &Args, loaded: &Loaded) -> Found {
    let board = Arc::new(loaded.board.clone());
    let disarm = begin("the runtime", {
        let (socket, digest) = (args.control.clone(), loaded.digest.to_hex().to_string());
        move || Ok(disarm(&socket, &digest))
    });
    let still = begin("the bus", {
        let board = board.clone();
        move || still(&board, opened(&board)?.as_ref())
    });
    let guard = board.guard.map(|_| trip(&args.guard, !args.after_exit));
    let stilled = still.and_then(|still| still.wait(BUS_PATIENCE));
    let runtime = disarm.and_then(|disarm| disarm.wait(DISARM_PATIENCE)).unwrap_or_else(Runtime::Silent);
    let holder = access::claimed_by(&board);
    let mut found = Found { board: board.name.clone(), guard, runtime, holder, stilled, pulled: None };
    if !found.is_still() {
        let pull = begin("a line", move || pull(&board, opened(&board)?.as_ref()));
        found.pulled = Some(pull.and_then(|pull| pull.wait(LINE_PATIENCE)));
    }
    found
}

fn opened(board: &Board) -> Result<Arc<dyn Wires>, String> {
    access::open(board).map_err(|error| Failure::from(error).to_string())
}

/// A runtime that runs would write its next command over our stillness.
fn disarm(socket: &Path, digest: &str) -> Runtime {
    match control::ask_whom(socket, control::Ask::Disarm) {
        Ok((reply, pid)) => Runtime::Answers {
            same_board: reply.account.board_digest == digest,
            board: reply.account.board,
            pid,
            // What has latched stands as well, until it is disarmed once more.
            disarmed: match reply.done || reply.account.latched.is_some() {
                true => Ok(()),
                false => Err(reply.why.join("; ")),
            },
        },
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Runtime::Absent,
            _ => Runtime::Silent(error.to_string()),
        },
    }
}

/// Asks the guard to take its line back.
fn trip(socket: &Path, lasting: bool) -> Result<(), String> {
    match ask_once(socket, Ask::Trip { lasting }, GUARD_PATIENCE) {
        Ok(answer) if !answer.standing.line_on && answer.standing.line_sound => Ok(()),
        Ok(_) => Err("the guard's line does not follow".into()),
        Err(error) => Err(format!("the guard at {}: {error}", socket.display())),
    }
}

/// Writes stillness to every drive motor. Not through the enable line: to write to motors behind it is to let current in
/// first.
fn still(board: &Board, wires: &dyn Wires) -> Result<(), String> {
    let bare = Board { enable: None, ..board.clone() };
    let mut actuators = actuators(&bare).map_err(|error| error.to_string())?;
    let mut i2c = wires.i2c(0).map_err(|error| error.to_string())?;
    // Not the lines that are pulled: to take one is to drive it. Those that a process holds are not needed to stop.
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
    outcome
}

fn is_pulled(board: &Board, line: Line) -> bool {
    let reset = board.mcu.as_ref().is_some_and(|mcu| mcu.reset == line);
    reset || board.enable.is_some_and(|enable| enable.line == line)
}

/// Pulls the enable line, the reset line, or both: what no other process holds.
fn pull(board: &Board, wires: &dyn Wires) -> Result<Vec<Pulled>, String> {
    let clock = MonotonicClock;
    let mut pulled = Vec::new();
    let mut troubles = Vec::new();
    if let Some(enable) = board.enable {
        match hold(wires, enable.line, !enable.on_high) {
            Ok(_) => pulled.push(Pulled::Enable),
            Err(words) => troubles.push(words),
        }
    }
    if let Some(mcu) = &board.mcu {
        match hold(wires, mcu.reset, false) {
            Ok(mut gpio) => {
                clock.sleep_until(clock.now() + RESET_LOW);
                let _ = gpio.set(mcu.reset, true); // its pull does it otherwise
                pulled.push(Pulled::Reset);
            }
            Err(words) => troubles.push(words),
        }
    }
    match (pulled.is_empty(), &board.guard) {
        (false, _) => Ok(pulled),
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

/// Work on a thread of its own.
struct Pending<T> {
    what: &'static str,
    begun: Instant,
    heard: crossbeam_channel::Receiver<Result<T, String>>,
}

/// Begins `work`: a transfer that hangs cannot be broken off, only left behind.
fn begin<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<Pending<T>, String> {
    let (say, heard) = crossbeam_channel::bounded(1);
    let started = thread::Builder::new().name("safe-stop".into()).spawn(move || say.send(work()));
    started.map_err(|error| format!("a thread cannot be started: {error}"))?;
    Ok(Pending { what, begun: Instant::now(), heard })
}

impl<T> Pending<T> {
    /// Its outcome, if it comes within `patience` of its begin.
    fn wait(self, patience: Duration) -> Result<T, String> {
        self.heard.recv_deadline(self.begun + patience).unwrap_or_else(|_| {
            Err(format!("{} did not answer within {} ms", self.what, patience.as_millis()))
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::EnablePlan;
    use crate::sim::Plant;
    use crate::time::SimClock;
    use std::sync::Mutex;

    const ENABLE: Line = Line(6);

    /// A simulated robot's wires, and every level that a line was asked for or driven to.
    struct Heard {
        plant: Plant,
        driven: Arc<Mutex<Vec<(Line, bool)>>>,
    }

    struct HeardLines {
        inner: Box<dyn Gpio>,
        driven: Arc<Mutex<Vec<(Line, bool)>>>,
    }

    impl Wires for Heard {
        fn i2c(&self, bus: usize) -> Result<Box<dyn crate::bus::I2c>, OpenError> {
            Wires::i2c(&self.plant, bus)
        }
        fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
            for used in lines {
                if let Usage::Output { high } = used.usage {
                    self.driven.lock().unwrap().push((used.line, high));
                }
            }
            // The simulated robot has no such line.
            let rest: Vec<LineUse> = lines.iter().copied().filter(|used| used.line != ENABLE).collect();
            let inner = Wires::gpio(&self.plant, owner, &rest)?;
            Ok(Box::new(HeardLines { inner, driven: self.driven.clone() }))
        }
    }

    impl Gpio for HeardLines {
        fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
            self.driven.lock().unwrap().push((line, high));
            if line == ENABLE { Ok(()) } else { self.inner.set(line, high) }
        }
        fn get(&mut self, line: Line) -> Result<bool, BusFault> {
            self.inner.get(line)
        }
        fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault> {
            self.inner.next_edge(wait)
        }
    }

    #[test]
    fn motors_behind_an_enable_line_are_stilled_without_letting_current_in() {
        let mut board = crate::board::built_in("sim").unwrap().unwrap().board;
        let line = ENABLE;
        for on_high in [true, false] {
            board.enable = Some(EnablePlan { line, on_high });
            let plant = Plant::new(&board, 1, &[], Arc::new(SimClock::new()));
            let wires = Heard { plant, driven: Arc::default() };
            assert_eq!(still(&board, &wires), Ok(()), "the bus answers");
            let driven = wires.driven.lock().unwrap().clone();
            assert!(!driven.iter().any(|(driven, _)| *driven == line), "{driven:?}");
            // And where it has to be pulled, it is driven off and nothing else.
            assert!(pull(&board, &wires).unwrap().contains(&Pulled::Enable));
            let driven = wires.driven.lock().unwrap().clone();
            let levels: Vec<bool> =
                driven.iter().filter(|(at, _)| *at == line).map(|(_, high)| *high).collect();
            assert!(!levels.is_empty() && levels.iter().all(|high| *high != on_high), "{levels:?}");
        }
    }
}
