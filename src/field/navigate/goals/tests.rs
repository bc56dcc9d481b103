//! Orders, routes and behaviours, cycle by cycle.

use super::super::navigator::{Navigator, Options, Reason};
use super::super::senses::MAX_BEAMS;
use super::*;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::Board;
use crate::deploy::board::built_in;

fn board(name: &str) -> Board {
    built_in(name).unwrap().unwrap().board
}

/// A stage in an empty place, `cycle` cycles of 20 ms after the start.
struct Rig {
    stage: GoalStage,
    orders: GoalSender,
    cycle: u64,
    input: NavigationInput,
}

impl Rig {
    fn of(name: &str) -> Rig {
        Rig::beginning(name, Task::Wander)
    }

    fn beginning(name: &str, task: Task) -> Rig {
        Rig::on(&board(name), task)
    }

    fn on(board: &Board, task: Task) -> Rig {
        let navigator = Navigator::of(board, Options::default()).expect("it has a navigator");
        let (stage, orders) = GoalStage::of(board, Box::new(navigator), task, 1).expect("it moves");
        let ranges = [9.0; MAX_BEAMS];
        let input =
            NavigationInput { pose: OdometryPose::default(), turns_measured: None, ranges, armed: true };
        Rig { stage, orders, cycle: 0, input }
    }

    fn advance(&mut self, motors: &mut [f32; MAX_MOTORS]) -> GoalReport {
        self.cycle += 1;
        let slot = Instant::ZERO + Span::from_millis(20).times(self.cycle);
        let answer = FieldAnswer { sensors: &[0.0; MAX_SENSORS], motors };
        self.stage.advance(&self.input, slot, Some(answer))
    }

    fn cycles(&mut self, count: usize) -> ([f32; MAX_MOTORS], GoalReport) {
        let mut last = None;
        for _ in 0..count {
            let mut motors = [0.3; MAX_MOTORS];
            let report = self.advance(&mut motors);
            last = Some((motors, report));
        }
        last.expect("at least one cycle")
    }
}

fn go(places: &[Place]) -> Task {
    Task::Go(Route::try_from(places.to_vec()).unwrap())
}

#[test]
fn without_an_order_the_field_drives() {
    let (motors, report) = Rig::of("barn").cycles(3);
    assert_eq!((motors, report.goal, report.state), ([0.3; MAX_MOTORS], None, State::Idle));
}

#[test]
fn without_an_order_the_navigator_keeps_a_car_clear() {
    let mut rig = Rig::of("picarx-v4-corners");
    // Something straight ahead, seen until it is surely remembered; then the sonar sees nothing.
    rig.input.ranges[0] = 0.3;
    rig.cycles(20);
    rig.input.ranges[0] = f32::NAN;
    let board = board("picarx-v4-corners");
    let steering = board.motors.iter().position(|motor| motor.name == "steering").unwrap();
    let steer = |rig: &mut Rig, drive: f32| {
        let mut motors = [drive; MAX_MOTORS];
        motors[steering] = 0.0;
        (rig.advance(&mut motors).requester, motors[steering])
    };
    assert!(matches!(steer(&mut rig, 0.3), (Requester::Navigator, steered) if steered != 0.0));
    assert_eq!(steer(&mut rig, -0.3), (Requester::Field, 0.0), "backwards the field steers");
    rig.input.pose.at[0] = -3.0;
    assert_eq!(steer(&mut rig, 0.3), (Requester::Field, 0.0), "far from it the field steers");
}

#[test]
fn without_an_order_a_car_goes_where_it_has_not_been() {
    let mut board = board("picarx-v4-corners");
    let steering = board.motors.iter().position(|motor| motor.name == "steering").unwrap();
    let [(known, _), (new, steered)] = [0.0, 3.0].map(|new_ground| {
        board.wander.as_mut().expect("it wanders").new_ground = new_ground;
        let mut rig = Rig::on(&board, Task::Wander);
        let mut drive = |x| {
            rig.input.pose.at[0] = x;
            let mut motors = [0.3; MAX_MOTORS];
            motors[steering] = 0.0;
            (rig.advance(&mut motors).requester, motors[steering])
        };
        (0..=60_u8).for_each(|step| _ = drive(f64::from(step) * 0.05)); // 3 m straight on
        drive(0.0) // back at the beginning
    });
    assert_eq!((known, new), (Requester::Field, Requester::Navigator));
    assert!(steered.abs() > 0.1, "{steered}");
}

