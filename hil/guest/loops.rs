//! The latency of closed loops: from an edge that the far side makes to the frame that sets a motor's pulse
//! to zero, both timestamped in the kernel. Each row measures 200 loops, or as many as `--loops` says, spread
//! over all phases of the runtime's periods.

use super::bench::Bench;
use super::course::RowContext;
use super::record::Record;
use super::rows::{From, Loop};
use super::scene::{self, Scene};
use super::trouble::Load;
use super::verdict::{Baseline, Latency, RowResult};
use ganglion::base::time::{Instant, Span};
use serde_json::Value;
use std::io;

/// Number of loops measured for one figure: two of them lie above the 99th percentile.
pub const TIMES: usize = 200;
/// Maximum number of attempts for each loop; those in which the motors are not running do not count as loops.
const ATTEMPTS: usize = 4;
/// Phases are spread over this time, a multiple of every fast period of the board.
const PHASES: Span = Span::from_millis(60);
/// If no loop closes for this long, the robot counts as stopped for good.
const STANDS: Span = Span::from_millis(15_000);
/// Golden ratio, in thousandths: phases at its multiples are spread evenly, however many there are.
const GOLDEN: u64 = 618;
/// The lean of the sample that must stop the car.
const OVER_DEG: f64 = 45.0;
/// Longest wait for the stop after an edge; a loop without a stop by then counts as this long.
const LATEST: Span = Span::from_millis(500);
/// The motors have been running for at least this long when a loop begins.
const RUNNING: Span = Span::from_millis(15);
/// An edge comes at least this long after its time was chosen; the load runs during the last part of that
/// time.
const LEAD: Span = Span::from_millis(12);
/// The load runs for this long before the edge, so that all of its processes have run.
const LOADED: Span = Span::from_millis(10);
/// A robot that is held for five seconds with only short releases is disarmed (`disarm_after_ms`), so from
/// time to time it is left alone for longer than the 200 ms that this board requires for settling.
const ALONE: Span = Span::from_millis(250);
const ALONE_EVERY: Span = Span::from_millis(3_000);
/// How long a loop presses its input.
const PRESSED: Span = Span::from_millis(8);
/// If a stop began this shortly before the edge, the edge was not its cause: a periodic poll read the sample
/// after its bytes were set but before its edge. Such a poll takes half of this time.
const UNDER_WAY: Span = Span::from_millis(1);
/// Time from setting the sample's bytes to its edge. If a periodic poll in between sees the sample too early,
/// the loop is not counted.
const AHEAD: Span = Span::from_micros(60);

/// Runs one row of `times` loops.
pub fn close(
    place: &mut RowContext<'_>,
    name: &str,
    closed: Loop,
    times: usize,
    baseline: &Baseline,
) -> io::Result<RowResult> {
    let mut outcome = RowResult::default();
    let bench = &mut *place.bench;
    let scene = Scene::driving(bench, place.board, place.folder, 5)?;
    let load = if closed.loaded { Some(Load::start()?) } else { None };
    bench.wait(Span::from_millis(200));
    load.as_ref().map_or(Ok(()), |load| load.work(false))?;
    let (mut begins, mut ends, mut stops) = (Vec::new(), Vec::new(), Vec::new());
    let (mut attempts, mut closed_at, mut alone_at) = (0, bench.now(), bench.now());
    while begins.len() < times && attempts < ATTEMPTS * times && bench.now().since(closed_at) < STANDS {
        attempts += 1;
        if bench.now().since(alone_at) > ALONE_EVERY {
            bench.wait(ALONE);
            alone_at = bench.now();
        }
        if let Some([begin, end, still]) = once(bench, closed.from, attempts as u64, load.as_ref())? {
            closed_at = bench.now();
            begins.push(begin);
            ends.push(end);
            stops.push(still);
        }
    }
    drop(load);
    outcome.demand(begins.len() == times, || {
        format!("{} loops closed in {attempts} attempts, {times} needed", begins.len())
    });
    judge(name, closed, Latency::of(begins), baseline, &mut outcome);
    outcome.latency(&format!("{name}.stop_on_wire"), Latency::of(ends));
    outcome.latency(&format!("{name}.still"), Latency::of(stops));
    let said = scene.end(bench, &mut outcome)?;
    outcome.note(format!("{} slots skipped", said["slots_skipped"]));
    own_work(&said, &mut outcome);
    scene::check_long_drive_rules(bench, &mut outcome)?;
    Ok(outcome)
}

/// Adds durations within a slot, as measured by the runtime: of the tick itself, and from the slot until the
/// command was on the wire.
fn own_work(report: &Value, outcome: &mut RowResult) {
    for (key, what) in [("exec", "a tick's own work"), ("end_late", "slot to the command's last bit")] {
        let measured = &report[format!("{key}_us")];
        let [p50, p99, max] = ["p50", "p99", "max"].map(|part| measured[part].as_f64().unwrap_or(f64::NAN));
        outcome.figure(&format!("{key}_p50_us"), p50);
        outcome.figure(&format!("{key}_p99_us"), p99);
        outcome.note(format!("{what}: p50 {p50:.1} p99 {p99:.1} max {max:.1} virtual us"));
    }
}

/// Compares the latency, from the cause to the first bit of the stop on the wire, with the gate and the
/// baseline.
fn judge(name: &str, closed: Loop, begins: Latency, baseline: &Baseline, outcome: &mut RowResult) {
    let [least, aim] = closed.gate_us.map(|us| us as f64);
    let p99 = begins.percentile(99);
    if closed.urgent {
        outcome.demand(p99 <= least, || format!("p99 {p99:.1} virtual us, at most {least} allowed"));
        outcome.note(format!("aim {aim} virtual us {}", if p99 <= aim { "reached" } else { "not reached" }));
        outcome.gate(name, begins, baseline);
    } else {
        outcome.demand(p99 > least, || {
            format!("p99 {p99:.1} virtual us: ordinary priority passes the gate of {least}")
        });
        outcome.latency(name, begins);
    }
}

