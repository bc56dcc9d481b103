//! The origin of printed figures that were not measured: its wording in text output, and the object `sources`
//! of the JSON reports, which contains the key of each such figure. A figure without an entry was measured or
//! counted; figures that are only arithmetic on measured ones count as measured.

use std::collections::BTreeMap;

/// Computed from sizes by a formula.
pub const COMPUTED: &str = "computed";
/// The modelled duration of something, in virtual time.
pub const MODELLED: &str = "modelled";
/// Counted or measured in the simulated world.
pub const SIMULATED: &str = "simulated";

/// The origin of each figure by its key; a `.` in a key leads into an object, or into each object of a list.
pub type Sources = BTreeMap<&'static str, &'static str>;

/// The figures of `keys`, each with the same `source`.
pub fn all<const N: usize>(keys: [&'static str; N], source: &'static str) -> Sources {
    keys.into_iter().map(|key| (key, source)).collect()
}
