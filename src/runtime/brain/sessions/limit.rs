//! Limits how much work joins may cost a brain, and remembers which joins it has seen.
//!
//! Anyone who has seen a key's ID can send messages that claim to come from its robot. Checking such a
//! message is cheap; the rate of checks is limited per source address, so that a flood from one address does
//! not block others. Answering costs far more; the rate of answers is limited per key, after the message was
//! checked: only a sender that has the key or replays the robot's messages can use up that limit.

use crate::base::time::{Instant, Span};
use crate::runtime::tether::Dropped;
use crate::runtime::tether::datagram::{EPHEMERAL_BYTES, ephemeral_of};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Addresses are hashed into this many groups; the addresses of a group share a limit.
const GROUPS: usize = 256;
/// How many checks a group may have in a burst, and the time until another is allowed. This is enough for a
/// hundred robots behind one address that each try once a second; even if every group uses up its limit, the
/// checks take less than one core.
const CHECKS: Rate = Rate { burst: 100, refill: Span::from_millis(10) };
/// How many answers a key may get in a burst, and the time until another is allowed. A robot that is refused
/// or gets no answer tries once a second.
const ANSWERS: Rate = Rate { burst: 10, refill: Span::from_millis(200) };
/// Number of ephemeral keys that are remembered for each robot: those of a minute at the rate of [`ANSWERS`],
/// or of half a minute if both limits of [`AnswerLimits`] are used up. A later replay creates a session that
/// its sender cannot use.
const REMEMBERED: usize = 300;

struct Rate {
    burst: u64,
    refill: Span,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    /// When the bucket is full again.
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

/// Limits how many joins are checked, by source address.
pub struct CheckLimits {
    groups: Box<[Bucket]>,
    /// Randomly seeded, so that an attacker cannot know which addresses share a group.
    hasher: RandomState,
}

impl CheckLimits {
    /// The limits before any join was checked.
    pub fn new() -> CheckLimits {
        CheckLimits { groups: vec![Bucket::default(); GROUPS].into(), hasher: RandomState::new() }
    }

    /// Whether a join from `address` may be checked.
    pub fn admit(&mut self, address: IpAddr, now: Instant) -> Result<(), Dropped> {
        let group = self.hasher.hash_one(address) as usize % GROUPS;
        self.groups[group].take(&CHECKS, now)
    }
}

/// The limits of one robot, for joins that were checked.
#[derive(Default)]
pub struct AnswerLimits {
    /// Limit for the source address of the robot's last authentic datagram.
    home: Bucket,
    /// Limit for all other addresses together.
    elsewhere: Bucket,
    address: Option<IpAddr>,
    seen: VecDeque<[u8; EPHEMERAL_BYTES]>,
}

impl AnswerLimits {
    /// Whether a checked join from `address` may be answered. If so, remembers its ephemeral key, so that a
    /// replay is dropped. The robot's known address has its own limit, so that recorded joins that are
    /// replayed from elsewhere do not keep the robot from joining again.
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

    /// Records that an authentic datagram of the robot came from `address`.
    pub fn set_home(&mut self, address: IpAddr) {
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

    /// A join whose ephemeral key is made from `value`.
    fn join(value: u64) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[16..24].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    #[test]
    fn ten_joins_pass_at_once_and_five_a_second_after_that() {
        let mut limits = AnswerLimits::default();
        let passed = (0..100).filter(|nth| limits.admit(&join(*nth), HERE, at(1_000)).is_ok()).count();
        assert_eq!(passed, 10);
        let later = |ms: &u64| limits.admit(&join(1_000 + ms), HERE, at(1_000 + ms)).is_ok();
        let passed = (0..2_000).filter(later).count();
        assert_eq!(passed, 9, "five per second for two seconds, less one");
    }

    #[test]
    fn a_flood_from_elsewhere_leaves_the_robot_its_own_joins() {
        let (mut limits, other) = (AnswerLimits::default(), IpAddr::from([10, 0, 0, 2]));
        limits.set_home(HERE);
        (0..1_000).for_each(|nth| _ = limits.admit(&join(nth), other, at(1_000)));
        assert_eq!(limits.admit(&join(2_000), other, at(1_000)), Err(Dropped::Limited));
        assert_eq!(limits.admit(&join(2_001), HERE, at(1_000)), Ok(()));
    }

    #[test]
    fn a_replayed_join_is_refused_and_uses_up_no_limit() {
        let mut limits = AnswerLimits::default();
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
    fn a_flood_from_one_address_does_not_limit_others() {
        let mut check_limits = CheckLimits::new();
        let passed = (0..100_000).filter(|_| check_limits.admit(HERE, at(1_000)).is_ok()).count();
        assert_eq!(passed, 100);
        let others = (0..200).map(|last| IpAddr::from([10, 0, 1, last]));
        let passed = others.filter(|other| check_limits.admit(*other, at(1_000)).is_ok()).count();
        assert!(passed > 150, "only one group is used up: {passed} of 200");
    }
}
