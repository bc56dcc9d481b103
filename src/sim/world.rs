//! The room: four walls, discs, rectangles without floor, a line on the floor. It is laid out once, from a
//! seed or as a file states it, and answers queries about distances, contacts and ground. Of the car, it uses
//! only the outline. A world from a file (`solid`) also has walls inside the room, and discs that move.
//!
//! Metres; the origin is a corner of the room, x and y run along its walls, headings are in radians
//! counter-clockwise from x. Everything uses f64 and `libm`, so that two machines agree to the last bit.

mod solid;

use crate::base::plan::{SimPlan, WorldPlan};
use crate::base::seed::{Stream, uniform};
use libm::{cos, sin};
use solid::Mover;
pub use solid::Wall;
use std::f64::consts::TAU;

/// Half the width of the line on the floor: tape of 2 cm.
const LINE_HALF_WIDTH: f64 = 0.01;
/// Free space around the start, and between a disc and everything else. A car with a turning circle of 0.3 m
/// and a body of 0.25 m gets through anywhere; with less space, a layout could be a trap that says nothing
/// about the software.
const START_FREE: f64 = 0.6;
const DISC_FREE: f64 = 0.5;
/// Number of draws for one disc at one spacing, and how often the spacing shrinks by a fifth before the disc
/// is left out: a room that is too full gets fewer discs instead of an endless search.
const DRAWS: u64 = 200;
const SHRINKS: u32 = 8;

/// Position of the middle of the rear axle, and the car's heading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// Metres.
    pub x: f64,
    /// Metres.
    pub y: f64,
    /// Radians, counter-clockwise from x.
    pub heading: f64,
}

impl Pose {
    /// The point `ahead` metres in front of this pose and `left` metres to its left.
    pub fn point(&self, ahead: f64, left: f64) -> [f64; 2] {
        self.points([[ahead, left]])[0]
    }
    /// Like [`Pose::point`], for several points.
    fn points<const N: usize>(&self, points: [[f64; 2]; N]) -> [[f64; 2]; N] {
        let (sin, cos) = (sin(self.heading), cos(self.heading));
        points.map(|[ahead, left]| [self.x + ahead * cos - left * sin, self.y + ahead * sin + left * cos])
    }
}

/// A car seen from above: a rectangle centred on the middle of the wheelbase, and four wheels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outline {
    /// Distance between the axles.
    pub wheelbase: f64,
    /// Distance between the wheels of one axle.
    pub track: f64,
    /// Length of the body.
    pub length: f64,
    /// Width of the body.
    pub width: f64,
}

impl Outline {
    /// The outline that the board states.
    pub fn of(plan: &SimPlan) -> Outline {
        Outline {
            wheelbase: plan.wheelbase.into(),
            track: plan.track.into(),
            length: plan.body[0].into(),
            width: plan.body[1].into(),
        }
    }
    /// From the rear axle to the front end of the body.
    pub fn front(&self) -> f64 {
        (self.wheelbase + self.length) / 2.0
    }
    /// From the rear axle to the back end of the body (negative).
    fn back(&self) -> f64 {
        (self.wheelbase - self.length) / 2.0
    }
    fn corners(&self, pose: &Pose) -> [[f64; 2]; 4] {
        let half = self.width / 2.0;
        let (front, back) = (self.front(), self.back());
        pose.points([[front, half], [front, -half], [back, half], [back, -half]])
    }
    /// Wheels: rear, rear, front, front.
    fn wheels(&self, pose: &Pose) -> [[f64; 2]; 4] {
        let half = self.track / 2.0;
        pose.points([[0.0, half], [0.0, -half], [self.wheelbase, half], [self.wheelbase, -half]])
    }
    /// The same outline with `margin` added on every side of the body.
    pub fn inflated(&self, margin: f64) -> Outline {
        Outline { length: self.length + 2.0 * margin, width: self.width + 2.0 * margin, ..*self }
    }
}

/// Which axle a wheel is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wheel {
    /// On the front axle.
    Front,
    /// On the rear axle.
    Rear,
}

