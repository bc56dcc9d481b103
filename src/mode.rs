//! Robot states and their named transitions: who may move, since when, and what stands in the way.
//! Pure; moves no motor itself.
//!
//! Stop and disarm are never refused, delayed or weighed: they are looked at first, in every state.
//! Arming is refused with reasons, and a refused request is forgotten: a wish to drive that is
//! granted later, by itself, is a surprise.
//!
//! Nothing old is obeyed on the way back in: motion begins with the first field result whose frame
//! was taken after arming ([`Mode::obeys_since`]). A restraint that comes and goes by itself does not
//! disarm; its field results are at most `field_fresh + field_fade` old, which the reflexes see to.

use crate::board::plan::SafetyPlan;
use crate::reflex::{Cause, Signals, Verdict};
use crate::time::{Instant, Span};

/// What the robot is about.
///
/// ```text
///          1              2              3           4
///   Boot -----> SelfTest -----> Disarmed -----> Armed -----> Degraded
///                                                  <-----------
///                                                      5
///   from any state:  6 disarm --> Disarmed  (Boot, SelfTest: SelfTest, and no arming by itself)
///                    7 latch  --> Latched   (left by 6 and 8 only)
///                    8 stop   --> Stopped   (never left)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing has run yet.
    Boot,
    /// Senses, wire and field have not all been seen to work yet.
    SelfTest {
        /// What is still missing.
        missing: ArmRefusal,
    },
    /// Everything has worked; motors stand until somebody arms.
    Disarmed,
    /// Running.
    Armed {
        /// Moment of arming.
        since: Instant,
    },
    /// Running under restraint.
    Degraded {
        /// Moment of arming.
        since: Instant,
        /// Active causes, see [`Cause::bit`].
        why: u16,
    },
    /// A latched reflex or stop: stands until it is disarmed, then armed again.
    Latched {
        /// The worst of what latched.
        cause: Cause,
    },
    /// The process is ending: stands, for good.
    Stopped,
}

impl Mode {
    /// From when on the frames behind field results must be, for these to be obeyed. `None`: nothing is obeyed.
    pub const fn obeys_since(self) -> Option<Instant> {
        match self {
            Mode::Armed { since } | Mode::Degraded { since, .. } => Some(since),
            _ => None,
        }
    }

    /// A number for traces and digests, fixed for ever.
    pub const fn code(self) -> u8 {
        match self {
            Mode::Boot => 0,
            Mode::SelfTest { .. } => 1,
            Mode::Disarmed => 2,
            Mode::Armed { .. } => 3,
            Mode::Degraded { .. } => 4,
            Mode::Latched { .. } => 5,
            Mode::Stopped => 6,
        }
    }

    /// The name in reports of the mode with this code.
    pub const fn name_of(code: u8) -> &'static str {
        match code {
            0 => "boot",
            1 => "self-test",
            2 => "disarmed",
            3 => "armed",
            4 => "degraded",
            5 => "latched",
            _ => "stopped",
        }
    }

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        Mode::name_of(self.code())
    }
}

/// Why arming is refused: a set of reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArmRefusal(u8);

impl ArmRefusal {
    /// Nothing stands in the way.
    pub const NONE: ArmRefusal = ArmRefusal(0);
    /// A required sensor has not been good for `settle`.
    pub const SENSES: ArmRefusal = ArmRefusal(1);
    /// An active reflex allows no motion.
    pub const REFLEX: ArmRefusal = ArmRefusal(2);
    /// The field does not deliver fresh results.
    pub const FIELD: ArmRefusal = ArmRefusal(4);
    /// Commands are not confirmed on the wire.
    pub const WIRE: ArmRefusal = ArmRefusal(8);
    /// The board is strict and the system refused what a real-time thread needs.
    pub const REAL_TIME: ArmRefusal = ArmRefusal(16);

    /// The guard that the board requires is not seen well.
    pub const GUARD: ArmRefusal = ArmRefusal(32);

