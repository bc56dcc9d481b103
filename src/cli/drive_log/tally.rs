//! Counts what happened in a recorded run, slot by slot, and summarises it in sentences.

use super::source::Run;
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{Board, Cause, QUALITY_LEVELS};
use crate::base::time::{Instant, Span};
use crate::cli::simulate;
use crate::decision::mode::Mode;
#[cfg(feature = "workshop")]
use crate::decision::motion::OdometryPose;
use crate::decision::motion::{MotionModel, Odometer};
use crate::deploy::board;
use crate::drive::record::{CHECKPOINTS_LEFT_OUT, End, ProcessMessage, Slot, causes};
use crate::system::rt::ProcessUsage;
use serde::Serialize;
use std::collections::BTreeMap;

/// The summary of a run; with `--json`, the printed object.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    schema: u32,
    board: String,
    version: String,
    /// From the first slot to the last.
    pub seconds: f64,
    slots: u64,
    /// Slots that were due but did not run.
    slots_lost: u64,
    /// Slots that ran but are missing from the recording.
    slots_missing: u64,
    /// Readings that are missing from the recording.
    readings_missing: u64,
    /// Checkpoints that were due but not recorded.
    checkpoints_left_out: u64,
    /// Metres driven, computed from the commands; absent if the board does not define its motion.
    metres: Option<f64>,
    armings: u64,
    armed_s: f64,
    /// Every stop, in order.
    pub stops: Vec<Stop>,
    trips: BTreeMap<&'static str, u64>,
    /// Seconds at each quality level.
    levels_s: [f64; QUALITY_LEVELS],
    release_late_max_us: f64,
    /// The program's memory, files and threads; absent if the recording lacks them.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<ProcessSummary>,
    /// Whether the file is complete.
    whole: bool,
    files: usize,
}

/// Memory, files and threads that the program used during the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct ProcessSummary {
    resident_kib: Use,
    open_files: Use,
    threads: Use,
}

/// Use of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Use {
    first: u64,
    last: u64,
    largest: u64,
}

impl Use {
    fn take(self, value: u64) -> Use {
        Use { first: self.first, last: value, largest: self.largest.max(value) }
    }
}

impl ProcessSummary {
    /// Updates the summary from another message; a message that lacks a value changes nothing.
    fn after(before: Option<ProcessSummary>, usage: &ProcessUsage) -> Option<ProcessSummary> {
        let ProcessUsage { resident_kib: Some(kib), open_files: Some(files), threads: Some(threads), .. } =
            *usage
        else {
            return before;
        };
        let start = |value| Use { first: value, ..Use::default() };
        let before = before.unwrap_or(ProcessSummary {
            resident_kib: start(kib),
            open_files: start(files),
            threads: start(threads),
        });
        Some(ProcessSummary {
            resident_kib: before.resident_kib.take(kib),
            open_files: before.open_files.take(files),
            threads: before.threads.take(threads),
        })
    }

    fn sentence(&self) -> String {
        let megabytes = |kib: u64| kib as f64 / 1024.0;
        let Use { first, last, largest } = self.resident_kib;
        let counts = |count: &Use| format!("(at first {}, at most {})", count.first, count.largest);
        format!(
            "At the end the program used {:.1} MiB of memory (at first {:.1}, at most {:.1}), {} open files {} \
             and {} threads {}.",
            megabytes(last),
            megabytes(first),
            megabytes(largest),
            self.open_files.last,
            counts(&self.open_files),
            self.threads.last,
            counts(&self.threads),
        )
    }
}

/// Why and when an armed robot stopped.
#[derive(Debug, Serialize)]
pub struct Stop {
    /// Seconds after the first slot.
    pub at_s: f64,
    /// The reason, as text.
    pub why: String,
}

/// The part of the run read so far.
#[derive(Default)]
pub struct Tally {
    /// The figures so far.
    pub summary: Summary,
    first: Option<Instant>,
    last: Option<Slot>,
    odometer: Option<Odometer>,
    period: Span,
}

impl Tally {
    /// The state before the first slot of a run. `board` is `None` if this program does not accept the run's
    /// board.
    pub fn new(board: Option<&Board>) -> Tally {
        let odometer = board.and_then(MotionModel::of).map(Odometer::new);
        Tally { period: board.map_or(Span::ZERO, |board| board.period), odometer, ..Tally::default() }
    }

    /// Where the robot is by dead reckoning, if the board states its motion. `report` draws it.
    #[cfg(feature = "workshop")]
    pub fn pose(&self) -> Option<OdometryPose> {
        self.odometer.as_ref().map(Odometer::pose)
    }

    /// Counts the next slot.
    pub fn take(&mut self, slot: &Slot) {
        let summary = &mut self.summary;
        let first = *self.first.get_or_insert(slot.slot);
        summary.seconds = slot.slot.since(first).as_secs_f64();
        summary.slots += 1;
        summary.slots_lost += slot.lost;
        summary.readings_missing += u64::from(slot.untold);
        let late = slot.began.since(slot.slot).as_nanos() as f64 / 1e3;
        summary.release_late_max_us = summary.release_late_max_us.max(late);
        summary.levels_s[slot.quality.index()] += self.period.as_secs_f64();
        for cause in causes(slot.tripped) {
            *summary.trips.entry(cause).or_default() += 1;
        }
        let armed = slot.mode.obeys_since().is_some();
        summary.armed_s += if armed { self.period.as_secs_f64() } else { 0.0 };
        if let Some(before) = &self.last {
            let next = before.index.saturating_add(1).saturating_add(slot.lost);
            summary.slots_missing += slot.index.saturating_sub(next);
            let was_armed = before.mode.obeys_since().is_some();
            summary.armings += u64::from(armed && !was_armed);
            let stopped = was_armed && !armed;
            let held = armed && !slot.limits.allow_motion() && before.limits.allow_motion();
            if stopped || held {
                summary.stops.push(Stop { at_s: summary.seconds, why: why(slot, stopped) });
            }
        }
        self.advance(slot);
        self.last = Some(slot.clone());
    }

