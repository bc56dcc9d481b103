//! The reasons for dropping a datagram, and a counter for each. A dropped datagram has no other effect.

use serde::{Deserialize, Serialize};

/// Why a datagram is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It is shorter than its kind allows.
    Short,
    /// It is longer than its kind allows.
    Long,
    /// It does not begin with our magic bytes.
    NotOurs,
    /// It has another wire version.
    Version,
    /// Its kind does not exist, or is sent only in the other direction.
    Kind,
    /// It names an unknown key.
    UnknownKey,
    /// It belongs to another session, or to none.
    Foreign,
    /// It is not newer than the newest accepted one (duplicated, reordered or replayed), or is a reply to a
    /// join that is no longer pending.
    Stale,
    /// It was not sealed with the session's key, or was changed on the way.
    Forged,
    /// It is a join that was accepted before.
    Replayed,
    /// Too many joins or forged replies came recently.
    Limited,
    /// The system provided no random numbers, which answering the datagram needs.
    NoRandom,
    /// It is authentic, but its content is invalid.
    Content,
}

/// How many datagrams were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drops {
    /// [`Dropped::Short`].
    pub short: u64,
    /// [`Dropped::Long`].
    pub long: u64,
    /// [`Dropped::NotOurs`].
    pub not_ours: u64,
    /// [`Dropped::Version`].
    pub version: u64,
    /// [`Dropped::Kind`].
    pub kind: u64,
    /// [`Dropped::UnknownKey`].
    pub unknown_key: u64,
    /// [`Dropped::Foreign`].
    pub foreign: u64,
    /// [`Dropped::Stale`].
    pub stale: u64,
    /// [`Dropped::Forged`].
    pub forged: u64,
    /// [`Dropped::Replayed`].
    pub replayed: u64,
    /// [`Dropped::Limited`].
    pub limited: u64,
    /// [`Dropped::NoRandom`].
    pub no_random: u64,
    /// [`Dropped::Content`].
    pub content: u64,
}

impl Drops {
    /// Counts a datagram that was dropped for `why`.
    pub fn count(&mut self, why: Dropped) {
        *self.of_mut(why) += 1;
    }

    /// How many were dropped for `why`.
    pub fn of(&self, why: Dropped) -> u64 {
        *self.clone().of_mut(why)
    }

    /// Names and counts, in the order of the fields.
    pub fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("short", self.short),
            ("long", self.long),
            ("not ours", self.not_ours),
            ("other version", self.version),
            ("other kind", self.kind),
            ("unknown key", self.unknown_key),
            ("foreign", self.foreign),
            ("stale", self.stale),
            ("forged", self.forged),
            ("replayed", self.replayed),
            ("too many", self.limited),
            ("without random numbers", self.no_random),
            ("meaningless", self.content),
        ]
    }

    /// The sum over all reasons.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    fn of_mut(&mut self, why: Dropped) -> &mut u64 {
        match why {
            Dropped::Short => &mut self.short,
            Dropped::Long => &mut self.long,
            Dropped::NotOurs => &mut self.not_ours,
            Dropped::Version => &mut self.version,
            Dropped::Kind => &mut self.kind,
            Dropped::UnknownKey => &mut self.unknown_key,
            Dropped::Foreign => &mut self.foreign,
            Dropped::Stale => &mut self.stale,
            Dropped::Forged => &mut self.forged,
            Dropped::Replayed => &mut self.replayed,
            Dropped::Limited => &mut self.limited,
            Dropped::NoRandom => &mut self.no_random,
            Dropped::Content => &mut self.content,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_counter() {
        use Dropped::*;
        let all = [
            Short, Long, NotOurs, Version, Kind, UnknownKey, Foreign, Stale, Forged, Replayed, Limited,
            NoRandom, Content,
        ];
        let mut drops = Drops::default();
        for (at, why) in all.into_iter().enumerate() {
            (0..=at).for_each(|_| drops.count(why));
        }
        for (at, why) in all.into_iter().enumerate() {
            assert_eq!(drops.of(why), at as u64 + 1, "{why:?}");
            assert_eq!(drops.named()[at].1, at as u64 + 1, "{why:?}");
        }
        assert_eq!(drops.total(), 91);
    }
}
