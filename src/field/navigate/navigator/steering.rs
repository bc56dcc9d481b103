//! Turns a direction into a wish: curvature, speed, and whether to go forwards or backwards.

use super::super::heading::unit;
use super::super::place_grid::PlaceGrid;
use super::super::{Beam, Body, CLEARANCE, Wish};
use super::arcs::{self, Arcs};
use crate::base::plan::WanderPlan;
use crate::decision::motion::OdometryPose;
use std::cell::LazyCell;
use std::f64::consts::{FRAC_PI_2, PI, TAU};

/// Range ahead of the robot in which closed cells are searched for, metres from the middle of the body.
const AHEAD: [f32; 2] = [0.1, 1.2];
/// Range behind the robot in which closed cells are searched for, metres from the middle of the body.
const BEHIND: [f32; 2] = [0.1, 0.6];
/// Distances measured on the lattice are shortened by this, metres: the sampling error of the path, and a
/// margin.
const LATTICE_ERROR: f32 = 0.065;
/// The body may pass obstacles that a thin beam sees at least this far beside it, metres: an allowance for
/// noise and for steering.
const BESIDE: f32 = 0.03;
/// Share of full speed on free ground. The rest is reserved for corrections.
const CRUISE: f32 = 0.9;
/// Share of the cruising speed that is left at an obstacle.
const CRAWL: f32 = 0.25;
/// Distance over which the robot slows down, metres for each metre per second of its full speed.
const BRAKES_OVER: f32 = 1.2;
/// With less room than this, metres, the robot does not drive on.
const NO_ROOM: f32 = 0.075;
/// It backs up if the room ahead is below this share of the turning radius.
const BACKS_BELOW: f32 = 0.83;
/// It also backs up if no arc brings it within this many radians of the direction.
const FAR_OFF: f32 = 1.0;
/// The room straight ahead counts as this much longer when the robot decides whether to back up, metres: it
/// can still turn away.
const SEEN_AHEAD: f32 = 0.1;
/// Below this share of the sharpest curvature a car drives nearly straight: an obstacle straight ahead is in
/// the way, and a car without a goal may explore.
const STRAIGHT: f32 = 0.3;
/// It backs up only with more than this much known free ground behind it, metres.
const ROOM_BEHIND: f32 = 0.125;
/// It goes forwards again if an arc brings it within this many radians of the direction ...
const NEAR_ENOUGH: f32 = 0.5;
/// ... and only if that arc is free for more than this distance, metres.
const ROOM_AGAIN: f32 = 0.275;
/// It drives forwards for at least this long before it backs up, seconds.
const FORWARDS_FOR: f64 = 0.4;
/// A direction at more than this many radians from the heading is behind the robot. It backs up in that
/// direction, rear first, if no arc forwards brings it within [`FAR_OFF`] of it ...
const REAR_FIRST: f32 = 2.0;
/// ... and the arc backwards that would turn it has no more than this much known free room, metres.
const TOO_TIGHT: f32 = 0.15;
/// It turns backwards for at most this long, seconds.
const BACKS_FOR: f64 = 1.4;
/// It drives backwards at no more than this share of full speed ...
const BACKING: f32 = 0.5;
/// ... and at no more than this speed, metres per second.
const BACKING_SPEED: f32 = 0.3;
/// A body that cannot turn on the spot moves at this speed while it looks around, metres per second.
const LOOKING_SPEED: f32 = 0.12;
/// Share of the sharpest curvature for each radian off the direction.
const GAIN: f64 = 2.0;
/// Smallest curve radius of a body that can turn on the spot, while it drives forwards, metres.
const SOFT_RADIUS: f32 = 0.2;
/// A body that can turn on the spot does so if the direction is more than this many radians off ...
const SPOT_FROM: f64 = 0.9;
/// ... until it is within this many.
const SPOT_UNTIL: f64 = 0.3;
/// Its fastest turn on the spot, radians a second.
const SPOT_RATE: f32 = 1.5;

/// The free room around the body, metres.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// Free room in front of it.
    ahead: f32,
    /// Known free ground behind its rear.
    behind: f32,
    /// The nearest obstacle ahead that a sensor sees now: which sensor, and the obstacle's distance from the
    /// middle of the body.
    nearest: Option<(usize, f32)>,
    last: Option<[f64; 2]>,
    /// Free room along the arcs of a car; unused on a body that turns on the spot.
    arcs: Arcs,
}

