//! Copies part of a recording to a new file, message by message, without decoding the slots. A truncated
//! recording is copied up to its last complete chunk; the new file itself is complete.

use super::file::write_options;
use super::read::{End, ReadError, Reader};
use super::store::Medium;
use super::{CHECKPOINT_TOPIC, SLOT_TOPIC};
use crate::base::time::Span;
use mcap::records::{MessageHeader, Record, SchemaHeader};
use mcap::write::{Metadata, NoSeek};
use mcap::{Attachment, McapError, Writer};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};

/// Which part is copied. Times count from the recording's first slot. The copy starts at the last checkpoint
/// before `from`, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Start of the part; `None`: the start of the recording.
    pub from: Option<Span>,
    /// End of the part; `None`: the end of the recording.
    pub to: Option<Span>,
}

/// What was copied.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Copied {
    /// Slots.
    pub slots: u64,
    /// Time from the first copied slot to the last, seconds.
    pub seconds: f64,
    /// Time of the first copied slot, seconds after the first slot of the recording.
    pub from_s: f64,
    /// Whether the recording is complete.
    pub whole: bool,
    /// If bytes after the copied part are damaged: what is wrong with them.
    pub damage: Option<String>,
}

/// Why copying failed.
#[derive(Debug)]
pub enum CopyError {
    /// The recording cannot be read, or is damaged before the first copied slot.
    Read(ReadError),
    /// The copy cannot be written.
    Write(io::Error),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Read(error) => error.fmt(f),
            CopyError::Write(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CopyError {}

impl From<McapError> for CopyError {
    fn from(error: McapError) -> CopyError {
        CopyError::Write(match error {
            McapError::Io(error) => error,
            other => io::Error::other(other),
        })
    }
}

/// A message before the part starts.
type Message = (MessageHeader, Vec<u8>);

struct Copier<W: Write> {
    writer: Writer<NoSeek<W>>,
    keep: Keep,
    /// Channel ids in the recording, each with its id in the copy and its topic.
    channels: BTreeMap<u16, (u16, String)>,
    schemas: BTreeMap<u16, u16>,
    /// Until the part starts: the messages since the last checkpoint or, without a checkpoint, since the
    /// last slot. `None` from then on.
    held: Option<Vec<Message>>,
    has_checkpoint: bool,
    /// Time of the recording's first slot.
    first: Option<u64>,
    times: Option<(u64, u64)>,
    copied: Copied,
}

/// Copies the part `keep` of `source` to `target`. `word`, which is stored in the copy, says how it was made.
/// `watch` is called with the number of bytes read.
pub fn copy(
    source: impl Read,
    target: Box<dyn Medium>,
    keep: Keep,
    word: &str,
    mut watch: impl FnMut(u64),
) -> Result<Copied, CopyError> {
    let writer = write_options().create(NoSeek::new(target))?;
    let mut copier = Copier {
        writer,
        keep,
        channels: BTreeMap::new(),
        schemas: BTreeMap::new(),
        held: keep.from.map(|_| Vec::new()),
        has_checkpoint: false,
        first: None,
        times: None,
        copied: Copied::default(),
    };
    let mut reader = Reader::new(source);
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                watch(reader.at());
                if !copier.take(record, word)? {
                    break;
                }
            }
            Ok(None) => {
                copier.copied.whole = reader.end() == Some(End::Whole);
                break;
            }
            // Everything before the damage is intact: each chunk has a checksum.
            Err(ReadError::Damaged { before, reason }) if copier.copied.slots > 0 => {
                copier.copied.damage = Some(format!("damaged before byte {before}: {reason}"));
                break;
            }
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
    copier.finish(word)
}

impl<W: Write> Copier<W> {
    /// Handles one record; returns whether the part continues after it.
    fn take(&mut self, record: Record<'static>, word: &str) -> Result<bool, CopyError> {
        match record {
            Record::Metadata(mut found) => {
                if found.name == super::METADATA {
                    found.metadata.insert("copied".into(), word.into());
                }
                let Metadata { name, metadata } = found;
                self.writer.write_metadata(&Metadata { name, metadata })?;
            }
            Record::Attachment { header, data, .. } => self.writer.attach(&Attachment {
                log_time: header.log_time,
                create_time: header.create_time,
                name: header.name,
                media_type: header.media_type,
                data,
            })?,
            Record::Schema { header, data } => {
                let SchemaHeader { id, name, encoding } = header;
                let copied = self.writer.add_schema(&name, &encoding, &data)?;
                self.schemas.insert(id, copied);
            }
            Record::Channel(channel) => {
                let schema = self.schemas.get(&channel.schema_id).copied().unwrap_or(0);
                let (topic, encoding) = (&channel.topic, &channel.message_encoding);
                let copied = self.writer.add_channel(schema, topic, encoding, &channel.metadata)?;
                self.channels.insert(channel.id, (copied, channel.topic));
            }
            Record::Message { header, data } => return self.message(header, data.into_owned()),
            _ => {}
        }
        Ok(true)
    }

