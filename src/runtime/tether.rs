//! The link between a robot and its brain: datagrams inside Noise, a key for each robot, and the process that
//! carries them on the robot. The bytes on the wire are laid out in [`datagram`], and nowhere else.
//!
//! `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` (the crate `snow`) gives each session fresh keys, secrecy and
//! authentication. What it leaves to its caller is done in [`session`]: only strictly newer counters are
//! taken, and they move only after a datagram has proved to be the peer's.

pub mod datagram;
mod dropped;
pub mod join;
pub mod key;
pub mod session;

pub use dropped::{Dropped, Drops};
