//! Arguments that several verbs share: a board, an engine, a read-out, a duration.

use super::exit::Failure;
use crate::base::plan::{Board, BusPlan, EngineKind, QualityLevel};
use crate::base::time::Span;
use crate::deploy::board;
use crate::deploy::board::Loaded;
use crate::field::device;
use crate::field::failover::Open;
use crate::field::{Readout, ReadoutError};
use crate::system::gpu::Watch;
use std::path::Path;
use std::sync::Arc;

/// The checked board at `path`, or the built-in one of that name. Warnings go to the log.
pub fn board(path: &Path) -> Result<Loaded, Failure> {
    let loaded = board::load(path).map_err(|error| super::check::failure(path, &error))?;
    for warning in &loaded.warnings {
        log::warn!("{warning}");
    }
    Ok(loaded)
}

/// Puts the simulated robot of `loaded` into the world in the file at `path`. Returns the world's digest,
/// which identifies the world in a recording.
pub fn world(loaded: &mut Loaded, path: &Path) -> Result<blake3::Hash, Failure> {
    let BusPlan::Sim = loaded.board.bus else {
        return Err(Failure::usage(format!(
            "--world is for a simulated robot, and board '{}' drives a real one",
            loaded.board.name
        ))
        .fix("add --simulate, or name a simulated board"));
    };
    let world = board::world(path).map_err(|error| super::check::world_failure(path, &error))?;
    let digest = blake3::hash(format!("{world:?}").as_bytes());
    loaded.board.sim.get_or_insert_default().world = Some(world);
    Ok(digest)
}

/// The engine that computes the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineChoice {
    /// The best that this machine has
    Auto,
    /// The plain f64 engine
    Reference,
    /// The f32 engine
    Cpu,
    /// The engine on a GPU
    Cuda,
}

impl EngineChoice {
    /// The engine kind from which the field is built.
    pub fn kind(self) -> EngineKind {
        match self {
            EngineChoice::Auto => EngineKind::Auto,
            EngineChoice::Reference => EngineKind::Reference,
            EngineChoice::Cpu => EngineKind::Cpu,
            EngineChoice::Cuda => EngineKind::Cuda,
        }
    }
}

/// Replaces the board's engine and threads with those of the command line, if given. Neither changes the
/// field's results, except for rounding.
pub fn engine(board: &mut Board, choice: Option<EngineChoice>, threads: Option<u8>) {
    if let Some(choice) = choice {
        board.field.engine = choice.kind();
    }
    if let Some(threads) = threads {
        board.field.threads = usize::from(threads);
    }
}

/// What to do if a field does not fit into memory.
pub const SMALLER: &str = "end other programs, or reduce grid, patterns or bank of [field] ('ganglion check' shows the memory of \
                           a board)";

/// How to open the GPU that computes the board's field, under `watch`; `None` if the CPU computes it. An
/// error if the board requires a GPU and there is none.
pub fn device(board: &Board, watch: Arc<Watch>) -> Result<Option<Open>, Failure> {
    match device::find(&board.field, 1, watch) {
        Ok(gpu) => Ok(Some(gpu.opener())),
        Err(why) if board.field.engine == EngineKind::Cuda => {
            Err(Failure::unavailable(why).fix("use the engine 'auto' or 'cpu' to run without a GPU"))
        }
        // The engine's name includes the reason.
        Err(_) => Ok(None),
    }
}

/// The read-out in the file at `path`.
pub fn readout(path: &Path) -> Result<Readout, Failure> {
    Readout::load(path).map_err(|error| match error {
        ReadoutError::File(error) => super::error_text::of_file(error),
        error => Failure::data(error).at(path.display()),
    })
}

/// A human-readable duration: `20s`, `1500ms`, `2min`, `1h 30min`.
pub fn span(text: &str) -> Result<Span, String> {
    // humantime 2.4 panics if the parts' seconds add up to exactly 2^64 - 1 and the nanoseconds carry one
    // more. The longest text allowed here has room for five ten-digit counts of years, a tenth of that.
    const LONGEST: usize = 64;
    const DIGITS: usize = 10;
    if text.starts_with('-') {
        return Err("must be longer than zero; for example 20s or 1500ms".to_string());
    }
    let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    if text.len() > LONGEST || digits > DIGITS {
        return Err(format!(
            "at most {LONGEST} characters, and {DIGITS} digits per number; for example 20s or 1500ms"
        ));
    }
    let length =
        humantime::parse_duration(text).map_err(|error| format!("{error}; for example 20s or 1500ms"))?;
    let nanos = u64::try_from(length.as_nanos()).ok().filter(|&ns| ns > 0 && ns < u64::MAX / 4);
    nanos.map(Span::from_nanos).ok_or_else(|| "must be longer than zero and shorter than a century".into())
}

/// A seed: any whole number that fits.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("allowed: a whole number from 0 to {}", u64::MAX))
}

/// A quality level, by its number.
pub fn quality(text: &str) -> Result<QualityLevel, String> {
    text.parse().ok().and_then(QualityLevel::new).ok_or_else(|| "allowed: 0 to 5".to_string())
}

/// Parses a place: X,Y in metres.
pub fn place(text: &str) -> Result<[f64; 2], String> {
    let wanted = || format!("'{text}' is not a place; expected two numbers, for example 1.5,-0.4");
    let (x, y) = text.split_once(',').ok_or_else(wanted)?;
    let number = |text: &str| text.trim().parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(wanted);
    Ok([number(x)?, number(y)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_their_usual_units() {
        assert_eq!(span("20s"), Ok(Span::from_millis(20_000)));
        assert_eq!(span("1500ms"), Ok(Span::from_millis(1_500)));
        assert_eq!(span("2min"), Ok(Span::from_millis(120_000)));
        let carries = "18446744073709551615s 1000000000ns";
        let in_parts = "584542046090years 20309415s 1000000000ns";
        for bad in ["", "20", "0s", "-3s", "soon", "1000years", carries, in_parts] {
            assert!(span(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
