//! The last resort: stops the motors of a board once, without a loop. A service runs this after the main
//! process has died for any reason; a person runs it to stop a robot.
//!
//! In parallel, it asks the guard to switch its line off, disarms a running runtime, and writes a stop to
//! every drive motor. If the motors are not known to have stopped after that, it pulls the controller's reset
//! line or the motors' enable line. `verdict` judges the findings.

mod verdict;

use crate::base::fault::BusFault;
use crate::base::plan::{Board, GuardHold, Line, PwmPlan};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::hardware::bus::{Edge, Gpio, Hardware, LineUse, OpenError, Usage};
use crate::hardware::device::robot_hat::RESET_LOW;
use crate::hardware::device::{DeviceFault, Ports};
use crate::runtime::access::{self, AccessError};
use crate::runtime::control;
use crate::runtime::guard::frame::Ask;
use crate::runtime::guard::socket::ask_once;
use crate::runtime::robot::{BuildError, actuators, motor_lines};
use crate::runtime::selftest::hat;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
pub use verdict::{Pulled, Runtime, StopFindings, Threat};

/// Maximum number of attempts to write the stop before a line is pulled: brush noise can spoil one write, but
/// is unlikely to spoil three.
const TRIES: usize = 3;
/// A live runtime answers within two slots, or reports after half a second that its loop is not running.
const DISARM_TIMEOUT: Duration = Duration::from_millis(700);
/// A live guard answers within a millisecond.
const GUARD_TIMEOUT: Span = Span::from_millis(150);
/// A bus that has not accepted a few frames within this time counts as hung; a line is then pulled.
const BUS_TIMEOUT: Duration = Duration::from_millis(300);
/// Setting a line takes one system call.
const LINE_TIMEOUT: Duration = Duration::from_millis(150);

/// Why a step failed.
#[derive(Debug)]
pub enum StepError {
    /// The thread of the step cannot be started.
    Thread(io::Error),
    /// The step did not finish within this time.
    Late(&'static str, Duration),
    /// The board's wires cannot be opened.
    Access(AccessError),
    /// One of the wires cannot be opened.
    Open(OpenError),
    /// The driver of the motors cannot be opened.
    Driver(BuildError),
    /// The motors did not accept the stop.
    Motors(DeviceFault),
    /// A line cannot be driven.
    Line(Line, BusFault),
    /// The runtime did not answer.
    Runtime(io::Error),
    /// The guard at this socket did not answer.
    Guard(PathBuf, io::Error),
    /// The guard could not switch its line off.
    GuardLine,
    /// The board names no line to pull.
    NoLine,
    /// Why each line could not be pulled, and which kind of line the board's guard holds.
    NotPulled(Vec<StepError>, Option<GuardHold>),
}

/// Runs every step and returns the findings. `digest`: BLAKE3 of the board's effective values; `control` and
/// `guard`: sockets of the runtime and of the guard; `lasting`: if no runtime is connected to the guard, the
/// stop applies to the next one.
pub fn stop(
    board: &Board,
    digest: blake3::Hash,
    control: PathBuf,
    guard: &Path,
    lasting: bool,
) -> StopFindings {
    let board = Arc::new(board.clone());
    let disarm = begin("the runtime", {
        let digest = digest.to_hex().to_string();
        move || Ok(disarm(&control, &digest))
    });
    let stop_motors = begin("the bus", {
        let board = board.clone();
        move || stop_motors(&board, opened(&board)?.as_ref())
    });
    let guard = board.guard.map(|_| trip(guard, lasting));
    let stopped = stop_motors.and_then(|stop_motors| stop_motors.wait(BUS_TIMEOUT));
    let runtime = disarm.and_then(|disarm| disarm.wait(DISARM_TIMEOUT)).unwrap_or_else(Runtime::Silent);
    let holder = access::claimed_by(&board);
    let mut found = StopFindings { board: board.name.clone(), guard, runtime, holder, stopped, pulled: None };
    if !found.needs_no_line() {
        let pull = begin("a line", move || pull(&board, opened(&board)?.as_ref()));
        found.pulled = Some(pull.and_then(|pull| pull.wait(LINE_TIMEOUT)));
    }
    found
}

fn opened(board: &Board) -> Result<Arc<dyn Hardware>, StepError> {
    access::open(board).map_err(StepError::Access)
}

/// Disarms a running runtime, which would otherwise overwrite our stop with its next command.
fn disarm(socket: &Path, digest: &str) -> Runtime {
    match control::ask_with_pid(socket, control::Ask::Disarm) {
        Ok((reply, pid)) => Runtime::Answers {
            same_board: reply.status.board_digest == digest,
            board: match reply.status.simulated {
                true => format!("{}, simulated", reply.status.board),
                false => reply.status.board,
            },
            pid,
            // A latched robot has also stopped, and cannot drive before it is disarmed again.
            disarmed: match reply.done || reply.status.latched.is_some() {
                true => Ok(()),
                false => Err(reply.why),
            },
        },
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Runtime::Absent,
            _ => Runtime::Silent(StepError::Runtime(error)),
        },
    }
}

