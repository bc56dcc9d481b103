//! The reset line of the motors' controller while a command examines the robot. The line is released for the
//! examination, so that a silent controller is known to be dead and not in reset, and restored afterwards. A
//! line that another process holds is left alone.
//!
//! A stopped guard leaves the line low, and the kernel of Raspberry Pi OS keeps driving it low: the
//! controller stays in reset and sends no pulses until a process takes the line. In this state nothing that
//! is written to the bus can move a motor. A command that only examines the robot should not change this
//! state, so it releases the line and puts it back afterwards. After the release, as after any reset, the
//! controller sends no pulses until some are written. If the program is killed before it puts the line back,
//! the line stays high, and the controller sends only the pulses that were written since the release: servo
//! pulses. A line that was high or floating is left that way, as the vendor's programs expect.

use super::{Afterwards, Bench, Check};
use crate::base::plan::{Board, GuardHold, Line};
use crate::base::time::Clock;
use crate::hardware::bus::{Gpio, Hardware, LineState, LineUse, OpenError, Usage};
use crate::hardware::device::robot_hat::{RESET_LOW, RESET_TAKES};

/// State of the controller during the test.
pub(super) enum Reset {
    /// The board has no such controller.
    NoController,
    /// It is running: the test has released its reset line, and will reset the controller at the end.
    Released {
        gpio: Box<dyn Gpio>,
        line: Line,
        /// It was in reset before.
        was_held: bool,
    },
    /// The board's guard, another process, holds the line and may keep the controller in reset.
    WithGuard(OpenError),
}

impl Reset {
    /// Resets the controller, releases it, and waits until its firmware can answer. It then sends no pulse on
    /// any channel. `Err`: what is wrong with the line.
    pub fn release(bench: &Bench<'_>) -> Result<Reset, Check> {
        let Some(mcu) = &bench.board.mcu else { return Ok(Reset::NoController) };
        let was_held = is_held(bench.board, bench.hardware);
        let mut gpio = match bench.hardware.gpio("self-test", &low(mcu.reset)) {
            Ok(gpio) => gpio,
            // A running guard holds the line, and this process is not the runtime that it serves.
            Err(error)
                if !error.denied
                    && bench.board.guard.is_some_and(|guard| guard.holds == GuardHold::Reset) =>
            {
                return Ok(Reset::WithGuard(error));
            }
            Err(error) => return Err(Check::closed("reset line of the Robot HAT", true, &error)),
        };
        // The request has driven the line low, or the guard holds it low.
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
    /// Whether the controller is reset after the test.
    pub fn follows(&self) -> bool {
        matches!(self, Reset::Released { .. })
    }

    /// Resets the controller, and leaves it in the state that `afterwards` asks for. If this fails, the guard
    /// does it later.
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

/// Keeps the motors' controller out of reset while a program examines its bus, until this value is dropped.
pub enum Awake {
    /// It was not in reset, or the board has no such controller: nothing was touched.
    AsFound,
    /// A line that no process holds any more kept it in reset; dropping this puts it back.
    Released(Box<dyn Gpio>, Line),
    /// It may be in reset: the error names the process that holds the line, or says why the state of the line
    /// is unknown.
    Unknown(OpenError),
}

impl Awake {
    /// Takes the controller out of reset if no process holds its line, and waits until its firmware can
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

    /// Why a silent controller may still be in reset.
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
            // If this fails, the controller keeps running without a pulse.
            let _ = gpio.set(*line, false);
        }
    }
}

/// Whether a line that no process holds any more keeps the controller of `board` in reset.
pub fn is_held(board: &Board, hardware: &dyn Hardware) -> bool {
    let state = board.mcu.as_ref().map(|mcu| hardware.line_state(mcu.reset));
    matches!(state, Some(Ok(LineState::Kept { high: false })))
}

/// Puts the controller of `board` into reset, where it sends no pulses. No process holds the line afterwards;
/// the kernel keeps its level or releases it.
pub fn put_back(board: &Board, hardware: &dyn Hardware) -> Result<(), OpenError> {
    board.mcu.as_ref().map_or(Ok(()), |mcu| hardware.gpio("examine", &low(mcu.reset)).map(drop))
}

fn low(line: Line) -> [LineUse; 1] {
    [LineUse { line, usage: Usage::Output { high: false } }]
}
