//! Which sensors forbid driving: required sensors without a good reading, rules whose limit is passed, rules
//! whose sensor was never read. Uses the bytes on the wire: a value counts as true unless a program could
//! know that it is wrong.

use super::super::tape::NO_TARGET_M;
use super::facts::Facts;
use super::promise::Promise;
use super::retreat::Retreats;
use super::{Breach, Stretch};
use ganglion::base::plan::{
    Cause, ChipSensor, ComputedSensor, MotorKind, Restraint, Rule, SensorKind, SensorPlan, Trip,
};
use ganglion::base::time::{Instant, Span};

/// Two counts of the coarsest duty resolution, for rounding.
const ROUNDING: f32 = 2.0 / 4095.0;

/// One sensor of the board. `wired`: it is hardware; computed sensors are not judged.
#[derive(Clone, Debug)]
struct Sense {
    wired: bool,
    required: bool,
    max_age: Span,
    valid: [f32; 2],
    frozen_after: Option<u32>,
    /// Values that may repeat: both ends of a 12-bit converter's range, where a clipped signal has no noise,
    /// and a ranger's "nothing in range".
    ends: Option<[f32; 2]>,
    good_at: Option<Instant>,
    /// The last good value.
    value: f32,
    bits: u32,
    repeats: u32,
}

impl Sense {
    fn new(plan: &SensorPlan) -> Sense {
        let wired = !matches!(
            plan.kind,
            SensorKind::Computed(ComputedSensor::MotorEcho { .. })
                | SensorKind::Computed(ComputedSensor::Least { .. })
        );
        Sense {
            wired,
            required: plan.required && wired,
            max_age: plan.max_age,
            valid: plan.valid,
            frozen_after: plan.frozen_after,
            ends: match plan.kind {
                SensorKind::Chip(ChipSensor::HatAdc { per_count, .. }) => Some([0.0, 4095.0 * per_count]),
                SensorKind::Chip(ChipSensor::Vl53l0x { .. }) => Some([0.0, NO_TARGET_M]),
                _ => None,
            },
            good_at: None,
            value: 0.0,
            bits: 0,
            repeats: 0,
        }
    }

    /// Whether an answer is plausible: a number, within `valid`, and not the same bits too often, unless the
    /// converter clips the signal.
    fn observe(&mut self, value: f32, at: Instant) -> bool {
        if self.repeats > 0 && value.to_bits() == self.bits {
            self.repeats += 1;
        } else {
            (self.bits, self.repeats) = (value.to_bits(), 1);
        }
        let cut_off = self.ends.is_some_and(|[low, high]| value <= low || value >= high);
        let frozen = !cut_off && self.frozen_after.is_some_and(|limit| self.repeats >= limit);
        let good = (self.valid[0]..=self.valid[1]).contains(&value) && !frozen;
        if good {
            (self.good_at, self.value) = (Some(at), value);
        }
        good
    }
}

/// A row of the reflex table, and the time since which its limit has been passed.
#[derive(Clone, Debug)]
struct Watched {
    rule: Rule,
    tripped_at: Option<Instant>,
    /// When `hold_ms` began to count.
    held_from: Instant,
    /// Set by a good reading beyond `clear`: from this time on, after `hold_ms`, the rule need not stop the
    /// robot.
    free_at: Option<Instant>,
    /// When `free_at` last passed, or when a reading was last between the two limits.
    freed_at: Option<Instant>,
}

impl Watched {
    /// The time since which the rule's limit has been passed, if the rule binds at `at`.
    fn binds(&self, at: Instant) -> Option<Instant> {
        self.tripped_at.filter(|_| self.free_at.is_none_or(|free| at < free))
    }

    /// A good reading; `since`: the earliest moment at which an older one may have passed the limit by aging.
    /// Returns whether it is the first beyond the limit.
    fn observe(&mut self, value: f32, since: Instant, at: Instant, facts: &Facts) -> bool {
        if self.binds(at).is_none() {
            self.freed_at = self.freed_at.max(self.free_at.take());
            self.tripped_at = None;
        }
        let since = match self.freed_at {
            // Readings on both sides of the limit: a loop that last saw a different one of them treats this
            // as an older trip, whose hold may be over.
            Some(freed) if at <= facts.deadline(freed, facts.reaction() + self.rule.hold) => Instant::ZERO,
            _ => since,
        };
        if passes(&self.rule, value) {
            self.free_at = None;
            if self.tripped_at.is_some() {
                return false;
            }
            (self.tripped_at, self.held_from) = (Some(at), since);
            return true;
        }
        if !clears(&self.rule, value) {
            self.freed_at = Some(at); // a reading between the two limits has the same effect
        }
        let held_until = self.tripped_at.map(|_| self.held_from + self.rule.hold);
        self.free_at = held_until.filter(|_| clears(&self.rule, value)).map(|held| held.max(at));
        false
    }
}

