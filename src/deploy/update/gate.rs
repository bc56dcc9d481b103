//! The health gate: what a new version must prove before it stays. The runtime reports READY to systemd only
//! after its self-test. During the trial the same process must keep running, be the installed program,
//! answer, stay disarmed, have its guard, report no persistent cause of restraint that the old version did
//! not report, and stay within the board's own limits for the field's cycle time.

use super::command::{self, LONG, SHORT};
use super::state::{ReportedStatus, ask, ask_installed, property, systemctl};
use super::{Layout, Why};
use crate::base::time::Span;
use crate::system::bounded_read;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The runtime's unit.
pub const RUNTIME: &str = "ganglion.service";
/// The guard's unit.
pub const GUARD: &str = "ganglion-guard.service";
/// How often the robot's status is read.
const LOOK: Duration = Duration::from_secs(1);
/// A cause is persistent if the last answers, up to this many, all report it.
const STANDS: usize = 5;
/// How long to wait for the first answer after READY; enough even on an emulator.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// Largest program, in bytes.
const LARGEST: u64 = 512 << 20;

/// The part of the robot's state before the update that the gate compares.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Whether the guard was running.
    pub guarded: bool,
    /// Causes of restraint that were active.
    pub causes: Vec<String>,
}

impl Before {
    /// The state of the running robot.
    pub fn look(layout: &Layout) -> Before {
        Before {
            guarded: is_active(GUARD),
            causes: ask(layout).map(|answer| answer.causes).unwrap_or_default(),
        }
    }

    /// For when the state before the update is not known: there are no causes to compare. The guard is
    /// expected if it is active or enabled.
    pub fn unknown() -> Before {
        let guarded = is_active(GUARD) || property(GUARD, "UnitFileState") == "enabled";
        Before { guarded, causes: Vec::new() }
    }
}

/// Whether a unit is active.
pub fn is_active(unit: &str) -> bool {
    property(unit, "ActiveState") == "active"
}

/// Starts guard and runtime; returns when the runtime is ready.
pub fn start(before: &Before) -> Result<(), Why> {
    let _ = systemctl(&["reset-failed", RUNTIME, GUARD], SHORT);
    if before.guarded {
        // The motors are stopped and the runtime has ended: only now may the guard be replaced.
        systemctl(&["restart", GUARD], LONG).map_err(|_| Why::GuardLost)?;
    }
    systemctl(&["start", RUNTIME], LONG).map_err(|_| Why::NotReady(property(RUNTIME, "Result")))
}

/// Judges a new version for `length`: it must keep running, report no new persistent cause of restraint, and
/// stay within its limits.
pub fn judge(layout: &Layout, before: &Before, length: Span) -> Result<(), Why> {
    let mut answers = Vec::new();
    lives(layout, before, length, |answer| answers.push(answer))?;
    if let Some(cause) = persistent_cause(&answers, before) {
        return Err(Why::Cause(cause));
    }
    let newest = answers.pop().unwrap_or_default();
    let missed = limits(layout, &newest).into_iter().find(|(_, target_ms, found_ms)| found_ms > target_ms);
    match missed {
        Some((key, target_ms, found_ms)) => Err(Why::Slow { key, target_ms, found_ms }),
        None => Ok(()),
    }
}

/// Watches a proven version for `length`: it must keep running, answer, stay disarmed, and have its guard.
pub fn proven(layout: &Layout, before: &Before, length: Span) -> Result<(), Why> {
    lives(layout, before, length, |_| ())
}

fn lives(
    layout: &Layout,
    before: &Before,
    length: Span,
    mut note: impl FnMut(ReportedStatus),
) -> Result<(), Why> {
    let process = property(RUNTIME, "MainPID");
    if !runs_the_installed(layout, &process) {
        return Err(Why::OtherProgram);
    }
    let (begun, length) = (Instant::now(), Duration::from_nanos(length.as_nanos()));
    let mut answer = first_answer(layout).ok_or(Why::NoAnswer)?;
    loop {
        if answer.is_armed() || answer.armings > 0 {
            return Err(Why::Armed);
        }
        note(answer);
        lives_on(&process)?;
        if before.guarded && !is_active(GUARD) {
            return Err(Why::GuardLost);
        }
        if begun.elapsed() >= length {
            return Ok(());
        }
        thread::sleep(LOOK);
        let Some(next) = ask_installed(layout) else {
            // A dead process does not answer either, so check that first.
            lives_on(&process)?;
            return Err(Why::NoAnswer);
        };
        answer = next;
    }
}

