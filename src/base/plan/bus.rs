//! How a board reaches its wires: buses, GPIO lines, and recovery steps for a bus that hangs.

use crate::base::time::Span;

/// A line, identified by the number in the board file (chip offset, or BCM number on a Pi).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line(pub u32);

/// Line numbers from here on stand for names: this one for the first name, the next for the second.
const NAMED: u32 = 1 << 16;

impl Line {
    /// The line whose name is entry `nth` of the board's `line_names`.
    pub const fn named(nth: u16) -> Line {
        Line(NAMED + nth as u32)
    }
    /// Its index in the board's `line_names`; `None`: its number is an offset.
    pub const fn name(self) -> Option<usize> {
        if self.0 >= NAMED { Some((self.0 - NAMED) as usize) } else { None }
    }
}

/// The interface through which a running robot uses its wires. Programs that only examine or stop a robot
/// always use character devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The kernel's character devices, which every machine has.
    #[default]
    CharacterDevices,
    /// The rppal crate, on a Raspberry Pi: outputs through mapped registers, I2C through its handle.
    Rppal,
}

/// The implementation behind the board's buses.
#[derive(Clone, Debug, PartialEq)]
pub enum BusPlan {
    /// The simulator implements the bus traits.
    Sim,
    /// Linux character devices.
    Linux {
        /// Labels of GPIO chips, in the order in which they are searched for lines.
        gpio_labels: Vec<String>,
        /// The interface through which the wires are used.
        access: Access,
    },
    /// No bus: sensors are columns of a log.
    Log,
}

/// One I2C bus. Each has its own thread; the motors are on the first bus of a board.
#[derive(Clone, Debug, PartialEq)]
pub struct I2cPlan {
    /// Name, unique on the board.
    pub name: String,
    /// Where the bus is; not used by the simulator.
    pub node: I2cNode,
    /// The kernel driver of its adapter, if that driver uses its own timeout.
    pub driver: Option<OwnTime>,
    /// Speed and timeout.
    pub timing: I2cTiming,
    /// Recovery steps when the bus does not answer.
    pub recovery: RecoveryPlan,
}

/// Where a bus is.
#[derive(Clone, Debug, PartialEq)]
pub enum I2cNode {
    /// For example `/dev/i2c-1`.
    Path(String),
    /// A part of the name of the adapter's device in sysfs (`c250000.i2c`), because bus numbers differ
    /// between kernels.
    Adapter(String),
}

/// A kernel driver that uses its own transfer timeout, whatever timeout is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnTime {
    /// NVIDIA's.
    Tegra,
}

impl OwnTime {
    /// All of them.
    pub const ALL: [OwnTime; 1] = [OwnTime::Tegra];

    /// Its name, in the kernel and in a board file.
    pub const fn name(self) -> &'static str {
        match self {
            OwnTime::Tegra => "tegra-i2c",
        }
    }

    /// The longest time that one of our transfers can take with this driver.
    ///
    /// Tegra (`drivers/i2c/busses/i2c-tegra.c`, Linux 5.10 to 6.12 and JetPack 5 and 6 alike): the driver
    /// waits for each message for 100 ms plus the time of its bits (`tegra_i2c_xfer_msg`); the first message
    /// that fails ends the transfer. After a lost arbitration, clearing the bus with nine clocks takes 50 ms
    /// more (`tegra_i2c_issue_bus_clear`). The driver ignores the timeout that I2C_TIMEOUT sets. The last
    /// 10 ms are for the bits and the kernel's tick.
    pub const fn longest(self) -> Span {
        match self {
            OwnTime::Tegra => Span::from_millis(100 + 50 + 10),
        }
    }
}

/// The recovery steps, beyond retrying, that this bus permits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecoveryPlan {
    /// Lines that are wired to SCL and SDA (or are the same pins), for a bus clear with nine clock pulses.
    pub clear: Option<ClearPlan>,
    /// The driver may be unbound and bound again (needs root).
    pub rebind: bool,
    /// A line that switches the supply of the bus's devices.
    pub rail: Option<RailPlan>,
}

/// Lines for a bus clear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClearPlan {
    /// Clock.
    pub scl: Line,
    /// Data.
    pub sda: Line,
}

/// A switched supply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RailPlan {
    /// The line.
    pub line: Line,
    /// Level that switches it on.
    pub on_high: bool,
    /// How long the supply has to be off.
    pub off: Span,
}

/// A reserved address.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservedAddress {
    /// What uses the address, as readable text.
    pub holder: String,
    /// Index of the bus.
    pub bus: usize,
    /// 7 bits.
    pub address: u8,
}

/// Speed and timeout of an I2C bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct I2cTiming {
    /// SCL in Hz.
    pub speed_hz: u32,
    /// Longest time that one transfer may block.
    pub timeout: Span,
}
