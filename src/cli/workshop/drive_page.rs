//! `report`: a recorded run as one self-contained page for a browser, which loads nothing else. The page
//! begins with the output of `log info`; curves, events and a map follow.

mod curves;
mod drive;
mod goals;
mod lateness;
mod page;
mod spans;
mod tables;

use super::super::drive_log::source::{Item, Source};
use super::super::drive_log::tally::board_of;
use crate::cli::exit::Failure;
use crate::cli::output::{Replaced, may_replace};
use crate::system::codec::replace;
use drive::Drive;
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion report drive.mcap -o report.html                    then open it in a browser
  ganglion report /var/lib/ganglion/recordings -o report.html  the newest run in a folder
  ganglion log cut drive.mcap stop.mcap --from 40 --to 60      first the part around a stop,
  ganglion report stop.mcap -o stop.html                       then its page, with every slot

The page is one file: it loads nothing from a network and can be sent by mail. It begins with
the output of 'ganglion log info'. Its size is bounded: in a long run each point of a curve stands
for several slots, and the page says how many; it shows their smallest and largest value.
A file that is not such a page is never overwritten.

Exit codes: 0 done; 64 the command line is wrong; 65 the recording is damaged, or of another
version; 69 a file cannot be read or written; 77 a permission is missing.")]
pub struct Args {
    /// The recording, or a folder of them: then its newest run
    #[arg(value_name = "FILE|DIR")]
    recording: PathBuf,
    /// The page to write; an older page of that name is replaced
    #[arg(short, long, value_name = "HTML")]
    output: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    may_replace(&args.output, &PRODUCT)?; // before the work, which may take minutes
    let text = page_of(&args.recording)?;
    may_replace(&args.output, &PRODUCT)?;
    replace(&args.output, text.as_bytes()).map_err(|error| Failure::file(&args.output, &error))?;
    say!("{} ({:.1} MB): open it in a browser", args.output.display(), text.len() as f64 / 1e6);
    Ok(())
}

/// The page of the recording at `path`.
fn page_of(path: &Path) -> Result<String, Failure> {
    let mut source = Source::open(path)?;
    let mut drive: Option<Drive> = None;
    while let Some(item) = source.next_item()? {
        match (item, &mut drive) {
            (Item::Step(step), Some(drive)) => drive.take(&step.slot),
            (Item::Step(step), none) => {
                let board = board_of(&source.run).ok_or_else(|| {
                    Failure::data("this version of ganglion does not accept the recording's board")
                        .at(path.display())
                        .fix("use the version of ganglion that recorded it")
                })?;
                none.insert(Drive::new(&board)).take(&step.slot);
            }
            (Item::Status(json), Some(drive)) => drive.take_status(&json),
            (Item::Process(message), Some(drive)) => drive.take_process(&message),
            (Item::Slices(time, json), Some(drive)) => drive.take_slices(time, &json),
            (Item::Status(_) | Item::Process(_) | Item::Slices(..), None) => {}
        }
    }
    let Some(drive) = drive else {
        return Err(Failure::data("the recording has no slots").at(path.display()));
    };
    Ok(page::html(&drive.end(&source.run)))
}

/// Which existing files a page may replace.
const PRODUCT: Replaced = Replaced { begin: page::BEGIN, name: "a report", example: "-o report.html" };

#[cfg(test)]
mod tests;
