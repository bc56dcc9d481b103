//! Asking a running robot from outside: arm, disarm, stop, and how it is. A Unix socket, one line of
//! JSON in, one line of JSON out, then the end. Served by a thread that has no part in driving: it
//! raises the flags that the tick reads once a slot, and looks at the loop's status that the tick
//! leaves. Whoever may open the socket may ask: its owner and its group.
//!
//! A stop and a disarm hold however their caller ends. An arming counts only while its caller waits
//! for it, and for half a second: one that was told to have failed does not happen later.

mod status;
mod caller;
mod client;
mod outcome;
mod server;

pub use client::{ask, ask_near, ask_whom};
pub use server::{Server, listen_at};
pub use status::{BusStatus, GuardStatus, Sources, Status, why_disarmed};

use serde::{Deserialize, Serialize};

/// Where a runtime listens unless it is told otherwise.
pub const CONTROL_SOCKET: &str = "/run/ganglion/control.sock";

/// Longest line that is read, either way: an account of a robot with eight buses is a quarter of it.
const LONGEST_LINE: usize = 16 * 1024;

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Obey the field from now on.
    Arm,
    /// Stand still until armed again; also acknowledges what is latched.
    Disarm,
    /// Stop the motors and end the program.
    Stop,
    /// Only tell.
    Status,
}

/// A line to the robot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What is asked.
    pub ask: Ask,
    /// The place, in metres, near which the map is to look; none: where the robot is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<[f64; 2]>,
}

/// A line from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What was asked for is so.
    pub done: bool,
    /// If not: why, in words.
    pub why: Vec<String>,
    /// Whether asking again in a moment may help.
    pub may_pass: bool,
    /// How the robot is after it.
    #[serde(rename = "account")]
    pub status: Status,
}