/// A round obstacle in the room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disc {
    /// Centre.
    pub at: [f64; 2],
    /// Radius.
    pub radius: f64,
}

/// What the car can run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// One of the four walls, a wall inside the room, or a box.
    Wall,
    /// A disc.
    Disc,
}

impl Obstacle {
    /// Its name, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Obstacle::Wall => "wall",
            Obstacle::Disc => "disc",
        }
    }
}

/// The ground at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// Bright floor.
    Floor,
    /// The line.
    Line,
    /// No floor.
    Cliff,
}

/// A room with its contents.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    room: [f64; 2],
    discs: Vec<Disc>,
    cliffs: Vec<[f64; 4]>,
    line: Vec<[f64; 2]>,
    /// Walls inside the room, and the sides of boxes.
    walls: Vec<Wall>,
    movers: Vec<Mover>,
    start: Pose,
}

impl World {
    /// How wide the line on the floor is, metres.
    pub const LINE_WIDTH: f64 = 2.0 * LINE_HALF_WIDTH;

    /// Lays out the room. The same plan and seed always give the same room.
    /// A world that the plan itself describes does not depend on the seed.
    pub fn new(plan: &SimPlan, seed: u64) -> World {
        if let Some(world) = &plan.world {
            return World::stated(world);
        }
        let mut world = World {
            room: plan.room.map(f64::from),
            discs: Vec::new(),
            cliffs: plan.cliffs.iter().map(|cliff| upright(cliff.map(f64::from))).collect(),
            line: plan.line.iter().map(|point| point.map(f64::from)).collect(),
            walls: Vec::new(),
            movers: Vec::new(),
            start: Pose { x: 0.0, y: 0.0, heading: 0.0 },
        };
        let mut draw = Draw { seed, index: 0 };
        world.place_start(&mut draw);
        for _ in 0..plan.discs {
            world.place_disc(plan.disc_radius.into(), &mut draw);
        }
        world
    }

    /// The world that `plan` describes.
    fn stated(plan: &WorldPlan) -> World {
        let sides = plan.boxes.iter().copied().flat_map(Wall::sides);
        World {
            room: plan.size,
            discs: plan.discs.iter().map(|&[x, y, radius]| Disc { at: [x, y], radius }).collect(),
            cliffs: plan.ledges.iter().copied().map(upright).collect(),
            line: plan.line.clone(),
            walls: plan.walls.iter().copied().map(Wall::of).chain(sides).collect(),
            movers: plan.movers.iter().map(Mover::new).collect(),
            start: Pose { x: plan.start[0], y: plan.start[1], heading: plan.heading_deg.to_radians() },
        }
    }

    /// Advances the moving discs by `seconds`; the car's body has this outline and is at `pose`.
    pub fn advance(&mut self, seconds: f64, outline: &Outline, pose: &Pose) {
        self.movers.iter_mut().for_each(|mover| mover.advance(seconds, outline, pose));
    }

    /// Where the car starts.
    pub fn start(&self) -> Pose {
        self.start
    }
    /// Size of the room.
    pub fn room(&self) -> [f64; 2] {
        self.room
    }
    /// Its stationary discs; fewer than the plan asks for if they do not all fit.
    pub fn discs(&self) -> &[Disc] {
        &self.discs
    }

    /// Walls inside the room, and the sides of its boxes.
    pub fn walls(&self) -> &[Wall] {
        &self.walls
    }

    /// The path of the line on the floor, from point to point; empty if there is none.
    pub fn line(&self) -> &[[f64; 2]] {
        &self.line
    }

    /// The moving discs: where each is now, and the points of its round trip.
    pub fn movers(&self) -> impl Iterator<Item = (Disc, &[[f64; 2]])> {
        self.movers.iter().map(|mover| (Disc { at: mover.at(), radius: mover.radius() }, mover.way()))
    }

    /// Every disc; the moving ones at their present positions.
    fn all_discs(&self) -> impl Iterator<Item = Disc> {
        self.discs.iter().copied().chain(self.movers().map(|(disc, _)| disc))
    }

