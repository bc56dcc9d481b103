//! The simulated room from above, for users who watch a robot in it. The room's contents are read once; what
//! moves is read without the simulator's lock.

use crate::base::plan::{Board, ChipSensor, LineSensor, SensorKind};
use crate::field::navigate::goals::Place;
use crate::sim::{HALF_CONE_DEG, HALF_VIEW_DEG, Plant, Pose, PoseCell};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How many discs and how many places without floor a status lists. A world file may have more of everything:
/// the rest is not drawn. The limits keep a room to 20 kB of JSON, which must fit into an answer of the
/// control socket beside everything else. The cell that moving discs are read from has a limit of its own.
const MOST_THINGS: usize = 64;
/// How many walls: for example the sides of 64 boxes.
const MOST_WALLS: usize = 256;
/// How many points of the line on the floor: 12 m of a curve with a point every 5 cm.
const MOST_LINE_POINTS: usize = 256;

/// The room and the car in it. Metres from a corner of the room; radians counter-clockwise from x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoomStatus {
    /// Its size.
    pub size: [f64; 2],
    /// Round obstacles that stay where they are: x, y, radius.
    pub discs: Vec<[f64; 3]>,
    /// Walls inside the room and the sides of boxes, from one point to another: x0, y0, x1, y1.
    #[serde(default)]
    pub walls: Vec<[f64; 4]>,
    /// Where there is no floor: two opposite corners.
    pub cliffs: Vec<[f64; 4]>,
    /// The points of the line on the floor.
    #[serde(default)]
    pub line: Vec<[f64; 2]>,
    /// Round obstacles that move, where they are now: x, y, radius.
    #[serde(default)]
    pub movers: Vec<[f64; 3]>,
    /// The goal of the robot, if it has one. The robot drives to it by dead reckoning, so it may stop beside
    /// it.
    #[serde(default)]
    pub goal: Option<[f64; 2]>,
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
    /// What stays the same for the whole run.
    fixed: RoomStatus,
    /// The radius of each moving disc.
    radii: Vec<f64>,
    cell: Arc<PoseCell>,
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
        let walls = world.walls().iter().map(|wall| [wall.from[0], wall.from[1], wall.to[0], wall.to[1]]);
        let [length, width] = plan.body.map(f64::from);
        let start = plant.pose_cell().load();
        let fixed = RoomStatus {
            size: world.room(),
            discs: discs.take(MOST_THINGS).map(mm).collect(),
            walls: walls.take(MOST_WALLS).map(mm).collect(),
            cliffs: world.cliffs().iter().copied().take(MOST_THINGS).map(mm).collect(),
            line: world.line().iter().copied().take(MOST_LINE_POINTS).map(mm).collect(),
            movers: Vec::new(),
            goal: None,
            pose: [0.0; 3],
            start: [start.x, start.y, start.heading],
            car: [length, width],
            front: (f64::from(plan.wheelbase) + length) / 2.0,
            ranger: ranger.map(|(name, _)| name.clone()),
            half_cone_deg: ranger.map_or(0.0, |(_, half)| half),
        };
        let radii = world.movers().map(|(disc, _)| disc.radius).collect();
        Room { fixed, radii, cell: plant.pose_cell() }
    }

    /// Where the car is now.
    pub fn pose(&self) -> Pose {
        self.cell.load()
    }

    /// The room now, with the place that the robot goes to.
    pub fn status(&self, goal: Option<Place>) -> RoomStatus {
        let pose = self.pose();
        let movers = self.cell.movers().zip(&self.radii).map(|([x, y], radius)| mm([x, y, *radius]));
        let [x, y, heading] = self.fixed.start;
        let start = Pose { x, y, heading };
        RoomStatus {
            pose: [pose.x, pose.y, pose.heading],
            movers: movers.collect(),
            goal: goal.map(|[ahead, left]| mm(start.point(ahead, left))),
            ..self.fixed.clone()
        }
    }
}

/// Rounded to millimetres: more digits would only make the status longer.
fn mm<const N: usize>(metres: [f64; N]) -> [f64; N] {
    metres.map(|metres| (metres * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::LONGEST_LINE;
    use super::*;
    use crate::base::plan::{MoverPlan, WorldPlan};
    use crate::base::time::{Instant, SimClock};
    use crate::deploy::board::built_in;
    use crate::sim::DRAWN_MOVERS;

    /// The room of the desk robot, and the robot itself, in the world of `plan`.
    fn room(plan: WorldPlan) -> (Room, Plant) {
        let mut board = built_in("sim").unwrap().unwrap().board;
        board.sim.as_mut().unwrap().world = Some(plan);
        let plant = Plant::new(&board, 1, &[], Arc::new(SimClock::new()));
        (Room::of(&plant, &board), plant)
    }

    /// An empty hall in which the car starts at (50, 60), facing along y.
    fn hall() -> WorldPlan {
        WorldPlan {
            size: [100.0, 100.0],
            start: [50.0, 60.0],
            heading_deg: 90.0,
            goal: None,
            discs: Vec::new(),
            boxes: Vec::new(),
            walls: Vec::new(),
            ledges: Vec::new(),
            line: Vec::new(),
            movers: Vec::new(),
        }
    }

    fn mover() -> MoverPlan {
        MoverPlan { radius: 0.2, speed: 0.5, way: vec![[1.0, 1.0], [9.0, 1.0]] }
    }

    #[test]
    fn the_room_has_the_contents_of_the_world_file() {
        let (room, plant) = room(WorldPlan {
            walls: vec![[4.0, 0.0, 4.0, 1.5]],
            boxes: vec![[2.0, 0.5, 2.4, 1.0]],
            line: vec![[0.5, 0.5], [5.0, 0.5]],
            movers: vec![mover()],
            ..hall()
        });
        let status = room.status(Some([2.0, 1.0]));
        let sides = [[2.0, 0.5, 2.4, 0.5], [2.4, 0.5, 2.4, 1.0], [2.4, 1.0, 2.0, 1.0], [2.0, 1.0, 2.0, 0.5]];
        assert_eq!(status.walls, [&[[4.0, 0.0, 4.0, 1.5]][..], &sides].concat());
        assert_eq!(status.line, [[0.5, 0.5], [5.0, 0.5]]);
        assert_eq!(status.movers, [[1.0, 1.0, 0.2]]);
        assert_eq!(status.goal, Some([49.0, 62.0]), "2 m along y, and 1 m to the left of it");
        plant.advance(Instant::from_nanos(2_000_000_000));
        let later = room.status(None);
        assert_eq!((&later.movers[..], later.goal), (&[[2.0, 1.0, 0.2]][..], None), "half a metre a second");
    }

    #[test]
    fn a_full_room_takes_less_than_a_third_of_an_answer() {
        let place = 12.345_678;
        let (room, _plant) = room(WorldPlan {
            discs: vec![[place; 3]; 2_000],
            walls: vec![[place; 4]; 2_000],
            ledges: vec![[place; 4]; 2_000],
            line: vec![[place; 2]; 2_000],
            movers: vec![mover(); 2_000],
            ..hall()
        });
        let status = room.status(Some([place; 2]));
        let counts = [status.discs.len(), status.walls.len(), status.cliffs.len(), status.line.len()];
        assert_eq!(counts, [MOST_THINGS, MOST_WALLS, MOST_THINGS, MOST_LINE_POINTS]);
        assert_eq!(status.movers.len(), DRAWN_MOVERS);
        let bytes = serde_json::to_vec(&status).unwrap().len();
        assert!((10_000..LONGEST_LINE / 3).contains(&bytes), "{bytes} bytes");
    }
}
