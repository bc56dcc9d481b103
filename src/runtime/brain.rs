//! The brain's side of the tether: one process computes the fields of many robots. Each robot has an engine
//! of its own, so that nothing of one reaches another.
//!
//! `robots` is the table and the order of service, without a socket or a thread; `schedule` and `admission`
//! decide for it; `workers` are the threads around it. `engine` is the engine of one robot with its
//! snapshots, `boards` what robots may join with, `counters` what is counted of each. `reception` has keys,
//! joins and sessions, `network` the socket; `status` answers who asks how the brain fares.

pub mod admission;
pub mod boards;
pub mod counters;
pub mod engine;
pub mod network;
pub mod reception;
pub mod robots;
pub mod schedule;
pub mod status;
pub mod workers;

#[cfg(test)]
mod tests {
    pub(crate) mod fixture;
}
