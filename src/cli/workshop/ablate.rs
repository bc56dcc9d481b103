//! `ablate`: measures in the simulator what each part of a board's brain contributes; prints a table or JSON.

use super::teach::{bar, simulated};
use crate::base::plan::QualityLevel;
use crate::base::time::Span;
use crate::cli::arguments;
use crate::cli::error_text;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::origin::{COMPUTED, SIMULATED, Sources};
use crate::field::{STAGES, Stage};
use crate::runtime::session::SessionError;
use crate::workshop::ablate::arm::Arm;
use crate::workshop::ablate::interval::Interval;
use crate::workshop::ablate::judge::FIGURES;
use crate::workshop::ablate::{Finding, Findings, Progress, Study, ablate};
use crate::workshop::teach::Syllabus;
use crate::workshop::teach::trial::Rooms;
use crate::workshop::teach::trouble::Trouble;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Arguments of `ablate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion ablate --board sim
  ganglion ablate --board sim --arm table --arm map --trouble noise
  ganglion ablate --board sim --arm random --fields 1
  ganglion ablate --board boards/mine.toml --fields 10 --rooms 40 --json | tail -1

Every arm drives through the same rooms with the same reflexes. The whole field is the starting table
with the correction that the board's field was taught. The other arms are: the table with the
correction of a field that lacks one part and was taught anew, or of a linear map of the sensors
without memory; the table alone; and random requests. Figures are means over rooms and field seeds
with 95 % intervals; each difference from the whole field is taken in the same room with the same
seed. Reflexes are counted per 100 m, and so are stops: reflexes that did not only slow the car, but
stopped it driving forwards. Changes are from the first third of a drive to the last.
The last columns show what an arm saves: cycle time, measured in this run on this machine, and
memory, computed. One field seed takes some minutes.")]
pub struct Args {
    /// A simulated board: a file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE")]
    board: PathBuf,
    /// Compare only this arm with the whole field; may be repeated [default: all that the board has]
    #[arg(long = "arm", value_name = "ARM", value_parser = arms())]
    arms: Vec<Arm>,
    /// Rooms for each field seed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rooms: u16,
    /// Seed of the first room; the other rooms have the following seeds
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first_room: u64,
    /// Length of a drive, in virtual time
    #[arg(long = "for", value_name = "TIME", value_parser = arguments::span, default_value = "60s")]
    length: Span,
    /// Number of field seeds: the board's own and the following ones
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=64))]
    fields: u8,
    /// Teach and drive at this quality level, 0 (best) to 5
    #[arg(long, value_name = "N", value_parser = arguments::quality, default_value = "0")]
    quality: QualityLevel,
    /// Sensor faults that the driver sees: noise with a standard deviation of a twentieth of each sensor's
    /// span, or one sensor at a time that keeps its value for up to half a second
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = troubles())]
    trouble: Trouble,
    /// Threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// Maximum rounds of teaching for each arm
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=50))]
    rounds: u8,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// How each arm is taught: with a short trial after each round, because the drives through the study's own
/// rooms judge it.
fn syllabus(threads: usize, rounds: u8) -> Syllabus {
    let usual = Syllabus::default();
    Syllabus {
        threads,
        rounds: rounds.into(),
        rooms: Rooms { count: 4, seconds: 60, ..usual.rooms },
        ..usual
    }
}

fn arms() -> impl TypedValueParser<Value = Arm> {
    let others = Arm::ALL.map(Arm::name).into_iter().filter(|name| *name != Arm::Whole.name());
    PossibleValuesParser::new(others).map(|name| Arm::named(&name).unwrap_or(Arm::Whole))
}

fn troubles() -> impl TypedValueParser<Value = Trouble> {
    let named = |name: &str| Trouble::ASKED.into_iter().find(|trouble| trouble.name() == name);
    PossibleValuesParser::new(Trouble::ASKED.map(Trouble::name))
        .map(move |name| named(&name).unwrap_or(Trouble::None))
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let board = simulated(&args.board)?;
    let interrupt = Interrupt::watch()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    let seconds = (args.length.as_nanos() / 1_000_000_000).max(1);
    let study = Study {
        arms: if args.arms.is_empty() { Arm::ALL.to_vec() } else { args.arms.clone() },
        rooms: Rooms { first: args.first_room, count: args.rooms.into(), seconds },
        fields: args.fields.into(),
        quality: args.quality,
        trouble: args.trouble,
        syllabus: syllabus(threads, args.rounds),
    };
    let bar = bar();
    let findings = ablate(&board, &study, &interrupt.flag(), |progress| show(&bar, progress));
    bar.finish_and_clear();
    let findings = findings.map_err(|error| error_text::of_session(SessionError::Build(error), None))?;
    let Some(findings) = findings else {
        return Err(Failure::unavailable("interrupted: there are no figures"));
    };
    let report = Report::new(&board.name, board.field.seed, &study, &findings);
    report.print();
    if args.json { crate::cli::output::json(&report) } else { Ok(()) }
}

fn show(bar: &ProgressBar, progress: Progress) {
    let Progress { field: [nth, of], arm, round } = progress;
    let doing = match round {
        Some(round) => format!("is taught, round {}", round + 1),
        None => "drives".to_string(),
    };
    bar.set_message(format!("field seed {} of {of}: {} {doing}", nth + 1, arm.name()));
}

/// The object that `--json` prints; the table shows the same findings.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    board: &'a str,
    quality: usize,
    trouble: &'static str,
    first_room: u64,
    rooms: usize,
    seconds: u64,
    first_field: u64,
    field_seeds: usize,
    arms: Vec<Row>,
    /// Each stage's share of the whole field's cycle time, on this machine.
    shares_of_cycle: BTreeMap<&'static str, f64>,
    /// Figures that were not measured, by key.
    sources: Sources,
}

type Figures = BTreeMap<&'static str, Option<Interval>>;

/// An arm.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    #[serde(flatten)]
    figures: Figures,
    /// Means over the rooms of each field seed, the board's own first.
    by_field_seed: Vec<BTreeMap<&'static str, Option<f64>>>,
    /// Difference from the whole field in the same rooms and seeds.
    against_whole: Figures,
    /// Share of the arm's runs that equal the whole field's bit for bit.
    same_runs: f64,
    /// Share of the whole field's cycle time spent on the part that this arm leaves out, if that part is a
    /// separate stage.
    share_of_cycle: Option<f64>,
    /// Mean cycle time of the arm's driver on this machine, and its share of the whole field's cycle time.
    cycle_us: Option<f64>,
    cycle_of_whole: Option<f64>,
    /// Memory that the arm's driver uses, and how much less that is than the whole field's.
    memory_bytes: u64,
    saved_bytes: i64,
}

/// The origin of each figure that was not measured. The times of an arm were measured.
fn sources() -> Sources {
    let driven = ["arms.by_field_seed", "arms.against_whole", "arms.same_runs"];
    let figures = FIGURES_OF_ARMS.into_iter().chain(driven).map(|key| (key, SIMULATED));
    figures.chain(["arms.memory_bytes", "arms.saved_bytes"].map(|key| (key, COMPUTED))).collect()
}

/// [`FIGURES`], as keys of an arm.
const FIGURES_OF_ARMS: [&str; FIGURES.len()] = [
    "arms.contacts",
    "arms.falls",
    "arms.cells_visited",
    "arms.backward_share",
    "arms.still_share",
    "arms.smoothness",
    "arms.reflexes_per_100m",
    "arms.reflexes_change_per_100m",
    "arms.stops_per_100m",
    "arms.stops_change_per_100m",
];

impl Row {
    fn new(finding: &Finding, findings: &Findings) -> Row {
        let whole = &findings.arms[0];
        let named = |figures: [Option<Interval>; FIGURES.len()]| FIGURES.into_iter().zip(figures).collect();
        let stage = match finding.arm {
            Arm::Learning => Some(Stage::Learn),
            Arm::Library => Some(Stage::Library),
            Arm::Bank => Some(Stage::Bank),
            _ => None,
        };
        Row {
            name: finding.arm.name(),
            figures: named(finding.figures()),
            by_field_seed: (finding.by_field().into_iter())
                .map(|means| FIGURES.into_iter().zip(means).collect())
                .collect(),
            against_whole: named(finding.against(whole)),
            same_runs: finding.same_as(whole),
            share_of_cycle: stage.map(|stage| findings.shares[stage as usize]),
            cycle_us: finding.cost.cycle_us,
            cycle_of_whole: finding.cycle_of(whole),
            memory_bytes: finding.cost.memory_bytes,
            saved_bytes: whole.cost.memory_bytes as i64 - finding.cost.memory_bytes as i64,
        }
    }

    fn print(&self) {
        let of = |figures: &Figures, name: &str| figures.get(name).copied().flatten();
        let mean = |name| of(&self.figures, name).map_or(f64::NAN, |interval| interval.mean);
        let difference = |name, places: usize| match of(&self.against_whole, name) {
            Some(Interval { low, high, .. }) if low != 0.0 || high != 0.0 => {
                format!("{low:+.places$} to {high:+.places$}")
            }
            _ => "none".to_string(),
        };
        let same = if self.same_runs >= 1.0 { "  every run identical" } else { "" };
        // Adding 0 makes a rounded -0 positive.
        let saved = |share: f64| format!("{:.0}", (100.0 * (1.0 - share)).round() + 0.0);
        let saved_time = self.cycle_of_whole.map_or("-".to_string(), saved);
        say!(
            "{:<17}{:>9.2}{:>7.2}{:>7.1}{:>7.1}{:>7.1}{:>8.1}{:>9.1}{:>+7.1}{:>7.1}{:>+7.1}  {:<17}{:<17}{saved_time:>7}{:>8.2}{}",
            self.name,
            mean("contacts"),
            mean("falls"),
            mean("cells_visited"),
            100.0 * mean("backward_share"),
            100.0 * mean("still_share"),
            mean("smoothness"),
            mean("reflexes_per_100m"),
            mean("reflexes_change_per_100m"),
            mean("stops_per_100m"),
            mean("stops_change_per_100m"),
            difference("contacts", 2),
            difference("cells_visited", 1),
            self.saved_bytes as f64 / 1e6,
            same
        );
    }
}

impl<'a> Report<'a> {
    fn new(board: &'a str, first_field: u64, study: &Study, findings: &Findings) -> Report<'a> {
        let Study { rooms, fields, quality, trouble, .. } = study;
        Report {
            schema: 1,
            board,
            quality: quality.index(),
            trouble: trouble.name(),
            first_room: rooms.first,
            rooms: rooms.count,
            seconds: rooms.seconds,
            first_field,
            field_seeds: *fields,
            arms: findings.arms.iter().map(|finding| Row::new(finding, findings)).collect(),
            shares_of_cycle: STAGES.into_iter().zip(findings.shares).collect(),
            sources: sources(),
        }
    }

    /// Prints the worst field seed: a robot has one seed, about which the mean over seeds says nothing.
    fn say_worst_field(&self) {
        let contacts = |means: &BTreeMap<&str, Option<f64>>| means.get("contacts").copied().flatten();
        let fields = self.arms[0].by_field_seed.iter().map(|means| contacts(means).unwrap_or(0.0));
        let worst = fields.enumerate().max_by(|(_, one), (_, other)| one.total_cmp(other));
        let Some((field, contacts)) = worst else { return };
        let (all, rooms) = (contacts * self.rooms as f64, self.rooms);
        let seed = self.first_field.wrapping_add(field as u64);
        say!();
        say!("Most contacts of the whole field: {all:.0} in {rooms} rooms, with field seed {seed}");
    }

    fn print(&self) {
        let Report { board, quality, rooms, seconds, field_seeds, trouble, .. } = self;
        say!(
            "Board '{board}', level {quality}: {rooms} simulated rooms of {seconds} s, {field_seeds} field seeds, sensor faults: {trouble}"
        );
        say!();
        say!(
            "{:<17}{:>9}{:>7}{:>7}{:>7}{:>7}{:>8}{:>9}{:>7}{:>7}{:>7}  {:<34}  saves",
            "mean of a drive",
            "contacts",
            "falls",
            "cells",
            "back %",
            "still %",
            "smooth",
            "reflexes",
            "change",
            "stops",
            "change",
            "difference from the whole field, 95 %"
        );
        say!("{:<62}{:>32}  {:<17}{:<17}{:>7}{:>8}", "", "per 100 m", "contacts", "cells", "time %", "MB");
        self.arms.iter().for_each(Row::print);
        self.say_worst_field();
        let shares =
            self.shares_of_cycle.iter().map(|(stage, share)| format!("{stage} {:.0} %", 100.0 * share));
        say!();
        say!(
            "Cycle time of the whole field by stage (measured on this machine): {}",
            shares.collect::<Vec<_>>().join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workshop::ablate::Cost;
    use crate::workshop::ablate::judge::Run;

    fn finding(arm: Arm, cells: [f64; 2], digest: &str) -> Finding {
        let run = |cells| Run {
            figures: [1.0, 0.0, cells, 0.1, 0.2, -17.0, 20.0, -2.0, 8.0, -1.0],
            digest: digest.to_string(),
        };
        Finding { arm, runs: vec![cells.map(run).to_vec()], cost: Cost::default() }
    }

    #[test]
    fn the_object_has_every_arm_with_difference_and_cost() {
        let costs = |cycle_us, memory_bytes| Cost { cycle_us: Some(cycle_us), memory_bytes };
        let mut arms = vec![
            finding(Arm::Whole, [40.0, 50.0], "a"),
            finding(Arm::Table, [43.0, 53.0], "b"),
            finding(Arm::Bank, [40.0, 50.0], "a"),
        ];
        (arms[0].cost, arms[2].cost) = (costs(400.0, 5_000), costs(300.0, 2_000));
        let findings = Findings { arms, shares: [0.0, 0.5, 0.0, 0.0, 0.25, 0.25] };
        let study = Study {
            arms: Vec::new(),
            rooms: Rooms { first: 7, count: 2, seconds: 60 },
            fields: 1,
            quality: QualityLevel::WORST,
            trouble: Trouble::Outages,
            syllabus: Syllabus::default(),
        };
        let object = serde_json::to_value(Report::new("sim", 1, &study, &findings)).unwrap();
        assert_eq!(object["quality"], 5);
        assert_eq!(object["trouble"], "outages");
        let [whole, table, bank] = [0, 1, 2].map(|at| &object["arms"][at]);
        assert_eq!(whole["cells_visited"]["mean"], 45.0);
        assert_eq!(
            table["against_whole"]["cells_visited"]["low"], 3.0,
            "the rooms differ, but the difference is the same"
        );
        assert_eq!((&table["name"], &table["same_runs"]), (&"table".into(), &0.0.into()));
        assert_eq!((&bank["same_runs"], &bank["share_of_cycle"]), (&1.0.into(), &0.25.into()));
        assert!(table["share_of_cycle"].is_null() && table["cycle_of_whole"].is_null());
        assert_eq!((&bank["cycle_of_whole"], &bank["saved_bytes"]), (&0.75.into(), &3_000.into()));
        let sources = object["sources"].as_object().unwrap();
        for figure in FIGURES {
            assert_eq!(sources[&format!("arms.{figure}")], SIMULATED);
        }
        assert!(!sources.contains_key("arms.cycle_us"), "it was measured");
        assert_eq!(table["by_field_seed"][0]["cells_visited"], 48.0);
        assert_eq!(object["shares_of_cycle"]["evolve"], 0.5);
    }
}
