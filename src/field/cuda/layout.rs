//! The layout of the allocation on the device that holds everything except stored patterns (`library`): first
//! the data that robots share, then each robot's own. Knows sizes only; `start` defines the initial contents,
//! `kernels/README.md` describes which kernel writes what.

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

/// Distance between two robots' tables of orders: the size of one, rounded up to a multiple of 16.
pub const CYCLE_PITCH: usize = CYCLE.next_multiple_of(16);
const _: () = assert!(ANSWER.is_multiple_of(16));

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

/// Buffers that all robots share.
#[derive(Debug)]
pub struct Shared {
    pub brains: BufferRange,
    pub cycles: BufferRange,
    pub answers: BufferRange,
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
}

/// The buffers of each robot.
#[derive(Debug)]
pub struct Own {
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
}

/// The whole allocation.
#[derive(Debug)]
pub struct Layout {
    pub shared: Shared,
    pub robots: Vec<Own>,
    /// A saved state of robot 0 on its way to the host (`save`).
    pub saved: BufferRange,
    /// Length of the allocation.
    pub bytes: usize,
}

impl Layout {
    /// The layout for `robots` robots of a plan with `taps` connections from sensors to channels, whose bank
    /// is scanned by `blocks` blocks.
    pub fn new(plan: &FieldPlan, taps: usize, robots: usize, blocks: usize) -> Layout {
        let mut ruler = Ruler::default();
        let shared = shared(plan, taps, robots, &mut ruler);
        let robots: Vec<Own> = (0..robots).map(|_| own(plan, blocks, &mut ruler)).collect();
        let saved = ruler.take(robots.first().map_or(0, Own::saved_bytes));
        Layout { shared, robots, saved, bytes: ruler.next }
    }

    /// The table of addresses of one robot, for an allocation that starts at `base`; the robot's orders and
    /// its report are in host memory, at the two addresses `host`.
    pub fn brain(&self, robot: usize, base: u64, host: [u64; 2]) -> Vec<u8> {
        let (shared, own) = (&self.shared, &self.robots[robot]);
        let at = |place: &BufferRange, further: usize| base + (place.at + further) as u64;
        let mut addresses = vec![
            at(&shared.rule, 0),
            host[0],
            at(&shared.cycles, robot * CYCLE_PITCH),
            at(&shared.answers, robot * ANSWER),
            host[1],
        ];
        addresses.extend(shared.profiles.iter().map(|place| at(place, 0)));
        let hardware = [&shared.first_tap, &shared.tap_sensor, &shared.tap_weight, &shared.bias];
        addresses.extend(hardware.map(|place| at(place, 0)));
        addresses.extend(own.cells.iter().flatten().flatten().map(|place| at(place, 0)));
        let rest = [
            &shared.volumes[0],
            &shared.volumes[1],
            &shared.contexts,
            &shared.stored,
            &own.channel_sums,
            &own.block_sums,
            &own.group_sums,
            &own.features,
            &own.about,
            &own.senses,
            &own.weights,
            &own.covariance,
            &shared.given,
            &shared.exact,
            &shared.coarse,
            &shared.scale,
            &shared.error,
            &shared.value,
            &shared.last_use,
            &own.high,
            &own.low,
            &own.found,
            &own.sweep,
            &shared.readout,
            &own.scores,
            &own.metrics,
        ];
        addresses.extend(rest.map(|place| at(place, 0)));
        assert_eq!(addresses.len() * size_of::<u64>(), BRAIN, "the table matches kernels/brain.cuh");
        addresses.iter().flat_map(|address| address.to_le_bytes()).collect()
    }
}

