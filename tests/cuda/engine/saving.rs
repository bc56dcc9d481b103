//! What a save copies off the device, what it returns, and how much device memory patterns take.

use super::super::{context, input, level_at, near, volume};
use super::{Device, Pair, SEEN, device, open, plan, wait_until};
use ganglion::base::plan::{FieldPlan, Shape};
use ganglion::field::cuda::CudaEngine;
use ganglion::field::shape::{CHANNELS, DESCRIPTOR, PATTERN};
use ganglion::field::state::Live;
use ganglion::field::{FieldEngine, Inspect};

#[test]
fn an_empty_library_takes_no_device_memory() {
    let Some(_device) = device() else { return };
    let plan = FieldPlan { shape: Shape { patterns: 20, ..plan(8).shape }, ..plan(8) };
    let slot = PATTERN * (plan.shape.cells() + plan.shape.cells() / 8) * size_of::<i16>();
    let mut engine = open(&plan, 1);
    let (empty, at_start) = (engine.memory_bytes(), engine.device_counts().device_allocations);
    let mut none = open(&FieldPlan { shape: Shape { patterns: 0, ..plan.shape }, ..plan.clone() }, 1);
    assert!(empty < none.memory_bytes() + 2 * slot, "{empty} bytes: one slot of zeros for all 20");
    assert!(none.cycle(&input(9, 0, 0)).is_ok());
    // The slots are filled in an arbitrary order. Every eight share one allocation; the last four share a
    // smaller one.
    let volume = volume(0, 8);
    for (stored, slot) in (0..20).map(|i| i * 7 % 20).enumerate() {
        assert!(engine.store_pattern(slot, &volume, &context(slot), 1.0));
        assert_eq!(engine.device_counts().device_allocations - at_start, 1 + stored as u64 / 8);
    }
    assert_eq!(engine.memory_bytes(), empty + 20 * slot);
    engine.clear_pattern(3);
    assert!(engine.store_pattern(3, &volume, &context(3), 1.0));
    assert_eq!(engine.memory_bytes(), empty + 20 * slot, "a slot keeps its memory");
    let learned = engine.learned();
    assert!(learned.patterns.iter().all(|pattern| {
        pattern.as_ref().is_some_and(|one| one.volume == learned.patterns[0].as_ref().expect("stored").volume)
    }));
    let mut other = open(&plan, 1);
    other.load(&learned).expect("a state of the same plan");
    assert_eq!(other.memory_bytes(), engine.memory_bytes());
    for cycle in 0..4 {
        let [a, b] = [&mut engine, &mut other].map(|engine| engine.cycle(&input(9, cycle, level_at(cycle))));
        assert_eq!(a.expect("in range").scores, b.expect("in range").scores, "cycle {cycle}");
    }
}

#[test]
fn blending_an_empty_slot_uses_zeros() {
    let Some(_device) = device() else { return };
    let (mut first, mut second) = (open(&plan(8), 1), open(&plan(8), 1));
    assert!(first.store_pattern(2, &volume(2, 8), &context(2), 1.0));
    let mut live = Live::default();
    assert!(first.cycle(&input(9, 0, 0)).is_ok() && first.save(&mut live));
    assert_eq!(live.blend.len(), 1, "it blends slot 2");
    // Another engine continues from that state without the library.
    second.restore(&live).expect("it fits");
    assert!(second.cycle(&input(9, 1, 2)).is_ok(), "it blends zeros, and reads nothing else");
}

/// Bytes that one save copies off the device.
fn bytes_of_save(engine: &mut CudaEngine, live: &mut Live) -> u64 {
    let before = engine.device_counts().bytes_out;
    assert!(engine.save(live));
    engine.device_counts().bytes_out - before
}

