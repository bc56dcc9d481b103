//! The engine that computes the field: one choice, made and reported at the start. Not a trait:
//! there are few engines, all known here.

use super::cpu::CpuEngine;
use super::cuda::{CudaEngine, DeviceTimes};
use super::device;
use super::reference::ReferenceEngine;
use super::shape::{CONTEXT, DESCRIPTOR};
use super::state::{Learned, Live, StateError};
use super::{Failure, Metrics, Response, StageTimes, Stimulus};
use crate::cpu::Level;
use crate::gpu::GpuFault;
use crate::plan::{EngineKind, FieldPlan, Rung};
use crate::rt::Refusal;

/// One of the engines, with the verbs that all of them have. Between two cycles it may move to
/// another thread.
pub enum Engine {
    /// The plain f64 engine.
    Reference(Box<ReferenceEngine>),
    /// The f32 engine.
    Cpu(Box<CpuEngine>),
    /// The engine on a GPU.
    Cuda(Box<CudaEngine>),
}

impl Engine {
    /// Builds the engine that the plan names, of those that need nothing but a processor: where it names a
    /// GPU, the CPU engine. Takes all its memory here, and starts its worker threads with the priority of the
    /// calling thread.
    pub fn build(plan: &FieldPlan) -> Engine {
        match plan.engine {
            EngineKind::Reference => Engine::Reference(Box::new(ReferenceEngine::new(plan))),
            _ => Engine::Cpu(Box::new(CpuEngine::new(plan))),
        }
    }

    /// The same with the CPU engine's instructions of that name; `None` where this machine lacks them or the
    /// plan names an engine that has none to choose.
    pub fn build_with(plan: &FieldPlan, simd: &str) -> Option<Engine> {
        let level = Level::named(simd)?;
        match plan.engine {
            EngineKind::Reference | EngineKind::Cuda => None,
            EngineKind::Cpu | EngineKind::Auto => {
                Some(Engine::Cpu(Box::new(CpuEngine::at_level(plan, level))))
            }
        }
    }

