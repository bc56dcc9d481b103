//! `calibrate`: measures what differs between robots of the same kind: a servo's trim, a converter's
//! scale, the floor's brightness. Saves the result in this robot's board file, which inherits the board.

mod adc;
mod keep;
mod servo;

use super::exit::Failure;
use crate::base::plan::BusPlan;
use crate::deploy::board::{Loaded, names_a_file};
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
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board [default: the file
    /// of --save, or else the simulated board 'sim']
    #[arg(long, value_name = "FILE")]
    board: Option<PathBuf>,
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

/// The boards of a calibration.
struct Boards {
    /// The board that is measured.
    measured: Loaded,
    /// Its file or name.
    path: PathBuf,
    /// The board in the file of `--save`, if that file exists.
    saved: Option<Loaded>,
}

impl Boards {
    /// The board whose values the calibration replaces.
    fn old(&self) -> &Loaded {
        self.saved.as_ref().unwrap_or(&self.measured)
    }

    /// What to add to a reading of the measured board.
    fn label(&self) -> &'static str {
        if is_simulated(&self.measured) { " (simulated)" } else { "" }
    }
}

fn is_simulated(loaded: &Loaded) -> bool {
    matches!(loaded.board.bus, BusPlan::Sim)
}

/// Loads the boards that the arguments name. Readings of the simulator must not get into the file of a real
/// robot: they look like its own, and every later run would use them.
fn boards(common: &Common) -> Result<Boards, Failure> {
    if let Some(path) = common.save.as_ref().filter(|path| !names_a_file(path)) {
        let words =
            format!("'--save {}': a board file has a '/' in its name or ends in '.toml'", path.display());
        return Err(Failure::usage(words).fix("any other name refers to a built-in board"));
    }
    // A file whose existence cannot be checked is opened below, which reports why.
    let existing = common.save.as_ref().filter(|path| path.try_exists().unwrap_or(true));
    let path = match (&common.board, existing, &common.save) {
        (Some(board), ..) => board.clone(),
        (None, Some(saved), _) => saved.clone(),
        (None, None, Some(new)) => {
            return Err(Failure::usage(format!("{} does not exist", new.display()))
                .fix("name the board that the new file will inherit: '--board picarx-v4', for example"));
        }
        (None, None, None) => PathBuf::from("sim"),
    };
    let measured = board(&path)?;
    let other = existing.filter(|saved| **saved != path);
    let saved = other.map(|path| super::arguments::board(path)).transpose()?;
    match (&saved, &common.save) {
        (Some(saved), Some(file)) if is_simulated(&measured) && !is_simulated(saved) => {
            let words = format!(
                "board '{}' is simulated, and {} is the board of a real robot",
                measured.board.name,
                file.display()
            );
            let fix = format!("leave out --board: {} itself is measured then", file.display());
            Err(Failure::usage(words).fix(fix))
        }
        _ => Ok(Boards { measured, path, saved }),
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
