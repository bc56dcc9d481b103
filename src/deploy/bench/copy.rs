//! A plain copy on several threads: how fast this machine moves bytes when it does nothing else. The threads
//! and their buffers exist before the first copy. Between two blocks of copies the threads sleep, so that
//! other measurements can use their cores.

use crate::base::time::{Clock, MonotonicClock, Span};
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread polls this many times for its next order before it sleeps: about 50 us in total. That is longer
/// than the time between two copies, so that no copy includes a wake-up, and short compared with a block of
/// cycles.
const LOOKS: u32 = 5_000;
/// A sleeping thread checks this often whether it has to end, in case it missed its wake-up.
const NAP: Duration = Duration::from_millis(50);

/// The threads that copy: the calling thread and those that the crew starts.
pub struct CopyCrew {
    own: Buffers,
    orders: Arc<Orders>,
    others: Vec<JoinHandle<()>>,
}

/// The orders that the threads read, and the progress they report.
#[derive(Default)]
struct Orders {
    /// Number of the current copy. A thread starts to copy when this number changes.
    round: AtomicU64,
    /// Number of bytes that each thread copies.
    share: AtomicUsize,
    /// Number of threads, besides the caller's, that have finished this round.
    done: AtomicUsize,
    end: AtomicBool,
}

/// The source and the target of one thread.
struct Buffers {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Buffers {
    /// Fills the buffers with values other than zero, so that each page gets its own memory.
    fn new(bytes: usize) -> Buffers {
        Buffers { from: vec![1; bytes], to: vec![2; bytes] }
    }
    fn copy(&mut self, bytes: usize) {
        let bytes = bytes.min(self.from.len());
        black_box(&mut self.to)[..bytes].copy_from_slice(&black_box(&self.from)[..bytes]);
        black_box(&mut self.to);
    }
}

impl CopyCrew {
    /// A crew of `threads` that can read and write `bytes` in total in one copy. If `cpus` names cores, the
    /// started threads are pinned to them in turn, from the second core on: the first one is the caller's.
    pub fn new(threads: usize, bytes: usize, cpus: &[usize]) -> std::io::Result<CopyCrew> {
        let threads = threads.max(1);
        let share = bytes / 2 / threads;
        let orders = Arc::new(Orders::default());
        let mut crew = CopyCrew { own: Buffers::new(share), orders, others: Vec::new() };
        for number in 1..threads {
            let orders = crew.orders.clone();
            let cpu = cpus.get(number % cpus.len().max(1)).copied();
            let (ready, started) = crossbeam_channel::bounded(1);
            crew.others.push(thread::Builder::new().name(format!("copy-{number}")).spawn(move || {
                let seated = cpu
                    .map_or(Ok(()), crate::system::rt::stay_on)
                    .map_err(|refusal| std::io::Error::from_raw_os_error(refusal.errno));
                let buffers = Buffers::new(share); // allocated by the thread that uses them, so near its core
                let _ = ready.send(seated);
                serve(&orders, buffers);
            })?);
            if let Ok(seated) = started.recv() {
                seated?;
            }
        }
        Ok(crew)
    }

    /// Copies once: reads and writes `bytes` in total, or as many as the buffers allow. Returns the number of
    /// bytes, and the time from the order until the last thread has finished.
    pub fn copy(&mut self, bytes: usize) -> (usize, Span) {
        let threads = self.others.len() + 1;
        let share = (bytes / 2 / threads).min(self.own.from.len());
        self.orders.share.store(share, Ordering::Relaxed);
        self.orders.done.store(0, Ordering::Relaxed);
        let began = MonotonicClock.now();
        self.orders.round.fetch_add(1, Ordering::Release);
        self.others.iter().for_each(|other| other.thread().unpark());
        self.own.copy(share);
        let mut looks = 0;
        while self.orders.done.load(Ordering::Acquire) < self.others.len() {
            looks += 1;
            // With more threads than cores, the thread that we wait for may need this core.
            if looks < LOOKS { spin_loop() } else { thread::yield_now() }
        }
        (2 * share * threads, MonotonicClock.now().since(began))
    }
}

fn serve(orders: &Orders, mut buffers: Buffers) {
    let (mut seen, mut looks) = (0, 0);
    while !orders.end.load(Ordering::Relaxed) {
        let round = orders.round.load(Ordering::Acquire);
        if round != seen {
            (seen, looks) = (round, 0);
            buffers.copy(orders.share.load(Ordering::Relaxed));
            orders.done.fetch_add(1, Ordering::Release);
        } else if looks < LOOKS {
            looks += 1;
            spin_loop();
        } else {
            thread::park_timeout(NAP);
        }
    }
}

impl Drop for CopyCrew {
    fn drop(&mut self) {
        self.orders.end.store(true, Ordering::Relaxed);
        for other in self.others.drain(..) {
            other.thread().unpark();
            let _ = other.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_copy_moves_the_requested_bytes() {
        for threads in [1, 2, 3] {
            let mut crew = CopyCrew::new(threads, 6000, &[]).unwrap();
            assert_eq!(crew.copy(6000).0, 6000, "{threads} threads");
            assert_eq!(crew.copy(600).0, 600);
            assert_eq!(crew.copy(60_000).0, 6000, "the buffers hold no more");
            crew.own.from.fill(7);
            crew.copy(600);
            let copied = crew.own.to.iter().take_while(|byte| **byte == 7).count();
            assert_eq!(copied, 600 / 2 / threads);
            thread::sleep(2 * NAP); // the threads of the crew are asleep by now
            assert_eq!(crew.copy(6000).0, 6000);
            assert_eq!(crew.orders.done.load(Ordering::Relaxed), threads - 1);
        }
    }

    #[test]
    fn a_missing_core_is_reported() {
        // The only thread of a crew of one is the caller's, which the crew does not pin.
        assert!(CopyCrew::new(1, 64, &[1023]).is_ok());
        assert!(CopyCrew::new(2, 64, &[1023]).is_err(), "no machine that runs tests has 1024 cores");
    }
}
