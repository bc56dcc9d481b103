//! Compares what this machine does with the best that it could do at the same time: the control loop with a
//! bare timer, the field's cycle with a plain copy of the same size. On a GPU, the copy is within the GPU's
//! own memory. Blocks of the two alternate, so both run under the same load.
//!
//! Measures and judges, and prints nothing: the command line writes the text and the JSON.

mod brain;
mod gpu;
mod control;
mod copy;
mod decision;
mod device;
mod page_faults;
mod feed;
mod field;
mod hrr;
mod navigator;
mod survey;
mod tether;
pub mod verdict;
mod record;

pub use brain::{BrainBench, BrainFigures, NoBench, Served};
pub use control::{LoopFigures, Measured, bench_loop};
pub use decision::DECISION_FIELDS;
pub use device::{DeviceBench, DeviceFigures};
pub use field::{BenchFault, FieldBench, FieldFigures};
pub use gpu::{GpuFigures, gpu_figures};
pub use hrr::{
    Comparison, HrrBench, HrrFault, HrrFigure, HrrFigures, MemoryFigure, OPERATIONS, Operation,
    rows as hrr_rows,
};
pub use record::{RecordFigures, Turns, bench_record};
pub use survey::{Survey, survey};
pub use tether::{NoTetherBench, TetherBench, TetherFigures, Trips};

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user has asked to end.
fn ended(interrupted: &AtomicBool) -> bool {
    interrupted.load(Ordering::Relaxed)
}
