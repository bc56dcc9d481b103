//! The goals of a run: where each is on the page's map, when the robot had it, and what became of it.

use crate::decision::motion::OdometryPose;
use crate::field::navigate::goals::{GoalReport, Place};
use serde::Serialize;

/// Maximum number of goals on a page: four routes of the greatest length. More marks would cover the map.
const MOST_GOALS: usize = 64;

/// A goal. A patrol comes to the same place again and again: that is one goal, with its newest state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GoalShown {
    /// When the robot first had this goal, seconds.
    pub from_s: f64,
    /// When it last had it.
    pub to_s: f64,
    /// Where it is in the coordinates of the page's path, metres.
    pub at: [f32; 2],
    /// The last state of the robot with this goal.
    pub state: &'static str,
    /// The reason for it.
    pub why: Option<&'static str>,
    /// Where it is for the robot.
    #[serde(skip)]
    place: Place,
}

/// The goals of a run so far.
#[derive(Debug, Default)]
pub struct Goals {
    all: Vec<GoalShown>,
    /// The last goal that did not fit.
    missed: Option<Place>,
    left_out: u64,
}

impl Goals {
    /// Adds what the robot reports about its goal. `pose` is the end of the page's path at that time. The
    /// robot counts from where its run began, the path from where the recording begins: so the goal is placed
    /// as the robot sees it from where it is.
    pub fn take(&mut self, at_s: f64, report: &GoalReport, pose: OdometryPose) {
        let Some(place) = report.goal else { return };
        let [ahead, left] = report.pose.sees(place);
        let at = pose.place(ahead, left).map(|metres| metres as f32);
        let (state, why) = (report.state.name(), report.state.why());
        if let Some(known) = self.all.iter_mut().find(|known| known.place == place) {
            *known = GoalShown { from_s: known.from_s, to_s: at_s, at, state, why, place };
        } else if self.all.len() < MOST_GOALS {
            self.all.push(GoalShown { from_s: at_s, to_s: at_s, at, state, why, place });
        } else if self.missed.replace(place) != Some(place) {
            self.left_out += 1;
        }
    }

    /// All goals, and how many were left out.
    pub fn end(self) -> (Vec<GoalShown>, u64) {
        (self.all, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::command::Requester;
    use crate::field::navigate::navigator::{Reason, State};

    fn report(pose: OdometryPose, goal: Option<Place>, state: State) -> GoalReport {
        let requester = Requester::Navigator;
        GoalReport { order: 1, pose, turns_measured: None, goal, left: 0, state, requester }
    }

    #[test]
    fn a_goal_is_where_the_robot_sees_it() {
        let mut goals = Goals::default();
        // The recording began when the robot was at (3, 1) and faced left, so the path began there too.
        let robot = OdometryPose { at: [3.0, 1.0], heading: std::f64::consts::FRAC_PI_2 };
        goals.take(0.5, &report(robot, None, State::Idle), OdometryPose::default());
        goals.take(1.0, &report(robot, Some([3.0, 2.5]), State::Going), OdometryPose::default());
        let there = OdometryPose { at: [3.0, 2.5], ..robot };
        let end = OdometryPose { at: [1.5, 0.0], heading: 0.0 };
        goals.take(4.0, &report(there, Some([3.0, 2.5]), State::Arrived), end);
        let (all, left_out) = goals.end();
        assert_eq!((all.len(), left_out), (1, 0));
        let goal = &all[0];
        assert_eq!((goal.from_s, goal.to_s, goal.state, goal.why), (1.0, 4.0, "arrived", None));
        assert!((goal.at[0] - 1.5).abs() < 1e-6 && goal.at[1].abs() < 1e-6, "{goal:?}");
    }

    #[test]
    fn goals_that_do_not_fit_are_counted_once() {
        let mut goals = Goals::default();
        let (pose, given_up) = (OdometryPose::default(), State::GivenUp(Reason::Stuck));
        for number in 0..MOST_GOALS + 3 {
            for _ in 0..2 {
                goals.take(number as f64, &report(pose, Some([number as f64, 0.0]), given_up), pose);
            }
        }
        let (all, left_out) = goals.end();
        assert_eq!((all.len(), left_out), (MOST_GOALS, 3));
        assert_eq!(all[0].why, given_up.why());
    }
}
