//! Saving and restoring an engine: the restored engine continues exactly, an engine of another kind continues
//! within its rounding errors, a state that does not fit changes nothing, and saving again allocates nothing.

use super::agreement::Bounds;
use super::identity::shown;
use super::*;
use crate::allocation::allocations_in;
use ganglion::field::shape::DESCRIPTOR;
use ganglion::field::state::{Live, StateError};

/// The state is saved after these numbers of cycles of `level_at`: at each level, in the middle of a two-part
/// sweep, on the half grid, before the first cycle, and long after the bank became full.
const MOMENTS: [u64; 9] = [0, 3, 7, 11, 16, 17, 23, 28, 103];

fn run(engine: &mut dyn Inspect, cycles: std::ops::Range<u64>) {
    cycles.for_each(|cycle| assert!(engine.cycle(&input(9, cycle, level_at(cycle))).is_ok()));
}

fn saved(engine: &mut dyn Inspect) -> Live {
    let mut live = Live::default();
    assert!(engine.save(&mut live));
    live
}

/// Another engine of `plan` that continues from the state of `engine`. It has run other cycles first, so any
/// state that `restore` misses would show.
fn successor(engine: &mut dyn Inspect, plan: &FieldPlan) -> Box<dyn Inspect> {
    let mut other = engine::build(plan);
    run(other.as_mut(), 0..27);
    other.load(&engine.learned()).expect("it fits");
    other.restore(&saved(engine)).expect("it fits");
    other
}

#[test]
fn the_restored_cpu_engine_continues_bit_for_bit() {
    for storage in STORAGES {
        for threads in [1, 2] {
            let plan = FieldPlan { storage, threads, ..plan(8) };
            for moment in MOMENTS {
                let mut first = build(&plan);
                run(first.as_mut(), 0..moment);
                let mut second = successor(first.as_mut(), &plan);
                for cycle in moment..moment + 50 {
                    let input = input(9, cycle, level_at(cycle));
                    let what = format!("{storage:?}, {threads} threads, from {moment}, cycle {cycle}");
                    assert_eq!(shown(first.as_mut(), &input), shown(second.as_mut(), &input), "{what}");
                    assert_eq!(first.metrics(), second.metrics(), "{what}");
                }
                assert_eq!(saved(first.as_mut()), saved(second.as_mut()));
            }
        }
    }
}

#[test]
fn the_restored_reference_continues_bit_for_bit() {
    let plan = FieldPlan { engine: EngineKind::Reference, ..plan(8) };
    for moment in MOMENTS {
        let mut first = build(&plan);
        run(first.as_mut(), 0..moment);
        let mut second = successor(first.as_mut(), &plan);
        for cycle in moment..moment + 50 {
            let input = input(9, cycle, level_at(cycle));
            let answers = [&mut first, &mut second].map(|engine| {
                let response = engine.cycle(&input).expect("in range");
                format!("{response:?} {:?} {:?} {:?}", engine.prediction(), engine.nearest(), engine.blend())
            });
            assert_eq!(answers[0], answers[1], "from {moment}, cycle {cycle}");
        }
        assert_eq!(saved(first.as_mut()), saved(second.as_mut()), "from {moment}");
    }
}

