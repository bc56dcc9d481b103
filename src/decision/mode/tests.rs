//! Every state with every event; what disarms a robot, and what prevents arming.

use super::*;
use crate::base::plan::{Limits, Restraint};
use crate::decision::fixture::{FREE, WELL, at, ms, safety};

const NOTHING: Asked = Asked { stop: false, disarm: false, arm: false };
const ARM: Asked = Asked { arm: true, ..NOTHING };
const DISARM: Asked = Asked { disarm: true, ..NOTHING };
const STOP: Asked = Asked { stop: true, ..NOTHING };

/// A verdict with the causes in `active` and the limits of `restraint`.
fn verdict(active: u16, restraint: Restraint) -> Verdict {
    Verdict { worst: Cause::worst_of(active), restraint, limits: restraint.limits(), active, ..FREE }
}

fn well() -> Verdict {
    verdict(0, Restraint::Free)
}

/// An obstacle that is near, not latched.
fn near() -> Verdict {
    verdict(Cause::Obstacle.bit(), Restraint::NoForward)
}

/// A latched tilt, and an obstacle that is not latched.
fn tipped() -> Verdict {
    let set = Cause::Tilt.bit() | Cause::Obstacle.bit();
    Verdict { latched: Cause::Tilt.bit(), ..verdict(set, Restraint::Still) }
}

/// A robot in each state at 1 s, reached through transitions only.
fn states() -> [Modes; 7] {
    let boot = Modes::new(safety());
    let step = |from: &Modes, verdict: Verdict, asked, from_ms, to_ms| {
        let mut modes = from.clone();
        for now in (from_ms..=to_ms).step_by(10) {
            modes.advance(&verdict, &WELL, asked, at(now));
        }
        modes
    };
    let self_test = step(&boot, well(), NOTHING, 0, 0);
    let disarmed = step(&self_test, well(), NOTHING, 10, 100);
    let armed = step(&disarmed, well(), ARM, 1_000, 1_000);
    let degraded = step(&armed, near(), NOTHING, 1_000, 1_000);
    let latched = step(&armed, tipped(), NOTHING, 1_000, 1_000);
    let stopped = step(&armed, well(), STOP, 1_000, 1_000);
    [boot, self_test, disarmed, armed, degraded, latched, stopped]
}

#[test]
fn every_state_handles_every_event() {
    let since = at(1_000);
    let why = Cause::Obstacle.bit();
    let test = Mode::SelfTest { missing: ArmRefusal::NONE };
    let (idle, armed, latched) =
        (Mode::Disarmed, Mode::Armed { since }, Mode::Latched { cause: Cause::Tilt });
    let (degraded, stopped) = (Mode::Degraded { since, why }, Mode::Stopped);
    // Armed now, not at 1 s.
    let anew = Mode::Armed { since: at(1_010) };

    let starts = [Mode::Boot, test, idle, armed, degraded, latched, stopped];
    let table: [(&str, Verdict, Asked, [Mode; 7]); 8] = [
        ("nothing", well(), NOTHING, [test, idle, idle, armed, armed, latched, stopped]),
        ("arm", well(), ARM, [test, idle, anew, armed, armed, latched, stopped]),
        ("near", near(), NOTHING, [test, idle, idle, degraded, degraded, latched, stopped]),
        ("tipped", tipped(), NOTHING, [latched, latched, latched, latched, latched, latched, stopped]),
        ("disarm", well(), DISARM, [test, test, idle, idle, idle, idle, stopped]),
        ("stop", well(), STOP, [stopped; 7]),
        (
            "arm and disarm",
            well(),
            Asked { stop: false, ..Asked { disarm: true, ..ARM } },
            [test, test, idle, idle, idle, idle, stopped],
        ),
        ("all at once", tipped(), Asked { stop: true, disarm: true, arm: true }, [stopped; 7]),
    ];
    for (name, verdict, asked, ends) in table {
        for ((mut modes, start), end) in states().into_iter().zip(starts).zip(ends) {
            if start == test {
                // Settling in the self-test has its own test.
                modes.senses_good_since = Some(at(0));
            } else {
                assert_eq!(modes.mode(), start);
            }
            modes.senses_good_since = Some(at(0));
            let mode = modes.advance(&verdict, &WELL, asked, at(1_010));
            assert_eq!(mode, end, "{name} in {}", start.name());
            assert_eq!(modes.mode(), mode);
        }
    }
}

