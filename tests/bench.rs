//! `ganglion bench`: its JSON objects contain every figure, and the figures agree with each other; wrong
//! requests are refused; an interrupted bench prints no figures; a board's targets decide the exit code. No
//! test here asserts a duration.

mod barn;
mod device;

use crate::cli::{err, out, output, watching};
use crate::folder::Folder;
use ganglion::base::plan::{EngineKind, FieldPlan, Params, QUALITY_LEVELS, QualityLevel, Shape, Storage};
use ganglion::base::time::Span;
use ganglion::deploy::bench::{DECISION_FIELDS, FieldBench, FieldFigures};
use ganglion::field::STAGES;
use rustix::process::Signal;
use serde_json::Value;
use std::process::Output;
use std::sync::atomic::AtomicBool;

/// Arguments for a bench of a field that is quick to build and to cycle.
const SMALL: [&str; 10] =
    ["bench", "field", "--grid", "8", "--patterns", "5", "--bank", "200", "--seconds", "0.2"];

fn field(more: &[&str]) -> Output {
    output(&[&SMALL[..], more].concat())
}

/// A core that this test may run on.
fn a_core() -> String {
    let set = rustix::thread::sched_getaffinity(None).expect("the affinity mask");
    (0..1024).find(|core| set.is_set(*core)).map_or(String::new(), |core| core.to_string())
}

/// The object on the last line of standard output.
fn object(output: &Output) -> Value {
    let text = out(output);
    serde_json::from_str(text.lines().last().unwrap_or_else(|| panic!("no line; {}", err(output))))
        .unwrap_or_else(|error| panic!("{error} in the last line of:\n{text}"))
}

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or_else(|| panic!("{key} is not a number in {object}"))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn the_fields_object_has_every_figure_and_they_agree() {
    for (more, engine, storage, threads, quality) in [
        (&["--json"][..], "cpu", "f32", 1, 0),
        (&["--json", "--engine", "auto", "--threads", "2", "--storage", "f16"], "cpu", "f16", 2, 0),
        (&["--json", "--quality", "5", "--cpus", &a_core()], "cpu", "f32", 1, 5),
        (&["--json", "--engine", "reference", "--quality", "3"], "reference", "f64", 1, 3),
    ] {
        let ended = field(more);
        assert_eq!(ended.status.code(), Some(0), "{more:?}: {}", err(&ended));
        let object = object(&ended);
        assert_eq!(object["schema"], 1);
        assert_eq!([&object["engine"], &object["storage"]], [engine, storage], "{more:?}");
        assert_eq!(
            [&object["threads"], &object["quality"], &object["grid"]],
            [threads, quality, 8],
            "{more:?}"
        );
        assert_eq!(object["bank"], 200, "the bank is full");
        assert!(object["simd"].is_string());
        let cycle = &object["cycle"];
        assert!(cycle["n"].as_u64().is_some_and(|n| n > 0));
        let percentiles = ["p50_us", "p99_us", "p999_us", "max_us"].map(|key| number(cycle, key));
        assert!(percentiles[0] > 0.0 && percentiles.is_sorted(), "{cycle}");
        let stages = object["stages"].as_array().expect("a list");
        let names: Vec<&str> = stages.iter().filter_map(|stage| stage["name"].as_str()).collect();
        assert_eq!(names, STAGES);
        assert!(stages.iter().all(|stage| number(stage, "p50_us") >= 0.0));
        // floor = bytes / bandwidth; ratio = median / floor; time per cell = median / cells.
        let (bytes, gbps) = (number(&object, "bytes_per_cycle"), number(&object, "copy_gbps"));
        let (floor, ratio) = (number(&object, "floor_us"), number(&object, "ratio_to_floor"));
        assert!(bytes > 0.0 && gbps > 0.0);
        assert!(near(floor, bytes / (gbps * 1e3)), "{object}");
        assert!(near(ratio, percentiles[0] / floor), "{object}");
        let cells = 64.0 * 8.0_f64.powi(3);
        assert!(near(number(&object, "ns_per_cell"), percentiles[0] * 1e3 / cells), "{object}");
        let fields = object["decision_fields"].as_array().expect("a list");
        assert_eq!(fields.iter().map(|field| &field["name"]).collect::<Vec<_>>(), DECISION_FIELDS);
        assert_eq!([0, 1, 2, 3].map(|which| &fields[which]["sites"]), [100, 100, 64 * 64, 32 * 32 * 32]);
        for field in fields {
            let [p50, sites] = ["p50_us", "sites"].map(|key| number(field, key));
            assert!(near(number(field, "ns_per_site"), p50 * 1e3 / sites) && p50 > 0.0, "{field}");
            assert!(
                number(field, "all_steps") > number(field, "n") && number(field, "highest") > 0.0,
                "{field}"
            );
        }
        assert!(number(&object, "memory_mb") * 1e6 > 64.0 * 512.0 * 2.0, "the cells alone need more");
        assert_eq!(object["allocations_per_cycle"], 0.0, "{more:?}");
        assert!(number(&object, "page_faults_per_cycle") >= 0.0);
        assert!(out(&ended).lines().count() > 10, "a human-readable table is printed above the object");
    }
}

