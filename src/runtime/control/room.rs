//! The simulated room from above, for users who watch a robot in it. The room's contents are read once; the
//! car's position is read without the simulator's lock.

use crate::base::plan::{Board, ChipSensor, LineSensor, SensorKind};
use crate::sim::{HALF_CONE_DEG, HALF_VIEW_DEG, Plant, Pose, PoseCell};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of things of one kind that a status lists, so that it stays small; the rest is not drawn.
const MOST_THINGS: usize = 64;

/// The room and the car in it. Metres from a corner of the room; radians counter-clockwise from x.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoomStatus {
    /// Its size.
    pub size: [f64; 2],
    /// Round obstacles: x, y, radius.
    pub discs: Vec<[f64; 3]>,
    /// Where there is no floor: two opposite corners.
    pub cliffs: Vec<[f64; 4]>,
    /// Middle of the rear axle, and heading.
    pub pose: [f64; 3],
    /// The pose at the start of the run, which is the origin of the robot's dead reckoning.
    #[serde(default)]
    pub start: [f64; 3],
    /// Length and width of the car.
    pub car: [f64; 2],
    /// Distance from the rear axle to the front end of the car.
    pub front: f64,
    /// The sensor that measures the distance ahead, if there is one.
    pub ranger: Option<String>,
    /// Half of its opening angle, degrees.
    pub half_cone_deg: f64,
}

/// The source of a room's status.
#[derive(Clone)]
pub struct Room {
    fixed: RoomStatus,
    pose: Arc<PoseCell>,
}

impl Room {
    /// The room of the simulated robot `plant`, which is made from `board`.
    pub fn of(plant: &Plant, board: &Board) -> Room {
        let world = plant.world();
        let plan = board.sim.clone().unwrap_or_default();
        let looks = |kind: &SensorKind| {
            let is_sonar = matches!(kind, SensorKind::Lines(LineSensor::HcSr04 { .. }));
            let is_ranger = matches!(kind, SensorKind::Chip(ChipSensor::Vl53l0x { .. }));
            let half = if is_sonar { HALF_CONE_DEG } else { HALF_VIEW_DEG };
            (is_sonar || is_ranger).then_some(half)
        };
        let ranger = board.sensors.iter().find_map(|sensor| Some((&sensor.name, looks(&sensor.kind)?)));
        let discs = world.discs().iter().map(|disc| [disc.at[0], disc.at[1], disc.radius]);
        let [length, width] = plan.body.map(f64::from);
        let start = plant.pose_cell().load();
        let fixed = RoomStatus {
            size: world.room(),
            discs: discs.take(MOST_THINGS).collect(),
            cliffs: world.cliffs().iter().copied().take(MOST_THINGS).collect(),
            pose: [0.0; 3],
            start: [start.x, start.y, start.heading],
            car: [length, width],
            front: (f64::from(plan.wheelbase) + length) / 2.0,
            ranger: ranger.map(|(name, _)| name.clone()),
            half_cone_deg: ranger.map_or(0.0, |(_, half)| half),
        };
        Room { fixed, pose: plant.pose_cell() }
    }

    /// Where the car is now.
    pub fn pose(&self) -> Pose {
        self.pose.load()
    }

    /// The room now.
    pub fn status(&self) -> RoomStatus {
        let pose = self.pose();
        RoomStatus { pose: [pose.x, pose.y, pose.heading], ..self.fixed.clone() }
    }
}
