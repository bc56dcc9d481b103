//! A context on a GPU: opened for one thread; everything created in it keeps it open.
//!
//! It is a separate context, not the device's primary one, which the whole process shares. Some errors
//! corrupt a context, so that every later call in it fails; then it can be closed and another one opened.
//! Nothing here waits for the device except closing: the driver waits when it frees memory.

#![allow(unsafe_code)] // calls to the driver; reasons at each place

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::{CUcontext, CUdevice, CUmodule};

use super::GpuFault;
use super::call::{self, Line};
use super::driver::{self, Call, Driver};
use super::error::{GpuError, code};
use super::flight::CopyDirection;
use super::memory::Page;
use super::probe::GpuInfo;
use super::watch::{Counts, Watch};
use crate::base::time::Span;

/// An opened GPU. It and everything created from it stay on the thread that opened it.
pub struct Gpu {
    pub(super) context: Rc<Context>,
}

/// The part that everything created in a context shares.
pub(super) struct Context {
    pub(super) line: Line,
    raw: CUcontext,
    /// Unique among the contexts of this process: kernels can be copied, and a caller may launch one in the
    /// wrong context.
    pub(super) number: u64,
    /// Loaded images. They stay until the context is destroyed, because kernels are copied freely.
    pub(super) modules: RefCell<Vec<CUmodule>>,
    /// The first address of each pool, and the address after its last byte.
    pub(super) pools: RefCell<Vec<(u64, u64)>>,
    /// A capture is under way.
    pub(super) is_capturing: Cell<bool>,
    /// What the capture under way has collected.
    pub(super) captured: RefCell<Captured>,
}

/// What a capture collects besides the driver's graph.
#[derive(Default)]
pub(super) struct Captured {
    /// The work that one replay requests.
    pub(super) each: Counts,
    /// Events that the graph will use: they must live as long as the graph.
    pub(super) used: Vec<Rc<dyn Any>>,
    /// What each replay copies.
    pub(super) copies: Vec<Copy>,
}

/// A captured copy, which keeps its host memory alive.
pub(super) struct Copy {
    pub(super) page: Rc<Page>,
    pub(super) range: Range<usize>,
    pub(super) way: CopyDirection,
}

/// `CU_CTX_SCHED_AUTO`: how threads wait inside the driver. Ours do so only when they release resources.
const SCHEDULED_BY_DRIVER: u32 = 0;

static CONTEXTS: AtomicU64 = AtomicU64::new(0);

impl Gpu {
    /// Opens the GPU that was found, on this thread. Takes a fraction of a second.
    ///
    /// # Errors
    /// The driver's error; `is_memory` if too little memory is free.
    pub fn open(found: &GpuInfo, watch: Arc<Watch>) -> Result<Gpu, GpuError> {
        let line = Line::new(driver(Call::ContextCreate)?, watch);
        line.watch().forget_loss(); // of an earlier context
        let mut device: CUdevice = 0;
        // SAFETY: writes one handle.
        line.call(Call::DeviceGet, |d| unsafe { (d.device_get)(&mut device, ordinal(found)) })?;
        let mut raw: CUcontext = std::ptr::null_mut();
        // SAFETY: writes one handle; the device is one that the driver has just named. The context is current
        // on this thread from here on, and on no other.
        line.call(Call::ContextCreate, |d| unsafe {
            (d.context_create)(&mut raw, SCHEDULED_BY_DRIVER, device)
        })?;
        line.begin(raw);
        // From here on, dropping destroys the context.
        let context = Context {
            line,
            raw,
            number: CONTEXTS.fetch_add(1, Ordering::Relaxed),
            modules: RefCell::default(),
            pools: RefCell::default(),
            is_capturing: Cell::new(false),
            captured: RefCell::default(),
        };
        Ok(Gpu { context: Rc::new(context) })
    }

    /// What other threads can see of this one.
    pub fn watch(&self) -> &Watch {
        self.context.line.watch()
    }

    /// Bytes that are free on the device now; other processes may take them.
    ///
    /// # Errors
    /// The driver's error.
    pub fn memory_free(&self) -> Result<usize, GpuError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        self.context.line.call(Call::MemoryInfo, |d| unsafe { (d.memory_info)(&mut free, &mut total) })?;
        Ok(free)
    }

    /// A time that the device measured itself, with injected slowness applied.
    pub fn as_reported(&self, time: Span) -> Span {
        if self.watch().injected() == Some(GpuFault::Slow) { time.times(call::SLOW) } else { time }
    }
}

fn driver(call: Call) -> Result<&'static Driver, GpuError> {
    // A `GpuInfo` comes from a probe, which has opened the library.
    driver::open().map_err(|_| GpuError { call, code: code::NO_DEVICE })
}

fn ordinal(found: &GpuInfo) -> i32 {
    i32::try_from(found.ordinal).unwrap_or(i32::MAX)
}

impl Context {
    /// Counts requested work: at once or, if a graph is being captured, each time the graph is replayed.
    pub(super) fn count(&self, more: Counts) {
        if self.is_capturing.get() {
            let each = &mut self.captured.borrow_mut().each;
            each.copies_in += more.copies_in;
            each.copies_out += more.copies_out;
            each.bytes_out += more.bytes_out;
            each.copies_within += more.copies_within;
        } else {
            self.line.watch().add(&more);
        }
    }

    /// If a graph is being captured, keeps `used` alive as long as that graph.
    pub(super) fn keep(&self, used: &Rc<impl Any>) {
        if self.is_capturing.get() {
            self.captured.borrow_mut().used.push(used.clone());
        }
    }

    /// Whether a range lies within one pool.
    pub(super) fn has(&self, address: u64, bytes: usize) -> bool {
        let Some(end) = address.checked_add(bytes as u64) else { return false };
        self.pools.borrow().iter().any(|(first, last)| *first <= address && end <= *last)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        for module in self.modules.take() {
            // SAFETY: loaded in this context, unloaded once; no kernel of it is launched any more, as a
            // launch needs a stream, which would hold this context.
            self.line.release(Call::ModuleUnload, |d| unsafe { (d.module_unload)(module) });
        }
        // SAFETY: created when it was opened, destroyed once. Everything created in this context holds a
        // reference to it, so none of that exists any more.
        self.line.release(Call::ContextDestroy, |d| unsafe { (d.context_destroy)(self.raw) });
        self.line.end();
    }
}
