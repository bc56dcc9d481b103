//! The best that the machine can do on the bench's wires without the runtime: a bare sleep, and an echo from
//! one line to another. A figure of the loop means something only in comparison with these.

use super::{HilError, Loop};
use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::{Clock, Span};
use crate::deploy::hil::LoopFault;
use crate::drive::trace::{latency_histogram, note};
use crate::hardware::bus::{Bias, Edge, Gpio, Hardware, LineUse, Usage};
use hdrhistogram::Histogram;

/// Number of sleeps, and of echoes: enough for a 99th percentile with ten samples beyond it.
const SAMPLES: u32 = 1000;
/// Length of a sleep, and pause between two echoes: the period of a fast control loop.
const PERIOD: Span = Span::from_millis(1);
/// An edge that has not arrived over a wire within this time counts as lost.
const TIMEOUT: Span = Span::from_millis(20);
/// This many lost echoes in a row at the start mean that there is no wire.
const NO_WIRE: u64 = 5;

/// The measurement.
pub(super) struct Floors {
    pub bare_timer: Histogram<u64>,
    pub echo: Histogram<u64>,
    pub echoes_lost: u64,
}

/// Measures both baselines. Holds the lines of stimulus and sensor until it returns.
pub(super) fn measure(hardware: &dyn Hardware, lines: Loop, clock: &dyn Clock) -> Result<Floors, HilError> {
    let watched = Usage::Watched { bias: Bias::AsIs, debounce: Span::ZERO };
    let held = [
        LineUse { line: lines.stimulus, usage: Usage::Output { high: lines.active_low } },
        LineUse { line: lines.sensor, usage: watched },
    ];
    let mut gpio = hardware.gpio("hil-floor", &held).map_err(HilError::Open)?;
    let bare_timer = bare_timer(clock);
    let (echo, echoes_lost) = echoes(gpio.as_mut(), lines, clock).map_err(HilError::Loop)?;
    Ok(Floors { bare_timer, echo, echoes_lost })
}

fn bare_timer(clock: &dyn Clock) -> Histogram<u64> {
    let mut lateness = latency_histogram();
    for _ in 0..SAMPLES {
        let due = clock.now() + PERIOD;
        clock.sleep_until(due);
        note(&mut lateness, clock.now().since(due));
    }
    lateness
}

fn echoes(gpio: &mut dyn Gpio, lines: Loop, clock: &dyn Clock) -> Result<(Histogram<u64>, u64), LoopFault> {
    let (mut echo, mut lost) = (latency_histogram(), 0);
    for _ in 0..SAMPLES {
        match one_echo(gpio, lines).map_err(LoopFault::Line)? {
            Some(span) => note(&mut echo, span),
            None => lost += 1,
        }
        if echo.is_empty() && lost == NO_WIRE {
            return Err(LoopFault::NoEcho);
        }
        clock.sleep_until(clock.now() + PERIOD);
    }
    Ok((echo, lost))
}

/// Activates the stimulus and ends it as soon as the sensor's edge is seen. The time between the two edges'
/// timestamps is what it takes to see an edge and to drive a line.
fn one_echo(gpio: &mut dyn Gpio, lines: Loop) -> Result<Option<Span>, BusFault> {
    while gpio.next_edge(Span::ZERO)?.is_some() {}
    let active = !lines.active_low;
    gpio.set(lines.stimulus, active)?;
    let there = edge(gpio, lines.sensor, active)?;
    gpio.set(lines.stimulus, !active)?;
    let back = edge(gpio, lines.sensor, !active)?;
    Ok(there.zip(back).map(|(there, back)| back.stamp.since(there.stamp)))
}

/// The next edge, if it is on `line` and to the level `high`; `None`: no edge in time, or a different one.
fn edge(gpio: &mut dyn Gpio, line: Line, high: bool) -> Result<Option<Edge>, BusFault> {
    Ok(gpio.next_edge(TIMEOUT)?.filter(|edge| edge.line == line && edge.high == high))
}
