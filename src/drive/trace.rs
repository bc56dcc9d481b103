//! The trace: one fixed-size record per slot, which the tick writes into a ring buffer and a non-real-time
//! thread reads. The tick never waits for the reader: if the ring is full, records are lost and counted.

mod checkpoints;
mod inputs;
mod peaks;
mod recorder;
mod summary;

pub use checkpoints::{CHECKPOINT_EVERY, Checkpoint, CheckpointTap, Checkpoints, checkpoint_tap};
pub use inputs::{Inputs, READING_TAP, ReadingTap, Taken, reading_tap};
pub use peaks::{LatenessPeak, LatenessPeaks};
pub use recorder::{Recorder, latency_histogram, note};
pub use summary::{Latency, StepDown, Summary};

use crate::base::command::{Command, OnWire};
use crate::base::frame::Frame;
use crate::base::plan::{Limits, QualityLevel};
use crate::base::time::{Instant, Span};
use crate::decision::mode::Mode;
use crate::field::navigate::goals::GoalReport;
use crate::field::remote::LinkHealth;
use crate::field::worker::FieldResult;
use crate::field::{DeviceTimes, EngineState, FieldOutput};

/// Maximum number of receipts in one record. Each tick sends one command and a bus confirms it at most once,
/// so at most two or three arrive after a stall of the tick.
pub const WIRES: usize = 8;

/// Capacity of the ring between the tick and the recorder, in records: four seconds at 1 kHz, so that a
/// recorder that stalls on a disk for a second or two loses nothing.
pub const TRACE_RING: usize = 4096;

/// One slot.
#[derive(Clone, Debug)]
pub struct Record {
    /// Number of the slot on the grid, from 0; slots that were skipped have no record.
    pub index: u64,
    /// When it was due.
    pub slot: Instant,
    /// When its work began.
    pub began: Instant,
    /// When its work ended, except for the writing of this record.
    pub ended: Instant,
    /// Slots lost before this one.
    pub lost: u64,
    /// Mode of the robot at the end of the slot.
    pub mode: Mode,
    /// Active causes of restraint, one bit each (`1 << Cause as u8`).
    pub active: u16,
    /// Causes that became active in this slot.
    pub tripped: u16,
    /// Active causes that stay until the robot is disarmed and armed again.
    pub latched: u16,
    /// What all active causes together allowed.
    pub limits: Limits,
    /// Quality level that the budget chose.
    pub quality: QualityLevel,
    /// The frame.
    pub frame: Frame,
    /// The command.
    pub command: Command,
    /// A field result that arrived in this slot.
    pub field: Option<FieldTrace>,
    /// Commands confirmed on the wire since the last record.
    pub receipts: heapless::Vec<OnWire, WIRES>,
    /// Heap allocations of the tick thread in this slot; `None`: not counted in this program.
    pub allocations: Option<u64>,
    /// The other inputs of the slot's decision.
    pub inputs: Inputs,
}

impl FieldTrace {
    /// The record of `result`, collected in `slot`.
    pub fn of(result: &FieldResult, slot: Instant) -> FieldTrace {
        let age = slot.since(result.slot);
        let FieldResult { response, span, answer, quality, state, times, link, goal, .. } = *result;
        FieldTrace { response, span, answer, age, quality, state, times, link, goal }
    }
}

/// A field result in a record.
#[derive(Clone, Copy, Debug)]
pub struct FieldTrace {
    /// The answer, if there was one.
    pub response: Option<FieldOutput>,
    /// Compute time.
    pub span: Span,
    /// From the slot whose tick requested it to the end of the cycle.
    pub answer: Span,
    /// From the slot whose frame it was computed from to the slot that collected it.
    pub age: Span,
    /// Quality level at which the cycle was computed.
    pub quality: QualityLevel,
    /// The engine's state after the cycle.
    pub state: EngineState,
    /// Breakdown of the cycle's time, if a device computed it; queue and wake are on the loop's clock.
    pub times: Option<DeviceTimes>,
    /// State of the link to a brain on another computer, if the field uses one, with a breakdown of its time.
    pub link: Option<LinkHealth>,
    /// What the robot does about its goal, on a board that has a navigator.
    pub goal: Option<GoalReport>,
}
