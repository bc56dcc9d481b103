//! `log replay --what-if`: which slots would have been decided differently with other values of the board.

use super::replay::{as_run, board_of as board_of_run};
use super::source::Run;
use crate::base::plan::{Board, QualityLevel};
use crate::cli::exit::Failure;
use crate::cli::simulate;
use crate::deploy::board::finding::Finding;
use crate::deploy::board::{self, BoardError, edit};
use crate::runtime::replay::Difference;
use serde::Serialize;

/// Maximum number of stretches kept; more would not be useful.
const KEPT: usize = 1_000;
/// Maximum number of stretches printed: what fits on a screen.
const TOLD: usize = 8;

/// The decisions that would have been different.
#[derive(Debug, Serialize)]
pub struct Otherwise {
    /// The changed values.
    changes: Vec<String>,
    /// Slots that would have been decided differently.
    slots: u64,
    /// How many stretches of consecutive slots there are.
    stretches_total: u64,
    /// The first thousand stretches.
    stretches: Vec<Stretch>,
    /// The last of the slots.
    #[serde(skip)]
    last_slot: Option<u64>,
}

/// Consecutive slots that would have been decided differently.
#[derive(Debug, Serialize)]
struct Stretch {
    from_slot: u64,
    to_slot: u64,
    from_s: f64,
    to_s: f64,
    /// The first value that differs in the first of these slots.
    what: String,
    recorded: String,
    decided: String,
}

impl Otherwise {
    /// No differences so far.
    pub fn new(changes: &[String]) -> Otherwise {
        let changes = changes.to_vec();
        Otherwise { changes, slots: 0, stretches_total: 0, stretches: Vec::new(), last_slot: None }
    }

    /// Adds a slot that would have been decided differently, this many seconds after the first slot.
    pub fn note(&mut self, at_s: f64, difference: &Difference) {
        self.slots += 1;
        let Difference { index, what, recorded, decided } = difference.clone();
        let continues = self.last_slot.replace(index).is_some_and(|last| last + 1 == index);
        self.stretches_total += u64::from(!continues);
        if self.stretches_total > KEPT as u64 {
            return;
        }
        match self.stretches.last_mut().filter(|_| continues) {
            Some(last) => (last.to_slot, last.to_s) = (index, at_s),
            None => {
                let (from_slot, to_slot, from_s, to_s) = (index, index, at_s, at_s);
                self.stretches.push(Stretch { from_slot, to_slot, from_s, to_s, what, recorded, decided });
            }
        }
    }

    /// As text.
    pub fn print(&self) {
        say!("With {}, {} slots would have been decided differently.", self.changes.join(", "), self.slots);
        for stretch in self.stretches.iter().take(TOLD) {
            let Stretch { from_slot, to_slot, from_s, to_s, what, recorded, decided } = stretch;
            say!(
                "  {from_s:.2} s to {to_s:.2} s (slots {from_slot} to {to_slot}): {what}, {decided} instead of {recorded}"
            );
        }
        if let Some(more) = self.untold() {
            say!("  {more}");
        }
    }

    /// What the text leaves out.
    fn untold(&self) -> Option<String> {
        let more = self.stretches_total.checked_sub(TOLD as u64).filter(|more| *more > 0)?;
        let listed = if self.stretches_total > KEPT as u64 { "the first thousand" } else { "all" };
        Some(format!("and {more} more times; --json lists {listed}"))
    }
}

/// The board of `run` with these changes, each `KEY=VALUE`, and the quality level that the run was fixed at.
pub fn board_of(run: &Run, changes: &[String]) -> Result<(Board, Option<QualityLevel>), Failure> {
    board_of_run(run)?; // fails if this program does not understand the recorded board
    let mut text = run.board.clone();
    for change in changes {
        let (key, value) = change.split_once('=').ok_or_else(|| {
            Failure::usage(format!(
                "--what-if {change}: expected KEY=VALUE, such as reflex.obstacle.below=0.18"
            ))
        })?;
        text = edit::replaced(&text, key.trim(), value.trim()).ok_or_else(|| {
            Failure::usage(format!("--what-if: the recorded board has no key '{}'", key.trim()))
                .fix("name it as 'ganglion check' prints it: TABLE.KEY, or LIST.NAME.KEY")
        })?;
    }
    let mut loaded = board::from_text("what-if", &text).map_err(|error| refused(&error))?;
    if run.word("simulated") == "true" {
        simulate::simulate(&mut loaded)?;
    }
    Ok(as_run(loaded.board, run))
}

/// Why the changed board is invalid. Its text is in no file, so findings are given without a place.
fn refused(error: &BoardError) -> Failure {
    let words = match error {
        BoardError::Refused(findings) => {
            let nowhere = |finding: &Finding| Finding { spot: None, ..finding.clone() }.to_string();
            findings.iter().map(nowhere).collect::<Vec<_>>().join("; ")
        }
        error => error.to_string(),
    };
    Failure::usage(format!("--what-if: the changed board is invalid: {words}"))
        .fix("change the other values that this one depends on, too: --what-if may be repeated")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_beyond_those_kept_are_counted() {
        let mut otherwise = Otherwise::new(&[]);
        for index in (0..4_000_u64).filter(|index| index % 4 < 2) {
            let [what, recorded, decided] = ["it", "1", "2"].map(str::to_string);
            otherwise.note(index as f64, &Difference { index, what, recorded, decided });
            if index == 41 {
                assert_eq!(otherwise.untold().as_deref(), Some("and 3 more times; --json lists all"));
            }
        }
        assert_eq!((otherwise.slots, otherwise.stretches_total), (2_000, 1_000));
        for index in [4_000, 4_001, 4_004] {
            let [what, recorded, decided] = ["it", "1", "2"].map(str::to_string);
            otherwise.note(index as f64, &Difference { index, what, recorded, decided });
        }
        assert_eq!(
            (otherwise.slots, otherwise.stretches_total, otherwise.stretches.len()),
            (2_003, 1_002, 1_000)
        );
        let last = &otherwise.stretches[KEPT - 1];
        assert_eq!((last.from_slot, last.to_slot), (3_996, 3_997), "a later one is not added to it");
        assert_eq!(
            otherwise.untold().as_deref(),
            Some("and 994 more times; --json lists the first thousand")
        );
    }
}
