//! Readings into the frame: what is believed, how old it gets, and what the field is fed from it.
//!
//! A reading is admitted, refused (the last good value stays and goes on ageing, the fault stands
//! beside it) or ignored (it is older than what is known, or names no channel). Everything that is
//! not admitted has a counter. Ageing moves every value towards the worst that may have become true
//! since: that is what reflexes look at. Channels that are computed from others are filled in here too.
//!
//! Nothing here reads a device, decides about motion, or knows what a reflex is.

use crate::board::plan::{Scale, SensorPlan};
use crate::command::{Command, MAX_MOTORS};
use crate::device::SensorKind;
use crate::frame::{Fault, Frame, Health, MAX_SENSORS, Reading, Sample};
use crate::time::{Instant, Span};

/// Kinds of refusal that are counted apart, in the order of [`SensorCounters::refused`].
pub const REFUSALS: [&str; 6] = ["bus", "timeout", "out-of-range", "not-finite", "frozen", "dead-bytes"];

/// Place of a fault in [`REFUSALS`].
pub const fn refusal(fault: Fault) -> usize {
    match fault {
        Fault::Bus(_) => 0,
        Fault::Timeout => 1,
        Fault::OutOfRange => 2,
        Fault::NotFinite => 3,
        Fault::Frozen => 4,
        Fault::DeadBytes => 5,
    }
}

/// What became of the readings of one sensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SensorCounters {
    /// Readings that were believed.
    pub admitted: u64,
    /// Readings that were refused, by kind (see [`REFUSALS`]).
    pub refused: [u64; REFUSALS.len()],
    /// Times that it became stale.
    pub stale: u64,
    /// Readings that were ignored because a newer one had been seen.
    pub out_of_order: u64,
    /// Readings from the future, whose stamp was set back to the present.
    pub from_future: u64,
}

/// What the field is fed, in one number each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Entries that were written.
    pub used: usize,
    /// Of these, how many do not stand on a good sample.
    pub untrusted: usize,
}

/// Where a channel's value comes from, as far as this file cares.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// Readings.
    Readings,
    /// The last command of a motor.
    Motor(usize),
    /// The smallest of other channels, a bit each.
    Least(u64),
}

const _: () = assert!(MAX_SENSORS <= u64::BITS as usize, "a set of channels is a u64");

/// One sensor: its limits and what is remembered of it.
#[derive(Clone, Copy, Debug)]
struct Channel {
    origin: Origin,
    max_age: Span,
    valid: [f32; 2],
    frozen_after: Option<u32>,
    worst_per_s: f32,
    input: Option<Scale>,
    /// Stamp of the newest reading, refused ones included.
    newest: Option<Instant>,
    /// Bits of the newest value, how often it came in a row, and when first.
    bits: u32,
    repeats: u32,
    first: Instant,
    counters: SensorCounters,
}

impl Channel {
    fn new(plan: &SensorPlan) -> Channel {
        let origin = match &plan.kind {
            SensorKind::MotorEcho { motor } => Origin::Motor(*motor),
            SensorKind::Least { of } => Origin::Least(of.iter().fold(0, |set, &channel| set | 1 << channel)),
            _ => Origin::Readings,
        };
        Channel {
            origin,
            max_age: plan.max_age,
            valid: plan.valid,
            frozen_after: plan.frozen_after,
            worst_per_s: plan.worst_per_s,
            input: plan.input,
            newest: None,
            bits: 0,
            repeats: 0,
            first: Instant::ZERO,
            counters: SensorCounters::default(),
        }
    }

    /// Notes that `value` came again or that another one did.
    fn compare(&mut self, value: f32, stamp: Instant) {
        if self.repeats > 0 && value.to_bits() == self.bits {
            self.repeats = self.repeats.saturating_add(1);
        } else {
            (self.bits, self.repeats, self.first) = (value.to_bits(), 1, stamp);
        }
    }

    /// The value, if it may be believed.
    fn judge(&self, value: f32) -> Result<f32, Fault> {
        let [low, high] = self.valid;
        if !value.is_finite() {
            Err(Fault::NotFinite)
        } else if !(low..=high).contains(&value) {
            Err(Fault::OutOfRange)
        } else if self.frozen_after.is_some_and(|limit| self.repeats >= limit) {
            Err(Fault::Frozen)
        } else {
            Ok(value)
        }
    }