    const NAMES: [(ArmRefusal, &'static str); 6] = [
        (ArmRefusal::SENSES, "a required sensor is not good yet"),
        (ArmRefusal::REFLEX, "a reflex allows no motion"),
        (ArmRefusal::FIELD, "the field does not deliver"),
        (ArmRefusal::WIRE, "commands are not confirmed"),
        (ArmRefusal::REAL_TIME, "real-time execution was refused"),
        (ArmRefusal::GUARD, "the guard does not answer or holds its line off"),
    ];

    /// Whether nothing stands in the way.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether `reason` is among the reasons.
    pub const fn has(self, reason: ArmRefusal) -> bool {
        self.0 & reason.0 != 0
    }

    /// The set as bits, for a place that keeps numbers.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these bits; those that mean nothing are left out.
    pub fn from_bits(bits: u8) -> ArmRefusal {
        let known = ArmRefusal::NAMES.iter().fold(0, |all, (reason, _)| all | reason.0);
        ArmRefusal(bits & known)
    }

    /// The reasons that are in both sets.
    pub const fn and(self, other: ArmRefusal) -> ArmRefusal {
        ArmRefusal(self.0 & other.0)
    }

    /// The reasons that are in either set.
    pub const fn or(self, other: ArmRefusal) -> ArmRefusal {
        ArmRefusal(self.0 | other.0)
    }

    /// The reasons in words, for people.
    pub fn reasons(self) -> impl Iterator<Item = &'static str> {
        ArmRefusal::NAMES.into_iter().filter(move |(reason, _)| self.has(*reason)).map(|(_, words)| words)
    }

    fn add_if(&mut self, holds: bool, reason: ArmRefusal) {
        if holds {
            self.0 |= reason.0;
        }
    }
}

/// What people ask for in one slot. The strongest counts: stop, then disarm, then arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The process is to end.
    pub stop: bool,
    /// Stand still until armed again. Also what acknowledges a latched reflex:
    /// [`crate::reflex::Reflexes::rearm`] belongs to the same slot.
    pub disarm: bool,
    /// Obey the field.
    pub arm: bool,
}

/// The state of the robot.
#[derive(Clone, Debug)]
pub struct Modes {
    mode: Mode,
    safety: SafetyPlan,
    /// May arm by itself: the board says so and nobody has disarmed it.
    auto: bool,
    /// It drove, or was free to, before it was stopped.
    willing: bool,
    real_time_refused: bool,
    senses_good_since: Option<Instant>,
    refusal: ArmRefusal,
    refused: u64,
    armings: u64,
}

impl Modes {
    /// A robot that has not run yet.
    pub fn new(safety: SafetyPlan) -> Modes {
        Modes {
            mode: Mode::Boot,
            safety,
            auto: safety.auto_arm,
            willing: safety.auto_arm,
            real_time_refused: false,
            senses_good_since: None,
            refusal: ArmRefusal::NONE,
            refused: 0,
            armings: 0,
        }
    }

    /// The board is strict and the system refused what a real-time thread needs: arming is off.
    pub fn refuse_real_time(&mut self) {
        self.real_time_refused = true;
    }

    /// One slot: from facts and requests to the state that this slot's command is decided in. At
    /// most one transition a slot.
    pub fn advance(&mut self, verdict: &Verdict, signals: &Signals, asked: Asked, now: Instant) -> Mode {
        self.refusal = self.interlocks(verdict, signals, now);
        self.mode = if asked.stop {
            self.stop()
        } else if let Some(cause) = Cause::worst_of(verdict.latched) {
            self.latch(cause)
        } else if asked.disarm {
            self.disarm()
        } else {
            self.proceed(verdict.active, asked.arm, now)
        };
        self.refused += u64::from(asked.arm && self.mode.obeys_since().is_none());
        self.willing = self.wills(verdict.latched != 0 || asked.disarm);
        self.mode
    }

    /// Whether it drove, or was free to arm by itself, when it was last not stopped: nothing had latched, and nobody had
    /// disarmed it without arming it again.
    pub fn is_willing(&self) -> bool {
        self.willing
    }

    fn wills(&self, held: bool) -> bool {
        match self.mode {
            _ if held => false,
            Mode::Stopped => self.willing,
            Mode::Armed { .. } | Mode::Degraded { .. } => true,
            Mode::Latched { .. } => false,
            Mode::Boot | Mode::SelfTest { .. } | Mode::Disarmed => self.auto,
        }
    }

    /// The state after the last [`Modes::advance`].
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What stood in the way of arming in the last slot.
    pub fn refusal(&self) -> ArmRefusal {
        self.refusal
    }

    /// Requests to arm that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Times that the robot was armed.
    pub fn armings(&self) -> u64 {
        self.armings
    }

