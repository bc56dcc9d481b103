//! Measures sensor-to-motor latency on the wires: one output is looped to a sensor's input, and a motor's
//! line to another input. The runtime runs between them as it does on the robot. Linux timestamps the edges.
//!
//! ```text
//!   stimulus (output) ──wire 1──> sensor (input, the runtime's)
//!   motor line (the runtime's)  ──wire 2──> response (input)
//! ```
//!
//! This file builds the bench's board and returns the results. `baseline` measures the best that the machine
//! can do; `episode` runs the passes from edge to stop. The printed text and JSON are in `cli/hil.rs`.

mod episode;
mod baseline;

pub use episode::LoopFault;

use crate::base::plan::{
    Board, Cause, Curve, EngineKind, Line, LineSensor, Restraint, Rule, Scale, SensorKind, SensorPlan,
    StartCurve, Trip,
};
use crate::base::time::Span;
use crate::base::time::{Clock, Instant};
use crate::hardware::bus::{Bias, Gpio, Hardware, LineUse, OpenError, Usage};
use crate::runtime::robot::{BuildError, Options, Robot};
use crate::runtime::runner::{self, Ending, RunnerError, START_UP};
use crate::system::executor::Rest;
use crate::system::rt::{Role, become_real_time};
use hdrhistogram::Histogram;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// The lines of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Output that simulates the sensor.
    pub stimulus: Line,
    /// The runtime's input to which that output is looped.
    pub sensor: Line,
    /// Whether the sensor's input is high at rest, so that the stimulus pulls it low.
    pub active_low: bool,
    /// Input to which the motor's line is looped.
    pub response: Line,
}

/// Channel of the stimulus on the bench's board, which has only this one.
const STIMULUS: usize = 0;
/// Command to the wheels until the stimulus comes: high enough for a drive motor to turn and not only hum.
const DRIVE: f32 = 0.5;

/// Longer than any bench runs: the run ends when all samples are taken.
const UNTIL_DONE: Span = Span::from_millis(24 * 3_600_000);

/// The measurement; spans in nanoseconds.
pub struct Figures {
    /// From just before the stimulus is driven to the last edge of the motor's line.
    pub sensor_to_motor: Histogram<u64>,
    /// From an edge on the looped input to the next one, which a thread causes in response by driving the
    /// output; without bus or runtime.
    pub echo: Histogram<u64>,
    /// Lateness of a bare absolute sleep.
    pub bare_timer: Histogram<u64>,
    /// Stimuli after which the motor's line did not come to rest in time.
    pub unanswered: u64,
    /// Echoes with a lost edge.
    pub echoes_lost: u64,
    /// Whether the motor's line carried pulses (PWM) and not just a level.
    pub pulsed: bool,
}

/// Why there are no figures.
#[derive(Debug)]
pub enum HilError {
    /// A GPIO line cannot be opened.
    Open(OpenError),
    /// The robot cannot be built.
    Build(BuildError),
    /// The robot cannot run.
    Drive(RunnerError),
    /// The bench's own wires do not work as expected.
    Loop(LoopFault),
    /// Threads of the runtime panicked, or the motors did not confirm the stop at the end.
    End {
        /// The threads that panicked.
        panicked: Vec<&'static str>,
        /// What happened to the motors.
        rest: Rest,
    },
}

impl fmt::Display for HilError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HilError::Open(error) => error.fmt(f),
            HilError::Build(error) => error.fmt(f),
            HilError::Drive(error) => error.fmt(f),
            HilError::Loop(fault) => fault.fmt(f),
            HilError::End { panicked, .. } if !panicked.is_empty() => {
                write!(f, "a panic in a thread: {}", panicked.join(", "))
            }
            HilError::End { .. } => write!(f, "the motors did not confirm the stop at the end"),
        }
    }
}

impl std::error::Error for HilError {}

