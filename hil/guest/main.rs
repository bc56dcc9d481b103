//! The program that runs on the virtual bench, inside the guest: the far side of the wires, a record of them,
//! and rows that act on the shipped runtime and judge its behaviour. Times are virtual microseconds: they
//! count instructions, and are not those of hardware.
//!
//! Reading order: `wire` (the protocol of the plant device), `device` (the device itself), `imu` and `far`
//! (what is behind the wires), `record` (what was seen on them), `bench` (both of them running), `process`
//! and `scene` (what is under test), `variant` (its board), `limits` and `rows` (the table), `trouble`,
//! `course`, `left`, `loops`, `floors`, `service`, `verb` and `soak` (how rows are carried out), `verdict`
//! (their results).

mod bench;
mod course;
mod device;
mod far;
mod floors;
mod imu;
mod left;
mod limits;
mod loops;
mod process;
mod record;
mod rows;
mod scene;
mod service;
mod soak;
mod trouble;
mod variant;
mod verb;
mod verdict;
mod wire;

use bench::Bench;
use course::RowContext;
use ganglion::base::time::Span;
use ganglion::deploy::board::{self, Loaded};
use rows::{Course, ROWS, Row};
use serde_json::{Map, Value, json};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use variant::Variant;
use verdict::{Baseline, RowResult};

const USAGE: &str = "hil-guest: the program that runs in a guest of the virtual bench

  hil-guest bench [--only NAME[,NAME]]                        run all rows, or those whose name contains one
                  [--without NAME[,NAME]] [--out DIR]         of --only, but none of --without; the last line
                  [--claims DIR] [--baseline FILE]            is one JSON object. Guests that share the DIR of
                  [--loops N]                                 --claims share the rows. FILE: latencies that
                                                              must not be exceeded by more than 10 %. N: loops
                                                              of each row that measures a latency, 100 to 1000
  hil-guest bench --list                                      list the rows
  hil-guest plant                                             run the far side alone, until it is killed
  hil-guest table                                             print the table of docs/virtual-bench-rows.md
  hil-guest hog MS                                            compute for this many milliseconds";

/// Folder for the boards and the processes' output.
const RUN_FOLDER: &str = "/run/hil";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["bench", "--list"] => {
            ROWS.iter().for_each(|row| println!("{:<26} {}", row.name, row.shows));
            Ok(true)
        }
        ["table"] => {
            rows::table().iter().for_each(|line| println!("{line}"));
            Ok(true)
        }
        ["hog", ms] => ms.parse().map(trouble::run_hog).map(|()| true).map_err(io::Error::other),
        ["plant"] => plant(),
        ["bench", ref rest @ ..] => match Options::read(rest) {
            Some(requests) => carry_out(&requests),
            None => return usage(),
        },
        _ => return usage(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hil-guest: {error}");
            ExitCode::from(70)
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(64)
}

/// What `--loops` may say: enough for a 99th percentile, and few enough for a guest's time limit.
const LOOPS: RangeInclusive<usize> = 100..=1000;

/// The arguments of `bench`.
struct Options {
    only: Vec<String>,
    without: Vec<String>,
    out: PathBuf,
    claims: Option<PathBuf>,
    baseline: Option<PathBuf>,
    /// Loops of each row that closes loops.
    loops: usize,
}

impl Options {
    fn read(words: &[&str]) -> Option<Options> {
        let out = PathBuf::from(".");
        let (only, without) = (Vec::new(), Vec::new());
        let mut requests = Options { only, without, out, claims: None, baseline: None, loops: loops::TIMES };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--only" => requests.only.extend(words.next()?.split(',').map(String::from)),
                "--without" => requests.without.extend(words.next()?.split(',').map(String::from)),
                "--out" => requests.out = PathBuf::from(words.next()?),
                "--claims" => requests.claims = Some(PathBuf::from(words.next()?)),
                "--baseline" => requests.baseline = Some(PathBuf::from(words.next()?)),
                "--loops" => {
                    requests.loops = words.next()?.parse().ok().filter(|loops| LOOPS.contains(loops))?
                }
                _ => return None,
            }
        }
        let unknown = |name: &&String| !ROWS.iter().any(|row| row.name.contains(name.as_str()));
        if let Some(name) = requests.only.iter().chain(&requests.without).find(unknown) {
            eprintln!("hil-guest: no row's name contains '{name}'");
            return None;
        }
        Some(requests)
    }

    fn wants(&self, row: &Row) -> bool {
        let named = |parts: &[String]| parts.iter().any(|part| row.name.contains(part.as_str()));
        (self.only.is_empty() || named(&self.only)) && !named(&self.without)
    }

    /// Whether this guest carries out the row: among guests that share a folder, the first one that asks for
    /// a row gets it.
    fn takes(&self, row: &Row) -> io::Result<bool> {
        let Some(claims) = &self.claims else { return Ok(true) };
        match std::fs::create_dir(claims.join(row.name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            taken => taken.map(|()| true),
        }
    }

    fn record(&self) -> io::Result<Baseline> {
        let text = self.baseline.as_ref().map_or(Ok("{}".into()), std::fs::read_to_string)?;
        Baseline::of(&text).map_err(io::Error::other)
    }
}