    /// The worst that `value` may have become in `age`.
    fn worst(&self, value: f32, age: Span) -> f32 {
        let [low, high] = self.valid;
        let moved = value + self.worst_per_s * age.as_secs_f64() as f32;
        moved.clamp(low.min(value), high.max(value))
    }

    /// The same sample, older.
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

    /// What goes to the field, on its scale: a good value as it is, an old one as its worst case, and
    /// the middle of the scale where there has never been a value.
    fn input(&self, scale: &Scale, sample: &Sample) -> f32 {
        let scaled = match sample.health {
            Health::Never => 0.0,
            Health::Good => scale.apply(sample.value),
            Health::Stale | Health::Bad(_) => scale.apply(sample.worst),
        };
        if scaled.is_finite() { scaled } else { 0.0 }
    }
}

/// Admission of all channels of a board.
#[derive(Clone, Debug)]
pub struct Admission {
    channels: heapless::Vec<Channel, MAX_SENSORS>,
    misdirected: u64,
}

impl Admission {
    /// Admission for `sensors`, with nothing read.
    ///
    /// # Panics
    /// If there are more than [`MAX_SENSORS`]: the board check refuses that.
    pub fn new(sensors: &[SensorPlan]) -> Admission {
        assert!(sensors.len() <= MAX_SENSORS, "the board check limits the number of sensors");
        Admission { channels: sensors.iter().map(Channel::new).collect(), misdirected: 0 }
    }

    /// Takes `reading` into `frame`.
    pub fn admit(&mut self, frame: &mut Frame, reading: &Reading, now: Instant) {
        let index = usize::from(reading.channel);
        let Some(channel) = self.channels.get_mut(index).filter(|c| matches!(c.origin, Origin::Readings))
        else {
            self.misdirected += 1;
            return;
        };
        let mut stamp = reading.stamp;
        if stamp > now {
            channel.counters.from_future += 1;
            stamp = now;
        }
        if channel.newest.is_some_and(|newest| stamp < newest) {
            channel.counters.out_of_order += 1;
            return;
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
            }
            Err(fault) => {
                channel.counters.refused[refusal(fault)] += 1;
                if sample.health == Health::Never {
                    return; // there is no last good value to hold
                }
                sample.health = Health::Bad(fault);
                if fault == Fault::Frozen {
                    // All that is known for sure is when the value was new.
                    sample.stamp = sample.stamp.min(channel.first);
                }
            }
        }
    }

    /// Makes every sample as old as it is at `now`, and fills in the computed channels; `last` is
    /// the newest command.
    pub fn age(&mut self, frame: &mut Frame, last: &Command, now: Instant) {
        for index in 0..self.channels.len().min(frame.len) {
            // Members of a `Least` come earlier in the list, so they are done when it is their turn.
            frame.samples[index] = match self.channels[index].origin {
                Origin::Readings => self.channels[index].aged(&frame.samples[index], now),
                Origin::Motor(motor) => echo(last, motor, now),
                Origin::Least(members) => self.least(frame, members, index, now),
            };
        }
    }

    /// Writes the field's inputs in board order, each within -1..=1; the rest of `out` is 0.
    pub fn inputs(&self, frame: &Frame, out: &mut [f32; MAX_SENSORS]) -> Inputs {
        *out = [0.0; MAX_SENSORS];
        let mut inputs = Inputs::default();
        for (channel, sample) in self.channels.iter().zip(frame.used()) {
            let Some(scale) = &channel.input else { continue };
            out[inputs.used] = channel.input(scale, sample);
            inputs.used += 1;
            inputs.untrusted += usize::from(sample.health != Health::Good);
        }
        inputs
    }

    /// What became of the readings, by channel.
    pub fn counters(&self) -> impl ExactSizeIterator<Item = &SensorCounters> {
        self.channels.iter().map(|channel| &channel.counters)
    }

    /// Readings that named no channel that takes any.
    pub fn misdirected(&self) -> u64 {
        self.misdirected
    }

    /// The smallest of `members`: as old as the oldest of them and no better than the worst.
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

