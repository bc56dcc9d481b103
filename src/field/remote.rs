//! A field that is computed at the other end of a cable. `message` is what a robot and its brain say to each
//! other in a cycle; `local` is how the runtime passes that to the tether's process. `runtime::tether`
//! carries it, and `runtime::brain` answers it.

pub mod local;
pub mod message;
