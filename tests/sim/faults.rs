//! Each fault of the script shows on its bus or line during its time, and not before or after.

use super::{Rig, ms};
use ganglion::base::fault::BusFault;
use ganglion::base::plan::Line;
use ganglion::base::time::Clock;
use ganglion::hardware::device::DeviceFault;
use ganglion::hardware::device::button::Button;
use ganglion::hardware::device::float_register::FloatRegister;
use ganglion::sim::{Fault, FaultKind};

fn lean(rig: &mut Rig) -> Result<f32, DeviceFault> {
    FloatRegister::new(0x60, 0).read(rig.i2c.as_mut())
}

fn volts(rig: &mut Rig) -> f32 {
    rig.adc(4).unwrap() * 9.9 / 4095.0
}

#[test]
fn nack_faults_silence_every_device() {
    let mut rig = Rig::ready(1, &["i2c-nack@2+1"]);
    let before = rig.report().failed_transfers;
    rig.adc(0).unwrap();
    rig.wait_until(ms(2000));
    assert_eq!(rig.adc(0), Err(DeviceFault::Bus { register: 0x17, fault: BusFault::Nack }));
    assert_eq!(lean(&mut rig), Err(DeviceFault::Bus { register: 0, fault: BusFault::Nack }));
    rig.wait_until(ms(3000));
    assert!(rig.adc(0).is_ok() && lean(&mut rig).is_ok(), "the fault has no lasting effect");
    assert_eq!(rig.report().failed_transfers, before + 2);
}

#[test]
fn a_stuck_bus_costs_its_timeout_and_shifts_frames() {
    let mut rig = Rig::ready(1, &["i2c-stuck@2+1"]);
    rig.command(0.2, 0.0).unwrap();
    rig.wait_until(ms(2000));
    let fault = rig.stop().unwrap_err();
    assert_eq!(fault, DeviceFault::Bus { register: 0x2D, fault: BusFault::TimedOut });
    assert!(fault.needs_reset());
    assert_eq!(rig.clock.now().since(rig.plant.zero()), ms(2020), "the next frame would be misread");
    rig.wait_until(ms(3000));
    assert_eq!(rig.stop(), Err(fault), "the bus is free again, but the controller would not understand");
    assert!(!rig.plant.motors_still());
    rig.set_up().unwrap();
    assert!(rig.plant.motors_still());
}

#[test]
fn a_frame_that_a_stuck_bus_breaks_off_may_have_arrived() {
    let mut stopped = 0;
    for seed in 0..40 {
        let mut rig = Rig::ready(seed, &["i2c-stuck@2+1"]);
        rig.command_wheels([0.2, 0.0], 0.0).unwrap(); // the wheel whose frame a stop sends first
        rig.wait_until(ms(2000));
        let fault = rig.stop().unwrap_err();
        assert_eq!(fault, DeviceFault::Bus { register: 0x2D, fault: BusFault::TimedOut });
        stopped += usize::from(rig.plant.motors_still());
        rig.wait_until(ms(3000));
        assert_eq!(rig.stop(), Err(fault), "whatever arrived, nothing is written before a reset");
        rig.set_up().unwrap();
        assert!(rig.plant.motors_still());
    }
    // All three bytes arrive with probability 1/4: 10 of 40 are expected, and certainly not 0 or 40.
    assert!((3..=20).contains(&stopped), "{stopped} of 40 frames arrived whole");
}

#[test]
fn corrupted_bytes_are_mostly_implausible_and_never_right() {
    let mut rig = Rig::ready(1, &["i2c-wrong-bytes@2+1"]);
    rig.wait_until(ms(2000));
    let mut refused = 0;
    for _ in 0..100 {
        match rig.adc(4) {
            Ok(counts) => assert!(!(3190.0..3206.0).contains(&counts), "{counts} is the truth"),
            Err(DeviceFault::Impossible { .. } | DeviceFault::DeadBytes { .. }) => refused += 1,
            Err(fault) => panic!("{fault}"),
        }
    }
    assert!((80..100).contains(&refused), "{refused} of 100");
    rig.wait_until(ms(3000));
    assert!((volts(&mut rig) - 7.73).abs() < 0.02);
}

#[test]
fn a_frozen_converter_repeats_each_channel() {
    let mut rig = Rig::ready(1, &["adc-frozen@2+1"]);
    let before: Vec<_> = (0..5).map(|channel| rig.adc(channel)).collect();
    rig.wait_until(ms(2000));
    for _ in 0..5 {
        let now: Vec<_> = (0..5).map(|channel| rig.adc(channel)).collect();
        assert_eq!(now, before);
    }
    rig.wait_until(ms(3000));
    let after: Vec<_> = (0..5).map(|channel| rig.adc(channel)).collect();
    assert_ne!(after, before);
}

