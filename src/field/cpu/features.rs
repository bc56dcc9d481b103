//! The features of a cycle, assembled from the results of the parts' sweeps.

use super::job::Reduced;
use super::parallel::Parallel;
use crate::field::shape::{BLOCK_COUNT, CONTENT_GROUPS, CONTEXT, DESCRIPTOR, FEATURES, GRADIENT, GROUP};
use crate::field::state::{self, refill};

/// The features, and the vectors relative to rest that are compared with the memories.
pub struct Features {
    /// Context, descriptor and gradients, in the order of `docs/field.md`.
    pub all: Vec<f32>,
    means: [f64; CONTEXT],
    blocks: Vec<f64>,
    /// The context at rest.
    pub rest_context: [f64; CONTEXT],
    rest_descriptor: Vec<f64>,
    /// The context relative to rest.
    pub context: [f64; CONTEXT],
    /// The descriptor relative to rest.
    pub descriptor: Vec<f64>,
}

impl Features {
    /// Features that are all zero, with the resting values of the parts.
    pub fn new(parallel: &Parallel) -> Features {
        let resting = |c: usize| parallel.parts()[c / GROUP].fixed().rest_mean[c % GROUP];
        let group_mean = |g: usize| (0..GROUP).map(|c| resting(g * GROUP + c)).sum::<f64>() / GROUP as f64;
        Features {
            all: vec![0.0; FEATURES],
            means: [0.0; CONTEXT],
            blocks: vec![0.0; DESCRIPTOR],
            rest_context: std::array::from_fn(resting),
            rest_descriptor: (0..DESCRIPTOR).map(|i| group_mean(i / BLOCK_COUNT)).collect(),
            context: [0.0; CONTEXT],
            descriptor: vec![0.0; DESCRIPTOR],
        }
    }

    /// Takes over the results of a part's sweep.
    pub fn take(&mut self, number: usize, reduced: &Reduced) {
        self.means[number * GROUP..][..GROUP].copy_from_slice(&reduced.context);
        self.blocks[number * BLOCK_COUNT..][..BLOCK_COUNT].copy_from_slice(&reduced.descriptor);
        let narrow =
            |to: &mut [f32], from: &[f64]| to.iter_mut().zip(from).for_each(|(to, x)| *to = *x as f32);
        narrow(&mut self.all[number * GROUP..][..GROUP], &reduced.context);
        narrow(&mut self.all[CONTEXT + number * BLOCK_COUNT..][..BLOCK_COUNT], &reduced.descriptor);
        if number < CONTENT_GROUPS {
            let one = GRADIENT / CONTENT_GROUPS;
            let flat = reduced.gradient.as_flattened().as_flattened();
            self.all[CONTEXT + DESCRIPTOR + number * one..][..one].copy_from_slice(flat);
        }
    }

    /// Saves the means, in f64.
    pub fn save(&self, reduced: &mut state::Reduced) {
        refill(&mut reduced.context, &self.means);
        refill(&mut reduced.descriptor, &self.blocks);
    }

    /// Restores the means; the next cycle computes the gradients.
    pub fn restore(&mut self, reduced: &state::Reduced) {
        self.means.copy_from_slice(&reduced.context);
        self.blocks.copy_from_slice(&reduced.descriptor);
        let means = reduced.context.iter().chain(&reduced.descriptor);
        self.all.iter_mut().zip(means).for_each(|(to, mean)| *to = *mean as f32);
    }

    /// Computes the vectors that are compared with the memories: the new context and descriptor minus those
    /// at rest.
    pub fn take_about_rest(&mut self) {
        let about = |to: &mut [f64], from: &[f64], rest: &[f64]| {
            to.iter_mut().zip(from).zip(rest).for_each(|((to, from), rest)| *to = from - rest);
        };
        about(&mut self.context, &self.means, &self.rest_context);
        about(&mut self.descriptor, &self.blocks, &self.rest_descriptor);
    }
}