    /// Adds the program's use of memory, files and threads.
    pub fn take_process(&mut self, message: &ProcessMessage) {
        self.summary.process = ProcessSummary::after(self.summary.process, &message.usage);
    }

    /// The summary and its sentences, once every slot of `run` has been counted. The sentences name the first
    /// `stops` stops; with 0, none is mentioned.
    pub fn end(self, run: &Run, stops: usize) -> (Summary, Vec<String>) {
        let mut summary = self.summary;
        (summary.schema, summary.board, summary.version) = (1, run.word("board"), run.word("version"));
        let left_out = run.ended.get(CHECKPOINTS_LEFT_OUT).and_then(|count| count.parse().ok());
        summary.checkpoints_left_out = left_out.unwrap_or(0);
        (summary.whole, summary.files) = (run.end == End::Whole, run.files);
        let sentences = summary.sentences(run, self.last.as_ref(), stops);
        (summary, sentences)
    }

    /// Advances the odometer by the previous command, which was in effect until `slot`, and by the rate of
    /// turn that was measured there.
    fn advance(&mut self, slot: &Slot) {
        let Some(odometer) = &mut self.odometer else { return };
        let before = self.last.as_ref().and_then(Slot::command);
        let motors = before.map_or([0.0; MAX_MOTORS], |command| command.motors);
        let turn = odometer.motion().measured_turn(&slot.frame);
        *self.summary.metres.get_or_insert(0.0) += odometer.advance(slot.slot, &motors, turn).abs();
    }
}

/// Why the robot stops in this slot, either until it is armed again or until a cause clears.
fn why(slot: &Slot, for_good: bool) -> String {
    let named = |set: u16| causes(set).join(", ");
    match slot.mode {
        Mode::Latched { cause } => format!("{}, latched until disarmed", cause.name()),
        Mode::Stopped => "the run was ended".to_string(),
        Mode::Disarmed if slot.asked.disarm => "it was disarmed on request".to_string(),
        Mode::Disarmed if slot.signals.slept.is_some() => "the machine slept".to_string(),
        Mode::Disarmed => format!("it was held too long by {}", named(slot.active)),
        _ if for_good => "its mode changed".to_string(),
        _ => match Cause::worst_of(slot.active) {
            Some(worst) => {
                let active = causes(slot.active).join(" and ");
                format!("{active}; {} ends with {}", worst.name(), worst.cleared_by())
            }
            None => "no cause is recorded".to_string(),
        },
    }
}

/// The board in the recording, if this program accepts it; the figures need only its period and its motion.
pub fn board_of(run: &Run) -> Option<Board> {
    let mut loaded = board::from_text("recorded", &run.board).ok()?;
    if run.word("simulated") == "true" {
        simulate::simulate(&mut loaded).ok()?;
    }
    Some(loaded.board)
}

impl Summary {
    fn sentences(&self, run: &Run, last: Option<&Slot>, stops: usize) -> Vec<String> {
        let mut said = Vec::new();
        macro_rules! add {
            ($($words:tt)*) => { said.push(format!($($words)*)) };
        }
        let (board, version, clock) = (&self.board, &self.version, run.word("clock"));
        add!("A run of board '{board}' by ganglion {version}, on a {clock} clock. Files: {}.", self.files);
        let Summary { seconds, slots, armings, armed_s, .. } = self;
        add!("Duration {seconds:.1} s, {slots} slots. Times armed: {armings}, for {armed_s:.1} s in total.");
        if let Some(metres) = self.metres {
            add!("Distance according to its commands: {metres:.1} m.");
        }
        let late = self.release_late_max_us;
        add!("{} due slots did not run; the others started at most {late:.0} us late.", self.slots_lost);
        for stop in self.stops.iter().take(stops) {
            add!("After {:.2} s it stopped: {}.", stop.at_s, stop.why);
        }
        if stops > 0 && self.stops.len() > stops {
            add!("It stopped {} more times; --json lists all.", self.stops.len() - stops);
        }
        let trips: Vec<String> = self.trips.iter().map(|(name, times)| format!("{name} {times}")).collect();
        add!("Reflexes: {}.", if trips.is_empty() { "none tripped".to_string() } else { trips.join(", ") });
        let level =
            |(level, seconds): (usize, &f64)| (*seconds > 0.0).then(|| format!("{level}: {seconds:.1} s"));
        let levels: Vec<String> = self.levels_s.iter().enumerate().filter_map(level).collect();
        if !levels.is_empty() {
            add!("Time at each quality level: {}.", levels.join(", "));
        }
        if let Some(last) = last {
            add!("At the end the robot was {}.", last.mode.name());
        }
        said.extend(self.process.as_ref().map(ProcessSummary::sentence));
        match (self.slots_missing, self.readings_missing) {
            (0, 0) if *slots == 0 => add!("The recording has no complete slot."),
            (0, 0) if !self.whole => add!("Nothing is missing before its end."),
            (0, 0) => add!("Nothing is missing from the recording."),
            (slots, readings) => {
                add!("Missing from the recording: {slots} slots that ran, {readings} readings.")
            }
        }
        if self.checkpoints_left_out > 0 {
            add!(
                "{} checkpoints were left out: replay after a loss starts at a later one.",
                self.checkpoints_left_out
            );
        }
        match self.whole {
            true => add!("The file is complete."),
            false => add!("The file was truncated: this is everything up to its last chunk."),
        }
        said
    }
}
