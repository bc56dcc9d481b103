//! The load with which the navigator is measured: the robot of the board `barn` among scattered discs. The
//! navigator's commands are not carried out. Instead, the robot moves on a circle and never reaches its goal.

use crate::base::seed::{Stream, uniform};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::decision::motion::OdometryPose;
use crate::deploy::board::built_in;
use crate::field::navigate::navigator::{Navigator, Options};
use crate::field::navigate::senses::beams;
use crate::field::navigate::{Beam, Driver, Surroundings};
use std::f64::consts::TAU;

/// Cycles in a round. Each ranger has a new reading in two of them: a reading every 50 ms at 20 ms per cycle.
const ROUND: u64 = 5;
/// The cycles of a round in which the first ranger has a new reading.
const FRESH: [u64; 2] = [0, 2];
/// Number of discs drawn; those too close to the circle are left out.
const DISCS: u64 = 40;
/// Radius of a disc, metres.
const DISC_RADIUS: f64 = 0.1;
/// Half the side of the square that contains the discs' centres, metres.
const AROUND: f64 = 5.0;
/// Radius of the circle on which the robot moves, metres. Its centre is that of the square.
const CIRCLE: f64 = 1.5;
/// Minimum distance of a disc's centre from that circle, metres.
const FREE: f64 = 0.5;
/// Time from one cycle to the next.
const EVERY: Span = Span::from_millis(20);
/// Speed of the robot, m/s: 10 mm per cycle.
const SPEED: f64 = 0.5;
/// The goal, beyond the discs, metres.
const GOAL: [f64; 2] = [8.0, 0.0];

/// The navigator and its surroundings.
pub struct NavigatorLoad {
    navigator: Navigator,
    goal: Option<[f64; 2]>,
    discs: Vec<[f64; 2]>,
    beams: Vec<Beam>,
    cycle: u64,
}

impl NavigatorLoad {
    /// On the way to a goal, or without one.
    pub fn new(has_goal: bool) -> NavigatorLoad {
        let anywhere = |number| AROUND * (2.0 * uniform(1, Stream::World, number) - 1.0);
        let discs = (0..DISCS).map(|disc| [anywhere(2 * disc), anywhere(2 * disc + 1)]);
        let leaves_circle = |[x, y]: &[f64; 2]| (libm::hypot(*x, *y) - CIRCLE).abs() > FREE;
        let barn = built_in("barn").and_then(Result::ok).expect("tests build every shipped board").board;
        NavigatorLoad {
            navigator: Navigator::of(&barn, Options::default()).expect("the board states its body and beams"),
            goal: has_goal.then_some(GOAL),
            discs: discs.filter(leaves_circle).collect(),
            beams: beams(&barn).1,
            cycle: 0,
        }
    }

    /// Runs one cycle and returns its execution time.
    pub fn turn(&mut self) -> Span {
        self.cycle += 1;
        let turned = SPEED * EVERY.as_secs_f64() * self.cycle as f64 / CIRCLE;
        let at = [CIRCLE * libm::cos(turned), CIRCLE * libm::sin(turned)];
        let pose = OdometryPose { at, heading: turned + TAU / 4.0 };
        for (number, beam) in self.beams.iter_mut().enumerate() {
            let is_fresh = FRESH.contains(&((self.cycle + number as u64) % ROUND));
            let [ahead, left] = beam.offset.map(f64::from);
            beam.range = is_fresh.then(|| {
                let direction = pose.heading + f64::from(beam.bearing);
                range(pose.place(ahead, left), direction, &self.discs, beam.max_range)
            });
        }
        let around = Surroundings { pose, elapsed: EVERY, beams: &self.beams };
        let began = MonotonicClock.now();
        let wish = self.navigator.drive(&around, self.goal);
        let span = MonotonicClock.now().since(began);
        std::hint::black_box(wish);
        span
    }
}

/// The distance from `at` to the first disc in this direction, at most `reach`, metres.
fn range(at: [f64; 2], direction: f64, discs: &[[f64; 2]], reach: f32) -> f32 {
    let (sin, cos) = (libm::sin(direction), libm::cos(direction));
    let hits = discs.iter().filter_map(|disc| {
        let [x, y] = [disc[0] - at[0], disc[1] - at[1]];
        let (along, aside) = (x * cos + y * sin, y * cos - x * sin);
        (along > 0.0 && aside.abs() < DISC_RADIUS)
            .then(|| along - libm::sqrt(DISC_RADIUS * DISC_RADIUS - aside * aside))
    });
    hits.fold(f64::from(reach), f64::min) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::navigate::navigator::State;

    #[test]
    fn the_measured_navigator_is_on_its_way_all_the_time() {
        let mut load = NavigatorLoad::new(true);
        let states: Vec<State> = (0..1_000)
            .map(|_| {
                load.turn();
                load.navigator.state()
            })
            .collect();
        let going = states.iter().filter(|state| **state == State::Going).count();
        assert!(going > 900, "under way in {going} of 1000 cycles; the last: {:?}", states[999]);
        assert!(load.beams.iter().any(|beam| beam.hit().is_some()), "a beam sees a disc");
        assert!((9..=10).contains(&load.beams.iter().filter(|beam| beam.range.is_some()).count()));
    }

    #[test]
    fn a_ray_ends_at_the_disc_before_it() {
        assert!((range([0.0; 2], 0.0, &[[1.0, 0.0], [2.0, 0.0]], 4.0) - 0.9).abs() < 1e-6);
        assert_eq!(range([0.0; 2], 0.0, &[[-1.0, 0.0], [1.0, 0.2]], 4.0), 4.0);
    }
}
