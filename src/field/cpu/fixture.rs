//! A plan for the engine's own tests.

use crate::base::plan::{EngineKind, FieldPlan, Params, Shape, Storage};
use crate::base::time::Span;

/// 64 sensors on `grid` cells per axis.
pub fn plan(grid: usize) -> FieldPlan {
    FieldPlan {
        engine: EngineKind::Cpu,
        shape: Shape { grid, sensors: 64, motors: 1, patterns: 1, bank: 9 },
        params: Params::default(),
        seed: 1,
        dt: Span::from_millis(50),
        every_ticks: 1,
        threads: 1,
        cpus: Vec::new(),
        storage: Storage::F32,
        learn: false,
        start: Vec::new(),
        correction: 1.0,
    }
}
