//! The only file that knows the byte format: everything saved between runs uses this container.
//!
//! Layout, all numbers little-endian:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `GANGLION` |
//! | 8 | 4 | tag of the kind |
//! | 12 | 4 | version of the kind's format |
//! | 16 | 8 | length of the payload, n |
//! | 24 | n | payload: serde through bincode, fixed-width integers (`config::legacy()`) |
//! | 24 + n | 32 | BLAKE3 of everything before |
//!
//! A file is accepted whole or not at all. The digest detects damage; it does not show who wrote the file.

mod replace;

pub use replace::{remove, rename, replace, replace_and_keep, replace_with_link, sync};

use crate::system::bounded_read::BoundedFile;
use crate::system::rt::room::{self, NoRoom};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"GANGLION";
const HEADER: usize = 24;
const DIGEST: usize = blake3::OUT_LEN;

/// Longest payload, in bytes, so that a huge file cannot take all memory. A read-out is at most 135 kB. The
/// largest brain, 64 x 64^3 cells with the same channels in half resolution and a bank of 10,000, is 97 MB,
/// or 290 MB with the state of the f64 engine; the remaining bytes are enough for 90 patterns of 8.4 MB in
/// its library, or for 37 in f64. At 32^3 a brain is 31 MB and a pattern 1 MB.
pub const MAX_PAYLOAD: usize = 1 << 30;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Four letters that identify the kind in a file. Part of the format, so a tag is never reused.
    pub tag: [u8; 4],
    /// The name in messages.
    pub name: &'static str,
    /// Version of the payload's format that this program writes, and the only one that it reads.
    pub version: u32,
}

/// Why bytes were refused, or a value could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// The first eight bytes are not `GANGLION`.
    NotOurs,
    /// One of our files, but of another kind.
    WrongKind {
        /// The requested kind.
        wanted: Kind,
        /// The tag in the file.
        found: [u8; 4],
    },
    /// Written by a newer or older program.
    OtherVersion {
        /// What this program reads.
        wanted: Kind,
        /// The version in the file.
        found: u32,
    },
    /// The file ends too early.
    Truncated {
        /// Expected length, bytes.
        expected: u64,
        /// Actual length, bytes.
        found: u64,
    },
    /// More bytes follow the end.
    TrailingBytes {
        /// Where the file should end.
        end: u64,
        /// Bytes after that.
        extra: u64,
    },
    /// The payload is, or claims to be, longer than the limit.
    TooLarge {
        /// Its length.
        length: u64,
    },
    /// The digest does not match what precedes it.
    Damaged {
        /// Position of the digest.
        digest_at: u64,
    },
    /// The bytes are intact but do not decode to the value (a bug in the program that wrote them).
    Content {
        /// bincode's message.
        reason: String,
    },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::NotOurs => write!(f, "not a file of this program: bytes 0 to 7 are not \"GANGLION\""),
            CodecError::WrongKind { wanted, found } => {
                let found = found.escape_ascii();
                write!(f, "not a {}: byte 8 says kind \"{found}\" instead of ", wanted.name)?;
                write!(f, "\"{}\"", wanted.tag.escape_ascii())
            }
            CodecError::OtherVersion { wanted, found } => {
                let age = if *found > wanted.version { "newer" } else { "older" };
                write!(f, "a {} in the {age} format {found} (byte 12); ", wanted.name)?;
                write!(f, "this program reads format {}", wanted.version)
            }
            CodecError::Truncated { expected, found } => {
                write!(f, "the file ends at byte {found}; it should continue to byte {expected}")
            }
            CodecError::TrailingBytes { end, extra } => {
                write!(f, "{extra} bytes too many, from byte {end} on")
            }
            CodecError::TooLarge { length } => {
                write!(f, "a payload of {length} bytes (byte 16); allowed: at most {MAX_PAYLOAD}")
            }
            CodecError::Damaged { digest_at } => {
                write!(f, "damaged: bytes 0 to {digest_at} do not match their digest at byte {digest_at}")
            }
            CodecError::Content { reason } => {
                write!(f, "the payload at byte {HEADER} is malformed: {reason}")
            }
        }
    }
}

