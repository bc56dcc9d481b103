//! A field that is computed at the other end of a cable. [`engine`] is the engine as the robot sees it: it
//! sends a [`message`] over the [`local`] hop and waits for the answer. [`standby`] has a smaller field of
//! this machine beside it. `runtime::tether` carries the messages, and `runtime::brain` answers them.

pub mod engine;
pub mod health;
pub mod hop;
pub mod local;
pub mod message;
#[cfg(test)]
mod script;
pub mod standby;

pub use engine::RemoteEngine;
pub use health::{LinkCounters, LinkHealth, LinkTimes, LinkWords, NoLink};
pub use hop::{Hop, SocketHop};
pub use standby::Standby;

use local::DIGEST_BYTES;
use std::sync::Arc;

/// What a run adds to the tether of a board.
pub struct Tether {
    /// The way to the tether's process.
    pub hop: Box<dyn Hop>,
    /// Digest of the board, which the brain compares with its own.
    pub digest: [u8; DIGEST_BYTES],
    /// Where words about the link are left for people.
    pub words: Arc<LinkWords>,
}
