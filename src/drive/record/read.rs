//! Reads a recording from its start, record by record, however large it is. A truncated recording is readable
//! up to its last complete chunk. Any input is either accepted or reported as an error.

use super::lengths;
use super::slot::{FORMAT, Slot, Step};
use super::{BOARD_FILE, CHECKPOINT_ENCODING, FIELD_COPY, METADATA, SLOT_ENCODING};
use crate::system::codec::CodecError;
use crate::system::sanitize::{compared, quoted};
use mcap::records::Record;
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};
use mcap::{McapError, parse_record};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

/// Longest record or chunk of a file, bytes: this program's chunks end soon after 256 KiB, and a board file
/// is at most 1 MB. Prevents a file that claims a longer one from exhausting the memory.
const LONGEST: usize = 16 << 20;
/// Maximum number of bytes per read from the file.
const AT_ONCE: usize = 1 << 16;

/// The next item in a recording.
#[derive(Debug)]
pub enum Event {
    /// The metadata of the run.
    Facts(BTreeMap<String, String>),
    /// The board's effective values.
    Board(String),
    /// A copy of the field.
    FieldCopy(Vec<u8>),
    /// A slot, with the checkpoint before it, if there is one.
    Step(Box<Step>),
    /// A message for viewers.
    Message {
        /// Its channel.
        topic: String,
        /// Its time, nanoseconds of the robot's clock.
        time: u64,
        /// Its JSON.
        json: Vec<u8>,
    },
    /// The metadata at the end of the run, if the file is complete.
    Ended(BTreeMap<String, String>),
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Complete.
    Whole,
    /// The file is truncated, by a loss of power or a disk failure. Everything up to the last complete chunk
    /// was read.
    Cut,
}

