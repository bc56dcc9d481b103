//! Runs consecutive seeds: the case of each seed, the first broken promise, and the shortest script that
//! still breaks it.

use super::chance::script_of_seed;
use super::course::{self, CourseOutcome, View};
use super::draw::Draw;
use super::judge::Breach;
use super::judge::promise::Watched;
use super::script::Script;
use super::site::Site;
use ganglion::base::time::{Instant, Span};

/// Maximum number of runs to shorten a script. Each takes about as long as the original run took until its
/// breach.
const SHRINKS: usize = 200;
/// Traced time before and after a breach.
const AROUND: Span = Span::from_millis(400);

/// The case that a seed produces.
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// Its board.
    pub site: Site,
    /// Its script.
    pub script: Script,
    /// Its length.
    pub length: Span,
}

impl Case {
    /// The case of `seed`.
    pub fn of_seed(seed: u64) -> Case {
        let site = Site::of_seed(seed);
        let length = Span::from_secs_f64(Draw::new(seed, 2000).decades(20.0, 600.0));
        let script = script_of_seed(seed, &site.board, length, site.temper.is_none());
        Case { seed, site, script, length }
    }

    /// Runs it.
    pub fn run(&self, view: &View) -> CourseOutcome {
        course::run(&self.site, &self.script, self.seed, self.length, view)
    }
}

/// A broken promise, and how to reproduce it.
pub struct BrokenPromise {
    /// The seed.
    pub seed: u64,
    /// The breach.
    pub breach: Breach,
    /// The shortest script that was found to cause it.
    pub script: Script,
    /// The events around it.
    pub trace: String,
}

/// Removes script lines one by one, as long as the same promise is still broken.
pub fn shrunk(case: &Case, mut breach: Breach, view: &View) -> BrokenPromise {
    let mut script = case.script.clone();
    script.lines.retain(|line| Instant::ZERO + line.start <= breach.at);
    let view = View { watched: Watched::only(breach.promise), ..view.clone() };
    let (mut place, mut runs) = (script.lines.len(), 0);
    while place > 0 && runs < SHRINKS {
        place -= 1;
        runs += 1;
        let mut shorter = script.clone();
        shorter.lines.remove(place);
        let length = breach.at.since(Instant::ZERO) + AROUND;
        let outcome = course::run(&case.site, &shorter, case.seed, length, &view);
        if let Some(same) = outcome.breach {
            breach = same;
            shorter.lines.retain(|line| Instant::ZERO + line.start <= breach.at);
            place = place.min(shorter.lines.len());
            script = shorter;
        }
    }
    let from = Instant::ZERO + breach.at.since(Instant::ZERO).less(AROUND);
    let traced = View { trace: Some((from, breach.at + AROUND)), ..view };
    let outcome =
        course::run(&case.site, &script, case.seed, breach.at.since(Instant::ZERO) + AROUND, &traced);
    BrokenPromise { seed: case.seed, breach, script, trace: outcome.trace }
}
