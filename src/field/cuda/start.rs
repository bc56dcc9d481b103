//! The contents of the device's memory before the first cycle: rule and projections, which never change, and
//! the field at rest. Makes bytes only; copies nothing.

use super::tables::{
    ABOUT, ANSWER, DeviceAnswer, STEPS, bytes_of_f32, bytes_of_f64, bytes_of_i16, bytes_of_u32, reach, rule,
};
use crate::base::plan::{FieldPlan, Storage};
use crate::field::projections::{Projections, cut};
use crate::field::shape::{CHANNELS, CONTEXT, DESCRIPTOR, GROUP, GROUPS, NORM_FLOOR, PATTERN, regressors};
use crate::system::cpu::Half;

/// The tables that are written once, at start-up.
pub struct Start {
    plan: FieldPlan,
    projections: Projections,
    /// Sensors that reach each channel.
    taps: Vec<Vec<usize>>,
}

impl Start {
    /// The tables of a plan.
    pub fn new(plan: &FieldPlan) -> Start {
        let projections = Projections::new(plan, plan.shape.grid);
        let reached =
            |c: usize| (0..plan.shape.sensors).filter(|s| projections.weight[c][*s].abs() > 0.0).collect();
        let taps = (0..CHANNELS).map(reached).collect();
        Start { plan: plan.clone(), projections, taps }
    }

    /// Number of connections between sensors and channels.
    pub fn connections(&self) -> usize {
        self.taps.iter().map(Vec::len).sum()
    }

    /// The table of the run's constants.
    pub fn rule(&self) -> Vec<u8> {
        rule(&self.plan).to_vec()
    }

    /// Receptive fields on the full and on the half grid.
    pub fn profiles(&self) -> [Vec<u8>; 2] {
        let profile =
            |projections: &Projections| bytes_of_f32(projections.profile.iter().flatten().flatten().map(cut));
        [profile(&self.projections), profile(&self.projections.halved())]
    }

    /// First tap of each channel, plus the end; sensor of each tap; weight of each tap.
    pub fn taps(&self) -> [Vec<u8>; 3] {
        let first = (0..=CHANNELS).map(|c| self.taps[..c].iter().map(Vec::len).sum::<usize>() as u32);
        let sensors = self.taps.iter().flatten().map(|sensor| *sensor as u32);
        let gain = self.plan.params.gain;
        let weights = self.taps.iter().enumerate().flat_map(|(c, taps)| {
            taps.iter().map(move |sensor| (gain * self.projections.weight[c][*sensor]) as f32)
        });
        [bytes_of_u32(first), bytes_of_u32(sensors), bytes_of_f32(weights)]
    }

    /// Gain x h.
    pub fn bias(&self) -> Vec<u8> {
        bytes_of_f32(self.projections.bias.iter().map(|h| (self.plan.params.gain * h) as f32))
    }

    /// Cells of group `group` on the full grid, at rest.
    pub fn cells(&self, group: usize) -> Vec<u8> {
        let cells = self.plan.shape.cells();
        let channels = self.projections.rest[group * GROUP..][..GROUP].iter();
        let values: Vec<f32> = channels.flat_map(|rest| std::iter::repeat_n(*rest as f32, cells)).collect();
        self.kept(group, &values)
    }

    /// Values in the storage format of a group.
    pub fn kept(&self, group: usize, values: &[f32]) -> Vec<u8> {
        match self.plan.storage_of(group) {
            Storage::F32 => bytes_of_f32(values.iter().copied()),
            Storage::F16 => {
                let bound = reach(&self.plan, Storage::F16);
                let half = |value: &f32| Half::from_f32(value.clamp(-bound, bound)).0.to_le_bytes();
                values.iter().flat_map(half).collect()
            }
        }
    }

    /// Context and descriptor relative to rest, which are 0; their resting values; and the query, which is 0
    /// until the first cycle makes it.
    pub fn about(&self) -> Vec<u8> {
        let zeros = [0.0; CONTEXT + DESCRIPTOR];
        let mut table = bytes_of_f64(
            zeros.into_iter().chain(self.projections.rest.iter().copied()).chain(self.resting_descriptor()),
        );
        table.resize(ABOUT, 0);
        table
    }

    fn resting_descriptor(&self) -> impl Iterator<Item = f64> {
        let group = |i: usize| self.projections.rest[i / (DESCRIPTOR / GROUPS) * GROUP..][..GROUP].iter();
        (0..DESCRIPTOR).map(move |i| group(i).sum::<f64>() / GROUP as f64)
    }

    /// The covariance: I / ridge, with ridge 1.
    pub fn covariance(&self) -> Vec<u8> {
        let n = regressors(self.plan.shape.sensors);
        bytes_of_f64((0..n * n).map(|i| if i % (n + 1) == 0 { 1.0 } else { 0.0 }))
    }

