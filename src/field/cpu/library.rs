//! The pattern library: an index of contexts, by which patterns are found, and the volumes to blend. The
//! index is small and in f64; the volumes are the largest part of the engine's memory, in 16 bits.
//!
//! A stored value is a whole number of steps of bound / 32767. |v| <= bound needs no exponent, so near the
//! bound this fixed-point format is 16 times as precise as half precision in the same 16 bits; its error is
//! at most 1.5e-5.

use super::cells::touched;
use crate::field::shape::{BLEND_TOP, CONTEXT, GROUP, NORM_FLOOR};

/// Steps from 0 to the bound.
const STEPS: f32 = 32767.0;

/// The patterns to blend into the pattern channels: slots and weights, best first.
#[derive(Clone, Copy, Debug)]
pub struct Blend {
    slots: [usize; BLEND_TOP],
    weights: [f64; BLEND_TOP],
    len: usize,
}

impl Blend {
    /// No patterns.
    pub const NONE: Blend = Blend { slots: [0; BLEND_TOP], weights: [0.0; BLEND_TOP], len: 0 };

    /// Slots, best first.
    pub fn slots(&self) -> &[usize] {
        &self.slots[..self.len]
    }
    /// Weights of these slots; they sum to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights[..self.len]
    }
    /// A saved blend, best first; patterns after the first `BLEND_TOP` are dropped.
    pub fn of(found: &[(u32, f64)]) -> Blend {
        let mut blend = Blend { len: found.len().min(BLEND_TOP), ..Blend::NONE };
        for (i, (slot, weight)) in found.iter().take(BLEND_TOP).enumerate() {
            (blend.slots[i], blend.weights[i]) = (*slot as usize, *weight);
        }
        blend
    }
}

/// The index: the context by which each slot is found.
pub struct Index {
    /// Unit contexts relative to rest; zero in an empty slot.
    contexts: Vec<[f64; CONTEXT]>,
    values: Vec<Option<f32>>,
}

impl Index {
    /// An index of `slots` empty slots.
    pub fn new(slots: usize) -> Index {
        Index { contexts: vec![[0.0; CONTEXT]; slots], values: vec![None; slots] }
    }
    /// Whether the slot exists.
    pub fn has(&self, slot: usize) -> bool {
        slot < self.values.len()
    }
    /// Enters a context relative to rest. The slot must exist.
    pub fn enter(&mut self, slot: usize, context: &[f64; CONTEXT], value: f32) {
        self.contexts[slot] = *context;
        unit(&mut self.contexts[slot]);
        self.values[slot] = Some(value);
    }
    /// Enters a context that already has unit length. The slot must exist.
    pub fn enter_unit(&mut self, slot: usize, context: &[f64], value: f32) {
        self.contexts[slot].copy_from_slice(context);
        self.values[slot] = Some(value);
    }
    /// The unit context of a slot, and its value; `None` for an empty slot.
    pub fn entry(&self, slot: usize) -> Option<(&[f64; CONTEXT], f32)> {
        Some((self.contexts.get(slot)?, self.value(slot)?))
    }
    /// Empties a slot.
    pub fn clear(&mut self, slot: usize) {
        if let Some(value) = self.values.get_mut(slot) {
            *value = None;
        }
    }
    /// The value that a slot was stored with.
    pub fn value(&self, slot: usize) -> Option<f32> {
        self.values.get(slot).copied().flatten()
    }
    /// The `top` slots nearest to a context relative to rest, the lower slot first on ties; weights are a
    /// softmax of the cosines.
    pub fn recall(&self, context: &[f64; CONTEXT], top: usize, temperature: f64) -> Blend {
        let mut query = *context;
        unit(&mut query);
        let (mut blend, top) = (Blend::NONE, top.min(BLEND_TOP));
        let stored = self.contexts.iter().enumerate().filter(|(slot, _)| self.values[*slot].is_some());
        for (slot, stored) in stored {
            let cosine: f64 = stored.iter().zip(&query).map(|(a, b)| a * b).sum();
            let place = blend.weights().iter().position(|kept| *kept < cosine).unwrap_or(blend.len);
            if place < top {
                blend.len = (blend.len + 1).min(top);
                blend.slots[place..blend.len].rotate_right(1);
                blend.weights[place..blend.len].rotate_right(1);
                (blend.slots[place], blend.weights[place]) = (slot, cosine);
            }
        }
        soften(&mut blend.weights[..blend.len], temperature);
        blend
    }
    /// Memory of the index, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.contexts) + size_of_val(&*self.values)
    }
}

/// Turns cosines, best first, into weights that sum to 1.
fn soften(weights: &mut [f64], temperature: f64) {
    let best = weights.first().copied().unwrap_or(0.0);
    weights.iter_mut().for_each(|w| *w = libm::exp((*w - best) / temperature));
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w /= sum);
}

/// Scales to unit length. A vector shorter than `NORM_FLOOR` stays shorter than 1: it has no direction.
pub fn unit(vector: &mut [f64]) {
    let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt().max(NORM_FLOOR);
    vector.iter_mut().for_each(|v| *v /= length);
}

/// Eight channels of every pattern. A slot is allocated when a pattern is first stored there, between cycles,
/// and keeps its memory.
pub struct Volumes {
    grid: usize,
    step: f32,
    slots: Vec<Volume>,
}

/// Eight channels of a pattern, on the full grid and on the half grid; empty in a slot that was never used.
#[derive(Clone, Default)]
struct Volume {
    whole: Vec<i16>,
    half: Vec<i16>,
}

