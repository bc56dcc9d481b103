//! The faults of a chip: a small `Copy` type that names the register or line that failed. The only frame type
//! used here is [`ReadingFault`], the fault of a refused reading.

use crate::base::fault::{BusFault, ReadingFault};
use crate::base::plan::Line;
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
    /// The device cannot have this value (for example, a 13th bit from a 12-bit converter).
    Impossible {
        /// Register that was read.
        register: u8,
    },
    /// The value is NaN or infinite.
    NotFinite {
        /// Register that was read.
        register: u8,
    },
    /// Raw bytes that are all 0x00 or all 0xFF, which the device cannot return.
    DeadBytes {
        /// Register that was read.
        register: u8,
    },
    /// The quantity is outside the configured range of the device: its answer is only the limit.
    Overflow {
        /// Register that was read.
        register: u8,
    },
    /// The device has no new measurement since the last poll.
    NotReady {
        /// Register that reports it.
        register: u8,
    },
    /// The device lost its settings (power loss, or it reset itself) and must be set up again.
    Asleep {
        /// Register that reports it.
        register: u8,
    },
    /// Another chip answers at this address.
    WrongDevice {
        /// Register that was read.
        register: u8,
        /// The value found.
        found: u8,
    },
    /// The set-up of the device does not finish, for example because the device is polled and is never ready.
    Endless {
        /// Register that was polled last.
        register: u8,
    },
    /// A quantity that the kernel should provide does not exist or cannot be read.
    Kernel {
        /// Why the quantity cannot be read.
        fault: BusFault,
    },
    /// The line is still high from an earlier measurement: there is no new measurement yet.
    Busy {
        /// Which line.
        line: Line,
    },
    /// The line has been high for longer than any device holds it.
    Held {
        /// Which line.
        line: Line,
    },
    /// An edge that the device should send did not come.
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
    /// Whether bytes may have been lost in the middle of a transfer. The Robot HAT's controller takes writes
    /// in frames of three bytes and never resynchronises by itself: after such a fault it must be reset
    /// before any further write counts.
    pub fn needs_reset(self) -> bool {
        match self {
            DeviceFault::Bus { fault, .. } => match fault {
                BusFault::TimedOut | BusFault::Io | BusFault::ArbitrationLost => true,
                // No device acknowledged the address byte, or nothing was sent at all.
                BusFault::Nack | BusFault::Unsupported | BusFault::Absent | BusFault::Preempted => false,
            },
            _ => false,
        }
    }

    /// Whether this is not a failure: a motor stop preempted the call, and the call must be repeated.
    pub fn gave_way(self) -> bool {
        matches!(self, DeviceFault::Bus { fault: BusFault::Preempted, .. })
    }

    /// Whether a poll returns this fault in addition to reporting it: a failed transfer, a value that the
    /// kernel does not provide, or lost settings. Everything else is an answer, even if a wrong one.
    pub fn ends_poll(self) -> bool {
        matches!(self, DeviceFault::Bus { .. } | DeviceFault::Kernel { .. } | DeviceFault::Asleep { .. })
    }

    /// Whether the device is present but lost its settings: readings count only after a new set-up.
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
            | DeviceFault::Held { .. }
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
                write!(f, "register {register:#04x}: the device cannot have this value")
            }
            DeviceFault::NotFinite { register } => {
                write!(f, "register {register:#04x}: the value is NaN or infinite")
            }
            DeviceFault::DeadBytes { register } => {
                write!(f, "register {register:#04x}: only zeros or only ones, so no device is there")
            }
            DeviceFault::Overflow { register } => {
                write!(f, "register {register:#04x}: the quantity is outside the device's range")
            }
            DeviceFault::NotReady { register } => {
                write!(f, "register {register:#04x}: no new measurement")
            }
            DeviceFault::Asleep { register } => {
                write!(f, "register {register:#04x}: the device lost its settings and must be set up again")
            }
            DeviceFault::WrongDevice { register, found } => {
                write!(f, "register {register:#04x} holds {found:#04x}: another chip is at this address")
            }
            DeviceFault::Endless { register } => {
                write!(f, "register {register:#04x}: the device's set-up never finishes")
            }
            DeviceFault::Kernel { fault } => write!(f, "the kernel returns no value: {fault:?}"),
            DeviceFault::Busy { line } => {
                write!(f, "line {} is still high from the last measurement", line.0)
            }
            DeviceFault::Held { line } => {
                write!(f, "line {} is high all the time: stuck, or its module never ends the pulse", line.0)
            }
            DeviceFault::EdgeMissing { line } => write!(f, "line {} did not answer", line.0),
            DeviceFault::PulseTooShort { line } => {
                write!(f, "line {}: the pulse is too short to be real", line.0)
            }
        }
    }
}

impl std::error::Error for DeviceFault {}
