//! Turns measured durations into a quality level. Pure: the time comes in as an argument.
//!
//! Each level has an estimate of what a cycle would cost *now*. The estimate rises at once after a slow run
//! and falls slowly. A cycle that is slower or faster than its estimate means that the machine became slower
//! or faster, so the estimates of all other levels change by the same factor. The one exception is the first
//! cycle after a step up: the budget steps up only after a steady time, so the duration of that cycle tells
//! something about the level and nothing about the machine.
//!
//! The budget steps down at once: by one level after a single slow cycle, which may be an outlier, and after
//! a second slow cycle in a row by as many levels as the estimates demand. It steps up one level at a time,
//! when the better level has been estimated to fit, with headroom, for a whole dwell without a break, and at
//! least a dwell after the last change. So steps up are at least a dwell apart, and the steps down exceed the
//! steps up by less than the number of levels: the number of changes is bounded, whatever the costs are.
//!
//! No stop, disarm or reflex depends on the budget. When even the lowest permitted level does not fit, the
//! budget is exhausted: quality cannot drop further, results arrive late, and the reflexes handle that.

use crate::base::plan::{BudgetPlan, QUALITY_LEVELS, QualityLevel};
use crate::base::time::{Instant, Span};
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};

/// Weight of a measurement that is below the estimate. A slow run is nearly forgotten after about 40
/// cycles, which is two seconds of a 20 Hz field. With half the weight, an outlier would cost quality for
/// twice as long; with twice the weight, a machine that is slow in every tenth cycle would look like a fast
/// one.
const FORGET: f64 = 1.0 / 16.0;

/// Measurements are capped at this multiple of the target: a hang of a minute says no more about the next
/// cycle than a cycle of that length, and must not take longer to forget. No two levels differ by as much as
/// a factor of ten.
const WORST_TARGETS: u64 = 10;

/// The estimate of a better level that was too expensive decays towards the present level's cost with a time
/// constant of this many dwells; otherwise that level would never be tried again. With half as many, a level
/// that does not fit would cause a late cycle every few seconds; with twice as many, a single error would
/// take long to correct.
const RETRY_DWELLS: f64 = 8.0;

/// Each failed step up doubles the time until the next try, up to this many times: with a dwell of a second,
/// from seconds to minutes. A machine that got faster is still noticed without delay, because the cycles at
/// the present level show it.
const MOST_DOUBLINGS: u32 = 6;

/// Chooses the level.
#[derive(Clone, Debug)]
pub struct Budget {
    plan: BudgetPlan,
    quality: QualityLevel,
    /// What a cycle would cost now, in nanoseconds, by level; `None`: never run.
    cost: [Option<f64>; QUALITY_LEVELS],
    /// The level that the last step up led to, until its first cycle is measured.
    proving: Option<QualityLevel>,
    /// When the last step up was taken; cleared when it has held for a dwell or failed.
    stepped_up_at: Option<Instant>,
    /// Steps up that failed, minus those that held; 0 to [`MOST_DOUBLINGS`].
    failures: u32,
    /// The level of the cycle in progress, as chosen when it was launched.
    running: QualityLevel,
    /// The cycle in progress is already known to be too slow.
    overdue: bool,
    /// The last finished cycle was too slow.
    overran: bool,
    /// Since when the better level has been estimated to fit, without a break or a change.
    fits_since: Option<Instant>,
    now: Option<Instant>,
    changes: u64,
    exhausted: bool,
    /// Every cycle runs at this level, whatever it costs.
    held: Option<QualityLevel>,
}

impl Budget {
    /// A budget without measurements, at the best level.
    pub fn new(plan: BudgetPlan) -> Budget {
        Budget {
            plan,
            quality: QualityLevel::BEST,
            cost: [None; QUALITY_LEVELS],
            proving: None,
            stepped_up_at: None,
            failures: 0,
            running: QualityLevel::BEST,
            overdue: false,
            overran: false,
            fits_since: None,
            now: None,
            changes: 0,
            exhausted: false,
            held: None,
        }
    }

    /// A budget that stays at `quality`, for measurements.
    pub fn held_at(self, quality: QualityLevel) -> Budget {
        Budget { quality, running: quality, held: Some(quality), ..self }
    }

