//! Why a robot is disarmed, and how long an armed one has been kept from moving.

use crate::base::time::{Instant, Span};
use crate::decision::reflex::Verdict;

/// A permission to move that is shorter than this is a glitch, even if the board requires less time before
/// arming: a wheel that is released for less does not turn.
const LASTING: Span = Span::from_millis(100);

/// Why the robot is disarmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Disarm {
    /// A person or a program requested it.
    Asked,
    /// The robot was armed and could not move for longer than the board allows.
    Stillness {
        /// For how long.
        lasted: Span,
        /// Causes that were active when it was last kept from moving, one bit each (see
        /// [`crate::base::plan::Cause::bit`]).
        causes: u16,
    },
    /// The machine slept.
    Slept {
        /// For how long.
        lasted: Span,
    },
}

/// The most milliseconds that 46 bits hold: two thousand years.
const MOST_MS: u64 = (1 << 46) - 1;

impl Disarm {
    /// As a number for storage, never 0; spans in whole milliseconds.
    pub fn bits(self) -> u64 {
        let ms = |span: Span| (span.as_nanos() / 1_000_000).min(MOST_MS) << 18;
        match self {
            Disarm::Asked => 1,
            Disarm::Stillness { lasted, causes } => 2 | u64::from(causes) << 2 | ms(lasted),
            Disarm::Slept { lasted } => 3 | ms(lasted),
        }
    }

    /// The reason that these bits encode; `None` for 0.
    pub fn from_bits(bits: u64) -> Option<Disarm> {
        let lasted = Span::from_millis(bits >> 18);
        match bits & 3 {
            1 => Some(Disarm::Asked),
            2 => Some(Disarm::Stillness { lasted, causes: (bits >> 2) as u16 }),
            3 => Some(Disarm::Slept { lasted }),
            _ => None,
        }
    }
}

/// How long an armed robot has been kept from moving: the time since it was last free to move. It counts as
/// free only after motion has been allowed for `settle`, and at least for [`LASTING`], so an occasional slot
/// of permission does not keep a robot armed. No permission spans a gap in the slots, because commands expire
/// in a gap.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Stillness {
    free_at: Instant,
    /// Whether the robot is free to move now.
    free: bool,
    /// Since when motion has been allowed without a break; `None`: it is not allowed.
    allowed_since: Option<Instant>,
    noted_at: Instant,
    causes: u16,
}

impl Stillness {
    /// The stillness of a robot that is armed at `now`, and therefore free to move.
    pub fn none(now: Instant) -> Stillness {
        Stillness { free_at: now, free: true, allowed_since: Some(now), noted_at: now, causes: 0 }
    }

    /// Records what a slot allows; `gap`: slots further apart than this leave the motors without a command.
    /// Returns how long the robot has been kept from moving, if this slot or the gap before it prevents
    /// motion.
    pub fn note(&mut self, verdict: &Verdict, settle: Span, gap: Span, now: Instant) -> Option<Span> {
        let allowed = verdict.limits.allow_motion();
        let held = !allowed || now.since(self.noted_at) > gap;
        if held {
            (self.free, self.allowed_since, self.causes) = (false, None, verdict.active);
        }
        if allowed {
            let since = *self.allowed_since.get_or_insert(now);
            self.free |= now.since(since) >= settle.max(LASTING);
        }
        if self.free {
            self.free_at = now;
        }
        self.noted_at = now;
        held.then(|| self.lasted())
    }

    /// How long the robot has been kept from moving.
    pub fn lasted(&self) -> Span {
        self.noted_at.since(self.free_at)
    }

    /// The causes that last prevented motion.
    pub fn causes(&self) -> u16 {
        self.causes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Limits;
    use crate::decision::fixture::{FREE, at, ms};

    fn verdict(limits: Limits, active: u16) -> Verdict {
        Verdict { limits, active, ..FREE }
    }

    #[test]
    fn disarm_reasons_survive_the_round_trip_through_bits() {
        let lasted = ms(123_456);
        let reasons =
            [Disarm::Asked, Disarm::Stillness { lasted, causes: 0x8421 }, Disarm::Slept { lasted: ms(1) }];
        for reason in reasons {
            assert_eq!(Disarm::from_bits(reason.bits()), Some(reason));
        }
        assert_eq!(Disarm::from_bits(0), None);
        let long = Disarm::Slept { lasted: Span::from_nanos(u64::MAX) };
        assert!(matches!(Disarm::from_bits(long.bits()), Some(Disarm::Slept { .. })));
    }

    #[test]
    fn only_lasting_permission_to_move_ends_the_stop_timer() {
        // (from, to, allowed, how long it has been stopped at the end)
        let script = [
            (10, 100, true, 0),
            (110, 200, false, 100),
            (210, 290, true, 190), // not long enough
            (300, 400, false, 300),
            (410, 610, true, 0), // long enough
            (620, 620, false, 10),
            (630, 630, true, 20),
            (5_000, 5_000, true, 4_390), // a gap, in which the robot was stopped
        ];
        let mut stillness = Stillness::none(at(0));
        for (from, to, allowed, held) in script {
            let limits = if allowed { Limits::FREE } else { Limits::STILL };
            for now in (from..=to).step_by(10) {
                let found = stillness.note(&verdict(limits, 4), ms(200), ms(30), at(now));
                let holds = !allowed || now == 5_000;
                assert_eq!(found, holds.then(|| stillness.lasted()), "at {now} ms");
            }
            assert_eq!(stillness.lasted(), ms(held), "{from} to {to} ms");
        }
        assert_eq!(stillness.causes(), 4);
    }

    #[test]
    fn slots_one_command_validity_apart_leave_no_gap() {
        let mut stillness = Stillness::none(at(0));
        assert_eq!(stillness.note(&verdict(Limits::FREE, 0), ms(200), ms(30), at(30)), None);
        assert_eq!(stillness.note(&verdict(Limits::FREE, 0), ms(200), ms(30), at(61)), Some(ms(31)));
    }

    #[test]
    fn permission_to_back_up_only_is_not_a_stop() {
        let back = Limits { forward: 0.0, ..Limits::FREE };
        let mut stillness = Stillness::none(at(0));
        for now in (10..10_000).step_by(10) {
            stillness.note(&verdict(back, 0), ms(0), ms(30), at(now));
        }
        assert_eq!(stillness.lasted(), Span::ZERO);
        for now in (10_000..20_000).step_by(10) {
            let limits = if now % 100 == 0 { Limits::FREE } else { Limits::STILL };
            stillness.note(&verdict(limits, 0), ms(0), ms(30), at(now));
        }
        assert_eq!(stillness.lasted(), ms(9_990), "from the short permission at 10 s to 19.99 s");
    }
}
