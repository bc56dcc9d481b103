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
    /// The share of the commanded turns that the gyroscope measures, as in [`NavigationInput`].
    pub turns_measured: Option<f64>,
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
                && self.wander(input.pose, motors)
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
        GoalReport {
            order: number,
            pose: input.pose,
            turns_measured: input.turns_measured,
            goal,
            left: left as u8,
            state,
            requester,
        }
    }

    /// Steers a car that the field drives forwards clear of remembered obstacles and to new ground. Returns
    /// whether the field's steering command was replaced.
    fn wander(&mut self, pose: OdometryPose, motors: &mut [f32; MAX_MOTORS]) -> bool {
        let Some((steering, _)) = self.motion.steering else { return false };
        let wanted = self.motion.curvature(motors[steering]) as f32;
        if !(wanted.is_finite() && self.motion.drive(motors) >= 0.0) {
            return false; // NaN: the arbiter refuses it
        }
        let curvature = self.driver.wander(pose, wanted);
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
mod tests;
