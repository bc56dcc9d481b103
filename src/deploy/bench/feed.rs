//! Generates the input for a field in a benchmark, so that a cycle does all the work that it may ever have to
//! do: sensor values that wander, a library of random patterns whose contexts resemble those that occur, a
//! full bank, and a read-out. No robot has this much today: nothing fills a library at run time, and the
//! shipped boards leave out library and bank. Everything is drawn from a seed, so that all runs get the same
//! input.

use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{FieldPlan, QualityLevel};
use crate::base::seed::{Stream, bits, normal, uniform};
use crate::field::shape::{CONTEXT, DESCRIPTOR, PATTERN, READOUT_COLUMNS};
use crate::field::{Failure, FieldInput, Inspect};
use std::f64::consts::TAU;

/// Seed of all generated input.
const SEED: u64 = 0x6265_6E63;
/// Cycles before the library is filled: one second at 20 Hz, as far back as the field's slow channels
/// remember. Fewer cycles would leave the field near rest; more would only take longer.
const LIFE: u64 = 20;
/// The contexts of this many of the latest cycles are kept as situations.
const SITUATIONS: u64 = 10;
/// Standard deviation of the stored contexts from one that occurred, on the scale of a channel's mean: a
/// tenth of the amount by which a mean varies, so that the best three matches are close to each other and
/// change.
const SPREAD: f64 = 0.006;
/// Standard deviation of the sensor noise on the scale -1..=1: 20 counts of a 12-bit converter.
const NOISE: f64 = 0.01;
/// Standard deviation of the read-out's weights: 2,113 of them, on features of 0.1 to 0.2, give scores of
/// about 0.5.
const WEIGHT: f64 = 0.05;

/// Generates the stimulus of every cycle.
pub struct Feed {
    sensors: usize,
    dt: f64,
    cycle: u64,
}

impl Feed {
    /// A feed for the field of `plan`.
    pub fn new(plan: &FieldPlan) -> Feed {
        Feed { sensors: plan.shape.sensors.min(MAX_SENSORS), dt: plan.dt.as_secs_f64(), cycle: 0 }
    }

    /// The next stimulus. Cycle numbers rise, so that work that runs only every few cycles is included.
    pub fn next(&mut self, quality: QualityLevel) -> FieldInput {
        let (cycle, time) = (self.cycle, self.cycle as f64 * self.dt);
        self.cycle += 1;
        let mut sensors = [0.0; MAX_SENSORS];
        for (i, sensor) in sensors[..self.sensors].iter_mut().enumerate() {
            let phase = TAU * uniform(SEED, Stream::World, i as u64);
            // Two waves with periods of seconds, different for every sensor, look like the distances that a
            // moving robot measures.
            let slow = libm::sin(TAU * time / (5.0 + 0.37 * i as f64) + phase);
            let quick = libm::sin(TAU * time / (1.3 + 0.11 * i as f64) + 2.0 * phase);
            let noise = normal(SEED, Stream::Stimulus, cycle * MAX_SENSORS as u64 + i as u64);
            *sensor = (0.5 * slow + 0.3 * quick + NOISE * noise).clamp(-1.0, 1.0) as f32;
        }
        FieldInput { cycle, sensors, reward: 0.0, quality, place: None }
    }

    /// Runs the first cycles of `engine`, which was built from `plan`, and fills its library, bank and
    /// read-out. Fails only if an engine on a GPU is lost.
    pub fn load(&mut self, engine: &mut dyn Inspect, plan: &FieldPlan) -> Result<(), Failure> {
        let mut situations = Vec::new();
        for life in 0..LIFE {
            engine.cycle(&self.next(QualityLevel::BEST))?;
            if life + SITUATIONS >= LIFE {
                let mut context = [0.0; CONTEXT];
                engine.copy_features(&mut context);
                situations.push(context);
            }
        }
        let shape = plan.shape;
        // Slightly within the bound, because f32 may not represent the bound exactly.
        let bound = (1.0 - plan.params.beta) * (1.0 - 1e-6);
        let mut volume = vec![0.0; PATTERN * shape.cells()];
        for slot in 0..shape.patterns {
            fill(&mut volume, bound as f32, Stream::Patterns, slot);
            let context = std::array::from_fn(|i| {
                let stray = SPREAD * normal(SEED, Stream::World, (MAX_SENSORS + slot * CONTEXT + i) as u64);
                situations[slot % situations.len()][i] + stray as f32
            });
            assert!(engine.store_pattern(slot, &volume, &context, 1.0), "the pattern is within its bound");
        }
        let mut direction = [0.0; DESCRIPTOR];
        for row in 0..shape.bank {
            fill(&mut direction, 1.0, Stream::InitialField, row);
            assert!(engine.store_experience(&direction, 1.0), "the experience is finite");
        }
        let weights = shape.motors * READOUT_COLUMNS;
        let weights: Vec<f32> =
            (0..weights).map(|i| (WEIGHT * normal(SEED, Stream::Bias, i as u64)) as f32).collect();
        assert!(engine.set_readout(&weights), "the read-out has the field's size");
        Ok(())
    }
}

/// Fills `numbers` with uniform values within +-`bound`. Each draw yields four of them, because a library of
/// 100 patterns on a 32^3 grid has 52 million.
fn fill(numbers: &mut [f32], bound: f32, stream: Stream, which: usize) {
    let draws = numbers.len().div_ceil(4);
    for (at, four) in numbers.chunks_mut(4).enumerate() {
        let draw = bits(SEED, stream, (which * draws + at) as u64);
        for (i, number) in four.iter_mut().enumerate() {
            let sixteen = (draw >> (16 * i)) as u16;
            *number = bound * (f32::from(sixteen) / 32_767.5 - 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_numbers_fill_their_range_and_stay_within_it() {
        let mut numbers = [0.0; 10_001];
        fill(&mut numbers, 0.95, Stream::Patterns, 3);
        let (least, most) = numbers.iter().fold((1.0, -1.0), |(a, b): (f32, f32), n| (a.min(*n), b.max(*n)));
        assert!((-0.95..-0.949).contains(&least) && most <= 0.95 && most > 0.949, "{least} {most}");
        let mean = numbers.iter().sum::<f32>() / numbers.len() as f32;
        assert!(mean.abs() < 0.02, "{mean}");
        let mut others = [0.0; 10_001];
        fill(&mut others, 0.95, Stream::Patterns, 4);
        assert_ne!(numbers, others);
    }
}
