//! Events: markers in the order of a device's work. They tell whether the device has passed them, and the
//! time between two of them.

#![allow(unsafe_code)] // calls to the driver; reasons at each place

use std::cell::RefCell;
use std::rc::Rc;

use cudarc::driver::sys::CUevent;

use super::GpuFault;
use super::call::{Held, SLOW};
use super::context::{Context, Gpu};
use super::driver::Call;
use super::error::{GpuError, code};
use super::flight;

/// `CU_EVENT_DEFAULT`: times are recorded.
const TIMED: u32 = 0;

/// A marker that a stream passes when all work queued before it is done.
pub struct Event {
    pub(super) mark: Rc<RawEvent>,
}

pub(super) struct RawEvent {
    pub(super) context: Rc<Context>,
    pub(super) raw: CUevent,
    held: Held,
    /// The copies queued before it when a stream last recorded it; nothing once a graph uses it, because each
    /// replay records it again.
    behind: RefCell<Behind>,
}

/// What an event reports about copies.
enum Behind {
    /// Nothing: no stream recorded it.
    Nothing,
    /// These copies are done when it is passed.
    Copies(flight::StreamPosition),
    /// Nothing, permanently: a graph uses it.
    Graph,
}

impl RawEvent {
    /// A stream recorded it after `copies`.
    pub(super) fn is_behind(&self, copies: flight::StreamPosition) {
        let mut behind = self.behind.borrow_mut();
        if !matches!(*behind, Behind::Graph) {
            *behind = Behind::Copies(copies);
        }
    }

    /// A capture uses it.
    pub(super) fn is_of_a_graph(&self) {
        self.behind.replace(Behind::Graph);
    }
}

impl Event {
    /// An event that no stream has recorded yet; it counts as passed.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(gpu: &Gpu) -> Result<Event, GpuError> {
        let mut raw: CUevent = std::ptr::null_mut();
        // SAFETY: writes one handle.
        gpu.context.line.call(Call::EventCreate, |d| unsafe { (d.event_create)(&mut raw, TIMED) })?;
        let mark = RawEvent {
            context: gpu.context.clone(),
            raw,
            held: Held::default(),
            behind: RefCell::new(Behind::Nothing),
        };
        Ok(Event { mark: Rc::new(mark) })
    }

    /// Whether the device has passed it since it was last recorded. Never waits.
    ///
    /// # Errors
    /// The driver's error: of this call, or of any work before it.
    pub fn is_done(&self) -> Result<bool, GpuError> {
        let mark = &self.mark;
        // SAFETY: a live event of this context.
        let asked =
            mark.context.line.is_done(Call::EventQuery, &mark.held, |d| unsafe { (d.event_query)(mark.raw) });
        if let (Ok(true), Behind::Copies(copies)) = (asked, &*mark.behind.borrow()) {
            copies.is_passed();
        }
        asked
    }

    /// Time on the device from passing `earlier` to passing this event, in microseconds; the driver returns
    /// it in milliseconds, as an f32, with a resolution of about half a microsecond.
    ///
    /// # Errors
    /// Returned without calling the driver: invalid handle if the events belong to different contexts.
    /// Otherwise not ready (600) if the device has not passed both yet, or another error of the driver.
    pub fn micros_since(&self, earlier: &Event) -> Result<f64, GpuError> {
        let context = &self.mark.context;
        if !Rc::ptr_eq(context, &earlier.mark.context) {
            return context.line.refuse(Call::EventElapsed, code::INVALID_HANDLE);
        }
        let mut millis = 0.0_f32;
        let (from, to) = (earlier.mark.raw, self.mark.raw);
        // SAFETY: writes one number; two live events of this context.
        context.line.call(Call::EventElapsed, |d| unsafe { (d.event_elapsed)(&mut millis, from, to) })?;
        let slowed = if context.line.watch().injected() == Some(GpuFault::Slow) { SLOW as f64 } else { 1.0 };
        Ok(f64::from(millis) * 1e3 * slowed)
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        // SAFETY: created in this context, destroyed once; no graph uses it, as a graph would hold it.
        self.context.line.release(Call::EventDestroy, |d| unsafe { (d.event_destroy)(self.raw) });
    }
}
