//! The f32 CPU engine: the maths of `docs/field.md`, cycle by cycle the same as the reference
//! within rounding, some fifty times as fast.
//!
//! What is as large as the field (cells, patterns, bank) is f32 or less and lies in eight parts
//! that any thread can work on; what is small (errors, learning, matches) is f64 and stays here.
//! This file is the order of a cycle; each hot loop has a file of its own: `evolve` and `gradient`
//! (the sweep), `bank`, `library`, `tanh`. All memory is taken in [`CpuEngine::new`]; no result
//! depends on the number of threads. No unsafe code and no machine-specific instructions.

mod bank;
mod crew;
mod dot;
mod evolve;
mod gradient;
mod half;
mod library;
mod part;
mod predict;
mod statistics;
mod tanh;

use super::shape::{
    BLOCK_COUNT, BRIDGE_S, CONTENT_GROUPS, CONTEXT, DESCRIPTOR, FEATURES, FieldPlan, GRADIENT, GROUP, GROUPS,
    METRICS_EVERY, NORM_FLOOR, PATTERN, READOUT_COLUMNS, REWARD_FLOOR, SLOW_FIRST, TURN, is_due, sub_steps,
};
use super::wiring::Wiring;
use super::{Metrics, Refused, Response, Stimulus, Work};
use crate::command::MAX_MOTORS;
use crate::seed::{Stream, normal};
use bank::{Ledger, Nearest};
use crew::Crew;
use library::{Blend, Index, unit};
use part::{Part, Task};
use predict::Predictor;
use statistics::Statistics;

/// The field, its memories and its read-out.
pub struct CpuEngine {
    plan: FieldPlan,
    dt: f64,
    crew: Crew<Part>,
    /// One for each group of channels, in order; on the way only inside a call.
    parts: Vec<Box<Part>>,
    rest_context: Vec<f64>,
    rest_descriptor: Vec<f64>,
    on_half: bool,
    features: Vec<f32>,
    /// About rest.
    context: [f64; CONTEXT],
    /// About rest.
    descriptor: Vec<f64>,
    predictor: Predictor,
    index: Index,
    blend: Blend,
    ledger: Ledger,
    readout: Vec<f32>,
    scores: [f64; MAX_MOTORS],
    bridge: [f64; MAX_MOTORS],
    /// Cycles since each part was stepped.
    since_step: [u64; GROUPS],
    since_blend: u64,
    cycle: u64,
    metrics: Option<Metrics>,
}

impl CpuEngine {
    /// An engine at the start, on `plan.threads` threads; takes all its memory here.
    ///
    /// # Panics
    /// If the plan's grid is none of 8, 16, 32, 64: the board check refuses others.
    pub fn new(plan: &FieldPlan) -> CpuEngine {
        let shape = plan.shape;
        assert!([8, 16, 32, 64].contains(&shape.grid), "the board check admits grids of 8, 16, 32, 64");
        let dt = plan.dt.as_secs_f64();
        let wiring = Wiring::new(plan, shape.grid);
        let group_mean = |i: usize| wiring.rest[i * GROUP..][..GROUP].iter().sum::<f64>() / GROUP as f64;
        CpuEngine {
            dt,
            crew: Crew::new(plan.threads, GROUPS),
            parts: (0..GROUPS).map(|number| Box::new(Part::new(number, plan, &wiring))).collect(),
            rest_context: wiring.rest.clone(),
            rest_descriptor: (0..DESCRIPTOR).map(|i| group_mean(i / BLOCK_COUNT)).collect(),
            on_half: false,
            features: vec![0.0; FEATURES],
            context: [0.0; CONTEXT],
            descriptor: vec![0.0; DESCRIPTOR],
            predictor: Predictor::new(shape.sensors, dt, &plan.params),
            index: Index::new(shape.patterns),
            blend: Blend::NONE,
            ledger: Ledger::new(shape.bank),
            readout: vec![0.0; shape.motors * READOUT_COLUMNS],
            scores: [0.0; MAX_MOTORS],
            bridge: [0.0; MAX_MOTORS],
            since_step: [0; GROUPS],
            since_blend: 0,
            cycle: 0,
            metrics: None,
            plan: plan.clone(),
        }
    }

