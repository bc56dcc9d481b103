//! Whatever a program does to the bus, the world stays valid.

use super::{Rig, ms};
use ganglion::base::fault::BusFault;
use ganglion::base::plan::Line;
use ganglion::base::time::Span;
use ganglion::hardware::bus::Op;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Write(u8, Vec<u8>),
    Read(u8, usize),
    WriteRead(u8, Vec<u8>, usize),
    Set(u32, bool),
    Edge(u64),
    Sleep(u64),
    Drive(f32, f32),
}

fn act() -> impl Strategy<Value = Act> {
    let address = prop_oneof![4 => Just(0x14_u8), 1 => Just(0x60), 1 => 0x03_u8..0x78];
    let bytes = prop::collection::vec(any::<u8>(), 0..5);
    let line = prop::sample::select(vec![5_u32, 22, 23, 24, 25, 27, 99]);
    prop_oneof![
        (address.clone(), bytes.clone()).prop_map(|(address, bytes)| Act::Write(address, bytes)),
        (address.clone(), 0_usize..5).prop_map(|(address, n)| Act::Read(address, n)),
        (address, bytes, 0_usize..5).prop_map(|(address, bytes, n)| Act::WriteRead(address, bytes, n)),
        (line, any::<bool>()).prop_map(|(line, high)| Act::Set(line, high)),
        (0_u64..50_000).prop_map(Act::Edge),
        (0_u64..500).prop_map(Act::Sleep),
        (-1.0_f32..1.0, -1.0_f32..1.0).prop_map(|(drive, steering)| Act::Drive(drive, steering)),
    ]
}

/// Performs one act. Callers ignore the result: only the state of the world afterwards matters.
fn perform(rig: &mut Rig, act: &Act) -> Result<(), BusFault> {
    let mut back = [0; 4];
    match act {
        Act::Write(address, bytes) => rig.i2c.write(*address, bytes),
        Act::Read(address, n) => rig.i2c.read(*address, &mut back[..*n]),
        Act::WriteRead(address, bytes, n) => {
            rig.i2c.transfer(*address, &mut [Op::Write(bytes), Op::Read(&mut back[..*n])])
        }
        Act::Set(line, high) => rig.gpio.set(Line(*line), *high),
        Act::Edge(us) => rig.gpio.next_edge(Span::from_micros(*us)).map(|_| ()),
        Act::Sleep(time) => {
            rig.sleep(ms(*time));
            Ok(())
        }
        Act::Drive(drive, steering) => rig.command(*drive, *steering).map_err(|_| BusFault::Io),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_car_state_is_finite_and_outside_walls(
        seed in 0_u64..500,
        faults in prop::sample::subsequence(
            vec!["i2c-nack@3", "i2c-stuck@2+1", "i2c-wrong-bytes@4", "brown-out@1+9", "adc-frozen@1",
                 "sonar-frozen@2", "sonar-silent@5", "battery-low@2", "estop@3", "tilt-nan@1"],
            0..4,
        ),
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let mut rig = Rig::ready(seed, &[]);
        let mut faulty = Rig::new(rig.board.clone(), seed, &faults);
        for rig in [&mut rig, &mut faulty] {
            for act in &acts {
                let _ = perform(rig, act);
                let report = rig.report();
                let [length, width] = [0.25, 0.13];
                let room = rig.plant.world().room();
                prop_assert!(report.speed.is_finite() && report.pose.heading.is_finite());
                prop_assert!((5.0..=8.0).contains(&report.battery_v));
                for (ahead, left) in [(0.5, 0.5), (0.5, -0.5), (-0.5, 0.5), (-0.5, -0.5)] {
                    // The body's centre is half a wheelbase ahead of the rear axle.
                    let [x, y] = report.pose.point(0.0436 + ahead * (length - 1e-3), left * width);
                    prop_assert!(x > 0.0 && x < room[0] && y > 0.0 && y < room[1], "{x} {y}");
                    for disc in rig.plant.world().discs() {
                        let away = (x - disc.at[0]).hypot(y - disc.at[1]);
                        prop_assert!(away > disc.radius - 1e-3, "{away}");
                    }
                }
            }
        }
    }
}
