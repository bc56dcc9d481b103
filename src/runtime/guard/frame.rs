//! The messages between a runtime and its guard: fixed frames of 56 bytes, one per message, little endian.
//! The receiver rejects a frame with another length, magic number or version, or with an unknown value; it
//! ignores unused bytes.
//!
//! ```text
//! request  0 "gnGD"  4 version  5 kind  6 flag      7 acknowledged stop  8 sequence  16 stamp (ns)
//!          24 board digest
//! answer   0 "gnGA"  4 version  5 refusal  6 state  7 cause              8 sequence  16 line bits
//!          17 stop   20 trips  24 beats                                  the rest is zero
//! ```
//!
//! A stamp is the CLOCK_MONOTONIC time at which the frame was made. Both processes run on one machine and
//! share that clock, so the guard knows the age of a heartbeat that waited in a queue while the guard was
//! stopped.

use super::BoardDigest;
use crate::base::time::Instant;
use std::fmt;

/// Bytes of every frame.
pub const LENGTH: usize = 56;
/// Incremented when a frame changes its meaning. Each end refuses frames of another version.
pub const VERSION: u8 = 2;
const REQUEST: [u8; 4] = *b"gnGD";
const ANSWER: [u8; 4] = *b"gnGA";

/// A frame as it is sent.
pub type Bytes = [u8; LENGTH];

/// What a client asks of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A runtime of this board asks to be guarded.
    Hello {
        /// Digest of its board.
        board: BoardDigest,
        /// Number of the newest stop that it has heard of on this connection and for which it has disarmed;
        /// 0: none.
        acknowledged: u8,
    },
    /// Permission to switch the line on.
    Permit,
    /// The runtime is alive.
    Heartbeat {
        /// Whether the loop has run and the motors' bus has confirmed a command since the last heartbeat in
        /// which this was true.
        advanced: bool,
    },
    /// Switch the line on or off.
    Set {
        /// Whether to switch it on, so that the motors may run.
        on: bool,
    },
    /// The runtime ends cleanly: line off, and not counted as a trip.
    Bye,
    /// Line off, whichever runtime is guarded: sent by `safe-stop`.
    Trip {
        /// If set and no runtime is connected, the stop applies to the next one. Not set by a service manager
        /// that stops the motors after a runtime has ended, so that the next runtime may arm by itself.
        lasting: bool,
    },
    /// Changes nothing; asks for the guard's status.
    Status,
}

/// A message to the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The answer has the same number.
    pub sequence: u64,
    /// When the request was made.
    pub stamp: Instant,
    /// The request itself.
    pub ask: Ask,
}

/// Why a guard refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GuardRefusal {
    /// The guard already guards another runtime.
    Busy = 1,
    /// The board is not the one that the guard was started with.
    OtherBoard = 2,
    /// The process belongs to another user.
    OtherUser = 3,
    /// The runtime must say hello and ask for permission first.
    NotTrusted = 4,
    /// The line could not be switched.
    Line = 5,
    /// A stop was requested, and this runtime has not yet disarmed for it.
    Stopped = 6,
}

impl GuardRefusal {
    /// Every refusal.
    pub const ALL: [GuardRefusal; 6] = [
        GuardRefusal::Busy,
        GuardRefusal::OtherBoard,
        GuardRefusal::OtherUser,
        GuardRefusal::NotTrusted,
        GuardRefusal::Line,
        GuardRefusal::Stopped,
    ];

    /// The refusal with this number, if there is one.
    pub(super) fn of(number: u8) -> Option<GuardRefusal> {
        GuardRefusal::ALL.into_iter().find(|refused| *refused as u8 == number)
    }
}

/// Why the guard switched the line off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The connection closed: the runtime is dead.
    Closed = 1,
    /// No heartbeat for longer than the timeout: the runtime hangs or was stopped.
    Silent = 2,
    /// Heartbeats arrived, but the loop did not advance or no command reached the motors' bus.
    Stalled = 3,
    /// A user or a service manager requested it.
    Asked = 4,
    /// The runtime ended cleanly.
    Ended = 5,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 5] =
        [Reason::Closed, Reason::Silent, Reason::Stalled, Reason::Asked, Reason::Ended];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Closed => "closed",
            Reason::Silent => "silent",
            Reason::Stalled => "stalled",
            Reason::Asked => "asked",
            Reason::Ended => "ended",
        }
    }
}

/// The state of a guard, without its internal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No runtime has said hello.
    Waiting,
    /// A runtime has said hello and may ask for permission.
    Greeted,
    /// The runtime may switch the line.
    Trusted,
    /// The guard has switched the line off.
    Tripped(Reason),
}

