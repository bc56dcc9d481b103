//! The queue from the non-real-time thread to the writing thread: joins each record with the readings of its
//! slot. In real time senders never wait; in virtual time they wait for room, so that nothing is lost.

use super::counts::{RecordingCounts, RecordingStatus};
use super::writer::{Item, Plan, Writer};
use crate::base::frame::Reading;
use crate::base::time::Instant;
use crate::drive::trace::{
    CheckpointTap, Checkpoints, ReadingTap, Record, Taken, checkpoint_tap, reading_tap,
};
use crate::field::slices::{FieldSlices, SlicesMessage};
use crate::system::rt::UsageMeter;
use crate::system::rt::triple_buffer::{Reader as Latest, Writer as Slot, triple_buffer};
use crossbeam_channel::{Receiver, Sender};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Moment};

/// Maximum number of items in the queue: forty seconds of slots at 100 Hz, because an SD card may pause that
/// long for its own housekeeping.
const ITEMS: usize = 4096;
/// The same where senders wait for room: enough to keep both threads busy. A longer queue would only make the
/// memory of a run depend on how much of the processor the writing thread gets.
const PATIENT_ITEMS: usize = 64;

/// The sending end of the queue.
#[derive(Clone)]
struct Queue {
    items: Sender<Item>,
    /// Waits for room instead of losing an item.
    is_patient: bool,
}

impl Queue {
    /// Puts `item` into the queue; returns whether it got in.
    fn put(&self, item: Item) -> bool {
        match self.is_patient {
            true => self.items.send(item).is_ok(),
            false => self.items.try_send(item).is_ok(),
        }
    }
}

/// The non-real-time thread's end.
pub struct RecordSender {
    taken: rtrb::Consumer<Taken>,
    /// A reading that was already taken from the ring but belongs to a later slot.
    next: Option<Taken>,
    checkpoints: Checkpoints,
    taps: Option<(ReadingTap, CheckpointTap)>,
    slices: Latest<FieldSlices>,
    slice_tap: Option<Slot<FieldSlices>>,
    field_copy_tap: Option<FieldCopyTap>,
    queue: Queue,
    counts: Arc<RecordingCounts>,
}

/// Where copies of the field are sent, whenever the recording asks for one.
pub struct FieldCopyTap {
    asked: Arc<AtomicBool>,
    queue: Queue,
}

impl FieldCopyTap {
    /// The flag that is set while the recording asks for a copy. The sender of a copy clears it.
    pub fn asked(&self) -> Arc<AtomicBool> {
        self.asked.clone()
    }

    /// Sends a copy. If it does not fit into the queue, the recording asks for another one.
    pub fn send(&self, copy: Vec<u8>) {
        if !self.queue.put(Item::FieldCopy(copy)) {
            self.asked.store(true, Ordering::Release);
        }
    }
}

/// A running recording.
pub struct Recording {
    queue: Queue,
    counts: Arc<RecordingCounts>,
    usage: Arc<UsageMeter>,
    thread: Option<JoinHandle<()>>,
}

/// Reports that the thread is gone, even after a panic.
struct Gone(Arc<RecordingCounts>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
        self.0.writing.store(false, Ordering::Relaxed);
    }
}

impl Recording {
    /// Starts the thread. If the recording goes to a named file, that file is opened here, so that an
    /// unusable path is reported before anything moves. `is_patient`: senders wait for room in the queue
    /// instead of losing an item.
    pub fn start(plan: Plan, is_patient: bool) -> io::Result<(Recording, RecordSender)> {
        let counts: Arc<RecordingCounts> = Arc::default();
        let asked: Arc<AtomicBool> = Arc::default();
        let usage: Arc<UsageMeter> = Arc::default();
        let mut writer = Writer::new(plan, counts.clone(), asked.clone(), usage.clone());
        writer.begin()?;
        let (items, taken_items): (Sender<Item>, Receiver<Item>) =
            crossbeam_channel::bounded(if is_patient { PATIENT_ITEMS } else { ITEMS });
        let queue = Queue { items, is_patient };
        let gone = Gone(counts.clone());
        let life = move || {
            let _gone = gone;
            writer.live(&taken_items);
        };
        let thread = std::thread::Builder::new().name("record".into()).spawn(life)?;
        let (readings, taken) = reading_tap();
        let (tap, checkpoints) = checkpoint_tap();
        let (slice_tap, slices) = triple_buffer(FieldSlices::EMPTY);
        let feed = RecordSender {
            taken,
            next: None,
            checkpoints,
            taps: Some((readings, tap)),
            slices,
            slice_tap: Some(slice_tap),
            field_copy_tap: Some(FieldCopyTap { asked, queue: queue.clone() }),
            queue: queue.clone(),
            counts: counts.clone(),
        };
        Ok((Recording { queue, counts, usage, thread: Some(thread) }, feed))
    }

