//! What this machine really does, measured now, beside what it could do at best in the same seconds:
//! the control loop beside a bare timer, the field's cycle beside a plain copy of as many bytes.
//! On a GPU it is a copy in the GPU's own memory. Blocks of one and of the other take turns, so that both meet the
//! same neighbours.
//!
//! Measures and judges; says nothing. Words and JSON are the command line's.

mod gpu;
mod control;
mod copy;
mod device;
mod page_faults;
mod feed;
mod field;
mod hrr;
mod survey;
pub mod verdict;

pub use control::{LoopFigures, Measured, bench_loop};
pub use device::{DeviceBench, DeviceFigures, PARTS_OF_A_CYCLE};
pub use field::{BenchFault, FieldBench, FieldFigures};
pub use gpu::{GpuFigures, gpu_figures};
pub use hrr::{HrrBench, HrrFault, HrrFigure, HrrFigures, OPERATIONS, Operation};
pub use survey::{Survey, survey};

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody asked for the end.
fn ended(interrupted: &AtomicBool) -> bool {
    interrupted.load(Ordering::Relaxed)
}
