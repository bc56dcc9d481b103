//! The path from the field to the disk: the field fills a buffer between two cycles and hands it over; a
//! separate thread writes it, however long the disk takes. There are two buffers; if the writer has both, the
//! snapshot is skipped and counted. A brain that no engine could resume is not written: the last good one
//! remains.

use super::{KIND, Places, SnapshotError, SnapshotRef, StateRef, made_for, most, previous_name, sound};
use crate::base::plan::Board;
use crate::field::readout::correction_digest;
use crate::field::state::{Learned, Live};
use crate::system::codec;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// One that is being filled and one that is being written.
const BUFFERS: usize = 2;
/// How often the end looks whether the writer is done.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Counts of snapshots.
#[derive(Debug, Default)]
struct Progress {
    handed_over: AtomicU64,
    written: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
    unsound: AtomicU64,
    /// Why the last one failed.
    trouble: Mutex<Option<String>>,
}

/// Counts of snapshots, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SnapshotCounts {
    /// Whole in the file, one after the other.
    pub written: u64,
    /// Came due while the writer was still busy.
    pub skipped: u64,
    /// Could not be written.
    pub failed: u64,
    /// Of these: no engine could have resumed from them.
    pub unsound: u64,
    /// Why the last one could not.
    pub trouble: Option<String>,
    /// Whether the writer had done with all when it was last asked.
    pub finished: bool,
}

/// What is at the path of the snapshots before the first is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingSnapshot {
    /// Nothing, or what the robot resumes from.
    Sound,
    /// What was refused: it must not take the place of the good one before it.
    Refused,
}

/// The field's end.
pub struct SnapshotSender {
    held: Option<Box<Live>>,
    empty: Receiver<Box<Live>>,
    full: Sender<Box<Live>>,
    progress: Arc<Progress>,
}

/// The other end: the thread that writes.
pub struct SnapshotWriter {
    progress: Arc<Progress>,
}

/// Copies the robot's map.
pub type CopyMap = Box<dyn FnMut(&mut Places) + Send>;

/// What a snapshot holds beside the brain.
#[derive(Default)]
pub struct Beside {
    /// The robot's map. The writer calls it: it may wait for others who use the map.
    pub map: Option<CopyMap>,
}

/// Starts the writer of `path` for a brain of `board` that was given `learned`, with what is `beside` it. All
/// memory that the field fills and the writer writes is taken here; the thread has the priority of the
/// caller, an ordinary one if it is called at the start.
pub fn snapshot_line(
    path: PathBuf,
    standing: ExistingSnapshot,
    board: &Board,
    learned: Arc<Learned>,
    beside: Beside,
    fill: impl FnMut(&mut Live) -> bool,
) -> std::io::Result<(SnapshotSender, SnapshotWriter)> {
    let Beside { map: mut copy_map } = beside;
    let mut map = copy_map.as_ref().map(|_| Places::default());
    if let (Some(copy), Some(map)) = (&mut copy_map, &mut map) {
        copy(map);
    }
    let (made_for, table, plan) = (made_for(board), correction_digest(board), board.field.clone());
    let previous = previous_name(&path);
    let besides = most(&made_for, &learned, 0, map.as_ref());
    let mut keeps = standing == ExistingSnapshot::Sound;
    let write = move |live: &Live, bytes: &mut Vec<u8>| {
        if let (Some(copy), Some(map)) = (&mut copy_map, &mut map) {
            copy(map);
        }
        sound(&plan, &learned, live, map.as_ref())?;
        let state = StateRef { learned: &learned, live };
        let kept = keeps.then_some(previous.as_os_str());
        let whole = SnapshotRef { made_for: &made_for, state, table, map: map.as_ref() };
        codec::save_by(&path, KIND, &whole, bytes, kept)?;
        keeps = true; // what stands there now is good
        Ok(())
    };
    line(board, besides, fill, write)
}

