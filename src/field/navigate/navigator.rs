//! Drives to a goal: the peak of the heading field steers, the free room ahead sets the speed, and where
//! there is no room to turn, the robot reverses over ground that it knows to be free. Without a peak it
//! stops, turns to look, and finally gives up with a reason.

mod arcs;
mod steering;

use super::goal_wave::GoalWave;
use super::heading::{Chooser, Heading};
use super::place_grid::PlaceGrid;
use super::senses::{MAX_BEAMS, beams};
use super::{Beam, Body, BodyError, Driver, Surroundings, Wish};
use crate::base::plan::{Board, WanderPlan};
use crate::decision::motion::OdometryPose;
use crate::field::decision_field::steps_in;
use serde::{Deserialize, Serialize};
use steering::{Room, Steering};

/// Largest distance of a goal or a pose from the start along each axis, metres. Dead reckoning is of no use
/// beyond that.
pub const FARTHEST_M: f64 = 10_000.0;
/// A longer time between two calls counts as this much, seconds.
const LONGEST: f64 = 0.2;
/// The robot stops after this long without a fresh reading, seconds. It bridges shorter gaps from memory.
const BLIND_AFTER: f64 = 0.7;
/// If there is no peak, the robot waits this long before it turns to look, seconds: a new wave needs 0.4 s,
/// and the field 0.1 s.
const LOOKS_AFTER: f64 = 1.0;
/// The robot gives up after turning this far without finding a way, radians: once around.
const LOOKS_AROUND: f64 = std::f64::consts::TAU;
/// It gives up after looking for this long, seconds, even if it could not turn around.
const LOOKS_FOR: f64 = 15.0;
/// If the robot has not left a circle with the radius [`STUCK_WITHIN`] for this long, seconds, it is stuck.
const STUCK_AFTER: f64 = 10.0;
/// See [`STUCK_AFTER`]; metres.
const STUCK_WITHIN: f64 = 0.4;

/// Before it gives up, the robot forgets all obstacles that are not near it ([`Body::turns_past`]) and tries
/// again, this many times for each goal: a wide beam may have closed a gap that is open.
const TRIES: u8 = 2;

/// This many hits make an obstacle certain, even one that a wide beam sees.
const CERTAIN: usize = 3;

/// What the robot is doing about its goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It has no goal.
    #[default]
    Idle,
    /// It is on its way.
    Going,
    /// It stands still or keeps turning, because it does not know where to go.
    Looking(Because),
    /// It backs up, because there is no room to turn.
    Backing,
    /// It is at its goal.
    Arrived,
    /// It stands still, as ordered.
    Standing,
    /// A behaviour drives it.
    Behaving,
    /// It has stopped trying until it gets another goal.
    GivenUp(Reason),
}

/// Why the robot does not move towards its goal at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// No direction that is open leads to the goal, as far as the robot knows.
    NoWay,
    /// No ranging sensor has given a fresh reading.
    Blind,
    /// A behaviour's sensors give it nothing to act on: one of its decision fields has no peak.
    NoPeak,
    /// The pose is not a number, or farther than [`FARTHEST_M`] from the start.
    NoPose,
}

/// Why the robot has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It has looked around, and no open direction leads to the goal.
    NoWay,
    /// Something is at the goal, or too close to it.
    GoalBlocked,
    /// It has no room to turn around and look.
    NoRoom,
    /// It tried, and did not get anywhere.
    Stuck,
    /// The goal is not a number, or farther than [`FARTHEST_M`] from the start.
    NoSuchPlace,
}

impl State {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Going => "going",
            State::Looking(_) => "looking",
            State::Backing => "backing",
            State::Arrived => "arrived",
            State::Standing => "standing",
            State::Behaving => "behaving",
            State::GivenUp(_) => "given-up",
        }
    }

    /// Why it does not go on, as text.
    pub const fn why(self) -> Option<&'static str> {
        Some(match self {
            State::Looking(Because::NoWay) => "no way is open for now",
            State::Looking(Because::Blind) => "no ranging sensor has a fresh reading",
            State::Looking(Because::NoPeak) => "its sensors show nothing that the behaviour acts on",
            State::Looking(Because::NoPose) => "it does not know where it is",
            State::GivenUp(Reason::NoWay) => "it has looked around and sees no way",
            State::GivenUp(Reason::GoalBlocked) => "something is at the goal or too close to it",
            State::GivenUp(Reason::NoRoom) => "it has no room to turn around and look for a way",
            State::GivenUp(Reason::Stuck) => "it tried and did not get anywhere",
            State::GivenUp(Reason::NoSuchPlace) => "the goal is not a number or is too far away",
            State::Idle | State::Going | State::Backing | State::Arrived => return None,
            State::Standing | State::Behaving => return None,
        })
    }
}

