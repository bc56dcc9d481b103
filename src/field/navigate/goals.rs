//! Carries out orders. This stage runs in the field's worker, between the field's answer and the motor
//! request. While there is a route, the driver (the navigator, except in studies) drives the robot; otherwise
//! the field or a behaviour drives it, or the robot stands still. Orders come from other threads and never
//! pass through the tick.

use super::navigator::{Because, FARTHEST_M, State};
use super::senses::{NavigationInput, beams};
use super::{Beam, Driver, Surroundings, Wish};
use crate::base::command::{MAX_MOTORS, Requester};
use crate::base::plan::{Board, WorldPlan};
use crate::base::time::{Instant, Span};
use crate::decision::motion::{MotionModel, OdometryPose};
use crate::field::behave::Behaviours;
use crate::system::rt::triple_buffer::{Reader, Writer, triple_buffer};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of places of a route.
pub const MAX_PLACES: usize = 16;
/// Minimum number of places of a patrol.
pub const FEWEST_OF_PATROL: usize = 2;
/// How long a patrol stands still after it has given up on a place: long enough to be seen in the status, and
/// in recordings, which show the state ten times a second.
const SHOWS_MISSED: Span = Span::from_millis(2_000);

/// A position relative to where the robot started, metres: ahead and to the left.
pub type Place = [f64; 2];

/// What a user wants the robot to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// The field drives, as if there were no order.
    #[default]
    Wander,
    /// The robot stands still.
    Stand,
    /// The robot goes to these places, one after the other, and stops at the last.
    Go(Route),
    /// It goes round these places until another order comes. A place that it gives up on is skipped until the
    /// next round; once it has given up on all of them in a row, it stands still.
    Patrol(Route),
    /// The behaviour with this number in the board file drives, counted from 0.
    Behave(u8),
}

impl Task {
    /// The places that the robot goes to.
    pub fn route(&self) -> Option<&Route> {
        match self {
            Task::Go(route) | Task::Patrol(route) => Some(route),
            Task::Wander | Task::Stand | Task::Behave(_) => None,
        }
    }

    /// Whether only an armed robot accepts it.
    pub fn moves(&self) -> bool {
        match self {
            Task::Go(_) | Task::Patrol(_) | Task::Behave(_) => true,
            Task::Wander | Task::Stand => false,
        }
    }
}

/// The places of a route, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Place>", into = "Vec<Place>")]
pub struct Route {
    places: [Place; MAX_PLACES],
    count: usize,
}

/// Why places do not make a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// There are none, or more than [`MAX_PLACES`].
    Count(usize),
    /// A coordinate of this place (counted from 0) is not a number, or farther away than [`FARTHEST_M`].
    OutOfRange(usize),
}

impl std::fmt::Display for RouteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RouteError::Count(found) => write!(f, "a route has 1 to {MAX_PLACES} places; found {found}"),
            RouteError::OutOfRange(at) => {
                write!(f, "place {} of the route: each coordinate must be within {FARTHEST_M} m", at + 1)
            }
        }
    }
}

impl std::error::Error for RouteError {}

impl TryFrom<Vec<Place>> for Route {
    type Error = RouteError;
    fn try_from(from: Vec<Place>) -> Result<Route, RouteError> {
        if from.is_empty() || from.len() > MAX_PLACES {
            return Err(RouteError::Count(from.len()));
        }
        let is_near = |place: &Place| place.iter().all(|metres| metres.abs() <= FARTHEST_M);
        if let Some(far) = from.iter().position(|place| !is_near(place)) {
            return Err(RouteError::OutOfRange(far));
        }
        let mut places = [[0.0; 2]; MAX_PLACES];
        places[..from.len()].copy_from_slice(&from);
        Ok(Route { places, count: from.len() })
    }
}

impl From<Route> for Vec<Place> {
    fn from(route: Route) -> Vec<Place> {
        route.places().to_vec()
    }
}

impl Route {
    /// The route to the goal of `world`, from its start; `None`: it has no goal.
    pub fn of_world(world: &WorldPlan) -> Option<Route> {
        let start = OdometryPose { at: world.start, heading: world.heading_deg.to_radians() };
        world.goal.and_then(|goal| Route::try_from(vec![start.sees(goal)]).ok())
    }