/// Runs the far side alone, for a person at the guest's console.
fn plant() -> io::Result<bool> {
    let loaded = variant::load().map_err(io::Error::other)?;
    let mut bench = Bench::start(&loaded.board)?;
    bench.renew(1)?;
    loop {
        bench.wait(Span::from_millis(1000));
        let report = bench.act(|far, now, _| far.report(now))?;
        println!("{report:?}");
    }
}

/// The boards of the rows, as files.
struct Boards {
    loaded: Loaded,
    folder: PathBuf,
}

impl Boards {
    fn path(&self, variant: Variant) -> io::Result<String> {
        let path = self.folder.join(format!("{variant:?}.toml").to_lowercase());
        variant::write(&path, &self.loaded, variant)?;
        Ok(path.display().to_string())
    }
}

fn carry_out(requests: &Options) -> io::Result<bool> {
    let loaded = variant::load().map_err(io::Error::other)?;
    // The far side uses the same board as the runtime: its text, loaded again.
    let plain =
        board::from_text("plain", &variant::text(&loaded, Variant::Plain)).map_err(io::Error::other)?;
    let boards = Boards { loaded, folder: PathBuf::from(RUN_FOLDER) };
    let mut bench = Bench::start(&plain.board)?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("hil-guest: kernel {}, all times are virtual: they count instructions", kernel.trim());
    let baseline = requests.record()?;
    let wanted: Vec<&Row> = ROWS.iter().filter(|row| requests.wants(row)).collect();
    let names: String = wanted.iter().map(|row| format!("{}\n", row.name)).collect();
    std::fs::write(requests.out.join("wanted"), names)?;
    let mut results = Vec::new();
    let mut latencies = Map::new();
    for row in wanted {
        if !requests.takes(row)? {
            continue;
        }
        let begun = bench.now();
        let mut outcome = one(row, &mut bench, &boards, requests.loops, &baseline).unwrap_or_else(|error| {
            let mut outcome = RowResult::default();
            outcome.fault(error.to_string());
            outcome
        });
        let took = bench.now().since(begun).as_secs_f64();
        outcome.figure("took_virtual_s", took);
        println!("{} [{took:.1} virtual s]", outcome.text(row.name));
        if !outcome.passed() {
            println!("       output: {}", outcome.said);
            keep_output(row, &requests.out)?;
        }
        let result = outcome.json(row.name);
        verdict::append(&requests.out.join("rows.jsonl"), &result.to_string())?;
        for (name, latency) in outcome.latencies() {
            let figures = latency.json();
            verdict::append(&requests.out.join("latencies"), &format!("\"{name}\":{figures}"))?;
            latencies.insert(name.clone(), figures);
        }
        for name in outcome.gated() {
            verdict::append(&requests.out.join("record"), &format!("  \"{name}\": {}", latencies[name]))?;
        }
        results.push(result);
    }
    let end = conclusion(&results, latencies, kernel.trim());
    println!("{end}");
    Ok(end["failed"] == 0 && end["passed"] != 0)
}

/// Copies the output of a failed row's processes to the results.
fn keep_output(row: &Row, out: &Path) -> io::Result<()> {
    let Ok(files) = std::fs::read_dir(Path::new(RUN_FOLDER).join(row.name)) else { return Ok(()) };
    let kept = out.join("failed").join(row.name);
    std::fs::create_dir_all(&kept)?;
    for file in files.flatten() {
        std::fs::copy(file.path(), kept.join(file.file_name()))?;
    }
    Ok(())
}

