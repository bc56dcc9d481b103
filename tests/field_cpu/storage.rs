//! What half precision changes: less memory and fewer bytes per cycle. Slow channels stay in f32.

use super::*;
use ganglion::base::plan::QUALITY_LEVELS;
use ganglion::field::shape::{GROUP, SLOW_FIRST};

fn in_halves(grid: usize) -> (Box<dyn Inspect>, Box<dyn Inspect>) {
    let plan = plan(grid);
    (build(&plan), build(&FieldPlan { storage: Storage::F16, ..plan }))
}

/// Whether every cell of a channel has at most the eleven significant bits of a half.
fn holds_halves(engine: &dyn Inspect, c: usize) -> bool {
    let mut cells = vec![0.0_f32; 512];
    engine.copy_channel(c, &mut cells);
    cells.iter().all(|u| u.to_bits() & 0x1fff == 0)
}

#[test]
fn channels_too_slow_for_half_precision_stay_f32() {
    // Per cycle, at 20 Hz, a slow channel moves a twentieth of the way to its target; at 250 Hz every channel
    // moves less than a tenth of the way, at 5 Hz every channel more.
    for (ms, first_full) in [(50, SLOW_FIRST), (4, 0), (200, CHANNELS)] {
        let plan = FieldPlan { storage: Storage::F16, dt: Span::from_millis(ms), ..plan(8) };
        for level in Level::all() {
            let mut engine = build_at(&plan, level);
            assert_eq!(engine.storage(), "f16");
            (0..12).for_each(|cycle| assert!(engine.cycle(&input(9, cycle, 0)).is_ok()));
            for c in 0..CHANNELS {
                assert_eq!(holds_halves(engine.as_ref(), c), c < first_full, "{ms} ms, channel {c}");
            }
        }
    }
}

#[test]
fn half_storage_takes_less_memory_and_fewer_bytes_per_cycle() {
    for grid in [8, 32] {
        let (full, packed) = in_halves(grid);
        let cells = plan(grid).shape.cells();
        // The saving is two bytes per cell of 48 channels on both grids, minus the extra buffers: eight
        // channels for new cells in the other format, and one channel for values between two sub-steps.
        let on_both_grids = |channels: usize| channels * (cells + cells / 8) * size_of::<u16>();
        let extra = on_both_grids(GROUP) + cells * size_of::<u16>();
        assert_eq!(full.memory_bytes() - packed.memory_bytes(), on_both_grids(SLOW_FIRST) - extra);
        for quality in 0..QUALITY_LEVELS {
            let quality = QualityLevel::new(quality as u8).expect("a valid level");
            let (full, packed) = (full.bytes_per_cycle(quality), packed.bytes_per_cycle(quality));
            assert!(packed < full && packed > full / 2, "{packed} and {full} at {quality:?}");
        }
        // Read and written: 48 channels of two bytes and 16 of four. Only read: three patterns of two bytes.
        let best = packed.bytes_per_cycle(QualityLevel::BEST);
        assert_eq!(best, cells * (2 * (48 * 2 + 16 * 4) + 3 * PATTERN * 2));
    }
}

#[test]
fn no_level_touches_more_bytes_than_the_better_one() {
    for storage in STORAGES {
        let mut engine = build(&FieldPlan { storage, ..plan(16) });
        for experiences in [0, 20] {
            while engine.experiences() < experiences {
                let seed = engine.experiences() as u64;
                let draw = |i: usize| uniform(seed, Stream::Patterns, i as u64) as f32 - 0.5;
                assert!(engine.store_experience(&std::array::from_fn(draw), 1.0));
            }
            let bytes: Vec<usize> = (0..QUALITY_LEVELS as u8)
                .map(|quality| engine.bytes_per_cycle(QualityLevel::new(quality).expect("a valid level")))
                .collect();
            // Level 1 scans half of the bank per cycle, 2 blends only one pattern, 3 saves only learning,
            // 4 steps half of the pattern and slow channels per cycle, 5 has an eighth of the cells.
            let falls = |quality: usize| bytes[quality] < bytes[quality - 1];
            assert!([2, 4, 5].into_iter().all(falls), "{storage:?}: {bytes:?}");
            assert!(bytes[1] <= bytes[0] && bytes[3] == bytes[2], "{storage:?}: {bytes:?}");
            assert!(experiences == 0 || falls(1), "{storage:?}: {bytes:?}");
            assert!(5 * bytes[5] < bytes[4] * 2, "{storage:?}: {bytes:?}");
        }
    }
}
