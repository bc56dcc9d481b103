//! When to ask a brain to join: at once, then after 50 ms, 100 ms and so on up to a second, each with some
//! jitter, so that the robots of a brain that restarts do not all come back together.

use crate::base::time::{Instant, Span};

/// Wait after the first attempt: longer than a handshake takes on a cable.
const FIRST: Span = Span::from_millis(50);
/// Longest wait: a brain that comes back is noticed within this.
const LONGEST: Span = Span::from_millis(1_000);

/// The times of attempts.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    next: Instant,
    wait: Span,
}

impl Attempts {
    /// None.
    pub const NONE: Attempts = Attempts { next: Instant::NEVER, wait: FIRST };

    /// The first one now.
    pub fn from(now: Instant) -> Attempts {
        Attempts { next: now, wait: FIRST }
    }

    /// When the next one is due; [`Instant::NEVER`]: there is none.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// One was made at `now`; `random` decides by how much the next one is early or late.
    pub fn made(&mut self, now: Instant, random: u8) {
        self.next = now + jittered(self.wait, random);
        self.wait = self.wait.times(2).min(LONGEST);
    }

    /// The brain refused: it is asked again, but not soon.
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
    fn the_first_attempt_is_immediate_and_later_ones_rarer() {
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
    fn jitter_stays_within_a_quarter_and_a_refusal_waits_long() {
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
