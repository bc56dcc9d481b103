//! What every field engine must do, whatever it computes with: the laws of `docs/field.md`, applied to each
//! engine of the list at the end. A noise generator or a stuck engine would fail them.

mod dynamics;
mod memory;
mod prediction;
mod response;
mod quality;

use crate::cuda::engine::device;
use crate::long::or_in_full;
use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::{EngineKind, FieldPlan, Params, QualityLevel, Shape, Storage};
use ganglion::base::seed::{Stream, normal, uniform};
use ganglion::base::time::Span;
use ganglion::field::cpu::CpuEngine;
use ganglion::field::cuda::CudaEngine;
use ganglion::field::reference::ReferenceEngine;
use ganglion::field::shape::{CONTEXT, READOUT_COLUMNS};
use ganglion::field::{Failure, FieldEngine, FieldInput, FieldOutput, Inspect, Metrics, RefusedInput};
use std::any::Any;

/// The functions of an engine under test, in f64, whatever precision the engine computes in.
pub trait Judged {
    /// Relative rounding error of one operation, with a margin for the few hundred that add up in one cell.
    const ROUNDING: f64;
    /// Number of cycles that stands for "for ever" in tests of this engine: in daily use, and in full.
    const FOR_EVER: (u64, u64);
    /// The requested number.
    fn for_ever() -> u64 {
        or_in_full(Self::FOR_EVER.0, Self::FOR_EVER.1)
    }
    /// Number of cycles of the law of bounds in daily use. In 1,200 cycles, each quality level meets each
    /// kind of input for at least 50 of them.
    const BOUNDED: u64;
    /// The requested number.
    fn bounded() -> u64 {
        or_in_full(Self::BOUNDED, Self::FOR_EVER.1)
    }
    /// Seeds of the runs that test the laws of prediction; each run simulates 40 s.
    const SEEDS: &'static [u64] = &[1, 2, 3];
    /// The requested seeds.
    fn seeds() -> &'static [u64] {
        Self::SEEDS
    }
    /// How often each scene is shown again in the law of scenes.
    fn queries_of_a_scene() -> u64 {
        3
    }
    /// How much work a law requires of this engine: by default `whole`. The emulated device, which is a
    /// hundred times slower, does `some` in daily use; `cuda::engine` also compares it with the reference
    /// cycle by cycle.
    fn share(whole: u64, _some: u64) -> u64 {
        whole
    }
    /// A value to hold while engines of this kind are used; `None` if there can be no such engine.
    fn ready() -> Option<Box<dyn Any>> {
        Some(Box::new(()))
    }
    fn new(plan: &FieldPlan) -> Self;
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, RefusedInput>;
    fn features(&self) -> Vec<f64>;
    fn prediction(&self) -> Vec<f64>;
    fn channel(&self, c: usize) -> Vec<f64>;
    fn set_channel(&mut self, c: usize, cells: &[f64]);
    fn set_readout(&mut self, weights: &[f32]);
    fn reset(&mut self);
    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT]);
    fn blend(&self) -> Vec<(usize, f64)>;
    fn nearest(&self) -> Vec<(usize, f64)>;
    fn experiences(&self) -> usize;
    fn metrics(&self) -> Option<Metrics>;
    fn measure_now(&mut self) -> Metrics;
    fn gain(&self) -> f64;
}

fn refused(answer: Result<FieldOutput, Failure>) -> Result<FieldOutput, RefusedInput> {
    answer.map_err(|failure| failure.refused().unwrap_or_else(|| panic!("{failure}")))
}

impl Judged for ReferenceEngine {
    const ROUNDING: f64 = 1e-13;
    const FOR_EVER: (u64, u64) = (2_000, 8_000);
    const BOUNDED: u64 = 1_200;
    fn seeds() -> &'static [u64] {
        &Self::SEEDS[..or_in_full(1, Self::SEEDS.len())]
    }
    fn queries_of_a_scene() -> u64 {
        or_in_full(1, 3)
    }
    fn new(plan: &FieldPlan) -> Self {
        ReferenceEngine::new(plan)
    }
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, RefusedInput> {
        refused(FieldEngine::cycle(self, input))
    }
    fn features(&self) -> Vec<f64> {
        self.features().to_vec()
    }
    fn prediction(&self) -> Vec<f64> {
        Inspect::prediction(self).to_vec()
    }
    fn channel(&self, c: usize) -> Vec<f64> {
        self.channel(c).to_vec()
    }
    fn set_channel(&mut self, c: usize, cells: &[f64]) {
        self.channel_mut(c).copy_from_slice(cells);
    }
    fn set_readout(&mut self, weights: &[f32]) {
        assert!(Inspect::set_readout(self, weights));
    }
    fn reset(&mut self) {
        FieldEngine::reset(self);
    }
    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT]) {
        assert!(Inspect::store_pattern(self, slot, volume, context, 1.0));
    }
    fn blend(&self) -> Vec<(usize, f64)> {
        let (slots, weights) = Inspect::blend(self);
        slots.iter().copied().zip(weights.iter().copied()).collect()
    }
    fn nearest(&self) -> Vec<(usize, f64)> {
        Inspect::nearest(self).to_vec()
    }
    fn experiences(&self) -> usize {
        Inspect::experiences(self)
    }
    fn metrics(&self) -> Option<Metrics> {
        Inspect::metrics(self)
    }
    fn measure_now(&mut self) -> Metrics {
        Inspect::measure_now(self)
    }
    fn gain(&self) -> f64 {
        Inspect::plan(self).params.field_gain()
    }
}

