//! Robot states and their named transitions: whether the robot may move, since when, and what prevents it.
//! Pure: does not move a motor itself.
//!
//! Stop and disarm are never refused or delayed: every state checks them first. A refused request to arm is
//! dropped and its reasons reported: granting it later would move the robot by surprise.
//!
//! After arming, nothing old is obeyed: motion begins with the first field result whose frame was taken after
//! arming ([`Mode::obeys_since`]). A restraint that comes and goes does not disarm the robot; the field
//! results that it then obeys are at most `field_fresh + field_fade` old, which the reflexes ensure. A
//! restraint that allows no motion for `disarm_after` does disarm the robot: after that time no bystander
//! expects it to start.

mod disarm;

pub use disarm::Disarm;

use crate::base::plan::{Cause, SafetyPlan};
use crate::base::time::{Instant, Span};
use crate::decision::reflex::{Signals, Verdict};
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};
use disarm::Stillness;

/// The state of the robot.
///
/// ```text
///          1              2              3           4
///   Boot -----> SelfTest -----> Disarmed -----> Armed -----> Degraded
///                                                  <-----------
///                                                      5
///   Armed, Degraded: 9 lapse --> Disarmed  (stopped for `disarm_after`; does not arm by itself)
///   from any state:  6 disarm --> Disarmed  (asked, or the machine slept; Boot, SelfTest: SelfTest; does not arm by itself)
///                    7 latch  --> Latched   (left by 6 and 8 only)
///                    8 stop   --> Stopped   (never left)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Mode {
    /// Nothing has run yet.
    Boot,
    /// Sensors, wire and field have not all been seen to work yet.
    SelfTest {
        /// What is still missing.
        missing: ArmRefusal,
    },
    /// Everything has worked; the motors stay stopped until the robot is armed.
    Disarmed,
    /// Running.
    Armed {
        /// When it was armed.
        since: Instant,
    },
    /// Running under restraint.
    Degraded {
        /// When it was armed.
        since: Instant,
        /// Active causes, see [`Cause::bit`].
        why: u16,
    },
    /// Stopped by a latched reflex or stop. The robot must be disarmed before it can be armed again.
    Latched {
        /// The worst latched cause.
        cause: Cause,
    },
    /// The process is ending: stopped for good.
    Stopped,
}

impl Mode {
    /// A field result is obeyed only if its frame was taken at this time or later. `None`: nothing is obeyed.
    pub const fn obeys_since(self) -> Option<Instant> {
        match self {
            Mode::Armed { since } | Mode::Degraded { since, .. } => Some(since),
            _ => None,
        }
    }

    /// The mode's number in traces and digests; the numbering never changes.
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

    /// The name of the mode with this code, for reports.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ArmRefusal(u8);

impl ArmRefusal {
    /// Nothing prevents arming.
    pub const NONE: ArmRefusal = ArmRefusal(0);
    /// A required sensor has not been good for `settle`.
    pub const SENSES: ArmRefusal = ArmRefusal(1);
    /// An active reflex forbids all motion.
    pub const REFLEX: ArmRefusal = ArmRefusal(2);
    /// The field is not delivering fresh results.
    pub const FIELD: ArmRefusal = ArmRefusal(4);
    /// Commands are not being confirmed on the wire.
    pub const WIRE: ArmRefusal = ArmRefusal(8);
    /// The board is strict and the system refused something that a real-time thread needs.
    pub const REAL_TIME: ArmRefusal = ArmRefusal(16);

    /// The guard that the board requires does not report that all is well.
    pub const GUARD: ArmRefusal = ArmRefusal(32);

    const NAMES: [(ArmRefusal, &'static str); 6] = [
        (ArmRefusal::SENSES, "a required sensor is not good yet"),
        (ArmRefusal::REFLEX, "a reflex forbids all motion"),
        (ArmRefusal::FIELD, "the field is not delivering results"),
        (ArmRefusal::WIRE, "motor commands are not confirmed"),
        (ArmRefusal::REAL_TIME, "real-time execution was refused"),
        (ArmRefusal::GUARD, "the guard does not answer or holds its line off"),
    ];

    /// Whether there are no reasons.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether `reason` is among the reasons.
    pub const fn has(self, reason: ArmRefusal) -> bool {
        self.0 & reason.0 != 0
    }

    /// The set as bits, for storing as a number.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these bits; unknown bits are dropped.
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

    /// The reasons as text.
    pub fn reasons(self) -> impl Iterator<Item = &'static str> {
        ArmRefusal::NAMES.into_iter().filter(move |(reason, _)| self.has(*reason)).map(|(_, words)| words)
    }

    fn add_if(&mut self, holds: bool, reason: ArmRefusal) {
        if holds {
            self.0 |= reason.0;
        }
    }
}

/// The requests of one slot. The strongest counts: stop, then disarm, then arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Asked {
    /// The process will end.
    pub stop: bool,
    /// Stop until armed again. Also acknowledges a latched reflex, see [`Signals::disarmed`].
    pub disarm: bool,
    /// Obey the field.
    pub arm: bool,
}

