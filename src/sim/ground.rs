//! Three reflection sensors under the front of the car: counts of the converter, more is brighter.

use super::noise::Noise;
use super::world::{Outline, Pose, Surface, World};

/// How far behind the front end they look down, metres.
const BEHIND_FRONT_M: f64 = 0.01;
/// Counts over each ground. The vendor's reference between floor and line is 1000; its limit for
/// "no floor" is 500, so the line has to stay above that and the cliff well below.
const FLOOR: f64 = 1400.0;
const LINE: f64 = 800.0;
const CLIFF: f64 = 120.0;
/// Standard deviation in counts: 1 % of the floor. It takes a few readings at most until two of them
/// differ, so that a frozen converter can be told from a quiet one.
const NOISE: f64 = 15.0;

/// The three sensors: left, middle, right.
#[derive(Clone, Debug)]
pub struct Ground {
    noise: [Noise; 3],
}

impl Ground {
    /// Sensors with their own noise each.
    pub fn new(noise: [Noise; 3]) -> Ground {
        Ground { noise }
    }

    /// Counts of sensor `nth` (0 left, 1 middle, 2 right).
    pub fn counts(&mut self, nth: usize, world: &World, outline: &Outline, pose: &Pose) -> f64 {
        let bright = match world.surface(spots(outline, pose)[nth]) {
            Surface::Floor => FLOOR,
            Surface::Line => LINE,
            Surface::Cliff => CLIFF,
        };
        bright + self.noise[nth].draw(NOISE)
    }
}

/// Where the sensors look, from left to right: the outer two right ahead of the front wheels. That is wider
/// than the vendor's module (about 4 cm): an edge that a wheel can reach unseen is no test of the software.
pub fn spots(outline: &Outline, pose: &Pose) -> [[f64; 2]; 3] {
    let ahead = outline.front() - BEHIND_FRONT_M;
    [0.5, 0.0, -0.5].map(|share| pose.point(ahead, share * outline.track))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SimPlan;

    #[test]
    fn each_sensor_sees_its_own_spot() {
        let plan = SimPlan {
            discs: 0,
            cliffs: vec![[2.0, 0.0, 4.0, 1.04]],
            line: vec![[0.0, 2.0], [4.0, 2.0]],
            ..SimPlan::default()
        };
        let world = World::new(&plan, 1);
        let outline = Outline::of(&plan);
        let mut ground = Ground::new([0, 1, 2].map(|sensor| Noise::new(1, sensor)));
        use Surface::{Cliff, Floor, Line};
        let mut seen = |y| {
            let pose = Pose { x: 2.0, y, heading: 0.0 };
            [0, 1, 2].map(|nth| match ground.counts(nth, &world, &outline, &pose) {
                counts if (1300.0..1500.0).contains(&counts) => Floor,
                counts if (700.0..900.0).contains(&counts) => Line,
                counts if (0.0..200.0).contains(&counts) => Cliff,
                counts => panic!("{counts}"),
            })
        };
        // Looking along x, left is the greater y.
        assert_eq!(seen(1.03), [Floor, Cliff, Cliff]);
        assert_eq!(seen(1.05), [Floor, Floor, Cliff]);
        assert_eq!(seen(2.0), [Floor, Line, Floor]);
        assert_eq!(seen(2.0 + f64::from(plan.track) / 2.0), [Floor, Floor, Line]);
        assert_eq!(seen(1.5), [Floor, Floor, Floor]);
    }
}