    /// What happens when nobody stops anything.
    fn proceed(&mut self, active: u16, arm: bool, now: Instant) -> Mode {
        let well = self.refusal.is_none();
        match self.mode {
            Mode::Boot => self.begin_self_test(),
            Mode::SelfTest { .. } if well => self.pass(),
            Mode::SelfTest { .. } => self.begin_self_test(),
            Mode::Disarmed if well && (self.auto || arm) => self.arm(now),
            Mode::Armed { since } | Mode::Degraded { since, .. } if active != 0 => {
                self.degrade(since, active)
            }
            Mode::Degraded { since, .. } => self.recover(since),
            Mode::Disarmed | Mode::Armed { .. } | Mode::Latched { .. } | Mode::Stopped => self.mode,
        }
    }

    /// Every interlock of arming.
    fn interlocks(&mut self, verdict: &Verdict, signals: &Signals, now: Instant) -> ArmRefusal {
        self.senses_good_since = match self.senses_good_since {
            _ if !verdict.senses_good => None,
            None => Some(now),
            since => since,
        };
        let settled = self.senses_good_since.is_some_and(|since| now.since(since) >= self.safety.settle);
        let within = |age: Option<Span>, limit| age.is_some_and(|age| age <= limit);
        let mut refusal = ArmRefusal::NONE;
        refusal.add_if(!settled, ArmRefusal::SENSES);
        refusal.add_if(!verdict.limits.allow_motion(), ArmRefusal::REFLEX);
        refusal.add_if(!within(signals.field_age, self.safety.field_fresh), ArmRefusal::FIELD);
        refusal.add_if(!within(signals.wire_age, self.safety.wire_lost), ArmRefusal::WIRE);
        refusal.add_if(self.real_time_refused, ArmRefusal::REAL_TIME);
        refusal.add_if(signals.guard_lost, ArmRefusal::GUARD);
        refusal
    }

    /// 1: the first slot, and every slot of the self-test that still misses something.
    fn begin_self_test(&self) -> Mode {
        Mode::SelfTest { missing: self.refusal }
    }

    /// 2: everything has been seen to work.
    fn pass(&self) -> Mode {
        Mode::Disarmed
    }

    /// 3: field results count from here on.
    fn arm(&mut self, now: Instant) -> Mode {
        self.armings += 1;
        Mode::Armed { since: now }
    }

    /// 4: a reflex restrains the robot, or another one does.
    fn degrade(&self, since: Instant, why: u16) -> Mode {
        Mode::Degraded { since, why }
    }

    /// 5: no reflex is active any more.
    fn recover(&self, since: Instant) -> Mode {
        Mode::Armed { since }
    }

    /// 6: at once, from wherever; it will not arm by itself again.
    fn disarm(&mut self) -> Mode {
        self.auto = false;
        match self.mode {
            Mode::Boot | Mode::SelfTest { .. } => self.begin_self_test(),
            Mode::Stopped => Mode::Stopped,
            Mode::Disarmed | Mode::Armed { .. } | Mode::Degraded { .. } | Mode::Latched { .. } => {
                Mode::Disarmed
            }
        }
    }

    /// 7: at once, from wherever.
    fn latch(&self, cause: Cause) -> Mode {
        if self.mode == Mode::Stopped { Mode::Stopped } else { Mode::Latched { cause } }
    }

