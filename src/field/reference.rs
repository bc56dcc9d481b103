//! The plain f64 engine. It implements `docs/field.md` line by line and is meant to be read alongside that
//! document; the other engines are compared with this one. Slow on purpose: the code is kept as simple as
//! possible.
//!
//! `grid` holds the field (drive, evolve, features), `memory` the library and the bank; errors and learning
//! are in `super::predict`; this file calls them in order and applies the quality levels.

mod grid;
mod memory;
mod state;

use super::engine::Inspect;
use super::predict::{ErrorRing, Learner, Skill, Trust, dot};
use super::projections::Projections;
use super::shape::{
    BRIDGE_S, CHANGE_SCALE, CHANNELS, CONTENT, CONTENT_GROUPS, CONTEXT, CONTEXT_SCALE, DESCRIPTOR, FEATURES,
    GROUP, GROUPS, METRICS_EVERY, NORM_FLOOR, PATTERN, READOUT_COLUMNS, REWARD_FLOOR, SLOW_FIRST, TURN,
    WORTH_MOST, is_due, regressors, sub_steps,
};
use super::stage::StageWatch;
use super::state::{Learned, volume_step};
use super::{FieldInput, FieldOutput, Metrics, RefusedInput, Stage, StageTimes, Work};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{FieldPlan, QualityLevel};
use crate::base::seed::{Stream, normal};
use grid::{Grid, halve};
use memory::{Bank, Library};

/// The field, its memories and its read-out, in f64.
pub struct ReferenceEngine {
    plan: FieldPlan,
    dt: f64,
    rest_context: Vec<f64>,
    rest_descriptor: Vec<f64>,

    whole: Grid,
    half: Grid,
    on_half: bool,
    features: Vec<f64>,

    sensors: Vec<f64>,
    last_sensors: Vec<f64>,
    prediction: Vec<f64>,
    errors: Vec<f64>,
    felt: Vec<f64>,
    change: Vec<f64>,
    ring: ErrorRing,
    skill: Skill,
    learner: Learner,
    learned: Vec<f64>,
    trust: Trust,
    regressors: Vec<f64>,

    library: Library,
    bank: Bank,
    context: Vec<f64>,
    descriptor: Vec<f64>,

    readout: Vec<f32>,
    scores: [f64; MAX_MOTORS],
    bridge: [f64; MAX_MOTORS],

    /// Cycles since the start.
    age: u64,
    /// Cycles since each group other than the content groups was last stepped.
    since_slow: [u64; GROUPS],
    since_blend: u64,
    since_learn: u64,
    cycle: u64,
    metrics: Option<Metrics>,
    watch: StageWatch,
}

impl ReferenceEngine {
    /// An engine in its initial state; allocates all its memory here.
    pub fn new(plan: &FieldPlan) -> ReferenceEngine {
        let shape = plan.shape;
        let dt = plan.dt.as_secs_f64();
        let projections = Projections::new(plan, shape.grid);
        let group_mean = |i: usize| projections.rest[i * GROUP..][..GROUP].iter().sum::<f64>() / GROUP as f64;
        let block_count = DESCRIPTOR / GROUPS;
        let zeros = vec![0.0; shape.sensors];
        ReferenceEngine {
            dt,
            rest_context: projections.rest.clone(),
            rest_descriptor: (0..DESCRIPTOR).map(|i| group_mean(i / block_count)).collect(),
            half: Grid::new(shape.grid / 2, 2, projections.halved(), plan.params),
            whole: Grid::new(shape.grid, 1, projections, plan.params),
            on_half: false,
            features: vec![0.0; FEATURES],
            sensors: zeros.clone(),
            last_sensors: zeros.clone(),
            prediction: zeros.clone(),
            errors: zeros.clone(),
            felt: zeros.clone(),
            change: zeros.clone(),
            learned: zeros,
            trust: Trust::new(shape.sensors, dt),
            ring: ErrorRing::EMPTY,
            skill: Skill::new(shape.sensors, dt),
            learner: Learner::new(shape.sensors, regressors(shape.sensors)),
            regressors: vec![0.0; regressors(shape.sensors)],
            library: Library::new(shape.patterns, shape.cells()),
            bank: Bank::new(shape.bank),
            context: vec![0.0; CONTEXT],
            descriptor: vec![0.0; DESCRIPTOR],
            readout: vec![0.0; shape.weights()],
            scores: [0.0; MAX_MOTORS],
            bridge: [0.0; MAX_MOTORS],
            age: 0,
            since_slow: [0; GROUPS],
            since_blend: 0,
            since_learn: 0,
            cycle: 0,
            metrics: None,
            watch: StageWatch::NEW,
            plan: plan.clone(),
        }
    }

