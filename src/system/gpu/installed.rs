//! Chooses which kernels to load: those of a release, else the PTX in the program. No kernel is named here.
//! Also finds the program's cache folder.

use super::image::ImageFiles;
use std::path::PathBuf;

/// The kernels as PTX, which every driver since CUDA 12.0 can compile. `scripts/build-ptx` generates it.
const PTX: &str = include_str!("../../../kernels/ganglion.ptx");
/// Where a release puts the kernels compiled for each chip (`scripts/build-fatbin`).
const INSTALLED: &str = "/usr/lib/ganglion/ganglion.fatbin";
/// Environment variable with the path of a fatbin to load instead.
const NAMED: &str = "GANGLION_IMAGE";

/// The files, in the order in which they are tried.
pub fn image_files() -> ImageFiles {
    let fatbin = std::env::var_os(NAMED).map_or_else(|| PathBuf::from(INSTALLED), PathBuf::from);
    ImageFiles { fatbin: fatbin.exists().then_some(fatbin), ptx: PTX, marks: cache_folder() }
}

/// The folder for files that may be deleted at any time: the one that systemd gives a service
/// (`CacheDirectory=`), else the user's; none if the environment names neither.
pub fn cache_folder() -> Option<PathBuf> {
    folder_in(|name| std::env::var_os(name).map(PathBuf::from))
}

fn folder_in(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // systemd separates several folders by colons. Relative paths are to be ignored (XDG Base Directory
    // Specification, 0.8).
    let first = |path: PathBuf| path.to_str().and_then(|text| text.split(':').next()).map(PathBuf::from);
    let of = |name: &str| variable(name).filter(|path| path.is_absolute());
    of("CACHE_DIRECTORY")
        .and_then(first)
        .or_else(|| of("XDG_CACHE_HOME").map(|path| path.join("ganglion")))
        .or_else(|| of("HOME").map(|path| path.join(".cache").join("ganglion")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_folder_comes_before_the_users() {
        let folder = |given: &[(&str, &str)]| {
            let given: Vec<(String, PathBuf)> =
                given.iter().map(|(name, path)| (name.to_string(), PathBuf::from(path))).collect();
            let found = folder_in(|name| given.iter().find(|(n, _)| n == name).map(|(_, path)| path.clone()));
            found.map(|path| path.display().to_string())
        };
        let home = ("HOME", "/home/me");
        assert_eq!(folder(&[home]).as_deref(), Some("/home/me/.cache/ganglion"));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "/c")]).as_deref(), Some("/c/ganglion"));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "c")]).as_deref(), Some("/home/me/.cache/ganglion"));
        let service = ("CACHE_DIRECTORY", "/var/cache/ganglion:/var/cache/other");
        assert_eq!(folder(&[home, service]).as_deref(), Some("/var/cache/ganglion"));
        assert_eq!(folder(&[]), None);
    }
}
