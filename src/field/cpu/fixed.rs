//! The constants of eight channels: projections in the engine's format, storage, the coefficients of a step.
//! Shared by all threads that compute these channels; holds no cells.

use super::evolve::Step;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{FieldPlan, Params, Storage};
use crate::field::projections::{Projections, cut};
use crate::field::shape::{GROUP, PATTERN_FIRST, SLOW_FIRST, sub_steps};
use crate::system::cpu::simd::Half;

/// 2 log2(e): tanh(x) = 1 - 2 / (1 + 2^(2 log2(e) x)), so all terms of x are multiplied by this in advance.
const EXPONENT: f64 = 2.0 * std::f64::consts::LOG2_E;

/// Largest term of a drive, far beyond the point where the tanh saturates: keeps sums of drives finite.
const MOST_DRIVE: f64 = 1e6;

/// The sensors that reach one channel.
pub struct Taps {
    /// Each sensor, and its gain x weight.
    weights: Vec<(usize, f64)>,
    /// The profiles along x, y and z of each of these sensors, one row of cells each; for the full grid and
    /// the half grid.
    profiles: [Vec<f32>; 2],
}

/// Eight channels' constants.
pub struct Fixed {
    /// First channel.
    pub first: usize,
    /// How the cells are stored.
    pub storage: Storage,
    /// Cells per axis of the full grid.
    pub grid: usize,
    /// |u| stays within this.
    pub bound: f32,
    /// Resting value of each channel's cells.
    pub rest: [f32; GROUP],
    /// Each channel's mean in the features at rest: the value before it is rounded to the storage.
    pub rest_mean: [f64; GROUP],
    params: Params,
    bias: [f32; GROUP],
    taps: [Taps; GROUP],
}

impl Fixed {
    /// The constants of group `number`.
    pub fn new(number: usize, plan: &FieldPlan, projections: &Projections) -> Fixed {
        let (first, params) = (number * GROUP, plan.params);
        let storage = plan.storage_of(number);
        let halved = projections.halved();
        let taps = |c: usize| {
            let reached = projections.weight[first + c].iter().enumerate().filter(|(_, w)| w.abs() > 0.0);
            let weights: Vec<_> = reached.map(|(sensor, weight)| (sensor, params.gain * weight)).collect();
            let profiles = [projections, &halved].map(|projections| profiles(&weights, projections));
            Taps { weights, profiles }
        };
        let bound = storage.bound(1.0 - params.beta);
        let resting = |c: usize| projections.rest[first + c];
        Fixed {
            first,
            storage,
            grid: plan.shape.grid,
            bound,
            rest: std::array::from_fn(|c| resting(c) as f32),
            rest_mean: std::array::from_fn(|c| match storage {
                Storage::F32 => resting(c),
                Storage::F16 => step_at_rest(plan, first, projections.bias[first + c], resting(c), bound),
            }),
            params,
            bias: std::array::from_fn(|c| drive(params.gain * projections.bias[first + c])),
            taps: std::array::from_fn(taps),
        }
    }

    /// Whether patterns are blended into these channels.
    pub fn has_patterns(&self) -> bool {
        (PATTERN_FIRST..SLOW_FIRST).contains(&self.first)
    }

    /// The part of the drive that is the same for every cell of channel `c`.
    pub fn bias(&self, c: usize) -> f32 {
        self.bias[c]
    }

    /// Writes the amplitudes of the receptive fields that reach channel `c` into `to`; returns their number
    /// and their profiles.
    pub fn aim(&self, c: usize, half: bool, felt: &[f64], to: &mut [f32; MAX_SENSORS]) -> (usize, &[f32]) {
        let taps = &self.taps[c];
        for ((sensor, weight), to) in taps.weights.iter().zip(to) {
            *to = drive(weight * felt[*sensor]);
        }
        (taps.weights.len(), &taps.profiles[usize::from(half)])
    }

    /// Share of the step's own value in the step's result; the rest comes from the patterns.
    fn own(&self) -> f64 {
        if self.has_patterns() { 1.0 - self.params.pattern_share } else { 1.0 }
    }

    /// The coefficients of a sub-step that moves the cells by `share` towards their new value.
    pub fn step(&self, half: bool, share: f64) -> Step {
        let width = if half { 2.0 } else { 1.0 };
        let (lambda, gamma) = (self.params.lambda / (width * width), self.params.gamma);
        let keep = (1.0 - share) as f32;
        Step {
            centre: (EXPONENT * gamma * (1.0 - 6.0 * lambda)) as f32,
            side: (EXPONENT * gamma * lambda) as f32,
            keep,
            reach: reach(share * self.own() * f64::from(self.bound), keep, self.bound),
            bound: self.bound,
        }
    }

