//! The thread that writes the files. It may block on a disk indefinitely: items that arrive in the meantime
//! wait in a queue, and the sender counts those that do not fit.
//!
//! A chunk is written and synced every second, so a power failure loses the last second or two. After a write
//! error the file is abandoned and a new one is started some seconds later; slots that could not be saved are
//! counted.

use super::CHECKPOINTS_LEFT_OUT;
use super::counts::RecordingCounts;
use super::facts::Facts;
use super::file::McapFile;
use super::slot::{Slot, Step};
use super::store::{Opener, Quota, RecordingTarget};
use super::topics::ProcessMessage;
use super::window::{When, Window};
use crate::base::frame::Reading;
use crate::base::time::{Instant as SlotTime, Span};
use crate::drive::trace::Record;
use crate::field::slices::SlicesMessage;
use crate::system::rt::{UsageMeter, thread_time};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval between syncs.
const SYNC_EVERY: Duration = Duration::from_millis(1_000);
/// Interval between messages about the process, measured on the robot's clock, even in virtual time.
const PROCESS_EVERY: Span = Span::from_millis(1_000);
/// Delay between an error and the next file: a full disk is unlikely to have space any sooner.
const RETRY_AFTER: Duration = Duration::from_millis(5_000);

/// Settings of a recording.
pub struct Plan {
    /// Where the files go.
    pub place: RecordingTarget,
    /// Which slots are written.
    pub when: When,
    /// Limits for the folder.
    pub quota: Quota,
    /// What each file contains about the run.
    pub facts: Facts,
    /// Opens the files.
    pub open: Opener,
}

/// An item in the thread's queue.
pub(super) enum Item {
    /// A slot.
    Slot {
        /// The tick's record.
        record: Box<Record>,
        /// The readings that the slot took.
        readings: Vec<Reading>,
        /// How many more readings the slot took; these were lost.
        untold: u32,
        /// The tick's state before the slot; only every few seconds.
        checkpoint: Option<Vec<u8>>,
    },
    /// A time on the robot's clock, and the robot's status at that time as JSON.
    Status(u64, String),
    /// When slices through the field were taken, and the slices.
    Slices(SlotTime, Box<SlicesMessage>),
    /// A copy of the field, for which the writer has asked.
    FieldCopy(Vec<u8>),
    /// Key and value of an entry in the metadata at the end of the file.
    Word(String, String),
    /// The run is over.
    End,
}

/// The thread's state.
pub(super) struct Writer {
    plan: Plan,
    counts: Arc<RecordingCounts>,
    window: Window,
    file: Option<McapFile>,
    /// Set by the writer to ask for a copy of the field.
    field_copy_asked: Arc<AtomicBool>,
    /// The file has no slot yet.
    is_new: bool,
    /// Bytes of the file that are copies of the field. They do not count towards its size limit: otherwise
    /// the copy alone would fill a small file.
    copied: u64,
    part: u64,
    /// Slots in the file since it was last synced.
    unsynced: u64,
    /// Bytes of the files before this one.
    before: u64,
    opened: Instant,
    synced: Instant,
    retry_at: Option<Instant>,
    words: BTreeMap<String, String>,
    usage: Arc<UsageMeter>,
    /// Slot of the newest message about the process.
    measured: Option<SlotTime>,
}

impl Writer {
    pub(super) fn new(
        plan: Plan,
        counts: Arc<RecordingCounts>,
        field_copy_asked: Arc<AtomicBool>,
        usage: Arc<UsageMeter>,
    ) -> Writer {
        let now = Instant::now();
        Writer {
            window: Window::new(plan.when),
            plan,
            counts,
            file: None,
            field_copy_asked,
            is_new: true,
            copied: 0,
            part: 0,
            unsynced: 0,
            before: 0,
            opened: now,
            synced: now,
            retry_at: None,
            words: BTreeMap::new(),
            usage,
            measured: None,
        }
    }

