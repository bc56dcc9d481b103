//! Frame to restraint: the part that keeps the robot safe whatever the field says. Pure; knows no
//! GPU, no bus, no heap, no clock of its own, and no robot state: it says the same whether the robot
//! is armed or not.
//!
//! A *rule* is a line of the board's table and looks at one channel's worst case. Beside the rules
//! stand the runtime's own findings: senses, field, wire, loop, stop. All are gathered first, then
//! put together into one [`Verdict`]; what it allows is the least that any of them allows.
//!
//! | cause           | trips when                                             | allows              | clears when                                    |
//! |-----------------|--------------------------------------------------------|---------------------|------------------------------------------------|
//! | `field-late`    | the newest result is older than `field_fresh`          | a share, falling    | a fresh result comes                           |
//! | `field-missing` | ... than `field_fresh + field_fade`, or never came     | nothing             | a result young enough comes                    |
//! | `battery` `obstacle` `cliff` `tilt` | a rule's worst case passes its limit | what the rule says  | a good sample passes `clear`, `hold` is over   |
//! | `sensor-lost`   | a required sensor is older than `max_age`, or never was | nothing            | a good sample comes                            |
//! | `sensor-lying`  | ... and its newest reading could not be true           | nothing             | a good sample comes                            |
//! | `guard-lost`    | a guard that the board requires was not seen well for its patience | nothing | it is seen well        |
//! | `bus-lost`      | no command confirmed for `wire_lost`, or never         | nothing             | a command is confirmed                         |
//! | `loop-late`     | `late_slots` slots skipped without a punctual one between | nothing          | `late_slots` punctual slots in a row           |
//! | `e-stop`        | stop was pressed                                       | nothing             | released, then disarmed and armed again        |
//!
//! A latched rule clears as `e-stop` does, whatever its cause.
//!
//! A refused reading does not stop the robot by itself: brushes put a wrong bit on the wires now and
//! then. Until the last good value is older than `max_age` it ages towards its worst case and
//! the rules go on looking at that. From there on a liar is worth no more than silence, so the
//! patience is the same.

mod cause;
mod restraint;
mod rule;

pub use cause::Cause;
pub use restraint::{Limits, Restraint};
pub use rule::{Rule, Trip};

use crate::board::plan::{SafetyPlan, SensorPlan};
use crate::frame::{Fault, Frame, Health, MAX_SENSORS, Sample};
use crate::time::{Instant, Span};
use rule::Guard;

/// Most rules a board may have: one on either side of every channel.
pub const MAX_RULES: usize = 2 * MAX_SENSORS;

/// What the reflexes must know that is not in the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Stop is pressed.
    pub e_stop: bool,
    /// Age of the newest field result, from the slot of the frame it was computed from; `None`: there is none.
    pub field_age: Option<Span>,
    /// Time since a command was last confirmed on the wire; `None`: never.
    pub wire_age: Option<Span>,
    /// Slots that were skipped directly before this one.
    pub skipped_slots: u64,
    /// The board requires a guard, and it is not seen well.
    pub guard_lost: bool,
}

/// What the reflexes found in one slot. Sets of causes hold a bit each, see [`Cause::bit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The worst active cause.
    pub worst: Option<Cause>,
    /// The tightest single restraint, for reports.
    pub restraint: Restraint,
    /// What all active causes allow together: this is obeyed.
    pub limits: Limits,
    /// Active causes.
    pub active: u16,
    /// Causes that became active in this slot.
    pub tripped: u16,
    /// Causes that were active in the slot before and are not any more.
    pub cleared: u16,
    /// Active causes that stay until the robot is disarmed and armed again.
    pub latched: u16,
    /// Every required sensor is good in this very frame: what arming wants to see for a while.
    pub senses_good: bool,
}

/// How far a field result of this age may be obeyed: 1 while it is fresh, then falling in a straight
/// line, 0 when its time is over.
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

/// Slots missed, and whether that is a habit.
#[derive(Clone, Copy, Debug, Default)]
struct Punctuality {
    /// Slots skipped since the last punctual one.
    missed: u64,
    /// Punctual slots in a row, counted while late.
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

/// Findings of one slot while they are gathered.
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

/// The reflex table at work.
#[derive(Clone, Debug)]
pub struct Reflexes {
    guards: heapless::Vec<Guard, MAX_RULES>,
    /// Longest age of each required sensor, by channel; `None`: not required.
    patience: [Option<Span>; MAX_SENSORS],
    safety: SafetyPlan,
    loop_time: Punctuality,
    stopped: bool,
    active: u16,
    trips: [u64; Cause::ALL.len()],
}

impl Reflexes {
    /// A robot begins without senses, field or wire: these causes are active from the start and
    /// that they are is no event.
    const AT_START: u16 = Cause::SensorLost.bit() | Cause::FieldMissing.bit() | Cause::BusLost.bit();

