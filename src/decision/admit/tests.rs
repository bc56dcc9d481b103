//! Which readings are believed, how samples age, and what the field gets.

use super::*;
use crate::base::fault::{BusFault, ReadingFault};
use crate::base::plan::{ChipSensor, Curve};
use crate::decision::fixture::{at, least, ms, range};

const STILL: Command = Command::still(2);

/// Admission and frame of one board, which the test feeds at chosen moments.
struct Rig {
    admission: Admission,
    frame: Frame,
}

impl Rig {
    fn new(sensors: &[SensorPlan]) -> Rig {
        Rig { admission: Admission::new(sensors), frame: Frame::empty(sensors.len()) }
    }
    fn read(&mut self, value: Result<f32, ReadingFault>, stamp: u64) -> Sample {
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
        (Ok(f32::NAN), ReadingFault::NotFinite),
        (Ok(f32::INFINITY), ReadingFault::NotFinite),
        (Ok(4.001), ReadingFault::OutOfRange),
        (Ok(-0.001), ReadingFault::OutOfRange),
        (Err(ReadingFault::DeadBytes), ReadingFault::DeadBytes),
        (Err(ReadingFault::Timeout), ReadingFault::Timeout),
        (Err(ReadingFault::Bus(BusFault::Nack)), ReadingFault::Bus(BusFault::Nack)),
    ];
    for (reading, fault) in refused {
        let mut rig = Rig::new(&[range()]);
        rig.read(Ok(1.0), 10);
        let sample = rig.read(reading, 20);
        assert_eq!((sample.health, sample.stamp), (Health::Bad(fault), at(10)));
        assert!(close(sample.value, 1.0));
        assert!(close(rig.age(110).worst, 0.95), "a refused reading must not stop the ageing");
        let mut expected = SensorCounters { admitted: 1, ..SensorCounters::default() };
        expected.refused[refusal(fault)] = 1;
        assert_eq!(rig.counters(0), expected);
        assert_eq!(rig.read(Ok(1.2), 30).health, Health::Good);
    }
}

#[test]
fn without_a_good_reading_there_is_no_value() {
    let mut rig = Rig::new(&[range()]);
    assert_eq!(rig.read(Ok(f32::NAN), 10).health, Health::Never);
    assert_eq!(rig.age(5_000).health, Health::Never);
    assert_eq!(rig.counters(0).refused[refusal(ReadingFault::NotFinite)], 1);
}

#[test]
fn an_aging_value_stops_at_the_end_of_its_range() {
    let mut rig = Rig::new(&[range()]);
    rig.read(Ok(1.0), 0);
    for (now, worst, health) in [
        (0, 1.0, Health::Good),
        (200, 0.9, Health::Good),
        (201, 0.8995, Health::Stale),
        (1_000, 0.5, Health::Stale),
        (9_000, 0.0, Health::Stale),
    ] {
        let sample = rig.age(now);
        assert!(close(sample.worst, worst), "{} at {now} ms", sample.worst);
        assert_eq!((sample.health, sample.stamp), (health, at(0)));
    }
    assert_eq!(rig.counters(0).stale, 1, "one episode counts once, however often it is checked");
    rig.read(Ok(1.0), 9_000);
    rig.age(9_500);
    assert_eq!(rig.counters(0).stale, 2);
}

#[test]
fn the_worst_case_of_an_aging_value_may_be_higher() {
    let mut rig = Rig::new(&[SensorPlan { worst_per_s: 2.0, ..range() }]);
    rig.read(Ok(1.0), 0);
    assert!(close(rig.age(500).worst, 2.0));
    assert!(close(rig.age(5_000).worst, 4.0));
}

