//! How a runtime handles a requested stop: it disarms first, and acknowledges the stop to the guard after
//! that. Pure; the heartbeat thread talks to the tick and the guard.

use crate::runtime::loop_status::LoopStatus;

/// After this many slots, at least one has begun after the request and seen it; the first may already have
/// been in progress.
const TAKEN_AFTER: u64 = 2;

/// Progress of the newest stop, on one connection to one guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StopAck {
    /// Number of the newest stop that the guard reported; 0: none.
    reported: u8,
    /// Slots that had run when the disarm was requested.
    requested_at: u64,
    /// Number of the newest stop for which the robot has disarmed; 0: none.
    acknowledged: u8,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// Nothing yet.
    Nothing,
    /// Ask the tick to disarm, then call [`StopAck::disarm_requested`].
    Disarm,
    /// The robot has disarmed: acknowledge the stop to the guard.
    Report,
}

impl StopAck {
    /// The guard reported stop number `stop`; 0: none.
    pub(super) fn recv(&mut self, stop: u8) -> Todo {
        if stop == 0 && !self.is_pending() {
            *self = StopAck::default(); // forget old numbers, because they wrap around
        }
        if stop == 0 || stop == self.reported {
            return Todo::Nothing;
        }
        self.reported = stop;
        Todo::Disarm
    }

    /// The tick was asked to disarm; `status` is its newest status.
    pub(super) fn disarm_requested(&mut self, status: &LoopStatus) {
        self.requested_at = status.slots;
    }

    /// What to do about a stop in progress, given the loop's newest status.
    pub(super) fn check(&mut self, status: &LoopStatus) -> Todo {
        if !self.is_pending() {
            return Todo::Nothing;
        }
        // A loop that has not started sees the request in its first or second slot; arming needs three.
        let not_begun = status.slots == 0 && self.requested_at == 0;
        if !not_begun && status.slots < self.requested_at + TAKEN_AFTER {
            return Todo::Nothing;
        }
        // A user armed the robot again before the guard was told: the stop wins.
        if status.is_armed() {
            return Todo::Disarm;
        }
        self.acknowledged = self.reported;
        Todo::Report
    }

    /// Whether a reported stop has not been handled yet.
    pub(super) fn is_pending(&self) -> bool {
        self.reported != self.acknowledged
    }

    /// The number to send with a hello.
    pub(super) fn acknowledged(&self) -> u8 {
        self.acknowledged
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
        LoopStatus { slots, mode, ..LoopStatusCell::default().load() }
    }

    #[test]
    fn stop_is_acknowledged_by_a_disarmed_slot_after_the_request() {
        let mut stop_ack = StopAck::default();
        assert_eq!((stop_ack.recv(0), stop_ack.check(&status(50, ARMED))), (Todo::Nothing, Todo::Nothing));
        assert_eq!(stop_ack.recv(7), Todo::Disarm);
        stop_ack.disarm_requested(&status(50, ARMED));
        for (slots, mode) in [(50, ARMED), (50, DISARMED), (51, DISARMED)] {
            assert_eq!((stop_ack.check(&status(slots, mode)), stop_ack.acknowledged()), (Todo::Nothing, 0));
        }
        assert!(stop_ack.is_pending());
        assert_eq!((stop_ack.check(&status(52, DISARMED)), stop_ack.acknowledged()), (Todo::Report, 7));
        assert!(!stop_ack.is_pending());
        assert_eq!(stop_ack.recv(7), Todo::Nothing, "a late answer to an older request");
        assert_eq!(
            stop_ack.check(&status(60, ARMED)),
            Todo::Nothing,
            "a user has armed it, so the stop is over"
        );
    }

    #[test]
    fn robot_rearmed_during_a_stop_is_disarmed_again() {
        for mode in [ARMED, DEGRADED] {
            let mut stop_ack = StopAck::default();
            stop_ack.recv(1);
            stop_ack.disarm_requested(&status(50, mode));
            assert_eq!(stop_ack.check(&status(52, mode)), Todo::Disarm);
            stop_ack.disarm_requested(&status(52, mode));
            assert_eq!(stop_ack.check(&status(53, DISARMED)), Todo::Nothing);
            assert_eq!(stop_ack.check(&status(54, DISARMED)), Todo::Report);
        }
    }

    #[test]
    fn hanging_loop_does_not_acknowledge_a_stop() {
        let mut early = StopAck::default();
        early.recv(1);
        early.disarm_requested(&status(0, 0));
        assert_eq!(early.check(&status(0, 0)), Todo::Report);
        let mut hangs = StopAck::default();
        hangs.recv(1);
        hangs.disarm_requested(&status(50, ARMED));
        for _ in 0..1_000 {
            assert_eq!(hangs.check(&status(50, ARMED)), Todo::Nothing);
        }
    }

    #[test]
    fn a_second_stop_needs_its_own_acknowledgement() {
        let mut stop_ack = StopAck::default();
        for stop in [255, 1, 1, 2] {
            assert_eq!(stop_ack.recv(stop), Todo::Disarm);
            assert_ne!(stop_ack.acknowledged(), stop);
            stop_ack.disarm_requested(&status(50, DISARMED));
            assert_eq!(
                (stop_ack.check(&status(52, DISARMED)), stop_ack.acknowledged()),
                (Todo::Report, stop)
            );
            assert_eq!(
                (stop_ack.recv(stop), stop_ack.acknowledged()),
                (Todo::Nothing, stop),
                "a repeated answer"
            );
            stop_ack.recv(0);
        }
    }
}
