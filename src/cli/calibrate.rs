//! `calibrate`: measures what differs between robots of the same kind: a servo's trim, a converter's
//! scale, the floor's brightness. Saves the result in this robot's board file, which inherits the board.

mod adc;
mod keep;
mod servo;

use super::exit::Failure;
use crate::deploy::board::Loaded;
use std::path::{Path, PathBuf};

/// Arguments of `calibrate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Find a servo's trim: try values interactively, or give one; the drive motors stay stopped
    Servo(servo::Args),
    /// Measure a converter's channel: set its scale from a known value, or a reflex's threshold
    Adc(adc::Args),
}

/// Arguments of both subcommands.
#[derive(Debug, clap::Args)]
struct Common {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE", default_value = "sim")]
    board: PathBuf,
    /// Save to this robot's board file: create it, or change only these values in it
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Servo(args) => servo::run(args),
        What::Adc(args) => adc::run(args),
    }
}

/// Loads the board, and checks that no other process has its buses open.
fn board(path: &Path) -> Result<Loaded, Failure> {
    let loaded = super::arguments::board(path)?;
    if let Some(holder) = crate::runtime::access::holder(&loaded.board, 0) {
        return Err(Failure::unavailable(format!("{holder} has the motors' bus open"))
            .at(format!("board '{}'", loaded.board.name))
            .fix("stop it first: 'systemctl stop ganglion ganglion-guard'"));
    }
    Ok(loaded)
}

/// The index of `name` in `names`, or an error that lists them.
fn index<'n>(what: &str, name: &str, names: impl Iterator<Item = &'n str>) -> Result<usize, Failure> {
    let names: Vec<&str> = names.collect();
    names.iter().position(|known| *known == name).ok_or_else(|| {
        Failure::usage(format!("the board has no {what} '{name}'"))
            .fix(format!("it has: {}", names.join(", ")))
    })
}
