//! The interface of field engines: [`FieldEngine`] is all that a robot needs from one, [`Inspect`] is what
//! learning, tests and benchmarks need in addition. The engines are `reference`, `cpu`, `cuda` and `remote`.
//! The wrappers of an engine are engines too: `failover`, and [`Around`], which replaces an engine's cycles.
//!
//! Calls are virtual: one per cycle, and one more with a failover. Their cost is negligible, because a cycle
//! takes hundreds of microseconds.

use super::cpu::CpuEngine;
use super::failover::DeviceCounters;
use super::reference::ReferenceEngine;
use super::remote::LinkHealth;
use super::shape::{CONTEXT, DESCRIPTOR};
use super::slices::FieldSlices;
use super::state::{Learned, Live, StateError};
use super::{DeviceTimes, EngineState, Failure, FieldInput, FieldOutput, Metrics, StageTimes};
use crate::base::plan::{EngineKind, FieldPlan, QualityLevel};
use crate::base::time::Instant;
use crate::system::cpu::Level;
use crate::system::rt::Refusal;

/// An engine as a robot uses it. Between two cycles it may move to another thread.
pub trait FieldEngine: Send {
    /// Describes the engine: which one, on what, and why it was chosen.
    fn name(&self) -> String;

    /// The name of the GPU that it computes on, if there is one and it is open.
    fn device_name(&self) -> Option<String> {
        None
    }

    /// One cycle. A refused input changes nothing. A lost engine never answers again. After
    /// [`Failure::NotFinite`] the caller must not use the engine any more.
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure>;

    /// Saves its whole state, except for read-out and library, into `live`; allocates if nothing was saved
    /// into `live` before. False: it cannot save now, and the contents of `live` are not valid.
    fn save(&mut self, live: &mut Live) -> bool;

    /// Saves for a caller that can come back later: an engine that would have to wait for its GPU starts to
    /// save and returns false. If the caller passes the same `live` again after a later cycle, it gets the
    /// state from when the save started.
    fn save_soon(&mut self, live: &mut Live) -> bool {
        self.save(live)
    }

    /// Continues from `live`, with its present read-out and library. A state that does not fit changes
    /// nothing.
    fn restore(&mut self, live: &Live) -> Result<(), StateError>;

    /// Replaces its read-out and library. If they do not fit, nothing changes.
    fn load(&mut self, learned: &Learned) -> Result<(), StateError>;

    /// Resets it to the start: field at rest, nothing predicted, learned or experienced. The read-out and the
    /// library stay, because they came from outside.
    fn reset(&mut self);

    /// Starts again at rest with `learned`, after a panic that may have left data half-written.
    fn rebuild(&mut self, learned: &Learned) {
        self.reset();
        let loaded = self.load(learned);
        debug_assert!(loaded.is_ok(), "`learned` came from an engine of this plan");
    }

    /// Whether it can continue after one of its cycles has panicked; otherwise it must be rebuilt.
    fn survives_panic(&mut self, _now: Instant) -> bool {
        false
    }

    /// Does work that may take longer than a cycle; called between two cycles, after the answer has been
    /// sent.
    fn maintain(&mut self, _now: Instant) {}

    /// Slices through its field as it is now, or as it was at the last save, about a second ago. Allocates
    /// nothing. `None`: this engine has no field here to look at.
    fn slices(&self) -> Option<FieldSlices> {
        None
    }

    /// Its condition.
    fn condition(&self, _now: Instant) -> Condition {
        Condition::default()
    }
}

/// The condition of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition {
    /// Whether and where it computes.
    pub state: EngineState,
    /// The history of its GPU.
    pub device: DeviceCounters,
    /// Where the time of the last cycle went, if a GPU computed it.
    pub times: Option<DeviceTimes>,
    /// The link to a brain on another computer, if the plan uses one.
    pub link: Option<LinkHealth>,
}

/// What learning, tests and benchmarks need from an engine besides its cycles.
pub trait Inspect: FieldEngine {
    /// The kind of engine: `reference`, `cpu` or `cuda`.
    fn kind(&self) -> &'static str;

    /// Worker threads, numbered from 1, that were not granted their core.
    fn refusals(&self) -> &[(usize, Refusal)] {
        &[]
    }

    /// Read-out and library, copied.
    fn learned(&self) -> Learned;

    /// Copies the features of the last cycle (all 0 before the first) in the order of `FEATURES`, as many as
    /// `out` holds.
    fn copy_features(&self, out: &mut [f32]);

    /// Copies the cells of channel `c`, x fastest, on the grid in use: as many as there are and as `out`
    /// holds.
    fn copy_channel(&self, c: usize, out: &mut [f32]);

    /// The prediction of the next sensors, -1..=1.
    fn prediction(&self) -> &[f64];

    /// Sets the motor read-out: motors x `READOUT_COLUMNS` weights for the full grid, then as many for the
    /// half grid; without the second part, the first is used for both. Refuses (false) a wrong size and
    /// weights that are not finite or beyond `READOUT_MOST`.
    fn set_readout(&mut self, weights: &[f32]) -> bool;