/// Closes the loop once; returns the times from the edge to the first bit of the stop, to its last bit, and
/// to the end of motion. `None`: the motors were not running, or were stopping for an earlier reason.
fn once(bench: &mut Bench, from: From, nth: u64, load: Option<&Load>) -> io::Result<Option<[Span; 3]>> {
    let timeout = bench.now() + Span::from_millis(3000);
    if bench.until(timeout, |record| record.is_moving().then_some(())).is_none() {
        return Ok(None);
    }
    bench.wait(RUNNING);
    bench.seen(Record::begin_anew);
    let at = moment(bench.now() + LEAD, nth);
    if let Some(load) = load {
        bench.wait_until(at - LOADED);
        load.work(true)?;
    }
    let (line, level) = match from {
        From::Button => bench.act(|far, _, out| {
            far.press_at(true, at, out);
            far.press_at(false, at + PRESSED, out);
            far.button_line()
        })?,
        From::Imu => {
            bench.act(|far, _, _| far.announce(false))?;
            bench.wait_until(at - AHEAD);
            bench.act(|far, _, out| {
                far.sample_at(OVER_DEG, at, out);
                far.ready_line()
            })?
        }
    };
    bench.wait_until(at);
    let edge = |record: &Record| {
        let mine = |edge: &&(Instant, u16, bool)| edge.1 == line && edge.2 == level && edge.0 + AHEAD >= at;
        record.edges().iter().find(mine).map(|edge| edge.0)
    };
    let closed = bench.until(at + LATEST, |record| answer(record, edge(record)?));
    load.map_or(Ok(()), |load| load.work(false))?;
    if from == From::Imu {
        bench.act(|far, _, _| {
            far.lean(None);
            far.announce(true);
        })?;
    }
    bench.wait_until(at + PRESSED);
    match closed {
        Some(closed) => Ok(closed),
        // The motors ran and nothing stopped them: this is a failure, not an attempt to repeat.
        None => Ok(Some([LATEST; 3])),
    }
}

/// The first time, at or after `soonest`, that has the phase of loop `nth`. All phases count from the zero of
/// one clock. If each loop counted from its own start, phases would be random, and the 99th percentile, the
/// third largest of two hundred values, would differ from run to run.
fn moment(soonest: Instant, nth: u64) -> Instant {
    let round = PHASES.as_nanos();
    let phase = round / 1000 * (nth * GOLDEN % 1000);
    soonest + Span::from_nanos((phase + round - soonest.as_nanos() % round) % round)
}

/// The result of `edge`. `None`: nothing yet. `Some(None)`: the motors were already stopped or stopping for
/// an earlier reason, so no stop can be attributed to the edge.
fn answer(record: &Record, edge: Instant) -> Option<Option<[Span; 3]>> {
    let under_way = record.stop_after(edge - UNDER_WAY).is_some_and(|stop| stop.start < edge);
    if under_way || !record.was_moving(edge) {
        return Some(None);
    }
    let stop = record.stop_after(edge)?;
    let still = record.still_from(edge)?;
    Some(Some([stop.start.since(edge), stop.end.since(edge), still.since(edge)]))
}

#[cfg(test)]
mod tests {
    use super::super::wire::Happening;
    use super::super::wire::tests::event;
    use super::*;
    use ganglion::deploy::board;

    /// Both motors run from 1 ms on and stop at these times, microseconds.
    fn stopped(left_us: u64, right_us: u64) -> Record {
        let board = board::built_in("picarx-v4").unwrap().unwrap().board;
        let mut record = Record::new(&board);
        for (register, us, high) in
            [(0x2D, 1000, 8), (0x2C, 1001, 8), (0x2D, left_us, 0), (0x2C, right_us, 0)]
        {
            record.take(&event(Happening::Write, 0x14, 1000 * us, &[register, high, 0]));
        }
        record
    }

    fn us(us: u64) -> Instant {
        Instant::from_nanos(1000 * us)
    }

    #[test]
    fn loops_start_at_evenly_spread_phases_of_the_clock() {
        let round = PHASES.as_nanos();
        let mut phases: Vec<u64> = (1..=200)
            .map(|nth| {
                let soonest = Instant::from_nanos(nth * nth * 7_654_321);
                let at = moment(soonest, nth);
                assert!(at >= soonest && at.since(soonest) < PHASES);
                at.as_nanos() % round
            })
            .collect();
        phases.sort_unstable();
        // 200 of them in 60 ms are 300 us apart on average.
        assert!(phases.windows(2).all(|two| (60_000..=600_000).contains(&(two[1] - two[0]))), "{phases:?}");
    }

    #[test]
    fn stop_latency_counts_from_the_edge_before_it() {
        let closed = answer(&stopped(5200, 5320), us(5000));
        assert_eq!(closed, Some(Some([200, 200, 320].map(Span::from_micros))));
        assert_eq!(answer(&stopped(5200, 5320), us(6000)), Some(None), "they had already stopped");
    }

    #[test]
    fn an_edge_between_the_frames_of_a_stop_is_not_its_cause() {
        let mut record = stopped(5000, 5120);
        // The next zero comes from the tick, a period later; it would look like an answer after 10 ms.
        record.take(&event(Happening::Write, 0x14, 15_000_000, &[0x2D, 0, 0]));
        assert_eq!(answer(&record, us(5060)), Some(None));
    }
}
