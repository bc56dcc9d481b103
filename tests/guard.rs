//! The guard, whole: a post on real sockets with a line that remembers, and the built program with
//! the runtime beside it, killed, stopped and started again.

mod callers;
mod flood;
mod killed;
mod site;
mod server;
mod process;
mod stop;
