//! Measures what a recorder costs the loop: a run alternates between blocks with and without a recorder.

use super::ended;
use super::verdict::Row;
use crate::base::plan::RtPlan;
use crate::base::time::{Clock, Span};
use crate::drive::record::{RecordSender, Recording, RecordingStatus};
use crate::drive::trace::{CheckpointTap, Latency, ReadingTap, latency_histogram, note};
use crate::runtime::robot::Robot;
use crate::runtime::tick::Tick;
use crate::system::executor::{END_PATIENCE, Threads};
use crate::system::rt::heap::{allocations_here, allocations_since};
use crate::system::rt::{Granted, Role, become_real_time, thread_time};
use hdrhistogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// Length of a block: so short that the load of a shared machine hardly changes from one block to the next,
/// but long compared with the first slot, which finds the caches as the other kind of block left them.
const TURN: Span = Span::from_millis(500);
/// Number of blocks at the start that do not count: the robot sets up its devices and makes its first-use
/// allocations.
const WARM_UP_TURNS: u64 = 4;
/// How often the non-real-time thread drains the trace, as in a run.
const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// How long to wait for the disk at the end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The recorder may add at most this to the median time of a tick, microseconds.
const MORE_WORK_US: f64 = 0.5;
/// With a recorder, the p99 of the wake-ups' lateness may be at most this many times the p99 without one.
const LATER: f64 = 1.1;
/// The recorder may use at most this share of a core at [`JUDGED_HZ`].
const CORE_SHARE: f64 = 0.02;
/// The recorder may write at most this many kilobytes per second at [`JUDGED_HZ`].
const KILOBYTES_PER_S: f64 = 100.0;
/// The tick rate to which [`CORE_SHARE`] and [`KILOBYTES_PER_S`] apply: that of the shipped boards.
const JUDGED_HZ: u32 = 100;

/// The figures of the loop in one kind of block.
pub struct Turns {
    /// Lateness of the loop's wake-ups.
    pub late: Histogram<u64>,
    /// Time of a tick from start to end, including what it sends to the recorder.
    pub work: Histogram<u64>,
    /// Heap allocations of the tick's thread; `None`: this build does not count them.
    pub allocations: Option<u64>,
}

/// The measurement.
pub struct RecordFigures {
    /// The blocks without a recorder.
    pub without: Turns,
    /// The blocks with one.
    pub with: Turns,
    /// Slots that were passed to the recorder, and the control period.
    pub passed: (u64, Span),
    /// Processor time that the non-real-time thread needed to pass them on.
    pub passing: Span,
    /// What the recorder wrote and lost.
    pub status: RecordingStatus,
    /// The rights that the system granted each thread.
    pub granted: Vec<(&'static str, Granted)>,
}

/// Measures `robot` for `length` of real time: half of it with a recorder.
pub fn bench_record(
    robot: Robot,
    (recording, mut sender): (Recording, RecordSender),
    clock: &Arc<dyn Clock>,
    length: Span,
    plan: RtPlan,
    interrupted: &Arc<AtomicBool>,
    mut watch: impl FnMut(f64),
) -> std::io::Result<RecordFigures> {
    let Robot { mut tick, workers, mut records, .. } = robot;
    let (period, mut recorder, taps) = (tick.grid().period(), tick.recorder(), sender.taps());
    let turn = (TURN.as_nanos() / period.as_nanos()).max(1);
    let mut threads = Threads::new();
    for started in workers {
        threads.start(started.worker, started.waker, clock.clone(), started.role, plan)?;
    }
    let (start, stop) = (clock.now(), interrupted.clone());
    let measurement = thread::Builder::new().name("tick".into()).spawn(move || {
        let granted = become_real_time(&plan, Role::Tick);
        let first = tick.clock.now() + period;
        tick.start_at(first);
        let until = first + TURN.times(WARM_UP_TURNS) + length;
        (measure(tick, taps, turn, |tick| tick.slot() < until && !ended(&stop)), granted)
    })?;
    let (mut passed, mut passing) = (0, Span::ZERO);
    loop {
        let is_last = measurement.is_finished();
        while let Ok(record) = records.pop() {
            recorder.absorb(&record);
            if has_recorder(record.index, turn) {
                let before = thread_time();
                sender.take(&record);
                (passed, passing) = (passed + 1, passing + thread_time().less(before));
            }
        }
        watch(clock.now().since(start).as_secs_f64() / (length + TURN.times(WARM_UP_TURNS)).as_secs_f64());
        if is_last {
            break;
        }
        thread::sleep(DRAIN_EVERY);
    }
    let joined = measurement.join();
    let mut granted = std::mem::take(&mut threads.granted);
    threads.end(END_PATIENCE);
    drop(sender);
    let ([without, with], own) = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    granted.insert(0, ("tick", own));
    let status = recording.end(TIMEOUT);
    Ok(RecordFigures { without, with, passed: (passed, period), passing, status, granted })
}

/// Whether slot number `index` is in a block with a recorder.
fn has_recorder(index: u64, turn: u64) -> bool {
    index / turn % 2 == 1
}

/// The work of the tick's thread: alternating blocks without and with a recorder.
fn measure(
    mut tick: Tick,
    taps: (ReadingTap, CheckpointTap),
    turn: u64,
    goes_on: impl Fn(&Tick) -> bool,
) -> [Turns; 2] {
    let clock = tick.clock.clone();
    let turns = || Turns { late: latency_histogram(), work: latency_histogram(), allocations: Some(0) };
    let (mut figures, mut taps, mut is_recorded) = ([turns(), turns()], Some(taps), false);
    while goes_on(&tick) {
        let (index, slot) = (tick.grid().index(), tick.slot());
        if has_recorder(index, turn) != is_recorded {
            is_recorded = !is_recorded;
            let (readings, checkpoints) = taps.take().unwrap_or_default();
            taps = Some(tick.record_to(readings, checkpoints));
        }
        clock.sleep_until(slot);
        let (before, began) = (allocations_here(), clock.now());
        tick.run();
        let (ended, allocations) = (clock.now(), allocations_since(before));
        if index >= WARM_UP_TURNS * turn {
            let figures = &mut figures[usize::from(is_recorded)];
            note(&mut figures.late, began.since(slot));
            note(&mut figures.work, ended.since(began));
            figures.allocations = figures.allocations.zip(allocations).map(|(sum, more)| sum + more);
        }
    }
    figures
}

impl RecordFigures {
    /// Recorded time, seconds.
    pub fn recorded_s(&self) -> f64 {
        let (slots, period) = self.passed;
        slots as f64 * period.as_secs_f64()
    }

