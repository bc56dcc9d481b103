//! What happened, one line of JSON each, synced line by line: the journal loses its last seconds in a power
//! cut, this file loses nothing that was written. Times are of the machine's own clock since its boot, and
//! each line names the boot, because a robot's wall clock may be wrong.

use super::{Layout, Phase, UpdateError, Why, at};
use crate::system::{codec, intake};
use serde::{Deserialize, Serialize};

/// Beyond this length, in bytes, the older half is dropped: what is left are some hundred updates.
const LONGEST: usize = 64 << 10;
/// Most that is read of a file that something else has made longer, in bytes.
const MOST: u64 = 16 << 20;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The package of a version was kept.
    Kept(String),
    /// A version was staged.
    Staged(String),
    /// An update entered this phase.
    Entered(Phase),
    /// A boot found an update unfinished.
    Found {
        /// In this phase.
        phase: Phase,
        /// With this version installed, as dpkg has it.
        installed: String,
        /// The attempt to go back that begins.
        attempt: u32,
    },
    /// The robot goes back to a version.
    GoingBack {
        /// To this one.
        goal: String,
        /// Why.
        why: Why,
    },
    /// The version to go back to is whole: nothing has to be installed.
    Whole(String),
    /// A trial or a rollback was refused; nothing of the robot's software changed.
    Refused(String),
    /// The update ended.
    Ended {
        /// How.
        phase: Phase,
        /// The version before.
        from: String,
        /// The version that was tried.
        to: String,
    },
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The first eight digits of the boot's id.
    pub boot: String,
    /// Seconds since that boot.
    pub uptime_s: f64,
    /// What happened.
    pub event: Event,
}

/// Adds a line and writes it to the disk. The file is short, so it is replaced whole: no line is ever cut
/// off.
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

/// All lines, the oldest first; a line that something else has damaged is left out.
pub fn read(layout: &Layout) -> Vec<Entry> {
    text(layout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The lines after `last`; all of them if it is not there, or there was none.
pub fn after(layout: &Layout, last: Option<&Entry>) -> Vec<Entry> {
    let mut entries = read(layout);
    let known = last.and_then(|last| entries.iter().rposition(|entry| entry == last));
    entries.split_off(known.map_or(0, |place| place + 1))
}

fn text(layout: &Layout) -> String {
    let bytes = intake::bytes(&layout.history(), MOST).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first eight digits of this boot's id.
pub fn boot() -> String {
    let id = intake::text("/proc/sys/kernel/random/boot_id".as_ref(), 256).unwrap_or_default();
    id.chars().take(8).collect()
}

fn uptime_s() -> f64 {
    let text = intake::text("/proc/uptime".as_ref(), 256).unwrap_or_default();
    text.split_whitespace().next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_seen_although_the_older_half_was_dropped() {
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