    /// Back to the start: field at rest, nothing predicted, learned or experienced. The read-out
    /// and the library stay, as they came from outside.
    pub fn rest(&mut self) {
        self.parts.iter_mut().for_each(|part| part.rest());
        self.on_half = false;
        self.features.fill(0.0);
        self.predictor.forget_all();
        self.blend = Blend::NONE;
        self.ledger.clear();
        self.bridge.fill(0.0);
        self.scores.fill(0.0);
        (self.since_step, self.since_blend) = ([0; GROUPS], 0);
        self.metrics = None;
    }

    /// One cycle. A stimulus that is refused changes nothing.
    pub fn cycle(&mut self, stimulus: &Stimulus) -> Result<Response, Refused> {
        let sensors = self.admit(stimulus)?;
        let (cycle, work) = (stimulus.cycle, stimulus.rung.work());
        let moved = self.on_half != work.half_resolution && !self.predictor.is_new();
        self.on_half = work.half_resolution;
        self.predictor.sense(sensors);
        if self.plan.learn {
            self.predictor.learn(|since| is_due(cycle, work.learn_every, since));
        }
        self.sweep(cycle, work);
        self.read_features();
        self.recall(cycle, work);
        self.compare_with_bank(stimulus, work);
        self.predictor.predict(&self.context);
        self.score(moved);
        self.cycle = cycle;
        if cycle.is_multiple_of(METRICS_EVERY) {
            self.metrics = Some(self.measure_now());
        }
        Ok(self.respond())
    }

