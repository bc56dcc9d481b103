//! The result of a campaign: how far the robots drove, how often each promise was tested and each fault
//! occurred. A campaign that tested nothing has shown nothing.

use super::chance::FAULTS;
use super::course::CourseOutcome;
use super::judge::promise::{ALL, COUNT};
use super::script::{Script, own_names};
use std::collections::BTreeMap;
use std::fmt;

/// Counts over all runs.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Virtual seconds that were judged.
    pub judged_s: f64,
    /// Distance, metres.
    pub distance_m: f64,
    /// How often motors began to turn.
    pub starts: u64,
    /// How often each promise was put to the test.
    pub exercised: [u64; COUNT],
    /// How often each kind of script line ran, by name.
    pub played: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds a run.
    pub fn add(&mut self, script: &Script, outcome: &CourseOutcome) {
        self.runs += 1;
        self.judged_s += outcome.judged.as_secs_f64();
        self.distance_m += outcome.distance_m;
        self.starts += outcome.starts;
        for (sum, times) in self.exercised.iter_mut().zip(&outcome.exercised) {
            *sum += times;
        }
        for line in script.lines.iter().filter(|line| line.start <= outcome.judged) {
            *self.played.entry(line.name().to_string()).or_default() += 1;
        }
    }

    /// Promises and faults that occurred fewer than `least` times: such a campaign has shown nothing about
    /// them.
    pub fn too_seldom(&self, least: u64) -> Vec<String> {
        let promises = ALL.iter().zip(&self.exercised).filter(|(_, times)| **times < least);
        let promises = promises.map(|((_, name, _), times)| format!("promise {name}: {times}"));
        let faults = self.played.iter().filter(|(_, times)| **times < least);
        let faults = faults.map(|(name, times)| format!("fault {name}: {times}"));
        // The counts do not include faults that never ran.
        let names = own_names().chain(FAULTS);
        let never = names.filter(|name| !self.played.contains_key(*name));
        promises.chain(faults).chain(never.map(|name| format!("fault {name}: never"))).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.judged_s / 3600.0;
        writeln!(
            f,
            "{} runs, {hours:.2} virtual hours, {:.0} m, {} starts",
            self.runs, self.distance_m, self.starts
        )?;
        for ((_, name, words), times) in ALL.iter().zip(&self.exercised) {
            writeln!(f, "  {times:>8}  {name:<14} {words}")?;
        }
        for (name, times) in &self.played {
            writeln!(f, "  {times:>8}  {name}")?;
        }
        Ok(())
    }
}
