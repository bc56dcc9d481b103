//! Measures what this machine does now against the best it could do in the same seconds: the control loop
//! against a bare timer, the field's cycle against a plain copy of as many bytes. On a GPU the copy is in the
//! GPU's own memory. Blocks of one and of the other take turns, so that both run under the same load.
//!
//! Measures and judges, prints nothing. The command line makes the words and JSON.

mod brain;
mod gpu;
mod control;
mod copy;
mod device;
mod page_faults;
mod feed;
mod field;
mod hrr;
mod survey;
mod tether;
pub mod verdict;

pub use brain::{BrainBench, BrainFigures, NoBench, Served};
pub use control::{LoopFigures, Measured, bench_loop};
pub use device::{DeviceBench, DeviceFigures};
pub use field::{BenchFault, FieldBench, FieldFigures};
pub use gpu::{GpuFigures, gpu_figures};
pub use hrr::{
    Comparison, HrrBench, HrrFault, HrrFigure, HrrFigures, MemoryFigure, OPERATIONS, Operation,
    rows as hrr_rows,
};
pub use survey::{Survey, survey};
pub use tether::{NoTetherBench, TetherBench, TetherFigures, Trips};

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the end was requested.
fn ended(interrupted: &AtomicBool) -> bool {
    interrupted.load(Ordering::Relaxed)
}
