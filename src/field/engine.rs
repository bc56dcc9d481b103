//! What an engine of the field is: [`FieldEngine`] is all that a robot asks of one, [`Inspect`] what
//! learning, tests and benchmarks ask as well. The engines are `reference`, `cpu` and `cuda`. A wrapper of
//! an engine is an engine too: `failover`, and an [`Around`], which changes its cycles.
//!
//! Calls are virtual: one a cycle, and one more behind a failover. A cycle takes hundreds of microseconds.

use super::cpu::CpuEngine;
use super::failover::DeviceCounters;
use super::reference::ReferenceEngine;
use super::remote::LinkHealth;
use super::shape::{CONTEXT, DESCRIPTOR};
use super::state::{Learned, Live, StateError};
use super::{DeviceTimes, EngineState, Failure, FieldInput, FieldOutput, Metrics, StageTimes};
use crate::base::plan::{EngineKind, FieldPlan, QualityLevel};
use crate::base::time::Instant;
use crate::system::cpu::Level;
use crate::system::rt::Refusal;

/// What a robot asks of whatever computes its field. Between two cycles it may move to another thread.
pub trait FieldEngine: Send {
    /// Which engine this is, with what, and why.
    fn name(&self) -> String;

    /// What people call the device that it computes on, if there is one and it is open.
    fn device_name(&self) -> Option<String> {
        None
    }

    /// One cycle. A refused stimulus changes nothing; a lost engine answers nothing any more, and the caller
    /// must not use one any more whose answer or prediction is no finite number.
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure>;

    /// Saves everything that it has lived through into `live`, which allocates if nothing was saved into it
    /// before. False: not now, and the contents of `live` are of no use.
    fn save(&mut self, live: &mut Live) -> bool;

    /// The same for a caller that is in no hurry: an engine that would have to wait for its device begins to
    /// save and says false, and the same `live`, given again after a later cycle, gets the state in which it
    /// began.
    fn save_soon(&mut self, live: &mut Live) -> bool {
        self.save(live)
    }

    /// Goes on from `live`, with the read-out and the library that it has. A state that does not fit changes
    /// nothing.
    fn restore(&mut self, live: &Live) -> Result<(), StateError>;

    /// Takes a read-out and a library in the place of its own. What does not fit changes nothing.
    fn load(&mut self, learned: &Learned) -> Result<(), StateError>;

    /// Back to the start: field at rest, nothing predicted, learned or experienced. The read-out and the
    /// library stay, as they came from outside.
    fn rest(&mut self);

    /// Begins anew at rest with `learned`, after a panic that may have left anything half-written.
    fn rebuild(&mut self, learned: &Learned) {
        self.rest();
        let loaded = self.load(learned);
        debug_assert!(loaded.is_ok(), "it came from an engine of this plan");
    }

    /// Whether it goes on all the same after one of its cycles has panicked; else it must be rebuilt.
    fn survives_panic(&mut self, _now: Instant) -> bool {
        false
    }

    /// What takes longer than a cycle may: called between two cycles, after the answer is out.
    fn maintain(&mut self, _now: Instant) {}

    /// How it fares.
    fn condition(&self, _now: Instant) -> Condition {
        Condition::default()
    }
}

/// How an engine fares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition {
    /// Whether it computes, and where.
    pub state: EngineState,
    /// The history of its device.
    pub device: DeviceCounters,
    /// Where the time of the last cycle went, if a device computed it.
    pub times: Option<DeviceTimes>,
    /// The link to a brain elsewhere, if the plan asks for one.
    pub link: Option<LinkHealth>,
}

/// What learning, tests and benchmarks ask of an engine beside its cycles.
pub trait Inspect: FieldEngine {
    /// Which engine this is, in a word: `reference`, `cpu`, `cuda`.
    fn kind(&self) -> &'static str;

    /// Worker threads, from 1, that were not granted their core.
    fn refusals(&self) -> &[(usize, Refusal)] {
        &[]
    }

    /// Read-out and library, copied.
    fn learned(&self) -> Learned;

    /// Copies the features of the last cycle, all 0 before the first; as many as `out` holds, in the order of
    /// `FEATURES`.
    fn copy_features(&self, out: &mut [f32]);

