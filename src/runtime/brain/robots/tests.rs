//! The robots of one brain do not affect each other.

use super::super::engine::EngineOpener;
use super::super::tests::fixture::{PERIOD, alone, at, board, join, request, send, serve};
use super::*;
use crate::base::time::{Clock, SimClock};
use crate::field::Failure;
use crate::field::remote::message::REQUEST_BYTES;
use proptest::prelude::*;

fn brain(robots: usize, state: Option<PathBuf>) -> Robots {
    Robots::new(Limits { robots, threads: 64, state })
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ganglion-brain-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn each_of_64_robots_gets_the_same_bits_as_alone() {
    const CYCLES: u64 = 30;
    let (board, clock) = (board(), Arc::new(SimClock::new()));
    let mut brain = brain(64, None);
    let ids: Vec<RobotId> =
        (0..64).map(|robot| join(&mut brain, &format!("r{robot}"), &board, &clock)).collect();
    let mut answers: BTreeMap<RobotId, Vec<Vec<u8>>> = BTreeMap::new();
    for cycle in 0..CYCLES {
        clock.set(at(cycle));
        for (robot, id) in ids.iter().enumerate() {
            let bytes = request(&board, robot as u64, cycle, clock.now()).encode();
            assert_eq!(send(&mut brain, *id, &bytes, &clock), None);
        }
        for (id, answer) in serve(&mut brain, &clock) {
            answers.entry(id).or_default().push(answer.encode().to_vec());
        }
    }
    for (robot, id) in ids.iter().enumerate() {
        let mut engine = EngineOpener::at_rest(board.clone()).open(clock.clone()).unwrap();
        let expected = alone(&mut engine, &board, robot as u64, 0..CYCLES);
        assert_eq!(answers[id], expected, "robot {robot}");
        assert!(robot == 0 || expected[5..] != answers[&ids[0]][5..], "and not another robot's");
    }
    let totals = brain.totals().row();
    assert_eq!((totals.cycles, totals.late, totals.missed, totals.replaced), (64 * CYCLES, 0, 0, 0));
}

/// How a robot may misbehave.
#[derive(Clone, Debug)]
enum Misbehavior {
    Bytes(Vec<u8>),
    Corrupted { at: usize, value: u8 },
    NotANumber { sensor: usize, bits: u32 },
    Count(u8),
    Flood(u8),
    Nothing,
    Rejoin,
}

fn misbehavior() -> impl Strategy<Value = Misbehavior> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..2 * REQUEST_BYTES).prop_map(Misbehavior::Bytes),
        (0..REQUEST_BYTES, any::<u8>()).prop_map(|(at, value)| Misbehavior::Corrupted { at, value }),
        (0..8usize, 0x7f80_0000u32..=0x7fff_ffff)
            .prop_map(|(sensor, bits)| Misbehavior::NotANumber { sensor, bits }),
        any::<u8>().prop_map(Misbehavior::Count),
        any::<u8>().prop_map(Misbehavior::Flood),
        Just(Misbehavior::Nothing),
        Just(Misbehavior::Rejoin),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn broken_input_of_one_robot_changes_no_bit_of_another(all in proptest::collection::vec(misbehavior(), 1..12)) {
        let (board, clock) = (board(), Arc::new(SimClock::new()));
        let mut brain = brain(2, None);
        let mut bad = join(&mut brain, "bad", &board, &clock);
        let good = join(&mut brain, "good", &board, &clock);
        let mut answers = Vec::new();
        for (cycle, what) in all.iter().enumerate() {
            let cycle = cycle as u64;
            clock.set(at(cycle));
            let sound = request(&board, 7, cycle, clock.now());
            let mut bytes = sound.encode().to_vec();
            match what {
                Misbehavior::Bytes(other) => bytes = other.clone(),
                Misbehavior::Corrupted { at, value } => bytes[*at] = *value,
                Misbehavior::NotANumber { sensor, bits } => {
                    bytes[48 + 4 * sensor..][..4].copy_from_slice(&bits.to_le_bytes());
                }
                Misbehavior::Count(count) => bytes[2] = *count,
                Misbehavior::Flood(count) => {
                    for _ in 0..*count {
                        send(&mut brain, bad, &bytes, &clock);
                        serve(&mut brain, &clock);
                    }
                }
                Misbehavior::Nothing => {}
                Misbehavior::Rejoin => bad = join(&mut brain, "bad", &board, &clock),
            }
            if !matches!(what, Misbehavior::Nothing) {
                send(&mut brain, bad, &bytes, &clock);
            }
            let own = request(&board, 1, cycle, clock.now()).encode();
            prop_assert_eq!(send(&mut brain, good, &own, &clock), None);
            let served = serve(&mut brain, &clock);
            answers.extend(served.into_iter().filter(|(id, _)| *id == good).map(|(_, a)| a.encode().to_vec()));
        }
        let mut engine = EngineOpener::at_rest(board.clone()).open(clock.clone()).unwrap();
        let expected = alone(&mut engine, &board, 1, 0..all.len() as u64);
        prop_assert_eq!(answers, expected);
    }
}

