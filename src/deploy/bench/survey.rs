//! Measures a board's field at every quality level, in the other storage format and on one thread, in one
//! session. The variants alternate in several rounds: a temporary load on the machine affects all of them
//! alike, so their ratios are more accurate than each figure alone.

use super::ended;
use super::field::{BenchFault, FieldBench, FieldFigures};
use crate::base::plan::{FieldPlan, QUALITY_LEVELS, QualityLevel, Storage};
use crate::base::time::Span;
use std::sync::atomic::AtomicBool;

/// Number of rounds.
const ROUNDS: u64 = 4;
/// Level 0 is measured this many times as long as the others, because the tail of its distribution matters.
const BEST_SHARES: u64 = 4;

/// The measurement.
pub struct Survey {
    /// The engine's name.
    pub engine: &'static str,
    /// The engine's device, and why it was chosen, as text.
    pub engine_name: String,
    /// The format in which the engine stores its cells.
    pub storage: &'static str,
    /// Instruction set that the engine uses.
    pub simd: &'static str,
    /// Threads that share the work.
    pub threads: usize,
    /// Memory that the engine uses, bytes.
    pub memory_bytes: usize,
    /// The board's field, by quality level.
    pub levels: [FieldFigures; QUALITY_LEVELS],
    /// Level 0 in the other storage format; `None`: the engine has no other.
    pub other_storage: Option<FieldFigures>,
    /// Level 0 on one thread; `None`: the board already uses one.
    pub one_thread: Option<FieldFigures>,
}

impl Survey {
    /// The figures of level 0 in this storage format, if it was measured.
    pub fn in_storage(&self, storage: Storage) -> Option<&FieldFigures> {
        if self.storage == storage.name() { Some(&self.levels[0]) } else { self.other_storage.as_ref() }
    }
}

/// Measures the field of `plan` for `length` of real time, plus the time to load it. `watch` receives the
/// fraction of `length` that has passed.
pub fn survey(
    plan: &FieldPlan,
    length: Span,
    interrupted: &AtomicBool,
    mut watch: impl FnMut(f64),
) -> Result<Survey, BenchFault> {
    let mut own = FieldBench::build(plan, None)?;
    let mut other_storage = has_storages(&own).then(|| variant(&other(plan))).transpose()?;
    let one = (own.engine().threads() > 1).then(|| FieldPlan { threads: 1, ..plan.clone() });
    let mut one_thread = one.map(|plan| variant(&plan)).transpose()?;

    let variants = [&other_storage, &one_thread].into_iter().flatten().count() as u64;
    let shares = BEST_SHARES + (QUALITY_LEVELS as u64 - 1) + variants;
    let share = Span::from_nanos(length.as_nanos() / (ROUNDS * shares));
    let mut levels: [FieldFigures; QUALITY_LEVELS] = std::array::from_fn(|_| FieldFigures::new());
    let mut passed = 0;
    let mut turn =
        |bench: &mut FieldBench, quality: QualityLevel, shares_due: u64, figures: &mut FieldFigures| {
            if ended(interrupted) {
                return;
            }
            bench.measure(quality, share.times(shares_due), figures, interrupted, &mut |_| {});
            passed += shares_due;
            watch(passed as f64 / (ROUNDS * shares) as f64);
        };
    for _ in 0..ROUNDS {
        for (number, figures) in levels.iter_mut().enumerate() {
            let quality = QualityLevel::new(number as u8).unwrap_or(QualityLevel::WORST);
            turn(&mut own, quality, if number == 0 { BEST_SHARES } else { 1 }, figures);
        }
        for (bench, figures) in [&mut other_storage, &mut one_thread].into_iter().flatten() {
            turn(bench, QualityLevel::BEST, 1, figures);
        }
    }
    let engine = own.engine();
    Ok(Survey {
        engine: engine.kind(),
        engine_name: engine.name(),
        storage: engine.storage(),
        simd: engine.simd(),
        threads: engine.threads(),
        memory_bytes: engine.memory_bytes(),
        levels,
        other_storage: other_storage.map(|(_, figures)| figures),
        one_thread: one_thread.map(|(_, figures)| figures),
    })
}

fn variant(plan: &FieldPlan) -> Result<(FieldBench, FieldFigures), BenchFault> {
    Ok((FieldBench::build(plan, None)?, FieldFigures::new()))
}

/// Whether the engine supports both storage formats; the reference engine stores its cells in f64.
fn has_storages(bench: &FieldBench) -> bool {
    [Storage::F32, Storage::F16].iter().any(|storage| storage.name() == bench.engine().storage())
}

/// The plan of the same field in the other storage format.
fn other(plan: &FieldPlan) -> FieldPlan {
    let storage = match plan.storage {
        Storage::F32 => Storage::F16,
        Storage::F16 => Storage::F32,
    };
    FieldPlan { storage, ..plan.clone() }
}
