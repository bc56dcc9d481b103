//! The link between a robot and its brain, from outside: what it costs, and what passes it on a network that
//! loses, doubles, delays, reorders, changes and forges datagrams.

mod allocation;
mod callers;
mod program;
pub(crate) mod relay;
pub(crate) mod stage;
mod weather;
