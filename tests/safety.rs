//! Property tests of the real tick, driven with arbitrary values, times, faults and requests: no input makes
//! a command violate its limits. Each property is something that a person in front of the robot relies on.

mod cases; // what stops a driving robot, case by case
mod judge; // what users may rely on, judged without the runtime's code
mod rig; // the real tick between queues that a test fills and empties

use ganglion::base::command::{Command, Source};
use ganglion::base::fault::{BusFault, ReadingFault};
use ganglion::base::frame::{Frame, Health, MAX_SENSORS, Reading, Sample};
use ganglion::base::plan::{
    Cause, ChipSensor, ComputedSensor, Limits, MotorKind, MotorPlan, OnLoss, Restraint, Rule, SafetyPlan,
    SensorKind, SensorPlan, TetherPlan, Trip,
};
use ganglion::base::time::{Instant, Span};
use ganglion::decision::admit::Admission;
use ganglion::decision::mode::Asked;
use ganglion::decision::reflex::{Reflexes, Signals};
use ganglion::drive::trace::Record;
use judge::Trust;
use proptest::prelude::*;
use rig::Robot;

const PERIOD: Span = Span::from_millis(10);
const RANGE: usize = 0;
const FLOOR: usize = 1;
const BATTERY: usize = 2;
const CHANNELS: usize = 4;

fn safety() -> SafetyPlan {
    SafetyPlan {
        field_fresh: Span::from_millis(60),
        field_fade: Span::from_millis(80),
        command_valid: Span::from_millis(30),
        wire_lost: Span::from_millis(100),
        late_slots: 3,
        settle: Span::from_millis(20),
        reverse_max: Span::from_millis(150),
        disarm_after: Span::from_millis(300),
        auto_arm: false,
    }
}

fn sensor(max_age_ms: u64, valid: [f32; 2], worst_per_s: f32, required: bool) -> SensorPlan {
    SensorPlan {
        name: String::new(),
        unit: String::new(),
        kind: SensorKind::Chip(ChipSensor::FloatRegister { address: 0x60, register: 0 }),
        bus: 0,
        period: PERIOD,
        max_age: Span::from_millis(max_age_ms),
        valid,
        frozen_after: Some(40),
        worst_per_s,
        required,
        input: None,
        looks_at: None,
        beam: None,
    }
}

fn sensors() -> [SensorPlan; CHANNELS] {
    [
        sensor(200, [0.02, 4.0], -0.5, true),
        sensor(70, [0.0, 4095.0], 0.0, true),
        sensor(3_000, [5.0, 9.0], -0.01, false),
        SensorPlan {
            kind: SensorKind::Computed(ComputedSensor::Least { of: vec![RANGE, FLOOR] }),
            ..sensor(100, [0.0, 4.0], 0.0, false)
        },
    ]
}

fn rules() -> [Rule; 5] {
    let rule = |cause, channel, below, clear, restraint| Rule {
        cause,
        channel,
        trip: Trip::Below(below),
        clear,
        hold: Span::from_millis(30),
        retreat: Span::ZERO,
        restraint,
        latched: false,
    };
    [
        rule(Cause::Obstacle, RANGE, 0.25, 0.3, Restraint::NoForward),
        rule(Cause::Obstacle, RANGE, 0.6, 0.7, Restraint::Slow(0.4)),
        Rule {
            retreat: Span::from_millis(60),
            ..rule(Cause::Cliff, FLOOR, 500.0, 600.0, Restraint::NoForward)
        },
        rule(Cause::Battery, BATTERY, 6.6, 6.9, Restraint::Slow(0.5)),
        Rule { latched: true, ..rule(Cause::Battery, BATTERY, 6.2, 6.9, Restraint::Still) },
    ]
}

/// Two wheels and a steering servo; the second wheel is limited.
fn motors() -> [MotorPlan; 3] {
    let pwm = |forward| MotorKind::DcPair { forward, backward: forward + 1, min_duty: 0.0 };
    let motor = |kind, limit, slew_per_s| MotorPlan { name: String::new(), kind, limit, slew_per_s };
    let steer = MotorKind::Servo { pwm: 4, min_deg: -30.0, max_deg: 30.0, offset_deg: 0.0, mirrored: false };
    [motor(pwm(0), 1.0, 4.0), motor(pwm(2), 0.6, 7.0), motor(steer, 0.9, 10.0)]
}

