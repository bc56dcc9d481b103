//! A store of vectors of the same dimension: consecutive rows in memory that is allocated once, and the
//! inverse of each row's Euclidean length. It finds the exact best matches of a query. Only the owner of the
//! store knows what the vectors mean.

use super::dim::Dim;
use super::fault::Fault;
use super::nearest::{Best, Match};
use super::ops::cosine_of;
use super::reduce::{InverseLength, dot, inverse_length};
use super::vector::finite;
use crate::system::codec::{self, CodecError, FileError, Kind};
use crate::system::cpu::simd::{Kernel, Level, Simd};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The format on disk.
pub const KIND: Kind = Kind { tag: *b"HRRS", name: "store of vectors", version: 1 };

/// The size of a store and how full it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Rows held.
    pub rows: usize,
    /// Maximum number of rows.
    pub capacity: usize,
    /// Memory in bytes, all of it allocated when the store is created.
    pub bytes: usize,
}

/// Vectors that can be searched for the best match.
#[derive(Debug)]
pub struct Store {
    dim: Dim,
    capacity: usize,
    level: Level,
    /// Memory for `capacity` rows, of which the first `count` are in use.
    rows: Vec<f32>,
    /// One over the Euclidean length of each row.
    inverse: Vec<f32>,
    count: usize,
    /// Identifies the current contents; no other contents in this process have or had this number.
    content: u64,
}

/// A contents number that this process has not used before.
fn new_content() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The contents of a file, in the order of these fields.
#[derive(Serialize, Deserialize)]
struct Written {
    dim: u32,
    capacity: u64,
    count: u64,
    rows: Vec<f32>,
}

impl Store {
    /// An empty store for `capacity` rows; allocates and touches all its memory now. Refused if that would be
    /// more than `limit` bytes.
    pub fn new(dim: Dim, capacity: usize, limit: usize) -> Result<Store, Fault> {
        if !(1..=u32::MAX as usize).contains(&capacity) {
            return Err(Fault::Range {
                what: "capacity",
                found: capacity,
                least: 1,
                most: u32::MAX as usize,
            });
        }
        let wanted = Store::bytes_for(dim, capacity);
        if wanted > limit {
            return Err(Fault::Limit { wanted, limit });
        }
        // Filled with ones, then zeros: the kernel maps zeroed pages only when they are first written.
        let mut rows = vec![1.0; capacity * dim.get()];
        rows.fill(0.0);
        let mut inverse = vec![1.0; capacity];
        inverse.fill(0.0);
        Ok(Store { dim, capacity, level: Level::best(), rows, inverse, count: 0, content: new_content() })
    }

    /// Bytes of memory that a store takes.
    pub fn bytes_for(dim: Dim, capacity: usize) -> usize {
        capacity.saturating_mul((dim.get() + 1) * size_of::<f32>())
    }

    /// The same store, which computes with the instruction set `level`; the results are bit-identical.
    pub fn at_level(mut self, level: Level) -> Store {
        self.level = level;
        self
    }

    /// Numbers in a row.
    pub fn dim(&self) -> Dim {
        self.dim
    }

    /// Rows held.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the store holds no row.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The size of the store, and how full it is.
    pub fn usage(&self) -> Usage {
        let bytes = Store::bytes_for(self.dim, self.capacity);
        Usage { rows: self.len(), capacity: self.capacity, bytes }
    }

