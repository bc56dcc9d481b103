//! What the screen shows: the newest status, its history, and what the keys have changed.

use super::words;
use crate::runtime::control::{Lateness, Status};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Statuses per step of a graph: half a second at ten statuses per second.
const STATUSES_PER_STEP: u32 = 5;
/// Steps that a graph can show: two minutes.
const STEPS: usize = 240;
/// Maximum number of path points kept. They cover at least the last 40 m.
const TRAIL_POINTS: usize = 4_000;
/// Minimum distance between two consecutive points of the path, metres.
const TRAIL_STEP_M: f64 = 0.01;
/// How long the prompt that confirms arming a real robot stays open.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// Whose screen it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The screen of `ganglion run`: leaving it ends the run.
    Run,
    /// The screen of `ganglion top`: leaving it does not affect the robot.
    Top,
}

/// What the middle of the screen shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// Sensors, motors, loop, field, room.
    Robot,
    /// Slices through the field.
    Slices,
    /// The keys, and an explanation of the robot's page.
    Help,
}

/// Everything that is shown.
pub(super) struct Model {
    pub(super) owner: Owner,
    /// Whether colours may be used. They are never the only indication.
    pub(super) colour: bool,
    /// The newest status.
    pub(super) newest: Status,
    history: History,
    frozen: Option<Box<(Status, History)>>,
    /// Message about the last key.
    pub(super) notice: String,
    /// The newest line of the log.
    pub(super) log: Option<String>,
    pub(super) page: Page,
    /// Whether this screen has told the robot's program to end: it is then not an error if the program no
    /// longer answers.
    pub(super) has_stopped: bool,
    asked_to_arm: Option<Instant>,
}

/// Values over time; a status contains only the newest ones.
#[derive(Clone, Default)]
pub(super) struct History {
    /// The worst quality level in each step, newest last.
    pub(super) quality: VecDeque<usize>,
    /// Lateness class of the most delayed slot in each step; see `LATENESS_BOUNDS_US`.
    pub(super) lateness: VecDeque<usize>,
    /// The path that the simulated car has driven.
    pub(super) trail: VecDeque<[f64; 2]>,
    counts: Vec<u64>,
    statuses: u32,
}

impl Model {
    pub(super) fn new(owner: Owner, colour: bool, status: Status) -> Model {
        let mut history = History::default();
        history.take(&status);
        Model {
            owner,
            colour,
            newest: status,
            history,
            frozen: None,
            notice: String::new(),
            log: None,
            page: Page::Robot,
            has_stopped: false,
            asked_to_arm: None,
        }
    }

    /// Adds the newest status.
    pub(super) fn take(&mut self, status: Status) {
        self.history.take(&status);
        self.newest = status;
        if self.asked_to_arm.is_some_and(|asked| asked.elapsed() > CONFIRM_WITHIN) {
            self.asked_to_arm = None;
            self.notice = words::NOT_ARMED.to_string();
        }
    }

    /// What the page shows, except for the title, the mode and the causes, which are always current.
    pub(super) fn shown(&self) -> (&Status, &History) {
        match &self.frozen {
            Some(frozen) => (&frozen.0, &frozen.1),
            None => (&self.newest, &self.history),
        }
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Shows `page`; if it is already shown, goes back to the robot.
    pub(super) fn turn_to(&mut self, page: Page) {
        self.page = if self.page == page { Page::Robot } else { page };
    }

    /// Freezes the page, or continues.
    pub(super) fn freeze(&mut self) {
        self.frozen = match self.frozen.take() {
            Some(_) => None,
            None => Some(Box::new((self.newest.clone(), self.history.clone()))),
        };
    }

    /// Whether the key to arm takes effect now. For a real robot it must be pressed twice: one accidental key
    /// press must not make the robot drive.
    pub(super) fn may_arm(&mut self) -> bool {
        if self.newest.simulated || self.asked_to_arm.take().is_some() {
            return true;
        }
        self.asked_to_arm = Some(Instant::now());
        self.notice = words::CONFIRM_ARMING.to_string();
        false
    }

    /// Cancels the prompt that confirms arming, because another key was pressed.
    pub(super) fn forget_arming(&mut self) {
        if self.asked_to_arm.take().is_some() {
            self.notice = words::NOT_ARMED.to_string();
        }
    }
}

impl History {
    fn take(&mut self, status: &Status) {
        let begins = self.statuses.is_multiple_of(STATUSES_PER_STEP);
        self.statuses = self.statuses.wrapping_add(1);
        if let Some(quality) = &status.measured.quality {
            note(&mut self.quality, quality.level, begins);
        }
        if let Some(class) = status.measured.lateness.as_ref().and_then(|late| self.latest(late)) {
            note(&mut self.lateness, class, begins);
        }
        if let Some([x, y, _]) = status.room.as_ref().map(|room| room.pose) {
            self.walk([x, y]);
        }
    }