impl Judged for CpuEngine {
    const ROUNDING: f64 = 1e-7;
    // The full form takes about fifteen seconds on one core; the bound itself is a clamp, whose ends are
    // tested next to the loop. Half of the short form is 1,200 s: a value that doubles every second overflows
    // f64 by then.
    const FOR_EVER: (u64, u64) = (48_000, 100_000);
    const BOUNDED: u64 = 12_000;
    fn new(plan: &FieldPlan) -> Self {
        CpuEngine::new(plan)
    }
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, RefusedInput> {
        refused(FieldEngine::cycle(self, input))
    }
    fn features(&self) -> Vec<f64> {
        self.features().iter().map(|f| f64::from(*f)).collect()
    }
    fn prediction(&self) -> Vec<f64> {
        Inspect::prediction(self).to_vec()
    }
    fn channel(&self, c: usize) -> Vec<f64> {
        let mut cells = vec![f32::NAN; Inspect::plan(self).shape.cells()];
        self.copy_channel(c, &mut cells);
        // The half grid has fewer cells.
        cells.iter().take_while(|u| !u.is_nan()).map(|u| f64::from(*u)).collect()
    }
    fn set_channel(&mut self, c: usize, cells: &[f64]) {
        let cells: Vec<f32> = cells.iter().map(|u| *u as f32).collect();
        CpuEngine::set_channel(self, c, &cells);
    }
    fn set_readout(&mut self, weights: &[f32]) {
        assert!(Inspect::set_readout(self, weights));
    }
    fn reset(&mut self) {
        FieldEngine::reset(self);
    }
    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT]) {
        assert!(Inspect::store_pattern(self, slot, volume, context, 1.0));
    }
    fn blend(&self) -> Vec<(usize, f64)> {
        let (slots, weights) = Inspect::blend(self);
        slots.iter().copied().zip(weights.iter().copied()).collect()
    }
    fn nearest(&self) -> Vec<(usize, f64)> {
        Inspect::nearest(self).to_vec()
    }
    fn experiences(&self) -> usize {
        Inspect::experiences(self)
    }
    fn metrics(&self) -> Option<Metrics> {
        Inspect::metrics(self)
    }
    fn measure_now(&mut self) -> Metrics {
        Inspect::measure_now(self)
    }
    fn gain(&self) -> f64 {
        Inspect::plan(self).params.field_gain()
    }
}

/// The CPU engine in half precision.
struct Packed(CpuEngine);

impl Judged for Packed {
    // Rounding to a half (eleven significant bits) changes a cell by at most 2.4e-4, and two or three such
    // errors add up in a cell. The tests allow 64 times this constant, 6.4e-4.
    const ROUNDING: f64 = 1e-5;
    const FOR_EVER: (u64, u64) = (8_000, 20_000);
    const BOUNDED: u64 = 4_000;
    fn new(plan: &FieldPlan) -> Self {
        Packed(CpuEngine::new(&FieldPlan { storage: Storage::F16, ..plan.clone() }))
    }
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, RefusedInput> {
        refused(FieldEngine::cycle(&mut self.0, input))
    }
    fn features(&self) -> Vec<f64> {
        Judged::features(&self.0)
    }
    fn prediction(&self) -> Vec<f64> {
        Judged::prediction(&self.0)
    }
    fn channel(&self, c: usize) -> Vec<f64> {
        Judged::channel(&self.0, c)
    }
    fn set_channel(&mut self, c: usize, cells: &[f64]) {
        Judged::set_channel(&mut self.0, c, cells);
    }
    fn set_readout(&mut self, weights: &[f32]) {
        Judged::set_readout(&mut self.0, weights);
    }
    fn reset(&mut self) {
        FieldEngine::reset(&mut self.0);
    }
    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT]) {
        Judged::store_pattern(&mut self.0, slot, volume, context);
    }
    fn blend(&self) -> Vec<(usize, f64)> {
        Judged::blend(&self.0)
    }
    fn nearest(&self) -> Vec<(usize, f64)> {
        Judged::nearest(&self.0)
    }
    fn experiences(&self) -> usize {
        Inspect::experiences(&self.0)
    }
    fn metrics(&self) -> Option<Metrics> {
        Inspect::metrics(&self.0)
    }
    fn measure_now(&mut self) -> Metrics {
        Inspect::measure_now(&self.0)
    }
    fn gain(&self) -> f64 {
        Inspect::plan(&self.0).params.field_gain()
    }
}

