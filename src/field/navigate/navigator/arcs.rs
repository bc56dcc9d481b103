//! The arcs that a car can drive, and how much room there is along each. A car that has to turn by a large
//! angle uses this to choose the side, and whether to turn backwards.

use super::super::Body;
use super::super::place_grid::PlaceGrid;
use crate::decision::motion::OdometryPose;
use std::f64::consts::TAU;

/// The arcs, as shares of the sharpest curvature, to the left if positive.
const SHARES: [f32; 11] = [-1.0, -0.75, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 0.75, 1.0];
/// Distance between two points on an arc, metres.
const STEP: f64 = 0.05;
/// Room is measured up to the length over which the sharpest arc turns by this angle, radians: a little more
/// than half a turn.
const TURN: f32 = 3.5;
/// Smallest and largest length up to which room is measured, metres.
const FARTHEST: [f32; 2] = [0.6, 2.0];
/// Cost, in radians off the direction, of an arc whose curvature differs from the wanted one by as much as
/// the sharpest curvature: low, so that an arc with more room is chosen.
const LEAVING: f32 = 0.3;
/// Cost of an arc without any room, in radians off the direction; it falls linearly to 0 at [`ENOUGH`].
const TIGHT: f32 = 2.0;
/// With at least this much room an arc has no such cost, metres: two lengths of a small car.
const ENOUGH: f32 = 0.5;

/// A car without a goal that leaves an arc may take a gentle one instead, up to this share of the sharpest,
/// or one that is no sharper than the wanted one. On any sharper arc, what is on the inner side comes to the
/// front corner without ever being in the cone of a sonar that looks ahead: such an arc must be known to be
/// free ...
const GENTLE: f32 = 0.25;
/// ... for at least this distance, metres.
const KNOWN: f32 = 0.3;

/// Whether the ground along an arc was visited is looked up from this sample on, in units of [`STEP`]: the
/// car has only just been nearer.
const VISITS_FROM: u8 = 6;
/// The last sample, in units of [`STEP`]: as far as the shortest length up to which room is measured.
const VISITS_TO: u8 = 12;

/// The arc that the car takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arc {
    /// Its curvature as a share of the sharpest, to the left if positive.
    pub share: f32,
    /// How far the reference point can go along it, metres.
    pub room: f32,
    /// Smallest angle to the direction that the car reaches along it, radians.
    pub off: f32,
}

/// The room along each arc.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arcs {
    rooms: [f32; SHARES.len()],
}

impl Arcs {
    /// Measures the room along each arc of a car at `pose`.
    pub(super) fn measure(&mut self, body: &Body, grid: &PlaceGrid, pose: OdometryPose) {
        for (room, share) in self.rooms.iter_mut().zip(SHARES) {
            *room = room_along(body, grid, pose, share / body.turning_radius, Way::Forwards);
        }
    }

    /// The best arc towards a direction that is `off` radians from the heading of a car with this turning
    /// radius in metres. `wanted` is the curvature that it would take without obstacles, as a share of the
    /// sharpest.
    pub(super) fn best(&self, off: f32, wanted: f32, radius: f32) -> Arc {
        let arcs = SHARES.iter().zip(self.rooms).map(|(share, room)| {
            let arc = Arc { share: *share, room, off: off_after(off, share / radius, room) };
            let tight = TIGHT * (1.0 - room / ENOUGH).max(0.0);
            (arc, arc.off + LEAVING * (share - wanted).abs() + tight)
        });
        let best = arcs.min_by(|(_, a), (_, b)| a.total_cmp(b));
        let (arc, _) = best.expect("there are arcs");
        // The wanted curvature itself, if this arc is the nearest to it.
        let away = (arc.share - wanted).abs();
        let is_nearest = SHARES.iter().all(|share| (share - wanted).abs() >= away);
        Arc { share: if is_nearest { wanted } else { arc.share }, ..arc }
    }

    /// The arc that a car without a goal takes if it wants to drive forwards along `wanted`, as a share of
    /// the sharpest curvature: the best arc with `enough` room, metres, or `wanted` if there is none.
    /// `known_room` measures the room along an arc over ground that is known to be free. The best arc is the
    /// one nearest to the wanted one, after `cost` was added to its distance.
    pub(super) fn clear(
        &self,
        wanted: f32,
        enough: f32,
        known_room: impl Fn(f32) -> f32,
        cost: impl Fn(f32) -> f32,
    ) -> f32 {
        let nearest = SHARES.into_iter().min_by(|a, b| (a - wanted).abs().total_cmp(&(b - wanted).abs()));
        let arcs = || SHARES.into_iter().zip(self.rooms).filter(|(_, room)| *room >= enough);
        let is_clear = arcs().any(|(share, _)| Some(share) == nearest);
        let is_gentle = |share: f32| share.abs() <= GENTLE.max(wanted.abs());
        let allowed = arcs().map(|(share, _)| share).filter(|share| {
            is_gentle(*share) || Some(*share) == nearest || !is_clear && known_room(*share) >= KNOWN
        });
        let costs = allowed.map(|share| {
            let is_wanted = Some(share) == nearest;
            let away = if is_wanted { 0.0 } else { (share - wanted).abs() };
            (if is_wanted { wanted } else { share }, away + cost(share))
        });
        costs.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(wanted, |(share, _)| share)
    }
}

