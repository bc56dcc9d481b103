//! How long the motors' controller has not answered. Measured in time, because how often it is called depends
//! on how the robot drives. A robot that drives straight on writes a register now and then; an unlucky one
//! fails three times within a spark. Pure; `i2c.rs` decides what silence leads to.

use crate::base::time::{Instant, Span};
use crate::hardware::device::DeviceFault;

/// Failed calls needed: one may coincide with the end of a spark and last as long as its retries.
const CALLS: u32 = 2;

/// Failed calls of the controller, with no successful one in between.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControllerTimeout {
    timeout: Span,
    calls: u32,
    since: Instant,
    /// The last failure was on its bus, not on a line or a channel of the computer's own.
    on_bus: bool,
}

impl ControllerTimeout {
    /// A controller that may be silent for `timeout`, while the motors continue with their last command.
    pub fn new(timeout: Span) -> ControllerTimeout {
        ControllerTimeout { timeout, calls: 0, since: Instant::ZERO, on_bus: false }
    }

    /// It was reset; counting starts again.
    pub fn begin_anew(&mut self) {
        self.calls = 0;
    }

    /// A call succeeded, with this many answered transfers. After a bus failure, a call without transfers
    /// proves nothing: motors that continue as before are not written again.
    pub fn worked(&mut self, answered: u32) {
        if answered > 0 || !self.on_bus {
            self.calls = 0;
        }
    }

    /// A call that began at `began` failed after its retries, at `now`. Returns whether it timed out.
    pub fn failed(&mut self, fault: DeviceFault, began: Instant, now: Instant) -> bool {
        self.on_bus = matches!(fault, DeviceFault::Bus { .. });
        if self.calls == 0 {
            self.since = began;
        }
        self.calls = self.calls.saturating_add(1);
        self.calls >= CALLS && now.since(self.since) >= self.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::decision::fixture::{at, ms};

    const NACK: DeviceFault = DeviceFault::Bus { register: 0x2C, fault: BusFault::Nack };
    const PULSE: DeviceFault = DeviceFault::Pulse { channel: 1, fault: BusFault::Io };

    #[test]
    fn the_controller_timeout_is_a_time_not_a_count() {
        let mut silence = ControllerTimeout::new(ms(10));
        let nine = (100..109).all(|begun| !silence.failed(NACK, at(begun), at(begun + 1)));
        assert!(nine, "nine calls in nine milliseconds");
        assert!(silence.failed(NACK, at(109), at(110)), "from the first call's beginning");
        silence.begin_anew();
        assert!(!silence.failed(NACK, at(200), at(215)), "one call, however long it took");
        assert!(silence.failed(NACK, at(216), at(217)));
    }

    #[test]
    fn only_an_answered_transfer_ends_the_timeout() {
        let mut silence = ControllerTimeout::new(ms(10));
        for begun in (0..1_000).step_by(9) {
            assert!(!silence.failed(NACK, at(begun), at(begun + 1)));
            silence.worked(0);
            assert!(!silence.failed(NACK, at(begun + 2), at(begun + 3)));
            silence.worked(1);
        }
        assert!(!silence.failed(NACK, at(2_000), at(2_001)));
        silence.worked(0);
        assert!(silence.failed(NACK, at(2_010), at(2_011)), "nothing was asked in between");
    }

    #[test]
    fn motors_without_a_bus_answer_by_success() {
        let mut silence = ControllerTimeout::new(ms(10));
        assert!(!silence.failed(PULSE, at(0), at(0)));
        silence.worked(0);
        assert!(!silence.failed(PULSE, at(20), at(20)));
        assert!(silence.failed(PULSE, at(30), at(30)));
    }
}
