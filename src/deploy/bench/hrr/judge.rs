//! The figures of holographic memory on a GPU that have targets in a board (`hrr_...` of `[targets.gpu]`),
//! and the use of GPU memory.

use super::compare::{cell_of, comparisons};
use super::{HrrFigures, Operation};
use crate::base::plan::GpuTargets;
use crate::deploy::bench::verdict::Row;
use crate::memory::choice::Residence;
use crate::memory::gpu::{GpuWorkspace, Unfit};
use serde::Serialize;

/// Length of the vectors to which the targets apply.
const D: usize = 512;
/// Batch size of the targets for a batch and for transfers.
const BATCH: usize = 100;
/// Number of vectors in the sum to which the target for superposition applies.
const SUM: usize = 1000;

/// GPU memory used for rows of one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryFigure {
    /// Numbers in a row.
    pub d: usize,
    /// Rows of the largest batch.
    pub rows: usize,
    /// Bytes that the rows need, in all areas together.
    pub wanted_bytes: usize,
    /// How many of these bytes were allocated, in one allocation at the start; `None`: the allocation was
    /// refused.
    pub allocated_bytes: Option<usize>,
    /// Bytes that the driver reserved for the rows and the kernels; `None`: refused, or unknown.
    pub reserved_bytes: Option<usize>,
    /// Bytes that the GPU has; `None`: the allocation was refused because other processes use its memory.
    pub limit_bytes: Option<usize>,
    /// The larger of needed and reserved bytes, divided by the bytes that the GPU has.
    pub share_of_limit: Option<f64>,
    /// Why the allocation was refused.
    pub refused: Option<String>,
}

impl MemoryFigure {
    /// The figure of an open workspace.
    pub(super) fn of(gpu: &GpuWorkspace) -> MemoryFigure {
        let (wanted, limit) = (gpu.bytes(), gpu.found().memory_bytes);
        MemoryFigure {
            d: gpu.dim().get(),
            rows: gpu.room().rows,
            wanted_bytes: wanted,
            allocated_bytes: Some(wanted),
            reserved_bytes: gpu.reserved(),
            limit_bytes: Some(limit),
            share_of_limit: share(gpu.reserved().unwrap_or(wanted).max(wanted), limit),
            refused: None,
        }
    }

