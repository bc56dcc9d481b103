//! `hil`: measures sensor to motor latency on a real robot, with two loopback wires. Moves the motors.

use super::exit::Failure;
use super::interrupt::Interrupt;
use super::{arguments, output, report};
use crate::access;
use crate::executor::Rest;
use crate::hil::{self, Figures, HilError, Loop};
use crate::plan::{Board, Line, SensorKind};
use crate::time::{Clock, MonotonicClock, Span};
use crate::trace::Latency;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The default target from sensor to motor, bus time included, where the board states no other.
const TARGET: Span = Span::from_millis(10);

/// Arguments of `hil`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion hil --board picarx-v4 --stimulus 17 --response 4          wires: 17 to the button's 25, P13 to 4
  ganglion hil --board jetson-orin-nano --stimulus PQ.05 --response PP.06 --sensor PN.01 --json

Two wires: from the stimulus' pin to the sensor's (default: the board's stop button), and from the motor's line (a PWM
output, an enable or a direction) to the response's pin. docs/wiring.md has the drawing. The motors run: lift the wheels
off the ground. No other process may use the robot: stop the service and its guard first.

Exit code 75 if the board's target is missed or a stimulus is not answered.")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE")]
    board: PathBuf,
    /// Output that acts as the sensor, by number or name
    #[arg(long, value_name = "LINE")]
    stimulus: String,
    /// Input that the stimulus is wired to [default: the board's first button]
    #[arg(long, value_name = "LINE")]
    sensor: Option<String>,
    /// Input that the motor's line is wired to
    #[arg(long, value_name = "LINE")]
    response: String,
    /// Number of passes
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    samples: u32,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The object.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    board: String,
    kernel: String,
    /// From just before the stimulus to the last edge of the motor's line, microseconds.
    sensor_to_motor_us: Option<Latency>,
    /// From an input's edge to an output driven in response, without the runtime, microseconds.
    gpio_echo_us: Option<Latency>,
    /// Lateness of a bare absolute sleep, microseconds.
    bare_timer_us: Option<Latency>,
    /// Upper edges in microseconds and counts of the loop's histogram.
    histogram: Vec<(f64, u64)>,
    unanswered: u64,
    echoes_lost: u64,
    /// `pulses` or `level`: what the motor's line carries.
    response: &'static str,
    /// The upper limit of the 99.9th percentile.
    target_us: f64,
    passed: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut board = arguments::board(&args.board)?.board;
    let lines = lines(&mut board, &args)?;
    let interrupt = Interrupt::watch()?;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let _claim = access::claim(&board)?;
    let hardware = access::open_wires(&board)?;
    let bar = progress(args.samples);
    let measured = hil::measure(&board, &hardware, lines, args.samples, &clock, &interrupt.flag(), |taken| {
        bar.set_position(u64::from(taken));
    });
    bar.finish_and_clear();
    if interrupt.asked() {
        return Err(Failure::unavailable("interrupted before the end of the measurement: no figures"));
    }
    let report = Report::new(&board, &measured.map_err(failure)?);
    report.say();
    if args.json {
        output::json(&report)?;
    }
    report.verdict()
}

fn failure(error: HilError) -> Failure {
    match error {
        HilError::Open(error) => error.into(),
        HilError::Loop(fault) => Failure::unavailable(fault)
            .fix("docs/wiring.md has the drawing; 'ganglion doctor --board FILE' checks the lines"),
        HilError::Build(error) => Failure::config(error),
        HilError::Drive(error) => Failure::permission(error),
        HilError::End { panicked, rest } => {
            let verdict = report::verdict_on(report::panicked(&panicked), rest == Rest::Unheard);
            verdict.expect_err("an end is returned only if it was not sound")
        }
    }
}

/// The bench's lines; its names are added to the board's.
fn lines(board: &mut Board, args: &Args) -> Result<Loop, Failure> {
    let button = board.sensors.iter().find_map(|sensor| {
        let SensorKind::Button { line, active_low } = sensor.kind else { return None };
        Some((line, active_low))
    });
    let (sensor, active_low) = match (&args.sensor, button) {
        (Some(text), _) => (line(board, text), false),
        (None, Some(button)) => button,
        (None, None) => {
            return Err(
                Failure::usage("the board has no button: name the sensor's line").fix("add --sensor LINE")
            );
        }
    };
    let lines = Loop {
        stimulus: line(board, &args.stimulus),
        sensor,
        active_low,
        response: line(board, &args.response),
    };
    let taken = [lines.stimulus, lines.sensor, lines.response];
    if taken[0] == taken[1] || taken[1] == taken[2] || taken[0] == taken[2] {
        return Err(Failure::usage("stimulus, sensor and response must be three different lines"));
    }
    Ok(lines)
}

