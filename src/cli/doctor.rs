//! `doctor`: shows what this machine grants a real-time program, one line per finding, each refusal with its
//! fix. It makes its requests on temporary threads, reads `/proc` and `/sys`, and queries device nodes and
//! the GPU's driver. It makes no bus transfers, drives no line, moves no motor, and changes settings only
//! with `--fix --yes`. Only with `--test` does it run the robot's self-test; even then the motors stay
//! stopped.

mod devices;
mod first_slots;
mod gpu;
mod grants;
mod memory;
mod system;
mod tether;
mod wiring;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::exit::Failure;
use crate::base::plan::Board;
use crate::deploy::setup::files::{names, text};
use crate::deploy::setup::tuning;
use crate::memory::choice::Preference;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion doctor                             one line per finding, with the fix for each refusal
  ganglion doctor --board boards/my-car.toml  also whether this machine has what that board needs
  ganglion doctor --board picarx-v4 --test    also test lines, devices and first readings
  ganglion doctor --fix                       also propose improvements of timing, file by file
  sudo ganglion doctor --fix --yes            make them, permanently: full clock, real-time limits
  ganglion doctor --json                      the same as one JSON object on the last line

Exit code 69 if the machine refuses something that the board needs; a board with 'rt.strict' needs
its priority, its core and its locked memory. Without --board nothing counts as needed. Stop the
runtime before --test.")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board: check the machine
    /// against its needs
    #[arg(long, value_name = "FILE")]
    board: Option<PathBuf>,
    /// Also run the self-test of the board's hardware: it drives lines, reads chips, and moves no motor
    #[arg(long, requires = "board")]
    test: bool,
    /// Propose files and settings that improve this machine's timing; write nothing
    #[arg(long)]
    fix: bool,
    /// With --fix: write the files and settings (as root). What is already in place is left alone
    #[arg(long, requires = "fix")]
    yes: bool,
    /// Where holographic memory computes: as measured, never on the GPU, or on the GPU for ROWS rows or more
    #[arg(long, value_name = "measured|never|ROWS", default_value = "measured")]
    memory_gpu: Preference,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The state of one finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be, or just information.
    Ok,
    /// It works, but not as well as it could.
    Warn,
    /// Not available.
    Refused,
}

/// One thing that doctor checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Finding {
    topic: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do about it.
    fix: Option<String>,
    /// Whether the board needs this.
    required: bool,
}

impl Finding {
    fn new(topic: &'static str, verdict: Verdict, found: impl fmt::Display) -> Finding {
        Finding { topic, verdict, found: found.to_string(), fix: None, required: false }
    }
    fn ok(topic: &'static str, found: impl fmt::Display) -> Finding {
        Finding::new(topic, Verdict::Ok, found)
    }
    fn warn(topic: &'static str, found: impl fmt::Display, fix: impl fmt::Display) -> Finding {
        Finding { fix: Some(fix.to_string()), ..Finding::new(topic, Verdict::Warn, found) }
    }
    fn refused(topic: &'static str, found: impl fmt::Display, fix: impl fmt::Display) -> Finding {
        Finding { fix: Some(fix.to_string()), ..Finding::new(topic, Verdict::Refused, found) }
    }
    /// Sets whether the board needs this.
    fn needed(self, required: bool) -> Finding {
        Finding { required, ..self }
    }
    fn stops_the_board(&self) -> bool {
        self.required && self.verdict == Verdict::Refused
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Refused => "refused",
        };
        write!(f, "{verdict:<8} {:<16} {}", self.topic, self.found)?;
        if self.stops_the_board() {
            f.write_str(" (the board needs it)")?;
        }
        match &self.fix {
            Some(fix) => write!(f, "\n{:<25} to do: {fix}", ""),
            None => Ok(()),
        }
    }
}

