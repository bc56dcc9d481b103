//! A field that another computer computes. [`engine`] is the engine as the robot sees it: it sends a
//! [`message`] over the [`local`] hop and waits for the answer. [`standby`] adds a smaller field on this
//! machine. `runtime::tether` carries the messages, and `runtime::brain` answers them.

pub mod engine;
pub mod health;
pub mod hop;
pub mod local;
pub mod message;
pub mod standby;

pub use engine::RemoteEngine;
pub use health::{LinkCounters, LinkHealth, LinkTimes, LinkWords, NoLink};
pub use hop::{Hop, SocketHop};
pub use standby::Standby;

use local::DIGEST_BYTES;
use std::sync::Arc;

/// What a run adds to a board's tether plan.
pub struct Tether {
    /// The connection to the tether's process.
    pub hop: Box<dyn Hop>,
    /// Digest of the board, which the brain compares with its own.
    pub digest: [u8; DIGEST_BYTES],
    /// Where the newest text about the link is stored for reports.
    pub words: Arc<LinkWords>,
}
