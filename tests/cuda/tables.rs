//! The tables of `kernels/brain.cuh` as bytes: field by field, in order, without padding.

use ganglion::base::command::MAX_MOTORS;
use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::{FieldPlan, Storage};
use ganglion::field::shape::{BANK_TOP, BLEND_TOP, GROUP, GROUPS, HALF_SHARE, SLOW_FIRST, sub_steps};

/// Writes numbers one after another.
#[derive(Default)]
pub struct Table(Vec<u8>);

macro_rules! put {
    ($($verb:ident $number:ty),*) => {
        $(
            /// Appends numbers.
            pub fn $verb(mut self, numbers: &[$number]) -> Table {
                self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                self
            }
        )*
    };
}

impl Table {
    put!(u32s u32, u64s u64, f32s f32, f64s f64, i16s i16);

    /// The written bytes, of which there must be `bytes`.
    pub fn of(self, bytes: usize) -> Vec<u8> {
        assert_eq!(self.0.len(), bytes, "the table matches kernels/brain.cuh");
        self.0
    }
    /// The written bytes, of any length.
    pub fn bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads numbers back.
pub struct Reader<'a>(pub &'a [u8]);

macro_rules! take {
    ($($verb:ident $number:ty),*) => {
        $(
            /// The next `count` numbers.
            pub fn $verb(&mut self, count: usize) -> Vec<$number> {
                let (mine, rest) = self.0.split_at(count * size_of::<$number>());
                self.0 = rest;
                let number = |bytes: &[u8]| <$number>::from_le_bytes(bytes.try_into().expect("chunks"));
                mine.chunks_exact(size_of::<$number>()).map(number).collect()
            }
        )*
    };
}

impl Reader<'_> {
    take!(u32s u32, u64s u64, f32s f32, f64s f64, u16s u16, i8s i8);
}

/// Sizes of the tables in bytes, unless a comment says otherwise.
pub const CYCLE: usize = 392;
/// Offset of the sensors' address: after `number`, `keep` and `noise`.
pub const CYCLE_SENSORS: usize = 16 + 8 * MAX_MOTORS;
pub const REPORT: usize = 2_864;
pub const ANSWER: usize = 768;
pub const SENSES: usize = 17_696;
pub const ABOUT: usize = 11_792;
/// Offset of the query in `ABOUT`.
pub const QUERY: usize = 9_216;
pub const SWEEP: usize = 88;
pub const MATCH: usize = 16;
pub const METRIC: usize = 40;
pub const METRIC_RING: usize = 64;
/// Offset where the sums end and the ring begins; counters follow the ring.
pub const METRICS_BEFORE: usize = 1024;
pub const METRICS: usize = METRICS_BEFORE + METRIC_RING * METRIC + 8 + 256 + 8;
pub const BRAIN: usize = 552;

/// Largest f32 that is not above 1 - beta.
pub fn reach(plan: &FieldPlan) -> f32 {
    let nearest = (1.0 - plan.params.beta) as f32;
    if f64::from(nearest) > 1.0 - plan.params.beta { nearest.next_down() } else { nearest }
}

/// Largest binary16 that is not above 1 - beta: between 0.5 and 1 they are 2^-11 apart.
pub fn half_reach(plan: &FieldPlan) -> f32 {
    assert!(reach(plan) >= 0.5, "the spacing below is that of numbers from 0.5 to 1");
    (reach(plan) * 2048.0).floor() / 2048.0
}

/// Whether the cells of a group are kept as binary16.
pub fn is_half(plan: &FieldPlan, group: usize) -> bool {
    let t = if group * GROUP < SLOW_FIRST { plan.params.t_fast } else { plan.params.t_slow };
    plan.storage == Storage::F16 && sub_steps(plan.dt.as_secs_f64(), t).1 >= HALF_SHARE
}

/// What is constant during a run.
pub fn rule(plan: &FieldPlan) -> Vec<u8> {
    let (p, dt) = (plan.params, plan.dt.as_secs_f64());
    let halves = (0..GROUPS).filter(|group| is_half(plan, *group)).map(|group| 1 << group).sum();
    let lambda = p.lambda as f32;
    let shape = plan.shape;
    Table::default()
        .f64s(&[p.eta, (dt / 10.0).min(1.0), libm::exp(-dt / 0.2), p.blend_temperature])
        .f64s(&[p.novelty_threshold, p.error_threshold, dt / 60.0])
        .f32s(&[p.gamma as f32, reach(plan), half_reach(plan), (1.0 - p.pattern_share) as f32])
        .f32s(&[(p.pattern_share * f64::from(reach(plan)) / 32767.0) as f32, lambda, lambda / 4.0])
        .u32s(&[shape.grid, shape.sensors, shape.motors, shape.patterns, shape.bank].map(|size| size as u32))
        .u32s(&[u32::from(plan.learn), halves])
        .of(112)
}

