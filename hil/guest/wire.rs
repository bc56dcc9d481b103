//! The protocol of `/dev/hilplant`: commands written to it and events read from it, both of a fixed length in
//! bytes (`hil/kmod/hilplant.h`, little endian). Independent of any robot; opens no file.

use ganglion::base::time::{Instant, Span};

/// Bytes of a command.
pub const COMMAND_BYTES: usize = 56;
/// Bytes of an event.
pub const EVENT_BYTES: usize = 64;
/// Bytes of data in a command or an event.
pub const DATA: usize = 32;
/// Any I2C address.
pub const ANY: u16 = 0xFFFF;
/// The count of a fault that lasts for ever.
pub const FOR_EVER: i32 = -1;

/// Behaviour of a device behind the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Behaviour {
    /// 256 registers and an auto-incrementing pointer.
    Registers = 0,
    /// The Robot HAT's controller: writes are frames of three bytes.
    Frames = 2,
}

/// Faults of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Fault {
    /// The address is not acknowledged.
    NackAddress = 1,
    /// No acknowledge after this many bytes of a write.
    NackData = 2,
    /// Every transfer hangs, and times out after this many milliseconds (argument; 0: the adapter's own
    /// timeout).
    Stuck = 3,
    /// Another master won the arbitration.
    ArbitrationLost = 4,
    /// The device stretches the clock by this many microseconds.
    StretchUs = 5,
    /// Byte (argument / 256) of a read is XORed with (argument % 256).
    Xor = 6,
    /// Reads return only ones.
    AllOnes = 7,
    /// The registers keep their values, whatever the plant sets.
    Freeze = 8,
    /// SDA is held low until SCL has risen nine times, or as often as the argument says, if it is not 0.
    SdaLow = 9,
    /// Nothing is transferred until the driver is rebound.
    Rebind = 10,
}

/// Commands from the plant to the kernel's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A device answers at this address from now on, with all registers zero.
    Add(u8, Behaviour),
    /// No device answers at this address any more.
    Remove(u8),
    /// Sets the bytes that begin at a register. On a frame device, register 0x10..=0x17 with two bytes sets a
    /// converter's value.
    Set {
        /// Address.
        address: u8,
        /// First register.
        register: u8,
        /// Number of bytes of `data`.
        length: u8,
        /// The bytes.
        data: [u8; DATA],
    },
    /// Makes transfers fail.
    Fault {
        /// Address of the transfers that fail, or [`ANY`].
        address: u16,
        /// The fault.
        kind: Fault,
        /// Its argument, whose meaning depends on the kind.
        argument: i32,
        /// How many times; [`FOR_EVER`] for no limit.
        count: i32,
        /// Number of transfers that succeed before it takes effect.
        skip: u16,
    },
    /// Makes all transfers succeed again.
    ClearFaults,
    /// Sets an input line to this level now.
    Line(u16, bool),
    /// Sets an input line to this level at this time.
    LineAt(u16, bool, Instant),
    /// Sets the level of an output line that no process drives.
    Pull(u16, bool),
    /// Declares which lines are SCL and SDA, for a bus clear.
    BusPins(u16, u16),
    /// Makes the first line follow the second, as over a wire; `None`: removes the wire.
    Wire(u16, Option<u16>),
    /// Keeps this line high while this register of the device at this address is not 0, as a motor's terminal
    /// during a pulse; `None`: removes the wire.
    Terminal(u16, Option<(u8, u8)>),
    /// Whether an output that lost its owner is still driven, as on Raspberry Pi OS (the default), or floats.
    Persist(bool),
    /// Makes lines without an owner float, as when the computer starts.
    Boot,
    /// Resets a device as power-on does; only its byte registers and the values of its converters stay.
    Reset(u8),
    /// Makes a device stop (`true`) or resume (`false`) acknowledging its address.
    Mute(u8, bool),
}

impl Command {
    /// Sets the bytes that begin at `register`, at most [`DATA`] of them.
    pub fn set(address: u8, register: u8, bytes: &[u8]) -> Command {
        let mut data = [0; DATA];
        let length = bytes.len().min(DATA);
        data[..length].copy_from_slice(&bytes[..length]);
        Command::Set { address, register, length: length as u8, data }
    }

