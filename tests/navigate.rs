//! The navigator in closed loop with a small kinematic robot: what memory and field are worth, and what the
//! robot says when it cannot reach a goal.

mod course;

use crate::long::or_in_full;
use course::{CAR, DIFFERENTIAL, Robot, Run, Weather, World};
use ganglion::base::seed::{Stream, normal};
use ganglion::decision::motion::OdometryPose;
use ganglion::field::navigate::Body;
use ganglion::field::navigate::heading::Chooser;
use ganglion::field::navigate::navigator::{Because, Navigator, Options, Reason, State};
use std::f64::consts::FRAC_PI_2;

/// An empty room of 6 m, with the robot at `at` heading along y.
fn room(at: [f64; 2], heading: f64) -> World {
    let start = OdometryPose { at, heading: FRAC_PI_2 + heading };
    World { room: [6.0; 2], discs: Vec::new(), start }
}

/// A dead end of this width and depth between the robot and the goal at (3, 5.5).
fn trap(width: f64, depth: f64, heading: f64) -> World {
    let mut world = room([3.0, 2.75], heading);
    let [left, right, end] = [3.0 - width / 2.0 - 0.04, 3.0 + width / 2.0 + 0.04, 3.04 + depth];
    world.wall([left, 3.0], [left, end]);
    world.wall([right, 3.0], [right, end]);
    world.wall([left, end], [right, end]);
    world
}

/// A wall with two gaps, both as far from the robot as from each other.
fn gaps(heading: f64) -> World {
    let mut world = room([3.0, 1.2], heading);
    for [from, to] in [[0.0, 2.25], [2.75, 3.25], [3.75, 6.0]] {
        world.wall([from, 3.0], [to, 3.0]);
    }
    world
}

fn drive(world: &World, body: Body, options: Options, weather: Weather, goal: [f64; 2]) -> (Run, State) {
    let mut navigator = Navigator::new(body, options).expect("the body is in range");
    let mut run = Run::default();
    Robot::new(world, body, weather).drive(&mut navigator, goal, 60.0, &mut run);
    (run, navigator.state())
}

/// The dead ends of a test: width, depth, heading of the robot.
fn traps() -> Vec<[f64; 3]> {
    let (widths, depths, headings) = or_in_full(
        (&[0.7][..], &[0.9][..], &[-0.06, 0.17][..]),
        (&[0.5, 0.7, 0.9], &[0.6, 0.9, 1.2], &[-0.17, -0.06, 0.06, 0.17]),
    );
    let mut traps = Vec::new();
    for width in widths {
        for depth in depths {
            traps.extend(headings.iter().map(|heading| [*width, *depth, *heading]));
        }
    }
    traps
}

/// In how many of the dead ends the goal behind them is reached, with no contact in any.
fn escapes(body: Body, options: Options) -> usize {
    let mut escaped = 0;
    for (seed, [width, depth, heading]) in traps().into_iter().enumerate() {
        let weather = Weather { seed: seed as u64, noise: 0.01, ..Weather::default() };
        let world = trap(width, depth, heading);
        let (run, state) = drive(&world, body, Options { seed: seed as u64, ..options }, weather, [3.0, 5.5]);
        println!(
            "{width} {depth} {heading}: {:?} contacts {} reversals {} {state:?} at {:?}",
            run.reached,
            run.contacts,
            run.reversals,
            run.path.last()
        );
        escaped += usize::from(run.reached.is_some() && run.contacts == 0);
    }
    escaped
}

#[test]
fn dead_ends_are_escaped_with_memory_only() {
    let all = traps().len();
    let with = escapes(CAR, Options::default());
    let without = escapes(CAR, Options { remembers: false, ..Options::default() });
    assert!(with + or_in_full(0, 1) >= all && without <= or_in_full(0, 5), "{with}, {without} of {all}");
}

#[test]
fn a_body_that_turns_on_the_spot_escapes_too() {
    assert_eq!(escapes(DIFFERENTIAL, Options::default()), traps().len());
}

