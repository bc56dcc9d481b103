//! One drive of a simulated robot through a room, and a lesson: a drive with a tutor's notes. The tutor knows
//! the true sensor values. It notes the difference between the table's output for these and for the values
//! that the driver sees.

use super::driver::Driver;
use super::fit::Regressors;
use super::trouble::{Trouble, Troubled};
use crate::base::plan::{Board, FieldPlan, QualityLevel, Shape};
use crate::base::time::{Clock, Instant, SimClock, Span};
use crate::drive::trace::Recorder;
use crate::field::engine::Cycle;
use crate::field::shape::FEATURES;
use crate::field::{Failure, FieldInput, FieldOutput, Inspect};
use crate::runtime::robot::{BuildError, Options, Robot};
use crate::runtime::runner;
use crate::sim::Report;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The tutor notes one cycle out of this many, because neighbouring cycles have nearly the same features.
const NOTED: u64 = 3;
/// The tutor notes every cycle in which the table commands reverse, and counts it this many times. Only one
/// cycle in thirty is like that; without the extra weight, least squares would sacrifice these for the rest.
const BACKWARD_COUNTS: usize = 4;
/// Targets stay below this, because the inverse of tanh grows without bound near 1.
const NEAR_FULL: f32 = 0.97;

/// The settings of a lesson.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lesson {
    /// Seed of the room.
    pub room: u64,
    /// The quality level of the drive.
    pub quality: QualityLevel,
    /// Length of the drive in seconds of virtual time.
    pub seconds: u64,
    /// The trouble in it.
    pub trouble: Trouble,
}

/// The tutor's notes of a drive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// Row by row, the regressors.
    pub seen: Vec<f32>,
    /// Row by row, the correct correction of each motor, before the tanh.
    pub wanted: Vec<f64>,
}

/// `board` on one thread and without the field's stored experiences, which no read-out depends on.
pub fn lean(board: &Board) -> Board {
    let mut board = board.clone();
    board.field.shape = Shape { bank: 1, patterns: 1, ..board.field.shape };
    board.field.threads = 1;
    board
}

/// Drives `lesson` with `driver`; returns the tutor's notes for `regressors`. Ends early if `interrupted`.
pub fn drive(
    board: &Board,
    lesson: &Lesson,
    driver: &Driver,
    regressors: &Regressors,
    interrupted: &AtomicBool,
) -> Result<Notes, BuildError> {
    let notes: Arc<Mutex<Notes>> = Arc::default();
    let drives = |motor: &usize| board.motors[*motor].kind.drives();
    let wanted = |motor: &usize| board.field.start.iter().any(|curve| curve.motor == *motor);
    let mut tutor = Tutor {
        plan: board.field.clone(),
        lesson: *lesson,
        driver: driver.clone(),
        regressors: regressors.clone(),
        drives: (0..board.motors.len()).filter(drives).collect(),
        aims: (0..board.motors.len()).filter(|motor| !drives(motor)).filter(wanted).collect(),
        features: vec![0.0; FEATURES],
        troubled: Troubled::new(lesson.trouble, lesson.room),
        notes: notes.clone(),
    };
    run(
        board,
        lesson.room,
        lesson.seconds,
        lesson.quality,
        driver,
        Box::new(move |engine, input| tutor.cycle(engine, input)),
        interrupted,
    )?;
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut notes))
}

/// The result of a drive.
pub struct Drive {
    /// What happened to the simulated robot.
    pub report: Report,
    /// How smoothly it moved, and the digest of everything that it sensed, decided and commanded.
    pub recorder: Recorder,
    /// Each third of the drive.
    pub thirds: [Third; 3],
}

/// A third of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Third {
    /// How often a reflex tripped.
    pub reflexes: u64,
    /// How often the reflexes stopped it driving forwards.
    pub stops: u64,
    /// How far the robot drove, metres.
    pub metres: f64,
}

impl Third {
    /// Reflexes and stops per 100 m; NaN if it stood.
    pub fn per_100_m(&self) -> [f64; 2] {
        [self.reflexes, self.stops].map(|count| match self.metres > 0.0 {
            true => 100.0 * count as f64 / self.metres,
            false => f64::NAN,
        })
    }

    /// This third and `other` together.
    pub fn and(self, other: Third) -> Third {
        Third {
            reflexes: self.reflexes + other.reflexes,
            stops: self.stops + other.stops,
            metres: self.metres + other.metres,
        }
    }
}

/// Sums up the thirds of a drive of `seconds` from what was counted in all when each slot ended.
struct Thirds {
    seconds: f64,
    sums: [Third; 3],
    before: Third,
}

impl Thirds {
    fn count(&mut self, at_s: f64, so_far: Third) {
        let third = &mut self.sums[((3.0 * at_s / self.seconds) as usize).min(2)];
        third.reflexes += so_far.reflexes - self.before.reflexes;
        third.stops += so_far.stops - self.before.stops;
        third.metres += so_far.metres - self.before.metres;
        self.before = so_far;
    }
}

