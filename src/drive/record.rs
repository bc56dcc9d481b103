//! The recorder: what the robot sensed, what it decided and why, in MCAP files. The tick puts its records
//! into a ring, just as it does without a recording; a non-real-time thread joins them with the readings and
//! passes them on; a separate thread writes the files. A full or hung disk costs records, which are counted,
//! but it never makes the loop skip a slot.
//!
//! Each slot is recorded twice: bit for bit in the channel `slot`, from which it can be replayed, and at a
//! lower rate as JSON, for viewers and other tools. docs/recording.md describes the files.

mod copy;
mod counts;
mod due;
mod facts;
mod file;
mod image;
mod lengths;
mod line;
#[cfg(test)]
mod memory;
mod read;
mod scene;
mod slot;
mod store;
mod topic;
mod topics;
mod window;
mod writer;

pub use copy::{Copied, CopyError, Keep, copy};
pub use counts::{RecordingCounts, RecordingStatus};
pub use facts::Facts;
pub use image::{ImageMessage, image};
pub use line::{FieldCopyTap, RecordSender, Recording};
pub use read::{End, Event, ReadError, Reader};
pub use scene::{
    Beam, Entity, GREY, Lines, RED, RobotShape, Scene, SceneMessages, SceneMoment, colour, lines, place,
};
#[cfg(all(test, feature = "workshop"))]
pub(crate) use slot::full;
pub use slot::{FORMAT, FieldRecord, RecordedAnswer, Slot, Step};
pub use store::{Medium, Opener, Quota, RecordingTarget, disk, numbered};
pub use topic::Topic;
pub use topics::{CommandMessage, FrameMessage, ProcessMessage, causes, health};
pub use window::When;
pub use writer::Plan;

/// Name of the metadata record at the start of a file.
pub const METADATA: &str = "ganglion";
/// Name of the attachment that holds the board file.
pub const BOARD_FILE: &str = "board.toml";
/// Name of the attachments that hold a copy of the field, for a file that begins in the middle of a run.
pub const FIELD_COPY: &str = "field.bin";
/// Key in the metadata at the end of a file: how many checkpoints of the run were left out so far.
pub const CHECKPOINTS_LEFT_OUT: &str = "checkpoints_left_out";
/// The channel of bit-exact slots.
pub const SLOT_TOPIC: &str = "/slot";
/// Encoding of its messages, for readers that look for one they support.
const SLOT_ENCODING: &str = "ganglion-slot";
/// The channel of the robot's status, as `ganglion status --json` shows it.
pub const STATUS_TOPIC: &str = "/status";
/// The channel of the process's resource use.
pub const PROCESS_TOPIC: &str = "/process";
/// The channel of slices through the field.
pub const SLICES_TOPIC: &str = "/slices";
/// The channel of checkpoints: the tick's state before the slot that follows.
pub const CHECKPOINT_TOPIC: &str = "/checkpoint";
/// Encoding of its messages.
const CHECKPOINT_ENCODING: &str = "ganglion-checkpoint";
