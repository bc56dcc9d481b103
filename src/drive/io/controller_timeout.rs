//! Measures how long the motors' controller has not answered. It measures time instead of counting calls,
//! because the number of calls depends on how the robot drives: a robot that drives straight on writes a
//! register only now and then; in another, three calls may fail within one brush spark. Pure: `i2c.rs`
//! decides what happens after a timeout.

use crate::base::time::{Instant, Span};
use crate::hardware::device::DeviceFault;

/// Failed calls needed for a timeout: a single one may coincide with the end of a spark, and its retries may
/// make it long.
const CALLS: u32 = 2;

/// Failed calls of the controller, with no successful one in between.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControllerTimeout {
    timeout: Span,
    calls: u32,
    since: Instant,
    /// The last failure was on its bus, not on one of the computer's own GPIO lines or PWM channels.
    on_bus: bool,
}

impl ControllerTimeout {
    /// A controller that may fail to answer for up to `timeout`; the motors meanwhile continue with their
    /// last command.
    pub fn new(timeout: Span) -> ControllerTimeout {
        ControllerTimeout { timeout, calls: 0, since: Instant::ZERO, on_bus: false }
    }

    /// Restarts the measurement after a reset.
    pub fn restart(&mut self) {
        self.calls = 0;
    }

    /// A call succeeded, with this many answered transfers. After a bus failure, a call without transfers
    /// proves nothing: a command that changes nothing is not written.
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
    fn timeout_is_a_time_and_not_a_number_of_calls() {
        let mut timeout = ControllerTimeout::new(ms(10));
        let nine = (100..109).all(|begun| !timeout.failed(NACK, at(begun), at(begun + 1)));
        assert!(nine, "nine calls in nine milliseconds");
        assert!(timeout.failed(NACK, at(109), at(110)), "counted from the start of the first call");
        timeout.restart();
        assert!(!timeout.failed(NACK, at(200), at(215)), "one call, however long it took");
        assert!(timeout.failed(NACK, at(216), at(217)));
    }

    #[test]
    fn only_an_answered_transfer_ends_the_timeout() {
        let mut timeout = ControllerTimeout::new(ms(10));
        for begun in (0..1_000).step_by(9) {
            assert!(!timeout.failed(NACK, at(begun), at(begun + 1)));
            timeout.worked(0);
            assert!(!timeout.failed(NACK, at(begun + 2), at(begun + 3)));
            timeout.worked(1);
        }
        assert!(!timeout.failed(NACK, at(2_000), at(2_001)));
        timeout.worked(0);
        assert!(timeout.failed(NACK, at(2_010), at(2_011)), "no transfer in between");
    }

    #[test]
    fn motors_without_a_bus_answer_by_not_failing() {
        let mut timeout = ControllerTimeout::new(ms(10));
        assert!(!timeout.failed(PULSE, at(0), at(0)));
        timeout.worked(0);
        assert!(!timeout.failed(PULSE, at(20), at(20)));
        assert!(timeout.failed(PULSE, at(30), at(30)));
    }
}
