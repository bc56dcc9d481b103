//! The navigator in the simulated robot: what its memory is worth in dead ends, how it chooses between two
//! gaps, and what it says when it cannot reach a goal.

use crate::allocation::allocations_in;
use crate::long::or_in_full;
use ganglion::base::command::MAX_MOTORS;
use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::WorldPlan;
use ganglion::base::time::{Instant, Span};
use ganglion::decision::motion::OdometryPose;
use ganglion::deploy::board::built_in;
use ganglion::field::navigate::goals::{FieldAnswer, GoalStage, Route, Task};
use ganglion::field::navigate::navigator::{Because, Navigator, Options, Reason, State};
use ganglion::field::navigate::senses::{MAX_BEAMS, NavigationInput, beams};
use ganglion::field::navigate::{Body, Driver, Surroundings, Wish};
use ganglion::workshop::barn::course::{BARN_RULES, Course, built_in as built_in_worlds};
use ganglion::workshop::barn::drive::{Outcome, Run};
use ganglion::workshop::barn::rooms::rooms;
use ganglion::workshop::barn::{Conditions, Pilot, race};
use std::sync::atomic::AtomicBool;

/// The runs of one pilot on `board`, one in each world; the number of a world is also the seed of its run.
fn runs(board: &str, pilot: Pilot, worlds: Vec<WorldPlan>) -> Vec<Run> {
    let course = |(number, plan)| Course { number: number as u32, plan, path_m: 1.0, rules: BARN_RULES };
    let courses: Vec<Course> = worlds.into_iter().enumerate().map(course).collect();
    let board = built_in(board).expect("a board").expect("a sound one").board;
    let end = AtomicBool::new(false);
    let runs = race(&board, &[pilot], &courses, Conditions::Good, 2, &end, || ());
    runs.expect("it drives").expect("to the end").remove(0)
}

/// An empty room of 6 m, with the robot at `start`, heading along y, turned `off` radians to the left.
fn room(start: [f64; 2], off: f64, goal: [f64; 2]) -> WorldPlan {
    let heading_deg = 90.0 + off.to_degrees();
    WorldPlan { size: [6.0; 2], start, heading_deg, goal: Some(goal), ..WorldPlan::default() }
}

/// Dead ends of three widths and three depths, open towards the robot, with the goal behind them; four
/// headings in each.
fn dead_ends() -> Vec<WorldPlan> {
    let (widths, depths, headings) = or_in_full(
        (&[0.6][..], &[1.8][..], &[-0.17][..]),
        (&[0.6, 0.8, 1.0], &[1.2, 1.8, 2.4], &[-0.17, -0.06, 0.06, 0.17]),
    );
    let mut worlds = Vec::new();
    for (width, depth) in widths.iter().flat_map(|width| depths.iter().map(move |depth| (width, depth))) {
        for off in headings {
            let [left, right, end] = [3.0 - width / 2.0, 3.0 + width / 2.0, 2.6 + depth];
            let mut world = room([3.0, 2.2], *off, [3.0, 5.4]);
            world.walls = vec![[left, 2.6, left, end], [right, 2.6, right, end], [left, end, right, end]];
            worlds.push(world);
        }
    }
    worlds
}

fn reversals(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.reversals).sum()
}

fn count(runs: &[Run], outcome: Outcome) -> usize {
    runs.iter().filter(|run| run.outcome == outcome).count()
}

#[test]
fn dead_ends_are_escaped_with_memory_only() {
    for board in ["barn", "barn-car"] {
        let worlds = dead_ends();
        let all = worlds.len();
        let with = runs(board, Pilot::Navigator, worlds.clone());
        assert_eq!(count(&with, Outcome::Contact), 0, "{board}: {with:?}");
        assert!(count(&with, Outcome::Reached) + or_in_full(0, 1) >= all, "{board}: {with:?}");
        let without = runs(board, Pilot::NoMemory, worlds);
        println!(
            "{board}: with memory {} of {all}, without {}",
            count(&with, Outcome::Reached),
            count(&without, Outcome::Reached)
        );
        assert!(count(&without, Outcome::Reached) <= or_in_full(0, 5), "{board}: {without:?}");
    }
}

