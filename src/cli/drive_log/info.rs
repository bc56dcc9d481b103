//! `log info`: a summary of a recorded run that fits on one screen.

use super::source::{Item, Source};
use super::tally::{Tally, board_of};
use crate::cli::exit::Failure;
use crate::cli::output;
use std::path::PathBuf;

/// Arguments of `log info`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log info drive.mcap
  ganglion log info /var/lib/ganglion/recordings --json")]
pub struct Args {
    /// The recording, or a folder, which stands for its newest run
    #[arg(value_name = "FILE|DIR")]
    recording: PathBuf,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// Maximum number of stops listed: what fits on a screen.
const TOLD: usize = 8;

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut source = Source::open(&args.recording)?;
    let mut tally: Option<Tally> = None;
    while let Some(item) = source.next_item()? {
        let tally = tally.get_or_insert_with(|| Tally::new(board_of(&source.run).as_ref()));
        match item {
            Item::Step(step) => tally.take(&step.slot),
            Item::Process(message) => tally.take_process(&message),
            Item::Status(_) | Item::Slices(..) => {}
        }
    }
    let (summary, sentences) = tally.unwrap_or_default().end(&source.run, TOLD);
    sentences.iter().for_each(|sentence| say!("{sentence}"));
    if args.json {
        output::json(&summary)?;
    }
    Ok(())
}
