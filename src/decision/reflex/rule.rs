//! One rule of the board's reflex table: when it trips, holds, latches and clears.

use crate::base::frame::{Frame, Health, Sample};
use crate::base::plan::{Restraint, Rule, SensorPlan, Trip};
use crate::base::time::{Instant, Span};
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};

/// One rule and whether it has tripped.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleState {
    pub(super) rule: Rule,
    /// Channels whose readings the rule checks, one bit each: the rule's own channel, or the members if that
    /// channel is a minimum.
    sources: u64,
    /// Maximum age of the sensor's last good value, if the board does not require the sensor. The loss of a
    /// required sensor is a separate finding.
    pub(super) timeout: Option<Span>,
    tripped_at: Option<Instant>,
    /// How far the robot still has to back away, as time at full speed.
    owed: Span,
    /// The worst value of the channel since the rule tripped.
    worst: f32,
    latched: bool,
    /// A reading tripped the rule since the last check.
    met: bool,
}

impl RuleState {
    /// An untripped rule of a board with these `sensors`.
    pub(super) fn new(rule: Rule, sensors: &[SensorPlan]) -> RuleState {
        let optional = sensors.get(rule.channel).filter(|sensor| !sensor.required);
        RuleState {
            rule,
            sources: sources(sensors, rule.channel),
            timeout: optional.map(|sensor| sensor.max_age),
            tripped_at: None,
            owed: Span::ZERO,
            worst: rule.trip.limit(),
            latched: false,
            met: false,
        }
    }

    /// Whether a reading beyond the rule's limit stops the motors before the tick sees it (`io::fast_stop`).
    pub(super) fn stops(&self) -> bool {
        matches!(self.rule.restraint, Restraint::Still | Restraint::NoForward)
    }

    /// Whether the rule was active at the last check, or has been tripped since.
    pub(super) fn is_tripped(&self) -> bool {
        self.tripped_at.is_some()
    }

    /// Checks one reading. If it trips the rule, the rule is active at least in the next check, however short
    /// the event was. `frame` has the newest values of the other channels.
    pub(super) fn observe(&mut self, frame: &Frame, channel: usize, value: f32, now: Instant) {
        if self.sources & (1 << channel) == 0 {
            return;
        }
        let all = match self.rule.trip {
            // A minimum is at or below the limit as soon as one member is.
            Trip::Below(_) => true,
            Trip::Above(limit) => self.others_above(frame, channel, limit),
        };
        if all && self.rule.trip.trips(value) {
            self.trip(now);
            self.worst = self.rule.trip.worse(self.worst, value);
        }
    }

    /// Trips the rule, whatever the frame says at the next check.
    pub(super) fn trip(&mut self, now: Instant) {
        self.tripped_at.get_or_insert(now);
        self.met = true;
    }

    /// Whether the newest values of all sources but `channel` are at or above `limit`.
    fn others_above(&self, frame: &Frame, channel: usize, limit: f32) -> bool {
        let others = self.sources & !(1 << channel);
        let mut samples = frame.samples.iter().enumerate().filter(|(other, _)| others & (1 << other) != 0);
        samples.all(|(_, sample)| sample.health != Health::Never && sample.value >= limit)
    }

    /// Whether the rule has tripped and stays tripped until it is released.
    pub(super) fn is_latched(&self) -> bool {
        self.latched
    }

    /// Lets the rule clear by itself again once its cause is gone, and waives the retreat: the person who
    /// disarms the robot is responsible for where it stands.
    pub(super) fn release(&mut self) {
        self.latched = false;
        self.owed = Span::ZERO;
    }

    /// Checks `sample`; returns whether the rule is active now. `backed`: how far the robot went backwards
    /// since the last check, as time at full speed.
    pub(super) fn look(&mut self, sample: &Sample, backed: Span, now: Instant) -> bool {
        let met = std::mem::take(&mut self.met);
        let trips = self.trips(sample);
        self.owed = self.owed.less(backed);
        if met || trips {
            self.tripped_at.get_or_insert(now);
            self.latched = self.rule.latched;
            self.owed = self.rule.retreat; // counted from where the edge was last seen
            if trips {
                self.worst = self.rule.trip.worse(self.worst, sample.worst);
            }
        } else if self.tripped_at.is_some_and(|at| now.since(at) >= self.rule.hold)
            && !self.latched
            && self.owed == Span::ZERO
            && self.clears(sample)
        {
            self.tripped_at = None;
            self.worst = self.rule.trip.limit();
        }
        self.tripped_at.is_some()
    }

