//! The latency of the kernel alone, printed with the figures of the loops: the lateness of a bare timer (as
//! cyclictest measures it), and the time in which a thread that does nothing else answers an edge with an
//! edge.

use super::bench::Bench;
use super::rows::Floor;
use super::verdict::{Baseline, Latency, RowResult};
use super::wire::Command;
use ganglion::base::time::{Clock, MonotonicClock, Span};
use gpiocdev::Request;
use gpiocdev::line::{EdgeDetection, Value};
use std::io;
use std::thread;

/// Number of measurements: ten of them lie beyond the 99th percentile.
const TIMES: usize = 1000;
/// Interval between measurements: a prime number of microseconds, so that all phases of the far side's
/// refresh and of the kernel's tick occur. Otherwise the figure would depend on the phase at which a run
/// starts.
const EVERY: Span = Span::from_micros(3_137);
/// Priority of the measured thread: that of the runtime's bus thread.
const PRIORITY: u8 = 85;
/// Lines that no board here uses.
const STIMULUS: u16 = 30;
const RESPONSE: u16 = 31;

/// Measures one of the two latencies.
pub fn measure(bench: &mut Bench, name: &str, floor: Floor, baseline: &Baseline) -> io::Result<RowResult> {
    let mut outcome = RowResult::default();
    let latency = match floor {
        Floor::Timer => thread::spawn(timer).join().map_err(|_| io::Error::other("the thread panicked"))?,
        Floor::Echo => echo(bench)?,
    };
    outcome.demand(latency.count() == TIMES, || format!("{} of {TIMES} measured", latency.count()));
    outcome.gate(name, latency, baseline);
    Ok(outcome)
}

fn timer() -> Latency {
    super::bench::urgent(PRIORITY);
    let clock = MonotonicClock;
    let mut due = clock.now();
    let once = |_| {
        due += EVERY;
        clock.sleep_until(due);
        clock.now().since(due)
    };
    Latency::of((0..TIMES).map(once).collect())
}

fn echo(bench: &mut Bench) -> io::Result<Latency> {
    let chip = chip()?;
    let wired = |error: gpiocdev::Error| io::Error::other(error.to_string());
    let input = Request::builder()
        .on_chip(&chip)
        .with_consumer("hil-guest")
        .with_line(STIMULUS.into())
        .as_input()
        .with_edge_detection(EdgeDetection::BothEdges)
        .request()
        .map_err(wired)?;
    let output = Request::builder()
        .on_chip(&chip)
        .with_consumer("hil-guest")
        .with_line(RESPONSE.into())
        .as_output(Value::Inactive)
        .request()
        .map_err(wired)?;
    bench.send(&[Command::Line(STIMULUS, false)])?;
    bench.seen(super::record::Record::begin_anew);
    let answers = thread::spawn(move || {
        super::bench::urgent(PRIORITY);
        let mut answered = 0;
        while answered < TIMES && input.wait_edge_event(std::time::Duration::from_millis(500))? {
            let edge = input.read_edge_event()?;
            if edge.kind == gpiocdev::line::EdgeKind::Rising {
                output.set_value(RESPONSE.into(), Value::Active)?;
                output.set_value(RESPONSE.into(), Value::Inactive)?;
                answered += 1;
            }
        }
        Ok::<usize, gpiocdev::Error>(answered)
    });
    bench.wait(Span::from_millis(50));
    for _ in 0..TIMES {
        let at = bench.now() + Span::from_millis(1);
        bench.send(&[
            Command::LineAt(STIMULUS, true, at),
            Command::LineAt(STIMULUS, false, at + Span::from_micros(700)),
        ])?;
        bench.wait(EVERY);
    }
    answers.join().map_err(|_| io::Error::other("the answering thread panicked"))?.map_err(wired)?;
    Ok(bench.seen(|record| {
        let rises = record.edges().iter().filter(|(_, line, high)| *line == STIMULUS && *high);
        let answer = |at| record.drives_of(RESPONSE).iter().find(|(answer, high)| *answer >= at && *high);
        Latency::of(rises.filter_map(|(at, ..)| answer(*at).map(|answer| answer.0.since(*at))).collect())
    }))
}

/// The GPIO chip of the bench.
fn chip() -> io::Result<std::path::PathBuf> {
    let chips = gpiocdev::chip::chips().map_err(|error| io::Error::other(error.to_string()))?;
    let labelled = |path: &std::path::PathBuf| {
        let chip = gpiocdev::chip::Chip::from_path(path);
        chip.and_then(|chip| chip.info()).is_ok_and(|info| info.label == "hilplant")
    };
    chips.into_iter().find(labelled).ok_or_else(|| io::Error::other("no GPIO chip is labelled hilplant"))
}
