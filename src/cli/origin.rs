//! How a printed figure came about that was not measured: the words for it in text, and the object `sources`
//! of the JSON reports, which has the key of each such figure. A figure that is not in it was measured or
//! counted; what is only arithmetic of measured figures counts as measured.

use std::collections::BTreeMap;

/// Follows from sizes by a formula.
pub const COMPUTED: &str = "computed";
/// A model of the time that something takes, in virtual time.
pub const MODELLED: &str = "modelled";
/// Counted or measured in the simulated world.
pub const SIMULATED: &str = "simulated";

/// By the key of the figure; a `.` leads into an object or each object of a list.
pub type Sources = BTreeMap<&'static str, &'static str>;

/// The figures of `keys`, each with the same `source`.
pub fn all<const N: usize>(keys: [&'static str; N], source: &'static str) -> Sources {
    keys.into_iter().map(|key| (key, source)).collect()
}
