//! Random shapes: whatever the board requests, the engine matches the reference, in both storages and on any
//! number of threads.

use super::agreement::agree;
use super::identity::shown;
use super::*;
use crate::long::or_in_full;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Asked {
    shape: Shape,
    ms: u64,
    threads: usize,
    seed: u64,
    /// Where the run enters the sequence of levels.
    entry: u64,
}

fn asked() -> impl Strategy<Value = Asked> {
    let sizes = (1_usize..=64, 1_usize..=16, 1_usize..=5, 1_usize..=12);
    (sizes, 5_u64..=200, 1_usize..=4, 0_u64..1000, 0_u64..60).prop_map(|(sizes, ms, threads, seed, entry)| {
        let (sensors, motors, patterns, bank) = sizes;
        Asked { shape: Shape { grid: 8, sensors, motors, patterns, bank }, ms, threads, seed, entry }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: or_in_full(6, 24), ..ProptestConfig::default() })]

    #[test]
    fn any_shape_at_any_rate_matches_the_reference(asked in asked()) {
        for storage in STORAGES {
            // In halves, rounding would decide what is learned and stored.
            let learn = storage == Storage::F32;
            let shape = Shape { bank: if learn { asked.shape.bank } else { asked.shape.bank.min(5) }, ..asked.shape };
            let (dt, seed) = (Span::from_millis(asked.ms), asked.seed);
            let plan = FieldPlan { shape, storage, learn, dt, seed, threads: asked.threads, ..plan(8) };
            agree(&plan, &Level::all(), 24, |cycle| level_at(cycle + asked.entry));
        }
    }

    #[test]
    fn threads_do_not_change_results_in_any_shape(asked in asked()) {
        for storage in STORAGES {
            let (dt, seed) = (Span::from_millis(asked.ms), asked.seed);
            let one = FieldPlan { shape: asked.shape, storage, dt, seed, ..plan(8) };
            let mut alone = build(&one);
            let mut several = build(&FieldPlan { threads: asked.threads, ..one });
            for cycle in 0..24 {
                let input = input(9, cycle, level_at(cycle + asked.entry));
                prop_assert!(shown(alone.as_mut(), &input) == shown(several.as_mut(), &input), "cycle {}", cycle);
            }
        }
    }
}