#[test]
fn the_recorders_object_has_every_figure_and_its_file_is_gone() {
    let folder = Folder::new("bench-record");
    let into = folder.to_str().expect("UTF-8");
    let ended = output(&["bench", "record", "--seconds", "3", "--into", into, "--json"]);
    assert_eq!(folder.names(), [""; 0], "the recording is deleted");
    // The test must not depend on whether this machine meets the targets at the moment.
    assert!(matches!(ended.status.code(), Some(0 | 75)), "{}", err(&ended));
    let object = object(&ended);
    let figure = |name: &str| {
        let rows = object["rows"].as_array().expect("a list");
        let row =
            rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {object}"));
        number(row, "measured")
    };
    let work = ["without", "with"].map(|which| figure(&format!("work of a tick, p50, {which} recorder")));
    assert!(near(figure("work of a tick, p50, with minus without"), work[1] - work[0]), "{object}");
    assert!(near(figure("work of a tick, p50, with over without"), work[1] / work[0]), "{object}");
    assert_eq!(figure("heap allocations a tick, with recorder"), 0.0);
    assert_eq!(figure("slots lost by the recorder"), 0.0);
    assert!(figure("recorder's share of a core") > 0.0 && figure("written") > 1.0, "{object}");
    assert!(object["slots_recorded"].as_u64().is_some_and(|slots| slots >= 50), "{object}");
}

#[test]
fn a_cheaper_level_moves_fewer_bytes() {
    let bytes: Vec<f64> = ["0", "1", "2", "5"]
        .iter()
        .map(|quality| number(&object(&field(&["--json", "--quality", quality])), "bytes_per_cycle"))
        .collect();
    assert!(bytes.windows(2).all(|pair| pair[0] > pair[1]), "{bytes:?}");
}

#[test]
fn impossible_fields_exit_64_and_missing_hardware_exits_69() {
    for more in [
        &["--grid", "12"][..],
        &["--quality", "6"],
        &["--quality", "-1"],
        &["--threads", "0"],
        &["--threads", "65"],
        &["--storage", "f64"],
        &["--engine", "gpu"],
        &["--simd", "sse9"],
        &["--seconds", "0"],
        &["--seconds", "nan"],
        &["--cpus", "0,0"],
        &["--cpus", "1024"],
        &["--patterns", "0"],
        &["--bank", "0"],
    ] {
        let refused = field(more);
        assert_eq!(refused.status.code(), Some(64), "{more:?}: {}", err(&refused));
        assert_eq!(out(&refused), "", "{more:?}");
    }
    let foreign = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
    for more in
        [&["--simd", foreign][..], &["--engine", "reference", "--simd", "portable"], &["--cpus", "1023"]]
    {
        let refused = field(&[more, &["--json"]].concat());
        assert_eq!(refused.status.code(), Some(69), "{more:?}: {}", err(&refused));
        assert_eq!(out(&refused), "", "{more:?}: only the requested figures");
        assert!(err(&refused).contains(more[more.len() - 1]), "{more:?}: {}", err(&refused));
    }
}

#[test]
fn more_threads_than_cores_cause_a_warning() {
    let warned = field(&["--threads", "64"]);
    assert_eq!(warned.status.code(), Some(0), "{}", err(&warned));
    let cores = std::thread::available_parallelism().map_or(64, usize::from);
    assert_eq!(err(&warned).contains("64 threads on"), cores < 64, "{}", err(&warned));
}