/// Any float at all, and often a meaningful one.
fn anything() -> impl Strategy<Value = f32> {
    prop_oneof![
        30 => -1.5f32..1.5,
        2 => any::<f32>(),
        2 => Just(0.0f32),
        1 => prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0, 1e-40]),
    ]
}

fn fault() -> impl Strategy<Value = ReadingFault> {
    prop::sample::select(vec![
        ReadingFault::Bus(BusFault::Nack),
        ReadingFault::Timeout,
        ReadingFault::DeadBytes,
        ReadingFault::OutOfRange,
    ])
}

fn health() -> impl Strategy<Value = Health> {
    prop_oneof![
        3 => Just(Health::Good),
        1 => Just(Health::Stale),
        1 => Just(Health::Never),
        1 => fault().prop_map(Health::Bad),
    ]
}

fn age(most_ms: u64) -> impl Strategy<Value = Option<Span>> {
    prop_oneof![1 => Just(None), 6 => (0..most_ms).prop_map(|ms| Some(Span::from_millis(ms)))]
}

/// A link whose loss latches.
fn tether() -> TetherPlan {
    TetherPlan {
        address: "brain:1".to_string(),
        key: "/key".into(),
        silence: Span::from_millis(100),
        latched: true,
        on_loss: OnLoss::Stop,
    }
}

fn signals() -> impl Strategy<Value = Signals> {
    let skipped = prop_oneof![5 => Just(0u64), 1 => 0u64..6];
    (prop::bool::weighted(0.03), age(250), age(150), age(150), skipped, 0u64..30).prop_map(
        |(e_stop, field_age, wire_age, link_silence, skipped_slots, backed)| {
            let halts = if e_stop { Cause::EStop.bit() } else { 0 };
            let backed = Span::from_millis(backed);
            Signals { halts, field_age, wire_age, link_silence, skipped_slots, backed, ..Signals::default() }
        },
    )
}

/// The events of one slot.
#[derive(Clone, Debug)]
struct Slot {
    /// The slot's work takes so long that this many slots are lost.
    overrun: u64,
    /// How long the machine was suspended before this slot.
    slept: Span,
    /// Channel, value, and time relative to the slot, ms.
    readings: Vec<(u8, Result<f32, ReadingFault>, i64)>,
    /// The field's answer and its age, ms.
    request: Option<([f32; 3], u64)>,
    /// A sensor thread stops the motors: the stop button was pressed, and the button's reading was lost.
    e_stop: bool,
    /// The bus reports how long ago it wrote a command, and whether every motor accepted it.
    receipt: Option<(Span, bool)>,
    guard_lost: bool,
    asked: Asked,
}

const RECEIPT: Option<(Span, bool)> = Some((Span::from_millis(8), true));

fn slot() -> impl Strategy<Value = Slot> {
    let value = prop_oneof![
        8 => (0.0f32..2.0).prop_map(Ok),
        4 => (200.0f32..2_000.0).prop_map(Ok),
        4 => (6.0f32..8.4).prop_map(Ok),
        1 => any::<f32>().prop_map(Ok),
        1 => fault().prop_map(Err),
    ];
    let reading = (0u8..CHANNELS as u8 + 1, value, prop_oneof![8 => -20i64..=0, 1 => -500i64..500]);
    let request = prop::option::weighted(0.9, ([anything(), anything(), anything()], 0u64..200));
    let asked = (prop::bool::weighted(0.002), prop::bool::weighted(0.04), prop::bool::weighted(0.3));
    let overrun = prop_oneof![12 => Just(0u64), 1 => 1u64..5];
    let slept = prop_oneof![60 => Just(0u64), 1 => 10u64..1_000_000].prop_map(Span::from_millis);
    let written = (0u64..150, prop::bool::weighted(0.8));
    let receipt = prop_oneof![
        12 => Just(RECEIPT),
        1 => prop::option::of(written.prop_map(|(age, complete)| (Span::from_millis(age), complete))),
    ];
    let (e_stop, guard_lost) = (prop::bool::weighted(0.02), prop::bool::weighted(0.05));
    let readings = prop::collection::vec(reading, 0..6);
    ((overrun, slept), readings, request, (e_stop, guard_lost), receipt, asked).prop_map(
        |((overrun, slept), readings, request, (e_stop, guard_lost), receipt, (stop, disarm, arm))| {
            let asked = Asked { stop, disarm, arm };
            Slot { overrun, slept, readings, request, e_stop, receipt, guard_lost, asked }
        },
    )
}

