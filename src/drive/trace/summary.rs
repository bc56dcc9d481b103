//! The figures of a run; `cli` turns them into text and JSON.

use super::Record;
use crate::base::plan::{Cause, QUALITY_LEVELS, QualityLevel};
use crate::base::time::{Instant, Span};
use crate::field::navigate::goals::GoalReport;
use crate::field::remote::LinkHealth;
use crate::field::{EngineState, FieldOutput};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts over a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Slots whose work was done.
    pub slots_run: u64,
    /// Slots that came due and were not run.
    pub slots_skipped: u64,
    /// Slots spent at each quality level.
    pub slots_at_level: [u64; QUALITY_LEVELS],
    /// How often each cause became active, by `Cause as usize`.
    pub trips: [u64; Cause::ALL.len()],
    /// How often the active causes together began to forbid driving forwards. A cause that only slows the
    /// robot, such as an obstacle that is near, trips without that; one that already slows it may stop it
    /// later without tripping again.
    pub forward_stops: u64,
    /// Field results with an answer.
    pub field_results: u64,
    /// Heap allocations of the tick thread after warm-up; `None`: not counted in this program.
    pub allocations: Option<u64>,
    /// Slots over which they were counted.
    pub slots_counted_for_allocations: u64,
    /// The newest record.
    pub last: Option<Record>,
    /// State of the engine after the newest result; `None` before the first.
    pub engine: Option<EngineState>,
    /// How often the engine stopped computing: it panicked, or its GPU or brain was lost.
    pub failovers: u64,
    /// State of the link to a brain on another computer, from the newest result.
    pub link: Option<LinkHealth>,
    /// The newest answer of the field, and the slot that requested it.
    pub answer: Option<(FieldOutput, Instant)>,
    /// The last time the budget lowered the quality; `None`: it never did.
    pub stepped_down: Option<StepDown>,
    /// What the robot does about its goal, from the newest result of a board that has a navigator.
    pub goal: Option<GoalReport>,
}

/// Why the budget lowered the quality of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepDown {
    /// In which slot.
    pub slot: Instant,
    /// The level that was too slow.
    pub from: QualityLevel,
    /// How long the cycle at that level took; `None`: it had not ended when its target time had passed.
    pub took: Option<Span>,
}

impl StepDown {
    /// The step down between two records, if there was one.
    pub(super) fn between(before: &Record, after: &Record) -> Option<StepDown> {
        let took = after.field.filter(|field| field.response.is_some()).map(|field| field.span);
        (after.quality > before.quality).then_some(StepDown { slot: after.slot, from: before.quality, took })
    }
}

impl Summary {
    /// How often each cause became active, by name; those that never did are left out.
    pub fn trips_by_name(&self) -> BTreeMap<&'static str, u64> {
        let named = Cause::ALL.iter().map(|&cause| (cause.name(), self.trips[cause as usize]));
        named.filter(|&(_, times)| times > 0).collect()
    }

    /// Heap allocations of the tick thread per slot; `None` where they are not counted or no slot has been
    /// counted yet.
    pub fn allocations_per_slot(&self) -> Option<f64> {
        let slots = self.slots_counted_for_allocations;
        self.allocations.filter(|_| slots > 0).map(|allocations| allocations as f64 / slots as f64)
    }
}

/// Percentiles in microseconds, without removal of outliers, and how many samples they are based on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
    /// Samples.
    pub n: u64,
}

impl Latency {
    /// The percentiles of a histogram of nanoseconds; `None` without a sample, because a percentile of an
    /// empty histogram would read as zero.
    pub fn of(histogram: &Histogram<u64>) -> Option<Latency> {
        if histogram.is_empty() {
            return None;
        }
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Some(Latency {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
            n: histogram.len(),
        })
    }
}
