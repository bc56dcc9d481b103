//! The operations on rows of one length: bind, unbind, superpose, normalise, compare, permute. A batch is
//! many rows one after the other; a single vector is a batch of one, and gives the same bits. The caller owns
//! all rows; a [`Workspace`] is made once and no operation allocates.

use super::convolve::{Convolver, Factor};
use super::dim::Dim;
use super::fault::Fault;
use super::fft::LEAST_ROW;
use super::reduce::{Add, Dot, InverseLength, Normalise, Superpose};
use crate::system::cpu::simd::Level;

/// Whether results are scaled to length 1 while they are still in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Not scaled.
    AsIs,
    /// Length 1; a row without a usable length becomes zeros.
    Unit,
}

/// The operation on two batches of factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// [`Workspace::bind`]
    Bind,
    /// [`Workspace::unbind`]
    Unbind,
}

/// Tables and scratch for rows of one length.
#[derive(Clone, Debug)]
pub struct Workspace {
    d: Dim,
    level: Level,
    convolver: Convolver,
    pad: Option<Pad>,
    leaf: Vec<f32>,
}

/// Padded rows, for rows whose length is not that of a transform.
#[derive(Clone, Debug)]
struct Pad {
    row: Vec<f32>,
    out: Vec<f32>,
}

impl Workspace {
    /// A workspace with the best instruction set that this processor has.
    pub fn new(d: Dim) -> Workspace {
        Workspace::at_level(d, Level::best())
    }

    /// A workspace with the given instruction set; the results have the same bits.
    pub fn at_level(d: Dim, level: Level) -> Workspace {
        let n = d.get();
        let own = n.is_power_of_two() && n >= LEAST_ROW;
        // The linear convolution of two rows is 2d - 1 numbers long.
        let length = if own { n } else { (2 * n - 1).next_power_of_two().max(LEAST_ROW) };
        let pad = (!own).then(|| Pad { row: vec![0.0; length], out: vec![0.0; length] });
        Workspace { d, level, convolver: Convolver::new(length, level), pad, leaf: vec![0.0; n] }
    }

    /// Numbers in a row.
    pub fn dim(&self) -> Dim {
        self.d
    }

    /// The instruction set in use.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        let pad = self.pad.as_ref().map_or(0, |pad| size_of_val(&*pad.row) + size_of_val(&*pad.out));
        self.convolver.bytes() + pad + size_of_val(&*self.leaf)
    }

    /// Circular convolution of each row of `a` with the same row of `b`, or with the only row of `b` if there
    /// is just one.
    pub fn bind(&mut self, a: &[f32], b: &[f32], length: Length, out: &mut [f32]) -> Result<(), Fault> {
        self.convolve(a, b, Factor::Itself, length, out)
    }

    /// Unbinds `key` from each row of `bound`: binds it with the key's involution, which is the key's inverse
    /// if the key is unitary and its approximate inverse if the key is random. One key for each row, or one
    /// for all.
    pub fn unbind(
        &mut self,
        bound: &[f32],
        key: &[f32],
        length: Length,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        self.convolve(bound, key, Factor::Involution, length, out)
    }

    fn convolve(
        &mut self,
        a: &[f32],
        b: &[f32],
        factor: Factor,
        length: Length,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        let d = self.d.get();
        convolution_rows(self.d, a, b, out)?;
        for (number, (row, to)) in a.chunks_exact(d).zip(out.chunks_exact_mut(d)).enumerate() {
            if b.len() > d || number == 0 {
                let b = if b.len() > d { &b[number * d..][..d] } else { b };
                match &mut self.pad {
                    None => self.convolver.take_factor(b),
                    Some(pad) => pad.take_factor(&mut self.convolver, b, factor),
                }
            }
            match &mut self.pad {
                None => self.convolver.convolve(row, factor, to),
                Some(pad) => pad.convolve(&mut self.convolver, row, to),
            }
            if length == Length::Unit {
                self.level.run(Normalise { d, rows: to });
            }
        }
        Ok(())
    }

    /// The sum of all rows, each times its weight if there are weights.
    pub fn superpose(
        &mut self,
        rows: &[f32],
        weights: Option<&[f32]>,
        length: Length,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        rows_and_weights(self.d, rows, weights, out)?;
        let (leaf, unit) = (&mut *self.leaf, length == Length::Unit);
        self.level.run(Superpose { rows, weights, leaf, out, unit });
        Ok(())
    }

    /// Adds a row, times its weight, to another: one fused multiply-add for each number.
    pub fn add(&self, row: &[f32], weight: f32, to: &mut [f32]) -> Result<(), Fault> {
        self.fits("row", row.len(), 1)?;
        self.fits("to", to.len(), 1)?;
        self.level.run(Add { row, weight, to });
        Ok(())
    }

    /// Scales each row to length 1; a row without a usable length becomes zeros.
    pub fn normalise(&self, rows: &mut [f32]) -> Result<(), Fault> {
        self.whole_rows("rows", rows)?;
        self.level.run(Normalise { d: self.d.get(), rows });
        Ok(())
    }

    /// The scalar product of two vectors.
    pub fn dot(&self, a: &[f32], b: &[f32]) -> Result<f32, Fault> {
        self.fits("first vector", a.len(), 1)?;
        self.fits("second vector", b.len(), 1)?;
        Ok(self.level.run(Dot(a, b)))
    }

    /// The cosine of the angle between two vectors, -1..=1 within rounding; 0 if one of them has no usable
    /// length.
    pub fn cosine(&self, a: &[f32], b: &[f32]) -> Result<f32, Fault> {
        let product = self.dot(a, b)?;
        let (a, b) = (self.level.run(InverseLength(a)), self.level.run(InverseLength(b)));
        Ok(cosine_of(product, a, b))
    }

    /// Row by row: the number at index i goes to index i + `by`, wrapping around.
    pub fn permute(&self, rows: &[f32], by: isize, out: &mut [f32]) -> Result<(), Fault> {
        let (d, count) = (self.d.get(), self.whole_rows("rows", rows)?);
        self.fits("out", out.len(), count)?;
        let by = by.rem_euclid(d as isize) as usize;
        for (row, to) in rows.chunks_exact(d).zip(out.chunks_exact_mut(d)) {
            to[by..].copy_from_slice(&row[..d - by]);
            to[..by].copy_from_slice(&row[d - by..]);
        }
        Ok(())
    }

    /// Row by row: the number at index i goes to index -i, modulo d. Exact. Binding with the result gives the
    /// same as [`Workspace::unbind`].
    pub fn involution(&self, rows: &[f32], out: &mut [f32]) -> Result<(), Fault> {
        let (d, count) = (self.d.get(), self.whole_rows("rows", rows)?);
        self.fits("out", out.len(), count)?;
        rows.chunks_exact(d).zip(out.chunks_exact_mut(d)).for_each(|(row, to)| involute(row, to));
        Ok(())
    }

    /// Whole rows in `numbers`.
    fn whole_rows(&self, what: &'static str, numbers: &[f32]) -> Result<usize, Fault> {
        whole_rows(self.d, what, numbers)
    }

    /// Whether `found` numbers are `wanted` rows.
    fn fits(&self, what: &'static str, found: usize, wanted: usize) -> Result<(), Fault> {
        fits(self.d, what, found, wanted)
    }
}

