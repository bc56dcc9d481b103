//! What the program's threads do with each structure, as short as possible while every relevant interleaving
//! can still occur.

use crate::waker::Waker;
use crate::cause::Cause;
use crate::halt::{Halt, HaltWatch};
use crate::triple_buffer::triple_buffer;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use crate::time::Instant;

/// The model's name, and the model.
pub type Model = (&'static str, fn());

/// All models.
pub const ALL: [Model; 6] = [
    ("triple buffer: a value is complete and newer than the one before", whole_and_newest),
    ("triple buffer: a cell is written again only after it was read", cells_have_one_owner),
    ("halt: a worker that reads it knows which commands it overrides", heard_with_its_time),
    ("halt: of two raised at once, the later time is seen", two_at_once),
    ("waker: a wake-up is not lost, even just before the worker sleeps", rung_wakes),
    ("waker: the woken worker sees what was written before the wake-up", left_is_seen),
];

/// Waits as `executor::threads` does, without the time limit of a real wait: a lost wake-up shows as a thread
/// that sleeps for ever.
fn wait(waker: &Waker) {
    while !waker.answered() {
        thread::park();
    }
}

fn whole_and_newest() {
    let (mut writer, mut reader) = triple_buffer([0u8; 2]);
    let put = thread::spawn(move || {
        writer.put([1; 2]);
        writer.put([2; 2]);
    });
    let mut last = 0;
    for _ in 0..2 {
        if let Some([one, other]) = reader.take() {
            assert_eq!(one, other, "torn");
            assert!(one > last, "{one} after {last}");
            last = one;
        }
    }
    put.join().unwrap();
    let newest = reader.take().map_or(last, |value| value[0]);
    assert_eq!(newest, 2, "the newest value is lost");
}

/// Four values and two takes: the writer returns to a cell that the reader has read.
fn cells_have_one_owner() {
    let (mut writer, mut reader) = triple_buffer(0u8);
    let put = thread::spawn(move || (1..=4).for_each(|value| _ = writer.put(value)));
    let taken = [reader.take(), reader.take()].into_iter().flatten().max().unwrap_or(0);
    put.join().unwrap();
    assert_eq!(reader.take().unwrap_or(taken), 4);
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn heard_with_its_time() {
    let halt = Arc::new(Halt::new(Arc::new(Waker::default())));
    let mut watch = HaltWatch::new(halt.clone());
    let raiser = halt.clone();
    let raised = thread::spawn(move || raiser.raise(Cause::EStop, at(7)));
    if let Some(to) = watch.take() {
        assert_eq!(to, at(7), "a command could pass");
        assert_eq!(watch.take(), None, "the same halt was received twice");
    }
    raised.join().unwrap();
    watch.take();
    assert!(!watch.is_raised());
}

fn two_at_once() {
    let halt = Arc::new(Halt::new(Arc::new(Waker::default())));
    let mut watch = HaltWatch::new(halt.clone());
    let raise = |cause, time| {
        let halt = halt.clone();
        thread::spawn(move || halt.raise(cause, time))
    };
    let raised = [raise(Cause::EStop, at(7)), raise(Cause::Cliff, at(9))];
    let mut heard = watch.take();
    raised.into_iter().for_each(|thread| thread.join().unwrap());
    heard = heard.max(watch.take());
    assert_eq!(heard, Some(at(9)));
    assert_eq!(watch.take(), None);
}

fn rung_wakes() {
    let waker = Arc::new(Waker::default());
    let ringer = waker.clone();
    let rings = thread::spawn(move || ringer.wake());
    waker.answer_here();
    wait(&waker);
    rings.join().unwrap();
}

/// The word itself is accessed with relaxed ordering: the waker must make it visible.
fn left_is_seen() {
    let waker = Arc::new(Waker::default());
    let word = Arc::new(AtomicU64::new(0));
    let (ringer, left) = (waker.clone(), word.clone());
    let rings = thread::spawn(move || {
        left.store(1, Ordering::Relaxed);
        ringer.wake();
    });
    waker.answer_here();
    wait(&waker);
    assert_eq!(word.load(Ordering::Relaxed), 1);
    rings.join().unwrap();
}