/// The CUDA engine, on the stand-in for the CUDA driver or on a GPU.
struct OnDevice(CudaEngine);

impl Judged for OnDevice {
    // In addition to the CPU engine's rounding errors: fused multiply-adds, and a division that is accurate
    // to two units in the last place.
    const ROUNDING: f64 = 2e-7;
    // A cycle takes eight milliseconds on the stand-in. The laws that use this number run only in the long
    // tests with this engine, so both forms are equal.
    const FOR_EVER: (u64, u64) = (300, 300);
    const BOUNDED: u64 = 300;
    const SEEDS: &'static [u64] = &[1];
    fn share(whole: u64, some: u64) -> u64 {
        or_in_full(some, whole)
    }
    fn ready() -> Option<Box<dyn Any>> {
        Some(Box::new(device()?))
    }
    fn new(plan: &FieldPlan) -> Self {
        OnDevice(CudaEngine::open(plan, 1).unwrap_or_else(|why| panic!("{why}")))
    }
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, RefusedInput> {
        refused(FieldEngine::cycle(&mut self.0, input))
    }
    fn features(&self) -> Vec<f64> {
        self.0.features().into_iter().map(f64::from).collect()
    }
    fn prediction(&self) -> Vec<f64> {
        Inspect::prediction(&self.0).to_vec()
    }
    fn channel(&self, c: usize) -> Vec<f64> {
        let mut cells = vec![f32::NAN; self.0.plan().shape.cells()];
        self.0.copy_channel(c, &mut cells);
        cells.iter().take_while(|u| !u.is_nan()).map(|u| f64::from(*u)).collect()
    }
    fn set_channel(&mut self, c: usize, cells: &[f64]) {
        let cells: Vec<f32> = cells.iter().map(|u| *u as f32).collect();
        self.0.set_channel(c, &cells);
    }
    fn set_readout(&mut self, weights: &[f32]) {
        assert!(Inspect::set_readout(&mut self.0, weights));
    }
    fn reset(&mut self) {
        FieldEngine::reset(&mut self.0);
    }
    fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT]) {
        assert!(Inspect::store_pattern(&mut self.0, slot, volume, context, 1.0));
    }
    fn blend(&self) -> Vec<(usize, f64)> {
        let (slots, weights) = Inspect::blend(&self.0);
        slots.iter().copied().zip(weights.iter().copied()).collect()
    }
    fn nearest(&self) -> Vec<(usize, f64)> {
        Inspect::nearest(&self.0).to_vec()
    }
    fn experiences(&self) -> usize {
        Inspect::experiences(&self.0)
    }
    fn metrics(&self) -> Option<Metrics> {
        Inspect::metrics(&self.0)
    }
    fn measure_now(&mut self) -> Metrics {
        Inspect::measure_now(&self.0)
    }
    fn gain(&self) -> f64 {
        Inspect::plan(&self.0).params.field_gain()
    }
}

/// Rows of the read-outs in these tests.
const MOTORS: usize = 4;

/// A small field: 8^3 cells, 20 Hz, nothing learned.
fn plan(sensors: usize) -> FieldPlan {
    FieldPlan {
        engine: EngineKind::Reference,
        shape: Shape { grid: 8, sensors, motors: MOTORS, patterns: 32, bank: 64 },
        params: Params::default(),
        seed: 11,
        dt: Span::from_millis(50),
        every_ticks: 1,
        threads: 1,
        cpus: Vec::new(),
        storage: Storage::F32,
        learn: false,
        start: Vec::new(),
        correction: 1.0,
    }
}

/// Sensors at full quality, without reward.
fn input(cycle: u64, values: &[f64]) -> FieldInput {
    let mut sensors = [0.0; MAX_SENSORS];
    sensors.iter_mut().zip(values).for_each(|(to, from)| *to = *from as f32);
    FieldInput { cycle, sensors, reward: 0.0, quality: QualityLevel::BEST, place: None }
}

/// One cycle with valid inputs.
fn run<E: Judged>(engine: &mut E, input: &FieldInput) -> FieldOutput {
    engine.cycle(input).expect("an input in range is never refused")
}