#[test]
fn frozen_values_are_refused_only_if_the_board_says_so() {
    let mut patient = Rig::new(&[range()]);
    let mut strict = Rig::new(&[SensorPlan { frozen_after: Some(3), ..range() }]);
    for step in 0..10 {
        assert_eq!(patient.read(Ok(1.0), 10 * step).health, Health::Good);
        let sample = strict.read(Ok(1.0), 10 * step);
        let expected = if step < 2 { Health::Good } else { Health::Bad(ReadingFault::Frozen) };
        assert_eq!(sample.health, expected, "reading {step}");
        assert!(step < 2 || sample.stamp == at(0), "it may have been wrong since the value was new");
    }
    assert_eq!(strict.counters(0).refused[refusal(ReadingFault::Frozen)], 8);
    assert_eq!(
        strict.read(Ok(1.0 + f32::EPSILON), 100).health,
        Health::Good,
        "a change of one bit is enough"
    );
}

/// A reflection sensor reads zero over an edge and full scale in the sun, both without any noise. A run of
/// equal values between these ends means a dead converter.
#[test]
fn a_converter_at_an_end_of_its_scale_is_not_frozen() {
    let adc = |per_count| SensorPlan {
        kind: SensorKind::Chip(ChipSensor::HatAdc { channel: 0, per_count }),
        valid: [0.0, 5_000.0],
        frozen_after: Some(3),
        ..range()
    };
    for per_count in [1.0, 9.9 / 4095.0] {
        for (counts, believed) in [(0.0, true), (1.0, false), (4094.0, false), (4095.0, true)] {
            let mut rig = Rig::new(&[adc(per_count)]);
            for step in 0..10 {
                rig.read(Ok(counts * per_count), 20 * step);
            }
            let frozen = rig.counters(0).refused[refusal(ReadingFault::Frozen)];
            assert_eq!(frozen, if believed { 0 } else { 8 }, "{counts} counts of {per_count}");
        }
    }
}

/// Equal ranges mean a dead ranger, unless they mean that nothing is in range.
#[test]
fn a_ranger_may_repeat_that_nothing_is_in_range() {
    let ranger = SensorPlan {
        kind: SensorKind::Chip(ChipSensor::Vl53l0x { address: 0x29, shutdown: None }),
        valid: [0.03, 1.2],
        frozen_after: Some(3),
        ..range()
    };
    for (metres, refused) in [(0.6, 8), (1.199, 8), (1.2, 0)] {
        let mut rig = Rig::new(std::slice::from_ref(&ranger));
        for step in 0..10 {
            rig.read(Ok(metres), 40 * step);
        }
        assert_eq!(rig.counters(0).refused[refusal(ReadingFault::Frozen)], refused, "{metres} m");
    }
}

#[test]
fn a_first_value_of_zero_counts_as_new() {
    let mut rig = Rig::new(&[SensorPlan { frozen_after: Some(3), ..range() }]);
    for stamp in [500, 510, 520] {
        rig.read(Ok(0.0), stamp);
    }
    assert_eq!(rig.frame.samples[0].health, Health::Bad(ReadingFault::Frozen));
    assert_eq!(
        rig.frame.samples[0].stamp,
        at(500),
        "it was new when it was first read, not when the robot started"
    );
}

#[test]
fn faults_in_between_do_not_hide_a_frozen_sensor() {
    let mut rig = Rig::new(&[SensorPlan { frozen_after: Some(3), ..range() }]);
    for step in 0..3 {
        rig.read(Ok(1.0), 20 * step);
        rig.read(Err(ReadingFault::Timeout), 20 * step + 10);
    }
    assert_eq!(rig.counters(0).refused[refusal(ReadingFault::Frozen)], 1);
}

#[test]
fn readings_older_than_the_last_one_are_ignored() {
    let mut rig = Rig::new(&[range()]);
    rig.read(Ok(1.0), 50);
    rig.read(Err(ReadingFault::Timeout), 60);
    let late = Reading { channel: 0, value: Ok(3.0), stamp: at(55) };
    rig.admission.admit(&mut rig.frame, &late, at(70));
    assert_eq!(
        rig.frame.samples[0].health,
        Health::Bad(ReadingFault::Timeout),
        "older than the newest reading"
    );
    let early = Reading { channel: 0, value: Ok(2.0), stamp: at(500) };
    rig.admission.admit(&mut rig.frame, &early, at(80));
    assert_eq!(rig.frame.samples[0].stamp, at(80), "a future stamp must not keep a sample fresh");
    let counters = rig.counters(0);
    assert_eq!((counters.out_of_order, counters.from_future, counters.admitted), (1, 1, 2));
}