/// For each of the runs through one of two gaps: the side, if it got through, and its reversals.
fn choices(chooser: Chooser) -> Vec<(Option<f64>, u64)> {
    let runs = or_in_full(3, 40);
    let run = |seed: u64| {
        let world = gaps(0.05 * normal(seed, Stream::World, 0));
        let weather = Weather { seed, noise: 0.01, ..Weather::default() };
        let options = Options { seed, chooser, ..Options::default() };
        let (run, state) = drive(&world, CAR, options, weather, [3.0, 5.2]);
        let side = run.path.iter().find(|[_, y]| *y > 3.25).map(|[x, _]| *x);
        println!(
            "{chooser:?} {seed} side {side:?} reached {:?} contacts {} reversals {} {state:?}",
            run.reached, run.contacts, run.reversals
        );
        (side.filter(|_| run.contacts == 0), run.reversals)
    };
    (0..runs).map(run).collect()
}

#[test]
fn the_field_keeps_one_of_two_gaps() {
    let field = choices(Chooser::Field);
    let argmax = choices(Chooser::Argmax);
    let reversals = |runs: &[(Option<f64>, u64)]| runs.iter().map(|(_, reversals)| reversals).sum::<u64>();
    assert!(field.iter().all(|(side, _)| side.is_some()), "{field:?}");
    let (kept, wavered) = (reversals(&field), reversals(&argmax));
    assert!(kept <= 2 * field.len() as u64, "{kept} reversals: {field:?}");
    assert!(wavered >= 5 * kept.max(1), "{kept} reversals with the field, {wavered} with argmax");
}

#[test]
fn drift_noise_and_a_blind_second_are_survived() {
    let world = trap(0.7, 0.9, 0.1);
    let weather = Weather { seed: 3, noise: 0.1, drift: 0.05, blind: [4.0, 5.5] };
    let (run, _) = drive(&world, CAR, Options::default(), weather, [3.0, 5.5]);
    assert!(run.reached.is_some() && run.contacts == 0, "{:?}, {} contacts", run.reached, run.contacts);
}

#[test]
fn a_goal_outside_the_window_is_reached() {
    let start = OdometryPose { at: [1.5, 1.0], heading: FRAC_PI_2 };
    let mut world = World { room: [3.0, 14.0], discs: Vec::new(), start };
    world.wall([0.0, 4.0], [2.2, 4.0]);
    world.wall([0.8, 7.0], [3.0, 7.0]);
    let (run, _) = drive(&world, CAR, Options::default(), Weather::default(), [1.5, 13.0]);
    assert!(run.reached.is_some() && run.contacts == 0, "{:?}, {} contacts", run.reached, run.contacts);
}

#[test]
fn a_goal_behind_a_closed_wall_is_given_up() {
    for body in [CAR, DIFFERENTIAL] {
        let mut world = room([3.0, 2.0], 0.0);
        world.wall([0.0, 3.5], [6.0, 3.5]);
        let (run, state) = drive(&world, body, Options::default(), Weather::default(), [3.0, 5.0]);
        println!("closed wall: {state:?} after {} s, {:?}", run.path.len() as f64 * 0.02, run.path.last());
        assert_eq!((run.contacts, state), (0, State::GivenUp(Reason::NoWay)));
    }
}

#[test]
fn a_goal_on_an_obstacle_is_given_up_with_that_reason() {
    let mut world = room([3.0, 2.0], 0.0);
    world.discs.push(([3.0, 4.0], 0.5));
    let (run, state) = drive(&world, DIFFERENTIAL, Options::default(), Weather::default(), [3.0, 3.6]);
    println!("blocked: {state:?}");
    assert_eq!((run.contacts, state), (0, State::GivenUp(Reason::GoalBlocked)));
}

#[test]
fn a_blind_robot_stops_and_says_so() {
    let world = room([3.0, 1.0], 0.0);
    let weather = Weather { blind: [2.0, 1e9], ..Weather::default() };
    let (run, state) = drive(&world, CAR, Options::default(), weather, [3.0, 5.0]);
    assert_eq!(state, State::Looking(Because::Blind));
    let second = |seconds: f64| run.path[(seconds / course::CYCLE) as usize];
    assert!(second(2.0)[1] > 1.1, "it had started: {:?}", second(2.0));
    assert_eq!(second(4.5), second(50.0), "it stands");
}