/// Asks the guard to switch its line off.
fn trip(socket: &Path, lasting: bool) -> Result<(), StepError> {
    match ask_once(socket, Ask::Trip { lasting }, GUARD_TIMEOUT) {
        Ok(answer) if !answer.status.line_on && answer.status.line_sound => Ok(()),
        Ok(_) => Err(StepError::GuardLine),
        Err(error) => Err(StepError::Guard(socket.to_path_buf(), error)),
    }
}

/// Writes a stop to every drive motor. Leaves the enable line out, because the driver would first switch the
/// motors' current on.
fn stop_motors(board: &Board, hardware: &dyn Hardware) -> Result<(), StepError> {
    let board = &hat::with_found_address(board, hardware);
    let bare = Board { enable: None, ..board.clone() };
    let mut i2c = hardware.i2c(0).map_err(StepError::Open)?;
    // Leaves out the lines that may be pulled later, because opening a line drives it. The stop also works
    // without lines that another process holds.
    let lines: Vec<LineUse> =
        motor_lines(board).into_iter().filter(|used| !is_pulled(board, used.line)).collect();
    let (bare, mut gpio) = match hardware.gpio("safe-stop", &lines) {
        Ok(gpio) => (bare, gpio),
        Err(_) => (without_output_enable(bare), Box::new(NoLines) as Box<dyn Gpio>),
    };
    let mut actuators = actuators(&bare).map_err(StepError::Driver)?;
    let mut ports = Ports { i2c: i2c.as_mut(), gpio: gpio.as_mut(), clock: &MonotonicClock };
    let mut stopped = actuators.stop(&mut ports);
    for _ in 1..TRIES {
        stopped = stopped.or_else(|_| actuators.stop(&mut ports));
    }
    stopped.map_err(StepError::Motors)
}

/// The board without the output-enable line of its PWM chip. A driver that cannot switch that line reports a
/// fault, although the chip accepted the stop.
fn without_output_enable(mut board: Board) -> Board {
    if let Some(PwmPlan::Pca9685 { output_enable, .. }) = &mut board.pwm {
        *output_enable = None;
    }
    board
}

fn is_pulled(board: &Board, line: Line) -> bool {
    let reset = board.mcu.as_ref().is_some_and(|mcu| mcu.reset == line);
    reset || board.enable.is_some_and(|enable| enable.line == line)
}

/// Pulls the enable line and the reset line, where the board has them and no other process holds them.
fn pull(board: &Board, hardware: &dyn Hardware) -> Result<Vec<Pulled>, StepError> {
    let clock = MonotonicClock;
    let mut pulled = Vec::new();
    let mut errors = Vec::new();
    if let Some(enable) = board.enable {
        match hold(hardware, enable.line, !enable.on_high) {
            Ok(_) => pulled.push(Pulled::Enable),
            Err(error) => errors.push(error),
        }
    }
    if let Some(mcu) = &board.mcu {
        match hold(hardware, mcu.reset, false) {
            Ok(mut gpio) => {
                clock.sleep_until(clock.now() + RESET_LOW);
                let _ = gpio.set(mcu.reset, true); // if this fails, the pull-up releases the reset
                pulled.push(Pulled::Reset);
            }
            Err(error) => errors.push(error),
        }
    }
    match (pulled.is_empty(), &board.guard) {
        (false, _) => Ok(pulled),
        (true, None) if errors.is_empty() => Err(StepError::NoLine),
        (true, guard) => Err(StepError::NotPulled(errors, guard.map(|plan| plan.holds))),
    }
}

/// Requests a line and sets its level.
fn hold(hardware: &dyn Hardware, line: Line, high: bool) -> Result<Box<dyn Gpio>, StepError> {
    let used = LineUse { line, usage: Usage::Output { high } };
    let mut gpio = hardware.gpio("safe-stop", &[used]).map_err(StepError::Open)?;
    gpio.set(line, high).map_err(|fault| StepError::Line(line, fault))?;
    Ok(gpio)
}

/// Work that runs on its own thread.
struct Pending<T> {
    what: &'static str,
    begun: Instant,
    result: crossbeam_channel::Receiver<Result<T, StepError>>,
}

/// Starts `work` on a thread, because a transfer that hangs cannot be cancelled, only abandoned.
fn begin<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, StepError> + Send + 'static,
) -> Result<Pending<T>, StepError> {
    let (sender, result) = crossbeam_channel::bounded(1);
    let started = thread::Builder::new().name("safe-stop".into()).spawn(move || sender.send(work()));
    started.map_err(StepError::Thread)?;
    Ok(Pending { what, begun: Instant::now(), result })
}

