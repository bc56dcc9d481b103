//! The tables that host and device share (`kernels/brain.cuh`), byte by byte: little-endian, widest fields
//! first, no padding. Writing and reading them allocates nothing.

use crate::base::command::MAX_MOTORS;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::{FieldPlan, Storage};
use crate::base::time::Span;
use crate::field::FieldOutput;
use crate::field::shape::{BANK_TOP, BLEND_TOP, BRIDGE_S, GROUPS, RECENCY_S, SKILL_HORIZON_S};

/// Bytes of the tables; `brain.cuh` asserts the same.
pub const RULE: usize = 112;
/// See [`RULE`].
pub const CYCLE: usize = 392;
/// See [`RULE`].
pub const ANSWER: usize = 768;
/// See [`RULE`].
pub const REPORT: usize = 2_864;
/// Bytes of a report up to and including its two times: the part that every cycle needs.
pub const TIMED_ANSWER: usize = ANSWER + 2 * size_of::<u64>();
/// See [`RULE`].
pub const SENSES: usize = 17_696;
/// See [`RULE`].
pub const ABOUT: usize = 11_792;
/// See [`RULE`].
pub const SWEEP: usize = 88;
/// See [`RULE`].
pub const MATCH: usize = 16;
/// See [`RULE`].
pub const METRIC: usize = 40;
/// See [`RULE`].
pub const METRICS: usize = 3_856;
/// See [`RULE`].
pub const BRAIN: usize = 552;
/// Lines of the metrics ring.
pub const METRIC_RING: usize = 64;
/// Bytes of the metrics table before the ring, for intermediate sums.
pub const METRICS_BEFORE: usize = 1024;
/// Steps from 0 to the bound in a stored volume.
pub const STEPS: f32 = 32_767.0;
/// Stands for a row's number where there is no row.
pub const NO_ROW: u32 = u32::MAX;

/// Writes numbers one after another to a table.
pub struct Pen<'a> {
    to: &'a mut [u8],
}

/// Reads numbers one after another from a table.
pub struct Eye<'a> {
    from: &'a [u8],
}

macro_rules! written {
    ($($write:ident $number:ty),*) => {
        impl Pen<'_> {
            $(
                /// Writes the next numbers.
                ///
                /// # Panics
                /// If the numbers go beyond the table's end. The table's size is asserted on both sides.
                pub fn $write(&mut self, numbers: &[$number]) -> &mut Self {
                    const WIDTH: usize = size_of::<$number>();
                    let (here, rest) = std::mem::take(&mut self.to).split_at_mut(numbers.len() * WIDTH);
                    for (bytes, number) in here.chunks_exact_mut(WIDTH).zip(numbers) {
                        bytes.copy_from_slice(&number.to_le_bytes());
                    }
                    self.to = rest;
                    self
                }
            )*
        }
    };
}

macro_rules! read {
    ($($read:ident $number:ty),*) => {
        impl Eye<'_> {
            $(
                /// Fills `to` with the next numbers.
                ///
                /// # Panics
                /// If the numbers go beyond the table's end.
                pub fn $read(&mut self, to: &mut [$number]) -> &mut Self {
                    const WIDTH: usize = size_of::<$number>();
                    let (here, rest) = self.from.split_at(to.len() * WIDTH);
                    for (bytes, number) in here.chunks_exact(WIDTH).zip(to) {
                        let mut raw = [0; WIDTH];
                        raw.copy_from_slice(bytes);
                        *number = <$number>::from_le_bytes(raw);
                    }
                    self.from = rest;
                    self
                }
            )*
        }
    };
}

written!(u32s u32, u64s u64, f32s f32, f64s f64);
read!(read_i16s i16, read_u32s u32, read_u64s u64, read_f32s f32, read_f64s f64);