    /// The rectangles without floor, each given by two opposite corners.
    pub fn cliffs(&self) -> &[[f64; 4]] {
        &self.cliffs
    }

    /// Distance from `from` to the first wall or disc in direction `heading`; infinite if there is
    /// none (from outside the room).
    pub fn ray(&self, from: [f64; 2], heading: f64) -> f64 {
        let toward = [cos(heading), sin(heading)];
        let mut nearest = f64::INFINITY;
        for axis in 0..2 {
            if toward[axis] != 0.0 {
                let wall = if toward[axis] > 0.0 { self.room[axis] } else { 0.0 };
                let way = (wall - from[axis]) / toward[axis];
                if way >= 0.0 {
                    nearest = nearest.min(way);
                }
            }
        }
        for disc in self.all_discs() {
            let offset = [disc.at[0] - from[0], disc.at[1] - from[1]];
            let along = offset[0] * toward[0] + offset[1] * toward[1];
            let aside = offset[0] * toward[1] - offset[1] * toward[0];
            let chord = disc.radius * disc.radius - aside * aside;
            if chord >= 0.0 && along >= 0.0 {
                nearest = nearest.min((along - chord.sqrt()).max(0.0));
            }
        }
        self.walls.iter().filter_map(|wall| wall.ray(from, toward)).fold(nearest, f64::min)
    }

    /// The obstacle that a body of this outline would overlap at `pose`.
    pub fn touched(&self, outline: &Outline, pose: &Pose) -> Option<Obstacle> {
        let inside = |[x, y]: [f64; 2]| x > 0.0 && x < self.room[0] && y > 0.0 && y < self.room[1];
        if !outline.corners(pose).into_iter().all(inside)
            || self.walls.iter().any(|wall| wall.touches(outline, pose))
        {
            return Some(Obstacle::Wall);
        }
        let reach = outline.front() + outline.width; // no corner is farther than this from the rear axle
        let near = |disc: &Disc| distance(disc.at, [pose.x, pose.y]) < reach + disc.radius;
        let hit = |disc: &Disc| near(disc) && distance_to_body(outline, pose, disc.at) < disc.radius;
        self.all_discs().any(|disc| hit(&disc)).then_some(Obstacle::Disc)
    }

    /// A wheel of this outline at `pose` that has no floor under it; a front wheel if there is one.
    pub fn wheel_over_cliff(&self, outline: &Outline, pose: &Pose) -> Option<Wheel> {
        if self.cliffs.is_empty() {
            return None;
        }
        let [rear @ .., left, right] = outline.wheels(pose);
        let any = |wheels: &[[f64; 2]]| wheels.iter().any(|wheel| self.is_cliff(*wheel));
        if any(&[left, right]) { Some(Wheel::Front) } else { any(&rear).then_some(Wheel::Rear) }
    }

    /// Whether there is no floor at a point.
    pub fn is_cliff(&self, [x, y]: [f64; 2]) -> bool {
        self.cliffs.iter().any(|[x0, y0, x1, y1]| (*x0..=*x1).contains(&x) && (*y0..=*y1).contains(&y))
    }

    /// What is under `point`.
    pub fn surface(&self, point: [f64; 2]) -> Surface {
        if self.is_cliff(point) {
            return Surface::Cliff;
        }
        let on_line =
            self.line.windows(2).any(|ends| segment_distance(point, ends[0], ends[1]) <= LINE_HALF_WIDTH);
        if on_line { Surface::Line } else { Surface::Floor }
    }

    fn place_start(&mut self, draw: &mut Draw) {
        let mut free = START_FREE;
        for _ in 0..=SHRINKS {
            for _ in 0..DRAWS {
                let at = draw.point(self.room);
                let heading = draw.next() * TAU;
                if self.wall_distance(at) >= free && self.cliff_distance(at) >= free {
                    self.start = Pose { x: at[0], y: at[1], heading };
                    return;
                }
            }
            free *= 0.8;
        }
        // No free place: the board has filled its room with cliffs.
        self.start = Pose { x: self.room[0] / 2.0, y: self.room[1] / 2.0, heading: 0.0 };
    }

