//! The verbs of the workshop: they teach a field and examine what it learned, from logs and in the simulator,
//! and show a recorded run on a page, or a running robot in a viewer.
//! No robot needs them, and the package for robots leaves them out.

mod ablate;
mod drive_page;
mod learn;
mod live;
mod replay;
mod teach;

use super::arguments;
use super::exit::Failure;
use crate::base::plan::FieldPlan;
use crate::field::footprint;
use crate::system::rt::room::{self, NoRoom};

/// The verbs. Each variant's doc comment is the verb's line in `--help`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Replay a log through the whole loop, and score a read-out against the log's labels
    Replay(replay::Args),
    /// Fit a read-out of a board's field to the decisions in a log, cross-validate it, save it
    Learn(learn::Args),
    /// Teach a board's field in the simulator to correct the starting table, and save the read-out
    Teach(teach::Args),
    /// Measure in the simulator what each part of a board's brain contributes: drive with and without it
    Ablate(ablate::Args),
    /// Show a recorded run on a page for a browser: one file with curves, events and a map
    Report(drive_page::Args),
    /// Show a running robot live in Foxglove or Lichtblick
    Live(live::Args),
}

/// Runs a verb.
pub fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Replay(args) => replay::run(args),
        Verb::Learn(args) => learn::run(args),
        Verb::Teach(args) => teach::run(args),
        Verb::Ablate(args) => ablate::run(args),
        Verb::Report(args) => drive_page::run(&args),
        Verb::Live(args) => live::run(args),
    }
}

/// Checks that the field of `plan` fits into the available memory.
fn fits(plan: &FieldPlan) -> Result<(), Failure> {
    let refused = |refusal: NoRoom| {
        Failure::unavailable(format!("the field does not fit: {refusal}")).fix(arguments::SMALLER)
    };
    room::demand(footprint::field_bytes(plan)).map_err(refused)
}