#[test]
fn an_out_of_range_request_leaves_the_field_untouched() {
    let (board, clock) = (board(), Arc::new(SimClock::new()));
    let mut brain = brain(1, None);
    let id = join(&mut brain, "one", &board, &clock);
    let mut bytes = request(&board, 1, 3, at(0)).encode();
    bytes[48..52].copy_from_slice(&f32::NAN.to_le_bytes());
    let answer = send(&mut brain, id, &bytes, &clock).expect("the request names its cycle");
    assert_eq!((answer.verdict, answer.cycle, answer.sent), (Verdict::Refused, 3, at(0)));
    assert_eq!(send(&mut brain, id, &bytes[1..], &clock), None, "at a wrong length the cycle is unknown");
    let mut fewer = request(&board, 1, 4, at(0));
    fewer.sensors[usize::from(fewer.count) - 1] = 0.0;
    fewer.count -= 1;
    assert_eq!(send(&mut brain, id, &fewer.encode(), &clock), None);
    assert_eq!(serve(&mut brain, &clock)[0].1.verdict, Verdict::Refused);
    let row = &brain.rows(clock.now())[0];
    assert_eq!((row.requests, row.refused, row.cycles), (3, 3, 0));
}

#[test]
fn engine_that_panics_or_computes_nan_is_reopened_alone() {
    for panics in [true, false] {
        let (board, clock) = (board(), Arc::new(SimClock::new()));
        let mut brain = brain(2, None);
        let Ok(Joined::Opens(id, opener)) = brain.join("ill", &board, PERIOD, clock.now()) else { panic!() };
        let ill = opener.with_cycle(Box::new(move |engine, input| match input.cycle {
            3 if panics => panic!("the test makes it panic"),
            3 => Err(Failure::NotFinite),
            _ => engine.cycle(input),
        }));
        brain.install(id, ill.open(clock.clone()), clock.now()).unwrap();
        let well = join(&mut brain, "well", &board, &clock);
        let mut verdicts = Vec::new();
        let mut answers = Vec::new();
        for cycle in 0..40 {
            clock.set(at(cycle));
            let ask = |robot| request(&board, robot, cycle, clock.now()).encode();
            verdicts.extend(send(&mut brain, id, &ask(0), &clock).map(|answer| answer.verdict));
            send(&mut brain, well, &ask(1), &clock);
            for (robot, answer) in serve(&mut brain, &clock) {
                match robot == id {
                    true => verdicts.push(answer.verdict),
                    false => answers.push(answer.encode().to_vec()),
                }
            }
            for chore in brain.chores(clock.now()) {
                let Chore::Open(robot, opener) = chore else { panic!("no robot is silent") };
                brain.install(robot, opener.open(clock.clone()), clock.now()).unwrap();
            }
        }
        let mut engine = EngineOpener::at_rest(board.clone()).open(clock.clone()).unwrap();
        assert_eq!(answers, alone(&mut engine, &board, 1, 0..40));
        // Cycle 3 fails; the engine is opened again half a second (25 cycles) later.
        let expected = (0..40).map(|cycle| match cycle {
            3..=28 => Verdict::Failed,
            _ => Verdict::Answered,
        });
        assert_eq!(verdicts, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_silent_robot_is_parked_and_resumes_from_its_snapshot() {
    let (board, clock) = (board(), Arc::new(SimClock::new()));
    let folder = folder("parked");
    let mut brain = brain(2, Some(folder.clone()));
    let mut answers = Vec::new();
    let mut drive = |brain: &mut Robots, id, cycles: std::ops::Range<u64>| {
        for cycle in cycles {
            clock.set(at(cycle));
            send(brain, id, &request(&board, 4, cycle, clock.now()).encode(), &clock);
            answers.extend(serve(brain, &clock).into_iter().map(|(_, answer)| answer.encode().to_vec()));
        }
    };
    let id = join(&mut brain, "walker", &board, &clock);
    drive(&mut brain, id, 0..12);
    clock.set(at(12) + PARKED_AFTER);
    let Some(Chore::Park { name, engine, row, .. }) = brain.chores(clock.now()).pop() else {
        panic!("it was silent")
    };
    assert_eq!((name.as_str(), row.cycles, brain.len()), ("walker", 12, 0));
    assert_eq!(engine.finish().map(|counts| counts.written), Some(1));
    assert_eq!(send(&mut brain, id, &[], &clock), None, "it has to join again");
    let again = join(&mut brain, "walker", &board, &clock);
    assert_ne!(again, id);
    drive(&mut brain, again, 12..24);
    let mut engine = EngineOpener::at_rest(board.clone()).open(clock.clone()).unwrap();
    assert_eq!(answers, alone(&mut engine, &board, 4, 0..24), "as if it had never left");
    for chore in brain.end(clock.now()) {
        let Chore::Park { engine, .. } = chore else { panic!("nothing failed") };
        assert_eq!(engine.finish().map(|counts| counts.failed), Some(0));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn refused_robots_get_the_figures() {
    let (board, clock) = (board(), Arc::new(SimClock::new()));
    let mut brain = Robots::new(Limits { robots: 2, threads: 1, state: None });
    let refused = |brain: &mut Robots, name: &str, period| match brain.join(name, &board, period, at(0)) {
        Err(refusal) => refusal.to_string(),
        Ok(_) => panic!("{name} joined"),
    };
    let long = "x".repeat(65);
    for bad in ["", "../x", ".x", "a/b", "a\nb", long.as_str()] {
        assert!(refused(&mut brain, bad, PERIOD).contains("the robot's name"));
    }
    let said = refused(&mut brain, "fast", Span::from_micros(110));
    assert!(said.contains("a cycle in 0.10 ms; one robot may use 0.09 ms every 0.1 ms"), "{said}");
    join(&mut brain, "one", &board, &clock);
    join(&mut brain, "two", &board, &clock);
    let said = refused(&mut brain, "three", PERIOD);
    assert_eq!(said, "2 robots have joined, and the brain takes at most 2");
    join(&mut brain, "one", &board, &clock);
    assert_eq!(brain.len(), 2, "joining again does not add a robot");
}

#[test]
fn a_late_request_is_answered_without_computing_and_counted() {
    let (board, clock) = (board(), Arc::new(SimClock::new()));
    let mut brain = brain(2, None);
    let [late, other] = ["late", "other"].map(|name| join(&mut brain, name, &board, &clock));
    let old = request(&board, 0, 0, at(0)).encode();
    clock.set(at(0));
    send(&mut brain, late, &old, &clock);
    clock.set(at(0) + PERIOD);
    send(&mut brain, other, &request(&board, 1, 0, at(0)).encode(), &clock);
    let answers = serve(&mut brain, &clock);
    let verdicts: Vec<_> = answers.iter().map(|(id, answer)| (*id, answer.verdict)).collect();
    assert_eq!(verdicts, [(late, Verdict::Late), (other, Verdict::Answered)]);
    let rows = brain.rows(clock.now());
    assert_eq!(rows.iter().map(|row| (row.late, row.cycles)).collect::<Vec<_>>(), [(1, 0), (0, 1)]);
}