    /// The figure of rows for which the GPU has too little memory; `None` if there is another reason.
    pub(super) fn refused(d: usize, rows: usize, unfit: &Unfit) -> Option<MemoryFigure> {
        let (wanted, limit) = match unfit {
            Unfit::Limit { wanted, limit } => (*wanted, Some(*limit)),
            Unfit::Memory { wanted, .. } => (*wanted, None),
            Unfit::Absent(_) | Unfit::Length { .. } | Unfit::Gpu(_) => return None,
        };
        Some(MemoryFigure {
            d,
            rows,
            wanted_bytes: wanted,
            allocated_bytes: None,
            reserved_bytes: None,
            limit_bytes: limit,
            share_of_limit: limit.and_then(|limit| share(wanted, limit)),
            refused: Some(unfit.to_string()),
        })
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Each figure with its target. `unjudged`: why no target is judged on this machine, if none is.
pub fn rows(targets: &GpuTargets, figures: &HrrFigures, unjudged: Option<&str>) -> Vec<Row> {
    let of = |operation, batch| {
        let cell = cell_of(&figures.cells, operation, D, batch, Some(Residence::Host));
        cell.map(|cell| cell.p50_us)
    };
    let (bind, unbind) = (of(Operation::Bind, 1), of(Operation::Unbind, 1));
    let pair = bind.zip(unbind).map(|(bind, unbind)| bind + unbind);
    let transfer = comparisons(&figures.cells)
        .into_iter()
        .find(|one| (one.operation, one.d, one.batch) == (Operation::Bind, D, BATCH));
    let transfer = transfer.and_then(|one| one.transfer_share);
    let memory = figures.memory.iter().filter_map(|memory| memory.share_of_limit).reduce(f64::max);
    let timed = |what: &str, batch, us, target| {
        let row = Row::new(format!("GPU: {what} of {batch} x {D}, p50"), "us", us).at_most(target);
        (row, format!("needs --dims {D} and --batches {batch}"))
    };
    let transfer_row = Row::new(format!("GPU: transfers' share of time, bind {BATCH} x {D}"), "1", transfer);
    let memory_row = Row::new("GPU: memory of the rows, share of the total", "1", memory);
    let transfer_needs = format!("needs --dims {D} and --batches {BATCH}, and a measurable transfer time");
    let rows = vec![
        timed("bind", 1, bind, targets.hrr_bind_us),
        timed("bind and unbind", 1, pair, targets.hrr_pair_us),
        timed("bind", BATCH, of(Operation::Bind, BATCH), targets.hrr_batch_us),
        timed("superposition", SUM, of(Operation::SuperposeUnit, SUM), targets.hrr_superpose_us),
        (transfer_row.at_most(targets.hrr_transfer_share), transfer_needs),
        (memory_row.at_most(targets.hrr_memory_share), "other processes use the GPU's memory".into()),
    ];
    let unjudged = match (&figures.gpu, figures.emulated) {
        (Some(gpu), Some(true)) => Some(format!("the GPU '{}' is emulated on the CPU", gpu.name)),
        _ => unjudged.map(String::from),
    };
    // If one row length does not fit, the figures of the others must not be affected.
    let absence = figures.gpu_absence.clone().filter(|_| figures.gpu.is_none());
    let finished = rows.into_iter().map(|(mut row, needs)| {
        if row.measured.is_none() {
            row.not_measured = Some(absence.clone().unwrap_or(needs));
        } else if row.target.is_some() {
            row.not_judged.clone_from(&unjudged);
        }
        row.judged()
    });
    finished.collect()
}

#[cfg(test)]
mod tests {
    use super::super::GpuName;
    use super::super::compare::tests::cell;
    use super::*;

    const TARGETS: GpuTargets = GpuTargets {
        cycle_us: None,
        cycle_f16_us: None,
        batch_us: None,
        copy_share: None,
        evolve_us: None,
        gradients_us: None,
        motor_us: None,
        overhead_us: None,
        match_us: None,
        memory_mb: None,
        host_share: None,
        hrr_bind_us: Some(100.0),
        hrr_pair_us: Some(1000.0),
        hrr_batch_us: Some(2000.0),
        hrr_superpose_us: Some(1000.0),
        hrr_transfer_share: Some(0.1),
        hrr_memory_share: Some(0.8),
    };

    fn memory(share: f64) -> MemoryFigure {
        let refused = Unfit::Limit { wanted: (share * 1e6) as usize, limit: 1_000_000 };
        MemoryFigure::refused(512, 1, &refused).expect("a lack of memory")
    }

    /// A GPU that needs 90 us for each operation, or 80 us without the transfers.
    fn figures() -> HrrFigures {
        let mut cells = Vec::new();
        for (operation, batch) in [
            (Operation::Bind, 1),
            (Operation::Unbind, 1),
            (Operation::Bind, BATCH),
            (Operation::SuperposeUnit, SUM),
        ] {
            cells.push(cell(operation, batch, Some(Residence::Host), 90.0));
            cells.push(cell(operation, batch, Some(Residence::Gpu), 80.0));
        }
        let gpu = Some(GpuName { name: "a GPU".into(), driver: "12.6".into() });
        HrrFigures { cells, gpu, emulated: Some(false), memory: vec![memory(0.5)], ..HrrFigures::default() }
    }

    fn verdicts(rows: &[Row]) -> Vec<Option<bool>> {
        rows.iter().map(|row| row.pass).collect()
    }

    #[test]
    fn each_figure_is_compared_with_its_own_target() {
        let found = rows(&TARGETS, &figures(), None);
        let all: Vec<_> = found.iter().map(|row| row.measured.expect("measured")).collect();
        assert_eq!(all[..4], [90.0, 180.0, 90.0, 90.0]);
        assert!((all[4] - 1.0 / 9.0).abs() < 1e-12 && (all[5] - 0.5).abs() < 1e-12);
        let missed = Some(false);
        assert_eq!(verdicts(&found), [Some(true), Some(true), Some(true), Some(true), missed, Some(true)]);
        // More than 80 % of the GPU's memory: the allocation is refused and the target is missed.
        let full = HrrFigures { memory: vec![memory(0.5), memory(0.9)], ..figures() };
        assert_eq!(verdicts(&rows(&TARGETS, &full, None))[5], missed);
        assert!(
            full.memory[1].refused.as_ref().is_some_and(|why| why.contains("more than 80 % of its 1000000"))
        );
    }

    #[test]
    fn absent_figures_are_neither_met_nor_missed() {
        let nothing = HrrFigures { gpu_absence: Some("no GPU".into()), ..HrrFigures::default() };
        for row in rows(&TARGETS, &nothing, None) {
            assert_eq!((row.measured, row.pass, row.not_measured.as_deref()), (None, None, Some("no GPU")));
        }
        let few = HrrFigures { cells: figures().cells[..4].to_vec(), memory: Vec::new(), ..figures() };
        let found = rows(&TARGETS, &few, None);
        assert_eq!(verdicts(&found), [Some(true), Some(true), None, None, None, None]);
        assert_eq!(found[3].not_measured.as_deref(), Some("needs --dims 512 and --batches 1000"));
    }

    #[test]
    fn an_emulated_gpu_is_not_judged() {
        let emulated = HrrFigures { emulated: Some(true), memory: vec![memory(0.9)], ..figures() };
        for row in rows(&TARGETS, &emulated, None) {
            assert!(row.pass.is_none() && row.measured.is_some(), "{row:?}");
            assert!(row.not_judged.is_some_and(|why| why.contains("emulated")));
        }
        let elsewhere = rows(&TARGETS, &figures(), Some("another robot"));
        assert!(elsewhere.iter().all(|row| row.pass.is_none()));
    }
}
