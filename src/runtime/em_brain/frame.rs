//! The frames of the protocol, in both framings. A client that starts with one of the two marks is answered
//! with that mark; one that starts with a length is answered without a mark.
//!
//! ```text
//! plain     length (u32, big endian) of the rest: 5 + 4 x count
//!           kind (u8)   count (u32, big endian)   count x f32, little endian
//! marked    mark (u32, big endian): "ROBO" or 0xDEADBEEF; then as above (length excludes the mark)
//! ```
//!
//! A plain frame cannot begin with the bytes of a mark: read as a length, they exceed that of [`VALUES_MOST`]
//! values.

use std::fmt;

/// Number of values in the longest frame. The earlier service accepted more, for images; a field has at most
/// 64 sensors.
pub const VALUES_MOST: usize = 1024;
/// The marks that clients use.
const MARKS: [u32; 2] = [u32::from_be_bytes(*b"ROBO"), 0xDEAD_BEEF];
/// Bytes of kind and count, which the length includes.
const HEAD: usize = 5;
/// Bytes of the longest frame.
pub const FRAME_MOST: usize = 4 + 4 + HEAD + 4 * VALUES_MOST;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sensors, from the robot.
    Sensory,
    /// Motors, to the robot.
    Action,
    /// The dimensions of the robot or of the brain.
    Handshake,
    /// An error number, to the robot.
    Error,
    /// Any other kind.
    Unknown(u8),
}

impl Kind {
    fn of(byte: u8) -> Kind {
        match byte {
            0 => Kind::Sensory,
            1 => Kind::Action,
            2 => Kind::Handshake,
            255 => Kind::Error,
            other => Kind::Unknown(other),
        }
    }

    fn byte(self) -> u8 {
        match self {
            Kind::Sensory => 0,
            Kind::Action => 1,
            Kind::Handshake => 2,
            Kind::Error => 255,
            Kind::Unknown(other) => other,
        }
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Its kind.
    pub kind: Kind,
    /// Its values as received, unchecked.
    pub values: Vec<f32>,
}

/// A client's framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Length first.
    Plain,
    /// This mark first.
    Marked(u32),
}

/// Why bytes are not a valid frame. The start of the next frame is then unknown, so the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The frame does not begin with the client's mark.
    Mark(u32),
    /// The length does not match the number of values.
    Length {
        /// The length.
        length: u32,
        /// The number of values.
        count: u32,
    },
    /// The frame has more values than allowed.
    Long(u32),
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameFault::Mark(found) => write!(f, "a frame begins with {found:#010x}, not with the mark"),
            FrameFault::Length { length, count } => {
                write!(f, "a frame of {length} bytes claims to have {count} values")
            }
            FrameFault::Long(count) => write!(f, "a frame of {count} values; allowed: at most {VALUES_MOST}"),
        }
    }
}

impl std::error::Error for FrameFault {}

impl Frame {
    /// Encodes the frame.
    pub fn encode(&self, framing: Framing) -> Vec<u8> {
        let count = self.values.len();
        let mut bytes = Vec::with_capacity(4 + 4 + HEAD + 4 * count);
        if let Framing::Marked(mark) = framing {
            bytes.extend(mark.to_be_bytes());
        }
        bytes.extend(((HEAD + 4 * count) as u32).to_be_bytes());
        bytes.push(self.kind.byte());
        bytes.extend((count as u32).to_be_bytes());
        self.values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes
    }
}

/// Reads frames from a stream of bytes. Buffers at most one frame and the bytes that arrived together with
/// its end.
#[derive(Debug, Default)]
pub struct FrameReader {
    framing: Option<Framing>,
    bytes: Vec<u8>,
}