    /// The bytes that the kernel reads.
    pub fn encode(&self) -> [u8; COMMAND_BYTES] {
        let mut raw = Raw::default();
        match *self {
            Command::Add(address, behaviour) => raw.with(1, address.into()).arg = behaviour as i32,
            Command::Remove(address) => _ = raw.with(2, address.into()),
            Command::Set { address, register, length, data } => {
                raw.with(3, address.into());
                (raw.reg, raw.len, raw.data) = (register.into(), length.into(), data);
            }
            Command::Fault { address, kind, argument, count, skip } => {
                raw.with(4, address);
                (raw.reg, raw.len, raw.arg, raw.count) = (kind as u16, skip, argument, count);
            }
            Command::ClearFaults => _ = raw.with(5, 0),
            Command::Line(line, high) => raw.with(6, line).arg = high.into(),
            Command::LineAt(line, high, at) => {
                raw.with(7, line).arg = high.into();
                raw.at = at.as_nanos();
            }
            Command::Reset(address) => _ = raw.with(11, address.into()),
            Command::Mute(address, mute) => raw.with(12, address.into()).arg = mute.into(),
            Command::BusPins(scl, sda) => raw.with(13, scl).reg = sda,
            Command::Pull(line, high) => raw.with(14, line).arg = high.into(),
            Command::Wire(line, to) => raw.with(15, line).reg = to.unwrap_or(ANY),
            Command::Persist(keeps) => raw.with(17, 0).arg = keeps.into(),
            Command::Boot => _ = raw.with(18, 0),
            Command::Terminal(line, of) => {
                raw.with(16, line).reg =
                    of.map_or(0, |(address, register)| u16::from_le_bytes([address, register]));
            }
        }
        raw.bytes()
    }
}

/// `struct hil_cmd`.
#[derive(Default)]
struct Raw {
    op: u16,
    addr: u16,
    reg: u16,
    len: u16,
    arg: i32,
    count: i32,
    at: u64,
    data: [u8; DATA],
}

impl Raw {
    fn with(&mut self, op: u16, addr: u16) -> &mut Raw {
        (self.op, self.addr) = (op, addr);
        self
    }

    fn bytes(&self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        for (nth, half) in [self.op, self.addr, self.reg, self.len].into_iter().enumerate() {
            bytes[2 * nth..2 * nth + 2].copy_from_slice(&half.to_le_bytes());
        }
        bytes[8..12].copy_from_slice(&self.arg.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.at.to_le_bytes());
        bytes[24..].copy_from_slice(&self.data);
        bytes
    }
}

/// What happened at the adapter or a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A write to a device; the result says whether it arrived.
    Write,
    /// A read.
    Read,
    /// An output line was driven to this level.
    Out(bool),
    /// A line became an output.
    Driven,
    /// A line is no longer driven and floats to this level: its owner released it, or has exited.
    Floats(bool),
    /// An input line has this level.
    In(bool),
    /// This reader was too slow: events before this one are missing.
    Lost,
    /// A kind that this program does not use.
    Other,
}

/// One event, with timestamps from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub what: Happening,
    /// For a transfer: when its first bit was sent; otherwise the same as `end`.
    pub start: Instant,
    /// For a transfer: when its last bit was sent; otherwise when the event happened.
    pub end: Instant,
    /// I2C address or line.
    pub place: u16,
    /// Register of a transfer.
    pub register: u16,
    /// Bytes of the transfer.
    pub length: u16,
    /// Result of a transfer: 0, or an errno as a negative number.
    pub result: i32,
    /// The first bytes.
    pub data: [u8; DATA],
}

impl Event {
    /// Decodes an event.
    pub fn decode(bytes: &[u8; EVENT_BYTES]) -> Event {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        let mut data = [0; DATA];
        data.copy_from_slice(&bytes[32..]);
        let level = half(28) != 0;
        let what = match half(24) {
            1 => Happening::Write,
            2 => Happening::Read,
            4 => Happening::Out(level),
            5 if level => Happening::Driven,
            5 => Happening::Floats(half(30) != 0),
            6 => Happening::In(level),
            7 => Happening::Lost,
            _ => Happening::Other,
        };
        Event {
            what,
            start: Instant::from_nanos(long(8)),
            end: Instant::from_nanos(long(0)),
            place: half(26),
            register: half(30),
            length: half(28),
            result: word(20),
            data,
        }
    }

    /// Register and value, if the event is a write of one three-byte frame that arrived.
    pub fn frame(&self) -> Option<(u8, u16)> {
        let whole = self.what == Happening::Write && self.result == 0 && self.length == 3;
        whole.then(|| (self.data[0], u16::from_be_bytes([self.data[1], self.data[2]])))
    }
}

/// The kernel's side of the plant, or a substitute for it in tests.
pub trait Port: Send {
    /// Applies all of `commands` at once.
    fn send(&mut self, commands: &[Command]) -> std::io::Result<()>;
    /// Takes the next event, waiting at most `wait`.
    fn next(&mut self, wait: Span) -> std::io::Result<Option<Event>>;
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An event with these data bytes, for a substitute for the kernel.
    pub fn event(what: Happening, place: u16, at: u64, bytes: &[u8]) -> Event {
        let at = Instant::from_nanos(at);
        let mut data = [0; DATA];
        data[..bytes.len()].copy_from_slice(bytes);
        let register = data[0].into();
        Event { what, start: at, end: at, place, register, length: bytes.len() as u16, result: 0, data }
    }

