//! An ablation study gives the same figures with one thread and with two. Leaving out a part that has no
//! effect changes nothing; leaving out one that matters does.

use crate::cli::ganglion;
use ganglion::base::plan::{Board, QualityLevel, Shape};
use ganglion::deploy::board;
use ganglion::workshop::ablate::arm::Arm;
use ganglion::workshop::ablate::judge::Run;
use ganglion::workshop::ablate::{Findings, Study, ablate};
use ganglion::workshop::teach::Syllabus;
use ganglion::workshop::teach::trial::Rooms;
use ganglion::workshop::teach::trouble::Trouble;
use std::sync::atomic::AtomicBool;

/// The desk robot with the smallest field.
fn small() -> Board {
    let mut board = board::built_in("sim").expect("built in").expect("sound").board;
    board.field.shape = Shape { grid: 8, patterns: 4, bank: 64, ..board.field.shape };
    board
}

/// A study whose fields are taught in two short lessons and judged in two short drives.
fn study(arms: &[Arm], fields: usize, threads: usize) -> Study {
    let rooms = Rooms { first: 1 << 41, count: 2, seconds: 4 };
    Study {
        arms: arms.to_vec(),
        rooms: Rooms { first: 31, count: 2, seconds: 10 },
        fields,
        quality: QualityLevel::BEST,
        trouble: Trouble::None,
        syllabus: Syllabus { rounds: 1, lessons: 2, lesson_s: 6, rooms, threads, ..Syllabus::default() },
    }
}

fn done(study: &Study) -> Findings {
    let findings = ablate(&small(), study, &AtomicBool::new(false), |_| ()).expect("the study runs");
    findings.expect("not interrupted")
}

fn runs(findings: &Findings, arm: Arm) -> &[Vec<Run>] {
    &findings.arms.iter().find(|finding| finding.arm == arm).expect("an arm of the study").runs
}

#[test]
fn thread_count_does_not_matter_and_null_effects_stay_null() {
    let alone = done(&study(&[Arm::Bank, Arm::Recurrence, Arm::Table, Arm::Random, Arm::Recall], 1, 1));
    let both = done(&study(&[Arm::Bank, Arm::Random, Arm::Table], 2, 2));
    let order: Vec<Arm> = alone.arms.iter().map(|finding| finding.arm).collect();
    assert_eq!(
        order,
        [Arm::Whole, Arm::Table, Arm::Random, Arm::Recurrence, Arm::Bank],
        "the board has no map"
    );
    for arm in [Arm::Whole, Arm::Table, Arm::Random, Arm::Bank] {
        assert!(
            runs(&alone, arm)[0] == runs(&both, arm)[0],
            "{}: two threads give another result",
            arm.name()
        );
    }
    let whole = runs(&both, Arm::Whole);
    assert_ne!(whole[0], whole[1], "the field seed matters");
    let table = runs(&both, Arm::Table);
    assert!(table[0] == table[1] && table[0] != whole[0], "the table uses no field");

    let same = |findings: &Findings, at: usize| findings.arms[at].same_as(&findings.arms[0]);
    assert_eq!(
        (same(&alone, 4), same(&alone, 3)),
        (1.0, 0.0),
        "without the bank nothing changes; without recurrence it does"
    );
    let bank = alone.arms[4].against(&alone.arms[0]);
    assert!(bank.iter().flatten().all(|difference| !difference.is_apart() && difference.mean == 0.0));
    let shares = alone.shares.iter().sum::<f64>();
    let random = runs(&both, Arm::Random);
    assert!(random[0] == random[1], "random requests do not depend on the field seed");
    assert_ne!(random[0][0].digest, random[0][1].digest, "each room has its own requests");
    assert!(random[0].iter().all(|run| !table[0].contains(run)));
    let costs: Vec<_> = alone.arms.iter().map(|finding| finding.cost).collect();
    assert!(costs.iter().all(|cost| cost.cycle_us.is_some()), "every arm's cycles are timed: {costs:?}");
    let bytes: Vec<u64> = costs.iter().map(|cost| cost.memory_bytes).collect();
    assert_eq!((bytes[1], bytes[2], bytes[3]), (0, 0, bytes[0]), "no field; recurrence needs no memory");
    assert!(bytes[4] < bytes[0], "one experience takes less memory than 64: {bytes:?}");
    assert!((shares - 1.0).abs() < 1e-6 && alone.shares.iter().all(|share| *share >= 0.0), "{shares}");
}

#[test]
fn every_driver_gets_the_same_faults_and_interrupts_are_clean() {
    let calm = study(&[Arm::Table], 1, 2);
    let troubled = Study { trouble: Trouble::Noise, ..calm.clone() };
    let (calm, noisy) = (done(&calm), done(&troubled));
    for arm in [Arm::Whole, Arm::Table] {
        assert_ne!(runs(&calm, arm), runs(&noisy, arm), "{}", arm.name());
    }
    let interrupted = AtomicBool::new(true);
    assert!(ablate(&small(), &troubled, &interrupted, |_| ()).expect("the study runs").is_none());
}

#[test]
fn ablate_refuses_incomparable_requests() {
    let refused = |arguments: &[&str]| ganglion(arguments).output().expect("it starts").status.code();
    assert_eq!(refused(&["ablate", "--board", "picarx-v4"]), Some(78), "not a simulated board");
    assert_eq!(refused(&["ablate", "--board", "sim", "--arm", "whole"]), Some(64));
    assert_eq!(refused(&["ablate", "--board", "sim", "--trouble", "ghosts"]), Some(64));
}