    /// Each figure with its target, at this many control periods per second.
    pub fn rows(&self, hz: u32) -> Vec<Row> {
        let of = |turns: &Turns| (Latency::of(&turns.work), Latency::of(&turns.late));
        let ((work, late), (work_with, late_with)) = (of(&self.without), of(&self.with));
        let (p50, p50_with) = (work.map(|work| work.p50), work_with.map(|work| work.p50));
        let (p99, p99_with) = (late.map(|late| late.p99), late_with.map(|late| late.p99));
        let more = p50_with.zip(p50).map(|(with, without)| with - without);
        let times = |with: Option<f64>, without: Option<f64>| {
            with.zip(without).filter(|(_, without)| *without > 0.0).map(|(with, without)| with / without)
        };
        let per_tick =
            |turns: &Turns| turns.allocations.map(|sum| sum as f64 / turns.work.len().max(1) as f64);
        let per_s = |sum: f64| (self.passed.0 > 0).then(|| sum / self.recorded_s());
        let processor = self.passing.as_secs_f64() + self.status.processor_us as f64 / 1e6;
        let at_rate = |row: Row| match hz == JUDGED_HZ {
            true => row,
            false => Row { not_judged: Some(format!("the target is for {JUDGED_HZ} Hz")), ..row },
        };
        let rows = vec![
            Row::new("work of a tick, p50, without recorder", "us", p50),
            Row::new("work of a tick, p50, with recorder", "us", p50_with),
            Row::new("work of a tick, p50, with minus without", "us", more).at_most(Some(MORE_WORK_US)),
            Row::new("work of a tick, p50, with over without", "1", times(p50_with, p50)),
            Row::new("wake-up, p99, without recorder", "us", p99),
            Row::new("wake-up, p99, with recorder", "us", p99_with),
            Row::new("wake-up, p99, with over without", "1", times(p99_with, p99)).at_most(Some(LATER)),
            Row::new("heap allocations a tick, with recorder", "1", per_tick(&self.with)).at_most(Some(0.0)),
            at_rate(Row::new("recorder's share of a core", "1", per_s(processor)).at_most(Some(CORE_SHARE))),
            at_rate(
                Row::new("written", "kB/s", per_s(self.status.bytes as f64 / 1e3))
                    .at_most(Some(KILOBYTES_PER_S)),
            ),
            Row::new("slots lost by the recorder", "1", Some(self.status.lost() as f64)),
        ];
        rows.into_iter().map(Row::judged).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(us: u64, allocations: Option<u64>) -> Turns {
        let mut turns = Turns { late: latency_histogram(), work: latency_histogram(), allocations };
        (0..100).for_each(|_| note(&mut turns.work, Span::from_micros(us)));
        (0..100).for_each(|_| note(&mut turns.late, Span::from_micros(2 * us)));
        turns
    }

    fn figures() -> RecordFigures {
        RecordFigures {
            without: turns(20, Some(0)),
            with: turns(30, Some(50)),
            passed: (1_000, Span::from_millis(10)),
            passing: Span::from_millis(20),
            status: RecordingStatus { bytes: 500_000, processor_us: 30_000, ..RecordingStatus::default() },
            granted: Vec::new(),
        }
    }

    #[test]
    fn each_figure_is_compared_with_its_target() {
        let of = |figures: &RecordFigures, hz| {
            let judged = figures.rows(hz).into_iter().filter(|row| row.target.is_some());
            judged.map(|row| (row.measured.map(|value| (value * 1e3).round()), row.pass)).collect::<Vec<_>>()
        };
        let (missed, met) = (Some(false), Some(true));
        assert_eq!(
            of(&figures(), 100),
            [
                (Some(10_000.0), missed),
                (Some(1_500.0), missed),
                (Some(500.0), missed),
                (Some(5.0), met),
                (Some(50_000.0), met)
            ]
        );
        let at_another_rate: Vec<_> = of(&figures(), 1_000).into_iter().map(|(_, pass)| pass).collect();
        assert_eq!(at_another_rate, [missed, missed, missed, None, None]);
        let nothing = RecordFigures { with: turns(20, None), passed: (0, Span::ZERO), ..figures() };
        let passes: Vec<_> = of(&nothing, 100).into_iter().map(|(_, pass)| pass).collect();
        assert_eq!(passes, [met, met, missed, missed, missed], "unmeasured figures miss their targets");
    }
}