    /// Reflexes that have seen nothing yet.
    ///
    /// # Panics
    /// If there are more than [`MAX_RULES`] rules or a rule names a channel beyond [`MAX_SENSORS`]:
    /// the board check refuses both.
    pub fn new(rules: &[Rule], sensors: &[SensorPlan], safety: SafetyPlan) -> Reflexes {
        assert!(rules.len() <= MAX_RULES, "the board check limits the number of rules");
        assert!(rules.iter().all(|rule| rule.channel < MAX_SENSORS), "the board check resolves channels");
        let mut patience = [None; MAX_SENSORS];
        for (slot, sensor) in patience.iter_mut().zip(sensors) {
            *slot = sensor.required.then_some(sensor.max_age);
        }
        let guards = rules.iter().map(|&rule| Guard::new(rule));
        Reflexes {
            guards: guards.collect(),
            patience,
            safety,
            loop_time: Punctuality::default(),
            stopped: false,
            active: Reflexes::AT_START,
            trips: [0; Cause::ALL.len()],
        }
    }

    /// Looks at everything and says what it allows.
    pub fn evaluate(&mut self, frame: &Frame, signals: &Signals, now: Instant) -> Verdict {
        let mut found = Findings {
            active: 0,
            latched: 0,
            restraint: Restraint::Free,
            limits: Limits::FREE,
            senses_good: true,
        };
        self.look_at_rules(frame, now, &mut found);
        self.look_at_senses(frame, now, &mut found);
        self.look_at_field(signals.field_age, &mut found);
        self.look_at_wire(signals.wire_age, &mut found);
        self.look_at_loop(signals.skipped_slots, &mut found);
        if signals.guard_lost {
            found.add(Cause::GuardLost, Restraint::Still);
        }
        self.look_at_stop(signals.e_stop, &mut found);
        self.conclude(found)
    }

    /// The robot is being disarmed: whatever is latched may clear, if its cause is gone. Called in
    /// the slot of the disarm before [`Reflexes::evaluate`]; a cause that is still there latches again.
    pub fn rearm(&mut self) {
        self.stopped = false;
        for guard in &mut self.guards {
            guard.release();
        }
    }

    /// Causes that were active in the last slot.
    pub fn active(&self) -> u16 {
        self.active
    }

    /// How often each cause became active, by `Cause as usize`.
    pub fn trips(&self) -> &[u64; Cause::ALL.len()] {
        &self.trips
    }

    fn look_at_rules(&mut self, frame: &Frame, now: Instant, found: &mut Findings) {
        for guard in &mut self.guards {
            if guard.look(&frame.samples[guard.rule.channel], now) {
                found.add(guard.rule.cause, guard.rule.restraint);
                if guard.is_latched() {
                    found.latched |= guard.rule.cause.bit();
                }
            }
        }
    }