#[test]
fn a_frozen_sonar_repeats_its_bits_while_the_car_moves() {
    let mut rig = Rig::ready(1, &["sonar-frozen@1+1"]);
    let before = rig.range();
    rig.wait_until(ms(1000));
    rig.command(0.5, 0.0).unwrap();
    for slot in 1..10 {
        assert_eq!(rig.range(), before);
        rig.wait_until(ms(1000 + 60 * slot));
    }
    rig.command(0.0, 0.0).unwrap();
    rig.wait_until(ms(2000));
    assert_ne!(rig.range(), before);
}

#[test]
fn a_silent_sonar_is_a_missing_edge_until_it_returns() {
    let mut rig = Rig::ready(1, &["sonar-silent@1+1"]);
    rig.range().unwrap();
    rig.wait_until(ms(1000));
    assert_eq!(rig.range(), Err(DeviceFault::EdgeMissing { line: Line(22) }));
    rig.wait_until(ms(2000));
    rig.range().unwrap();
}

#[test]
fn tilt_faults_give_nan_or_too_much_lean() {
    let mut rig = Rig::ready(1, &["tilt-nan@1+1", "tilt-over@2+1"]);
    assert!(lean(&mut rig).unwrap().abs() < 1.0);
    rig.wait_until(ms(1000));
    assert_eq!(lean(&mut rig), Err(DeviceFault::NotFinite { register: 0 }));
    rig.wait_until(ms(2000));
    assert!((lean(&mut rig).unwrap() - 60.0).abs() < 1.0);
    rig.wait_until(ms(3000));
    assert!(lean(&mut rig).unwrap().abs() < 1.0);
}

#[test]
fn a_brown_out_resets_the_controller_while_a_motor_runs() {
    let mut rig = Rig::ready(1, &["brown-out@1+2"]);
    let resets = rig.report().mcu_resets;
    rig.wait_until(ms(1500));
    assert_eq!(rig.report().mcu_resets, resets, "no motor runs, so the controller is not reset");
    let _ = rig.command(0.3, 0.0); // only its first write may arrive
    rig.sleep(ms(2));
    assert_eq!((rig.report().mcu_resets, rig.report().brown_outs), (resets + 1, 1));
    assert!(rig.plant.motors_still());
    assert_eq!(rig.adc(4), Err(DeviceFault::Bus { register: 0x13, fault: BusFault::Nack }));
    rig.sleep(ms(160));
    let dipped = volts(&mut rig);
    assert!((6.0..7.5).contains(&dipped), "{dipped} V, recovering");
    rig.set_up().unwrap(); // 520 ms: until after 2.1 s
    let _ = rig.command(0.3, 0.0);
    rig.sleep(ms(2));
    assert_eq!(rig.report().brown_outs, 2, "the supply is still weak, so the controller is reset again");
    rig.wait_until(ms(3000));
    rig.set_up().unwrap();
    rig.command(0.3, 0.0).unwrap();
    rig.sleep(ms(300));
    assert_eq!(rig.report().brown_outs, 2);
    assert!(rig.report().speed > 0.1);
}

#[test]
fn a_low_battery_reads_low() {
    let mut rig = Rig::ready(1, &["battery-low@1+1"]);
    assert!(volts(&mut rig) > 7.6);
    rig.wait_until(ms(1000));
    assert!((volts(&mut rig) - 6.9).abs() < 0.02);
    rig.wait_until(ms(2000));
    assert!(volts(&mut rig) > 7.6);
}

#[test]
fn the_stop_button_is_pressed_for_the_faults_duration() {
    let mut rig = Rig::ready(1, &["estop@1+1"]);
    let button = Button::new(Line(25), true);
    let mut pressed = || button.read(rig.gpio.as_mut()).unwrap();
    let mut seen = vec![pressed()];
    for at in [1000, 1999, 2000] {
        rig.clock.sleep_until(rig.plant.zero() + ms(at));
        seen.push(pressed());
    }
    assert_eq!(seen, [0.0, 1.0, 1.0, 0.0]);
}

#[test]
fn field_faults_do_not_touch_the_bus() {
    let script = ["field-hang@0", "field-panic@0", "field-slow@0"];
    let run = |script: &[&str]| {
        let mut rig = Rig::ready(1, script);
        rig.command(0.5, 0.3).unwrap();
        rig.sleep(ms(500));
        let report = rig.report().bits();
        (report, rig.adc(0), rig.range(), lean(&mut rig))
    };
    assert_eq!(run(&script), run(&[]));
    assert!(script.iter().all(|line| Fault::parse(line).unwrap().kind.field().is_some()));
    assert!(FaultKind::EStop.field().is_none());
}