/// The state of the robot.
#[derive(Clone, Debug)]
pub struct Modes {
    mode: Mode,
    safety: SafetyPlan,
    /// May arm by itself: the board allows it and the robot has not been disarmed.
    auto: bool,
    /// It was armed, or free to arm by itself, before it was stopped.
    willing: bool,
    real_time_refused: bool,
    senses_good_since: Option<Instant>,
    refusal: ArmRefusal,
    refused: u64,
    armings: u64,
    stillness: Stillness,
    disarmed: Option<Disarm>,
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
            stillness: Stillness::none(Instant::ZERO),
            disarmed: None,
        }
    }

    /// The board is strict and the system refused something that a real-time thread needs, so from now on
    /// arming is refused.
    pub fn refuse_real_time(&mut self) {
        self.real_time_refused = true;
    }

    /// Advances by one slot: derives the state for the slot's command from facts and requests. At most one
    /// transition per slot.
    pub fn advance(&mut self, verdict: &Verdict, signals: &Signals, asked: Asked, now: Instant) -> Mode {
        self.refusal = self.interlocks(verdict, signals, now);
        self.mode = if asked.stop {
            self.stop()
        } else if let Some(cause) = Cause::worst_of(verdict.latched) {
            self.latch(cause)
        } else if asked.disarm {
            self.disarm(Disarm::Asked)
        } else if let Some(lasted) = signals.slept {
            self.disarm(Disarm::Slept { lasted })
        } else {
            self.proceed(verdict, asked.arm, now)
        };
        self.refused += u64::from(asked.arm && self.mode.obeys_since().is_none());
        self.willing = self.wills(verdict.latched != 0 || asked.disarm);
        self.mode
    }

    /// Whether the robot was armed, or free to arm by itself, before it was stopped: nothing had latched, and
    /// it had not been disarmed without being armed again.
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

    /// What prevented arming in the last slot.
    pub fn refusal(&self) -> ArmRefusal {
        self.refusal
    }

    /// Requests to arm that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// How often the robot was armed.
    pub fn armings(&self) -> u64 {
        self.armings
    }

    /// Why the robot is disarmed, or was disarmed before it was latched or stopped. `None`: nothing has
    /// disarmed it, or it was armed since.
    pub fn disarmed(&self) -> Option<Disarm> {
        self.disarmed
    }

    /// The normal transitions, in a slot without a stop, a latch or a disarm.
    fn proceed(&mut self, verdict: &Verdict, arm: bool, now: Instant) -> Mode {
        let well = self.refusal.is_none();
        match self.mode {
            Mode::Boot => self.begin_self_test(),
            Mode::SelfTest { .. } if well => self.pass(),
            Mode::SelfTest { .. } => self.begin_self_test(),
            Mode::Disarmed if well && (self.auto || arm) => self.arm(now),
            Mode::Armed { since } | Mode::Degraded { since, .. } => self.go_on(since, verdict, now),
            Mode::Disarmed | Mode::Latched { .. } | Mode::Stopped => self.mode,
        }
    }

    /// The next state of an armed robot in a slot without a stop, a latch or a disarm.
    fn go_on(&mut self, since: Instant, verdict: &Verdict, now: Instant) -> Mode {
        let held = self.stillness.note(verdict, self.safety.settle, self.safety.command_valid, now);
        if held.is_some_and(|lasted| lasted >= self.safety.disarm_after) {
            self.lapse()
        } else if verdict.active != 0 {
            self.degrade(since, verdict.active)
        } else {
            self.recover(since)
        }
    }

    /// Checks every interlock of arming.
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

    /// 1: the first slot, and every slot of the self-test while something is still missing.
    fn begin_self_test(&self) -> Mode {
        Mode::SelfTest { missing: self.refusal }
    }

    /// 2: everything has been seen to work.
    fn pass(&self) -> Mode {
        Mode::Disarmed
    }

    /// 3: field results count from now on.
    fn arm(&mut self, now: Instant) -> Mode {
        self.armings += 1;
        (self.stillness, self.disarmed) = (Stillness::none(now), None);
        Mode::Armed { since: now }
    }

    /// 4: at least one reflex restrains the robot; `why` is the set of causes in this slot.
    fn degrade(&self, since: Instant, why: u16) -> Mode {
        Mode::Degraded { since, why }
    }

    /// 5: no reflex is active any more.
    fn recover(&self, since: Instant) -> Mode {
        Mode::Armed { since }
    }

    /// 6: at once, from any state; the robot no longer arms by itself. If it is disarmed already, it keeps
    /// its first reason.
    fn disarm(&mut self, why: Disarm) -> Mode {
        self.auto = false;
        match self.mode {
            Mode::Stopped => {}
            Mode::Disarmed => self.disarmed = self.disarmed.or(Some(why)),
            _ => self.disarmed = Some(why),
        }
        match self.mode {
            Mode::Boot | Mode::SelfTest { .. } => self.begin_self_test(),
            Mode::Stopped => Mode::Stopped,
            Mode::Disarmed | Mode::Armed { .. } | Mode::Degraded { .. } | Mode::Latched { .. } => {
                Mode::Disarmed
            }
        }
    }

    /// 7: at once, from any state.
    fn latch(&self, cause: Cause) -> Mode {
        if self.mode == Mode::Stopped { Mode::Stopped } else { Mode::Latched { cause } }
    }

    /// 8: at once, from any state, for good.
    fn stop(&self) -> Mode {
        Mode::Stopped
    }

    /// 9: the robot was stopped for so long that a start by itself would be a surprise.
    fn lapse(&mut self) -> Mode {
        let (lasted, causes) = (self.stillness.lasted(), self.stillness.causes());
        self.disarm(Disarm::Stillness { lasted, causes })
    }
}

impl Remembers for Modes {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        archive.part("modes");
        let Modes {
            mode,
            safety: _,
            auto,
            willing,
            real_time_refused,
            senses_good_since,
            refusal,
            refused: _,
            armings: _,
            stillness,
            disarmed,
        } = self;
        remember!(archive: mode, auto, willing, real_time_refused, senses_good_since);
        remember!(archive: refusal, stillness, disarmed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