/// A wall with two gaps that are equally far from the robot, and equally far from the goal behind the wall.
fn two_gaps(off: f64) -> WorldPlan {
    let mut world = room([3.0, 1.2], off, [3.0, 5.2]);
    world.walls = vec![[0.0, 3.0, 2.2, 3.0], [2.75, 3.0, 3.25, 3.0], [3.8, 3.0, 6.0, 3.0]];
    world
}

#[test]
fn one_of_two_gaps_is_chosen_and_kept() {
    let number = or_in_full(4, 40);
    let worlds: Vec<WorldPlan> =
        (0..number).map(|run| two_gaps(0.1 * (f64::from(run) / f64::from(number) - 0.5))).collect();
    let found = runs("barn", Pilot::Navigator, worlds.clone());
    assert_eq!(count(&found, Outcome::Contact), 0, "{found:?}");
    assert!(count(&found, Outcome::Reached) + or_in_full(0, 1) >= found.len(), "{found:?}");
    let side = |run: &Run| run.path.iter().find(|[_, y]| *y > 3.2).map(|[x, _]| *x < 3.0);
    let left = found.iter().filter(|run| side(run) == Some(true)).count();
    println!(
        "barn: {} of {} reached, {left} to the left, reversals {}",
        count(&found, Outcome::Reached),
        found.len(),
        reversals(&found)
    );
    let expected = or_in_full(1..=3, 12..=28);
    assert!(expected.contains(&left), "{left} of {} went left", found.len());

    // A body that turns on the spot never reverses; a car that changes its mind may have to.
    let car = runs("barn-car", Pilot::Navigator, worlds);
    assert_eq!(count(&car, Outcome::Contact), 0, "{car:?}");
    assert!(count(&car, Outcome::Reached) + or_in_full(0, 1) >= car.len(), "{car:?}");
    assert!(reversals(&car) <= 2 * car.len() as u64, "{car:?}");
}

/// Without the heading field the car takes the best direction of each moment: it arrives as well, but weaves.
#[test]
fn the_heading_field_keeps_the_car_from_weaving() {
    let mut courses = built_in_worlds().expect("the built-in worlds");
    courses.truncate(or_in_full(2, 10));
    let board = built_in("barn-car").expect("a board").expect("a sound one").board;
    let pilots = [Pilot::Navigator, Pilot::Argmax];
    let runs = race(&board, &pilots, &courses, Conditions::Good, 2, &AtomicBool::new(false), || ());
    let runs = runs.expect("it drives").expect("to the end");
    let [field, argmax] = [0, 1].map(|pilot| runs[pilot].iter().map(|run| run.swings).sum::<u64>());
    println!("changes of the side to which it turns: {field} with the heading field, {argmax} without");
    assert!(field > 0 && argmax >= 5 * field, "{field} and {argmax}");
}

/// Without the arcs and without assuming the unseen sides of things, the car touched something in 14 of the
/// first 100 rooms and reached the goal in 78.
#[test]
fn a_car_with_one_sonar_reaches_goals_in_rooms() {
    let board = built_in("sim").expect("a board").expect("a sound one").board;
    let (body, sim) = (Body::of(&board).expect("a body"), board.sim.as_ref().expect("a simulator"));
    let rooms = rooms(sim, body.keeps_clear().into(), or_in_full(12, 100));
    let end = AtomicBool::new(false);
    let found = race(&board, &[Pilot::Navigator], &rooms, Conditions::Good, 2, &end, || ());
    let found = found.expect("it drives").expect("to the end").remove(0);
    assert!(count(&found, Outcome::Contact) <= or_in_full(0, 2), "{found:?}");
    assert!(count(&found, Outcome::Reached) >= or_in_full(11, 90), "{found:?}");
}

/// Runs of the car in an alley of this width, whose end it faces and in which it cannot turn around. Its goal
/// is behind it.
fn in_alley(width: f64) -> Vec<Run> {
    let mut world = room([3.0, 3.6], 0.0, [3.0, 1.0]);
    let [left, right] = [3.0 - width / 2.0, 3.0 + width / 2.0];
    world.walls = vec![[left, 2.4, left, 4.0], [right, 2.4, right, 4.0], [left, 4.0, right, 4.0]];
    let found = runs("barn-car", Pilot::Navigator, vec![world; or_in_full(1, 20)]);
    println!("alley of {width} m: {} of {} reached", count(&found, Outcome::Reached), found.len());
    assert_eq!(count(&found, Outcome::Contact), 0, "{found:?}");
    found
}