    /// Stores a volume (16 x N^3, within 1 - beta; all engines but the reference round it to 1.5e-5), to be
    /// recalled by a context (as in the features). Refuses (false) what does not fit.
    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT], value: f32) -> bool;

    /// Empties a slot of the library.
    fn clear_pattern(&mut self, slot: usize);

    /// The value that a pattern was stored with; `None` for an empty slot.
    fn pattern_value(&self, slot: usize) -> Option<f32>;

    /// Slots and weights of the last match of the library, best first.
    fn blend(&self) -> (&[usize], &[f64]);

    /// Stores an experience as if the last cycle had made it: a descriptor relative to the resting state, and
    /// its worth, 0 to `WORTH_MOST`. Refuses (false) a descriptor that is not finite and a worth outside that
    /// range.
    fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) -> bool;

    /// Number of experiences in the bank.
    fn experiences(&self) -> usize;

    /// Rows and cosines of the last complete sweep of the bank, best first.
    fn nearest(&self) -> &[(usize, f64)];

    /// The newest of the statistics that are computed every `METRICS_EVERY` cycles.
    fn metrics(&self) -> Option<Metrics>;

    /// Statistics of the current field; reads every cell.
    fn measure_now(&self) -> Metrics;

    /// The plan that it was built from.
    fn plan(&self) -> &FieldPlan;

    /// Threads that share the work of a cycle, including the caller's.
    fn threads(&self) -> usize {
        1
    }

    /// How the cells are stored: `f64`, `f32` or `f16`.
    fn storage(&self) -> &'static str {
        self.plan().storage.name()
    }

    /// Which instructions the hot loops use: `none` (scalar), `portable`, `avx2`, `avx512`, `neon`, `cuda`.
    fn simd(&self) -> &'static str;

    /// Bytes that a cycle at `quality` has to read and write if every number is touched once: the field, the
    /// blended patterns, the filled part of the bank.
    fn bytes_per_cycle(&self, quality: QualityLevel) -> usize;

    /// Time of each of the `STAGES` in the last cycle.
    fn stage_times(&self) -> &StageTimes;

    /// Jobs that the calling thread redid because a worker was late, since the start.
    fn stand_ins(&self) -> u64 {
        0
    }

    /// Memory allocated so far, bytes: field, library, bank, read-out and learning.
    fn memory_bytes(&self) -> usize;
}

/// Builds the engine that the plan names, if it needs only a CPU; for a GPU or a brain on another computer,
/// the CPU engine. The engine allocates its memory here, except what later patterns and experiences need, and
/// starts its worker threads with the priority of the calling thread.
pub fn build(plan: &FieldPlan) -> Box<dyn Inspect> {
    match plan.engine {
        EngineKind::Reference => Box::new(ReferenceEngine::new(plan)),
        EngineKind::Cpu | EngineKind::Auto | EngineKind::Cuda | EngineKind::Remote => {
            Box::new(CpuEngine::new(plan))
        }
    }
}

/// The CPU engine with the vector instructions of that name; `None` if this machine lacks them or the plan
/// names another engine.
pub fn build_with(plan: &FieldPlan, simd: &str) -> Option<Box<dyn Inspect>> {
    let level = Level::named(simd)?;
    match plan.engine {
        EngineKind::Reference | EngineKind::Cuda | EngineKind::Remote => None,
        EngineKind::Cpu | EngineKind::Auto => Some(Box::new(CpuEngine::at_level(plan, level))),
    }
}

/// A cycle that replaces an engine's own, and may call it.
pub type Cycle<E> = Box<dyn FnMut(&mut E, &FieldInput) -> Result<FieldOutput, Failure> + Send>;

/// An engine whose cycle is replaced; everything else is passed on to the engine, and `save_soon` becomes a
/// `save`. Used to inject faults and to teach a robot in a simulation, never on a real robot.
pub struct Around<E: ?Sized> {
    engine: Box<E>,
    cycle: Cycle<E>,
}

impl<E: ?Sized> Around<E> {
    /// `engine` with `cycle` in place of its own.
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
    fn reset(&mut self) {
        self.engine.reset();
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
    fn slices(&self) -> Option<FieldSlices> {
        self.engine.slices()
    }
    fn condition(&self, now: Instant) -> Condition {
        self.engine.condition(now)
    }
}

/// `response`, if it and the prediction of the next sensors, which drives the next cycle, are finite.
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
    fn one_nan_or_infinity_spoils_an_answer() {
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
    fn every_engine_kind_has_a_name_and_all_operations() {
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
            engine.reset();
            assert!(engine.experiences() == 0 && engine.pattern_value(1).is_none());
        }
        assert!(names[0].contains("chosen: ") && names[0].len() > 40, "it also says why: {}", names[0]);
        assert!(names[1].contains("reference") && names[2].contains("cpu"));
    }
}
