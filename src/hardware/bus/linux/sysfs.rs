//! Look-ups in /sys and /dev, below a root that tests replace with their own folder. Reads files and follows
//! links; opens no device and changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// The text of an attribute without its line end; `None` if it cannot be read.
pub(super) fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end().to_string())
}

/// Names in `folder` that consist of `prefix` and a number, with that number, smallest first; empty if
/// unreadable.
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

/// The last part of the target of `link`: the name of a device, a driver or a subsystem.
pub(super) fn leads_to(link: &Path) -> Option<String> {
    Some(fs::canonicalize(link).ok()?.file_name()?.to_str()?.to_string())
}

/// The absolute path `path` of the machine, below `root`.
pub(super) fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