    /// The steps of a cycle, in order.
    fn compute(&mut self, input: &FieldInput) -> Result<FieldOutput, RefusedInput> {
        self.admit(input)?;
        self.watch.begin();
        let work = input.quality.work();
        let moved = self.move_to(work.half_resolution);
        self.measure_error();
        self.watch.end(Stage::Learn);
        self.evolve(input.cycle, work);
        self.watch.end(Stage::Evolve);
        if self.plan.learn {
            self.learn(input.cycle, work);
        }
        self.watch.end(Stage::Learn);
        self.read_features();
        self.watch.end(Stage::Features);
        self.recall(input.cycle, work);
        self.watch.end(Stage::Library);
        self.compare_with_bank(input, work);
        self.watch.end(Stage::Bank);
        self.predict();
        self.score(moved && self.age > 0);
        self.age += 1;
        self.cycle = input.cycle;
        if input.cycle.is_multiple_of(METRICS_EVERY) {
            self.metrics = Some(self.measure_now());
        }
        let response = self.respond();
        self.watch.end(Stage::Motor);
        Ok(response)
    }

    /// Step 0: takes the sensors, or refuses the input and names the invalid value.
    fn admit(&mut self, input: &FieldInput) -> Result<(), RefusedInput> {
        let sensors = input.check(self.sensors.len())?;
        self.last_sensors.copy_from_slice(&self.sensors);
        self.sensors.iter_mut().zip(sensors).for_each(|(to, from)| *to = f64::from(*from));
        Ok(())
    }

    /// Switches to the full or the half grid; true if the grid changed.
    fn move_to(&mut self, half: bool) -> bool {
        if half == self.on_half {
            return false;
        }
        let bound = 1.0 - self.plan.params.beta;
        let n = self.whole.n;
        for c in 0..CHANNELS {
            let (whole, part) = (self.whole.span(c), self.half.span(c));
            if half {
                halve(&self.whole.u[whole], n, &mut self.half.u[part]);
            } else {
                self.half.unhalve_channel(c, &mut self.whole.u[whole], n, bound);
            }
        }
        self.on_half = half;
        self.fill_half_blend();
        true
    }

    fn fill_half_blend(&mut self) {
        if self.on_half {
            let (whole, half) = (self.whole.cells(), self.half.cells());
            let parts = self.half.blend.chunks_exact_mut(half);
            parts.zip(self.whole.blend.chunks_exact(whole)).for_each(|(h, w)| halve(w, self.whole.n, h));
        }
    }

    fn grid(&mut self) -> &mut Grid {
        if self.on_half { &mut self.half } else { &mut self.whole }
    }

    /// Step 1, and the felt sensors of step 2.
    fn measure_error(&mut self) {
        let eta = self.plan.params.eta;
        for i in 0..self.sensors.len() {
            self.errors[i] = self.sensors[i] - self.prediction[i];
            self.felt[i] = self.sensors[i] + eta * self.errors[i];
            self.change[i] = self.sensors[i] - self.last_sensors[i];
        }
        self.ring.push(self.mean_error());
        if self.age > 0 {
            self.skill.observe(&self.sensors, &self.last_sensors, &self.errors);
            self.trust.observe(&self.change, &self.learned);
        }
    }

    fn mean_error(&self) -> f64 {
        self.errors.iter().map(|e| e.abs()).sum::<f64>() / self.errors.len() as f64
    }

    /// Steps 2 and 3.
    fn evolve(&mut self, cycle: u64, work: &Work) {
        let (t_fast, t_slow) = (self.plan.params.t_fast, self.plan.params.t_slow);
        let dt = self.dt;
        let mut since = self.since_slow;
        let felt = std::mem::take(&mut self.felt);
        let grid = self.grid();
        grid.evolve(0..CONTENT, &felt, sub_steps(dt, t_fast));
        for group in CONTENT_GROUPS..GROUPS {
            since[group] += 1;
            if is_due(cycle.wrapping_add(TURN[group]), work.slow_every, since[group]) {
                let (channels, held) = (group * GROUP..(group + 1) * GROUP, since[group] as f64 * dt);
                let t = if channels.start < SLOW_FIRST { t_fast } else { t_slow };
                grid.evolve(channels, &felt, sub_steps(held, t));
                since[group] = 0;
            }
        }
        self.since_slow = since;
        self.felt = felt;
    }