#[test]
fn stop_disarm_and_latch_end_motion_in_the_same_slot() {
    for modes in states() {
        for (verdict, asked) in [(well(), STOP), (well(), DISARM), (tipped(), NOTHING), (tipped(), ARM)] {
            let mode = modes.clone().advance(&verdict, &WELL, asked, at(1_010));
            assert_eq!(mode.obeys_since(), None, "from {}", modes.mode().name());
        }
    }
}

#[test]
fn refused_arming_gives_its_reasons() {
    let flat = Signals { field_age: Some(ms(101)), ..WELL };
    let cases = [
        (Verdict { senses_good: false, ..well() }, WELL, ArmRefusal::SENSES),
        (well(), Signals { guard_lost: true, ..WELL }, ArmRefusal::GUARD),
        (verdict(Cause::Cliff.bit(), Restraint::Still), WELL, ArmRefusal::REFLEX),
        (verdict(Cause::Battery.bit(), Restraint::Slow(0.0)), WELL, ArmRefusal::REFLEX),
        (well(), flat, ArmRefusal::FIELD),
        (well(), Signals { field_age: None, ..WELL }, ArmRefusal::FIELD),
        (well(), Signals { wire_age: None, ..WELL }, ArmRefusal::WIRE),
        (well(), Signals { wire_age: Some(ms(51)), ..WELL }, ArmRefusal::WIRE),
        (near(), WELL, ArmRefusal::NONE),
        (verdict(Cause::Battery.bit(), Restraint::Slow(0.1)), WELL, ArmRefusal::NONE),
    ];
    for (verdict, signals, refusal) in cases {
        let mut modes = states()[2].clone();
        let mode = modes.advance(&verdict, &signals, ARM, at(1_010));
        assert_eq!(modes.refusal(), refusal);
        assert_eq!(mode.obeys_since().is_some(), refusal.is_none(), "{refusal:?}");
        assert_eq!(modes.refused(), u64::from(!refusal.is_none()));
        assert_eq!(refusal.reasons().count(), usize::from(!refusal.is_none()));
        // A refused request is dropped.
        let mut later = at(1_020);
        for _ in 0..20 {
            later += ms(10);
            let mode = modes.advance(&well(), &WELL, NOTHING, later);
            assert_eq!(mode.obeys_since().is_some(), refusal.is_none());
        }
    }
}

#[test]
fn a_strict_board_without_grants_never_arms() {
    let mut modes = states()[2].clone();
    modes.refuse_real_time();
    assert_eq!(modes.advance(&well(), &WELL, ARM, at(2_000)), Mode::Disarmed);
    assert!(modes.refusal().has(ArmRefusal::REAL_TIME));
}

#[test]
fn auto_arm_needs_uninterrupted_good_sensors() {
    let auto = SafetyPlan { auto_arm: true, ..safety() };
    let mut modes = Modes::new(auto);
    let mut armed_at = None;
    for now in (0..200).step_by(10) {
        let senses_good = now != 30; // one bad reading, 30 ms in
        let mode = modes.advance(&Verdict { senses_good, ..well() }, &WELL, NOTHING, at(now));
        if mode.obeys_since().is_some() {
            armed_at.get_or_insert(now);
        }
    }
    // Good again from 40 ms, settled at 80 (disarmed), armed one slot later.
    assert_eq!(armed_at, Some(90));
    assert_eq!(modes.armings(), 1);
}

