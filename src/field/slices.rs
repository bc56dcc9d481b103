//! Slices through the field for viewing: one plane of each of the channels that vary most. Taking them reads
//! about ten thousand cells, allocates nothing and changes nothing.

use super::engine::FieldEngine;
use super::shape::CHANNELS;
use super::state::Live;
use crate::base::time::{Instant, Span};
use crate::system::rt::triple_buffer::{Reader, Writer, triple_buffer};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// Channels that are shown. Four slices fit side by side on a screen, and into a message of six kilobytes.
pub const SLICES: usize = 4;
/// Maximum number of cells per axis that a slice shows; for a larger grid it shows every second or fourth
/// cell.
pub const MOST_SIDE: usize = 32;
/// Interval between two sets of slices: short enough to show a change; a recording of a field of 32^3 grows
/// by 12 kB/s (computed).
const EVERY: Span = Span::from_millis(500);
/// Cells per axis that are compared to choose channels. A receptive field is about a third of the cube wide,
/// so at least one of them shows it.
const COARSE: usize = 4;
/// Cells per axis that are compared to choose the plane of a channel.
const FINE: usize = 8;

/// One set of slices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldSlices {
    /// When they were taken, on the robot's clock.
    pub at: Instant,
    /// Number of the field's last cycle.
    pub cycle: u64,
    /// Cells per axis of each slice, at most [`MOST_SIDE`].
    pub side: u8,
    /// The values that are stored as 0 and as 255.
    pub range: [f32; 2],
    /// The slices, in the order of their channels.
    pub slices: [FieldSlice; SLICES],
}

/// The plane of one channel that contains the cell farthest from the channel's mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldSlice {
    /// The channel, 0..64.
    pub channel: u8,
    /// The plane's z in cells of the grid in use.
    pub plane: u8,
    /// `side` x `side` cells, x fastest, between `range`.
    pub cells: [u8; MOST_SIDE * MOST_SIDE],
}

impl FieldSlices {
    /// The initial content of a buffer; never read.
    pub const EMPTY: FieldSlices = FieldSlices {
        at: Instant::ZERO,
        cycle: 0,
        side: 0,
        range: [0.0; 2],
        slices: [FieldSlice { channel: 0, plane: 0, cells: [0; MOST_SIDE * MOST_SIDE] }; SLICES],
    };

    /// Slices of a field of `grid` cells per axis. `copy(channel, first, step, to)` copies every `step`th
    /// cell of a channel (x fastest), from `first` on, until `to` is full.
    pub fn of(grid: usize, cycle: u64, copy: impl Fn(usize, usize, usize, &mut [f32])) -> FieldSlices {
        let mut most = [(0, -1.0); SLICES]; // less than the spread of any channel
        for channel in 0..CHANNELS {
            let [low, high] =
                Lattice::of(grid, COARSE, |first, step, to| copy(channel, first, step, to)).extremes;
            let place = most.iter().position(|(_, spread)| high.0 - low.0 > *spread).unwrap_or(SLICES);
            if place < SLICES {
                most[place..].rotate_right(1);
                most[place] = (channel, high.0 - low.0);
            }
        }
        most.sort_unstable_by_key(|(channel, _)| *channel); // so that a channel rarely changes its place
        let side = grid.min(MOST_SIDE);
        let mut values = [[0.0; MOST_SIDE * MOST_SIDE]; SLICES];
        let mut slices = FieldSlices { cycle, side: side as u8, ..FieldSlices::EMPTY };
        for ((slice, values), (channel, _)) in slices.slices.iter_mut().zip(&mut values).zip(most) {
            let plane = Lattice::of(grid, FINE, |first, step, to| copy(channel, first, step, to)).peak();
            (slice.channel, slice.plane) = (channel as u8, plane as u8);
            for (y, row) in values[..side * side].chunks_exact_mut(side).enumerate() {
                copy(channel, (plane * grid + y * grid / side) * grid, grid / side, row);
            }
        }
        let shown = || values.iter().flat_map(|values| &values[..side * side]);
        let [low, high] =
            [shown().copied().fold(f32::MAX, f32::min), shown().copied().fold(f32::MIN, f32::max)];
        let steps = if high > low { 255.0 / (high - low) } else { 0.0 };
        for (slice, values) in slices.slices.iter_mut().zip(&values) {
            let cells = slice.cells.iter_mut().zip(&values[..side * side]);
            cells.for_each(|(cell, value)| *cell = ((value - low) * steps).round() as u8);
        }
        FieldSlices { range: [low, high], ..slices }
    }

    /// Slices of a saved field; `None`: nothing has been saved.
    pub fn of_saved(live: &Live) -> Option<FieldSlices> {
        let cells = if live.on_half { &live.half } else { &live.whole };
        let per_channel = cells.len() / CHANNELS;
        let grid = (per_channel as f64).cbrt().round() as usize;
        let fits = grid > 0 && grid.pow(3) * CHANNELS == cells.len();
        fits.then(|| {
            FieldSlices::of(grid, live.cycle, |channel, first, step, to| {
                copy_every(&cells[channel * per_channel..][..per_channel], first, step, to, |cell| *cell);
            })
        })
    }
}