#[test]
fn a_late_valid_reading_is_still_reported_for_its_own_time() {
    let mut rig = Rig::new(&[SensorPlan { frozen_after: Some(2), ..range() }]);
    let script = [
        (Ok(1.0), 50, Some(1.0)),
        (Ok(0.2), 40, Some(0.2)), // older than the known value, but true for its time
        (Ok(4.1), 40, None),
        (Ok(f32::NAN), 40, None),
        (Err(ReadingFault::Timeout), 40, None),
        (Ok(0.3), 900, Some(0.3)), // from the future
        (Ok(0.3), 1_000, None),    // frozen: it repeats an earlier value
        (Ok(-0.1), 1_000, None),
        (Err(ReadingFault::Timeout), 1_000, None),
    ];
    for (step, (value, stamp, said)) in script.into_iter().enumerate() {
        let reading = Reading { channel: 0, value, stamp: at(stamp) };
        let found = rig.admission.admit(&mut rig.frame, &reading, at(60));
        assert_eq!(found, said, "step {step}");
    }
    assert!(close(rig.frame.samples[0].value, 0.3), "a late reading must not replace the newest one");
}

#[test]
fn readings_from_before_a_suspend_do_not_count() {
    let least = SensorPlan { kind: least(&[0]), ..range() };
    let mut rig = Rig::new(&[SensorPlan { frozen_after: Some(2), ..range() }, least]);
    rig.read(Ok(1.0), 90);
    rig.age(95);
    rig.admission.forget(&mut rig.frame, at(100));
    assert_eq!([rig.age(100).health, rig.frame.samples[1].health], [Health::Never; 2]);
    // A reading on its way when the machine fell asleep.
    assert_eq!(rig.read(Ok(1.0), 99).health, Health::Never);
    assert_eq!(rig.read(Err(ReadingFault::Timeout), 101).health, Health::Never);
    assert_eq!(rig.read(Ok(1.1), 102).health, Health::Good);
}

#[test]
fn a_sensor_frozen_before_a_suspend_is_frozen_after_it() {
    let mut rig = Rig::new(&[SensorPlan { frozen_after: Some(3), ..range() }]);
    for stamp in [70, 80] {
        assert_eq!(rig.read(Ok(1.0), stamp).health, Health::Good);
    }
    rig.admission.forget(&mut rig.frame, at(100));
    for stamp in [101, 102, 103] {
        assert_eq!(rig.read(Ok(1.0), stamp).health, Health::Never, "the third equal value or a later one");
    }
    assert_eq!(rig.read(Ok(1.1), 104).health, Health::Good, "the value changed");
}

#[test]
fn readings_for_unknown_channels_are_ignored() {
    let echo = SensorPlan { kind: SensorKind::Computed(ComputedSensor::MotorEcho { motor: 1 }), ..range() };
    let mut rig = Rig::new(&[echo]);
    for channel in [0, 1, 255] {
        let reading = Reading { channel, value: Ok(1.0), stamp: at(1) };
        rig.admission.admit(&mut rig.frame, &reading, at(1));
    }
    assert_eq!(rig.frame.samples[0].health, Health::Never);
}

#[test]
fn a_motor_echo_repeats_the_command() {
    let echo = SensorPlan { kind: SensorKind::Computed(ComputedSensor::MotorEcho { motor: 1 }), ..range() };
    let mut rig = Rig::new(&[echo]);
    let mut command = STILL;
    command.motors[1] = -0.25;
    rig.admission.age(&mut rig.frame, &command, at(30));
    let sample = rig.frame.samples[0];
    assert!(close(sample.value, -0.25) && close(sample.worst, -0.25));
    assert_eq!((sample.stamp, sample.health), (at(30), Health::Good));
}

