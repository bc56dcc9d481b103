//! Device memory and page-locked host memory: each value is one allocation, made at the start and released at
//! the end. Copies nothing.

#![allow(unsafe_code)] // calls to the driver, and host memory that it allocated; reasons at each place

use std::ffi::c_void;
use std::ops::{Deref, DerefMut, Range};
use std::rc::Rc;

use cudarc::driver::sys::{CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CUdeviceptr};

use super::context::{Context, Gpu};
use super::driver::Call;
use super::error::{GpuError, code};
use super::flight::Flights;
use super::watch::Counts;

/// One allocation on the device. Its contents are undefined at the start.
pub struct Pool {
    context: Rc<Context>,
    address: u64,
    bytes: usize,
}

impl Pool {
    /// Allocates `bytes` bytes.
    ///
    /// # Errors
    /// `is_memory` if there is not that much; any other error of the driver.
    pub fn take(gpu: &Gpu, bytes: usize) -> Result<Pool, GpuError> {
        let mut address: CUdeviceptr = 0;
        // SAFETY: writes one address.
        gpu.context.line.call(Call::Allocate, |d| unsafe { (d.allocate)(&mut address, bytes) })?;
        gpu.context.count(Counts { device_allocations: 1, ..Counts::default() });
        gpu.context.pools.borrow_mut().push((address, address + bytes as u64));
        Ok(Pool { context: gpu.context.clone(), address, bytes })
    }

    /// Its device address: a multiple of 256.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.context.pools.borrow_mut().retain(|(first, _)| *first != self.address);
        // SAFETY: allocated in this context, freed once. The driver waits for the work that still uses it.
        self.context.line.release(Call::Free, |d| unsafe { (d.free)(self.address) });
    }
}

/// One page-locked allocation on the host: the device copies from and to it without the processor. It is
/// ordinary cached memory (not write-combined), so that the processor reads it at full speed.
///
/// During a copy the device reads or writes this memory, which the compiler does not see. So the host
/// accesses it only through a [`Look`] or a [`LookMut`]. From the moment a copy is queued until its stream,
/// or an event after it, is known to be done, the memory refuses a [`Look`] at a range that the copy writes,
/// and a [`LookMut`] at a range that the copy uses. While a [`LookMut`] at any range of the allocation
/// exists, no copy begins; while a [`Look`] exists, no copy that writes the allocation begins.
///
/// No copy reads a range while the host writes it:
///
/// ```compile_fail,E0502
/// # fn wrong(stream: ganglion::system::gpu::Stream, mut pinned: ganglion::system::gpu::Pinned) -> Result<(), ganglion::system::gpu::GpuError> {
/// let mut bytes = pinned.bytes_mut()?;
/// stream.copy_in(0, &pinned, 0..8)?; // the device would read what is being written
/// bytes[0] = 1;
/// # Ok(()) }
/// ```
///
/// No slice outlives its look, so none is left when a copy begins or the memory is freed:
///
/// ```compile_fail,E0505
/// # fn wrong(pinned: ganglion::system::gpu::Pinned) -> Result<u8, ganglion::system::gpu::GpuError> {
/// let look = pinned.bytes()?;
/// let bytes: &[u8] = &look;
/// drop(look);
/// Ok(bytes[0]) // `bytes` would have outlived its look
/// # }
/// ```
///
/// ```
/// # fn right(stream: ganglion::system::gpu::Stream, mut pinned: ganglion::system::gpu::Pinned) -> Result<(), ganglion::system::gpu::GpuError> {
/// pinned.bytes_mut()?[0] = 1;
/// stream.copy_in(0, &pinned, 0..8)
/// # }
/// ```
pub struct Pinned {
    pub(super) page: Rc<Page>,
}

pub(super) struct Page {
    context: Rc<Context>,
    start: *mut u8,
    bytes: usize,
    pub(super) flights: Flights,
}

/// Read access to a range of host memory.
pub struct Look<'p> {
    seen: &'p [u8],
    page: &'p Page,
}

/// Write access to a range of host memory.
pub struct LookMut<'p> {
    seen: &'p mut [u8],
    page: &'p Page,
}

