//! Look-ups in /sys and /dev, below a root that tests replace with their own folder. Reads files and follows
//! links; opens no device and changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// The text of an attribute, without trailing white space; `None` if the attribute cannot be read.
pub(super) fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end().to_string())
}

/// The entries of `folder` whose names consist of `prefix` and a number: that number and the path, smallest
/// number first. Empty if the folder cannot be read.
pub(super) fn numbered(folder: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((number, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// The last component of the path that `link` resolves to: the name of a device, a driver or a subsystem.
pub(super) fn leads_to(link: &Path) -> Option<String> {
    Some(fs::canonicalize(link).ok()?.file_name()?.to_str()?.to_string())
}

/// `path`, which is absolute on the machine, as a path below `root`.
pub(super) fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