impl FrameReader {
    /// The client's framing; `None`: it has not sent enough yet.
    pub fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// Whether a frame has begun but not ended.
    pub fn has_partial_frame(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Appends received bytes. Read all frames before the next call.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameFault> {
        let Some(first) = self.word(0) else { return Ok(None) };
        let is_mark = MARKS.contains(&first);
        let own = if is_mark { Framing::Marked(first) } else { Framing::Plain };
        let start = match *self.framing.get_or_insert(own) {
            Framing::Plain => 0,
            Framing::Marked(mark) if mark == first => 4,
            Framing::Marked(_) => return Err(FrameFault::Mark(first)),
        };
        let Some(length) = self.word(start) else { return Ok(None) };
        // Checked before the rest has arrived: a client with wrong framing may never send it.
        if length as usize > HEAD + 4 * VALUES_MOST {
            return Err(FrameFault::Long(length.saturating_sub(HEAD as u32) / 4));
        }
        let Some(count) = self.word(start + 5) else {
            return if (length as usize) < HEAD {
                Err(FrameFault::Length { length, count: 0 })
            } else {
                Ok(None)
            };
        };
        if u64::from(length) != HEAD as u64 + 4 * u64::from(count) {
            return Err(FrameFault::Length { length, count });
        }
        let (values, end) = (start + 4 + HEAD, start + 4 + length as usize);
        let Some(body) = self.bytes.get(values..end) else { return Ok(None) };
        let kind = Kind::of(self.bytes[start + 4]);
        let values =
            body.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes")));
        let frame = Frame { kind, values: values.collect() };
        self.bytes.drain(..end);
        Ok(Some(frame))
    }

    /// The big-endian word at `at`.
    fn word(&self, at: usize) -> Option<u32> {
        let four = self.bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(four.try_into().expect("four bytes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sensory frame with 16 values, each 0.5.
    fn written(mark: &[u8]) -> Vec<u8> {
        let head: [u8; 9] = [0, 0, 0, 69, 0, 0, 0, 0, 16];
        mark.iter().copied().chain(head).chain([0x00, 0x00, 0x00, 0x3f].repeat(16)).collect()
    }

    fn frames(reader: &mut FrameReader) -> Vec<Frame> {
        std::iter::from_fn(|| reader.next_frame().unwrap()).collect()
    }

    #[test]
    fn each_framing_is_read_byte_by_byte_and_encoded_the_same() {
        for (mark, framing) in [
            (&b""[..], Framing::Plain),
            (b"ROBO", Framing::Marked(0x524F_424F)),
            (&[0xDE, 0xAD, 0xBE, 0xEF], Framing::Marked(0xDEAD_BEEF)),
        ] {
            let (bytes, mut reader) = (written(mark), FrameReader::default());
            let expected = Frame { kind: Kind::Sensory, values: vec![0.5; 16] };
            for (at, byte) in bytes.iter().enumerate() {
                reader.push(&[*byte]);
                let whole = at + 1 == bytes.len();
                assert_eq!(frames(&mut reader), if whole { vec![expected.clone()] } else { vec![] }, "{at}");
            }
            assert_eq!((reader.framing(), reader.has_partial_frame()), (Some(framing), false));
            assert_eq!(expected.encode(framing), bytes);
            reader.push(&[bytes.clone(), bytes.clone(), bytes[..7].to_vec()].concat());
            assert_eq!(frames(&mut reader), [expected.clone(), expected]);
            assert!(reader.has_partial_frame());
        }
    }

    #[test]
    fn invalid_frames_are_refused_as_early_as_possible() {
        let fault = |bytes: &[u8]| {
            let mut reader = FrameReader::default();
            reader.push(bytes);
            reader.next_frame().unwrap_err()
        };
        assert_eq!(fault(b"GET / HTTP/1.1\r\n"), FrameFault::Long((0x4745_5420 - 5) / 4));
        assert_eq!(fault(&[0, 0, 0, 4]), FrameFault::Length { length: 4, count: 0 });
        assert_eq!(fault(&[0, 0, 0, 9, 0, 0, 0, 0, 2]), FrameFault::Length { length: 9, count: 2 });
        assert_eq!(
            fault(&[0, 0, 0, 8, 0, 255, 255, 255, 255]),
            FrameFault::Length { length: 8, count: u32::MAX }
        );
        assert_eq!(fault(b"ROBO\0\x60\0\0"), FrameFault::Long((0x60_0000 - 5) / 4));
        let second = [written(b"ROBO"), written(b"")].concat();
        let mut reader = FrameReader::default();
        reader.push(&second);
        assert!(reader.next_frame().unwrap().is_some());
        assert_eq!(reader.next_frame(), Err(FrameFault::Mark(69)), "a client must keep its framing");
    }
}