    /// Its places.
    pub fn places(&self) -> &[Place] {
        &self.places[..self.count]
    }
}

/// A task with its number.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    number: u64,
    task: Task,
}

/// Gives orders to a robot. Its clones give orders to the same robot; the newest order counts.
#[derive(Clone)]
pub struct GoalSender {
    orders: Arc<Mutex<(u64, Writer<Order>)>>,
}

impl GoalSender {
    /// Gives an order. Returns its number, which [`GoalReport::order`] shows once the robot has received it.
    pub fn order(&self, task: Task) -> u64 {
        give(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner), task)
    }

    /// Withdraws the order with this number: the robot stands still, unless a newer order has replaced it.
    pub fn withdraw(&self, number: u64) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.0 == number {
            give(&mut orders, Task::Stand);
        }
    }
}

/// Gives the next order. Returns its number.
fn give((last, orders): &mut (u64, Writer<Order>), task: Task) -> u64 {
    *last += 1;
    orders.put(Order { number: *last, task });
    *last
}

/// The status of the newest order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalReport {
    /// Number of the order; 0: there has been none, and the robot does the task that it was started with.
    pub order: u64,
    /// Where the robot is, by dead reckoning from its start.
    pub pose: OdometryPose,
    /// The place that the robot goes to, has reached or has given up on.
    pub goal: Option<Place>,
    /// How many places of the route follow this one; on a patrol, how many in this round.
    pub left: u8,
    /// What the robot is doing about its goal.
    pub state: State,
    /// Who made the motor request.
    pub requester: Requester,
}

/// How far the robot is on its route.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Index of the place on the route to which the robot is going.
    next: usize,
    /// When a patrol gave up on this place.
    gave_up: Option<Instant>,
    /// How many places in a row a patrol has given up on.
    missed: usize,
}

impl Progress {
    /// Chooses the next place if the robot is done with this one.
    fn go_on(&mut self, task: &Task, state: State, slot: Instant) {
        match (task, state) {
            (Task::Go(route), State::Arrived) => self.next = (self.next + 1).min(route.count - 1),
            (Task::Patrol(route), State::Arrived) => {
                *self = Progress { next: (self.next + 1) % route.count, ..Progress::default() };
            }
            (Task::Patrol(route), State::GivenUp(_)) if self.missed + 1 < route.count => {
                let since = *self.gave_up.get_or_insert(slot);
                if slot.since(since) >= SHOWS_MISSED {
                    let (next, missed) = ((self.next + 1) % route.count, self.missed + 1);
                    *self = Progress { next, missed, gave_up: None };
                }
            }
            _ => {}
        }
    }
}

/// What the field answered in a cycle.
pub struct FieldAnswer<'a> {
    /// Its inputs on their scales, all finite: an engine refuses others.
    pub sensors: &'a [f32],
    /// Its motor commands.
    pub motors: &'a mut [f32; MAX_MOTORS],
}

/// The stage in the field's worker.
pub struct GoalStage {
    driver: Box<dyn Driver>,
    behaviours: Behaviours,
    motion: MotionModel,
    beams: Vec<Beam>,
    orders: Reader<Order>,
    order: Order,
    progress: Progress,
    was_armed: bool,
    last: Option<Instant>,
}

impl GoalStage {
    /// The stage of `board`, in which `driver` drives, and the sender of its orders. The stage begins with
    /// `task` once the robot is armed; `seed` is that of the behaviours' noise. `None`: the board does not
    /// state its motion.
    pub fn of(
        board: &Board,
        driver: Box<dyn Driver>,
        task: Task,
        seed: u64,
    ) -> Option<(GoalStage, GoalSender)> {
        let (_, beams) = beams(board);
        let (put, orders) = triple_buffer(Order::default());
        let sender = GoalSender { orders: Arc::new(Mutex::new((0, put))) };
        let stage = GoalStage {
            driver,
            behaviours: Behaviours::of(board, seed),
            motion: MotionModel::of(board)?,
            beams,
            orders,
            order: Order { number: 0, task },
            progress: Progress::default(),
            was_armed: false,
            last: None,
        };
        Some((stage, sender))
    }

