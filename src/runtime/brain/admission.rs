//! Calculates whether one more robot can be served in time. Each robot needs the 99th percentile of its cycle
//! time once per period; the threads must have enough time for all robots together, with a margin.

use crate::base::time::Span;
use std::fmt;

/// Share of the threads' time that robots may use, in percent. The rest is for the network thread, for
/// snapshots, and for cycles that are due at the same time.
const USABLE_PERCENT: u64 = 80;

/// The compute time that a robot needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// 99th percentile of the time for which one of its cycles occupies a thread.
    pub cycle: Span,
    /// Time between two cycles.
    pub period: Span,
}

/// Why there is not enough compute time for one more robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// Its cycle runs on one thread, which has less time than that.
    CycleTooLong {
        /// What the robot needs.
        demand: Demand,
        /// Time that the thread has per period of the robot.
        usable: Span,
    },
    /// All robots together need more time than all threads have.
    TooManyRobots {
        /// What the refused robot needs.
        demand: Demand,
        /// Number of robots including this one.
        robots: usize,
        /// Compute time that all of them would need per period of this robot.
        needed: Span,
        /// Compute time that the threads have per period of this robot.
        usable: Span,
        /// Number of compute threads.
        threads: usize,
    },
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |span: Span| span.as_secs_f64() * 1e3;
        let (Overload::CycleTooLong { demand, .. } | Overload::TooManyRobots { demand, .. }) = self;
        let (cycle, period) = (ms(demand.cycle), ms(demand.period));
        write!(f, "the brain computes a cycle in {cycle:.2} ms; ")?;
        match self {
            Overload::CycleTooLong { usable, .. } => {
                write!(f, "one robot may use {:.2} ms every {period:.1} ms", ms(*usable))
            }
            Overload::TooManyRobots { robots, needed, usable, threads, .. } => {
                let (needed, usable) = (ms(*needed), ms(*usable));
                write!(
                    f,
                    "{robots} robots need {needed:.1} ms every {period:.1} ms, and {threads} threads have "
                )?;
                write!(f, "{usable:.1} ms for them")
            }
        }
    }
}

/// The share of `period` that robots may use on one thread.
fn usable_of(period: Span) -> Span {
    Span::from_nanos(period.as_nanos() / 100 * USABLE_PERCENT)
}

/// Refuses the robot `joining` if `threads` threads do not have enough time for it and for the robots that
/// are already `present`.
pub fn admit(threads: usize, present: impl Iterator<Item = Demand>, joining: Demand) -> Result<(), Overload> {
    let period = joining.period;
    let share = |demand: Demand| {
        let others = u128::from(demand.period.as_nanos().max(1));
        let nanos = u128::from(demand.cycle.as_nanos()) * u128::from(period.as_nanos()) / others;
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    let (mut robots, mut needed) = (1, joining.cycle);
    for demand in present {
        robots += 1;
        needed = needed + share(demand);
    }
    let (demand, one) = (joining, usable_of(period));
    if demand.cycle > one {
        return Err(Overload::CycleTooLong { demand, usable: one });
    }
    let usable = usable_of(period.times(threads as u64));
    if needed > usable {
        return Err(Overload::TooManyRobots { demand, robots, needed, usable, threads });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(cycle_us: u64, period_ms: u64) -> Demand {
        Demand { cycle: Span::from_micros(cycle_us), period: Span::from_millis(period_ms) }
    }

    #[test]
    fn as_many_robots_join_as_fit_with_the_margin() {
        // Each robot needs 0.4 ms every 20 ms; in that time, two threads have 32 ms, enough for 80 robots.
        let mut present = Vec::new();
        while admit(2, present.iter().copied(), demand(400, 20)).is_ok() {
            present.push(demand(400, 20));
        }
        assert_eq!(present.len(), 80);
    }

    #[test]
    fn a_refusal_contains_the_figures() {
        let present = vec![demand(4_200, 50); 19];
        let refusal = admit(2, present.into_iter(), demand(4_200, 50)).unwrap_err();
        let said = "the brain computes a cycle in 4.20 ms; 20 robots need 84.0 ms every 50.0 ms, and 2 \
                    threads have 80.0 ms for them";
        assert_eq!(refusal.to_string(), said);
    }

    #[test]
    fn robots_count_by_their_rate() {
        // One robot at 100 Hz needs as much as five at 20 Hz.
        assert!(admit(1, [demand(1_000, 10); 6].into_iter(), demand(1_000, 50)).is_ok());
        assert!(admit(1, [demand(1_000, 10); 8].into_iter(), demand(1_000, 50)).is_err());
        assert!(admit(1, [demand(1_000, 50); 30].into_iter(), demand(1_000, 50)).is_ok());
    }

    #[test]
    fn a_cycle_too_long_for_one_thread_is_always_refused() {
        let refusal = admit(64, std::iter::empty(), demand(17_000, 20)).unwrap_err();
        let said = "the brain computes a cycle in 17.00 ms; one robot may use 16.00 ms every 20.0 ms";
        assert_eq!(refusal.to_string(), said, "not that 64 threads have 1024 ms");
        assert!(admit(64, std::iter::empty(), demand(16_000, 20)).is_ok());
    }
}
