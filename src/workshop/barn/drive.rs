//! One drive through one world, in virtual time. The field is not computed. A drive ends at the goal, at
//! the first contact, or when its time runs out.

use super::Pilot;
use super::course::{Course, Rules};
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{Board, QualityLevel};
use crate::base::time::{Clock, Instant, SimClock};
use crate::field::engine::Cycle;
use crate::field::navigate::goals::{Route, Task};
use crate::field::{FieldInput, FieldOutput, Inspect};
use crate::runtime::robot::{BuildError, Options, Robot};
use crate::runtime::runner;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Distance from the start at which a run's clock starts, metres: the benchmark's rule.
const STARTED_M: f64 = 0.1;
/// Distance between two points of the recorded path.
const PATH_STEP_M: f64 = 0.05;

/// How a drive ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// At the goal, without a contact.
    Reached,
    /// It touched something, or fell.
    Contact,
    /// The time limit was reached.
    Timeout,
}

/// One drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Number of the world.
    pub world: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Seconds from when the robot was first 0.1 m from its start until the end; if it never was, from the
    /// first slot.
    pub seconds: f64,
    /// Length of the shortest path, metres.
    pub shortest_m: f64,
    /// Distance driven, metres.
    pub driven_m: f64,
    /// How often the robot changed between driving forwards and backwards.
    pub reversals: u64,
    /// How often it changed between turning to the left and to the right.
    pub swings: u64,
    /// Why the navigator had given up or was standing still at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// Digest of everything that the robot sensed, decided and commanded.
    pub digest: String,
    /// Where the middle of the axle was, about every 0.05 m, in the coordinates of the world.
    #[serde(skip)]
    pub path: Vec<[f64; 2]>,
}

/// Observes a drive.
struct Witness {
    goal: [f64; 2],
    near_m: f64,
    path: Vec<[f64; 2]>,
    began: Option<Instant>,
    ended: Option<(Outcome, Instant)>,
    backwards: bool,
    reversals: u64,
    /// Its heading in the last slot, radians, and when that was.
    heading: Option<(f64, Instant)>,
    /// The side to which it last turned.
    left: Option<bool>,
    swings: u64,
}

/// Below this speed, metres per second, the direction does not count: a robot at rest jitters.
const MOVES_M_PER_S: f64 = 0.02;
/// Below this rate, radians per second, a turn does not count.
const TURNS_RAD_PER_S: f64 = 0.5;

impl Witness {
    fn see(&mut self, report: &crate::sim::Report) {
        let at = [report.pose.x, report.pose.y];
        let apart = |a: [f64; 2], b: [f64; 2]| libm::hypot(a[0] - b[0], a[1] - b[1]);
        let first = *self.path.first().unwrap_or(&at);
        if self.path.last().is_none_or(|last| apart(*last, at) >= PATH_STEP_M) {
            self.path.push(at);
        }
        if self.began.is_none() && apart(first, at) >= STARTED_M {
            self.began = Some(report.at);
        }
        if report.speed.abs() > MOVES_M_PER_S && (report.speed < 0.0) != self.backwards {
            self.backwards = !self.backwards;
            self.reversals += 1;
        }
        if let Some((heading, since)) = self.heading
            && report.at > since
        {
            let rate = (report.pose.heading - heading) / report.at.since(since).as_secs_f64();
            if rate.abs() > TURNS_RAD_PER_S && self.left != Some(rate > 0.0) {
                self.swings += u64::from(self.left.is_some());
                self.left = Some(rate > 0.0);
            }
        }
        self.heading = Some((report.pose.heading, report.at));
        if self.ended.is_none() {
            if report.contacts.all() > 0 {
                self.ended = Some((Outcome::Contact, report.at));
            } else if apart(at, self.goal) <= self.near_m {
                self.ended = Some((Outcome::Reached, report.at));
            }
        }
    }
}

