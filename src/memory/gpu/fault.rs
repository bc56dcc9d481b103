//! Why a GPU is not available, and why an operation on one failed.

use crate::memory::fault::Fault;
use crate::system::gpu::{Absence, GpuError};
use std::fmt;

/// Why there is no GPU for a memory. Its `Display` is a sentence.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfit {
    /// No usable GPU.
    Absent(Absence),
    /// The rows need a longer transform than a GPU can do.
    Length {
        /// Numbers in a row.
        d: usize,
        /// Numbers in the transform of such a row.
        needed: usize,
    },
    /// The GPU has less free memory than the rows would take.
    Memory {
        /// Bytes that they would take.
        wanted: usize,
        /// Bytes that are free.
        free: usize,
    },
    /// The rows would take more than [`super::MOST_OF_A_GPU`] of the GPU's total memory.
    Limit {
        /// Bytes that they would take.
        wanted: usize,
        /// Total memory of the GPU in bytes.
        limit: usize,
    },
    /// The driver reports an error.
    Gpu(GpuError),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Absent(absence) => absence.fmt(f),
            Unfit::Length { d, needed } => write!(
                f,
                "rows of {d} numbers need a transform of {needed}; a GPU block's shared memory holds {}; \
                 a power of two, or at most {}, would do",
                super::LONGEST,
                super::LONGEST / 2
            ),
            Unfit::Memory { wanted, free } => {
                write!(f, "the rows need {wanted} bytes of the GPU's memory; {free} are free")
            }
            Unfit::Limit { wanted, limit } => {
                let percent = 100.0 * super::MOST_OF_A_GPU;
                write!(
                    f,
                    "the rows need {wanted} bytes of the GPU's memory, more than {percent:.0} % of its {limit}; \
                     fewer rows would do"
                )
            }
            Unfit::Gpu(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unfit {}

/// Why an operation was not done. The output is unchanged, but a search may have cleared its list of matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GpuWorkspaceFault {
    /// The request itself is wrong, on any device.
    Preference(Fault),
    /// The driver reports an error, or the device has failed. A lost device cannot be used any more.
    Gpu(GpuError),
    /// The operation did not finish in time; the GPU cannot be used any more.
    Late,
}

impl fmt::Display for GpuWorkspaceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GpuWorkspaceFault::Preference(fault) => fault.fmt(f),
            GpuWorkspaceFault::Gpu(error) => error.fmt(f),
            GpuWorkspaceFault::Late => f.write_str("the GPU did not finish its work in time"),
        }
    }
}

impl std::error::Error for GpuWorkspaceFault {}

impl From<Fault> for GpuWorkspaceFault {
    fn from(fault: Fault) -> GpuWorkspaceFault {
        GpuWorkspaceFault::Preference(fault)
    }
}

impl From<GpuError> for GpuWorkspaceFault {
    fn from(error: GpuError) -> GpuWorkspaceFault {
        GpuWorkspaceFault::Gpu(error)
    }
}
