//! Quality levels: one row per level, best first. A level changes what a cycle computes, never what is
//! sensed, guarded or limited; changing it allocates nothing.

use crate::base::plan::{QUALITY_LEVELS, QualityLevel};

impl QualityLevel {
    /// What this level computes.
    pub const fn work(self) -> &'static Work {
        &TABLE[self.index()]
    }
}

/// What one level computes. "Every k" means in cycles whose number is a multiple of k (see `shape::is_due`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The bank is scanned in this many parts, one per cycle.
    pub bank_parts: u64,
    /// Cycles from one match and blend of the library to the next.
    pub blend_every: u64,
    /// Patterns in the blend.
    pub blend_top: usize,
    /// Cycles from one step of learning and metrics to the next.
    pub learn_every: u64,
    /// Cycles from one update of slow and pattern channels to the next.
    pub slow_every: u64,
    /// The field runs on a grid with half as many cells per axis.
    pub half_resolution: bool,
}

/// The levels of `docs/field.md`, in order.
pub const TABLE: [Work; QUALITY_LEVELS] = {
    let full = Work {
        bank_parts: 1,
        blend_every: 1,
        blend_top: 3,
        learn_every: 1,
        slow_every: 1,
        half_resolution: false,
    };
    let one = Work { bank_parts: 2, ..full };
    let two = Work { blend_every: 2, blend_top: 1, ..one };
    let three = Work { learn_every: 4, ..two };
    let four = Work { slow_every: 2, ..three };
    let five = Work { half_resolution: true, ..four };
    [full, one, two, three, four, five]
};
