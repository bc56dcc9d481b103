//! The brain's side of the tether: one process computes the fields of many robots. Each robot has its own
//! engine, so that robots cannot affect each other.
//!
//! `robots` is the table of robots, without sockets or threads; `schedule` chooses the next request,
//! `admission` decides whether a robot may join, and `workers` are the threads that use the table. `engine`
//! is the engine of one robot with its snapshots, `boards` are the boards with which robots may join,
//! `counters` are the counters of a robot. `sessions` has keys, joins and sessions, `network` the socket, and
//! `status` the socket for status queries.

pub mod admission;
pub mod boards;
pub mod counters;
pub mod engine;
pub mod network;
pub mod sessions;
pub mod robots;
pub mod schedule;
pub mod status;
pub mod workers;

#[cfg(test)]
mod tests {
    pub(crate) mod fixture;
}