/// Checks that the runtime is still this process.
fn lives_on(process: &str) -> Result<(), Why> {
    match is_active(RUNTIME) && property(RUNTIME, "MainPID") == process {
        true => Ok(()),
        false => Err(Why::Died(property(RUNTIME, "Result"))),
    }
}

/// A cause that the old version did not report and that all of the last answers report. A cause that comes
/// and goes (a late answer of the field, a person in front of the robot) is not blamed on the new version.
fn persistent_cause(answers: &[ReportedStatus], before: &Before) -> Option<String> {
    let last = &answers[answers.len().saturating_sub(STANDS)..];
    let (newest, others) = last.split_last()?;
    let persistent = |cause: &&String| {
        !before.causes.contains(cause) && others.iter().all(|answer| answer.causes.contains(cause))
    };
    newest.causes.iter().find(persistent).cloned()
}

fn first_answer(layout: &Layout) -> Option<ReportedStatus> {
    let begun = Instant::now();
    loop {
        match ask_installed(layout) {
            None if begun.elapsed() < ANSWERS_WITHIN => thread::sleep(LOOK),
            answer => return answer,
        }
    }
}

fn runs_the_installed(layout: &Layout, process: &str) -> bool {
    if !layout.is_real() {
        return true; // a test's root has no processes
    }
    let digest = |path: &Path| bounded_read::bytes(path, LARGEST).ok().map(|bytes| blake3::hash(&bytes));
    let running = digest(&Path::new("/proc").join(process).join("exe"));
    running.is_some() && running == digest(&layout.program())
}

/// The board's limits for the field's cycle time, as (key, limit, found), in milliseconds. The limits are
/// those that `check` of the judged program prints.
fn limits(layout: &Layout, answer: &ReportedStatus) -> Vec<(String, f64, f64)> {
    #[derive(Deserialize)]
    struct Checked {
        settings: Vec<Setting>,
    }
    #[derive(Deserialize)]
    struct Setting {
        key: String,
        value: String,
    }
    let board = layout.board();
    let words = ["check".as_ref(), board.as_ref(), "--json".as_ref()];
    let Ok(ran) = command::run(layout.program(), &words, SHORT) else { return Vec::new() };
    let checked: Option<Checked> = ran.out.lines().last().and_then(|line| serde_json::from_str(line).ok());
    let settings: BTreeMap<String, String> =
        checked.into_iter().flat_map(|checked| checked.settings).map(|one| (one.key, one.value)).collect();
    let limit = |key: &str| settings.get(key).and_then(|value| value.parse::<f64>().ok());
    let Some(found) = answer.field_us else { return Vec::new() };
    [("targets.cycle_p50_ms", found.p50 / 1e3), ("targets.cycle_p99_ms", found.p99 / 1e3)]
        .into_iter()
        .filter_map(|(key, found)| Some((key.to_string(), limit(key)?, found)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_persistent_causes_count() {
        let before = Before { guarded: false, causes: vec!["sensor-lost".to_string()] };
        let answer = |causes: &[&str]| ReportedStatus {
            causes: causes.iter().map(ToString::to_string).collect(),
            ..ReportedStatus::default()
        };
        let (none, old) = (answer(&[]), answer(&["sensor-lost"]));
        let new = answer(&["sensor-lost", "guard-lost"]);
        let persistent = |answers: &[&[ReportedStatus]]| persistent_cause(&answers.concat(), &before);
        assert_eq!(persistent(&[&[old.clone(), old.clone()]]), None, "it was there before");
        let all = vec![new.clone(); STANDS];
        assert_eq!(persistent(&[&all]).as_deref(), Some("guard-lost"));
        assert_eq!(
            persistent(&[&[none, old], &all]).as_deref(),
            Some("guard-lost"),
            "it came later and persists"
        );
        assert_eq!(persistent(&[&all, &[answer(&[]), new]]), None, "it comes and goes");
        assert_eq!(persistent_cause(&[], &before), None);
    }
}
