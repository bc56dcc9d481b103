//! `hil`: measures sensor-to-motor latency on a real robot, with two loopback wires. Moves the motors.

use super::exit::Failure;
use super::interrupt::Interrupt;
use super::{arguments, output, report};
use crate::base::plan::{self, Board, Line, LineSensor, SensorKind};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::deploy::hil::{self, Figures, HilError, Loop};
use crate::drive::trace::Latency;
use crate::runtime::access;
use crate::runtime::selftest::hat;
use crate::system::executor::Rest;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Target for the sensor-to-motor latency, including bus time, if the board states none.
const TARGET: Span = Span::from_millis(10);

/// Arguments of `hil`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion hil --board picarx-v4 --stimulus 17 --sensor 4 --response 22           D0-D1, motor-D3
  ganglion hil --board jetson-orin-nano --stimulus PY.04 --response PH.00 --json  16-29, PWM-33

Two wires: from the stimulus' pin to the sensor's (default: the board's stop button), and from the
motor's line (a PWM output, an enable or a direction) to the response's pin. docs/wiring.md has the
drawing. The motors run: lift the wheels off the ground. No other process may use the robot: stop
the service and its guard first.

Exit code 75 if the board's target is missed, or a stimulus gets no response.")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE")]
    board: PathBuf,
    /// Output that stands in for the sensor, by number or name
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

/// The JSON object.
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
    /// Histogram of `sensor_to_motor_us`: the upper edge of each bin in microseconds, and its count.
    histogram: Vec<(f64, u64)>,
    unanswered: u64,
    echoes_lost: u64,
    /// `pulses` or `level`: the kind of signal on the motor's line.
    response: &'static str,
    /// Upper limit for the 99.9th percentile of `sensor_to_motor_us`.
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
    let board = hat::with_found_address_awake(&board, hardware.as_ref(), clock.as_ref());
    let bar = progress(args.samples);
    let measured = hil::measure(&board, &hardware, lines, args.samples, &clock, &interrupt.flag(), |taken| {
        bar.set_position(u64::from(taken));
    });
    bar.finish_and_clear();
    if interrupt.asked() {
        return Err(Failure::unavailable("interrupted before the end of the measurement: no figures"));
    }
    let report = Report::new(&board, &measured.map_err(failure)?);
    report.print();
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
            verdict.expect_err("an outcome is returned only if the end was not clean")
        }
    }
}

/// The three lines of the measurement. Names that the board does not have are added to its names.
fn lines(board: &mut Board, args: &Args) -> Result<Loop, Failure> {
    let button = board.sensors.iter().find_map(|sensor| {
        let SensorKind::Lines(LineSensor::Button { line, active_low }) = sensor.kind else { return None };
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
    // The motors drive their lines during the measurement; the bench replaces the sensors.
    let motors = Board { sensors: Vec::new(), ..board.clone() };
    match plan::lines::lines(&motors).into_iter().find(|(line, _)| taken.contains(line)) {
        Some((line, role)) => {
            let name = plan::lines::name_of(board, line);
            Err(Failure::usage(format!("line {name} is the board's {role}: use a free one")))
        }
        None => Ok(lines),
    }
}

/// A line from its text: a number is an offset, anything else a name.
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

    fn print(&self) {
        say!("board '{}', kernel {}, measured on these wires, microseconds", self.board, self.kernel);
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
    use crate::drive::trace::{latency_histogram, note};
    use clap::{Args as _, FromArgMatches};

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

    /// Arguments as a user types them after `ganglion hil`.
    fn parsed(arguments: &str) -> Args {
        let command = Args::augment_args(clap::Command::new("hil"));
        let words = std::iter::once("hil").chain(arguments.split_whitespace());
        Args::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    /// Lines that a jumper wire can reach. On a Pi under a Robot HAT: D0 to D3, as printed. On a Jetson
    /// Orin Nano: the 40-pin header according to NVIDIA's jetson-gpio, gpio_pin_data.py.
    const HAT: [&str; 4] = ["17", "4", "27", "22"];
    const ORIN_NANO: [&str; 22] = [
        "PAC.06", "PR.04", "PH.07", "PY.00", "PN.01", "PY.04", "PY.03", "PY.01", "PZ.05", "PZ.04", "PZ.03",
        "PZ.06", "PZ.07", "PQ.05", "PQ.06", "PG.06", "PH.00", "PY.02", "PI.02", "PR.05", "PI.01", "PI.00",
    ];

    #[test]
    fn every_example_uses_free_pins_within_reach() {
        let help = Args::augment_args(clap::Command::new("hil")).get_after_help().unwrap().to_string();
        let wiring = include_str!("../../docs/wiring.md");
        // In the help, an example ends at the two spaces before its explanation; in the document, at the
        // closing backtick.
        let of_help = help.lines().filter_map(|line| line.trim_start().strip_prefix("ganglion hil "));
        let of_help = of_help.map(|line| line.split("  ").next().unwrap());
        let of_wiring = wiring.split('`').filter_map(|part| part.strip_prefix("ganglion hil "));
        let examples: Vec<&str> = of_help.chain(of_wiring).collect();
        assert!(examples.len() >= 4, "{examples:?}");
        for example in examples {
            let args = parsed(example);
            let mut board = arguments::board(&args.board).unwrap().board;
            let used = lines(&mut board, &args).unwrap_or_else(|failure| panic!("{example}: {failure}"));
            let reached: &[&str] = if board.name.starts_with("jetson") { &ORIN_NANO } else { &HAT };
            for line in [used.stimulus, used.sensor, used.response] {
                let name = plan::lines::name_of(&board, line);
                assert!(reached.contains(&name.as_str()), "{example}: no pin has {name}");
            }
        }
        let enable = parsed("--board jetson-orin-nano --stimulus PQ.05 --sensor PQ.06 --response PH.00");
        let mut board = arguments::board(&enable.board).unwrap().board;
        let refused = lines(&mut board, &enable).unwrap_err().to_string();
        assert!(refused.contains("line PQ.06 is the board's enable of the motors"), "{refused}");
    }

    #[test]
    fn all_stimuli_must_be_answered_in_time() {
        let board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let passes = |us: &[u64], lost| Report::new(&board, &figures(us, lost)).verdict().is_ok();
        assert!(passes(&[800, 9_000], 0));
        assert!(!passes(&[800, 10_500], 0), "with two samples, the 99.9th percentile is the slower one");
        assert!(!passes(&[800, 900], 1), "a stimulus without a response");
        assert!(!passes(&[], 0), "no sample");
    }
}
