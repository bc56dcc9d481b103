//! One MCAP file: its header, the slots, their messages for viewers, its footer. A truncated file loses at
//! most its last chunk. Chunks are compressed by LZ4, which takes the writing thread little time.

use super::facts::Facts;
use super::image::image;
use super::slot::{FORMAT, Slot, Step};
use super::store::Medium;
use super::topic::Topic;
use super::topics::{ProcessMessage, Topics};
use super::{
    BOARD_FILE, CHECKPOINT_ENCODING, CHECKPOINT_TOPIC, FIELD_COPY, METADATA, SLOT_ENCODING, SLOT_TOPIC,
};
use crate::base::time::Instant;
use crate::field::slices::SlicesMessage;
use mcap::records::MessageHeader;
use mcap::write::{Metadata, NoSeek};
use mcap::{Attachment, Compression, McapError, WriteOptions, Writer};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Size at which a chunk is written, bytes. A chunk is also written, and synced, every second, so a power
/// failure loses a second or two.
const CHUNK: u64 = 256 * 1024;

/// The storage medium and the number of bytes written to it. Shared by the MCAP writer, which writes, and
/// [`McapFile`], which syncs.
#[derive(Clone)]
struct Shared(Arc<Mutex<(Box<dyn Medium>, u64)>>);

impl Shared {
    fn with<T>(&self, what: impl FnOnce(&mut (Box<dyn Medium>, u64)) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|(medium, size)| {
            let written = medium.write(bytes)?;
            *size += written as u64;
            Ok(written)
        })
    }
    fn flush(&mut self) -> io::Result<()> {
        self.with(|(medium, _)| medium.flush())
    }
}

/// A file that is being written.
pub struct McapFile {
    writer: Writer<NoSeek<Shared>>,
    medium: Shared,
    checkpoints: u16,
    slots: u16,
    people: [u16; Topic::ALL.len()],
    topics: Topics,
    sequence: u32,
}

/// How every recording is written: compressed, and front to back, so that a file that breaks off is readable.
pub(super) fn write_options() -> WriteOptions {
    WriteOptions::new()
        .compression(Some(Compression::Lz4))
        .disable_seeking(true)
        .library(concat!("ganglion ", env!("CARGO_PKG_VERSION")))
}

impl McapFile {
    /// Starts a file on `medium`; `part` is its number within the run, from 0.
    pub fn begin(medium: Box<dyn Medium>, facts: &Facts, part: u64) -> io::Result<McapFile> {
        let medium = Shared(Arc::new(Mutex::new((medium, 0))));
        let options = write_options().chunk_size(Some(CHUNK));
        let mut writer = options.create(NoSeek::new(medium.clone())).map_err(of_mcap)?;
        let mut words = facts.words.clone();
        words.insert("format".into(), FORMAT.to_string());
        words.insert("part".into(), part.to_string());
        let head = Metadata { name: METADATA.into(), metadata: words };
        writer.write_metadata(&head).map_err(of_mcap)?;
        writer
            .attach(&attachment(BOARD_FILE, "application/toml", facts.board.as_bytes()))
            .map_err(of_mcap)?;
        let mut exact =
            |topic, encoding| writer.add_channel(0, topic, encoding, &BTreeMap::new()).map_err(of_mcap);
        let checkpoints = exact(CHECKPOINT_TOPIC, CHECKPOINT_ENCODING)?;
        let slots = exact(SLOT_TOPIC, SLOT_ENCODING)?;
        let mut people = [0; Topic::ALL.len()];
        for (id, topic) in people.iter_mut().zip(Topic::ALL) {
            let schema = topic.schema(facts).to_string();
            let schema =
                writer.add_schema(&topic.schema_name(), "jsonschema", schema.as_bytes()).map_err(of_mcap)?;
            *id = writer.add_channel(schema, topic.name(), "json", &BTreeMap::new()).map_err(of_mcap)?;
        }
        Ok(McapFile { writer, medium, checkpoints, slots, people, topics: Topics::new(facts), sequence: 0 })
    }

    /// Adds a slot, preceded by its checkpoint if it has one.
    pub fn step(&mut self, step: &Step) -> io::Result<()> {
        if let Some(checkpoint) = &step.checkpoint {
            self.message(self.checkpoints, step.slot.slot.as_nanos(), checkpoint)?;
        }
        self.slot(&step.slot)
    }

    /// Adds a slot.
    pub fn slot(&mut self, slot: &Slot) -> io::Result<()> {
        let bytes = slot.bytes().map_err(io::Error::other)?;
        let time = slot.slot.as_nanos();
        self.message(self.slots, time, &bytes)?;
        for (topic, message) in self.topics.of(slot) {
            self.message(self.people[topic as usize], time, &message)?;
        }
        Ok(())
    }

    /// Adds the robot's status as it was at `time`.
    pub fn status(&mut self, time: u64, json: &str) -> io::Result<()> {
        self.message(self.people[Topic::Status as usize], time, json.as_bytes())
    }

    /// Adds the process's resource use at `time`.
    pub fn process(&mut self, time: u64, message: &ProcessMessage) -> io::Result<()> {
        let json = serde_json::to_vec(message)?;
        self.message(self.people[Topic::Process as usize], time, &json)
    }

    /// Adds slices through the field as it was at `time`.
    pub fn slices(&mut self, time: Instant, slices: SlicesMessage) -> io::Result<()> {
        let json = serde_json::to_vec(&image(time, slices))?;
        self.message(self.people[Topic::Slices as usize], time.as_nanos(), &json)
    }

    /// Adds a copy of the field.
    pub fn field_copy(&mut self, copy: &[u8]) -> io::Result<()> {
        self.writer.attach(&attachment(FIELD_COPY, "application/octet-stream", copy)).map_err(of_mcap)
    }

    fn message(&mut self, channel_id: u16, log_time: u64, data: &[u8]) -> io::Result<()> {
        let header = MessageHeader { channel_id, sequence: self.sequence, log_time, publish_time: log_time };
        self.sequence = self.sequence.wrapping_add(1);
        self.writer.write_to_known_channel(&header, data).map_err(of_mcap)
    }

    /// Ends the chunk and syncs it to the disk before returning.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush().map_err(of_mcap)?;
        self.medium.with(|(medium, _)| medium.sync())
    }

    /// Completes the file, with `words` as its last metadata.
    pub fn finish(mut self, words: BTreeMap<String, String>) -> io::Result<()> {
        let end = Metadata { name: format!("{METADATA}.end"), metadata: words };
        self.writer.write_metadata(&end).map_err(of_mcap)?;
        self.writer.finish().map_err(of_mcap)?;
        self.medium.with(|(medium, _)| medium.sync())
    }

    /// Bytes written to the medium.
    pub fn size(&self) -> u64 {
        self.medium.with(|(_, size)| *size)
    }
}

fn attachment<'a>(name: &str, media_type: &str, data: &'a [u8]) -> Attachment<'a> {
    let (name, media_type) = (name.into(), media_type.into());
    Attachment { log_time: 0, create_time: 0, name, media_type, data: data.into() }
}

fn of_mcap(error: McapError) -> io::Error {
    match error {
        McapError::Io(error) => error,
        other => io::Error::other(other),
    }
}
