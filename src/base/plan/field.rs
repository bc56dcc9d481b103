//! The field as configured by a board: which engine, its sizes and parameters, its quality levels and their
//! budget.

use super::piecewise_linear;
use crate::base::time::Span;

/// All parameters that an engine is built from.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldPlan {
    /// Which engine.
    pub engine: EngineKind,
    /// Sizes.
    pub shape: Shape,
    /// Parameters.
    pub params: Params,
    /// Seed of the receptive fields, the biases and the noise.
    pub seed: u64,
    /// Time between two cycles.
    pub dt: Span,
    /// Control periods between two cycles.
    pub every_ticks: u32,
    /// Threads of the CPU engine.
    pub threads: usize,
    /// Cores for these threads, assigned in turn, starting with the field's own thread; empty: any core.
    pub cpus: Vec<usize>,
    /// How the CPU engine stores its cells.
    pub storage: Storage,
    /// Whether the prediction learns and the bank stores.
    pub learn: bool,
    /// The board's hand-written starting table.
    pub start: Vec<StartCurve>,
    /// How far the field may move each motor from what the starting table requests, as a share of full scale,
    /// 0..=1. Without a table the field alone decides.
    pub correction: f32,
}

/// Which engine computes the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The best engine that this machine has; the choice is reported.
    #[default]
    Auto,
    /// The plain f64 engine: the reference, and for research.
    Reference,
    /// The f32 engine.
    Cpu,
    /// The engine on a GPU.
    Cuda,
    /// The engine of a remote brain, over the tether.
    Remote,
}

impl EngineKind {
    /// Every engine.
    pub const ALL: [EngineKind; 5] =
        [EngineKind::Auto, EngineKind::Reference, EngineKind::Cpu, EngineKind::Cuda, EngineKind::Remote];

    /// Its name in board files and recordings.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Auto => "auto",
            EngineKind::Reference => "reference",
            EngineKind::Cpu => "cpu",
            EngineKind::Cuda => "cuda",
            EngineKind::Remote => "remote",
        }
    }

    /// The engine of that name.
    pub fn named(name: &str) -> Option<EngineKind> {
        EngineKind::ALL.into_iter().find(|engine| engine.name() == name)
    }
}

/// How the cells of the field are stored between two cycles. Arithmetic is f32 either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// Four bytes per cell.
    #[default]
    F32,
    /// Two bytes per cell (IEEE 754 binary16) in every group of channels that moves by at least
    /// [`crate::field::shape::HALF_SHARE`] of the way in a cycle; four bytes in the other groups.
    F16,
}

impl Storage {
    /// Its name on the command line and in board files.
    pub const fn name(self) -> &'static str {
        match self {
            Storage::F32 => "f32",
            Storage::F16 => "f16",
        }
    }
}

/// Sizes that are set at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Cells per axis: 8, 16, 32 or 64.
    pub grid: usize,
    /// Sensors, 1..=64.
    pub sensors: usize,
    /// Rows of the motor read-out, 1..=16.
    pub motors: usize,
    /// Capacity of the pattern library.
    pub patterns: usize,
    /// Capacity of the experience bank.
    pub bank: usize,
}

/// Parameters of the cycle; the defaults are those of `docs/field.md`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Diffusion rate, at most 1/6: beyond it the explicit 7-point step is unstable.
    pub lambda: f64,
    /// Slope inside the tanh.
    pub gamma: f64,
    /// Leak: |u| always stays within 1 - beta.
    pub beta: f64,
    /// Gain of the drive.
    pub gain: f64,
    /// Weight of the prediction error relative to the sensor value in the drive.
    pub eta: f64,
    /// Share of the blended pattern in channels 32..48.
    pub pattern_share: f64,
    /// Time constant of content and pattern channels, seconds.
    pub t_fast: f64,
    /// Time constant of slow channels, seconds.
    pub t_slow: f64,
    /// Novelty above which an experience may be stored.
    pub novelty_threshold: f64,
    /// Mean |error| above which an experience may be stored without reward.
    pub error_threshold: f64,
    /// Temperature of the softmax over library cosines.
    pub blend_temperature: f64,
    /// Forgetting factor of the prediction's recursive least squares, per second of run time.
    pub forget_per_s: f64,
    /// Amplitude of exploration noise before the tanh.
    pub explore: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            lambda: 0.1,
            gamma: 0.9,
            beta: 0.05,
            gain: 4.0,
            eta: 0.5,
            pattern_share: 0.1,
            t_fast: 0.05,
            t_slow: 1.0,
            novelty_threshold: 0.1,
            error_threshold: 0.25,
            blend_temperature: 0.1,
            forget_per_s: 0.99,
            explore: 0.0,
        }
    }
}