#[test]
fn one_engine_continues_where_another_stopped() {
    let cpu = FieldPlan { learn: false, ..plan(8) };
    let reference = FieldPlan { engine: EngineKind::Reference, ..cpu.clone() };
    let bound = Bounds::of(&cpu).cell;
    for [from, to] in [[&cpu, &reference], [&reference, &cpu]] {
        for moment in MOMENTS {
            let mut first = build(from);
            for experience in 0..5 {
                let draw = |i: usize| uniform(experience, Stream::Patterns, i as u64) as f32 - 0.5;
                assert!(first.store_experience(&std::array::from_fn(draw), 0.5));
            }
            // A vector without a direction: its length is below the minimum, so it is never a neighbour.
            assert!(first.store_experience(&[1e-6; DESCRIPTOR], 0.1));
            run(first.as_mut(), 0..moment);
            let mut second = successor(first.as_mut(), to);
            for cycle in moment..moment + 50 {
                let input = input(9, cycle, level_at(cycle));
                let what = format!("from {} at {moment}, cycle {cycle}", first.kind());
                let answers = [&mut first, &mut second].map(|engine| engine.cycle(&input).expect("in range"));
                for (a, b) in answers[0].scores.iter().zip(&answers[1].scores) {
                    assert!(f64::from((a - b).abs()) <= bound, "{what}: scores {a} and {b}");
                }
                assert!((answers[0].novelty - answers[1].novelty).abs() < 1e-4, "{what}");
                assert!((answers[0].skill - answers[1].skill).abs() < 1e-3, "{what}");
                assert!((answers[0].confidence - answers[1].confidence).abs() < 1e-4, "{what}");
                let mut features = [[0.0; FEATURES]; 2];
                first.copy_features(&mut features[0]);
                second.copy_features(&mut features[1]);
                let off = features[0].iter().zip(&features[1]).map(|(a, b)| (a - b).abs());
                assert!(off.fold(0.0, f32::max) <= bound as f32, "{what}: features");
                assert_eq!(first.nearest().len(), second.nearest().len(), "{what}");
                for (a, b) in first.nearest().iter().zip(second.nearest()) {
                    assert!((a.1 - b.1).abs() < 1e-4, "{what}: {a:?} and {b:?}");
                }
            }
        }
    }
}

#[test]
fn saving_again_allocates_nothing() {
    for kind in [EngineKind::Cpu, EngineKind::Reference] {
        for storage in STORAGES {
            let plan = FieldPlan { engine: kind, storage, ..plan(8) };
            let mut engine = build(&plan);
            let mut live = saved(engine.as_mut());
            for cycle in 0..60 {
                run(engine.as_mut(), cycle..cycle + 1);
                let count = allocations_in(|| assert!(engine.save(&mut live)));
                assert_eq!(count, 0, "{kind:?}, {storage:?}, cycle {cycle}");
            }
            assert_eq!(live, saved(engine.as_mut()), "nothing of an older state is left in it");
        }
    }
}

type Spoil = (&'static str, fn(&mut Live));

const SPOILS: [Spoil; 42] = [
    ("cells of the whole grid", |live| live.whole.truncate(7)),
    ("cells of the whole grid", |live| live.whole[5] = 0.96),
    ("cells of the whole grid", |live| live.whole[5] = f32::NAN),
    ("cells of the half grid", |live| live.half = vec![0.0; 64 * 64]),
    ("cells of the half grid", |live| live.on_half = true),
    ("fine cells of the whole grid", |live| live.fine.whole = vec![0.5; live.whole.len()]),
    ("means of channels", |live| live.reduced.context = vec![0.0; 3]),
    ("means of blocks", |live| {
        (live.reduced.context, live.reduced.descriptor) = (vec![0.0; 64], vec![2.0; 512])
    }),
    ("sensors", |live| live.senses.sensors[0] = 1.5),
    ("predictions", |live| live.senses.prediction.push(0.0)),
    ("covariance", |live| live.senses.covariance[9] = f64::INFINITY),
    ("errors", |live| live.senses.errors = vec![0.0; 1001]),
    ("turn of the ridge", |live| live.senses.turn = 97),
    ("cycles since a group was stepped", |live| live.since_step[6] = u64::MAX),
    ("cycles since the library was matched", |live| live.since_blend = 3),
    ("cycles since a step of learning", |live| live.since_learn = 5),
    ("slots of the blend", |live| live.blend = vec![(6, 1.0)]),
    ("numbers of the bank", |live| live.bank.value.push(1.0)),
    ("length of an experience", |live| live.bank.rows[0] = 1.1),
    ("part of the sweep", |live| live.bank.next_part = Some(2)),
    ("rows of the last sweep", |live| live.bank.nearest = vec![(0, 0.1), (1, 0.2)]),
    ("scores", |live| live.scores[15] = f64::NAN),
    // Finite, but a value that no run produces.
    ("scores", |live| live.scores[0] = 1.7e308),
    ("bridge", |live| live.bridge[0] = -1.7e308),
    ("changes", |live| live.senses.change[0] = 2.1),
    ("learned changes", |live| live.senses.learned[0] = 1.7e308),
    ("means of sensors", |live| live.senses.mean[0] = 1.1),
    ("errors of the prediction", |live| live.senses.predicted[0] = 4.1),
    ("errors of same as before", |live| live.senses.persistent[0] = -0.1),
    ("errors of the mean", |live| live.senses.climatic[0] = 1.7e308),
    ("agreements", |live| live.senses.agreement[0] = 1.7e308),
    ("powers", |live| live.senses.power[0] = -1.0),
    ("errors", |live| live.senses.errors[0] = 2.1),
    ("regressors", |live| live.senses.regressors[0] = 33.0),
    ("weights of the prediction", |live| live.senses.weights[0] = 1.7e308),
    ("length of a row of the prediction", |live| live.senses.weights.fill(50.0)),
    ("covariance", |live| live.senses.covariance[0] = 1.7e308),
    ("covariance", |live| live.senses.covariance[1] += 0.01),
    ("values of experiences", |live| live.bank.value[0] = 1.7e308),
    ("last uses of experiences", |live| live.bank.last_use[0] = live.cycle + 1),
    ("cycles behind the averages", |live| live.senses.observed = live.age + 1),
    ("cycles since the start", |live| live.age = u64::MAX),
];

fn named(error: StateError) -> &'static str {
    match error {
        StateError::Count { field, .. }
        | StateError::TooMany { field, .. }
        | StateError::Value { field, .. } => field,
    }
}

