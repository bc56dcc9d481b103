//! `update`: stages a package, puts it on trial, goes back, shows what happened. Runs on the robot; every
//! step except `status` needs root.

mod follow;
pub(super) mod words;

use super::exit::Failure;
use super::{arguments, output};
use crate::base::time::Span;
use crate::deploy::update::stage::StagingOutcome;
use crate::deploy::update::state::{self, Staged};
use crate::deploy::update::{Ended, Layout, Marker, Phase, UpdateError, Why};
use crate::deploy::update::{deaths, history, package, recover, stage, trial};
use serde::Serialize;
use std::path::PathBuf;

/// Lines of the history that the status shows.
const SHOWN: usize = 20;

/// Arguments of `update`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo ganglion update stage ganglion_0.2.0_arm64.deb  verify and keep it; nothing changes yet
  sudo ganglion update trial --for 60s                 install and watch it, then keep it or go back
  sudo ganglion update rollback                        return to the previous version
  ganglion update status --json                        what is installed, and what happened
  sudo ganglion update keep ganglion_0.1.0_arm64.deb   gives the first update a way back

A package needs a signature (PACKAGE.sig) by a key in /etc/ganglion/allowed_signers. A trial stops
the motors first; from then on the robot does not arm by itself until a person runs 'ganglion arm'.
If the power fails during the trial, the next boot returns to the previous version. A trial
continues if this command or its terminal ends.

Exit codes: 65 the package is refused; 69 too little space, nothing to try or to return to, or the
motors did not confirm their stop; 70 neither version runs; 75 the robot went back, is armed, or
another update is unfinished; 77 not root; 78 'ganglion setup' has not been run, or the installed
version's package is not kept.")]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

/// How to print.
#[derive(Debug, clap::Args)]
struct Output {
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
    /// A root other than '/': for tests
    #[arg(long, hide = true, default_value = "/")]
    root: PathBuf,
}

