//! What can go wrong with a chip: small, Copy, and naming the register or line that failed. Knows
//! no frame but the word under which a frame keeps a refused reading.

use crate::fault::{BusFault, ReadingFault};
use crate::plan::Line;
use std::fmt;

/// What failed, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFault {
    /// A transfer to or from this register failed.
    Bus {
        /// First register of the transfer.
        register: u8,
        /// How it failed.
        fault: BusFault,
    },
    /// A line could not be driven or read.
    Line {
        /// Which line.
        line: Line,
        /// How it failed.
        fault: BusFault,
    },
    /// A channel of the computer's own PWM could not be set.
    Pulse {
        /// Which channel.
        channel: u8,
        /// How it failed.
        fault: BusFault,
    },
    /// The answer says more than the device can say (a 13th bit of a 12-bit converter).
    Impossible {
        /// Register that was read.
        register: u8,
    },
    /// NaN or infinite.
    NotFinite {
        /// Register that was read.
        register: u8,
    },
    /// Raw bytes all 0x00 or all 0xFF where the device cannot mean it.
    DeadBytes {
        /// Register that was read.
        register: u8,
    },
    /// The quantity lies beyond what the device can measure as it is set up: its answer is only a limit.
    Overflow {
        /// Register that was read.
        register: u8,
    },
    /// The device has nothing new since it was last asked.
    NotReady {
        /// Register that says so.
        register: u8,
    },
    /// The device lost its settings (its supply, a reset of its own) and has to be set up again.
    Asleep {
        /// Register that says so.
        register: u8,
    },
    /// Another chip answers at this address.
    WrongDevice {
        /// Register of the identity.
        register: u8,
        /// What it holds.
        found: u8,
    },
    /// The set-up of the device does not come to an end: it is asked over and over and never ready.
    Endless {
        /// Register that was asked last.
        register: u8,
    },
    /// A quantity that the kernel should give is not there or cannot be read.
    Kernel {
        /// Why not.
        fault: BusFault,
    },
    /// The line was already busy when it should have been idle.
    Busy {
        /// Which line.
        line: Line,
    },
    /// An edge that the device owes did not come.
    EdgeMissing {
        /// Which line.
        line: Line,
    },
    /// A pulse shorter than the device can make.
    PulseTooShort {
        /// Which line.
        line: Line,
    },
}

impl DeviceFault {
    /// Whether bytes may have been lost in the middle of a transfer. The Robot HAT's controller
    /// takes writes in frames of three bytes and never resynchronises by itself: after such a fault
    /// it has to be reset before anything that is written to it counts.
    pub fn needs_reset(self) -> bool {
        match self {
            DeviceFault::Bus { fault, .. } => match fault {
                BusFault::TimedOut | BusFault::Io | BusFault::ArbitrationLost => true,
                // Nobody took the address byte, or nothing was sent at all.
                BusFault::Nack | BusFault::Unsupported | BusFault::Absent | BusFault::Preempted => false,
            },
            _ => false,
        }
    }

    /// Whether nothing failed: the call gave way to a stop of the motors and is to be made again, from its beginning.
    pub fn gave_way(self) -> bool {
        matches!(self, DeviceFault::Bus { fault: BusFault::Preempted, .. })
    }

    /// Whether a poll returns it, besides saying it: a transfer that failed, or settings that were lost. Everything else
    /// is an answer, if a wrong one.
    pub fn ends_poll(self) -> bool {
        matches!(self, DeviceFault::Bus { .. } | DeviceFault::Kernel { .. } | DeviceFault::Asleep { .. })
    }

    /// Whether the device is there but does not work as it was set up: its next reading counts only after another
    /// set-up.
    pub fn needs_set_up(self) -> bool {
        matches!(self, DeviceFault::Asleep { .. })
    }
}

impl From<DeviceFault> for ReadingFault {
    fn from(fault: DeviceFault) -> ReadingFault {
        match fault {
            DeviceFault::Bus { fault, .. }
            | DeviceFault::Line { fault, .. }
            | DeviceFault::Pulse { fault, .. }
            | DeviceFault::Kernel { fault } => ReadingFault::Bus(fault),
            DeviceFault::Impossible { .. }
            | DeviceFault::Overflow { .. }
            | DeviceFault::WrongDevice { .. }
            | DeviceFault::PulseTooShort { .. } => ReadingFault::OutOfRange,
            DeviceFault::NotFinite { .. } => ReadingFault::NotFinite,
            DeviceFault::DeadBytes { .. } => ReadingFault::DeadBytes,
            DeviceFault::Busy { .. }
            | DeviceFault::EdgeMissing { .. }
            | DeviceFault::NotReady { .. }
            | DeviceFault::Endless { .. }
            | DeviceFault::Asleep { .. } => ReadingFault::Timeout,
        }
    }
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceFault::Bus { register, fault } => write!(f, "register {register:#04x}: {fault:?}"),
            DeviceFault::Line { line, fault } => write!(f, "line {}: {fault:?}", line.0),
            DeviceFault::Pulse { channel, fault } => write!(f, "PWM channel {channel}: {fault:?}"),
            DeviceFault::Impossible { register } => {
                write!(f, "register {register:#04x} answers a value that the device cannot have")
            }
            DeviceFault::NotFinite { register } => write!(f, "register {register:#04x} is not a number"),
            DeviceFault::DeadBytes { register } => {
                write!(f, "register {register:#04x} answers only zeros or only ones: no device behind it")
            }
            DeviceFault::Overflow { register } => {
                write!(f, "register {register:#04x}: the quantity is beyond the range of the device")
            }
            DeviceFault::NotReady { register } => {
                write!(f, "register {register:#04x}: nothing new was measured")
            }
            DeviceFault::Asleep { register } => {
                write!(
                    f,
                    "register {register:#04x}: the device lost its settings and wants to be set up again"
                )
            }
            DeviceFault::WrongDevice { register, found } => {
                write!(f, "register {register:#04x} holds {found:#04x}: another chip is at this address")
            }
            DeviceFault::Endless { register } => {
                write!(f, "register {register:#04x}: the set-up of the device does not come to an end")
            }
            DeviceFault::Kernel { fault } => write!(f, "the kernel gives no value: {fault:?}"),
            DeviceFault::Busy { line } => write!(f, "line {} is high before it was asked to be", line.0),
            DeviceFault::EdgeMissing { line } => write!(f, "line {} did not answer", line.0),
            DeviceFault::PulseTooShort { line } => write!(f, "line {}: pulse too short to be true", line.0),
        }
    }
}

impl std::error::Error for DeviceFault {}