fn whole_rows(dim: Dim, what: &'static str, numbers: &[f32]) -> Result<usize, Fault> {
    let d = dim.get();
    let rows = dim.rows(numbers.len());
    rows.ok_or(Fault::Shape { what, d, wanted: numbers.len().div_ceil(d), found: numbers.len() })
}

fn fits(dim: Dim, what: &'static str, found: usize, wanted: usize) -> Result<(), Fault> {
    let d = dim.get();
    if found == wanted * d { Ok(()) } else { Err(Fault::Shape { what, d, wanted, found }) }
}

/// How many rows are to be bound, if the lengths of the slices match; used on processor and GPU.
pub(super) fn convolution_rows(dim: Dim, a: &[f32], b: &[f32], out: &[f32]) -> Result<usize, Fault> {
    let rows = whole_rows(dim, "first factor", a)?;
    if b.len() != dim.get() {
        fits(dim, "second factor", b.len(), rows)?;
    }
    fits(dim, "out", out.len(), rows)?;
    Ok(rows)
}

/// How many rows are to be superposed, if the lengths of the slices match; used on processor and GPU.
pub(super) fn rows_and_weights(
    dim: Dim,
    rows: &[f32],
    weights: Option<&[f32]>,
    out: &[f32],
) -> Result<usize, Fault> {
    let count = whole_rows(dim, "rows", rows)?;
    if let Some(weights) = weights
        && weights.len() != count
    {
        return Err(Fault::Count { what: "weights", wanted: count, found: weights.len() });
    }
    fits(dim, "out", out.len(), 1)?;
    Ok(count)
}

/// A cosine from a scalar product and two inverse lengths, multiplied in a fixed order.
#[inline(always)]
pub(super) fn cosine_of(product: f32, one: f32, other: f32) -> f32 {
    product * one * other
}

/// Moves the number at index i to index -i, modulo the length.
#[inline(always)]
pub(super) fn involute(row: &[f32], to: &mut [f32]) {
    to[0] = row[0];
    to[1..].iter_mut().zip(row[1..].iter().rev()).for_each(|(to, from)| *to = *from);
}

impl Pad {
    fn take_factor(&mut self, convolver: &mut Convolver, b: &[f32], factor: Factor) {
        match factor {
            Factor::Itself => self.row[..b.len()].copy_from_slice(b),
            Factor::Involution => involute(b, &mut self.row[..b.len()]),
        }
        self.row[b.len()..].fill(0.0);
        convolver.take_factor(&self.row);
    }

    /// The linear convolution, folded: its second part is added to the first.
    fn convolve(&mut self, convolver: &mut Convolver, a: &[f32], to: &mut [f32]) {
        let d = a.len();
        self.row[..d].copy_from_slice(a);
        self.row[d..].fill(0.0);
        convolver.convolve(&self.row, Factor::Itself, &mut self.out);
        // The linear convolution has 2d - 1 numbers, so nothing is added to number d - 1.
        let (first, second) = (&self.out[..d], &self.out[d..2 * d - 1]);
        to.copy_from_slice(first);
        to.iter_mut().zip(second).for_each(|(number, over)| *number += over);
    }
}
