//! Where a range sensor of the simulated car is mounted, and the nearest thing that it faces.
//!
//! Everything within its cone counts, at any angle. Two sensors never disturb each other, although the sonars
//! of a real robot can hear each other's echoes if they ping at the same time.

use super::world::{Outline, Pose, World};
use crate::base::plan::BeamPlan;

/// Step between the rays of a cone: a disc of 12 cm radius within 4 m cannot hide between two of them.
const RAY_STEP_DEG: f64 = 1.0;

/// The mounting and the cone of a range sensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eye {
    /// Metres ahead of the rear axle, and metres left of the centre line.
    at: [f64; 2],
    /// Degrees from straight ahead, positive to the left.
    bearing_deg: f64,
    half_cone_deg: f64,
}

impl Eye {
    /// At the front of the body, facing straight ahead.
    pub fn ahead(outline: &Outline, half_cone_deg: f64) -> Eye {
        Eye { at: [outline.front(), 0.0], bearing_deg: 0.0, half_cone_deg }
    }

    /// As `beam` says.
    pub fn of_beam(beam: BeamPlan) -> Eye {
        Eye {
            at: beam.at.map(f64::from),
            bearing_deg: beam.bearing_deg.into(),
            half_cone_deg: beam.half_cone_deg.into(),
        }
    }

    /// A sensor with this cone, mounted as `beam` says. Without a `beam`, or with one that faces straight
    /// ahead on the centre line, it is at the front of the body.
    pub fn mounted(beam: Option<BeamPlan>, outline: &Outline, half_cone_deg: f64) -> Eye {
        let aside = beam.filter(|beam| beam.bearing_deg != 0.0 || beam.at[1] != 0.0);
        match aside {
            Some(beam) => Eye { half_cone_deg, ..Eye::of_beam(beam) },
            None => Eye::ahead(outline, half_cone_deg),
        }
    }

    /// Distance to the nearest thing in the cone of a car at `pose`, metres.
    pub fn nearest(&self, world: &World, pose: &Pose) -> f64 {
        let [ahead, left] = self.at;
        let from = pose.point(ahead, left);
        let rays = (2.0 * self.half_cone_deg / RAY_STEP_DEG) as u32; // at most 180
        (0..=rays)
            .map(|ray| self.bearing_deg - self.half_cone_deg + f64::from(ray) * RAY_STEP_DEG)
            .map(|degrees| world.ray(from, pose.heading + degrees.to_radians()))
            .fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::SimPlan;

    const HALF_CONE_DEG: f64 = 15.0;

    fn room() -> (World, Outline) {
        let plan = SimPlan { room: [4.0, 3.0], discs: 0, cliffs: vec![], ..SimPlan::default() };
        (World::new(&plan, 1), Outline::of(&plan))
    }

    #[test]
    fn the_cone_sees_walls_ahead_and_at_the_side() {
        let (world, outline) = room();
        let eye = Eye::ahead(&outline, HALF_CONE_DEG);
        let at = |x, y, heading| eye.nearest(&world, &Pose { x, y, heading });
        assert!((at(1.0, 1.5, 0.0) - (3.0 - outline.front())).abs() < 1e-12);
        // The car is parallel to a wall at 0.2 m: the edge of the cone reaches the wall first.
        let expected = 0.2 / libm::sin(15.0_f64.to_radians());
        assert!((at(1.0, 0.2, 0.0) - expected).abs() < 1e-9);
    }

    #[test]
    fn a_sensor_looks_where_its_beam_says() {
        let (world, outline) = room();
        let pose = Pose { x: 2.0, y: 1.0, heading: 0.0 };
        let beam = |at, bearing_deg| Some(BeamPlan { at, bearing_deg, half_cone_deg: 25.0, reach: 2.0 });
        let see = |beam| Eye::mounted(beam, &outline, HALF_CONE_DEG).nearest(&world, &pose);
        let near = |metres: f64, expected: f64| (metres - expected).abs() < 1e-6;
        assert!(near(see(beam([0.1, 0.05], 90.0)), 1.95), "left: the wall at y = 3");
        assert!(near(see(beam([0.1, -0.05], -90.0)), 0.95), "right: the wall at y = 0");
        assert!(near(see(beam([-0.1, 0.0], 180.0)), 1.9), "behind: the wall at x = 0");
        assert!(near(see(beam([0.1, 0.04], 0.0)), 1.9), "ahead, beside the centre line: the wall at x = 4");
        let front = see(None);
        assert!(near(front, 2.0 - outline.front()), "{front}");
        assert_eq!(see(beam([0.1, 0.0], 0.0)), front, "on the centre line it is at the front of the body");
    }
}
