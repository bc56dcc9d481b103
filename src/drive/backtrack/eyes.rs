//! The sensors that decide how the robot backs off: ground sensors at edges, the range sensor that looks
//! ahead, and rangers that look to one side.

use super::WITHIN_RANGE;
use crate::base::frame::Frame;
use crate::base::plan::{BeamPlan, Board, Cause, Restraint, Rule, Trip};
use std::cmp::Ordering;

/// A ground sensor that sees edges.
#[derive(Clone, Copy, Debug)]
pub struct EdgeSensor {
    /// Its channel in the frame.
    pub channel: usize,
    trip: Trip,
    /// The spot at which it looks, metres ahead of the rear axle and to the left.
    pub spot: [f32; 2],
}

impl EdgeSensor {
    /// The ground sensor of this edge rule, if the board states where it looks.
    pub fn of(board: &Board, rule: &Rule) -> Option<EdgeSensor> {
        let spot = board.sensors[rule.channel].looks_at.filter(|_| rule.cause == Cause::Cliff)?;
        Some(EdgeSensor { channel: rule.channel, trip: rule.trip, spot })
    }

    /// Whether it sees an edge in this frame: its rule's limit is passed.
    pub fn sees(&self, shown: &Frame) -> bool {
        self.trip.trips(shown.samples[self.channel].value)
    }
}

/// A ranger that looks to one side.
#[derive(Clone, Copy, Debug)]
pub struct SideRanger {
    /// Its channel in the frame.
    pub channel: usize,
    /// The distance at which its rule clears, metres.
    clear: f32,
    /// How it is mounted.
    pub beam: BeamPlan,
}

impl SideRanger {
    /// The ranger of this obstacle rule, if it looks to one side and the rule forbids driving forwards.
    pub fn of(board: &Board, rule: &Rule) -> Option<SideRanger> {
        let forbids = rule.cause == Cause::Obstacle && rule.restraint == Restraint::NoForward;
        let trips_near = forbids && matches!(rule.trip, Trip::Below(_));
        let beam = board.sensors[rule.channel].beam.filter(|beam| trips_near && beam.bearing_deg != 0.0)?;
        Some(SideRanger { channel: rule.channel, clear: rule.clear, beam })
    }

    /// Whether it sees an obstacle in this frame: its rule has not cleared.
    pub fn sees(&self, shown: &Frame) -> bool {
        Trip::Below(self.clear).trips(shown.samples[self.channel].value)
    }
}

/// The range sensor that sees obstacles ahead.
#[derive(Clone, Copy, Debug)]
pub struct Sonar {
    pub channel: usize,
    /// The distance at which all its rules have cleared, metres.
    pub clear: f32,
    /// A reading of at least this, metres, may mean that nothing is within its range.
    pub reach: f32,
}

impl Sonar {
    /// The sensor of the obstacle rule that trips farthest away, if the board has such a rule. Sensors that
    /// look to a side do not count.
    pub fn of(board: &Board) -> Option<Sonar> {
        let looks_ahead =
            |rule: &Rule| board.sensors[rule.channel].beam.is_none_or(|beam| beam.bearing_deg == 0.0);
        let limit = |rule: &&Rule| match rule.trip {
            Trip::Below(limit) if rule.cause == Cause::Obstacle && looks_ahead(rule) => Some(limit),
            _ => None,
        };
        let rules = board.reflexes.iter().filter(|rule| limit(rule).is_some());
        let rule = rules.max_by(|a, b| limit(a).partial_cmp(&limit(b)).unwrap_or(Ordering::Equal))?;
        let sensor = &board.sensors[rule.channel];
        let reach = sensor.beam.map_or(WITHIN_RANGE * sensor.valid[1], |beam| beam.reach);
        Some(Sonar { channel: rule.channel, clear: rule.clear, reach })
    }
}
