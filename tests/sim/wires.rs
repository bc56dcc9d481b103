//! The simulated chips on their buses: timing, framing, resets, echoes, converters.

use super::{Rig, ms, shipped};
use ganglion::base::fault::BusFault;
use ganglion::base::plan::{Line, SonarModule};
use ganglion::base::time::{Clock, MonotonicClock, Span};
use ganglion::hardware::device::DeviceFault;
use ganglion::hardware::device::adc::HatAdc;
use ganglion::hardware::device::hc_sr04::HcSr04;
use ganglion::hardware::device::robot_hat::RobotHat;
use ganglion::sim::Plant;
use std::sync::Arc;

#[test]
fn transfers_take_their_time_on_the_wire() {
    let mut rig = Rig::ready(1, &[]);
    let start = rig.clock.now();
    rig.i2c.write(0x14, &[0x2D, 0, 0]).unwrap();
    assert_eq!(rig.clock.now().since(start), Span::from_micros(380));
    let start = rig.clock.now();
    rig.adc(0).unwrap();
    assert_eq!(rig.clock.now().since(start), Span::from_micros(780));
    let start = rig.clock.now();
    assert_eq!(rig.i2c.write(0x15, &[0]), Err(BusFault::Nack));
    assert_eq!(rig.clock.now().since(start), Span::from_micros(110));
}

#[test]
fn the_controller_needs_boot_time_after_a_reset() {
    let mut rig = Rig::ready(1, &[]);
    let hat = RobotHat::new(rig.board.mcu.as_ref().unwrap());
    assert_eq!(hat.firmware(rig.i2c.as_mut()), Ok([1, 1, 4]));
    rig.gpio.set(Line(5), false).unwrap();
    assert_eq!(rig.i2c.write(0x14, &[0x2D, 0, 0]), Err(BusFault::Nack), "held in reset");
    rig.gpio.set(Line(5), true).unwrap();
    rig.sleep(ms(100));
    assert_eq!(rig.i2c.write(0x14, &[0x2D, 0, 0]), Err(BusFault::Nack), "still starting");
    rig.sleep(ms(100));
    assert_eq!(hat.firmware(rig.i2c.as_mut()), Ok([1, 1, 4]));
    let resets = rig.report().mcu_resets;
    hat.reset(rig.gpio.as_mut(), rig.clock.as_ref()).unwrap();
    assert_eq!(hat.firmware(rig.i2c.as_mut()), Ok([1, 1, 4]), "the driver waits long enough");
    assert_eq!(rig.report().mcu_resets, resets + 1);
}

#[test]
fn an_interrupted_write_shifts_all_frames_until_a_reset() {
    let mut rig = Rig::ready(4, &[]);
    rig.command(0.3, 0.0).unwrap();
    rig.sleep(ms(300));
    rig.i2c.write(0x14, &[0x2D]).unwrap(); // two of three bytes are missing
    // Every write is acknowledged but misread: a stop has no effect, and the converter's value is frozen.
    rig.stop().unwrap();
    assert!(!rig.plant.motors_still());
    let frozen = rig.adc(0);
    assert_eq!(rig.adc(0), frozen);
    assert_eq!(rig.adc(1), frozen);
    rig.set_up().unwrap();
    assert!(rig.plant.motors_still());
    assert_ne!(rig.adc(0), rig.adc(0), "a live converter has noise");
    rig.command(0.3, 0.0).unwrap();
    rig.sleep(ms(300));
    assert!(rig.report().speed > 0.1);
}

/// In open space, a module that ends its pulse only with an echo counts as lost. As soon as something is near
/// enough to answer the next trigger, its echo line falls, and the ping after that measures.
#[test]
fn an_endless_pulse_ends_with_the_next_triggers_echo() {
    let mut board = shipped("sim");
    let sim = board.sim.as_mut().unwrap();
    (sim.room, sim.discs, sim.cliffs, sim.sonar) = ([8.0, 8.0], 0, Vec::new(), SonarModule::Endless);
    let mut lost_and_found = 0;
    for seed in 1..=8 {
        let mut rig = Rig::new(board.clone(), seed, &[]);
        rig.set_up().unwrap();
        let mut sonar = HcSr04::new(Line(27), Line(22));
        let (mut lost, mut found) = (false, None);
        for turn in 0..250 {
            let begin = rig.clock.now();
            match sonar.measure(rig.gpio.as_mut(), rig.clock.as_ref()) {
                Err(DeviceFault::Held { .. }) => (lost, found) = (true, None),
                Ok(range) if lost && range.0 < 4.0 => found = found.or(Some(range.0)),
                _ => {}
            }
            if turn % 2 == 0 {
                let _ = rig.command(0.6, 0.6); // in circles, and nearer to a wall
            }
            rig.clock.sleep_until(begin + ms(60));
        }
        lost_and_found += usize::from(found.is_some());
    }
    assert!(lost_and_found >= 2, "{lost_and_found} of 8");
}

