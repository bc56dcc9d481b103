//! The layout of a robot's allocation on the device, which holds everything except stored patterns
//! (`library`). Knows sizes only; `start` defines the initial contents, `kernels/README.md` describes which
//! kernel writes what.

use super::library::volume_bytes;
use super::save::room_for;
use super::tables::{ABOUT, ANSWER, BRAIN, CYCLE, MATCH, METRICS, RULE, SENSES, SWEEP};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{FieldPlan, Storage};
use crate::field::shape::{
    BANK_TOP, CHANNELS, CONTENT_GROUPS, CONTEXT, DESCRIPTOR, FEATURES, GROUP, GROUPS, regressors,
};

/// Buffers are aligned to this many bytes, like allocations of the driver, which is more than any load in the
/// kernels needs.
const ALIGNED: usize = 256;

/// A buffer: offset in the allocation, and length, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferRange {
    pub at: usize,
    pub bytes: usize,
}

/// Allocates buffers one after another.
#[derive(Default)]
struct Ruler {
    next: usize,
}

impl Ruler {
    fn take(&mut self, bytes: usize) -> BufferRange {
        let place = BufferRange { at: self.next, bytes };
        self.next = (self.next + bytes).next_multiple_of(ALIGNED);
        place
    }
}

/// The buffers of a robot.
#[derive(Debug)]
pub struct Layout {
    /// The addresses of all other buffers, for the kernels (`brain`).
    pub table: BufferRange,
    /// The orders of the last cycle, as `sense` copied them.
    pub cycle: BufferRange,
    pub answer: BufferRange,
    pub rule: BufferRange,
    /// Full grid, half grid.
    pub profiles: [BufferRange; 2],
    pub first_tap: BufferRange,
    pub tap_sensor: BufferRange,
    pub tap_weight: BufferRange,
    pub bias: BufferRange,
    /// Addresses of the volumes on the full grid and on the half grid; `library` sets them.
    pub volumes: [BufferRange; 2],
    /// Zeros, to which slots without memory point.
    pub no_volume: [BufferRange; 2],
    pub contexts: BufferRange,
    pub stored: BufferRange,
    pub given: BufferRange,
    pub exact: BufferRange,
    pub coarse: BufferRange,
    pub scale: BufferRange,
    pub error: BufferRange,
    pub value: BufferRange,
    pub last_use: BufferRange,
    pub readout: BufferRange,
    /// By grid, buffer, group.
    pub cells: [[[BufferRange; GROUPS]; 2]; 2],
    pub channel_sums: BufferRange,
    pub block_sums: BufferRange,
    pub group_sums: BufferRange,
    pub features: BufferRange,
    pub about: BufferRange,
    pub senses: BufferRange,
    pub weights: BufferRange,
    pub covariance: BufferRange,
    pub high: BufferRange,
    pub low: BufferRange,
    pub found: BufferRange,
    pub sweep: BufferRange,
    pub scores: BufferRange,
    pub metrics: BufferRange,
    /// A saved state on its way to the host (`save`).
    pub saved: BufferRange,
    /// Length of the allocation.
    pub bytes: usize,
}

impl Layout {
    /// The layout for a plan with `taps` connections from sensors to channels, whose bank is scanned by
    /// `blocks` blocks.
    pub fn new(plan: &FieldPlan, taps: usize, blocks: usize) -> Layout {
        let mut ruler = Ruler::default();
        let (shape, n) = (plan.shape, regressors(plan.shape.sensors));
        let (cells, slots, rows) = (shape.cells(), shape.patterns, shape.bank);
        let profile = |grid: usize| shape.sensors * 3 * grid * size_of::<f32>();
        let no_volume = |cells: usize| if slots > 0 { volume_bytes(cells) } else { 0 };
        let both_buffers = |ruler: &mut Ruler, cells: usize| {
            [(); 2].map(|()| std::array::from_fn(|group| ruler.take(group_bytes(plan, group, cells))))
        };
        let mut layout = Layout {
            table: ruler.take(BRAIN),
            cycle: ruler.take(CYCLE),
            answer: ruler.take(ANSWER),
            rule: ruler.take(RULE),
            profiles: [shape.grid, shape.grid / 2].map(|grid| ruler.take(profile(grid))),
            first_tap: ruler.take((CHANNELS + 1) * size_of::<u32>()),
            tap_sensor: ruler.take(taps * size_of::<u32>()),
            tap_weight: ruler.take(taps * size_of::<f32>()),
            bias: ruler.take(CHANNELS * size_of::<f32>()),
            volumes: [(); 2].map(|()| ruler.take(slots * size_of::<u64>())),
            no_volume: [cells, cells / 8].map(|cells| ruler.take(no_volume(cells))),
            contexts: ruler.take(slots * CONTEXT * size_of::<f64>()),
            stored: ruler.take(slots * size_of::<u32>()),
            given: ruler.take((DESCRIPTOR + 1) * size_of::<f32>()),
            exact: ruler.take(rows * DESCRIPTOR * size_of::<f32>()),
            coarse: ruler.take(rows * DESCRIPTOR),
            scale: ruler.take(rows * size_of::<f32>()),
            error: ruler.take(rows * size_of::<f32>()),
            value: ruler.take(rows * size_of::<f64>()),
            last_use: ruler.take(rows * size_of::<u64>()),
            readout: ruler.take(shape.weights() * size_of::<f32>()),
            cells: [both_buffers(&mut ruler, cells), both_buffers(&mut ruler, cells / 8)],
            channel_sums: ruler.take(shape.grid * CHANNELS * size_of::<f32>()),
            block_sums: ruler.take(shape.grid * GROUPS * 16 * size_of::<f32>()),
            group_sums: ruler.take(CONTENT_GROUPS * cells * size_of::<f32>()),
            features: ruler.take(FEATURES * size_of::<f32>()),
            about: ruler.take(ABOUT),
            senses: ruler.take(SENSES),
            weights: ruler.take(shape.sensors * n * size_of::<f64>()),
            covariance: ruler.take(n * n * size_of::<f64>()),
            high: ruler.take(rows * size_of::<f32>()),
            low: ruler.take(blocks * BANK_TOP * size_of::<f32>()),
            found: ruler.take(blocks * (BANK_TOP + 1) * MATCH),
            sweep: ruler.take(SWEEP),
            scores: ruler.take(2 * MAX_MOTORS * size_of::<f64>()),
            metrics: ruler.take(METRICS),
            saved: BufferRange::default(),
            bytes: 0,
        };
        layout.saved = ruler.take(layout.saved_bytes());
        layout.bytes = ruler.next;
        layout
    }