/// Why the rest of a recording cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The system returned an error.
    Io(io::Error),
    /// Not an MCAP file.
    NotMcap,
    /// An MCAP file of another program.
    NotOurs,
    /// A recording by another version of this program, with slots in this format.
    OtherFormat(String),
    /// The bytes before this position are damaged.
    Damaged {
        /// Bytes read so far.
        before: u64,
        /// What is wrong.
        reason: String,
    },
    /// The slot that ends before this position cannot be decoded.
    Slot {
        /// Bytes read so far.
        before: u64,
        /// What is wrong with it.
        error: CodecError,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::NotMcap => f.write_str("not an MCAP file: it does not start like one"),
            ReadError::NotOurs => {
                f.write_str("an MCAP file, but not a ganglion recording: it has no metadata of a run")
            }
            ReadError::OtherFormat(found) => write!(
                f,
                "its slots are in format {}, and this program reads format {FORMAT}: \
                 use the version that recorded it",
                quoted(found)
            ),
            ReadError::Damaged { before, reason } => write!(f, "damaged before byte {before}: {reason}"),
            ReadError::Slot { before, error } => {
                write!(f, "the slot before byte {before} is damaged: {error}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a recording.
pub struct Reader<R> {
    source: R,
    reader: LinearReader,
    /// Name and encoding of each channel.
    channels: BTreeMap<u16, (String, String)>,
    /// The checkpoint before the next slot.
    checkpoint: Option<Vec<u8>>,
    known: bool,
    ended: bool,
    at: u64,
    end: Option<End>,
}

impl<R: Read> Reader<R> {
    /// A reader that starts at the first byte of `source`.
    pub fn new(source: R) -> Reader<R> {
        let options = LinearReaderOptions::default()
            .with_skip_end_magic(true)
            .with_prevalidate_chunk_crcs(true)
            .with_record_length_limit(LONGEST);
        let reader = LinearReader::new_with_options(options);
        Reader {
            source,
            reader,
            channels: BTreeMap::new(),
            checkpoint: None,
            known: false,
            ended: false,
            at: 0,
            end: None,
        }
    }

    /// How the file ends, once everything was read.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Bytes read so far.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The next item; `None` at the end. After an error, do not call it again.
    pub fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        while let Some(record) = self.next_record()? {
            if let Some(event) = self.event(record)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// The next record of the file; `None` at the end. Fails if the metadata state another format, or if the
    /// file ends without the metadata of a run.
    pub(super) fn next_record(&mut self) -> Result<Option<Record<'static>>, ReadError> {
        while self.end.is_none() {
            let event = match self.reader.next_event() {
                None => {
                    self.end = Some(if self.ended { End::Whole } else { End::Cut });
                    break;
                }
                Some(Ok(LinearReadEvent::ReadRequest(wanted))) => {
                    let room = self.reader.insert(wanted.clamp(1, AT_ONCE));
                    let got = self.source.read(room).map_err(ReadError::Io)?;
                    self.reader.notify_read(got);
                    self.at += got as u64;
                    continue;
                }
                Some(Ok(LinearReadEvent::Record { opcode, .. })) if !lengths::is_used(opcode) => continue,
                Some(Ok(LinearReadEvent::Record { data, opcode })) if !lengths::fit(opcode, data) => {
                    self.end = Some(End::Cut);
                    let reason = format!("a record of kind {opcode} is shorter than its fields claim");
                    return Err(ReadError::Damaged { before: self.at, reason });
                }
                Some(Ok(LinearReadEvent::Record { data, opcode })) => {
                    parse_record(opcode, data).map(|record| record.into_owned())
                }
                Some(Err(error)) => Err(error),
            };
            match event.map_err(|error| (self.at, error)) {
                Ok(record) => {
                    self.heed(&record)?;
                    return Ok(Some(record));
                }
                Err((_, McapError::UnexpectedEof)) if self.known => self.end = Some(End::Cut),
                Err((before, McapError::BadMagic | McapError::UnexpectedEof)) if before < 4096 => {
                    self.end = Some(End::Cut);
                    return Err(ReadError::NotMcap);
                }
                Err((before, error)) => {
                    self.end = Some(End::Cut);
                    return Err(ReadError::Damaged { before, reason: compared(&error.to_string()) });
                }
            }
        }
        match self.known {
            true => Ok(None),
            false if self.at < mcap::MAGIC.len() as u64 => Err(ReadError::NotMcap),
            false => Err(ReadError::NotOurs),
        }
    }

    /// Handles a record about the file as a whole.
    fn heed(&mut self, record: &Record<'static>) -> Result<(), ReadError> {
        match record {
            Record::Metadata(found) if found.name == METADATA => {
                let format = found.metadata.get("format").cloned().unwrap_or_default();
                self.known = true;
                if format != FORMAT.to_string() {
                    self.end = Some(End::Cut);
                    return Err(ReadError::OtherFormat(format));
                }
            }
            Record::DataEnd(_) => self.ended = true,
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, record: Record<'static>) -> Result<Option<Event>, ReadError> {
        Ok(match record {
            Record::Metadata(found) if found.name == METADATA => Some(Event::Facts(found.metadata)),
            Record::Metadata(found) if found.name.strip_prefix(METADATA) == Some(".end") => {
                Some(Event::Ended(found.metadata))
            }
            Record::Attachment { header, data, .. } if header.name == BOARD_FILE => {
                Some(Event::Board(String::from_utf8_lossy(&data).into_owned()))
            }
            Record::Attachment { header, data, .. } if header.name == FIELD_COPY => {
                Some(Event::FieldCopy(data.into_owned()))
            }
            Record::Channel(channel) => {
                self.channels.insert(channel.id, (channel.topic, channel.message_encoding));
                None
            }
            Record::Message { header, data } if self.known => {
                let Some((topic, encoding)) = self.channels.get(&header.channel_id) else { return Ok(None) };
                if encoding == CHECKPOINT_ENCODING {
                    self.checkpoint = Some(data.into_owned());
                    return Ok(None);
                }
                if encoding != SLOT_ENCODING {
                    let (topic, time) = (topic.clone(), header.log_time);
                    return Ok(Some(Event::Message { topic, time, json: data.into_owned() }));
                }
                let slot = Slot::read(&data).map_err(|error| ReadError::Slot { before: self.at, error })?;
                Some(Event::Step(Box::new(Step { checkpoint: self.checkpoint.take(), slot })))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Facts;
    use super::super::file::McapFile;
    use super::super::memory::Memory;
    use super::super::slot::full;
    use super::*;
    use mcap::records::op;

    /// A file of 300 slots in chunks of 100.
    fn recorded() -> Vec<u8> {
        let memory = Memory::default();
        let facts = Facts { board: "name = 'x'".into(), ..Facts::default() };
        let mut file = McapFile::begin(Box::new(memory.clone()), &facts, 0).unwrap();
        for index in 0..300 {
            file.slot(&full(index)).unwrap();
            if index % 100 == 99 {
                file.flush().unwrap();
            }
        }
        file.status(5, "{}").unwrap();
        file.finish(BTreeMap::from([("why".into(), "over".into())])).unwrap();
        memory.0.lock().unwrap().clone()
    }

    #[test]
    fn text_from_a_damaged_file_does_not_reach_a_terminal_raw() {
        let mut bytes = recorded();
        let at = bytes.windows(7).position(|window| window == b"\x03\0\0\0lz4").unwrap() + 4;
        bytes[at..at + 3].copy_from_slice(b"\x1b*v");
        let words = slots(&bytes).1.unwrap_err().to_string();
        assert!(words.contains("\\x1b*v"), "{words:?}");
        let words = ReadError::OtherFormat("\x1b[2J".into()).to_string();
        assert!(words.contains("\\x1b[2J"), "{words:?}");
    }

    fn slots(bytes: &[u8]) -> (u64, Result<Option<End>, ReadError>) {
        let mut reader = Reader::new(bytes);
        let mut slots = 0;
        loop {
            match reader.next_event() {
                Ok(Some(Event::Step(step))) => {
                    assert_eq!(format!("{:?}", step.slot), format!("{:?}", full(slots)));
                    slots += 1;
                }
                Ok(Some(_)) => {}
                Ok(None) => return (slots, Ok(reader.end())),
                Err(error) => return (slots, Err(error)),
            }
        }
    }

    #[test]
    fn a_cut_file_is_readable_up_to_its_last_chunk() {
        let bytes = recorded();
        let (whole, end) = slots(&bytes);
        assert_eq!((whole, end.unwrap()), (300, Some(End::Whole)));
        let mut seen = std::collections::BTreeSet::new();
        for cut in (0..bytes.len()).step_by(997) {
            match slots(&bytes[..cut]) {
                (read, Ok(end)) => {
                    assert_eq!(read % 100, 0, "cut at {cut}");
                    assert!(read == 300 || end == Some(End::Cut), "cut at {cut}");
                    seen.insert(read);
                }
                (read, Err(error)) => {
                    assert_eq!(read, 0, "cut at {cut}: {error}");
                    assert!(
                        matches!(error, ReadError::NotMcap | ReadError::NotOurs),
                        "cut at {cut}: {error}"
                    );
                }
            }
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 100, 200, 300]);
    }

    #[test]
    fn a_flipped_bit_is_damage_and_never_another_value() {
        let bytes = recorded();
        let mut damaged = 0;
        for place in (0..bytes.len()).step_by(997) {
            let mut flipped = bytes.clone();
            flipped[place] ^= 4;
            // A flipped bit goes unnoticed where it affects no slot: in an index or in text for viewers.
            let (_, end) = slots(&flipped);
            damaged += u32::from(matches!(end, Err(ReadError::Damaged { .. })));
        }
        assert!(damaged > 20, "{damaged}");
    }

    /// Without these checks, `mcap` would reserve 4 GB for the first record and panic at the second.
    #[test]
    fn a_record_that_claims_too_much_is_damage() {
        let attachment = [&[0; 16][..], &[0; 8], &[0; 8]].concat();
        for (opcode, record) in [(op::CHANNEL, vec![0xff; 24]), (op::ATTACHMENT, attachment)] {
            let mut bytes = mcap::MAGIC.to_vec();
            bytes.push(opcode);
            bytes.extend((record.len() as u64).to_le_bytes());
            bytes.extend(record);
            let (_, end) = slots(&bytes);
            let reason = end.expect_err("the record is shorter than its fields claim").to_string();
            assert!(reason.contains(&format!("a record of kind {opcode} is shorter")), "{reason}");
        }
    }

    #[test]
    fn foreign_files_are_refused_with_the_reason() {
        assert!(matches!(slots(b"time,sonar\n1,2\n").1, Err(ReadError::NotMcap)));
        assert!(matches!(slots(b"").1, Err(ReadError::NotMcap)));
        let mut other = mcap::Writer::new(io::Cursor::new(Vec::new())).unwrap();
        other.finish().unwrap();
        assert!(matches!(slots(&other.into_inner().into_inner()).1, Err(ReadError::NotOurs)));
    }
}