    /// One cycle: takes in what the sensors saw until `slot` and, unless the field drives, replaces the
    /// commands for the driven and the steering motors in the field's `answer`. Without an answer a behaviour
    /// pauses: its decision fields keep their state.
    pub fn advance(
        &mut self,
        input: &NavigationInput,
        slot: Instant,
        answer: Option<FieldAnswer<'_>>,
    ) -> GoalReport {
        if let Some(order) = self.orders.take() {
            (self.order, self.progress) = (order, Progress::default());
            self.behaviours.rest();
        }
        // Arming must not send a robot to a place that was ordered earlier. Only the task with which the
        // robot was started waits for the first arming.
        if !input.armed && (self.was_armed || self.order.number > 0) {
            self.order.task = Task::Wander;
        }
        self.was_armed = input.armed;
        for (beam, range) in self.beams.iter_mut().zip(&input.ranges) {
            beam.range = (!range.is_nan()).then_some(*range);
        }
        let elapsed = self.last.map_or(Span::ZERO, |last| slot.since(last));
        self.last = Some(slot);
        let around = Surroundings { pose: input.pose, elapsed, beams: &self.beams };
        let Order { number, task } = self.order;
        let next = self.progress.next;
        let (goal, left) = task.route().map_or((None, 0), |route| {
            (route.places().get(next).copied(), route.count.saturating_sub(next + 1))
        });
        // A disarmed robot gets no goal: it may not move, so it would seem to be stuck.
        let wish = self.driver.drive(&around, goal.filter(|_| input.armed));
        let (wish, state) = match task {
            Task::Wander | Task::Go(_) | Task::Patrol(_) => (wish, self.driver.state()),
            Task::Stand => (Wish::STOP, State::Standing),
            Task::Behave(number) => self.behave(number.into(), answer.as_ref(), elapsed),
        };
        self.progress.go_on(&task, state, slot);
        let mut requester = match task {
            Task::Wander => Requester::Field,
            Task::Stand => Requester::StandOrder,
            Task::Go(_) | Task::Patrol(_) => Requester::Navigator,
            Task::Behave(number) => Requester::Behaviour(number),
        };
        if requester == Requester::Field {
            if let Some(FieldAnswer { motors, .. }) = answer
                && self.keep_clear(input.pose, motors)
            {
                requester = Requester::Navigator;
            }
        } else if let Some(FieldAnswer { motors, .. }) = answer {
            let commands = self.motion.commands(wish.speed, wish.curvature);
            let steering = self.motion.steering.map(|(motor, _)| motor);
            for motor in self.motion.drives.iter().chain(&steering) {
                motors[*motor] = commands[*motor];
            }
        }
        GoalReport { order: number, pose: input.pose, goal, left: left as u8, state, requester }
    }

    /// Steers a car that the field drives forwards clear of remembered obstacles. Returns whether the field's
    /// steering command was replaced.
    fn keep_clear(&mut self, pose: OdometryPose, motors: &mut [f32; MAX_MOTORS]) -> bool {
        let Some((steering, _)) = self.motion.steering else { return false };
        let wanted = self.motion.curvature(motors[steering]) as f32;
        if !(wanted.is_finite() && self.motion.drive(motors) >= 0.0) {
            return false; // NaN: the arbiter refuses it
        }
        let curvature = self.driver.keep_clear(pose, wanted);
        if curvature != wanted {
            motors[steering] = self.motion.steering(curvature.into());
        }
        curvature != wanted
    }

    /// One cycle of a behaviour. A robot whose board has no such behaviour stands still.
    fn behave(&mut self, behaviour: usize, answer: Option<&FieldAnswer<'_>>, elapsed: Span) -> (Wish, State) {
        if behaviour >= self.behaviours.count() {
            return (Wish::STOP, State::Standing);
        }
        let Some(answer) = answer else { return (Wish::STOP, State::Behaving) };
        let request = self.behaviours.advance(behaviour, answer.sensors, elapsed.as_secs_f64());
        let state = if request.has_peak { State::Behaving } else { State::Looking(Because::NoPeak) };
        (Wish { speed: request.speed, curvature: request.curvature }, state)
    }
}

const _: () = assert!(MAX_PLACES <= u8::MAX as usize);

#[cfg(test)]
mod tests {
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
            let input = NavigationInput { pose: OdometryPose::default(), ranges, armed: true };
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
}