/// Measures `samples` passes over `lines`, with the runtime of `board` between them. The motors run: keep the
/// wheels off the ground. Once `interrupted` is set, ends early with the samples so far.
pub fn measure(
    board: &Board,
    hardware: &Arc<dyn Hardware>,
    lines: Loop,
    samples: u32,
    clock: &Arc<dyn Clock>,
    interrupted: &Arc<AtomicBool>,
    mut watch: impl FnMut(u32),
) -> Result<Figures, HilError> {
    let bench = bench_board(board, lines);
    let plan = bench.rt;
    let (floors, floor_clock) = (hardware.clone(), clock.clone());
    let floors = on_a_thread(move || {
        become_real_time(&plan, Role::Edges);
        baseline::measure(floors.as_ref(), lines, floor_clock.as_ref())
    })?;
    let options = Options { hardware: Some(hardware.clone()), ..Options::default() };
    let gpio = held(hardware.as_ref(), lines).map_err(HilError::Open)?;
    let mut robot = Robot::build(&bench, clock.clone(), Instant::ZERO, options).map_err(HilError::Build)?;
    let first = clock.now() + START_UP;
    robot.tick.start_at(first);

    let (taken, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let mut loops = episode::Episodes::new(gpio, lines, bench.period, clock.clone());
    let (count, stop) = (taken.clone(), over.clone());
    let passes = thread::Builder::new().name("hil".into()).spawn(move || {
        become_real_time(&plan, Role::Edges);
        let outcome = loops.run(samples, &count, &stop);
        stop.store(true, Ordering::Release); // end the runtime together with the bench
        outcome
    });
    let passes = passes.map_err(|error| HilError::Drive(RunnerError::Thread(error)))?;
    let driven = runner::run(robot, clock, first + UNTIL_DONE, &over, plan, |_| {
        watch(taken.load(Ordering::Relaxed));
        if interrupted.load(Ordering::Acquire) {
            over.store(true, Ordering::Release);
        }
    });
    over.store(true, Ordering::Release); // if the runtime could not start, nothing will respond
    let passed = passes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let Ending { panicked, rest, .. } = driven.map_err(HilError::Drive)?;
    if !panicked.is_empty() || rest == Rest::Unheard {
        return Err(HilError::End { panicked, rest });
    }
    let passed = passed.map_err(HilError::Loop)?;
    Ok(Figures {
        sensor_to_motor: passed.answers,
        unanswered: passed.unanswered,
        pulsed: passed.pulsed,
        echo: floors.echo,
        echoes_lost: floors.echoes_lost,
        bare_timer: floors.bare_timer,
    })
}

/// Runs `work` on its own thread, so that the real-time priority that it requests ends with the thread.
fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HilError> + Send + 'static,
) -> Result<T, HilError> {
    let thread = thread::Builder::new().name("floor".into()).spawn(work);
    let thread = thread.map_err(|error| HilError::Drive(RunnerError::Thread(error)))?;
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Opens the lines that the bench itself holds: drives the stimulus, and watches the response.
fn held(hardware: &dyn Hardware, lines: Loop) -> Result<Box<dyn Gpio>, OpenError> {
    let watched = Usage::Watched { bias: Bias::AsIs, debounce: Span::ZERO };
    hardware.gpio(
        "hil",
        &[
            LineUse { line: lines.stimulus, usage: Usage::Output { high: lines.active_low } },
            LineUse { line: lines.response, usage: watched },
        ],
    )
}

/// The bench's version of `board`: the same motors, buses and periods, but a single sensor, the looped line,
/// which stops the motors. The other sensors are left out because a bench does not have them. The guard is
/// left out because the bench's runtime drives the guard's line itself.
pub fn bench_board(board: &Board, lines: Loop) -> Board {
    let mut bench = board.clone();
    bench.sensors = vec![SensorPlan {
        name: "stimulus".to_string(),
        unit: "1".to_string(),
        kind: SensorKind::Lines(LineSensor::Button { line: lines.sensor, active_low: lines.active_low }),
        bus: 0,
        period: board.period,
        max_age: board.period.times(10),
        valid: [0.0, 1.0],
        frozen_after: None,
        worst_per_s: 0.0,
        required: true,
        input: Some(Scale { low: 0.0, high: 1.0, curve: Curve::Linear }),
        looks_at: None,
        beam: None,
    }];
    bench.reflexes = vec![Rule {
        // Not an e-stop, because its cause latches. The path from the line to the motors is the same for all
        // causes.
        cause: Cause::Tilt,
        channel: STIMULUS,
        trip: Trip::Above(0.5),
        clear: 0.4,
        hold: Span::ZERO,
        retreat: Span::ZERO,
        restraint: Restraint::Still,
        latched: false,
    }];
    bench.guard = None;
    bench.decisions = Vec::new();
    bench.safety.auto_arm = true;
    // It does not matter here what the field computes, only that it runs: use the smallest field that drives.
    bench.field.engine = EngineKind::Cpu;
    bench.field.shape.grid = 8;
    bench.field.shape.sensors = 1;
    bench.field.shape.patterns = 1;
    bench.field.shape.bank = 64;
    bench.field.learn = false;
    bench.field.start = board
        .motors
        .iter()
        .enumerate()
        .filter(|(_, motor)| motor.kind.drives())
        .map(|(motor, _)| StartCurve { motor, sensor: STIMULUS, points: vec![[-1.0, DRIVE], [1.0, DRIVE]] })
        .collect();
    bench
}
