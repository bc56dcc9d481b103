//! Computes how much memory a field takes, before anything is built.

use crate::field::shape::{CHANNELS, CONTEXT, DESCRIPTOR, GROUP, GROUPS, PATTERN, regressors};
use crate::plan::{EngineKind, FieldPlan, Storage};

/// Bytes that the field's engine takes at its start, by arithmetic: a little more than it says of itself. A
/// GPU takes about as much again on the device, and the processor's engine is on standby.
pub fn field_bytes(plan: &FieldPlan) -> u64 {
    let shape = &plan.shape;
    let volume = PATTERN * shape.cells();
    let (field, pattern, row) = match plan.engine {
        // All in f64 but the patterns, and what is blended beside the field.
        EngineKind::Reference => {
            (8 * both((CHANNELS + PATTERN + 2) * shape.cells()), 4 * volume, 8 * DESCRIPTOR)
        }
        // Rows of the bank lie there in f32 and in bytes.
        _ => (cells_and_copies(plan), 2 * both(volume), 5 * DESCRIPTOR),
    };
    let patterns = shape.patterns * (pattern + CONTEXT * size_of::<f64>() + 8);
    let regressors = regressors(shape.sensors);
    let prediction = size_of::<f64>() * regressors * (regressors + shape.sensors);
    let motor = size_of::<f32>() * shape.weights();
    (field + patterns + shape.bank * (row + 32) + prediction + motor + SMALL) as u64
}

/// `cells`, and as many on the grid with half as many along each axis.
const fn both(cells: usize) -> usize {
    cells + cells / 8
}

/// Bytes of the field in single precision or less, of what a step writes it into, and of the room of each
/// job. With more than one thread every group of channels has a copy, and so have late threads.
fn cells_and_copies(plan: &FieldPlan) -> usize {
    let (cells, grid) = (plan.shape.cells(), plan.shape.grid);
    let spares = 2 * (plan.threads.clamp(1, GROUPS) - 1);
    // Groups in f32 and in halves, and copies of each.
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

/// Vectors, rings and planes that no number of a board makes longer.
const SMALL: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Engine;
    use crate::plan::Shape;

    #[test]
    fn the_estimate_is_what_an_engine_takes_and_a_little_more() {
        let board = crate::board::built_in("sim").unwrap().unwrap().board;
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
            let (said, taken) = (field_bytes(&plan), Engine::build(&plan).memory_bytes() as u64);
            assert!(taken <= said, "{shape:?}, {threads}: {taken} bytes, {said} by arithmetic");
            assert!(
                said <= taken + taken / 3 + (2 << 20),
                "{shape:?}, {threads}: {taken} bytes, {said} by arithmetic"
            );
        }
    }
}
