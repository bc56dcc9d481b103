//! Slices through the field for people to look at: one plane of each of the channels that vary most. Taking
//! them reads a few thousand cells, allocates nothing and changes nothing.

use super::engine::FieldEngine;
use super::shape::CHANNELS;
use super::state::Live;
use crate::base::time::{Instant, Span};
use crate::system::rt::triple_buffer::{Reader, Writer, triple_buffer};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// Channels that are shown. Four fit on a screen beside each other, and into a message of six kilobytes.
pub const SLICES: usize = 4;
/// The most cells per axis that a slice shows; of a larger grid it shows every second or fourth cell.
pub const MOST_SIDE: usize = 32;
/// Interval between two sets of slices: a person sees a change, and a recording grows by 12 kB/s.
const EVERY: Span = Span::from_millis(500);
/// Cells per axis and channel that are compared to choose channels and planes. A receptive field is about a
/// third of the cube wide, so a lattice of eight does not miss one.
const LATTICE: usize = 8;

/// One set of slices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldSlices {
    /// When they were taken, on the robot's clock.
    pub at: Instant,
    /// Number of the field's last cycle.
    pub cycle: u64,
    /// Cells per axis of each slice, at most [`MOST_SIDE`].
    pub side: u8,
    /// The value that is stored as 0 and the one stored as 255.
    pub range: [f32; 2],
    /// The slices, of the channel that varies most first.
    pub slices: [FieldSlice; SLICES],
}

/// The plane of one channel that contains its most unusual cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldSlice {
    /// The channel, 0..64.
    pub channel: u8,
    /// The plane's z in cells of the grid in use.
    pub plane: u8,
    /// `side` x `side` cells, x fastest, between `range`.
    pub cells: [u8; MOST_SIDE * MOST_SIDE],
}

/// What was found on the lattice of a channel.
#[derive(Clone, Copy, Default)]
struct Found {
    channel: usize,
    /// Largest minus smallest cell.
    spread: f32,
    plane: usize,
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

    /// Slices of a field of `grid` cells per axis; `cell` returns a cell of a channel, x fastest.
    pub fn of(grid: usize, cycle: u64, cell: impl Fn(usize, usize) -> f32) -> FieldSlices {
        let mut most = [Found::default(); SLICES];
        for channel in 0..CHANNELS {
            let found = search(grid, channel, |index| cell(channel, index));
            let place = most.iter().position(|other| found.spread > other.spread).unwrap_or(SLICES);
            if place < SLICES {
                most[place..].rotate_right(1);
                most[place] = found;
            }
        }
        let side = grid.min(MOST_SIDE);
        let at = |found: &Found, x: usize, y: usize| {
            let [x, y] = [x, y].map(|to| to * grid / side);
            cell(found.channel, (found.plane * grid + y) * grid + x)
        };
        let mut range = [f32::MAX, f32::MIN];
        for found in &most {
            for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
                let value = at(found, x, y);
                range = [range[0].min(value), range[1].max(value)];
            }
        }
        let steps = if range[1] > range[0] { 255.0 / (range[1] - range[0]) } else { 0.0 };
        let mut slices = FieldSlices { cycle, side: side as u8, range, ..FieldSlices::EMPTY };
        for (slice, found) in slices.slices.iter_mut().zip(&most) {
            (slice.channel, slice.plane) = (found.channel as u8, found.plane as u8);
            for (place, to) in slice.cells[..side * side].iter_mut().enumerate() {
                *to = ((at(found, place % side, place / side) - range[0]) * steps).round() as u8;
            }
        }
        slices
    }

    /// Slices of a saved field; `None`: nothing has been saved.
    pub fn of_saved(live: &Live) -> Option<FieldSlices> {
        let cells = if live.on_half { &live.half } else { &live.whole };
        let per_channel = cells.len() / CHANNELS;
        let grid = (per_channel as f64).cbrt().round() as usize;
        let fits = grid > 0 && grid.pow(3) * CHANNELS == cells.len();
        fits.then(|| FieldSlices::of(grid, live.cycle, |channel, index| cells[channel * per_channel + index]))
    }
}

/// How much a channel varies on its lattice, and in which plane it differs most from its mean.
fn search(grid: usize, channel: usize, cell: impl Fn(usize) -> f32) -> Found {
    let per_axis = LATTICE.min(grid);
    let step = grid / per_axis;
    let lattice = || {
        let axis = move || (0..per_axis).map(move |place| place * step + step / 2);
        axis()
            .flat_map(move |z| axis().flat_map(move |y| axis().map(move |x| (z, (z * grid + y) * grid + x))))
    };
    let (mut low, mut high, mut sum) = ((f32::MAX, 0), (f32::MIN, 0), 0.0);
    for (plane, index) in lattice() {
        let value = cell(index);
        sum += value;
        if value < low.0 {
            low = (value, plane);
        }
        if value > high.0 {
            high = (value, plane);
        }
    }
    let mean = sum / per_axis.pow(3) as f32;
    let plane = if high.0 - mean >= mean - low.0 { high.1 } else { low.1 };
    Found { channel, spread: high.0 - low.0, plane }
}

/// Takes slices at intervals, for those who read them: a recording, the control socket.
#[derive(Default)]
pub struct SliceSchedule {
    readers: Vec<Writer<FieldSlices>>,
    due: Instant,
}

impl SliceSchedule {
    /// For the readers at the other ends of `readers`.
    pub fn new(readers: Vec<Writer<FieldSlices>>) -> SliceSchedule {
        SliceSchedule { readers, due: Instant::ZERO }
    }

    /// Takes slices of `engine` if they are due and somebody reads them. Until there is a field to look at,
    /// the next call tries again.
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

/// A schedule's reader that keeps the newest slices for several threads, none of which is the field's.
#[derive(Clone)]
pub struct NewestSlices(Arc<Mutex<(Reader<FieldSlices>, Option<FieldSlices>)>>);

impl NewestSlices {
    /// A reader without slices, and the schedule's end of it.
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
/// the one that varies most at the top left, each with its first row at the top.
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
        FieldSlices::of(grid, 7, |channel, index| {
            let place = [index % grid, index / grid % grid, index / grid / grid];
            let near = |centre: &[usize; 3]| {
                let squares = place.iter().zip(centre).map(|(a, b)| (*a as f32 - *b as f32).powi(2));
                (-squares.sum::<f32>() / (grid as f32 / 6.0).powi(2)).exp()
            };
            let of_channel = bumps.iter().filter(|(at, _)| *at == channel);
            -0.5 + of_channel.map(|(_, centre)| (1.0 - channel as f32 / 100.0) * near(centre)).sum::<f32>()
        })
    }

    #[test]
    fn the_channels_that_vary_most_are_cut_at_their_peaks() {
        let places = [(40, [3, 4, 9]), (5, [12, 2, 3]), (63, [8, 8, 8]), (17, [6, 6, 13]), (50, [1, 1, 1])];
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
            let slice = &slices.slices[0];
            let brightest = (0..side * side).max_by_key(|place| slice.cells[*place]).unwrap();
            assert_eq!((usize::from(slices.side), slice.channel), (side, 9));
            assert_eq!((brightest % side, brightest / side), (side / 4, side / 2), "{grid}");
        }
    }

    #[test]
    fn a_field_at_rest_has_slices_of_one_shade() {
        let slices = bumps(16, &[]);
        assert_eq!(slices.range, [-0.5; 2]);
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