/// One line of the hand-written starting table: what one sensor requests of a motor, as a piecewise linear
/// curve over the sensor's value on its -1..=1 scale. The curves of a motor add up.
#[derive(Clone, Debug, PartialEq)]
pub struct StartCurve {
    /// Index of the motor.
    pub motor: usize,
    /// Index of the sensor among the field's inputs.
    pub sensor: usize,
    /// Points (sensor on its -1..=1 scale, motor -1..=1), ascending by sensor; constant outside.
    pub points: Vec<[f32; 2]>,
}

impl StartCurve {
    /// The curve's value at `x`: linear between its points, constant outside.
    pub fn at(&self, x: f32) -> f32 {
        piecewise_linear(&self.points, x)
    }
}

impl FieldPlan {
    /// What the starting table requests for `motor`, not limited to -1..=1; `sensors` are on their scales.
    pub fn start_wants(&self, motor: usize, sensors: &[f32]) -> f32 {
        let curves = self.start.iter().filter(|curve| curve.motor == motor);
        curves.map(|curve| curve.at(sensors[curve.sensor])).sum()
    }

    /// Turns the result of the read-out, -1..=1 per motor, into a request: what the starting table requests
    /// for these `sensors`, plus the result times `correction`. Without a table the result is the request.
    pub fn correct_start(&self, motors: &mut [f32], sensors: &[f32]) {
        if self.start.is_empty() {
            return;
        }
        for (motor, request) in motors.iter_mut().take(self.shape.motors).enumerate() {
            let wanted = self.start_wants(motor, sensors) + self.correction * *request;
            *request = wanted.clamp(-1.0, 1.0);
        }
    }
}

/// The board's compute budget for the field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetPlan {
    /// Compute time that one field cycle may take.
    pub target: Span,
    /// Moving up requires that the predicted time at the better level is below `target * headroom` (0..1).
    pub headroom: f32,
    /// Moving up requires that this condition holds for this long without a break (dwell).
    pub dwell: Span,
    /// The lowest quality level that the budget may choose.
    pub floor: QualityLevel,
}

/// Number of quality levels.
pub const QUALITY_LEVELS: usize = 6;

/// A quality level, from 0 (full quality) to 5.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "u8", into = "u8")]
pub struct QualityLevel(u8);

/// A number that is not a quality level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoQualityLevel(u8);

impl std::fmt::Display for NoQualityLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is not a quality level (0 to {})", self.0, QUALITY_LEVELS - 1)
    }
}

impl TryFrom<u8> for QualityLevel {
    type Error = NoQualityLevel;
    fn try_from(number: u8) -> Result<QualityLevel, NoQualityLevel> {
        QualityLevel::new(number).ok_or(NoQualityLevel(number))
    }
}

impl From<QualityLevel> for u8 {
    fn from(quality: QualityLevel) -> u8 {
        quality.0
    }
}

impl QualityLevel {
    /// Full quality.
    pub const BEST: QualityLevel = QualityLevel(0);
    /// The minimum work that is still a field cycle.
    pub const WORST: QualityLevel = QualityLevel(QUALITY_LEVELS as u8 - 1);

    /// The level with that number, if there is one.
    pub const fn new(number: u8) -> Option<QualityLevel> {
        if (number as usize) < QUALITY_LEVELS { Some(QualityLevel(number)) } else { None }
    }
    /// The level's number; 0 is the best.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The next cheaper level; the cheapest stays the same.
    pub fn cheaper(self) -> QualityLevel {
        QualityLevel((self.0 + 1).min(QualityLevel::WORST.0))
    }
    /// The next better level; the best stays the same.
    pub const fn better(self) -> QualityLevel {
        QualityLevel(self.0.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_straight_between_its_points_and_flat_outside() {
        let points = vec![[-0.5, -1.0], [0.0, 0.0], [0.5, 0.2]];
        let curve = StartCurve { motor: 0, sensor: 0, points };
        for (x, y) in [(-1.0, -1.0), (-0.5, -1.0), (-0.25, -0.5), (0.25, 0.1), (0.5, 0.2), (1.0, 0.2)] {
            assert!((curve.at(x) - y).abs() < 1e-6, "{x}");
        }
    }
}