    /// What a quantisation step of size `step` in a pattern's volume, blended with `weight`, adds to a cell.
    pub fn pattern_step(&self, share: f64, weight: f64, step: f32) -> f32 {
        (share * self.params.pattern_share * weight * f64::from(step)) as f32
    }

    /// Memory, bytes.
    pub fn bytes(&self) -> usize {
        let taps = self.taps.iter().map(|taps| {
            let profiles: usize = taps.profiles.iter().map(|p| size_of_val(&**p)).sum();
            profiles + size_of_val(&*taps.weights)
        });
        size_of::<Fixed>() + taps.sum::<usize>()
    }
}

/// The result of a step for a cell whose value is the half-precision number nearest to its resting value. The
/// result is at most half a rounding step of the storage away from that number, so it is rounded back to it.
fn step_at_rest(plan: &FieldPlan, first: usize, bias: f64, rest: f64, bound: f32) -> f64 {
    let params = &plan.params;
    let t = if first < SLOW_FIRST { params.t_fast } else { params.t_slow };
    let (_, share) = sub_steps(plan.dt.as_secs_f64(), t);
    let own = if (PATTERN_FIRST..SLOW_FIRST).contains(&first) { 1.0 - params.pattern_share } else { 1.0 };
    let u = f64::from(Half::from_f32((rest as f32).clamp(-bound, bound)).to_f32());
    let value = own * f64::from(bound) * libm::tanh(params.gamma * u + params.gain * bias);
    (1.0 - share) * u + share * value
}

/// The largest f32, at most `wanted` rounded to f32, with which neither `keep * bound + reach` nor its
/// negative exceeds the bound, whether the product and the sum are rounded together (fused) or separately.
/// Every cell is between these two values.
fn reach(wanted: f64, keep: f32, bound: f32) -> f32 {
    let mut reach = wanted as f32;
    let within = |reach: f32| {
        let most = [keep * bound + reach, keep.mul_add(bound, reach)];
        let least = [-keep * bound + reach, (-keep).mul_add(bound, reach)];
        most.iter().all(|u| *u <= bound) && least.iter().all(|u| u - 2.0 * reach >= -bound)
    };
    while !within(reach) {
        reach = reach.next_down();
    }
    reach
}

/// A term of the drive, scaled for the exponential.
fn drive(value: f64) -> f32 {
    (EXPONENT * value.clamp(-MOST_DRIVE, MOST_DRIVE)) as f32
}

fn profiles(weights: &[(usize, f64)], projections: &Projections) -> Vec<f32> {
    weights.iter().flat_map(|(sensor, _)| projections.profile[*sensor].iter().flatten().map(cut)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::cpu::fixture::plan;

    #[test]
    fn no_drive_product_is_subnormal() {
        let plan = plan(16);
        let fixed = Fixed::new(0, &plan, &Projections::new(&plan, 16));
        for profile in fixed.taps.iter().flat_map(|taps| &taps.profiles) {
            let least = profile.iter().filter(|phi| **phi > 0.0).fold(1.0_f32, |a, b| a.min(*b));
            assert!(least < 1e-3, "far cells are reached too");
            assert!((1e-6 * least * least * least).is_normal());
        }
    }

    #[test]
    fn bound_is_the_largest_number_of_the_storage() {
        for limit in [0.95, 0.5, 0.001, 0.999] {
            for storage in [Storage::F32, Storage::F16] {
                let bound = storage.bound(limit);
                assert!(f64::from(bound) <= limit);
                let next = match storage {
                    Storage::F32 => bound.next_up(),
                    Storage::F16 => f32::from_bits(bound.to_bits() + 0x2000),
                };
                assert!(f64::from(next) >= limit, "{limit} {storage:?}: {bound}");
            }
        }
    }

    #[test]
    fn half_precision_is_for_groups_that_move_far_enough() {
        let plan = FieldPlan { storage: Storage::F16, ..plan(8) };
        let of = |ms: u64| {
            let plan = FieldPlan { dt: crate::base::time::Span::from_millis(ms), ..plan.clone() };
            [0, 4, 6].map(|group| plan.storage_of(group))
        };
        assert_eq!(of(50), [Storage::F16, Storage::F16, Storage::F32]);
        assert_eq!(of(4), [Storage::F32; 3], "at 250 Hz no group moves by a tenth per step");
        assert_eq!(of(100), [Storage::F16; 3]);
    }

    #[test]
    fn reach_is_at_most_a_few_steps_below_the_wanted() {
        for i in 1..=1000 {
            let share = f64::from(i) / 1000.0;
            let (keep, bound) = ((1.0 - share) as f32, Storage::F32.bound(0.95));
            let wanted = share * f64::from(bound);
            let reach = f64::from(reach(wanted, keep, bound));
            assert!(reach <= wanted + 1e-7 && reach >= wanted - 3e-7, "{share}: {reach} for {wanted}");
        }
    }
}
