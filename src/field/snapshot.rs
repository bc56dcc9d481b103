//! A whole brain in a file, and the field it was made for. Written whole and valid or not at all, read whole
//! or refused with the reason. The previous file stays beside it, as `NAME.previous`, for a start that cannot
//! use the newest. `writer` has the schedule and the thread that writes.

mod writer;

pub use writer::{SnapshotCounts, SnapshotSender, SnapshotWriter, Standing, snapshot_line};

use super::readout::{RowNames, first_difference, identity};
use super::state::{Learned, Live, State, StateError};
use crate::codec::{self, CodecError, FileError, Kind};
use crate::outside::{compared, quoted};
use crate::plan::{Board, FieldPlan};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const KIND: Kind = Kind { tag: *b"BRAN", name: "snapshot", version: 2 };

/// A brain and the field it was made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What decides what its numbers mean: name and value, in a fixed order.
    made_for: Vec<(String, String)>,
    state: State,
}

/// The same, borrowed; serde writes both alike.
#[derive(Serialize)]
struct SnapshotRef<'a> {
    made_for: &'a [(String, String)],
    state: StateRef<'a>,
}

#[derive(Serialize)]
struct StateRef<'a> {
    learned: &'a Learned,
    live: &'a Live,
}

/// Why a snapshot is not used.
#[derive(Debug)]
pub enum SnapshotError {
    /// The file cannot be read or written, or is damaged.
    File(FileError),
    /// It is whole, and of another field or board.
    Mismatch {
        /// What differs.
        what: String,
        /// Its value in the snapshot.
        snapshot: String,
        /// Its value on the board.
        board: String,
    },
    /// It is of this field, and does not fit its engine.
    State(StateError),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::File(error) => error.fmt(f),
            SnapshotError::Mismatch { what, snapshot, board } => {
                let (what, snapshot) = (quoted(what), compared(snapshot));
                write!(f, "the snapshot was made for {what} = {snapshot}; the board has {board}")
            }
            SnapshotError::State(error) => write!(f, "the snapshot does not fit the field: {error}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl SnapshotError {
    /// Whether the file is one of ours that has gone bad. One of another program, version or field is not
    /// ours to replace.
    fn is_damage(&self) -> bool {
        match self {
            SnapshotError::File(FileError::Codec { error, .. }) => !matches!(
                error,
                CodecError::NotOurs | CodecError::WrongKind { .. } | CodecError::OtherVersion { .. }
            ),
            SnapshotError::State(_) => true,
            SnapshotError::File(FileError::Io { .. }) | SnapshotError::Mismatch { .. } => false,
        }
    }
}

impl From<FileError> for SnapshotError {
    fn from(error: FileError) -> SnapshotError {
        SnapshotError::File(error)
    }
}

/// What must be the same where a run resumes from a snapshot: the rows of the read-out, and all that decides
/// what a feature means.
fn made_for(board: &Board) -> Vec<(String, String)> {
    let rows = ("rows".to_string(), RowNames::of(board).to_string());
    [rows].into_iter().chain(identity(board)).collect()
}

impl Snapshot {
    /// `state` of a field of `board`.
    pub fn new(board: &Board, state: State) -> Snapshot {
        Snapshot { made_for: made_for(board), state }
    }

    /// Writes the file, whole or not at all; the one before it stays beside it. Whether it is sound is for
    /// [`Snapshot::check`].
    pub fn save(&self, path: &Path) -> Result<(), SnapshotError> {
        let state = StateRef { learned: &self.state.learned, live: &self.state.live };
        let written = SnapshotRef { made_for: &self.made_for, state };
        Ok(codec::save_by(path, KIND, &written, &mut Vec::new(), Some(&previous_name(path)))?)
    }

