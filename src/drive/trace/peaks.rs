//! The largest times of the loop in each tenth of a second. A histogram over a whole run does not show when a
//! slot was late.

use super::Record;
use crate::base::time::{Instant, Span};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Length of a stretch: viewers are told ten times a second.
const STRETCH: Span = Span::from_millis(100);
/// Stretches kept, a second of them: a reader that asks ten times a second misses none, however its requests
/// and the stretches are placed, and even if some requests are late.
const KEPT: usize = 10;

/// The largest times in a stretch of slots, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatenessPeak {
    /// Number of its last slot; tells one stretch from another.
    pub slot: u64,
    /// From the scheduled slot to the start of work.
    pub release_us: f64,
    /// From the start of work to its end.
    pub work_us: f64,
    /// From the scheduled slot to the command on the wire; `None`: no command was confirmed.
    pub wire_us: Option<f64>,
    /// Slots that came due and did not run.
    pub slots_lost: u64,
}

/// The newest stretches.
#[derive(Debug, Default)]
pub struct LatenessPeaks {
    /// The stretch that has not ended, and its first slot.
    open: Option<(Instant, LatenessPeak)>,
    ended: VecDeque<LatenessPeak>,
}

impl LatenessPeaks {
    /// Adds one record.
    pub(super) fn absorb(&mut self, record: &Record) {
        self.add(record.slot, LatenessPeak::of(record));
    }

    fn add(&mut self, slot: Instant, peak: LatenessPeak) {
        match &mut self.open {
            Some((began, open)) if slot.since(*began) < STRETCH => *open = open.with(peak),
            open => {
                let ended = open.replace((slot, peak));
                if ended.is_some() && self.ended.len() == KEPT {
                    self.ended.pop_front();
                }
                self.ended.extend(ended.map(|(_, peak)| peak));
            }
        }
    }

    /// The stretches that have ended, the newest last.
    pub fn ended(&self) -> Vec<LatenessPeak> {
        self.ended.iter().copied().collect()
    }
}

impl LatenessPeak {
    fn of(record: &Record) -> LatenessPeak {
        let wires = record.receipts.iter().filter(|wire| wire.complete);
        LatenessPeak {
            slot: record.index,
            release_us: record.began.since(record.slot).as_micros_f64(),
            work_us: record.ended.since(record.began).as_micros_f64(),
            wire_us: wires.map(|wire| wire.at.since(wire.slot).as_micros_f64()).reduce(f64::max),
            slots_lost: record.lost,
        }
    }

    /// Both stretches together.
    pub fn with(self, later: LatenessPeak) -> LatenessPeak {
        let wire = [self.wire_us, later.wire_us].into_iter().flatten();
        LatenessPeak {
            slot: later.slot,
            release_us: self.release_us.max(later.release_us),
            work_us: self.work_us.max(later.work_us),
            wire_us: wire.reduce(f64::max),
            slots_lost: self.slots_lost + later.slots_lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;

    #[test]
    fn a_late_slot_is_in_its_tenth_of_a_second_only() {
        let mut peaks = LatenessPeaks::default();
        let peak = |slot, release_us, slots_lost| LatenessPeak {
            slot,
            release_us,
            work_us: 20.0,
            wire_us: None,
            slots_lost,
        };
        for slot in 0..200 {
            let late = if slot == 154 { 900.0 } else { 60.0 };
            peaks.add(at(10 * slot), peak(slot, late, u64::from(slot == 158)));
        }
        let ended = peaks.ended();
        assert_eq!(
            ended.iter().map(|peak| peak.slot).collect::<Vec<_>>(),
            Vec::from_iter((99..190).step_by(10))
        );
        assert_eq!(ended[5..7], [peak(149, 60.0, 0), peak(159, 900.0, 1)]);
        let both = ended[5].with(LatenessPeak { wire_us: Some(300.0), ..ended[6] });
        assert_eq!(both, LatenessPeak { wire_us: Some(300.0), ..peak(159, 900.0, 1) });
        assert_eq!(ended[6].with(ended[7]), peak(169, 900.0, 1));
    }
}
