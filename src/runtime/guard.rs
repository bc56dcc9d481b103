//! A second process that holds the line which lets the motors run. It keeps the line off until it trusts a
//! runtime, and switches it off as soon as that runtime dies, hangs or asks for it. It has no code for
//! sensors, fields or buses, so it is small enough to be trusted.
//!
//! Both ends of the connection between the two live here. `ganglion guard` runs a [`Server`]: one thread, one
//! `poll`, one line, and the [`Guard`] that decides. In the runtime, a [`Heartbeat`] thread sends heartbeats
//! and passes on the drivers' requests ([`GuardedHardware`]), and a [`GuardHealth`] tells the tick whether
//! the guard answered recently. They exchange [`frame`]s of fixed size over a Unix socket that keeps message
//! boundaries (SOCK_SEQPACKET), so each process notices at once when the other ends.
//!
//! Limits: the guard cannot stop a motor whose chip has no reset or enable line, and it never drives a motor.
//! It can only switch the line off.

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
pub use heartbeat::{HEARTBEAT_THREAD, Heartbeat, HeartbeatLoop, HeartbeatPlan};
pub use link::{GuardHealth, Link, LinkState};
pub use server::{Event, HeldLine, Server};
pub use state::{Guard, Permit, State};
pub use transport::Transport;

use crate::base::plan::{Board, GuardHold, GuardPlan, Line};
use crate::base::time::Span;

/// BLAKE3 of the board's effective values: a guard and a runtime that were started with different boards
/// refuse to work together.
pub type BoardDigest = [u8; 32];

/// Number of heartbeats per timeout: if one is lost and one is late, another still arrives in time.
pub const BEATS_PER_TIMEOUT: u64 = 4;

/// The line that the guard holds, and what its levels mean.
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
    /// The line that `plan` names on `board`. `None`: the board does not have it; the board check refuses
    /// such a board.
    pub fn of(board: &Board, plan: &GuardPlan) -> Option<Hold> {
        match plan.holds {
            GuardHold::Reset => {
                // The reset is active low: at high level the controller runs.
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

    /// How long confirmed commands may be missing after the line goes on. A controller that comes out of
    /// reset outputs no pulse to any motor and takes 220 ms to start; then its servos start one after
    /// another, 150 ms apart. The limit is about three times the 670 ms that four servos need, because a
    /// self-test may come first. An enabled driver chip is ready at once and gets only the usual timeout.
    pub fn settle(&self, timeout: Span) -> Span {
        match self.kind {
            GuardHold::Reset => Span::from_millis(2_000),
            GuardHold::Enable => timeout,
        }
    }
}