    #[test]
    fn commands_have_the_layout_of_the_c_header() {
        let bytes = Command::LineAt(22, true, Instant::from_nanos(0x0102_0304)).encode();
        assert_eq!(bytes[..8], [7, 0, 22, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[8..24], [1, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0]);
        let bytes = Command::set(0x68, 0x3B, &[9, 8]).encode();
        assert_eq!(bytes[..8], [3, 0, 0x68, 0, 0x3B, 0, 2, 0]);
        assert_eq!(bytes[24..27], [9, 8, 0]);
        let fault = Command::Fault { address: ANY, kind: Fault::Xor, argument: -2, count: FOR_EVER, skip: 5 };
        assert_eq!(fault.encode()[..12], [4, 0, 0xFF, 0xFF, 6, 0, 5, 0, 0xFE, 0xFF, 0xFF, 0xFF]);
        assert_eq!(Command::Wire(21, Some(20)).encode()[..8], [15, 0, 21, 0, 20, 0, 0, 0]);
        assert_eq!(Command::Terminal(22, Some((0x14, 0x2D))).encode()[..6], [16, 0, 22, 0, 0x14, 0x2D]);
    }

    #[test]
    fn constants_match_the_c_header() {
        let header = include_str!("../kmod/hilplant.h");
        let number = |name: &str| -> i64 {
            let line = header.lines().find(|line| line.trim_start().starts_with(&format!("{name} =")));
            let value = line.and_then(|line| line.split('=').nth(1)).and_then(|rest| rest.split(',').next());
            value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("{name} is not there"))
        };
        let op = |command: Command| i64::from(command.encode()[0]);
        let at = Instant::ZERO;
        let ops = [
            ("HC_DEV_ADD", op(Command::Add(1, Behaviour::Frames))),
            ("HC_DEV_DEL", op(Command::Remove(1))),
            ("HC_REG_SET", op(Command::set(1, 1, &[]))),
            ("HC_FAULT_CLEAR", op(Command::ClearFaults)),
            ("HC_GPIO_SET", op(Command::Line(1, true))),
            ("HC_GPIO_AT", op(Command::LineAt(1, true, at))),
            ("HC_DEV_RESET", op(Command::Reset(1))),
            ("HC_DEV_MUTE", op(Command::Mute(1, true))),
            ("HC_BUS_PINS", op(Command::BusPins(1, 2))),
            ("HC_GPIO_PULL", op(Command::Pull(1, true))),
            ("HC_WIRE", op(Command::Wire(1, None))),
            ("HC_TERMINAL", op(Command::Terminal(1, None))),
            ("HIL_FRAME3", Behaviour::Frames as i64),
            ("HF_NACK_ADDR", Fault::NackAddress as i64),
            ("HF_NACK_DATA", Fault::NackData as i64),
            ("HF_STUCK", Fault::Stuck as i64),
            ("HF_ARB_LOST", Fault::ArbitrationLost as i64),
            ("HF_DELAY_US", Fault::StretchUs as i64),
            ("HF_XOR", Fault::Xor as i64),
            ("HF_ALL_FF", Fault::AllOnes as i64),
            ("HF_FREEZE", Fault::Freeze as i64),
            ("HF_SDA_LOW", Fault::SdaLow as i64),
            ("HF_REBIND", Fault::Rebind as i64),
        ];
        for (name, ours) in ops {
            assert_eq!(number(name), ours, "{name}");
        }
        let decoded = |number: i64| {
            let mut bytes = [0; EVENT_BYTES];
            bytes[24] = number as u8;
            Event::decode(&bytes).what
        };
        let events = ["HE_WRITE", "HE_READ", "HE_GPIO_OUT", "HE_GPIO_DIR", "HE_GPIO_IN", "HE_OVERFLOW"];
        let whats = [
            Happening::Write,
            Happening::Read,
            Happening::Out(false),
            Happening::Floats(false),
            Happening::In(false),
            Happening::Lost,
        ];
        assert_eq!(events.map(|name| decoded(number(name))), whats);
    }

    #[test]
    fn events_are_read_from_the_right_offsets() {
        let mut bytes = [0; EVENT_BYTES];
        bytes[0] = 9; // end
        bytes[8] = 5; // start
        bytes[20..24].copy_from_slice(&(-6_i32).to_le_bytes());
        bytes[24] = 1;
        bytes[26] = 0x14;
        bytes[28] = 3;
        bytes[30] = 0x2D;
        bytes[32..35].copy_from_slice(&[0x2D, 1, 2]);
        let mut event = Event::decode(&bytes);
        assert_eq!((event.what, event.place, event.result), (Happening::Write, 0x14, -6));
        assert_eq!((event.start.as_nanos(), event.end.as_nanos()), (5, 9));
        assert_eq!(event.frame(), None, "a failed frame must not count");
        event.result = 0;
        assert_eq!(event.frame(), Some((0x2D, 0x0102)));
    }
}