    /// Records that a cycle at `quality` took `span`. Returns the level for the next one, which may be
    /// launched now.
    pub fn record(&mut self, quality: QualityLevel, span: Span, now: Instant) -> QualityLevel {
        if let Some(held) = self.held {
            return held;
        }
        let elapsed = self.pass_time(now);
        self.soften(elapsed);
        let slow = span > self.plan.target;
        let learn = |budget: &mut Budget| {
            budget.learn(quality, span);
            budget.proving = budget.proving.filter(|proving| *proving != quality);
        };
        if slow {
            self.step_down(quality, learn);
        } else {
            learn(self);
            self.exhausted = false;
            self.consider_step_up(now);
        }
        (self.overran, self.overdue, self.running) = (slow, false, self.quality);
        self.quality
    }

    /// A cycle has been running for `running_for` and has not ended. Returns the level for the next one. May
    /// be called in every slot: one overrun counts once, here or in [`Budget::record`].
    pub fn overdue(&mut self, running_for: Span, now: Instant) -> QualityLevel {
        if let Some(held) = self.held {
            return held;
        }
        self.pass_time(now);
        if running_for > self.plan.target {
            let running = self.running;
            // The cycle has not ended, so this is only a lower bound on its cost.
            let known = self.known(running).map_or(Span::ZERO, |cost| Span::from_nanos(cost as u64 + 1));
            self.step_down(running, |budget| budget.learn(running, running_for.max(known)));
            self.overdue = true;
        }
        self.quality
    }

    /// The level for the next cycle.
    pub fn quality(&self) -> QualityLevel {
        self.quality
    }

    /// Whether not even the lowest permitted level fits the target.
    pub fn exhausted(&self) -> bool {
        self.exhausted
    }

    /// Changes of level so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The estimated duration of a cycle at `quality` now; `None` if it never ran.
    pub fn estimate(&self, quality: QualityLevel) -> Option<Span> {
        self.cost[quality.index()].map(|cost| Span::from_nanos(cost as u64))
    }

    /// Advances the clock to `now` and returns the time that passed.
    fn pass_time(&mut self, now: Instant) -> Span {
        let before = self.now.unwrap_or(now);
        let elapsed = now.since(before);
        self.now = Some(now.max(before));
        elapsed
    }

    /// Adds one measurement.
    fn learn(&mut self, quality: QualityLevel, span: Span) {
        let index = quality.index();
        let worst = nanos(self.plan.target.times(WORST_TARGETS));
        let measured = nanos(span).min(worst);
        if self.proving == Some(quality) {
            self.cost[index] = Some(measured);
            return;
        }
        let before = self.known(quality).unwrap_or(measured);
        let after = if measured > before { measured } else { before + (measured - before) * FORGET };
        self.cost[index] = Some(before);
        for cost in self.cost.iter_mut().flatten() {
            *cost = (*cost * (after / before)).clamp(1.0, worst);
        }
    }

    /// The estimated cost of `quality`. For a level that never ran, it is that of the nearest better level
    /// that did, which costs at least as much. `None`: there is none.
    fn known(&self, quality: QualityLevel) -> Option<f64> {
        self.cost[..=quality.index()].iter().rev().find_map(|cost| *cost)
    }

    /// Lowers the estimates of better levels a little, as time passes at the present level.
    fn soften(&mut self, elapsed: Span) {
        let Some(present) = self.cost[self.quality.index()] else { return };
        let dwells = RETRY_DWELLS * f64::from(1 << self.failures);
        let timeout = (self.plan.dwell.as_secs_f64() * dwells).max(f64::MIN_POSITIVE);
        let share = (elapsed.as_secs_f64() / timeout).min(1.0);
        for cost in self.cost[..self.quality.index()].iter_mut().flatten() {
            *cost -= (*cost - present).max(0.0) * share;
        }
    }

