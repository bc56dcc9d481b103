//! How a worker gets its handles: it gives the index of an I2C bus, or the lines that it will use. The
//! simulator and Linux implement [`Hardware`]; this file opens nothing itself.

use super::{Gpio, I2c};
use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::Span;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The pull resistor of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bias {
    /// Left as it is: the hardware's default, unless another program has changed it.
    #[default]
    AsIs,
    /// Pull-up.
    Up,
    /// Pull-down.
    Down,
}

/// The use of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// An output that starts at this level.
    Output {
        /// Initial level.
        high: bool,
    },
    /// An input that is read.
    Input {
        /// Pull.
        bias: Bias,
    },
    /// An input that is read and whose edges of both kinds are delivered.
    Watched {
        /// Pull.
        bias: Bias,
        /// Changes shorter than this are not delivered; zero: every edge is delivered.
        debounce: Span,
    },
    /// An input that is read and whose rising edges are delivered, which halves the interrupts. A pulse that
    /// ends before the interrupt thread runs still counts as a rising edge; with both edges requested, the
    /// kernel reads the level at that time to tell which edge it was (Linux 6.12,
    /// `drivers/gpio/gpiolib-cdev.c`, `edge_irq_thread`).
    Rising {
        /// Pull.
        bias: Bias,
    },
}

impl Usage {
    /// Whether any edges are delivered.
    pub fn has_edges(&self) -> bool {
        matches!(self, Usage::Watched { .. } | Usage::Rising { .. })
    }
}

/// A line and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineUse {
    /// The line.
    pub line: Line,
    /// Its use.
    pub usage: Usage,
}

/// The state of a line that is not requested yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineState {
    /// No process drives it: its pull determines the level.
    Floats,
    /// Its owner is gone, and the kernel keeps driving it: the default of Raspberry Pi OS
    /// (`persist_gpio_outputs` of pinctrl-rp1 and pinctrl-bcm2835).
    Kept {
        /// The level.
        high: bool,
    },
    /// A process or a kernel driver holds it; the error says which one, and what to do about it.
    Taken(OpenError),
}

/// A recovery measure for a bus that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Up to nine manual clocks with SDA released, then STOP (UM10204, 3.1.16).
    Clear,
    /// Unbind the adapter's driver and bind it again. Every open handle is stale afterwards.
    Rebind,
    /// Switch off the supply of the bus's devices.
    RailOff,
    /// Switch the supply on again.
    RailOn,
}

/// Takes recovery measures. Each call ends within a bounded time and does not retry.
pub trait Repair: Send {
    /// Whether `measure` can be taken: the board permits it and, for a rebind, a process can do it.
    fn can(&self, measure: Measure) -> bool;
    /// Takes `measure`.
    fn take(&mut self, measure: Measure) -> Result<(), BusFault>;
}

/// For a bus without recovery measures.
pub struct NoRepair;

impl Repair for NoRepair {
    fn can(&self, _measure: Measure) -> bool {
        false
    }
    fn take(&mut self, _measure: Measure) -> Result<(), BusFault> {
        Err(BusFault::Unsupported)
    }
}

/// The buses and lines of a board.
pub trait Hardware: Send + Sync {
    /// Recovery measures for I2C bus `bus` when it does not answer. Opened with the bus and held by its
    /// owner.
    fn repair(&self, bus: usize) -> Result<Box<dyn Repair>, OpenError> {
        let _ = bus;
        Ok(Box::new(NoRepair))
    }
    /// Edges that the kernel dropped because they were not read in time, summed over all owners of lines.
    fn edge_overruns(&self) -> Arc<AtomicU64> {
        Arc::default()
    }
    /// The present state of `line`. If the line is free, this requests it briefly, without changing it.
    fn line_state(&self, line: Line) -> Result<LineState, OpenError> {
        let _ = line;
        Ok(LineState::Floats)
    }
    /// A handle on I2C bus `bus` of the board. Each bus has one owner.
    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError>;
    /// A handle on `lines`, held for `owner` until it is dropped. A line has one owner.
    fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError>;
}

/// Why a bus, a chip or a line cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// What cannot be opened: a node, a chip or a line, by its usual name.
    pub what: String,
    /// The system's reason, or ours.
    pub why: String,
    /// What to do about it.
    pub fix: String,
    /// The system denies this user access: the node exists, and a retry does not help.
    pub denied: bool,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for OpenError {}
