//! Computes how much memory a field will need, before anything is built.

use crate::base::plan::{EngineKind, FieldPlan, Storage};
use crate::field::shape::{BANK_BLOCK, CHANNELS, CONTEXT, DESCRIPTOR, GROUP, GROUPS, PATTERN, regressors};

/// Maximum number of bytes of host memory that the field's engine will take, computed for a full library and
/// a full bank, and slightly more than the engine itself reports. With a GPU engine, it is the standby CPU
/// engine that uses this host memory; the GPU engine needs about the same amount again in device memory. A
/// board is refused if this much memory is not available, so that memory does not run out later.
pub fn field_bytes(plan: &FieldPlan) -> u64 {
    bytes_with(plan, plan.shape.patterns, plan.shape.bank)
}

/// Bytes that the engine takes at its start, with an empty library and bank.
pub fn start_bytes(plan: &FieldPlan) -> u64 {
    match plan.engine {
        // It allocates everything at once.
        EngineKind::Reference => field_bytes(plan),
        _ => bytes_with(plan, 0, plan.shape.bank.min(GROUPS * BANK_BLOCK)),
    }
}

/// Bytes with this many patterns stored, and memory for this many experiences.
fn bytes_with(plan: &FieldPlan, patterns: usize, experiences: usize) -> u64 {
    let shape = &plan.shape;
    let volume = PATTERN * shape.cells();
    let (field, pattern, row) = match plan.engine {
        // Everything is in f64 except the patterns; the blend is kept in addition to the field.
        EngineKind::Reference => {
            (8 * both((CHANNELS + PATTERN + 2) * shape.cells()), 4 * volume, 8 * DESCRIPTOR)
        }
        // Each row of the bank is kept twice: in f32 and in bytes.
        _ => (cells_and_copies(plan), 2 * both(volume), 5 * DESCRIPTOR),
    };
    // A slot's context, and the headers of its volumes.
    let slot = (CONTEXT + 1) * size_of::<f64>() + 2 * PATTERN / GROUP * size_of::<Vec<i16>>();
    let memories = patterns * pattern + shape.patterns * slot + experiences * row + shape.bank * 32;
    let regressors = regressors(shape.sensors);
    let prediction = size_of::<f64>() * regressors * (regressors + shape.sensors);
    let motor = size_of::<f32>() * shape.weights();
    (field + memories + prediction + motor + SMALL) as u64
}

/// `cells`, plus those of the grid with half as many cells along each axis.
const fn both(cells: usize) -> usize {
    cells + cells / 8
}

/// Bytes of the field in single or half precision, the copies into which a step writes, and each job's work
/// space. With more than one thread, every group of channels has a copy, and there are spare copies for each
/// worker, for when it is late.
fn cells_and_copies(plan: &FieldPlan) -> usize {
    let (cells, grid) = (plan.shape.cells(), plan.shape.grid);
    let spares = 2 * (plan.threads.clamp(1, GROUPS) - 1);
    // Groups in f32 and in half precision, and copies of each.
    let (full, half) = if plan.storage == Storage::F16 { (2, 6) } else { (GROUPS, 0) };
    let copies = |groups: usize| match groups {
        0 => 0,
        _ if spares > 0 => groups + 2 * spares,
        _ => 1,
    };
    let groups = 4 * (full + copies(full)) + 2 * (half + copies(half));
    let jobs = if spares > 0 { GROUPS + spares } else { 1 };
    let room = 10 * cells + 16 * grid * grid + 4 * plan.shape.sensors * grid + plan.shape.bank;
    groups * both(GROUP * cells) + jobs * room
}

/// Allowance for vectors, rings and planes of fixed size, bytes.
const SMALL: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Shape;
    use crate::field::engine;

    fn agree(when: &str, plan: &FieldPlan, estimate: u64, taken: usize) {
        let (shape, threads, taken) = (plan.shape, plan.threads, taken as u64);
        let words = format!("{when}: {shape:?}, {threads}: {taken} bytes, {estimate} computed");
        assert!(taken <= estimate && estimate <= taken + taken / 3 + (2 << 20), "{words}");
    }

    /// A robot's field with room for 100 patterns and 10,000 experiences, none of which exist yet.
    #[test]
    fn empty_library_and_bank_take_no_memory() {
        let board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let shape = Shape { grid: 32, patterns: 100, bank: 10_000, ..board.field.shape };
        let plan = FieldPlan { shape, engine: EngineKind::Cpu, threads: 1, ..board.field.clone() };
        let without = FieldPlan { shape: Shape { patterns: 1, bank: 1, ..shape }, ..plan.clone() };
        let (empty, none) = (engine::build(&plan).memory_bytes(), engine::build(&without).memory_bytes());
        assert!(empty < none + (2 << 20), "{empty} bytes with both empty, {none} without them");
        assert!(field_bytes(&plan) > start_bytes(&plan) + 130_000_000);
    }

    #[test]
    fn estimate_is_slightly_above_what_an_engine_takes() {
        let board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        for (grid, patterns, bank, storage, engine, threads) in [
            (8, 1, 1, Storage::F32, EngineKind::Cpu, 1),
            (8, 300, 10, Storage::F16, EngineKind::Cpu, 2),
            (16, 10, 20_000, Storage::F32, EngineKind::Auto, 1),
            (32, 20, 10, Storage::F16, EngineKind::Cpu, 1),
            (32, 20, 10, Storage::F32, EngineKind::Cpu, 1),
            (32, 1, 10, Storage::F32, EngineKind::Cpu, 2),
            (32, 1, 10, Storage::F16, EngineKind::Cpu, 4),
            (16, 40, 5_000, Storage::F32, EngineKind::Reference, 1),
        ] {
            let shape = Shape { grid, patterns, bank, ..board.field.shape };
            let plan = FieldPlan { shape, storage, engine, threads, ..board.field.clone() };
            let mut engine = engine::build(&plan);
            agree("at its start", &plan, start_bytes(&plan), engine.memory_bytes());
            let volume = vec![0.0; PATTERN * shape.cells()];
            assert!((0..patterns).all(|slot| engine.store_pattern(slot, &volume, &[0.0; CONTEXT], 1.0)));
            assert!((0..bank).all(|_| engine.store_experience(&[1.0; DESCRIPTOR], 1.0)));
            agree("full", &plan, field_bytes(&plan), engine.memory_bytes());
        }
    }
}
