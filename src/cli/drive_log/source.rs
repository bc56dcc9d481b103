//! The files of a recorded run: one that is named, or all of the newest run in a folder.

use crate::cli::exit::Failure;
use crate::drive::record::{End, Event, Reader, Slot, numbered};
use crate::system::intake::Intake;
use crate::system::outside;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Largest file that is read, bytes: what a day's drive takes in one file.
const LARGEST: u64 = 16 << 30;

/// What the files say about the run.
pub struct Run {
    /// Words about it.
    pub words: BTreeMap<String, String>,
    /// The board's effective values.
    pub board: String,
    /// Words about its end, if it ended in order.
    pub ended: BTreeMap<String, String>,
    /// How the last file ends.
    pub end: End,
    /// How many files there are.
    pub files: usize,
}

impl Run {
    /// A word about the run, fit to be shown.
    pub fn word(&self, key: &str) -> String {
        outside::one_line(self.words.get(key).map_or("", String::as_str)).into_owned()
    }
}

/// Reads the recording at `path` to its end. `each` gets the facts, once they are known, and every slot in
/// order.
pub fn read(
    path: &Path,
    mut each: impl FnMut(&Run, Box<Slot>) -> Result<(), Failure>,
) -> Result<Run, Failure> {
    let files = files(path)?;
    let mut run = Run {
        words: BTreeMap::new(),
        board: String::new(),
        ended: BTreeMap::new(),
        end: End::Cut,
        files: files.len(),
    };
    for file in &files {
        let intake = Intake::open(file, LARGEST).map_err(|error| Failure::file(file, &error))?;
        let mut reader = Reader::new(BufReader::new(intake.stream()));
        loop {
            match reader.next_event().map_err(|error| Failure::data(error).at(file.display()))? {
                Some(Event::Facts(words)) => run.words = words,
                Some(Event::Board(text)) => run.board = text,
                Some(Event::Ended(words)) => run.ended = words,
                Some(Event::Slot(slot)) => each(&run, slot)?,
                Some(Event::Message { .. }) => {}
                None => break,
            }
        }
        run.end = reader.end().unwrap_or(End::Cut);
    }
    Ok(run)
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
        // A file that cannot be read ends the search: what is before it may be of another run.
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
        true => Err(Failure::data("there is no recording in this folder").at(path.display())),
        false => Ok(newest),
    }
}

/// Which run a file is of.
fn run_of(file: &Path) -> Option<String> {
    let mut reader = Reader::new(Intake::open(file, LARGEST).ok()?.stream());
    match reader.next_event().ok()?? {
        Event::Facts(words) => words.get("run").cloned(),
        _ => None,
    }
}
