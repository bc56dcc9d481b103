//! `bench`: measures what this machine achieves. There is one file per subcommand.

mod all;
#[cfg(feature = "workshop")]
mod barn;
mod brain;
mod control;
mod device;
mod field;
mod hrr;
mod judged;
mod record;
mod tether;

use super::exit::Failure;
use crate::base::time::Span;
use crate::drive::trace::Latency;
use clap::{Args as ClapArgs, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

/// Arguments of `bench`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// The subcommands. Each doc comment is the line in `--help`.
#[derive(Debug, Subcommand)]
enum What {
    /// Wake-up lateness and cost of the control loop, compared with a bare timer in the same run
    Loop(control::Args),
    /// What a recorder costs the control loop, compared with the loop without a recorder in the same run
    Record(record::Args),
    /// A cycle of the neural field and its stages, compared with a plain copy of the same size in the same
    /// run
    Field(field::Args),
    /// The holographic memory's operations, compared with a plain copy of the same size in the same run
    Hrr(hrr::Args),
    /// How many robots a brain serves in time, compared with a single robot in the same run
    Brain(brain::Args),
    /// A remote field's round trip, compared with a bare UDP echo in the same run
    Tether(tether::Args),
    /// How well drivers cross the worlds of the navigation course BARN in the simulator
    #[cfg(feature = "workshop")]
    Barn(barn::Args),
    /// Control loop and field with a board's own settings, compared with the board's targets
    All(all::Args),
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Loop(args) => control::run(&args),
        What::Record(args) => record::run(&args),
        What::Field(args) => field::run(&args),
        What::Hrr(args) => hrr::run(&args),
        What::Brain(args) => brain::run(&args),
        What::Tether(args) => tether::run(&args),
        #[cfg(feature = "workshop")]
        What::Barn(args) => barn::run(&args),
        What::All(args) => all::run(&args),
    }
}

/// A progress bar of a thousand steps on standard error; invisible if that is not a terminal.
fn progress() -> ProgressBar {
    let bar = ProgressBar::new(1000);
    if let Ok(style) = ProgressStyle::with_template("measuring {bar:40} {percent}%") {
        bar.set_style(style);
    }
    bar
}

/// The failure after an interruption. No figures are printed, because figures of a partial run would look
/// like those of a whole one.
fn cut_short() -> Failure {
    Failure::unavailable("interrupted before the end of the measurement: no figures")
}

/// Parses the length of a measurement in seconds, with or without a fraction.
fn seconds(text: &str) -> Result<Span, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "not a number of seconds; for example 5 or 0.5".to_string())?;
    // Less than a millisecond is too short for a figure, and a day is longer than anyone needs. NaN is in no
    // range.
    if (0.001..=86_400.0).contains(&seconds) {
        Ok(Span::from_secs_f64(seconds))
    } else {
        Err("allowed: 0.001 to 86400 seconds".to_string())
    }
}

/// Prints a table of percentiles.
pub(super) fn say_latencies(rows: &[(&str, Option<Latency>)]) {
    say!("                          p50      p99    p99.9      max        n");
    for (name, latency) in rows {
        match latency {
            Some(Latency { p50, p99, p999, max, n }) => {
                say!("{name:<23}{p50:>7.1}  {p99:>7.1}  {p999:>7.1}  {max:>7.1}  {n:>7}");
            }
            None => say!("{name:<23} no sample"),
        }
    }
}

/// A warning if there are more threads than cores.
fn too_many_threads(threads: usize) -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    (threads > cores).then(|| format!("{threads} threads on {cores} cores: they wait for each other"))
}

/// Runs `work` on its own thread: what it requests from the system (such as a core) ends with that thread.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("field".into()).spawn_scoped(scope, work);
        let thread =
            thread.map_err(|error| Failure::unavailable(format!("cannot start a thread: {error}")))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_may_have_a_fraction_but_not_be_zero() {
        assert_eq!(seconds("5"), Ok(Span::from_millis(5_000)));
        assert_eq!(seconds("0.2"), Ok(Span::from_millis(200)));
        for bad in ["", "0", "-1", "nan", "inf", "1e9", "5s"] {
            assert!(seconds(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
