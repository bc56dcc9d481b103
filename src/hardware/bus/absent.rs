//! Stands in for the bus and the lines of an I/O worker that has neither.

use super::{Edge, Gpio, I2c, Op};
use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::Span;

/// Neither a bus nor lines. Every call fails at once with [`BusFault::Absent`].
pub struct Absent;

impl I2c for Absent {
    fn transfer(&mut self, _address: u8, _ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        Err(BusFault::Absent)
    }
}

impl Gpio for Absent {
    fn set(&mut self, _line: Line, _high: bool) -> Result<(), BusFault> {
        Err(BusFault::Absent)
    }
    fn get(&mut self, _line: Line) -> Result<bool, BusFault> {
        Err(BusFault::Absent)
    }
    fn next_edge(&mut self, _wait: Span) -> Result<Option<Edge>, BusFault> {
        Err(BusFault::Absent)
    }
}