    /// 8: at once, from wherever, for good.
    fn stop(&self) -> Mode {
        Mode::Stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{WELL, at, ms, safety};
    use crate::reflex::{Limits, Restraint};

    const NOTHING: Asked = Asked { stop: false, disarm: false, arm: false };
    const ARM: Asked = Asked { arm: true, ..NOTHING };
    const DISARM: Asked = Asked { disarm: true, ..NOTHING };
    const STOP: Asked = Asked { stop: true, ..NOTHING };

    /// A verdict of the causes in `active`, all as tight as `restraint`.
    fn verdict(active: u16, restraint: Restraint) -> Verdict {
        Verdict {
            worst: Cause::worst_of(active),
            restraint,
            limits: restraint.limits(),
            active,
            tripped: 0,
            cleared: 0,
            latched: 0,
            senses_good: true,
        }
    }

    fn well() -> Verdict {
        verdict(0, Restraint::Free)
    }

    /// Something near, not latched.
    fn near() -> Verdict {
        verdict(Cause::Obstacle.bit(), Restraint::NoForward)
    }

    /// A tilt and a stop, both latched.
    fn tipped() -> Verdict {
        let set = Cause::Tilt.bit() | Cause::Obstacle.bit();
        Verdict { latched: Cause::Tilt.bit(), ..verdict(set, Restraint::Still) }
    }

    /// A robot in each state, made by transitions only, at 1 s.
    fn states() -> [Modes; 7] {
        let boot = Modes::new(safety());
        let step = |from: &Modes, verdict: Verdict, asked, from_ms, to_ms| {
            let mut modes = from.clone();
            for now in (from_ms..=to_ms).step_by(10) {
                modes.advance(&verdict, &WELL, asked, at(now));
            }
            modes
        };
        let self_test = step(&boot, well(), NOTHING, 0, 0);
        let disarmed = step(&self_test, well(), NOTHING, 10, 100);
        let armed = step(&disarmed, well(), ARM, 1_000, 1_000);
        let degraded = step(&armed, near(), NOTHING, 1_000, 1_000);
        let latched = step(&armed, tipped(), NOTHING, 1_000, 1_000);
        let stopped = step(&armed, well(), STOP, 1_000, 1_000);
        [boot, self_test, disarmed, armed, degraded, latched, stopped]
    }

    #[test]
    fn every_state_meets_every_event() {
        let since = at(1_000);
        let why = Cause::Obstacle.bit();
        let test = Mode::SelfTest { missing: ArmRefusal::NONE };
        let (idle, armed, latched) =
            (Mode::Disarmed, Mode::Armed { since }, Mode::Latched { cause: Cause::Tilt });
        let (degraded, stopped) = (Mode::Degraded { since, why }, Mode::Stopped);
        // Arming just now, not at 1 s:
        let anew = Mode::Armed { since: at(1_010) };

        let starts = [Mode::Boot, test, idle, armed, degraded, latched, stopped];
        let table: [(&str, Verdict, Asked, [Mode; 7]); 8] = [
            ("nothing", well(), NOTHING, [test, idle, idle, armed, armed, latched, stopped]),
            ("arm", well(), ARM, [test, idle, anew, armed, armed, latched, stopped]),
            ("near", near(), NOTHING, [test, idle, idle, degraded, degraded, latched, stopped]),
            ("tipped", tipped(), NOTHING, [latched, latched, latched, latched, latched, latched, stopped]),
            ("disarm", well(), DISARM, [test, test, idle, idle, idle, idle, stopped]),
            ("stop", well(), STOP, [stopped; 7]),
            (
                "arm and disarm",
                well(),
                Asked { stop: false, ..Asked { disarm: true, ..ARM } },
                [test, test, idle, idle, idle, idle, stopped],
            ),
            ("all at once", tipped(), Asked { stop: true, disarm: true, arm: true }, [stopped; 7]),
        ];
        for (name, verdict, asked, ends) in table {
            for ((mut modes, start), end) in states().into_iter().zip(starts).zip(ends) {
                if start == test {
                    // The self-test's settling is another test's business.
                    modes.senses_good_since = Some(at(0));
                } else {
                    assert_eq!(modes.mode(), start);
                }
                modes.senses_good_since = Some(at(0));
                let mode = modes.advance(&verdict, &WELL, asked, at(1_010));
                assert_eq!(mode, end, "{name} in {}", start.name());
                assert_eq!(modes.mode(), mode);
            }
        }
    }

    #[test]
    fn stop_disarm_and_latch_end_motion_in_their_own_slot_from_every_state() {
        for modes in states() {
            for (verdict, asked) in [(well(), STOP), (well(), DISARM), (tipped(), NOTHING), (tipped(), ARM)] {
                let mode = modes.clone().advance(&verdict, &WELL, asked, at(1_010));
                assert_eq!(mode.obeys_since(), None, "from {}", modes.mode().name());
            }
        }
    }

    #[test]
    fn arming_has_its_reasons() {
        let flat = Signals { field_age: Some(ms(101)), ..WELL };
        let cases = [
            (Verdict { senses_good: false, ..well() }, WELL, ArmRefusal::SENSES),
            (well(), Signals { guard_lost: true, ..WELL }, ArmRefusal::GUARD),
            (verdict(Cause::Cliff.bit(), Restraint::Still), WELL, ArmRefusal::REFLEX),
            (verdict(Cause::Battery.bit(), Restraint::Slow(0.0)), WELL, ArmRefusal::REFLEX),
            (well(), flat, ArmRefusal::FIELD),
            (well(), Signals { field_age: None, ..WELL }, ArmRefusal::FIELD),
            (well(), Signals { wire_age: None, ..WELL }, ArmRefusal::WIRE),
            (well(), Signals { wire_age: Some(ms(51)), ..WELL }, ArmRefusal::WIRE),
            (near(), WELL, ArmRefusal::NONE),
            (verdict(Cause::Battery.bit(), Restraint::Slow(0.1)), WELL, ArmRefusal::NONE),
        ];
        for (verdict, signals, refusal) in cases {
            let mut modes = states()[2].clone();
            let mode = modes.advance(&verdict, &signals, ARM, at(1_010));
            assert_eq!(modes.refusal(), refusal);
            assert_eq!(mode.obeys_since().is_some(), refusal.is_none(), "{refusal:?}");
            assert_eq!(modes.refused(), u64::from(!refusal.is_none()));
            assert_eq!(refusal.reasons().count(), usize::from(!refusal.is_none()));
            // A refused request is forgotten.
            let mut later = at(1_020);
            for _ in 0..20 {
                later += ms(10);
                let mode = modes.advance(&well(), &WELL, NOTHING, later);
                assert_eq!(mode.obeys_since().is_some(), refusal.is_none());
            }
        }
    }

    #[test]
    fn a_strict_board_without_its_grants_never_arms() {
        let mut modes = states()[2].clone();
        modes.refuse_real_time();
        assert_eq!(modes.advance(&well(), &WELL, ARM, at(2_000)), Mode::Disarmed);
        assert!(modes.refusal().has(ArmRefusal::REAL_TIME));
    }

    #[test]
    fn senses_must_be_good_for_a_while_without_a_break() {
        let auto = SafetyPlan { auto_arm: true, ..safety() };
        let mut modes = Modes::new(auto);
        let mut armed_at = None;
        for now in (0..200).step_by(10) {
            let senses_good = now != 30; // one bad reading, 30 ms in
            let mode = modes.advance(&Verdict { senses_good, ..well() }, &WELL, NOTHING, at(now));
            if mode.obeys_since().is_some() {
                armed_at.get_or_insert(now);
            }
        }
        // Good again from 40 ms, settled at 80 (disarmed), armed one slot later.
        assert_eq!(armed_at, Some(90));
        assert_eq!(modes.armings(), 1);
    }

    #[test]
    fn what_was_stopped_by_hand_does_not_start_by_itself() {
        for disarmed_at in [0, 20, 60, 500] {
            let mut modes = Modes::new(SafetyPlan { auto_arm: true, ..safety() });
            for now in (0..2_000).step_by(10) {
                let asked = if now == disarmed_at { DISARM } else { NOTHING };
                let mode = modes.advance(&well(), &WELL, asked, at(now));
                assert!(now < disarmed_at || mode.obeys_since().is_none(), "at {now} ms");
            }
            assert_eq!(modes.mode(), Mode::Disarmed);
            let mode = modes.advance(&well(), &WELL, ARM, at(2_000));
            assert_eq!(mode, Mode::Armed { since: at(2_000) }, "but may be started");
        }
    }

    #[test]
    fn a_latch_wants_disarm_then_arm_and_obeys_only_what_came_after() {
        let mut modes = states()[5].clone();
        let mut go = |asked, now| modes.advance(&well(), &WELL, asked, at(now));
        assert_eq!(go(ARM, 1_010), Mode::Latched { cause: Cause::Tilt });
        assert_eq!(go(DISARM, 1_020), Mode::Disarmed);
        assert_eq!(go(NOTHING, 1_030), Mode::Disarmed);
        assert_eq!(go(ARM, 1_040).obeys_since(), Some(at(1_040)));
        // Under restraint and out of it the moment of arming stays.
        assert_eq!(modes.advance(&near(), &WELL, NOTHING, at(1_050)).obeys_since(), Some(at(1_040)));
        assert_eq!(modes.advance(&well(), &WELL, NOTHING, at(1_060)).obeys_since(), Some(at(1_040)));
    }

    #[test]
    fn codes_are_fixed_and_limits_of_a_still_robot_are_still() {
        let codes: Vec<_> = states().iter().map(|modes| modes.mode().code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(tipped().limits, Limits::STILL);
    }
}
