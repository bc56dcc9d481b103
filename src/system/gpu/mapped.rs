//! Host memory that kernels read and write in place. The program owns it and the driver only registers it
//! with the device. So it stays valid when the context is lost or destroyed, and reading it needs no driver
//! call.

#![allow(unsafe_code)] // calls to the driver; reasons at each place

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::{CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CUdeviceptr};

use super::call::Held;
use super::context::{Context, Gpu};
use super::driver::Call;
use super::error::GpuError;
use crate::system::rt::words::Words;

/// Words of host memory that are registered with the device.
pub struct Mapped {
    context: Rc<Context>,
    words: Arc<Words>,
    address: u64,
    held: Held,
}

impl Mapped {
    /// Registers `words` with the device, which locks them in memory.
    ///
    /// # Errors
    /// The driver's error; `is_memory` if no more may be locked.
    pub fn new(gpu: &Gpu, words: Arc<Words>) -> Result<Mapped, GpuError> {
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
        let (start, bytes) = (words.as_ptr().cast_mut().cast(), words.bytes());
        let context = &gpu.context;
        // SAFETY: whole pages that live as long as `words` has an owner; the `Mapped` becomes one.
        context.line.call(Call::HostRegister, |d| unsafe { (d.host_register)(start, bytes, flags) })?;
        // From here on, dropping `mapped` cancels the registration.
        let mut mapped = Mapped { context: context.clone(), words, address: 0, held: Held::default() };
        let mut address: CUdeviceptr = 0;
        // SAFETY: writes one address; the memory was just registered.
        let ask = |d: &super::driver::Driver| unsafe { (d.host_address)(&mut address, start, 0) };
        context.line.call(Call::HostAddress, ask)?;
        mapped.address = address;
        Ok(mapped)
    }

    /// The device address of word `word`.
    pub fn address(&self, word: usize) -> u64 {
        debug_assert!(word < self.words.len());
        self.address + (word * size_of::<u32>()) as u64
    }

    /// The words.
    pub fn words(&self) -> &Arc<Words> {
        &self.words
    }

    /// Whether the device has written `value` to word `word`. If so, everything that the kernel wrote before
    /// a system-wide fence that precedes this write is visible too. Makes no driver call.
    pub fn is_written(&self, word: usize, value: u32) -> bool {
        self.words[word].load(Ordering::Acquire) == value && self.context.line.is_reported(&self.held)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let start = self.words.as_ptr().cast_mut().cast();
        // SAFETY: registered once in this context. The words are freed after this, if they have no other
        // owner.
        self.context.line.release(Call::HostUnregister, |d| unsafe { (d.host_unregister)(start) });
    }
}