    /// Which engine this is, in a word: `reference`, `cpu`, `cuda`.
    pub fn kind(&self) -> &'static str {
        match self {
            Engine::Reference(_) => "reference",
            Engine::Cpu(_) => "cpu",
            Engine::Cuda(_) => "cuda",
        }
    }

    /// Which engine this is, with what, and why.
    pub fn name(&self) -> String {
        match self {
            Engine::Reference(_) => "reference (f64, one thread), as the board asks".to_string(),
            Engine::Cpu(engine) => {
                let why = match engine.plan().engine {
                    EngineKind::Auto => format!("chosen: {}", device::why_none()),
                    EngineKind::Cuda => "in place of a GPU".to_string(),
                    _ => "as the board asks".to_string(),
                };
                let threads = match self.threads() {
                    1 => "one thread".to_string(),
                    threads => format!("{threads} threads"),
                };
                format!("cpu ({}, {} cells, {threads}), {why}", self.simd(), self.storage())
            }
            Engine::Cuda(engine) => {
                let megabytes = self.memory_bytes() as f64 / 1e6;
                format!("cuda ({}, {} cells, {megabytes:.0} MB)", engine.device_name(), self.storage())
            }
        }
    }

    /// Worker threads, from 1, that were not granted their core.
    pub fn refusals(&self) -> &[(usize, Refusal)] {
        match self {
            Engine::Reference(_) => &[],
            Engine::Cpu(engine) => engine.refusals(),
            Engine::Cuda(_) => &[],
        }
    }

    /// Whether it computes on a device, which it can be lost with.
    pub fn on_device(&self) -> bool {
        matches!(self, Engine::Cuda(_))
    }

    /// One cycle. A refused stimulus changes nothing; a lost engine answers nothing any more, and the caller
    /// must not use one any more whose answer or prediction is no finite number.
    pub fn cycle(&mut self, stimulus: &Stimulus) -> Result<Response, Failure> {
        let response = match self {
            Engine::Reference(engine) => engine.cycle(stimulus)?,
            Engine::Cpu(engine) => engine.cycle(stimulus)?,
            Engine::Cuda(engine) => engine.cycle(stimulus)?,
        };
        if all_finite(&response, self.prediction()) { Ok(response) } else { Err(Failure::NotFinite) }
    }

    /// Saves everything that it has lived through into `live`, which allocates if nothing was saved into it
    /// before. False: not now, and the contents of `live` are of no use.
    pub fn save(&mut self, live: &mut Live) -> bool {
        match self {
            Engine::Reference(engine) => engine.save(live),
            Engine::Cpu(engine) => engine.save(live),
            Engine::Cuda(engine) => return engine.save(live),
        }
        true
    }

    /// Goes on from `live`, with the read-out and the library that it has. A state that does not fit changes
    /// nothing.
    pub fn restore(&mut self, live: &Live) -> Result<(), StateError> {
        match self {
            Engine::Reference(engine) => engine.restore(live),
            Engine::Cpu(engine) => engine.restore(live),
            Engine::Cuda(engine) => engine.restore(live),
        }
    }

    /// Read-out and library, copied.
    pub fn learned(&self) -> Learned {
        match self {
            Engine::Reference(engine) => engine.learned(),
            Engine::Cpu(engine) => engine.learned(),
            Engine::Cuda(engine) => engine.learned(),
        }
    }

    /// Takes a read-out and a library in the place of its own. What does not fit changes nothing.
    pub fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        match self {
            Engine::Reference(engine) => engine.load(learned),
            Engine::Cpu(engine) => engine.load(learned),
            Engine::Cuda(engine) => engine.load(learned),
        }
    }

    /// Injects a fault into its device from now on; changes nothing for an engine without one.
    pub fn inject(&mut self, fault: Option<GpuFault>) {
        if let Engine::Cuda(engine) = self {
            engine.inject(fault);
        }
    }

    /// Back to the start; the read-out and the library stay.
    pub fn rest(&mut self) {
        match self {
            Engine::Reference(engine) => engine.rest(),
            Engine::Cpu(engine) => engine.rest(),
            Engine::Cuda(engine) => engine.rest(),
        }
    }

    /// Copies the features of the last cycle; as many as `out` holds, in the order of `FEATURES`.
    pub fn copy_features(&self, out: &mut [f32]) {
        match self {
            Engine::Reference(engine) => copy(engine.features(), out),
            Engine::Cpu(engine) => out.iter_mut().zip(engine.features()).for_each(|(o, f)| *o = *f),
            Engine::Cuda(engine) => out.iter_mut().zip(engine.features()).for_each(|(o, f)| *o = f),
        }
    }

    /// Copies the cells of channel `c`, x fastest, on the grid in use.
    pub fn copy_channel(&self, c: usize, out: &mut [f32]) {
        match self {
            Engine::Reference(engine) => copy(engine.channel(c), out),
            Engine::Cpu(engine) => engine.copy_channel(c, out),
            Engine::Cuda(engine) => engine.copy_channel(c, out),
        }
    }

    /// What the next sensors are expected to be, -1..=1.
    pub fn prediction(&self) -> &[f64] {
        match self {
            Engine::Reference(engine) => engine.prediction(),
            Engine::Cpu(engine) => engine.prediction(),
            Engine::Cuda(engine) => engine.prediction(),
        }
    }

    /// Puts in the motor read-out: motors x `READOUT_COLUMNS` for the whole grid and as many for the half
    /// one; without the second the first serves both. Refuses (false) a wrong size and weights that are not
    /// finite or beyond `READOUT_MOST`.
    pub fn set_readout(&mut self, weights: &[f32]) -> bool {
        match self {
            Engine::Reference(engine) => engine.set_readout(weights),
            Engine::Cpu(engine) => engine.set_readout(weights),
            Engine::Cuda(engine) => engine.set_readout(weights),
        }
    }

    /// Stores a volume (16 x N^3, within 1 - beta) that is recalled by a context. Refuses (false)
    /// what does not fit.
    pub fn store_pattern(
        &mut self,
        slot: usize,
        volume: &[f32],
        context: &[f32; CONTEXT],
        value: f32,
    ) -> bool {
        match self {
            Engine::Reference(engine) => engine.store_pattern(slot, volume, context, value),
            Engine::Cpu(engine) => engine.store_pattern(slot, volume, context, value),
            Engine::Cuda(engine) => engine.store_pattern(slot, volume, context, value),
        }
    }

    /// Empties a slot of the library.
    pub fn clear_pattern(&mut self, slot: usize) {
        match self {
            Engine::Reference(engine) => engine.clear_pattern(slot),
            Engine::Cpu(engine) => engine.clear_pattern(slot),
            Engine::Cuda(engine) => engine.clear_pattern(slot),
        }
    }

    /// The value that a pattern was stored with; `None` for an empty slot.
    pub fn pattern_value(&self, slot: usize) -> Option<f32> {
        match self {
            Engine::Reference(engine) => engine.pattern_value(slot),
            Engine::Cpu(engine) => engine.pattern_value(slot),
            Engine::Cuda(engine) => engine.pattern_value(slot),
        }
    }

    /// Slots and weights of the last match of the library, best first.
    pub fn blend(&self) -> (&[usize], &[f64]) {
        match self {
            Engine::Reference(engine) => engine.blend(),
            Engine::Cpu(engine) => engine.blend(),
            Engine::Cuda(engine) => engine.blend(),
        }
    }

    /// Stores an experience as if the last cycle had made it: a descriptor about rest, and its worth, 0 to
    /// `WORTH_MOST`. Refuses (false) numbers that are not finite.
    pub fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) -> bool {
        match self {
            Engine::Reference(engine) => engine.store_experience(descriptor, value),
            Engine::Cpu(engine) => engine.store_experience(descriptor, value),
            Engine::Cuda(engine) => engine.store_experience(descriptor, value),
        }
    }

    /// Experiences in the bank.
    pub fn experiences(&self) -> usize {
        match self {
            Engine::Reference(engine) => engine.experiences(),
            Engine::Cpu(engine) => engine.experiences(),
            Engine::Cuda(engine) => engine.experiences(),
        }
    }

    /// Rows and cosines of the last whole sweep of the bank, best first.
    pub fn nearest(&self) -> &[(usize, f64)] {
        match self {
            Engine::Reference(engine) => engine.nearest(),
            Engine::Cpu(engine) => engine.nearest(),
            Engine::Cuda(engine) => engine.nearest(),
        }
    }

    /// The newest statistics, which come every 100 cycles.
    pub fn metrics(&self) -> Option<Metrics> {
        match self {
            Engine::Reference(engine) => engine.metrics(),
            Engine::Cpu(engine) => engine.metrics(),
            Engine::Cuda(engine) => engine.metrics(),
        }
    }

    /// Statistics of the current field; reads every cell.
    pub fn measure_now(&self) -> Metrics {
        match self {
            Engine::Reference(engine) => engine.measure_now(),
            Engine::Cpu(engine) => engine.measure_now(),
            Engine::Cuda(engine) => engine.measure_now(),
        }
    }

    /// G: below 1 the field only fades.
    pub fn gain(&self) -> f64 {
        match self {
            Engine::Reference(engine) => engine.gain(),
            Engine::Cpu(engine) => engine.gain(),
            Engine::Cuda(engine) => engine.gain(),
        }
    }

    /// Threads that share the work of a cycle, the caller's included.
    pub fn threads(&self) -> usize {
        match self {
            Engine::Reference(_) => 1,
            Engine::Cpu(engine) => engine.threads(),
            Engine::Cuda(_) => 1,
        }
    }

    /// How the cells are kept: `f64`, `f32` or `f16`.
    pub fn storage(&self) -> &'static str {
        match self {
            Engine::Reference(_) => "f64",
            Engine::Cpu(engine) => engine.plan().storage.name(),
            Engine::Cuda(engine) => engine.plan().storage.name(),
        }
    }

    /// Which instructions the hot loops use: `none` (scalar), `portable`, `avx2`, `avx512`, `neon`, `cuda`.
    pub fn simd(&self) -> &'static str {
        match self {
            Engine::Reference(_) => "none",
            Engine::Cpu(engine) => engine.simd(),
            Engine::Cuda(_) => "cuda",
        }
    }

    /// Bytes that a cycle at `rung` has to read and write if every number is touched once: the field, the
    /// blended patterns, the bank as far as it is filled.
    pub fn bytes_per_cycle(&self, rung: Rung) -> usize {
        match self {
            Engine::Reference(engine) => engine.bytes_per_cycle(rung),
            Engine::Cpu(engine) => engine.bytes_per_cycle(rung),
            Engine::Cuda(engine) => engine.bytes_per_cycle(rung),
        }
    }

    /// Time of each of the `STAGES` in the last cycle.
    pub fn stage_times(&self) -> &StageTimes {
        match self {
            Engine::Reference(engine) => engine.stage_times(),
            Engine::Cpu(engine) => engine.stage_times(),
            Engine::Cuda(engine) => engine.stage_times(),
        }
    }

    /// Where the time of the last cycle went, of an engine on a device.
    pub fn device_times(&self) -> Option<DeviceTimes> {
        match self {
            Engine::Cuda(engine) => Some(engine.device_times()),
            Engine::Reference(_) | Engine::Cpu(_) => None,
        }
    }

    /// Pieces of work that the calling thread did again because a worker's core was busy, since the start.
    pub fn stand_ins(&self) -> u64 {
        match self {
            Engine::Reference(_) | Engine::Cuda(_) => 0,
            Engine::Cpu(engine) => engine.stand_ins(),
        }
    }

    /// Memory taken at the start, bytes: field, library, bank, read-out and learning.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Engine::Reference(engine) => engine.memory_bytes(),
            Engine::Cpu(engine) => engine.memory_bytes(),
            Engine::Cuda(engine) => engine.memory_bytes(),
        }
    }
}

