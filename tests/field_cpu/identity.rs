//! What must not change a result: the number of threads, their cores, other load, and which of the SIMD
//! levels with fused multiply-add is used.

use super::*;
use crate::long::or_in_full;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Everything that an engine exposes after a cycle.
pub type Shown = (Vec<u32>, Vec<(usize, f64)>, Vec<f64>, usize);

pub fn shown(engine: &mut dyn Inspect, input: &FieldInput) -> Shown {
    let response = engine.cycle(input).expect("in range");
    let (near, predicted) = (engine.nearest().to_vec(), engine.prediction().to_vec());
    (fingerprint(engine, &response), near, predicted, engine.experiences())
}

#[test]
fn the_number_of_threads_does_not_change_results() {
    for (grid, cycles) in [(8, 60), (16, 60)] {
        for storage in STORAGES {
            // The short form uses only this machine's best level for the larger grid.
            let levels = Level::all();
            let first = if grid == 8 { 0 } else { or_in_full(levels.len() - 1, 0) };
            for &level in &levels[first..] {
                let plan = FieldPlan { storage, ..plan(grid) };
                let with = |threads| build_at(&FieldPlan { threads, ..plan.clone() }, level);
                let mut engines: Vec<Box<dyn Inspect>> = [1, 2, 3, 8].map(with).into();
                assert_eq!(engines.iter().map(|engine| engine.threads()).collect::<Vec<_>>(), [1, 2, 3, 8]);
                for cycle in 0..cycles {
                    let input = input(9, cycle, level_at(cycle));
                    let all: Vec<_> =
                        engines.iter_mut().map(|engine| shown(engine.as_mut(), &input)).collect();
                    let what = format!("{}, {storage:?}, grid {grid}, cycle {cycle}", level.name());
                    assert!(all.iter().all(|one| *one == all[0]), "{what}");
                }
                assert_eq!(engines[0].experiences(), 20, "the bank was full, so rows were replaced");
            }
        }
    }
}

#[test]
fn simd_levels_with_fused_products_give_the_same_bits() {
    for storage in STORAGES {
        let plan = FieldPlan { storage, ..plan(16) };
        let fusing = Level::all().into_iter().filter(|level| level.name() != "portable");
        let mut engines: Vec<Box<dyn Inspect>> = fusing.map(|level| build_at(&plan, level)).collect();
        for cycle in 0..60 {
            let input = input(9, cycle, level_at(cycle));
            let all: Vec<_> = engines.iter_mut().map(|engine| shown(engine.as_mut(), &input)).collect();
            assert!(all.iter().all(|one| *one == all[0]), "{storage:?}, cycle {cycle}");
        }
    }
}

/// Threads that use up cores for as long as this value lives.
struct Hogs(Arc<AtomicBool>, Vec<std::thread::JoinHandle<u64>>);

impl Hogs {
    fn on(cpus: &[Option<usize>]) -> Hogs {
        let end: Arc<AtomicBool> = Arc::default();
        let hog = |cpu: Option<usize>| {
            let end = end.clone();
            std::thread::spawn(move || {
                if let Some(cpu) = cpu {
                    let _ = ganglion::system::rt::stay_on(cpu);
                }
                let mut turns = 0_u64;
                while !end.load(Ordering::Relaxed) {
                    turns = std::hint::black_box(turns + 1);
                }
                turns
            })
        };
        let hogs = cpus.iter().map(|cpu| hog(*cpu)).collect();
        Hogs(end, hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for hog in self.1.drain(..) {
            assert!(hog.join().is_ok_and(|turns| turns > 0), "the core was used");
        }
    }
}

/// The caller repeats the job of a late thread and drops that thread's result: neither may change a bit.
#[test]
fn a_busy_second_core_does_not_change_results() {
    for storage in STORAGES {
        // Not pinned; each thread on its own core; both on one core, where the worker gets the time that the
        // caller leaves.
        for cpus in [vec![], vec![0, 1], vec![0, 0]] {
            let plan = FieldPlan { storage, ..plan(16) };
            let mut alone = build(&plan);
            let mut beside = build(&FieldPlan { threads: 2, cpus: cpus.clone(), ..plan });
            let hogs = Hogs::on(&[Some(1), None]);
            for cycle in 0..60 {
                let input = input(9, cycle, level_at(cycle));
                let same = shown(alone.as_mut(), &input) == shown(beside.as_mut(), &input);
                assert!(same, "{storage:?}, cores {cpus:?}, cycle {cycle}");
            }
            drop(hogs);
            println!("{storage:?}, cores {cpus:?}: {} jobs repeated by the caller", beside.stand_ins());
        }
    }
}