    /// What the recording has written and lost.
    pub fn counts(&self) -> Arc<RecordingCounts> {
        self.counts.clone()
    }

    /// Measures what the process occupies.
    pub fn usage(&self) -> Arc<UsageMeter> {
        self.usage.clone()
    }

    /// Adds the robot's status as it was at `now`. In real time, a status that does not fit into the queue is
    /// left out.
    pub fn status(&self, now: Instant, json: String) {
        self.queue.put(Item::Status(now.as_nanos(), json)); // the next one follows in a second
    }

    /// Adds an entry to the metadata at the end of the file.
    pub fn word(&self, key: &str, word: String) {
        self.queue.put(Item::Word(key.into(), word));
    }

    /// Ends the recording after the run, when its [`RecordSender`] is gone: the thread completes the file and
    /// ends. Waits for that at most `timeout`. A [`FieldCopyTap`] may still exist, for example in a thread
    /// that hangs.
    pub fn end(mut self, timeout: Duration) -> RecordingStatus {
        let until = Moment::now() + timeout;
        let _ = self.queue.items.send_deadline(Item::End, until); // fails if the thread is gone or the disk hangs
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && Moment::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            if thread.is_finished() {
                let _ = thread.join(); // its panic has been printed, and is in the counts
            }
        }
        self.counts.look()
    }
}

impl RecordSender {
    /// The sending ends for readings and checkpoints, which can be taken once.
    pub fn taps(&mut self) -> (ReadingTap, CheckpointTap) {
        self.taps.take().unwrap_or_default()
    }

    /// The sending end for slices through the field, which can be taken once.
    pub fn slice_tap(&mut self) -> Option<Slot<FieldSlices>> {
        self.slice_tap.take()
    }

    /// The sending end for copies of the field, which can be taken once.
    pub fn field_copy_tap(&mut self) -> Option<FieldCopyTap> {
        self.field_copy_tap.take()
    }

    /// Passes a slot on, with its readings.
    pub fn take(&mut self, record: &Record) {
        let readings = self.readings_of(record.index);
        let untold = record.inputs.readings.saturating_sub(readings.len() as u32);
        let checkpoint = self.checkpoints.before(record.index);
        self.counts.checkpoints_left_out.store(self.checkpoints.left_out(), Ordering::Relaxed);
        let item = Item::Slot { record: Box::new(record.clone()), readings, untold, checkpoint };
        let sent = self.queue.put(item);
        RecordingCounts::add(if sent { &self.counts.queued } else { &self.counts.overrun }, 1);
        self.pass_slices();
    }

    /// Passes on the newest slices through the field. In real time, those that do not fit into the queue are
    /// left out: the next ones follow in half a second.
    fn pass_slices(&mut self) {
        if let Some(slices) = self.slices.take() {
            self.queue.put(Item::Slices(slices.at, Box::new(SlicesMessage::of(&slices))));
        }
    }

    /// The readings that slot number `index` took. Readings of slots whose records were lost are dropped.
    fn readings_of(&mut self, index: u64) -> Vec<Reading> {
        let mut readings = Vec::new();
        while let Some(taken) = self.next.take().or_else(|| self.taken.pop().ok()) {
            if taken.index > index {
                self.next = Some(taken);
                break;
            }
            if taken.index == index {
                readings.push(taken.reading);
            }
        }
        readings
    }
}