    /// A row.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        (row < self.len()).then(|| &self.rows[row * self.dim.get()..][..self.dim.get()])
    }

    /// All rows, one after the other.
    pub fn rows(&self) -> &[f32] {
        &self.rows[..self.count * self.dim.get()]
    }

    /// One over the Euclidean length of each row.
    pub(super) fn inverse_lengths(&self) -> &[f32] {
        &self.inverse[..self.count]
    }

    /// Identifies the current contents: this value changes whenever a row does.
    pub(super) fn content(&self) -> u64 {
        self.content
    }

    /// Adds a vector; returns its row number.
    pub fn push(&mut self, vector: &[f32]) -> Result<usize, Fault> {
        if self.len() == self.capacity {
            return Err(Fault::Full { capacity: self.capacity });
        }
        let row = self.len();
        self.write(row, vector)?;
        self.count += 1;
        Ok(row)
    }

    /// Replaces a vector with another.
    pub fn replace(&mut self, row: usize, vector: &[f32]) -> Result<(), Fault> {
        self.known(row)?;
        self.write(row, vector)
    }

    /// Removes a row. Unless it is the last one, the last row moves into its place and gets its number.
    pub fn swap_remove(&mut self, row: usize) -> Result<(), Fault> {
        self.known(row)?;
        let (d, last) = (self.dim.get(), self.count - 1);
        self.rows.copy_within(last * d..(last + 1) * d, row * d);
        self.inverse[row] = self.inverse[last];
        (self.count, self.content) = (last, new_content());
        Ok(())
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        (self.count, self.content) = (0, new_content());
    }

    fn known(&self, row: usize) -> Result<(), Fault> {
        if row < self.len() { Ok(()) } else { Err(Fault::NoRow { row, rows: self.len() }) }
    }

    fn write(&mut self, row: usize, vector: &[f32]) -> Result<(), Fault> {
        let inverse = self.checked("vector", vector)?;
        self.rows[row * self.dim.get()..][..vector.len()].copy_from_slice(vector);
        (self.inverse[row], self.content) = (inverse, new_content());
        Ok(())
    }

    /// One over the Euclidean length of a vector. An error if the vector has the wrong dimension, a number
    /// that is not finite, or no usable length.
    fn checked(&self, what: &'static str, vector: &[f32]) -> Result<f32, Fault> {
        let d = self.dim.get();
        if vector.len() != d {
            return Err(Fault::Shape { what, d, wanted: 1, found: vector.len() });
        }
        finite(what, vector)?;
        match self.level.run(InverseLength(vector)) {
            inverse if inverse > 0.0 => Ok(inverse),
            _ => Err(Fault::NoLength { what, row: 0 }),
        }
    }

    /// The instruction set in use.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Compares queries (consecutive rows) with all stored rows: `best[i]` gets the best matches of query i.
    /// A query whose norm is too small or too large for f32 has cosine 0 with every row.
    pub fn nearest(&self, queries: &[f32], best: &mut [Best]) -> Result<(), Fault> {
        self.fits(queries, best.len())?;
        best.iter_mut().for_each(Best::clear);
        for (query, best) in queries.chunks_exact(self.dim.get()).zip(best) {
            self.level.run(Compare {
                store: self,
                query,
                found: |row, cosine| best.offer(Match { row, cosine }),
            });
        }
        Ok(())
    }

    /// Checks that `queries` are `wanted` rows of finite numbers.
    fn fits(&self, queries: &[f32], wanted: usize) -> Result<(), Fault> {
        let d = self.dim.get();
        if queries.len() != wanted * d {
            return Err(Fault::Shape { what: "queries", d, wanted, found: queries.len() });
        }
        finite("queries", queries)
    }

    /// The cosines of one query with all rows, in order.
    pub fn cosines(&self, query: &[f32], cosines: &mut [f32]) -> Result<(), Fault> {
        self.fits(query, 1)?;
        if cosines.len() != self.len() {
            return Err(Fault::Count { what: "cosines", wanted: self.len(), found: cosines.len() });
        }
        self.level.run(Compare { store: self, query, found: |row, cosine| cosines[row as usize] = cosine });
        Ok(())
    }

    /// Writes all rows to a file; if that fails, the old file is left as it was.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        let written = Written {
            dim: self.dim.get() as u32,
            capacity: self.capacity as u64,
            count: self.len() as u64,
            rows: self.rows().to_vec(),
        };
        codec::save(path, KIND, &written)
    }

    /// Reads a store from a file; refused if the store would take more than `limit` bytes.
    pub fn load(path: &Path, limit: usize) -> Result<Store, FileError> {
        let written: Written = codec::load(path, KIND)?;
        written.store(limit).map_err(|reason| {
            let error = CodecError::Content { reason };
            FileError::Codec { path: path.to_path_buf(), error }
        })
    }
}

impl Written {
    fn store(self, limit: usize) -> Result<Store, String> {
        let said = |fault: Fault| fault.to_string();
        let dim = Dim::new(self.dim as usize).map_err(said)?;
        let (capacity, count) = (self.capacity as usize, self.count as usize);
        if count > capacity || count.checked_mul(dim.get()) != Some(self.rows.len()) {
            return Err(format!(
                "{count} rows of {} numbers, but {} numbers in all and a capacity of {capacity} rows",
                dim.get(),
                self.rows.len()
            ));
        }
        let mut store = Store::new(dim, capacity, limit).map_err(said)?;
        for row in self.rows.chunks_exact(dim.get()) {
            store.push(row).map_err(said)?;
        }
        Ok(store)
    }
}

/// Compares a query with all rows, in order.
struct Compare<'a, F> {
    store: &'a Store,
    query: &'a [f32],
    found: F,
}

impl<F: FnMut(u32, f32)> Kernel for Compare<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Compare { store, query, mut found } = self;
        let own = inverse_length(simd, query);
        let rows = store.rows().chunks_exact(query.len()).zip(store.inverse_lengths());
        for (number, (row, inverse)) in (0..).zip(rows) {
            found(number, cosine_of(dot(simd, row, query), *inverse, own));
        }
    }
}
