//! Detects crash loops of a committed version, caused by a fault that a short trial does not show. The
//! service's `ExecStopPost=` calls this at every exit. `OnFailure=` would not do: it fires only once, when
//! systemd gives up restarting, and never for a slow loop.
//!
//! If a version dies early [`LIMIT`] times in a row, the robot goes back to the previous version. Once a
//! version has run long enough, it counts as settled: later deaths are attributed to a wire or a sensor and
//! not to the update, so going back would not help.

use super::{Layout, Marker, Phase, UpdateError, at};
use crate::system::{bounded_read, codec};
use serde::{Deserialize, Serialize};

/// A failed run shorter than this, in seconds, is an early death. No start takes this long.
const YOUNG_S: f64 = 600.0;
/// A version that has run without interruption for this long, in seconds, has settled.
const SETTLED_S: f64 = 3600.0;
/// Early deaths in a row after which the robot rolls back; equal to the unit's `StartLimitBurst=`, after
/// which systemd gives up.
pub const LIMIT: u32 = 5;
/// Longest file, in bytes.
const LONGEST: u64 = 4 << 10;

/// What is recorded about the installed version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deaths {
    /// The version.
    pub version: String,
    /// Early deaths in a row.
    pub in_a_row: u32,
    /// Whether the version has ever run long enough to settle.
    pub settled: bool,
}

impl Deaths {
    /// Reads the record; empty if the file is missing or damaged.
    pub fn read(layout: &Layout) -> Deaths {
        let text = bounded_read::text(&layout.deaths(), LONGEST).ok();
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    fn write(&self, layout: &Layout) -> Result<(), UpdateError> {
        let path = layout.deaths();
        codec::replace(&path, serde_json::to_string(self).unwrap_or_default().as_bytes()).map_err(at(&path))
    }

    /// The record after `version` has run for `lived_s` and ended. `failed`: systemd reports a failure.
    fn after(self, version: &str, failed: bool, lived_s: f64) -> Deaths {
        let known = if self.version == version { self } else { Deaths::default() };
        let in_a_row = match failed && lived_s < YOUNG_S {
            true => known.in_a_row.saturating_add(1),
            false => 0,
        };
        Deaths { version: version.to_string(), in_a_row, settled: known.settled || lived_s >= SETTLED_S }
    }

    /// Whether the robot should go back to the version before `installed`.
    fn is_loop(&self, last: Option<&Marker>) -> bool {
        let fresh = last.is_some_and(|last| last.phase == Phase::Committed && last.to == self.version);
        fresh && !self.settled && self.in_a_row >= LIMIT
    }
}

/// Counts one exit of the service. Returns whether the robot should go back to the previous version.
pub fn count(layout: &Layout, version: &str, failed: bool, lived_s: f64) -> Result<bool, UpdateError> {
    let before = Deaths::read(layout);
    let now = before.clone().after(version, failed, lived_s);
    if now != before {
        now.write(layout)?;
    }
    Ok(failed && now.is_loop(Marker::last(layout)?.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(ends: &[(bool, f64)]) -> Deaths {
        ends.iter().fold(Deaths::default(), |deaths, &(failed, lived_s)| deaths.after("2", failed, lived_s))
    }

    fn committed(to: &str) -> Marker {
        let (from, goal) = ("1".to_string(), "1".to_string());
        Marker {
            phase: Phase::Committed,
            from,
            to: to.to_string(),
            goal,
            tries: 0,
            is_return: false,
            why: None,
        }
    }

    #[test]
    fn only_repeated_early_deaths_count_as_a_loop() {
        let last = committed("2");
        let early = [(true, 3.0); LIMIT as usize];
        assert!(ends(&early).is_loop(Some(&last)));
        assert!(!ends(&early[1..]).is_loop(Some(&last)), "one death fewer");
        assert!(!ends(&early).is_loop(None), "the first installation has no version before it");
        assert!(!ends(&early).is_loop(Some(&committed("3"))), "another version");
        let returned = Marker { phase: Phase::Returned, ..last.clone() };
        assert!(!ends(&early).is_loop(Some(&returned)), "there is no version to go back to");

        let stopped = [&early[1..], &[(false, 3.0)], &early[1..]].concat();
        assert!(!ends(&stopped).is_loop(Some(&last)), "a person stopped it in between");
        let long = [&early[1..], &[(true, YOUNG_S)], &early[1..]].concat();
        assert!(!ends(&long).is_loop(Some(&last)), "a slow loop with long runs is left to systemd");
        let settled = [&[(false, SETTLED_S)], &early[..]].concat();
        assert!(!ends(&settled).is_loop(Some(&last)), "it ran for an hour once: the update is not the cause");
        let updated = ends(&settled).after("3", true, 3.0);
        assert_eq!((updated.in_a_row, updated.settled), (1, false), "each version starts at zero");
    }
}
