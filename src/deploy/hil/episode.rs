//! Runs the passes. Each waits until the motor's line is active, drives the stimulus at a random phase of the
//! control period, waits until the line is at rest, and ends the stimulus.
//!
//! A motor's line carries pulses (PWM) or a level (direction, enable). A line with pulses counts as at rest
//! when no pulse has arrived for several periods. The response time is that of the last edge, so it is
//! accurate to one pulse.

use super::Loop;
use crate::base::fault::BusFault;
use crate::base::seed::{Stream, uniform};
use crate::base::time::{Clock, Instant, Span};
use crate::drive::trace::{latency_histogram, note};
use crate::hardware::bus::Gpio;
use hdrhistogram::Histogram;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A line without a pulse for this long is at rest: five periods of the slowest drive motor's PWM (1 kHz). It
/// is only a quarter of a servo's frame, so a servo's line cannot be the response. This is also longer than a
/// bus write of a few bytes, so that two motors that stop one after the other count as one response.
const QUIET: Span = Span::from_millis(5);
/// A line with at least this many edges within [`WINDOW`] carries pulses; a level changes once or twice.
const PULSES: u32 = 8;
const WINDOW: Span = Span::from_millis(50);
/// A motor that still runs after this time counts as having ignored the stop: 20 times the default target.
const TIMEOUT: Span = Span::from_millis(200);
/// Time within which the runtime sets up its devices and starts to drive. Servos are centred one by one.
const START_WITHIN: Span = Span::from_millis(10_000);
/// Time within which the wheels must turn again after a stimulus; normally it takes a few field periods.
const AGAIN_WITHIN: Span = Span::from_millis(2_000);

/// Fixed, so that every run has the same phases.
const SEED: u64 = 1;

/// A fault of the bench's wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopFault {
    /// A line cannot be driven or read.
    Line(BusFault),
    /// The sensor's line does not follow the stimulus.
    NoEcho,
    /// The motor's line never became active.
    NeverRan,
    /// The motor's line came to rest and did not become active again after the stimulus.
    DidNotRunAgain,
}

impl fmt::Display for LoopFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopFault::Line(fault) => write!(f, "a line of the bench failed: {fault:?}"),
            LoopFault::NoEcho => {
                f.write_str("the sensor's line does not follow the stimulus: is wire 1 in place?")
            }
            LoopFault::NeverRan => f.write_str(
                "the motor's line never became active: is wire 2 in place, and does the motor's bus answer?",
            ),
            LoopFault::DidNotRunAgain => {
                f.write_str("the motors stopped and did not run again when the stimulus ended")
            }
        }
    }
}

impl std::error::Error for LoopFault {}

/// The results of all passes.
pub(super) struct Passed {
    pub answers: Histogram<u64>,
    pub unanswered: u64,
    pub pulsed: bool,
}

/// How the motor's line shows that the motor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    /// The line carries pulses.
    Pulses,
    /// The line has this level.
    Level(bool),
}

/// The bench's end of the wires.
pub(super) struct Episodes {
    gpio: Box<dyn Gpio>,
    lines: Loop,
    period: Span,
    clock: Arc<dyn Clock>,
}

impl Episodes {
    pub fn new(gpio: Box<dyn Gpio>, lines: Loop, period: Span, clock: Arc<dyn Clock>) -> Episodes {
        Episodes { gpio, lines, period, clock }
    }

    /// Runs at most `samples` passes and counts them in `taken`. Ends early once `stop` is set.
    pub fn run(&mut self, samples: u32, taken: &AtomicU32, stop: &AtomicBool) -> Result<Passed, LoopFault> {
        let running = self.await_start(stop)?;
        let mut passed =
            Passed { answers: latency_histogram(), unanswered: 0, pulsed: running == Running::Pulses };
        for sample in 0..samples {
            if stop.load(Ordering::Acquire) {
                break;
            }
            // A random phase: a stimulus in step with the control period would always hit the same phase.
            let share = uniform(SEED, Stream::Phase, u64::from(sample));
            let phase = Span::from_nanos((share * self.period.as_nanos() as f64) as u64);
            self.clock.sleep_until(self.clock.now() + self.period + phase);
            match self.pass(running).map_err(LoopFault::Line)? {
                Some(answer) => note(&mut passed.answers, answer),
                None => passed.unanswered += 1,
            }
            taken.fetch_add(1, Ordering::Relaxed);
            if !self.runs_again(running).map_err(LoopFault::Line)? {
                return Err(LoopFault::DidNotRunAgain);
            }
        }
        Ok(passed)
    }