#[test]
fn an_interrupted_bench_prints_no_figures() {
    for arguments in [
        &["bench", "field", "--grid", "8", "--bank", "200", "--seconds", "600", "--json"][..],
        &["bench", "all", "--seconds", "600", "--json"],
        &["bench", "loop", "--seconds", "600", "--json"],
    ] {
        let run = watching(arguments);
        run.send(&[Signal::INT]);
        let ended = run.finish();
        assert_eq!(ended.status.code(), Some(69), "{arguments:?}: {}", err(&ended));
        assert_eq!(out(&ended), "", "{arguments:?}");
        assert!(err(&ended).contains("interrupted"), "{arguments:?}: {}", err(&ended));
    }
}

/// A folder with a board file.
struct File(Folder);

impl File {
    fn new(name: &str, text: &str) -> File {
        let folder = Folder::new(&format!("bench-{name}"));
        folder.write("board.toml", text);
        File(folder)
    }
    /// Runs `bench all` on this board.
    fn bench(&self) -> Output {
        self.bench_with(&[])
    }
    /// Runs `bench all` on this board with further arguments.
    fn bench_with(&self, more: &[&str]) -> Output {
        let path = self.0.path("board.toml");
        output(&[&["bench", "all", "--board", &path, "--seconds", "0.6", "--json"], more].concat())
    }
}

/// A small field whose targets even a busy machine meets.
const LENIENT: &str = "[field]\ngrid = 8\npatterns = 5\nbank = 200\nthreads = 2\n\
    [targets]\ntick_p99_us = 1e6\nwake_ratio = 1000\ncycle_p50_ms = 60000\ncycle_p99_ms = 60000\n\
    tail_ratio = 1000\nlevel5_ratio = 0.1\nf16_ratio = 0.1\n";

fn row<'a>(object: &'a Value, name: &str) -> &'a Value {
    let rows = object["rows"].as_array().expect("a list");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name} in {object}"))
}

#[test]
fn met_targets_exit_0() {
    let board = File::new("met", &format!("inherits = \"sim\"\n{LENIENT}memory_mb = 1000\n"));
    let ended = board.bench();
    assert_eq!(ended.status.code(), Some(0), "{}{}", out(&ended), err(&ended));
    let object = object(&ended);
    assert_eq!((&object["pass"], &object["grid"]), (&Value::Bool(true), &Value::from(8)));
    let rows = object["rows"].as_array().expect("a list");
    for row in rows {
        for key in ["name", "unit", "measured", "target", "bound", "pass"] {
            assert!(row.get(key).is_some(), "no {key} in {row}");
        }
        assert_ne!(row["measured"].is_number(), row["not_measured"].is_string(), "{row}");
        assert_eq!(row["target"].is_null(), row["pass"].is_null(), "{row}");
        assert_ne!(row["pass"], false, "{row}");
    }
    assert_eq!(rows.iter().filter(|row| row["pass"] == true).count(), 8, "one for each target");
    for quality in 0..QUALITY_LEVELS {
        assert!(number(row(&object, &format!("cycle at level {quality}, p50")), "measured") > 0.0);
    }
    assert!(number(row(&object, "1 thread over 2"), "measured") > 0.0);
    let table = out(&ended);
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        let line = table.lines().find(|line| line.starts_with(name));
        let verdict = if row["pass"].is_null() { "no target" } else { "pass" };
        let verdict = row["not_measured"].as_str().unwrap_or(verdict);
        assert!(line.is_some_and(|line| line.ends_with(verdict)), "{name} in:\n{table}");
    }
}

#[test]
fn a_missed_target_exits_75_and_is_named() {
    let strict = File::new(
        "strict",
        &format!("inherits = \"picarx-v5\"\ncompatible = []\n{LENIENT}memory_mb = 0.1\n"),
    );
    let ended = strict.bench();
    assert_eq!(ended.status.code(), Some(75), "{}", err(&ended));
    assert!(err(&ended).contains("1 of 8 targets missed: memory of the field"), "{}", err(&ended));
    let missed = object(&ended);
    assert_eq!(missed["pass"], false);
    let memory = row(&missed, "memory of the field");
    assert!(memory["pass"] == false && number(memory, "measured") > 0.1, "{memory}");
    let notes = missed["notes"].as_array().expect("a list");
    assert!(notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains("simulated bus"))));

    // A loop that reads a log cannot be measured in real time, so no measurement can show that it is fast
    // enough.
    let log = File::new("log", &format!("inherits = \"scitos-g5\"\n{LENIENT}"));
    let ended = log.bench();
    assert_eq!(ended.status.code(), Some(75), "{}", err(&ended));
    let unmeasured = object(&ended);
    let work = row(&unmeasured, "work of a tick, p99");
    assert!(work["measured"].is_null() && work["pass"] == false, "{work}");
}