/// Whether all that an engine returns is a number: its answer, and its prediction of the next sensors, which
/// drives the next cycle.
fn all_finite(response: &Response, prediction: &[f64]) -> bool {
    let rows = response.scores.iter().chain(&response.motors);
    let mut answer = rows.chain([&response.confidence, &response.skill, &response.novelty]);
    answer.all(|x| x.is_finite()) && prediction.iter().all(|x| x.is_finite())
}

fn copy(from: &[f64], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as f32);
}

/// An engine is built on one thread and lives on another.
const _: () = {
    const fn moves_between_threads<T: Send>() {}
    moves_between_threads::<Engine>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::shape::{FEATURES, READOUT_COLUMNS};
    use crate::frame::MAX_SENSORS;
    use crate::plan::{Params, Rung, Shape, Storage};
    use crate::time::Span;

    fn plan(engine: EngineKind) -> FieldPlan {
        FieldPlan {
            engine,
            shape: Shape { grid: 8, sensors: 3, motors: 2, patterns: 2, bank: 4 },
            params: Params::default(),
            seed: 1,
            dt: Span::from_millis(50),
            every_ticks: 1,
            threads: 1,
            cpus: Vec::new(),
            storage: Storage::F32,
            learn: true,
            start: Vec::new(),
        }
    }

    #[test]
    fn one_number_that_is_none_spoils_an_answer() {
        let sound = Engine::build(&plan(EngineKind::Cpu))
            .cycle(&Stimulus { cycle: 0, sensors: [0.5; MAX_SENSORS], reward: 0.0, rung: Rung::BEST })
            .unwrap();
        assert!(all_finite(&sound, &[0.0, 1.0]));
        assert!(!all_finite(&sound, &[0.0, f64::NAN]), "it would drive the next cycle");
        let spoils: [fn(&mut Response); 4] = [
            |response| response.motors[1] = f32::NAN,
            |response| response.scores[0] = f32::INFINITY,
            |response| response.confidence = f32::NAN,
            |response| response.novelty = f32::NEG_INFINITY,
        ];
        for spoil in spoils {
            let mut response = sound;
            spoil(&mut response);
            assert!(!all_finite(&response, &[0.0]), "{response:?}");
        }
    }

    #[test]
    fn every_kind_is_built_says_its_name_and_knows_all_verbs() {
        let mut names = Vec::new();
        for kind in [EngineKind::Auto, EngineKind::Reference, EngineKind::Cpu] {
            let mut engine = Engine::build(&plan(kind));
            names.push(engine.name());
            assert!(engine.set_readout(&[0.25; 2 * READOUT_COLUMNS]));
            assert!(!engine.set_readout(&[0.25; READOUT_COLUMNS]), "one row is missing");
            assert!(!engine.set_readout(&[f32::NAN; 2 * READOUT_COLUMNS]));
            assert!(engine.store_pattern(1, &[0.5; 16 * 512], &[0.1; CONTEXT], 2.0));
            assert!(!engine.store_pattern(2, &[0.5; 16 * 512], &[0.1; CONTEXT], 2.0), "no such slot");
            assert!(!engine.store_pattern(0, &[0.96; 16 * 512], &[0.1; CONTEXT], 2.0), "beyond the bound");
            assert_eq!((engine.pattern_value(0), engine.pattern_value(1)), (None, Some(2.0)));
            let mut sensors = [0.0; MAX_SENSORS];
            sensors[0] = 0.7;
            let stimulus = Stimulus { cycle: 0, sensors, reward: 1.0, rung: Rung::BEST };
            let response = engine.cycle(&stimulus).expect("in range");
            let mut features = [f32::NAN; FEATURES];
            engine.copy_features(&mut features);
            let sum: f32 = features.iter().sum::<f32>() * 0.25 + 0.25;
            assert!((response.scores[1] - sum).abs() < 1e-3, "{} and {sum}", response.scores[1]);
            assert_eq!(engine.experiences(), 1);
            assert_eq!(engine.blend().0, [1]);
            assert_eq!(engine.metrics(), Some(engine.measure_now()));
            assert!(engine.prediction().len() == 3 && engine.gain() < 1.0 && engine.threads() == 1);
            assert!(engine.memory_bytes() > 64 * 512 * 4);
            let mut cells = [f32::NAN; 512];
            engine.copy_channel(5, &mut cells);
            let mean = cells.iter().sum::<f32>() / 512.0;
            assert!((mean - features[5]).abs() < 1e-5);
            engine.clear_pattern(1);
            engine.rest();
            assert!(engine.experiences() == 0 && engine.pattern_value(1).is_none());
        }
        assert!(names[0].contains("chosen: ") && names[0].len() > 40, "and why: {}", names[0]);
        assert!(names[1].contains("reference") && names[2].contains("cpu"));
    }
}
