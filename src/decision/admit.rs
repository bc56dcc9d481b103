//! Admission of readings into the frame: which readings are believed, how samples age, and what the field
//! gets.
//!
//! A reading is admitted, refused (the last good value stays, is marked with the fault and keeps ageing) or
//! ignored (it is older than the newest known one, or names no channel). Every reading that is not admitted
//! is counted. Ageing moves each value towards the worst value it may have reached since; reflexes use that
//! worst case. When a sensor is lost, the field gets its last good value for another [`HELD`], and after that
//! the worst case. Channels computed from others are also filled in here.
//!
//! This module reads no device, makes no decision about motion, and does not know what a reflex is.

use crate::base::command::{Command, MAX_MOTORS};
use crate::base::fault::ReadingFault;
use crate::base::frame::{Frame, Health, MAX_SENSORS, Reading, Sample};
use crate::base::plan::{ComputedSensor, Rails, Scale, SensorKind, SensorPlan};
use crate::base::time::{Instant, Span};
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};

/// How long the field still gets a sensor's last good value after that value has become too old for a reflex:
/// half a second, the longest drop-out that was measured (docs/measurements.md). A reflex must assume the
/// worst case, but the worst case is unlikely: a field that got it as input backed off for no reason.
pub const HELD: Span = Span::from_millis(500);

/// Kinds of refusal that are counted separately, in the order of [`SensorCounters::refused`].
pub const REFUSALS: [&str; 6] = ["bus", "timeout", "out-of-range", "not-finite", "frozen", "dead-bytes"];

/// Index of a fault in [`REFUSALS`].
pub const fn refusal(fault: ReadingFault) -> usize {
    match fault {
        ReadingFault::Bus(_) => 0,
        ReadingFault::Timeout => 1,
        ReadingFault::OutOfRange => 2,
        ReadingFault::NotFinite => 3,
        ReadingFault::Frozen => 4,
        ReadingFault::DeadBytes => 5,
    }
}

/// A sound sensor may have this many readings refused: a ranger's first poll comes before its first range.
pub const REFUSED_IF_SOUND: u64 = 1;

/// What happened to the readings of one sensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SensorCounters {
    /// Readings that were admitted.
    pub admitted: u64,
    /// Readings that were refused, by kind (see [`REFUSALS`]).
    pub refused: [u64; REFUSALS.len()],
    /// How often the sensor became stale.
    pub stale: u64,
    /// Readings that were ignored because a newer one was already known.
    pub out_of_order: u64,
    /// Readings from the future, whose stamp was set back to the current time.
    pub from_future: u64,
}

/// Counts of the inputs that the field gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Entries written.
    pub used: usize,
    /// Entries that are not based on a good sample.
    pub untrusted: usize,
    /// Entries that are held last good values; they count as untrusted too.
    pub held: usize,
}

/// The source of a channel's value.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// Readings.
    Readings,
    /// The last command of a motor.
    Motor(usize),
    /// The smallest value of a set of other channels, which has one bit per channel.
    Least(u64),
}

const _: () = assert!(MAX_SENSORS <= u64::BITS as usize, "a set of channels is a u64");

/// One sensor: its limits and its history.
#[derive(Clone, Copy, Debug)]
struct Channel {
    origin: Origin,
    max_age: Span,
    valid: [f32; 2],
    frozen_after: Option<u32>,
    /// Ends of its converter's range, where a working sensor repeats its value.
    rails: Option<Rails>,
    worst_per_s: f32,
    input: Option<Scale>,
    /// Age of its sample when the frame was last aged.
    age: Span,
    /// Stamp of the newest reading, including refused ones.
    newest: Option<Instant>,
    /// Bits of the newest value, how many times in a row it was read, and when it was first read.
    bits: u32,
    repeats: u32,
    first: Instant,
    counters: SensorCounters,
}

