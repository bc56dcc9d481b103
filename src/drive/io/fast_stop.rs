//! Detects readings that cannot wait for the tick: values that trip a rule which forbids driving on. The
//! rules are the board's reflex rules; `reflex/` decides whether they hold, latch or clear. This module
//! reports each crossing of a limit once.

use crate::base::plan::{Cause, Restraint, Rule, SensorPlan};

/// One rule on one channel.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    channel: u8,
    rule: Rule,
    valid: [f32; 2],
    tripped: bool,
}

/// The rules that stop at once, for the channels of one worker.
#[derive(Clone, Debug, Default)]
pub struct FastStops {
    crossings: Vec<Crossing>,
}

impl FastStops {
    /// The rules among `rules` that forbid driving forwards on one of `channels`; `sensors` are the board's.
    pub fn of(rules: &[Rule], sensors: &[SensorPlan], channels: impl IntoIterator<Item = u8>) -> FastStops {
        let mut crossings = Vec::new();
        for channel in channels {
            let Some(sensor) = sensors.get(usize::from(channel)) else { continue };
            let stops = |rule: &&Rule| {
                rule.channel == usize::from(channel)
                    && matches!(rule.restraint, Restraint::Still | Restraint::NoForward)
            };
            let of_channel = rules.iter().filter(stops);
            crossings.extend(of_channel.map(|&rule| Crossing {
                channel,
                rule,
                valid: sensor.valid,
                tripped: false,
            }));
        }
        FastStops { crossings }
    }

    /// The worst cause among the rules that this reading newly trips; an impossible value trips none.
    pub fn look(&mut self, channel: u8, value: f32) -> Option<Cause> {
        let of_channel = self.crossings.iter_mut().filter(|crossing| crossing.channel == channel);
        of_channel.filter_map(|crossing| crossing.look(value).then_some(crossing.rule.cause)).max()
    }
}

impl Crossing {
    /// Whether `value` crosses the limit.
    fn look(&mut self, value: f32) -> bool {
        if !(self.valid[0]..=self.valid[1]).contains(&value) {
            return false; // NaN is in no range
        }
        let trip = self.rule.trip;
        let crosses = trip.trips(value) && !self.tripped;
        self.tripped = trip.trips(value) || (self.tripped && !trip.clears(value, self.rule.clear));
        crosses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Trip;
    use crate::base::time::Span;
    use crate::decision::fixture::range;

    fn rule(cause: Cause, trip: Trip, clear: f32, restraint: Restraint) -> Rule {
        Rule {
            cause,
            channel: 0,
            trip,
            clear,
            hold: Span::ZERO,
            retreat: Span::ZERO,
            restraint,
            latched: false,
        }
    }

    #[test]
    fn each_crossing_stops_once_and_impossible_values_never() {
        let near = rule(Cause::Obstacle, Trip::Below(0.5), 0.6, Restraint::NoForward);
        let mut fast_stops = FastStops::of(&[near], &[range()], [0]);
        let script = [
            (1.0, false),
            (0.5, true),
            (0.4, false),
            (0.55, false), // between limit and clear: still the same crossing
            (0.45, false),
            (0.61, false),
            (-1.0, false), // outside the sensor's range
            (f32::NAN, false),
            (5.0, false),
            (0.3, true),
        ];
        for (step, (value, crosses)) in script.into_iter().enumerate() {
            assert_eq!(fast_stops.look(0, value).is_some(), crosses, "step {step}: {value}");
        }
    }

    #[test]
    fn only_rules_that_stop_on_channels_of_this_worker_count() {
        let slow = rule(Cause::Obstacle, Trip::Below(2.0), 2.1, Restraint::Slow(0.4));
        let still = rule(Cause::EStop, Trip::Above(1.0), 0.4, Restraint::Still);
        let far = rule(Cause::Cliff, Trip::Above(1.5), 1.4, Restraint::NoForward);
        let mut fast_stops = FastStops::of(&[slow, still, far], &[range()], [0]);
        assert_eq!(fast_stops.look(0, 1.0), Some(Cause::EStop));
        assert_eq!(fast_stops.look(0, 3.0), Some(Cause::Cliff), "each rule counts its own crossings");
        assert_eq!(fast_stops.look(1, 3.0), None);
        assert_eq!(FastStops::of(&[still], &[range()], [3]).look(0, 1.0), None);
        let both = [still, rule(Cause::Cliff, Trip::Above(1.0), 0.5, Restraint::Still)];
        assert_eq!(
            FastStops::of(&both, &[range()], [0]).look(0, 2.0),
            Some(Cause::EStop),
            "the worst is named"
        );
    }
}