impl Pinned {
    /// Allocates `bytes` bytes, all 0, at a multiple of 64.
    ///
    /// # Errors
    /// `is_memory` if no more may be locked; any other error of the driver.
    pub fn take(gpu: &Gpu, bytes: usize) -> Result<Pinned, GpuError> {
        let flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
        let mut start: *mut c_void = std::ptr::null_mut();
        let line = &gpu.context.line;
        // SAFETY: writes one address.
        line.call(Call::HostAllocate, |d| unsafe { (d.host_allocate)(&mut start, bytes, flags) })?;
        gpu.context.count(Counts { pinned_allocations: 1, ..Counts::default() });
        let flights = Flights::default();
        let page = Page { context: gpu.context.clone(), start: start.cast(), bytes, flights };
        // SAFETY: the driver has just allocated `bytes` bytes, which stay allocated and which nothing else
        // refers to.
        unsafe { page.start.write_bytes(0, bytes) };
        Ok(Pinned { page: Rc::new(page) })
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.page.bytes
    }

    /// Whether its size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it.
    ///
    /// # Errors
    /// As for `part`.
    pub fn bytes(&self) -> Result<Look<'_>, GpuError> {
        self.part(0..self.len())
    }

    /// All of it, to be written.
    ///
    /// # Errors
    /// As for `part`.
    pub fn bytes_mut(&mut self) -> Result<LookMut<'_>, GpuError> {
        self.part_mut(0..self.len())
    }

    /// A range of it.
    ///
    /// # Errors
    /// Returned without calling the driver: invalid value if the range is not within the allocation, not
    /// ready (600) while a copy is writing it or may still write it.
    pub fn part(&self, range: Range<usize>) -> Result<Look<'_>, GpuError> {
        let page = &*self.page;
        let start = page.within(&range)?;
        if !page.flights.read(&range) {
            return page.refuse(code::NOT_READY);
        }
        // SAFETY: within the page, which stays until the look is dropped; all of it was written at the start.
        // Nothing writes it meanwhile: no copy to there is under way or begins (`flights`); a writer would
        // borrow `self` mutably.
        let seen = unsafe { std::slice::from_raw_parts(start, range.len()) };
        Ok(Look { seen, page })
    }

    /// A range of it, to be written.
    ///
    /// # Errors
    /// As for `part`; also not ready while a copy is reading the range or may still read it.
    pub fn part_mut(&mut self, range: Range<usize>) -> Result<LookMut<'_>, GpuError> {
        let page = &*self.page;
        let start = page.within(&range)?;
        if !page.flights.write(&range) {
            return page.refuse(code::NOT_READY);
        }
        // SAFETY: as for `part`; `self` is borrowed mutably, so no other look exists, and no copy touches it
        // meanwhile.
        let seen = unsafe { std::slice::from_raw_parts_mut(start, range.len()) };
        Ok(LookMut { seen, page })
    }
}

impl Deref for Look<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.seen
    }
}

impl Deref for LookMut<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.seen
    }
}

impl DerefMut for LookMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.seen
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.page.flights.end_read();
    }
}

impl Drop for LookMut<'_> {
    fn drop(&mut self) {
        self.page.flights.end_write();
    }
}

impl Page {
    fn within(&self, range: &Range<usize>) -> Result<*mut u8, GpuError> {
        self.at(range).map_or_else(|| self.refuse(code::INVALID_VALUE), Ok)
    }

    /// Errors about the allocation name the call that made it.
    fn refuse<T>(&self, code: i32) -> Result<T, GpuError> {
        Err(GpuError { call: Call::HostAllocate, code })
    }

    /// Where a range begins, if all of it is within the allocation.
    pub(super) fn at(&self, range: &Range<usize>) -> Option<*mut u8> {
        let is_within = range.start <= range.end && range.end <= self.bytes;
        // SAFETY: at most one past the end of what is, or was, the allocation; only `part` and `part_mut`
        // access it.
        is_within.then(|| unsafe { self.start.add(range.start) })
    }

    /// Whether it belongs to this context.
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