/// The same with whatever `write` does with a brain, by way of a buffer with room for all its numbers and
/// `besides`.
fn line(
    board: &Board,
    besides: usize,
    mut fill: impl FnMut(&mut Live) -> bool,
    mut write: impl FnMut(&Live, &mut Vec<u8>) -> Result<(), SnapshotError> + Send + 'static,
) -> std::io::Result<(SnapshotSender, SnapshotWriter)> {
    let (put_back, empty) = bounded(BUFFERS);
    let (full, orders) = bounded::<Box<Live>>(BUFFERS);
    let mut largest = 0;
    for _ in 0..BUFFERS {
        let mut live = Box::<Live>::default();
        largest = live.reserve(&board.field, false);
        fill(&mut live); // so that its pages are there
        let _ = put_back.send(live);
    }
    let progress: Arc<Progress> = Arc::default();
    let told = progress.clone();
    // Room for the largest file, once: a buffer that grows with the bank would make the process grow on its
    // way.
    let mut bytes = Vec::with_capacity(besides + largest);
    thread::Builder::new().name("snapshot".into()).spawn(move || {
        for live in orders {
            match write(&live, &mut bytes) {
                Ok(()) => told.written.fetch_add(1, Ordering::Release),
                Err(error) => told.fail(&error),
            };
            let _ = put_back.send(live);
        }
    })?;
    let sender = SnapshotSender { held: None, empty, full, progress: progress.clone() };
    Ok((sender, SnapshotWriter { progress }))
}

impl Progress {
    /// Said once and counted: what is wrong with one is likely wrong with the next.
    fn fail(&self, error: &SnapshotError) -> u64 {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_none() {
            log::warn!("no snapshot: {error}; the last good one remains; further failures are counted");
        }
        *trouble = Some(error.to_string());
        let is_unsound = matches!(error, SnapshotError::State(_));
        self.unsound.fetch_add(u64::from(is_unsound), Ordering::Relaxed);
        self.failed.fetch_add(1, Ordering::Release)
    }
}

impl SnapshotSender {
    /// Has `fill` fill a buffer and hands it to the writer. False: `fill` could not do it now; to be asked
    /// again soon. Never waits; with both buffers at the writer the snapshot is skipped.
    pub fn hand_over(&mut self, fill: impl FnOnce(&mut Live) -> bool) -> bool {
        self.held = self.held.take().or_else(|| self.empty.try_recv().ok());
        self.give(fill)
    }

    /// The same at the end, when it may wait for a buffer.
    pub fn hand_over_last(&mut self, timeout: Duration, fill: impl FnOnce(&mut Live) -> bool) -> bool {
        self.held = self.held.take().or_else(|| self.empty.recv_timeout(timeout).ok());
        self.give(fill)
    }

    fn give(&mut self, fill: impl FnOnce(&mut Live) -> bool) -> bool {
        let Some(mut live) = self.held.take() else {
            self.progress.skipped.fetch_add(1, Ordering::Relaxed);
            return true;
        };
        if !fill(&mut live) {
            self.held = Some(live);
            return false;
        }
        self.progress.handed_over.fetch_add(1, Ordering::Release);
        // There is room for every buffer; without a writer it is gone, and every later one is skipped.
        let _ = self.full.try_send(live);
        true
    }
}

impl SnapshotWriter {
    /// The counts so far.
    pub fn counts(&self) -> SnapshotCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        let (written, failed) = (count(&self.progress.written), count(&self.progress.failed));
        SnapshotCounts {
            written,
            skipped: count(&self.progress.skipped),
            failed,
            unsound: count(&self.progress.unsound),
            trouble: self.progress.trouble.lock().ok().and_then(|trouble| trouble.clone()),
            finished: written + failed == count(&self.progress.handed_over),
        }
    }

    /// Waits until everything that was handed over is written, for at most `timeout`: a disk that hangs must
    /// not keep a program from ending. The field hands over no more.
    pub fn end(&self, timeout: Duration) -> SnapshotCounts {
        let until = Instant::now() + timeout;
        while !self.counts().finished && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
        self.counts()
    }
}

#[cfg(test)]
mod tests;