#[test]
fn the_least_sensor_is_as_unhealthy_as_its_worst_member() {
    let least =
        SensorPlan { kind: SensorKind::Computed(ComputedSensor::Least { of: vec![0, 2] }), ..range() };
    let mut rig = Rig::new(&[range(), range(), range(), least]);
    let read = |rig: &mut Rig, channel, value, stamp| {
        let reading = Reading { channel, value, stamp: at(stamp) };
        rig.admission.admit(&mut rig.frame, &reading, at(stamp));
        rig.age(stamp);
        rig.frame.samples[3]
    };
    assert_eq!(read(&mut rig, 0, Ok(2.0), 10).health, Health::Never, "a member was never read");
    read(&mut rig, 1, Ok(0.1), 20);
    let sample = read(&mut rig, 2, Ok(3.0), 30);
    assert_eq!((sample.health, sample.stamp), (Health::Good, at(10)));
    assert!(close(sample.value, 2.0), "channel 1 is not a member");
    let sample = read(&mut rig, 2, Err(ReadingFault::Timeout), 40);
    assert_eq!(sample.health, Health::Bad(ReadingFault::Timeout));
    let sample = read(&mut rig, 2, Ok(1.0), 211);
    assert_eq!((sample.health, sample.stamp), (Health::Stale, at(10)));
    assert!(close(sample.value, 1.0) && close(sample.worst, 1.0 - 0.5 * 0.201));
}

#[test]
fn the_least_sensor_has_its_own_limits() {
    let of = vec![0];
    let least = SensorPlan {
        kind: SensorKind::Computed(ComputedSensor::Least { of }),
        worst_per_s: 0.0,
        max_age: ms(50),
        ..range()
    };
    let quick = SensorPlan { worst_per_s: -2.0, ..least.clone() };
    let mut rig = Rig::new(&[range(), least, quick]);
    rig.read(Ok(1.0), 0);
    rig.age(100);
    let [member, least, quick] = [0, 1, 2].map(|channel| rig.frame.samples[channel]);
    assert_eq!([member.health, least.health, quick.health], [Health::Good, Health::Stale, Health::Stale]);
    assert!(close(least.worst, member.worst) && close(member.worst, 0.95), "as bad as its member");
    assert!(close(quick.worst, 0.8), "its own ageing is the worse one");
    assert_eq!((rig.counters(1).stale, rig.counters(0).stale), (1, 0));
}

#[test]
fn the_least_sensor_goes_stale_at_its_age_limit_once() {
    let least = SensorPlan { kind: least(&[0, 1]), max_age: ms(50), ..range() };
    let mut rig = Rig::new(&[range(), range(), least]);
    let read = |rig: &mut Rig, channel, value, stamp| {
        let reading = Reading { channel, value, stamp: at(stamp) };
        rig.admission.admit(&mut rig.frame, &reading, at(stamp));
    };
    read(&mut rig, 0, Ok(1.0), 0);
    read(&mut rig, 1, Ok(1.0), 0);
    for (now, health, stale) in
        [(0, Health::Good, 0), (50, Health::Good, 0), (51, Health::Stale, 1), (60, Health::Stale, 1)]
    {
        rig.age(now);
        assert_eq!((rig.frame.samples[2].health, rig.counters(2).stale), (health, stale), "at {now} ms");
    }
    read(&mut rig, 0, Err(ReadingFault::Timeout), 70);
    read(&mut rig, 1, Err(ReadingFault::DeadBytes), 70);
    rig.age(70);
    assert_eq!(rig.frame.samples[2].health, Health::Bad(ReadingFault::Timeout));
}

#[test]
fn an_echo_of_a_motor_beyond_the_command_is_zero() {
    let echo =
        SensorPlan { kind: SensorKind::Computed(ComputedSensor::MotorEcho { motor: MAX_MOTORS }), ..range() };
    let mut rig = Rig::new(&[echo]);
    assert_eq!(rig.age(10).value.to_bits(), 0);
}