/// Settings of a navigator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The goal is reached within this distance, metres.
    pub arrives_within: f32,
    /// Whether it remembers obstacles. If not, it uses only the newest readings; for comparison.
    pub remembers: bool,
    /// How it chooses its direction.
    pub chooser: Chooser,
    /// Seed of the heading field's noise.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { arrives_within: 0.3, remembers: true, chooser: Chooser::Field, seed: 0 }
    }
}

/// Drives to goals with place memory, goal wave and heading field.
#[derive(Clone, Debug)]
pub struct Navigator {
    body: Body,
    options: Options,
    /// How a car steers by its memory without a goal; `None`: it drives as the field requests.
    wander: Option<WanderPlan>,
    grid: PlaceGrid,
    wave: GoalWave,
    heading: Heading,
    steering: Steering,
    room: Room,
    state: State,
    goal: Option<[f64; 2]>,
    /// The newest range of each sensor; used only by a navigator that does not remember obstacles.
    newest: [Option<f32>; MAX_BEAMS],
    /// Seconds without a fresh reading.
    blind_for: f64,
    search: Search,
    /// How many times it has forgotten obstacles and tried again on the way to this goal.
    tries: u8,
    /// Where the robot was when it last made progress, and how long ago in seconds.
    progress: ([f64; 2], f64),
}

/// The robot's search for a way since it last had one.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    seconds: f64,
    turned: f64,
    /// The heading in the previous cycle of the search.
    heading: Option<f64>,
}

/// The body of `board`, if the board states all that a navigator needs.
fn body(board: &Board) -> Option<Body> {
    Body::of(board).filter(|body| body.check().is_ok() && !beams(board).1.is_empty())
}

/// Whether `board` states all that a navigator needs: its motion and body within the navigator's range, and a
/// ranging sensor with a `beam`.
pub fn can_go(board: &Board) -> bool {
    body(board).is_some()
}

impl Navigator {
    /// The navigator of `board`; `None`: [`can_go`] is false.
    pub fn of(board: &Board, options: Options) -> Option<Navigator> {
        let navigator = Navigator::new(body(board)?, options).ok()?;
        Some(Navigator { wander: board.wander, ..navigator })
    }

    /// Without a goal, and without a board that makes it wander by its memory. A body that is out of range
    /// is refused.
    pub fn new(body: Body, options: Options) -> Result<Navigator, BodyError> {
        body.check()?;
        let heading = Heading::new(&body, options.chooser, options.seed);
        Ok(Navigator {
            body,
            options,
            wander: None,
            grid: PlaceGrid::new(&body),
            wave: GoalWave::new(),
            heading: heading.expect("the settings are constants"),
            steering: Steering::new(&body),
            room: Room::default(),
            state: State::Idle,
            goal: None,
            newest: [None; MAX_BEAMS],
            blind_for: 0.0,
            search: Search::default(),
            tries: 0,
            progress: ([0.0; 2], 0.0),
        })
    }

    /// Takes in the sensors' readings, whether there is a goal or not. What follows from them is computed
    /// only when it is needed, because it takes most of a cycle.
    fn perceive(&mut self, around: &Surroundings, seconds: f64) {
        let pose = around.pose;
        self.grid.follow(pose);
        let is_fresh = around.beams.iter().any(|beam| beam.range.is_some());
        self.blind_for = if is_fresh { 0.0 } else { self.blind_for + seconds };
        for beam in around.beams {
            self.grid.see(pose, beam);
        }
        if !self.options.remembers {
            self.forget_all_but_newest(pose, around.beams);
        }
        self.room.look_ahead(&self.body, pose, around.beams);
    }

    /// Computes which cells are closed and how much room the robot has. Returns the middle of its body.
    fn find_room(&mut self, pose: OdometryPose) -> [f64; 2] {
        let middle = self.middle(pose);
        self.grid.close(Some(middle));
        self.room.measure(&self.body, &self.grid, pose, middle);
        middle
    }

