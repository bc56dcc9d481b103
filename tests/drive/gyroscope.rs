//! Dead reckoning with a gyroscope: a robot knows its heading although its wheels do not do what they are
//! told. The same robots without `[motion] turning` show what it is for.

use super::{options, run_board, run_with};
use crate::long::or_in_full;
use ganglion::base::plan::{Board, MotionPlan, WorldPlan};
use ganglion::deploy::board;
use ganglion::field::navigate::goals::{Place, Route, Task};
use ganglion::field::navigate::navigator::State;
use ganglion::runtime::robot::Options;

/// An MPU-6050 on the board's bus, with a zero error.
const GYROSCOPE: &str = "
[motion]
turning = \"turning\"

[[sensor]]
name = \"turning\"
kind = \"mpu6050\"
unit = \"deg/s\"
address = 0x68
quantity = \"rotation-z\"
period_ms = 20.0
max_age_ms = 60.0
valid = [-250.0, 250.0]
required = true

[field]
grid = 8

[sim]
gyro_zero_deg_s = 3.0
";
/// Where the robot starts in its room.
const START: Place = [1.0, 1.5];

/// The shipped `sim` with these lines, on a small field.
fn sim_with(lines: &str) -> Board {
    in_its_room(&format!("inherits = \"sim\"\n[field]\ngrid = 8\n{lines}"))
}

/// The board of this text in a room with two discs.
fn in_its_room(text: &str) -> Board {
    let mut board = board::from_text("gyroscope", text).expect("a good board").board;
    let sim = board.sim.as_mut().expect("a simulated board");
    let discs = vec![[2.5, 1.0, 0.12], [2.0, 2.4, 0.12]];
    sim.world = Some(WorldPlan { size: [4.0, 3.0], start: START, discs, ..WorldPlan::default() });
    board
}

/// The same board, which reads its gyroscope but does not use it.
fn without_its_use(board: &Board) -> Board {
    let motion = board.motion.map(|motion| MotionPlan { turning: None, ..motion });
    Board { motion, ..board.clone() }
}

/// By how much the robot's estimate of its pose is off at the end of a drive, metres and degrees.
fn drift(board: &Board, seed: u64) -> [f64; 2] {
    let run = run_board(board, seed, or_in_full(60, 600), &[]);
    let (true_pose, goal) = (run.report.pose, run.ending.recorder.summary().goal.expect("a navigator"));
    assert!(run.report.distance_m > 5.0, "seed {seed}: {:?}", run.report);
    let off = (START[0] + goal.pose.at[0] - true_pose.x).hypot(START[1] + goal.pose.at[1] - true_pose.y);
    [off, (goal.pose.heading - true_pose.heading).to_degrees().abs()]
}

#[test]
fn a_car_with_crooked_wheels_knows_its_heading() {
    let (shipped, scale_exact) = (sim_with(""), sim_with("[sim]\ngyro_scale_error = 0.0\n"));
    // In ten minutes, an error of the scale adds up; the zero error is measured whenever the car stands.
    for (name, car, most_in_full) in
        [("shipped", &shipped, (1.0, 30.0)), ("exact scale", &scale_exact, (0.3, 15.0))]
    {
        assert!(car.sim.as_ref().is_some_and(|sim| sim.errors.steering_deg == 0.5), "as the board states");
        let (most_metres, most_degrees) = or_in_full((0.3, 3.0), most_in_full);
        for seed in 1..=or_in_full(1, 5) {
            let [metres, degrees] = drift(car, seed);
            println!("{name}, seed {seed}: {metres:.2} m and {degrees:.1} degrees off");
            assert!(
                metres < most_metres && degrees < most_degrees,
                "{name}, seed {seed}: {metres} m, {degrees} degrees"
            );
        }
    }
    for seed in 1..=or_in_full(1, 5) {
        let [_, degrees] = drift(&without_its_use(&shipped), seed);
        assert!(degrees > 30.0, "seed {seed}: without the gyroscope it is off by only {degrees} degrees");
    }
}

/// What the robot makes of a gyroscope that measures the turns, or with the chip upside down the opposite.
#[test]
fn a_gyroscope_mounted_upside_down_is_found() {
    let shipped = sim_with("");
    let mut upside_down = shipped.clone();
    upside_down.sim.as_mut().expect("a simulated board").errors.gyro_scale = -2.0;
    for seed in 1..=or_in_full(1, 20) {
        let share = |board: &Board| {
            let run = run_board(board, seed, 60, &[]);
            run.ending.recorder.summary().goal.and_then(|goal| goal.turns_measured).expect("enough turns")
        };
        let [shipped, upside_down] = [&shipped, &upside_down].map(share);
        println!("seed {seed}: it measures {shipped:.2} of the turns, upside down {upside_down:.2}");
        assert!((0.7..1.3).contains(&shipped), "seed {seed}: {shipped}");
        assert!((-1.3..-0.7).contains(&upside_down), "seed {seed}: {upside_down}");
    }
}

#[test]
fn a_robot_with_unequal_wheels_reaches_its_goal() {
    let robot = in_its_room(&format!("inherits = \"barn\"\n{GYROSCOPE}left_slower = 0.05\n"));
    let goal = [2.2, 0.2];
    let route = Route::try_from(vec![[2.0, 0.8], [0.2, -0.9], goal]).expect("a route");
    let miss = |board: &Board, seed| {
        let run = run_with(board, Options { task: Task::Go(route), ..options(seed, &[]) }, 60);
        let report = run.ending.recorder.summary().goal.expect("a navigator");
        assert_eq!((report.state, report.left), (State::Arrived, 0), "seed {seed}: {report:?}");
        let true_pose = run.report.pose;
        (START[0] + goal[0] - true_pose.x).hypot(START[1] + goal[1] - true_pose.y)
    };
    for seed in 1..=or_in_full(2, 5) {
        let with = miss(&robot, seed);
        assert!(with < 0.5, "seed {seed}: {with} m off");
        let without = miss(&without_its_use(&robot), seed);
        assert!(without > 1.0, "seed {seed}: it says that it has arrived, and is {without} m off");
    }
}
