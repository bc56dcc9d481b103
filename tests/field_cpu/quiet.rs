//! What a cycle must not do: allocate, or touch a page for the first time.

use super::*;
use crate::allocation::{allocations_in, allocations_in_process, alone};
use std::io::Read;

/// A run that exercises everything: all quality levels and changes between them, learning, a full bank that
/// evicts, a library that blends, metrics, refused inputs, a new read-out and a replaced pattern.
fn eventful(engine: &mut dyn Inspect, cycles: std::ops::Range<u64>, readout: &[f32], volume: &[f32]) {
    for cycle in cycles {
        let mut bad = input(9, cycle, 0);
        bad.sensors[3] = f32::NAN;
        assert!(engine.cycle(&bad).is_err());
        assert!(engine.cycle(&input(9, cycle, level_at(cycle))).is_ok());
        if cycle % 50 == 7 {
            assert!(engine.set_readout(readout));
            assert!(engine.store_pattern(5, volume, &context(5), 1.0));
        }
    }
}

/// Stores the pattern that the run replaces, because a slot allocates when it is first used.
fn first_in_its_slot(engine: &mut dyn Inspect, volume: &[f32]) {
    let stored = engine.store_pattern(5, volume, &context(5), 1.0);
    assert!(stored, "a slot of the plan");
}

/// A bank of five, full after five cycles.
fn small(grid: usize, threads: usize, storage: Storage) -> FieldPlan {
    FieldPlan { threads, storage, shape: Shape { bank: 5, ..plan(grid).shape }, ..plan(grid) }
}

#[test]
fn a_cycle_allocates_nothing() {
    for storage in STORAGES {
        for level in Level::all() {
            let plan = small(8, 1, storage);
            let (readout, volume) = (readout(5), volume(5, 8));
            let mut engine = build_at(&plan, level);
            first_in_its_slot(engine.as_mut(), &volume);
            let count = allocations_in(|| eventful(engine.as_mut(), 0..240, &readout, &volume));
            assert_eq!(count, 0, "{storage:?}, {}", level.name());
            assert!(
                engine.experiences() == 5 && engine.metrics().is_some_and(|metrics| metrics.cycle == 200)
            );
        }
    }
}

/// At least one of three attempts, each with its own engine, must count 0: the test runner's thread and the
/// system may add counts now and then, but what an engine does, it does in every attempt.
pub fn quiet_once(what: &str, mut attempt: impl FnMut() -> u64) {
    let mut counts = Vec::new();
    while counts.len() < 3 && counts.last().is_none_or(|count| *count > 0) {
        counts.push(attempt());
    }
    assert_eq!(counts.last(), Some(&0), "{what}: {counts:?}");
}

#[test]
fn worker_threads_allocate_nothing_either() {
    alone("field_cpu::quiet::worker_threads_allocate_nothing_either", || {
        for storage in STORAGES {
            for threads in [1, 2, 3] {
                let plan = small(8, threads, storage);
                let (readout, volume) = (readout(5), volume(5, 8));
                quiet_once(&format!("{threads} threads, {storage:?}: allocations"), || {
                    let mut engine = build(&plan);
                    first_in_its_slot(engine.as_mut(), &volume);
                    // A thread that has just started allocates on its own account.
                    eventful(engine.as_mut(), 0..2, &readout, &volume);
                    allocations_in_process(|| eventful(engine.as_mut(), 2..240, &readout, &volume))
                });
            }
        }
    });
}

/// Minor page faults of this process: the tenth field of `/proc/self/stat`, see proc(5). The second field is
/// the program's name in brackets.
fn page_faults() -> u64 {
    let mut text = [0; 1024];
    let mut file = std::fs::File::open("/proc/self/stat").expect("Linux reports");
    let length = file.read(&mut text).expect("Linux reports");
    let line = std::str::from_utf8(&text[..length]).expect("plain text");
    let behind = line.rsplit_once(')').expect("a name in brackets").1;
    behind.split_whitespace().nth(10 - 3).and_then(|count| count.parse().ok()).expect("a count")
}

/// Holds from the first cycle on: an engine touches its memory when it is built, and a bank of five has no
/// second block. One engine runs the same cycles beforehand, so that the program's own pages are in memory,
/// and is kept, so that its memory is not reused. A buffer that is not touched shows in every attempt: 84
/// faults each with a plain `vec![value; count]` instead of the cells' `touched`.
#[test]
fn a_cycle_takes_no_page_fault() {
    alone("field_cpu::quiet::a_cycle_takes_no_page_fault", || {
        for storage in STORAGES {
            for threads in [1, 2] {
                let plan = small(16, threads, storage);
                let (readout, volume) = (readout(5), volume(5, 16));
                let mut engine = build(&plan);
                first_in_its_slot(engine.as_mut(), &volume);
                eventful(engine.as_mut(), 0..130, &readout, &volume);
                let mut kept = vec![engine];
                quiet_once(&format!("{threads} threads, {storage:?}: page faults"), || {
                    let mut engine = build(&plan);
                    first_in_its_slot(engine.as_mut(), &volume);
                    let before = page_faults();
                    eventful(engine.as_mut(), 0..130, &readout, &volume);
                    let count = page_faults() - before;
                    kept.push(engine);
                    count
                });
            }
        }
    });
}
