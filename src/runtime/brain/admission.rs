//! Whether one more robot can be served in time: by arithmetic, before it has an engine. Each robot needs the
//! 99th percentile of its cycle once a period; all of them together must fit the threads with a margin.

use crate::base::time::Span;
use std::fmt;

/// Part of the threads' time that robots may need, in parts of a hundred. The rest is for the network thread,
/// for snapshots, and for cycles that meet.
const USABLE_PERCENT: u64 = 80;

/// What a robot needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// 99th percentile of the time that its cycle keeps a thread.
    pub cycle: Span,
    /// One cycle every so often.
    pub period: Span,
}

/// Too much is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// What the robot needs that is refused.
    pub demand: Demand,
    /// Robots that there would be with it.
    pub robots: usize,
    /// Time that all of them would need in each of its periods.
    pub needed: Span,
    /// Time that the threads have for them in each of its periods.
    pub usable: Span,
    /// Threads.
    pub threads: usize,
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |span: Span| span.as_secs_f64() * 1e3;
        let Overload { demand, robots, needed, usable, threads } = self;
        write!(
            f,
            "the brain computes a cycle in {:.2} ms; {robots} robots need {:.1} ms of each {:.1} ms, and \
             {threads} threads have {:.1} ms for them",
            ms(demand.cycle),
            ms(*needed),
            ms(demand.period),
            ms(*usable),
        )
    }
}

/// Refuses `joining` beside the robots that are `present` if `threads` cannot compute them all in time.
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
    let usable = Span::from_nanos(period.times(threads as u64).as_nanos() / 100 * USABLE_PERCENT);
    // No thread helps another with one robot's cycle.
    let is_one_too_slow = joining.cycle > Span::from_nanos(period.as_nanos() / 100 * USABLE_PERCENT);
    if needed > usable || is_one_too_slow {
        return Err(Overload { demand: joining, robots, needed, usable, threads });
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
        // 0.4 ms of each 20 ms on two threads: 32 ms are usable, which is 80 robots.
        let mut present = Vec::new();
        while admit(2, present.iter().copied(), demand(400, 20)).is_ok() {
            present.push(demand(400, 20));
        }
        assert_eq!(present.len(), 80);
    }

    #[test]
    fn a_refusal_gives_the_figures() {
        let present = vec![demand(4_200, 50); 19];
        let refusal = admit(2, present.into_iter(), demand(4_200, 50)).unwrap_err();
        let said = "the brain computes a cycle in 4.20 ms; 20 robots need 84.0 ms of each 50.0 ms, and 2 threads \
                    have 80.0 ms for them";
        assert_eq!(refusal.to_string(), said);
    }

    #[test]
    fn admission_counts_rates_not_robots() {
        // One robot at 100 Hz needs as much as five at 20 Hz.
        assert!(admit(1, [demand(1_000, 10); 6].into_iter(), demand(1_000, 50)).is_ok());
        assert!(admit(1, [demand(1_000, 10); 8].into_iter(), demand(1_000, 50)).is_err());
        assert!(admit(1, [demand(1_000, 50); 30].into_iter(), demand(1_000, 50)).is_ok());
    }

    #[test]
    fn a_cycle_longer_than_its_period_is_always_refused() {
        let refusal = admit(64, std::iter::empty(), demand(21_000, 20)).unwrap_err();
        assert_eq!((refusal.robots, refusal.threads), (1, 64));
    }
}