impl Phase {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Greeted => "greeted",
            Phase::Trusted => "trusted",
            Phase::Tripped(_) => "tripped",
        }
    }
}

/// The guard's status, sent in every answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardStatus {
    /// Its state.
    pub phase: Phase,
    /// Whether the line is on, so that the motors may run.
    pub line_on: bool,
    /// Whether the last call that switched the line succeeded.
    pub line_sound: bool,
    /// How often the guard switched the line off by itself or because of a requested stop; the end of a
    /// runtime does not count if it is clean.
    pub trips: u32,
    /// Heartbeats that kept the permission valid.
    pub beats: u64,
    /// Number of the requested stop for which no runtime has disarmed yet; 0: none.
    pub stop: u8,
}

/// A message from the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardAnswer {
    /// Sequence number of the request.
    pub sequence: u64,
    /// Why the guard refused the request, if it did.
    pub refused: Option<GuardRefusal>,
    /// The guard's status after the request.
    pub status: GuardStatus,
}

/// Why bytes are not a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Not 56 bytes.
    Length(usize),
    /// Not a guard message.
    Foreign,
    /// Another version of the protocol.
    Version(u8),
    /// Unknown message, or invalid value in one.
    Value,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Length(length) => write!(f, "a message of {length} bytes instead of {LENGTH}"),
            FrameError::Foreign => f.write_str("not a guard message"),
            FrameError::Version(version) => {
                write!(
                    f,
                    "guard protocol version {version}, but this program has {VERSION}: restart both processes"
                )
            }
            FrameError::Value => f.write_str("an unknown message, or an invalid value in one"),
        }
    }
}

impl std::error::Error for FrameError {}

impl Request {
    /// Encodes it as bytes.
    pub fn encode(&self) -> Bytes {
        let (kind, flag) = match self.ask {
            Ask::Hello { .. } => (1, 0),
            Ask::Permit => (2, 0),
            Ask::Heartbeat { advanced } => (3, u8::from(advanced)),
            Ask::Set { on } => (4, u8::from(on)),
            Ask::Bye => (5, 0),
            Ask::Trip { lasting } => (6, u8::from(lasting)),
            Ask::Status => (7, 0),
        };
        let mut bytes = start(REQUEST, self.sequence);
        (bytes[5], bytes[6]) = (kind, flag);
        bytes[16..24].copy_from_slice(&self.stamp.as_nanos().to_le_bytes());
        if let Ask::Hello { board, acknowledged } = &self.ask {
            bytes[7] = *acknowledged;
            bytes[24..56].copy_from_slice(board);
        }
        bytes
    }

    /// Decodes it from bytes.
    pub fn decode(bytes: &[u8]) -> Result<Request, FrameError> {
        let bytes = check(bytes, REQUEST)?;
        let flag = flag(bytes[6])?;
        let ask = match (bytes[5], flag) {
            (1, false) => {
                let mut board = [0; 32];
                board.copy_from_slice(&bytes[24..56]);
                Ask::Hello { board, acknowledged: bytes[7] }
            }
            (2, false) => Ask::Permit,
            (3, advanced) => Ask::Heartbeat { advanced },
            (4, on) => Ask::Set { on },
            (5, false) => Ask::Bye,
            (6, lasting) => Ask::Trip { lasting },
            (7, false) => Ask::Status,
            _ => return Err(FrameError::Value),
        };
        Ok(Request { sequence: number(bytes, 8), stamp: Instant::from_nanos(number(bytes, 16)), ask })
    }
}

impl GuardAnswer {
    /// Encodes it as bytes.
    pub fn encode(&self) -> Bytes {
        let mut bytes = start(ANSWER, self.sequence);
        bytes[5] = self.refused.map_or(0, |refused| refused as u8);
        (bytes[6], bytes[7]) = match self.status.phase {
            Phase::Waiting => (0, 0),
            Phase::Greeted => (1, 0),
            Phase::Trusted => (2, 0),
            Phase::Tripped(reason) => (3, reason as u8),
        };
        bytes[16] = u8::from(self.status.line_on) | u8::from(self.status.line_sound) << 1;
        bytes[17] = self.status.stop;
        bytes[20..24].copy_from_slice(&self.status.trips.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.status.beats.to_le_bytes());
        bytes
    }