    /// The table of addresses for an allocation that starts at `base`; the orders and the report are in host
    /// memory, at the two addresses `host`.
    pub fn brain(&self, base: u64, host: [u64; 2]) -> [u8; BRAIN] {
        let at = |place: BufferRange| base + place.at as u64;
        let first = [at(self.rule), host[0], at(self.cycle), at(self.answer), host[1]];
        let inputs = [self.first_tap, self.tap_sensor, self.tap_weight, self.bias];
        let inputs = self.profiles.into_iter().chain(inputs);
        let cells = self.cells.iter().flatten().flatten().copied();
        let rest = [
            self.volumes[0],
            self.volumes[1],
            self.contexts,
            self.stored,
            self.channel_sums,
            self.block_sums,
            self.group_sums,
            self.features,
            self.about,
            self.senses,
            self.weights,
            self.covariance,
            self.given,
            self.exact,
            self.coarse,
            self.scale,
            self.error,
            self.value,
            self.last_use,
            self.high,
            self.low,
            self.found,
            self.sweep,
            self.readout,
            self.scores,
            self.metrics,
        ];
        let addresses = first.into_iter().chain(inputs.chain(cells).chain(rest).map(at));
        let bytes: Vec<u8> = addresses.flat_map(u64::to_le_bytes).collect();
        bytes.try_into().expect("the table matches kernels/brain.cuh")
    }

    /// Bytes of everything that is saved.
    fn saved_bytes(&self) -> usize {
        let tables = [self.senses, self.weights, self.covariance, self.sweep, self.scores, self.metrics];
        let cells = self.cells.iter().flat_map(|buffers| buffers[0]);
        room_for(tables.into_iter().chain(cells).map(|place| place.bytes).chain([ANSWER]))
    }
}

/// Bytes of the cells of a group on a grid of `cells` cells.
fn group_bytes(plan: &FieldPlan, group: usize, cells: usize) -> usize {
    let cell = match plan.storage_of(group) {
        Storage::F32 => size_of::<f32>(),
        Storage::F16 => size_of::<u16>(),
    };
    GROUP * cells * cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Shape;
    use crate::field::cuda::fixture::plan;
    use crate::field::cuda::start::Start;

    #[test]
    fn no_two_buffers_overlap_and_all_lie_within() {
        let layout = Layout::new(&plan(8), 40, 4);
        let text = format!("{layout:?}");
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for piece in text.split("BufferRange { at: ").skip(1) {
            let (at, rest) = piece.split_once(", bytes: ").expect("a buffer");
            let bytes = rest.split_once(" }").expect("its length").0;
            ranges.push((at.parse().unwrap(), bytes.parse().unwrap()));
        }
        ranges.sort_unstable();
        assert_eq!(ranges.len(), 71, "every buffer is listed");
        for two in ranges.windows(2) {
            assert!(two[0].0 + two[0].1 <= two[1].0, "{two:?}");
            assert!(two[1].0.is_multiple_of(16));
        }
        let (at, bytes) = ranges[ranges.len() - 1];
        assert!(at + bytes <= layout.bytes);
    }

    /// The largest field of a current board: 100 patterns and 10,000 experiences, none of which exist yet.
    #[test]
    fn a_robot_with_an_empty_library_takes_less_than_64_mb() {
        let shape = Shape { grid: 32, sensors: 16, motors: 5, patterns: 100, bank: 10_000 };
        let plan = FieldPlan { shape, ..plan(32) };
        let taps = Start::new(&plan).connections();
        let taken = |plan: &FieldPlan| Layout::new(plan, taps, 64).bytes;
        let (one, slot) =
            (taken(&plan), [32, 16].map(|n: usize| volume_bytes(n.pow(3))).iter().sum::<usize>());
        assert!(one < 64_000_000, "{one} bytes");
        let half = FieldPlan { storage: Storage::F16, ..plan.clone() };
        assert!(taken(&half) < one - 8_000_000, "{} bytes with f16 cells", taken(&half));
        assert_eq!(slot, 1_179_648, "what each stored pattern adds");
    }

    #[test]
    fn half_precision_takes_half_the_memory() {
        let mut plan = plan(16);
        let whole = Layout::new(&plan, 40, 4);
        plan.storage = Storage::F16;
        let half = Layout::new(&plan, 40, 4);
        let bytes = |layout: &Layout| layout.cells[0][0].map(|place| place.bytes);
        let full = GROUP * 4096 * 4;
        assert_eq!(bytes(&whole), [full; 8]);
        assert_eq!(bytes(&half), [[full / 2; 6].as_slice(), &[full; 2]].concat()[..]);
    }
}
