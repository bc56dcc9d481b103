//! The link between a robot and its brain: datagrams encrypted with Noise, a key for each robot, and the
//! process on the robot that carries them. [`datagram`] defines the format of the datagrams, [`join`] the
//! payloads of the handshake.
//!
//! `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` (the crate `snow`) provides each session with fresh keys, secrecy
//! and authentication. Replay protection is left to the caller: [`session`] accepts only strictly newer
//! counters, and advances its counter only after a datagram has been authenticated.

mod attempts;
pub mod carrier;
pub mod datagram;
mod dropped;
mod figures;
pub mod join;
pub mod key;
pub mod network;
pub mod process;
pub mod session;

pub use dropped::{Dropped, Drops};
pub use figures::{Counts, RoundTrips};