    /// Copies the cells of channel `c`, x fastest, on the grid in use: as many as there are and as `out`
    /// holds.
    fn copy_channel(&self, c: usize, out: &mut [f32]);

    /// What the next sensors are expected to be, -1..=1.
    fn prediction(&self) -> &[f64];

    /// Puts in the motor read-out: motors x `READOUT_COLUMNS` for the whole grid and as many for the half
    /// one; without the second the first serves both. Refuses (false) a wrong size and weights that are not
    /// finite or beyond `READOUT_MOST`.
    fn set_readout(&mut self, weights: &[f32]) -> bool;

    /// Stores a volume (16 x N^3, within 1 - beta; kept to 1.5e-5 but by the reference) that is recalled by a
    /// context (as in the features). Refuses (false) what does not fit.
    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT], value: f32) -> bool;

    /// Empties a slot of the library.
    fn clear_pattern(&mut self, slot: usize);

    /// The value that a pattern was stored with; `None` for an empty slot.
    fn pattern_value(&self, slot: usize) -> Option<f32>;

    /// Slots and weights of the last match of the library, best first.
    fn blend(&self) -> (&[usize], &[f64]);

    /// Stores an experience as if the last cycle had made it: a descriptor about rest, and its worth, 0 to
    /// `WORTH_MOST`. Refuses (false) numbers that are not finite.
    fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) -> bool;

    /// Experiences in the bank.
    fn experiences(&self) -> usize;

    /// Rows and cosines of the last whole sweep of the bank, best first.
    fn nearest(&self) -> &[(usize, f64)];

    /// The newest statistics, which come every `METRICS_EVERY` cycles.
    fn metrics(&self) -> Option<Metrics>;

    /// Statistics of the current field; reads every cell.
    fn measure_now(&self) -> Metrics;

    /// What it was built from.
    fn plan(&self) -> &FieldPlan;

    /// Threads that share the work of a cycle, the caller's included.
    fn threads(&self) -> usize {
        1
    }

    /// How the cells are kept: `f64`, `f32` or `f16`.
    fn storage(&self) -> &'static str {
        self.plan().storage.name()
    }

    /// Which instructions the hot loops use: `none` (scalar), `portable`, `avx2`, `avx512`, `neon`, `cuda`.
    fn simd(&self) -> &'static str;

    /// Bytes that a cycle at `quality` has to read and write if every number is touched once: the field, the
    /// blended patterns, the bank as far as it is filled.
    fn bytes_per_cycle(&self, quality: QualityLevel) -> usize;

    /// Time of each of the `STAGES` in the last cycle.
    fn stage_times(&self) -> &StageTimes;

    /// Jobs that the calling thread did again because a worker was late, since the start.
    fn stand_ins(&self) -> u64 {
        0
    }

    /// Memory taken so far, bytes: field, library, bank, read-out and learning.
    fn memory_bytes(&self) -> usize;
}

/// Builds the engine that the plan names, of those that need nothing but a processor: where it names a GPU or
/// a brain elsewhere, the CPU engine. It takes all its memory here, and starts its worker threads with the
/// priority of the calling thread.
pub fn build(plan: &FieldPlan) -> Box<dyn Inspect> {
    match plan.engine {
        EngineKind::Reference => Box::new(ReferenceEngine::new(plan)),
        EngineKind::Cpu | EngineKind::Auto | EngineKind::Cuda | EngineKind::Remote => {
            Box::new(CpuEngine::new(plan))
        }
    }
}

/// The CPU engine with the instructions of that name; `None` where this machine lacks them or the plan names
/// an engine that has none to choose.
pub fn build_with(plan: &FieldPlan, simd: &str) -> Option<Box<dyn Inspect>> {
    let level = Level::named(simd)?;
    match plan.engine {
        EngineKind::Reference | EngineKind::Cuda | EngineKind::Remote => None,
        EngineKind::Cpu | EngineKind::Auto => Some(Box::new(CpuEngine::at_level(plan, level))),
    }
}

/// A cycle that stands in the place of an engine's own, and may ask that one.
pub type Cycle<E> = Box<dyn FnMut(&mut E, &FieldInput) -> Result<FieldOutput, Failure> + Send>;

/// An engine with another cycle around its own; all else is the engine's. Faults are injected this way, and
/// a robot in a simulation is taught; no robot at work has one.
pub struct Around<E: ?Sized> {
    engine: Box<E>,
    cycle: Cycle<E>,
}