/// Drives through `room` for `seconds` of virtual time. `cycle`, which calls `driver`, replaces the engine's
/// own cycle. The drive ends early if the car falls, and if `interrupted`: then its figures mean nothing.
pub fn run(
    board: &Board,
    room: u64,
    seconds: u64,
    quality: QualityLevel,
    driver: &Driver,
    cycle: Cycle<dyn Inspect>,
    interrupted: &AtomicBool,
) -> Result<Drive, BuildError> {
    let clock = Arc::new(SimClock::new());
    let first = Instant::ZERO + board.period;
    let options = Options {
        seed: room,
        readout: driver.readout(),
        quality: Some(quality),
        around: Some(cycle),
        ..Options::default()
    };
    let robot = Robot::build(board, clock.clone(), first, options)?;
    let plant = robot.plant.clone().ok_or(BuildError::NoBus { board: board.name.clone() })?;
    let until = first + Span::from_millis(1_000 * seconds);
    let over = AtomicBool::new(false);
    let mut thirds = Thirds { seconds: seconds as f64, sums: Default::default(), before: Third::default() };
    let ending = runner::step(robot, &clock, until, &over, |recorder| {
        let report = plant.report(clock.now());
        let ends = report.contacts.falls > 0 || interrupted.load(Ordering::Relaxed);
        over.fetch_or(ends, Ordering::Relaxed);
        let summary = recorder.summary();
        let so_far = Third {
            reflexes: summary.trips.iter().sum(),
            stops: summary.forward_stops,
            metres: report.distance_m,
        };
        thirds.count(clock.now().since(first).as_secs_f64(), so_far);
    });
    Ok(Drive { report: plant.report(clock.now()), recorder: ending.recorder, thirds: thirds.sums })
}

/// The correction of `motor`, before the tanh, that turns the table's output for the sensor values `seen`
/// into its output for the correct values (`right`), as far as the limit of the correction allows.
pub fn target(plan: &FieldPlan, motor: usize, right: &[f32], seen: &[f32]) -> f64 {
    let [right, seen] = [right, seen].map(|sensors| plan.start_wants(motor, sensors).clamp(-1.0, 1.0));
    let share = (right - seen) / plan.correction.max(f32::MIN_POSITIVE);
    libm::atanh(f64::from(share.clamp(-NEAR_FULL, NEAR_FULL)))
}

/// Watches the robot drive and notes how the table should have been corrected.
struct Tutor {
    plan: FieldPlan,
    lesson: Lesson,
    driver: Driver,
    regressors: Regressors,
    drives: Vec<usize>,
    /// The steering motors among those that the table has curves for.
    aims: Vec<usize>,
    features: Vec<f32>,
    troubled: Troubled,
    notes: Arc<Mutex<Notes>>,
}

impl Tutor {
    fn cycle(&mut self, engine: &mut dyn Inspect, input: &FieldInput) -> Result<FieldOutput, Failure> {
        let Lesson { room, trouble, .. } = self.lesson;
        let cycle = input.cycle;
        let seen = self.troubled.see(input, self.plan.shape.sensors);
        let mut response = self.driver.cycle(&self.plan, &seen, engine)?;
        let wanted = |motor: usize| self.plan.start_wants(motor, &input.sensors);
        let backwards = self.drives.iter().any(|motor| wanted(*motor) < 0.0);
        let is_noted = cycle.is_multiple_of(NOTED);
        if backwards || is_noted {
            engine.copy_features(&mut self.features);
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..if backwards { BACKWARD_COUNTS } else { 1 } {
                match &self.regressors {
                    Regressors::Features(list) => {
                        notes.seen.extend(list.iter().map(|feature| self.features[*feature]));
                    }
                    Regressors::Sensors(count) => notes.seen.extend(&seen.sensors[..*count]),
                }
                let motors = 0..self.plan.shape.motors;
                let [right, seen] = [&input.sensors, &seen.sensors];
                notes.wanted.extend(motors.map(|motor| target(&self.plan, motor, right, seen)));
            }
        }
        response.motors = trouble.motors(room, cycle, response.motors, &self.aims);
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reflexes_are_counted_in_the_third_in_which_they_trip() {
        let mut thirds = Thirds { seconds: 30.0, sums: Default::default(), before: Third::default() };
        let third = |(reflexes, stops, metres)| Third { reflexes, stops, metres };
        for (at_s, so_far) in [
            (1.0, (1, 0, 1.0)),
            (9.9, (3, 1, 2.0)),
            (15.0, (3, 1, 2.0)),
            (20.0, (3, 1, 3.0)),
            (30.0, (4, 2, 7.0)),
        ] {
            thirds.count(at_s, third(so_far));
        }
        assert_eq!(thirds.sums, [(3, 1, 2.0), (0, 0, 0.0), (1, 1, 5.0)].map(third));
        let [first, middle, last] = thirds.sums;
        assert_eq!([first, last].map(|third| third.per_100_m()), [[150.0, 50.0], [20.0, 20.0]]);
        assert!(middle.per_100_m().iter().all(|figure| figure.is_nan()), "it stood");
        assert_eq!(first.and(last), third((4, 2, 7.0)));
    }
}
