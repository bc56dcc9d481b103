//! Slices through the field: every engine shows its actual cells without allocating, and a recording has two
//! sets of slices per second, as images that viewers can show.

use crate::allocation::allocations_in;
use crate::field_cpu::input;
use crate::recording::{Files, plan, record, shipped};
use ganglion::base::plan::{EngineKind, QUALITY_LEVELS, Storage};
use ganglion::drive::record::{Event, ImageMessage, Reader, SLICES_TOPIC, When};
use ganglion::field::engine::build;
use ganglion::field::slices::{FieldSlices, SLICES, copy_every};
use ganglion::field::state::Live;

#[test]
fn each_engine_shows_the_cells_that_it_has() {
    for (engine, storage) in [
        (EngineKind::Reference, Storage::F32),
        (EngineKind::Cpu, Storage::F32),
        (EngineKind::Cpu, Storage::F16),
    ] {
        for (quality, grid) in [(0, 16), (QUALITY_LEVELS - 1, 8)] {
            let mut plan = shipped().field;
            (plan.engine, plan.storage, plan.shape.grid) = (engine, storage, 16);
            let mut engine = build(&plan);
            (0..40).for_each(|cycle| assert!(engine.cycle(&input(3, cycle, quality)).is_ok()));
            let mut channels = vec![vec![0.0; grid * grid * grid]; 64];
            channels.iter_mut().enumerate().for_each(|(number, cells)| engine.copy_channel(number, cells));
            let mut shown = None;
            assert_eq!(allocations_in(|| shown = engine.slices()), 0);
            let expected = FieldSlices::of(grid, 39, |channel, first, step, to| {
                copy_every(&channels[channel], first, step, to, |cell| *cell);
            });
            assert_eq!(shown, Some(expected), "{} at quality {quality}", engine.name());
            let [low, high] = expected.range;
            assert!(
                high - low > 0.1 && usize::from(expected.side) == grid,
                "the input is visible: {low} to {high}"
            );
            let mut live = Live::default();
            assert!(engine.save(&mut live));
            assert_eq!(FieldSlices::of_saved(&live), Some(expected), "a saved field gives the same slices");
        }
    }
    assert_eq!(FieldSlices::of_saved(&Live::default()), None);
}

#[test]
fn a_recording_has_two_sets_of_slices_a_second() {
    let (board, files) = (shipped(), Files::default());
    record(&board, plan(&board, When::Always, files.opener()), true, 1, &[], 12);
    let bytes = files.bytes();
    let mut reader = Reader::new(&bytes[..]);
    let mut sets = Vec::new();
    while let Some(event) = reader.next_event().expect("it was written in order") {
        let Event::Message { topic, time, json } = event else { continue };
        if topic == SLICES_TOPIC {
            let message: ImageMessage = serde_json::from_slice(&json).expect("an image");
            sets.push((time, message.slices));
        }
    }
    assert!((20..=25).contains(&sets.len()), "{} in 12 s", sets.len());
    for (number, pair) in sets.windows(2).enumerate() {
        assert!(pair[1].0 - pair[0].0 >= 500_000_000, "set {number}");
        assert!(pair[1].1.cycle > pair[0].1.cycle && pair[1].1.data != pair[0].1.data, "set {number}");
    }
    for (_, set) in &sets[1..] {
        // The first set is of the field at rest, before its first cycle.
        let (cells, side) = set.cells().expect("a whole image");
        assert_eq!((cells.len(), side), (SLICES, board.field.shape.grid.min(32)));
        let (least, most) = (cells.iter().flatten().min(), cells.iter().flatten().max());
        assert_eq!((least, most), (Some(&0), Some(&255)), "the whole range of greys is used");
    }
}
