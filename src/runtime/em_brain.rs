//! The TCP protocol of the earlier em-brain service, so that its robots can use this program's brain: each
//! client becomes one of the brain's robots, with its own engine.
//!
//! `frame` is the wire format, `profile` defines what the values of a vector mean, `client` handles the
//! protocol with one robot, independent of sockets, and `service` has the sockets and threads. The protocol
//! has neither encryption nor authentication, so use it only on a trusted network.

pub mod frame;
pub mod profile;
pub mod client;
pub mod service;
