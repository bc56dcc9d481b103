//! `log export`: writes every slot as a line of CSV, with numbers that read back bit for bit.

use super::source::{self, Run};
use crate::cli::exit::Failure;
use crate::deploy::board;
use crate::drive::record::{Slot, causes, health};
use std::path::PathBuf;

/// Arguments of `log export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion log export --csv drive.mcap > drive.csv
  ganglion log export --csv /var/lib/ganglion/recordings | head")]
pub struct Args {
    /// The recording, or a folder, which stands for its newest run
    #[arg(value_name = "FILE|DIR")]
    recording: PathBuf,
    /// Write comma-separated values, one line per slot
    #[arg(long, required = true)]
    csv: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut first = None;
    source::read(&args.recording, |run, step| {
        let slot = &step.slot;
        if first.is_none() {
            first = Some(slot.slot);
            say!("{}", heading(run)?);
        }
        let seconds = first.map_or(0.0, |first| slot.slot.since(first).as_secs_f64());
        say!("{}", line(seconds, slot));
        Ok(())
    })?;
    Ok(())
}

fn heading(run: &Run) -> Result<String, Failure> {
    let board = board::from_text("recorded", &run.board)
        .map_err(|error| Failure::data(format!("this program rejects the recorded board: {error}")))?
        .board;
    let mut heading = String::from("seconds,slot,lost,release_us,work_us,mode,causes,latched,level,source");
    let motors = board.motors.iter().map(|motor| format!(",{}", motor.name));
    let sensors = board.sensors.iter().map(|sensor| format!(",{0},{0}_health", sensor.name));
    heading.extend(motors.chain(sensors));
    Ok(heading)
}

fn line(seconds: f64, slot: &Slot) -> String {
    let micros = |span: crate::base::time::Span| span.as_nanos() as f64 / 1e3;
    let mut line = format!(
        "{seconds:.6},{},{},{},{},{},{},{},{},{:?}",
        slot.index,
        slot.lost,
        micros(slot.began.since(slot.slot)),
        micros(slot.ended.since(slot.began)),
        slot.mode.name(),
        causes(slot.active).join(" "),
        causes(slot.latched).join(" "),
        slot.quality.index(),
        slot.source,
    );
    let samples = slot.frame.iter().map(|sample| format!(",{},{}", sample.value, health(sample.health)));
    line.extend(slot.motors.iter().map(|motor| format!(",{motor}")).chain(samples));
    line
}
