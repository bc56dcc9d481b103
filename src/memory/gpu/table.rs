//! The tables for the kernels, as `kernels/memory.cuh` defines them, and the memory layout on the GPU. This
//! module only computes bytes and copies nothing.

use super::Room;
use crate::memory::dim::Dim;
use crate::memory::fft::turn;
use crate::memory::nearest::MOST_TOP;
use crate::memory::reduce::LEAF;
use std::ops::Range;

/// Buffers begin at multiples of this, as the driver's own allocations do.
const ALIGNMENT: usize = 256;
/// Size of a number in bytes.
pub const F32: usize = size_of::<f32>();
/// Size of an address or a key in bytes.
const WORD: usize = size_of::<u64>();

/// Addresses in a sheet; the task follows at `TASK_AT`.
const ADDRESSES: usize = 10;
const TASK_AT: usize = 128;
const TASK_WORDS: usize = 8;
/// Bytes of sheet and task, which are copied together.
pub const SHEET: usize = TASK_AT + TASK_WORDS * size_of::<u32>();

/// Maximum blocks of a scan: eight for each of 128 multiprocessors. Larger GPUs get no more.
pub const MOST_BLOCKS: usize = 1024;

/// A range of bytes of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRange {
    /// Offset in the pool.
    pub at: usize,
    /// Length.
    pub bytes: usize,
}

/// Where every buffer is.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Sheet and task.
    pub sheet: PoolRange,
    /// Twiddle factors of the transform.
    pub turns: PoolRange,
    /// First factors, or rows to be added up.
    pub a: PoolRange,
    /// Second factors, or queries.
    pub b: PoolRange,
    /// Results.
    pub out: PoolRange,
    /// Weights of a sum.
    pub weights: PoolRange,
    /// Sums of leaves.
    pub leaves: PoolRange,
    /// Rows of a store.
    pub store: PoolRange,
    /// 1 over the length of each row of the store.
    pub inverse: PoolRange,
    /// Best keys of each block, for each query.
    pub found: PoolRange,
    /// Best keys of each query.
    pub best: PoolRange,
    /// Total size.
    pub bytes: usize,
}

impl Layout {
    /// The layout for rows of `dim` numbers that need transforms of `length`, with `blocks` blocks of a scan.
    pub fn new(dim: Dim, length: usize, room: Room, blocks: usize) -> Layout {
        let row = dim.get() * F32;
        let mut bytes = 0;
        let mut take = |count: usize, size: usize| {
            let place = PoolRange { at: bytes, bytes: count.saturating_mul(size) };
            bytes = bytes.saturating_add(place.bytes.div_ceil(ALIGNMENT).max(1).saturating_mul(ALIGNMENT));
            place
        };
        Layout {
            sheet: take(1, SHEET),
            turns: take(turns_of(length), 2 * F32),
            a: take(room.rows, row),
            b: take(room.rows.max(room.queries), row),
            out: take(room.rows.max(1), row),
            weights: take(room.rows, F32),
            leaves: take(room.rows.div_ceil(LEAF), row),
            store: take(room.store, row),
            inverse: take(room.store, F32),
            found: take(room.queries * blocks, MOST_TOP * WORD),
            best: take(room.queries, MOST_TOP * WORD),
            bytes,
        }
    }
}

/// Twiddle factors that a transform of `length` real numbers needs: up to the last leg of the last index of
/// its first stage.
pub const fn turns_of(length: usize) -> usize {
    3 * length / 4
}

/// w(k, length), real and imaginary parts alternating: the same numbers that the processor uses.
pub fn turns(length: usize) -> Vec<f32> {
    (0..turns_of(length)).flat_map(|k| <[f32; 2]>::from(turn(k, length))).collect()
}

/// The operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    /// Numbers in a row.
    pub d: usize,
    /// Rows of `a`.
    pub rows: usize,
    /// The second factors are involuted.
    pub unbind: bool,
    /// One second factor for all rows.
    pub one_key: bool,
    /// Results are scaled to length 1.
    pub unit: bool,
    /// How many best matches of a query are wanted.
    pub wanted: usize,
    /// Sums have weights.
    pub weighted: bool,
    /// `a` is the store.
    pub of_store: bool,
}

