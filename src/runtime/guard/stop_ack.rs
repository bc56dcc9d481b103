//! How a runtime handles a requested stop: it disarms, and reports that to the guard only once it is done.
//! Pure; the heartbeat talks to the tick and the guard on its behalf.

use crate::runtime::loop_status::LoopStatus;

/// Slots after which some slot that began after a request has taken it: one slot may have been in progress.
const TAKEN_AFTER: u64 = 2;

/// Progress of the newest stop, on one connection to one guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StopAck {
    /// Number of the newest stop that the guard reported; 0: none.
    reported: u8,
    /// Slots that had run when the disarm was requested.
    asked_at: u64,
    /// The newest stop for which the robot disarmed; 0: none.
    heeded: u8,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// Nothing, or wait for the tick.
    Nothing,
    /// Ask the tick to disarm, then call [`StopAck::asked`].
    Disarm,
    /// The robot is disarmed: report it to the guard.
    Say,
}

impl StopAck {
    /// The guard reported stop `stop`; 0: none.
    pub(super) fn recv(&mut self, stop: u8) -> Todo {
        if stop == 0 && !self.is_under_way() {
            *self = StopAck::default(); // over: the numbers wrap around
        }
        if stop == 0 || stop == self.reported {
            return Todo::Nothing;
        }
        self.reported = stop;
        Todo::Disarm
    }

    /// The tick got the request to disarm when its newest status was `status`.
    pub(super) fn asked(&mut self, status: &LoopStatus) {
        self.asked_at = status.slots;
    }

    /// What the newest status means for a stop in progress.
    pub(super) fn look(&mut self, status: &LoopStatus) -> Todo {
        if !self.is_under_way() {
            return Todo::Nothing;
        }
        // A loop that has not begun takes the request in its first or second slot; arming needs three.
        let not_begun = status.slots == 0 && self.asked_at == 0;
        if !not_begun && status.slots < self.asked_at + TAKEN_AFTER {
            return Todo::Nothing;
        }
        // A person armed the robot again before the guard knew: the stop comes first.
        if status.is_armed() {
            return Todo::Disarm;
        }
        self.heeded = self.reported;
        Todo::Say
    }

    /// Whether a stop was reported and is not yet handled.
    pub(super) fn is_under_way(&self) -> bool {
        self.reported != self.heeded
    }

    /// The number to send with a hello.
    pub(super) fn acknowledged(&self) -> u8 {
        self.heeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::loop_status::LoopStatusCell;

    const DISARMED: u8 = 2;
    const ARMED: u8 = 3;
    const DEGRADED: u8 = 4;

    fn status(slots: u64, mode: u8) -> LoopStatus {
        LoopStatus { slots, mode, ..LoopStatusCell::default().look() }
    }

    #[test]
    fn stop_is_acknowledged_by_a_disarmed_slot_after_the_request() {
        let mut stop_ack = StopAck::default();
        assert_eq!((stop_ack.recv(0), stop_ack.look(&status(50, ARMED))), (Todo::Nothing, Todo::Nothing));
        assert_eq!(stop_ack.recv(7), Todo::Disarm);
        stop_ack.asked(&status(50, ARMED));
        for (slots, mode) in [(50, ARMED), (50, DISARMED), (51, DISARMED)] {
            assert_eq!((stop_ack.look(&status(slots, mode)), stop_ack.acknowledged()), (Todo::Nothing, 0));
        }
        assert!(stop_ack.is_under_way());
        assert_eq!((stop_ack.look(&status(52, DISARMED)), stop_ack.acknowledged()), (Todo::Say, 7));
        assert!(!stop_ack.is_under_way());
        assert_eq!(stop_ack.recv(7), Todo::Nothing, "the answer to an older question");
        assert_eq!(stop_ack.look(&status(60, ARMED)), Todo::Nothing, "a person armed it: its stop is over");
    }

    #[test]
    fn a_robot_rearmed_too_early_is_disarmed_again() {
        for mode in [ARMED, DEGRADED] {
            let mut stop_ack = StopAck::default();
            stop_ack.recv(1);
            stop_ack.asked(&status(50, mode));
            assert_eq!(stop_ack.look(&status(52, mode)), Todo::Disarm);
            stop_ack.asked(&status(52, mode));
            assert_eq!(stop_ack.look(&status(53, DISARMED)), Todo::Nothing);
            assert_eq!(stop_ack.look(&status(54, DISARMED)), Todo::Say);
        }
    }

    #[test]
    fn hanging_loop_does_not_acknowledge_a_stop() {
        let mut early = StopAck::default();
        early.recv(1);
        early.asked(&status(0, 0));
        assert_eq!(early.look(&status(0, 0)), Todo::Say);
        let mut hangs = StopAck::default();
        hangs.recv(1);
        hangs.asked(&status(50, ARMED));
        for _ in 0..1_000 {
            assert_eq!(hangs.look(&status(50, ARMED)), Todo::Nothing);
        }
    }

    #[test]
    fn a_second_stop_needs_its_own_disarm() {
        let mut stop_ack = StopAck::default();
        for stop in [255, 1, 1, 2] {
            assert_eq!(stop_ack.recv(stop), Todo::Disarm);
            assert_ne!(stop_ack.acknowledged(), stop);
            stop_ack.asked(&status(50, DISARMED));
            assert_eq!((stop_ack.look(&status(52, DISARMED)), stop_ack.acknowledged()), (Todo::Say, stop));
            assert_eq!(
                (stop_ack.recv(stop), stop_ack.acknowledged()),
                (Todo::Nothing, stop),
                "an older answer"
            );
            stop_ack.recv(0);
        }
    }
}
