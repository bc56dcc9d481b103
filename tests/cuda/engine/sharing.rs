//! Several robots on one device: each gets the results that it would get alone, and cycles
//! that wait at the same time share a launch.

use super::{Device, device, open, plan, wait_for, wait_until};
use crate::cuda::standin::Alone;
use crate::cuda::{context, input, level_at, near, readout, volume};
use ganglion::base::plan::FieldPlan;
use ganglion::base::time::Span;
use ganglion::field::cuda::{CudaEngine, SharedDevice};
use ganglion::field::device as devices;
use ganglion::field::failover::Open;
use ganglion::field::sensor_ring::SensorRing;
use ganglion::field::{Failure, FieldEngine, FieldInput, FieldOutput, Inspect, Loss};
use ganglion::system::gpu::{GpuFault, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Gives robot number `robot` its own read-out, pattern and experiences.
fn load(engine: &mut dyn Inspect, robot: usize) {
    let weights: Vec<f32> =
        readout(plan(8).shape.motors).iter().map(|w| w * (robot + 1) as f32 / 2.0).collect();
    assert!(engine.set_readout(&weights));
    assert!(engine.store_pattern(robot, &volume(robot, 8), &context(robot), 1.0));
}

/// The input of robot number `robot`: other sensors and mostly another quality level than the others.
fn input_of(robot: usize, cycle: u64) -> FieldInput {
    input(9 + robot as u64, cycle, level_at(cycle + 3 * robot as u64))
}

/// What a robot shows after a cycle.
fn shown(answer: &FieldOutput, engine: &CudaEngine) -> Vec<f32> {
    let mut shown: Vec<f32> = answer.scores.iter().chain(&answer.motors).copied().collect();
    shown.extend([answer.confidence, answer.novelty, engine.experiences() as f32]);
    shown.extend(engine.features());
    shown
}

#[test]
fn robots_of_a_batch_match_a_single_robot() {
    let Some(_device) = device() else { return };
    let plan = plan(8);
    let mut alone = [(); 3].map(|()| open(&plan, 1));
    let mut batch = open(&plan, 3);
    for engine in alone.iter_mut().chain([&mut batch]) {
        load(engine, 0);
    }
    for cycle in 0..24 {
        let inputs = [0, 1, 2].map(|robot| input_of(robot, cycle));
        batch.cycle_each(&inputs).expect("in range");
        for (robot, (engine, input)) in alone.iter_mut().zip(&inputs).enumerate() {
            let (a, b) = (engine.cycle(input).expect("in range"), batch.response_of(robot).expect("there"));
            // Slabs are thicker in a batch on a large device, so sums round differently.
            let near = |what: &str, a: f32, b: f32| {
                near(&format!("robot {robot}, cycle {cycle}"), what, a.into(), b.into(), super::SEEN);
            };
            a.scores.iter().zip(b.scores).for_each(|(a, b)| near("score", *a, b));
            near("novelty", a.novelty, b.novelty);
        }
    }
    let mut wild = [input(9, 24, 0); 3];
    wild[2].sensors[0] = f32::NAN;
    assert!(matches!(batch.cycle_each(&wild), Err(Failure::Refused(_))));
    assert!(batch.response_of(3).is_none());
}

/// Opens a device for launches of up to `most` robots.
fn shared(plan: &FieldPlan, most: usize) -> SharedDevice {
    SharedDevice::open(plan, most, Arc::default()).unwrap_or_else(|why| panic!("{why}"))
}

fn join(plan: &FieldPlan, device: &SharedDevice) -> CudaEngine {
    CudaEngine::join(plan, device, None).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn a_robot_gets_the_same_bits_whoever_joins_or_leaves() {
    let Some(_device) = device() else { return };
    let plan = plan(8);
    // Both devices are opened for two robots in a launch: that determines how sums are divided.
    let (busy, quiet) = (shared(&plan, 2), shared(&plan, 2));
    let (mut robot, mut alone) = (join(&plan, &busy), join(&plan, &quiet));
    load(&mut robot, 0);
    load(&mut alone, 0);
    let mut others: Vec<CudaEngine> = Vec::new();
    for cycle in 0..18 {
        if cycle % 6 == 1 {
            let mut other = join(&plan, &busy);
            load(&mut other, others.len() + 1);
            others.push(other);
        }
        if cycle % 6 == 5 {
            others.remove(0);
        }
        let together = std::thread::scope(|scope| {
            let cycles = others.iter_mut().enumerate().map(|(nth, other)| {
                let input = input_of(nth + 1, cycle);
                scope.spawn(move || other.cycle(&input).map(|_| ()).expect("in range"))
            });
            let cycles: Vec<_> = cycles.collect();
            let answer = robot.cycle(&input_of(0, cycle)).expect("in range");
            cycles.into_iter().for_each(|cycle| cycle.join().expect("it ends"));
            answer
        });
        let expected = alone.cycle(&input_of(0, cycle)).expect("in range");
        let bits = |shown: Vec<f32>| shown.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(shown(&together, &robot)), bits(shown(&expected, &alone)), "cycle {cycle}");
    }
    assert_eq!(others.len(), 0);
}

/// Number of launches for one cycle of robots at these quality levels, on a device for launches of up to
/// `most` robots. The device is paused until all cycles but the first, which has begun, should be waiting.
fn launches(alone: &Alone, most: usize, levels: &[usize]) -> u64 {
    let plan = plan(8);
    let device = shared(&plan, most);
    let mut robots: Vec<CudaEngine> = levels.iter().map(|_| join(&plan, &device)).collect();
    robots.iter_mut().for_each(|robot| robot.set_timeout(Span::from_millis(400_000)));
    let before = alone.counts().replays;
    alone.order("stall=0");
    let begun = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (nth, (robot, level)) in robots.iter_mut().zip(levels).enumerate() {
            let begun = &begun;
            scope.spawn(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                robot.cycle(&input(9 + nth as u64, 0, *level)).map(|_| ()).expect("in range");
            });
            if nth == 0 {
                wait_for("the device got the first launch", || alone.counts().replays > before);
            }
        }
        wait_for("the others have begun", || begun.load(Ordering::Relaxed) == levels.len());
        std::thread::sleep(std::time::Duration::from_millis(20)); // until their tasks have been sent
        alone.order("release");
    });
    alone.counts().replays - before
}

