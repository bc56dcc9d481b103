//! Events of a cycle, and how the device's thread waits for them: it polls, sleeping in between, never inside
//! the driver, so that it can always give up.

use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::field::{STAGES, StageTimes};
use crate::system::gpu::{Call, Event, Gpu, GpuError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// It polls this long without a nap: a hundredth of the shortest period at which a field is of use (10 ms),
/// so that it costs a core at most that share. A cycle of a large GPU is over by then.
const AWAKE: Span = Span::from_micros(100);
/// A nap: the thread sees the end of a longer cycle that much late, and by what a sleeper's wake-up takes.
const NAP: Span = Span::from_micros(50);

/// An event's answer before the stream passes it (CUDA_ERROR_NOT_READY): the result of a wait that ran out.
const NOT_READY: i32 = 600;

/// Where the time of a cycle went. The device's own parts are on its clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// From the thread's begin until the driver has everything.
    pub submit: Span,
    /// Orders to the device.
    pub copy_in: Span,
    /// Kernels, a move to another grid included.
    pub kernels: Span,
    /// Answers back.
    pub copy_out: Span,
    /// From the thread's begin until it sees the answer.
    pub whole: Span,
}

/// The events of a cycle.
pub struct Marks {
    /// The first thing in the stream.
    pub begin: Event,
    /// Orders are there.
    pub ordered: Event,
    /// Kernels are done.
    pub computed: Event,
    /// Answers are back.
    pub answered: Event,
    /// Forks and joins inside a graph.
    pub sensed: Event,
    /// See `sensed`.
    pub reduced: Event,
    /// See `sensed`.
    pub matched: Event,
    /// End of each stage, in the order of `STAGES`.
    pub stages: [Event; STAGES.len()],
}

impl Marks {
    /// None of them reached.
    pub fn new(gpu: &Gpu) -> Result<Marks, GpuError> {
        let event = || Event::new(gpu);
        Ok(Marks {
            begin: event()?,
            ordered: event()?,
            computed: event()?,
            answered: event()?,
            sensed: event()?,
            reduced: event()?,
            matched: event()?,
            stages: [event()?, event()?, event()?, event()?, event()?, event()?],
        })
    }

    /// The split of a cycle that is over.
    pub fn times(&self, begun: Instant, submitted: Instant, seen: Instant) -> Result<Times, GpuError> {
        Ok(Times {
            submit: submitted.since(begun),
            copy_in: between(&self.begin, &self.ordered)?,
            kernels: between(&self.ordered, &self.computed)?,
            copy_out: between(&self.computed, &self.answered)?,
            whole: seen.since(begun),
        })
    }

    /// Time of each stage of a watched cycle that is over.
    pub fn stage_times(&self) -> Result<StageTimes, GpuError> {
        let mut times = [Span::ZERO; STAGES.len()];
        let mut before = &self.ordered;
        for (time, stage) in times.iter_mut().zip(&self.stages) {
            *time = between(before, stage)?;
            before = stage;
        }
        Ok(times)
    }
}

/// Time between two marks that were reached.
pub fn between(earlier: &Event, later: &Event) -> Result<Span, GpuError> {
    let micros = later.micros_since(earlier)?;
    Ok(Span::from_nanos((micros.max(0.0) * 1e3) as u64))
}

/// How to wait, and whether to give up.
#[derive(Clone)]
pub struct Waiting {
    abandoned: Arc<AtomicBool>,
}

impl Waiting {
    /// Until `abandoned` is set.
    pub fn new(abandoned: Arc<AtomicBool>) -> Waiting {
        Waiting { abandoned }
    }

    /// Whether this thread is abandoned.
    pub fn is_over(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Until an event is reached, polling with sleeps in between. Bounded by the caller that waits for this
    /// thread: it abandons it, and the wait ends.
    pub fn until(&self, event: &Event) -> Result<(), GpuError> {
        let clock = MonotonicClock;
        let tired = clock.now() + AWAKE;
        while !event.is_done()? {
            if self.is_over() {
                return Err(GpuError { call: Call::EventQuery, code: NOT_READY });
            }
            let now = clock.now();
            if now >= tired {
                clock.sleep_until(now + NAP);
            }
        }
        Ok(())
    }
}
