//! Chooses the board of a machine: the robot's own, if it has one; otherwise the one that the user names;
//! otherwise the only built-in board for this machine and its HAT.

use super::files::{State, state};
use crate::base::plan::{Board, BusPlan};
use crate::deploy::board::{self, BoardError, Loaded, from_text_in, names_a_file, read_text};
use crate::runtime::selftest::hat::{self, WrongHat};
use crate::runtime::selftest::machine::{self, Mismatch};
use std::io;
use std::path::{Path, PathBuf};

/// The robot's own board.
pub const PATH: &str = "etc/ganglion/board.toml";

/// The board of a setup.
#[derive(Debug)]
pub struct Chosen {
    /// The board.
    pub loaded: Loaded,
    /// Why this board was chosen.
    pub origin: Origin,
    /// The content to write to [`PATH`], if there is no board yet.
    pub text: Option<String>,
}

/// The origin of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The robot already had this board.
    Own,
    /// The robot already had a board, although the user named this other one.
    OwnInsteadOf(String),
    /// The user named this board.
    Named(String),
    /// This is the only board that fits.
    Only(&'static str),
}

/// Why no board was chosen.
#[derive(Debug)]
pub enum NoBoard {
    /// No built-in board is for this machine.
    Unknown,
    /// Several built-in boards fit; the user must choose.
    Several(Vec<&'static str>),
    /// The file cannot be used.
    Unsound(PathBuf, BoardError),
    /// The board is for another computer.
    OtherMachine(String, Mismatch),
    /// The board is for another HAT, or there is no board for the HAT that was found.
    OtherHat(String, WrongHat),
    /// The board has no real bus.
    Log(String),
    /// The board inherits a file that would not be found from the folder of [`PATH`].
    Inherits(PathBuf),
    /// [`PATH`] is not a file.
    Odd(PathBuf, io::Error),
}

/// Chooses the board for the machine in `root`; `asked` is the one that the user named.
pub fn choose(root: &Path, asked: Option<&Path>) -> Result<Chosen, NoBoard> {
    let at = Path::new(PATH);
    let there = state(root, at).map_err(|error| NoBoard::Odd(Path::new("/").join(at), error))?;
    if let State::Link(to) = &there {
        let link = io::Error::other(format!("a link to {to}; the services need a file"));
        return Err(NoBoard::Odd(Path::new("/").join(at), link));
    }
    let has_own = matches!(there, State::File(_));
    let chosen = match (asked, has_own) {
        (None, true) => own(root, Origin::Own)?,
        (None, false) => only(root)?,
        (Some(path), _) => {
            let named = named(root, path)?;
            match there {
                State::File(text) if Some(&text) != named.text.as_ref() => {
                    own(root, Origin::OwnInsteadOf(path.display().to_string()))?
                }
                _ => named,
            }
        }
    };
    fits(root, &chosen.loaded.board, &name(&chosen))?;
    Ok(chosen)
}

/// The name of the board in messages.
fn name(chosen: &Chosen) -> String {
    match &chosen.origin {
        Origin::Own | Origin::OwnInsteadOf(_) => format!("/{PATH}"),
        Origin::Named(name) => name.clone(),
        Origin::Only(name) => name.to_string(),
    }
}

/// The robot's own board.
fn own(root: &Path, origin: Origin) -> Result<Chosen, NoBoard> {
    let path = Path::new("/").join(PATH);
    let loaded = board::load(&root.join(PATH)).map_err(|error| NoBoard::Unsound(path, error))?;
    Ok(Chosen { loaded, origin, text: None })
}

/// The board that the user named.
fn named(root: &Path, path: &Path) -> Result<Chosen, NoBoard> {
    let unsound = |error| NoBoard::Unsound(path.to_path_buf(), error);
    let loaded = board::load(path).map_err(unsound)?;
    let name = path.display().to_string();
    if !names_a_file(path) {
        return Ok(Chosen { loaded, text: Some(text_of(&name)), origin: Origin::Named(name) });
    }
    let unreadable =
        |error| unsound(BoardError::Unreadable { path: path.to_path_buf(), error, nearest: None });
    let text = read_text(path).map_err(unreadable)?;
    let folder = root.join(PATH).parent().map_or(PathBuf::new(), Path::to_path_buf);
    match from_text_in("board", &text, &folder) {
        Ok(there) if there.digest == loaded.digest => {
            Ok(Chosen { loaded, origin: Origin::Named(name), text: Some(text) })
        }
        _ => Err(NoBoard::Inherits(path.to_path_buf())),
    }
}

/// The only built-in board that fits.
fn only(root: &Path) -> Result<Chosen, NoBoard> {
    match candidates(root)[..] {
        [name] => match board::built_in(name) {
            Some(Ok(loaded)) => Ok(Chosen { loaded, origin: Origin::Only(name), text: Some(text_of(name)) }),
            _ => Err(NoBoard::Unknown),
        },
        [] => Err(wrong_hat(root).unwrap_or(NoBoard::Unknown)),
        ref several => Err(NoBoard::Several(several.to_vec())),
    }
}

/// The robot's file for a built-in board. It inherits the board, so that `calibrate` can add its results to
/// the file and the robot still gets the improvements that a later version makes to the board.
fn text_of(name: &str) -> String {
    format!(
        "# This robot's own board. 'ganglion setup' wrote it; 'ganglion calibrate' adds what it measures.\n\
         # What differs on this robot goes here: 'ganglion check' prints every key and its value.\n\
         inherits = \"{name}\"\n"
    )
}

/// Built-in boards for this machine, by its device tree and its HAT. Boards for any machine are left out,
/// because nothing shows that they fit. Boards that add to a robot what the machine does not show are left
/// out too: a remote brain, or rangers at the front corners. The user must name such a board.
pub fn candidates(root: &Path) -> Vec<&'static str> {
    for_machine(root)
        .into_iter()
        .filter(|(_, board)| hat::matches(board, root).is_ok())
        .map(|(name, _)| name)
        .collect()
}

fn for_machine(root: &Path) -> Vec<(&'static str, Board)> {
    let load = |name| Some((name, board::built_in(name)?.ok()?.board));
    board::names()
        .filter_map(load)
        .filter(|(_, board)| matches!(board.bus, BusPlan::Linux { .. }) && !board.compatible.is_empty())
        .filter(|(_, board)| board.tether.is_none() && board.wander.is_none())
        .filter(|(_, board)| machine::matches(board, root).is_ok())
        .collect()
}

/// The error if the HAT fits none of this machine's boards.
fn wrong_hat(root: &Path) -> Option<NoBoard> {
    let wrong = |(name, board): (&str, Board)| {
        Some(NoBoard::OtherHat(name.to_string(), hat::matches(&board, root).err()?))
    };
    for_machine(root).into_iter().find_map(wrong)
}

/// Whether a robot can run with `board` on the machine in `root`.
fn fits(root: &Path, board: &Board, name: &str) -> Result<(), NoBoard> {
    if matches!(board.bus, BusPlan::Log) {
        return Err(NoBoard::Log(name.to_string()));
    }
    machine::matches(board, root).map_err(|mismatch| NoBoard::OtherMachine(name.to_string(), mismatch))?;
    hat::matches(board, root).map_err(|wrong| NoBoard::OtherHat(name.to_string(), wrong))
}