    /// Waits until the motor's line becomes active for the first time, and detects whether it carries pulses
    /// or a level.
    fn await_start(&mut self, stop: &AtomicBool) -> Result<Running, LoopFault> {
        let at_rest = self.gpio.get(self.lines.response).map_err(LoopFault::Line)?;
        let until = self.clock.now() + START_WITHIN;
        while self.clock.now() < until && !stop.load(Ordering::Acquire) {
            let edges = self.edges_within(WINDOW).map_err(LoopFault::Line)?;
            if edges >= PULSES {
                return Ok(Running::Pulses);
            }
            let high = self.gpio.get(self.lines.response).map_err(LoopFault::Line)?;
            if edges == 0 && high != at_rest {
                return Ok(Running::Level(high));
            }
        }
        Err(LoopFault::NeverRan)
    }

    fn edges_within(&mut self, window: Span) -> Result<u32, BusFault> {
        let (until, mut edges) = (self.clock.now() + window, 0);
        while self.clock.now() < until {
            let left = until.since(self.clock.now());
            edges += u32::from(self.gpio.next_edge(left)?.is_some());
        }
        Ok(edges)
    }

    /// Returns the time from just before the stimulus to the response; `None`: no response in time. Leaves
    /// the stimulus on.
    fn pass(&mut self, running: Running) -> Result<Option<Span>, BusFault> {
        while self.gpio.next_edge(Span::ZERO)?.is_some() {}
        if running == Running::Pulses {
            self.await_rise()?;
        }
        let began = self.clock.now();
        self.gpio.set(self.lines.stimulus, !self.lines.active_low)?;
        let last = self.last_edge(began)?;
        let high = self.gpio.get(self.lines.response)?;
        let rests = match running {
            Running::Level(run) => high != run,
            Running::Pulses => true, // no edges for `QUIET`: the line is at rest
        };
        Ok(last.filter(|_| rests).map(|at| at.since(began)))
    }

    /// Waits until a pulse begins, so that at least its falling edge follows the stimulus, however fast the
    /// response is.
    fn await_rise(&mut self) -> Result<(), BusFault> {
        while let Some(edge) = self.gpio.next_edge(WINDOW)? {
            if edge.line == self.lines.response && edge.high {
                break;
            }
        }
        Ok(())
    }

    /// The last edge before the line is quiet; `None`: it did not become quiet in time, or there was no edge.
    fn last_edge(&mut self, began: Instant) -> Result<Option<Instant>, BusFault> {
        let mut last = None;
        while self.clock.now() < began + TIMEOUT {
            // Until the first edge, wait the full time; after that, until the line counts as quiet.
            let wait = if last.is_some() { QUIET } else { TIMEOUT };
            match self.gpio.next_edge(wait)? {
                Some(edge) if edge.line == self.lines.response => last = Some(edge.stamp),
                Some(_) => {}
                None => return Ok(last),
            }
        }
        Ok(None)
    }

    /// Ends the stimulus and waits until the line is active again.
    fn runs_again(&mut self, running: Running) -> Result<bool, BusFault> {
        self.gpio.set(self.lines.stimulus, self.lines.active_low)?;
        let until = self.clock.now() + AGAIN_WITHIN;
        while self.clock.now() < until {
            match running {
                Running::Pulses if self.edges_within(WINDOW)? >= PULSES => return Ok(true),
                Running::Pulses => {}
                Running::Level(run) => {
                    if self.gpio.get(self.lines.response)? == run {
                        return Ok(true);
                    }
                    self.clock.sleep_until(self.clock.now() + self.period);
                }
            }
        }
        Ok(false)
    }
}