    /// Leaves in the grid only the newest reading of each sensor, as if it were certain.
    fn forget_all_but_newest(&mut self, pose: OdometryPose, beams: &[Beam]) {
        self.grid.forget();
        for (newest, beam) in self.newest.iter_mut().zip(beams) {
            *newest = beam.range.or(*newest);
            for _ in 0..CERTAIN {
                self.grid.see(pose, &Beam { range: *newest, ..*beam });
            }
        }
    }

    fn middle(&self, pose: OdometryPose) -> [f64; 2] {
        pose.place(f64::from(self.body.middle()), 0.0)
    }

    /// Switches to a goal that differs from the last one.
    fn take_up(&mut self, goal: Option<[f64; 2]>, pose: OdometryPose) {
        self.goal = goal;
        self.state = if goal.is_some() { State::Going } else { State::Idle };
        self.search = Search::default();
        self.tries = 0;
        self.progress = (pose.at, 0.0);
        self.heading.rest();
        self.steering.forwards();
    }

    /// One cycle on the way to a goal.
    fn pursue(&mut self, pose: OdometryPose, goal: [f64; 2], seconds: f64) -> Wish {
        let to_goal = distance(pose.at, goal);
        if to_goal <= f64::from(self.options.arrives_within) {
            return self.stop(State::Arrived);
        }
        let middle = self.find_room(pose);
        self.wave.spread(&self.grid, goal);
        let ahead = distance(middle, goal) as f32;
        let chosen = self.heading.choose(&self.grid, &self.wave, middle, ahead, steps_in(seconds));
        if self.blind_for > BLIND_AFTER {
            self.progress = (pose.at, 0.0);
            return self.stop(State::Looking(Because::Blind));
        }
        if distance(pose.at, self.progress.0) > STUCK_WITHIN {
            self.progress = (pose.at, 0.0);
        }
        self.progress.1 += seconds;
        if self.progress.1 > STUCK_AFTER {
            return self.give_up(Reason::Stuck, middle);
        }
        match chosen {
            Some(direction) => {
                self.search = Search::default();
                let room_behind = |wanted| arcs::room_behind(&self.body, &self.grid, pose, wanted);
                let off = direction - pose.heading;
                let wish = self.steering.go(off, &self.room, room_behind, seconds);
                self.state = if self.steering.is_backing() { State::Backing } else { State::Going };
                wish
            }
            None => self.look(pose.heading, middle, seconds),
        }
    }

    /// One cycle without a direction, with the body's middle at `middle`.
    fn look(&mut self, heading: f64, middle: [f64; 2], seconds: f64) -> Wish {
        self.state = State::Looking(Because::NoWay);
        let Search { seconds: searched, turned, heading: last } = &mut self.search;
        *searched += seconds;
        *turned += (heading - last.unwrap_or(heading)).abs();
        *last = Some(heading);
        let (searched, turned) = (*searched, *turned);
        if searched < LOOKS_AFTER {
            return Wish::STOP;
        }
        if turned < LOOKS_AROUND && searched < LOOKS_FOR {
            return self.steering.turn(&self.room);
        }
        let reason = if self.wave.goal_is_closed() {
            Reason::GoalBlocked
        } else if turned < LOOKS_AROUND {
            Reason::NoRoom
        } else {
            Reason::NoWay
        };
        self.give_up(reason, middle)
    }

    /// Forgets the obstacles that are not beside the body and tries again, or gives up after [`TRIES`] such
    /// attempts.
    fn give_up(&mut self, reason: Reason, middle: [f64; 2]) -> Wish {
        if self.tries == TRIES {
            return self.stop(State::GivenUp(reason));
        }
        self.tries += 1;
        self.grid.forget_beyond(middle, self.body.turns_past());
        self.search = Search::default();
        self.progress.1 = 0.0;
        self.heading.rest();
        self.stop(State::Looking(Because::NoWay))
    }

    fn stop(&mut self, state: State) -> Wish {
        self.state = state;
        Wish::STOP
    }
}

