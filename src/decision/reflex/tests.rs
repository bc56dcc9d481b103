//! The reflex table and the findings: what trips each of them, what each allows, and what clears it.

use super::*;
use crate::base::plan::Trip;
use crate::decision::fixture::{NACK, WELL, at, least, ms, range, safety};

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
    Rule {
        cause,
        channel: 0,
        trip,
        clear: below + 0.1,
        hold: Span::ZERO,
        retreat: Span::ZERO,
        restraint,
        latched: false,
    }
}

/// Reflexes with `rules` that have seen a healthy robot once.
fn settled(rules: &[Rule]) -> Reflexes {
    let mut reflexes = Reflexes::new(rules, &[range()], safety());
    assert_eq!(reflexes.evaluate(&frame(good(3.0, at(0))), &WELL, at(0)).0.active, 0);
    reflexes
}

#[test]
fn the_initial_restraint_is_not_an_event() {
    let mut reflexes = Reflexes::new(&[], &[range()], safety());
    let nothing = Signals::default();
    let verdict = reflexes.evaluate(&Frame::empty(1), &nothing, at(0)).0;
    assert_eq!(verdict.active, Reflexes::AT_START);
    assert_eq!((verdict.tripped, verdict.restraint), (0, Restraint::Still));
    assert!(!verdict.senses_good);
    let verdict = reflexes.evaluate(&frame(good(3.0, at(10))), &WELL, at(10)).0;
    assert_eq!((verdict.active, verdict.cleared), (0, Reflexes::AT_START));
    assert_eq!((verdict.limits, verdict.worst, verdict.senses_good), (Limits::FREE, None, true));
    assert_eq!(reflexes.trips().iter().sum::<u64>(), 0);
}

