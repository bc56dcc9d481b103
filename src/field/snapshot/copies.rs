//! Copies of a running field for a recording: the recorder asks for one when a file begins in the middle
//! of a run, so that a replay can compute the field from there on.

use super::SnapshotSchedule;
use super::writer::{Buffers, start};
use crate::base::plan::Board;
use crate::field::state::{Learned, Live};
use crate::system::codec::{self, CodecError, FileError, Kind};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const KIND: Kind = Kind { tag: *b"FCPY", name: "copy of a field", version: 1 };
/// The largest copy that is recorded, bytes: a field of 32^3 without a bank takes 9.5 MB, and a reader of
/// recordings accepts records of up to 16 MB.
const LARGEST: usize = 12 << 20;

/// The state of a field after a cycle.
#[derive(Debug, Serialize, Deserialize)]
pub struct FieldCopy {
    /// Digest of its read-out and library, which are not part of it.
    learned: [u8; 32],
    live: Live,
}

/// A [`FieldCopy`] with a borrowed state; serde writes both types in the same way.
#[derive(Serialize)]
struct FieldCopyRef<'a> {
    learned: [u8; 32],
    live: &'a Live,
}

impl FieldCopy {
    /// Decodes a copy from a recording.
    pub fn read(bytes: &[u8]) -> Result<FieldCopy, CodecError> {
        codec::decode(KIND, bytes)
    }

    /// Whether it belongs to a field with this read-out and library.
    pub fn fits(&self, learned: &Learned) -> bool {
        self.learned == digest(learned)
    }

    /// The state.
    pub fn live(&self) -> &Live {
        &self.live
    }
}

fn digest(learned: &Learned) -> [u8; 32] {
    let mut bytes = Vec::new();
    let written = codec::append(learned, &mut bytes);
    debug_assert!(written.is_ok(), "writing to a vector cannot fail");
    *blake3::hash(&bytes).as_bytes()
}

/// Prepares copies of the field of `board` with the read-out and library `learned`: whenever `asked` is set,
/// the schedule hands one to a thread, which passes its bytes to `send`. `None`: the field is too large.
/// `fill` saves the field's present state.
pub fn start_field_copies(
    board: &Board,
    learned: &Learned,
    asked: Arc<AtomicBool>,
    mut send: impl FnMut(Vec<u8>) + Send + 'static,
    fill: impl FnMut(&mut Live) -> bool,
) -> std::io::Result<Option<SnapshotSchedule>> {
    if Live::default().reserve(&board.field, false) > LARGEST {
        return Ok(None);
    }
    let learned = digest(learned);
    let write = move |live: &Live, _: &mut Vec<u8>| {
        let copy = codec::encode(KIND, &FieldCopyRef { learned, live });
        let place = || PathBuf::from("recording");
        copy.map(&mut send).map_err(|error| FileError::Codec { path: place(), error }.into())
    };
    // Copies are rare: one buffer is enough, and the bytes are allocated when they are needed.
    let buffers = Buffers { count: 1, bytes: 0, thread: "field-copy" };
    let (sender, _) = start(board, buffers, fill, write)?;
    Ok(Some(SnapshotSchedule::when_asked(sender, asked)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::sample::board;

    #[test]
    fn a_field_that_no_reader_accepts_is_not_copied() {
        let is_copied = |grid: usize, bank: usize| {
            let mut board = board(grid);
            board.field.shape.bank = bank;
            let started = start_field_copies(&board, &Learned::default(), Arc::default(), |_| (), |_| true);
            started.expect("a thread").is_some()
        };
        assert!(is_copied(32, 1) && is_copied(16, 1_000));
        assert!(!is_copied(32, 10_000) && !is_copied(64, 1));
    }
}