    /// Step 0: the sensors, or which of them is no sensor value.
    fn admit<'a>(&self, stimulus: &'a Stimulus) -> Result<&'a [f32], Refused> {
        let admissible = |value: f32| value.abs() <= 1.0; // false for NaN too
        let sensors = &stimulus.sensors[..self.plan.shape.sensors];
        if let Some(sensor) = sensors.iter().position(|s| !admissible(*s)) {
            return Err(Refused { sensor: Some(sensor), value: sensors[sensor] });
        }
        if !admissible(stimulus.reward) {
            return Err(Refused { sensor: None, value: stimulus.reward });
        }
        Ok(sensors)
    }

    /// Steps 2 to 4, in the parts: drive, evolve, reduce.
    fn sweep(&mut self, cycle: u64, work: &Work) {
        let (fast, slow) = (self.plan.params.t_fast, self.plan.params.t_slow);
        for (number, part) in self.parts.iter_mut().enumerate() {
            let since = &mut self.since_step[number];
            *since += 1;
            let every = if number < CONTENT_GROUPS { 1 } else { work.slow_every };
            let held = *since as f64 * self.dt;
            let (count, share) = match number * GROUP {
                _ if !is_due(cycle.wrapping_add(TURN[number]), every, *since) => (0, 0.0),
                ..SLOW_FIRST => sub_steps(held, fast),
                _ => sub_steps(held, slow),
            };
            *since = if count > 0 { 0 } else { *since };
            part.task = Task::Sweep { half: work.half_resolution, count, share };
            part.blend = self.blend;
            let felt = self.predictor.felt(self.plan.params.eta);
            part.felt.iter_mut().zip(felt).for_each(|(to, felt)| *to = felt);
        }
        self.crew.run(&mut self.parts);
    }

    /// Gathers the features from the parts, and the vectors about rest.
    fn read_features(&mut self) {
        let (context, rest) = self.features.split_at_mut(CONTEXT);
        let (descriptor, gradients) = rest.split_at_mut(DESCRIPTOR);
        for (number, part) in self.parts.iter().enumerate() {
            let reduced = &part.reduced;
            for (c, mean) in reduced.context.iter().enumerate() {
                let channel = number * GROUP + c;
                context[channel] = *mean as f32;
                self.context[channel] = mean - self.rest_context[channel];
            }
            for (block, mean) in reduced.descriptor.iter().enumerate() {
                let index = number * BLOCK_COUNT + block;
                descriptor[index] = *mean as f32;
                self.descriptor[index] = mean - self.rest_descriptor[index];
            }
            if number < CONTENT_GROUPS {
                let one = GRADIENT / CONTENT_GROUPS;
                let flat = reduced.gradient.as_flattened().as_flattened();
                gradients[number * one..][..one].copy_from_slice(flat);
            }
        }
    }

    /// Step 5, library: decides the Q of the next cycle.
    fn recall(&mut self, cycle: u64, work: &Work) {
        self.since_blend += 1;
        if is_due(cycle, work.blend_every, self.since_blend) {
            let temperature = self.plan.params.blend_temperature;
            self.blend = self.index.recall(&self.context, work.blend_top, temperature);
            self.since_blend = 0;
        }
    }

    /// Step 5, bank: one part of a sweep, and what a whole one says.
    fn compare_with_bank(&mut self, stimulus: &Stimulus, work: &Work) {
        let number = stimulus.cycle % work.bank_parts;
        let Some((from, to)) = self.ledger.open(number, work.bank_parts) else { return };
        let length = self.descriptor.iter().map(|d| d * d).sum::<f64>().sqrt();
        unit(&mut self.descriptor);
        for part in &mut self.parts {
            let query = part.shard.query.iter_mut().zip(&self.descriptor);
            query.for_each(|(to, from)| *to = *from as f32);
            if number == 0 {
                part.shard.nearest = Nearest::NONE;
            }
            part.task = Task::Scan { from, to };
        }
        if from < to {
            self.crew.run(&mut self.parts);
        }
        if number + 1 == work.bank_parts {
            self.ledger.close(self.parts.iter().map(|part| &part.shard.nearest));
            if self.plan.learn {
                self.remember(stimulus, length >= NORM_FLOOR);
            }
        }
    }

    /// Recognises or stores the moment that the bank was just compared with.
    fn remember(&mut self, stimulus: &Stimulus, has_direction: bool) {
        let reward = stimulus.reward.abs();
        let reward = if reward > REWARD_FLOOR { f64::from(reward) } else { 0.0 };
        let error = self.predictor.mean_error();
        let matters = reward > 0.0 || error > self.plan.params.error_threshold;
        match self.ledger.nearest().first() {
            Some(&(row, cosine)) if 1.0 - cosine <= self.plan.params.novelty_threshold => {
                self.ledger.touch(row, stimulus.cycle);
            }
            _ if matters && has_direction => {
                if let Some(row) = self.ledger.enter(reward.max(error), stimulus.cycle, self.dt) {
                    self.parts[row % bank::SHARDS].shard.store(row);
                }
            }
            _ => {}
        }
    }

    /// Step 7, up to the tanh.
    fn score(&mut self, moved: bool) {
        let fade = libm::exp(-self.dt / BRIDGE_S);
        for (row, weights) in self.readout.chunks_exact(READOUT_COLUMNS).enumerate() {
            let (weights, constant) = weights.split_at(FEATURES);
            let said = dot::dot_wide(weights, &self.features) + f64::from(constant[0]);
            self.bridge[row] = if moved { self.scores[row] - said } else { self.bridge[row] * fade };
            self.scores[row] = said + self.bridge[row];
        }
    }

    fn respond(&self) -> Response {
        let mut response = Response {
            cycle: self.cycle,
            scores: [0.0; MAX_MOTORS],
            motors: [0.0; MAX_MOTORS],
            confidence: self.predictor.confidence() as f32,
            skill: self.predictor.skill() as f32,
            novelty: self.ledger.novelty() as f32,
        };
        let (seed, explore) = (self.plan.seed, self.plan.params.explore);
        for row in 0..self.plan.shape.motors {
            let index = self.cycle.wrapping_mul(MAX_MOTORS as u64).wrapping_add(row as u64);
            let noise = explore * normal(seed, Stream::Explore, index);
            response.scores[row] = self.scores[row] as f32;
            response.motors[row] = libm::tanh(self.scores[row] + noise) as f32;
        }
        response
    }
}

