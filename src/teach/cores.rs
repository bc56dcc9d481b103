//! Independent pieces of work shared among threads. The results come in order, whatever thread did what.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// `work(0)` to `work(count - 1)`, on `threads` threads.
pub fn over_cores<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= count {
                        break;
                    }
                    let result = work(nth);
                    // A panic elsewhere ends the scope with it; what is here is whole.
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((nth, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(nth, _)| *nth);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_with_any_number_of_threads() {
        for threads in [0, 1, 2, 7] {
            assert_eq!(over_cores(threads, 20, |nth| nth * nth), (0..20).map(|n| n * n).collect::<Vec<_>>());
            assert!(over_cores(threads, 0, |nth| nth).is_empty());
        }
    }
}