/// What is missing for the duration of an outage.
#[derive(Clone, Copy, Debug)]
enum Missing {
    Senses,
    Wire,
    Field,
    Guard,
}

/// A stretch of slots. In a calm stretch nothing is wrong and the same request continues, because otherwise
/// nothing would ever start moving; in an outage one thing is missing for a long time; requests to arm,
/// disarm or stop occur in all stretches.
#[derive(Clone, Debug)]
enum Stretch {
    Calm { request: [f32; 3], asked: Asked, slots: u64 },
    Outage { missing: Missing, asked: Asked, slots: u64 },
    Wild(Vec<Slot>),
}

impl Stretch {
    fn slots(self) -> Vec<Slot> {
        let (asked, mut slots): (Asked, Vec<Slot>) = match self {
            Stretch::Wild(slots) => return slots,
            Stretch::Calm { request, asked, slots } => {
                (asked, (0..slots).map(|step| Slot { request: Some((request, 10)), ..well(step) }).collect())
            }
            Stretch::Outage { missing, asked, slots } => {
                (asked, (0..slots).map(|step| without(missing, step)).collect())
            }
        };
        slots[0].asked = asked;
        slots
    }
}

fn without(missing: Missing, step: u64) -> Slot {
    let well = well(step);
    match missing {
        Missing::Senses => Slot { readings: Vec::new(), ..well },
        Missing::Wire => Slot { receipt: RECEIPT.map(|(age, _)| (age, false)), ..well },
        Missing::Field => Slot { request: None, ..well },
        Missing::Guard => Slot { guard_lost: true, ..well },
    }
}

fn stretch() -> impl Strategy<Value = Stretch> {
    let calm = ([anything(), anything(), anything()], slot(), 1u64..60)
        .prop_map(|(request, slot, slots)| Stretch::Calm { request, asked: slot.asked, slots });
    let missing = prop::sample::select(vec![Missing::Senses, Missing::Wire, Missing::Field, Missing::Guard]);
    let outage = (missing, slot(), 1u64..80).prop_map(|(missing, slot, slots)| Stretch::Outage {
        missing,
        asked: slot.asked,
        slots,
    });
    prop_oneof![3 => calm, 1 => outage, 2 => prop::collection::vec(slot(), 1..12).prop_map(Stretch::Wild)]
}

/// A slot without faults; `step` only keeps values from repeating bit for bit.
fn well(step: u64) -> Slot {
    let wobble = 1.0 + (step % 7) as f32 * 0.001;
    Slot {
        overrun: 0,
        slept: Span::ZERO,
        readings: vec![(0, Ok(2.0 * wobble), 0), (1, Ok(1_500.0 * wobble), 0), (2, Ok(7.6 * wobble), 0)],
        request: Some(([0.5, 0.5, 0.2], 10)),
        e_stop: false,
        receipt: RECEIPT,
        guard_lost: false,
        asked: Asked::default(),
    }
}

