//! `--record` of `ganglion run`: what to record and where, and a message about the result.

use super::exit::Failure;
use crate::base::plan::{EngineKind, QualityLevel};
use crate::base::time::Span;
use crate::deploy::board::Loaded;
use crate::drive::record::{
    Facts, Plan, Quota, RecordSender, Recording, RecordingStatus, RecordingTarget, When, disk,
};
use crate::runtime::session::is_service;
use crate::system::rt::Granted;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much time before arming is recorded, to show how the robot was handled.
const BEFORE: Span = Span::from_millis(30_000);
/// How long a run waits for the disk at its end; after that, the last second of the recording may be missing.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Arguments for recording.
#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    /// Record what the robot senses and decides, into this file (NAME.mcap) or numbered files in this folder
    #[arg(long, value_name = "FILE|DIR")]
    pub record: Option<PathBuf>,
    /// Which part of the run is recorded
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = RecordWhen::Always, requires = "record")]
    pub record_when: RecordWhen,
    /// Limit for all recordings in the folder, megabytes; the oldest are deleted first
    #[arg(long, value_name = "MB", default_value_t = 1024, requires = "record",
          value_parser = clap::value_parser!(u32).range(16..))]
    pub record_limit: u32,
}

/// Which part of a run is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordWhen {
    /// The whole run
    Always,
    /// From 30 s before the robot is armed until 2 s after it is disarmed
    Armed,
    /// Nothing
    Off,
}

/// Facts about a run that its recording contains in addition to the board.
pub struct About {
    /// Seed of the simulated world.
    pub seed: u64,
    /// Description of the injected faults.
    pub faults: String,
    /// Whether the run uses `--simulate`.
    pub simulated: bool,
    /// Digest of the world file, if one was given.
    pub world: Option<blake3::Hash>,
    /// Quality level of every cycle, if the command line fixes it.
    pub quality: Option<QualityLevel>,
    /// The engine that computes the field when the run starts.
    pub engine: EngineKind,
    /// Digest of the read-out, if one was given.
    pub readout: Option<blake3::Hash>,
    /// Whether the run resumed from a saved brain.
    pub resumed: bool,
    /// Whether the run is in virtual time: it then waits for the disk, so nothing is lost.
    pub is_virtual: bool,
}

/// Starts the recording that `args` request for a run of `loaded`.
pub fn start(
    args: &RecordArgs,
    loaded: &Loaded,
    about: &About,
) -> Result<Option<(Recording, RecordSender)>, Failure> {
    let when = match args.record_when {
        RecordWhen::Off => return Ok(None),
        RecordWhen::Always => When::Always,
        RecordWhen::Armed => When::Armed { before: BEFORE },
    };
    let Some(path) = &args.record else { return Ok(None) };
    let place = RecordingTarget::of(path);
    if let RecordingTarget::Folder(folder) = &place
        && let Err(failure) = prepared(folder)
    {
        // A service keeps driving: a robot with a broken disk still has to work, and nobody reads a refusal.
        if !is_service() {
            return Err(failure);
        }
        log::warn!("{failure}; slots that cannot be written are skipped and counted");
    }
    let quota = quota(args);
    let facts = Facts::of(&loaded.board, loaded.effective().join("\n"), words(loaded, about));
    let plan = Plan { place, when, quota, facts, open: disk() };
    let started = Recording::start(plan, about.is_virtual);
    started.map(Some).map_err(|error| {
        Failure::file(path, &error)
            .fix("give a new file that ends in .mcap, or a folder: recordings are never overwritten")
    })
}

/// Creates `folder` if it is missing, and tries to write to it. Otherwise a run would find out slot by slot
/// that it records nothing.
fn prepared(folder: &Path) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| {
        Failure::file(folder, error)
            .fix("record into a folder that this user may write to, or a new NAME.mcap")
    };
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::usage("this file is neither a folder nor a recording")
            .at(folder.display())
            .fix("give --record a new file that ends in .mcap, or a folder"));
    }
    if !folder.is_dir() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(folder);
        made.map_err(|error| failed(&error))?;
    }
    let probe = folder.join(format!(".ganglion-{}", std::process::id()));
    let written = std::fs::File::create_new(&probe);
    let _ = std::fs::remove_file(&probe); // empty, and named after this process only
    written.map(drop).map_err(|error| failed(&error))
}