impl Own {
    /// Bytes of everything that is saved for a robot.
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

fn shared(plan: &FieldPlan, taps: usize, robots: usize, ruler: &mut Ruler) -> Shared {
    let shape = plan.shape;
    let (cells, slots, rows) = (shape.cells(), shape.patterns, shape.bank);
    let profile = |grid: usize| shape.sensors * 3 * grid * size_of::<f32>();
    Shared {
        brains: ruler.take(robots * BRAIN),
        cycles: ruler.take(robots * CYCLE_PITCH),
        answers: ruler.take(robots * ANSWER),
        rule: ruler.take(RULE),
        profiles: [shape.grid, shape.grid / 2].map(|grid| ruler.take(profile(grid))),
        first_tap: ruler.take((CHANNELS + 1) * size_of::<u32>()),
        tap_sensor: ruler.take(taps * size_of::<u32>()),
        tap_weight: ruler.take(taps * size_of::<f32>()),
        bias: ruler.take(CHANNELS * size_of::<f32>()),
        volumes: [(); 2].map(|()| ruler.take(slots * size_of::<u64>())),
        no_volume: [cells, cells / 8]
            .map(|cells| ruler.take(if slots > 0 { volume_bytes(cells) } else { 0 })),
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
    }
}

fn own(plan: &FieldPlan, blocks: usize, ruler: &mut Ruler) -> Own {
    let (shape, n) = (plan.shape, regressors(plan.shape.sensors));
    let mut cells = |cells: usize| {
        [(); 2].map(|()| std::array::from_fn(|group| ruler.take(group_bytes(plan, group, cells))))
    };
    Own {
        cells: [cells(shape.cells()), cells(shape.cells() / 8)],
        channel_sums: ruler.take(shape.grid * CHANNELS * size_of::<f32>()),
        block_sums: ruler.take(shape.grid * GROUPS * 16 * size_of::<f32>()),
        group_sums: ruler.take(CONTENT_GROUPS * shape.cells() * size_of::<f32>()),
        features: ruler.take(FEATURES * size_of::<f32>()),
        about: ruler.take(ABOUT),
        senses: ruler.take(SENSES),
        weights: ruler.take(shape.sensors * n * size_of::<f64>()),
        covariance: ruler.take(n * n * size_of::<f64>()),
        high: ruler.take(shape.bank * size_of::<f32>()),
        low: ruler.take(blocks * BANK_TOP * size_of::<f32>()),
        found: ruler.take(blocks * (BANK_TOP + 1) * MATCH),
        sweep: ruler.take(SWEEP),
        scores: ruler.take(2 * MAX_MOTORS * size_of::<f64>()),
        metrics: ruler.take(METRICS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Shape;
    use crate::field::cuda::fixture::plan;
    use crate::field::cuda::start::Start;

    #[test]
    fn no_two_buffers_overlap_and_all_lie_within() {
        let layout = Layout::new(&plan(8), 40, 3, 4);
        let text = format!("{layout:?}");
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for piece in text.split("BufferRange { at: ").skip(1) {
            let (at, rest) = piece.split_once(", bytes: ").expect("a buffer");
            let bytes = rest.split_once(" }").expect("its length").0;
            ranges.push((at.parse().unwrap(), bytes.parse().unwrap()));
        }
        ranges.sort_unstable();
        assert!(ranges.len() > 3 * 45, "{}", ranges.len());
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
        let taken = |plan: &FieldPlan, robots: usize| Layout::new(plan, taps, robots, 64).bytes;
        let (one, slot) =
            (taken(&plan, 1), [32, 16].map(|n: usize| volume_bytes(n.pow(3))).iter().sum::<usize>());
        assert!(one < 64_000_000, "{one} bytes");
        let half = FieldPlan { storage: Storage::F16, ..plan.clone() };
        assert!(taken(&half, 1) < one - 8_000_000, "{} bytes with f16 cells", taken(&half, 1));
        assert_eq!(slot, 1_179_648, "what each stored pattern adds");
        // Two robots share the bank, the library and the buffer for a saved state.
        assert!(taken(&plan, 2) < one + 21_000_000, "{} bytes", taken(&plan, 2));
    }

    #[test]
    fn robots_share_inputs_and_have_their_own_field() {
        let layout = Layout::new(&plan(8), 40, 2, 4);
        let [one, two] =
            [0, 1].map(|robot| layout.brain(robot, 1 << 40, [8 + robot as u64, 16 + robot as u64]));
        let same: Vec<bool> = one.chunks(8).zip(two.chunks(8)).map(|(a, b)| a == b).collect();
        assert!(same[0] && same[1..5].iter().all(|same| !same), "shared: the rule, not orders and answers");
        assert!(same[5..11].iter().all(|same| *same), "projections");
        assert!(same[11..43].iter().all(|same| !same), "cells");
        assert!(same[43..47].iter().all(|same| *same), "library");
        assert!(same[47..55].iter().all(|same| !same));
        assert!(same[55..62].iter().all(|same| *same), "bank");
        assert!(same[62..66].iter().all(|same| !same));
        assert!(same[66] && !same[67] && !same[68]);
    }

    #[test]
    fn half_precision_takes_half_the_memory() {
        let mut plan = plan(16);
        let whole = Layout::new(&plan, 40, 1, 4);
        plan.storage = Storage::F16;
        let half = Layout::new(&plan, 40, 1, 4);
        let bytes = |layout: &Layout| layout.robots[0].cells[0][0].map(|place| place.bytes);
        let full = GROUP * 4096 * 4;
        assert_eq!(bytes(&whole), [full; 8]);
        assert_eq!(bytes(&half), [[full / 2; 6].as_slice(), &[full; 2]].concat()[..]);
    }
}
