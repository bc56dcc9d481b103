//! A field that is computed at the other end of a cable. `message` is what a robot and its brain say to each
//! other in a cycle; `runtime::tether` carries it, and `runtime::brain` answers it.

pub mod message;
