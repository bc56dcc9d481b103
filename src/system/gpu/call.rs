//! The single path of every driver call: it notes the call in the [`Watch`] while it is under way, applies
//! injected faults, counts failures, and makes no call at all after a reset.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::GpuFault;
use super::driver::{Call, Driver, SUCCESS};
use super::error::{GpuError, code};
use super::watch::{Counts, Watch};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};

/// Resets of the context so far. A reset frees everything made before it: no call may pass one of those
/// handles to the driver again.
static RESETS: AtomicU64 = AtomicU64::new(0);

/// Looks at host memory under way, on any thread: a reset would take it away.
static LOOKS: AtomicUsize = AtomicUsize::new(0);

/// How long a reset waits for those: to copy the largest piece takes some milliseconds.
const LOOKS_PATIENCE: Span = Span::from_millis(1_000);
/// Time between two looks at them.
const LOOKS_NAP: Duration = Duration::from_micros(100);

/// While there is one, a reset does not free host memory. Keep it only for a short time.
pub(super) struct Stays(());

impl Drop for Stays {
    fn drop(&mut self) {
        LOOKS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How long a stuck call sleeps before it looks whether it may go on. Short beside any time limit.
const STUCK_LOOK: Duration = Duration::from_millis(1);

/// What [`GpuFault::Slow`] makes of a time.
pub(super) const SLOW: u64 = 10;

/// The line to the driver, of one opened context. Not for another thread: it is in an `Rc`.
pub(super) struct Line {
    driver: &'static Driver,
    watch: Arc<Watch>,
    /// [`RESETS`] when this line was made.
    opened_after: u64,
    /// While slowness is injected: when work was last handed over.
    began: Cell<Option<Instant>>,
}

/// Of a stream or an event while slowness is injected: for which work, and until when "done" is held back.
#[derive(Default)]
pub(super) struct Held(Cell<Option<(Instant, Instant)>>);

impl Line {
    pub(super) fn new(driver: &'static Driver, watch: Arc<Watch>) -> Line {
        Line { driver, watch, opened_after: RESETS.load(Ordering::Acquire), began: Cell::new(None) }
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Whether the context was reset since this line was made.
    pub(super) fn is_gone(&self) -> bool {
        RESETS.load(Ordering::Acquire) != self.opened_after
    }

    /// Keeps a reset from freeing what was made on this line; `None`: one did.
    pub(super) fn stays(&self) -> Option<Stays> {
        // A reset says first that it comes, and then counts the looks; here it is the other way round.
        // Whichever is first in the one order of all four, one of both sees the other.
        LOOKS.fetch_add(1, Ordering::SeqCst);
        let stays = Stays(());
        (RESETS.load(Ordering::SeqCst) == self.opened_after).then_some(stays)
    }

    /// Makes a call; an error if the driver, or an injected fault, returns one.
    pub(super) fn call(&self, call: Call, make: impl FnOnce(&Driver) -> i32) -> Result<(), GpuError> {
        match self.make(call, make) {
            SUCCESS => Ok(()),
            code => Err(self.failed(call, code)),
        }
    }

    /// Polls whether something is done; `held` belongs to it.
    pub(super) fn is_done(
        &self,
        call: Call,
        held: &Held,
        make: impl FnOnce(&Driver) -> i32,
    ) -> Result<bool, GpuError> {
        match self.make(call, make) {
            SUCCESS => Ok(self.is_reported(held)),
            code::NOT_READY => Ok(false),
            code => Err(self.failed(call, code)),
        }
    }

    /// Releases something, whatever fault is injected. The driver's answer changes nothing: it is gone either
    /// way.
    pub(super) fn release(&self, call: Call, make: impl FnOnce(&Driver) -> i32) {
        if self.is_gone() {
            return;
        }
        self.watch.begin(call);
        let code = make(self.driver);
        self.watch.end();
        if code != SUCCESS {
            self.failed(call, code);
        }
    }

    /// An error that was seen here, before the call of the driver.
    pub(super) fn refuse<T>(&self, call: Call, code: i32) -> Result<T, GpuError> {
        Err(self.failed(call, code))
    }

    fn failed(&self, call: Call, code: i32) -> GpuError {
        self.watch.add(&Counts { failures: 1, ..Counts::default() });
        GpuError { call, code }
    }

    fn make(&self, call: Call, make: impl FnOnce(&Driver) -> i32) -> i32 {
        self.watch.begin(call);
        // The fault first: a call that was stuck may come back after a reset.
        let code = match self.strike(call) {
            Some(code) => code,
            None if self.is_gone() => code::CONTEXT_IS_DESTROYED,
            None => make(self.driver),
        };
        self.watch.end();
        code
    }

    /// What an injected fault makes of this call.
    fn strike(&self, call: Call) -> Option<i32> {
        if self.watch.is_lost() {
            return Some(code::ILLEGAL_ADDRESS);
        }
        match self.watch.injected()? {
            GpuFault::Error => self.watch.spend_error().then_some(code::UNKNOWN),
            GpuFault::Memory => (call == Call::Allocate).then_some(code::OUT_OF_MEMORY),
            GpuFault::Slow => {
                if hands_over(call) {
                    self.began.set(Some(MonotonicClock.now()));
                }
                None
            }
            GpuFault::Stuck => {
                while self.watch.injected() == Some(GpuFault::Stuck) {
                    std::thread::sleep(STUCK_LOOK);
                }
                None
            }
            GpuFault::Hang | GpuFault::Lost => None,
        }
    }

    /// Whether finished work is reported as finished.
    pub(super) fn is_reported(&self, held: &Held) -> bool {
        match (self.watch.injected(), self.began.get()) {
            (Some(GpuFault::Hang), _) => false,
            (Some(GpuFault::Slow), Some(began)) => {
                let now = MonotonicClock.now();
                let until = match held.0.get() {
                    Some((work, until)) if work == began => until,
                    _ => began + now.since(began).times(SLOW),
                };
                held.0.set(Some((began, until)));
                now >= until
            }
            _ => true,
        }
    }
}

/// Whether the call gives the device something to do.
fn hands_over(call: Call) -> bool {
    matches!(
        call,
        Call::CopyIn
            | Call::CopyOut
            | Call::CopyWithin
            | Call::Fill
            | Call::Launch
            | Call::Replay
            | Call::EventRecord
            | Call::EventRecordExternal
    )
}

/// Resets by `make`: everything made before is gone from now on, on any thread. Not done, and an error, if
/// a look at host memory does not end.
pub(super) fn reset(
    driver: &'static Driver,
    watch: &Watch,
    make: impl FnOnce(&Driver) -> i32,
) -> Result<(), GpuError> {
    let call = Call::ContextReset;
    RESETS.fetch_add(1, Ordering::SeqCst);
    let until = MonotonicClock.now() + LOOKS_PATIENCE;
    while LOOKS.load(Ordering::SeqCst) > 0 {
        if MonotonicClock.now() >= until {
            watch.add(&Counts { failures: 1, ..Counts::default() });
            return Err(GpuError { call, code: code::NOT_READY });
        }
        std::thread::sleep(LOOKS_NAP);
    }
    watch.begin(call);
    let code = make(driver);
    watch.end();
    if code != SUCCESS {
        watch.add(&Counts { failures: 1, ..Counts::default() });
        return Err(GpuError { call, code });
    }
    watch.forget_loss();
    Ok(())
}