/// Checks that the step from the command `before` to the command of `record` is within the limits of `record`
/// and of the motors.
fn check_command(before: &Command, record: &Record) -> Result<(), TestCaseError> {
    let zero = |x: f32| x.abs() <= 0.0;
    let (after, limits) = (&record.command, &record.limits);
    prop_assert_eq!(after.len, 3);
    prop_assert!(after.motors.iter().all(|motor| motor.is_finite()));
    prop_assert!(after.motors[3..].iter().all(|&motor| zero(motor)));
    prop_assert!(after.valid_until > after.slot);
    for (index, plan) in motors().iter().enumerate() {
        let (was, is) = (before.motors[index], after.motors[index]);
        let step = plan.slew_per_s * PERIOD.as_secs_f64() as f32 + 1e-6;
        prop_assert!(is.abs() <= plan.limit, "limit: {is}");
        if !plan.kind.drives() {
            prop_assert!((is - was).abs() <= step, "steering jumped from {was} to {is}");
            prop_assert!(limits.steer || was.to_bits() == is.to_bits(), "steered while stopped");
            continue;
        }
        prop_assert!(is.abs() <= was.abs() + step, "gained speed from {was} to {is}");
        prop_assert!(was * is >= 0.0, "reversed from {was} to {is} without stopping first");
        prop_assert!(is <= limits.forward && -is <= limits.backward, "{is} beyond {limits:?}");
        if record.mode.obeys_since().is_none() || !limits.allow_motion() {
            prop_assert!(zero(is), "moved ({is}) in {:?} under {limits:?}", record.mode);
        }
        if after.source == Source::Field && before.source == Source::Field && !zero(is) {
            // A restraint that becomes stricter cuts the previous command, even below what is requested.
            let cut = was.clamp(-limits.backward, limits.forward);
            prop_assert!((is - cut).abs() <= step, "a fresh request jumped from {was} to {is}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_command_obeys_mode_limits_and_motor_ranges(
        begin_armed: bool,
        stretches in prop::collection::vec(stretch(), 1..16),
    ) {
        let mut robot = if begin_armed { Robot::armed() } else { Robot::new() };
        let mut trust = Trust::new(begin_armed, robot.now);
        let (mut backwards, mut overrun) = (Span::ZERO, Span::ZERO);
        for slot in stretches.into_iter().flat_map(Stretch::slots) {
            let (before, last_slot) = (robot.command, robot.now);
            let record = robot.step(&slot);
            check_command(&before, &record)?;
            trust.follow(&slot, &record);
            let drives = &robot.command.motors[..2];
            if let Err(why) = trust.may_move() {
                prop_assert!(drives.iter().all(|drive| drive.abs() <= 0.0), "moved, though {why}: {:?}", record.mode);
            }
            if before.motors[0] + before.motors[1] < 0.0 {
                backwards = backwards + robot.now.since(last_slot);
            } else {
                backwards = Span::ZERO;
            }
            prop_assert!(backwards <= safety().reverse_max + overrun, "backwards for {backwards:?}");
            overrun = PERIOD.times(slot.overrun);
        }
    }

    #[test]
    fn a_stale_or_silent_required_sensor_stops_the_robot(
        samples in prop::collection::vec((anything(), anything(), 0u64..2_000, health()), CHANNELS),
        signals in signals(),
        history in prop::collection::vec(signals(), 0..5),
    ) {
        let now = Instant::ZERO + Span::from_millis(2_000);
        let mut frame = Frame::empty(CHANNELS);
        for (slot, (value, worst, stamp, health)) in frame.samples.iter_mut().zip(samples) {
            *slot = Sample { value, worst, stamp: Instant::ZERO + Span::from_millis(stamp), health };
        }
        let mut reflexes = Reflexes::new(&rules(), &sensors(), safety());
        for past in &history {
            reflexes.evaluate(&frame, past, now);
        }
        let verdict = reflexes.evaluate(&frame, &signals, now).0;
        for (sample, plan) in frame.used().iter().zip(sensors()).filter(|(_, plan)| plan.required) {
            let old = now.since(sample.stamp) > plan.max_age;
            if old || matches!(sample.health, Health::Never | Health::Stale) {
                prop_assert_eq!(verdict.limits, Limits::STILL);
                prop_assert!(verdict.worst >= Some(Cause::SensorLost));
            }
        }
        if signals.halts != 0 || signals.guard_lost || signals.wire_age.is_none() || signals.field_age.is_none() {
            prop_assert_eq!(verdict.limits, Limits::STILL);
        }
        prop_assert_eq!(verdict.worst.is_some(), verdict.active != 0);
        prop_assert_eq!(verdict.latched & !verdict.active, 0);
        prop_assert!((0.0..=1.0).contains(&verdict.limits.forward));
        prop_assert!((0.0..=1.0).contains(&verdict.limits.backward));
    }

    #[test]
    fn worse_readings_never_loosen_a_restraint(
        history in prop::collection::vec((prop::array::uniform4(0.0f32..1.0), signals()), 0..6),
        news in prop::array::uniform4((0.0f32..1.0, 0.0f32..1.0, any::<bool>())),
        calm in signals(),
        older in (0u64..100, 0u64..100, 0u64..4, any::<bool>()),
    ) {
        let now = Instant::ZERO + Span::from_millis(500);
        // Maps 0..1 to a range around each channel's limits.
        let value = |channel: usize, share: f32| match channel {
            RANGE => share,
            FLOOR => 1_000.0 * share,
            BATTERY => 6.0 + share,
            _ => share,
        };
        let frame = |shares: [f32; 4], health: [Health; 4]| {
            let mut frame = Frame::empty(CHANNELS);
            for channel in 0..CHANNELS {
                let value = value(channel, shares[channel]);
                frame.samples[channel] = Sample { value, worst: value, stamp: now, health: health[channel] };
            }
            frame
        };
        let mut reflexes = Reflexes::new(&rules(), &sensors(), safety()).tethered(&tether());
        for (step, (shares, signals)) in history.iter().enumerate() {
            let then = Instant::ZERO + Span::from_millis(20 * step as u64);
            reflexes.evaluate(&frame(*shares, [Health::Good; 4]), signals, then);
        }
        let good = frame(news.map(|(share, _, _)| share), [Health::Good; 4]);
        let healths = news.map(|(_, _, stale)| if stale { Health::Stale } else { Health::Good });
        let bad = frame(news.map(|(share, less, _)| share * less), healths);
        let worse = Signals {
            halts: if older.3 { Cause::EStop.bit() } else { calm.halts },
            readings_lost: older.3,
            field_age: calm.field_age.map(|age| age + Span::from_millis(older.0)),
            wire_age: calm.wire_age.map(|age| age + Span::from_millis(older.1)),
            link_silence: calm.link_silence.map(|silence| silence + Span::from_millis(older.1)),
            skipped_slots: calm.skipped_slots + older.2,
            guard_lost: older.3,
            slept: None,
            backed: if older.3 { Span::ZERO } else { calm.backed },
            disarmed: false,
        };
        let (loose, tight) =
            (reflexes.clone().evaluate(&good, &calm, now).0, reflexes.evaluate(&bad, &worse, now).0);
        prop_assert!(tight.restraint >= loose.restraint);
        prop_assert_eq!(tight.limits.and(loose.limits), tight.limits, "{:?} after {:?}", tight, loose);
    }

    #[test]
    fn aging_only_tightens_restraints(
        value in 0.02f32..4.0,
        rate in prop_oneof![-5.0f32..0.0, 0.0f32..5.0],
        mut ages in prop::collection::vec(0u64..20_000, 2..20),
    ) {
        ages.sort_unstable();
        let plan = SensorPlan { worst_per_s: rate, ..sensor(200, [0.02, 4.0], rate, true) };
        let mut admission = Admission::new(&[plan]);
        let mut frame = Frame::empty(1);
        let reading = Reading { channel: 0, value: Ok(value), stamp: Instant::ZERO };
        let still = Command::still(0);
        admission.update(&mut frame, [reading], false, &still, Instant::ZERO, |_, _, _| ());
        let mut before = frame.samples[0];
        for age in ages {
            admission.update(&mut frame, [], false, &still, Instant::ZERO + Span::from_millis(age), |_, _, _| ());
            let sample = frame.samples[0];
            prop_assert!((0.02..=4.0).contains(&sample.worst));
            prop_assert!((sample.worst - before.worst) * rate >= 0.0, "aged in the wrong direction");
            prop_assert_eq!(sample.value.to_bits(), value.to_bits());
            prop_assert!(before.health == Health::Good || sample.health == Health::Stale, "no longer stale");
            before = sample;
        }
    }

    #[test]
    fn field_inputs_are_always_within_their_scale(
        readings in prop::collection::vec((0u8..3, any::<f32>(), 0u64..5_000), 0..40),
        low in -10.0f32..10.0,
        high in -10.0f32..10.0,
    ) {
        use ganglion::base::plan::{Curve, Scale};
        let fed = |curve| SensorPlan {
            input: Some(Scale { low, high, curve }),
            ..sensor(100, [f32::MIN, f32::MAX], -1.0, true)
        };
        let mut admission = Admission::new(&[fed(Curve::Linear), fed(Curve::Log), fed(Curve::Linear)]);
        let mut frame = Frame::empty(3);
        let now = Instant::ZERO + Span::from_millis(5_000);
        let readings = readings.into_iter().map(|(channel, value, stamp)| {
            Reading { channel, value: Ok(value), stamp: Instant::ZERO + Span::from_millis(stamp) }
        });
        admission.update(&mut frame, readings, false, &Command::still(0), now, |_, _, _| ());
        let mut inputs = [f32::NAN; MAX_SENSORS];
        let report = admission.inputs(&frame, |sensor, value| inputs[sensor] = value);
        prop_assert_eq!(report.used, 3);
        prop_assert_eq!(report.untrusted, frame.used().iter().filter(|s| s.health != Health::Good).count());
        prop_assert!(inputs[..report.used].iter().all(|input| (-1.0..=1.0).contains(input)));
    }
}