    /// A cycle at `slow` takes too long: steps down to the first level that is estimated to fit, or to a
    /// level without an estimate, which is tried. Never steps up. `learn` adds the measurement: before the
    /// choice if the previous cycle was slow too, else after it.
    fn step_down(&mut self, slow: QualityLevel, learn: impl FnOnce(&mut Budget)) {
        self.fits_since = None;
        if self.stepped_up_at.take().is_some() {
            self.failures = (self.failures + 1).min(MOST_DOUBLINGS);
        }
        self.exhausted = slow >= self.plan.floor;
        let again = self.overran;
        let choose = |budget: &Budget| {
            let mut next = slow.cheaper();
            while budget.estimate(next).is_some_and(|span| span > budget.plan.target)
                && next < budget.plan.floor
            {
                next = next.cheaper();
            }
            next.min(budget.plan.floor).max(budget.quality)
        };
        let next = if again {
            learn(self);
            choose(self)
        } else if self.overdue {
            learn(self);
            self.quality // this cycle was already counted
        } else {
            let next = choose(self);
            learn(self);
            next
        };
        self.change(next);
    }

    fn consider_step_up(&mut self, now: Instant) {
        if self.stepped_up_at.is_some_and(|at| now.since(at) >= self.plan.dwell) {
            self.stepped_up_at = None;
            self.failures = self.failures.saturating_sub(1);
        }
        let better = self.quality.better();
        let limit = nanos(self.plan.target) * f64::from(self.plan.headroom);
        let fits = better < self.quality && self.cost[better.index()].is_none_or(|cost| cost <= limit);
        if !fits {
            self.fits_since = None;
            return;
        }
        let since = *self.fits_since.get_or_insert(now);
        if now.since(since) >= self.plan.dwell {
            self.fits_since = None;
            self.change(better);
            self.proving = Some(better);
            self.stepped_up_at = Some(now);
        }
    }

    fn change(&mut self, quality: QualityLevel) {
        if quality != self.quality {
            self.quality = quality;
            self.changes += 1;
        }
    }
}

impl Remembers for Budget {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        archive.part("budget");
        let Budget {
            plan: _,
            quality,
            cost,
            proving,
            stepped_up_at,
            failures,
            running,
            overdue,
            overran,
            fits_since,
            now,
            changes: _,
            exhausted,
            held: _,
        } = self;
        remember!(archive: quality, cost, proving, stepped_up_at, failures, running);
        remember!(archive: overdue, overran, fits_since, now, exhausted);
        archive.demand("failures", *failures <= MOST_DOUBLINGS)
    }
}