    /// Lateness class of the most delayed slot since the previous status; `None`: no slot ran since then.
    fn latest(&mut self, Lateness { counts, .. }: &Lateness) -> Option<usize> {
        let before = std::mem::replace(&mut self.counts, counts.clone());
        let is_new = |class: &usize| counts[*class] > before.get(*class).copied().unwrap_or(0);
        (0..counts.len()).rev().find(is_new)
    }

    fn walk(&mut self, [x, y]: [f64; 2]) {
        if let Some([last_x, last_y]) = self.trail.back()
            && (x - last_x).hypot(y - last_y) < TRAIL_STEP_M
        {
            return;
        }
        if self.trail.len() == TRAIL_POINTS {
            self.trail.pop_front();
        }
        self.trail.push_back([x, y]);
    }
}

/// Starts a new step with `value` if `begins`; otherwise adds `value` to the newest step, which keeps its
/// largest value.
fn note(steps: &mut VecDeque<usize>, value: usize, begins: bool) {
    match steps.back_mut() {
        Some(last) if !begins => *last = value.max(*last),
        _ => {
            if steps.len() == STEPS {
                steps.pop_front();
            }
            steps.push_back(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::control::{RoomStatus, Sources};

    #[test]
    fn a_step_shows_the_latest_slot_since_the_last_status() {
        let mut history = History::default();
        let late = |counts: &[u64]| Lateness { limit_us: 10_000.0, counts: counts.to_vec(), sum_us: 0.0 };
        assert_eq!(history.latest(&late(&[5, 1, 0])), Some(1));
        assert_eq!(history.latest(&late(&[9, 1, 0])), Some(0), "the late slot is older");
        assert_eq!(history.latest(&late(&[9, 1, 0])), None, "no slot ran");
        assert_eq!(history.latest(&late(&[9, 1, 2])), Some(2));
    }

    #[test]
    fn a_frozen_page_keeps_its_status_but_not_its_mode() {
        let mut model = Model::new(Owner::Top, false, Sources::idle().status());
        model.freeze();
        model.take(Status { slots_run: 9, mode: "armed".into(), ..Sources::idle().status() });
        assert_eq!((model.shown().0.slots_run, model.newest.mode.as_str()), (0, "armed"));
        model.freeze();
        assert_eq!(model.shown().0.slots_run, 9);
    }

    #[test]
    fn the_way_has_no_points_where_the_car_stands_and_no_end() {
        let mut history = History::default();
        (0..TRAIL_POINTS + 10).for_each(|step| history.walk([step as f64 * 0.011, 0.0]));
        history.walk([(TRAIL_POINTS + 9) as f64 * 0.011, 0.001]);
        assert_eq!(history.trail.len(), TRAIL_POINTS);
        assert_eq!(history.trail[0], [10.0 * 0.011, 0.0]);
    }

    #[test]
    fn a_real_robot_is_armed_by_the_second_key_only() {
        let real = Sources::idle().status();
        let mut model = Model::new(Owner::Top, false, real.clone());
        assert!(!model.may_arm());
        assert!(model.may_arm(), "the second time");
        assert!(!model.may_arm(), "the first prompt is already answered");
        model.forget_arming();
        assert!(!model.may_arm(), "another key came in between");
        let room: Option<RoomStatus> = None;
        let mut model = Model::new(Owner::Top, false, Status { simulated: true, room, ..real });
        assert!(model.may_arm());
    }
}
