//! The brains of all robots on one device, and one cycle of several of them. Runs on the device's own thread
//! (`line`).

use super::brain::Brain;
use super::launcher::{Launcher, MOST_ROBOTS};
use super::launches::Launches;
use super::line::CycleTask;
use super::start::Start;
use super::watch::Times;
use crate::base::plan::FieldPlan;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::field::sensor_ring::SensorRing;
use crate::system::gpu::{Call, GpuError};
use std::rc::Rc;

/// Timeout of the first cycle: some devices load the kernels during it.
const FIRST: Span = Span::from_millis(4_000);
/// CUDA_ERROR_INVALID_VALUE, reported for a robot that is not there.
const INVALID_VALUE: i32 = 1;
/// A robot is not there.
const NO_ROBOT: GpuError = GpuError { call: Call::Replay, code: INVALID_VALUE };

/// Identifies a robot among all that a device ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RobotKey(u64);

/// The brains on a device.
pub struct Brains {
    robots: Vec<Brain>,
    /// Number of robots that have joined so far.
    joined: u64,
    launcher: Rc<Launcher>,
    start: Rc<Start>,
    plan: FieldPlan,
}

/// A robot of a cycle.
#[derive(Clone, Copy)]
struct Due {
    launches: Launches,
    /// Its index among the brains.
    brain: usize,
    /// Its task, and its index in the task.
    task: (usize, usize),
}

impl Brains {
    /// No robots yet, on the device of `launcher`, which was opened for the same plan.
    pub fn new(plan: &FieldPlan, launcher: Launcher) -> Brains {
        let (launcher, start) = (Rc::new(launcher), Rc::new(Start::new(plan)));
        Brains { robots: Vec::with_capacity(MOST_ROBOTS), joined: 0, launcher, start, plan: plan.clone() }
    }

    /// Adds a robot in its initial state; returns its key. Allocates all its memory of host and device,
    /// except that of the library.
    pub fn join(&mut self, sensors: Option<&SensorRing>) -> Result<RobotKey, GpuError> {
        let (key, start, launcher) = (RobotKey(self.joined), self.start.clone(), self.launcher.clone());
        let mut brain = Brain::open(&self.plan, key, start, launcher, sensors)?;
        if self.joined == 0 {
            brain.rehearse(FIRST)?;
        }
        self.robots.push(brain);
        self.joined += 1;
        Ok(key)
    }

    /// Removes a robot.
    pub fn leave(&mut self, robot: RobotKey) {
        self.robots.retain(|brain| brain.key != robot);
    }

    /// Maximum number of robots in a cycle.
    pub fn most(&self) -> usize {
        self.launcher.robots()
    }

    /// Whether the callers have given the device up.
    pub fn are_abandoned(&self) -> bool {
        self.launcher.waiting.is_over()
    }

    /// The device.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// A robot's brain.
    pub fn robot(&mut self, robot: RobotKey) -> Result<&mut Brain, GpuError> {
        let place = self.place(robot)?;
        Ok(&mut self.robots[place])
    }

    /// The index of a robot's brain.
    fn place(&self, robot: RobotKey) -> Result<usize, GpuError> {
        self.robots.iter().position(|brain| brain.key == robot).ok_or(NO_ROBOT)
    }

    /// Bytes on the device, and pinned bytes of the host.
    pub fn memory(&self) -> (usize, usize) {
        let robots = self.robots.iter().map(Brain::memory);
        robots.fold(self.launcher.memory(), |sum, robot| (sum.0 + robot.0, sum.1 + robot.1))
    }

    /// Runs the cycles of `tasks` together, at most [`Brains::most`] robots, and notes in each task its
    /// answers and how it went. Robots that need the same launches share them; the others follow on the same
    /// stream.
    pub fn cycle(&mut self, tasks: &mut [Box<CycleTask>]) {
        let result = self.try_cycle(tasks);
        tasks.iter_mut().for_each(|task| task.result = result);
    }

    fn try_cycle(&mut self, tasks: &mut [Box<CycleTask>]) -> Result<Times, GpuError> {
        let (clock, launcher) = (MonotonicClock, self.launcher.clone());
        let begun = clock.now();
        let timeout = tasks.iter().map(|task| task.timeout).max().unwrap_or(Span::ZERO);
        let due = self.lay(tasks)?;
        let groups = || due.chunk_by(|one, other| one.launches == other.launches);
        launcher.begin()?;
        for group in groups() {
            launcher.replay(group[0].launches, group.iter().map(|due| &self.robots[due.brain]))?;
        }
        let submitted = clock.now();
        let are_reported = || due.iter().all(|due| self.robots[due.brain].desk.is_reported());
        let usual = launcher.usual.get().min(timeout);
        launcher.waiting.until_reported(are_reported, &launcher.main, usual, timeout)?;
        let seen = clock.now();
        let mut kernels = Span::ZERO;
        for group in groups() {
            let mut longest = Span::ZERO;
            for Due { brain, task: (task, nth), .. } in group {
                let (answer, took) = self.robots[*brain].take();
                tasks[*task].answers[*nth] = answer;
                longest = longest.max(took);
            }
            kernels = kernels + longest; // the groups follow each other
        }
        // Measured on the device's clock, so it does not depend on when this thread polled.
        launcher.usual.set(kernels);
        Ok(Times { submit: submitted.since(begun), kernels, whole: seen.since(begun) })
    }

    /// Writes the orders of all robots of `tasks`; returns these robots, ordered by the launches that they
    /// need.
    fn lay(&mut self, tasks: &[Box<CycleTask>]) -> Result<heapless::Vec<Due, MOST_ROBOTS>, GpuError> {
        let mut due = heapless::Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            for (nth, (robot, input)) in task.robots.iter().zip(&task.inputs).enumerate() {
                let brain = self.place(*robot)?;
                let launches = self.robots[brain].lay(input);
                due.push(Due { launches, brain, task: (index, nth) }).map_err(|_| NO_ROBOT)?;
            }
        }
        due.sort_unstable_by_key(|due| (due.launches, due.brain));
        Ok(due)
    }
}
