//! The CPU engine: the maths of `docs/field.md` in f32. It matches the reference engine within rounding and
//! is about sixty times as fast.
//!
//! This file defines the order of a cycle's steps. Data as large as the field is split into eight `part`s of
//! eight channels; `parallel` runs a `job` for each part, on the threads of `crate::system::cpu`'s pool. The
//! hot loops have a file each (`evolve`, `gradient`, `half`, `bank`) and are compiled for several instruction
//! sets. The small steps (errors, learning, matches) are computed in f64, on the calling thread. `state`
//! implements what a robot needs from an engine, `verbs` what learning, tests and benchmarks read and write
//! between cycles. [`CpuEngine::new`] allocates and touches all memory, with two exceptions: a slot of the
//! library is allocated when a pattern is first stored there, and each shard of the bank allocates another
//! 82 kB after every 32 experiences. No result depends on the number of threads.

mod bank;
mod cell;
mod cells;
mod parallel;
mod dot;
mod evolve;
mod features;
mod fixed;
mod gradient;
mod half;
mod job;
mod bank_index;
mod library;
mod nearest;
mod part;
mod predict;
mod state;
mod statistics;
mod verbs;

#[cfg(test)]
mod fixture;

use super::engine::Inspect;
use super::projections::Projections;
use super::shape::{
    BRIDGE_S, CONTENT_GROUPS, FEATURES, GROUP, GROUPS, METRICS_EVERY, NORM_FLOOR, READOUT_COLUMNS,
    REWARD_FLOOR, SLOW_FIRST, TURN, is_due, sub_steps,
};
use super::stage::StageWatch;
use super::{FieldInput, FieldOutput, Metrics, RefusedInput, Stage, Work};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::FieldPlan;
use crate::base::seed::{Stream, normal};
use crate::system::cpu::Level;
use bank_index::BankIndex;
use features::Features;
use job::Task;
use library::{Blend, Index, unit};
use parallel::{Parallel, Tasks};
use predict::Predictor;

/// The field, its memories and its read-out.
pub struct CpuEngine {
    plan: FieldPlan,
    dt: f64,
    level: Level,
    parallel: Parallel,
    on_half: bool,
    features: Features,
    predictor: Predictor,
    index: Index,
    blend: Blend,
    bank_index: BankIndex,
    readout: Vec<f32>,
    scores: [f64; MAX_MOTORS],
    bridge: [f64; MAX_MOTORS],
    /// Cycles since each part was last stepped.
    since_step: [u64; GROUPS],
    since_blend: u64,
    cycle: u64,
    metrics: Option<Metrics>,
    watch: StageWatch,
}

impl CpuEngine {
    /// An engine in its initial state, on `plan.threads` threads.
    ///
    /// # Panics
    /// If the plan's grid is not 8, 16, 32 or 64; the board check refuses others.
    pub fn new(plan: &FieldPlan) -> CpuEngine {
        CpuEngine::at_level(plan, Level::best())
    }

    /// An engine in its initial state, with the vector instructions of `level`.
    ///
    /// # Panics
    /// As [`CpuEngine::new`].
    pub fn at_level(plan: &FieldPlan, level: Level) -> CpuEngine {
        let shape = plan.shape;
        assert!([8, 16, 32, 64].contains(&shape.grid), "the board check admits grids of 8, 16, 32, 64");
        let dt = plan.dt.as_secs_f64();
        let projections = Projections::new(plan, shape.grid);
        let parallel = Parallel::new(plan, &projections, level);
        CpuEngine {
            dt,
            level,
            features: Features::new(&parallel),
            parallel,
            on_half: false,
            predictor: Predictor::new(shape.sensors, dt, &plan.params),
            index: Index::new(shape.patterns),
            blend: Blend::NONE,
            bank_index: BankIndex::new(shape.bank),
            readout: vec![0.0; shape.weights()],
            scores: [0.0; MAX_MOTORS],
            bridge: [0.0; MAX_MOTORS],
            since_step: [0; GROUPS],
            since_blend: 0,
            cycle: 0,
            metrics: None,
            watch: StageWatch::NEW,
            plan: plan.clone(),
        }
    }

    /// The steps of a cycle, in order.
    fn compute(&mut self, input: &FieldInput) -> Result<FieldOutput, RefusedInput> {
        let sensors = input.check(self.plan.shape.sensors)?;
        self.watch.begin();
        let (cycle, work) = (input.cycle, input.quality.work());
        let moved = self.on_half != work.half_resolution && !self.predictor.is_new();
        self.predictor.sense(sensors);
        self.move_to(work.half_resolution);
        self.sweep(cycle, work);
        self.watch.end(Stage::Evolve);
        self.features.take_about_rest();
        self.watch.end(Stage::Features);
        self.recall(cycle, work);
        self.watch.end(Stage::Library);
        self.compare_with_bank(input, work);
        self.watch.end(Stage::Bank);
        self.predictor.predict(&self.features.context);
        self.score(moved);
        self.cycle = cycle;
        if cycle.is_multiple_of(METRICS_EVERY) {
            self.metrics = Some(self.measure_now());
        }
        let response = self.respond();
        self.watch.end(Stage::Motor);
        Ok(response)
    }

