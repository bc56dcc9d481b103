//! Chooses which kernels to load: those of a release, else the text in the program. Knows no kernel by name.

use super::cache::cache_folder;
use super::image::ImageFiles;
use std::path::PathBuf;

/// Kernels as text, which every driver since JetPack 6.1 compiles: `scripts/build-ptx` makes it.
const PTX: &str = include_str!("../../kernels/ganglion.ptx");
/// Where a release puts the kernels compiled for each chip (`scripts/build-fatbin`).
const INSTALLED: &str = "/usr/lib/ganglion/ganglion.fatbin";
/// Names another file.
const NAMED: &str = "GANGLION_IMAGE";

/// The files, in the order in which they are tried.
pub fn image_files() -> ImageFiles {
    let fatbin = std::env::var_os(NAMED).map_or_else(|| PathBuf::from(INSTALLED), PathBuf::from);
    ImageFiles { fatbin: fatbin.exists().then_some(fatbin), ptx: PTX, cache: cache_folder() }
}
