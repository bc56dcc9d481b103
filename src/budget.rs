//! Measured spans to a rung of quality. Pure: the time comes in as an argument.

use crate::field::Rung;
use crate::time::Span;

/// The board's budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetPlan {
    /// Compute time that one field cycle may take.
    pub target: Span,
    /// Moving up wants the predicted time at the better rung below `target * headroom` (0..1).
    pub headroom: f32,
    /// Moving up wants that to hold for this long without a break (dwell).
    pub dwell: Span,
    /// The lowest rung that the budget may choose.
    pub floor: Rung,
}
