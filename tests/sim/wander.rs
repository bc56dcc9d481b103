//! The world is fair: a few lines of reflexes, on the same simulated hardware as the real runtime, prevent
//! all contacts. In a layout where they failed, a contact would say nothing about the software.

use super::{Rig, ms};
use ganglion::base::time::Clock;

/// The state of the simple driver.
enum Doing {
    Ahead,
    /// Backs out until slot `until`, with the front wheels turned to `side`.
    Back {
        until: u64,
        side: f32,
    },
}

/// Drives for `slots` of 10 ms: polls at the board's periods (sonar 60 ms, ground 20 ms), decides, writes.
fn wander(seed: u64, slots: u64) -> Rig {
    let mut rig = Rig::ready(seed, &[]);
    let mut doing = Doing::Ahead;
    let (mut range, mut heard_at, mut side) = (0.0, 0, 1.0);
    let mut pending = None;
    for slot in 0..slots {
        let now = rig.plant.zero() + ms(600 + 10 * slot);
        rig.clock.set(now);
        if slot % 6 == 0 {
            let heard = rig.range().expect("a sonar that works");
            // The echo returns some slots later. In the runtime another thread waits for it, so the clock
            // is set back.
            heard_at = slot + 1 + rig.clock.now().since(now).as_nanos() / 10_000_000;
            pending = Some(heard);
            rig.clock.set(now);
        }
        if slot >= heard_at
            && let Some(heard) = pending.take()
        {
            range = heard;
        }
        let ground: Vec<f32> = match slot % 2 {
            0 => (0..3).map(|channel| rig.adc(channel).expect("a converter that works")).collect(),
            _ => Vec::new(),
        };
        if let Doing::Back { until, .. } = doing
            && slot >= until
        {
            doing = Doing::Ahead;
        }
        if let Doing::Ahead = doing {
            if let Some(dark) = ground.iter().position(|counts| *counts < 500.0) {
                doing = Doing::Back { until: slot + 120, side: if dark == 2 { -1.0 } else { 1.0 } };
            } else if range < 0.25 {
                doing = Doing::Back { until: slot + 120, side };
                side = -side;
            }
        }
        let (drive, steering) = match doing {
            Doing::Ahead => ((range * 0.5).min(0.5), if range < 0.7 { -0.6 * side } else { 0.0 }),
            Doing::Back { side, .. } => (-0.35, side),
        };
        rig.command(drive, steering).expect("a bus that works");
    }
    rig
}

#[test]
fn simple_reflexes_prevent_all_contacts() {
    for seed in 1..=10 {
        let report = wander(seed, 3000).report();
        assert_eq!(report.contacts.all(), 0, "seed {seed}: {report:?}");
        assert!(report.distance_m > 2.0, "seed {seed}: {} m", report.distance_m);
    }
}
