//! One line of the board's reflex table: when it trips, holds, latches and clears.

use super::{Cause, Restraint};
use crate::board::plan::SensorPlan;
use crate::frame::{Frame, Health, Sample};
use crate::time::{Instant, Span};

/// When a rule trips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trip {
    /// The sample's worst-case value is at or below this.
    Below(f32),
    /// The sample's worst-case value is at or above this.
    Above(f32),
}

/// One line of the board's reflex table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// What is reported.
    pub cause: Cause,
    /// Channel of the frame.
    pub channel: usize,
    /// When it trips.
    pub trip: Trip,
    /// The value that must be passed in the other direction before it clears (hysteresis).
    pub clear: f32,
    /// It stays tripped at least this long.
    pub hold: Span,
    /// What it allows meanwhile.
    pub restraint: Restraint,
    /// Stays until the robot is disarmed and armed again, even when the cause is gone.
    pub latched: bool,
}

/// One rule and whether it has tripped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    pub(super) rule: Rule,
    /// Channels whose readings it meets, a bit each: its own, or the members of what that is the least of.
    sources: u64,
    /// Longest age of its sensor's last good value, where the board does not require the sensor; else its loss
    /// is a finding of its own.
    pub(super) patience: Option<Span>,
    tripped_at: Option<Instant>,
    latched: bool,
    /// A reading tripped it since it was last looked at.
    met: bool,
}

impl Guard {
    /// A rule of a board with these `sensors` that has not tripped.
    pub(super) fn new(rule: Rule, sensors: &[SensorPlan]) -> Guard {
        let optional = sensors.get(rule.channel).filter(|sensor| !sensor.required);
        Guard {
            rule,
            sources: sources(sensors, rule.channel),
            patience: optional.map(|sensor| sensor.max_age),
            tripped_at: None,
            latched: false,
            met: false,
        }
    }

    /// Whether a reading that crosses into it stops the motors before the tick hears of it (`sense::snap`).
    pub(super) fn stops(&self) -> bool {
        matches!(self.rule.restraint, Restraint::Still | Restraint::NoForward)
    }

    /// Whether it was active when it was last looked at, or has been tripped since.
    pub(super) fn is_tripped(&self) -> bool {
        self.tripped_at.is_some()
    }

    /// Meets one reading, however short what it says lasted: if that trips the rule, it is active in the next look
    /// at the least. `frame` holds what the other channels said last.
    pub(super) fn meet(&mut self, frame: &Frame, channel: usize, value: f32, now: Instant) {
        if self.sources & (1 << channel) == 0 {
            return;
        }
        let trips = match self.rule.trip {
            // The least of several is at or below the limit as soon as one of them is.
            Trip::Below(limit) => value <= limit,
            Trip::Above(limit) => value >= limit && self.others_above(frame, channel, limit),
        };
        if trips {
            self.trip(now);
        }
    }

    /// It trips, whatever the frame says by the time it is looked at.
    pub(super) fn trip(&mut self, now: Instant) {
        self.tripped_at.get_or_insert(now);
        self.met = true;
    }

    /// Whether all sources but `channel` said last that they are at or above `limit`.
    fn others_above(&self, frame: &Frame, channel: usize, limit: f32) -> bool {
        let others = self.sources & !(1 << channel);
        let mut samples = frame.samples.iter().enumerate().filter(|(other, _)| others & (1 << other) != 0);
        samples.all(|(_, sample)| sample.health != Health::Never && sample.value >= limit)
    }

    /// Whether it has tripped and stays so until it is released.
    pub(super) fn is_latched(&self) -> bool {
        self.latched
    }

    /// Lets it clear by itself again, once its cause is gone.
    pub(super) fn release(&mut self) {
        self.latched = false;
    }

    /// Looks at `sample`; whether the rule is active now.
    pub(super) fn look(&mut self, sample: &Sample, now: Instant) -> bool {
        let met = std::mem::take(&mut self.met);
        if met || self.trips(sample) {
            self.tripped_at.get_or_insert(now);
            self.latched = self.rule.latched;
        } else if let Some(at) = self.tripped_at
            && !self.latched
            && now.since(at) >= self.rule.hold
            && self.clears(sample)
        {
            self.tripped_at = None;
        }
        self.tripped_at.is_some()
    }

    fn trips(&self, sample: &Sample) -> bool {
        if sample.health == Health::Never {
            return false; // there is no value; that it is missing is `sensor-lost`, where it matters
        }
        let worst = sample.worst;
        // A worst case that is not a number has escaped admission: the rule cannot say no to it.
        worst.is_nan()
            || match self.rule.trip {
                Trip::Below(limit) => worst <= limit,
                Trip::Above(limit) => worst >= limit,
            }
    }

    /// Only a good sample lifts a restraint: an old or refused one is no news.
    fn clears(&self, sample: &Sample) -> bool {
        sample.health == Health::Good
            && match self.rule.trip {
                Trip::Below(_) => sample.worst > self.rule.clear,
                Trip::Above(_) => sample.worst < self.rule.clear,
            }
    }
}