fn quota(args: &RecordArgs) -> Quota {
    let total = u64::from(args.record_limit) * 1_000_000;
    Quota { total, file: Quota::default().file.min(total / 4), ..Quota::default() }
}

fn words(loaded: &Loaded, about: &About) -> BTreeMap<String, String> {
    let board = &loaded.board;
    let kernel = rustix::system::uname();
    let kernel = format!("{} {}", kernel.release().to_string_lossy(), kernel.machine().to_string_lossy());
    let begun = crate::base::time::Clock::now(&crate::base::time::MonotonicClock).as_nanos();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let run = blake3::hash(format!("{boot} {begun} {}", std::process::id()).as_bytes()).to_hex();
    let words = [
        ("board", board.name.clone()),
        ("digest", loaded.digest.to_hex().to_string()),
        ("auto_arm", board.safety.auto_arm.to_string()),
        ("simulated", about.simulated.to_string()),
        ("world", about.world.map_or(String::new(), |world| world.to_hex().to_string())),
        ("quality", about.quality.map_or(String::new(), |quality| quality.index().to_string())),
        ("engine", about.engine.name().to_string()),
        ("readout", about.readout.map_or(String::new(), |readout| readout.to_hex().to_string())),
        ("resumed", about.resumed.to_string()),
        ("seed", about.seed.to_string()),
        ("faults", about.faults.clone()),
        ("clock", if about.is_virtual { "virtual" } else { "real" }.to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_string()),
        ("kernel", kernel),
        ("run", run[..16].to_string()),
        ("period_ns", board.period.as_nanos().to_string()),
    ];
    words.into_iter().map(|(key, word)| (key.to_string(), word)).collect()
}

/// Adds the rights that each thread was granted to the recording, ends it after the run, and reports the
/// result.
pub fn end(recording: Recording, granted: &[(&'static str, Granted)]) -> RecordingStatus {
    for (thread, granted) in granted {
        recording.word(&format!("granted.{thread}"), serde_json::to_string(granted).unwrap_or_default());
    }
    let status = recording.end(TIMEOUT);
    lines(&status).iter().for_each(|line| say!("  {line}"));
    status
}

/// The lines that report what a recording has written and lost.
pub fn lines(status: &RecordingStatus) -> Vec<String> {
    let RecordingStatus { slots, bytes, files, removed, .. } = *status;
    let state = match (status.ended, status.writing) {
        (_, true) => "writing",
        (false, false) => "waiting",
        (true, false) => "ended",
    };
    let megabytes = bytes as f64 / 1e6;
    let mut lines = vec![format!("recording  {state}: {slots} slots, {megabytes:.1} MB in {files} files")];
    if removed > 0 {
        lines.push(format!("           {removed} older files deleted to stay within the limit"));
    }
    if status.lost() > 0 || status.failures > 0 {
        let why = status.last_failure.as_deref().unwrap_or("the disk is too slow");
        lines.push(format!("           {} slots lost, {} failures: {why}", status.lost(), status.failures));
    }
    if status.checkpoints_left_out > 0 {
        let left_out = status.checkpoints_left_out;
        lines.push(format!("           {left_out} checkpoints left out: replay after a loss starts later"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};

    #[test]
    fn the_limit_counts_megabytes_and_its_default_is_the_quotas() {
        let quota = |words: &[&str]| {
            let command = RecordArgs::augment_args(clap::Command::new("run"));
            let found = command.try_get_matches_from([&["run", "--record", "drives"], words].concat());
            quota(&RecordArgs::from_arg_matches(&found.expect("sound")).expect("sound"))
        };
        assert_eq!(quota(&[]), Quota::default());
        let small = quota(&["--record-limit", "16"]);
        assert_eq!((small.total, small.file), (16_000_000, 4_000_000));
    }
}
