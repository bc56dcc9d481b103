//! `log`: works with recordings. `info` summarises a run, `replay` repeats the run's decisions and reports
//! the first value that differs, `export` writes its slots as CSV, `cut` and `recover` copy part of it to a
//! new file, and `diff` compares two runs.

mod copies;
mod diff;
mod export;
mod info;
mod range;
mod replay;
pub(super) mod source;
pub(super) mod tally;
mod what_if;

use super::exit::Failure;

/// Arguments of `log`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log info drive.mcap                    how long, how far, what stopped it and why
  ganglion log info /var/lib/ganglion/recordings  the same for the newest run in a folder
  ganglion log replay drive.mcap                  decide again and compare every command
  ganglion log export --csv drive.mcap > drive.csv
  ganglion log cut drive.mcap stop.mcap --from 40 --to 60   the part around a stop")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// The action on a recording. Each variant's doc comment is its line in `--help`.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Summarise what happened
    Info(info::Args),
    /// Repeat the decisions of the recorded run and report the first slot and value that differ
    Replay(replay::Args),
    /// Write the slots to standard output
    Export(export::Args),
    /// Copy part of a recording to a new file
    Cut(copies::CutArgs),
    /// Copy what a power failure left of a recording to a new, complete file
    Recover(copies::RecoverArgs),
    /// Report the first slot and value in which two runs differ
    Diff(diff::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.verb {
        Verb::Info(args) => info::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Export(args) => export::run(&args),
        Verb::Cut(args) => copies::cut(&args),
        Verb::Recover(args) => copies::recover(&args),
        Verb::Diff(args) => diff::run(&args),
    }
}