/// A rule whose limit has just been passed.
#[derive(Clone, Copy, Debug)]
pub struct Tripped {
    latched: bool,
}

impl Tripped {
    /// Which promise that is.
    pub fn promise(self) -> Promise {
        Promise::Rule
    }
    /// Whether it withdraws the permission to move.
    pub fn latches(self) -> bool {
        self.latched
    }
}

/// All sensors and rules.
#[derive(Debug)]
pub struct Senses {
    senses: Vec<Sense>,
    rules: Vec<Watched>,
    /// Per drive motor: minimum duty, limit.
    drives: Vec<(f32, f32)>,
    /// The retreats that rules demand.
    pub retreats: Retreats,
    /// When the machine last woke: earlier readings prove nothing.
    woke_at: Instant,
    /// Whether a required sensor, and an optional one that has a rule, had been silent for too long.
    pub staled: [bool; 2],
}

impl Senses {
    /// Sensors that were never read.
    pub fn new(facts: &Facts) -> Senses {
        let drives: Vec<(f32, f32)> = facts
            .board
            .motors
            .iter()
            .filter_map(|motor| match motor.kind {
                MotorKind::DcDir { min_duty, .. } | MotorKind::DcPair { min_duty, .. } => {
                    Some((min_duty, motor.limit))
                }
                _ => None,
            })
            .collect();
        // Stop buttons are judged by their presses, which can be shorter than the polling interval.
        let rules = facts.board.reflexes.iter().filter(|rule| rule.cause != Cause::EStop);
        Senses {
            senses: facts.board.sensors.iter().map(Sense::new).collect(),
            rules: rules
                .map(|rule| Watched {
                    rule: *rule,
                    tripped_at: None,
                    held_from: Instant::ZERO,
                    free_at: None,
                    freed_at: None,
                })
                .collect(),
            retreats: Retreats::new(facts, drives.clone()),
            drives,
            woke_at: Instant::ZERO,
            staled: [false; 2],
        }
    }

    /// Takes a sensor's reading. If it trips rules, returns whether one of them is latched.
    pub fn observe(&mut self, sensor: usize, value: f32, at: Instant, facts: &Facts) -> Option<Tripped> {
        let before = self.senses[sensor].good_at;
        let sense = &self.senses[sensor];
        let stale = before.is_some() && self.stale_from(sense, facts).is_some_and(|from| from < at);
        let (required, ruled) =
            (sense.required, self.rules.iter().any(|watched| watched.rule.channel == sensor));
        if !self.senses[sensor].observe(value, at) {
            // Only a good reading clears a rule: the loop's present value is older than the one known here.
            let of_sensor = self.rules.iter_mut().filter(|watched| watched.rule.channel == sensor);
            of_sensor.for_each(|watched| watched.freed_at = Some(at));
            return None;
        }
        self.retreats.observe(sensor, value, at, facts);
        self.staled[usize::from(!required)] |= stale && (required || ruled);
        let ages = facts.board.sensors[sensor].worst_per_s != 0.0;
        // With `worst_per_s`, the worst case of an old value may pass the limit long before a reading does.
        let since = if ages { Instant::ZERO } else { at };
        let mut tripped = None;
        for watched in self.rules.iter_mut().filter(|watched| watched.rule.channel == sensor) {
            if watched.observe(value, since, at, facts) {
                let latched = watched.rule.latched || tripped.is_some_and(Tripped::latches);
                tripped = Some(Tripped { latched });
            }
        }
        tripped
    }

    /// The machine wakes at `at`.
    pub fn wake(&mut self, at: Instant) {
        self.woke_at = at;
    }

    /// Whether a latched rule's limit is passed by its sensor's last good reading since the machine woke.
    pub fn latching(&self) -> bool {
        let latching = |watched: &&Watched| {
            watched.rule.latched
                && self.senses[watched.rule.channel].good_at.is_some_and(|at| at > self.woke_at)
                && self.heard(&watched.rule).is_some_and(|value| passes(&watched.rule, value))
        };
        self.rules.iter().any(|watched| latching(&watched))
    }

    /// Whether some rule's sensor was never read.
    pub fn misses_one(&self) -> bool {
        self.rules
            .iter()
            .any(|watched| self.senses[watched.rule.channel].wired && self.heard(&watched.rule).is_none())
    }

    fn heard(&self, rule: &Rule) -> Option<f32> {
        let sense = &self.senses[rule.channel];
        sense.good_at.map(|_| sense.value)
    }

    /// Whether something here forces a stop at `at`, with every allowance used up.
    pub fn forces(&self, at: Instant, facts: &Facts) -> bool {
        let stale =
            |sense: &Sense| sense.required && self.stale_from(sense, facts).is_some_and(|from| from <= at);
        let rule = |watched: &Watched| {
            matches!(watched.rule.restraint, Restraint::Still)
                && self.obliged_from(watched, at, facts).is_some_and(|(_, from)| from <= at)
        };
        self.senses.iter().any(stale) || self.rules.iter().any(rule)
    }

