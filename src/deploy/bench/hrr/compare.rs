//! Compares measured cells: GPU with CPU, and each batch size with the next larger one. A figure whose cells
//! were not measured is absent, never 0.

use super::{HrrFigure, Operation};
use crate::memory::choice::Residence;
use serde::Serialize;

/// One operation on one batch, on CPU and GPU. Times are medians.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Its operation.
    pub operation: Operation,
    /// Numbers in a row.
    pub d: usize,
    /// Rows.
    pub batch: usize,
    /// The CPU's time divided by the GPU's, if the rows come from the host and the result goes back there.
    pub speed_up_from_host: Option<f64>,
    /// The CPU's time divided by the GPU's, if the rows are on the GPU.
    pub speed_up: Option<f64>,
    /// Time of a plain copy of the same size in the GPU's memory, divided by the time of the operation on
    /// rows in that memory: 1 is as fast as the copy.
    pub efficiency: Option<f64>,
    /// Time to copy the rows to the GPU and the result back, microseconds: the operation's time with these
    /// copies minus its time without them. `None` also if the time without them is not shorter.
    pub transfer_us: Option<f64>,
    /// `transfer_us` divided by the time with the copies.
    pub transfer_share: Option<f64>,
}

/// How the time grows from one measured batch size to the next larger one, on the same device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// Its operation.
    pub operation: Operation,
    /// Numbers in a row.
    pub d: usize,
    /// 1: the caller's thread; 0: the GPU.
    pub threads: usize,
    /// Where the GPU's rows were; `None`: the CPU computed the batch.
    pub residence: Option<Residence>,
    /// Rows of the smaller batch.
    pub from: usize,
    /// Rows of the larger batch.
    pub to: usize,
    /// Time of the larger batch divided by that of the smaller one.
    pub times: f64,
    /// Exponent of a power law through both times, as a function of the batch size: 0 is constant, 1 is
    /// proportional.
    pub exponent: f64,
}

/// Compares GPU and CPU on each operation and batch that the GPU computed.
pub(super) fn comparisons(cells: &[HrrFigure]) -> Vec<Comparison> {
    let mut found: Vec<Comparison> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.residence.is_some()) {
        let (operation, d, batch) = (cell.operation, cell.d, cell.batch);
        if found.iter().any(|known| (known.operation, known.d, known.batch) == (operation, d, batch)) {
            continue;
        }
        let of = |residence| cell_of(cells, operation, d, batch, residence);
        let processor = of(None).map(|cell| cell.p50_us);
        let from_host = of(Some(Residence::Host)).map(|cell| cell.p50_us);
        let there = of(Some(Residence::Gpu));
        let on_gpu = there.map(|cell| cell.p50_us);
        let transfer_us = from_host.zip(on_gpu).map(|(all, part)| all - part).filter(|us| *us > 0.0);
        found.push(Comparison {
            operation,
            d,
            batch,
            speed_up_from_host: over(processor, from_host),
            speed_up: over(processor, on_gpu),
            efficiency: over(there.and_then(|cell| cell.gpu_copy_us), on_gpu),
            transfer_us,
            transfer_share: over(transfer_us, from_host),
        });
    }
    found
}

/// The growth of each operation that was measured with more than one batch size.
pub(super) fn growth(cells: &[HrrFigure]) -> Vec<Growth> {
    let mut found = Vec::new();
    for cell in cells {
        let same = |other: &&HrrFigure| {
            let key = |cell: &HrrFigure| (cell.operation, cell.d, cell.threads, cell.residence);
            key(other) == key(cell) && other.batch > cell.batch
        };
        let Some(next) = cells.iter().filter(same).min_by_key(|other| other.batch) else { continue };
        let Some(times) = over(Some(next.p50_us), Some(cell.p50_us)) else { continue };
        found.push(Growth {
            operation: cell.operation,
            d: cell.d,
            threads: cell.threads,
            residence: cell.residence,
            from: cell.batch,
            to: next.batch,
            times,
            exponent: times.ln() / (next.batch as f64 / cell.batch as f64).ln(),
        });
    }
    found
}

