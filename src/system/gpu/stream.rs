//! Streams: copies, fills, launches and events in order. Every call enqueues and returns; none waits.

#![allow(unsafe_code)] // calls to the driver; reasons at each place

use std::ffi::c_void;
use std::ops::Range;
use std::rc::Rc;

use cudarc::driver::sys::{CUevent_record_flags, CUstream, CUstream_flags};

use super::call::Held;
use super::context::{Context, Copy, Gpu};
use super::driver::Call;
use super::error::{GpuError, code};
use super::event::Event;
use super::flight::{CopyDirection, Progress};
use super::image::Kernel;
use super::memory::Pinned;
use super::watch::Counts;

/// Which stream's work comes first when the device has to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// The device's highest priority.
    High,
    /// The device's lowest priority.
    Low,
}

/// A queue of work that the device executes in order. Work in two streams is ordered only by events.
pub struct Stream {
    pub(super) context: Rc<Context>,
    pub(super) raw: CUstream,
    held: Held,
    /// How many of its copies are known to be done.
    pub(super) progress: Rc<Progress>,
}

/// One launch of a kernel. All kernels of this program take the same two arguments: the address of a table
/// and a pair of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// What runs.
    pub kernel: Kernel,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block, along x.
    pub block: u32,
    /// Address of the table, in a pool.
    pub table: u64,
    /// The two numbers.
    pub words: [u32; 2],
}

