//! Measures how much later the first slots after a pause are than the following ones. With a power-saving
//! governor a core idles at its lowest clock, and wakes and works slowly until the governor reacts. Each slot
//! does a little work, because only work shows a core's clock frequency.

use std::hint::black_box;

use serde::Serialize;

use super::Finding;
use super::grants::{Lateness, summary};
use crate::base::time::{Clock, Grid, MonotonicClock, Span};

/// Period of the slots.
const PERIOD: Span = Span::from_millis(1);
/// Length of a pause: several sampling periods of a governor (10 ms is usual), so that the core's clock has
/// gone down.
const PAUSE: Span = Span::from_millis(100);
/// Number of pauses, and slots after each.
const PAUSES: usize = 8;
const SLOTS: usize = 20;
/// Slots after a pause that count as first.
const FIRST: usize = 4;
/// Slots that count as later: the second half, by which time a governor has had a sampling period.
const LATER: usize = SLOTS / 2;
/// Dependent multiplications in each slot: a tenth of a millisecond at 3 GHz.
const WORK: u64 = 100_000;
/// Share of the period by which the median of the first slots must exceed that of the later ones for a
/// warning.
const MUCH: f64 = 0.1;

/// Time from a slot's scheduled start to the end of its work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FirstSlots {
    /// The first four slots after a pause.
    pub first: Lateness,
    /// The last ten slots.
    pub later: Lateness,
}

/// Measures for about a second.
pub(super) fn measure() -> FirstSlots {
    let clock = MonotonicClock;
    let (mut first, mut later) = (Vec::with_capacity(PAUSES * FIRST), Vec::with_capacity(PAUSES * LATER));
    for _ in 0..PAUSES {
        let mut grid = Grid::new(clock.now() + PAUSE, PERIOD);
        for nth in 0..SLOTS {
            let slot = grid.slot();
            clock.sleep_until(slot);
            black_box((0..black_box(WORK)).fold(1u64, |product, number| product.wrapping_mul(number | 1)));
            let now = clock.now();
            let late = now.since(slot).as_nanos();
            match nth {
                0..FIRST => first.push(late),
                _ if nth >= SLOTS - LATER => later.push(late),
                _ => {}
            }
            grid.done(now);
        }
    }
    first.sort_unstable();
    later.sort_unstable();
    FirstSlots { first: summary(&first), later: summary(&later) }
}

/// The figures; a warning if the first slots are much later and a power-saving governor (`saving`) may be the
/// reason.
pub(super) fn finding(slots: &FirstSlots, saving: bool) -> Finding {
    let words = |Lateness { n, p50_us, p99_us, max_us }: &Lateness| {
        format!("{p50_us:.0} us p50, {p99_us:.0} p99, {max_us:.0} max (n = {n})")
    };
    let found = format!(
        "measured now: after a pause of {} ms, the first {FIRST} slots end {} after their scheduled start, later ones {}",
        PAUSE.as_nanos() / 1_000_000,
        words(&slots.first),
        words(&slots.later),
    );
    let much = slots.first.p50_us - slots.later.p50_us > MUCH * PERIOD.as_micros_f64();
    match much && saving {
        true => Finding::warn("first slots", found, "set the governor to performance: --fix shows how"),
        false => Finding::ok("first slots", found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn all_measured_slots_are_counted() {
        let slots = measure();
        assert_eq!((slots.first.n, slots.later.n), ((PAUSES * FIRST) as u64, (PAUSES * LATER) as u64));
        assert!(slots.first.p50_us > 0.0 && slots.first.p50_us <= slots.first.max_us);
    }

    #[test]
    fn late_first_slots_warn_only_with_a_power_saving_governor() {
        let at = |p50_us| Lateness { n: 4, p50_us, p99_us: p50_us, max_us: p50_us };
        let slots = |first, later| FirstSlots { first: at(first), later: at(later) };
        for (first, later, saving, verdict) in [
            (350.0, 200.0, true, Verdict::Warn),
            (350.0, 200.0, false, Verdict::Ok),
            (290.0, 200.0, true, Verdict::Ok),
            (200.0, 350.0, true, Verdict::Ok),
        ] {
            assert_eq!(finding(&slots(first, later), saving).verdict, verdict, "{first} {later} {saving}");
        }
        let words = finding(&slots(350.0, 200.0), true).found;
        assert!(
            words.contains("350 us p50") && words.contains("200 us p50") && words.contains("n = 4"),
            "{words}"
        );
    }
}
