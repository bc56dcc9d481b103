//! `log`: what a recording holds. `info` says in sentences what happened, `replay` decides the run again and
//! names the first value that differs, `export` writes its slots as CSV.

mod export;
mod info;
mod range;
mod replay;
mod source;

use super::exit::Failure;

/// Arguments of `log`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log info drive.mcap                    how long, how far, what stopped the robot and why, what was lost
  ganglion log info /var/lib/ganglion/recordings  of the newest run in a folder
  ganglion log replay drive.mcap                  decide the run again and compare every command, bit for bit
  ganglion log export --csv drive.mcap > drive.csv")]
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
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.verb {
        Verb::Info(args) => info::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Export(args) => export::run(&args),
    }
}