impl Volumes {
    /// `slots` empty slots for patterns on `grid` cells per axis, values within +-`bound`.
    pub fn new(slots: usize, grid: usize, bound: f32) -> Volumes {
        Volumes { grid, step: bound / STEPS, slots: vec![Volume::default(); slots] }
    }
    /// The memory of a slot; allocates it if needed.
    fn reach(&mut self, slot: usize) -> &mut Volume {
        let volume = &mut self.slots[slot];
        if volume.whole.is_empty() {
            volume.whole = touched(GROUP * self.grid.pow(3), 0, 1);
            volume.half = touched(GROUP * (self.grid / 2).pow(3), 0, 1);
        }
        volume
    }
    /// Stores eight channels, each value within the bound.
    pub fn store(&mut self, slot: usize, volume: &[f32]) {
        let step = self.step;
        let whole = &mut self.reach(slot).whole;
        whole.iter_mut().zip(volume).for_each(|(to, from)| *to = (from / step).round() as i16);
        self.halve(slot);
    }
    /// Stores eight channels that are already in steps.
    pub fn store_steps(&mut self, slot: usize, volume: &[i16]) {
        self.reach(slot).whole.copy_from_slice(volume);
        self.halve(slot);
    }
    /// Computes the half grid. Each of its cells is the rounded mean of eight stored cells, not of their
    /// values before rounding, so it is the same after the stored cells have been saved and restored.
    fn halve(&mut self, slot: usize) {
        let (n, m) = (self.grid, self.grid / 2);
        let Volume { whole, half } = &mut self.slots[slot];
        // Channels are contiguous, so their planes are too.
        for (place, plane) in half.chunks_exact_mut(m * m).enumerate() {
            for (y, row) in plane.chunks_exact_mut(m).enumerate() {
                for (x, cell) in row.iter_mut().enumerate() {
                    let first = (2 * place * n + 2 * y) * n + 2 * x;
                    let corners = [0, 1, n, n + 1].map(|at| first + at);
                    let sum: i32 =
                        corners.iter().map(|at| i32::from(whole[*at]) + i32::from(whole[at + n * n])).sum();
                    *cell = (sum as f32 / 8.0).round() as i16;
                }
            }
        }
    }
    /// Eight channels of a slot, in steps; empty if nothing was ever stored there.
    pub fn steps(&self, slot: usize) -> &[i16] {
        &self.slots[slot].whole
    }
    /// One channel of a used slot, in steps.
    pub fn channel(&self, slot: usize, channel: usize, half: bool) -> &[i16] {
        let volume = &self.slots[slot];
        let (eight, grid) = if half { (&volume.half, self.grid / 2) } else { (&volume.whole, self.grid) };
        &eight[channel * grid.pow(3)..][..grid.pow(3)]
    }
    /// The value of one step.
    pub fn step(&self) -> f32 {
        self.step
    }
    /// Allocated memory of the volumes, bytes.
    pub fn bytes(&self) -> usize {
        let taken = |volume: &Volume| size_of_val(&*volume.whole) + size_of_val(&*volume.half);
        self.slots.iter().map(|volume| size_of_val(volume) + taken(volume)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::half::Halve;
    use super::*;
    use crate::system::cpu::simd::Level;

    #[test]
    fn nearest_come_first_and_weights_sum_to_one() {
        let mut index = Index::new(6);
        let context = |angle: f64| {
            let mut context = [0.0; CONTEXT];
            (context[0], context[1]) = (libm::cos(angle), libm::sin(angle));
            context
        };
        // Slots 1 and 4 hold the same context: the lower one comes first.
        for (slot, angle) in [(0, 2.0), (1, 0.5), (3, 1.0), (4, 0.5)] {
            index.enter(slot, &context(angle), slot as f32);
        }
        let blend = index.recall(&context(0.4), 3, 0.1);
        assert_eq!(blend.slots(), [1, 4, 3]);
        assert!((blend.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let expected = libm::exp((libm::cos(0.6) - libm::cos(0.1)) / 0.1);
        assert!((blend.weights()[2] / blend.weights()[0] - expected).abs() < 1e-9);
        index.clear(1);
        assert_eq!(index.recall(&context(0.4), 1, 0.1).slots(), [4]);
        assert_eq!(index.value(3), Some(3.0));
        assert_eq!(Index::new(3).recall(&context(0.0), 3, 0.1).slots(), [0; 0]);
    }

    #[test]
    fn volume_is_restored_within_half_a_step() {
        let mut volumes = Volumes::new(2, 8, 0.95);
        let volume: Vec<f32> =
            (0..GROUP * 512).map(|i| 0.95 * (((i * 7919) % 2001) as f32 / 1000.0 - 1.0)).collect();
        volumes.store(1, &volume);
        for channel in 0..GROUP {
            let stored = volumes.channel(1, channel, false);
            for (stored, learned) in stored.iter().zip(&volume[channel * 512..]) {
                assert!((f32::from(*stored) * volumes.step() - learned).abs() <= 1.5e-5);
            }
            let mut mean = vec![0.0; 64];
            let whole = &volume[channel * 512..][..512];
            Level::best().within(8).run(Halve { whole, n: 8, half: &mut mean });
            // Half a step for the mean of the stored cells, and half a step for its own rounding.
            for (stored, learned) in volumes.channel(1, channel, true).iter().zip(&mean) {
                assert!((f32::from(*stored) * volumes.step() - learned).abs() <= 3e-5);
            }
        }
        assert!(volumes.steps(0).is_empty(), "an unused slot takes no memory");
        let taken = volumes.bytes();
        volumes.store(1, &volume);
        assert_eq!(volumes.bytes(), taken, "a slot is allocated once");
        let mut again = Volumes::new(2, 8, 0.95);
        again.store_steps(1, volumes.steps(1));
        assert!((0..GROUP).all(|c| again.channel(1, c, true) == volumes.channel(1, c, true)));
    }
}