/// Copies every `step`th cell of one channel, from `first` on, until `to` is full.
pub fn copy_every<C>(cells: &[C], first: usize, step: usize, to: &mut [f32], value: impl Fn(&C) -> f32) {
    to.iter_mut().zip(cells[first..].iter().step_by(step)).for_each(|(to, cell)| *to = value(cell));
}

/// The cells of a channel on a lattice.
struct Lattice {
    /// The smallest and the largest cell, and their planes.
    extremes: [(f32, usize); 2],
    mean: f32,
}

impl Lattice {
    /// A lattice of `per_axis` cells along each axis, or of all cells of a smaller grid.
    fn of(grid: usize, per_axis: usize, copy: impl Fn(usize, usize, &mut [f32])) -> Lattice {
        let per_axis = per_axis.min(grid);
        let step = grid / per_axis;
        let mut row = [0.0; FINE];
        let (mut low, mut high, mut sum) = ((f32::MAX, 0), (f32::MIN, 0), 0.0);
        let at = |place: usize| place * step + step / 2;
        for (z, y) in (0..per_axis).flat_map(|z| (0..per_axis).map(move |y| (z, y))) {
            let row = &mut row[..per_axis];
            copy((at(z) * grid + at(y)) * grid + at(0), step, row);
            for value in row {
                sum += *value;
                low = if *value < low.0 { (*value, at(z)) } else { low };
                high = if *value > high.0 { (*value, at(z)) } else { high };
            }
        }
        Lattice { extremes: [low, high], mean: sum / per_axis.pow(3) as f32 }
    }

    /// The plane in which a cell differs most from the mean.
    fn peak(&self) -> usize {
        let [low, high] = self.extremes;
        if high.0 - self.mean >= self.mean - low.0 { high.1 } else { low.1 }
    }
}

/// Takes slices at intervals for their readers: a recording, the control socket.
#[derive(Default)]
pub struct SliceSchedule {
    readers: Vec<Writer<FieldSlices>>,
    due: Instant,
}

impl SliceSchedule {
    /// A schedule for the readers at the other ends of `readers`.
    pub fn new(readers: Vec<Writer<FieldSlices>>) -> SliceSchedule {
        SliceSchedule { readers, due: Instant::ZERO }
    }

    /// Takes slices of `engine` if they are due and have a reader. If there is no field to show yet, the next
    /// call tries again.
    pub fn maintain(&mut self, engine: &dyn FieldEngine, now: Instant) {
        if now < self.due || self.readers.is_empty() {
            return;
        }
        let Some(slices) = engine.slices() else { return };
        let slices = FieldSlices { at: now, ..slices };
        for reader in &mut self.readers {
            reader.put(slices);
        }
        self.due = now + EVERY;
    }
}

/// A schedule's reader that keeps the newest slices for several threads. It locks, so the field's thread must
/// not use it.
#[derive(Clone)]
pub struct NewestSlices(Arc<Mutex<(Reader<FieldSlices>, Option<FieldSlices>)>>);

impl NewestSlices {
    /// The schedule's end, and the reader's, which has no slices yet.
    pub fn channel() -> (Writer<FieldSlices>, NewestSlices) {
        let (writer, reader) = triple_buffer(FieldSlices::EMPTY);
        (writer, NewestSlices(Arc::new(Mutex::new((reader, None)))))
    }

    /// The newest slices; `None`: none have been taken yet.
    pub fn get(&self) -> Option<FieldSlices> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slices) = held.0.take() {
            held.1 = Some(slices);
        }
        held.1
    }
}

/// Slices as the control socket and recordings carry them: a grey image with the four slices as its quarters,
/// each with its first row at the top.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlicesMessage {
    /// Number of the field's last cycle.
    pub cycle: u64,
    /// Channels, in the order of the quarters: left to right, top to bottom.
    pub channels: [u8; SLICES],
    /// The planes' z, in cells of the grid in use.
    pub planes: [u8; SLICES],
    /// The field's value at grey 0 and at grey 255.
    pub range: [f32; 2],
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The pixels, one byte each, in base64.
    pub data: String,
}

impl SlicesMessage {
    /// The message about `slices`.
    pub fn of(slices: &FieldSlices) -> SlicesMessage {
        let side = usize::from(slices.side);
        let mut pixels = Vec::with_capacity(SLICES * side * side);
        for pair in slices.slices.chunks_exact(2) {
            for row in 0..side {
                pair.iter().for_each(|slice| pixels.extend_from_slice(&slice.cells[row * side..][..side]));
            }
        }
        SlicesMessage {
            cycle: slices.cycle,
            channels: slices.slices.map(|slice| slice.channel),
            planes: slices.slices.map(|slice| slice.plane),
            range: slices.range,
            width: 2 * side as u32,
            height: 2 * side as u32,
            data: BASE64.encode(&pixels),
        }
    }