impl Room {
    /// Measures the room from what is remembered and from the nearest reading ahead.
    pub(super) fn measure(&mut self, body: &Body, grid: &PlaceGrid, pose: OdometryPose, middle: [f64; 2]) {
        // Cells are already closed half a body's width before the obstacle itself.
        let overhang = (body.half_length() - body.half_width).max(0.0) + LATTICE_ERROR;
        let way = |angle: f64, range, known| grid.free_way(middle, unit(angle), range, known) - overhang;
        let remembered = way(pose.heading, AHEAD, false);
        let seen = self.nearest.map_or(f32::INFINITY, |(_, away)| away - body.half_length());
        self.ahead = remembered.min(seen);
        if !body.turns_on_spot() {
            self.arcs.measure(body, grid, pose);
        }
        self.behind = way(pose.heading + PI, BEHIND, true);
    }

    /// The curvature that a car without a goal takes at `pose` if it would drive forwards with the curvature
    /// `wanted`, both 1/m: one that leads to no remembered obstacle within `plan.clear_m` and is near
    /// `wanted`. In the open it may be one that leads to ground that was not visited for long.
    pub(super) fn wander(
        &self,
        body: &Body,
        grid: &PlaceGrid,
        pose: OdometryPose,
        wanted: f32,
        plan: &WanderPlan,
    ) -> f32 {
        let known_room = |share| arcs::known_room_ahead(body, grid, pose, share);
        let share = wanted * body.turning_radius;
        let explores = share.abs() <= STRAIGHT && plan.new_ground != 0.0;
        let visits = |share| match explores {
            true => plan.new_ground * arcs::visits_ahead(body, grid, pose, share),
            false => 0.0,
        };
        let clear = self.arcs.clear(share, plan.clear_m, known_room, visits);
        if clear == share { wanted } else { clear / body.turning_radius }
    }

    /// Finds the nearest reading in the strip that the body would sweep straight ahead. A reading is kept
    /// until its sensor delivers another; until then, the robot's own forward motion shortens its distance.
    pub(super) fn look_ahead(&mut self, body: &Body, pose: OdometryPose, beams: &[Beam]) {
        if let (Some((_, away)), Some(last)) = (&mut self.nearest, self.last) {
            *away -= (-pose.sees(last)[0]).max(0.0) as f32;
        }
        self.last = Some(pose.at);
        let ahead = |beam: &Beam| f64::from(beam.bearing).abs() < FRAC_PI_2;
        for (sensor, beam) in beams.iter().enumerate().filter(|(_, beam)| ahead(beam)) {
            let Some(range) = beam.range else { continue };
            if self.nearest.is_some_and(|(last, _)| last == sensor) {
                self.nearest = None;
            }
            let left = beam.offset[1] + range * libm::sinf(beam.bearing);
            let away = beam.offset[0] + range * libm::cosf(beam.bearing) - body.middle();
            // Obstacles beside the body do not stop it. A wide beam does not tell where in its cone they are.
            let margin = CLEARANCE.min(BESIDE + range * beam.half_cone);
            let is_ahead = left.abs() < body.half_width + margin && away > body.half_length();
            let is_met = range < beam.max_range && is_ahead;
            if is_met && self.nearest.is_none_or(|(_, nearest)| away < nearest) {
                self.nearest = Some((sensor, away));
            }
        }
    }
}

/// Whether the robot drives forwards or backwards, and since when.
#[derive(Clone, Debug)]
pub(super) struct Steering {
    body: Body,
    backs: bool,
    turns_on_spot: bool,
    /// Seconds since it last changed between forwards and backwards.
    since: f64,
}

impl Steering {
    pub(super) fn new(body: &Body) -> Steering {
        Steering { body: *body, backs: false, turns_on_spot: false, since: FORWARDS_FOR }
    }

    /// Begins anew, driving forwards.
    pub(super) fn forwards(&mut self) {
        *self = Steering::new(&self.body);
    }

    pub(super) fn is_backing(&self) -> bool {
        self.backs
    }