    fn place_disc(&mut self, radius: f64, draw: &mut Draw) {
        let (mut spacing, start) = (1.0, [self.start.x, self.start.y]);
        for _ in 0..=SHRINKS {
            for _ in 0..DRAWS {
                let at = draw.point(self.room);
                let free = DISC_FREE * spacing;
                let clear_of_discs =
                    self.discs.iter().all(|other| distance(at, other.at) >= radius + other.radius + free);
                if clear_of_discs
                    && distance(at, start) >= radius + START_FREE
                    && self.wall_distance(at) >= radius + free
                    && self.cliff_distance(at) >= radius + free
                {
                    self.discs.push(Disc { at, radius });
                    return;
                }
            }
            spacing *= 0.8;
        }
    }

    /// Distance from a point to the nearest of the four walls, stationary discs and rectangles without floor,
    /// metres; negative inside a disc or outside the room. Walls inside the room and moving discs do not
    /// count.
    pub fn clearance(&self, at: [f64; 2]) -> f64 {
        let discs = self.discs.iter().map(|disc| distance(at, disc.at) - disc.radius);
        discs.fold(self.wall_distance(at).min(self.cliff_distance(at)), f64::min)
    }

    fn wall_distance(&self, [x, y]: [f64; 2]) -> f64 {
        x.min(y).min(self.room[0] - x).min(self.room[1] - y)
    }

    fn cliff_distance(&self, [x, y]: [f64; 2]) -> f64 {
        let to = |[x0, y0, x1, y1]: &[f64; 4]| distance([x, y], [x.clamp(*x0, *x1), y.clamp(*y0, *y1)]);
        self.cliffs.iter().map(to).fold(f64::INFINITY, f64::min)
    }
}

/// The seed's random numbers for a layout, in order.
struct Draw {
    seed: u64,
    index: u64,
}

impl Draw {
    fn next(&mut self) -> f64 {
        self.index += 1;
        uniform(self.seed, Stream::World, self.index)
    }
    fn point(&mut self, room: [f64; 2]) -> [f64; 2] {
        [self.next() * room[0], self.next() * room[1]]
    }
}

fn upright([x0, y0, x1, y1]: [f64; 4]) -> [f64; 4] {
    [x0.min(x1), y0.min(y1), x0.max(x1), y0.max(y1)]
}

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    libm::hypot(a[0] - b[0], a[1] - b[1])
}

fn segment_distance(point: [f64; 2], a: [f64; 2], b: [f64; 2]) -> f64 {
    let along = [b[0] - a[0], b[1] - a[1]];
    let length_squared = along[0] * along[0] + along[1] * along[1];
    let dot = (point[0] - a[0]) * along[0] + (point[1] - a[1]) * along[1];
    let share = if length_squared > 0.0 { (dot / length_squared).clamp(0.0, 1.0) } else { 0.0 };
    distance(point, [a[0] + share * along[0], a[1] + share * along[1]])
}

