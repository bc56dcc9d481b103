//! The format of the datagrams between a robot and its brain. Little endian; a datagram is at most
//! [`MOST_BYTES`] long, so that no network fragments it.
//!
//! ```text
//! all        0 "gnT"   3 version 1   4 kind   5 zero (3)   8 id (8)
//! 1 join     16 Noise message 1: ephemeral (32), `Join` sealed, tag (16)       id: of the key
//! 2 joined   16 Noise message 2: ephemeral (32), `JoinReply` sealed, tag (16)  id: of the key
//! 3 up       16 counter (8)   24 `CycleRequest` sealed (304), tag (16)         id: of the session
//! 4 down     16 counter (8)   24 `CycleAnswer` sealed (176), tag (16)          id: of the session
//! ```
//!
//! A changed header is always detected. The magic bytes, the version and the zeros have only one valid value.
//! With another kind or ID, the datagram matches no session or key of the receiver, or its authentication
//! fails. The counter is the nonce of the encryption. The version is also in the prologue of the handshake.

use super::Dropped;
use crate::field::remote::message::{ANSWER_BYTES, REQUEST_BYTES};

/// Incremented when the meaning of these bytes changes; each end drops datagrams with another version.
pub const WIRE_VERSION: u8 = 1;
/// Longest datagram. Every IPv6 network carries packets of 1280 bytes unfragmented, of which headers take 48.
pub const MOST_BYTES: usize = 1200;
/// Bytes before the Noise message of a join.
pub const HEADER_BYTES: usize = 16;
/// Bytes before the sealed part of a cycle datagram.
pub const DATA_HEADER_BYTES: usize = HEADER_BYTES + 8;
/// Bytes of the authentication tag that sealing adds.
pub const TAG_BYTES: usize = 16;
/// Bytes of an ephemeral key.
pub const EPHEMERAL_BYTES: usize = 32;
/// Longest payload of a handshake message.
pub const HANDSHAKE_PAYLOAD_MOST: usize = MOST_BYTES - HEADER_BYTES - EPHEMERAL_BYTES - TAG_BYTES;
/// Bytes of a sealed request with its header.
pub const UP_BYTES: usize = DATA_HEADER_BYTES + REQUEST_BYTES + TAG_BYTES;
/// Bytes of a sealed answer with its header.
pub const DOWN_BYTES: usize = DATA_HEADER_BYTES + ANSWER_BYTES + TAG_BYTES;

const MAGIC: [u8; 3] = *b"gnT";

/// Purpose of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A robot asks to join.
    Join = 1,
    /// The brain's answer to a join.
    Joined = 2,
    /// A request for a cycle.
    Up = 3,
    /// The answer to a request for a cycle.
    Down = 4,
}

/// Identifies a key or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 8]);

/// The beginning of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its purpose.
    pub kind: Kind,
    /// ID of the key for [`Kind::Join`] and [`Kind::Joined`], otherwise of the session.
    pub id: Id,
}

impl Header {
    /// Encodes it as bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..3].copy_from_slice(&MAGIC);
        (bytes[3], bytes[4]) = (WIRE_VERSION, self.kind as u8);
        bytes[8..].copy_from_slice(&self.id.0);
        bytes
    }

    /// The header of a datagram; also checks that the datagram's length is valid for its kind.
    pub fn decode(datagram: &[u8]) -> Result<Header, Dropped> {
        let Some(bytes) = datagram.first_chunk::<HEADER_BYTES>() else { return Err(Dropped::Short) };
        if datagram.len() > MOST_BYTES {
            return Err(Dropped::Long);
        }
        if bytes[..3] != MAGIC || bytes[5..8] != [0; 3] {
            return Err(Dropped::NotOurs);
        }
        if bytes[3] != WIRE_VERSION {
            return Err(Dropped::Version);
        }
        let kind = kind_of(bytes[4]).ok_or(Dropped::Kind)?;
        let (least, most) = kind.lengths();
        match datagram.len() {
            length if length < least => Err(Dropped::Short),
            length if length > most => Err(Dropped::Long),
            _ => Ok(Header { kind, id: Id(std::array::from_fn(|at| bytes[8 + at])) }),
        }
    }
}

impl Kind {
    /// Shortest and longest datagram of this kind.
    const fn lengths(self) -> (usize, usize) {
        match self {
            Kind::Join | Kind::Joined => (HEADER_BYTES + EPHEMERAL_BYTES + TAG_BYTES, MOST_BYTES),
            Kind::Up => (UP_BYTES, UP_BYTES),
            Kind::Down => (DOWN_BYTES, DOWN_BYTES),
        }
    }
}

fn kind_of(code: u8) -> Option<Kind> {
    [Kind::Join, Kind::Joined, Kind::Up, Kind::Down].into_iter().find(|kind| *kind as u8 == code)
}

/// The counter of a cycle datagram, whose length [`Header::decode`] has checked.
pub(super) fn counter_of(datagram: &[u8]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|at| datagram[HEADER_BYTES + at]))
}

/// The ephemeral key of a join datagram. Each attempt has a new one, so a key that was seen before indicates
/// a replay.
pub fn ephemeral_of(datagram: &[u8]) -> Option<[u8; EPHEMERAL_BYTES]> {
    datagram.get(HEADER_BYTES..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(kind: Kind, length: usize) -> Vec<u8> {
        let mut bytes = Header { kind, id: Id([9; 8]) }.encode().to_vec();
        bytes.resize(length, 0xaa);
        bytes
    }

    #[test]
    fn header_survives_a_round_trip_at_each_valid_length() {
        assert_eq!((UP_BYTES, DOWN_BYTES, HANDSHAKE_PAYLOAD_MOST), (344, 216, 1136));
        for kind in [Kind::Join, Kind::Joined, Kind::Up, Kind::Down] {
            let (least, most) = kind.lengths();
            for length in 0..MOST_BYTES + 100 {
                let found = Header::decode(&datagram(kind, length.max(HEADER_BYTES))[..length]);
                let expected = match length {
                    _ if length < least => Err(Dropped::Short),
                    _ if length > most => Err(Dropped::Long),
                    _ => Ok(Header { kind, id: Id([9; 8]) }),
                };
                assert_eq!(found, expected, "{kind:?} of {length} bytes");
            }
        }
    }

    #[test]
    fn each_invalid_byte_of_the_header_is_refused() {
        let sound = datagram(Kind::Up, UP_BYTES);
        for at in 0..8 {
            for value in (0..=255u8).filter(|value| *value != sound[at]) {
                let mut changed = sound.clone();
                changed[at] = value;
                let expected = match at {
                    3 => Dropped::Version,
                    4 if value == Kind::Down as u8 => Dropped::Long,
                    4 if value == Kind::Join as u8 || value == Kind::Joined as u8 => continue,
                    4 => Dropped::Kind,
                    _ => Dropped::NotOurs,
                };
                assert_eq!(Header::decode(&changed), Err(expected), "byte {at} is {value}");
            }
        }
    }
}
