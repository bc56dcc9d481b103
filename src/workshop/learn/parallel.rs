//! Runs independent pieces of work on several threads and returns the results in the order of the pieces.
//! Which thread takes which piece is random; the results are not.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` on each of `pieces`, on at most `threads` threads including the calling one.
pub fn map<P: Sync, A: Send>(threads: usize, pieces: &[P], work: impl Fn(&P) -> A + Sync) -> Vec<A> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(pieces.len()));
    let take = || {
        while let Some((at, piece)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| pieces.get(at).map(|piece| (at, piece)))
        {
            let answer = work(piece);
            answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, answer));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(pieces.len()) {
            scope.spawn(take);
        }
        take();
    });
    let mut answers = answers.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn results_are_in_the_order_of_the_pieces() {
        let pieces: Vec<u64> = (0..20).collect();
        // The first pieces take longest, so that on several threads they finish last.
        let work = |piece: &u64| {
            std::thread::sleep(Duration::from_millis(20_u64.saturating_sub(*piece)));
            piece * piece
        };
        let expected: Vec<u64> = pieces.iter().map(|piece| piece * piece).collect();
        for threads in [0, 1, 3, 50] {
            assert_eq!(map(threads, &pieces, work), expected);
        }
        assert!(map(2, &[], work).is_empty());
    }

    #[test]
    fn two_threads_work_at_once() {
        // Each piece waits for the other. On one thread they would wait forever, so there is a limit.
        let met = AtomicUsize::new(0);
        let waited = map(2, &[(), ()], |()| {
            met.fetch_add(1, Ordering::SeqCst);
            (0..2000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                met.load(Ordering::SeqCst) == 2
            })
        });
        assert_eq!(waited, [true, true]);
    }
}