#[test]
fn an_order_moves_only_the_motors_that_move_the_robot() {
    let mut rig = Rig::of("picarx-v4");
    let number = rig.orders.order(go(&[[3.0, 0.0]]));
    let (motors, report) = rig.cycles(50);
    assert_eq!((report.order, report.goal, report.state), (number, Some([3.0, 0.0]), State::Going));
    let board = board("picarx-v4");
    for (number, motor) in board.motors.iter().enumerate() {
        let moves = motor.kind.drives() || motor.name == "steering";
        assert_eq!(motors[number] == 0.3, !moves, "{}: {}", motor.name, motors[number]);
    }
    rig.orders.order(Task::Stand);
    let (motors, _) = rig.cycles(1);
    let drives = board.motors.iter().zip(motors).filter(|(motor, _)| motor.kind.drives());
    assert!(drives.map(|(_, command)| command).all(|command| command == 0.0), "{motors:?}");
}

#[test]
fn a_route_goes_on_at_each_place_and_ends_at_the_last() {
    let mut rig = Rig::of("barn");
    rig.orders.order(go(&[[0.1, 0.0], [2.0, 0.0]]));
    let (_, first) = rig.cycles(1);
    assert_eq!((first.goal, first.left, first.state), (Some([0.1, 0.0]), 1, State::Arrived));
    let (_, second) = rig.cycles(1);
    assert_eq!((second.goal, second.left), (Some([2.0, 0.0]), 0));
    rig.input.pose.at = [1.9, 0.0];
    let (motors, last) = rig.cycles(2);
    assert_eq!((last.goal, last.state), (Some([2.0, 0.0]), State::Arrived));
    assert_eq!(motors[..2], [0.0, 0.0], "it stands there");
}

/// A driver that is done with a goal in the cycle in which it gets the goal: it gives up on places with a
/// negative x, and has arrived at all others.
struct Quick(State);

impl Driver for Quick {
    fn drive(&mut self, _: &Surroundings, goal: Option<[f64; 2]>) -> Wish {
        self.0 = match goal {
            None => State::Idle,
            Some([x, _]) if x < 0.0 => State::GivenUp(Reason::NoWay),
            Some(_) => State::Arrived,
        };
        Wish::STOP
    }
    fn state(&self) -> State {
        self.0
    }
}

/// The goals of this many cycles of 20 ms on a patrol of `places`; a goal that stays the same is listed
/// once.
fn patrolled(places: &[Place], cycles: usize) -> Vec<(Place, u8)> {
    let mut rig = Rig::of("barn");
    rig.stage.driver = Box::new(Quick(State::Idle));
    rig.orders.order(Task::Patrol(Route::try_from(places.to_vec()).unwrap()));
    let mut goals: Vec<_> =
        (0..cycles).map(|_| rig.cycles(1).1).map(|report| (report.goal.unwrap(), report.left)).collect();
    goals.dedup();
    goals
}

#[test]
fn a_patrol_goes_round_its_places() {
    let round = [([1.0, 0.0], 2), ([2.0, 0.0], 1), ([3.0, 0.0], 0)];
    let places = round.map(|(place, _)| place);
    assert_eq!(patrolled(&places, 7), [&round[..], &round, &round[..1]].concat());
}

#[test]
fn a_patrol_leaves_out_a_place_that_it_has_given_up() {
    let places = [[1.0, 0.0], [-2.0, 0.0], [3.0, 0.0]];
    // It stands still for two seconds at the second place in each round.
    let shown = (SHOWS_MISSED.as_nanos() / 20_000_000) as usize + 1;
    let goals = patrolled(&places, 2 * (shown + 2));
    let round = [(places[0], 2), (places[1], 1), (places[2], 0)];
    assert_eq!(goals, [round, round].concat());
}

#[test]
fn a_patrol_that_has_given_up_all_places_stands() {
    let places = [[-1.0, 0.0], [-2.0, 0.0], [-3.0, 0.0]];
    let goals = patrolled(&places, 10_000);
    assert_eq!(goals, [(places[0], 2), (places[1], 1), (places[2], 0)]);
}

