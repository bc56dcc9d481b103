//! The path from the field to the disk: the field fills a buffer between two cycles and hands it over; a
//! separate thread writes it, however long the disk takes. There are two buffers; if the writer has both, the
//! snapshot is skipped and counted. A brain that no engine could resume from is not written: the last good
//! file remains.

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

/// Number of snapshot buffers: one is filled while the other is written to disk.
const BUFFERS: usize = 2;
/// How often [`SnapshotWriter::end`] checks whether the writer is done.
const CHECK_EVERY: Duration = Duration::from_millis(2);

/// Counts of snapshots.
#[derive(Debug, Default)]
struct Progress {
    handed_over: AtomicU64,
    written: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
    unsound: AtomicU64,
    /// Why writing failed the last time.
    trouble: Mutex<Option<String>>,
}

/// Counts of snapshots, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SnapshotCounts {
    /// Written completely.
    pub written: u64,
    /// Skipped because the writer was still busy.
    pub skipped: u64,
    /// Failed.
    pub failed: u64,
    /// Of the failed ones: snapshots from which no engine could have resumed.
    pub unsound: u64,
    /// Why writing failed the last time.
    pub trouble: Option<String>,
    /// Whether every snapshot that was handed over has been written or has failed.
    pub finished: bool,
}

/// What is at the snapshots' path before the first is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingSnapshot {
    /// Nothing, or the snapshot from which the robot resumes.
    Sound,
    /// A file that was refused: it must not replace the good previous one.
    Refused,
}

/// The outcome of handing over a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// The writer has it.
    Given,
    /// The engine could not save; the caller should try again soon.
    NotNow,
    /// The writer had all buffers.
    Skipped,
}

/// The field's end.
pub struct SnapshotSender {
    held: Option<Box<Live>>,
    empty: Receiver<Box<Live>>,
    full: Sender<Box<Live>>,
    progress: Arc<Progress>,
}

/// The writing thread, at the other end.
pub struct SnapshotWriter {
    progress: Arc<Progress>,
}

/// Copies the robot's map.
pub type CopyMap = Box<dyn FnMut(&mut Places) + Send>;

/// What a snapshot contains besides the brain.
#[derive(Default)]
pub struct Beside {
    /// Copies the robot's map. It is called once at the start and then by the writer's thread, so it may wait
    /// for other users of the map.
    pub map: Option<CopyMap>,
}

/// Starts the writer of `path` for a brain of `board` with the read-out and library `learned`, together with
/// `beside`. `existing` describes the file that is there now. All buffers are allocated here. The thread
/// inherits the caller's priority, which is not a real-time one at the start of a run.
pub fn start_snapshot_writer(
    path: PathBuf,
    existing: ExistingSnapshot,
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
    let mut keeps = existing == ExistingSnapshot::Sound;
    let write = move |live: &Live, bytes: &mut Vec<u8>| {
        if let (Some(copy), Some(map)) = (&mut copy_map, &mut map) {
            copy(map);
        }
        sound(&plan, &learned, live, map.as_ref())?;
        let state = StateRef { learned: &learned, live };
        let kept = keeps.then_some(previous.as_os_str());
        let whole = SnapshotRef { made_for: &made_for, state, table, map: map.as_ref() };
        codec::save_by(&path, KIND, &whole, bytes, kept)?;
        keeps = true; // the file that is there now is good
        Ok(())
    };
    // Room for the largest file from the start: a buffer that grows with the bank would make the process grow
    // during the run.
    let bytes = besides + Live::default().reserve(&board.field, false);
    start(board, Buffers { count: BUFFERS, bytes, thread: "snapshot" }, fill, write)
}

/// The buffers and the thread of a path from the field to a writer.
pub(super) struct Buffers {
    /// Number of buffers, each for one brain.
    pub count: usize,
    /// Room for the bytes that are written.
    pub bytes: usize,
    /// The name of the writing thread.
    pub thread: &'static str,
}

