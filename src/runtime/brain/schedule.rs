//! Decides which robot's request the brain serves next; callers pass the current time. The earliest deadline
//! comes first; a request whose deadline has passed is answered without computing; a newer request of a robot
//! replaces the one that waits. However fast a robot sends, it is served no faster than the rate it joined
//! with, so a flood does not take compute time from the other robots.

use super::robots::RobotId;
use crate::base::time::{Instant, Span};
use crate::field::remote::message::CycleRequest;

/// Cycles by which a robot may be ahead of its rate: after a network stall, several requests arrive at once,
/// and the newest of them is worth computing.
const BURST: u64 = 2;
/// How much faster a robot's clock may be than the brain's, in percent; the error of a crystal oscillator is
/// about a hundredth of that.
const FASTER_PERCENT: u64 = 1;

/// A waiting request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pending {
    /// The request.
    pub request: CycleRequest,
    /// When the request arrived, on the brain's clock.
    pub arrived: Instant,
}

impl Pending {
    /// After this time, on the brain's clock, the request is not computed any more.
    pub fn deadline(&self) -> Instant {
        self.arrived + self.request.deadline
    }
}

/// The scheduling state of one robot.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    pending: Option<Pending>,
    /// A thread is computing for the robot.
    running: bool,
    period: Span,
    /// When the robot's next cycle would be due if the robot sent exactly at its highest rate.
    on_time: Instant,
}

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The request of this robot is too late to compute.
    Late(RobotId),
    /// Compute the request of this robot.
    Compute(RobotId),
    /// Wait until this time or the next request.
    Wait(Instant),
}

impl Queue {
    /// The queue of a robot that joined for one cycle per `period`.
    pub fn new(period: Span) -> Queue {
        Queue { pending: None, running: false, period, on_time: Instant::ZERO }
    }

    /// Makes `pending` the waiting request; returns whether it replaces an older one.
    pub fn offer(&mut self, pending: Pending) -> bool {
        self.pending.replace(pending).is_some()
    }

    /// Takes the request; its computation starts at `now`. Until [`Queue::done`], no other thread computes
    /// for this robot.
    pub fn take(&mut self, now: Instant) -> Option<Pending> {
        let pending = self.pending.take()?;
        let step = self.period.less(Span::from_nanos(self.period.as_nanos() / 100 * FASTER_PERCENT));
        self.on_time = self.on_time.max(now) + step;
        self.running = true;
        Some(pending)
    }

    /// Takes a request without computing it.
    pub fn drop_pending(&mut self) -> Option<Pending> {
        self.pending.take()
    }

    /// The robot's cycle has ended.
    pub fn done(&mut self) {
        self.running = false;
    }

    /// Whether a thread is computing for the robot.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// The earliest time at which the robot's rate allows the next cycle.
    fn allowed_at(&self) -> Instant {
        self.on_time - self.period.times(BURST)
    }
}

