//! Crash loops of a version that was committed: a fault that a short trial does not show. Every end of the
//! service is counted here, by systemd's `ExecStopPost=`; its `OnFailure=` fires once, late, and never for a
//! slow loop.
//!
//! A version that dies young this often in a row is left for the one before it. Once it has lived long
//! enough, it has settled: what kills it from then on is not the update (a wire, a sensor), and going back
//! would not help.

use super::{Layout, Marker, Phase, UpdateError, at};
use crate::system::{codec, intake};
use serde::{Deserialize, Serialize};

/// A life shorter than this is a death too early, in seconds: longer than any start.
const YOUNG_S: f64 = 600.0;
/// A version that has lived for so long at a stretch has settled, in seconds.
const SETTLED_S: f64 = 3600.0;
/// Early deaths in a row after which the robot goes back: the limit at which systemd gives the service up.
pub const LIMIT: u32 = 5;
/// Longest file, in bytes.
const LONGEST: u64 = 4 << 10;

/// What is remembered of the installed version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deaths {
    /// The version.
    pub version: String,
    /// Early deaths in a row.
    pub in_a_row: u32,
    /// It has lived long enough once.
    pub settled: bool,
}

impl Deaths {
    /// What is remembered; nothing if the file is absent or damaged.
    pub fn read(layout: &Layout) -> Deaths {
        let text = intake::text(&layout.deaths(), LONGEST).ok();
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    fn write(&self, layout: &Layout) -> Result<(), UpdateError> {
        let path = layout.deaths();
        codec::replace(&path, serde_json::to_string(self).unwrap_or_default().as_bytes()).map_err(at(&path))
    }

    /// After an end of `version`, which had run for `lived_s`; `failed`: it was not asked to end.
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

/// Counts an end of the service. Tells whether the robot should go back to the version before.
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
    fn only_a_young_version_that_dies_in_a_row_is_left() {
        let last = committed("2");
        let early = [(true, 3.0); LIMIT as usize];
        assert!(ends(&early).is_loop(Some(&last)));
        assert!(!ends(&early[1..]).is_loop(Some(&last)), "one death fewer");
        assert!(!ends(&early).is_loop(None), "the first installation has no version before it");
        assert!(!ends(&early).is_loop(Some(&committed("3"))), "another version");
        let returned = Marker { phase: Phase::Returned, ..last.clone() };
        assert!(!ends(&early).is_loop(Some(&returned)), "no further step back");

        let stopped = [&early[1..], &[(false, 3.0)], &early[1..]].concat();
        assert!(!ends(&stopped).is_loop(Some(&last)), "a person stopped it in between");
        let long = [&early[1..], &[(true, YOUNG_S)], &early[1..]].concat();
        assert!(!ends(&long).is_loop(Some(&last)), "a slow loop of long lives is systemd's");
        let settled = [&[(false, SETTLED_S)], &early[..]].concat();
        assert!(!ends(&settled).is_loop(Some(&last)), "it ran for an hour once: the update is not the cause");
        let updated = ends(&settled).after("3", true, 3.0);
        assert_eq!((updated.in_a_row, updated.settled), (1, false), "each version begins anew");
    }
}