    fn message(&mut self, header: MessageHeader, data: Vec<u8>) -> Result<bool, CopyError> {
        let Some((channel_id, topic)) = self.channels.get(&header.channel_id) else { return Ok(true) };
        let (is_slot, is_checkpoint) = (topic == SLOT_TOPIC, topic == CHECKPOINT_TOPIC);
        let header = MessageHeader { channel_id: *channel_id, ..header };
        let time = header.log_time;
        let at = is_slot.then(|| Span::from_nanos(time.saturating_sub(*self.first.get_or_insert(time))));
        if at.zip(self.keep.to).is_some_and(|(at, to)| at > to) {
            return Ok(false);
        }
        let Some(held) = &mut self.held else {
            self.write(&header, &data, is_slot)?;
            return Ok(true);
        };
        if is_checkpoint {
            held.clear();
            self.has_checkpoint = true;
        }
        held.push((header, data));
        let Some(at) = at else { return Ok(true) };
        if self.keep.from.is_none_or(|from| at >= from) {
            let slots = self.channels.values().find(|(_, topic)| topic == SLOT_TOPIC).map(|(id, _)| *id);
            for (header, data) in self.held.take().unwrap_or_default() {
                self.write(&header, &data, Some(header.channel_id) == slots)?;
            }
        } else if !self.has_checkpoint {
            held.clear(); // without a checkpoint, earlier messages are of no use to a replay
        }
        Ok(true)
    }

    fn write(&mut self, header: &MessageHeader, data: &[u8], is_slot: bool) -> Result<(), CopyError> {
        self.writer.write_to_known_channel(header, data)?;
        if is_slot {
            self.copied.slots += 1;
            let (first, _) = *self.times.get_or_insert((header.log_time, header.log_time));
            self.times = Some((first, header.log_time));
        }
        Ok(())
    }

    fn finish(mut self, word: &str) -> Result<Copied, CopyError> {
        let seconds = |nanos: u64| Span::from_nanos(nanos).as_secs_f64();
        if let (Some((first, last)), Some(begin)) = (self.times, self.first) {
            self.copied.seconds = seconds(last.saturating_sub(first));
            self.copied.from_s = seconds(first.saturating_sub(begin));
        }
        if !self.copied.whole {
            let words = BTreeMap::from([("copied".to_string(), word.to_string())]);
            self.writer
                .write_metadata(&Metadata { name: format!("{}.end", super::METADATA), metadata: words })?;
        }
        self.writer.finish()?;
        Ok(self.copied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::record::memory::Memory;
    use crate::drive::record::{FORMAT, METADATA};

    /// A slot each second from 0 to 99 s, with a reading 0.25 s before it. A checkpoint comes before the slot
    /// of each second in `at`.
    fn recording(at: &[u64]) -> Vec<u8> {
        let target = Memory::default();
        let mut writer = write_options().create(NoSeek::new(target.clone())).unwrap();
        let format = BTreeMap::from([("format".to_string(), FORMAT.to_string())]);
        writer.write_metadata(&Metadata { name: METADATA.into(), metadata: format }).unwrap();
        let topics = [CHECKPOINT_TOPIC, "reading", SLOT_TOPIC];
        let channels = topics.map(|topic| writer.add_channel(0, topic, "", &BTreeMap::new()).unwrap());
        let [checkpoint, reading, slot] = channels;
        for second in 0..100 {
            for channel_id in [checkpoint, reading, slot] {
                if channel_id == checkpoint && !at.contains(&second) {
                    continue;
                }
                let early = if channel_id == reading { 0 } else { 250_000_000 };
                let log_time = second * 1_000_000_000 + early;
                let header = MessageHeader { channel_id, sequence: 0, log_time, publish_time: log_time };
                writer.write_to_known_channel(&header, &[]).unwrap();
            }
        }
        writer.finish().unwrap();
        drop(writer);
        target.0.lock().unwrap().clone()
    }

    fn cut(source: &[u8], from: u64) -> (Copied, usize) {
        let (target, keep) =
            (Memory::default(), Keep { from: Some(Span::from_secs_f64(from as f64)), to: None });
        let copied = copy(source, Box::new(target.clone()), keep, "a test", |_| ()).unwrap();
        let bytes = target.0.lock().unwrap().clone();
        let mut reader = Reader::new(&bytes[..]);
        let records = std::iter::from_fn(|| reader.next_record().unwrap());
        (copied, records.filter(|record| matches!(record, Record::Message { .. })).count())
    }

    #[test]
    fn a_part_begins_at_the_checkpoint_before_it() {
        let (copied, messages) = cut(&recording(&[0, 50, 80]), 90);
        assert_eq!((copied.slots, copied.from_s, messages), (20, 80.0, 41));
    }

    #[test]
    fn without_a_checkpoint_a_part_begins_at_its_slot() {
        let (copied, messages) = cut(&recording(&[]), 90);
        assert_eq!((copied.slots, copied.from_s, messages), (10, 90.0, 20));
    }
}
