//! The single path of every driver call on an opened GPU: it notes the call in the [`Watch`] while it is
//! under way, applies injected faults, and counts and records failures.

#![allow(unsafe_code)] // a call to the driver; its reason is stated there

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::CUcontext;

use super::GpuFault;
use super::driver::{Call, Driver, SUCCESS};
use super::error::{GpuError, code};
use super::watch::{Counts, Watch};
use crate::base::time::{Clock, Instant, MonotonicClock};

thread_local! {
    /// The context that this program last made current on the thread.
    static CURRENT: Cell<CUcontext> = const { Cell::new(std::ptr::null_mut()) };
}

/// How long a stuck call sleeps before it checks whether it may continue. Short compared with any time limit.
const STUCK_LOOK: Duration = Duration::from_millis(1);

/// Factor by which [`GpuFault::Slow`] multiplies a time.
pub(super) const SLOW: u64 = 10;

/// The connection of one opened context to the driver. It is in an `Rc`, so it stays on its thread.
pub(super) struct Line {
    driver: &'static Driver,
    watch: Arc<Watch>,
    /// While slowness is injected: when work was last handed over.
    began: Cell<Option<Instant>>,
    /// Its context; null before there is one.
    context: Cell<CUcontext>,
}

/// State of a stream or an event while slowness is injected: when the work before it was handed over, and
/// until when that work is not reported as done.
#[derive(Default)]
pub(super) struct Held(Cell<Option<(Instant, Instant)>>);

impl Line {
    pub(super) fn new(driver: &'static Driver, watch: Arc<Watch>) -> Line {
        Line { driver, watch, began: Cell::new(None), context: Cell::new(std::ptr::null_mut()) }
    }

    /// The context was created, and is current on this thread.
    pub(super) fn begin(&self, context: CUcontext) {
        self.context.set(context);
        CURRENT.set(context);
    }

    /// The context was destroyed.
    pub(super) fn end(&self) {
        self.context.set(std::ptr::null_mut());
        CURRENT.set(std::ptr::null_mut());
    }

    /// Makes the context current on this thread if another one is current: a thread may have opened two.
    fn enter(&self) -> i32 {
        let context = self.context.get();
        if context.is_null() || context == CURRENT.get() {
            return SUCCESS;
        }
        // SAFETY: a context that was created and not destroyed.
        let code = unsafe { (self.driver.context_set)(context) };
        if code == SUCCESS {
            CURRENT.set(context);
        }
        code
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Makes a call; an error if the driver, or an injected fault, returns one.
    pub(super) fn call(&self, call: Call, make: impl FnOnce(&Driver) -> i32) -> Result<(), GpuError> {
        match self.make(call, make) {
            SUCCESS => Ok(()),
            code => Err(self.failed(call, code)),
        }
    }

    /// Polls whether a stream or an event is done; `held` is its state.
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

    /// Releases a resource, whatever fault is injected. An error of the driver is only recorded: the resource
    /// is gone either way.
    pub(super) fn release(&self, call: Call, make: impl FnOnce(&Driver) -> i32) {
        self.watch.begin(call);
        self.enter();
        let code = make(self.driver);
        self.watch.end();
        if code != SUCCESS {
            self.failed(call, code);
        }
    }

    /// Returns an error that was found here, before the driver is called.
    pub(super) fn refuse<T>(&self, call: Call, code: i32) -> Result<T, GpuError> {
        Err(self.failed(call, code))
    }

    fn failed(&self, call: Call, code: i32) -> GpuError {
        self.watch.add(&Counts { failures: 1, ..Counts::default() });
        let error = GpuError { call, code };
        self.watch.note(error);
        error
    }

    fn make(&self, call: Call, make: impl FnOnce(&Driver) -> i32) -> i32 {
        self.watch.begin(call);
        let code = match self.strike(call) {
            Some(code) => code,
            None => match self.enter() {
                SUCCESS => make(self.driver),
                code => code,
            },
        };
        self.watch.end();
        code
    }

    /// Applies an injected fault to this call; returns its error code, if any.
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

/// Whether the call requests work from the device.
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