#[test]
fn the_car_backs_out_of_an_alley_too_narrow_to_turn() {
    for (width, misses) in [(0.6, or_in_full(0, 5)), (0.7, 0), (0.8, 0)] {
        let found = in_alley(width);
        assert!(count(&found, Outcome::Reached) + misses >= found.len(), "{width} m: {found:?}");
        assert!(found.iter().all(|run| run.reversals > 0), "{width} m: {found:?}");
    }
}

/// The lattice closes the cells near its walls, which leaves a strip of one or two cells.
#[test]
fn the_car_stays_in_an_alley_of_half_a_metre() {
    let board = built_in("barn-car").expect("a board").expect("a sound one").board;
    let keeps_clear = Body::of(&board).expect("a body").keeps_clear();
    assert_eq!((keeps_clear * 100.0).round(), 17.0, "the distance that docs/goals.md states");
    let stuck = State::GivenUp(Reason::Stuck).why();
    for run in in_alley(0.5) {
        assert_eq!((run.outcome, run.why), (Outcome::Timeout, stuck), "{run:?}");
    }
}

#[test]
fn a_goal_behind_a_wall_is_given_up() {
    let mut wall = room([3.0, 2.0], 0.0, [3.0, 5.5]);
    wall.walls = vec![[0.0, 3.5, 6.0, 3.5]];
    let run = runs("barn", Pilot::Navigator, vec![wall]).remove(0);
    assert_eq!(run.outcome, Outcome::Timeout, "{run:?}");
    assert!(run.why.is_some(), "{run:?}");
}

#[test]
fn a_robot_without_readings_stops_until_it_has_some() {
    let board = built_in("barn").expect("a board").expect("a sound one").board;
    let mut navigator = Navigator::of(&board, Options::default()).expect("a navigator");
    let (_, mut seen) = beams(&board);
    let mut states = |range: Option<f32>, cycles: u32| -> Vec<(State, bool)> {
        seen.iter_mut().for_each(|beam| beam.range = range);
        let cycle = |_| {
            let pose = OdometryPose::default();
            let around = Surroundings { pose, elapsed: Span::from_millis(20), beams: &seen };
            let wish = navigator.drive(&around, Some([3.0, 0.0]));
            (navigator.state(), wish == Wish::STOP)
        };
        (0..cycles).map(cycle).collect()
    };
    assert_eq!(states(Some(4.0), 100).last(), Some(&(State::Going, false)));
    // It bridges 0.7 s from memory, which is 35 cycles.
    let blind = states(None, 40);
    assert_eq!(blind[33], (State::Going, false));
    assert_eq!(blind[35], (State::Looking(Because::Blind), true));
    assert_eq!(states(Some(4.0), 1), [(State::Going, false)]);
}

#[test]
fn a_cycle_with_an_order_allocates_nothing() {
    let route = Route::try_from(vec![[3.0, 0.5]]).expect("a route");
    for task in [Task::Go(route), Task::Behave(0)] {
        assert_eq!(allocations_with(task), 0, "{task:?}");
    }
}

/// Allocations in 499 cycles with this order.
fn allocations_with(task: Task) -> u64 {
    let board = built_in("barn").expect("a board").expect("a sound one").board;
    let navigator = Navigator::of(&board, Options::default()).expect("a navigator");
    let (mut stage, _orders) = GoalStage::of(&board, Box::new(navigator), task, 1).expect("it moves");
    let mut motors = [0.0; MAX_MOTORS];
    let mut cycle = |number: u64| {
        let at = [number as f64 * 0.002, 0.0];
        let pose = OdometryPose { at, heading: 0.3 };
        let mut ranges = [1.2; MAX_BEAMS];
        ranges[number as usize % MAX_BEAMS] = f32::NAN;
        let slot = Instant::ZERO + Span::from_millis(20).times(number);
        let answer = FieldAnswer { sensors: &[-0.5; MAX_SENSORS], motors: &mut motors };
        stage
            .advance(&NavigationInput { pose, turns_measured: None, ranges, armed: true }, slot, Some(answer))
            .state
    };
    let allocations = allocations_in(|| (1..500).for_each(|number| _ = cycle(number)));
    let is_active = !matches!(cycle(500), State::Idle | State::Standing);
    assert!(is_active, "{task:?} was not carried out");
    allocations
}