    /// Opens the file at once if the user has named one, so that the user sees an error. A folder may become
    /// writable later, so an unwritable folder never keeps a robot from running.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if matches!(self.plan.place, RecordingTarget::File(_)) { self.open() } else { Ok(()) }
    }

    /// The thread's main function: runs until [`Item::End`], or until all senders are gone.
    pub(super) fn live(mut self, items: &Receiver<Item>) {
        loop {
            match items.recv_timeout(SYNC_EVERY / 4) {
                Ok(item) => {
                    if self.take(item).is_break() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.synced.elapsed() >= SYNC_EVERY {
                self.sync();
            }
        }
        self.close();
    }

    /// Handles an item; returns whether it was the last one.
    fn take(&mut self, item: Item) -> ControlFlow<()> {
        match item {
            Item::Slot { record, readings, untold, checkpoint } => {
                let step = Step { checkpoint, slot: Slot::of(&record, readings, untold) };
                let mut due = Vec::new();
                self.window.take(step, |step| due.push(step), drop);
                due.iter().for_each(|step| self.write(step));
                // A named file stays open until it has its first slot.
                if !self.window.is_open() && self.file.is_some() && !self.is_new {
                    self.close();
                }
                RecordingCounts::add(&self.counts.taken, 1);
            }
            Item::Status(time, json) => {
                let written = self.file.as_mut().map_or(Ok(()), |file| file.status(time, &json));
                self.note(written);
            }
            Item::Slices(at, message) => {
                let written = self.file.as_mut().map_or(Ok(()), |file| file.slices(at, *message));
                self.note(written);
            }
            Item::FieldCopy(copy) => {
                let written = self.file.as_mut().map_or(Ok(()), |file| file.field_copy(&copy));
                self.copied += copy.len() as u64;
                self.note(written);
            }
            Item::Word(key, word) => drop(self.words.insert(key, word)),
            Item::End => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn write(&mut self, step: &Step) {
        if self.is_over(step.checkpoint.is_some()) {
            self.close();
        }
        if self.file.is_none() && self.retry_at.is_none_or(|at| Instant::now() >= at) {
            let opened = self.open();
            self.note(opened);
        }
        let Some(file) = &mut self.file else {
            RecordingCounts::add(&self.counts.unwritten, 1);
            return;
        };
        // A field that was at rest before the first slot needs no copy.
        let begins_at_rest = step.slot.index == 0 && !self.plan.facts.resumed();
        if std::mem::take(&mut self.is_new) && !begins_at_rest {
            self.field_copy_asked.store(true, Ordering::Release);
        }
        let mut written = file.step(step);
        let slot = step.slot.slot;
        if written.is_ok() && self.measured.is_none_or(|at| slot.since(at) >= PROCESS_EVERY || slot < at) {
            self.measured = Some(slot);
            let slots_unrecorded = self.counts.lost();
            let message = ProcessMessage { usage: self.usage.at(slot), slots_unrecorded };
            written = file.process(slot.as_nanos(), &message);
        }
        self.unsynced += 1;
        self.note(written);
    }

    /// Whether a new file in the folder is due, because this one has reached its maximum size or age. The new
    /// file starts with a checkpoint, so that it can be replayed without the earlier ones; if none comes
    /// before this file reaches twice its maximum size, the new one starts without a checkpoint.
    fn is_over(&self, at_checkpoint: bool) -> bool {
        let Some(file) = self.file.as_ref().filter(|_| matches!(self.plan.place, RecordingTarget::Folder(_)))
        else {
            return false;
        };
        let quota = &self.plan.quota;
        let age = Duration::from_nanos(quota.age.as_nanos());
        let size = file.size().saturating_sub(self.copied);
        let is_over = size >= quota.file || self.opened.elapsed() >= age;
        is_over && (at_checkpoint || size >= quota.file.saturating_mul(2))
    }

    fn open(&mut self) -> io::Result<()> {
        let removed = self.plan.place.tidy(self.plan.quota.total.saturating_sub(self.plan.quota.file))?;
        RecordingCounts::add(&self.counts.removed, removed);
        let path = self.plan.place.next(self.plan.facts.name(), self.part)?;
        let medium = (self.plan.open)(&path)?;
        self.part += 1;
        self.file = Some(McapFile::begin(medium, &self.plan.facts, self.part - 1)?);
        (self.opened, self.retry_at) = (Instant::now(), None);
        (self.is_new, self.copied) = (true, 0);
        RecordingCounts::add(&self.counts.files, 1);
        self.counts.writing.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) {
        self.synced = Instant::now();
        self.counts.processor_us.store(thread_time().as_nanos() / 1_000, Ordering::Relaxed);
        let Some(file) = &mut self.file else { return };
        let synced = file.flush();
        let size = self.before + file.size();
        if synced.is_ok() {
            RecordingCounts::add(&self.counts.slots, std::mem::take(&mut self.unsynced));
            self.counts.bytes.store(size, Ordering::Relaxed);
        }
        self.note(synced);
    }

    fn close(&mut self) {
        self.sync();
        let Some(file) = self.file.take() else { return };
        self.counts.writing.store(false, Ordering::Relaxed);
        let size = file.size();
        let mut words = self.words.clone();
        let left_out = self.counts.checkpoints_left_out.load(Ordering::Relaxed);
        words.insert(CHECKPOINTS_LEFT_OUT.into(), left_out.to_string());
        let finished = file.finish(words);
        self.before += size;
        self.note(finished);
    }

    /// Abandons the file after a failure.
    fn note(&mut self, done: io::Result<()>) {
        let Err(error) = done else { return };
        if self.counts.failed(error.to_string()) {
            log::warn!("recording: {error}; slots that cannot be written are skipped and counted");
        }
        self.before += self.file.take().map_or(0, |file| file.size());
        self.counts.writing.store(false, Ordering::Relaxed);
        RecordingCounts::add(&self.counts.unwritten, std::mem::take(&mut self.unsynced));
        self.retry_at = Some(Instant::now() + RETRY_AFTER);
    }
}

/// After a panic, the slots that were not synced are lost and counted. After a normal end there are none.
impl Drop for Writer {
    fn drop(&mut self) {
        RecordingCounts::add(&self.counts.unwritten, self.unsynced);
    }
}