impl Channel {
    fn new(plan: &SensorPlan) -> Channel {
        let origin = match &plan.kind {
            SensorKind::Computed(ComputedSensor::MotorEcho { motor }) => Origin::Motor(*motor),
            SensorKind::Computed(ComputedSensor::Least { of }) => {
                Origin::Least(of.iter().fold(0, |set, &channel| set | 1 << channel))
            }
            SensorKind::Computed(ComputedSensor::Recall { .. })
            | SensorKind::Chip(_)
            | SensorKind::Lines(_)
            | SensorKind::File(_)
            | SensorKind::LogColumn { .. } => Origin::Readings,
        };
        Channel {
            origin,
            max_age: plan.max_age,
            valid: plan.valid,
            frozen_after: plan.frozen_after,
            rails: plan.kind.rails(),
            worst_per_s: plan.worst_per_s,
            input: plan.input,
            age: Span::ZERO,
            newest: None,
            bits: 0,
            repeats: 0,
            first: Instant::ZERO,
            counters: SensorCounters::default(),
        }
    }

    /// Records whether `value` repeats the previous one.
    fn compare(&mut self, value: f32, stamp: Instant) {
        if self.repeats > 0 && value.to_bits() == self.bits {
            self.repeats = self.repeats.saturating_add(1);
        } else {
            (self.bits, self.repeats, self.first) = (value.to_bits(), 1, stamp);
        }
    }

    /// The value, if the sensor can return it at all.
    fn possible(&self, value: f32) -> Result<f32, ReadingFault> {
        let [low, high] = self.valid;
        if !value.is_finite() {
            Err(ReadingFault::NotFinite)
        } else if !(low..=high).contains(&value) {
            Err(ReadingFault::OutOfRange)
        } else {
            Ok(value)
        }
    }

    /// The value, if it is credible.
    fn judge(&self, value: f32) -> Result<f32, ReadingFault> {
        let value = self.possible(value)?;
        let frozen = self.frozen_after.is_some_and(|limit| self.repeats >= limit);
        if frozen && !self.at_rail(value) { Err(ReadingFault::Frozen) } else { Ok(value) }
    }

    /// Whether `value` is at a rail, where repeated values do not indicate a dead sensor. The reflexes decide
    /// what the value means; a board that must not believe one end of its converter excludes it from `valid`.
    fn at_rail(&self, value: f32) -> bool {
        self.rails.is_some_and(|rails| rails.cut(value.into()))
    }

    /// The worst value that `value` may have reached after `age`.
    fn worst(&self, value: f32, age: Span) -> f32 {
        let [low, high] = self.valid;
        let moved = value + self.worst_per_s * age.as_secs_f64() as f32;
        moved.clamp(low.min(value), high.max(value))
    }

    /// `sample`, aged to `now`.
    fn aged(&mut self, sample: &Sample, now: Instant) -> Sample {
        let age = now.since(sample.stamp);
        let mut aged = *sample;
        match sample.health {
            Health::Never => return aged,
            Health::Good if age > self.max_age => {
                aged.health = Health::Stale;
                self.counters.stale += 1;
            }
            Health::Good | Health::Stale | Health::Bad(_) => {}
        }
        aged.worst = self.worst(sample.value, age);
        aged
    }

    /// Whether the field gets the last good value of a sample that is no longer good.
    fn holds(&self, sample: &Sample) -> bool {
        match sample.health {
            Health::Never | Health::Good => false,
            Health::Stale | Health::Bad(_) => self.age.less(self.max_age) <= HELD,
        }
    }

    /// The field's input on its scale: a good or held value as it is, an older value as its worst case, or
    /// the middle of the scale if there has never been a value.
    fn input(&self, scale: &Scale, sample: &Sample) -> f32 {
        let scaled = match sample.health {
            Health::Never => 0.0,
            Health::Good => scale.apply(sample.value),
            Health::Stale | Health::Bad(_) if self.holds(sample) => scale.apply(sample.value),
            Health::Stale | Health::Bad(_) => scale.apply(sample.worst),
        };
        if scaled.is_finite() { scaled } else { 0.0 }
    }
}