    /// Step 6, first half: learns from the sensors that followed the regressors of the last cycle.
    fn learn(&mut self, cycle: u64, work: &Work) {
        if self.age == 0 {
            return; // there is no earlier cycle
        }
        self.since_learn += 1;
        if is_due(cycle, work.learn_every, self.since_learn) {
            let keep = libm::pow(self.plan.params.forget_per_s, self.dt * self.since_learn as f64);
            self.learner.observe(&self.regressors, &self.change, keep);
            self.since_learn = 0;
        }
    }

    /// Step 4, and the vectors relative to rest.
    fn read_features(&mut self) {
        let mut features = std::mem::take(&mut self.features);
        self.grid().features(&mut features);
        self.features = features;
        let (context, rest) = self.features.split_at(CONTEXT);
        for i in 0..CONTEXT {
            self.context[i] = context[i] - self.rest_context[i];
        }
        for i in 0..DESCRIPTOR {
            self.descriptor[i] = rest[i] - self.rest_descriptor[i];
        }
    }

    /// Step 5, library: determines Q for the next cycle.
    fn recall(&mut self, cycle: u64, work: &Work) {
        self.since_blend += 1;
        if is_due(cycle, work.blend_every, self.since_blend) {
            self.library.recall(&self.context, work.blend_top, self.plan.params.blend_temperature);
            self.library.fill_blend(&mut self.whole.blend);
            self.fill_half_blend();
            self.since_blend = 0;
        }
    }

    /// Step 5, bank.
    fn compare_with_bank(&mut self, input: &FieldInput, work: &Work) {
        let part = input.cycle % work.bank_parts;
        if !self.bank.sweep(&self.descriptor, part, work.bank_parts) || !self.plan.learn {
            return;
        }
        let params = &self.plan.params;
        let reward = if input.reward.abs() > REWARD_FLOOR { f64::from(input.reward.abs()) } else { 0.0 };
        let error = self.mean_error();
        let matters = reward > 0.0 || error > params.error_threshold;
        let has_direction = dot(&self.descriptor, &self.descriptor).sqrt() >= NORM_FLOOR;
        match self.bank.nearest().first() {
            Some(&(row, cosine)) if 1.0 - cosine <= params.novelty_threshold => {
                self.bank.touch(row, input.cycle);
            }
            _ if matters && has_direction => {
                self.bank.insert(&self.descriptor, reward.max(error), input.cycle, self.dt);
            }
            _ => {}
        }
    }

    /// Step 6, second half.
    fn predict(&mut self) {
        for i in 0..CONTEXT {
            self.regressors[i] = CONTEXT_SCALE * self.context[i];
        }
        let sensors = self.sensors.len();
        self.regressors[CONTEXT..][..sensors].copy_from_slice(&self.sensors);
        for i in 0..sensors {
            self.regressors[CONTEXT + sensors + i] = CHANGE_SCALE * self.change[i];
        }
        self.regressors[CONTEXT + 2 * sensors] = 1.0;
        for i in 0..sensors {
            self.learned[i] = self.learner.output(i, &self.regressors);
            self.prediction[i] = (self.sensors[i] + self.trust.of(i) * self.learned[i]).clamp(-1.0, 1.0);
        }
    }

    /// Step 7, up to the tanh.
    fn score(&mut self, moved: bool) {
        let fade = libm::exp(-self.dt / BRIDGE_S);
        let readout = &self.readout[self.plan.shape.weights_on(self.on_half)];
        for (row, weights) in readout.chunks_exact(READOUT_COLUMNS).enumerate() {
            let (weights, constant) = weights.split_at(FEATURES);
            let products = weights.iter().zip(&self.features).map(|(w, f)| f64::from(*w) * f);
            let said = products.sum::<f64>() + f64::from(constant[0]);
            self.bridge[row] = if moved { self.scores[row] - said } else { self.bridge[row] * fade };
            self.scores[row] = said + self.bridge[row];
        }
    }

