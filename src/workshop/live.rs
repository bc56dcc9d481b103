//! Shows a running robot live in viewers: Foxglove, Lichtblick, and other programs that speak Foxglove's
//! WebSocket protocol. A separate process asks the robot for its status ten times a second, as `ganglion top`
//! does, and passes it on under the names that a recording uses. So neither a viewer nor the network nor a
//! crash of this process can disturb the robot, and a robot that is already running need not be restarted.
//!
//! The protocol: <https://github.com/foxglove/ws-protocol>, subprotocols `foxglove.websocket.v1` and
//! `foxglove.sdk.v1`, which agree on the messages used here. Viewers can only watch: the server announces no
//! capability, so it takes no parameters, calls or messages.

mod channels;
mod protocol;
mod room;
mod server;
mod viewer;

pub use channels::Channels;
pub use server::{Counts, Server};