impl Output {
    fn layout(&self) -> Layout {
        Layout::new(&self.root)
    }
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    /// Verify a package and keep it for the next trial; change nothing else
    #[command(after_help = "Examples:
  sudo ganglion update stage ganglion_0.2.0_arm64.deb   with ganglion_0.2.0_arm64.deb.sig beside it")]
    Stage {
        /// The package
        package: PathBuf,
        /// Its signature [default: PACKAGE.sig]
        #[arg(long, value_name = "FILE")]
        signature: Option<PathBuf>,
        /// Accept a version older than the installed one
        #[arg(long)]
        allow_downgrade: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Stop the motors, install the staged package, watch it, then keep it or go back
    #[command(after_help = "Examples:
  sudo ganglion update trial                    watch it for a minute
  sudo ganglion update trial --for 5min --json")]
    Trial {
        /// How long to watch the new version
        #[arg(long = "for", value_name = "TIME", value_parser = arguments::span, default_value = "60s")]
        length: Span,
        #[command(flatten)]
        output: Output,
    },
    /// Return to the previous version, or end an unfinished update
    #[command(after_help = "Examples:
  sudo ganglion update rollback  stops the motors; the robot does not arm by itself afterwards")]
    Rollback {
        #[command(flatten)]
        output: Output,
    },
    /// Show what is installed, staged and unfinished, and how the last update ended
    #[command(after_help = "Examples:
  ganglion update status
  ganglion update status --json")]
    Status {
        #[command(flatten)]
        output: Output,
    },
    /// Keep a package, so that the robot can return to its version
    #[command(after_help = "Examples:
  sudo ganglion update keep ganglion_0.1.0_arm64.deb    the installed package")]
    Keep {
        /// The package
        package: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// The trial itself, which `trial` has systemd start
    #[command(hide = true)]
    RunTrial {
        #[arg(long = "for", value_parser = arguments::span)]
        length: Span,
        #[command(flatten)]
        output: Output,
    },
    /// The rollback itself, which `rollback` has systemd start
    #[command(hide = true)]
    RunRollback {
        /// Because the committed version died this many times in a row
        #[arg(long)]
        deaths: Option<u32>,
        #[command(flatten)]
        output: Output,
    },
    /// Count one exit of the service; its unit runs this after every exit
    #[command(hide = true)]
    Ended {
        #[command(flatten)]
        output: Output,
    },
    /// End an unfinished update whose process is gone; the systemd units of an update start this
    #[command(hide = true)]
    Recover {
        /// At boot, before guard and runtime start
        #[arg(long)]
        boot: bool,
        #[command(flatten)]
        output: Output,
    },
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.step {
        Step::Stage { package, signature, allow_downgrade, output } => {
            let signature = signature.unwrap_or_else(|| {
                let mut name = package.clone().into_os_string();
                name.push(".sig");
                name.into()
            });
            let staged = stage::stage(&output.layout(), &package, &signature, allow_downgrade);
            tell_staged(&staged.map_err(|error| words::failure(&error))?, output.json)
        }
        Step::Trial { length, output } => {
            let layout = output.layout();
            trial::may_begin(&layout).map_err(|error| words::failure(&error))?;
            let seconds = format!("{}ms", length.as_nanos() / 1_000_000);
            follow::detached(&layout, &["run-trial", "--for", &seconds], output.json)
        }
        Step::Rollback { output } => {
            let layout = output.layout();
            let marker = trial::may_roll_back(&layout).map_err(|error| words::failure(&error))?;
            if !output.json {
                say!("returning to {}", marker.goal);
            }
            follow::detached(&layout, &["run-rollback"], output.json)
        }
        Step::Status { output } => status(&output.layout(), output.json),
        Step::Keep { package, output } => keep(&output.layout(), &package, output.json),
        Step::RunTrial { length, output } => {
            let layout = output.layout();
            conclude(&layout, trial::run(&layout, length))
        }
        Step::RunRollback { deaths, output } => {
            let layout = output.layout();
            let why = deaths.map_or(Why::Asked, Why::CrashLoop);
            conclude(&layout, trial::roll_back(&layout, why))
        }
        Step::Ended { output } => service_ended(&output.layout()),
        Step::Recover { boot, output } => {
            let layout = output.layout();
            let ended = if boot { recover::at_boot(&layout) } else { recover::after_death(&layout) };
            match ended.map_err(|error| words::failure(&error))? {
                Some(ended) => say!("{}", words::ended(&ended)),
                None => say!("no update is unfinished"),
            }
            Ok(())
        }
    }
}

fn tell_staged(outcome: &StagingOutcome, json: bool) -> Result<(), Failure> {
    let (word, version) = match outcome {
        StagingOutcome::Staged(version) => ("staged", version),
        StagingOutcome::AlreadyActive(version) => ("already active", version),
    };
    if json {
        return output::json(&serde_json::json!({ "schema": 1, "outcome": word, "version": version }));
    }
    match outcome {
        StagingOutcome::Staged(version) => say!("staged {version}; next: sudo ganglion update trial"),
        StagingOutcome::AlreadyActive(version) => say!("{version} is already active"),
    }
    Ok(())
}

fn keep(layout: &Layout, package: &std::path::Path, json: bool) -> Result<(), Failure> {
    let kept = state::demand_root(layout)
        .and_then(|()| stage::make_folders(layout))
        .and_then(|()| package::keep(layout, package))
        .and_then(|version| history::note(layout, history::Event::Kept(version.clone())).map(|()| version));
    let version = kept.map_err(|error| words::failure(&error))?;
    if json {
        return output::json(&serde_json::json!({ "schema": 1, "outcome": "kept", "version": version }));
    }
    say!("kept {version}: an update from it can go back to it");
    Ok(())
}

/// Reports how a process that systemd started has ended: through the history to the command that follows it,
/// and through the exit code to systemd.
fn conclude(layout: &Layout, ended: Result<Ended, UpdateError>) -> Result<(), Failure> {
    match ended {
        Ok(ended) => words::outcome(&ended),
        Err(error) => {
            let failure = words::failure(&error);
            let _ = history::note(layout, history::Event::Refused(failure.to_string()));
            Err(failure)
        }
    }
}

/// Counts one exit of the service, which systemd describes in the environment (systemd.exec(5)). After a
/// crash loop of a committed version, the robot goes back to the previous version.
fn service_ended(layout: &Layout) -> Result<(), Failure> {
    let failed = std::env::var("SERVICE_RESULT").is_ok_and(|result| result != "success");
    // A robot that was never updated, or whose update is in progress, has nothing to count.
    let Ok(Some(_)) = Marker::last(layout) else { return Ok(()) };
    let Ok(lock) = state::lock(layout) else { return Ok(()) };
    let counted = package::installed().and_then(|installed| {
        deaths::count(layout, &installed.version, failed, state::lived_s("ganglion.service"))
    });
    drop(lock);
    if counted.map_err(|error| words::failure(&error))? {
        let times = deaths::LIMIT.to_string();
        follow::begin(layout, &["run-rollback", "--deaths", &times])?;
    }
    Ok(())
}

/// What `update status` prints with `--json`.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    installed: String,
    state: String,
    runtime: String,
    /// The robot does not arm by itself until a person arms it.
    hold: bool,
    staged: Option<Staged>,
    unfinished: Option<Told>,
    last: Option<Told>,
    kept: Vec<String>,
    history: Vec<String>,
}

/// A marker, with its reason as text.
#[derive(Debug, Serialize)]
struct Told {
    phase: Phase,
    from: String,
    to: String,
    goal: String,
    tries: u32,
    why: String,
}

impl From<Marker> for Told {
    fn from(marker: Marker) -> Told {
        let Marker { phase, from, to, goal, tries, why, .. } = marker;
        Told { phase, from, to, goal, tries, why: why.as_ref().map(words::why).unwrap_or_default() }
    }
}

/// The installed version, or that there is none. The service manager may not know the runtime.
fn installed_line(version: &str, state: &str, runtime: &str) -> String {
    let runtime = if runtime.is_empty() { String::new() } else { format!(", runtime {runtime}") };
    match state {
        "none" => format!("nothing{runtime}"),
        state => format!("{version} ({state}){runtime}"),
    }
}

fn status(layout: &Layout, json: bool) -> Result<(), Failure> {
    let report = report(layout).map_err(|error| words::failure(&error))?;
    if json {
        return output::json(&report);
    }
    say!("installed  {}", installed_line(&report.installed, &report.state, &report.runtime));
    if let Some(told) = &report.unfinished {
        say!("unfinished {} to {}: {}", told.from, told.to, words::phase(told.phase));
    }
    match &report.last {
        Some(told) => say!("last       {}", words::reported(told.phase, &told.from, &told.to, &told.why)),
        None => say!("last       no update yet"),
    }
    if let Some(staged) = &report.staged {
        say!("staged     {}; 'sudo ganglion update trial' tries it", staged.version);
    }
    say!(
        "kept       {}",
        if report.kept.is_empty() {
            "nothing: an update cannot go back".to_string()
        } else {
            report.kept.join(", ")
        }
    );
    if report.hold {
        say!("hold       the robot does not arm by itself until a person runs 'ganglion arm'");
    }
    if !report.history.is_empty() {
        say!();
        report.history.iter().for_each(|line| say!("{line}"));
    }
    Ok(())
}

fn report(layout: &Layout) -> Result<Report, UpdateError> {
    let installed = package::installed()?;
    let entries = history::read(layout);
    let shown = entries[entries.len().saturating_sub(SHOWN)..].iter();
    // After a power cut between writing the final phase and moving the marker, the update has still ended.
    let (unfinished, ended) = match Marker::unfinished(layout)? {
        Some(marker) if marker.phase.is_final() => (None, Some(marker)),
        unfinished => (unfinished, Marker::last(layout)?),
    };
    Ok(Report {
        schema: 1,
        installed: installed.version,
        state: installed.state,
        runtime: state::property("ganglion.service", "ActiveState"),
        hold: layout.hold().exists(),
        staged: Staged::read(layout),
        unfinished: unfinished.map(Told::from),
        last: ended.map(Told::from),
        kept: package::kept(layout),
        history: shown.map(words::entry).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_package_has_nothing_installed() {
        assert_eq!(installed_line("none", "none", ""), "nothing");
        assert_eq!(installed_line("0.2.0", "installed", "active"), "0.2.0 (installed), runtime active");
    }
}