impl<E: ?Sized> Around<E> {
    /// `cycle` in the place of `engine`'s own.
    pub fn new(engine: Box<E>, cycle: Cycle<E>) -> Around<E> {
        Around { engine, cycle }
    }
}

impl<E: FieldEngine + ?Sized> FieldEngine for Around<E> {
    fn name(&self) -> String {
        self.engine.name()
    }
    fn device_name(&self) -> Option<String> {
        self.engine.device_name()
    }
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure> {
        (self.cycle)(&mut self.engine, input)
    }
    fn save(&mut self, live: &mut Live) -> bool {
        self.engine.save(live)
    }
    fn restore(&mut self, live: &Live) -> Result<(), StateError> {
        self.engine.restore(live)
    }
    fn load(&mut self, learned: &Learned) -> Result<(), StateError> {
        self.engine.load(learned)
    }
    fn rest(&mut self) {
        self.engine.rest();
    }
    fn rebuild(&mut self, learned: &Learned) {
        self.engine.rebuild(learned);
    }
    fn survives_panic(&mut self, now: Instant) -> bool {
        self.engine.survives_panic(now)
    }
    fn maintain(&mut self, now: Instant) {
        self.engine.maintain(now);
    }
    fn condition(&self, now: Instant) -> Condition {
        self.engine.condition(now)
    }
}

/// `response`, if all that an engine returns is a number: its answer, and its prediction of the next sensors,
/// which drives the next cycle.
pub fn finite(response: FieldOutput, prediction: &[f64]) -> Result<FieldOutput, Failure> {
    let rows = response.scores.iter().chain(&response.motors);
    let mut answer = rows.chain([&response.confidence, &response.skill, &response.novelty]);
    let is_finite = answer.all(|x| x.is_finite()) && prediction.iter().all(|x| x.is_finite());
    if is_finite { Ok(response) } else { Err(Failure::NotFinite) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::frame::MAX_SENSORS;
    use crate::base::plan::{Params, QualityLevel, Shape, Storage};
    use crate::base::time::Span;
    use crate::field::shape::{FEATURES, READOUT_COLUMNS};

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
            correction: 1.0,
        }
    }

    #[test]
    fn a_single_nan_makes_an_answer_unusable() {
        let sound = build(&plan(EngineKind::Cpu))
            .cycle(&FieldInput {
                cycle: 0,
                sensors: [0.5; MAX_SENSORS],
                reward: 0.0,
                quality: QualityLevel::BEST,
                place: None,
            })
            .unwrap();
        assert!(finite(sound, &[0.0, 1.0]).is_ok());
        assert!(finite(sound, &[0.0, f64::NAN]).is_err(), "it would drive the next cycle");
        let spoils: [fn(&mut FieldOutput); 4] = [
            |response| response.motors[1] = f32::NAN,
            |response| response.scores[0] = f32::INFINITY,
            |response| response.confidence = f32::NAN,
            |response| response.novelty = f32::NEG_INFINITY,
        ];
        for spoil in spoils {
            let mut response = sound;
            spoil(&mut response);
            let answer = finite(response, &[0.0]);
            assert!(matches!(answer, Err(Failure::NotFinite)), "{response:?}");
        }
    }

    #[test]
    fn every_engine_kind_is_built_named_and_complete() {
        let mut names = Vec::new();
        for kind in [EngineKind::Auto, EngineKind::Reference, EngineKind::Cpu] {
            let mut engine = build(&plan(kind));
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
            let input =
                FieldInput { cycle: 0, sensors, reward: 1.0, quality: QualityLevel::BEST, place: None };
            let response = engine.cycle(&input).expect("in range");
            let mut features = [f32::NAN; FEATURES];
            engine.copy_features(&mut features);
            let sum: f32 = features.iter().sum::<f32>() * 0.25 + 0.25;
            assert!((response.scores[1] - sum).abs() < 1e-3, "{} and {sum}", response.scores[1]);
            assert_eq!(engine.experiences(), 1);
            assert_eq!(engine.blend().0, [1]);
            assert_eq!(engine.metrics(), Some(engine.measure_now()));
            assert!(engine.prediction().len() == 3 && engine.threads() == 1);
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
