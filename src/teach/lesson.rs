//! One drive of a simulated robot: by the field, while a tutor takes notes; or by the starting table alone,
//! in the field's place.

use super::trouble::Trouble;
use crate::command::MAX_MOTORS;
use crate::field::brain::Brain;
use crate::field::interposer::{Interposer, only_motors};
use crate::field::shape::FEATURES;
use crate::field::{Failure, Readout, Response, Stimulus};
use crate::frame::MAX_SENSORS;
use crate::learn::imitate::{is_content, target};
use crate::plan::{Board, FieldPlan, Rung, Shape};
use crate::robot::{BuildError, Options, Robot};
use crate::runner;
use crate::sim::Report;
use crate::time::{Clock, Instant, SimClock, Span};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One cycle in so many is noted: features of the next ones are nearly the same.
const NOTED: u64 = 3;
/// Cycles in which the table wants backwards are all noted, and count as so many: they are one in thirty, and
/// least squares would rather be wrong there than in a hundred others.
const BACKWARD_COUNTS: usize = 4;

/// One drive that is learned from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lesson {
    /// Seed of the room.
    pub room: u64,
    /// The rung that it is driven at.
    pub rung: Rung,
    /// Its length in virtual time.
    pub seconds: u64,
    /// What makes it harder.
    pub trouble: Trouble,
}

/// What was noted in a drive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// Row by row, the features of the content channels.
    pub features: Vec<f32>,
    /// Row by row, what the table wants of each motor, before the tanh.
    pub wanted: Vec<f64>,
}

/// `board` without the field's memories of experience, which no read-out depends on, and on one thread.
pub fn lean(board: &Board) -> Board {
    let mut board = board.clone();
    board.field.shape = Shape { bank: 1, patterns: 1, ..board.field.shape };
    board.field.threads = 1;
    board
}

/// The features that a read-out of a table has weights for.
pub fn content() -> Vec<usize> {
    (0..FEATURES).filter(|&feature| is_content(feature)).collect()
}

/// Drives `lesson` with the field and `readout`; what it noted.
pub fn drive(board: &Board, lesson: &Lesson, readout: &Readout) -> Result<Notes, BuildError> {
    let notes: Arc<Mutex<Notes>> = Arc::default();
    let drives = |motor: &usize| board.motors[*motor].kind.drives();
    let wanted = |motor: &usize| board.field.start.iter().any(|curve| curve.motor == *motor);
    let tutor = Tutor {
        plan: board.field.clone(),
        lesson: *lesson,
        content: content(),
        drives: (0..board.motors.len()).filter(drives).collect(),
        aims: (0..board.motors.len()).filter(|motor| !drives(motor)).filter(wanted).collect(),
        features: vec![0.0; FEATURES],
        kept: [0.0; MAX_SENSORS],
        notes: notes.clone(),
    };
    run(board, lesson.room, lesson.seconds, lesson.rung, readout, Some(Box::new(tutor)))?;
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut notes))
}

/// Drives through `room`; what became of it. A car that has fallen is not driven on.
pub fn run(
    board: &Board,
    room: u64,
    seconds: u64,
    rung: Rung,
    readout: &Readout,
    interposer: Option<Box<dyn Interposer>>,
) -> Result<Report, BuildError> {
    let clock = Arc::new(SimClock::new());
    let first = Instant::ZERO + board.period;
    let options = Options {
        seed: room,
        readout: Some(readout.clone()),
        rung: Some(rung),
        interposer,
        ..Options::default()
    };
    let robot = Robot::build(board, clock.clone(), first, options)?;
    let plant = robot.plant.clone().ok_or(BuildError::NoBus { board: board.name.clone() })?;
    let until = first + Span::from_millis(1_000 * seconds);
    let fallen = AtomicBool::new(false);
    runner::step(robot, &clock, until, &fallen, |_| {
        fallen.fetch_or(plant.report(clock.now()).contacts.falls > 0, Ordering::Relaxed);
    });
    Ok(plant.report(clock.now()))
}

/// Watches the field drive and notes what the table would have done.
struct Tutor {
    plan: FieldPlan,
    lesson: Lesson,
    content: Vec<usize>,
    drives: Vec<usize>,
    /// Motors that steer, of those that the table has curves for.
    aims: Vec<usize>,
    features: Vec<f32>,
    kept: [f32; MAX_SENSORS],
    notes: Arc<Mutex<Notes>>,
}

impl Interposer for Tutor {
    fn cycle(
        &mut self,
        stimulus: &Stimulus,
        brain: &mut Brain,
        start: Instant,
        clock: &dyn Clock,
    ) -> Result<Response, Failure> {
        let Lesson { room, trouble, .. } = self.lesson;
        let used = self.plan.shape.sensors;
        let cycle = stimulus.cycle;
        self.kept = trouble.sensors(room, cycle, &stimulus.sensors, &self.kept, used);
        let seen = Stimulus { sensors: self.kept, ..*stimulus };
        let mut response = brain.cycle(&seen, start, clock)?;
        let wanted = |motor: usize| self.plan.start_wants(motor, &stimulus.sensors);
        let backwards = self.drives.iter().any(|motor| wanted(*motor) < 0.0);
        let is_noted = (cycle / u64::from(self.plan.every_ticks)).is_multiple_of(NOTED);
        if backwards || is_noted {
            brain.copy_features(&mut self.features);
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..if backwards { BACKWARD_COUNTS } else { 1 } {
                notes.features.extend(self.content.iter().map(|feature| self.features[*feature]));
                let motors = 0..self.plan.shape.motors;
                notes.wanted.extend(motors.map(|motor| target(&self.plan, motor, &stimulus.sensors)));
            }
        }
        response.motors = trouble.motors(room, cycle, response.motors, &self.aims);
        Ok(response)
    }
}

/// The starting table in the field's place.
pub struct TableAlone(pub FieldPlan);

impl Interposer for TableAlone {
    fn cycle(
        &mut self,
        stimulus: &Stimulus,
        _brain: &mut Brain,
        _start: Instant,
        _clock: &dyn Clock,
    ) -> Result<Response, Failure> {
        let mut motors = [0.0; MAX_MOTORS];
        for (motor, wanted) in motors[..self.0.shape.motors].iter_mut().enumerate() {
            *wanted = self.0.start_wants(motor, &stimulus.sensors).clamp(-1.0, 1.0);
        }
        Ok(only_motors(stimulus, motors))
    }
}
