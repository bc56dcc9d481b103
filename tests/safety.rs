//! Whatever comes in, the command keeps its promises: the chain from readings to a command, driven
//! with arbitrary values, times, faults and requests. Each property is what a person standing in
//! front of the robot relies on.

use ganglion::act::Arbiter;
use ganglion::admit::Admission;
use ganglion::board::plan::{MotorPlan, SafetyPlan, SensorPlan};
use ganglion::bus::BusFault;
use ganglion::command::{Command, MAX_MOTORS, Source};
use ganglion::device::{MotorKind, SensorKind};
use ganglion::field::Response;
use ganglion::frame::{Fault, Frame, Health, MAX_SENSORS, Reading, Sample};
use ganglion::mode::{Asked, Mode, Modes};
use ganglion::reflex::{Cause, Limits, Reflexes, Restraint, Rule, Signals, Trip, Verdict};
use ganglion::time::{Instant, Span};
use proptest::prelude::*;

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
        auto_arm: false,
    }
}

fn sensor(max_age_ms: u64, valid: [f32; 2], worst_per_s: f32, required: bool) -> SensorPlan {
    SensorPlan {
        name: String::new(),
        unit: String::new(),
        kind: SensorKind::FloatRegister { address: 0x60, register: 0 },
        bus: 0,
        period: PERIOD,
        max_age: Span::from_millis(max_age_ms),
        valid,
        frozen_after: Some(40),
        worst_per_s,
        required,
        input: None,
    }
}

