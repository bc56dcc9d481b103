//! Rows in a few pieces that threads can take away and bring back: a batch for a
//! [`super::parallel::Parallel`].

use super::dim::Dim;
use super::fault::Fault;
use std::sync::Arc;
use std::time::Duration;

/// Most pieces of a batch: enough that eight threads have two each and a slow one holds up little.
pub const PIECES: usize = 16;
/// Least rows in a piece: some 10 us of work at d = 512, below which handing out costs more than it saves.
const LEAST_PIECE: usize = 16;
/// How long one sleeps between two looks whether a late thread has put its share down.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Part of a batch.
pub(super) type Piece = Arc<Vec<f32>>;

/// A batch of vectors of one length.
#[derive(Debug)]
pub struct Rows {
    dim: Dim,
    count: usize,
    per_piece: usize,
    /// Never `None` outside a run.
    pub(super) pieces: Vec<Option<Piece>>,
}

impl Rows {
    /// `count` rows of zeros.
    pub fn new(dim: Dim, count: usize) -> Rows {
        let per_piece = rows_per_piece(count);
        let length = |first: usize| (count - first).min(per_piece) * dim.get();
        let pieces = (0..count).step_by(per_piece).map(|first| Some(Arc::new(vec![0.0; length(first)])));
        Rows { dim, count, per_piece, pieces: pieces.collect() }
    }

    /// These rows, one after the other.
    pub fn of(dim: Dim, numbers: &[f32]) -> Result<Rows, Fault> {
        let (d, found) = (dim.get(), numbers.len());
        let wanted = found.div_ceil(d);
        let count = dim.rows(found).ok_or(Fault::Shape { what: "numbers", d, wanted, found })?;
        let mut rows = Rows::new(dim, count);
        numbers.chunks_exact(d).enumerate().try_for_each(|(row, numbers)| rows.set(row, numbers))?;
        Ok(rows)
    }

    /// Numbers in a row.
    pub fn dim(&self) -> Dim {
        self.dim
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A row.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        let piece = self.pieces.get(row / self.per_piece)?.as_ref()?;
        piece.get(row % self.per_piece * self.dim.get()..)?.get(..self.dim.get())
    }

    /// Writes a row. Waits for threads that still read it, at most a slice of the scheduler.
    pub fn set(&mut self, row: usize, numbers: &[f32]) -> Result<(), Fault> {
        let d = self.dim.get();
        if numbers.len() != d {
            return Err(Fault::Shape { what: "numbers", d, wanted: 1, found: numbers.len() });
        }
        let (at, absent) = (row % self.per_piece * d, Fault::NoRow { row, rows: self.count });
        let piece = self.pieces.get_mut(row / self.per_piece).and_then(Option::as_mut).ok_or(absent)?;
        let to = alone(piece).get_mut(at..at + d).ok_or(absent)?;
        to.copy_from_slice(numbers);
        Ok(())
    }
}

/// How a batch of `count` rows is cut.
pub(super) fn rows_per_piece(count: usize) -> usize {
    count.div_ceil(PIECES).max(LEAST_PIECE)
}

/// What is shared, to be written to: waits until no other thread has it.
pub(super) fn alone<T>(shared: &mut Arc<T>) -> &mut T {
    while Arc::get_mut(shared).is_none() {
        std::thread::sleep(LOOK_EVERY);
    }
    Arc::get_mut(shared).unwrap_or_else(|| unreachable!("no other thread can take a share meanwhile"))
}