/// What a motor was last told, as a sample.
fn echo(last: &Command, motor: usize, now: Instant) -> Sample {
    let value = if motor < MAX_MOTORS { last.motors[motor] } else { 0.0 };
    Sample { value, worst: value, stamp: now, health: Health::Good }
}

/// The less trustworthy of two.
fn worse(a: Health, b: Health) -> Health {
    let rank = |health| match health {
        Health::Good => 0,
        Health::Stale => 1,
        Health::Bad(_) => 2,
        Health::Never => 3,
    };
    if rank(b) > rank(a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::plan::Curve;
    use crate::bus::BusFault;
    use crate::fixture::{at, ms, range};

    const STILL: Command = Command::still(2);

    /// One board's admission and frame, fed at chosen moments.
    struct Desk {
        admission: Admission,
        frame: Frame,
    }

    impl Desk {
        fn new(sensors: &[SensorPlan]) -> Desk {
            Desk { admission: Admission::new(sensors), frame: Frame::empty(sensors.len()) }
        }
        fn read(&mut self, value: Result<f32, Fault>, stamp: u64) -> Sample {
            let reading = Reading { channel: 0, value, stamp: at(stamp) };
            self.admission.admit(&mut self.frame, &reading, at(stamp));
            self.frame.samples[0]
        }
        fn age(&mut self, now: u64) -> Sample {
            self.admission.age(&mut self.frame, &STILL, at(now));
            self.frame.samples[0]
        }
        fn counters(&self, channel: usize) -> SensorCounters {
            *self.admission.counters().nth(channel).unwrap()
        }
    }

    fn close(a: f32, b: f32) -> bool {
        (a - b).abs() < 1e-5
    }

    #[test]
    fn a_refused_reading_leaves_the_last_good_value_and_its_age() {
        let refused = [
            (Ok(f32::NAN), Fault::NotFinite),
            (Ok(f32::INFINITY), Fault::NotFinite),
            (Ok(4.001), Fault::OutOfRange),
            (Ok(-0.001), Fault::OutOfRange),
            (Err(Fault::DeadBytes), Fault::DeadBytes),
            (Err(Fault::Timeout), Fault::Timeout),
            (Err(Fault::Bus(BusFault::Nack)), Fault::Bus(BusFault::Nack)),
        ];
        for (reading, fault) in refused {
            let mut desk = Desk::new(&[range()]);
            desk.read(Ok(1.0), 10);
            let sample = desk.read(reading, 20);
            assert_eq!((sample.health, sample.stamp), (Health::Bad(fault), at(10)));
            assert!(close(sample.value, 1.0));
            assert!(close(desk.age(110).worst, 0.95), "a refused reading must not stop the ageing");
            let mut expected = SensorCounters { admitted: 1, ..SensorCounters::default() };
            expected.refused[refusal(fault)] = 1;
            assert_eq!(desk.counters(0), expected);
            assert_eq!(desk.read(Ok(1.2), 30).health, Health::Good);
        }
    }

    #[test]
    fn without_a_good_reading_there_is_no_value() {
        let mut desk = Desk::new(&[range()]);
        assert_eq!(desk.read(Ok(f32::NAN), 10).health, Health::Never);
        assert_eq!(desk.age(5_000).health, Health::Never);
        assert_eq!(desk.counters(0).refused[refusal(Fault::NotFinite)], 1);
    }

    #[test]
    fn a_value_ages_to_the_end_of_its_range_and_no_further() {
        let mut desk = Desk::new(&[range()]);
        desk.read(Ok(1.0), 0);
        for (now, worst, health) in [
            (0, 1.0, Health::Good),
            (200, 0.9, Health::Good),
            (201, 0.8995, Health::Stale),
            (1_000, 0.5, Health::Stale),
            (9_000, 0.0, Health::Stale),
        ] {
            let sample = desk.age(now);
            assert!(close(sample.worst, worst), "{} at {now} ms", sample.worst);
            assert_eq!((sample.health, sample.stamp), (health, at(0)));
        }
        assert_eq!(desk.counters(0).stale, 1, "one episode, however often it is looked at");
        desk.read(Ok(1.0), 9_000);
        desk.age(9_500);
        assert_eq!(desk.counters(0).stale, 2);
    }

    #[test]
    fn worst_may_be_upwards() {
        let mut desk = Desk::new(&[SensorPlan { worst_per_s: 2.0, ..range() }]);
        desk.read(Ok(1.0), 0);
        assert!(close(desk.age(500).worst, 2.0));
        assert!(close(desk.age(5_000).worst, 4.0));
    }

    #[test]
    fn frozen_is_refused_only_where_the_board_says_so_and_counts_from_when_it_was_new() {
        let mut patient = Desk::new(&[range()]);
        let mut strict = Desk::new(&[SensorPlan { frozen_after: Some(3), ..range() }]);
        for step in 0..10 {
            assert_eq!(patient.read(Ok(1.0), 10 * step).health, Health::Good);
            let sample = strict.read(Ok(1.0), 10 * step);
            let expected = if step < 2 { Health::Good } else { Health::Bad(Fault::Frozen) };
            assert_eq!(sample.health, expected, "reading {step}");
            assert!(step < 2 || sample.stamp == at(0), "it may have lied since the value was new");
        }
        assert_eq!(strict.counters(0).refused[refusal(Fault::Frozen)], 8);
        assert_eq!(strict.read(Ok(1.0 + f32::EPSILON), 100).health, Health::Good, "a bit is enough");
    }

    #[test]
    fn faults_between_do_not_hide_a_frozen_sensor() {
        let mut desk = Desk::new(&[SensorPlan { frozen_after: Some(3), ..range() }]);
        for step in 0..3 {
            desk.read(Ok(1.0), 20 * step);
            desk.read(Err(Fault::Timeout), 20 * step + 10);
        }
        assert_eq!(desk.counters(0).refused[refusal(Fault::Frozen)], 1);
    }

    #[test]
    fn time_goes_one_way() {
        let mut desk = Desk::new(&[range()]);
        desk.read(Ok(1.0), 50);
        desk.read(Err(Fault::Timeout), 60);
        let late = Reading { channel: 0, value: Ok(3.0), stamp: at(55) };
        desk.admission.admit(&mut desk.frame, &late, at(70));
        assert_eq!(desk.frame.samples[0].health, Health::Bad(Fault::Timeout), "older than the newest news");
        let early = Reading { channel: 0, value: Ok(2.0), stamp: at(500) };
        desk.admission.admit(&mut desk.frame, &early, at(80));
        assert_eq!(desk.frame.samples[0].stamp, at(80), "a future stamp must not keep it young");
        let counters = desk.counters(0);
        assert_eq!((counters.out_of_order, counters.from_future, counters.admitted), (1, 1, 2));
    }

    #[test]
    fn readings_for_no_channel_are_counted_and_harmless() {
        let echo = SensorPlan { kind: SensorKind::MotorEcho { motor: 1 }, ..range() };
        let mut desk = Desk::new(&[echo]);
        for channel in [0, 1, 255] {
            let reading = Reading { channel, value: Ok(1.0), stamp: at(1) };
            desk.admission.admit(&mut desk.frame, &reading, at(1));
        }
        assert_eq!(desk.admission.misdirected(), 3);
        assert_eq!(desk.frame.samples[0].health, Health::Never);
    }

    #[test]
    fn a_motor_is_echoed_as_it_was_commanded() {
        let echo = SensorPlan { kind: SensorKind::MotorEcho { motor: 1 }, ..range() };
        let mut desk = Desk::new(&[echo]);
        let mut command = STILL;
        command.motors[1] = -0.25;
        desk.admission.age(&mut desk.frame, &command, at(30));
        let sample = desk.frame.samples[0];
        assert!(close(sample.value, -0.25) && close(sample.worst, -0.25));
        assert_eq!((sample.stamp, sample.health), (at(30), Health::Good));
    }

    #[test]
    fn the_least_of_channels_is_no_better_than_its_worst_member() {
        let least = SensorPlan { kind: SensorKind::Least { of: vec![0, 2] }, ..range() };
        let mut desk = Desk::new(&[range(), range(), range(), least]);
        let read = |desk: &mut Desk, channel, value, stamp| {
            let reading = Reading { channel, value, stamp: at(stamp) };
            desk.admission.admit(&mut desk.frame, &reading, at(stamp));
            desk.age(stamp);
            desk.frame.samples[3]
        };
        assert_eq!(read(&mut desk, 0, Ok(2.0), 10).health, Health::Never, "a member was never read");
        read(&mut desk, 1, Ok(0.1), 20);
        let sample = read(&mut desk, 2, Ok(3.0), 30);
        assert_eq!((sample.health, sample.stamp), (Health::Good, at(10)));
        assert!(close(sample.value, 2.0), "channel 1 is no member");
        let sample = read(&mut desk, 2, Err(Fault::Timeout), 40);
        assert_eq!(sample.health, Health::Bad(Fault::Timeout));
        let sample = read(&mut desk, 2, Ok(1.0), 211);
        assert_eq!((sample.health, sample.stamp), (Health::Stale, at(10)));
        assert!(close(sample.value, 1.0) && close(sample.worst, 1.0 - 0.5 * 0.201));
    }

    #[test]
    fn the_least_has_limits_of_its_own_beside_its_members() {
        let of = vec![0];
        let least =
            SensorPlan { kind: SensorKind::Least { of }, worst_per_s: 0.0, max_age: ms(50), ..range() };
        let quick = SensorPlan { worst_per_s: -2.0, ..least.clone() };
        let mut desk = Desk::new(&[range(), least, quick]);
        desk.read(Ok(1.0), 0);
        desk.age(100);
        let [member, least, quick] = [0, 1, 2].map(|channel| desk.frame.samples[channel]);
        assert_eq!([member.health, least.health, quick.health], [Health::Good, Health::Stale, Health::Stale]);
        assert!(close(least.worst, member.worst) && close(member.worst, 0.95), "as bad as its member");
        assert!(close(quick.worst, 0.8), "and as its own ageing");
        assert_eq!((desk.counters(1).stale, desk.counters(0).stale), (1, 0));
    }

    #[test]
    fn the_field_is_fed_in_board_order_and_never_an_old_value_as_new() {
        let scale = Some(Scale { low: 0.0, high: 4.0, curve: Curve::Linear });
        let fed = SensorPlan { input: scale, ..range() };
        let mut desk = Desk::new(&[fed.clone(), range(), fed.clone(), fed]);
        for (channel, stamp) in [(0, 1_000), (1, 1_000), (2, 0)] {
            let reading = Reading { channel, value: Ok(3.0), stamp: at(stamp) };
            desk.admission.admit(&mut desk.frame, &reading, at(1_000));
        }
        desk.age(1_000);
        let mut inputs = [f32::NAN; MAX_SENSORS];
        let fed = desk.admission.inputs(&desk.frame, &mut inputs);
        assert_eq!(fed, Inputs { used: 3, untrusted: 2 });
        assert!(close(inputs[0], 0.5), "3 of 4 m, good");
        assert!(close(inputs[1], 0.25), "a second old: 2.5 m at worst");
        assert!(inputs[2..].iter().all(|&input| close(input, 0.0)), "nothing known, and the rest");
    }

    #[test]
    fn a_scale_without_width_feeds_no_nan() {
        let flat = Some(Scale { low: 1.0, high: 1.0, curve: Curve::Linear });
        let mut desk = Desk::new(&[SensorPlan { input: flat, ..range() }]);
        desk.read(Ok(1.0), 0);
        let mut inputs = [0.0; MAX_SENSORS];
        desk.admission.inputs(&desk.frame, &mut inputs);
        assert!(inputs[0].is_finite());
    }

    #[test]
    fn ageing_in_steps_is_ageing_at_once() {
        let (mut often, mut once) = (Desk::new(&[range()]), Desk::new(&[range()]));
        often.read(Ok(2.0), 0);
        once.read(Ok(2.0), 0);
        let mut before = f32::INFINITY;
        for now in (0..3_000).step_by(7) {
            let worst = often.age(now).worst;
            assert!(worst <= before);
            before = worst;
        }
        assert_eq!(often.age(3_000).worst.to_bits(), once.age(3_000).worst.to_bits());
    }
}
