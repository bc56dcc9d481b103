//! Buses and lines: I2C and GPIO as two narrow traits, and the faults that can occur on them.
//!
//! The runtime can be tested through two interfaces: this one and the clock. A bus thread owns its handle;
//! nothing here is shared, retried or logged. Implementations: the simulator (`sim/`), and Linux (`linux/`).

mod absent;
#[cfg(test)]
pub mod fake;
pub mod linux;
pub mod scan;
mod hardware;

pub use absent::Absent;
pub use hardware::{Bias, Hardware, LineState, LineUse, Measure, NoRepair, OpenError, Repair, Usage};

use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::{Instant, Span};

/// One operation of an I2C transfer.
pub enum Op<'a> {
    /// Bytes to the device.
    Write(&'a [u8]),
    /// Bytes from the device.
    Read(&'a mut [u8]),
}

/// An I2C adapter. A call is one transfer: START, the operations with repeated starts, STOP.
pub trait I2c: Send {
    /// Runs `ops` against 7-bit `address`. Blocks for the wire time, at most for the adapter's timeout.
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault>;

    /// Reopens the adapter after its driver was rebound. The old handle is closed even if this fails.
    fn reopen(&mut self) -> Result<(), BusFault> {
        Ok(())
    }

    /// One write transfer.
    fn write(&mut self, address: u8, bytes: &[u8]) -> Result<(), BusFault> {
        self.transfer(address, &mut [Op::Write(bytes)])
    }
    /// One read transfer.
    fn read(&mut self, address: u8, bytes: &mut [u8]) -> Result<(), BusFault> {
        self.transfer(address, &mut [Op::Read(bytes)])
    }
    /// Write, repeated start, read: one transfer.
    fn write_read(&mut self, address: u8, out: &[u8], back: &mut [u8]) -> Result<(), BusFault> {
        self.transfer(address, &mut [Op::Write(out), Op::Read(back)])
    }
}

/// One edge, with the time at which it happened (kernel interrupt or simulator), not at which it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Which line.
    pub line: Line,
    /// Physical level after the edge.
    pub high: bool,
    /// When it happened.
    pub stamp: Instant,
}

/// A set of GPIO lines that one owner holds.
pub trait Gpio: Send {
    /// Drives an output line to a physical level.
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault>;
    /// Reads the physical level of a line.
    fn get(&mut self, line: Line) -> Result<bool, BusFault>;
    /// Waits at most `wait` (zero: only poll) for the next edge of any watched input line.
    fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault>;
}