impl<T> Pending<T> {
    /// Its result, if it arrives within `timeout` of the start.
    fn wait(self, timeout: Duration) -> Result<T, StepError> {
        let result = self.result.recv_deadline(self.begun + timeout);
        result.unwrap_or(Err(StepError::Late(self.what, timeout)))
    }
}

/// Placeholder for lines that could not be opened.
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
    use crate::base::plan::EnablePlan;
    use crate::base::time::SimClock;
    use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
    use crate::hardware::bus::{I2c, Op};
    use crate::sim::Plant;
    use std::sync::Mutex;

    const ENABLE: Line = Line(6);
    const OUTPUT_ENABLE: Line = Line(17);

    /// A simulated robot's wires, and every level that a line was requested at or set to.
    struct RecordingPlant {
        plant: Plant,
        driven: Arc<Mutex<Vec<(Line, bool)>>>,
    }

    struct RecordingLines {
        inner: Box<dyn Gpio>,
        driven: Arc<Mutex<Vec<(Line, bool)>>>,
    }

    impl Hardware for RecordingPlant {
        fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
            Hardware::i2c(&self.plant, bus)
        }
        fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
            for used in lines {
                if let Usage::Output { high } = used.usage {
                    self.driven.lock().unwrap().push((used.line, high));
                }
            }
            // The simulated robot has no enable line.
            let rest: Vec<LineUse> = lines.iter().copied().filter(|used| used.line != ENABLE).collect();
            let inner = Hardware::gpio(&self.plant, owner, &rest)?;
            Ok(Box::new(RecordingLines { inner, driven: self.driven.clone() }))
        }
    }

    impl Gpio for RecordingLines {
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

    /// A PCA9685 that must get these writes of a stop, and its output-enable line; `None`: another process
    /// holds that line.
    struct Stopped {
        i2c: Arc<Mutex<FakeI2c>>,
        gpio: Mutex<Option<FakeGpio>>,
    }

    /// The bus may be opened more than once.
    struct SharedI2c(Arc<Mutex<FakeI2c>>);

    impl I2c for SharedI2c {
        fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
            self.0.lock().unwrap().transfer(address, ops)
        }
    }

    impl Hardware for Stopped {
        fn i2c(&self, _bus: usize) -> Result<Box<dyn I2c>, OpenError> {
            Ok(Box::new(SharedI2c(self.i2c.clone())))
        }
        fn gpio(&self, _owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
            assert_eq!(lines, [LineUse { line: OUTPUT_ENABLE, usage: Usage::Output { high: true } }]);
            let held =
                || OpenError { what: "a line".into(), why: "busy".into(), fix: "".into(), denied: false };
            let gpio = self.gpio.lock().unwrap().take();
            gpio.map(|gpio| Box::new(gpio) as Box<dyn Gpio>).ok_or_else(held)
        }
    }

    #[test]
    fn a_stop_needs_no_line_that_a_live_runtime_holds() {
        let mut board = crate::deploy::board::built_in("jetson-orin-nano").unwrap().unwrap().board;
        let Some(PwmPlan::Pca9685 { address, output_enable, .. }) = &mut board.pwm else {
            panic!("this board has a PCA9685");
        };
        *output_enable = Some(OUTPUT_ENABLE);
        let address = *address;
        for held in [false, true] {
            let gpio = (!held).then(|| FakeGpio::new(Arc::new(SimClock::new())));
            // The permanent "off" bit of all channels (7.3.4); the fake fails the test without this write.
            let i2c = FakeI2c::new().write(address, &[0xFD, 0x10]);
            let hardware = Stopped { i2c: Arc::new(Mutex::new(i2c)), gpio: Mutex::new(gpio) };
            let stopped = stop_motors(&board, &hardware);
            assert!(stopped.is_ok(), "the line is held: {held}: {stopped:?}");
        }
    }

    #[test]
    fn motors_behind_an_enable_line_are_stopped_with_it_off() {
        let mut board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let line = ENABLE;
        for on_high in [true, false] {
            board.enable = Some(EnablePlan { line, on_high });
            let plant = Plant::new(&board, 1, &[], Arc::new(SimClock::new()));
            let hardware = RecordingPlant { plant, driven: Arc::default() };
            assert!(stop_motors(&board, &hardware).is_ok(), "the bus answers");
            let driven = hardware.driven.lock().unwrap().clone();
            assert!(!driven.iter().any(|(driven, _)| *driven == line), "{driven:?}");
            // Pulling the line sets it to off and to no other level.
            assert!(pull(&board, &hardware).unwrap().contains(&Pulled::Enable));
            let driven = hardware.driven.lock().unwrap().clone();
            let levels: Vec<bool> =
                driven.iter().filter(|(at, _)| *at == line).map(|(_, high)| *high).collect();
            assert!(!levels.is_empty() && levels.iter().all(|high| *high != on_high), "{levels:?}");
        }
    }
}
