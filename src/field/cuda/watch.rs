//! How the device's thread waits for a cycle: it polls the host's own memory, sleeping in between, and never
//! waits inside the driver, so that it can always give up. The events of what is not a usual cycle.

use super::desk::Desk;
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::field::{STAGES, StageTimes};
use crate::system::gpu::{Call, Event, Gpu, GpuError, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// It polls this long without a nap, around the moment at which the answer usually comes: a hundredth of the
/// shortest period at which a field is of use (10 ms), so that it costs a core at most that share.
const AWAKE: Span = Span::from_micros(100);
/// A nap: the thread sees the end of a longer cycle that much late, and by what a sleeper's wake-up takes.
const NAP: Span = Span::from_micros(50);

/// A cycle that has taken this share of what its caller waits is late. Only then is the driver asked, and
/// again after each such time, whether the device has failed.
const LATE: u64 = 4;

/// An event's answer before the stream passes it (CUDA_ERROR_NOT_READY): the result of a wait that ran out.
const NOT_READY: i32 = 600;
/// CUDA_ERROR_UNKNOWN: the stream is done, and the answer is not there.
const UNKNOWN: i32 = 999;

/// Where the time of a cycle went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// From the thread's begin until the driver has everything.
    pub submit: Span,
    /// From the first kernel to the answer, on the device's clock.
    pub kernels: Span,
    /// From the thread's begin until it sees the answer.
    pub whole: Span,
}

/// The events.
pub struct Marks {
    /// Before what is to be timed.
    pub begin: Event,
    /// Behind everything so far.
    pub settled: Event,
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
            settled: event()?,
            sensed: event()?,
            reduced: event()?,
            matched: event()?,
            stages: [event()?, event()?, event()?, event()?, event()?, event()?],
        })
    }

    /// Time of each stage of a watched cycle that is over.
    pub fn stage_times(&self) -> Result<StageTimes, GpuError> {
        let mut times = [Span::ZERO; STAGES.len()];
        let mut before = &self.begin;
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

    /// Until the report of the last cycle is there, whose work is on `stream`; it usually comes after
    /// `usual`, and the caller waits for `timeout`. Bounded as `until` is.
    pub fn until_reported(
        &self,
        desk: &Desk,
        stream: &Stream,
        usual: Span,
        timeout: Span,
    ) -> Result<(), GpuError> {
        let begun = MonotonicClock.now();
        let awake = begun + usual.less(Span::from_nanos(AWAKE.as_nanos() / 2));
        let each = Span::from_nanos(timeout.as_nanos() / LATE);
        let mut late = begun + each;
        self.poll(Call::Replay, awake, |now| {
            if now >= late && !desk.is_reported() {
                if stream.is_done()? && !desk.is_reported() {
                    return Err(GpuError { call: Call::Replay, code: UNKNOWN });
                }
                late = now + each;
            }
            Ok(desk.is_reported())
        })
    }

    /// Until an event is reached, polling with sleeps in between. Bounded by the caller that waits for this
    /// thread: it abandons it, and the wait ends.
    pub fn until(&self, event: &Event) -> Result<(), GpuError> {
        self.poll(Call::EventQuery, MonotonicClock.now(), |_| event.is_done())
    }

    /// Polls until `is_there` says yes: sleeps until `awake`, polls without a nap for [`AWAKE`], then between
    /// naps. Fails, as `call`, once this thread is abandoned.
    fn poll(
        &self,
        call: Call,
        awake: Instant,
        mut is_there: impl FnMut(Instant) -> Result<bool, GpuError>,
    ) -> Result<(), GpuError> {
        let clock = MonotonicClock;
        loop {
            let now = clock.now();
            if is_there(now)? {
                return Ok(());
            }
            if self.is_over() {
                return Err(GpuError { call, code: NOT_READY });
            }
            if now < awake {
                clock.sleep_until(awake);
            } else if now >= awake + AWAKE {
                clock.sleep_until(now + NAP);
            }
        }
    }
}