impl Stream {
    /// An empty stream that does not wait for the default stream.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(gpu: &Gpu, priority: Priority) -> Result<Stream, GpuError> {
        let line = &gpu.context.line;
        let (mut lowest, mut highest) = (0, 0);
        // SAFETY: writes two numbers.
        line.call(Call::PriorityRange, |d| unsafe { (d.priority_range)(&mut lowest, &mut highest) })?;
        let priority = if priority == Priority::High { highest } else { lowest };
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut raw: CUstream = std::ptr::null_mut();
        // SAFETY: writes one handle.
        line.call(Call::StreamCreate, |d| unsafe { (d.stream_create)(&mut raw, flags, priority) })?;
        Ok(Stream { context: gpu.context.clone(), raw, held: Held::default(), progress: Rc::default() })
    }

    /// Copies a range of host memory to `to` on the device.
    ///
    /// # Errors
    /// Returned without calling the driver: invalid value if the range is not within `from` or its target not
    /// within a pool, not ready while a `LookMut` at `from` exists or too many streams copy from or to it.
    /// Otherwise the driver's error.
    pub fn copy_in(&self, to: u64, from: &Pinned, range: Range<usize>) -> Result<(), GpuError> {
        let start = self.host_side(Call::CopyIn, CopyDirection::In, from, &range, to)?;
        self.hand_over(Call::CopyIn, Counts { copies_in: 1, ..Counts::default() }, |d| {
            // SAFETY: `from` or a graph keeps the page, or the page is freed only after the copy; nothing on
            // the host conflicts with the copy until it is known to be done; the device's side is in a pool.
            unsafe { (d.copy_in)(to, start.cast_const().cast(), range.len(), self.raw) }
        })
    }

    /// Copies from `from` on the device to a range of host memory, which the host may read again when the
    /// copy is done.
    ///
    /// # Errors
    /// As for `copy_in`; also not ready while a `Look` at `to` exists.
    pub fn copy_out(&self, from: u64, to: &Pinned, range: Range<usize>) -> Result<(), GpuError> {
        let start = self.host_side(Call::CopyOut, CopyDirection::Out, to, &range, from)?;
        let bytes_out = range.len() as u64;
        self.hand_over(Call::CopyOut, Counts { copies_out: 1, bytes_out, ..Counts::default() }, |d| {
            // SAFETY: as for `copy_in`.
            unsafe { (d.copy_out)(start.cast(), from, range.len(), self.raw) }
        })
    }

    /// Copies within the device's memory.
    ///
    /// # Errors
    /// As for `copy_in`.
    pub fn copy_within(&self, from: u64, to: u64, bytes: usize) -> Result<(), GpuError> {
        self.device_side(Call::CopyWithin, from, bytes)?;
        self.device_side(Call::CopyWithin, to, bytes)?;
        self.hand_over(Call::CopyWithin, Counts { copies_within: 1, ..Counts::default() }, |d| {
            // SAFETY: both ranges are in pools.
            unsafe { (d.copy_within)(to, from, bytes, self.raw) }
        })
    }

    /// Sets `bytes` bytes, starting at `to`, to `byte`.
    ///
    /// # Errors
    /// As for `copy_in`.
    pub fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), GpuError> {
        self.device_side(Call::Fill, to, bytes)?;
        // SAFETY: the range is in a pool.
        self.hand_over(Call::Fill, Counts::default(), |d| unsafe { (d.fill)(to, byte, bytes, self.raw) })
    }

    /// Launches a kernel. What it does with its table is not checked: kernels are part of this program.
    ///
    /// # Errors
    /// Returned without calling the driver: invalid handle if the kernel belongs to another context, invalid
    /// value if the table is not in a pool. Otherwise the driver's error.
    pub fn launch(&self, launch: &Launch) -> Result<(), GpuError> {
        if launch.kernel.context != self.context.number {
            return self.context.line.refuse(Call::Launch, code::INVALID_HANDLE);
        }
        self.device_side(Call::Launch, launch.table, 1)?;
        let (mut table, mut words) = (launch.table, launch.words);
        let mut arguments: [*mut c_void; 2] = [(&raw mut table).cast(), (&raw mut words).cast()];
        let [x, y, z] = launch.grid;
        self.hand_over(Call::Launch, Counts { launches: 1, ..Counts::default() }, |d| {
            // SAFETY: a kernel of a module that lives as long as the context. Its arguments are a pointer and
            // a struct of two u32, read before the call returns; no dynamic shared memory is used.
            unsafe {
                (d.launch)(
                    launch.kernel.raw,
                    x,
                    y,
                    z,
                    launch.block,
                    1,
                    1,
                    0,
                    self.raw,
                    arguments.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        })
    }

    /// Records the event. During a capture, the recording becomes part of the graph: each replay repeats it.
    /// Until a replay reaches the event, a query of it may still report the previous replay. To find out
    /// whether a replay is done, query the stream or an event that is recorded after the replay.
    ///
    /// # Errors
    /// Returned without calling the driver: invalid handle if the event belongs to another context. Otherwise
    /// the driver's error.
    pub fn record(&self, event: &Event) -> Result<(), GpuError> {
        let mark = &event.mark;
        self.check(Call::EventRecord, event)?;
        self.context.keep(mark);
        if self.context.is_capturing.get() {
            mark.is_of_a_graph();
            let flags = CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
            self.hand_over(Call::EventRecordExternal, Counts::default(), |d| {
                // SAFETY: a live event of this context, kept by the graph.
                unsafe { (d.event_record_external)(mark.raw, self.raw, flags) }
            })
        } else {
            mark.is_behind(self.progress.mark());
            // SAFETY: a live event of this context.
            self.hand_over(Call::EventRecord, Counts::default(), |d| unsafe {
                (d.event_record)(mark.raw, self.raw)
            })
        }
    }

    /// Work queued on this stream from now on runs after the event. The stream waits, the caller does not.
    ///
    /// # Errors
    /// As for `record`.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        self.check(Call::StreamWait, event)?;
        // SAFETY: a live event of this context; 0 is the only flag that every driver knows.
        self.context.line.call(Call::StreamWait, |d| unsafe { (d.stream_wait)(self.raw, event.mark.raw, 0) })
    }

    /// Whether all its work is done. Never waits.
    ///
    /// # Errors
    /// The driver's error, caused by this call or by any earlier work.
    pub fn is_done(&self) -> Result<bool, GpuError> {
        let line = &self.context.line;
        // SAFETY: a live stream of this context.
        let is_done =
            line.is_done(Call::StreamQuery, &self.held, |d| unsafe { (d.stream_query)(self.raw) })?;
        if is_done {
            self.progress.mark().is_passed();
        }
        Ok(is_done)
    }

    pub(super) fn hand_over(
        &self,
        call: Call,
        counts: Counts,
        make: impl FnOnce(&super::driver::Driver) -> i32,
    ) -> Result<(), GpuError> {
        self.context.line.call(call, make)?;
        self.context.count(counts);
        Ok(())
    }

    fn check(&self, call: Call, event: &Event) -> Result<(), GpuError> {
        if Rc::ptr_eq(&event.mark.context, &self.context) {
            return Ok(());
        }
        self.context.line.refuse(call, code::INVALID_HANDLE)
    }

    /// Refuses a range on the device that is not within a pool: host and device share one address space, so a
    /// wrong address could be one in host memory.
    fn device_side(&self, call: Call, address: u64, bytes: usize) -> Result<(), GpuError> {
        if self.context.has(address, bytes) {
            return Ok(());
        }
        self.context.line.refuse(call, code::INVALID_VALUE)
    }

    /// Start of the host's side of a copy. Checks that both sides are within their allocations. From now on,
    /// or for a captured copy from each replay on, the range counts as being copied.
    fn host_side(
        &self,
        call: Call,
        way: CopyDirection,
        pinned: &Pinned,
        range: &Range<usize>,
        device: u64,
    ) -> Result<*mut u8, GpuError> {
        self.device_side(call, device, range.len())?;
        let start = pinned.page.at(range).filter(|_| pinned.page.is_of(&self.context));
        let Some(start) = start else { return self.context.line.refuse(call, code::INVALID_VALUE) };
        if self.context.is_capturing.get() {
            let copy = Copy { page: pinned.page.clone(), range: range.clone(), way };
            self.context.captured.borrow_mut().copies.push(copy);
        } else if !pinned.page.flights.begin(&self.progress, range.clone(), way) {
            return self.context.line.refuse(call, code::NOT_READY);
        }
        Ok(start)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created in this context, destroyed once. Work that is still queued is done all the same.
        self.context.line.release(Call::StreamDestroy, |d| unsafe { (d.stream_destroy)(self.raw) });
    }
}