    /// The cells of each slice, row by row, and their number per axis; `None`: the message is damaged.
    pub fn cells(&self) -> Option<([Vec<u8>; SLICES], usize)> {
        let pixels = BASE64.decode(self.data.as_bytes()).ok()?;
        let (width, side) = (self.width as usize, self.width as usize / 2);
        let fits = side > 0 && side <= MOST_SIDE && self.width == self.height && width == 2 * side;
        if !fits || pixels.len() != width * width {
            return None;
        }
        let row =
            |slice: usize, row: usize| &pixels[(slice / 2 * side + row) * width + slice % 2 * side..][..side];
        let cells = std::array::from_fn(|slice| (0..side).flat_map(|y| row(slice, y)).copied().collect());
        Some((cells, side))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field at rest at -0.5, with a bump of height 1 - channel / 100 at (x, y, z) in some channels.
    fn bumps(grid: usize, bumps: &[(usize, [usize; 3])]) -> FieldSlices {
        let cell = |channel: usize, index: usize| {
            let place = [index % grid, index / grid % grid, index / grid / grid];
            let near = |centre: &[usize; 3]| {
                let squares = place.iter().zip(centre).map(|(a, b)| (*a as f32 - *b as f32).powi(2));
                (-squares.sum::<f32>() / (grid as f32 / 6.0).powi(2)).exp()
            };
            let of_channel = bumps.iter().filter(|(at, _)| *at == channel);
            -0.5 + of_channel.map(|(_, centre)| (1.0 - channel as f32 / 100.0) * near(centre)).sum::<f32>()
        };
        FieldSlices::of(grid, 7, |channel, first, step, to| {
            to.iter_mut().enumerate().for_each(|(place, to)| *to = cell(channel, first + place * step));
        })
    }

    #[test]
    fn the_channels_that_vary_most_are_cut_at_their_peaks() {
        let places =
            [(40, [2, 6, 10]), (5, [14, 2, 2]), (63, [10, 10, 10]), (17, [6, 6, 14]), (50, [2, 2, 2])];
        let slices = bumps(16, &places);
        assert_eq!(slices.slices.map(|slice| slice.channel), [5, 17, 40, 50]);
        assert_eq!((slices.side, slices.cycle), (16, 7));
        for slice in &slices.slices {
            let (_, [x, y, z]) =
                places.iter().find(|(channel, _)| *channel == usize::from(slice.channel)).unwrap();
            assert!(z.abs_diff(usize::from(slice.plane)) <= 1, "plane {}, not {z}", slice.plane);
            let brightest = (0..256).max_by_key(|place| slice.cells[*place]).unwrap();
            assert_eq!((brightest % 16, brightest / 16), (*x, *y));
        }
    }

    #[test]
    fn a_small_and_a_large_grid_are_shown_whole() {
        for (grid, side) in [(4, 4), (8, 8), (32, 32), (64, 32)] {
            let peak = [grid / 4, grid / 2, 5 * grid / 8];
            let slices = bumps(grid, &[(9, peak)]);
            let slice = slices.slices.iter().find(|slice| slice.channel == 9).expect("the one that varies");
            let brightest = (0..side * side).max_by_key(|place| slice.cells[*place]).unwrap();
            assert_eq!(usize::from(slices.side), side);
            assert_eq!((brightest % side, brightest / side), (side / 4, side / 2), "{grid}");
        }
    }

    #[test]
    fn a_field_at_rest_has_slices_of_one_shade() {
        let slices = bumps(16, &[]);
        assert_eq!(slices.range, [-0.5; 2]);
        assert_eq!(slices.slices.map(|slice| slice.channel), [0, 1, 2, 3], "no channel appears twice");
        assert!(slices.slices.iter().all(|slice| slice.cells.iter().all(|cell| *cell == 0)));
    }

    #[test]
    fn a_message_carries_every_cell_and_a_damaged_one_is_refused() {
        let slices = bumps(16, &[(40, [3, 4, 9]), (5, [12, 2, 3])]);
        let message = SlicesMessage::of(&slices);
        let (cells, side) = message.cells().unwrap();
        assert_eq!(side, 16);
        for (read, slice) in cells.iter().zip(&slices.slices) {
            assert_eq!(read[..], slice.cells[..256]);
        }
        for damaged in [
            SlicesMessage { data: "!".into(), ..message.clone() },
            SlicesMessage { data: message.data[4..].into(), ..message.clone() },
            SlicesMessage { width: 0, height: 0, data: String::new(), ..message.clone() },
            SlicesMessage { width: 4_000_000_000, height: 4_000_000_000, ..message.clone() },
            SlicesMessage { height: 16, ..message },
        ] {
            assert_eq!(damaged.cells(), None, "{} x {}", damaged.width, damaged.height);
        }
    }
}