#[test]
fn unfitting_state_is_refused_by_name_and_changes_nothing() {
    for kind in [EngineKind::Cpu, EngineKind::Reference] {
        let plan = FieldPlan { engine: kind, ..plan(8) };
        let mut engine = build(&plan);
        run(engine.as_mut(), 0..24);
        let mut other = build(&plan);
        run(other.as_mut(), 0..9);
        let before = (saved(other.as_mut()), other.learned());
        for (field, spoil) in SPOILS {
            let mut live = saved(engine.as_mut());
            spoil(&mut live);
            assert_eq!(other.restore(&live).map_err(named), Err(field), "{kind:?}");
        }
        let given = engine.learned();
        let mut short = given.clone();
        short.patterns.pop();
        let mut beyond = given.clone();
        beyond.patterns[2].as_mut().expect("stored").volume[3] = i16::MIN;
        let mut long = given.clone();
        long.patterns[0].as_mut().expect("stored").context[0] = 2.0;
        let mut endless = given;
        endless.readout[8] = f32::INFINITY;
        let mut huge = engine.learned();
        huge.readout[8] = 1.7e38;
        let cases = [
            (short, "slots of the library"),
            (beyond, "cells of a pattern"),
            (long, "length of a pattern's context"),
            (endless, "weights of the read-out"),
            (huge, "weights of the read-out"),
        ];
        for (given, field) in cases {
            assert_eq!(other.load(&given).map_err(named), Err(field), "{kind:?}");
        }
        assert_eq!((saved(other.as_mut()), other.learned()), before, "{kind:?}");
    }
    let mut small = build(&FieldPlan { shape: Shape { bank: 3, ..plan(8).shape }, ..plan(8) });
    let mut full = build(&plan(8));
    run(full.as_mut(), 0..24);
    let error = small.restore(&saved(full.as_mut())).expect_err("it has space for three");
    assert!(error.to_string().starts_with("experiences: ") && error.to_string().ends_with("has room for 3"));
}

#[test]
fn f64_state_is_handed_over_exactly_between_engines() {
    let reference = FieldPlan { engine: EngineKind::Reference, ..plan(8) };
    for [from, to] in [[&plan(8), &reference], [&reference, &plan(8)]] {
        let mut first = build(from);
        run(first.as_mut(), 0..28); // it has learned and stored, and is in the middle of a sweep
        let mut second = successor(first.as_mut(), to);
        let (a, b) = (saved(first.as_mut()), saved(second.as_mut()));
        assert_eq!((&a.senses, &a.blend, a.scores, a.bridge), (&b.senses, &b.blend, b.scores, b.bridge));
        assert_eq!((a.cycle, a.age, a.on_half, a.since_learn), (b.cycle, b.age, b.on_half, b.since_learn));
        assert_eq!((&a.bank.value, &a.bank.last_use), (&b.bank.value, &b.bank.last_use));
        assert!(a.senses.weights.iter().any(|w| w.abs() > 1e-3) && a.bank.value.len() > 5);
    }
}
