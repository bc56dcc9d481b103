//! The reflexes: from a frame to a restraint. They keep the robot safe whatever the field requests. Pure: no
//! GPU, bus, heap, clock or robot state; the verdict is the same whether the robot is armed or not.
//!
//! A *rule* is an entry of the board's reflex table and checks one channel's worst case. Besides the rules,
//! there are the runtime's own findings: sensors, field, link, wire, loop, guard, stop. All are collected
//! first, then combined into one [`Verdict`], which allows only what all of them allow.
//!
//! | cause           | trips when                                             | allows              | clears when                                    |
//! |-----------------|--------------------------------------------------------|---------------------|------------------------------------------------|
//! | `field-late`    | the newest result is older than `field_fresh`          | a falling share of full speed | a fresh result arrives               |
//! | `field-missing` | ... older by `field_fade` or more, or there is none    | nothing             | a result arrives that is recent enough         |
//! | `battery` `obstacle` `cliff` `tilt` | the worst case of a rule's channel reaches the limit | as the rule states  | a good sample is beyond `clear`, `hold` is over, and the robot has backed off by `retreat` |
//! | `sensor-lost`   | a required sensor's value is older than `max_age`, or there was none | nothing | a good sample arrives            |
//! |                 | the same for the sensor of a rule, even if not required | as the rule states | a good sample arrives                          |
//! | `sensor-lying`  | ... and the sensor's newest reading is impossible      | the same            | a good sample arrives                          |
//! | `guard-lost`    | a guard that the board requires was not healthy for its `timeout` | nothing | the guard is healthy again |
//! | `link-lost`     | the remote brain that computes the field was silent for `silence` | nothing | the brain answers and, if the board latches the cause, the robot is disarmed |
//! | `bus-lost`      | no command confirmed for longer than `wire_lost`, or never | nothing         | a command is confirmed                         |
//! | `loop-late`     | `late_slots` slots skipped with no on-time slot in between | nothing         | `late_slots` on-time slots in a row            |
//! | `e-stop`        | stop is pressed                                        | nothing             | stop is released, then the robot disarmed and armed again |
//!
//! A latched rule clears in the same way as `e-stop`, whatever its cause.
//!
//! A rule sees every admitted reading, not only the last one of a slot. If a reading trips it, the rule is
//! active for at least a slot, and a latched rule stays latched, however short the event was. If a sensor's
//! own thread has stopped the motors for a cause, the rule trips too, even if the reading that caused the
//! stop was lost on its way.
//!
//! A refused reading does not stop the robot by itself: brush noise causes a wrong bit on the wires now and
//! then. Until the last good value is older than `max_age`, it ages towards its worst case, which the rules
//! keep checking. The same `max_age` applies whether readings are impossible or missing.

mod rule;

use crate::base::fault::ReadingFault;
use crate::base::frame::{Frame, Health, MAX_SENSORS, Sample};
use crate::base::plan::{Cause, Limits, Restraint, Rule, SafetyPlan, SensorPlan, TetherPlan};
use crate::base::time::{Instant, Span};
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};
use rule::RuleState;

/// Maximum number of rules on a board: one on each side of every channel.
pub const MAX_RULES: usize = 2 * MAX_SENSORS;

/// What the reflexes must know besides the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Signals {
    /// Causes that stopped the motors since the last slot without waiting for the tick, one bit each.
    pub halts: u16,
    /// Whether readings were lost since the last slot: the one that stopped the motors may be among them.
    pub readings_lost: bool,
    /// Age of the newest field result, counted from the slot of the frame that it was computed from; `None`:
    /// there is no result.
    pub field_age: Option<Span>,
    /// Time since a command was last confirmed on the wire; `None`: never.
    pub wire_age: Option<Span>,
    /// Slots that were skipped directly before this one.
    pub skipped_slots: u64,
    /// How long the remote brain that computes the field has been silent; `None`: the field does not rely on
    /// a remote brain.
    pub link_silence: Option<Span>,
    /// The board requires a guard, and the guard does not report that all is well.
    pub guard_lost: bool,
    /// How long the machine was suspended since the last slot; `None`: it was not.
    pub slept: Option<Span>,
    /// How far the robot went backwards since the last slot, as time at full speed.
    pub backed: Span,
    /// The robot is being disarmed: latched causes may clear, if they are no longer present.
    pub disarmed: bool,
}