#[test]
fn other_machines_are_not_judged_by_a_boards_targets() {
    let lenient =
        format!("inherits = \"jetson-orin-nano\"\ncompatible = [\"none-such\"]\n{LENIENT}memory_mb = 1000\n");
    let board = File::new("elsewhere", &lenient);
    let refused = board.bench();
    assert_eq!((refused.status.code(), out(&refused)), (Some(78), String::new()), "{}", err(&refused));
    for part in ["this machine is not that robot", "none-such", "--simulate"] {
        assert!(err(&refused).contains(part), "no {part}: {}", err(&refused));
    }
    let ended = board.bench_with(&["--simulate"]);
    assert_eq!(ended.status.code(), Some(69), "{}{}", out(&ended), err(&ended));
    assert!(err(&ended).contains("nothing was judged: this machine is not that robot"), "{}", err(&ended));
    let object = object(&ended);
    assert!(object["pass"].is_null() && object["not_judged"][0].is_string(), "{object}");
    let memory = row(&object, "memory of the field");
    assert!(number(memory, "measured") > 0.0 && memory["pass"].is_null(), "{memory}");
    assert!(memory["not_judged"].as_str().is_some_and(|why| why.contains("not that robot")), "{memory}");
    assert!(number(row(&object, "work of a tick, p99"), "measured") > 0.0, "the loop ran on simulated buses");
    let judged =
        object["rows"].as_array().expect("a list").iter().filter(|row| !row["pass"].is_null()).count();
    assert_eq!(judged, 0, "{object}");
    assert!(out(&ended).contains("0 of 11 targets were judged"), "{}", out(&ended));
}

#[test]
fn a_board_without_targets_never_counts_as_passed() {
    let board = File::new("none", "inherits = \"sim\"\n[field]\ngrid = 8\n[targets]\nremove = true\n");
    let ended = board.bench();
    assert_eq!(ended.status.code(), Some(69), "{}", err(&ended));
    assert!(err(&ended).contains("nothing was judged: the board states no targets"), "{}", err(&ended));
    assert!(object(&ended)["pass"].is_null());
    assert!(out(&ended).contains("0 of 0 targets were judged"), "{}", out(&ended));
}

#[test]
fn an_invalid_board_exits_78_before_measuring() {
    let wrong = File::new("wrong", "inherits = \"sim\"\n[targets]\nwake_ratio = 0\n");
    let refused = wrong.bench();
    assert_eq!((refused.status.code(), out(&refused)), (Some(78), String::new()), "{}", err(&refused));
}

#[test]
fn the_bench_field_is_filled_like_a_used_robots() {
    for engine in [EngineKind::Cpu, EngineKind::Reference] {
        let plan = FieldPlan {
            engine,
            shape: Shape { grid: 8, sensors: 16, motors: 5, patterns: 7, bank: 300 },
            params: Params::default(),
            seed: 1,
            dt: Span::from_millis(50),
            every_ticks: 1,
            threads: 1,
            cpus: Vec::new(),
            storage: Storage::F32,
            learn: true,
            start: Vec::new(),
            correction: 1.0,
        };
        let mut bench = FieldBench::build(&plan, None).expect("any SIMD level will do");
        let mut figures = FieldFigures::new();
        let never = AtomicBool::new(false);
        for quality in [QualityLevel::BEST, QualityLevel::WORST] {
            let before = figures.cycle.len();
            bench.measure(quality, Span::from_millis(1), &mut figures, &never, &mut |_| {});
            assert!(figures.cycle.len() > before, "at least one cycle, however short the time");
            assert_eq!(figures.bytes_per_cycle, bench.engine().bytes_per_cycle(quality));
            let uneven = figures.bytes_per_cycle - figures.bytes_per_copy;
            assert!(
                uneven < 2,
                "the copy is the cycle's data rounded down to an even number of bytes: {uneven}"
            );
            let copies = figures.copy.len();
            assert!(figures.stages.iter().all(|stage| stage.len() == figures.cycle.len()) && copies >= 6);
        }
        let engine = bench.engine();
        assert_eq!(engine.experiences(), 300);
        assert!((0..7).all(|slot| engine.pattern_value(slot).is_some()));
        assert_eq!(engine.blend().0.len(), QualityLevel::WORST.work().blend_top);
        assert!(!engine.nearest().is_empty());
    }
}
