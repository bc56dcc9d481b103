//! A second process that holds the line without which the motors stand, and lets go of nothing: it
//! keeps the line off until a runtime has earned it, and takes it back the moment the runtime dies,
//! hangs or says so. It knows no sensor, no field and no bus; it is small enough to be believed.
//!
//! Both ends of the wire between the two live here. `ganglion guard` runs a [`Server`]: one thread,
//! one `poll`, one line, and the [`Guard`] that decides. In the runtime a [`Heartbeat`] thread sends
//! heartbeats and asks on behalf of the drivers ([`GuardedHardware`]), and a [`GuardHealth`] tells the tick
//! whether the guard was seen lately. They talk in [`frame`]s of fixed size over a Unix socket that
//! keeps their borders (SOCK_SEQPACKET), so that the end of either process is seen at once.
//!
//! What this does not do: it does not still a motor that is driven by a chip without a reset or
//! enable line, and it does not make a runtime drive. It only takes away.

pub mod frame;
mod heeding;
mod link;
pub mod place;
mod server;
mod heartbeat;
pub mod socket;
mod state;
mod stepped;
mod way;
mod ward;
mod hardware;

pub use hardware::GuardedHardware;
pub use heartbeat::{Heartbeat, HeartbeatPlan};
pub use link::{GuardHealth, Link, Seen};
pub use server::{Event, HeldLine, Server};
pub use state::{Guard, Permit, State};
pub use stepped::SteppedPulse;
pub use ward::{Ward, WardError};
pub use way::Way;

use crate::plan::{Board, GuardHold, GuardPlan, Line};
use crate::time::Span;

/// BLAKE3 of the board's effective values: a guard and a runtime that were started with different
/// boards do not work together.
pub type BoardDigest = [u8; 32];

/// Heartbeats in one patience: one may be lost and one late, and there is still one in time.
pub const BEATS_IN_PATIENCE: u64 = 4;

/// Which line is held, and what its levels mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The line.
    pub line: Line,
    /// The physical level at which the motors may run.
    pub on_high: bool,
    /// What kind of line it is.
    pub kind: GuardHold,
}

impl Hold {
    /// The line that `plan` names on `board`; `None`: the board does not have it, which its check refuses.
    pub fn of(board: &Board, plan: &GuardPlan) -> Option<Hold> {
        match plan.holds {
            GuardHold::Reset => {
                // Active low: at high the controller runs.
                board.mcu.as_ref().map(|mcu| Hold { line: mcu.reset, on_high: true, kind: plan.holds })
            }
            GuardHold::Enable => board.enable.as_ref().map(|enable| Hold {
                line: enable.line,
                on_high: enable.on_high,
                kind: plan.holds,
            }),
        }
    }

    /// The physical level for on or off.
    pub fn level(&self, on: bool) -> bool {
        on == self.on_high
    }

    /// How long after the line went on commands may still be missing. A controller that comes out of
    /// its reset has no pulse on any motor, takes 220 ms to start and is then given its servos one
    /// after another, 150 ms apart; twice the time of four of them, because before that it may be
    /// tested. A driver that is enabled is ready at once and gets no more than the usual patience.
    pub fn settle(&self, patience: Span) -> Span {
        match self.kind {
            GuardHold::Reset => Span::from_millis(2_000),
            GuardHold::Enable => patience,
        }
    }
}
