//! A plan for the engine's own tests.

use crate::base::plan::{EngineKind, FieldPlan, Params, Shape, Storage};
use crate::base::time::Span;

/// 16 sensors on `grid` cells per axis.
pub fn plan(grid: usize) -> FieldPlan {
    FieldPlan {
        engine: EngineKind::Auto,
        shape: Shape { grid, sensors: 16, motors: 5, patterns: 6, bank: 12 },
        params: Params::default(),
        seed: 7,
        dt: Span::from_millis(50),
        every_ticks: 1,
        threads: 1,
        cpus: Vec::new(),
        storage: Storage::F32,
        learn: true,
        start: Vec::new(),
        correction: 1.0,
    }
}
