//! A long drive that checks that slots add up, writes stay on the grid, and memory and files do not grow.

use super::course::RowContext;
use super::process;
use super::record::Record;
use super::scene::{self, Scene};
use super::verdict::RowResult;
use ganglion::base::time::{Instant, Span};
use rustix::process::Signal;
use serde_json::Value;
use std::io;

/// Time until memory has settled, and length of the two periods that are compared.
const WARM: Span = Span::from_millis(60_000);
/// Allowed growth of the resident memory. A buffer that grows by a frame per slot would grow more than 100
/// times as much.
const LEAK_KB: u64 = 256;
/// Allowed change of the writes' phase on the grid from the first minute to the last.
const DRIFT: Span = Span::from_micros(500);
/// Share of slots that may be skipped.
const SKIPPED: f64 = 0.001;

/// Drives for this many seconds.
pub fn drive(place: &mut RowContext<'_>, seconds: u64) -> io::Result<RowResult> {
    let mut outcome = RowResult::default();
    let bench = &mut *place.bench;
    let mut scene = Scene::driving(bench, place.board, place.folder, 9)?;
    let begun = bench.now();
    bench.wait_until(begun + WARM);
    let id = scene.runtime.id();
    let before = Holdings::of(id);
    let early = bench.seen(|record| phase(record, begun, begun + WARM, bench.board().period));
    let over = begun + Span::from_millis(1000 * seconds);
    // This takes minutes of host time, so the progress is shown.
    for share in 1..=10 {
        let at = begun + Span::from_millis(100 * seconds * share);
        bench.wait_until(at);
        println!("     soak: {} of {seconds} virtual s", seconds * share / 10);
    }
    let after = Holdings::of(id);
    let late = bench.seen(|record| phase(record, over - WARM, over, bench.board().period));
    outcome.demand(!scene.runtime.has_ended()?, || "the runtime ended by itself".into());
    holds(before, after, &mut outcome);
    drifts(early, late, bench.board().period, &mut outcome);
    scene.runtime.signal(Signal::CONT)?;
    let report = scene.end(bench, &mut outcome)?;
    adds_up(&report, seconds, &mut outcome);
    let world = bench.act(|far, now, _| far.report(now))?;
    outcome.demand(world.distance_m > 1.0, || "the car hardly moved".into());
    scene::check_long_drive_rules(bench, &mut outcome)?;
    Ok(outcome)
}

/// Resources of a process.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    resident_kb: Option<u64>,
    locked_kb: Option<u64>,
    files: Option<usize>,
}

impl Holdings {
    fn of(id: u32) -> Holdings {
        Holdings {
            resident_kb: process::status(id, "VmRSS"),
            locked_kb: process::status(id, "VmLck"),
            files: process::open_files(id),
        }
    }
}

fn holds(before: Holdings, after: Holdings, outcome: &mut RowResult) {
    let (Some(first), Some(last)) = (before.resident_kb, after.resident_kb) else {
        return outcome.fault("the runtime's memory cannot be read: it has ended");
    };
    outcome.note(format!("VmRSS {first} -> {last} kB, VmLck {:?}, files {:?}", after.locked_kb, after.files));
    outcome.figure("resident_growth_kb", last as f64 - first as f64);
    outcome.demand(last <= first + LEAK_KB, || format!("memory grew from {first} to {last} kB"));
    outcome.demand(after.locked_kb.is_some_and(|locked| locked > 0), || "no memory is locked".into());
    outcome.demand(before.files == after.files, || format!("files {:?} -> {:?}", before.files, after.files));
}

/// Median position of the pulses within a period, counted from the clock's zero.
fn phase(record: &Record, from: Instant, to: Instant, period: Span) -> Option<u64> {
    let within = record.pulses().iter().filter(|pulse| (from..to).contains(&pulse.start));
    let mut phases: Vec<u64> = within.map(|pulse| pulse.start.as_nanos() % period.as_nanos()).collect();
    // Relative to the first position, because the median is meaningless if positions lie on both sides of the
    // period's end.
    let first = *phases.first()?;
    let half = period.as_nanos() / 2;
    phases
        .iter_mut()
        .for_each(|phase| *phase = (*phase + period.as_nanos() + half - first) % period.as_nanos());
    phases.sort_unstable();
    Some((phases[phases.len() / 2] + first + half) % period.as_nanos())
}

fn drifts(early: Option<u64>, late: Option<u64>, period: Span, outcome: &mut RowResult) {
    let (Some(early), Some(late)) = (early, late) else {
        return outcome.fault("no commands on the wire in the first or the last minute");
    };
    let apart = early.abs_diff(late).min(period.as_nanos() - early.abs_diff(late));
    let apart = Span::from_nanos(apart);
    outcome.figure("drift_us", apart.as_micros_f64());
    outcome.note(format!("drift {:.1} virtual us", apart.as_micros_f64()));
    outcome.demand(apart <= DRIFT, || {
        format!("writes moved by {:.1} virtual us on the grid", apart.as_micros_f64())
    });
}

fn adds_up(report: &Value, seconds: u64, outcome: &mut RowResult) {
    let number = |key: &str| report[key].as_f64().unwrap_or(f64::NAN);
    let [run, skipped] = ["slots_run", "slots_skipped"].map(number);
    let [elapsed, period] = ["elapsed_s", "period_s"].map(number);
    outcome.note(format!("{run} slots run, {skipped} skipped"));
    outcome.figure("slots_run", run);
    outcome.figure("slots_skipped", skipped);
    let due = elapsed / period;
    outcome.demand((run + skipped - due).abs() < 0.5, || format!("{run} + {skipped} slots, {due} due"));
    outcome.demand(elapsed >= seconds as f64, || format!("ran for {elapsed} s of {seconds} s"));
    outcome.demand(skipped <= SKIPPED * run, || format!("{skipped} slots skipped"));
}

#[cfg(test)]
mod tests {
    use super::super::wire::Happening;
    use super::super::wire::tests::event;
    use super::*;
    use ganglion::deploy::board;

    #[test]
    fn a_phase_is_measured_across_the_end_of_a_period() {
        let board = board::built_in("picarx-v4").unwrap().unwrap().board;
        let mut record = Record::new(&board);
        for nth in 1..100_u64 {
            let at = nth * 10_000_000 + (nth % 3) * 1000 - 1000;
            record.take(&event(Happening::Write, 0x14, at, &[0x2D, 8, 0]));
        }
        let all = Instant::from_nanos(u64::MAX);
        let median = phase(&record, Instant::ZERO, all, Span::from_millis(10));
        assert_eq!(median, Some(0));
        assert_eq!(phase(&record, all, all, Span::from_millis(10)), None);
    }

    #[test]
    fn drift_wraps_around_and_counts_as_a_fault() {
        let judged = |early, late| {
            let mut outcome = RowResult::default();
            drifts(Some(early), Some(late), Span::from_millis(10), &mut outcome);
            outcome.passed()
        };
        assert!(judged(9_900_000, 100_000) && !judged(0, 600_000));
    }

    #[test]
    fn unbalanced_slot_counts_are_a_fault() {
        let judged = |run: u64| {
            let mut outcome = RowResult::default();
            let report = serde_json::json!({
                "slots_run": run, "slots_skipped": 0, "elapsed_s": 10.0, "period_s": 0.01,
            });
            adds_up(&report, 10, &mut outcome);
            outcome.passed()
        };
        assert!(judged(1000) && !judged(999));
    }
}