    fn look_at_senses(&self, frame: &Frame, now: Instant, found: &mut Findings) {
        for (sample, patience) in frame.samples.iter().zip(&self.patience) {
            let Some(patience) = *patience else { continue };
            found.senses_good &= sample.health == Health::Good;
            if let Some(cause) = missed(sample, patience, now) {
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

/// Why a required sensor is not to be driven on, if it is not. The age is looked at here as well,
/// whatever the frame says of its health.
fn missed(sample: &Sample, patience: Span, now: Instant) -> Option<Cause> {
    let over = now.since(sample.stamp) > patience;
    match sample.health {
        Health::Never | Health::Stale => Some(Cause::SensorLost),
        Health::Good => over.then_some(Cause::SensorLost),
        // No answer is silence; an answer that cannot be true is a lie.
        Health::Bad(Fault::Bus(_) | Fault::Timeout) => over.then_some(Cause::SensorLost),
        Health::Bad(Fault::OutOfRange | Fault::NotFinite | Fault::Frozen | Fault::DeadBytes) => {
            over.then_some(Cause::SensorLying)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::BusFault;
    use crate::fixture::{WELL, at, ms, range, safety};

    fn good(value: f32, stamp: Instant) -> Sample {
        Sample { value, worst: value, stamp, health: Health::Good }
    }

    fn frame(sample: Sample) -> Frame {
        let mut frame = Frame::empty(1);
        frame.samples[0] = sample;
        frame
    }

    fn rule(cause: Cause, below: f32, restraint: Restraint) -> Rule {
        let trip = Trip::Below(below);
        Rule { cause, channel: 0, trip, clear: below + 0.1, hold: Span::ZERO, restraint, latched: false }
    }

    /// Reflexes with `rules` that have once seen everything well.
    fn settled(rules: &[Rule]) -> Reflexes {
        let mut reflexes = Reflexes::new(rules, &[range()], safety());
        assert_eq!(reflexes.evaluate(&frame(good(3.0, at(0))), &WELL, at(0)).active, 0);
        reflexes
    }

    #[test]
    fn a_robot_begins_restrained_and_that_is_no_event() {
        let mut reflexes = Reflexes::new(&[], &[range()], safety());
        let nothing = Signals::default();
        let verdict = reflexes.evaluate(&Frame::empty(1), &nothing, at(0));
        assert_eq!(verdict.active, Reflexes::AT_START);
        assert_eq!((verdict.tripped, verdict.restraint), (0, Restraint::Still));
        assert!(!verdict.senses_good);
        let verdict = reflexes.evaluate(&frame(good(3.0, at(10))), &WELL, at(10));
        assert_eq!((verdict.active, verdict.cleared), (0, Reflexes::AT_START));
        assert_eq!((verdict.limits, verdict.worst, verdict.senses_good), (Limits::FREE, None, true));
        assert_eq!(reflexes.trips().iter().sum::<u64>(), 0);
    }

    #[test]
    fn each_finding_has_its_cause_its_restraint_and_its_end() {
        let well = good(3.0, at(1_000));
        let bad = |fault, stamp| Sample { health: Health::Bad(fault), ..good(3.0, stamp) };
        let old = at(799); // one millisecond over the range finder's 200
        type Case = (&'static str, Sample, Signals, Option<Cause>, Restraint);
        let cases: [Case; 17] = [
            ("well", well, WELL, None, Restraint::Free),
            (
                "stale",
                Sample { health: Health::Stale, ..well },
                WELL,
                Some(Cause::SensorLost),
                Restraint::Still,
            ),
            ("never", Sample::NEVER, WELL, Some(Cause::SensorLost), Restraint::Still),
            ("good, says the frame", good(3.0, old), WELL, Some(Cause::SensorLost), Restraint::Still),
            ("refused just now", bad(Fault::OutOfRange, at(800)), WELL, None, Restraint::Free),
            ("out of range", bad(Fault::OutOfRange, old), WELL, Some(Cause::SensorLying), Restraint::Still),
            ("not finite", bad(Fault::NotFinite, old), WELL, Some(Cause::SensorLying), Restraint::Still),
            ("frozen", bad(Fault::Frozen, old), WELL, Some(Cause::SensorLying), Restraint::Still),
            ("dead bytes", bad(Fault::DeadBytes, old), WELL, Some(Cause::SensorLying), Restraint::Still),
            ("timeout", bad(Fault::Timeout, old), WELL, Some(Cause::SensorLost), Restraint::Still),
            ("nack", bad(Fault::Bus(BusFault::Nack), old), WELL, Some(Cause::SensorLost), Restraint::Still),
            (
                "field late by a quarter",
                well,
                Signals { field_age: Some(ms(125)), ..WELL },
                Some(Cause::FieldLate),
                Restraint::Slow(0.75),
            ),
            (
                "field missing",
                well,
                Signals { field_age: Some(ms(200)), ..WELL },
                Some(Cause::FieldMissing),
                Restraint::Still,
            ),
            (
                "no field",
                well,
                Signals { field_age: None, ..WELL },
                Some(Cause::FieldMissing),
                Restraint::Still,
            ),
            (
                "wire silent",
                well,
                Signals { wire_age: Some(ms(51)), ..WELL },
                Some(Cause::BusLost),
                Restraint::Still,
            ),
            ("no wire", well, Signals { wire_age: None, ..WELL }, Some(Cause::BusLost), Restraint::Still),
            (
                "late loop",
                well,
                Signals { skipped_slots: 3, ..WELL },
                Some(Cause::LoopLate),
                Restraint::Still,
            ),
        ];
        for (name, sample, signals, cause, restraint) in cases {
            let mut reflexes = settled(&[]);
            let verdict = reflexes.evaluate(&frame(sample), &signals, at(1_000));
            let set = cause.map_or(0, Cause::bit);
            assert_eq!((verdict.worst, verdict.active, verdict.tripped), (cause, set, set), "{name}");
            assert_eq!((verdict.restraint, verdict.latched), (restraint, 0), "{name}");
            assert_eq!(verdict.limits, restraint.limits(), "{name}");
            // What each needs to clear: a well frame and well signals, three times for the loop.
            for _ in 0..3 {
                reflexes.evaluate(&frame(well), &WELL, at(1_000));
            }
            let verdict = reflexes.evaluate(&frame(well), &WELL, at(1_000));
            assert_eq!((verdict.active, verdict.limits), (0, Limits::FREE), "{name}");
            assert_eq!(reflexes.trips().iter().sum::<u64>(), u64::from(cause.is_some()), "{name}");
        }
    }

    #[test]
    fn a_sensor_that_is_not_required_stops_nobody_by_itself() {
        let optional = SensorPlan { required: false, ..range() };
        let rules = [rule(Cause::Obstacle, 0.5, Restraint::NoForward)];
        let mut reflexes = Reflexes::new(&rules, &[optional], safety());
        let verdict = reflexes.evaluate(&frame(Sample::NEVER), &WELL, at(0));
        assert_eq!((verdict.active, verdict.senses_good), (0, true));
        // But once it has spoken, its worst case counts however old it is.
        let aged = Sample { worst: 0.4, health: Health::Stale, ..good(2.0, at(0)) };
        assert_eq!(reflexes.evaluate(&frame(aged), &WELL, at(900)).active, Cause::Obstacle.bit());
    }

    #[test]
    fn the_worst_cause_is_reported_and_the_least_that_is_allowed_obeyed() {
        let rules = [
            rule(Cause::Battery, 1.0, Restraint::Slow(0.3)),
            rule(Cause::Obstacle, 0.5, Restraint::NoForward),
            rule(Cause::Cliff, 0.2, Restraint::Slow(0.1)),
        ];
        let mut reflexes = settled(&rules);
        let mut look = |distance| reflexes.evaluate(&frame(good(distance, at(10))), &WELL, at(10));
        let verdict = look(0.8);
        assert_eq!((verdict.worst, verdict.restraint), (Some(Cause::Battery), Restraint::Slow(0.3)));
        let verdict = look(0.4);
        assert_eq!((verdict.worst, verdict.restraint), (Some(Cause::Obstacle), Restraint::NoForward));
        assert_eq!(verdict.limits, Limits { forward: 0.0, backward: 0.3, steer: true });
        assert_eq!(verdict.tripped, Cause::Obstacle.bit(), "the battery had tripped before");
        let verdict = look(0.1);
        assert_eq!((verdict.worst, verdict.restraint), (Some(Cause::Cliff), Restraint::NoForward));
        assert_eq!(verdict.limits, Limits { forward: 0.0, backward: 0.1, steer: true });
        let verdict = look(3.0);
        assert_eq!(verdict.cleared, Cause::Battery.bit() | Cause::Obstacle.bit() | Cause::Cliff.bit());
    }

    #[test]
    fn fading_is_a_straight_line_from_fresh_to_gone() {
        let shares = [(0, 1.0), (100, 1.0), (110, 0.9), (150, 0.5), (199, 0.01), (200, 0.0), (9_999, 0.0)];
        for (age, share) in shares {
            assert!((faded(ms(age), &safety()) - share).abs() < 1e-6, "{age} ms");
        }
        let no_fade = SafetyPlan { field_fade: Span::ZERO, ..safety() };
        assert!(faded(ms(100), &no_fade) > 0.99 && faded(ms(101), &no_fade) < 0.01);
    }

    #[test]
    fn a_loop_is_late_by_misses_in_a_row_and_well_again_by_as_many_hits() {
        let script = [
            // (skipped, late): two are not three, and a hit between starts anew
            (2, false),
            (0, false),
            (2, false),
            (1, true),
            (0, true),
            (0, true),
            (1, true),
            (0, true),
            (0, true),
            (0, false),
            (2, false),
        ];
        let mut reflexes = settled(&[]);
        for (step, (skipped_slots, late)) in script.into_iter().enumerate() {
            let signals = Signals { skipped_slots, ..WELL };
            let verdict = reflexes.evaluate(&frame(good(3.0, at(0))), &signals, at(0));
            assert_eq!(verdict.active == Cause::LoopLate.bit(), late, "step {step}");
        }
        assert_eq!(reflexes.trips()[Cause::LoopLate as usize], 1);
    }

    #[test]
    fn stop_stays_until_it_is_released_and_rearmed() {
        let mut reflexes = settled(&[]);
        let well = frame(good(3.0, at(0)));
        let look = |reflexes: &mut Reflexes, e_stop| {
            reflexes.evaluate(&well, &Signals { e_stop, ..WELL }, at(0)).latched
        };
        let stop = Cause::EStop.bit();
        assert_eq!(look(&mut reflexes, true), stop);
        assert_eq!(look(&mut reflexes, false), stop);
        reflexes.rearm();
        assert_eq!(look(&mut reflexes, true), stop, "still pressed");
        reflexes.rearm();
        assert_eq!(look(&mut reflexes, false), 0);
        assert_eq!(reflexes.trips()[Cause::EStop as usize], 1);
    }

    #[test]
    fn causes_are_in_order_and_named_once() {
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index);
            assert_eq!(Cause::worst_of(cause.bit() | 1), Some(cause));
            let kebab = cause.name().chars().all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(kebab && !cause.cleared_by().is_empty());
            assert!(Cause::ALL[..index].iter().all(|other| other.name() != cause.name()));
        }
        assert_eq!(Cause::worst_of(0), None);
    }
}
