//! `log diff`: the first slot in which two recorded runs differ.

use super::source::Source;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::deploy::board;
use crate::runtime::replay::{Names, first_difference_of_runs};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `log diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log diff before.mcap after.mcap

Readings, samples, requests, causes, modes, quality levels and commands are compared bit for bit. Times are not compared: no
two real-time runs have the same.

Exit codes: 0 no value differs; 65 a value differs, or one recording has slots that the other lacks.")]
pub struct Args {
    /// A recording, or a folder, which stands for its newest run
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The other recording or folder
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The JSON output.
#[derive(Debug, Default, Serialize)]
struct Report {
    schema: u32,
    /// Number of equal slots before the first difference.
    equal: u64,
    /// The first value that differs.
    differs: Option<String>,
    differs_in_slot: Option<u64>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (mut a, mut b) = (Source::open(&args.a)?, Source::open(&args.b)?);
    let mut report = Report { schema: 1, ..Report::default() };
    let mut names = Names::default();
    let found = loop {
        let (left, right) = (a.next_step()?, b.next_step()?);
        if report.equal == 0 {
            names = board::from_text("recorded", &a.run.board).map_or(names, |found| Names::of(&found.board));
        }
        match (left, right) {
            (None, None) => break None,
            (Some(left), None) => break Some((left.slot.index, "only the first has this slot".to_string())),
            (None, Some(right)) => {
                break Some((right.slot.index, "only the second has this slot".to_string()));
            }
            (Some(left), Some(right)) if left.slot.index != right.slot.index => {
                let (left, right) = (left.slot.index, right.slot.index);
                break Some((
                    left.min(right),
                    format!("the first has slot {left} where the second has {right}"),
                ));
            }
            (Some(left), Some(right)) => match first_difference_of_runs(&left.slot, &right.slot, &names) {
                None => report.equal += 1,
                Some(found) => break Some((found.index, found.of_runs())),
            },
        }
    };
    say!("{} slots are equal", report.equal);
    if let Some((index, words)) = &found {
        (report.differs, report.differs_in_slot) = (Some(words.clone()), Some(*index));
    }
    if args.json {
        output::json(&report)?;
    }
    match found {
        Some((index, words)) => Err(Failure::data(format!("slot {index}: {words}")).at(args.b.display())),
        None => Ok(()),
    }
}