/// What the reflexes found in one slot. Sets of causes have one bit per cause, see [`Cause::bit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The worst active cause.
    pub worst: Option<Cause>,
    /// The tightest single restraint, for reports.
    pub restraint: Restraint,
    /// What all active causes together allow: the motors obey these limits.
    pub limits: Limits,
    /// Active causes.
    pub active: u16,
    /// Causes that became active in this slot.
    pub tripped: u16,
    /// Causes that were active in the previous slot and no longer are.
    pub cleared: u16,
    /// Active causes that stay until the robot is disarmed and armed again.
    pub latched: u16,
    /// Every required sensor is good in this frame. Arming requires that for some time.
    pub senses_good: bool,
}

/// The share of a field result of this age that may be obeyed: 1 while it is fresh, then falling linearly to
/// 0.
pub fn faded(age: Span, safety: &SafetyPlan) -> f32 {
    if age <= safety.field_fresh {
        return 1.0;
    }
    let late = age.less(safety.field_fresh);
    if late >= safety.field_fade {
        return 0.0;
    }
    1.0 - (late.as_secs_f64() / safety.field_fade.as_secs_f64()) as f32
}

/// Missed slots, and whether they keep occurring.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Punctuality {
    /// Slots skipped since the last on-time one.
    missed: u64,
    /// On-time slots in a row.
    punctual: u64,
    late: bool,
}

impl Punctuality {
    fn note(&mut self, skipped: u64, limit: u64) -> bool {
        if skipped > 0 {
            self.missed = self.missed.saturating_add(skipped);
            self.punctual = 0;
        } else {
            self.missed = 0;
            self.punctual = self.punctual.saturating_add(1);
        }
        self.late = if self.late { self.punctual < limit } else { self.missed >= limit };
        self.late
    }
}

/// When a robot with a tether stops because the remote brain is silent.
#[derive(Clone, Copy, Debug, Default)]
struct LinkRule {
    /// After this much silence the link is lost; `None`: there is no tether.
    limit: Option<Span>,
    latches: bool,
    latched: bool,
    /// The brain has been heard at least once. Until then, its silence stops the robot but does not latch.
    joined: bool,
}

impl LinkRule {
    fn note(&mut self, silence: Option<Span>) -> bool {
        let (Some(limit), Some(silence)) = (self.limit, silence) else { return self.latched };
        let lost = silence >= limit;
        self.latched |= lost && self.joined && self.latches;
        self.joined |= !lost;
        lost || self.latched
    }
}

/// Findings of one slot, while they are collected.
struct Findings {
    active: u16,
    latched: u16,
    restraint: Restraint,
    limits: Limits,
    senses_good: bool,
}

impl Findings {
    fn add(&mut self, cause: Cause, restraint: Restraint) {
        let restraint = restraint.sane();
        self.active |= cause.bit();
        self.limits = self.limits.and(restraint.limits());
        if restraint > self.restraint {
            self.restraint = restraint;
        }
    }
}

/// The reflex table at run time.
#[derive(Clone, Debug)]
pub struct Reflexes {
    rules: heapless::Vec<RuleState, MAX_RULES>,
    /// Maximum age of the value of each required sensor, by channel; `None`: not required.
    timeout: [Option<Span>; MAX_SENSORS],
    safety: SafetyPlan,
    link: LinkRule,
    loop_time: Punctuality,
    stopped: bool,
    active: u16,
    trips: [u64; Cause::ALL.len()],
}

impl Reflexes {
    /// A robot starts without a reading, a field result or a confirmed command: these causes are active from
    /// the start and do not count as trips.
    const AT_START: u16 = Cause::SensorLost.bit() | Cause::FieldMissing.bit() | Cause::BusLost.bit();

