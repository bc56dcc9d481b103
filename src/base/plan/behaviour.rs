//! Behaviours as data: which sensors excite which decision field, and what its peak does with the robot.

use super::Scale;
use crate::base::time::Span;

/// What a decision field does with its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Detects: one peak for each strong input, as long as the input lasts.
    Stabilised,
    /// Decides: at most one peak, which stays until its input is gone or another is much stronger.
    Selection,
    /// Remembers: a peak stays when its input is gone.
    Memory,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Preset; 3] = [Preset::Stabilised, Preset::Selection, Preset::Memory];

    /// Its name in board files.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Stabilised => "stabilised",
            Preset::Selection => "selection",
            Preset::Memory => "memory",
        }
    }
}

/// A decision field of the board. Its sites stand for the values of one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionFieldPlan {
    /// Its name.
    pub name: String,
    /// What it does with its input.
    pub preset: Preset,
    /// The values of the first and the last site, in the unit of the quantity, ascending. If the axis is
    /// circular, the second one is the value of the first site after a whole turn.
    pub span: [f32; 2],
    /// Number of sites.
    pub sites: usize,
    /// Whether the last site is a neighbour of the first one.
    pub circular: bool,
    /// Standard deviation of the noise of each site.
    pub noise: f32,
    /// How long a field with the preset `memory` keeps a peak without input; `None`: for ever.
    pub forgets_after: Option<Span>,
    /// What excites it.
    pub inputs: Vec<DecisionInput>,
}

impl DecisionFieldPlan {
    /// The distance between two sites, in the unit of the quantity.
    pub fn spacing(&self) -> f32 {
        let gaps = if self.circular { self.sites } else { self.sites - 1 };
        (self.span[1] - self.span[0]) / gaps as f32
    }
}

/// A bump of excitation that a sensor causes in a decision field.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionInput {
    /// Index of the sensor among the field's inputs.
    pub sensor: usize,
    /// Where the bump is.
    pub at: BumpPlace,
    /// Its standard deviation, in sites.
    pub width: f32,
    /// Its height over the sensor's value: points (sensor on its -1..=1 scale, height), ascending by sensor;
    /// constant outside.
    pub height: Vec<[f32; 2]>,
}

/// Where a sensor's bump is on the axis of a decision field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BumpPlace {
    /// Always at this value.
    Fixed(f32),
    /// At the sensor's own value, which has this scale.
    Measured(Scale),
}

/// How a robot behaves: what it does with the peaks of its decision fields.
#[derive(Clone, Debug, PartialEq)]
pub struct BehaviourPlan {
    /// Its name.
    pub name: String,
    /// Speed of the reference point, as a share of full speed, -1..=1.
    pub speed: PeakCurve,
    /// Curvature of the path, 1/m, positive to the left.
    pub curvature: PeakCurve,
}

/// A piecewise linear curve over the position of a decision field's peak.
#[derive(Clone, Debug, PartialEq)]
pub struct PeakCurve {
    /// Index of the decision field.
    pub field: usize,
    /// Points (position of the peak, value), ascending by position; constant outside.
    pub points: Vec<[f32; 2]>,
    /// The value without a peak.
    pub rest: f32,
}

/// The curve through `points` at `x`: linear between them, constant outside. The points ascend by their
/// first coordinate.
pub fn piecewise_linear(points: &[[f32; 2]], x: f32) -> f32 {
    match points.iter().position(|point| point[0] > x) {
        Some(0) => points[0][1],
        Some(after) => {
            let ([x0, y0], [x1, y1]) = (points[after - 1], points[after]);
            y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        }
        None => points.last().map_or(0.0, |point| point[1]),
    }
}