#[test]
fn a_self_reset_controller_is_rewritten_within_half_a_second() {
    let mut rig = Rig::ready(4, &["brown-out@2+0.001"]);
    let mut driving_again = None;
    for slot in 0..200 {
        rig.clock.sleep_until(rig.plant.zero() + ms(1000 + 10 * slot));
        let _ = rig.command(0.2, 0.9);
        let report = rig.report();
        if report.brown_outs == 1 && report.speed > 0.09 && report.at.since(rig.plant.zero()) > ms(2300) {
            driving_again.get_or_insert(report.at.since(rig.plant.zero()));
        }
    }
    assert_eq!(rig.report().brown_outs, 1);
    let at = driving_again.expect("it drives again");
    assert!(at < ms(2900), "at {at:?}");
}

#[test]
fn the_sonar_sees_obstacles_in_its_cone() {
    for seed in 0..40 {
        let mut rig = Rig::ready(seed, &[]);
        let world = rig.plant.world();
        let eye = world.start().point(0.0872_f32 as f64 / 2.0 + 0.125, 0.0);
        let nearest = (-15..=15)
            .map(|degree| world.ray(eye, world.start().heading + f64::from(degree).to_radians()))
            .fold(f64::INFINITY, f64::min)
            .min(4.0);
        let start = rig.clock.now();
        let range = f64::from(rig.range().unwrap());
        assert!((range - nearest).abs() < 0.0035, "seed {seed}: {range} m, really {nearest} m");
        let flight = Span::from_secs_f64(2.0 * range / 343.3);
        let took = rig.clock.now().since(start);
        assert!(took < flight + Span::from_micros(500), "seed {seed}: {took:?}");
        rig.sleep(ms(60));
        assert_ne!(f64::from(rig.range().unwrap()), range, "noise never repeats");
    }
}

#[test]
fn an_empty_room_reads_far_and_is_not_a_fault() {
    let mut board = shipped("sim");
    let sim = board.sim.as_mut().unwrap();
    (sim.room, sim.discs, sim.cliffs) = ([60.0, 60.0], 0, vec![]);
    let mut far = 0;
    for seed in 0..10 {
        let mut rig = Rig::new(board.clone(), seed, &[]);
        let range = rig.range().unwrap();
        far += u32::from(range == 4.0);
        assert!(rig.clock.now().since(rig.plant.zero()) < ms(40));
    }
    assert!(far >= 5, "{far} of 10 saw no wall");
}

#[test]
fn adcs_show_ground_and_battery() {
    let mut rig = Rig::ready(3, &[]);
    for channel in 0..3 {
        let counts = rig.adc(channel).unwrap();
        assert!((700.0..1500.0).contains(&counts), "A{channel}: {counts}");
    }
    assert_eq!(rig.adc(3), Ok(0.0), "nothing is plugged in");
    let idle = rig.adc(4).unwrap() * 9.9 / 4095.0;
    assert!((idle - 7.73).abs() < 0.02, "{idle} V");
    rig.command(1.0, 1.0).unwrap();
    rig.sleep(ms(10));
    let loaded = rig.adc(4).unwrap() * 9.9 / 4095.0;
    assert!(idle - loaded > 0.07, "{loaded} V under load");
}

#[test]
fn unlisted_lines_are_absent_and_inputs_undriven() {
    let mut rig = Rig::ready(1, &[]);
    assert_eq!(rig.gpio.set(Line(99), true), Err(BusFault::Absent));
    assert_eq!(rig.gpio.get(Line(99)), Err(BusFault::Absent));
    assert_eq!(rig.gpio.set(Line(22), true), Err(BusFault::Unsupported), "echo");
    assert_eq!(rig.gpio.set(Line(25), true), Err(BusFault::Unsupported), "button");
    assert_eq!(rig.gpio.get(Line(25)), Ok(true), "not pressed, pulled up");
}

#[test]
fn the_simulated_hardware_also_works_in_real_time() {
    let board = shipped("sim");
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let plant = Plant::new(&board, 9, &[], clock.clone());
    let mut sonar = HcSr04::new(Line(27), Line(22));
    let real = sonar.measure(plant.gpio().as_mut(), clock.as_ref()).map(|range| range.0);
    // An edge is time-stamped when it happens, so a late thread does not change the range.
    assert_eq!(real, Rig::new(board, 9, &[]).range());
    let counts = HatAdc::new(0x14, 0, 1.0).read(plant.i2c().as_mut());
    assert_eq!(counts, Rig::new(shipped("sim"), 9, &[]).adc(0));
}
