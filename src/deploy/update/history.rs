//! The history of updates, one line of JSON per event, synced after each line: a power cut loses the last
//! seconds of the system journal, but nothing of this file. Times are seconds since boot, and each line names
//! the boot, because a robot's wall clock may be wrong.

use super::{Layout, Phase, UpdateError, Why, at};
use crate::system::{bounded_read, codec};
use serde::{Deserialize, Serialize};

/// Beyond this length, in bytes, the older half of the lines is dropped; dozens of updates remain.
const LONGEST: usize = 64 << 10;
/// Maximum number of bytes read, in case something else has made the file longer.
const MOST: u64 = 16 << 20;

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The package of a version was kept.
    Kept(String),
    /// A version was staged.
    Staged(String),
    /// An update entered this phase.
    Entered(Phase),
    /// A boot found an unfinished update.
    Found {
        /// The update's phase.
        phase: Phase,
        /// The installed version and its state, according to dpkg.
        installed: String,
        /// Number of the attempt to go back that begins now.
        attempt: u32,
    },
    /// The robot goes back to another version.
    GoingBack {
        /// The version.
        goal: String,
        /// The reason.
        why: Why,
    },
    /// The version to go back to is complete; nothing has to be installed.
    Whole(String),
    /// A trial or a rollback was refused; the robot's software did not change.
    Refused(String),
    /// The update ended.
    Ended {
        /// The final phase.
        phase: Phase,
        /// The version installed before the update.
        from: String,
        /// The version on trial.
        to: String,
    },
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The first eight digits of the boot's id.
    pub boot: String,
    /// Seconds since boot.
    pub uptime_s: f64,
    /// The event.
    pub event: Event,
}

/// Appends a line and syncs it to disk. The file is short, so it is replaced as a whole: no line is ever
/// incomplete.
pub fn note(layout: &Layout, event: Event) -> Result<(), UpdateError> {
    let path = layout.history();
    let entry = Entry { boot: boot(), uptime_s: uptime_s(), event };
    let mut text = text(layout);
    if text.len() > LONGEST {
        let lines: Vec<&str> = text.lines().collect();
        text = lines[lines.len() / 2..].iter().map(|line| format!("{line}\n")).collect();
    }
    text.push_str(&serde_json::to_string(&entry).unwrap_or_default());
    text.push('\n');
    codec::replace(&path, text.as_bytes()).map_err(at(&path))
}

/// All lines, oldest first; damaged lines are left out.
pub fn read(layout: &Layout) -> Vec<Entry> {
    text(layout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The lines after `last`; all lines if `last` is `None` or not in the file.
pub fn after(layout: &Layout, last: Option<&Entry>) -> Vec<Entry> {
    let mut entries = read(layout);
    let known = last.and_then(|last| entries.iter().rposition(|entry| entry == last));
    entries.split_off(known.map_or(0, |place| place + 1))
}

fn text(layout: &Layout) -> String {
    let bytes = bounded_read::bytes(&layout.history(), MOST).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first eight digits of this boot's id.
pub fn boot() -> String {
    let id = bounded_read::text("/proc/sys/kernel/random/boot_id".as_ref(), 256).unwrap_or_default();
    id.chars().take(8).collect()
}

fn uptime_s() -> f64 {
    let text = bounded_read::text("/proc/uptime".as_ref(), 256).unwrap_or_default();
    text.split_whitespace().next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_lines_are_found_after_the_older_half_is_dropped() {
        let root = std::env::temp_dir().join(format!("ganglion-history-{}", std::process::id()));
        let layout = Layout::new(&root);
        std::fs::create_dir_all(layout.state()).unwrap();
        let long = "v".repeat(LONGEST / 8);
        for _ in 0..9 {
            note(&layout, Event::Staged(long.clone())).unwrap();
        }
        let seen = read(&layout).pop();
        assert!(after(&layout, seen.as_ref()).is_empty());
        note(&layout, Event::Entered(Phase::Prepared)).unwrap();
        assert!(read(&layout).len() < 9, "the older half is gone");
        let new: Vec<Event> = after(&layout, seen.as_ref()).into_iter().map(|entry| entry.event).collect();
        assert_eq!(new, [Event::Entered(Phase::Prepared)]);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