    /// Reflexes before their first slot.
    ///
    /// # Panics
    /// If there are more than [`MAX_RULES`] rules or a rule names a channel beyond [`MAX_SENSORS`]:
    /// the board check refuses both.
    pub fn new(rules: &[Rule], sensors: &[SensorPlan], safety: SafetyPlan) -> Reflexes {
        assert!(rules.len() <= MAX_RULES, "the board check limits the number of rules");
        assert!(rules.iter().all(|rule| rule.channel < MAX_SENSORS), "the board check resolves channels");
        let mut timeout = [None; MAX_SENSORS];
        for (slot, sensor) in timeout.iter_mut().zip(sensors) {
            *slot = sensor.required.then_some(sensor.max_age);
        }
        let rules = rules.iter().map(|&rule| RuleState::new(rule, sensors));
        Reflexes {
            rules: rules.collect(),
            timeout,
            safety,
            link: LinkRule::default(),
            loop_time: Punctuality::default(),
            stopped: false,
            active: Reflexes::AT_START,
            trips: [0; Cause::ALL.len()],
        }
    }

    /// Adds the rule on the link's silence, for a robot with a tether.
    pub fn tethered(mut self, tether: &TetherPlan) -> Reflexes {
        self.link = LinkRule { limit: Some(tether.silence), latches: tether.latched, ..self.link };
        self
    }

    /// Shows the rules an admitted reading. A slot may bring many readings, of which the frame keeps only the
    /// last; all of them count, so admission makes this call for each. `frame` has the newest values of the
    /// other channels.
    pub fn observe(&mut self, frame: &Frame, channel: u8, value: f32, now: Instant) {
        for state in &mut self.rules {
            state.observe(frame, usize::from(channel), value, now);
        }
    }

    /// Checks everything. Returns the verdict, and the frame that the field sees: `frame`, except that a
    /// sensor that has passed over an edge keeps its worst value there until the robot has backed away.
    pub fn evaluate(&mut self, frame: &Frame, signals: &Signals, now: Instant) -> (Verdict, Frame) {
        let mut found = Findings {
            active: 0,
            latched: 0,
            restraint: Restraint::Free,
            limits: Limits::FREE,
            senses_good: true,
        };
        if signals.disarmed {
            self.rearm();
        }
        self.heed(signals, now);
        self.look_at_rules(frame, signals.backed, now, &mut found);
        self.look_at_senses(frame, now, &mut found);
        self.look_at_field(signals.field_age, &mut found);
        self.look_at_link(signals.link_silence, &mut found);
        self.look_at_wire(signals.wire_age, &mut found);
        self.look_at_loop(signals.skipped_slots, &mut found);
        if signals.guard_lost {
            found.add(Cause::GuardLost, Restraint::Still);
        }
        self.look_at_stop(signals.halts & Cause::EStop.bit() != 0, &mut found);
        (self.conclude(found), self.field_view(frame))
    }

    /// Lets latched causes clear; a cause that is still present latches again in the same slot.
    fn rearm(&mut self) {
        self.stopped = false;
        self.link.latched = false;
        for state in &mut self.rules {
            state.release();
        }
    }

    fn field_view(&self, frame: &Frame) -> Frame {
        let mut shown = *frame;
        for state in &self.rules {
            state.field_view(&mut shown.samples[state.rule.channel]);
        }
        shown
    }

    /// How often each cause became active, by `Cause as usize`.
    pub fn trips(&self) -> &[u64; Cause::ALL.len()] {
        &self.trips
    }

    /// If the motors were stopped before the tick, a rule of that cause trips even if the reading never
    /// arrived: if no stop rule of the cause is tripped yet, or readings were lost, all of them trip.
    fn heed(&mut self, signals: &Signals, now: Instant) {
        for cause in Cause::ALL.into_iter().filter(|cause| signals.halts & cause.bit() != 0) {
            let stops = |state: &&mut RuleState| state.rule.cause == cause && state.stops();
            let explained = self.rules.iter_mut().filter(stops).any(|state| state.is_tripped());
            if !explained || signals.readings_lost {
                self.rules.iter_mut().filter(stops).for_each(|state| state.trip(now));
            }
        }
    }