impl std::error::Error for CodecError {}

/// A file that could not be read or written.
#[derive(Debug)]
pub enum FileError {
    /// The system reported an error.
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The bytes are wrong.
    Codec {
        /// Which file.
        path: PathBuf,
        /// What is wrong with its contents.
        error: CodecError,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            FileError::Codec { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for FileError {}

/// Longest single record, in bytes: a slot with 64 sensors and a burst of a thousand readings is 40 kB.
const MAX_RECORD: usize = 1 << 22;

/// Appends `value` to `bytes` without a header: for one of many records in a container with its own header.
/// Integers have variable length.
pub fn append<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    bincode::serde::encode_into_std_write(value, bytes, bincode::config::standard())
        .map(drop)
        .map_err(|error| CodecError::Content { reason: error.to_string() })
}

/// Decodes all of `bytes`, as written by [`append`].
pub fn record<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let config = bincode::config::standard().with_limit::<MAX_RECORD>();
    let (value, used) = bincode::serde::decode_from_slice(bytes, config)
        .map_err(|error| CodecError::Content { reason: error.to_string() })?;
    let extra = bytes.len() - used;
    if extra > 0 {
        return Err(CodecError::TrailingBytes { end: used as u64, extra: extra as u64 });
    }
    Ok(value)
}

/// Writes `value` as [`append`] does, into the existing `room`, without an allocation. Returns the number of
/// bytes; `None`: `room` is too small.
pub fn put<T: Serialize>(value: &T, room: &mut [u8]) -> Option<usize> {
    bincode::serde::encode_into_slice(value, room, bincode::config::standard()).ok()
}

/// The value at the start of `bytes`, and its length in bytes.
pub fn take<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, usize)> {
    let config = bincode::config::standard().with_limit::<MAX_RECORD>();
    bincode::serde::decode_from_slice(bytes, config).ok()
}

fn config() -> impl bincode::config::Config {
    bincode::config::legacy().with_limit::<MAX_PAYLOAD>()
}

/// Encodes `value` as the bytes of a whole file.
pub fn encode<T: Serialize>(kind: Kind, value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::new();
    encode_into(kind, value, &mut bytes)?;
    Ok(bytes)
}

/// Like [`encode`], into `bytes`, whose old contents are replaced.
pub fn encode_into<T: Serialize>(kind: Kind, value: &T, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    bytes.clear();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&kind.tag);
    bytes.extend_from_slice(&kind.version.to_le_bytes());
    bytes.extend_from_slice(&[0; size_of::<u64>()]); // the length, once it is known
    bincode::serde::encode_into_std_write(value, bytes, config())
        .map_err(|error| CodecError::Content { reason: error.to_string() })?;
    let length = bytes.len() - HEADER;
    if length > MAX_PAYLOAD {
        return Err(CodecError::TooLarge { length: length as u64 });
    }
    bytes[HEADER - size_of::<u64>()..HEADER].copy_from_slice(&(length as u64).to_le_bytes());
    let digest = blake3::hash(bytes);
    bytes.extend_from_slice(digest.as_bytes());
    Ok(())
}

/// Decodes the bytes of a whole file.
pub fn decode<T: DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, CodecError> {
    let length = payload_length(kind, bytes)?;
    let end = HEADER + length;
    whole(length, bytes.len() as u64)?;
    if blake3::hash(&bytes[..end]).as_bytes() != &bytes[end..] {
        return Err(CodecError::Damaged { digest_at: end as u64 });
    }
    let (value, used) =
        spelled_by(&bytes[HEADER..end]).map_err(|error| CodecError::Content { reason: error.to_string() })?;
    // bincode itself accepts bytes that it does not use.
    if used < length {
        return Err(CodecError::TrailingBytes { end: (HEADER + used) as u64, extra: (length - used) as u64 });
    }
    Ok(value)
}

