//! `log replay`: runs the recorded run through the same tick, slot by slot.

use super::range::Range;
use super::source::{Run, Source};
use super::what_if::{self, Otherwise};
use crate::base::plan::{Board, QualityLevel};
use crate::cli::exit::Failure;
use crate::cli::{output, simulate};
use crate::deploy::board;
use crate::drive::record::Step;
use crate::runtime::replay::{Difference, Missing, Replay, Replayed};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `log replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log replay drive.mcap
  ganglion log replay drive.mcap --from 40 --to 60    the third of a minute in which it stopped
  ganglion log replay drive.mcap --what-if reflex.obstacle.below=0.25    what another limit would have decided
  ganglion log replay drive.mcap --json | tail -1

A recording that starts in the middle of a run is replayed from its first checkpoint, and after a loss replay continues
at the next one; there is one every 5 s.

--what-if names a value of the board as `ganglion check` prints it: TABLE.KEY, or LIST.NAME.KEY in a list of named entries.
Lists the slots that would have been decided differently; this is not a failure. What the robot would have sensed then is not
known: the readings and the field's results are those of the recorded drive.

Exit codes: 0 every slot replayed as recorded; 65 a value differs, or the recording is damaged; 69 some slots cannot be
replayed, because slots before them are missing, and all others replayed as recorded.")]
pub struct Args {
    /// The recording, or a folder, for its newest run
    #[arg(value_name = "FILE|DIR")]
    recording: PathBuf,
    #[command(flatten)]
    range: Range,
    /// Change a value of the board and list the slots with other decisions; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    what_if: Vec<String>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The JSON output.
#[derive(Debug, Default, Serialize)]
struct Report {
    schema: u32,
    board: String,
    /// Slots with the same decision as recorded.
    equal: u64,
    /// Slots in the recording, or in the requested part of it.
    slots: u64,
    /// Slots that cannot be replayed.
    undecided: u64,
    /// Slots that ran but are missing from the recording.
    slots_missing: u64,
    /// The first value that differs.
    differs: Option<String>,
    differs_in_slot: Option<u64>,
    /// Why slots cannot be replayed; the first few reasons.
    missing: Vec<String>,
    /// Recorded seconds that were replayed, and how long that took.
    seconds: f64,
    took_s: f64,
    /// Which decisions the changed values of the board would have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    what_if: Option<Otherwise>,
}

/// Most reasons that are printed.
const TOLD: usize = 8;

/// A replay in progress. The newest slot waits for the next one, which tells what was lost after it.
struct Course {
    replay: Replay,
    waiting: Option<Box<Step>>,
    report: Report,
    first: Option<crate::base::time::Instant>,
    last_missing: Option<Missing>,
}

impl Course {
    fn new(run: &Run, changes: &[String]) -> Result<Course, Failure> {
        let mut report = Report { schema: 1, board: run.word("board"), ..Report::default() };
        let replay = match changes {
            [] => board_of(run).map(|(board, quality)| Replay::new(&board, quality)),
            changes => {
                report.what_if = Some(Otherwise::new(changes));
                what_if::board_of(run, changes).map(|(board, quality)| Replay::what_if(&board, quality))
            }
        };
        let replay = replay?.map_err(Failure::unavailable)?;
        Ok(Course { replay, waiting: None, report, first: None, last_missing: None })
    }

    /// Whether the replay continues.
    fn take(&mut self, next: Option<Box<Step>>) -> bool {
        let lost = next.as_ref().map_or(0, |next| next.slot.lost);
        let report = &mut self.report;
        if let Some(step) = std::mem::replace(&mut self.waiting, next) {
            let slot = step.slot.slot;
            report.slots += 1;
            report.seconds = slot.since(*self.first.get_or_insert(slot)).as_secs_f64();
            match self.replay.step(&step, lost) {
                Replayed::Equal => report.equal += 1,
                Replayed::Differs(difference) => match &mut report.what_if {
                    Some(otherwise) => otherwise.note(report.seconds, &difference),
                    None => report.differ(&difference),
                },
                Replayed::Missing(missing) => {
                    report.undecided += 1;
                    if self.last_missing.as_ref() != Some(&missing) && report.missing.len() < TOLD {
                        report.missing.push(missing.to_string());
                    }
                    self.last_missing = Some(missing);
                }
            }
        }
        self.report.slots_missing = self.replay.gaps();
        self.report.differs.is_none()
    }
}

impl Report {
    fn differ(&mut self, difference: &Difference) {
        (self.differs, self.differs_in_slot) = (Some(difference.to_string()), Some(difference.index));
    }

    fn print(&self) {
        let Report { equal, slots, undecided, slots_missing, seconds, took_s, .. } = self;
        if let Some(otherwise) = &self.what_if {
            otherwise.print();
        }
        say!("{equal} of {slots} slots replayed bit for bit ({seconds:.1} s in {took_s:.2} s)");
        if *undecided > 0 {
            say!("{undecided} slots cannot be replayed:");
        }
        self.missing.iter().for_each(|missing| say!("  {missing}"));
        if *slots_missing > 0 {
            say!("{slots_missing} slots that ran are missing from the recording");
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (began, mut course) = (Instant::now(), None);
    let mut source = Source::open(&args.recording)?;
    let mut part = args.range.begin()?;
    let at = || args.recording.display();
    while let Some(steps) = part.next(&mut source)? {
        if course.is_none() {
            course = Some(Course::new(&source.run, &args.what_if).map_err(|failure| failure.at(at()))?);
        }
        let Some(course) = &mut course else { continue };
        if !steps.into_iter().all(|step| course.take(Some(Box::new(step)))) {
            break;
        }
    }
    let Some(mut course) = course else {
        return Err(part.empty().at(at()));
    };
    if course.report.differs.is_none() {
        course.take(None);
    }
    let mut report = course.report;
    report.took_s = began.elapsed().as_secs_f64();
    report.print();
    if args.json {
        output::json(&report)?;
    }
    match (report.differs, report.missing.into_iter().next()) {
        (Some(difference), _) => Err(Failure::data(difference).at(at())),
        (None, Some(missing)) => Err(Failure::unavailable(missing).at(at())),
        (None, None) => Ok(()),
    }
}

/// The board as the run used it, and the quality level it was fixed at.
pub fn board_of(run: &Run) -> Result<(Board, Option<QualityLevel>), Failure> {
    let mut loaded = board::from_text("recorded", &run.board)
        .map_err(|error| Failure::data(format!("this program does not accept its board: {error}")))?;
    if run.word("simulated") == "true" {
        simulate::simulate(&mut loaded)?;
    }
    if loaded.digest.to_hex().to_string() != run.word("digest") {
        return Err(Failure::data(
            "this program interprets its board differently from the one that recorded it",
        )
        .fix("use the version that recorded it"));
    }
    Ok(as_run(loaded.board, run))
}

/// `board` with the run's setting for arming by itself, and the quality level that the run was fixed at.
pub fn as_run(mut board: Board, run: &Run) -> (Board, Option<QualityLevel>) {
    board.safety.auto_arm = run.word("auto_arm") == "true";
    (board, run.word("rung").parse().ok().and_then(QualityLevel::new))
}