    /// Steers towards a direction that is `off` radians from the heading. `room_behind` measures the room
    /// along the arc backwards that turns a car to the side of its argument. It is called only in a cycle
    /// that could need it: it costs as much as the room along an arc forwards.
    pub(super) fn go(
        &mut self,
        off: f64,
        room: &Room,
        room_behind: impl FnOnce(f32) -> f32,
        seconds: f64,
    ) -> Wish {
        let off = wrapped(off);
        self.since += seconds;
        if !self.body.turns_on_spot() {
            return self.by_arc(off as f32, room, room_behind);
        }
        let limit = if self.turns_on_spot { SPOT_UNTIL } else { SPOT_FROM };
        self.turns_on_spot = off.abs() > limit || (room.ahead < NO_ROOM && off.abs() > 0.05);
        if self.turns_on_spot {
            return self.on_spot((off.abs() as f32 * GAIN as f32).clamp(0.3, SPOT_RATE), off);
        }
        let turn = (GAIN * off).clamp(-1.0, 1.0) as f32 / self.radius();
        forwards(room.ahead, off as f32, turn, self.body.full_speed)
    }

    /// Steers towards the direction, for a body that needs room to turn.
    fn by_arc(&mut self, off: f32, room: &Room, room_behind: impl FnOnce(f32) -> f32) -> Wish {
        let radius = self.radius();
        let wanted = (GAIN as f32 * off).clamp(-1.0, 1.0);
        let arc = room.arcs.best(off, wanted, radius);
        let rear_first =
            LazyCell::new(|| off.abs() > REAR_FIRST && arc.off > FAR_OFF && room_behind(wanted) <= TOO_TIGHT);
        let change = if self.backs {
            let goes_on = arc.off < NEAR_ENOUGH && arc.room > ROOM_AGAIN;
            goes_on || room.behind < NO_ROOM || (self.since > BACKS_FOR && !*rear_first)
        } else {
            let is_tight = arc.room.min(room.ahead.max(0.0) + SEEN_AHEAD) < BACKS_BELOW * radius;
            (is_tight || arc.off > FAR_OFF) && room.behind > ROOM_BEHIND && self.since > FORWARDS_FOR
        };
        if change {
            self.backs = !self.backs;
            self.since = 0.0;
        }
        if self.backs {
            let speed = BACKING.min(BACKING_SPEED / self.body.full_speed);
            let off = if *rear_first { wrapped(f64::from(off) + PI) as f32 } else { off };
            let turn = (GAIN as f32 * off).clamp(-1.0, 1.0);
            return Wish { speed: -speed, curvature: -turn / radius };
        }
        // An obstacle straight ahead is not in the way of a sharp turn.
        let ahead = if arc.share.abs() < STRAIGHT { arc.room.min(room.ahead) } else { arc.room };
        forwards(ahead, off, arc.share / radius, self.body.full_speed)
    }

    /// Turns to the left to look around, in place or in as little room as the body allows.
    pub(super) fn turn(&mut self, room: &Room) -> Wish {
        if self.body.turns_on_spot() {
            return self.on_spot(SPOT_RATE / 2.0, 1.0);
        }
        let has_room = |backs: bool| if backs { room.behind > NO_ROOM } else { room.ahead > NO_ROOM };
        if !has_room(self.backs) {
            self.backs = !self.backs;
        }
        let speed = (LOOKING_SPEED / self.body.full_speed).min(1.0);
        match (has_room(self.backs), self.backs) {
            (false, _) => Wish::STOP,
            (true, false) => Wish { speed, curvature: 1.0 / self.radius() },
            (true, true) => Wish { speed: -speed, curvature: -1.0 / self.radius() },
        }
    }

    fn on_spot(&self, rate: f32, side: f64) -> Wish {
        let speed = (rate * self.body.half_track / self.body.full_speed).min(1.0);
        Wish { speed, curvature: f32::INFINITY.copysign(side as f32) }
    }

    fn radius(&self) -> f32 {
        if self.body.turns_on_spot() { SOFT_RADIUS } else { self.body.turning_radius }
    }
}

