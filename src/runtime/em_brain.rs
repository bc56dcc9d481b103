//! The TCP protocol of the earlier em-brain service, so that robots which speak it get a brain of this
//! program: each client is a robot among the brain's others, with an engine of its own.
//!
//! `frame` is the wire, `profile` says what the values of a vector mean, `client` is the conversation with
//! one robot without a socket; `service` has the sockets and the threads. The protocol has no encryption and
//! no proof of who speaks: it is for a network that is trusted.

pub mod frame;
pub mod profile;
pub mod client;
pub mod service;