fn sensors() -> [SensorPlan; CHANNELS] {
    [
        sensor(200, [0.02, 4.0], -0.5, true),
        sensor(70, [0.0, 4095.0], 0.0, true),
        sensor(3_000, [5.0, 9.0], -0.01, false),
        SensorPlan {
            kind: SensorKind::Least { of: vec![RANGE, FLOOR] },
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
        restraint,
        latched: false,
    };
    [
        rule(Cause::Obstacle, RANGE, 0.25, 0.3, Restraint::NoForward),
        rule(Cause::Obstacle, RANGE, 0.6, 0.7, Restraint::Slow(0.4)),
        rule(Cause::Cliff, FLOOR, 500.0, 600.0, Restraint::NoForward),
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

fn response(motors: [f32; 3]) -> Response {
    let mut all = [0.0; MAX_MOTORS];
    all[..3].copy_from_slice(&motors);
    Response { cycle: 0, scores: all, motors: all, confidence: 0.0, skill: 0.0, novelty: 0.0 }
}

/// Any float at all, and often one that means something.
fn anything() -> impl Strategy<Value = f32> {
    prop_oneof![
        30 => -1.5f32..1.5,
        2 => any::<f32>(),
        2 => Just(0.0f32),
        1 => prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0, 1e-40]),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop::sample::select(vec![
        Fault::Bus(BusFault::Nack),
        Fault::Timeout,
        Fault::DeadBytes,
        Fault::OutOfRange,
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

fn signals() -> impl Strategy<Value = Signals> {
    (prop::bool::weighted(0.03), age(250), age(150), prop_oneof![5 => Just(0u64), 1 => 0u64..6]).prop_map(
        |(e_stop, field_age, wire_age, skipped_slots)| Signals {
            e_stop,
            field_age,
            wire_age,
            skipped_slots,
            guard_lost: false,
        },
    )
}

/// What happens in one slot.
#[derive(Clone, Debug)]
struct Slot {
    skipped: u64,
    readings: Vec<(u8, Result<f32, Fault>, i64)>,
    /// The field's answer and its age; ages beyond the run's begin count from its begin.
    wish: Option<([f32; 3], u64)>,
    e_stop: bool,
    wire_age: Option<Span>,
    guard_lost: bool,
    asked: Asked,
}

fn slot() -> impl Strategy<Value = Slot> {
    let value = prop_oneof![
        8 => (0.0f32..2.0).prop_map(Ok),
        4 => (200.0f32..2_000.0).prop_map(Ok),
        4 => (6.0f32..8.4).prop_map(Ok),
        1 => any::<f32>().prop_map(Ok),
        1 => fault().prop_map(Err),
    ];
    let reading = (0u8..CHANNELS as u8 + 1, value, prop_oneof![8 => -20i64..=0, 1 => -500i64..500]);
    let wish = prop::option::weighted(0.9, ([anything(), anything(), anything()], 0u64..200));
    let asked = (prop::bool::weighted(0.002), prop::bool::weighted(0.04), prop::bool::weighted(0.3));
    let skipped = prop_oneof![12 => Just(0u64), 1 => 1u64..5];
    let wire_age = prop_oneof![12 => Just(Some(Span::from_millis(8))), 1 => age(150)];
    let (e_stop, guard_lost) = (prop::bool::weighted(0.02), prop::bool::weighted(0.05));
    (skipped, prop::collection::vec(reading, 0..6), wish, e_stop, (wire_age, guard_lost), asked).prop_map(
        |(skipped, readings, wish, e_stop, (wire_age, guard_lost), (stop, disarm, arm))| Slot {
            skipped,
            readings,
            wish,
            e_stop,
            wire_age,
            guard_lost,
            asked: Asked { stop, disarm, arm },
        },
    )
}

/// A stretch of slots. In a calm one nothing is wrong and one wish lasts, or nothing would ever get as
/// far as moving; requests come in any.
#[derive(Clone, Debug)]
enum Stretch {
    Calm { wish: [f32; 3], asked: Asked, slots: u64 },
    Wild(Vec<Slot>),
}

impl Stretch {
    fn slots(self) -> Vec<Slot> {
        match self {
            Stretch::Wild(slots) => slots,
            Stretch::Calm { wish, asked, slots } => {
                let calm = |step| Slot { wish: Some((wish, 10)), ..well(step) };
                let mut slots: Vec<_> = (0..slots).map(calm).collect();
                slots[0].asked = asked;
                slots
            }
        }
    }
}

fn stretch() -> impl Strategy<Value = Stretch> {
    let calm = ([anything(), anything(), anything()], slot(), 1u64..60)
        .prop_map(|(wish, slot, slots)| Stretch::Calm { wish, asked: slot.asked, slots });
    prop_oneof![3 => calm, 2 => prop::collection::vec(slot(), 1..12).prop_map(Stretch::Wild)]
}

/// The pure part of a robot, one slot after the other, in the order of the tick.
struct Robot {
    admission: Admission,
    frame: Frame,
    reflexes: Reflexes,
    modes: Modes,
    arbiter: Arbiter,
    command: Command,
    now: Instant,
}

impl Robot {
    fn new() -> Robot {
        Robot {
            admission: Admission::new(&sensors()),
            frame: Frame::empty(CHANNELS),
            reflexes: Reflexes::new(&rules(), &sensors(), safety()),
            modes: Modes::new(safety()),
            arbiter: Arbiter::new(&motors(), safety(), PERIOD),
            command: Command::still(3),
            now: Instant::ZERO + Span::from_millis(1_000),
        }
    }

    /// Everything is well for long enough to arm, then it is told to.
    fn armed() -> Robot {
        let mut robot = Robot::new();
        for step in 0..10 {
            robot.step(&Slot { asked: Asked { arm: step == 9, ..Asked::default() }, ..well(step) });
        }
        assert!(robot.modes.mode().obeys_since().is_some(), "refused: {:?}", robot.modes.refusal());
        robot
    }

    fn step(&mut self, slot: &Slot) -> (Verdict, Mode) {
        self.now += PERIOD.times(1 + slot.skipped);
        for &(channel, value, offset_ms) in &slot.readings {
            let span = Span::from_millis(offset_ms.unsigned_abs());
            let stamp = if offset_ms < 0 { self.now - span } else { self.now + span };
            self.admission.admit(&mut self.frame, &Reading { channel, value, stamp }, self.now);
        }
        self.admission.age(&mut self.frame, &self.command, self.now);
        let wish = slot.wish.map(|(motors, age)| (response(motors), self.now - Span::from_millis(age)));
        let signals = Signals {
            e_stop: slot.e_stop,
            field_age: wish.as_ref().map(|(_, taken)| self.now.since(*taken)),
            wire_age: slot.wire_age,
            skipped_slots: slot.skipped,
            guard_lost: slot.guard_lost,
        };
        if slot.asked.disarm {
            self.reflexes.rearm();
        }
        let verdict = self.reflexes.evaluate(&self.frame, &signals, self.now);
        let mode = self.modes.advance(&verdict, &signals, slot.asked, self.now);
        let field = wish.as_ref().map(|(response, taken)| (response, *taken));
        self.command = self.arbiter.decide(mode, &verdict, field, self.now, self.now);
        (verdict, mode)
    }
}

/// A slot in which nothing is wrong; `step` only keeps values from repeating bit for bit.
fn well(step: u64) -> Slot {
    let wobble = 1.0 + (step % 7) as f32 * 0.001;
    Slot {
        skipped: 0,
        readings: vec![(0, Ok(2.0 * wobble), 0), (1, Ok(1_500.0 * wobble), 0), (2, Ok(7.6 * wobble), 0)],
        wish: Some(([0.5, 0.5, 0.2], 10)),
        e_stop: false,
        wire_age: Some(Span::from_millis(8)),
        guard_lost: false,
        asked: Asked::default(),
    }
}

/// `before` to `after` is a change that `verdict` and the motors' limits allow.
fn check_command(
    before: &Command,
    after: &Command,
    verdict: &Verdict,
    mode: Mode,
) -> Result<(), TestCaseError> {
    let zero = |x: f32| x.abs() <= 0.0;
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
            prop_assert!(verdict.limits.steer || was.to_bits() == is.to_bits(), "steered while still");
            continue;
        }
        prop_assert!(is.abs() <= was.abs() + step, "gained speed from {was} to {is}");
        prop_assert!(was * is >= 0.0, "reversed from {was} to {is} without standing");
        prop_assert!(is <= verdict.limits.forward && -is <= verdict.limits.backward);
        if mode.obeys_since().is_none() || verdict.restraint == Restraint::Still {
            prop_assert!(zero(is), "moved ({is}) in {mode:?} under {:?}", verdict.restraint);
        }
        if verdict.restraint >= Restraint::NoForward {
            prop_assert!(is <= 0.0, "went forward");
        }
        if after.source == Source::Field && before.source == Source::Field && !zero(is) {
            // A restraint that tightens cuts what was commanded before, also below what is wished.
            let cut = was.clamp(-verdict.limits.backward, verdict.limits.forward);
            prop_assert!((is - cut).abs() <= step, "a fresh wish jumped from {was} to {is}");
        }
    }
    Ok(())
}

/// What people may rely on: nothing moves that was not armed, and what was stopped stays so until it
/// has been disarmed and armed again, in this order.
#[derive(Default)]
struct Trust {
    /// A request to arm has come since the last disarm, latch or stop.
    armed: bool,
    latched: bool,
    stopped: bool,
}

impl Trust {
    fn follow(&mut self, slot: &Slot, verdict: &Verdict) {
        self.stopped |= slot.asked.stop;
        if verdict.latched != 0 || slot.e_stop {
            (self.latched, self.armed) = (true, false);
        } else if slot.asked.disarm {
            (self.latched, self.armed) = (false, false);
        } else if slot.asked.arm && !self.latched {
            self.armed = true;
        }
    }
    fn may_move(&self) -> bool {
        self.armed && !self.latched && !self.stopped
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_command_keeps_its_promises(
        begin_armed: bool,
        stretches in prop::collection::vec(stretch(), 1..16),
    ) {
        let mut robot = if begin_armed { Robot::armed() } else { Robot::new() };
        let mut trust = Trust { armed: begin_armed, ..Trust::default() };
        let mut backwards = Span::ZERO;
        let mut armed_at = robot.modes.mode().obeys_since().unwrap_or(Instant::ZERO);
        for slot in stretches.into_iter().flat_map(Stretch::slots) {
            let (before, last_slot) = (robot.command, robot.now);
            let was_armed = robot.modes.mode().obeys_since().is_some();
            let (verdict, mode) = robot.step(&slot);
            check_command(&before, &robot.command, &verdict, mode)?;
            trust.follow(&slot, &verdict);
            let drives = &robot.command.motors[..2];
            if !trust.may_move() {
                prop_assert!(drives.iter().all(|drive| drive.abs() <= 0.0), "moved untrusted in {mode:?}");
            }
            if mode.obeys_since().is_some() && !was_armed {
                armed_at = robot.now;
            }
            if let (Some((_, age)), true) = (slot.wish, drives.iter().any(|drive| drive.abs() > 0.0)) {
                prop_assert!(robot.now - Span::from_millis(age) >= armed_at, "an old wish was obeyed");
            }
            if before.motors[0] + before.motors[1] < 0.0 {
                backwards = backwards + robot.now.since(last_slot);
            } else {
                backwards = Span::ZERO;
            }
            let overrun = PERIOD.times(slot.skipped);
            prop_assert!(backwards <= safety().reverse_max + overrun, "blind for {backwards:?}");
        }
    }

    #[test]
    fn a_required_sensor_that_is_old_or_silent_leaves_no_motion(
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
        let verdict = reflexes.evaluate(&frame, &signals, now);
        for (sample, plan) in frame.used().iter().zip(sensors()).filter(|(_, plan)| plan.required) {
            let old = now.since(sample.stamp) > plan.max_age;
            if old || matches!(sample.health, Health::Never | Health::Stale) {
                prop_assert_eq!(verdict.limits, Limits::STILL);
                prop_assert!(verdict.worst >= Some(Cause::SensorLost));
            }
        }
        if signals.e_stop || signals.guard_lost || signals.wire_age.is_none() || signals.field_age.is_none() {
            prop_assert_eq!(verdict.limits, Limits::STILL);
        }
        prop_assert_eq!(verdict.worst.is_some(), verdict.active != 0);
        prop_assert_eq!(verdict.latched & !verdict.active, 0);
        prop_assert!((0.0..=1.0).contains(&verdict.limits.forward));
        prop_assert!((0.0..=1.0).contains(&verdict.limits.backward));
    }

    #[test]
    fn worse_news_never_loosens_a_restraint(
        history in prop::collection::vec((prop::array::uniform4(0.0f32..1.0), signals()), 0..6),
        news in prop::array::uniform4((0.0f32..1.0, 0.0f32..1.0, any::<bool>())),
        calm in signals(),
        older in (0u64..100, 0u64..100, 0u64..4, any::<bool>()),
    ) {
        let now = Instant::ZERO + Span::from_millis(500);
        // 0..1 to a range that each channel's rules divide.
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
        let mut reflexes = Reflexes::new(&rules(), &sensors(), safety());
        for (step, (shares, signals)) in history.iter().enumerate() {
            let then = Instant::ZERO + Span::from_millis(20 * step as u64);
            reflexes.evaluate(&frame(*shares, [Health::Good; 4]), signals, then);
        }
        let good = frame(news.map(|(share, _, _)| share), [Health::Good; 4]);
        let healths = news.map(|(_, _, stale)| if stale { Health::Stale } else { Health::Good });
        let bad = frame(news.map(|(share, less, _)| share * less), healths);
        let worse = Signals {
            e_stop: calm.e_stop || older.3,
            field_age: calm.field_age.map(|age| age + Span::from_millis(older.0)),
            wire_age: calm.wire_age.map(|age| age + Span::from_millis(older.1)),
            skipped_slots: calm.skipped_slots + older.2,
            guard_lost: older.3,
        };
        let (loose, tight) =
            (reflexes.clone().evaluate(&good, &calm, now), reflexes.evaluate(&bad, &worse, now));
        prop_assert!(tight.restraint >= loose.restraint);
        prop_assert_eq!(tight.limits.and(loose.limits), tight.limits, "{:?} after {:?}", tight, loose);
    }

    #[test]
    fn ageing_only_makes_things_worse(
        value in 0.02f32..4.0,
        rate in prop_oneof![-5.0f32..0.0, 0.0f32..5.0],
        mut ages in prop::collection::vec(0u64..20_000, 2..20),
    ) {
        ages.sort_unstable();
        let plan = SensorPlan { worst_per_s: rate, ..sensor(200, [0.02, 4.0], rate, true) };
        let mut admission = Admission::new(&[plan]);
        let mut frame = Frame::empty(1);
        let reading = Reading { channel: 0, value: Ok(value), stamp: Instant::ZERO };
        admission.admit(&mut frame, &reading, Instant::ZERO);
        let mut before = frame.samples[0];
        for age in ages {
            admission.age(&mut frame, &Command::still(0), Instant::ZERO + Span::from_millis(age));
            let sample = frame.samples[0];
            prop_assert!((0.02..=4.0).contains(&sample.worst));
            prop_assert!((sample.worst - before.worst) * rate >= 0.0, "aged the wrong way");
            prop_assert_eq!(sample.value.to_bits(), value.to_bits());
            prop_assert!(before.health == Health::Good || sample.health == Health::Stale, "got younger");
            before = sample;
        }
    }

    #[test]
    fn the_field_is_fed_numbers_within_its_scale(
        readings in prop::collection::vec((0u8..3, any::<f32>(), 0u64..5_000), 0..40),
        low in -10.0f32..10.0,
        high in -10.0f32..10.0,
    ) {
        use ganglion::board::plan::{Curve, Scale};
        let fed = |curve| SensorPlan {
            input: Some(Scale { low, high, curve }),
            ..sensor(100, [f32::MIN, f32::MAX], -1.0, true)
        };
        let mut admission = Admission::new(&[fed(Curve::Linear), fed(Curve::Log), fed(Curve::Linear)]);
        let mut frame = Frame::empty(3);
        let now = Instant::ZERO + Span::from_millis(5_000);
        for (channel, value, stamp) in readings {
            let stamp = Instant::ZERO + Span::from_millis(stamp);
            admission.admit(&mut frame, &Reading { channel, value: Ok(value), stamp }, now);
        }
        admission.age(&mut frame, &Command::still(0), now);
        let mut inputs = [f32::NAN; MAX_SENSORS];
        let report = admission.inputs(&frame, &mut inputs);
        prop_assert_eq!(report.used, 3);
        prop_assert_eq!(report.untrusted, frame.used().iter().filter(|s| s.health != Health::Good).count());
        prop_assert!(inputs.iter().all(|input| (-1.0..=1.0).contains(input)));
    }
}

/// A change of rung that shifts the field's answer, a result that comes late, and the way back: the
/// wheels never gain more than a slew step a slot.
#[test]
fn quality_may_jump_but_the_wheels_do_not() {
    let mut robot = Robot::armed();
    let script = [
        ([0.9, 0.5, 0.4], 10, 60),
        ([0.2, 0.5, -0.4], 10, 30),
        ([0.9, 0.5, 0.4], 190, 20),
        ([0.9, 0.5, 0.4], 10, 60),
    ];
    let mut stood = 0;
    let mut fastest = 0.0f32;
    for (wish, age, slots) in script {
        for step in 0..slots {
            let before = robot.command;
            let (verdict, mode) = robot.step(&Slot { wish: Some((wish, age)), ..well(step) });
            check_command(&before, &robot.command, &verdict, mode).unwrap();
            stood += usize::from(robot.command.motors[0].abs() <= 0.0);
            fastest = fastest.max(robot.command.motors[0]);
        }
    }
    assert_eq!(stood, 20, "only while the field was missing");
    assert!((fastest - 0.9).abs() < 1e-6, "it gets there in the end");
}

/// The harness would be worthless if it never let the robot move.
#[test]
fn a_well_robot_drives_and_stops_in_the_slot_of_the_stop() {
    let stops: [fn(&mut Slot); 6] = [
        |slot| slot.e_stop = true,
        |slot| slot.guard_lost = true,
        |slot| slot.asked.stop = true,
        |slot| slot.asked.disarm = true,
        |slot| slot.wire_age = None,
        |slot| slot.skipped = 3,
    ];
    for stop in stops {
        let mut robot = Robot::armed();
        for step in 0..50 {
            robot.step(&well(step));
        }
        assert!((robot.command.motors[0] - 0.5).abs() < 1e-6);
        let mut last = well(50);
        stop(&mut last);
        robot.step(&last);
        assert!(robot.command.motors[..2].iter().all(|drive| drive.abs() <= 0.0));
        assert!((robot.command.motors[2] - 0.2).abs() < 1e-6, "steering stays where it is");
    }
}

/// An empty battery stops the robot until somebody has looked at it, not until the voltage recovers.
#[test]
fn a_latched_reflex_wants_disarm_then_arm() {
    let mut robot = Robot::armed();
    let mut drives = |slots: u64, battery: f32, asked: Asked| {
        for step in 0..slots {
            let mut slot = Slot { asked: if step == 0 { asked } else { Asked::default() }, ..well(step) };
            slot.readings[2].1 = Ok(battery + (step % 5) as f32 * 0.001);
            robot.step(&slot);
        }
        (robot.command.motors[0] > 0.0, robot.modes.mode().name())
    };
    let nothing = Asked::default();
    let (arm, disarm) = (Asked { arm: true, ..nothing }, Asked { disarm: true, ..nothing });
    assert_eq!(drives(50, 7.6, nothing), (true, "armed"));
    assert_eq!(drives(1, 6.1, nothing), (false, "latched"));
    assert_eq!(drives(500, 7.6, nothing), (false, "latched"), "the voltage recovers at rest");
    assert_eq!(drives(50, 7.6, arm), (false, "latched"));
    assert_eq!(drives(50, 6.1, disarm), (false, "latched"), "still empty");
    assert_eq!(drives(50, 7.6, disarm), (false, "disarmed"));
    assert_eq!(drives(50, 7.6, arm), (true, "armed"));
}
