//! The whole guard: a server on real sockets with a line that records its levels; and the built program, run
//! together with the runtime, where either is killed, paused and restarted.

mod callers;
mod flood;
mod killed;
mod site;
mod server;
mod process;
mod stop;