/// Admission of all channels of a board.
#[derive(Clone, Debug)]
pub struct Admission {
    channels: heapless::Vec<Channel, MAX_SENSORS>,
}

impl Admission {
    /// Admission for `sensors`, before any reading.
    ///
    /// # Panics
    /// If there are more than [`MAX_SENSORS`]: the board check refuses that.
    pub fn new(sensors: &[SensorPlan]) -> Admission {
        assert!(sensors.len() <= MAX_SENSORS, "the board check limits the number of sensors");
        Admission { channels: sensors.iter().map(Channel::new).collect() }
    }

    /// Processes one slot: checks each of `readings` (`frame` keeps the last one of each channel) and ages
    /// all samples to `now`; `last` is the newest command. Calls `met` with each credible reading and the
    /// frame at that moment. After a sleep (`slept`), readings from before it do not count.
    pub fn update(
        &mut self,
        frame: &mut Frame,
        readings: impl IntoIterator<Item = Reading>,
        slept: bool,
        last: &Command,
        now: Instant,
        mut met: impl FnMut(&Frame, u8, f32),
    ) {
        for reading in readings {
            if let Some(value) = self.admit(frame, &reading, now) {
                met(frame, reading.channel, value);
            }
        }
        if slept {
            self.forget(frame, now);
        }
        self.age(frame, last, now);
    }

    /// Takes `reading` into `frame`. Returns its value if it is credible, even if a newer one is already
    /// known: detectors of short events need every value that was once true.
    fn admit(&mut self, frame: &mut Frame, reading: &Reading, now: Instant) -> Option<f32> {
        let index = usize::from(reading.channel);
        let Some(channel) = self.channels.get_mut(index).filter(|c| matches!(c.origin, Origin::Readings))
        else {
            return None; // nothing sends one: the buses' sensors are the board's
        };
        let mut stamp = reading.stamp;
        if stamp > now {
            channel.counters.from_future += 1;
            stamp = now;
        }
        if channel.newest.is_some_and(|newest| stamp < newest) {
            channel.counters.out_of_order += 1;
            return reading.value.ok().filter(|value| channel.possible(*value).is_ok());
        }
        channel.newest = Some(stamp);
        if let Ok(value) = reading.value {
            channel.compare(value, stamp);
        }
        let sample = &mut frame.samples[index];
        match reading.value.and_then(|value| channel.judge(value)) {
            Ok(value) => {
                channel.counters.admitted += 1;
                *sample = Sample { value, worst: value, stamp, health: Health::Good };
                Some(value)
            }
            Err(fault) => {
                channel.counters.refused[refusal(fault)] += 1;
                if sample.health == Health::Never {
                    return None; // there is no last good value to hold
                }
                sample.health = Health::Bad(fault);
                if fault == ReadingFault::Frozen {
                    // The value is certain only for the time when it was new.
                    sample.stamp = sample.stamp.min(channel.first);
                }
                None
            }
        }
    }

    /// Ages every sample to `now`, and fills in the computed channels; `last` is the newest command.
    fn age(&mut self, frame: &mut Frame, last: &Command, now: Instant) {
        for index in 0..self.channels.len().min(frame.len) {
            // Members of a `Least` come earlier in the list, so they are already updated.
            frame.samples[index] = match self.channels[index].origin {
                Origin::Readings => self.channels[index].aged(&frame.samples[index], now),
                Origin::Motor(motor) => echo(last, motor, now),
                Origin::Least(members) => self.least(frame, members, index, now),
            };
            self.channels[index].age = now.since(frame.samples[index].stamp);
        }
    }

