//! `log replay`: the recorded run through the same tick, slot by slot.

use super::source::{self, Run};
use crate::base::plan::{Board, Rung};
use crate::cli::exit::Failure;
use crate::cli::{output, simulate};
use crate::deploy::board;
use crate::drive::record::Slot;
use crate::runtime::replay::{Difference, Missing, Replay, Replayed};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `log replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log replay drive.mcap
  ganglion log replay drive.mcap --json | tail -1

Exit codes: 0 every slot was decided as recorded; 65 a value differs, or the recording is damaged; 69 a part of the run
is missing from the recording, and every slot before it was decided as recorded.")]
pub struct Args {
    /// The recording, or a folder of them: then its newest run
    #[arg(value_name = "FILE|DIR")]
    recording: PathBuf,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The object.
#[derive(Debug, Default, Serialize)]
struct Report {
    schema: u32,
    board: String,
    /// Slots that were decided as recorded.
    equal: u64,
    /// Slots in the recording.
    slots: u64,
    /// The first value that differs.
    differs: Option<String>,
    differs_in_slot: Option<u64>,
    /// What keeps the rest from being decided again.
    missing: Option<String>,
    /// Recorded seconds that were decided again, and how long that took.
    seconds: f64,
    took_s: f64,
}

/// A replay that goes on as slots come; the newest waits for the next, which says what was lost after it.
struct Course {
    replay: Replay,
    waiting: Option<Box<Slot>>,
    equal: u64,
    slots: u64,
    first: Option<crate::base::time::Instant>,
    seconds: f64,
    found: Option<Result<Difference, Missing>>,
}

impl Course {
    fn new(run: &Run) -> Result<Course, Failure> {
        let (board, rung) = board_of(run)?;
        let replay = Replay::new(&board, rung).map_err(Failure::unavailable)?;
        Ok(Course { replay, waiting: None, equal: 0, slots: 0, first: None, seconds: 0.0, found: None })
    }

    fn take(&mut self, next: Option<Box<Slot>>) {
        self.slots += u64::from(next.is_some());
        let lost = next.as_ref().map_or(0, |next| next.lost);
        if let Some(slot) = self.waiting.take().filter(|_| self.found.is_none()) {
            self.seconds = slot.slot.since(*self.first.get_or_insert(slot.slot)).as_secs_f64();
            match self.replay.slot(&slot, lost) {
                Replayed::Equal => self.equal += 1,
                Replayed::Differs(difference) => self.found = Some(Ok(difference)),
                Replayed::Missing(missing) => self.found = Some(Err(missing)),
            }
        }
        self.waiting = next;
    }
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (began, mut course) = (Instant::now(), None);
    let run = source::read(&args.recording, |run, slot| {
        if course.is_none() {
            course = Some(Course::new(run).map_err(|failure| failure.at(args.recording.display()))?);
        }
        course.iter_mut().for_each(|course| course.take(Some(slot.clone())));
        Ok(())
    })?;
    let Some(mut course) = course else {
        return Err(Failure::data("it has no slots").at(args.recording.display()));
    };
    course.take(None);
    let mut report = Report {
        schema: 1,
        board: run.word("board"),
        equal: course.equal,
        slots: course.slots,
        seconds: course.seconds,
        took_s: began.elapsed().as_secs_f64(),
        ..Report::default()
    };
    match &course.found {
        Some(Ok(difference)) => {
            (report.differs, report.differs_in_slot) = (Some(difference.to_string()), Some(difference.index));
        }
        Some(Err(missing)) => report.missing = Some(missing.to_string()),
        None => {}
    }
    let Report { equal, slots, seconds, took_s, .. } = report;
    say!("{equal} of {slots} slots were decided as recorded, to the bit ({seconds:.1} s in {took_s:.2} s)");
    if args.json {
        output::json(&report)?;
    }
    match (report.differs, report.missing) {
        (Some(difference), _) => Err(Failure::data(difference).at(args.recording.display())),
        (None, Some(missing)) => Err(Failure::unavailable(missing)
            .at(args.recording.display())
            .fix("record the whole run: 'ganglion run --record', without --record-when armed")),
        (None, None) => Ok(()),
    }
}

/// The board as the run had it, and the level of quality at which it was held.
fn board_of(run: &Run) -> Result<(Board, Option<Rung>), Failure> {
    let mut loaded = board::from_text("recorded", &run.board).map_err(|error| {
        Failure::data(format!("the board in it is not one that this program takes: {error}"))
    })?;
    if run.word("simulated") == "true" {
        simulate::simulate(&mut loaded)?;
    }
    if loaded.digest.to_hex().to_string() != run.word("digest") {
        return Err(Failure::data(
            "the board in it does not mean to this program what it meant to the one that recorded",
        )
        .fix("use the version that recorded it"));
    }
    loaded.board.safety.auto_arm = run.word("auto_arm") == "true";
    let rung = run.word("rung").parse().ok().and_then(Rung::new);
    Ok((loaded.board, rung))
}
