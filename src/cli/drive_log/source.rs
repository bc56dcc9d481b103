//! The files of a recorded run: one named file, or all files of the newest run in a folder.

use crate::cli::exit::Failure;
use crate::drive::record::{
    End, Event, FIELD_COPY, PROCESS_TOPIC, ProcessMessage, Reader, SLICES_TOPIC, STATUS_TOPIC, Step, numbered,
};
use crate::field::snapshot::FieldCopy;
use crate::system::bounded_read::BoundedFile;
use crate::system::sanitize;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Take};
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes: a day's drive in one file.
pub const LARGEST: u64 = 16 << 30;
/// Smallest size in bytes for which a progress bar is shown: such a file takes about a second to read.
const LARGE: u64 = 32 << 20;

/// What the files of a run say about the run.
pub struct Run {
    /// The metadata at the start of a file.
    pub words: BTreeMap<String, String>,
    /// The board's effective values.
    pub board: String,
    /// The metadata at the end of the file, if the file is complete.
    pub ended: BTreeMap<String, String>,
    /// How the last file ends.
    pub end: End,
    /// Number of files.
    pub files: usize,
}

impl Run {
    /// A metadata value of the run, safe to print.
    pub fn word(&self, key: &str) -> String {
        sanitize::one_line(self.words.get(key).map_or("", String::as_str)).into_owned()
    }
}

/// The next item of a recording.
pub enum Item {
    /// A slot.
    Step(Box<Step>),
    /// The robot's status, as JSON, which only `report` shows.
    Status(#[cfg_attr(not(feature = "workshop"), expect(dead_code))] Vec<u8>),
    /// The program's use of memory, files and threads after the newest slot.
    Process(ProcessMessage),
    /// Slices through the field, as JSON, which only `report` shows, and their time on the robot's clock.
    Slices(
        #[cfg_attr(not(feature = "workshop"), expect(dead_code))] u64,
        #[cfg_attr(not(feature = "workshop"), expect(dead_code))] Vec<u8>,
    ),
}

/// A recording that is read slot by slot.
pub struct Source {
    /// What is known about the run so far.
    pub run: Run,
    files: std::vec::IntoIter<PathBuf>,
    reader: Option<(PathBuf, Reader<BufReader<Take<File>>>)>,
    bar: ProgressBar,
    /// Bytes in the files before the current one.
    before: u64,
}

impl Source {
    /// The recording at `path`: a file, or the newest run in a folder.
    pub fn open(path: &Path) -> Result<Source, Failure> {
        let files = files(path)?;
        let size = |file: &PathBuf| file.metadata().map_or(0, |data| data.len());
        let run = Run {
            words: BTreeMap::new(),
            board: String::new(),
            ended: BTreeMap::new(),
            end: End::Cut,
            files: files.len(),
        };
        let bar = progress(files.iter().map(size).sum());
        Ok(Source { run, files: files.into_iter(), reader: None, bar, before: 0 })
    }

    /// The next slot; `None` at the end of the last file.
    pub fn next_step(&mut self) -> Result<Option<Box<Step>>, Failure> {
        loop {
            match self.next_item()? {
                Some(Item::Step(step)) => return Ok(Some(step)),
                Some(Item::Status(_) | Item::Process(_) | Item::Slices(..)) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next slot or message; `None` at the end of the last file.
    pub fn next_item(&mut self) -> Result<Option<Item>, Failure> {
        loop {
            let Some((file, reader)) = &mut self.reader else {
                let Some(file) = self.files.next() else {
                    self.bar.finish_and_clear();
                    return Ok(None);
                };
                let intake =
                    BoundedFile::open(&file, LARGEST).map_err(|error| Failure::file(&file, &error))?;
                self.reader = Some((file, Reader::new(BufReader::new(intake.stream()))));
                continue;
            };
            let run = &mut self.run;
            match reader.next_event().map_err(|error| Failure::data(error).at(file.display()))? {
                Some(Event::Facts(words)) => run.words = words,
                Some(Event::Board(text)) => run.board = text,
                Some(Event::Ended(words)) => run.ended = words,
                Some(Event::Step(step)) => {
                    self.bar.set_position(self.before + reader.at());
                    return Ok(Some(Item::Step(step)));
                }
                Some(Event::Message { topic, json, .. }) if topic == STATUS_TOPIC => {
                    return Ok(Some(Item::Status(json)));
                }
                Some(Event::Message { topic, json, .. }) if topic == PROCESS_TOPIC => {
                    let message = serde_json::from_slice(&json).map_err(|error| {
                        Failure::data(format!("a message of {PROCESS_TOPIC} is damaged: {error}"))
                            .at(file.display())
                    })?;
                    return Ok(Some(Item::Process(message)));
                }
                Some(Event::Message { topic, time, json }) if topic == SLICES_TOPIC => {
                    return Ok(Some(Item::Slices(time, json)));
                }
                Some(Event::Message { .. } | Event::FieldCopy(_)) => {}
                None => {
                    run.end = reader.end().unwrap_or(End::Cut);
                    self.before += reader.at();
                    self.reader = None;
                }
            }
        }
    }
}

/// The copies of the field in the recording at `path`, as far as the recording can be read.
pub fn field_copies(path: &Path) -> Result<Vec<FieldCopy>, Failure> {
    let mut copies = Vec::new();
    for file in files(path)? {
        let source = BoundedFile::open(&file, LARGEST).map_err(|error| Failure::file(&file, &error))?;
        let mut reader = Reader::new(BufReader::new(source.stream()));
        while let Ok(Some(event)) = reader.next_event() {
            let Event::FieldCopy(bytes) = event else { continue };
            let copy = FieldCopy::read(&bytes);
            copies.push(
                copy.map_err(|error| Failure::data(format!("{FIELD_COPY}: {error}")).at(file.display()))?,
            );
        }
    }
    Ok(copies)
}

/// A progress bar on standard error for files that take a while; hidden if that is not a terminal.
pub fn progress(bytes: u64) -> ProgressBar {
    if bytes < LARGE {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    if let Ok(style) = ProgressStyle::with_template("reading {bar:40} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    bar
}

/// Reads the whole recording at `path`. `each` is called for every slot, in order, with what is known about
/// the run by then.
pub fn read(
    path: &Path,
    mut each: impl FnMut(&Run, Box<Step>) -> Result<(), Failure>,
) -> Result<Run, Failure> {
    let mut source = Source::open(path)?;
    while let Some(step) = source.next_step()? {
        each(&source.run, step)?;
    }
    Ok(source.run)
}

/// The files of the recording at `path`, in order.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let all = numbered(path).map_err(|error| Failure::file(path, &error))?;
    let mut newest: Vec<PathBuf> = Vec::new();
    let mut run = None;
    for (_, file) in all.into_iter().rev() {
        let of = run_of(&file);
        // An unreadable file ends the search, because files before it may belong to another run; the newest
        // files are skipped if they are unreadable.
        if of.is_none() || run.is_some() && of != run {
            match newest.is_empty() {
                true => continue,
                false => break,
            }
        }
        run = of;
        newest.insert(0, file);
    }
    match newest.is_empty() {
        true => Err(Failure::data("no recording in this folder").at(path.display())),
        false => Ok(newest),
    }
}

/// The run that a file belongs to.
fn run_of(file: &Path) -> Option<String> {
    let mut reader = Reader::new(BoundedFile::open(file, LARGEST).ok()?.stream());
    match reader.next_event().ok()?? {
        Event::Facts(words) => words.get("run").cloned(),
        _ => None,
    }
}