impl<'a> Pen<'a> {
    /// A writer at the beginning of a table.
    pub fn new(to: &'a mut [u8]) -> Pen<'a> {
        Pen { to }
    }
}

impl<'a> Eye<'a> {
    /// A reader at the beginning of a table.
    pub fn new(from: &'a [u8]) -> Eye<'a> {
        Eye { from }
    }
    /// Skips bytes.
    pub fn skip(&mut self, bytes: usize) -> &mut Self {
        self.from = &self.from[bytes..];
        self
    }
    /// The next number.
    pub fn u32(&mut self) -> u32 {
        let mut one = [0];
        self.read_u32s(&mut one);
        one[0]
    }
    /// The next number.
    pub fn u64(&mut self) -> u64 {
        let mut one = [0];
        self.read_u64s(&mut one);
        one[0]
    }
}

/// Bytes of numbers, for tables that are written once.
macro_rules! bytes_of {
    ($($name:ident $number:ty),*) => {
        $(
            /// These numbers in the device's format.
            pub fn $name(numbers: impl IntoIterator<Item = $number>) -> Vec<u8> {
                numbers.into_iter().flat_map(|number| number.to_le_bytes()).collect()
            }
        )*
    };
}

bytes_of!(bytes_of_u32 u32, bytes_of_f32 f32, bytes_of_f64 f64, bytes_of_i16 i16);

/// The bound of cells in this storage.
pub fn reach(plan: &FieldPlan, storage: Storage) -> f32 {
    storage.bound(1.0 - plan.params.beta)
}

/// The constants of the whole run.
pub fn rule(plan: &FieldPlan) -> [u8; RULE] {
    let (p, dt, shape) = (plan.params, plan.dt.as_secs_f64(), plan.shape);
    let is_half = |group: &usize| plan.storage_of(*group) == Storage::F16;
    let halves: u32 = (0..GROUPS).filter(is_half).map(|group| 1 << group).sum();
    let (lambda, bound) = (p.lambda as f32, reach(plan, Storage::F32));
    let mut table = [0; RULE];
    let mut pen = Pen::new(&mut table);
    pen.f64s(&[p.eta, (dt / SKILL_HORIZON_S).min(1.0), libm::exp(-dt / BRIDGE_S), p.blend_temperature]);
    pen.f64s(&[p.novelty_threshold, p.error_threshold, dt / RECENCY_S]);
    pen.f32s(&[p.gamma as f32, bound, reach(plan, Storage::F16), (1.0 - p.pattern_share) as f32]);
    pen.f32s(&[(p.pattern_share * f64::from(bound / STEPS)) as f32, lambda, lambda / 4.0]);
    pen.u32s(&[shape.grid, shape.sensors, shape.motors, shape.patterns, shape.bank].map(|size| size as u32));
    pen.u32s(&[u32::from(plan.learn), halves]);
    table
}

/// One cycle's orders. `brain.cuh` explains the fields.
#[derive(Clone, Debug, Default)]
pub struct Cycle {
    pub number: u64,
    pub keep: f64,
    pub noise: [f64; MAX_MOTORS],
    pub first: bool,
    pub on_half: bool,
    pub moved: bool,
    pub learn_due: bool,
    pub blend_due: bool,
    pub blend_top: u32,
    pub metrics_due: bool,
    pub part: u32,
    pub parts: u32,
    pub count: [u32; GROUPS],
    pub front: [u32; GROUPS],
    pub left: [u32; GROUPS],
    pub stale: [u32; GROUPS],
    pub take: [f32; GROUPS],
    pub hold: [f32; GROUPS],
}

impl Cycle {
    /// The orders for one robot, whose sensors are at address `sensors`.
    pub fn table(&self, sensors: u64, reward: f32, ticket: u32) -> [u8; CYCLE] {
        let mut table = [0; CYCLE];
        let mut pen = Pen::new(&mut table);
        pen.u64s(&[self.number]).f64s(&[self.keep]).f64s(&self.noise).u64s(&[sensors]);
        pen.f32s(&[reward]).u32s(&[ticket]);
        pen.u32s(&[self.first, self.on_half, self.moved, self.learn_due, self.blend_due].map(u32::from));
        pen.u32s(&[self.blend_top, u32::from(self.metrics_due), self.part, self.parts]);
        pen.u32s(&self.count).u32s(&self.front).u32s(&self.left).u32s(&self.stale);
        pen.f32s(&self.take).f32s(&self.hold);
        table
    }
}

/// The result of a cycle, as the host reads it.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub answer: DeviceAnswer,
    /// From when the first kernel has read the orders until the answer is complete, on the device's clock.
    pub lasted: Span,
}

impl Report {
    /// Reads a robot's table.
    pub fn read(from: &[u8; TIMED_ANSWER]) -> Report {
        let mut eye = Eye::new(&from[ANSWER..]);
        let (began, ended) = (eye.u64(), eye.u64());
        Report { answer: DeviceAnswer::read(from), lasted: Span::from_nanos(ended.saturating_sub(began)) }
    }
}

/// The answer of the kernels.
#[derive(Clone, Copy, Debug)]
pub struct DeviceAnswer {
    pub cycle: u64,
    pub prediction: [f64; MAX_SENSORS],
    pub weight: [f64; BLEND_TOP],
    pub cosine: [f64; BANK_TOP],
    pub scores: [f32; MAX_MOTORS],
    pub motors: [f32; MAX_MOTORS],
    pub confidence: f32,
    pub skill: f32,
    pub novelty: f32,
    pub experiences: u32,
    pub blended: u32,
    pub slot: [u32; BLEND_TOP],
    pub nearest: u32,
    pub row: [u32; BANK_TOP],
}

impl DeviceAnswer {
    /// The answer before the first cycle.
    pub const START: DeviceAnswer = DeviceAnswer {
        cycle: 0,
        prediction: [0.0; MAX_SENSORS],
        weight: [0.0; BLEND_TOP],
        cosine: [0.0; BANK_TOP],
        scores: [0.0; MAX_MOTORS],
        motors: [0.0; MAX_MOTORS],
        confidence: 0.0,
        skill: 0.0,
        novelty: 1.0,
        experiences: 0,
        blended: 0,
        slot: [0; BLEND_TOP],
        nearest: 0,
        row: [0; BANK_TOP],
    };