/// Starts a thread that calls `write` for each brain that is handed over; `write` also gets the byte buffer.
pub(super) fn start(
    board: &Board,
    buffers: Buffers,
    mut fill: impl FnMut(&mut Live) -> bool,
    mut write: impl FnMut(&Live, &mut Vec<u8>) -> Result<(), SnapshotError> + Send + 'static,
) -> std::io::Result<(SnapshotSender, SnapshotWriter)> {
    let Buffers { count, bytes, thread } = buffers;
    let (put_back, empty) = bounded(count);
    let (full, to_write) = bounded::<Box<Live>>(count);
    for _ in 0..count {
        let mut live = Box::<Live>::default();
        live.reserve(&board.field, false);
        fill(&mut live); // so that its pages are mapped
        let _ = put_back.send(live);
    }
    let progress: Arc<Progress> = Arc::default();
    let counts = progress.clone();
    let mut bytes = Vec::with_capacity(bytes);
    thread::Builder::new().name(thread.into()).spawn(move || {
        for live in to_write {
            match write(&live, &mut bytes) {
                Ok(()) => counts.written.fetch_add(1, Ordering::Release),
                Err(error) => counts.fail(&error),
            };
            let _ = put_back.send(live);
        }
    })?;
    let sender = SnapshotSender { held: None, empty, full, progress: progress.clone() };
    Ok((sender, SnapshotWriter { progress }))
}

impl Progress {
    /// Counts a failure and logs the first: the next ones probably have the same reason.
    fn fail(&self, error: &SnapshotError) -> u64 {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_none() {
            log::warn!(
                "snapshot not written: {error}; an older snapshot, if there is one, stays; further failures are only counted"
            );
        }
        *trouble = Some(error.to_string());
        let is_unsound = matches!(error, SnapshotError::State(_));
        self.unsound.fetch_add(u64::from(is_unsound), Ordering::Relaxed);
        self.failed.fetch_add(1, Ordering::Release)
    }
}

impl SnapshotSender {
    /// Fills a buffer with `fill` and hands it to the writer. Never waits.
    pub fn hand_over(&mut self, fill: impl FnOnce(&mut Live) -> bool) -> HandOver {
        self.held = self.held.take().or_else(|| self.empty.try_recv().ok());
        self.give(fill)
    }

    /// Hands over the last brain at the end of a run; waits for a free buffer for at most `timeout`.
    pub fn hand_over_last(&mut self, timeout: Duration, fill: impl FnOnce(&mut Live) -> bool) -> HandOver {
        self.held = self.held.take().or_else(|| self.empty.recv_timeout(timeout).ok());
        self.give(fill)
    }

    fn give(&mut self, fill: impl FnOnce(&mut Live) -> bool) -> HandOver {
        let Some(mut live) = self.held.take() else {
            self.progress.skipped.fetch_add(1, Ordering::Relaxed);
            return HandOver::Skipped;
        };
        if !fill(&mut live) {
            self.held = Some(live);
            return HandOver::NotNow;
        }
        self.progress.handed_over.fetch_add(1, Ordering::Release);
        // The channel has room for every buffer, so this fails only if the writer has panicked. Then the
        // buffer is lost, and once all are, the next snapshots are skipped.
        if self.full.try_send(live).is_err() {
            self.progress.failed.fetch_add(1, Ordering::Release);
        }
        HandOver::Given
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

    /// Waits until everything that was handed over is written or has failed, at most for `timeout`: a hanging
    /// disk must not keep the program from ending. The field must hand over nothing after this.
    pub fn end(&self, timeout: Duration) -> SnapshotCounts {
        let until = Instant::now() + timeout;
        while !self.counts().finished && Instant::now() < until {
            thread::sleep(CHECK_EVERY);
        }
        self.counts()
    }
}

#[cfg(test)]
mod tests;