/// The cell of an operation on a batch.
pub(super) fn cell_of(
    cells: &[HrrFigure],
    operation: Operation,
    d: usize,
    batch: usize,
    residence: Option<Residence>,
) -> Option<&HrrFigure> {
    let wanted = (operation, d, batch, residence);
    cells.iter().find(|cell| (cell.operation, cell.d, cell.batch, cell.residence) == wanted)
}

/// `above` divided by `below`; `None` if either is missing or not positive.
fn over(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    above.zip(below).filter(|(above, below)| *above > 0.0 && *below > 0.0).map(|(above, below)| above / below)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A cell for rows of 512 numbers.
    pub fn cell(operation: Operation, batch: usize, residence: Option<Residence>, p50_us: f64) -> HrrFigure {
        HrrFigure {
            operation,
            d: 512,
            batch,
            threads: usize::from(residence.is_none()),
            residence,
            p50_us,
            min_us: p50_us,
            n: 5,
            bytes: operation.bytes(512, batch),
            floor_us: 1.0,
            ratio_to_floor: p50_us,
            gpu_copy_us: (residence == Some(Residence::Gpu)).then_some(2.0),
        }
    }

    const HOST: Option<Residence> = Some(Residence::Host);
    const GPU: Option<Residence> = Some(Residence::Gpu);

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-12)
    }

    #[test]
    fn a_gpu_is_compared_with_the_processor_on_the_same_batch() {
        let bind = |batch, residence, us| cell(Operation::Bind, batch, residence, us);
        let cells = [bind(1, None, 8.0), bind(100, None, 800.0), bind(100, HOST, 40.0), bind(100, GPU, 10.0)];
        let found = comparisons(&cells);
        assert_eq!(found.len(), 1, "only the CPU computed the batch of 1");
        let Comparison { speed_up_from_host, speed_up, efficiency, transfer_us, transfer_share, .. } =
            found[0];
        assert!(close(speed_up_from_host, 20.0) && close(speed_up, 80.0), "{found:?}");
        assert!(
            close(efficiency, 0.2) && close(transfer_us, 30.0) && close(transfer_share, 0.75),
            "{found:?}"
        );
    }

    #[test]
    fn a_figure_that_was_not_measured_is_absent_not_zero() {
        // A clean-up transfers no rows. A transfer without measurable time has the same result.
        let clean = [cell(Operation::CleanUp, 10, GPU, 10.0)];
        let Comparison { speed_up_from_host, speed_up, efficiency, transfer_us, transfer_share, .. } =
            comparisons(&clean)[0];
        assert_eq!([speed_up_from_host, speed_up, transfer_us, transfer_share], [None; 4]);
        assert!(close(efficiency, 0.2));
        let equal = [cell(Operation::Bind, 10, HOST, 9.0), cell(Operation::Bind, 10, GPU, 10.0)];
        let found = &comparisons(&equal)[0];
        assert_eq!((found.transfer_us, found.transfer_share, found.speed_up), (None, None, None));
        assert!(comparisons(&[cell(Operation::Bind, 10, None, 9.0)]).is_empty());
    }

    #[test]
    fn growth_compares_neighbouring_batches_of_one_kind() {
        let bind = |batch, residence, us| cell(Operation::Bind, batch, residence, us);
        let cells = [
            bind(1000, None, 900.0),
            bind(1, None, 1.0),
            bind(10, None, 10.0),
            bind(10, HOST, 5.0),
            bind(1000, HOST, 5.0),
            cell(Operation::Unbind, 100, None, 7.0),
        ];
        let found = growth(&cells);
        let pairs: Vec<_> = found.iter().map(|one| (one.from, one.to, one.threads)).collect();
        assert_eq!(pairs, [(1, 10, 1), (10, 1000, 1), (10, 1000, 0)]);
        assert!((found[0].times - 10.0).abs() < 1e-12 && (found[0].exponent - 1.0).abs() < 1e-12);
        assert!((found[1].exponent - 90_f64.ln() / 100_f64.ln()).abs() < 1e-12);
        assert!(found[2].exponent.abs() < 1e-12, "the time is constant");
    }
}
