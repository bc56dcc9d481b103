//! A whole brain in a file, with a description of the field for which it was made. The file is written
//! atomically, and only if it is valid; a file that is read is either used completely or refused with the
//! reason. The previous file stays beside it, as `NAME.previous`, for a start that finds the newest one
//! damaged. `schedule` decides when to write, `writer` holds the thread that writes, `places` the robot's
//! map. `copies` serves recordings.

mod copies;
mod places;
mod schedule;
mod writer;

pub use copies::{FieldCopy, start_field_copies};
pub use places::{Places, PlacesPage, PlacesThing};
pub use schedule::SnapshotSchedule;
pub use writer::{
    Beside, CopyMap, ExistingSnapshot, HandOver, SnapshotCounts, SnapshotSender, SnapshotWriter,
    start_snapshot_writer,
};

use super::readout::{RowNames, correction_digest, first_difference, identity};
use super::state::{Learned, Live, State, StateError};
use crate::base::plan::{Board, FieldPlan};
use crate::system::codec::{self, CodecError, FileError, Kind};
use crate::system::sanitize::{compared, quoted};
use places::remembered;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const KIND: Kind = Kind { tag: *b"BRAN", name: "snapshot", version: 3 };
/// The older format, without a map; it can still be read.
const WITHOUT_MAP: Kind = Kind { version: 2, ..KIND };

/// A brain and the field for which it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Everything that decides what its numbers mean: name and value, in a fixed order.
    made_for: Vec<(String, String)>,
    state: State,
    /// The digest of the starting table that the read-out corrects and of the correction's bound; `None`: the
    /// read-out drives alone. Older versions wrote other digests for read-outs that imitated a table.
    table: Option<[u8; 32]>,
    /// The map, if the robot has one.
    map: Option<Places>,
}

/// A [`Snapshot`] with borrowed parts; serde writes both types in the same way.
#[derive(Serialize)]
struct SnapshotRef<'a> {
    made_for: &'a [(String, String)],
    state: StateRef<'a>,
    table: Option<[u8; 32]>,
    map: Option<&'a Places>,
}

/// A file in the format without a map.
#[derive(Deserialize)]
struct MaplessSnapshot {
    made_for: Vec<(String, String)>,
    state: State,
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
    /// The file is undamaged, but belongs to another field or board.
    Mismatch {
        /// What differs.
        what: String,
        /// Its value in the snapshot.
        snapshot: String,
        /// Its value on the board.
        board: String,
    },
    /// The snapshot is for this field, but no engine of the field can resume from it.
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
    /// Whether the file is a damaged snapshot of this program. A file of another program, version or field
    /// must not be replaced.
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

/// What must match when a run resumes from a snapshot: the rows of the read-out, and everything that decides
/// what a feature means.
fn made_for(board: &Board) -> Vec<(String, String)> {
    let rows = ("rows".to_string(), RowNames::of(board).to_string());
    [rows].into_iter().chain(identity(board)).collect()
}

impl Snapshot {
    /// A snapshot of `state`, for the field of `board`.
    pub fn new(board: &Board, state: State) -> Snapshot {
        Snapshot { made_for: made_for(board), state, table: correction_digest(board), map: None }
    }

    /// This snapshot with the robot's map.
    pub fn with_map(self, map: Places) -> Snapshot {
        Snapshot { map: Some(map), ..self }
    }

    /// Writes the file atomically; the previous one stays beside it. [`Snapshot::check`] decides whether the
    /// content is valid.
    pub fn save(&self, path: &Path) -> Result<(), SnapshotError> {
        let state = StateRef { learned: &self.state.learned, live: &self.state.live };
        let map = self.map.as_ref();
        let written = SnapshotRef { made_for: &self.made_for, state, table: self.table, map };
        Ok(codec::save_by(path, KIND, &written, &mut Vec::new(), Some(&previous_name(path)))?)
    }