impl Driver for Navigator {
    fn drive(&mut self, around: &Surroundings, goal: Option<[f64; 2]>) -> Wish {
        let pose = around.pose;
        if !is_usable(pose) {
            return self.stop(State::Looking(Because::NoPose));
        }
        let seconds = around.elapsed.as_secs_f64().min(LONGEST);
        self.perceive(around, seconds);
        if goal != self.goal {
            self.take_up(goal, pose);
        }
        match (goal, self.state) {
            (None, _) | (_, State::Arrived | State::GivenUp(_)) => Wish::STOP,
            (Some([x, y]), _) if !(x.abs() <= FARTHEST_M && y.abs() <= FARTHEST_M) => {
                self.stop(State::GivenUp(Reason::NoSuchPlace))
            }
            (Some(goal), _) => self.pursue(pose, goal, seconds),
        }
    }

    fn state(&self) -> State {
        self.state
    }

    fn wander(&mut self, pose: OdometryPose, wanted: f32) -> f32 {
        let Some(plan) = self.wander.filter(|_| !self.body.turns_on_spot() && is_usable(pose)) else {
            return wanted;
        };
        self.find_room(pose);
        self.room.wander(&self.body, &self.grid, pose, wanted, &plan)
    }
}

/// Whether the pose is a number, and within [`FARTHEST_M`] of the start.
fn is_usable(pose: OdometryPose) -> bool {
    pose.at.iter().all(|metres| metres.abs() <= FARTHEST_M) && pose.heading.is_finite()
}

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    libm::hypot(a[0] - b[0], a[1] - b[1])
}

#[cfg(test)]
mod tests {
    use super::super::tests::CAR;
    use super::*;
    use crate::base::time::Span;

    /// Which cells are closed is computed only when it is needed, from what the robot has seen before.
    #[test]
    fn what_is_seen_without_a_goal_counts_once_there_is_one() {
        let mut navigator = Navigator::new(CAR, Options::default()).expect("a body in range");
        let mut cycle = |range: Option<f32>, goal: Option<[f64; 2]>| {
            let beam = Beam { bearing: 0.0, offset: [0.0; 2], half_cone: 0.0, range, max_range: 4.0 };
            let pose = OdometryPose { at: [0.05, 0.05], heading: 0.0 };
            navigator.drive(&Surroundings { pose, elapsed: Span::from_millis(20), beams: &[beam] }, goal);
            navigator.grid.is_open([1.05, 0.05])
        };
        assert_eq!([1.0; 5].map(|range| cycle(Some(range), None)), [true; 5]);
        assert!(!cycle(None, Some([3.0, 0.05])));
        assert_eq!([4.0; 2].map(|range| cycle(Some(range), None)), [false; 2], "as it was computed before");
        assert!(cycle(None, Some([3.0, 0.05])), "its sensor looked through that place meanwhile");
    }

    /// What is beside the car would not be seen again before the car turns into it.
    #[test]
    fn a_stuck_robot_keeps_in_mind_what_is_beside_it() {
        let mut navigator = Navigator::new(CAR, Options::default()).expect("a body in range");
        let thin = Beam { bearing: 0.0, offset: [0.0; 2], half_cone: 0.0, range: Some(1.5), max_range: 4.0 };
        let behind = Beam { bearing: 3.0, range: Some(4.0), ..thin };
        let beams = [thin, Beam { bearing: 1.2, range: Some(0.3), ..thin }, behind];
        let places = [[1.55, 0.05], [0.05 + 0.3 * libm::cos(1.2), 0.05 + 0.3 * libm::sin(1.2)]];
        let mut cycle = |beams: &[Beam]| {
            let pose = OdometryPose { at: [0.05, 0.05], heading: 0.0 };
            navigator
                .drive(&Surroundings { pose, elapsed: Span::from_millis(200), beams }, Some([3.0, 0.05]));
            (navigator.tries, places.map(|place| navigator.grid.is_open(place)))
        };
        assert_eq!(cycle(&beams), (0, [false, false]));
        // From now on, no sensor sees either of them.
        let elsewhere = beams.map(|beam| Beam { range: beam.range.filter(|range| *range == 4.0), ..beam });
        let tries = (0..60).map(|_| cycle(&elsewhere).0).find(|tries| *tries > 0);
        assert_eq!(tries, Some(1), "it is stuck");
        assert_eq!(cycle(&elsewhere), (1, [true, false]));
    }
}
