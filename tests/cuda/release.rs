//! The fatbin of a release: the program accepts the file from `scripts/build-fatbin` as it is, and refuses it
//! if a byte of its last line has changed. Without the file the test is skipped.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ganglion::field::cuda::is_emulated;
use ganglion::system::gpu::{Counts, Gpu, Image, ImageFiles, Source, Watch, probe};

use super::engine::device;
use crate::folder::Folder;
use crate::skips::skip;

const PTX: &str = include_str!("../../kernels/ganglion.ptx");
/// Where the script puts the fatbin; GANGLION_IMAGE names another place, as for the program.
const FATBIN: &str = "target/image/ganglion.fatbin";

/// Where a process with this fatbin gets its kernels from, and the counts of the driver calls for that.
fn load(fatbin: PathBuf) -> (Source, Counts) {
    let watch = Arc::new(Watch::new());
    let found = probe().expect("a GPU, or the stand-in");
    let gpu = Gpu::open(&found, watch.clone()).expect("it opens");
    let files = ImageFiles { ptx: PTX, fatbin: Some(fatbin), marks: None };
    let image = Image::load(&gpu, &files).expect("the PTX is good");
    assert!(image.kernel("sense").is_ok());
    (image.source(), watch.counts())
}

#[test]
fn the_release_fatbin_is_complete_or_refused() {
    let fatbin = std::env::var_os("GANGLION_IMAGE").map_or_else(|| FATBIN.into(), PathBuf::from);
    let Ok(whole) = fs::read(&fatbin) else {
        return skip("no compiled kernels: scripts/build-fatbin makes them");
    };
    let Some(_device) = device() else { return };
    let emulated = is_emulated(&probe().expect("a GPU, or the stand-in"));
    let (source, counts) = load(fatbin);
    // The file is intact, so it is given to the driver; the stand-in refuses it, as it runs no machine code.
    let taken = if emulated { (Source::Ptx, 1) } else { (Source::Fatbin, 0) };
    assert_eq!((source, counts.failures), taken);
    let stamp = PTX.lines().next().expect("a first line").len();
    // Not in the build folder: scripts/gpu-check runs this on another machine.
    let folder = Folder::new("release");
    let damaged = folder.join("damaged.fatbin");
    for from_end in [2, stamp / 2, stamp + 1] {
        let mut bytes = whole.clone();
        let at = bytes.len() - from_end;
        bytes[at] ^= 1;
        fs::write(&damaged, bytes).expect("written");
        let (source, counts) = load(damaged.clone());
        assert_eq!((source, counts.failures), (Source::Ptx, 0), "{from_end}: not given to the driver");
    }
}
