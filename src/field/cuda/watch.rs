//! How the device's thread waits for a cycle: it polls host memory, sleeping in between, and never waits
//! inside the driver, so that it can always give up. Also contains the CUDA events that are used for
//! everything except a normal cycle.

use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::field::{STAGES, StageTimes};
use crate::system::gpu::{Call, Event, Gpu, GpuError, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The thread polls without sleeping for this long, around the time at which the answer is expected: a
/// hundredth of the shortest useful period of a field (10 ms), so that this costs at most a hundredth of a
/// core.
pub const AWAKE: Span = Span::from_micros(100);
/// Length of a nap. If a cycle takes longer than expected, its end is noticed late by at most this plus the
/// thread's wake-up time.
pub const NAP: Span = Span::from_micros(50);

/// A cycle is late after one fourth of its caller's timeout. Only then, and again after each further fourth,
/// does the thread ask the driver whether the device has failed.
const LATE: u64 = 4;

/// An event's status before the stream has passed it (CUDA_ERROR_NOT_READY); also the result of an abandoned
/// wait.
const NOT_READY: i32 = 600;
/// CUDA_ERROR_UNKNOWN: reported if the stream has finished without an answer.
const UNKNOWN: i32 = 999;

/// Where the time of a cycle went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// From when the thread begins the cycle until all work is submitted to the driver.
    pub submit: Span,
    /// From the first kernel to the answer, on the device's clock.
    pub kernels: Span,
    /// From when the thread begins the cycle until it sees the answer.
    pub whole: Span,
}

/// The events.
pub struct Marks {
    /// Start of the work that is timed.
    pub begin: Event,
    /// End of all work so far.
    pub settled: Event,
    /// End of each stage, in the order of `STAGES`.
    pub stages: [Event; STAGES.len()],
}

impl Marks {
    /// Events that have not been recorded yet.
    pub fn new(gpu: &Gpu) -> Result<Marks, GpuError> {
        let event = || Event::new(gpu);
        Ok(Marks {
            begin: event()?,
            settled: event()?,
            stages: [event()?, event()?, event()?, event()?, event()?, event()?],
        })
    }

    /// Time of each stage of a finished cycle whose stages were timed.
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

/// Time between two events that were reached.
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
    /// Waits end when `abandoned` is set.
    pub fn new(abandoned: Arc<AtomicBool>) -> Waiting {
        Waiting { abandoned }
    }

    /// Whether this thread is abandoned.
    pub fn is_over(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Waits until all reports of the last cycle have arrived (`are_reported`); the cycle's work is on
    /// `stream`. The reports are expected after `usual`, and the caller waits for `timeout`. The wait is
    /// bounded as in [`Waiting::until`].
    pub fn until_reported(
        &self,
        are_reported: impl Fn() -> bool,
        stream: &Stream,
        usual: Span,
        timeout: Span,
    ) -> Result<(), GpuError> {
        let begun = MonotonicClock.now();
        let awake = begun + usual.less(Span::from_nanos(AWAKE.as_nanos() / 2));
        let each = Span::from_nanos(timeout.as_nanos() / LATE);
        let mut late = begun + each;
        self.poll(Call::Replay, awake, |now| {
            if now >= late && !are_reported() {
                if stream.is_done()? && !are_reported() {
                    return Err(GpuError { call: Call::Replay, code: UNKNOWN });
                }
                late = now + each;
            }
            Ok(are_reported())
        })
    }

    /// Waits until an event is reached, polling with sleeps in between. The wait is bounded because the
    /// waiting caller abandons this thread after its timeout.
    pub fn until(&self, event: &Event) -> Result<(), GpuError> {
        self.poll(Call::EventQuery, MonotonicClock.now(), |_| event.is_done())
    }

    /// Polls until `is_there` returns true: sleeps until `awake`, polls without sleeping for [`AWAKE`], then
    /// sleeps between polls. Fails with an error of `call` once this thread is abandoned.
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