/// Decodes a payload; returns the value and how many bytes it took. bincode allocates the stated length of a
/// string before it checks that so many bytes follow. So it gets a limit that depends on the payload's
/// length: 512 KiB, 64 MiB, 128 MiB, or twice the longest payload. There are only four, because bincode's
/// limits must be constants, and each compiles another decoder for every type.
fn spelled_by<T: DeserializeOwned>(payload: &[u8]) -> Result<(T, usize), bincode::error::DecodeError> {
    fn within<T: DeserializeOwned, const LIMIT: usize>(
        payload: &[u8],
    ) -> Result<(T, usize), bincode::error::DecodeError> {
        bincode::serde::decode_from_slice(payload, bincode::config::legacy().with_limit::<LIMIT>())
    }
    type Reader<T> = fn(&[u8]) -> Result<(T, usize), bincode::error::DecodeError>;
    let by_length: [(usize, Reader<T>); 3] = [
        (0x4_0000, within::<T, 0x8_0000>),
        (0x200_0000, within::<T, 0x400_0000>),
        (0x400_0000, within::<T, 0x800_0000>),
    ];
    let fitting = by_length.iter().find(|(longest, _)| payload.len() <= *longest);
    fitting.map_or(within::<T, { 2 * MAX_PAYLOAD }> as Reader<T>, |(_, reader)| *reader)(payload)
}

/// Checks the header and returns the length of the payload.
fn payload_length(kind: Kind, bytes: &[u8]) -> Result<usize, CodecError> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(CodecError::NotOurs);
    }
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        let (expected, found) = ((HEADER + DIGEST) as u64, bytes.len() as u64);
        return Err(CodecError::Truncated { expected, found });
    };
    let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    if word(8) != kind.tag {
        return Err(CodecError::WrongKind { wanted: kind, found: word(8) });
    }
    let version = u32::from_le_bytes(word(12));
    if version != kind.version {
        return Err(CodecError::OtherVersion { wanted: kind, found: version });
    }
    let length = u64::from(u32::from_le_bytes(word(16))) | u64::from(u32::from_le_bytes(word(20))) << 32;
    match usize::try_from(length) {
        Ok(fits) if fits <= MAX_PAYLOAD => Ok(fits),
        _ => Err(CodecError::TooLarge { length }),
    }
}

/// Writes a whole file or leaves the old one as it was, even if the power fails.
pub fn save<T: Serialize>(path: &Path, kind: Kind, value: &T) -> Result<(), FileError> {
    save_by(path, kind, value, &mut Vec::new(), None)
}

/// Like [`save`], with `bytes` as its buffer, for a caller that writes often and reuses the buffer instead of
/// allocating each time. With `kept`, the old file stays under that name.
pub fn save_by<T: Serialize>(
    path: &Path,
    kind: Kind,
    value: &T,
    bytes: &mut Vec<u8>,
    kept: Option<&OsStr>,
) -> Result<(), FileError> {
    encode_into(kind, value, bytes).map_err(|error| FileError::Codec { path: path.to_path_buf(), error })?;
    let replaced = match kept {
        Some(kept) => replace_and_keep(path, bytes, kept),
        None => replace(path, bytes),
    };
    replaced.map_err(|error| FileError::Io { path: path.to_path_buf(), error })
}

/// Reads a whole file.
pub fn load<T: DeserializeOwned>(path: &Path, kind: Kind) -> Result<T, FileError> {
    load_within(path, kind, MAX_PAYLOAD)
}