    /// The answer before the first cycle.
    pub fn answer(&self) -> Vec<u8> {
        let mut table = vec![0; ANSWER];
        DeviceAnswer::START.write(&mut table);
        table
    }

    /// A pattern in the device's format: its volume on both grids, in steps, and its context relative to
    /// rest, scaled to unit length.
    pub fn pattern(&self, volume: &[f32], context: &[f32; CONTEXT]) -> Pattern {
        let step = reach(&self.plan, Storage::F32) / STEPS;
        let whole: Vec<i16> = volume.iter().map(|v| (v / step).round() as i16).collect();
        let about = context.iter().zip(&self.projections.rest).map(|(c, rest)| f64::from(*c) - rest);
        let about: Vec<f64> = about.collect();
        let length = about.iter().map(|c| c * c).sum::<f64>().sqrt().max(NORM_FLOOR);
        Pattern { half: self.halved(&whole), whole, context: about.iter().map(|c| c / length).collect() }
    }

    /// Means of 2x2x2 cells of 16 channels. They are computed from the stored steps, so that a pattern that
    /// is loaded from a snapshot is the same as before on both grids.
    pub fn halved(&self, volume: &[i16]) -> Vec<i16> {
        let n = self.plan.shape.grid;
        let mut sums = vec![0_i32; PATTERN * n * n * n / 8];
        for (cell, steps) in volume.iter().enumerate() {
            let [x, y, z, channel] = [cell % n, cell / n % n, cell / n / n % n, cell / n / n / n];
            sums[((channel * (n / 2) + z / 2) * (n / 2) + y / 2) * (n / 2) + x / 2] += i32::from(*steps);
        }
        sums.iter().map(|sum| (*sum as f32 / 8.0).round() as i16).collect()
    }
}

/// A pattern to be copied to the device.
pub struct Pattern {
    /// 16 x N^3 in steps of the bound / 32767.
    pub whole: Vec<i16>,
    /// 16 x (N/2)^3.
    pub half: Vec<i16>,
    /// 64 numbers relative to rest, of unit length (divided by at least `NORM_FLOOR`).
    pub context: Vec<f64>,
}

impl Pattern {
    /// Volumes and context as bytes.
    pub fn bytes(&self) -> [Vec<u8>; 3] {
        let steps = |steps: &[i16]| bytes_of_i16(steps.iter().copied());
        [steps(&self.whole), steps(&self.half), bytes_of_f64(self.context.iter().copied())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::cuda::fixture::plan;

    #[test]
    fn contents_have_the_length_of_their_buffers() {
        use crate::field::cuda::layout::Layout;
        for storage in [Storage::F32, Storage::F16] {
            let plan = FieldPlan { storage, ..plan(8) };
            let start = Start::new(&plan);
            let layout = Layout::new(&plan, start.connections(), 2);
            assert_eq!(start.profiles().map(|p| p.len()), layout.profiles.map(|place| place.bytes));
            let taps = [layout.first_tap, layout.tap_sensor, layout.tap_weight].map(|place| place.bytes);
            assert_eq!(start.taps().map(|t| t.len()), taps);
            assert_eq!(start.bias().len(), layout.bias.bytes);
            assert_eq!(start.about().len(), layout.about.bytes);
            assert_eq!(start.covariance().len(), layout.covariance.bytes);
            for group in 0..GROUPS {
                assert_eq!(start.cells(group).len(), layout.cells[0][0][group].bytes);
            }
        }
    }

    #[test]
    fn pattern_is_rounded_to_its_steps_on_both_grids() {
        let plan = plan(8);
        let start = Start::new(&plan);
        let volume: Vec<f32> = (0..PATTERN * 512).map(|i| 0.95 * ((i as f32) * 0.37).sin()).collect();
        let pattern = start.pattern(&volume, &[0.5; CONTEXT]);
        let step = reach(&plan, Storage::F32) / STEPS;
        for (value, steps) in volume.iter().zip(&pattern.whole) {
            assert!((value - f32::from(*steps) * step).abs() <= 0.51 * step);
        }
        let block: f32 = [0, 1, 8, 9, 64, 65, 72, 73].iter().map(|i| volume[*i]).sum::<f32>() / 8.0;
        assert!((block - f32::from(pattern.half[0]) * step).abs() <= 0.51 * step);
        assert_eq!(start.halved(&pattern.whole), pattern.half, "the same from a snapshot");
        let length: f64 = pattern.context.iter().map(|c| c * c).sum();
        assert!((length - 1.0).abs() < 1e-12);
    }
}
