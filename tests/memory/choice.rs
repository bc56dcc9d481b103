//! The choice between CPU and GPU is measured once and kept for the same machine. The tests run on the
//! stand-in for the driver, whose timings are meaningless: only the use of the timings is tested here.

use super::dim;
use crate::cuda::standin::alone;
use ganglion::base::time::Span;
use ganglion::memory::choice::{Because, Choice, Preference};
use ganglion::memory::gpu::{GpuWorkspace, Room};
use ganglion::system::gpu::Watch;
use std::path::PathBuf;
use std::sync::Arc;

const SHORT: Span = Span::from_millis(100);

fn gpu(d: usize, watch: Arc<Watch>) -> GpuWorkspace {
    GpuWorkspace::open_with(dim(d), Room { rows: 16, queries: 1, store: 16 }, watch)
        .expect("the stand-in is a GPU")
}

/// A file that is deleted after the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let folder = std::env::temp_dir().join(format!("ganglion-choice-{}-{name}", std::process::id()));
        File(folder.join("memory.choice"))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = self.0.parent().map(std::fs::remove_dir_all);
    }
}

#[test]
fn measurements_are_kept_per_machine_and_dropped_when_damaged() {
    let Some(alone) = alone() else { return };
    let (file, d) = (File::new("kept"), 128);
    let first = Choice::of(&mut gpu(d, Arc::default()), Preference::Measured, Some(&file.0), SHORT);
    assert_eq!((&first.because, first.crossings.len()), (&Because::Measured, 5));
    assert!(first.crossings.iter().all(|crossing| (1..=16).contains(&crossing.tried)), "{first}");
    let again = Choice::of(&mut gpu(d, Arc::default()), Preference::Measured, Some(&file.0), SHORT);
    assert_eq!((again.because, &again.crossings), (Because::Kept, &first.crossings));
    let longer = Choice::of(&mut gpu(256, Arc::default()), Preference::Measured, Some(&file.0), SHORT);
    assert_eq!(longer.because, Because::Measured, "rows of another length");
    alone.order("driver=13000");
    let newer = Choice::of(&mut gpu(256, Arc::default()), Preference::Measured, Some(&file.0), SHORT);
    assert_eq!(newer.because, Because::Measured, "another driver");
    let mut bytes = std::fs::read(&file.0).expect("kept");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file.0, bytes).expect("written");
    let damaged = Choice::of(&mut gpu(256, Arc::default()), Preference::Measured, Some(&file.0), SHORT);
    assert_eq!(damaged.because, Because::Measured);
    // A preference needs no measurement and leaves the file alone.
    let asked = Choice::of(&mut gpu(d, Arc::default()), Preference::Processor, Some(&file.0), SHORT);
    assert_eq!((asked.because, asked.crossings.len()), (Because::Asked, 0));
}