#[test]
fn a_robot_stopped_by_hand_does_not_auto_arm() {
    for disarmed_at in [0, 20, 60, 500] {
        let mut modes = Modes::new(SafetyPlan { auto_arm: true, ..safety() });
        for now in (0..2_000).step_by(10) {
            let asked = if now == disarmed_at { DISARM } else { NOTHING };
            let mode = modes.advance(&well(), &WELL, asked, at(now));
            assert!(now < disarmed_at || mode.obeys_since().is_none(), "at {now} ms");
        }
        assert_eq!(modes.mode(), Mode::Disarmed);
        let mode = modes.advance(&well(), &WELL, ARM, at(2_000));
        assert_eq!(mode, Mode::Armed { since: at(2_000) }, "but a person may arm it");
    }
}

#[test]
fn a_latch_needs_disarm_then_arm_and_drops_older_requests() {
    let mut modes = states()[5].clone();
    let mut go = |asked, now| modes.advance(&well(), &WELL, asked, at(now));
    assert_eq!(go(ARM, 1_010), Mode::Latched { cause: Cause::Tilt });
    assert_eq!(go(DISARM, 1_020), Mode::Disarmed);
    assert_eq!(go(NOTHING, 1_030), Mode::Disarmed);
    assert_eq!(go(ARM, 1_040).obeys_since(), Some(at(1_040)));
    // A restraint does not change the time of arming.
    assert_eq!(modes.advance(&near(), &WELL, NOTHING, at(1_050)).obeys_since(), Some(at(1_040)));
    assert_eq!(modes.advance(&well(), &WELL, NOTHING, at(1_060)).obeys_since(), Some(at(1_040)));
}

/// A robot that arms by itself and is restrained from 1 s on as `script` says: verdicts, each with its end in
/// ms.
fn held(script: &[(Verdict, u64)]) -> Modes {
    let mut modes = Modes::new(SafetyPlan { auto_arm: true, ..safety() });
    let mut now = 0;
    for (verdict, until) in [(well(), 1_000)].iter().chain(script) {
        while now < *until {
            modes.advance(verdict, &WELL, NOTHING, at(now));
            now += 10;
        }
    }
    modes
}

#[test]
fn robot_held_still_too_long_is_disarmed_with_the_cause() {
    let lost = verdict(Cause::SensorLost.bit(), Restraint::Still);
    // The last slot that allows motion is at 990 ms; `disarm_after` is a second.
    let modes = held(&[(lost, 1_990)]);
    assert!(modes.mode().obeys_since().is_some() && modes.disarmed().is_none());
    let mut modes = held(&[(lost, 2_000)]);
    assert_eq!(modes.mode(), Mode::Disarmed);
    let why = Disarm::Stillness { lasted: ms(1_000), causes: Cause::SensorLost.bit() };
    assert_eq!(modes.disarmed(), Some(why));
    for now in (2_000..9_000).step_by(10) {
        assert_eq!(
            modes.advance(&well(), &WELL, NOTHING, at(now)),
            Mode::Disarmed,
            "it must not arm by itself"
        );
    }
    modes.advance(&well(), &WELL, DISARM, at(9_000));
    assert_eq!(modes.disarmed(), Some(why), "the first reason is kept, because it explains the stop");
    assert!(modes.advance(&well(), &WELL, ARM, at(9_010)).obeys_since().is_some());
    assert_eq!(modes.disarmed(), None);
    modes.advance(&well(), &WELL, DISARM, at(9_020));
    assert_eq!(modes.disarmed(), Some(Disarm::Asked));
}

#[test]
fn neither_backing_off_nor_a_hold_with_breaks_disarms() {
    let lost = verdict(Cause::SensorLost.bit(), Restraint::Still);
    let slow = verdict(Cause::Battery.bit(), Restraint::Slow(0.1));
    assert!(held(&[(near(), 60_000)]).mode().obeys_since().is_some(), "backwards is motion");
    assert!(held(&[(slow, 60_000)]).mode().obeys_since().is_some());
    let every = |span: u64, free: u64, times: u64| -> Vec<(Verdict, u64)> {
        let once = |n| [(lost, 1_000 + span * n - free), (well(), 1_000 + span * n)];
        (1..=times).flat_map(once).collect()
    };
    assert!(held(&every(900, 110, 40)).mode().obeys_since().is_some(), "free for a tenth of a second");
    assert_eq!(held(&every(500, 10, 3)).mode(), Mode::Disarmed, "a single free slot does not count");
    let no_speed = verdict(Cause::Battery.bit(), Restraint::Slow(0.0));
    assert_eq!(held(&[(no_speed, 2_000)]).mode(), Mode::Disarmed, "a restraint to speed 0 allows no motion");
}