/// Sheet and task as the device reads them; `base` is the pool's address.
pub fn write_sheet(layout: &Layout, base: u64, task: &Task, to: &mut [u8]) {
    let at = |place: PoolRange| base + place.at as u64;
    let addresses: [u64; ADDRESSES] = [
        at(layout.sheet) + TASK_AT as u64,
        at(if task.of_store { layout.store } else { layout.a }),
        at(layout.b),
        at(layout.out),
        at(layout.turns),
        if task.weighted { at(layout.weights) } else { 0 },
        at(layout.leaves),
        at(layout.inverse),
        at(layout.found),
        at(layout.best),
    ];
    to[..SHEET].fill(0);
    for (to, address) in to.chunks_exact_mut(WORD).zip(addresses) {
        to.copy_from_slice(&address.to_le_bytes());
    }
    let flag = u32::from;
    let words: [u32; TASK_WORDS] = [
        task.d as u32,
        task.rows as u32,
        flag(task.unbind),
        flag(task.one_key),
        flag(task.unit),
        task.wanted as u32,
        0,
        0,
    ];
    for (to, word) in to[TASK_AT..].chunks_exact_mut(size_of::<u32>()).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

/// Writes numbers as the device reads them.
pub fn write_numbers(numbers: &[f32], to: &mut [u8]) {
    for (to, number) in to.chunks_exact_mut(F32).zip(numbers) {
        to.copy_from_slice(&number.to_le_bytes());
    }
}

/// Reads numbers that the device wrote.
pub fn read_numbers(from: &[u8], numbers: &mut [f32]) {
    for (number, from) in numbers.iter_mut().zip(from.as_chunks::<F32>().0) {
        *number = f32::from_le_bytes(*from);
    }
}

/// The row and the cosine in a key of `kernels/memory.cu`; `None`: no row.
pub fn match_of(key: u64) -> Option<(u32, f32)> {
    if key == 0 {
        return None;
    }
    let order = (key >> 32) as u32;
    let bits = if order >> 31 == 1 { order & 0x7fff_ffff } else { !order };
    Some((!(key as u32), f32::from_bits(bits)))
}

/// The keys in `bytes`; `range` counts keys.
pub fn keys(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = u64> + '_ {
    let all = bytes.as_chunks::<WORD>().0;
    all.get(range).unwrap_or_default().iter().map(|key| u64::from_le_bytes(*key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_returns_its_parts() {
        // Like `key_of` in the kernel: larger cosines have larger keys; of equal cosines, the lower row has
        // the larger key.
        let key = |cosine: f32, row: u32| {
            let bits = cosine.to_bits();
            let order = if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 };
            u64::from(order) << 32 | u64::from(!row)
        };
        let cosines = [-1.0, -0.5, -0.0, 0.0, 1e-30, 0.5, 1.0];
        for (at, cosine) in cosines.into_iter().enumerate() {
            assert_eq!(
                match_of(key(cosine, 7)).map(|(row, c)| (row, c.to_bits())),
                Some((7, cosine.to_bits()))
            );
            assert!(key(cosine, 7) > key(cosine, 8));
            assert!(at == 0 || key(cosine, 9) > key(cosines[at - 1], 0));
        }
        assert_eq!(match_of(0), None);
    }

    #[test]
    fn buffers_are_aligned_and_do_not_overlap() {
        let room = Room { rows: 7, queries: 3, store: 11 };
        let layout = Layout::new(Dim::new(100).expect("a dimension"), 256, room, 5);
        let Layout { sheet, turns, a, b, out, weights, leaves, store, inverse, found, best, bytes } = layout;
        let all = [sheet, turns, a, b, out, weights, leaves, store, inverse, found, best];
        for pair in all.windows(2) {
            assert!(pair[0].at + pair[0].bytes <= pair[1].at && pair[1].at.is_multiple_of(ALIGNMENT));
        }
        assert!(best.at + best.bytes <= bytes);
        assert_eq!((a.bytes, leaves.bytes, store.bytes), (2800, 400, 4400));
    }
}
