//! The link between a robot and its brain computer, from outside: its cost, and what gets through on a
//! network that loses, duplicates, delays, reorders, changes and forges datagrams.

mod allocation;
mod callers;
mod program;
pub(crate) mod relay;
pub(crate) mod stage;
mod weather;
