//! The reset line of the motors' controller while a verb examines the robot: released, so that a controller
//! that is silent then is dead, not held; afterwards as it was found. Another process that has it keeps it.
//!
//! A guard that was stopped leaves the line low, and a kernel of Raspberry Pi OS goes on driving it so: the
//! controller is in reset, and without a pulse, until a process takes the line. A verb that then examines
//! the robot releases it and puts it back: in the state in which a stopped guard leaves a robot, nothing
//! that is written to the bus can move a motor, and to examine a robot is no reason to end that.
//! Between the two the controller is as after any reset, without a pulse. If the program is killed in
//! between, the line stays high, and the controller has no pulse but those that were written meanwhile:
//! a servo's. A line that was high or floated is left so: the vendor's programs expect that.

use super::{Afterwards, Bench, Check};
use crate::base::plan::{Board, GuardHold, Line};
use crate::base::time::Clock;
use crate::hardware::bus::{Gpio, Hardware, LineState, LineUse, OpenError, Usage};
use crate::hardware::device::robot_hat::{RESET_LOW, RESET_TAKES};

/// How the controller stands during the test.
pub(super) enum Reset {
    /// The board has no such controller.
    NoController,
    /// It runs: this test released its line, and resets it afterwards.
    Released {
        gpio: Box<dyn Gpio>,
        line: Line,
        /// It was found in its reset.
        was_held: bool,
    },
    /// Another process, the board's guard, has the line and may hold the controller in reset.
    WithGuard(OpenError),
}

impl Reset {
    /// Takes the controller out of its reset, and waits until its firmware can answer. It comes without a
    /// pulse on any channel. `Err`: what is wrong with the line.
    pub fn release(bench: &Bench<'_>) -> Result<Reset, Check> {
        let Some(mcu) = &bench.board.mcu else { return Ok(Reset::NoController) };
        let was_held = is_held(bench.board, bench.hardware);
        let mut gpio = match bench.hardware.gpio("self-test", &low(mcu.reset)) {
            Ok(gpio) => gpio,
            // A guard that runs has it, and this is not the runtime that it serves.
            Err(error)
                if !error.denied
                    && bench.board.guard.is_some_and(|guard| guard.holds == GuardHold::Reset) =>
            {
                return Ok(Reset::WithGuard(error));
            }
            Err(error) => return Err(Check::closed("reset line of the Robot HAT", true, &error)),
        };
        // Low by the request itself, or by the guard.
        bench.clock.sleep_until(bench.clock.now() + RESET_LOW);
        match gpio.set(mcu.reset, true) {
            Ok(()) => {
                bench.clock.sleep_until(bench.clock.now() + RESET_TAKES);
                Ok(Reset::Released { gpio, line: mcu.reset, was_held })
            }
            Err(fault) => {
                let found = format!("the controller is not released from reset: {fault:?}");
                let fix = "check 'ganglion guard --status'; without a guard, what else drives the line ('gpioinfo')";
                Err(Check::failed("reset line of the Robot HAT", found, fix))
            }
        }
    }

    /// The process that may hold a silent controller in reset.
    pub fn holder(&self) -> Option<&OpenError> {
        match self {
            Reset::WithGuard(holder) => Some(holder),
            Reset::NoController | Reset::Released { .. } => None,
        }
    }
    /// Whether the controller is reset after the test, whatever was read of it.
    pub fn follows(&self) -> bool {
        matches!(self, Reset::Released { .. })
    }

    /// Resets the controller. If that fails, a guard does it.
    pub fn end(self, afterwards: Afterwards, clock: &dyn Clock) {
        let Reset::Released { mut gpio, line, was_held } = self else { return };
        let held = gpio.set(line, false);
        clock.sleep_until(clock.now() + RESET_LOW);
        let runs = afterwards == Afterwards::AsFound && !was_held;
        if held.is_ok() && runs && gpio.set(line, true).is_ok() {
            clock.sleep_until(clock.now() + RESET_TAKES);
        }
    }
}

/// The motors' controller for a program that only asks its bus: out of reset for as long as this lives.
pub enum Awake {
    /// It was not held in reset, or the board has none: nothing was touched.
    AsFound,
    /// It was held, by a line that no process has any more; dropping this puts it back.
    Released(Box<dyn Gpio>, Line),
    /// It may be held: which process has the line, or why the kernel does not say.
    Unknown(OpenError),
}

impl Awake {
    /// Takes the controller out of a reset in which no process holds it, and waits until its firmware can
    /// answer.
    pub fn wake(board: &Board, hardware: &dyn Hardware, clock: &dyn Clock) -> Awake {
        let Some(mcu) = &board.mcu else { return Awake::AsFound };
        match hardware.line_state(mcu.reset) {
            Ok(LineState::Floats | LineState::Kept { high: true }) => return Awake::AsFound,
            Ok(LineState::Kept { high: false }) => {}
            Ok(LineState::Taken(error)) | Err(error) => return Awake::Unknown(error),
        }
        let mut gpio = match hardware.gpio("examine", &low(mcu.reset)) {
            Ok(gpio) => gpio,
            Err(error) => return Awake::Unknown(error),
        };
        if let Err(fault) = gpio.set(mcu.reset, true) {
            let what = "reset line of the Robot HAT".to_string();
            let fix = "inspect it with 'gpioinfo'".to_string();
            return Awake::Unknown(OpenError { what, why: format!("{fault:?}"), fix, denied: false });
        }
        clock.sleep_until(clock.now() + RESET_TAKES);
        Awake::Released(gpio, mcu.reset)
    }

    /// Why a controller that is silent may be in reset all the same.
    pub fn may_be_held(&self) -> Option<&OpenError> {
        match self {
            Awake::Unknown(error) => Some(error),
            Awake::AsFound | Awake::Released(..) => None,
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        if let Awake::Released(gpio, line) = self {
            // If it fails the controller goes on without a pulse.
            let _ = gpio.set(*line, false);
        }
    }
}

/// Whether the controller of `board` is in a reset in which no process holds it any more.
pub fn is_held(board: &Board, hardware: &dyn Hardware) -> bool {
    let state = board.mcu.as_ref().map(|mcu| hardware.line_state(mcu.reset));
    matches!(state, Some(Ok(LineState::Kept { high: false })))
}

/// Puts the controller of `board` into its reset, in which it has no pulses; no process holds it there, and
/// the kernel keeps it or lets it go.
pub fn put_back(board: &Board, hardware: &dyn Hardware) -> Result<(), OpenError> {
    board.mcu.as_ref().map_or(Ok(()), |mcu| hardware.gpio("examine", &low(mcu.reset)).map(drop))
}

fn low(line: Line) -> [LineUse; 1] {
    [LineUse { line, usage: Usage::Output { high: false } }]
}
