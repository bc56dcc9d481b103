//! The whole guard: a server on real sockets with a line that records its levels, and the built program
//! together with the runtime, killed, paused and restarted.

mod callers;
mod flood;
mod killed;
mod site;
mod server;
mod process;
mod stop;