/// Chooses among the robots' queues: late requests first, because answering them is cheap; then the earliest
/// deadline.
pub fn choose<'a>(queues: impl Iterator<Item = (RobotId, &'a Queue)>, now: Instant) -> Choice {
    let mut best: Option<(Instant, RobotId)> = None;
    let mut wait = Instant::NEVER;
    for (robot, queue) in queues {
        let Some(pending) = &queue.pending else { continue };
        let deadline = pending.deadline();
        if now >= deadline {
            return Choice::Late(robot);
        }
        wait = wait.min(deadline);
        if queue.running {
            continue;
        }
        if queue.allowed_at() > now {
            wait = wait.min(queue.allowed_at());
        } else if best.is_none_or(|best| (deadline, robot) < best) {
            best = Some((deadline, robot));
        }
    }
    best.map_or(Choice::Wait(wait), |(_, robot)| Choice::Compute(robot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldInput;
    use std::collections::BTreeMap;

    const PERIOD: Span = Span::from_millis(20);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(1_000_000_000) + Span::from_millis(ms)
    }

    fn pending(cycle: u64, arrived: u64, deadline: u64) -> Pending {
        let input = FieldInput { cycle, ..FieldInput::AT_REST };
        let request = CycleRequest::of(&input, 3, Instant::ZERO, Span::from_millis(deadline));
        Pending { request, arrived: at(arrived) }
    }

    fn robots(count: u64) -> BTreeMap<RobotId, Queue> {
        (0..count).map(|id| (RobotId(id), Queue::new(PERIOD))).collect()
    }

    fn next(robots: &BTreeMap<RobotId, Queue>, now: u64) -> Choice {
        choose(robots.iter().map(|(id, queue)| (*id, queue)), at(now))
    }

    #[test]
    fn the_earliest_deadline_is_served_first() {
        let mut all = robots(3);
        for (id, arrived, deadline) in [(0, 0, 15), (1, 1, 9), (2, 2, 10)] {
            assert!(!all.get_mut(&RobotId(id)).unwrap().offer(pending(1, arrived, deadline)));
        }
        for expected in [1, 2, 0] {
            assert_eq!(next(&all, 3), Choice::Compute(RobotId(expected)));
            let queue = all.get_mut(&RobotId(expected)).unwrap();
            assert!(queue.take(at(3)).is_some() && queue.is_running());
        }
        assert_eq!(next(&all, 3), Choice::Wait(Instant::NEVER));
    }

    #[test]
    fn the_newest_request_replaces_a_waiting_one() {
        let mut all = robots(1);
        let queue = all.get_mut(&RobotId(0)).unwrap();
        assert!(!queue.offer(pending(1, 0, 15)));
        assert!(queue.offer(pending(2, 5, 15)), "the older one is counted");
        assert_eq!(queue.take(at(6)).unwrap().request.cycle, 2);
        assert!(queue.take(at(6)).is_none());
    }

    #[test]
    fn late_request_is_answered_at_once_even_while_one_is_running() {
        let mut all = robots(2);
        all.get_mut(&RobotId(0)).unwrap().offer(pending(1, 0, 30));
        let second = all.get_mut(&RobotId(1)).unwrap();
        second.offer(pending(1, 0, 10));
        second.take(at(0));
        second.offer(pending(2, 1, 10));
        assert_eq!(next(&all, 10), Choice::Compute(RobotId(0)), "the other robot is already running");
        assert_eq!(next(&all, 11), Choice::Late(RobotId(1)));
        all.get_mut(&RobotId(1)).unwrap().drop_pending();
        assert_eq!(next(&all, 11), Choice::Compute(RobotId(0)));
    }

    #[test]
    fn a_running_robot_gets_no_second_thread() {
        let mut all = robots(1);
        let queue = all.get_mut(&RobotId(0)).unwrap();
        queue.offer(pending(1, 0, 15));
        queue.take(at(0));
        queue.offer(pending(2, 1, 15));
        assert_eq!(next(&all, 2), Choice::Wait(at(16)));
        all.get_mut(&RobotId(0)).unwrap().done();
        assert_eq!(next(&all, 2), Choice::Compute(RobotId(0)));
    }

    /// A robot that joined for 50 cycles a second sends a thousand requests a second.
    #[test]
    fn a_flood_is_computed_at_the_joined_rate() {
        let mut all = robots(1);
        let mut computed = 0;
        for ms in 0..1000 {
            all.get_mut(&RobotId(0)).unwrap().offer(pending(ms, ms, 15));
            if next(&all, ms) == Choice::Compute(RobotId(0)) {
                let queue = all.get_mut(&RobotId(0)).unwrap();
                queue.take(at(ms));
                queue.done();
                computed += 1;
            }
        }
        let bound = 50 * 101 / 100 + BURST + 1;
        assert!((50..=bound).contains(&computed), "{computed}, at most {bound}");
    }

    #[test]
    fn a_robot_that_keeps_its_rate_is_never_delayed() {
        let mut all = robots(1);
        // Two requests are late: at 45 ms instead of 40, and at 99 instead of 80, just before the next one.
        for ms in [0, 20, 45, 60, 99, 100, 120, 140, 160] {
            all.get_mut(&RobotId(0)).unwrap().offer(pending(ms, ms, 15));
            assert_eq!(next(&all, ms), Choice::Compute(RobotId(0)), "at {ms} ms");
            let queue = all.get_mut(&RobotId(0)).unwrap();
            queue.take(at(ms));
            queue.done();
        }
    }
}
