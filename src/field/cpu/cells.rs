//! Eight channels on one grid, in either storage.

use super::cell::Cell;
use crate::base::plan::Storage;
use crate::field::shape::GROUP;
use crate::field::slices::copy_every;
use crate::system::cpu::simd::{Half, Kernel, Level, Simd};
use crate::system::rt::pages::want_large;

/// The cells; the channel index varies slowest, x fastest.
pub enum Cells {
    /// Four bytes a cell.
    Full(Vec<f32>),
    /// Two bytes a cell.
    Packed(Vec<Half>),
}

impl Cells {
    /// Memory for eight channels of `grid`^3 cells. Writes every page, so that there is no page fault later.
    pub fn new(storage: Storage, grid: usize) -> Cells {
        Cells::of(storage, GROUP * grid.pow(3))
    }

    /// Memory for `count` cells.
    pub fn of(storage: Storage, count: usize) -> Cells {
        match storage {
            Storage::F32 => Cells::Full(touched(count, 0.0, 1.0)),
            Storage::F16 => Cells::Packed(touched(count, Half::default(), Half(1))),
        }
    }

    /// Memory, bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Cells::Full(cells) => size_of_val(&**cells),
            Cells::Packed(cells) => size_of_val(&**cells),
        }
    }

    /// Sets every cell of channel `c` to `value`, clamped to +-`bound` and rounded to the storage format,
    /// which represents the bound exactly.
    pub fn fill(&mut self, c: usize, value: f32, bound: f32) {
        let value = value.clamp(-bound, bound);
        match self {
            Cells::Full(cells) => channel_mut(cells, c).fill(value),
            Cells::Packed(cells) => channel_mut(cells, c).fill(Half::of(value)),
        }
    }

    /// Copies channel `c`.
    pub fn read(&self, c: usize, to: &mut [f32]) {
        match self {
            Cells::Full(cells) => to.iter_mut().zip(channel(cells, c)).for_each(|(to, cell)| *to = *cell),
            Cells::Packed(cells) => {
                to.iter_mut().zip(channel(cells, c)).for_each(|(to, cell)| *to = cell.get());
            }
        }
    }

    /// Copies every `step`th cell of channel `c`, starting at `first`, until `to` is full.
    pub fn read_every(&self, c: usize, first: usize, step: usize, to: &mut [f32]) {
        match self {
            Cells::Full(cells) => copy_every(channel(cells, c), first, step, to, |cell| *cell),
            Cells::Packed(cells) => copy_every(channel(cells, c), first, step, to, |cell| cell.get()),
        }
    }

    /// Replaces channel `c`; values are clamped to +-`bound` and rounded to the storage format.
    pub fn write(&mut self, c: usize, from: &[f32], bound: f32) {
        let from = from.iter().map(|value| value.clamp(-bound, bound));
        match self {
            Cells::Full(cells) => {
                channel_mut(cells, c).iter_mut().zip(from).for_each(|(to, value)| *to = value)
            }
            Cells::Packed(cells) => {
                channel_mut(cells, c).iter_mut().zip(from).for_each(|(to, value)| *to = Half::of(value));
            }
        }
    }

    /// Passes all cells to `take` as f32, `RUN` at a time; the number of cells is a multiple of `RUN`.
    pub fn each_run(&self, level: Level, mut take: impl FnMut(&[f32; RUN])) {
        match self {
            Cells::Full(cells) => cells.as_chunks().0.iter().for_each(take),
            Cells::Packed(cells) => {
                let mut room = [0.0; RUN];
                for run in cells.as_chunks::<RUN>().0 {
                    level.run(Unpack { from: run, to: &mut room });
                    take(&room);
                }
            }
        }
    }
}

/// Number of cells that are passed together.
pub const RUN: usize = 512;

/// A vector whose pages are all mapped: the kernel maps a page of zeros only when it is first written to.
pub fn touched<T: Copy>(count: usize, value: T, other: T) -> Vec<T> {
    let mut cells = vec![other; count];
    std::hint::black_box(&mut cells).fill(value);
    want_large(&cells);
    cells
}

fn channel<C>(cells: &[C], c: usize) -> &[C] {
    let count = cells.len() / GROUP;
    &cells[c * count..][..count]
}

fn channel_mut<C>(cells: &mut [C], c: usize) -> &mut [C] {
    let count = cells.len() / GROUP;
    &mut cells[c * count..][..count]
}

/// Converts cells to f32.
pub struct Unpack<'a, C> {
    /// The stored cells; a multiple of the level's lanes.
    pub from: &'a [C],
    /// The same number of f32 values.
    pub to: &'a mut [f32],
}

impl<C: Cell> Kernel for Unpack<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (to, from) in self.to.chunks_exact_mut(S::LANES).zip(self.from.chunks_exact(S::LANES)) {
            simd.store(C::load(simd, from), to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_cells_are_read_back_in_both_storages() {
        for (storage, error) in [(Storage::F32, 0.0), (Storage::F16, 2.5e-4)] {
            let mut cells = Cells::new(storage, 8);
            let value = |i: usize| ((i * 7919) % 1901) as f32 / 1000.0 - 0.95;
            let learned: Vec<f32> = (0..512).map(value).collect();
            cells.write(3, &learned, 0.95);
            cells.fill(4, 0.25, 0.95);
            let mut found = vec![0.0; 512];
            cells.read(3, &mut found);
            assert!(learned.iter().zip(&found).all(|(a, b)| (a - b).abs() <= error));
            cells.read(4, &mut found);
            assert!(found.iter().all(|cell| (cell - 0.25).abs() < 1e-9));
            for level in Level::all() {
                let (mut runs, mut sum) = (0, 0.0);
                cells.each_run(level, |run| {
                    (runs, sum) = (runs + 1, sum + run.iter().map(|u| f64::from(*u)).sum::<f64>());
                });
                let expected = learned.iter().map(|u| f64::from(*u)).sum::<f64>() + 128.0;
                assert!(runs == 8 && (sum - expected).abs() < 512.0 * f64::from(error) + 1e-6);
            }
        }
        assert_eq!(Cells::new(Storage::F16, 8).bytes() * 2, Cells::new(Storage::F32, 8).bytes());
    }
}