    /// The snapshot from which the robot of `board` resumes: the one at `path`, or the previous one if that
    /// is damaged. `None`: there is no file at `path`.
    pub fn find(path: &Path, board: &Board) -> Result<Option<UsableSnapshot>, SnapshotError> {
        let fitting = |path: &Path| {
            let snapshot = Snapshot::load(path)?;
            snapshot.check(board).map(|()| snapshot)
        };
        match fitting(path) {
            Ok(snapshot) => Ok(Some(UsableSnapshot { snapshot, in_place_of: None })),
            Err(SnapshotError::File(FileError::Io { error, .. })) if error.kind() == ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) if error.is_damage() => match fitting(&previous_of(path)) {
                Ok(snapshot) => Ok(Some(UsableSnapshot { snapshot, in_place_of: Some(error) })),
                Err(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Reads a file; [`Snapshot::check`] decides whether it fits a board.
    pub fn load(path: &Path) -> Result<Snapshot, SnapshotError> {
        match codec::load(path, KIND) {
            Err(FileError::Codec { error: CodecError::OtherVersion { found, .. }, .. })
                if found == WITHOUT_MAP.version =>
            {
                let MaplessSnapshot { made_for, state } = codec::load(path, WITHOUT_MAP)?;
                Ok(Snapshot { made_for, state, table: None, map: None })
            }
            loaded => Ok(loaded?),
        }
    }

    /// Checks that the field of `board` can resume from it; otherwise returns the first difference. The
    /// engine's kind, its number of threads and its storage of cells do not matter.
    pub fn check(&self, board: &Board) -> Result<(), SnapshotError> {
        if let Some([what, snapshot, board]) = first_difference(&self.made_for, &made_for(board)) {
            return Err(SnapshotError::Mismatch { what, snapshot, board });
        }
        if let Some(map) = &self.map {
            let wanted = remembered(board);
            if wanted.as_deref() != Some(&map.made_for()) {
                let (what, snapshot) = ("map of things".to_string(), map.made_for());
                return Err(SnapshotError::Mismatch {
                    what,
                    snapshot,
                    board: wanted.unwrap_or("none".into()),
                });
            }
        }
        sound(&board.field, &self.state.learned, &self.state.live, self.map.as_ref())
    }

    /// The map, if it has one.
    pub fn map(&self) -> Option<&Places> {
        self.map.as_ref()
    }

    /// Whether `board` has a map but the snapshot has none: the robot's map then starts empty.
    pub fn lacks_map(&self, board: &Board) -> bool {
        self.map.is_none() && remembered(board).is_some()
    }

    /// Whether its read-out has a different meaning on `board` and is therefore not used: it drove alone but
    /// the board has a starting table, or it corrected another table, or within another bound.
    pub fn has_other_readout(&self, board: &Board) -> bool {
        self.table != correction_digest(board)
            && self.state.learned.readout.iter().any(|weight| *weight != 0.0)
    }

    /// The state in it.
    pub fn state(&self) -> &State {
        &self.state
    }
}

/// A snapshot that fits; if it is not the newest, also why the newest is not used.
#[derive(Debug)]
pub struct UsableSnapshot {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What is wrong with the newer file; `None`: this is the newest.
    pub in_place_of: Option<SnapshotError>,
}

/// The path of the previous snapshot of `path`.
pub fn previous_of(path: &Path) -> PathBuf {
    path.with_file_name(previous_name(path))
}

fn previous_name(path: &Path) -> OsString {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".previous");
    name
}

/// Whether an engine of `plan` could resume from it.
fn sound(
    plan: &FieldPlan,
    learned: &Learned,
    live: &Live,
    map: Option<&Places>,
) -> Result<(), SnapshotError> {
    learned.check(plan).and_then(|()| live.check(plan)).map_err(SnapshotError::State)?;
    map.map_or(Ok(()), Places::check).map_err(SnapshotError::State)
}

/// Size in bytes of the largest possible file of a field whose live part has at most `live` bytes of numbers,
/// with a map as large as `map`.
fn most(made_for: &[(String, String)], learned: &Learned, live: usize, map: Option<&Places>) -> usize {
    let state = StateRef { learned, live: &Live::default() };
    let nothing = SnapshotRef { made_for, state, table: Some([0; 32]), map };
    // The first meeting with a thing adds the place where it was met.
    let places = map.map_or(0, |map| map.things.len() * size_of::<[f64; 2]>());
    codec::encode(KIND, &nothing).map_or(0, |bytes| bytes.len() + size_of::<Live>() + live + places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::board::built_in;

    fn fill<T: Clone + Default>(vector: &mut Vec<T>) {
        vector.resize(vector.capacity(), T::default());
    }

    #[test]
    fn the_service_unit_keeps_one_snapshot_per_format() {
        let unit = include_str!("../../systemd/ganglion.service");
        let name = format!("/brain-{}.bin ", KIND.version);
        assert!(unit.contains(&name), "after a rollback the old program finds its own snapshot: {name}");
    }

    #[test]
    fn the_largest_snapshot_fits_its_size_limit() {
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
        let state = StateRef { learned: &learned, live: &live };
        let snapshot = SnapshotRef { made_for: &made_for, state, table: None, map: None };
        let length = codec::encode(KIND, &snapshot).unwrap().len();
        let most = most(&made_for, &learned, room, None);
        assert!(length <= most, "{length} bytes; the limit is {most}");
        assert!(length > most * 9 / 10, "and the bound is not much larger: {length} of {most}");
    }
}
