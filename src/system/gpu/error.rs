//! What went wrong in a driver call: which call, which code. Small and `Copy`; formatting produces the
//! message.

use std::fmt;

use cudarc::driver::sys::CUresult;

use super::driver::{self, Call};

/// A driver call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuError {
    /// The function.
    pub call: Call,
    /// Its result, as `CUresult` in NVIDIA's cuda.h; newer drivers have codes that no list here contains.
    pub code: i32,
}

/// Codes that the program checks by name.
pub(super) mod code {
    use super::CUresult;

    pub const INVALID_VALUE: i32 = CUresult::CUDA_ERROR_INVALID_VALUE as i32;
    pub const OUT_OF_MEMORY: i32 = CUresult::CUDA_ERROR_OUT_OF_MEMORY as i32;
    pub const STUB_LIBRARY: i32 = CUresult::CUDA_ERROR_STUB_LIBRARY as i32;
    pub const NO_DEVICE: i32 = CUresult::CUDA_ERROR_NO_DEVICE as i32;
    pub const INVALID_PTX: i32 = CUresult::CUDA_ERROR_INVALID_PTX as i32;
    pub const INVALID_HANDLE: i32 = CUresult::CUDA_ERROR_INVALID_HANDLE as i32;
    pub const NOT_READY: i32 = CUresult::CUDA_ERROR_NOT_READY as i32;
    pub const ILLEGAL_ADDRESS: i32 = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS as i32;
    pub const DRIVER_MISMATCH: i32 = CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH as i32;
    pub const COMPAT_NOT_SUPPORTED: i32 = CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE as i32;
    pub const UNKNOWN: i32 = CUresult::CUDA_ERROR_UNKNOWN as i32;
}

/// Codes after which, according to cuda.h, every further call in the context returns the same error, and
/// codes that say that the context is gone.
const LOST: [i32; 16] = [
    CUresult::CUDA_ERROR_DEINITIALIZED as i32,
    CUresult::CUDA_ERROR_INVALID_CONTEXT as i32,
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE as i32,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE as i32,
    226, // CUDA_ERROR_CONTAINED, newer than the bindings
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS as i32,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT as i32,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED as i32,
    CUresult::CUDA_ERROR_ASSERT as i32,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR as i32,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION as i32,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS as i32,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE as i32,
    CUresult::CUDA_ERROR_INVALID_PC as i32,
    CUresult::CUDA_ERROR_LAUNCH_FAILED as i32,
    721, // CUDA_ERROR_TENSOR_MEMORY_LEAK, newer than the bindings
];

impl GpuError {
    /// Nothing works in this context any more: another one has to be opened, and everything created again in
    /// it.
    pub fn is_lost(&self) -> bool {
        LOST.contains(&self.code)
    }

    /// There is not enough memory on the device (or, for a pinned allocation, not enough host memory that may
    /// be locked).
    pub fn is_memory(&self) -> bool {
        self.code == code::OUT_OF_MEMORY
    }
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, code) = (self.call.name(), self.code);
        match driver::opened().and_then(|driver| driver.name_and_text(code)) {
            Some((name, sentence)) => write!(f, "{call}: {name} ({code}): {sentence}"),
            None => write!(f, "{call}: CUDA error {code}"),
        }
    }
}

impl std::error::Error for GpuError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_error_code_is_printed_as_a_number() {
        let error = GpuError { call: Call::Launch, code: 31_337 };
        assert_eq!(error.to_string(), "cuLaunchKernel: CUDA error 31337");
        assert!(!error.is_lost() && !error.is_memory());
    }

    #[test]
    fn device_loss_and_out_of_memory_are_different_errors() {
        let of = |code| GpuError { call: Call::Allocate, code };
        assert!(of(code::ILLEGAL_ADDRESS).is_lost() && of(719).is_lost() && of(709).is_lost());
        assert!(of(code::OUT_OF_MEMORY).is_memory() && !of(code::OUT_OF_MEMORY).is_lost());
        // The context also survives a bad call, an image for another chip, and a launch that needs too many
        // resources.
        for code in [code::INVALID_VALUE, 209, 701, code::UNKNOWN, code::NOT_READY] {
            assert!(!of(code).is_lost(), "{code}");
        }
    }

    #[test]
    fn every_call_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> = Call::ALL.iter().map(|call| call.name()).collect();
        assert_eq!(names.len(), Call::ALL.len());
        for (number, call) in Call::ALL.iter().enumerate() {
            assert_eq!(*call as usize, number, "{call:?}");
        }
    }
}
