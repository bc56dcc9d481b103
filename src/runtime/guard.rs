//! A second process that holds the line which lets the motors run. It keeps the line off until a runtime has
//! earned its trust, and switches it off as soon as the runtime dies, hangs or asks for it. It knows no
//! sensor, no field and no bus; it is small enough to be trusted.
//!
//! Both ends of the connection between the two live here. `ganglion guard` runs a [`Server`]: one thread, one
//! `poll`, one line, and the [`Guard`] that decides. In the runtime, a [`Heartbeat`] thread sends heartbeats
//! and passes on the drivers' requests ([`GuardedHardware`]), and a [`GuardHealth`] says to the tick whether
//! the guard answered lately. They exchange [`frame`]s of fixed size over a Unix socket that keeps message
//! borders (SOCK_SEQPACKET), so each process sees the end of the other at once.
//!
//! What this does not do: it cannot stop a motor whose chip has no reset or enable line, and it does not make
//! a runtime drive. It can only take the line away.

pub mod frame;
mod stop_ack;
mod link;
mod server;
mod heartbeat;
pub mod socket;
mod state;
mod transport;
mod allowed_user;
mod hardware;

pub use allowed_user::{AllowedUser, AllowedUserError};
pub use hardware::GuardedHardware;
pub use heartbeat::{Heart, Heartbeat, HeartbeatPlan};
pub use link::{GuardHealth, Link, Seen};
pub use server::{Event, HeldLine, Server};
pub use state::{Guard, Permit, State};
pub use transport::Transport;

use crate::base::plan::{Board, GuardHold, GuardPlan, Line};
use crate::base::time::Span;

/// BLAKE3 of the board's effective values: a guard and a runtime that were started with different boards
/// refuse to work together.
pub type BoardDigest = [u8; 32];

/// Heartbeats per timeout: one may be lost and one late, and one still arrives in time.
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
    /// The line that `plan` names on `board`; `None`: the board lacks it, which the board check refuses.
    pub fn of(board: &Board, plan: &GuardPlan) -> Option<Hold> {
        match plan.holds {
            GuardHold::Reset => {
                // Active low: at high level the controller runs.
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

    /// How long commands may still be missing after the line went on. A controller that comes out of reset
    /// has no pulse on any motor and takes 220 ms to start; then its servos start one after another, 150 ms
    /// apart. This is twice the time for four of them, because it may be tested before that. An enabled
    /// driver chip is ready at once and gets no more than the usual timeout.
    pub fn settle(&self, timeout: Span) -> Span {
        match self.kind {
            GuardHold::Reset => Span::from_millis(2_000),
            GuardHold::Enable => timeout,
        }
    }
}
