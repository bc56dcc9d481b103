//! Writes on the bus move the car, and nothing else does.

use super::{Rig, ms, shipped};
use ganglion::base::plan::Line;
use ganglion::base::time::{Clock, Span};

/// How far the car has come along its initial heading, and how much it has turned.
fn way(rig: &Rig) -> (f64, f64) {
    let (start, now) = (rig.plant.world().start(), rig.report().pose);
    let (dx, dy) = (now.x - start.x, now.y - start.y);
    let ahead = dx * start.heading.cos() + dy * start.heading.sin();
    (ahead, now.heading - start.heading)
}

#[test]
fn both_hat_revisions_drive_forwards_back_right_and_left() {
    for name in ["sim", "picarx-v4", "picarx-v5"] {
        for (drive, steering) in [(0.6, 0.0), (-0.6, 0.0), (0.6, 1.0), (0.6, -1.0), (-0.6, 1.0)] {
            let mut rig = Rig::new(shipped(name), 7, &[]);
            rig.set_up().unwrap();
            rig.command(drive, steering).unwrap();
            rig.sleep(ms(300));
            let (ahead, turned) = way(&rig);
            assert_eq!(ahead > 0.01, drive > 0.0, "{name} {drive} {steering}: {ahead} m");
            assert_eq!(ahead < -0.01, drive < 0.0, "{name} {drive} {steering}: {ahead} m");
            // Counter-clockwise is positive: driving forwards with the wheels to the right turns the car
            // clockwise.
            let expected = -drive * steering;
            assert_eq!(turned < -0.1, expected < 0.0, "{name} {drive} {steering}: {turned} rad");
            assert_eq!(turned > 0.1, expected > 0.0, "{name} {drive} {steering}: {turned} rad");
            assert_eq!(rig.report().contacts.all(), 0);
        }
    }
}

#[test]
fn a_command_sets_speed_and_steering() {
    let mut rig = Rig::ready(3, &[]);
    rig.command(0.4, 1.0).unwrap();
    rig.sleep(ms(1000));
    let report = rig.report();
    // Full speed is 0.5 m/s; rounding to counts and the true servo frame cause the remaining difference.
    assert!((report.speed - 0.2).abs() < 0.001, "{}", report.speed);
    assert!((report.steering_deg - 30.0).abs() < 0.3, "{}", report.steering_deg);
    rig.command(0.4, 0.0).unwrap();
    rig.sleep(ms(1000));
    assert!(rig.report().steering_deg.abs() < 0.3);
}

#[test]
fn nothing_moves_before_timers_run() {
    let mut rig = Rig::new(shipped("sim"), 1, &[]);
    rig.i2c.write(0x14, &[0x2D, 0x0F, 0xFF]).unwrap();
    rig.i2c.write(0x14, &[0x2C, 0x0F, 0xFF]).unwrap();
    rig.sleep(ms(500));
    assert_eq!(rig.report().distance_m, 0.0);
    assert!(!rig.plant.motors_still(), "the registers request pulses anyway");
}

#[test]
fn pulses_continue_until_the_reset_line_ends_them() {
    let mut rig = Rig::ready(2, &[]);
    rig.command(0.2, 0.5).unwrap();
    rig.sleep(ms(1000));
    let before = rig.report().distance_m;
    rig.sleep(ms(1000)); // no process writes
    assert!(rig.report().distance_m - before > 0.09, "it drives on");
    assert!(!rig.plant.motors_still());
    rig.gpio.set(Line(5), false).unwrap();
    assert!(rig.plant.motors_still());
    rig.sleep(ms(2000));
    let stopped = rig.report();
    rig.sleep(ms(1000));
    assert_eq!(rig.report().distance_m, stopped.distance_m);
    assert_eq!(stopped.speed, 0.0);
}

#[test]
fn stop_ends_all_motion_within_two_writes() {
    let mut rig = Rig::ready(2, &[]);
    rig.command(1.0, 0.0).unwrap();
    let start = rig.clock.now();
    rig.stop().unwrap();
    assert_eq!(rig.clock.now().since(start), Span::from_micros(2 * 380));
    assert!(rig.plant.motors_still());
}

#[test]
fn same_seed_and_commands_give_the_same_world() {
    let drive = |seed: u64, watch: u64| {
        let mut rig = Rig::ready(seed, &[]);
        for slot in 0..200_u64 {
            let phase = slot as f32 * 0.1;
            rig.command(phase.sin() * 0.5, phase.cos()).unwrap();
            let next = rig.plant.zero() + ms(1000 + 10 * slot);
            for part in (1..=watch).rev() {
                let at = next - ms(8).less(ms(8 - 8 / part));
                rig.clock.sleep_until(at);
                rig.report();
            }
            rig.clock.sleep_until(next);
        }
        rig.report().bits()
    };
    assert_eq!(drive(5, 0), drive(5, 0));
    assert_eq!(drive(5, 0), drive(5, 7));
    assert_ne!(drive(5, 0), drive(6, 0));
}
