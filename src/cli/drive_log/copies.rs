//! `log cut` and `log recover`: copy part of a recording, or what a power failure left of one, to a new file.
//! The recording itself is not changed.

use super::range::Range;
use super::source::{LARGEST, progress};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::drive::record::{Copied, CopyError, Keep, copy, disk};
use crate::system::bounded_read::BoundedFile;
use serde::Serialize;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Arguments of `log cut`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log cut drive.mcap stop.mcap --from 40 --to 60

The part starts at the last checkpoint before --from (there is one every 5 s), so that it can be replayed.")]
pub struct CutArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// The new file; an existing file is not overwritten
    #[arg(value_name = "NEW")]
    new: PathBuf,
    #[command(flatten)]
    range: Range,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// Arguments of `log recover`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log recover 000012-picarx.mcap whole.mcap

A recording is readable up to its last complete chunk. A power failure loses only the last second or two.")]
pub struct RecoverArgs {
    /// The incomplete recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// The new file; an existing file is not overwritten
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    file: &'a Path,
    #[serde(flatten)]
    copied: &'a Copied,
}

/// Runs `log cut`.
pub fn cut(args: &CutArgs) -> Result<(), Failure> {
    args.range.begin()?;
    if args.range.from.is_none() && args.range.to.is_none() {
        return Err(Failure::usage("no part given").fix("give --from, --to or both, in seconds"));
    }
    let keep = Keep { from: args.range.from, to: args.range.to };
    let copied = copied(&args.recording, &args.new, keep, "log cut")?;
    say!(
        "copied {} slots ({:.1} s, from {:.1} s) to {}",
        copied.slots,
        copied.seconds,
        copied.from_s,
        args.new.display()
    );
    told(&args.new, &copied, args.json)?;
    match copied.damage {
        Some(damage) => Err(Failure::data(format!("the copy ends early: {damage}"))
            .at(args.recording.display())
            .fix("the new file contains everything before the damage")),
        None => Ok(()),
    }
}

/// Runs `log recover`.
pub fn recover(args: &RecoverArgs) -> Result<(), Failure> {
    let copied = copied(&args.recording, &args.new, Keep::default(), "log recover")?;
    say!("copied {} slots ({:.1} s) to {}", copied.slots, copied.seconds, args.new.display());
    match (&copied.damage, copied.whole) {
        (Some(damage), _) => say!("The recording is {damage}."),
        (None, false) => say!("The recording was truncated after these slots."),
        (None, true) => say!("The recording was complete."),
    }
    told(&args.new, &copied, args.json)
}

fn told(file: &Path, copied: &Copied, json: bool) -> Result<(), Failure> {
    if json {
        output::json(&Report { schema: 1, file, copied })?;
    }
    Ok(())
}

/// Copies the part; leaves no file behind if that fails or the part has no slots.
fn copied(recording: &Path, new: &Path, keep: Keep, word: &str) -> Result<Copied, Failure> {
    let intake = BoundedFile::open(recording, LARGEST).map_err(|error| Failure::file(recording, &error))?;
    let bar = progress(recording.metadata().map_or(0, |data| data.len()));
    let fix = "name a new file: recordings are never overwritten";
    let target = disk()(new).map_err(|error| Failure::file(new, &error).fix(fix))?;
    let whole = keep.from.is_none() && keep.to.is_none();
    let done = copy(BufReader::new(intake.stream()), target, keep, word, |at| bar.set_position(at));
    bar.finish_and_clear();
    let failure = match done {
        Ok(copied) if copied.slots > 0 => return Ok(copied),
        Ok(_) if whole => Failure::data("the recording has no complete slot").at(recording.display()),
        Ok(_) => Failure::data("the recording has no slots in that part").at(recording.display()),
        Err(CopyError::Read(error)) => Failure::data(error).at(recording.display()),
        Err(CopyError::Write(error)) => Failure::file(new, &error),
    };
    let _ = std::fs::remove_file(new); // this call created the file; it is empty or incomplete
    Err(failure)
}
