//! How a cell is stored: as f32 or in half precision. Loops are written against [`Cell`], so that both share
//! the same code.

use crate::system::cpu::simd::{Half, Simd};

/// The stored value of a cell between two cycles.
pub trait Cell: Copy + Default + Send + Sync + 'static {
    /// Whether planes have to be unpacked before they can be read as f32.
    const PACKED: bool;

    /// Loads `LANES` cells.
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::V;
    /// Stores `LANES` values.
    fn store<S: Simd>(simd: S, v: S::V, to: &mut [Self]);
    /// The cells themselves, if they are f32.
    fn plain(cells: &[Self]) -> Option<&[f32]>;
    /// The value.
    fn get(self) -> f32;
    /// The cell nearest to a value within +-1.
    fn of(value: f32) -> Self;
}

impl Cell for f32 {
    const PACKED: bool = false;

    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[f32]) -> S::V {
        simd.load(from)
    }
    #[inline(always)]
    fn store<S: Simd>(simd: S, v: S::V, to: &mut [f32]) {
        simd.store(v, to);
    }
    #[inline(always)]
    fn plain(cells: &[f32]) -> Option<&[f32]> {
        Some(cells)
    }
    #[inline(always)]
    fn get(self) -> f32 {
        self
    }
    #[inline(always)]
    fn of(value: f32) -> f32 {
        value
    }
}

impl Cell for Half {
    const PACKED: bool = true;

    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Half]) -> S::V {
        simd.load_half(from)
    }
    #[inline(always)]
    fn store<S: Simd>(simd: S, v: S::V, to: &mut [Half]) {
        simd.store_half(v, to);
    }
    #[inline(always)]
    fn plain(_: &[Half]) -> Option<&[f32]> {
        None
    }
    #[inline(always)]
    fn get(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn of(value: f32) -> Half {
        Half::from_f32(value)
    }
}