/// Drives forwards with this curvature, as fast as the room `ahead` (metres) allows; `off` is the angle to
/// the direction, radians.
fn forwards(ahead: f32, off: f32, curvature: f32, full_speed: f32) -> Wish {
    if ahead < NO_ROOM {
        return Wish { speed: 0.0, curvature };
    }
    let free = ((ahead - 0.025) / (BRAKES_OVER * full_speed)).clamp(0.0, 1.0);
    let straight = 1.0 - 0.5 * (off.abs() / 1.5).min(1.0);
    Wish { speed: CRUISE * (CRAWL + (1.0 - CRAWL) * free) * straight, curvature }
}

/// `angle`, wrapped to -pi..=pi.
fn wrapped(angle: f64) -> f64 {
    angle - TAU * libm::round(angle / TAU)
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::CAR;
    use super::super::arcs::room_behind;
    use super::*;

    const POSE: OdometryPose = OdometryPose { at: [0.05, 0.05], heading: 0.0 };
    /// The direction is almost straight behind the car, a little to the left.
    const OFF: f64 = 3.0;

    /// What a car knows after a look around between two walls, 0.31 m apart, with a third across their ends,
    /// close ahead. The walls begin `begin` metres ahead of the rear axle, and there is nothing behind them;
    /// it has not looked past their beginnings.
    fn between_walls(begin: f32) -> (PlaceGrid, Room) {
        let (aside, ahead, max_range) = (0.155, 0.355, 4.0);
        let beam = |number: u8| {
            let bearing = f32::from(number) * (TAU as f32) / 120.0;
            let (sin, cos) = (libm::sinf(bearing), libm::cosf(bearing));
            let wall = aside / sin.abs();
            let end = if cos > 0.0 { ahead / cos } else { max_range };
            let range = match wall * cos >= begin {
                true => Some(wall.min(end).min(max_range)),
                false => (cos <= 0.0).then_some(max_range),
            };
            Beam { bearing, offset: [0.0; 2], half_cone: 0.0, range, max_range }
        };
        let beams: Vec<Beam> = (0..120).map(beam).collect();
        let middle = POSE.place(f64::from(CAR.middle()), 0.0);
        let (mut grid, mut room) = (PlaceGrid::new(&CAR), Room::default());
        grid.follow(POSE);
        beams.iter().for_each(|beam| _ = grid.see(POSE, beam));
        grid.close(Some(middle));
        room.look_ahead(&CAR, POSE, &beams);
        room.measure(&CAR, &grid, POSE, middle);
        (grid, room)
    }

    /// Its wish, and the known free room along the arc backwards.
    fn wish(begin: f32) -> (Wish, f32) {
        let (grid, room) = between_walls(begin);
        let behind = |wanted| room_behind(&CAR, &grid, POSE, wanted);
        (Steering::new(&CAR).go(OFF, &room, behind, 0.02), behind(1.0))
    }

    #[test]
    fn a_car_turns_backwards_where_it_has_room_for_that() {
        let (wish, behind) = wish(0.15);
        assert!(behind > TOO_TIGHT, "{behind}");
        assert_eq!(
            wish,
            Wish { speed: -BACKING, curvature: -1.0 / CAR.turning_radius },
            "its front goes left"
        );
    }

    #[test]
    fn a_car_goes_rear_first_where_it_cannot_turn_backwards() {
        let (wish, behind) = wish(f32::NEG_INFINITY);
        assert!(behind <= TOO_TIGHT, "{behind}");
        // Its rear points 0.14 rad to the left of the direction: it hardly turns.
        let curvature = GAIN as f32 * (PI - OFF) as f32 / CAR.turning_radius;
        assert!(wish.speed == -BACKING && (wish.curvature - curvature).abs() < 1e-4, "{wish:?}");
    }

    #[test]
    fn only_a_car_that_backs_up_measures_the_room_for_it() {
        let (_, room) = between_walls(f32::NEG_INFINITY);
        let (mut steering, mut measured) = (Steering::new(&CAR), 0);
        let mut cycle = |seconds| {
            let room_behind = |_| {
                measured += 1;
                0.0
            };
            let speed = steering.go(OFF, &room, room_behind, seconds).speed;
            (speed >= 0.0, measured)
        };
        assert_eq!(cycle(0.0), (true, 0), "it has not driven forwards for long enough to back up");
        assert_eq!(cycle(0.02), (false, 1));
        assert_eq!(cycle(BACKS_FOR + 0.1), (false, 2), "it uses the result twice");
    }
}
