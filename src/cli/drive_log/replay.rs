//! `log replay`: feeds a recorded run through the same tick code, slot by slot.

use super::range::Range;
use super::source::{Run, Source, field_copies};
use super::what_if::{self, Otherwise};
use crate::base::plan::{Board, EngineKind, QualityLevel};
use crate::cli::exit::Failure;
use crate::cli::{arguments, output, simulate};
use crate::deploy::board;
use crate::drive::record::Step;
use crate::field::snapshot::FieldCopy;
use crate::runtime::replay::{Difference, FieldAnswers, FieldReplay, FieldStart, Missing, Replay, Replayed};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Arguments of `log replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log replay drive.mcap
  ganglion log replay drive.mcap --from 40 --to 60    the 20 s in which the robot stopped
  ganglion log replay drive.mcap --what-if reflex.obstacle.below=0.18   with another limit
  ganglion log replay drive.mcap --field              compute the field again, too
  ganglion log replay drive.mcap --json | tail -1

A recording that starts in the middle of a run is replayed from its first checkpoint, and after a loss replay continues
at the next one; there is one every 5 s.

--what-if names a value of the board as `ganglion check` prints it: TABLE.KEY, or LIST.NAME.KEY in a list of named entries.
Slots that would have been decided differently are listed; they are not a failure. What the robot would have sensed then is not
known: the readings and the field's results are those of the recorded drive.

--field needs the start of the run, or a copy of the field in the recording, because an engine's state depends on every cycle
before; it stops where an answer is missing. The answers of a GPU are computed again on the CPU and may differ by 0.001,
because the order of its sums differs.

Exit codes: 0 every slot replayed as recorded; 65 a value differs, or the recording is damaged; 69 some slots cannot be
replayed, or some answers of the field not computed, because something before them is missing; all others are as recorded.")]
pub struct Args {
    /// The recording, or a folder, which stands for its newest run
    #[arg(value_name = "FILE|DIR")]
    recording: PathBuf,
    #[command(flatten)]
    range: Range,
    /// Also compute the field again and compare each of its answers; not with --from or --what-if
    #[arg(long, conflicts_with_all = ["from", "what_if"])]
    field: bool,
    /// The read-out that the run was given
    #[arg(long, value_name = "FILE", requires = "field")]
    readout: Option<PathBuf>,
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
    /// Recorded seconds that were replayed.
    seconds: f64,
    /// How long the replay took, seconds.
    took_s: f64,
    /// The field's answers, computed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<FieldReport>,
    /// Which decisions the board's changed values would have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    what_if: Option<Otherwise>,
}

/// The field's answers, computed again.
#[derive(Debug, Serialize)]
struct FieldReport {
    /// Answers with the same bits as recorded; for a GPU, the same up to rounding.
    equal: u64,
    /// Answers among the equal ones whose motors were not compared, because a goal replaced them.
    steered: u64,
    /// Answers before the first compared one, which belong to requests for which the field's state is
    /// unknown.
    before: u64,
    /// The largest difference between two values; 0 unless a GPU computed the run's field.
    largest: f32,
    /// Why later answers were not computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

impl FieldReport {
    fn of(answers: &FieldAnswers) -> FieldReport {
        let FieldAnswers { equal, steered, before, largest, ref unknown, .. } = *answers;
        FieldReport { equal, steered, before, largest, unknown: unknown.as_ref().map(ToString::to_string) }
    }

    fn print(&self) {
        let FieldReport { equal, steered, .. } = self;
        match self.largest {
            0.0 => say!("{equal} answers of the field computed again, bit for bit"),
            largest => {
                say!("{equal} answers of the GPU computed again on the CPU; largest difference {largest:.1e}")
            }
        }
        if self.before > 0 && *equal > 0 {
            say!(
                "{} earlier answers were not computed: the recording has no copy of the field from then",
                self.before
            );
        }
        if *steered > 0 {
            say!(
                "{steered} of the answers were compared without motors: a goal, a behaviour or an order to stand \
                 decided them"
            );
        }
        self.unknown.iter().for_each(|why| say!("Later answers were not computed: {why}"));
    }
}

/// Maximum number of reasons reported.
const TOLD: usize = 8;

/// A replay in progress. The newest slot is held back until the next one arrives, which shows what was lost
/// in between.
struct Course {
    replay: Replay,
    field: Option<FieldReplay>,
    waiting: Option<Box<Step>>,
    report: Report,
    first: Option<crate::base::time::Instant>,
    last_missing: Option<Missing>,
}

impl Course {
    fn new(run: &Run, args: &Args) -> Result<Course, Failure> {
        let changes = args.what_if.as_slice();
        let mut report = Report { schema: 1, board: run.word("board"), ..Report::default() };
        let replay = match changes {
            [] => board_of(run).map(|(board, quality)| Replay::new(&board, quality)),
            changes => {
                report.what_if = Some(Otherwise::new(changes));
                what_if::board_of(run, changes).map(|(board, quality)| Replay::what_if(&board, quality))
            }
        };
        let replay = replay?.map_err(Failure::unavailable)?;
        let readout = args.readout.as_deref();
        let field = match args.field {
            true => Some(field_of(run, readout, field_copies(&args.recording)?)?),
            false => None,
        };
        Ok(Course { replay, field, waiting: None, report, first: None, last_missing: None })
    }

    /// Replays the slot that was held back, and holds back `next`. Returns whether the replay continues.
    fn take(&mut self, next: Option<Box<Step>>) -> bool {
        let lost = next.as_ref().map_or(0, |next| next.slot.lost);
        let report = &mut self.report;
        if let Some(step) = std::mem::replace(&mut self.waiting, next) {
            let slot = step.slot.slot;
            report.slots += 1;
            report.seconds = slot.since(*self.first.get_or_insert(slot)).as_secs_f64();
            let replayed = self.replay.step(&step, lost);
            if let Some(field) = &mut self.field {
                field.step(&step.slot, &mut self.replay, replayed == Replayed::Equal);
            }
            match replayed {
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
        let field = self.field.as_ref().map(FieldReplay::answers);
        if let Some(difference) = field.and_then(|answers| answers.differs.as_ref()) {
            self.report.differ(difference);
        }
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
        self.field.iter().for_each(FieldReport::print);
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
            course = Some(Course::new(&source.run, args).map_err(|failure| failure.at(at()))?);
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
    report.field = course.field.as_ref().map(|field| FieldReport::of(field.answers()));
    report.took_s = began.elapsed().as_secs_f64();
    report.print();
    if args.json {
        output::json(&report)?;
    }
    let unknown = report.field.and_then(|field| field.unknown);
    match (report.differs, report.missing.into_iter().next().or(unknown)) {
        (Some(difference), _) => Err(Failure::data(difference).at(at())),
        (None, Some(missing)) => Err(Failure::unavailable(missing).at(at())),
        (None, None) => Ok(()),
    }
}

/// An engine for the field of `run`, with the read-out at `readout`.
fn field_of(run: &Run, readout: Option<&Path>, copies: Vec<FieldCopy>) -> Result<FieldReplay, Failure> {
    let (board, _) = board_of(run)?;
    let readout = readout.map(arguments::readout).transpose()?;
    let given = readout.as_ref().map_or(String::new(), |readout| readout.digest().to_hex().to_string());
    if given != run.word("readout") {
        let fix = "give --readout with the file that the run was given, and leave it out if there was none";
        return Err(Failure::usage("the run had another read-out").fix(fix));
    }
    let engine = EngineKind::named(&run.word("engine")).unwrap_or_default();
    let start = FieldStart { at_rest: run.word("resumed") != "true", copies };
    FieldReplay::new(&board, readout, engine, start).map_err(Failure::unavailable)
}

/// The board as the run used it, and the quality level that the run was fixed at, if any.
pub fn board_of(run: &Run) -> Result<(Board, Option<QualityLevel>), Failure> {
    let mut loaded = board::from_text("recorded", &run.board)
        .map_err(|error| Failure::data(format!("this program rejects the recorded board: {error}")))?;
    if run.word("simulated") == "true" {
        simulate::simulate(&mut loaded)?;
    }
    if loaded.digest.to_hex().to_string() != run.word("digest") {
        return Err(Failure::data(
            "this program interprets the recorded board differently from the version that recorded it",
        )
        .fix("use the version that recorded it"));
    }
    Ok(as_run(loaded.board, run))
}

/// `board` with the run's setting of `auto_arm`, and the quality level that the run was fixed at, if any.
pub fn as_run(mut board: Board, run: &Run) -> (Board, Option<QualityLevel>) {
    board.safety.auto_arm = run.word("auto_arm") == "true";
    (board, run.word("quality").parse().ok().and_then(QualityLevel::new))
}