    fn look_at_rules(&mut self, frame: &Frame, backed: Span, now: Instant, found: &mut Findings) {
        for state in &mut self.rules {
            let sample = &frame.samples[state.rule.channel];
            // A rule whose sensor is lost must restrain the robot, whether the sensor is required or not.
            if let Some(cause) = state.timeout.and_then(|timeout| missed(sample, timeout, now)) {
                found.add(cause, state.rule.restraint);
            }
            if state.look(sample, backed, now) {
                found.add(state.rule.cause, state.rule.restraint);
                if state.is_latched() {
                    found.latched |= state.rule.cause.bit();
                }
            }
        }
    }

    fn look_at_senses(&self, frame: &Frame, now: Instant, found: &mut Findings) {
        for (sample, timeout) in frame.samples.iter().zip(&self.timeout) {
            let Some(timeout) = *timeout else { continue };
            found.senses_good &= sample.health == Health::Good;
            if let Some(cause) = missed(sample, timeout, now) {
                found.add(cause, Restraint::Still);
            }
        }
    }

    fn look_at_field(&self, age: Option<Span>, found: &mut Findings) {
        let share = age.map_or(0.0, |age| faded(age, &self.safety));
        if share <= 0.0 {
            found.add(Cause::FieldMissing, Restraint::Still);
        } else if share < 1.0 {
            found.add(Cause::FieldLate, Restraint::Slow(share));
        }
    }

    fn look_at_link(&mut self, silence: Option<Span>, found: &mut Findings) {
        if self.link.note(silence) {
            found.add(Cause::LinkLost, Restraint::Still);
        }
        if self.link.latched {
            found.latched |= Cause::LinkLost.bit();
        }
    }

    fn look_at_wire(&self, age: Option<Span>, found: &mut Findings) {
        if age.is_none_or(|age| age > self.safety.wire_lost) {
            found.add(Cause::BusLost, Restraint::Still);
        }
    }

    fn look_at_loop(&mut self, skipped: u64, found: &mut Findings) {
        if self.loop_time.note(skipped, u64::from(self.safety.late_slots.max(1))) {
            found.add(Cause::LoopLate, Restraint::Still);
        }
    }

    fn look_at_stop(&mut self, pressed: bool, found: &mut Findings) {
        self.stopped |= pressed;
        if self.stopped {
            found.add(Cause::EStop, Restraint::Still);
            found.latched |= Cause::EStop.bit();
        }
    }

    fn conclude(&mut self, found: Findings) -> Verdict {
        let tripped = found.active & !self.active;
        let cleared = self.active & !found.active;
        self.active = found.active;
        for (trips, cause) in self.trips.iter_mut().zip(Cause::ALL) {
            *trips += u64::from(tripped & cause.bit() != 0);
        }
        Verdict {
            worst: Cause::worst_of(found.active),
            restraint: found.restraint,
            limits: found.limits,
            active: found.active,
            tripped,
            cleared,
            latched: found.latched,
            senses_good: found.senses_good,
        }
    }
}

impl Remembers for Reflexes {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        archive.part("reflexes");
        let Reflexes { rules, timeout: _, safety: _, link, loop_time, stopped, active, trips: _ } = self;
        rules.iter_mut().try_for_each(|rule| rule.walk(archive))?;
        let LinkRule { limit: _, latches: _, latched, joined } = link;
        remember!(archive: latched, joined, loop_time, stopped, active);
        Ok(())
    }
}

/// The cause, if the sensor of `sample` counts as lost or lying. The value's age is checked here too, not
/// only the health that the frame states.
fn missed(sample: &Sample, timeout: Span, now: Instant) -> Option<Cause> {
    let over = now.since(sample.stamp) > timeout;
    match sample.health {
        Health::Never | Health::Stale => Some(Cause::SensorLost),
        Health::Good => over.then_some(Cause::SensorLost),
        // Without an answer, the sensor is lost. If the answer is impossible, the sensor is lying.
        Health::Bad(ReadingFault::Bus(_) | ReadingFault::Timeout) => over.then_some(Cause::SensorLost),
        Health::Bad(
            ReadingFault::OutOfRange
            | ReadingFault::NotFinite
            | ReadingFault::Frozen
            | ReadingFault::DeadBytes,
        ) => over.then_some(Cause::SensorLying),
    }
}

#[cfg(test)]
mod tests;
