//! PTX to machine code for the GPU of the current context, by the driver's own compiler.

#![allow(unsafe_code)] // calls of the driver; reasons at each place

use std::ffi::{CString, c_void};

use cudarc::driver::sys::{CUjit_option, CUjitInputType, CUlinkState};

use super::context::Context;
use super::driver::Call;
use super::error::{GpuError, code};

/// Room for what the compiler complains of; the rest is cut off.
const LOG_BYTES: usize = 16 << 10;

/// Compiles a text. A fraction of a second on a desk, a second or two on a Jetson.
///
/// # Errors
/// What the driver says; what its compiler says goes into the log.
pub(super) fn compile(context: &Context, ptx: &str) -> Result<Vec<u8>, GpuError> {
    // A zero byte would end the text early for the driver.
    let Ok(text) = CString::new(ptx) else { return context.line.refuse(Call::LinkAdd, code::INVALID_PTX) };
    let mut said = vec![0_u8; LOG_BYTES];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER as i32,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as i32,
    ];
    // The driver takes numbers as if they were addresses, and keeps all this until the linker goes.
    let mut values: [*mut c_void; 2] =
        [said.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG_BYTES)];
    let mut raw: CUlinkState = std::ptr::null_mut();
    context.line.call(Call::LinkCreate, |d| {
        // SAFETY: writes one handle; two options with two values, which outlive the linker.
        unsafe { (d.link_create)(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut raw) }
    })?;
    let linker = Linker { context, raw };
    let result = linker.run(&text);
    drop(linker);
    if let Err(error) = &result {
        let length = said.iter().position(|byte| *byte == 0).unwrap_or(LOG_BYTES);
        let said = String::from_utf8_lossy(&said[..length]);
        log::error!("the driver failed to compile the kernels: {error}: {}", said.trim());
    }
    result
}

/// A linker under way; gone when dropped.
struct Linker<'a> {
    context: &'a Context,
    raw: CUlinkState,
}

impl Linker<'_> {
    fn run(&self, text: &CString) -> Result<Vec<u8>, GpuError> {
        let line = &self.context.line;
        let bytes = text.as_bytes_with_nul();
        let kind = CUjitInputType::CU_JIT_INPUT_PTX as i32;
        line.call(Call::LinkAdd, |d| {
            // SAFETY: a live linker; the text is only read, ends in NUL within the length that is given, and
            // is not needed after the call; no options.
            unsafe {
                (d.link_add)(
                    self.raw,
                    kind,
                    bytes.as_ptr().cast_mut().cast(),
                    bytes.len(),
                    c"kernels".as_ptr(),
                    0,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            }
        })?;
        let (mut start, mut length): (*mut c_void, usize) = (std::ptr::null_mut(), 0);
        line.call(Call::LinkComplete, |d| {
            // SAFETY: a live linker; writes an address and a length.
            unsafe { (d.link_complete)(self.raw, &mut start, &mut length) }
        })?;
        if start.is_null() || length == 0 {
            return line.refuse(Call::LinkComplete, code::INVALID_PTX);
        }
        // SAFETY: the linker owns that many bytes there until it goes.
        Ok(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec())
    }
}

impl Drop for Linker<'_> {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        self.context.line.release(Call::LinkDestroy, |d| unsafe { (d.link_destroy)(self.raw) });
    }
}
