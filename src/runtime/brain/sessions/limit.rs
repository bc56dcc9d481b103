//! How much work joins may cost a brain, and which were seen before.
//!
//! Anybody who has seen a key's number can send messages that claim to be its robot's. To prove one costs
//! little, and is limited by the address that it came from: what one address sends never counts against
//! another robot's. To answer one costs far more, and is limited by key, after the proof: only who has the
//! key, or replays what the robot has sent, takes part of that allowance.

use crate::base::time::{Instant, Span};
use crate::runtime::tether::Dropped;
use crate::runtime::tether::datagram::{EPHEMERAL_BYTES, ephemeral_of};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Addresses are told apart by so many groups; those of a group share an allowance.
const GROUPS: usize = 256;
/// Proofs of a group in a row, and one more each so often: a hundred robots behind one address may try once a
/// second, and all groups together cost less than a core.
const PROOFS: Rate = Rate { burst: 100, refill: Span::from_millis(10) };
/// Answers for a key in a row, and one more each so often. A robot that is refused or not answered tries once
/// a second.
const ANSWERS: Rate = Rate { burst: 10, refill: Span::from_millis(200) };
/// Ephemeral keys that are remembered: those of a minute at the highest rate. One that is replayed later
/// makes a session that nobody can use.
const REMEMBERED: usize = 300;

struct Rate {
    burst: u64,
    refill: Span,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    /// When it is full again.
    full_at: Instant,
}

impl Bucket {
    fn take(&mut self, rate: &Rate, now: Instant) -> Result<(), Dropped> {
        let full_at = self.full_at.max(now) + rate.refill;
        if full_at.since(now) > rate.refill.times(rate.burst) {
            return Err(Dropped::Limited);
        }
        self.full_at = full_at;
        Ok(())
    }
}

/// How many joins may be proven, by the address that they came from.
pub struct Proofs {
    groups: Box<[Bucket]>,
    /// Nobody outside knows which addresses share a group.
    hasher: RandomState,
}

impl Proofs {
    /// Nothing was proven yet.
    pub fn new() -> Proofs {
        Proofs { groups: vec![Bucket::default(); GROUPS].into(), hasher: RandomState::new() }
    }

    /// Whether a join from `address` may be proven.
    pub fn admit(&mut self, address: IpAddr, now: Instant) -> Result<(), Dropped> {
        let group = self.hasher.hash_one(address) as usize % GROUPS;
        self.groups[group].take(&PROOFS, now)
    }
}

/// The limits of one key's robot, for joins that are proven.
#[derive(Default)]
pub struct Limits {
    /// For the address that the robot's last authentic datagram came from.
    home: Bucket,
    /// For all others together.
    elsewhere: Bucket,
    address: Option<IpAddr>,
    seen: VecDeque<[u8; EPHEMERAL_BYTES]>,
}

impl Limits {
    /// Whether a proven join from `address` may be answered; remembers it. Where the robot is known to be has
    /// an allowance of its own, so that recorded joins replayed from elsewhere do not keep it from joining
    /// again.
    pub fn admit(&mut self, datagram: &[u8], address: IpAddr, now: Instant) -> Result<(), Dropped> {
        let ephemeral = ephemeral_of(datagram).ok_or(Dropped::Short)?;
        if self.seen.contains(&ephemeral) {
            return Err(Dropped::Replayed);
        }
        let is_home = self.address == Some(address);
        let bucket = if is_home { &mut self.home } else { &mut self.elsewhere };
        bucket.take(&ANSWERS, now)?;
        if self.seen.len() >= REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(ephemeral);
        Ok(())
    }

    /// The robot is at `address`: an authentic datagram came from there.
    pub fn is_at_home(&mut self, address: IpAddr) {
        self.address = Some(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    /// A join with the ephemeral key that `value` stands for.
    fn join(value: u64) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[16..24].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    #[test]
    fn ten_joins_pass_at_once_and_five_a_second_after_that() {
        let mut limits = Limits::default();
        let passed = (0..100).filter(|nth| limits.admit(&join(*nth), HERE, at(1_000)).is_ok()).count();
        assert_eq!(passed, 10);
        let later = |ms: &u64| limits.admit(&join(1_000 + ms), HERE, at(1_000 + ms)).is_ok();
        let passed = (0..2_000).filter(later).count();
        assert_eq!(passed, 9, "five a second, for two seconds less a fifth");
    }

    #[test]
    fn a_flood_from_elsewhere_leaves_the_robot_its_own_joins() {
        let (mut limits, other) = (Limits::default(), IpAddr::from([10, 0, 0, 2]));
        limits.is_at_home(HERE);
        (0..1_000).for_each(|nth| _ = limits.admit(&join(nth), other, at(1_000)));
        assert_eq!(limits.admit(&join(2_000), other, at(1_000)), Err(Dropped::Limited));
        assert_eq!(limits.admit(&join(2_001), HERE, at(1_000)), Ok(()));
    }

    #[test]
    fn a_join_that_was_seen_is_a_replay_and_takes_nothing() {
        let mut limits = Limits::default();
        assert_eq!(limits.admit(&join(1), HERE, at(1_000)), Ok(()));
        (0..100).for_each(|_| {
            assert_eq!(limits.admit(&join(1), HERE, at(1_000)), Err(Dropped::Replayed));
        });
        assert_eq!(limits.admit(&join(2), HERE, at(1_000)), Ok(()));
        (10..10 + REMEMBERED as u64).for_each(|value| {
            limits.admit(&join(value), HERE, at(1_000 * value)).unwrap();
        });
        assert_eq!(limits.seen.len(), REMEMBERED, "and no more");
    }

    #[test]
    fn what_one_address_sends_is_not_counted_against_the_others() {
        let mut proofs = Proofs::new();
        let passed = (0..100_000).filter(|_| proofs.admit(HERE, at(1_000)).is_ok()).count();
        assert_eq!(passed, 100);
        let others = (0..200).map(|last| IpAddr::from([10, 0, 1, last]));
        let passed = others.filter(|other| proofs.admit(*other, at(1_000)).is_ok()).count();
        assert!(passed > 150, "one group of many is empty: {passed} of 200");
    }
}
