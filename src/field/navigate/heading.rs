//! Where to go next: a ring of directions, on which a decision field with the preset `selection` reads the
//! slope of the goal wave. The field's peak is the chosen direction. The peak keeps to one way round an
//! obstacle, where a plain maximum would switch between two equally good ways.

use super::Body;
use super::goal_wave::GoalWave;
use super::place_grid::PlaceGrid;
use crate::field::decision_field::{Axis, DecisionField, DecisionFieldError, Preset, Settings};
use std::f64::consts::{PI, TAU};

/// Number of directions on the ring, as in COSIVINA's presets: one every 3.6 degrees.
pub const SITES: usize = 100;
/// The slope is read this far ahead of the body's middle, metres: beyond the front of a small body.
const AHEAD: f32 = 0.4;
/// The slope is read no nearer than this, metres: one cell.
const NEAREST: f32 = 0.1;
/// A direction that is open for less than this is blocked, metres.
const OPEN: f32 = 0.25;
/// For a body whose clearance plus this margin is more than [`OPEN`], that sum is the limit, metres.
const OPEN_MARGIN: f32 = 0.08;
/// The input of the best direction: well above the detection threshold (4.45), so that a peak forms in a few
/// cycles.
const BEST_INPUT: f32 = 6.5;
/// A direction whose slope is this much below that of the best direction gets 1/e of the best one's input. On
/// a straight path the slope over 0.4 m is 1.82.
const SHARPNESS: f32 = 0.4;
/// The input of a blocked direction: it ends a peak there.
const BLOCKED_INPUT: f32 = -4.0;
/// If no direction has more than this slope over 0.4 m, the wave shows no way: it is only the flat residue of
/// a wave that no longer comes from a goal.
const FLAT: f32 = 0.2;
/// Strength of the noise: enough to choose between equal ways, too little to leave the chosen one.
const NOISE: f32 = 0.3;

/// How the direction is chosen from the slopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chooser {
    /// By a decision field.
    #[default]
    Field,
    /// The direction with the largest input. Only for comparison: it shows the benefit of the field.
    Argmax,
}

/// The ring of directions.
#[derive(Clone, Debug)]
pub struct Heading {
    field: DecisionField,
    chooser: Chooser,
    /// A unit vector for each site.
    directions: Vec<[f64; 2]>,
    input: Vec<f32>,
    /// How far ahead the slope is read, metres.
    ahead: f32,
    /// A direction must be open for this distance, metres.
    open: f32,
}

impl Heading {
    /// No direction chosen.
    pub fn new(body: &Body, chooser: Chooser, seed: u64) -> Result<Heading, DecisionFieldError> {
        let open = OPEN.max(body.keeps_clear() + OPEN_MARGIN);
        Ok(Heading {
            field: DecisionField::new(settings(seed))?,
            chooser,
            directions: (0..SITES).map(|site| unit(angle(site as f32))).collect(),
            input: vec![BLOCKED_INPUT; SITES],
            ahead: AHEAD + (open - OPEN),
            open,
        })
    }

    /// The chosen direction after `steps` steps of the field, radians from x towards y. `middle` is the
    /// middle of the body, `to_goal` the distance to the goal in metres.
    pub fn choose(
        &mut self,
        grid: &PlaceGrid,
        wave: &GoalWave,
        middle: [f64; 2],
        to_goal: f32,
        steps: usize,
    ) -> Option<f64> {
        let has_way = self.read(grid, wave, middle, to_goal);
        match self.chooser {
            Chooser::Argmax => {
                let best = (0..SITES).max_by(|a, b| self.input[*a].total_cmp(&self.input[*b]))?;
                has_way.then(|| angle(best as f32))
            }
            Chooser::Field => {
                for _ in 0..steps {
                    self.field.step(&self.input);
                }
                self.field.highest_peak().map(|peak| angle(peak.at[0]))
            }
        }
    }

    /// Drops the chosen direction.
    pub fn rest(&mut self) {
        self.field.rest();
    }

    /// Computes the input of each direction. Returns whether any of them leads to the goal.
    fn read(&mut self, grid: &PlaceGrid, wave: &GoalWave, middle: [f64; 2], to_goal: f32) -> bool {
        let here = wave.at(middle);
        let farthest = self.ahead.min(to_goal).max(NEAREST);
        let mut best = f32::NEG_INFINITY;
        for (slope, direction) in self.input.iter_mut().zip(&self.directions) {
            *slope = f32::NEG_INFINITY;
            let clear = grid.free_way(middle, *direction, [NEAREST, self.ahead + 0.05], false);
            if clear < self.open.min(farthest) || here == 0.0 {
                continue;
            }
            let way = clear.min(farthest);
            let there = wave.at([0, 1].map(|axis| middle[axis] + f64::from(way) * direction[axis]));
            if there > 0.0 {
                *slope = libm::logf(there / here) * (AHEAD / way);
                best = best.max(*slope);
            }
        }
        let has_way = best > FLAT;
        for input in &mut self.input {
            let slope = *input;
            *input = if has_way && slope.is_finite() {
                BEST_INPUT * libm::expf((slope - best) / SHARPNESS)
            } else {
                BLOCKED_INPUT
            };
        }
        has_way
    }
}

/// The settings of the ring's field.
pub fn settings(seed: u64) -> Settings {
    let ring = [Axis { sites: SITES, circular: true }];
    Settings { noise: NOISE, seed, ..Settings::preset(Preset::Selection, &ring) }
}

/// The angle of a site on the ring, radians; site 0 is at -pi.
fn angle(site: f32) -> f64 {
    TAU * f64::from(site) / SITES as f64 - PI
}

/// The unit vector of a direction.
pub(super) fn unit(angle: f64) -> [f64; 2] {
    [libm::cos(angle), libm::sin(angle)]
}