    fn respond(&self) -> FieldOutput {
        let mut response = FieldOutput {
            cycle: self.cycle,
            scores: [0.0; MAX_MOTORS],
            motors: [0.0; MAX_MOTORS],
            confidence: self.ring.confidence() as f32,
            skill: self.skill.value() as f32,
            novelty: self.bank.novelty() as f32,
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

impl Inspect for ReferenceEngine {
    fn kind(&self) -> &'static str {
        "reference"
    }

    fn learned(&self) -> Learned {
        let step = volume_step(self.plan.params.beta);
        let slots = 0..self.plan.shape.patterns;
        Learned {
            readout: self.readout.clone(),
            patterns: slots.map(|slot| self.library.pattern(slot, step)).collect(),
        }
    }

    fn copy_features(&self, out: &mut [f32]) {
        copy(&self.features, out);
    }

    fn copy_channel(&self, c: usize, out: &mut [f32]) {
        copy(self.channel(c), out);
    }

    fn plan(&self) -> &FieldPlan {
        &self.plan
    }

    fn storage(&self) -> &'static str {
        "f64"
    }

    fn simd(&self) -> &'static str {
        "none"
    }

    fn measure_now(&self) -> Metrics {
        let grid = if self.on_half { &self.half } else { &self.whole };
        let [mean, std, max, energy] = grid.statistics().map(|x| x as f32);
        Metrics {
            cycle: self.cycle,
            mean,
            std,
            max,
            energy,
            novelty: self.bank.novelty() as f32,
            skill: self.skill.value() as f32,
            confidence: self.ring.confidence() as f32,
        }
    }

    fn metrics(&self) -> Option<Metrics> {
        self.metrics
    }

    fn prediction(&self) -> &[f64] {
        &self.prediction
    }

    fn set_readout(&mut self, weights: &[f32]) -> bool {
        self.plan.shape.copy_weights(weights, &mut self.readout)
    }

    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT], value: f32) -> bool {
        let about_rest = std::array::from_fn(|i| f64::from(context[i]) - self.rest_context[i]);
        let stored = self.library.store(slot, volume, about_rest, value, 1.0 - self.plan.params.beta);
        // Q is the blend of the stored patterns: if a blended pattern is replaced, Q changes at once.
        self.library.fill_blend(&mut self.whole.blend);
        self.fill_half_blend();
        stored
    }

    fn clear_pattern(&mut self, slot: usize) {
        self.library.clear(slot);
    }

    fn pattern_value(&self, slot: usize) -> Option<f32> {
        self.library.value(slot)
    }

    fn blend(&self) -> (&[usize], &[f64]) {
        self.library.blend()
    }

    fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) -> bool {
        let fits = descriptor.iter().all(|d| d.is_finite()) && (0.0..=WORTH_MOST).contains(&f64::from(value));
        if fits {
            self.bank.insert(&descriptor.map(f64::from), f64::from(value), self.cycle, self.dt);
        }
        fits
    }

    fn bytes_per_cycle(&self, quality: QualityLevel) -> usize {
        let work = quality.work();
        let cells = if work.half_resolution { self.half.cells() } else { self.whole.cells() };
        let rows = self.bank.len() / work.bank_parts as usize;
        (2 * CHANNELS * cells + work.blend_top * PATTERN * cells + rows * DESCRIPTOR) * size_of::<f64>()
    }

    fn stage_times(&self) -> &StageTimes {
        self.watch.times()
    }

    fn experiences(&self) -> usize {
        self.bank.len()
    }

    fn nearest(&self) -> &[(usize, f64)] {
        self.bank.nearest()
    }

    fn memory_bytes(&self) -> usize {
        let columns = self.regressors.len();
        let learner = (columns + self.sensors.len()) * columns * size_of::<f64>();
        let vectors = size_of_val(&*self.features) + size_of_val(&*self.readout);
        let grids = self.whole.bytes() + self.half.bytes();
        grids + self.library.bytes() + self.bank.bytes() + learner + vectors + size_of::<ErrorRing>()
    }
}

impl ReferenceEngine {
    /// Features of the last cycle: context, descriptor, gradients; all 0 before the first cycle.
    pub fn features(&self) -> &[f64] {
        &self.features
    }

    /// Cells of channel `c`, x fastest, on the grid in use.
    pub fn channel(&self, c: usize) -> &[f64] {
        let grid = if self.on_half { &self.half } else { &self.whole };
        &grid.u[grid.span(c)]
    }

    /// The cells of channel `c`, mutable, to start from a field other than the resting one; absolute values
    /// must stay within 1 - beta.
    pub fn channel_mut(&mut self, c: usize) -> &mut [f64] {
        let grid = self.grid();
        let span = grid.span(c);
        &mut grid.u[span]
    }
}

fn copy(from: &[f64], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as f32);
}
