//! `log`: what a recording holds. `info` says in sentences what happened, `replay` decides the run again and
//! names the first value that differs, `export` writes its slots as CSV, `cut` and `recover` write a part of
//! it anew, `diff` compares two runs.

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
  ganglion log info drive.mcap                    how long, how far, what stopped the robot and why, what was lost
  ganglion log info /var/lib/ganglion/recordings  of the newest run in a folder
  ganglion log replay drive.mcap                  decide the run again and compare every command, bit for bit
  ganglion log export --csv drive.mcap > drive.csv
  ganglion log cut drive.mcap stop.mcap --from 40 --to 60   the part around a stop, as a file of its own")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// What to do with a recording. Each variant's doc comment is its line in `--help`.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Say in sentences what happened
    Info(info::Args),
    /// Decide the recorded run again, and name the first slot and value that differ
    Replay(replay::Args),
    /// Write the slots to standard output
    Export(export::Args),
    /// Write a part of a recording to a new file
    Cut(copies::CutArgs),
    /// Write what a power failure left of a recording to a new file that ends in order
    Recover(copies::RecoverArgs),
    /// Name the first slot and value in which two runs differ
    Diff(diff::Args),
}

/// Runs the verb.
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