#[test]
fn cycles_that_wait_at_the_same_time_share_a_launch() {
    let Some(Device::StandIn(alone)) = device() else { return }; // no other device can be paused
    // One launch for all that wait; one for each grid; launches of at most two robots.
    for (most, levels, expected) in [(8, [0; 5], 2), (8, [0, 5, 0, 5, 0], 3), (2, [0; 5], 3)] {
        // On a busy machine a cycle may come too late to share a launch. Cycles that never share need five.
        let mut found = (0..20).map(|_| launches(&alone, most, &levels));
        assert!(found.any(|launches| launches == expected), "never {expected} launches for {levels:?}");
    }
}

#[test]
fn a_lost_device_is_lost_to_all_and_opened_again_for_all() {
    let Some(_device) = device() else { return };
    let (plan, watch) = (plan(8), Arc::new(Watch::new()));
    let gpu = devices::find(&plan, 2, watch.clone()).expect("the GPU was requested");
    let mut openers: Vec<Open> = (0..3).map(|_| gpu.opener()).collect();
    let mut open = |nth: usize| openers[nth](&plan, &SensorRing::new());
    let mut engines: Vec<_> = (0..3).map(|nth| open(nth).unwrap_or_else(|loss| panic!("{loss}"))).collect();
    for engine in &mut engines {
        assert!(engine.cycle(&input(9, 0, 0)).is_ok());
    }
    watch.inject(Some(GpuFault::Lost));
    let lost: Vec<Loss> = engines
        .iter_mut()
        .map(|engine| match engine.cycle(&input(9, 1, 0)) {
            Err(Failure::Lost(loss)) => loss,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(matches!(lost[0], Loss::ContextLost { .. }) && lost[1..] == [lost[0]; 2], "{lost:?}");
    watch.inject(None);
    // The first robot still holds its lost engine. The others can open the device again all the same.
    engines.truncate(1);
    let mut again: Option<Box<dyn FieldEngine>> = None;
    wait_until("the device's thread ends", || {
        again = open(1).ok();
        again.is_some()
    });
    let mut again = again.expect("it opens");
    assert!(again.cycle(&input(9, 0, 0)).is_ok());
    assert!(engines[0].cycle(&input(9, 2, 0)).is_err(), "the old engine stays lost");
    assert!(open(2).expect("there is room").cycle(&input(9, 0, 0)).is_ok());
}

#[test]
fn lack_of_memory_for_one_robot_leaves_the_others_alone() {
    let Some(_device) = device() else { return };
    let (plan, watch) = (plan(8), Arc::new(Watch::new()));
    let device = SharedDevice::open(&plan, 2, watch.clone()).unwrap_or_else(|why| panic!("{why}"));
    let (mut large, mut small) = (join(&plan, &device), join(&plan, &device));
    watch.inject(Some(GpuFault::Memory));
    large.store_pattern(0, &volume(0, 8), &context(0), 1.0);
    assert!(CudaEngine::join(&plan, &device, None).is_err(), "there is no room for a third robot");
    watch.inject(None);
    let lost = large.cycle(&input(9, 0, 0)).map(|_| ()).expect_err("its pattern found no room");
    assert!(matches!(lost, Failure::Lost(Loss::Memory { .. })), "{lost:?}");
    assert!(small.cycle(&input(9, 0, 0)).is_ok() && !device.is_lost());
    assert!(join(&plan, &device).cycle(&input(9, 0, 0)).is_ok(), "now there is room");
}