/// Drives `board` through `course` with `pilot`.
pub fn drive(board: &Board, course: &Course, pilot: Pilot) -> Result<Run, BuildError> {
    let plan = &course.plan;
    let mut board = board.clone();
    board.sim.get_or_insert_default().world = Some(plan.clone());
    let goal = plan.goal.unwrap_or(plan.start);
    let clock = Arc::new(SimClock::new());
    let first = Instant::ZERO + board.period;
    let options = Options {
        seed: course.number.into(),
        quality: Some(QualityLevel::BEST),
        around: Some(silence()),
        task: Route::of_world(plan).map_or(Task::Stand, Task::Go),
        driver: pilot.driver(&board, course.number.into()),
        ..Options::default()
    };
    let robot = Robot::build(&board, clock.clone(), first, options)?;
    let plant = robot.plant.clone().ok_or(BuildError::NoBus { board: board.name.clone() })?;
    let Rules { near_m, limit } = course.rules;
    let path = vec![plan.start];
    let mut witness = Witness {
        goal,
        near_m,
        path,
        began: None,
        ended: None,
        backwards: false,
        reversals: 0,
        heading: None,
        left: None,
        swings: 0,
    };
    let over = AtomicBool::new(false);
    let ending = runner::step(robot, &clock, first + limit, &over, |_| {
        witness.see(&plant.report(clock.now()));
        over.store(witness.ended.is_some(), Ordering::Relaxed);
    });
    let report = plant.report(clock.now());
    let (outcome, at) = witness.ended.unwrap_or((Outcome::Timeout, first + limit));
    witness.path.push([report.pose.x, report.pose.y]);
    Ok(Run {
        world: course.number,
        outcome,
        seconds: at.since(witness.began.unwrap_or(first)).as_secs_f64(),
        shortest_m: course.path_m,
        driven_m: report.distance_m,
        reversals: witness.reversals,
        swings: witness.swings,
        why: ending.recorder.summary().goal.and_then(|goal| goal.state.why()),
        digest: ending.recorder.digest(),
        path: witness.path,
    })
}

/// A field cycle that computes nothing and requests no motion.
fn silence() -> Cycle<dyn Inspect> {
    let still = [0.0; MAX_MOTORS];
    Box::new(move |_, FieldInput { cycle, .. }| {
        let cycle = *cycle;
        Ok(FieldOutput { cycle, scores: still, motors: still, confidence: 0.0, skill: 0.0, novelty: 0.0 })
    })
}

#[cfg(test)]
mod tests {
    use super::super::course::{BARN_RULES, built_in, empty};
    use super::super::{Conditions, Pilot, race};
    use super::*;
    use crate::deploy::board;

    fn barn() -> Board {
        board::built_in("barn").unwrap().unwrap().board
    }

    fn outcomes(pilot: Pilot, courses: &[Course]) -> Vec<Run> {
        let runs =
            race(&barn(), &[pilot], courses, Conditions::Good, 2, &AtomicBool::new(false), || ()).unwrap();
        runs.unwrap().remove(0)
    }

    #[test]
    fn every_pilot_crosses_an_empty_world() {
        let course = Course { number: 0, plan: empty(), path_m: 10.0, rules: BARN_RULES };
        for pilot in Pilot::ALL {
            let run = outcomes(pilot, std::slice::from_ref(&course)).remove(0);
            assert_eq!(run.outcome, Outcome::Reached, "{}", pilot.name());
            // 10 m to the goal, the last 1 m of which it need not drive.
            assert!((8.9..9.5).contains(&run.driven_m), "{}: {} m", pilot.name(), run.driven_m);
            assert_eq!(run.reversals, 0, "{}", pilot.name());
        }
    }

    #[test]
    fn pilots_reach_as_many_built_in_worlds_as_before() {
        let courses = built_in().unwrap();
        for (pilot, least) in [(Pilot::Navigator, 10), (Pilot::DynamicWindow, 4), (Pilot::ForceLets, 9)] {
            let runs = outcomes(pilot, &courses);
            let reached = runs.iter().filter(|run| run.outcome == Outcome::Reached).count();
            assert!(reached >= least, "{}: {reached} of {}", pilot.name(), runs.len());
        }
    }

    #[test]
    fn the_same_drive_gives_the_same_digest() {
        let course = built_in().unwrap().remove(3);
        let twice = [course.clone(), course];
        let runs = outcomes(Pilot::FollowGap, &twice);
        assert_eq!(runs[0], runs[1]);
    }

    #[test]
    fn a_wall_across_the_course_is_not_passed() {
        let mut plan = empty();
        plan.walls.push([0.0, 9.0, 12.0, 9.0]);
        let run = outcomes(Pilot::FollowGap, &[Course { number: 0, plan, path_m: 10.0, rules: BARN_RULES }])
            .remove(0);
        assert_ne!(run.outcome, Outcome::Reached);
        assert!(run.path.iter().all(|[_, y]| *y < 9.0));
    }

    #[test]
    fn a_board_without_beams_is_refused() {
        let other = board::built_in("virtual-bench").unwrap().unwrap().board;
        let refused =
            race(&other, &[Pilot::FollowGap], &[], Conditions::Good, 1, &AtomicBool::new(false), || ());
        assert!(matches!(refused, Err(super::super::BarnError::Board(name)) if name == "virtual-bench"));
    }
}
