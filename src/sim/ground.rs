//! Three reflectance sensors under the front of the car. They read as counts of the converter: the brighter
//! the ground, the more counts.

use super::noise::Noise;
use super::world::{Outline, Pose, Surface, World};
use crate::base::plan::{ChipSensor, SensorKind, SensorPlan};

/// How far their spots on the ground are behind the front end, metres.
const BEHIND_FRONT_M: f64 = 0.01;
/// Counts over the floor and over the line. The vendor's reference between floor and line is 1000; its limit
/// for "no floor" is 500, so the line must stay above that.
const FLOOR: f64 = 1400.0;
const LINE: f64 = 800.0;
/// Standard deviation in counts: about 1 % of the floor's counts. At most a few readings in a row are equal,
/// so a frozen converter can be told from a quiet one.
const NOISE: f64 = 15.0;

/// The three sensors: left, middle, right.
#[derive(Clone, Debug)]
pub struct Ground {
    noise: [Noise; 3],
    /// Counts where there is no floor.
    edge: f64,
    spots: Spots,
}

impl Ground {
    /// Sensors with independent noise.
    pub fn new(noise: [Noise; 3], edge: f64, spots: Spots) -> Ground {
        Ground { noise, edge, spots }
    }

    /// Counts of sensor `nth` (0 left, 1 middle, 2 right).
    pub fn counts(&mut self, nth: usize, world: &World, pose: &Pose) -> f64 {
        let bright = match world.surface(self.spots.at(pose)[nth]) {
            Surface::Floor => FLOOR,
            Surface::Line => LINE,
            Surface::Cliff => self.edge,
        };
        bright + self.noise[nth].draw(NOISE)
    }
}

/// Where the sensors look, from left to right: metres ahead of the rear axle, metres to the left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spots([[f64; 2]; 3]);

impl Spots {
    /// The outer two are directly ahead of the front wheels, so farther apart than on the vendor's module
    /// (about 4 cm). With that module, a wheel can reach an edge that no sensor has seen; such a fall says
    /// nothing about the software.
    pub fn ahead_of_wheels(outline: &Outline) -> Spots {
        let ahead = outline.front() - BEHIND_FRONT_M;
        Spots([0.5, 0.0, -0.5].map(|share| [ahead, share * outline.track]))
    }

    /// The spots that the board states for channels 0 to 2 of the converter. A channel without one gets its
    /// spot of [`Spots::ahead_of_wheels`].
    pub fn of(sensors: &[SensorPlan], outline: &Outline) -> Spots {
        let mut spots = Spots::ahead_of_wheels(outline);
        for sensor in sensors {
            if let (SensorKind::Chip(ChipSensor::HatAdc { channel, .. }), Some(spot)) =
                (&sensor.kind, sensor.looks_at)
                && let Some(own) = spots.0.get_mut(usize::from(*channel))
            {
                *own = spot.map(f64::from);
            }
        }
        spots
    }

    /// The spots in the room, for a car at `pose`.
    pub fn at(&self, pose: &Pose) -> [[f64; 2]; 3] {
        self.0.map(|[ahead, left]| pose.point(ahead, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::SimPlan;

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
        let noise = [0, 1, 2].map(|sensor| Noise::new(1, sensor));
        let mut ground = Ground::new(noise, plan.edge_counts.into(), Spots::ahead_of_wheels(&outline));
        use Surface::{Cliff, Floor, Line};
        let mut seen = |y| {
            let pose = Pose { x: 2.0, y, heading: 0.0 };
            [0, 1, 2].map(|nth| match ground.counts(nth, &world, &pose) {
                counts if (1300.0..1500.0).contains(&counts) => Floor,
                counts if (700.0..900.0).contains(&counts) => Line,
                counts if (0.0..200.0).contains(&counts) => Cliff,
                counts => panic!("{counts}"),
            })
        };
        // The car faces along x, so its left side is at the greater y.
        assert_eq!(seen(1.03), [Floor, Cliff, Cliff]);
        assert_eq!(seen(1.05), [Floor, Floor, Cliff]);
        assert_eq!(seen(2.0), [Floor, Line, Floor]);
        assert_eq!(seen(2.0 + f64::from(plan.track) / 2.0), [Floor, Floor, Line]);
        assert_eq!(seen(1.5), [Floor, Floor, Floor]);
    }

    #[test]
    fn the_vendors_narrow_module_looks_where_its_board_says() {
        let board = crate::deploy::board::built_in("picarx-v4").unwrap().unwrap().board;
        let outline = Outline::of(&SimPlan::default());
        let spots = Spots::of(&board.sensors, &outline);
        let [left, middle, right] = spots.at(&Pose { x: 1.0, y: 2.0, heading: 0.0 });
        assert!((left[1] - 2.02).abs() < 1e-6 && (right[1] - 1.98).abs() < 1e-6, "{left:?} {right:?}");
        assert!((middle[0] - 1.158).abs() < 1e-6 && (middle[1] - 2.0).abs() < 1e-6, "{middle:?}");
        assert_eq!(Spots::of(&[], &outline), Spots::ahead_of_wheels(&outline));
    }
}