/// Distance from `point` to the nearest point of the body; zero inside it.
fn distance_to_body(outline: &Outline, pose: &Pose, point: [f64; 2]) -> f64 {
    let offset = [point[0] - pose.x, point[1] - pose.y];
    let (sin, cos) = (sin(pose.heading), cos(pose.heading));
    // In the car's coordinates: rotated back by its heading.
    let ahead = offset[0] * cos + offset[1] * sin;
    let left = offset[1] * cos - offset[0] * sin;
    let half = outline.width / 2.0;
    let beyond = [ahead - ahead.clamp(outline.back(), outline.front()), left - left.clamp(-half, half)];
    libm::hypot(beyond[0], beyond[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

    fn plan() -> SimPlan {
        SimPlan {
            cliffs: vec![[4.0, 3.0, 3.4, 2.5]],
            line: vec![[0.5, 0.5], [3.0, 0.5], [3.0, 1.5]],
            ..SimPlan::default()
        }
    }

    fn bare(discs: Vec<Disc>) -> World {
        World { discs, ..World::new(&SimPlan { discs: 0, ..plan() }, 1) }
    }

    #[test]
    fn rays_hit_walls_and_discs_at_the_right_distance() {
        let world = bare(vec![Disc { at: [2.0, 1.0], radius: 0.2 }]);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        near(world.ray([1.0, 1.0], 0.0), 0.8);
        near(world.ray([1.0, 1.0], PI), 1.0);
        near(world.ray([1.0, 1.0], FRAC_PI_2), 2.0);
        near(world.ray([1.0, 1.0], -FRAC_PI_2), 1.0);
        near(world.ray([3.0, 2.0], FRAC_PI_4), 2.0_f64.sqrt());
        // A ray that passes just beside the disc continues to the wall.
        near(world.ray([1.0, 1.2001], 0.0), 3.0);
    }

    #[test]
    fn ground_is_floor_line_or_void() {
        let world = bare(Vec::new());
        for (point, surface) in [
            ([1.0, 1.0], Surface::Floor),
            ([1.0, 0.509], Surface::Line),
            ([1.0, 0.511], Surface::Floor),
            ([3.005, 1.2], Surface::Line),
            ([3.5, 2.6], Surface::Cliff),
            ([3.39, 2.6], Surface::Floor),
        ] {
            assert_eq!(world.surface(point), surface, "{point:?}");
        }
    }

    #[test]
    fn a_body_touches_at_corners_and_sides() {
        let world = bare(vec![Disc { at: [2.0, 1.0], radius: 0.1 }]);
        let outline = Outline::of(&plan());
        let at = |x, y, heading| world.touched(&outline, &Pose { x, y, heading });
        assert_eq!(at(1.0, 1.0, 0.0), None);
        let front = outline.front();
        assert_eq!(at(2.0 - 0.1 - front - 0.001, 1.0, 0.0), None);
        assert_eq!(at(2.0 - 0.1 - front + 0.001, 1.0, 0.0), Some(Obstacle::Disc));
        // Passing beside the disc: half a body width away from its rim.
        assert_eq!(at(2.0, 1.0 - 0.1 - 0.065 - 0.001, 0.0), None);
        assert_eq!(at(2.0, 1.0 - 0.1 - 0.065 + 0.001, 0.0), Some(Obstacle::Disc));
        assert_eq!(at(4.0 - front - 0.001, 2.0, 0.0), None);
        assert_eq!(at(4.0 - front + 0.001, 2.0, 0.0), Some(Obstacle::Wall));
        assert_eq!(at(4.0 - front - 0.001, 2.0, 0.1), Some(Obstacle::Wall), "a corner of the turned body");
        assert_eq!(at(0.06, 2.0, FRAC_PI_2), Some(Obstacle::Wall));
    }

    #[test]
    fn layouts_depend_on_the_seed_and_leave_space_for_the_car() {
        assert_eq!(World::new(&plan(), 5), World::new(&plan(), 5));
        assert_ne!(World::new(&plan(), 5), World::new(&plan(), 6));
        let outline = Outline::of(&plan());
        for seed in 0..50 {
            let world = World::new(&plan(), seed);
            assert_eq!(world.discs().len(), 5, "seed {seed}");
            assert_eq!(world.touched(&outline.inflated(0.2), &world.start()), None, "seed {seed}");
            assert_eq!(world.wheel_over_cliff(&outline, &world.start()), None, "seed {seed}");
            for (nth, disc) in world.discs().iter().enumerate() {
                assert!(world.cliff_distance(disc.at) > disc.radius);
                for other in &world.discs()[..nth] {
                    assert!(distance(disc.at, other.at) > disc.radius + other.radius + 0.2);
                }
            }
        }
    }

    #[test]
    fn a_room_that_is_too_full_gets_fewer_discs() {
        let world = World::new(&SimPlan { discs: 500, ..plan() }, 3);
        assert!((6..100).contains(&world.discs().len()), "{}", world.discs().len());
    }
}