/// The orders of one cycle.
#[derive(Clone, Debug, Default)]
pub struct Cycle {
    pub number: u64,
    pub keep: f64,
    pub noise: [f64; MAX_MOTORS],
    pub reward: f32,
    pub ticket: u32,
    /// In the order of the table: first, on_half, moved, learn_due, blend_due, blend_top, metrics_due, part,
    /// parts.
    pub flags: [u32; 9],
    pub count: [u32; GROUPS],
    pub front: [u32; GROUPS],
    pub left: [u32; GROUPS],
    pub stale: [u32; GROUPS],
    pub take: [f32; GROUPS],
    pub hold: [f32; GROUPS],
}

impl Cycle {
    /// The table without the address of the sensors.
    pub fn bytes(&self) -> Vec<u8> {
        let table = Table::default().u64s(&[self.number]).f64s(&[self.keep]).f64s(&self.noise);
        let table = table.u64s(&[0]).f32s(&[self.reward]).u32s(&[self.ticket]).u32s(&self.flags);
        let table = table.u32s(&self.count).u32s(&self.front).u32s(&self.left).u32s(&self.stale);
        table.f32s(&self.take).f32s(&self.hold).u32s(&[0]).of(CYCLE)
    }
}

/// The kernels' answer.
#[derive(Clone, Debug)]
pub struct DeviceAnswer {
    pub cycle: u64,
    pub prediction: Vec<f64>,
    pub weight: Vec<f64>,
    pub cosine: Vec<f64>,
    pub scores: Vec<f32>,
    pub motors: Vec<f32>,
    pub confidence: f32,
    pub skill: f32,
    pub novelty: f32,
    pub experiences: usize,
    pub blended: usize,
    pub slot: Vec<u32>,
    pub nearest: usize,
    pub row: Vec<u32>,
}

impl DeviceAnswer {
    /// The answer table before the first cycle.
    pub fn at_start() -> Vec<u8> {
        let zeros = vec![0; 8 + 8 * (MAX_SENSORS + BLEND_TOP + BANK_TOP) + 8 * MAX_MOTORS + 8];
        let table = Table(zeros).f32s(&[1.0]); // novelty
        table.u32s(&[0; 2 + BLEND_TOP + 1 + BANK_TOP]).of(ANSWER)
    }

    pub fn read(bytes: &[u8]) -> DeviceAnswer {
        let mut from = Reader(bytes);
        DeviceAnswer {
            cycle: from.u64s(1)[0],
            prediction: from.f64s(MAX_SENSORS),
            weight: from.f64s(BLEND_TOP),
            cosine: from.f64s(BANK_TOP),
            scores: from.f32s(MAX_MOTORS),
            motors: from.f32s(MAX_MOTORS),
            confidence: from.f32s(1)[0],
            skill: from.f32s(1)[0],
            novelty: from.f32s(1)[0],
            experiences: from.u32s(1)[0] as usize,
            blended: from.u32s(1)[0] as usize,
            slot: from.u32s(BLEND_TOP),
            nearest: from.u32s(1)[0] as usize,
            row: from.u32s(BANK_TOP),
        }
    }
}

/// Converts a binary16.
pub fn from_half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2.0_f32.powi(-24),
        31 => f32::NAN, // a field never holds this
        _ => (fraction + 1024.0) * 2.0_f32.powi(exponent - 25),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

/// The nearest binary16 of a number that is 0 or has a magnitude from 2^-14 to 1.
pub fn to_half(value: f32) -> u16 {
    let bits = value.abs().to_bits();
    assert!(bits == 0 || (0x3880_0000..=0x3F80_0000).contains(&bits), "{value} is out of range");
    let rounded = bits.saturating_sub(112 << 23) + 0xFFF + (bits >> 13 & 1);
    (if bits == 0 { 0 } else { (rounded >> 13) as u16 }) | if value < 0.0 { 0x8000 } else { 0 }
}
