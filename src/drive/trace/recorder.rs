//! Turns records into a summary and a digest. Runs on a non-real-time thread, so it may allocate.

use super::{LatenessPeaks, Record, StepDown, Summary};
use crate::base::command::MAX_MOTORS;
use crate::base::frame::Health;
use crate::base::plan::{Cause, Limits};
use crate::base::time::Span;
use crate::decision::mode::Mode;
use crate::decision::smooth::Smoothness;
use crate::field::remote::LinkTimes;
use crate::field::{DeviceTimes, EngineState};
use blake3::Hasher;
use hdrhistogram::Histogram;

/// Slots at the start whose allocations do not count: the first use of a thread-local, a lazily bound symbol
/// or a waker may allocate.
const WARM_UP_SLOTS: u64 = 100;

/// Longest time that a histogram resolves, in nanoseconds; anything longer is recorded as this value.
const LONGEST_NS: u64 = 60_000_000_000;

/// Everything that is counted over a run.
pub struct Recorder {
    digest: Hasher,
    summary: Summary,
    /// From the scheduled slot to the start of work.
    pub release_late: Histogram<u64>,
    /// From the start of work to its end.
    pub exec: Histogram<u64>,
    /// From the scheduled slot to the command on the wire.
    pub end_late: Histogram<u64>,
    /// Compute time of field cycles that were answered.
    pub field: Histogram<u64>,
    /// From the slot that requested a cycle to its answer.
    pub answer: Histogram<u64>,
    /// The parts of a cycle that a GPU computed, in the order of `DeviceTimes::PARTS`.
    pub device: [Histogram<u64>; DeviceTimes::PARTS.len()],
    /// The parts of a cycle that a brain on another computer computed, in the order of `LinkTimes::PARTS`.
    pub link: [Histogram<u64>; LinkTimes::PARTS.len()],
    /// When the loop was late, and how late.
    pub lateness_peaks: LatenessPeaks,
    /// How smooth each motor's commands were while they came from the field or a reflex.
    pub smoothness: heapless::Vec<Smoothness, MAX_MOTORS>,
}

/// A histogram of nanoseconds up to a minute, three significant digits.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds that the library accepts")
}

/// Adds `span` to `histogram`.
pub fn note(histogram: &mut Histogram<u64>, span: Span) {
    histogram.saturating_record(span.as_nanos());
}

impl Recorder {
    /// An empty recorder for `motors` motors that are commanded every `period`.
    pub fn new(period: Span, motors: usize) -> Recorder {
        Recorder {
            smoothness: (0..motors.min(MAX_MOTORS)).map(|_| Smoothness::new(period)).collect(),
            digest: Hasher::new(),
            summary: Summary::default(),
            release_late: latency_histogram(),
            exec: latency_histogram(),
            end_late: latency_histogram(),
            field: latency_histogram(),
            answer: latency_histogram(),
            device: std::array::from_fn(|_| latency_histogram()),
            link: std::array::from_fn(|_| latency_histogram()),
            lateness_peaks: LatenessPeaks::default(),
        }
    }

    /// Adds one record.
    pub fn absorb(&mut self, record: &Record) {
        self.count(record);
        self.lateness_peaks.absorb(record);
        note(&mut self.release_late, record.began.since(record.slot));
        note(&mut self.exec, record.ended.since(record.began));
        for wire in record.receipts.iter().filter(|wire| wire.complete) {
            note(&mut self.end_late, wire.at.since(wire.slot));
        }
        // A cycle without an answer has no compute time.
        if let Some(field) = record.field.as_ref().filter(|field| field.response.is_some()) {
            note(&mut self.field, field.span);
            note(&mut self.answer, field.answer);
            let parts = field.times.iter().flat_map(DeviceTimes::parts);
            self.device.iter_mut().zip(parts).for_each(|(histogram, part)| note(histogram, part));
            let times = field.link.and_then(|link| link.times);
            let parts = times.iter().flat_map(LinkTimes::parts);
            self.link.iter_mut().zip(parts).for_each(|(histogram, part)| note(histogram, part));
        }
        if record.command.source.may_move() {
            for (smoothness, command) in self.smoothness.iter_mut().zip(record.command.used()) {
                smoothness.push(*command);
            }
        }
        digest_record(&mut self.digest, record);
    }