    /// Switches to the full or the half grid.
    fn move_to(&mut self, half: bool) {
        if half != self.on_half {
            self.on_half = half;
            let task = if half { Task::Halve } else { Task::Unhalve };
            self.parallel.run(&[Some(task); GROUPS], || (), |_| ());
        }
    }

    /// Steps 2 to 4, on the parts: drive, evolve, reduce. Learning from the last cycle (step 6) runs on the
    /// calling thread at the same time.
    fn sweep(&mut self, cycle: u64, work: &Work) {
        let tasks = self.due(cycle, work);
        self.parallel.set_inputs(self.predictor.felt(self.plan.params.eta), self.blend);
        let CpuEngine { parallel, predictor, features, watch, plan, .. } = self;
        let learn = || {
            if plan.learn {
                predictor.learn(|since| is_due(cycle, work.learn_every, since));
            }
            watch.end(Stage::Learn);
        };
        parallel.run(&tasks, learn, |job| features.take(job.number, &job.reduced));
    }

    /// Which parts are stepped in this cycle, and by how much.
    fn due(&mut self, cycle: u64, work: &Work) -> Tasks {
        let (fast, slow) = (self.plan.params.t_fast, self.plan.params.t_slow);
        let half = work.half_resolution;
        std::array::from_fn(|number| {
            let since = &mut self.since_step[number];
            *since += 1;
            let every = if number < CONTENT_GROUPS { 1 } else { work.slow_every };
            if !is_due(cycle.wrapping_add(TURN[number]), every, *since) {
                let stale = !self.parallel.parts()[number].fresh;
                return stale.then_some(Task::Sweep { half, count: 0, share: 0.0 });
            }
            let t = if number * GROUP < SLOW_FIRST { fast } else { slow };
            let (count, share) = sub_steps(*since as f64 * self.dt, t);
            *since = 0;
            Some(Task::Sweep { half, count, share })
        })
    }

    /// Step 5, library: determines Q, the blend of patterns, for the next cycle.
    fn recall(&mut self, cycle: u64, work: &Work) {
        self.since_blend += 1;
        if is_due(cycle, work.blend_every, self.since_blend) {
            let temperature = self.plan.params.blend_temperature;
            self.blend = self.index.recall(&self.features.context, work.blend_top, temperature);
            self.since_blend = 0;
        }
    }

    /// Step 5, bank: one part of a sweep, and the result if this part completes the sweep.
    fn compare_with_bank(&mut self, input: &FieldInput, work: &Work) {
        let number = input.cycle % work.bank_parts;
        let Some((from, to)) = self.bank_index.open(number, work.bank_parts) else { return };
        let descriptor = &mut self.features.descriptor;
        let length = descriptor.iter().map(|d| d * d).sum::<f64>().sqrt();
        unit(descriptor);
        self.parallel.ask(descriptor, number == 0);
        if from < to {
            self.parallel.run(&[Some(Task::Scan { from, to }); GROUPS], || (), |_| ());
        }
        if number + 1 == work.bank_parts {
            self.bank_index.close(self.parallel.nearest().iter());
            if self.plan.learn {
                self.remember(input, length >= NORM_FLOOR);
            }
        }
    }

    /// Recognises or stores the experience that the bank was just compared with.
    fn remember(&mut self, input: &FieldInput, has_direction: bool) {
        let reward = input.reward.abs();
        let reward = if reward > REWARD_FLOOR { f64::from(reward) } else { 0.0 };
        let error = self.predictor.mean_error();
        let matters = reward > 0.0 || error > self.plan.params.error_threshold;
        match self.bank_index.nearest().first() {
            Some(&(row, cosine)) if 1.0 - cosine <= self.plan.params.novelty_threshold => {
                self.bank_index.touch(row, input.cycle);
            }
            _ if matters && has_direction => {
                if let Some(row) = self.bank_index.enter(reward.max(error), input.cycle, self.dt) {
                    self.parallel.store_row(row);
                }
            }
            _ => {}
        }
    }

    /// Step 7, up to the tanh.
    fn score(&mut self, moved: bool) {
        let fade = libm::exp(-self.dt / BRIDGE_S);
        let readout = &self.readout[self.plan.shape.weights_on(self.on_half)];
        for (row, weights) in readout.chunks_exact(READOUT_COLUMNS).enumerate() {
            let (weights, constant) = weights.split_at(FEATURES);
            let said = dot::dot_wide(weights, &self.features.all) + f64::from(constant[0]);
            self.bridge[row] = if moved { self.scores[row] - said } else { self.bridge[row] * fade };
            self.scores[row] = said + self.bridge[row];
        }
    }

    fn respond(&self) -> FieldOutput {
        let mut response = FieldOutput {
            cycle: self.cycle,
            scores: [0.0; MAX_MOTORS],
            motors: [0.0; MAX_MOTORS],
            confidence: self.predictor.confidence() as f32,
            skill: self.predictor.skill() as f32,
            novelty: self.bank_index.novelty() as f32,
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