/// Runs `cycles` at full quality; `values` returns the sensors for a cycle's number.
fn feed<E: Judged>(engine: &mut E, cycles: std::ops::Range<u64>, values: impl Fn(u64) -> Vec<f64>) {
    for cycle in cycles {
        run(engine, &input(cycle, &values(cycle)));
    }
}

/// Uniform in -1..1, a pure function of its arguments.
fn draw(seed: u64, cycle: u64, i: usize) -> f64 {
    2.0 * uniform(seed, Stream::Stimulus, cycle * MAX_SENSORS as u64 + i as u64) - 1.0
}

/// Standard normal, also a pure function of its arguments.
fn noise(seed: u64, cycle: u64, i: usize) -> f64 {
    normal(seed, Stream::SensorNoise, cycle * MAX_SENSORS as u64 + i as u64)
}

/// Rows of random weights with zero output at rest: a possible read-out before learning.
fn random_readout<E: Judged>(engine: &mut E, seed: u64, size: f64) -> Vec<f32> {
    let columns = READOUT_COLUMNS;
    run(engine, &input(0, &[]));
    let at_rest = engine.features();
    engine.reset();
    let row = |m: usize| {
        let weight = |i: usize| (size * normal(seed, Stream::SensorNoise, (m * columns + i) as u64)) as f32;
        let mut row: Vec<f32> = (0..columns).map(weight).collect();
        let said: f64 = row.iter().zip(&at_rest).map(|(w, f)| f64::from(*w) * f).sum();
        row[columns - 1] = -said as f32;
        row
    };
    (0..MOTORS).flat_map(row).collect()
}

/// Tests one engine against every law. Laws that need many cycles get the attribute `$long`, if one is given.
/// A law that needs a finer resolution than a half has is tested only for engines that name it in `$also`.
macro_rules! laws {
    ($name:ident, $(#[$long:meta])? $engine:ty $(, $also:ident)?) => {
        mod $name {
            use super::*;
            laws! { @ [] $engine:
                dynamics::refuses_invalid_sensor_values_without_side_effects,
                dynamics::one_cycle_from_rest_matches_the_formula,
                dynamics::a_cosine_mode_fades_by_its_own_factor,
                dynamics::fields_converge_at_least_as_fast_as_the_gain_allows,
                response::features_match_their_definitions,
                response::metrics_are_taken_every_hundredth_cycle,
                memory::a_stored_pattern_is_found_at_10_db,
                memory::the_blend_shows_in_the_returned_field,
                quality::half_resolution_keeps_means_on_the_way_in_and_out,
            }
            laws! { @ [$(#[$long])?] $engine:
                dynamics::stays_bounded,
                dynamics::without_bias_half_lives_match_the_documented_ones,
                dynamics::the_field_returns_to_rest_after_an_input,
                dynamics::behaviour_does_not_depend_on_the_loop_rate,
                response::stimuli_are_decodable_from_features_and_motors,
                response::same_seed_and_input_give_the_same_bits,
                memory::a_scene_recalls_its_own_pattern,
                memory::the_bank_keeps_what_is_new_and_matters,
                prediction::regular_sensors_are_predicted,
                prediction::noise_is_not_predicted,
                prediction::constant_sensors_for_ever_break_nothing,
                quality::no_change_of_level_makes_the_motors_jump,
                quality::half_lives_do_not_depend_on_the_level,
                $(dynamics::$also,)?
            }
        }
    };
    (@ $long:tt $engine:ty: $($room:ident::$law:ident,)*) => {
        $(laws! { @ $long $engine => $room::$law })*
    };
    (@ [$(#[$long:meta])?] $engine:ty => $room:ident::$law:ident) => {
        #[test]
        $(#[$long])?
        fn $law() {
            let Some(_ready) = <$engine as Judged>::ready() else { return };
            $room::$law::<$engine>();
        }
    };
}

laws!(reference, ReferenceEngine, with_bias_each_channel_fades_by_its_own_slope);
laws!(cpu, CpuEngine, with_bias_each_channel_fades_by_its_own_slope);
// Half precision skips the law of slopes with a bias: that law displaces a field by 1e-3 from values up to
// 0.95, where adjacent halves are 5e-4 apart, and checks a half-life from such a displacement to within 10 %.
laws!(half, Packed);
// On the emulated device a cycle takes a hundred times as long. In daily use, `cuda::engine` compares this
// engine with the reference cycle by cycle instead.
laws!(
    cuda,
    #[ignore = "long: scripts/long-tests"]
    OnDevice,
    with_bias_each_channel_fades_by_its_own_slope
);