#[test]
fn saving_copies_no_bank_rows_off_the_device() {
    let Some(_device) = device() else { return };
    let plan = FieldPlan { shape: Shape { bank: 200, ..plan(8).shape }, ..plan(8) };
    let mut engine = open(&plan, 1);
    let (mut good, mut spare) = (Live::default(), Live::default());
    let empty = bytes_of_save(&mut engine, &mut good);
    for row in 0..150 {
        let descriptor: [f32; DESCRIPTOR] = std::array::from_fn(|i| (row as f32 + i as f32 * 0.1).sin());
        assert!(engine.store_experience(&descriptor, 0.5));
    }
    for cycle in 0..6 {
        assert!(engine.cycle(&input(9, cycle, 0)).is_ok());
        assert_eq!(bytes_of_save(&mut engine, &mut spare), empty, "cycle {cycle}");
        std::mem::swap(&mut good, &mut spare);
    }
    assert_eq!(good.bank.rows.len(), engine.experiences() * DESCRIPTOR);
    assert!(engine.experiences() >= 150);
    let field = (CHANNELS * plan.shape.cells() * size_of::<f32>()) as u64;
    assert!(field < empty && empty < 3 * field, "{empty} bytes: the field of {field} and small tables");
}

#[test]
fn the_saved_bank_equals_the_devices() {
    let Some(_device) = device() else { return };
    // The bank has twelve rows. Experiences are stored, recognised and replaced; some come from outside.
    let mut pair = Pair::new(&plan(8), 3);
    let (mut live, mut judged) = (Live::default(), Live::default());
    for cycle in 0..40 {
        pair.cycle(cycle, level_at(cycle));
        if cycle % 9 == 4 {
            let descriptor: [f32; DESCRIPTOR] =
                std::array::from_fn(|i| (cycle as f32 + i as f32 * 0.1).sin());
            assert!(pair.engine.store_experience(&descriptor, 0.5));
            assert!(pair.judge.store_experience(&descriptor, 0.5));
        }
        assert!(pair.engine.save(&mut live) && pair.judge.save(&mut judged));
        assert_eq!(live.bank.last_use, judged.bank.last_use, "cycle {cycle}");
        assert_eq!(live.bank.rows.len(), judged.bank.value.len() * DESCRIPTOR, "cycle {cycle}");
        let judged_rows = judged.fine.rows.chunks_exact(DESCRIPTOR).flat_map(|row| {
            let length = row.iter().map(|number| number * number).sum::<f64>().sqrt();
            row.iter().map(move |number| number / length)
        });
        let rows = live.bank.rows.iter().zip(judged_rows);
        rows.for_each(|(a, b)| near(&format!("cycle {cycle}"), "row", f64::from(*a), b, 10.0 * SEEN));
        let values = live.bank.value.iter().zip(&judged.bank.value);
        values.for_each(|(a, b)| near(&format!("cycle {cycle}"), "value", *a, *b, SEEN));
    }
    assert_eq!(pair.engine.experiences(), 12, "it is full");
}

#[test]
fn an_asynchronous_save_gives_the_state_at_its_start() {
    let Some(device) = device() else { return };
    let mut engine = open(&plan(8), 1);
    let (mut at_once, mut soon, mut other) = (Live::default(), Live::default(), Live::default());
    (0..3).for_each(|cycle| assert!(engine.cycle(&input(9, cycle, 5)).is_ok()));
    assert!(engine.save(&mut at_once));
    device.order("stall=0");
    assert!(!engine.save_soon(&mut soon), "a save begins");
    // A GPU cannot be paused, so there the transfer may already be complete.
    if matches!(device, Device::StandIn(_)) {
        assert!(!engine.save_soon(&mut soon), "the device is paused");
    }
    device.order("release");
    for cycle in 3..6 {
        assert!(engine.cycle(&input(9, cycle, 5)).is_ok());
    }
    wait_until("the save is complete", || engine.save_soon(&mut soon));
    assert_eq!(soon, at_once, "the state of cycle 2, with its bank");
    assert!(!engine.save_soon(&mut soon), "a new save begins");
    assert!(engine.save(&mut other) && other.cycle == 5, "another state, without delay");
    assert!(!engine.save_soon(&mut soon), "the interrupted save begins again");
    engine.reset();
    assert!(!engine.save_soon(&mut soon), "the pending save was dropped");
    wait_until("the save is complete", || engine.save_soon(&mut soon));
    assert_eq!((soon.age, soon.bank.rows.len()), (0, 0));
}