    /// Decodes it from bytes.
    pub fn decode(bytes: &[u8]) -> Result<GuardAnswer, FrameError> {
        let bytes = check(bytes, ANSWER)?;
        let refused = match bytes[5] {
            0 => None,
            number => Some(GuardRefusal::of(number).ok_or(FrameError::Value)?),
        };
        let reason = |code: u8| Reason::ALL.into_iter().find(|reason| *reason as u8 == code);
        let phase = match (bytes[6], bytes[7]) {
            (0, 0) => Phase::Waiting,
            (1, 0) => Phase::Greeted,
            (2, 0) => Phase::Trusted,
            (3, code) => Phase::Tripped(reason(code).ok_or(FrameError::Value)?),
            _ => return Err(FrameError::Value),
        };
        let mut trips = [0; 4];
        trips.copy_from_slice(&bytes[20..24]);
        let status = GuardStatus {
            phase,
            line_on: bytes[16] & 1 != 0,
            line_sound: bytes[16] & 2 != 0,
            trips: u32::from_le_bytes(trips),
            beats: number(bytes, 24),
            stop: bytes[17],
        };
        Ok(GuardAnswer { sequence: number(bytes, 8), refused, status })
    }
}

impl GuardRefusal {
    /// The reason, as text.
    pub const fn reason(self) -> &'static str {
        match self {
            GuardRefusal::Busy => "the guard already guards another runtime",
            GuardRefusal::OtherBoard => "the guard was started with another board",
            GuardRefusal::OtherUser => "the guard accepts only runtimes of another user",
            GuardRefusal::NotTrusted => "the runtime has to ask for permission first",
            GuardRefusal::Line => "the guard cannot drive its line",
            GuardRefusal::Stopped => "a stop was requested: this runtime has to disarm first",
        }
    }
}

fn start(magic: [u8; 4], sequence: u64) -> Bytes {
    let mut bytes = [0; LENGTH];
    bytes[..4].copy_from_slice(&magic);
    bytes[4] = VERSION;
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    bytes
}

fn check(bytes: &[u8], magic: [u8; 4]) -> Result<&Bytes, FrameError> {
    let whole: &Bytes = bytes.try_into().map_err(|_| FrameError::Length(bytes.len()))?;
    match (whole[..4] == magic, whole[4]) {
        (false, _) => Err(FrameError::Foreign),
        (true, VERSION) => Ok(whole),
        (true, version) => Err(FrameError::Version(version)),
    }
}

fn flag(byte: u8) -> Result<bool, FrameError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(FrameError::Value),
    }
}

fn number(bytes: &Bytes, at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_a_round_trip() {
        let asks = [
            Ask::Hello { board: [7; 32], acknowledged: 0 },
            Ask::Hello { board: [7; 32], acknowledged: 255 },
            Ask::Permit,
            Ask::Heartbeat { advanced: true },
            Ask::Heartbeat { advanced: false },
            Ask::Set { on: true },
            Ask::Set { on: false },
            Ask::Bye,
            Ask::Trip { lasting: true },
            Ask::Trip { lasting: false },
            Ask::Status,
        ];
        for (at, ask) in asks.into_iter().enumerate() {
            let request = Request { sequence: u64::MAX - at as u64, stamp: Instant::from_nanos(5), ask };
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        let phases = Reason::ALL.map(Phase::Tripped).into_iter();
        for phase in phases.chain([Phase::Waiting, Phase::Greeted, Phase::Trusted]) {
            for refused in GuardRefusal::ALL.map(Some).into_iter().chain([None]) {
                let (trips, beats, stop) = (3, 1 << 40, 7);
                let status = GuardStatus { phase, line_on: true, line_sound: false, trips, beats, stop };
                let answer = GuardAnswer { sequence: 9, refused, status };
                assert_eq!(GuardAnswer::decode(&answer.encode()), Ok(answer));
            }
        }
    }

    #[test]
    fn invalid_frames_are_rejected() {
        let request = Request { sequence: 1, stamp: Instant::ZERO, ask: Ask::Permit }.encode();
        assert_eq!(Request::decode(&request[..55]), Err(FrameError::Length(55)));
        assert_eq!(Request::decode(&[]), Err(FrameError::Length(0)));
        assert_eq!(GuardAnswer::decode(&request), Err(FrameError::Foreign));
        let changed = |at: usize, byte: u8| {
            let mut bytes = request;
            bytes[at] = byte;
            Request::decode(&bytes)
        };
        assert_eq!(changed(4, VERSION - 1), Err(FrameError::Version(VERSION - 1)));
        for (at, byte) in [(5, 0), (5, 8), (5, 255), (6, 1), (6, 2)] {
            assert_eq!(changed(at, byte), Err(FrameError::Value), "byte {at} = {byte}");
        }
    }
}
