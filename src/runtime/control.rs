//! The control socket of a running robot: arm, disarm, stop, status, orders. Each connection to this Unix
//! socket carries one request and one answer, each a line of JSON. The serving thread takes no part in
//! driving: it sets the flags that the tick reads once per slot, and reads the loop status that the tick
//! writes. Processes of the socket's owner and group may use the socket.
//!
//! A stop or a disarm takes effect even if its caller goes away. A request to arm counts only while its
//! caller waits for it, at most half a second: a request that was reported as failed never arms the robot
//! later. A caller that retries until the robot can be armed passes on a count from the first answer, so that
//! a disarm in the meantime ends its wait.

mod goal;
mod measured;
mod readings;
mod room;
mod status;
mod caller;
mod client;
mod outcome;
mod server;

pub use client::{arm, ask, ask_near, ask_with_pid, ask_without_map, order, status_with};
pub use goal::{GoalStatus, behaviour_names};
pub use measured::{AnswerStatus, GpuStatus, Instruments, LinkStatus, Measured, Observer, Quality};
pub use outcome::carry_out;
pub use readings::{CYCLE_BOUNDS_US, CycleTimes, LATENESS_BOUNDS_US, Lateness, MotorStatus, SensorStatus};
pub use room::{Room, RoomStatus};
pub use server::{CONTROL_THREAD, Server, listen_at};
pub use status::{BusStatus, GuardSummary, Sources, Status, why_disarmed};

use crate::field::navigate::goals::Task;
use serde::{Deserialize, Serialize};

/// Where a runtime listens by default.
pub const CONTROL_SOCKET: &str = "/run/ganglion/control.sock";

/// Longest line that either side reads; the status of a robot with 64 sensors and eight buses takes a third
/// of it, and a full simulated room less than another third.
const LONGEST_LINE: usize = 64 * 1024;

/// The possible requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Follow the field from now on.
    Arm,
    /// Stop until armed again; also clears a latch.
    Disarm,
    /// Stop the motors and end the program.
    Stop,
    /// Only report the status.
    Status,
    /// Carry out the task in the request: go to places, patrol, stand or wander.
    Go,
}

/// A request line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The request.
    pub ask: Ask,
    /// The place, in metres, around which to read the map; `None`: where the robot is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<[f64; 2]>,
    /// Leave the map out: decoding it takes some milliseconds, too long for ten requests a second.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_map: bool,
    /// Add slices through the field (six kilobytes).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_slices: bool,
    /// For [`Ask::Go`]: what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// For [`Ask::Arm`]: the [`Reply::disarms`] of the first answer to a caller that asks repeatedly. The
    /// request is refused if somebody has asked to disarm since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disarms: Option<u64>,
}

impl Request {
    /// The request `ask` without any options.
    pub fn plain(ask: Ask) -> Request {
        Request { ask, near: None, without_map: false, with_slices: false, task: None, disarms: None }
    }
}

/// An answer line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request was carried out.
    pub done: bool,
    /// Why it was not carried out, as text.
    pub why: Vec<String>,
    /// Whether a retry in a moment may help.
    pub may_pass: bool,
    /// For [`Ask::Arm`]: how often somebody had asked to disarm or to stop when the request came. A caller
    /// that retries sends it back, so that it does not arm a robot that was disarmed meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disarms: Option<u64>,
    /// The robot's status afterwards.
    #[serde(rename = "account")]
    pub status: Status,
}
