//! The long campaign: consecutive seeds until the time is over or a promise is broken, or a single seed. It
//! treats a seed as `tests/campaign.rs` does. See docs/campaign.md.

mod cable;
mod chance;
mod course;
mod draw;
mod hunt;
mod judge;
mod pulse;
mod script;
mod sentry;
mod site;
mod tally;
mod tape;
mod temper;

use clap::Parser;
use course::View;
use ganglion::base::time::{Instant, Span};
use hunt::{BrokenPromise, Case};
use judge::promise::{Promise, Watched};
use script::Script;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tally::Tally;

/// Promises and faults that occurred less often than this have shown nothing.
const LEAST: u64 = 10;

/// Drives random boards through random faults and asks an independent judge whether motors moved that should
/// not.
#[derive(Parser, Debug)]
struct Arguments {
    /// Run for this many minutes of real time.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Instead of --minutes, run until this many virtual hours have been judged.
    #[arg(long)]
    hours: Option<f64>,
    /// The first seed; the others follow it.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Number of threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Run this seed alone and show everything.
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed, run this script instead of the seed's own: `NAME[:TARGET]@START[+LENGTH] ...`
    #[arg(long)]
    script: Option<String>,
    /// With --seed, show the events between these times, seconds: FROM-UNTIL.
    #[arg(long)]
    trace: Option<String>,
    /// Check only these promises, separated by commas.
    #[arg(long)]
    only: Option<String>,
    /// Check all promises except these.
    #[arg(long)]
    without: Option<String>,
    /// Continue after a breach and show the first breach of each promise.
    #[arg(long)]
    all: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let watched = match watched(&arguments) {
        Ok(watched) => watched,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(64);
        }
    };
    // The script makes engines panic on purpose, so those panics print no message.
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains("the script makes the field engine panic") {
            eprintln!("{panic}");
        }
    }));
    match arguments.seed {
        Some(seed) => one(seed, &arguments, watched),
        None => many(&arguments, watched),
    }
}

fn watched(arguments: &Arguments) -> Result<Watched, String> {
    let only = arguments.only.as_deref().map_or(Ok(Watched::ALL), Watched::of_names)?;
    let without = arguments.without.as_deref().map(Watched::of_names).transpose()?;
    Ok(without.map_or(only, |without| only.without(without)))
}

/// Runs one seed, and prints its board and what happened.
fn one(seed: u64, arguments: &Arguments, watched: Watched) -> ExitCode {
    let mut case = Case::of_seed(seed);
    if let Some(text) = &arguments.script {
        match Script::parse(text) {
            Ok(script) => case.script = script,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(64);
            }
        }
    }
    println!("{}", case.site.text);
    let at = |text: &str| text.parse().ok().map(|seconds| Instant::ZERO + Span::from_secs_f64(seconds));
    let trace = arguments.trace.as_deref().and_then(|text| text.split_once('-'));
    let trace = trace.and_then(|(from, until)| Some((at(from)?, at(until)?)));
    let view = View { watched, trace };
    let outcome = case.run(&view);
    let mut tally = Tally::default();
    tally.add(&case.script, &outcome);
    println!("{tally}{}", outcome.trace);
    match outcome.breach {
        None => ExitCode::SUCCESS,
        Some(breach) if arguments.script.is_some() => {
            println!(
                "{:.4} s: {}: {}",
                breach.at.as_nanos() as f64 / 1e9,
                breach.promise.name(),
                breach.what
            );
            ExitCode::FAILURE
        }
        Some(breach) => {
            show(&hunt::shrunk(&case, breach, &view));
            ExitCode::FAILURE
        }
    }
}

fn many(arguments: &Arguments, watched: Watched) -> ExitCode {
    let began = std::time::Instant::now();
    let next = AtomicU64::new(arguments.from);
    let sum = Mutex::new((Tally::default(), Vec::<Promise>::new(), 0u64));
    let view = View { watched, trace: None };
    let is_over = |tally: &Tally, breaches: u64| {
        let hours = arguments.hours.is_some_and(|hours| tally.judged_s >= hours * 3600.0);
        let minutes = arguments.hours.is_none() && began.elapsed().as_secs_f64() >= arguments.minutes * 60.0;
        hours || minutes || (breaches > 0 && !arguments.all)
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                loop {
                    if sum.lock().is_ok_and(|sum| is_over(&sum.0, sum.2)) {
                        return;
                    }
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let case = Case::of_seed(seed);
                    let outcome = case.run(&view);
                    let Ok(mut sum) = sum.lock() else { return };
                    sum.0.add(&case.script, &outcome);
                    let Some(breach) = outcome.breach else { continue };
                    sum.2 += 1;
                    let (minutes, seconds) = (sum.0.judged_s / 60.0, began.elapsed().as_secs_f64());
                    println!(
                        "seed {seed}: {} at {:.4} s; {minutes:.1} virtual minutes, {seconds:.0} s",
                        breach.promise.name(),
                        breach.at.as_nanos() as f64 / 1e9
                    );
                    let known = sum.1.contains(&breach.promise);
                    sum.1.push(breach.promise);
                    drop(sum);
                    if !known {
                        show(&hunt::shrunk(&case, breach, &view));
                    }
                }
            });
        }
    });
    let (tally, _, breaches) = sum.into_inner().unwrap_or_default();
    println!("{tally}{breaches} breaches; {:.0} s", began.elapsed().as_secs_f64());
    for seldom in tally.too_seldom(LEAST) {
        println!("too seldom to show anything: {seldom}");
    }
    if breaches == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(found: &BrokenPromise) {
    let BrokenPromise { seed, breach, script, trace } = found;
    let script: Vec<String> = script.lines.iter().map(|line| line.to_string()).collect();
    let script = script.join(" ");
    println!(
        "\nseed {seed}, minute {:.2}: broken: {}",
        breach.at.as_nanos() as f64 / 60e9,
        breach.promise.name()
    );
    println!("{:.4} s: {}", breach.at.as_nanos() as f64 / 1e9, breach.what);
    println!("the shortened script: {script}");
    println!("to reproduce: scripts/campaign --seed {seed} --script '{script}'\n{trace}\n");
}