/// A number is an offset; anything else is a name.
fn line(board: &mut Board, text: &str) -> Line {
    if let Ok(offset) = text.parse::<u16>() {
        return Line(u32::from(offset));
    }
    let known = board.line_names.iter().position(|name| name == text);
    let nth = known.unwrap_or_else(|| {
        board.line_names.push(text.to_string());
        board.line_names.len() - 1
    });
    Line::named(nth as u16)
}

fn progress(samples: u32) -> ProgressBar {
    let bar = ProgressBar::new(u64::from(samples));
    if let Ok(style) = ProgressStyle::with_template("measuring {bar:40} {pos}/{len}") {
        bar.set_style(style);
    }
    bar
}

impl Report {
    fn new(board: &Board, figures: &Figures) -> Report {
        let target = board.targets.sensor_to_motor.unwrap_or(TARGET);
        let loops = Latency::of(&figures.sensor_to_motor);
        let in_time = loops.is_some_and(|loops| loops.p999 <= target.as_micros_f64());
        let steps = figures.sensor_to_motor.iter_log(100_000, 2.0);
        Report {
            schema: 1,
            board: board.name.clone(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            sensor_to_motor_us: loops,
            gpio_echo_us: Latency::of(&figures.echo),
            bare_timer_us: Latency::of(&figures.bare_timer),
            histogram: steps
                .map(|step| (step.value_iterated_to() as f64 / 1e3, step.count_since_last_iteration()))
                .filter(|(_, count)| *count > 0)
                .collect(),
            unanswered: figures.unanswered,
            echoes_lost: figures.echoes_lost,
            response: if figures.pulsed { "pulses" } else { "level" },
            target_us: target.as_micros_f64(),
            passed: in_time && figures.unanswered == 0,
        }
    }

    fn say(&self) {
        say!("board '{}', kernel {}, measured now on these wires, microseconds", self.board, self.kernel);
        super::bench::say_latencies(&[
            ("sensor to motor", self.sensor_to_motor_us),
            ("gpio echo, bare", self.gpio_echo_us),
            ("timer, bare", self.bare_timer_us),
        ]);
        let most = self.histogram.iter().map(|(_, count)| *count).max().unwrap_or(1);
        for (edge, count) in &self.histogram {
            let width = (40 * count).div_ceil(most) as usize;
            say!("{:>10.1} us {count:>7}  {}", edge, "#".repeat(width));
        }
        say!("the motor's line carries {}; {} echoes lost", self.response, self.echoes_lost);
        let verdict = if self.passed { "met" } else { "missed" };
        say!("target, 99.9 % within {} us and every stimulus answered: {verdict}", self.target_us);
    }

    fn verdict(&self) -> Result<(), Failure> {
        if self.passed {
            return Ok(());
        }
        let what = match self.unanswered {
            0 => format!("slower than the target of {} us", self.target_us),
            lost => format!("{lost} stimuli were not answered: the motors kept running"),
        };
        Err(Failure::missed(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{latency_histogram, note};

    fn figures(us: &[u64], unanswered: u64) -> Figures {
        let mut loops = latency_histogram();
        us.iter().for_each(|us| note(&mut loops, Span::from_micros(*us)));
        let empty = latency_histogram();
        Figures {
            sensor_to_motor: loops,
            echo: empty.clone(),
            bare_timer: empty,
            unanswered,
            echoes_lost: 0,
            pulsed: true,
        }
    }

    #[test]
    fn only_answers_in_time_pass_and_all_of_them() {
        let board = crate::board::built_in("sim").unwrap().unwrap().board;
        let passes = |us: &[u64], lost| Report::new(&board, &figures(us, lost)).verdict().is_ok();
        assert!(passes(&[800, 9_000], 0));
        assert!(!passes(&[800, 10_500], 0), "the slowest of two is above the 99.9th percentile");
        assert!(!passes(&[800, 900], 1), "a stimulus without answer");
        assert!(!passes(&[], 0), "no sample");
    }
}