/// A span as a cost; never zero, because costs are divided by each other.
fn nanos(span: Span) -> f64 {
    (span.as_nanos() as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, uniform};
    use crate::decision::fixture::{at, ms};

    /// Time between two cycles.
    const CYCLE: Span = ms(50);
    /// What each level costs on an idle machine, microseconds; the best level takes half of the target.
    const IDLE: [u64; QUALITY_LEVELS] = [5_000, 4_600, 4_200, 4_000, 3_300, 800];

    fn plan() -> BudgetPlan {
        BudgetPlan { target: ms(10), headroom: 0.8, dwell: ms(1_000), floor: QualityLevel::WORST }
    }

    fn quality(number: u8) -> QualityLevel {
        QualityLevel::new(number).unwrap()
    }

    /// A machine that runs cycles under a budget.
    struct Machine {
        budget: Budget,
        now: Instant,
        slow_cycles: usize,
    }

    impl Machine {
        fn new(plan: BudgetPlan) -> Machine {
            Machine { budget: Budget::new(plan), now: at(0), slow_cycles: 0 }
        }

        /// One cycle on a machine that is `slowness` times as slow as an idle one.
        fn cycle(&mut self, slowness: f64) -> u8 {
            let quality = self.budget.quality();
            let span = Span::from_nanos((IDLE[quality.index()] as f64 * 1e3 * slowness) as u64);
            self.slow_cycles += usize::from(span > self.budget.plan.target);
            self.now += CYCLE;
            self.budget.record(quality, span, self.now).index() as u8
        }

        /// Runs `seconds` of cycles and returns the level at the end.
        fn run(&mut self, seconds: u64, slowness: f64) -> u8 {
            let cycles = seconds * 1_000_000_000 / CYCLE.as_nanos();
            (0..cycles).fold(0, |_, _| self.cycle(slowness))
        }
    }

    #[test]
    fn an_idle_machine_stays_at_the_best_level() {
        let mut machine = Machine::new(plan());
        assert_eq!(machine.run(60, 1.0), 0);
        assert_eq!((machine.budget.changes(), machine.slow_cycles), (0, 0));
    }

    #[test]
    fn one_outlier_costs_one_level_for_little_more_than_a_dwell() {
        let mut machine = Machine::new(plan());
        machine.run(10, 1.0);
        assert_eq!(machine.cycle(6.0), 1);
        assert_eq!(machine.run(1, 1.0), 1, "not before the dwell");
        assert_eq!(machine.run(5, 1.0), 0);
        assert_eq!((machine.budget.changes(), machine.slow_cycles), (2, 1));
    }

    #[test]
    fn a_tenfold_slowdown_is_handled_by_the_second_slow_cycle() {
        let mut machine = Machine::new(plan());
        // Go through all levels once, so that there are estimates; then recover.
        machine.run(2, 10.0);
        assert_eq!(machine.run(60, 1.0), 0);
        let slow_before = machine.slow_cycles;
        assert_eq!(machine.cycle(10.0), 1, "it may have been an outlier");
        assert_eq!(machine.cycle(10.0), 5, "it was not an outlier");
        assert_eq!(machine.slow_cycles - slow_before, 2);
        assert!(!machine.budget.exhausted());
    }

    #[test]
    fn unknown_levels_are_tried_one_by_one() {
        let mut machine = Machine::new(plan());
        let path: Vec<_> = (0..6).map(|_| machine.cycle(10.0)).collect();
        assert_eq!(path, [1, 2, 3, 4, 5, 5]);
    }

    #[test]
    fn quality_rises_one_level_per_dwell() {
        let mut machine = Machine::new(plan());
        machine.run(2, 10.0);
        assert_eq!(machine.budget.quality(), QualityLevel::WORST);
        let mut last_change = machine.now;
        let mut quality = machine.budget.quality();
        while machine.budget.quality() != QualityLevel::BEST {
            machine.cycle(1.0);
            assert!(machine.now < at(60_000), "stuck at {:?}", machine.budget.quality());
            if machine.budget.quality() != quality {
                assert_eq!(machine.budget.quality(), quality.better());
                assert!(machine.now.since(last_change) >= plan().dwell);
                (quality, last_change) = (machine.budget.quality(), machine.now);
            }
        }
    }

    #[test]
    fn a_level_that_does_not_fit_is_rarely_tried() {
        // (slowness, the best level that takes less than the target)
        for (slowness, best) in [(1.9, 0), (2.05, 1), (2.2, 2), (2.4, 3), (3.0, 4), (4.0, 5), (10.0, 5)] {
            let mut machine = Machine::new(plan());
            assert_eq!(machine.run(120, slowness), best, "{slowness} times as slow");
            let (slow, changes) = (machine.slow_cycles, machine.budget.changes());
            machine.run(480, slowness);
            let (slow, changes) = (machine.slow_cycles - slow, machine.budget.changes() - changes);
            assert!(slow <= 4 && changes <= 8, "{slow} late, {changes} changes in eight minutes");
        }
    }

    #[test]
    fn recovery_is_noticed_however_long_the_machine_was_slow() {
        let mut machine = Machine::new(plan());
        machine.run(600, 4.0);
        let failures = machine.budget.failures;
        assert_eq!(failures, MOST_DOUBLINGS, "every attempt failed");
        assert_eq!(machine.run(15, 1.0), 0, "five dwells, and the time to forget the slow cycles");
        assert_eq!(machine.budget.failures, failures - 5, "each step that held cancels a failure");
    }

    #[test]
    fn the_budget_stays_at_the_floor_and_reports_exhaustion() {
        let mut machine = Machine::new(BudgetPlan { floor: quality(2), ..plan() });
        assert_eq!(machine.run(5, 4.0), 2);
        assert!(machine.budget.exhausted());
        machine.run(1, 1.0);
        assert!(!machine.budget.exhausted());
    }

    #[test]
    fn a_hang_lowers_quality_before_it_ends_and_counts_once() {
        let mut machine = Machine::new(plan());
        machine.run(2, 10.0); // through all levels, so that there are estimates
        assert_eq!(machine.run(60, 1.0), 0);
        let (began, changes) = (machine.now, machine.budget.changes());
        for waited in (1..=3_000).step_by(10) {
            let chosen = machine.budget.overdue(ms(waited), began + ms(waited)).index();
            assert_eq!(chosen, usize::from(waited > 10), "after {waited} ms");
        }
        machine.now = began + ms(3_000);
        assert_eq!(machine.budget.record(QualityLevel::BEST, ms(3_000), machine.now).index(), 1);
        assert_eq!(machine.budget.changes() - changes, 1);
        assert_eq!(machine.run(10, 1.0), 0, "forgotten like any outlier");
    }

    #[test]
    fn a_slow_cycle_counts_fully_and_a_fast_one_by_a_sixteenth() {
        let mut budget = Budget::new(plan());
        for (span_us, thought_us) in [(4_000, 4_000), (8_000, 8_000), (4_800, 7_800), (7_800, 7_800)] {
            budget.record(QualityLevel::BEST, Span::from_micros(span_us), at(50));
            assert_eq!(budget.estimate(QualityLevel::BEST), Some(Span::from_micros(thought_us)));
        }
    }

    #[test]
    fn a_cycle_of_exactly_the_target_is_in_time() {
        let mut budget = Budget::new(plan());
        assert_eq!(budget.record(QualityLevel::BEST, ms(10), at(50)), QualityLevel::BEST);
        assert_eq!(budget.overdue(ms(10), at(60)), QualityLevel::BEST);
        // A level that is estimated to take exactly the target counts as fitting.
        let mut budget = Budget::new(plan());
        budget.cost = [Some(20e6), Some(10e6), Some(5e6), None, None, None];
        assert_eq!(budget.record(QualityLevel::BEST, ms(20), at(50)), quality(1));
    }

    #[test]
    fn better_levels_are_retried_later_after_each_failure() {
        for (dwell, failures) in [(ms(500), 0), (ms(3_000), 0), (ms(500), 3)] {
            let mut budget = Budget::new(BudgetPlan { dwell, ..plan() });
            budget.quality = quality(1);
            (budget.failures, budget.now) = (failures, Some(at(0)));
            budget.cost[..2].copy_from_slice(&[Some(20e6), Some(4e6)]);
            let whole = dwell.as_secs_f64() * RETRY_DWELLS * f64::from(1 << failures);
            budget.soften(Span::from_secs_f64(whole / 4.0));
            let cost = budget.cost[0].unwrap();
            assert!((cost - 16e6).abs() < 1e3, "a quarter of the way after a quarter of the time: {cost}");
        }
    }

    #[test]
    fn step_up_reduces_failures_only_after_a_full_dwell() {
        let mut budget = Budget::new(plan());
        (budget.failures, budget.stepped_up_at) = (2, Some(at(0)));
        budget.record(QualityLevel::BEST, ms(5), at(999));
        assert_eq!((budget.failures, budget.stepped_up_at), (2, Some(at(0))));
        budget.record(QualityLevel::BEST, ms(5), at(1_000));
        assert_eq!((budget.failures, budget.stepped_up_at), (1, None));
    }

    #[test]
    fn a_running_cycle_does_not_lower_the_estimate() {
        let mut machine = Machine::new(plan());
        machine.run(10, 1.0);
        let before = machine.budget.estimate(QualityLevel::BEST);
        for waited in 0..9 {
            machine.budget.overdue(ms(waited), machine.now + ms(waited));
        }
        assert_eq!(machine.budget.estimate(QualityLevel::BEST), before);
    }

    #[test]
    fn a_running_cycle_does_not_end_an_outlier() {
        let mut machine = Machine::new(plan());
        machine.cycle(8.0);
        let cost =
            machine.budget.estimate(quality(1)).or(machine.budget.estimate(QualityLevel::BEST)).unwrap();
        machine.cycle(8.0);
        let before = machine.budget.estimate(quality(1)).unwrap();
        assert!(cost > ms(30) && before > ms(30));
        machine.budget.overdue(ms(15), machine.now + ms(15));
        assert!(machine.budget.estimate(quality(1)).unwrap() + Span::from_nanos(1) >= before);
    }

    #[test]
    fn a_hang_counts_as_no_more_than_ten_targets() {
        let mut machine = Machine::new(plan());
        machine.run(2, 10.0); // through all levels
        machine.run(60, 1.0);
        assert_eq!(machine.budget.quality(), QualityLevel::BEST);
        machine.budget.record(QualityLevel::BEST, ms(60_000), machine.now);
        assert_eq!(machine.budget.estimate(QualityLevel::BEST), Some(ms(100)), "ten targets");
        // The levels keep their proportions, so a cheaper level is still known to be cheaper.
        assert_eq!(machine.budget.estimate(quality(4)), Some(ms(66)));
    }

    #[test]
    fn headroom_must_last_an_uninterrupted_dwell() {
        let mut machine = Machine::new(plan());
        machine.cycle(3.0);
        assert_eq!(machine.budget.quality(), quality(1));
        // Every half second a cycle is in time but leaves no headroom, so no dwell completes.
        for step in 0..600 {
            let slowness = if step % 10 == 9 { 2.0 } else { 1.0 };
            assert_eq!(machine.cycle(slowness), 1, "cycle {step}");
        }
        assert_eq!(machine.run(3, 1.0), 0);
    }

    #[test]
    fn an_outlier_right_after_a_step_up_does_not_bar_the_level() {
        let mut machine = Machine::new(plan());
        machine.cycle(3.0);
        while machine.budget.quality() != QualityLevel::BEST {
            machine.cycle(1.0);
        }
        assert_eq!(machine.cycle(6.0), 1, "the first cycle after the step up");
        assert_eq!(machine.run(10, 1.0), 1, "estimated to be too expensive");
        assert_eq!(machine.run(60, 1.0), 0);
    }

    #[test]
    fn quality_never_oscillates_whatever_the_costs() {
        for seed in 0..40 {
            let mut budget = Budget::new(plan());
            let mut ups: Vec<Instant> = Vec::new();
            let mut downs = 0;
            let mut now = at(0);
            for cycle in 0..2_000 {
                let before = budget.quality();
                now += CYCLE;
                // Costs from almost nothing to ten targets, independent of the level.
                let draw = uniform(seed, Stream::Stimulus, cycle);
                let span = Span::from_micros((10_f64.powf(1.0 + 4.0 * draw)) as u64);
                let quality = budget.record(before, span, now);
                if quality < before {
                    assert_eq!(quality, before.better());
                    assert!(ups.last().is_none_or(|&last| now.since(last) >= plan().dwell));
                    ups.push(now);
                }
                if span > plan().target && before < QualityLevel::WORST {
                    assert!(quality > before, "a step down is immediate");
                }
                downs += usize::from(quality > before);
            }
            assert!(downs < ups.len() + QUALITY_LEVELS);
            assert_eq!(budget.changes(), (downs + ups.len()) as u64);
        }
    }

    #[test]
    fn a_held_level_is_never_left() {
        for quality in [QualityLevel::BEST, QualityLevel::WORST] {
            let mut budget = Budget::new(plan()).held_at(quality);
            assert_eq!(budget.quality(), quality);
            for (step, span) in [ms(1), ms(500), ms(1), ms(1)].into_iter().enumerate() {
                assert_eq!(budget.record(quality, span, at(100 * step as u64)), quality);
                assert_eq!(budget.overdue(ms(900), at(100 * step as u64 + 50)), quality);
            }
            assert_eq!((budget.quality(), budget.changes(), budget.exhausted()), (quality, 0, false));
        }
    }

    #[test]
    fn infinite_and_zero_durations_keep_estimates_finite() {
        let mut budget = Budget::new(plan());
        for (step, span) in [0, u64::MAX, 0, 0, u64::MAX, u64::MAX, 1].into_iter().enumerate() {
            budget.record(budget.quality(), Span::from_nanos(span), at(50 * step as u64));
            let costs: Vec<_> = budget.cost.iter().flatten().collect();
            assert!(costs.iter().all(|cost| cost.is_finite() && **cost >= 1.0), "{costs:?}");
        }
    }
}