/// The channels that are read and that `channel` is made of, a bit each: itself, or the members of a least, which
/// come before it.
fn sources(sensors: &[SensorPlan], channel: usize) -> u64 {
    let members = sensors.get(channel).map_or(&[][..], SensorPlan::members);
    let earlier = members.iter().filter(|member| **member < channel);
    let of_members = earlier.fold(0, |set, &member| set | sources(sensors, member));
    if members.is_empty() { 1 << channel } else { of_members }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, ms, range};

    fn guard(trip: Trip, clear: f32) -> Guard {
        let rule = Rule {
            cause: Cause::Obstacle,
            channel: 0,
            trip,
            clear,
            hold: Span::ZERO,
            restraint: Restraint::NoForward,
            latched: false,
        };
        Guard::new(rule, &[range()])
    }

    fn sample(worst: f32, health: Health) -> Sample {
        // The value is deliberately harmless: a rule that looked at it would fail every test here.
        Sample { value: 2.0, worst, stamp: Instant::ZERO, health }
    }

    /// Looks at each (worst, health, active?) in turn, a millisecond apart.
    fn check(mut guard: Guard, script: &[(f32, Health, bool)]) {
        for (step, &(worst, health, active)) in script.iter().enumerate() {
            let found = guard.look(&sample(worst, health), at(step as u64));
            assert_eq!(found, active, "step {step}: {worst} {health:?}");
        }
    }

    #[test]
    fn trips_at_the_limit_and_clears_beyond_the_other() {
        use Health::Good;
        let below = [(1.01, Good, false), (1.0, Good, true), (1.2, Good, true), (1.21, Good, false)];
        check(guard(Trip::Below(1.0), 1.2), &below);
        let above = [(0.99, Good, false), (1.0, Good, true), (0.8, Good, true), (0.79, Good, false)];
        check(guard(Trip::Above(1.0), 0.8), &above);
    }

    #[test]
    fn old_and_refused_samples_trip_but_do_not_clear() {
        use crate::frame::Fault::Frozen;
        for poor in [Health::Stale, Health::Bad(Frozen)] {
            let script = [(0.9, poor, true), (3.0, poor, true), (3.0, Health::Good, false)];
            check(guard(Trip::Below(1.0), 1.2), &script);
        }
    }

    #[test]
    fn nothing_read_is_no_value_and_no_number_is_the_worst_one() {
        check(guard(Trip::Below(1.0), 1.2), &[(0.0, Health::Never, false), (f32::NAN, Health::Good, true)]);
        check(
            guard(Trip::Above(1.0), 0.8),
            &[(f32::NAN, Health::Stale, true), (f32::NAN, Health::Good, true)],
        );
    }

    #[test]
    fn holds_at_least_as_long_as_told() {
        let mut guard = guard(Trip::Below(1.0), 1.2);
        guard.rule.hold = ms(50);
        let well = sample(3.0, Health::Good);
        assert!(guard.look(&sample(0.5, Health::Good), at(100)));
        assert!(guard.look(&well, at(149)));
        assert!(!guard.look(&well, at(150)));
    }

    #[test]
    fn a_latch_outlives_its_cause_but_not_its_release() {
        let mut guard = guard(Trip::Below(1.0), 1.2);
        guard.rule.latched = true;
        let (near, far) = (sample(0.5, Health::Good), sample(3.0, Health::Good));
        assert!(guard.look(&near, at(0)));
        assert!(guard.look(&far, at(10_000)) && guard.is_latched());
        guard.release();
        assert!(!guard.look(&far, at(10_001)));
        // Released while the cause is still there: it latches again in the same slot.
        assert!(guard.look(&near, at(10_002)));
        guard.release();
        assert!(guard.look(&near, at(10_003)) && guard.is_latched());
    }

    /// A rule on the last of these channels that trips at 1 or below.
    fn last_of(sensors: &[SensorPlan]) -> Guard {
        let rule = Rule { channel: sensors.len() - 1, ..guard(Trip::Below(1.0), 1.2).rule };
        Guard::new(rule, sensors)
    }

    fn least_of(members: &[usize]) -> SensorPlan {
        SensorPlan { kind: crate::fixture::least(members), ..range() }
    }

    #[test]
    fn a_rule_meets_its_own_channel_or_every_member_of_a_least_however_it_is_made() {
        let frame = Frame::empty(5);
        let met = |guard: &Guard, channel| {
            let mut guard = *guard;
            guard.meet(&frame, channel, 0.5, at(0));
            guard.is_tripped()
        };
        let own = last_of(&[range(), range(), range()]);
        assert_eq!([0, 1, 2, 3].map(|channel| met(&own, channel)), [false, false, true, false]);
        // The least of 0 and of the least of 0 and 1: 0 stands in it twice.
        let nested = last_of(&[range(), range(), least_of(&[0, 1]), least_of(&[0, 2])]);
        assert_eq!([0, 1, 2, 3].map(|channel| met(&nested, channel)), [true, true, false, false]);
        // A list that names itself, which no checked board has, ends.
        let mut itself = last_of(&[range(), least_of(&[0, 1])]);
        itself.meet(&frame, 0, 0.5, at(0));
        assert!(itself.is_tripped());
    }

    #[test]
    fn the_least_is_above_a_limit_only_if_all_of_its_members_are() {
        let mut sensors = vec![range(), range(), range()];
        sensors.push(least_of(&[1, 2]));
        let rule = Rule { trip: Trip::Above(1.0), channel: 3, ..guard(Trip::Below(0.0), 0.8).rule };
        let mut frame = Frame::empty(4);
        let good = |value| Sample { value, ..sample(value, Health::Good) };
        for (first, second, trips) in [(Some(2.0), 0.5, false), (None, 2.0, false), (Some(2.0), 2.0, true)] {
            frame.samples[1] = first.map_or(Sample::NEVER, good);
            let mut guard = Guard::new(rule, &sensors);
            guard.meet(&frame, 2, second, at(0));
            assert_eq!(guard.is_tripped(), trips, "{first:?} and {second}");
        }
    }
}