#[test]
fn field_input_is_in_board_order_and_marks_old_values() {
    let scale = Some(Scale { low: 0.0, high: 4.0, curve: Curve::Linear });
    let fed = SensorPlan { input: scale, ..range() };
    let mut rig = Rig::new(&[fed.clone(), range(), fed.clone(), fed]);
    for (channel, stamp) in [(0, 1_000), (1, 1_000), (2, 0)] {
        let reading = Reading { channel, value: Ok(3.0), stamp: at(stamp) };
        rig.admission.admit(&mut rig.frame, &reading, at(1_000));
    }
    rig.age(1_000);
    let mut inputs = [0.0; MAX_SENSORS];
    let fed = rig.admission.inputs(&rig.frame, |sensor, value| inputs[sensor] = value);
    assert_eq!(fed, Inputs { used: 3, untrusted: 2, held: 0 });
    assert!(close(inputs[0], 0.5), "3 of 4 m, good");
    assert!(close(inputs[1], 0.25), "a second old: 2.5 m at worst");
    assert!(inputs[2..].iter().all(|&input| close(input, 0.0)), "channels without a value, and the rest");
}

#[test]
fn lost_value_is_held_for_the_field_and_ages_for_the_reflexes() {
    let scale = Some(Scale { low: 0.0, high: 4.0, curve: Curve::Linear });
    let fed = SensorPlan { input: scale, ..range() }; // good for 200 ms, then lost; may shrink by 0.5 m/s
    let least = SensorPlan { kind: least(&[0]), ..fed.clone() };
    for refused in [false, true] {
        let mut rig = Rig::new(&[fed.clone(), least.clone()]);
        rig.read(Ok(3.0), 0);
        if refused {
            rig.read(Err(ReadingFault::Timeout), 60);
        }
        let lost_at = if refused { 60 } else { 201 };
        for now in [60, 200, 201, 400, 700, 701, 2_000] {
            let worst = rig.age(now).worst;
            assert!(
                close(worst, 3.0 - 0.5 * now as f32 / 1_000.0),
                "a reflex sees it age: {worst} at {now} ms"
            );
            let mut inputs = [f32::NAN; MAX_SENSORS];
            let fed = rig.admission.inputs(&rig.frame, |sensor, value| inputs[sensor] = value);
            let expected = if now <= 700 { 0.5 } else { worst / 2.0 - 1.0 };
            assert!(inputs[..2].iter().all(|&input| close(input, expected)), "{inputs:?} at {now} ms");
            let (lost, held) = (now >= lost_at, now >= lost_at && now <= 700);
            let expected = Inputs { used: 2, untrusted: 2 * usize::from(lost), held: 2 * usize::from(held) };
            assert_eq!(fed, expected, "at {now} ms, refused: {refused}");
        }
        rig.read(Ok(1.0), 2_100);
        rig.age(2_100);
        let mut inputs = [f32::NAN; MAX_SENSORS];
        assert_eq!(rig.admission.inputs(&rig.frame, |sensor, value| inputs[sensor] = value).held, 0);
        assert!(close(inputs[0], -0.5), "the sensor is back");
    }
}

#[test]
fn a_sensor_frozen_longer_than_the_hold_time_is_not_held() {
    let scale = Some(Scale { low: 0.0, high: 4.0, curve: Curve::Linear });
    let mut rig = Rig::new(&[SensorPlan { input: scale, frozen_after: Some(20), ..range() }]);
    let mut inputs = [0.0; MAX_SENSORS];
    for step in 0..20 {
        rig.read(Ok(3.0), 60 * step);
        rig.age(60 * step);
        rig.admission.inputs(&rig.frame, |sensor, value| inputs[sensor] = value);
        let expected = if step < 19 { 0.5 } else { 0.5 - 0.5 * 1.14 / 2.0 };
        assert!(close(inputs[0], expected), "{} at reading {step}", inputs[0]);
    }
}

#[test]
fn a_zero_width_scale_feeds_no_nan() {
    let flat = Some(Scale { low: 1.0, high: 1.0, curve: Curve::Linear });
    let mut rig = Rig::new(&[SensorPlan { input: flat, ..range() }]);
    rig.read(Ok(1.0), 0);
    let mut inputs = [0.0; MAX_SENSORS];
    rig.admission.inputs(&rig.frame, |sensor, value| inputs[sensor] = value);
    assert!(inputs[0].is_finite());
}

#[test]
fn aging_in_steps_equals_aging_at_once() {
    let (mut often, mut once) = (Rig::new(&[range()]), Rig::new(&[range()]));
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
