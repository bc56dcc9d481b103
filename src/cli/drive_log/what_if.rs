//! `log replay --what-if`: which slots would have been decided differently with other values of the board.

use super::replay::{as_run, board_of as board_of_run};
use super::source::Run;
use crate::base::plan::{Board, QualityLevel};
use crate::cli::exit::Failure;
use crate::cli::simulate;
use crate::deploy::board::{self, edit};
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
    /// Stretches of consecutive slots, the first thousand.
    stretches: Vec<Stretch>,
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
        Otherwise { changes: changes.to_vec(), slots: 0, stretches: Vec::new() }
    }

    /// Adds a slot that would have been decided differently, this many seconds after the first slot.
    pub fn note(&mut self, at_s: f64, difference: &Difference) {
        self.slots += 1;
        let Difference { index, what, recorded, decided } = difference.clone();
        if let Some(last) = self.stretches.last_mut().filter(|last| last.to_slot + 1 == index) {
            (last.to_slot, last.to_s) = (index, at_s);
        } else if self.stretches.len() < KEPT {
            let (from_slot, to_slot, from_s, to_s) = (index, index, at_s, at_s);
            self.stretches.push(Stretch { from_slot, to_slot, from_s, to_s, what, recorded, decided });
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
        if self.stretches.len() > TOLD {
            say!("  and {} more times; --json lists all", self.stretches.len() - TOLD);
        }
    }
}

/// The board of `run` with these changes, each `KEY=VALUE`, and the quality level that the run was fixed at.
pub fn board_of(run: &Run, changes: &[String]) -> Result<(Board, Option<QualityLevel>), Failure> {
    board_of_run(run)?; // fails if this program does not understand the recorded board
    let mut text = run.board.clone();
    for change in changes {
        let (key, value) = change.split_once('=').ok_or_else(|| {
            Failure::usage(format!(
                "--what-if {change}: expected KEY=VALUE, such as reflex.obstacle.below=0.25"
            ))
        })?;
        text = edit::replaced(&text, key.trim(), value.trim()).ok_or_else(|| {
            Failure::usage(format!("--what-if: the recorded board has no key '{}'", key.trim()))
                .fix("name it as 'ganglion check' prints it: TABLE.KEY, or LIST.NAME.KEY")
        })?;
    }
    let mut loaded = board::from_text("what-if", &text)
        .map_err(|error| Failure::usage(format!("--what-if: the changed board is invalid: {error}")))?;
    if run.word("simulated") == "true" {
        simulate::simulate(&mut loaded)?;
    }
    Ok(as_run(loaded.board, run))
}