/// Known free room ahead of a car at `pose` along the arc with this share of the sharpest curvature, metres.
pub(super) fn known_room_ahead(body: &Body, grid: &PlaceGrid, pose: OdometryPose, share: f32) -> f32 {
    room_along(body, grid, pose, share / body.turning_radius, Way::KnownForwards)
}

/// How recently a car at `pose` has driven over the ground along the arc with this share of the sharpest
/// curvature: the mean of [`PlaceGrid::visited`] from [`VISITS_FROM`] to [`VISITS_TO`].
pub(super) fn visits_ahead(body: &Body, grid: &PlaceGrid, pose: OdometryPose, share: f32) -> f32 {
    let samples = (VISITS_FROM..=VISITS_TO).map(|sample| {
        let there = along(pose, STEP * f64::from(sample), share / body.turning_radius);
        grid.visited(there.at)
    });
    samples.sum::<f32>() / (VISITS_TO - VISITS_FROM + 1) as f32
}

/// Known free room along the sharpest arc backwards that turns a car at `pose` to the side of `wanted`,
/// metres.
pub(super) fn room_behind(body: &Body, grid: &PlaceGrid, pose: OdometryPose, wanted: f32) -> f32 {
    let share = if wanted < 0.0 { 1.0 } else { -1.0 };
    room_along(body, grid, pose, share / body.turning_radius, Way::Backwards)
}

/// In which direction the car drives along an arc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Forwards,
    /// Only over ground that is known to be free.
    KnownForwards,
    /// Only over ground that is known to be free.
    Backwards,
}

/// How far the reference point can go along an arc before the body comes too close to something, metres. The
/// body is approximated by two circles, at its front and at its rear.
fn room_along(body: &Body, grid: &PlaceGrid, pose: OdometryPose, curvature: f32, direction: Way) -> f32 {
    let farthest = (TURN * body.turning_radius).clamp(FARTHEST[0], FARTHEST[1]);
    let circles = [f64::from(body.front - body.half_width), f64::from(body.half_width - body.rear)];
    let samples = (f64::from(farthest) / STEP) as usize;
    for sample in 1..=samples {
        let way = STEP * sample as f64 * if direction == Way::Backwards { -1.0 } else { 1.0 };
        let there = along(pose, way, curvature);
        let is_free = |place| match direction {
            Way::Forwards => grid.is_open(place),
            Way::KnownForwards | Way::Backwards => grid.is_known_free(place),
        };
        if !circles.iter().all(|ahead| is_free(there.place(*ahead, 0.0))) {
            return (STEP * (sample - 1) as f64) as f32;
        }
    }
    farthest
}

/// The pose after `way` metres along an arc.
fn along(pose: OdometryPose, way: f64, curvature: f32) -> OdometryPose {
    let half = way * f64::from(curvature) / 2.0;
    let chord = if half.abs() < 1e-6 { way } else { way * libm::sin(half) / half };
    let at = pose.place(chord * libm::cos(half), chord * libm::sin(half));
    OdometryPose { at, heading: pose.heading + 2.0 * half }
}

/// How far off the direction a car still is, at best, on its way along an arc, radians. `off` is how far off
/// it is now.
fn off_after(off: f32, curvature: f32, room: f32) -> f32 {
    let turns = curvature.abs() * room;
    let needs = if off * curvature >= 0.0 { off.abs() } else { TAU as f32 - off.abs() };
    (needs - turns).clamp(0.0, off.abs())
}

#[cfg(test)]
mod tests {
    use super::super::super::Beam;
    use super::super::super::tests::CAR;
    use super::*;

    /// The arcs of a car that sees a thin obstacle at each of these bearings and distances.
    fn arcs(things: &[(f32, f32)]) -> Arcs {
        let pose = OdometryPose { at: [0.05, 0.05], heading: 0.0 };
        let mut grid = PlaceGrid::new(&CAR);
        grid.follow(pose);
        for (bearing, range) in things {
            let range = Some(*range);
            grid.see(
                pose,
                &Beam { bearing: *bearing, offset: [0.0; 2], half_cone: 0.0, range, max_range: 4.0 },
            );
        }
        grid.close(Some(pose.at));
        let mut arcs = Arcs::default();
        arcs.measure(&CAR, &grid, pose);
        arcs
    }