fn conclusion(results: &[Value], latencies: Map<String, Value>, kernel: &str) -> Value {
    let passed = results.iter().filter(|result| result["passed"] == true).count();
    json!({
        "passed": passed, "failed": results.len() - passed, "latency_us": latencies, "clock": "virtual",
        "kernel": kernel, "rows": results,
    })
}

fn one(
    row: &Row,
    bench: &mut Bench,
    boards: &Boards,
    loops: usize,
    baseline: &Baseline,
) -> io::Result<RowResult> {
    let variant = match row.course {
        Course::Loop(rows::Loop { urgent: true, .. }) => Variant::Brief,
        Course::Loop(_) => Variant::BriefOrdinary,
        Course::Reset(..) | Course::LeftInReset => Variant::Reset,
        _ => Variant::Plain,
    };
    let board = boards.path(variant)?;
    let folder = Path::new(RUN_FOLDER).join(row.name);
    let mut place = RowContext { bench, board: &board, folder: &folder };
    match row.course {
        Course::Trouble(trouble, ms, end) | Course::Reset(trouble, ms, end) => {
            course::trouble(&mut place, trouble, ms, end)
        }
        Course::LeftInReset => left::in_reset(&mut place),
        Course::Kills(times, limit) => course::kills(&mut place, times, limit),
        Course::Loop(closed) => loops::close(&mut place, row.name, closed, loops, baseline),
        Course::Floor(floor) => floors::measure(place.bench, row.name, floor, baseline),
        Course::Service(service) => service::carry_out(&mut place, &boards.loaded, service),
        Course::Verb(samples) => verb::measure(&mut place, samples),
        Course::Soak(seconds) => soak::drive(&mut place, seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the rows that these arguments select; `None`: they are refused.
    fn selected(arguments: &[&str]) -> Option<Vec<&'static str>> {
        let requests = Options::read(arguments)?;
        Some(ROWS.iter().filter(|row| requests.wants(row)).map(|row| row.name).collect())
    }

    #[test]
    fn ci_runs_one_row_of_each_kind() {
        let script = include_str!("../../.ci/run").replace("\\\n", " ");
        let step = script.lines().find_map(|line| line.trim().strip_prefix("virtual_bench ")).unwrap();
        let mut rows = selected(&step.split_whitespace().collect::<Vec<_>>()).unwrap();
        rows.sort_unstable();
        let [stop, bus] = ["button-idle", "mcu-stuck"];
        let [guard, runtime] = ["guard-killed", "reset-runtime-killed"];
        let service = ["service-bad-board", "service-killed"];
        assert_eq!(rows, [stop, guard, bus, runtime, service[0], service[1]]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        assert_eq!(selected(&["--only", "mcu-nack,sock"]), None);
        assert_eq!(selected(&["--only", "mcu-nack", "--without", "sock"]), None);
        assert_eq!(selected(&["--only", "mcu-nack", "--loops", "99"]), None);
        assert_eq!(selected(&["--only", "mcu-nack", "--loops", "1001"]), None);
        assert!(selected(&["--only", "mcu-nack,soak"]).is_some_and(|rows| rows.contains(&"soak")));
    }

    #[test]
    fn only_one_of_two_guests_takes_a_row_from_a_shared_folder() {
        let claims = std::env::temp_dir().join(format!("hil-claims-{}", std::process::id()));
        std::fs::create_dir_all(&claims).unwrap();
        let folder = claims.display().to_string();
        let requests = || Options::read(&["--claims", &folder, "--only", "soak,mcu-nack"]).unwrap();
        let (first, second) = (requests(), requests());
        let row = ROWS.iter().find(|row| first.wants(row)).unwrap();
        assert_eq!([first.takes(row).unwrap(), second.takes(row).unwrap()], [true, false]);
        std::fs::remove_dir_all(&claims).unwrap();
        assert!(first.takes(row).is_err(), "without a folder no row can be claimed");
        assert!(Options::read(&[]).unwrap().takes(row).unwrap());
        assert!(Options::read(&["--claims"]).is_none());
    }
}
