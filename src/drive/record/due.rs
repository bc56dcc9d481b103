//! When a message that is repeated at an interval is due.

use crate::base::time::{Instant, Span};

/// Whether `every` has passed since `last`, or time has jumped back. If so, `last` becomes `now`.
pub(super) fn is_due(last: &mut Option<Instant>, now: Instant, every: Span) -> bool {
    let due = last.is_none_or(|last| now.since(last) >= every || now < last);
    if due {
        *last = Some(now);
    }
    due
}