    #[test]
    fn without_obstacles_a_car_takes_the_wanted_curvature() {
        let free = arcs(&[]);
        for (off, wanted) in [(0.1, 0.2), (-0.4, -0.8), (2.5, 1.0)] {
            let arc = free.best(off, wanted, CAR.turning_radius);
            assert_eq!((arc.share, arc.off), (wanted, 0.0));
        }
    }

    #[test]
    fn a_car_turns_the_long_way_if_the_short_one_is_closed() {
        let (off, radius) = (2.6, CAR.turning_radius);
        let left = arcs(&[(0.9, 0.45), (1.2, 0.45)]);
        let arc = left.best(off, 1.0, radius);
        assert!(arc.share < -0.2 && arc.off < 0.3, "{arc:?}");
        let open = arcs(&[]).best(off, 1.0, radius);
        assert!(open.share > 0.2, "{open:?}");
    }

    /// Room that a car without a goal wants ahead, metres.
    const ENOUGH_ROOM: f32 = 0.45;

    #[test]
    fn a_car_leaves_an_arc_that_leads_to_an_obstacle() {
        let clear = |arcs: &Arcs, wanted| arcs.clear(wanted, ENOUGH_ROOM, |_| KNOWN, |_| 0.0);
        assert_eq!(clear(&arcs(&[]), -0.6), -0.6, "nothing is in the way");
        let right = arcs(&[(-0.6, 0.45)]);
        assert!(right.rooms[3] < ENOUGH_ROOM, "{:?}", right.rooms);
        let share = clear(&right, -0.25);
        assert!((0.0..=0.25).contains(&share), "the nearest arc that is clear: {share}");
        assert_eq!(clear(&right, 0.5), 0.5, "on the other side nothing is in the way");
        assert_eq!(arcs(&[]).clear(0.03, ENOUGH_ROOM, |_| 0.0, |_| 0.0), 0.03, "between two arcs");
    }

    #[test]
    fn a_car_turns_sharply_only_over_known_ground() {
        let ahead = arcs(&[(-0.2, 0.5), (0.0, 0.5), (0.2, 0.5)]);
        let clear = |known: fn(f32) -> f32| ahead.clear(0.0, ENOUGH_ROOM, known, |_| 0.0);
        assert_eq!(clear(|_| KNOWN - 0.05), 0.0);
        let share = clear(|_| KNOWN);
        assert!(share.abs() > GENTLE, "{share}");
        assert_eq!(clear(|share| if share > 0.0 { KNOWN } else { 0.0 }), share.abs());
    }

    #[test]
    fn a_car_takes_a_gentle_arc_to_new_ground_and_no_sharp_one() {
        let visited = |share: f32| if share < -0.2 { 0.0 } else { 3.0 };
        let explore = |arcs: &Arcs, wanted| arcs.clear(wanted, ENOUGH_ROOM, |_| KNOWN, visited);
        assert_eq!(explore(&arcs(&[]), 0.0), -GENTLE, "the nearest to the wanted one that is new");
        assert_eq!(explore(&arcs(&[]), 0.1), -GENTLE);
        let right = arcs(&[(-0.6, 0.45)]);
        assert!(right.rooms[3] < ENOUGH_ROOM, "{:?}", right.rooms);
        assert_eq!(explore(&right, 0.0), 0.0, "new ground behind an obstacle stays where it is");
    }

    #[test]
    fn room_ends_before_what_is_in_the_way() {
        let ahead = arcs(&[(0.0, 0.8)]);
        let straight = ahead.rooms[SHARES.len() / 2];
        assert!((0.35..0.6).contains(&straight), "{straight}");
        assert_eq!(
            ahead.rooms[0],
            FARTHEST[0].max(TURN * CAR.turning_radius),
            "a sharp turn stays clear of it"
        );
    }

    #[test]
    fn what_an_arc_turns_is_less_off() {
        assert_eq!(off_after(1.0, 5.0, 0.1), 0.5);
        assert_eq!(off_after(1.0, 5.0, 1.0), 0.0);
        assert_eq!(off_after(1.0, 0.0, 1.0), 1.0);
        assert!((off_after(3.0, -5.0, 0.1) - 2.783_185).abs() < 1e-5);
        assert_eq!(off_after(1.0, -5.0, 0.1), 1.0, "a short turn the wrong way brings it no closer");
    }
}
