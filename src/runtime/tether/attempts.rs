//! When to try to join a brain: at once, then after 50 ms, 100 ms and so on, doubling up to a second. Each
//! wait has some jitter, so that not all robots try at the same time after their brain has restarted.

use crate::base::time::{Instant, Span};

/// Wait after the first attempt: longer than a handshake takes on a cable.
const FIRST: Span = Span::from_millis(50);
/// Longest wait, without jitter: a restarted brain is found within five quarters of this time.
const LONGEST: Span = Span::from_millis(1_000);

/// The schedule of attempts.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    next: Instant,
    wait: Span,
}

impl Attempts {
    /// No attempts.
    pub const NONE: Attempts = Attempts { next: Instant::NEVER, wait: FIRST };

    /// The first attempt is due now.
    pub fn from(now: Instant) -> Attempts {
        Attempts { next: now, wait: FIRST }
    }

    /// When the next attempt is due; [`Instant::NEVER`]: there is none.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// An attempt was made at `now`; `random` chooses the jitter of the next one.
    pub fn made(&mut self, now: Instant, random: u8) {
        self.next = now + jittered(self.wait, random);
        self.wait = self.wait.times(2).min(LONGEST);
    }

    /// The brain refused: the next attempt comes after the longest wait, with jitter.
    pub fn refused(&mut self, now: Instant, random: u8) {
        self.wait = LONGEST;
        self.next = now + jittered(LONGEST, random);
    }
}

/// Between three and five quarters of `wait`.
fn jittered(wait: Span, random: u8) -> Span {
    Span::from_nanos(wait.as_nanos() / 4 * 3 + wait.as_nanos() / 2 * u64::from(random) / 255)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;

    #[test]
    fn the_first_attempt_is_immediate_and_the_waits_double() {
        let mut attempts = Attempts::from(at(0));
        let mut waits = Vec::new();
        for _ in 0..8 {
            let now = attempts.next();
            attempts.made(now, 0);
            waits.push(attempts.next().since(now).as_nanos() / 1_000);
        }
        assert_eq!(waits, [37_500, 75_000, 150_000, 300_000, 600_000, 750_000, 750_000, 750_000]);
        assert_eq!(Attempts::NONE.next(), Instant::NEVER);
    }

    #[test]
    fn jitter_is_a_quarter_and_a_refusal_waits_longest() {
        let waits = [0, 255].map(|random| {
            let mut attempts = Attempts::from(at(0));
            attempts.made(at(0), random);
            attempts.next()
        });
        assert_eq!(waits, [Instant::from_nanos(37_500_000), Instant::from_nanos(62_500_000)]);
        let mut attempts = Attempts::from(at(0));
        attempts.refused(at(0), 0);
        assert_eq!(attempts.next(), at(750));
    }
}
