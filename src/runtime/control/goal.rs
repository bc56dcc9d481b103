//! A running robot's progress towards its goal, and the orders that it receives.

use super::Sources;
use crate::base::plan::Board;
use crate::decision::mode::Mode;
use crate::field::EngineState;
use crate::field::navigate::goals::{GoalReport, Place, Task};
use crate::field::navigate::navigator::State;
use serde::{Deserialize, Serialize};

/// Why a robot whose engine is retired has given up.
const NO_ENGINE: &str = "the field's engine has failed for good, so nothing drives the robot";

/// The robot's progress towards its goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalStatus {
    /// Number of the newest order that the robot has received.
    pub order: u64,
    /// The place that the robot is driving to, has reached or has given up: metres ahead and to the left of
    /// the start.
    pub goal: Option<Place>,
    /// Places of the route after `goal`.
    pub left: u8,
    /// The name of the behaviour that was ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<String>,
    /// `idle`, `going`, `looking`, `backing`, `arrived`, `given-up`, `standing` or `behaving`. Idle:
    /// without an order, so the field drives an armed robot. Standing: by order.
    pub state: String,
    /// Why the robot does not go on.
    pub why: Option<String>,
    /// The robot's position by dead reckoning, relative to the start.
    pub at: Place,
    /// Its heading, degrees, counter-clockwise from the heading at the start.
    pub heading_deg: f64,
    /// The share of the commanded turns that the gyroscope measures, about 1; absent without one, and until
    /// the robot has turned by more than half a turn. Below -0.5: it measures the opposite, and is not
    /// used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_measured: Option<f64>,
}

impl GoalStatus {
    /// The report in human-readable form. The navigator runs after the field's cycle, so once the engine is
    /// retired, the robot goes nowhere and the report no longer changes: the goal then counts as given up.
    pub fn of(report: &GoalReport, behaviours: &[String], engine: EngineState) -> GoalStatus {
        let GoalReport { order, pose, turns_measured, goal, left, state, requester } = *report;
        let behaviour = requester.behaviour();
        let is_done = left == 0 && state == State::Arrived || matches!(state, State::GivenUp(_));
        let (state, why) = match (goal.is_some() || behaviour.is_some(), engine) {
            (true, EngineState::Retired) if !is_done => ("given-up", Some(NO_ENGINE)),
            _ => (state.name(), state.why()),
        };
        GoalStatus {
            order,
            goal,
            left,
            behaviour: behaviour.and_then(|number| behaviours.get(usize::from(number)).cloned()),
            state: state.into(),
            why: why.map(str::to_string),
            at: pose.at,
            heading_deg: pose.heading.to_degrees(),
            turns_measured,
        }
    }
}

/// The names of the behaviours of `board`, in the order of the board file.
pub fn behaviour_names(board: &Board) -> Vec<String> {
    board.behaviours.iter().map(|plan| plan.name.clone()).collect()
}

/// Why an order is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderRefusal {
    /// The robot has no navigator.
    NoNavigator,
    /// The robot is not armed; its mode has this code.
    NotArmed(u8),
    /// The board has no behaviour with this number.
    NoBehaviour(u8),
    /// The request does not say what to do.
    NoTask,
}

impl OrderRefusal {
    /// The reason, as text.
    pub(super) fn why(self) -> String {
        match self {
            OrderRefusal::NoNavigator => {
                "its board does not state what a navigator needs: [motion] with `body`, and \
                                          ranging sensors with a `beam`"
                    .into()
            }
            OrderRefusal::NotArmed(mode) => {
                format!("it is {}; arm it first ('ganglion arm')", Mode::name_of(mode))
            }
            OrderRefusal::NoBehaviour(number) => format!("its board has no behaviour number {number}"),
            OrderRefusal::NoTask => "the request does not say what to do".into(),
        }
    }

    /// Whether the same request may be carried out later.
    pub(super) fn may_pass(self) -> bool {
        matches!(self, OrderRefusal::NotArmed(_))
    }
}

impl Sources {
    /// Gives the robot an order. Only an armed robot accepts a goal. Returns the order's number.
    pub(super) fn order(&self, task: Option<Task>) -> Result<u64, OrderRefusal> {
        let goals = self.goals.as_ref().ok_or(OrderRefusal::NoNavigator)?;
        let task = task.ok_or(OrderRefusal::NoTask)?;
        let status = self.loop_status.load();
        if let Task::Behave(number) = task
            && usize::from(number) >= self.behaviours.len()
        {
            return Err(OrderRefusal::NoBehaviour(number));
        }
        if task.moves() && !status.is_armed() {
            return Err(OrderRefusal::NotArmed(status.mode));
        }
        Ok(goals.order(task))
    }
}