    /// The machine slept until `now`. Earlier readings no longer show the current state, nor do readings
    /// still on their way, although their stamps look new on a clock that stopped during the sleep. Repeated
    /// values keep being counted: a sleep does not repair a stuck sensor.
    fn forget(&mut self, frame: &mut Frame, now: Instant) {
        for (channel, sample) in self.channels.iter_mut().zip(&mut frame.samples) {
            channel.newest = Some(now);
            *sample = Sample::NEVER;
        }
    }

    /// Passes the field's inputs to `put` in board order, each within -1..=1. This call is separate, because
    /// the reflexes first change the frame that the field sees: in it, a sensor past an edge keeps its value
    /// from the edge.
    pub fn inputs(&self, frame: &Frame, mut put: impl FnMut(usize, f32)) -> Inputs {
        let mut inputs = Inputs::default();
        for (channel, sample) in self.channels.iter().zip(frame.used()) {
            let Some(scale) = &channel.input else { continue };
            put(inputs.used, channel.input(scale, sample));
            inputs.used += 1;
            inputs.untrusted += usize::from(sample.health != Health::Good);
            inputs.held += usize::from(channel.holds(sample));
        }
        inputs
    }

    /// How many readings were refused, by channel.
    pub fn refused(&self) -> impl Iterator<Item = u64> {
        self.counters().map(|counters| counters.refused.iter().sum())
    }

    /// What happened to the readings, by channel.
    pub fn counters(&self) -> impl ExactSizeIterator<Item = &SensorCounters> {
        self.channels.iter().map(|channel| &channel.counters)
    }

    /// The smallest value of `members`: as old as the oldest of them and no better than the worst of them.
    fn least(&mut self, frame: &Frame, members: u64, index: usize, now: Instant) -> Sample {
        let before = frame.samples[index].health;
        let mut least: Option<Sample> = None;
        for (member, sample) in frame.samples.iter().enumerate().take(index) {
            if members & (1 << member) == 0 {
                continue;
            }
            least = Some(match least {
                None => *sample,
                Some(so_far) => Sample {
                    value: so_far.value.min(sample.value),
                    worst: so_far.worst.min(sample.worst),
                    stamp: so_far.stamp.min(sample.stamp),
                    health: worse(so_far.health, sample.health),
                },
            });
        }
        let channel = &mut self.channels[index];
        let Some(least) = least.filter(|least| least.health != Health::Never) else { return Sample::NEVER };
        let age = now.since(least.stamp);
        let own = channel.worst(least.value, age);
        let worst = if channel.worst_per_s > 0.0 { own.max(least.worst) } else { own.min(least.worst) };
        let too_old = least.health == Health::Good && age > channel.max_age;
        let health = if too_old { Health::Stale } else { least.health };
        channel.counters.stale += u64::from(health == Health::Stale && before != Health::Stale);
        Sample { worst, health, ..least }
    }
}

/// The last command to a motor, as a sample.
fn echo(last: &Command, motor: usize, now: Instant) -> Sample {
    let value = if motor < MAX_MOTORS { last.motors[motor] } else { 0.0 };
    Sample { value, worst: value, stamp: now, health: Health::Good }
}

/// The less trustworthy of the two.
fn worse(a: Health, b: Health) -> Health {
    let rank = |health| match health {
        Health::Good => 0,
        Health::Stale => 1,
        Health::Bad(_) => 2,
        Health::Never => 3,
    };
    if rank(b) > rank(a) { b } else { a }
}

impl Remembers for Admission {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        archive.part("admission");
        let Admission { channels } = self;
        channels.iter_mut().try_for_each(|channel| channel.walk(archive))
    }
}

impl Remembers for Channel {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let Channel {
            origin: _,
            max_age: _,
            valid: _,
            frozen_after: _,
            rails: _,
            worst_per_s: _,
            input: _,
            age,
            newest,
            bits,
            repeats,
            first,
            counters: _,
        } = self;
        remember!(archive: age, newest, bits, repeats, first);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