/// What can be asked of an engine and put into it, between cycles.
impl CpuEngine {
    /// Statistics of the field as it stands; reads every cell.
    pub fn measure_now(&self) -> Metrics {
        let mut sums = Statistics::default();
        self.parts.iter().for_each(|part| sums.add(part.cells()));
        let [mean, std, max, energy] = sums.mean_std_max_energy();
        Metrics {
            cycle: self.cycle,
            mean,
            std,
            max,
            energy,
            novelty: self.ledger.novelty() as f32,
            skill: self.predictor.skill() as f32,
            confidence: self.predictor.confidence() as f32,
        }
    }

    /// The newest of the statistics that are taken every [`METRICS_EVERY`] cycles.
    pub fn metrics(&self) -> Option<Metrics> {
        self.metrics
    }

    /// Features of the last cycle: context, descriptor, gradients; all 0 before the first.
    pub fn features(&self) -> &[f32] {
        &self.features
    }

    /// What the next sensors are expected to be.
    pub fn prediction(&self) -> &[f64] {
        self.predictor.prediction()
    }

    /// Puts in the motor read-out: motors x [`READOUT_COLUMNS`], the last column for a constant 1.
    /// Refuses (false) a wrong size and weights that are not finite.
    pub fn set_readout(&mut self, weights: &[f32]) -> bool {
        let fits = weights.len() == self.readout.len() && weights.iter().all(|w| w.is_finite());
        if fits {
            self.readout.copy_from_slice(weights);
        }
        fits
    }

    /// Cells of channel `c`, x fastest, on the grid in use.
    pub fn channel(&self, c: usize) -> &[f32] {
        self.parts[c / GROUP].channel(c % GROUP)
    }

    /// The same, to start from another field than the resting one; values stay within 1 - beta.
    pub fn channel_mut(&mut self, c: usize) -> &mut [f32] {
        self.parts[c / GROUP].channel_mut(c % GROUP)
    }

    /// Stores a volume (16 x N^3, within 1 - beta, kept to 1.5e-5) that is recalled by a context
    /// (as in the features). Refuses (false) what does not fit.
    pub fn store_pattern(
        &mut self,
        slot: usize,
        volume: &[f32],
        context: &[f32; CONTEXT],
        value: f32,
    ) -> bool {
        let (len, bound) = (PATTERN * self.plan.shape.cells(), 1.0 - self.plan.params.beta);
        let fits = self.index.has(slot)
            && volume.len() == len
            && volume.iter().all(|v| f64::from(v.abs()) <= bound)
            && context.iter().all(|c| c.is_finite())
            && value.is_finite();
        if fits {
            let about_rest = std::array::from_fn(|i| f64::from(context[i]) - self.rest_context[i]);
            self.index.enter(slot, &about_rest, value);
            let places = self.parts.iter_mut().filter_map(|part| part.volumes.as_mut());
            places
                .zip(volume.chunks_exact(len * GROUP / PATTERN))
                .for_each(|(v, eight)| v.store(slot, eight));
        }
        fits
    }

    /// Empties a slot of the library.
    pub fn clear_pattern(&mut self, slot: usize) {
        self.index.clear(slot);
    }

    /// The value that a pattern was stored with; `None` for an empty slot.
    pub fn pattern_value(&self, slot: usize) -> Option<f32> {
        self.index.value(slot)
    }

    /// Slots and weights of the last match, best first.
    pub fn blend(&self) -> (&[usize], &[f64]) {
        (self.blend.slots(), self.blend.weights())
    }

    /// Experiences in the bank.
    pub fn experiences(&self) -> usize {
        self.ledger.len()
    }

    /// Rows and cosines of the last whole sweep of the bank, best first.
    pub fn nearest(&self) -> &[(usize, f64)] {
        self.ledger.nearest()
    }

    /// G: below 1 the field only fades.
    pub fn gain(&self) -> f64 {
        self.plan.params.field_gain()
    }

    /// What this engine was built from.
    pub fn plan(&self) -> &FieldPlan {
        &self.plan
    }

    /// Threads that share the work, the caller's included.
    pub fn threads(&self) -> usize {
        self.crew.threads()
    }

    /// Memory taken at the start, bytes: field, library, bank, read-out and learning.
    pub fn memory_bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.bytes()).sum();
        let vectors = size_of_val(&*self.features) + size_of_val(&*self.readout);
        parts + self.index.bytes() + self.ledger.bytes() + self.predictor.bytes() + vectors
    }
}