#[test]
fn disarming_cancels_a_goal_and_the_first_one_waits_for_arming() {
    let mut rig = Rig::beginning("barn", go(&[[2.0, 0.0]]));
    rig.input.armed = false;
    let (_, waiting) = rig.cycles(2_000);
    assert_eq!((waiting.goal, waiting.state), (Some([2.0, 0.0]), State::Idle), "not stuck");
    rig.input.armed = true;
    assert_eq!(rig.cycles(1).1.goal, Some([2.0, 0.0]));
    rig.input.armed = false;
    assert_eq!(rig.cycles(1).1.goal, None);
    rig.input.armed = true;
    let (motors, after) = rig.cycles(1);
    assert_eq!((motors, after.goal), ([0.3; MAX_MOTORS], None), "the field drives");

    rig.input.armed = false;
    rig.orders.order(go(&[[2.0, 0.0]]));
    assert_eq!(rig.cycles(1).1.goal, None, "an order given while disarmed");
    rig.input.armed = true;
    assert_eq!(rig.cycles(1).1.goal, None);
}

#[test]
fn a_withdrawn_order_makes_the_robot_stand() {
    let mut rig = Rig::of("barn");
    let number = rig.orders.order(go(&[[2.0, 0.0]]));
    assert_ne!(rig.cycles(50).0[..2], [0.0, 0.0]);
    rig.orders.withdraw(number);
    let (motors, report) = rig.cycles(1);
    assert_eq!((report.goal, &motors[..2]), (None, &[0.0, 0.0][..]));
    let newer = rig.orders.order(go(&[[1.0, 0.0]]));
    rig.orders.withdraw(number);
    assert_eq!(rig.cycles(1).1.order, newer, "withdrawing an older order changes nothing");
}

/// A car that follows a line. A decision field needs some cycles until it has a peak.
fn following() -> Rig {
    let mut board = board("picarx-v4");
    let inputs = &mut board.decision_fields[0].inputs;
    inputs.truncate(1);
    inputs[0].height = vec![[-1.0, 6.0]]; // whatever the sensor's value
    Rig::on(&board, Task::Behave(0))
}

#[test]
fn a_car_stands_until_its_decision_field_has_a_peak() {
    let mut rig = following();
    let (motors, report) = rig.cycles(1);
    assert_eq!((&motors[..2], report.state), (&[0.0; 2][..], State::Looking(Because::NoPeak)));
    let (motors, report) = rig.cycles(50);
    assert!(motors[0] > 0.0 && report.state == State::Behaving, "{motors:?} {report:?}");
}

#[test]
fn a_behaviour_pauses_while_the_field_gives_no_answer() {
    let [mut steady, mut paused] = [following(), following()];
    let cycle = |rig: &mut Rig| {
        let (motors, report) = rig.cycles(1);
        (motors, report.state)
    };
    assert_eq!(cycle(&mut steady), cycle(&mut paused));
    for _ in 0..100 {
        paused.cycle += 1;
        let slot = Instant::ZERO + Span::from_millis(20).times(paused.cycle);
        let report = paused.stage.advance(&paused.input, slot, None);
        assert_eq!((report.state, report.requester), (State::Behaving, Requester::Behaviour(0)));
    }
    let after = |rig: &mut Rig| (0..50).map(|_| cycle(rig)).collect::<Vec<_>>();
    let steady = after(&mut steady);
    let looks = |(_, state): &&([f32; MAX_MOTORS], State)| *state != State::Behaving;
    assert!((1..49).contains(&steady.iter().filter(looks).count()), "{steady:?}");
    assert_eq!(after(&mut paused), steady);
}

#[test]
fn routes_are_bounded() {
    assert_eq!(Route::try_from(Vec::new()), Err(RouteError::Count(0)));
    assert_eq!(Route::try_from(vec![[0.0; 2]; MAX_PLACES + 1]), Err(RouteError::Count(MAX_PLACES + 1)));
    assert_eq!(Route::try_from(vec![[0.0, 0.0], [f64::NAN, 0.0]]), Err(RouteError::OutOfRange(1)));
}