    /// When the motors must obey the silence of a sensor; at once, if it was never read. Never `None`.
    fn stale_from(&self, sense: &Sense, facts: &Facts) -> Option<Instant> {
        let Some(good_at) = sense.good_at else { return Some(Instant::ZERO) };
        Some(facts.deadline(good_at + sense.max_age, facts.reaction()))
    }

    /// From when on a rule that applies at `at` must be obeyed, and which promise that is.
    fn obliged_from(&self, watched: &Watched, at: Instant, facts: &Facts) -> Option<(Promise, Instant)> {
        if self.senses[watched.rule.channel].wired && self.heard(&watched.rule).is_none() {
            return Some((Promise::NeverRead, Instant::ZERO));
        }
        let bound = watched.binds(at).map(|since| (Promise::Rule, facts.deadline(since, facts.reaction())));
        let sense = &self.senses[watched.rule.channel];
        let silent = || Some((Promise::Silent, self.stale_from(sense, facts).filter(|_| sense.wired)?));
        bound.or_else(silent)
    }

    /// Returns a breach if there was motion that a sensor forbids.
    pub fn check(&self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        self.check_required(stretch, facts)
            .or_else(|| self.check_rules(stretch, facts))
            .or_else(|| self.retreats.check(stretch, facts))
    }

    fn check_required(&self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        for (sense, plan) in self.senses.iter().zip(&facts.board.sensors).filter(|(sense, _)| sense.required)
        {
            // Cheap check first: nearly all readings are recent.
            if sense.good_at.is_some_and(|good| good + sense.max_age + facts.reaction() >= stretch.until) {
                continue;
            }
            let Some(from) = self.stale_from(sense, facts).filter(|from| *from < stretch.until) else {
                continue;
            };
            let last = sense
                .good_at
                .map_or("never".to_string(), |at| format!("{:.4} s", at.as_nanos() as f64 / 1e9));
            let what = format!(
                "`{}` is required; its last good answer: {last}; the currents are {:?}",
                plan.name, stretch.currents
            );
            return Some(Breach { promise: Promise::Required, at: from.max(stretch.from), what });
        }
        None
    }

    fn check_rules(&self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        for watched in &self.rules {
            let sensor = &facts.board.sensors[watched.rule.channel];
            let young = |good: Instant| good + sensor.max_age + facts.reaction() >= stretch.until;
            if watched.tripped_at.is_none() && self.senses[watched.rule.channel].good_at.is_some_and(young) {
                continue;
            }
            if obeyed(&watched.rule.restraint, stretch.currents, &self.drives) {
                continue;
            }
            let Some((promise, from)) = self.obliged_from(watched, stretch.from, facts) else { continue };
            let free_at = watched.free_at.filter(|_| promise == Promise::Rule).unwrap_or(stretch.until);
            if from < free_at.min(stretch.until) {
                let seconds = |at: Option<Instant>| at.map_or(f64::NAN, |at| at.as_nanos() as f64 / 1e9);
                let why = match promise {
                    Promise::Rule => format!("passed its limit at {:.4} s", seconds(watched.tripped_at)),
                    Promise::Silent => {
                        let good_at = self.senses[watched.rule.channel].good_at;
                        format!("gave its last good reading at {:.4} s", seconds(good_at))
                    }
                    _ => "was never read".to_string(),
                };
                let what = format!(
                    "`{}` {why}: {:?}, and the currents are {:?}",
                    sensor.name, watched.rule.restraint, stretch.currents
                );
                return Some(Breach { promise, at: from.max(stretch.from), what });
            }
        }
        None
    }
}

/// Whether these currents are within a restraint; `drives`: per drive motor, minimum duty and limit.
pub fn obeyed(restraint: &Restraint, currents: &[f32], drives: &[(f32, f32)]) -> bool {
    match *restraint {
        Restraint::Free => true,
        Restraint::Still => currents.iter().all(|current| *current == 0.0),
        Restraint::NoForward => currents.iter().all(|current| *current <= 0.0),
        Restraint::Slow(share) => currents.iter().zip(drives).all(|(current, (least, limit))| {
            current.abs() <= least + (1.0 - least) * share.min(*limit) + ROUNDING
        }),
    }
}

/// Whether a value passes the limit of a rule.
pub fn passes(rule: &Rule, value: f32) -> bool {
    match rule.trip {
        Trip::Below(limit) => value <= limit,
        Trip::Above(limit) => value >= limit,
    }
}

fn clears(rule: &Rule, value: f32) -> bool {
    match rule.trip {
        Trip::Below(_) => value > rule.clear,
        Trip::Above(_) => value < rule.clear,
    }
}