    fn count(&mut self, record: &Record) {
        let summary = &mut self.summary;
        summary.slots_run += 1;
        summary.slots_skipped += record.lost;
        summary.slots_at_level[record.quality.index()] += 1;
        for cause in Cause::ALL {
            if record.tripped & cause.bit() != 0 {
                summary.trips[cause as usize] += 1;
            }
        }
        let before = summary.last.as_ref().map(|last| last.limits);
        summary.forward_stops += u64::from(stops_forward_motion(before, record.limits));
        summary.field_results += record.field.is_some_and(|f| f.response.is_some()) as u64;
        if record.index >= WARM_UP_SLOTS
            && let Some(allocations) = record.allocations
        {
            summary.allocations = Some(summary.allocations.unwrap_or(0) + allocations);
            summary.slots_counted_for_allocations += 1;
        }
        if let Some(step) = summary.last.as_ref().and_then(|last| StepDown::between(last, record)) {
            summary.stepped_down = Some(step);
        }
        if let Some(field) = record.field {
            let was_running = summary.engine.is_none_or(|state| state == EngineState::Running);
            summary.failovers += (was_running && field.state != EngineState::Running) as u64;
            (summary.engine, summary.link) = (Some(field.state), field.link);
            let answer = field.response.map(|response| (response, record.slot - field.age));
            summary.answer = answer.or(summary.answer);
            // The end of the run cancels the goal; the outcome reported is the one known before that.
            if record.mode != Mode::Stopped {
                summary.goal = field.goal.or(summary.goal);
            }
        }
        summary.last = Some(record.clone());
    }

    /// The counts so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Digest of every record so far: the values that were sensed, decided and commanded in each slot. Times
    /// are left out, so repeating a run in virtual time gives the same digest, and one thread gives the same
    /// digest as two.
    pub fn digest(&self) -> String {
        self.digest.finalize().to_hex().to_string()
    }
}

/// Whether the limits of a slot forbid driving forwards, and those of the slot before it did not.
fn stops_forward_motion(before: Option<Limits>, now: Limits) -> bool {
    now.forward <= 0.0 && before.is_some_and(|before| before.forward > 0.0)
}

fn digest_record(digest: &mut Hasher, record: &Record) {
    digest.update(&record.index.to_le_bytes());
    digest.update(&record.lost.to_le_bytes());
    for sample in record.frame.used() {
        digest.update(&sample.value.to_bits().to_le_bytes());
        digest.update(&[health_code(sample.health)]);
    }
    digest.update(&record.active.to_le_bytes());
    digest.update(&[record.mode.code(), record.quality.index() as u8, record.command.source as u8]);
    for motor in record.command.used() {
        digest.update(&motor.to_bits().to_le_bytes());
    }
    if let Some(response) = record.field.and_then(|field| field.response) {
        digest.update(&response.cycle.to_le_bytes());
        for score in response.scores.iter().chain(&response.motors) {
            digest.update(&score.to_bits().to_le_bytes());
        }
    }
}

/// One byte for each health. The codes are fixed: digests depend on them.
fn health_code(health: Health) -> u8 {
    match health {
        Health::Never => 0,
        Health::Good => 1,
        Health::Stale => 2,
        Health::Bad(_) => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reflex_that_only_slows_the_robot_stops_nothing() {
        let slow = Limits { forward: 0.4, ..Limits::FREE };
        let no_forward = Limits { forward: 0.0, ..Limits::FREE };
        let stops = |slots: &[Limits]| {
            let before = std::iter::once(None).chain(slots.iter().copied().map(Some));
            before.zip(slots).filter(|(before, now)| stops_forward_motion(*before, **now)).count()
        };
        assert_eq!(stops(&[Limits::STILL, Limits::STILL, Limits::FREE]), 0, "it had not yet begun");
        assert_eq!(stops(&[Limits::FREE, slow, slow, Limits::FREE]), 0);
        // The same cause slows the robot first and then stops it, twice: one trip, two stops.
        assert_eq!(stops(&[Limits::FREE, slow, no_forward, no_forward, slow, no_forward, Limits::FREE]), 2);
        assert_eq!(stops(&[Limits::FREE, Limits::STILL, no_forward]), 1, "one stop with two causes");
    }
}