    /// Puts the worst value of the channel into `sample`, as long as the edge may be under the robot.
    pub(super) fn field_view(&self, sample: &mut Sample) {
        if self.is_tripped() && self.rule.retreat > Span::ZERO && sample.health != Health::Never {
            sample.value = self.rule.trip.worse(sample.value, self.worst);
            sample.worst = self.rule.trip.worse(sample.worst, self.worst);
        }
    }

    fn trips(&self, sample: &Sample) -> bool {
        if sample.health == Health::Never {
            return false; // no value: if that matters, the cause is `sensor-lost`
        }
        let worst = sample.worst;
        // Admission should have refused a NaN; if one gets here, assume the worst.
        worst.is_nan() || self.rule.trip.trips(worst)
    }

    /// Only a good sample lifts a restraint; an old or refused one proves nothing.
    fn clears(&self, sample: &Sample) -> bool {
        sample.health == Health::Good && self.rule.trip.clears(sample.worst, self.rule.clear)
    }
}

impl Remembers for RuleState {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let RuleState { rule: _, sources: _, timeout: _, tripped_at, owed, worst, latched, met } = self;
        remember!(archive: tripped_at, owed, worst, latched, met);
        Ok(())
    }
}

/// The physical channels behind `channel`, one bit each: itself, or the earlier members of a minimum.
fn sources(sensors: &[SensorPlan], channel: usize) -> u64 {
    let members = sensors.get(channel).map_or(&[][..], SensorPlan::members);
    let earlier = members.iter().filter(|member| **member < channel);
    let of_members = earlier.fold(0, |set, &member| set | sources(sensors, member));
    if members.is_empty() { 1 << channel } else { of_members }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Cause;
    use crate::decision::fixture::{at, ms, range};

    fn state(trip: Trip, clear: f32) -> RuleState {
        let rule = Rule {
            cause: Cause::Obstacle,
            channel: 0,
            trip,
            clear,
            hold: Span::ZERO,
            retreat: Span::ZERO,
            restraint: Restraint::NoForward,
            latched: false,
        };
        RuleState::new(rule, &[range()])
    }

    fn sample(worst: f32, health: Health) -> Sample {
        // The value is deliberately harmless: a rule that checked it, not the worst case, would fail here.
        Sample { value: 2.0, worst, stamp: Instant::ZERO, health }
    }

    /// Checks each (worst, health, active?) in turn, a millisecond apart.
    fn check(mut state: RuleState, script: &[(f32, Health, bool)]) {
        for (step, &(worst, health, active)) in script.iter().enumerate() {
            let found = state.look(&sample(worst, health), Span::ZERO, at(step as u64));
            assert_eq!(found, active, "step {step}: {worst} {health:?}");
        }
    }

    #[test]
    fn a_rule_trips_at_its_limit_and_clears_at_the_other() {
        use Health::Good;
        let below = [(1.01, Good, false), (1.0, Good, true), (1.2, Good, true), (1.21, Good, false)];
        check(state(Trip::Below(1.0), 1.2), &below);
        let above = [(0.99, Good, false), (1.0, Good, true), (0.8, Good, true), (0.79, Good, false)];
        check(state(Trip::Above(1.0), 0.8), &above);
    }

    #[test]
    fn old_and_refused_samples_trip_but_do_not_clear() {
        use crate::base::fault::ReadingFault::Frozen;
        for poor in [Health::Stale, Health::Bad(Frozen)] {
            let script = [(0.9, poor, true), (3.0, poor, true), (3.0, Health::Good, false)];
            check(state(Trip::Below(1.0), 1.2), &script);
        }
    }

    #[test]
    fn a_missing_value_does_not_trip_and_nan_is_the_worst() {
        check(state(Trip::Below(1.0), 1.2), &[(0.0, Health::Never, false), (f32::NAN, Health::Good, true)]);
        check(
            state(Trip::Above(1.0), 0.8),
            &[(f32::NAN, Health::Stale, true), (f32::NAN, Health::Good, true)],
        );
    }

    #[test]
    fn a_rule_holds_at_least_its_hold_time() {
        let mut state = state(Trip::Below(1.0), 1.2);
        state.rule.hold = ms(50);
        let well = sample(3.0, Health::Good);
        assert!(state.look(&sample(0.5, Health::Good), Span::ZERO, at(100)));
        assert!(state.look(&well, Span::ZERO, at(149)));
        assert!(!state.look(&well, Span::ZERO, at(150)));
    }

    #[test]
    fn only_backing_away_from_an_edge_clears_it() {
        let mut state = state(Trip::Below(1.0), 1.2);
        state.rule.retreat = ms(100);
        let (edge, floor) = (sample(0.5, Health::Good), sample(3.0, Health::Good));
        assert!(state.look(&edge, Span::ZERO, at(0)));
        assert!(state.look(&floor, Span::ZERO, at(600_000)), "waiting does not clear it");
        assert!(state.look(&floor, ms(60), at(600_010)));
        assert!(state.look(&edge, ms(60), at(600_020)), "the edge again: the retreat starts anew");
        assert!(state.look(&floor, ms(60), at(600_030)) && state.look(&floor, ms(39), at(600_040)));
        assert!(state.look(&sample(3.0, Health::Stale), ms(1), at(600_050)), "and the sensor must be good");
        assert!(!state.look(&floor, Span::ZERO, at(600_060)));
        // A release waives the retreat; the edge itself still counts.
        assert!(state.look(&edge, Span::ZERO, at(600_070)));
        state.release();
        assert!(!state.look(&floor, Span::ZERO, at(600_080)));
        state.look(&edge, Span::ZERO, at(600_090));
        state.release();
        assert!(state.look(&edge, Span::ZERO, at(600_100)) && state.look(&floor, Span::ZERO, at(600_110)));
    }

    #[test]
    fn a_latch_lasts_past_its_cause_until_released() {
        let mut state = state(Trip::Below(1.0), 1.2);
        state.rule.latched = true;
        let (near, far) = (sample(0.5, Health::Good), sample(3.0, Health::Good));
        assert!(state.look(&near, Span::ZERO, at(0)));
        assert!(state.look(&far, Span::ZERO, at(10_000)) && state.is_latched());
        state.release();
        assert!(!state.look(&far, Span::ZERO, at(10_001)));
        // A rule that is released while its cause is still there latches again in the same slot.
        assert!(state.look(&near, Span::ZERO, at(10_002)));
        state.release();
        assert!(state.look(&near, Span::ZERO, at(10_003)) && state.is_latched());
    }

    /// A rule on the last of `sensors` that trips at 1 or below.
    fn last_of(sensors: &[SensorPlan]) -> RuleState {
        let rule = Rule { channel: sensors.len() - 1, ..state(Trip::Below(1.0), 1.2).rule };
        RuleState::new(rule, sensors)
    }

    fn least_of(members: &[usize]) -> SensorPlan {
        SensorPlan { kind: crate::decision::fixture::least(members), ..range() }
    }

    #[test]
    fn a_rule_reads_its_channel_or_all_members_of_least() {
        let frame = Frame::empty(5);
        let met = |state: &RuleState, channel| {
            let mut state = *state;
            state.observe(&frame, channel, 0.5, at(0));
            state.is_tripped()
        };
        let own = last_of(&[range(), range(), range()]);
        assert_eq!([0, 1, 2, 3].map(|channel| met(&own, channel)), [false, false, true, false]);
        // The minimum of channel 0 and channel 2, the minimum of channels 0 and 1: channel 0 occurs twice.
        let nested = last_of(&[range(), range(), least_of(&[0, 1]), least_of(&[0, 2])]);
        assert_eq!([0, 1, 2, 3].map(|channel| met(&nested, channel)), [true, true, false, false]);
        // A minimum that is its own member is handled too; a checked board has none.
        let mut itself = last_of(&[range(), least_of(&[0, 1])]);
        itself.observe(&frame, 0, 0.5, at(0));
        assert!(itself.is_tripped());
    }

    #[test]
    fn least_is_above_a_limit_only_if_all_members_are() {
        let mut sensors = vec![range(), range(), range()];
        sensors.push(least_of(&[1, 2]));
        let rule = Rule { trip: Trip::Above(1.0), channel: 3, ..state(Trip::Below(0.0), 0.8).rule };
        let mut frame = Frame::empty(4);
        let good = |value| Sample { value, ..sample(value, Health::Good) };
        for (first, second, trips) in [(Some(2.0), 0.5, false), (None, 2.0, false), (Some(2.0), 2.0, true)] {
            frame.samples[1] = first.map_or(Sample::NEVER, good);
            let mut state = RuleState::new(rule, &sensors);
            state.observe(&frame, 2, second, at(0));
            assert_eq!(state.is_tripped(), trips, "{first:?} and {second}");
        }
    }
}