#[test]
fn each_finding_has_a_cause_a_restraint_and_an_end() {
    let well = good(3.0, at(1_000));
    let bad = |fault, stamp| Sample { health: Health::Bad(fault), ..good(3.0, stamp) };
    let old = at(799); // one millisecond more than the range finder's 200
    type Case = (&'static str, Sample, Signals, Option<Cause>, Restraint);
    let cases: [Case; 18] = [
        ("well", well, WELL, None, Restraint::Free),
        ("stale", Sample { health: Health::Stale, ..well }, WELL, Some(Cause::SensorLost), Restraint::Still),
        ("never", Sample::NEVER, WELL, Some(Cause::SensorLost), Restraint::Still),
        ("old, but good in the frame", good(3.0, old), WELL, Some(Cause::SensorLost), Restraint::Still),
        ("refused just now", bad(ReadingFault::OutOfRange, at(800)), WELL, None, Restraint::Free),
        (
            "out of range",
            bad(ReadingFault::OutOfRange, old),
            WELL,
            Some(Cause::SensorLying),
            Restraint::Still,
        ),
        ("not finite", bad(ReadingFault::NotFinite, old), WELL, Some(Cause::SensorLying), Restraint::Still),
        ("frozen", bad(ReadingFault::Frozen, old), WELL, Some(Cause::SensorLying), Restraint::Still),
        ("dead bytes", bad(ReadingFault::DeadBytes, old), WELL, Some(Cause::SensorLying), Restraint::Still),
        ("timeout", bad(ReadingFault::Timeout, old), WELL, Some(Cause::SensorLost), Restraint::Still),
        ("nack", bad(NACK, old), WELL, Some(Cause::SensorLost), Restraint::Still),
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
        ("no field", well, Signals { field_age: None, ..WELL }, Some(Cause::FieldMissing), Restraint::Still),
        (
            "wire silent",
            well,
            Signals { wire_age: Some(ms(51)), ..WELL },
            Some(Cause::BusLost),
            Restraint::Still,
        ),
        (
            "wire silent for exactly the limit",
            well,
            Signals { wire_age: Some(ms(50)), ..WELL },
            None,
            Restraint::Free,
        ),
        ("no wire", well, Signals { wire_age: None, ..WELL }, Some(Cause::BusLost), Restraint::Still),
        ("late loop", well, Signals { skipped_slots: 3, ..WELL }, Some(Cause::LoopLate), Restraint::Still),
    ];
    for (name, sample, signals, cause, restraint) in cases {
        let mut reflexes = settled(&[]);
        let verdict = reflexes.evaluate(&frame(sample), &signals, at(1_000)).0;
        let set = cause.map_or(0, Cause::bit);
        assert_eq!((verdict.worst, verdict.active, verdict.tripped), (cause, set, set), "{name}");
        assert_eq!((verdict.restraint, verdict.latched), (restraint, 0), "{name}");
        assert_eq!(verdict.limits, restraint.limits(), "{name}");
        // A good frame and good signals clear each cause; `loop-late` needs three such slots.
        for _ in 0..3 {
            reflexes.evaluate(&frame(well), &WELL, at(1_000));
        }
        let verdict = reflexes.evaluate(&frame(well), &WELL, at(1_000)).0;
        assert_eq!((verdict.active, verdict.limits), (0, Limits::FREE), "{name}");
        assert_eq!(reflexes.trips().iter().sum::<u64>(), u64::from(cause.is_some()), "{name}");
    }
}

#[test]
fn an_optional_sensor_alone_stops_no_robot() {
    let optional = SensorPlan { required: false, ..range() };
    let mut reflexes = Reflexes::new(&[], &[optional], safety());
    for sample in [Sample::NEVER, good(3.0, at(0)), Sample { health: Health::Stale, ..good(3.0, at(0)) }] {
        let verdict = reflexes.evaluate(&frame(sample), &WELL, at(900)).0;
        assert_eq!((verdict.active, verdict.senses_good), (0, true));
    }
}

#[test]
fn a_rule_that_cannot_see_restrains_until_it_can() {
    let optional = SensorPlan { required: false, worst_per_s: 0.0, ..range() };
    let stale = |stamp| Sample { health: Health::Stale, ..good(3.0, stamp) };
    let bad = |fault, stamp| Sample { health: Health::Bad(fault), ..good(3.0, stamp) };
    for latched in [false, true] {
        let rules = [Rule { latched, ..rule(Cause::Obstacle, 0.5, Restraint::NoForward) }];
        let mut reflexes = Reflexes::new(&rules, std::slice::from_ref(&optional), safety());
        let script = [
            ("never read", Sample::NEVER, Some(Cause::SensorLost)),
            ("read", good(3.0, at(1_000)), None),
            ("patience", bad(ReadingFault::Timeout, at(800)), None),
            ("silent", bad(ReadingFault::Timeout, at(799)), Some(Cause::SensorLost)),
            ("lying", bad(ReadingFault::OutOfRange, at(799)), Some(Cause::SensorLying)),
            ("read again", good(0.55, at(1_000)), None), // not tripped, so nothing to clear
            ("old", stale(at(0)), Some(Cause::SensorLost)),
            ("forgotten", Sample::NEVER, Some(Cause::SensorLost)),
            ("and again", good(3.0, at(1_000)), None),
        ];
        for (name, sample, cause) in script {
            let verdict = reflexes.evaluate(&frame(sample), &WELL, at(1_000)).0;
            assert_eq!(verdict.active, cause.map_or(0, Cause::bit), "{name}");
            assert_eq!((verdict.latched, verdict.senses_good), (0, true), "{name}");
            let allowed = cause.map_or(Restraint::Free, |_| Restraint::NoForward);
            assert_eq!(verdict.limits, allowed.limits(), "{name}");
        }
        // The worst case of a stale value still trips the rule.
        let old = Sample { worst: 0.4, ..stale(at(0)) };
        let both = Cause::Obstacle.bit() | Cause::SensorLost.bit();
        assert_eq!(reflexes.evaluate(&frame(old), &WELL, at(1_000)).0.active, both);
    }
}

#[test]
fn initially_blind_rules_are_not_an_event() {
    let optional = SensorPlan { required: false, ..range() };
    let rules = [rule(Cause::Obstacle, 0.5, Restraint::NoForward)];
    let mut reflexes = Reflexes::new(&rules, &[optional], safety());
    assert_eq!(reflexes.evaluate(&frame(Sample::NEVER), &WELL, at(0)).0.tripped, 0);
}

/// Reflexes that have seen good values, with one rule on the first of two distances or on the minimum of the
/// two.
fn watching(trip: Trip, of_least: bool, latched: bool) -> (Reflexes, Frame) {
    let least = SensorPlan { kind: least(&[0, 1]), ..range() };
    let plain = rule(Cause::EStop, 0.5, Restraint::Still);
    let clear = if matches!(trip, Trip::Below(_)) { 0.6 } else { 2.5 };
    let rule = Rule { channel: if of_least { 2 } else { 0 }, trip, clear, latched, hold: ms(30), ..plain };
    let mut reflexes = Reflexes::new(&[rule], &[range(), range(), least], safety());
    let mut seen = Frame::empty(3);
    seen.samples[..3].fill(good(2.0, at(0)));
    assert_eq!(reflexes.evaluate(&seen, &WELL, at(0)).0.active, 0);
    (reflexes, seen)
}

#[test]
fn a_reading_that_tripped_within_a_slot_counts() {
    let stop = Cause::EStop.bit();
    for of_least in [false, true] {
        let (mut reflexes, seen) = watching(Trip::Below(0.5), of_least, true);
        reflexes.observe(&seen, 0, 0.51, at(10));
        assert_eq!(reflexes.evaluate(&seen, &WELL, at(10)).0.active, 0);
        reflexes.observe(&seen, 0, 0.5, at(20));
        reflexes.observe(&seen, 0, 2.0, at(20));
        let verdict = reflexes.evaluate(&seen, &WELL, at(20)).0;
        assert_eq!((verdict.latched, verdict.tripped, verdict.limits), (stop, stop, Limits::STILL));
        assert_eq!(reflexes.evaluate(&seen, &WELL, at(9_000)).0.latched, stop);
        reflexes.rearm();
        assert_eq!(reflexes.evaluate(&seen, &WELL, at(9_010)).0.active & stop, 0);
        // Press and disarming in the same slot: their order is unknown, so the stop is latched.
        reflexes.observe(&seen, 0, 0.1, at(9_020));
        reflexes.rearm();
        assert_eq!(reflexes.evaluate(&seen, &WELL, at(9_020)).0.latched, stop);
    }
    let (mut reflexes, seen) = watching(Trip::Below(0.5), false, true);
    reflexes.observe(&seen, 1, 0.1, at(10));
    assert_eq!(reflexes.evaluate(&seen, &WELL, at(10)).0.active, 0, "a reading of another channel");
}

#[test]
fn a_brief_trip_holds_from_its_time_and_at_least_one_slot() {
    let (mut reflexes, seen) = watching(Trip::Below(0.5), false, false);
    reflexes.observe(&seen, 0, 0.2, at(10));
    for (now, active) in [(10, true), (39, true), (40, false)] {
        let verdict = reflexes.evaluate(&seen, &WELL, at(now)).0;
        assert_eq!(verdict.active != 0, active, "at {now} ms");
        assert_eq!(verdict.latched, 0);
    }
    // At 90 ms the rule's hold is over, but a new reading keeps it active for this slot.
    reflexes.observe(&seen, 0, 0.2, at(50));
    reflexes.evaluate(&seen, &WELL, at(50));
    reflexes.observe(&seen, 0, 0.2, at(90));
    assert!(reflexes.evaluate(&seen, &WELL, at(90)).0.active != 0);
    assert!(reflexes.evaluate(&seen, &WELL, at(100)).0.active == 0);
}

#[test]
fn least_trips_above_a_limit_when_all_members_are() {
    let above = |others: Sample| {
        let (mut reflexes, mut seen) = watching(Trip::Above(3.0), true, true);
        seen.samples[1] = others;
        reflexes.observe(&seen, 0, 3.0, at(10));
        reflexes.evaluate(&seen, &WELL, at(10)).0.active & Cause::EStop.bit() != 0
    };
    assert!(above(good(3.0, at(0))) && !above(good(2.9, at(0))) && !above(Sample::NEVER));
}

#[test]
fn a_stop_without_its_reading_trips_all_its_rules() {
    let rules = [
        Rule { latched: true, ..rule(Cause::Cliff, 0.1, Restraint::Still) },
        rule(Cause::Cliff, 0.5, Restraint::NoForward),
        Rule { latched: true, ..rule(Cause::Cliff, 0.3, Restraint::Slow(0.5)) },
        Rule { latched: true, ..rule(Cause::Obstacle, 0.1, Restraint::Still) },
    ];
    let well = frame(good(3.0, at(0)));
    let halts = Cause::Cliff.bit();
    let heard = Signals { halts, ..WELL };
    let mut reflexes = settled(&rules);
    let verdict = reflexes.evaluate(&well, &heard, at(10)).0;
    assert_eq!((verdict.active, verdict.latched, verdict.limits), (halts, halts, Limits::STILL));
    assert_eq!(reflexes.evaluate(&well, &WELL, at(9_000)).0.latched, halts);

    let mut reflexes = settled(&rules);
    reflexes.observe(&well, 0, 0.4, at(10));
    let verdict = reflexes.evaluate(&well, &heard, at(10)).0;
    assert_eq!((verdict.active, verdict.latched), (halts, 0), "the reading shows which rule tripped");
    // The sensor thread's stop may be reported one slot after its reading.
    assert_eq!(reflexes.evaluate(&well, &heard, at(20)).0.latched, 0);

    let mut reflexes = settled(&rules);
    reflexes.observe(&well, 0, 0.4, at(10));
    let lost = Signals { readings_lost: true, ..heard };
    assert_eq!(
        reflexes.evaluate(&well, &lost, at(10)).0.latched,
        halts,
        "another reading may be among the lost ones"
    );
    let lost = Signals { readings_lost: true, ..WELL };
    assert_eq!(settled(&rules).evaluate(&well, &lost, at(10)).0.active, 0, "nothing stopped the motors");
}

#[test]
fn the_worst_cause_is_reported_and_the_strictest_limit_applies() {
    let rules = [
        rule(Cause::Battery, 1.0, Restraint::Slow(0.3)),
        rule(Cause::Obstacle, 0.5, Restraint::NoForward),
        rule(Cause::Cliff, 0.2, Restraint::Slow(0.1)),
    ];
    let mut reflexes = settled(&rules);
    let mut look = |distance| reflexes.evaluate(&frame(good(distance, at(10))), &WELL, at(10)).0;
    let verdict = look(0.8);
    assert_eq!((verdict.worst, verdict.restraint), (Some(Cause::Battery), Restraint::Slow(0.3)));
    let verdict = look(0.4);
    assert_eq!((verdict.worst, verdict.restraint), (Some(Cause::Obstacle), Restraint::NoForward));
    assert_eq!(verdict.limits, Limits { forward: 0.0, backward: 0.3, steer: true });
    assert_eq!(verdict.tripped, Cause::Obstacle.bit(), "the battery rule had tripped before");
    let verdict = look(0.1);
    assert_eq!((verdict.worst, verdict.restraint), (Some(Cause::Cliff), Restraint::NoForward));
    assert_eq!(verdict.limits, Limits { forward: 0.0, backward: 0.1, steer: true });
    let verdict = look(3.0);
    assert_eq!(verdict.cleared, Cause::Battery.bit() | Cause::Obstacle.bit() | Cause::Cliff.bit());
}

#[test]
fn fading_is_linear_from_fresh_to_expired() {
    let shares = [(0, 1.0), (100, 1.0), (110, 0.9), (150, 0.5), (199, 0.01), (200, 0.0), (9_999, 0.0)];
    for (age, share) in shares {
        assert!((faded(ms(age), &safety()) - share).abs() < 1e-6, "{age} ms");
    }
    let no_fade = SafetyPlan { field_fade: Span::ZERO, ..safety() };
    assert!(faded(ms(100), &no_fade) > 0.99 && faded(ms(101), &no_fade) < 0.01);
}

#[test]
fn the_loop_is_late_after_consecutive_misses_until_it_recovers() {
    let script = [
        // (skipped, late): the limit is three skipped slots, and an on-time slot restarts the count
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
        let verdict = reflexes.evaluate(&frame(good(3.0, at(0))), &signals, at(0)).0;
        assert_eq!(verdict.active == Cause::LoopLate.bit(), late, "step {step}");
    }
    assert_eq!(reflexes.trips()[Cause::LoopLate as usize], 1);
}

#[test]
fn stop_stays_until_it_is_released_and_rearmed() {
    let mut reflexes = settled(&[]);
    let well = frame(good(3.0, at(0)));
    let look = |reflexes: &mut Reflexes, pressed| {
        let halts = if pressed { Cause::EStop.bit() } else { 0 };
        reflexes.evaluate(&well, &Signals { halts, ..WELL }, at(0)).0.latched
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
fn the_field_sees_an_edge_until_the_robot_backs_away() {
    let edge = Rule { retreat: ms(100), ..rule(Cause::Cliff, 1.0, Restraint::NoForward) };
    let mut reflexes = settled(&[edge]);
    let mut look = |value: f32, backed: Span| {
        let frame = frame(good(value, at(0)));
        let limits = reflexes.evaluate(&frame, &Signals { backed, ..WELL }, at(0)).0.limits;
        let shown = reflexes.field_view(&frame).samples[0];
        assert_eq!(shown.value.to_bits(), shown.worst.to_bits());
        assert_eq!((shown.stamp, shown.health), (at(0), Health::Good), "stamp and health are unchanged");
        (limits.forward > 0.0, shown.value)
    };
    assert_eq!(look(3.0, ms(50)), (true, 3.0));
    assert_eq!(look(0.6, ms(50)), (false, 0.6));
    assert_eq!(look(0.2, ms(50)), (false, 0.2));
    assert_eq!(look(0.8, ms(50)), (false, 0.2), "the worst value of the edge");
    assert_eq!(look(3.0, ms(50)), (false, 0.2), "the sensor is past the edge, the robot has not backed away");
    assert_eq!(look(3.0, ms(49)), (false, 0.2));
    assert_eq!(look(3.0, ms(1)), (true, 3.0));
    assert_eq!(look(0.7, ms(0)), (false, 0.7), "another edge");

    // A reading between two checks counts too. If the rule has no retreat, the field sees the current value.
    for (retreat, shown) in [(ms(100), 0.3), (Span::ZERO, 3.0)] {
        let mut reflexes = settled(&[Rule { retreat, ..edge }]);
        let well = frame(good(3.0, at(0)));
        reflexes.observe(&well, 0, 0.3, at(0));
        reflexes.evaluate(&well, &WELL, at(0));
        assert_eq!(reflexes.field_view(&well).samples[0].value.to_bits(), f32::to_bits(shown));
    }

    // No reading explains this stop, so the field sees the rule's limit.
    let mut reflexes = settled(&[edge]);
    let well = frame(good(3.0, at(0)));
    reflexes.evaluate(&well, &Signals { halts: Cause::Cliff.bit(), ..WELL }, at(0));
    assert_eq!(reflexes.field_view(&well).samples[0].value.to_bits(), f32::to_bits(1.0));
}

#[test]
fn causes_are_ordered_and_have_unique_names() {
    for (index, cause) in Cause::ALL.into_iter().enumerate() {
        assert_eq!(cause as usize, index);
        assert_eq!(Cause::worst_of(cause.bit() | 1), Some(cause));
        let kebab = cause.name().chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(kebab && cause.cleared_by().contains(' '), "{cause:?} has a bad name or text");
        assert!(Cause::ALL[..index].iter().all(|other| other.name() != cause.name()));
    }
    assert_eq!(Cause::worst_of(0), None);
}

fn tethered(latched: bool) -> Reflexes {
    let plan = TetherPlan {
        address: "brain:1".to_string(),
        key: "/key".into(),
        silence: ms(100),
        latched,
        on_loss: crate::base::plan::OnLoss::Stop,
    };
    settled(&[]).tethered(&plan)
}

#[test]
fn a_silent_brain_computer_stops_the_motors_after_its_timeout() {
    let mut reflexes = tethered(false);
    let mut look = |silence: Option<u64>| {
        let signals = Signals { link_silence: silence.map(ms), ..WELL };
        reflexes.evaluate(&frame(good(3.0, at(1_000))), &signals, at(1_000)).0
    };
    assert_eq!(look(Some(99)).active, 0);
    let lost = look(Some(100));
    assert_eq!((lost.worst, lost.limits, lost.latched), (Some(Cause::LinkLost), Limits::STILL, 0));
    assert_eq!(look(Some(5)).cleared, Cause::LinkLost.bit(), "an answer clears it");
    look(Some(100));
    assert_eq!(look(None).active, 0, "the field is computed locally and does not rely on the link");
    let mut own = settled(&[]);
    let signals = Signals { link_silence: Some(ms(9_000)), ..WELL };
    assert_eq!(own.evaluate(&frame(good(3.0, at(1_000))), &signals, at(1_000)).0.active, 0, "no tether");
}

#[test]
fn a_latched_link_stays_lost_until_the_robot_is_disarmed() {
    let mut reflexes = tethered(true);
    let mut look = |silence, disarmed| {
        let signals = Signals { link_silence: Some(ms(silence)), disarmed, ..WELL };
        reflexes.evaluate(&frame(good(3.0, at(1_000))), &signals, at(1_000)).0.latched
    };
    assert_eq!(look(100, false), 0, "the silence of a brain that was never heard does not latch");
    assert_eq!((look(5, false), look(100, false)), (0, Cause::LinkLost.bit()));
    assert_eq!(look(5, false), Cause::LinkLost.bit(), "an answer alone must not clear it");
    assert_eq!((look(5, true), look(5, false)), (0, 0));
}