    /// What the robot of `board` resumes from: the brain at `path`, or the previous one if it is damaged.
    /// `None`: there is no file at `path`.
    pub fn find(path: &Path, board: &Board) -> Result<Option<Found>, SnapshotError> {
        let fitting = |path: &Path| {
            let snapshot = Snapshot::load(path)?;
            snapshot.check(board).map(|()| snapshot)
        };
        match fitting(path) {
            Ok(snapshot) => Ok(Some(Found { snapshot, in_place_of: None })),
            Err(SnapshotError::File(FileError::Io { error, .. })) if error.kind() == ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) if error.is_damage() => match fitting(&previous_of(path)) {
                Ok(snapshot) => Ok(Some(Found { snapshot, in_place_of: Some(error) })),
                Err(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Reads a file; whether it fits a board is for [`Snapshot::check`].
    pub fn load(path: &Path) -> Result<Snapshot, SnapshotError> {
        Ok(codec::load(path, KIND)?)
    }

    /// Whether the field of `board` can resume from it; the first difference if not. Which engine computes,
    /// on how many threads and how it keeps its cells does not matter.
    pub fn check(&self, board: &Board) -> Result<(), SnapshotError> {
        if let Some([what, snapshot, board]) = first_difference(&self.made_for, &made_for(board)) {
            return Err(SnapshotError::Mismatch { what, snapshot, board });
        }
        sound(&board.field, &self.state.learned, &self.state.live)
    }

    /// What it holds.
    pub fn state(&self) -> &State {
        &self.state
    }
}

/// A brain that fits, and why it is not the newest.
#[derive(Debug)]
pub struct Found {
    /// The brain.
    pub snapshot: Snapshot,
    /// What is wrong with the newer file that it replaces.
    pub in_place_of: Option<SnapshotError>,
}

/// The file of the brain that was at `path` before the newest.
pub fn previous_of(path: &Path) -> PathBuf {
    path.with_file_name(previous_name(path))
}

fn previous_name(path: &Path) -> OsString {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".previous");
    name
}

/// Whether an engine of `plan` could resume from it.
fn sound(plan: &FieldPlan, learned: &Learned, live: &Live) -> Result<(), SnapshotError> {
    learned.check(plan).and_then(|()| live.check(plan)).map_err(SnapshotError::State)
}

/// Bytes of the largest file that there can be of a field whose live part has at most `live` bytes of
/// numbers.
fn most(made_for: &[(String, String)], learned: &Learned, live: usize) -> usize {
    let nothing = SnapshotRef { made_for, state: StateRef { learned, live: &Live::default() } };
    codec::encode(KIND, &nothing).map_or(0, |bytes| bytes.len() + size_of::<Live>() + live)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::built_in;

    fn fill<T: Clone + Default>(vector: &mut Vec<T>) {
        vector.resize(vector.capacity(), T::default());
    }

    #[test]
    fn the_largest_file_fits_into_the_room_for_it() {
        let board = built_in("virtual-bench").unwrap().unwrap().board;
        let mut live = Live::default();
        let room = live.reserve(&board.field, false);
        for cells in [&mut live.whole, &mut live.half, &mut live.bank.rows] {
            fill(cells);
        }
        let senses = &mut live.senses;
        let matrices =
            [&mut senses.regressors, &mut senses.weights, &mut senses.covariance, &mut senses.errors];
        matrices.into_iter().for_each(fill);
        fill(&mut live.bank.value);
        fill(&mut live.bank.last_use);
        for found in [&mut live.bank.running, &mut live.bank.nearest, &mut live.blend] {
            fill(found);
        }
        let (made_for, learned) = (made_for(&board), Learned::default());
        let snapshot =
            SnapshotRef { made_for: &made_for, state: StateRef { learned: &learned, live: &live } };
        let length = codec::encode(KIND, &snapshot).unwrap().len();
        let most = most(&made_for, &learned, room);
        assert!(length <= most, "{length} bytes into {most}");
        assert!(length > most * 9 / 10, "and not more room than it takes: {length} of {most}");
    }
}