/// What `--json` prints. `schema` changes when a field changes its meaning or is removed.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    board: Option<&'a str>,
    findings: &'a [Finding],
    granted: &'a [crate::system::rt::Granted],
    bare_timer: &'a grants::Lateness,
    first_slots: &'a first_slots::FirstSlots,
    /// The proposal, with `--fix`.
    fix: Option<&'a tuning::Plan>,
    gpu: &'a gpu::Gpu,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let loaded = args.board.as_deref().map(load).transpose()?;
    let board = loaded.as_ref();
    let (granted, lateness, first_slots, about_grants) = grants::ask(grants::plan(board))?;
    let mut findings = system::look(Path::new("/"), board);
    let saving =
        findings.iter().any(|finding| finding.topic == "governor" && finding.verdict == Verdict::Warn);
    findings.extend(about_grants);
    findings.push(first_slots::finding(&first_slots, saving));
    findings.extend(devices::look(Path::new("/"), board));
    let gpu = gpu::ask();
    findings.push(gpu::finding(Path::new("/"), &gpu));
    findings.push(memory::finding(&gpu, args.memory_gpu));
    findings.extend(board.map_or(Vec::new(), |board| wiring::look(Path::new("/"), board)));
    findings.extend(board.map_or(Vec::new(), |board| tether::look(Path::new("/"), board)));
    let tested = match board.filter(|_| args.test) {
        Some(board) => wiring::test(board)?,
        None => Vec::new(),
    };
    findings.extend(tested.iter().map(wiring::finding));

    for finding in &findings {
        say!("{finding}");
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let [ok, warn, refused] = [Verdict::Ok, Verdict::Warn, Verdict::Refused].map(count);
    let needed = findings.iter().filter(|finding| finding.stops_the_board()).count();
    let needed = board.map_or(String::new(), |board| format!(" ({needed} of them needed by {})", board.name));
    say!("\n{ok} ok, {warn} warn, {refused} refused{needed}");
    let proposed = args.fix.then(|| tuning::plan(Path::new("/"), board, &tuning::user()));
    let fixed = proposed.as_ref().map_or(Ok(()), |plan| propose(plan, args.yes));
    if args.json {
        let board = board.map(|board| board.name.as_str());
        let report = Report {
            schema: 1,
            board,
            findings: &findings,
            granted: &granted,
            bare_timer: &lateness,
            first_slots: &first_slots,
            fix: proposed.as_ref(),
            gpu: &gpu,
        };
        super::output::json(&report)?;
    }
    fixed?;
    verdict(&findings)
}

/// Shows the proposal, and carries it out if `yes`.
fn propose(plan: &tuning::Plan, yes: bool) -> Result<(), Failure> {
    for (action, why) in &plan.actions {
        say!("\n{action}\n    why: {why}");
    }
    for advice in &plan.advice {
        say!("\nadvice, to carry out by hand: {advice}");
    }
    match (plan.actions.len(), yes) {
        (0, _) => say!("\nnothing to write: everything that --fix can do is done"),
        (count, false) => say!("\nnothing was written; --yes makes these {count} changes, as root"),
        (_, true) => {
            let count = plan.carry_out(Path::new("/"))?;
            say!("\n{count} changes made");
        }
    }
    Ok(())
}

/// Prints the findings about this machine and the self-test of the board at `path`, for `setup`. Fails with
/// 69 if the machine refuses what the board needs.
pub(super) fn test(path: &Path) -> Result<(), Failure> {
    let board = Some(path.to_path_buf());
    let memory_gpu = Preference::Measured;
    run(Args { board, test: true, fix: false, yes: false, memory_gpu, json: false })
}

fn load(path: &Path) -> Result<Board, Failure> {
    match crate::deploy::board::load(path) {
        Ok(loaded) => Ok(loaded.board),
        Err(error) => Err(super::check::failure(path, &error)),
    }
}

/// Fails with 69 and names the topics, if any finding stops the board.
fn verdict(findings: &[Finding]) -> Result<(), Failure> {
    let topics: Vec<&str> = findings.iter().filter(|f| f.stops_the_board()).map(|f| f.topic).collect();
    if topics.is_empty() {
        return Ok(());
    }
    Err(Failure::unavailable(format!("this machine refuses what the board needs: {}", topics.join(", ")))
        .fix("see the fix under each line above"))
}

#[cfg(test)]
#[path = "doctor/tests.rs"]
mod tests;