/// Like [`load`], for a kind whose payload is never longer than `most`. The header is checked before memory
/// is allocated for the payload.
pub fn load_within<T: DeserializeOwned>(path: &Path, kind: Kind, most: usize) -> Result<T, FileError> {
    let of_io = |error| FileError::Io { path: path.to_path_buf(), error };
    let of_codec = |error| FileError::Codec { path: path.to_path_buf(), error };
    let mut file = BoundedFile::open(path, (HEADER + MAX_PAYLOAD + DIGEST) as u64).map_err(of_io)?;
    let mut bytes = file.begin(HEADER as u64).map_err(of_io)?;
    let length = payload_length(kind, &bytes).map_err(of_codec)?;
    if length > most {
        return Err(of_codec(CodecError::TooLarge { length: length as u64 }));
    }
    whole(length, file.length()).map_err(of_codec)?;
    let no_room = |refusal: NoRoom| io::Error::new(io::ErrorKind::OutOfMemory, refusal.to_string());
    room::demand(file.length()).map_err(|refusal| of_io(no_room(refusal)))?;
    file.exactly().read_to_end(&mut bytes).map_err(of_io)?;
    decode(kind, &bytes).map_err(of_codec)
}

/// Checks that a file with a payload of `length` bytes is `found` bytes long.
fn whole(length: usize, found: u64) -> Result<(), CodecError> {
    let expected = (HEADER + length + DIGEST) as u64;
    if found < expected {
        return Err(CodecError::Truncated { expected, found });
    }
    if found > expected {
        return Err(CodecError::TrailingBytes { end: expected, extra: found - expected });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::fs;

    const THING: Kind = Kind { tag: *b"TEST", name: "thing", version: 3 };

    #[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
    enum Choice {
        Nothing,
        Words(Vec<String>),
    }
    #[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
    struct Thing {
        number: u32,
        choice: Choice,
        ratio: f32,
    }

    fn thing() -> Thing {
        Thing { number: 258, choice: Choice::Words(vec!["ab".into()]), ratio: -1.5 }
    }

    fn again(bytes: &[u8]) -> Result<Thing, CodecError> {
        decode(THING, bytes)
    }

    #[test]
    fn the_file_format_never_changes() {
        let bytes = encode(THING, &thing()).unwrap();
        #[rustfmt::skip]
        let head = [
            b'G', b'A', b'N', b'G', b'L', b'I', b'O', b'N', b'T', b'E', b'S', b'T',
            3, 0, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0, // version, length
            2, 1, 0, 0, // number
            1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, // second choice, one word
            2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', // of two letters
            0, 0, 0xC0, 0xBF, // -1.5
        ];
        assert_eq!(bytes[..head.len()], head);
        assert_eq!(bytes.len(), head.len() + 32);
        let digest = blake3::hash(&head).to_hex();
        assert_eq!(digest.as_str(), "d2addb9d0f0f7e91beca17f9ef50ea9b07cb80de019a15f7904f17b41070f957");
        assert_eq!(bytes[head.len()..], *blake3::hash(&head).as_bytes());
        assert_eq!(again(&bytes).unwrap(), thing());
    }

    /// A fuzzer found that a snapshot of 313 kB could take 118 MB of memory.
    #[test]
    fn a_text_that_claims_too_much_is_refused_unallocated() {
        for (length, limit) in [
            (1 << 18, 1 << 19),
            ((1 << 18) + 1, 1 << 26),
            (1 << 25, 1 << 26),
            ((1 << 25) + 1, 1 << 27),
            (1 << 26, 1 << 27),
            ((1 << 26) + 1, 2 * MAX_PAYLOAD),
        ] {
            let mut payload = vec![b'a'; length];
            let mut refusal_of = |claim: usize| {
                payload[..size_of::<u64>()].copy_from_slice(&(claim as u64).to_le_bytes());
                spelled_by::<String>(&payload).expect_err("no text is longer than its file").to_string()
            };
            assert!(refusal_of(limit).contains("LimitExceeded"), "a payload of {length}");
            // Within the limit bincode allocates the text, then finds that bytes are missing.
            assert!(refusal_of(limit / 2 + 1).contains("UnexpectedEnd"), "a payload of {length}");
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let bytes = encode(THING, &thing()).unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut broken = bytes.clone();
                broken[at] ^= 1 << bit;
                let error = again(&broken).expect_err("a flipped bit");
                let names_the_place = match at {
                    0..8 => error == CodecError::NotOurs,
                    8..12 => matches!(error, CodecError::WrongKind { .. }),
                    12..16 => matches!(error, CodecError::OtherVersion { .. }),
                    16..24 => matches!(
                        error,
                        CodecError::Truncated { .. }
                            | CodecError::TrailingBytes { .. }
                            | CodecError::TooLarge { .. }
                    ),
                    _ => matches!(error, CodecError::Damaged { .. }),
                };
                assert!(names_the_place, "byte {at} bit {bit}: {error:?}");
            }
        }
    }

    #[test]
    fn truncated_files_are_refused() {
        let mut bytes = encode(THING, &thing()).unwrap();
        let whole = bytes.len() as u64;
        for length in 0..bytes.len() {
            match again(&bytes[..length]) {
                Err(CodecError::Truncated { expected, found }) => {
                    assert_eq!(found, length as u64);
                    assert!(expected > found && expected <= whole);
                }
                other => panic!("{length} bytes: {other:?}"),
            }
        }
        bytes.push(0);
        assert_eq!(again(&bytes), Err(CodecError::TrailingBytes { end: whole, extra: 1 }));
    }

    #[test]
    fn unused_payload_bytes_are_refused() {
        // A valid container whose payload has one number too many: only the check of `used` detects it.
        let bytes = encode(THING, &(thing(), 7u32)).unwrap();
        assert_eq!(again(&bytes), Err(CodecError::TrailingBytes { end: 54, extra: 4 }));
    }

    #[test]
    fn a_non_canonical_payload_is_refused() {
        let bytes = encode(THING, &(258u32, 9u32)).unwrap();
        let error = again(&bytes).expect_err("there is no tenth choice");
        assert!(matches!(error, CodecError::Content { .. }), "{error:?}");
        // A string that claims 2^60 letters, with a valid digest: refused before any memory is allocated.
        let bytes = encode(THING, &(258u32, 1u32, 1u64, 1u64 << 60)).unwrap();
        assert!(matches!(again(&bytes), Err(CodecError::Content { .. })));
        // A string that claims to be longer than the file but shorter than the longest file: refused as well.
        let bytes = encode(THING, &(258u32, 1u32, 1u64, 1u64 << 29)).unwrap();
        let found = again(&bytes).expect_err("the letters are missing");
        assert!(found.to_string().contains("LimitExceeded"), "{found}");
    }

    #[test]
    fn newer_older_and_foreign_files_are_told_apart() {
        let bytes = encode(Kind { version: 4, ..THING }, &thing()).unwrap();
        let error = again(&bytes).unwrap_err();
        assert_eq!(error, CodecError::OtherVersion { wanted: THING, found: 4 });
        assert!(error.to_string().contains("newer format 4"), "{error}");
        let bytes = encode(Kind { tag: *b"ELSE", ..THING }, &thing()).unwrap();
        assert_eq!(again(&bytes), Err(CodecError::WrongKind { wanted: THING, found: *b"ELSE" }));
        assert_eq!(again(b"S1,S2,S3"), Err(CodecError::NotOurs));
        assert_eq!(again(b"S1"), Err(CodecError::NotOurs));
    }

    #[test]
    fn files_are_replaced_atomically_without_leftovers() {
        let folder = std::env::temp_dir().join(format!("ganglion-codec-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("thing");
        for number in [1, 2] {
            let value = Thing { number, ..thing() };
            save(&path, THING, &value).unwrap();
            assert_eq!(load::<Thing>(&path, THING).unwrap(), value);
        }
        // A name that cannot be written to: the folder itself.
        assert!(matches!(save(&folder, THING, &thing()), Err(FileError::Io { .. })));
        assert!(matches!(load::<Thing>(&folder.join("none"), THING), Err(FileError::Io { .. })));
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["thing"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
