//! How often the joins of one key are looked at, and which were seen before. A handshake costs the brain 80
//! us, a forged one 5: without a limit, whoever has seen a key's number could keep a core busy.

use crate::base::time::{Instant, Span};
use crate::runtime::tether::Dropped;
use crate::runtime::tether::datagram::{EPHEMERAL_BYTES, ephemeral_of};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Joins of a key in a row.
const BURST: u64 = 10;
/// One more join each so often. A robot that is refused or not answered tries once a second.
const REFILL: Span = Span::from_millis(200);
/// Ephemeral keys that are remembered: those of a minute at the highest rate. One that is replayed later
/// makes a session that nobody can use.
const REMEMBERED: usize = 300;

/// The limits of one key.
#[derive(Default)]
pub struct Limits {
    /// For the address that the robot's last authentic datagram came from.
    home: Bucket,
    /// For all others together.
    elsewhere: Bucket,
    address: Option<IpAddr>,
    seen: VecDeque<[u8; EPHEMERAL_BYTES]>,
}

#[derive(Default)]
struct Bucket {
    /// When it is full again.
    full_at: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + REFILL;
        let fits = full_at.since(now) <= REFILL.times(BURST);
        if fits {
            self.full_at = full_at;
        }
        fits
    }
}

impl Limits {
    /// Whether a join from `address` may be looked at. Where the robot is known to be has an allowance of its
    /// own, so that a flood from elsewhere does not keep it from joining again.
    pub fn admit(&mut self, address: IpAddr, now: Instant) -> Result<(), Dropped> {
        let is_home = self.address == Some(address);
        let bucket = if is_home { &mut self.home } else { &mut self.elsewhere };
        if bucket.take(now) { Ok(()) } else { Err(Dropped::Limited) }
    }

    /// The robot is at `address`: an authentic datagram came from there.
    pub fn is_at_home(&mut self, address: IpAddr) {
        self.address = Some(address);
    }

    /// Whether an authentic join is none that was seen before; remembers it.
    pub fn is_new(&mut self, datagram: &[u8]) -> Result<(), Dropped> {
        let ephemeral = ephemeral_of(datagram).ok_or(Dropped::Short)?;
        if self.seen.contains(&ephemeral) {
            return Err(Dropped::Replayed);
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(ephemeral);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn ten_joins_pass_at_once_and_five_a_second_after_that() {
        let mut limits = Limits::default();
        let here = IpAddr::from([10, 0, 0, 1]);
        let passed = (0..100).filter(|_| limits.admit(here, at(1_000)).is_ok()).count();
        assert_eq!(passed, 10);
        let passed = (0..2_000).filter(|ms| limits.admit(here, at(1_000 + ms)).is_ok()).count();
        assert_eq!(passed, 9, "five a second, for two seconds less a fifth");
    }

    #[test]
    fn a_flood_from_elsewhere_leaves_the_robot_its_own_joins() {
        let mut limits = Limits::default();
        let [home, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        limits.is_at_home(home);
        (0..1_000).for_each(|_| _ = limits.admit(other, at(1_000)));
        assert_eq!(limits.admit(other, at(1_000)), Err(Dropped::Limited));
        assert_eq!(limits.admit(home, at(1_000)), Ok(()));
    }

    #[test]
    fn a_join_that_was_seen_is_a_replay() {
        let mut limits = Limits::default();
        let datagram = |value: u16| {
            let mut bytes = vec![0; 64];
            bytes[16..18].copy_from_slice(&value.to_le_bytes());
            bytes
        };
        assert_eq!(limits.is_new(&datagram(1)), Ok(()));
        assert_eq!(limits.is_new(&datagram(2)), Ok(()));
        assert_eq!(limits.is_new(&datagram(1)), Err(Dropped::Replayed));
        (10..10 + REMEMBERED as u16).for_each(|value| limits.is_new(&datagram(value)).unwrap());
        assert_eq!(limits.seen.len(), REMEMBERED, "and no more");
    }
}
