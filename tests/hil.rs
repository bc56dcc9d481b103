//! The bench of `ganglion hil`, run against the simulated robot: two simulated loop-back wires around it and
//! the real runtime between them, in real time. Counts the responses, but does not assert how long they took.

use ganglion::base::fault::BusFault;
use ganglion::base::plan::{Board, Line};
use ganglion::base::time::{Clock, Instant, MonotonicClock, Span};
use ganglion::deploy::board;
use ganglion::deploy::hil::{self, Figures, HilError, Loop, LoopFault};
use ganglion::hardware::bus::{Edge, Gpio, Hardware, I2c, LineUse, Op, OpenError};
use ganglion::sim::Plant;
use ganglion::workshop::learn::parallel;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const LINES: Loop = Loop { stimulus: Line(200), sensor: Line(201), active_low: false, response: Line(202) };

/// A line that is driven on one side and watched on the other.
#[derive(Default)]
struct Wire {
    state: Mutex<(bool, VecDeque<Edge>)>,
    changed: Condvar,
}

impl Wire {
    fn drive(&self, line: Line, high: bool, stamp: Instant) {
        let mut state = self.state.lock().unwrap();
        if state.0 != high {
            state.0 = high;
            state.1.push_back(Edge { line, high, stamp });
            self.changed.notify_all();
        }
    }
    fn level(&self) -> bool {
        self.state.lock().unwrap().0
    }
    fn next(&self, wait: Span) -> Option<Edge> {
        let state = self.state.lock().unwrap();
        let wait = Duration::from_nanos(wait.as_nanos());
        let (mut state, _) =
            self.changed.wait_timeout_while(state, wait, |state| state.1.is_empty()).unwrap();
        state.1.pop_front()
    }
}

/// The simulated robot with the bench's two wires, either of which may be missing.
struct Looped {
    plant: Plant,
    sensor: Arc<Wire>,
    response: Arc<Wire>,
    first_in_place: bool,
    second_in_place: bool,
}

impl Looped {
    fn new(board: &Board) -> Looped {
        let plant = Plant::new(board, 1, &[], Arc::new(MonotonicClock));
        let (sensor, response) = (Arc::default(), Arc::default());
        Looped { plant, sensor, response, first_in_place: true, second_in_place: true }
    }
}

impl Hardware for Looped {
    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        let response = self.second_in_place.then(|| self.response.clone());
        Ok(Box::new(LoopedI2c {
            inner: Hardware::i2c(&self.plant, bus)?,
            plant: self.plant.clone(),
            response,
        }))
    }
    fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        let own = |used: &LineUse| used.line.0 >= LINES.stimulus.0;
        if lines.iter().any(own) {
            let sensor = self.sensor.clone();
            let watched = if lines.iter().any(|used| used.line == LINES.response) {
                &self.response
            } else {
                &self.sensor
            };
            return Ok(Box::new(LoopedGpio {
                sensor,
                watched: watched.clone(),
                in_place: self.first_in_place,
            }));
        }
        Hardware::gpio(&self.plant, owner, lines)
    }
}

/// The motors' bus: after each transfer, the response line shows whether the motors are driven.
struct LoopedI2c {
    inner: Box<dyn I2c>,
    plant: Plant,
    response: Option<Arc<Wire>>,
}

impl I2c for LoopedI2c {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let outcome = self.inner.transfer(address, ops);
        if let Some(response) = &self.response {
            response.drive(LINES.response, !self.plant.motors_still(), MonotonicClock.now());
        }
        outcome
    }
}

/// The bench's lines: it drives the stimulus and watches either the sensor line or the response line.
struct LoopedGpio {
    sensor: Arc<Wire>,
    watched: Arc<Wire>,
    in_place: bool,
}

impl Gpio for LoopedGpio {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        assert_eq!(line, LINES.stimulus, "the only output of the bench");
        if self.in_place {
            self.sensor.drive(LINES.sensor, high, MonotonicClock.now());
        }
        Ok(())
    }
    fn get(&mut self, line: Line) -> Result<bool, BusFault> {
        Ok(if line == LINES.response { self.watched.level() } else { self.sensor.level() })
    }
    fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault> {
        Ok(self.watched.next(wait))
    }
}

fn measure(first_in_place: bool, second_in_place: bool) -> Result<Figures, HilError> {
    let board = board::built_in("sim").unwrap().unwrap().board;
    let hardware: Arc<dyn Hardware> =
        Arc::new(Looped { first_in_place, second_in_place, ..Looped::new(&board) });
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let interrupted = Arc::new(AtomicBool::new(false));
    let figures = hil::measure(&board, &hardware, LINES, 20, &clock, &interrupted, |_| {});
    // A later check for an interrupt must not be misled by the bench's own end.
    assert!(!interrupted.load(Ordering::Relaxed));
    figures
}

#[test]
fn every_stimulus_stops_the_motors_and_they_run_again() {
    let figures = measure(true, true).unwrap();
    assert_eq!((figures.sensor_to_motor.len(), figures.unanswered), (20, 0));
    assert!(!figures.pulsed, "this wire 2 carries a level");
    assert!(figures.sensor_to_motor.min() > 0);
    assert_eq!(figures.echo.len() + figures.echoes_lost, 1000);
    assert_eq!(figures.bare_timer.len(), 1000);
}

#[test]
fn a_missing_wire_is_named() {
    let cases = [(false, true, LoopFault::NoEcho), (true, false, LoopFault::NeverRan)];
    parallel::map(2, &cases, |&(first, second, expected)| match measure(first, second) {
        Err(HilError::Loop(fault)) => assert_eq!(fault, expected),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("measured figures although a wire is missing"),
    });
}
