//! The choice between CPU and GPU is measured once and kept for the same machine. The tests run on the
//! stand-in for the driver, whose timings are meaningless: only the use of the timings is tested here.

use super::dim;
use crate::cuda::standin::alone;
use crate::folder::Folder;
use ganglion::base::time::Span;
use ganglion::memory::choice::{Because, Choice, Preference};
use ganglion::memory::gpu::{GpuWorkspace, Room};
use ganglion::system::gpu::Watch;
use std::sync::Arc;

const SHORT: Span = Span::from_millis(100);

fn gpu(d: usize, watch: Arc<Watch>) -> GpuWorkspace {
    GpuWorkspace::open_with(dim(d), Room { rows: 16, queries: 1, store: 16 }, watch)
        .expect("the stand-in is a GPU")
}

#[test]
fn measurements_are_kept_per_machine_and_dropped_when_damaged() {
    let Some(alone) = alone() else { return };
    let (folder, d) = (Folder::new("choice"), 128);
    let file = folder.join("made/memory.choice");
    let first = Choice::of(&mut gpu(d, Arc::default()), Preference::Measured, Some(&file), SHORT);
    assert_eq!((&first.because, first.crossings.len()), (&Because::Measured, 5));
    assert!(first.crossings.iter().all(|crossing| (1..=16).contains(&crossing.tried)), "{first}");
    let again = Choice::of(&mut gpu(d, Arc::default()), Preference::Measured, Some(&file), SHORT);
    assert_eq!((again.because, &again.crossings), (Because::Kept, &first.crossings));
    let longer = Choice::of(&mut gpu(256, Arc::default()), Preference::Measured, Some(&file), SHORT);
    assert_eq!(longer.because, Because::Measured, "rows of another length");
    alone.order("driver=13000");
    let newer = Choice::of(&mut gpu(256, Arc::default()), Preference::Measured, Some(&file), SHORT);
    assert_eq!(newer.because, Because::Measured, "another driver");
    let mut bytes = std::fs::read(&file).expect("kept");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let damaged = Choice::of(&mut gpu(256, Arc::default()), Preference::Measured, Some(&file), SHORT);
    assert_eq!(damaged.because, Because::Measured);
    // A preference needs no measurement and leaves the file alone.
    let asked = Choice::of(&mut gpu(d, Arc::default()), Preference::Processor, Some(&file), SHORT);
    assert_eq!((asked.because, asked.crossings.len()), (Because::Asked, 0));
}