#[test]
fn a_loop_stall_counts_towards_the_stop_timer() {
    for verdict in [well(), near(), verdict(Cause::LoopLate.bit(), Restraint::Still)] {
        let mut modes = held(&[]);
        assert!(modes.advance(&verdict, &WELL, NOTHING, at(1_900)).obeys_since().is_some());
        let mut modes = held(&[]);
        assert_eq!(modes.advance(&verdict, &WELL, NOTHING, at(2_000)), Mode::Disarmed);
        assert!(matches!(modes.disarmed(), Some(Disarm::Stillness { .. })));
    }
}

#[test]
fn a_suspend_disarms_from_every_mode() {
    let lasted = ms(60_000);
    let slept = Signals { slept: Some(lasted), ..WELL };
    for (mut modes, end) in states().into_iter().zip([1, 1, 2, 2, 2, 5, 6]) {
        // A sleep does not acknowledge a latch.
        let latched = matches!(modes.mode(), Mode::Latched { .. });
        let verdict = if latched { tipped() } else { well() };
        let mode = modes.advance(&verdict, &slept, ARM, at(1_010));
        assert_eq!((mode.code(), mode.obeys_since()), (end, None));
        assert_eq!(modes.disarmed(), (end <= 2).then_some(Disarm::Slept { lasted }));
    }
    let mut modes = held(&[]);
    modes.advance(&well(), &slept, NOTHING, at(1_000));
    for now in (1_010..3_000).step_by(10) {
        assert_eq!(modes.advance(&well(), &WELL, NOTHING, at(now)), Mode::Disarmed, "it armed by itself");
    }
}

#[test]
fn mode_codes_are_fixed_and_a_tipped_robot_may_not_move() {
    let codes: Vec<_> = states().iter().map(|modes| modes.mode().code()).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(tipped().limits, Limits::STILL);
}

#[test]
fn names_and_bits_match_their_meaning() {
    let names: Vec<&str> = states().iter().map(|modes| modes.mode().name()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["armed", "boot", "degraded", "disarmed", "latched", "self-test", "stopped"]);
    for (modes, name) in states().iter().zip(names) {
        assert_eq!(Mode::name_of(modes.mode().code()), name);
    }
    let [senses, guard] = [ArmRefusal::SENSES, ArmRefusal::GUARD];
    let both = senses.or(guard);
    assert_eq!((both.and(guard), both.and(ArmRefusal::WIRE)), (guard, ArmRefusal::NONE));
    assert_eq!(ArmRefusal::from_bits(both.bits()), both);
    assert_eq!(ArmRefusal::from_bits(0xFF).reasons().count(), 6);
    assert_eq!(ArmRefusal::from_bits(0xFF).bits(), 0x3F, "unknown bits are dropped");
}

#[test]
fn only_an_armed_or_auto_arming_robot_is_willing() {
    let willing = states().map(|modes| modes.is_willing());
    assert_eq!(
        willing,
        [false, false, false, true, true, false, true],
        "boot to stopped, on a board without auto-arm"
    );
    let auto = Modes::new(SafetyPlan { auto_arm: true, ..safety() });
    assert!(auto.is_willing(), "willing before its first slot");
    let stopped = |verdict: Verdict, asked| {
        let mut armed = states()[3].clone();
        armed.advance(&verdict, &WELL, asked, at(1_010));
        assert_eq!(armed.mode(), Mode::Stopped);
        armed.advance(&well(), &WELL, NOTHING, at(1_020));
        armed.is_willing()
    };
    assert!(stopped(well(), STOP));
    assert!(!stopped(tipped(), STOP), "a latch in the same slot counts");
    assert!(!stopped(well(), Asked { disarm: true, ..STOP }), "a disarm in the same slot counts");
}