    /// Reads a robot's table.
    pub fn read(from: &[u8]) -> DeviceAnswer {
        let mut answer = DeviceAnswer::START;
        let mut eye = Eye::new(from);
        answer.cycle = eye.u64();
        eye.read_f64s(&mut answer.prediction).read_f64s(&mut answer.weight).read_f64s(&mut answer.cosine);
        eye.read_f32s(&mut answer.scores).read_f32s(&mut answer.motors);
        let mut three = [0.0; 3];
        eye.read_f32s(&mut three);
        [answer.confidence, answer.skill, answer.novelty] = three;
        (answer.experiences, answer.blended) = (eye.u32(), eye.u32());
        eye.read_u32s(&mut answer.slot);
        answer.nearest = eye.u32();
        eye.read_u32s(&mut answer.row);
        answer
    }

    /// Converts it to the output type of all engines.
    pub fn response(&self) -> FieldOutput {
        let DeviceAnswer { cycle, scores, motors, confidence, skill, novelty, .. } = *self;
        FieldOutput { cycle, scores, motors, confidence, skill, novelty }
    }

    /// Writes a robot's table: at the start, or for a restored state.
    pub fn write(&self, to: &mut [u8]) {
        let mut pen = Pen::new(to);
        pen.u64s(&[self.cycle]).f64s(&self.prediction).f64s(&self.weight).f64s(&self.cosine);
        pen.f32s(&self.scores).f32s(&self.motors).f32s(&[self.confidence, self.skill, self.novelty]);
        pen.u32s(&[self.experiences, self.blended]).u32s(&self.slot).u32s(&[self.nearest]).u32s(&self.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_sizes_that_the_kernels_assert() {
        let brain = include_str!("../../../kernels/brain.cuh");
        for (name, bytes) in [
            ("Rule", RULE),
            ("Cycle", CYCLE),
            ("Answer", ANSWER),
            ("Report", REPORT),
            ("Senses", SENSES),
            ("About", ABOUT),
            ("Sweep", SWEEP),
            ("Metric", METRIC),
            ("Metrics", METRICS),
            ("Brain", BRAIN),
        ] {
            assert!(brain.contains(&format!("sizeof({name}) == {bytes}")), "{name}: {bytes}");
        }
    }

    #[test]
    fn answer_survives_a_round_trip() {
        let answer = DeviceAnswer {
            cycle: 7,
            novelty: 0.25,
            row: [5, 4, 3, 2, NO_ROW],
            motors: std::array::from_fn(|i| i as f32),
            ..DeviceAnswer::START
        };
        let mut table = [0; ANSWER];
        answer.write(&mut table);
        assert_eq!(format!("{:?}", DeviceAnswer::read(&table)), format!("{answer:?}"));
    }
}
