//! Memory of the device and page-locked memory of the host: one allocation each, taken at the start and
//! given back at the end. Copies nothing.

#![allow(unsafe_code)] // calls of the driver, and host memory that it gave; reasons at each place

use std::ffi::c_void;
use std::ops::Range;
use std::rc::Rc;

use cudarc::driver::sys::{CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CUdeviceptr};

use super::context::{Context, Gpu};
use super::driver::Call;
use super::error::GpuError;
use super::watch::Counts;

/// One allocation on the device. What is in it at the start is anything.
pub struct Pool {
    context: Rc<Context>,
    address: u64,
    bytes: usize,
}

impl Pool {
    /// Takes `bytes` bytes.
    ///
    /// # Errors
    /// `is_memory` if there is not so much; anything else that the driver says.
    pub fn take(gpu: &Gpu, bytes: usize) -> Result<Pool, GpuError> {
        let mut address: CUdeviceptr = 0;
        // SAFETY: writes one address.
        gpu.context.line.call(Call::Allocate, |d| unsafe { (d.allocate)(&mut address, bytes) })?;
        gpu.context.count(Counts { device_allocations: 1, ..Counts::default() });
        gpu.context.pools.borrow_mut().push((address, address + bytes as u64));
        Ok(Pool { context: gpu.context.clone(), address, bytes })
    }

    /// Where it begins, as kernels see it: a multiple of 256.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How much it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.context.pools.borrow_mut().retain(|(first, _)| *first != self.address);
        // SAFETY: allocated in this context, freed once. The driver waits for what still uses it.
        self.context.line.release(Call::Free, |d| unsafe { (d.free)(self.address) });
    }
}

/// One page-locked allocation on the host: the device copies from and to it without the processor. It is
/// ordinary cached memory (not write-combined), so that the processor reads it at full speed.
///
/// The device writes to it when a copy says so, beside all that the compiler sees. So: no range is read
/// while it is copied to, and none is written while it is copied from or to, from the order of the copy
/// until its stream or an event behind it is done. Use a `Pinned` a slot, or `part` and `part_mut`.
pub struct Pinned {
    pub(super) page: Rc<Page>,
}

pub(super) struct Page {
    context: Rc<Context>,
    start: *mut u8,
    bytes: usize,
}

impl Pinned {
    /// Takes `bytes` bytes, all 0, at a multiple of 64.
    ///
    /// # Errors
    /// `is_memory` if no more may be locked; anything else that the driver says.
    pub fn take(gpu: &Gpu, bytes: usize) -> Result<Pinned, GpuError> {
        let flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
        let mut start: *mut c_void = std::ptr::null_mut();
        let line = &gpu.context.line;
        // SAFETY: writes one address.
        line.call(Call::HostAllocate, |d| unsafe { (d.host_allocate)(&mut start, bytes, flags) })?;
        gpu.context.count(Counts { pinned_allocations: 1, ..Counts::default() });
        let page = Page { context: gpu.context.clone(), start: start.cast(), bytes };
        // SAFETY: the driver has just given `bytes` bytes that nobody else knows of.
        unsafe { page.start.write_bytes(0, bytes) };
        Ok(Pinned { page: Rc::new(page) })
    }

    /// How much it is; nothing once the context was reset.
    pub fn len(&self) -> usize {
        self.page.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it, while nothing of it is copied to; empty once the context was reset.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the driver gave this memory, all of it was written, and it lives as long as the page;
        // nobody else has it but the device, of which the caller knows (see `Pinned`).
        unsafe { std::slice::from_raw_parts(self.page.start, self.page.len()) }
    }

    /// All of it, while nothing of it is copied; empty once the context was reset.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; `self` is borrowed mutably, so there is no other slice.
        unsafe { std::slice::from_raw_parts_mut(self.page.start, self.page.len()) }
    }

    /// A range of it, while that range is not copied to; `None` if it is not within.
    pub fn part(&self, range: Range<usize>) -> Option<&[u8]> {
        let start = self.page.at(&range)?;
        // SAFETY: within the page, else as for `bytes`.
        Some(unsafe { std::slice::from_raw_parts(start, range.len()) })
    }

    /// A range of it, while that range is not copied; `None` if it is not within.
    pub fn part_mut(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        let start = self.page.at(&range)?;
        // SAFETY: within the page, else as for `bytes_mut`.
        Some(unsafe { std::slice::from_raw_parts_mut(start, range.len()) })
    }
}

impl Page {
    fn len(&self) -> usize {
        if self.context.line.is_gone() { 0 } else { self.bytes }
    }

    /// Where a range begins, if all of it is within.
    pub(super) fn at(&self, range: &Range<usize>) -> Option<*mut u8> {
        let is_within = range.start <= range.end && range.end <= self.len();
        // SAFETY: at most one past the end of the allocation.
        is_within.then(|| unsafe { self.start.add(range.start) })
    }

    /// Whether it is of this context.
    pub(super) fn is_of(&self, context: &Rc<Context>) -> bool {
        Rc::ptr_eq(&self.context, context)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: allocated in this context, freed once; the driver waits for copies that still use it.
        self.context.line.release(Call::HostFree, |d| unsafe { (d.host_free)(self.start.cast()) });
    }
}
