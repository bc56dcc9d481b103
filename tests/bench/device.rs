//! `ganglion bench` with a GPU: with an emulated one, the JSON object has every figure, and the figures
//! agree; without one, the bench prints the reason. `bench all` judges GPU targets in neither case. The
//! driver is the stand-in, on the library path of a child process.

use super::{File, LENIENT, err, number, object, out, row};
use crate::cli::ganglion;
use crate::cuda::standin;
use crate::long::or_in_full;
use crate::skips::skip;
use ganglion::field::STAGES;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const SMALL: [&str; 13] = [
    "bench",
    "field",
    "--engine",
    "cuda",
    "--grid",
    "8",
    "--patterns",
    "5",
    "--bank",
    "50",
    "--seconds",
    "0.3",
    "--json",
];

/// Runs the program with the folder `libraries` as its library path.
fn with(libraries: &Path, arguments: &[&str]) -> Output {
    ganglion(arguments).env("LD_LIBRARY_PATH", libraries).output().expect("the program starts")
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object[key].as_array().map(Vec::as_slice).unwrap_or_else(|| panic!("{key} is not a list in {object}"))
}

/// Checks figures that follow from each other, and figures that hold on any device.
fn check(object: &Value, robots: u64) {
    let cycle = &object["cycle"];
    let percentiles = ["p50_us", "p99_us", "p999_us", "max_us"].map(|key| number(cycle, key));
    assert!(cycle["n"].as_u64().is_some_and(|n| n > 0));
    assert!(percentiles[0] > 0.0 && percentiles.is_sorted(), "{cycle}");
    let names: Vec<&str> = list(object, "stages").iter().filter_map(|stage| stage["name"].as_str()).collect();
    assert_eq!(names, STAGES);
    let stages: f64 = list(object, "stages").iter().map(|stage| number(stage, "p50_us")).sum();
    assert!(stages > 0.0, "{object}");

    let times = object["device_times"].as_object().expect("an object");
    let mut parts: Vec<&str> = times.keys().map(String::as_str).collect();
    parts.sort_unstable();
    assert_eq!(parts, ["kernels", "queue", "wake"]);
    for part in times.values() {
        assert!(0.0 <= number(part, "p50_us") && number(part, "p50_us") <= number(part, "p99_us"), "{part}");
    }
    let kernels_us = number(&times["kernels"], "p50_us");
    assert!(kernels_us > 0.0 && kernels_us <= percentiles[3], "{object}");

    assert_eq!((&object["batch"], &object["bank"]), (&Value::from(robots), &Value::from(50)));
    let (bytes, achieved) = (number(object, "bytes_per_cycle"), number(object, "achieved_gbps"));
    assert!(near(achieved, bytes / kernels_us / 1e3), "{object}");
    assert!(near(number(object, "share_of_copy"), achieved / number(object, "copy_gbps")), "{object}");
    assert!(number(object, "evolve_share_of_copy") > 0.0);
    assert!(near(number(object, "floor_us"), bytes / (number(object, "copy_gbps") * 1e3)), "{object}");
    let cells = robots as f64 * 64.0 * 512.0;
    assert!(near(number(object, "ns_per_cell"), percentiles[0] * 1e3 / cells), "{object}");

    assert_eq!(object["transfers_per_cycle"], 0.0, "{object}");
    assert!(
        (1.0..2.0).contains(&number(object, "calls_per_cycle")),
        "one driver call, and more only in late cycles: {object}"
    );
    assert_eq!((&object["device_allocations"], &object["allocations_per_cycle"]), (&0.into(), &0.0.into()));
    assert!(
        number(object, "memory_mb") * 1e6 > robots as f64 * 64.0 * 512.0 * 2.0,
        "the cells alone need more"
    );
    for key in ["pinned_mb", "launch_and_wait_us", "host_cpu_share", "image_ms", "multiprocessors"] {
        assert!(number(object, key) > 0.0, "{key} in {object}");
    }
    for key in ["device", "driver", "capability", "image"] {
        assert!(object[key].as_str().is_some_and(|text| !text.is_empty()), "{key} in {object}");
    }
    let kernels = list(object, "kernels");
    assert!(kernels.iter().any(|kernel| kernel["name"] == "evolve_8"), "{object}");
    for kernel in kernels {
        assert!(number(kernel, "registers") > 0.0 && number(kernel, "shared_bytes") >= 0.0, "{kernel}");
        assert_eq!(kernel["spilled_bytes"], 0, "{kernel}");
    }
}

#[test]
fn emulated_gpu_json_has_every_figure_marked_as_not_measured() {
    let Some(stand_in) = standin::stand_in() else { return };
    let mut bytes = Vec::new();
    let one_robot = [(&[][..], 1, "f32"), (&["--storage", "f16"][..], 1, "f16")];
    let batch = (&["--batch", "3", "--quality", "5"][..], 3, "f32");
    for (more, robots, storage) in one_robot.into_iter().chain(or_in_full(None, Some(batch))) {
        let ended = with(stand_in.folder(), &[&SMALL[..], more].concat());
        assert_eq!(ended.status.code(), Some(0), "{more:?}: {}", err(&ended));
        let first = out(&ended);
        let first = first.lines().next().unwrap_or_default();
        assert!(first.contains("EMULATED") && first.contains("no figure"), "{first}");
        let object = object(&ended);
        assert_eq!([&object["engine"], &object["storage"]], ["cuda", storage]);
        assert_eq!(object["emulated"], true);
        check(&object, robots);
        bytes.push(number(&object, "bytes_per_cycle"));
    }
    assert!(bytes[1] < bytes[0], "half precision takes fewer bytes: {bytes:?}");
}

#[test]
fn without_a_driver_the_bench_exits_69_without_figures() {
    // Hides a real GPU as well, if there is one.
    let ended = ganglion(&SMALL)
        .env_remove("LD_LIBRARY_PATH")
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .expect("the program starts");
    assert_eq!((ended.status.code(), out(&ended)), (Some(69), String::new()), "{}", err(&ended));
    assert!(err(&ended).contains("CUDA") || err(&ended).contains("GPU"), "{}", err(&ended));
    let Some(lacking) = standin::without("cuGraphUpload") else { return };
    let ended = with(&lacking, &SMALL);
    assert_eq!((ended.status.code(), out(&ended)), (Some(69), String::new()), "{}", err(&ended));
    assert!(err(&ended).contains("cuGraphUpload"), "{}", err(&ended));
}

#[test]
fn options_of_another_engine_exit_64() {
    for more in [&["--threads", "2"][..], &["--cpus", "0"], &["--simd", "portable"], &["--batch", "65"]] {
        let refused = ganglion(&[&SMALL[..], more].concat()).output().expect("the program starts");
        assert_eq!((refused.status.code(), out(&refused)), (Some(64), String::new()), "{more:?}");
    }
    let refused = ganglion(&["bench", "field", "--batch", "2"]).output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(64), "{}", err(&refused));
    assert!(err(&refused).contains("--batch"), "{}", err(&refused));
}

#[test]
fn gpu_targets_are_skipped_on_an_emulating_processor() {
    let Some(stand_in) = standin::stand_in() else { return };
    let gpu = "memory_mb = 1000\n[targets.gpu]\ncycle_us = 1\ncopy_share = 0.9\n";
    let board = File::new("gpu", &format!("inherits = \"sim\"\n{LENIENT}{gpu}"));
    let path = board.0.path("board.toml");
    let ended = with(stand_in.folder(), &["bench", "all", "--board", &path, "--seconds", "1.2", "--json"]);
    assert_eq!(ended.status.code(), Some(0), "{}{}", out(&ended), err(&ended));
    let object = object(&ended);
    let cycle = row(&object, "GPU: cycle of one robot, f32, p50");
    assert_eq!((&cycle["target"], &cycle["bound"]), (&Value::from(1.0), &Value::from("at most")));
    let rows =
        list(&object, "rows").iter().filter(|row| row["name"].as_str().is_some_and(|n| n.starts_with("GPU")));
    let rows: Vec<&Value> = rows.collect();
    assert_eq!(rows.len(), 11);
    for row in rows {
        assert!(row["measured"].is_null() && row["pass"].is_null(), "{row}");
        assert!(row["not_measured"].as_str().is_some_and(|why| why.contains("emulated")), "{row}");
    }
    assert!(out(&ended).contains("not measured: the GPU"), "{}", out(&ended));
}

#[test]
fn an_out_of_range_gpu_target_exits_78_with_its_line() {
    for (line, wanted) in [
        ("cycle_us = 0", "targets.gpu.cycle_us"),
        ("copy_share = -1", "targets.gpu.copy_share"),
        ("evolve_us = 0.5", "targets.gpu.evolve_us"),
        ("host_share = nan", "targets.gpu.host_share"),
        ("cycle_ms = 1", "targets.gpu.cycle_ms"),
    ] {
        let board = File::new("gpu-wrong", &format!("inherits = \"sim\"\n[targets.gpu]\n{line}\n"));
        let refused = board.bench();
        assert_eq!((refused.status.code(), out(&refused)), (Some(78), String::new()), "{line}");
        assert!(err(&refused).contains(wanted), "{line}: {}", err(&refused));
        assert!(err(&refused).contains(":3"), "{line}: {}", err(&refused));
    }
}

#[test]
fn predictions_use_the_engines_own_byte_counts() {
    let said = Command::new("scripts/predict-gpu").arg("--json").output();
    let Some(said) = said.ok().filter(|said| said.status.success()) else {
        return skip("scripts/predict-gpu does not run here: install Python 3");
    };
    let predicted = object(&said);
    assert_eq!(predicted["measured"], false);
    for storage in ["f32", "f16"] {
        let ended = ganglion(&["bench", "field", "--patterns", "3", "--seconds", "0.01", "--json"])
            .args(["--storage", storage])
            .output()
            .expect("the program starts");
        let bytes = number(&object(&ended), "bytes_per_cycle");
        let is_such = |row: &&Value| row["storage"] == storage && row["robots"] == 1;
        let rows: Vec<&Value> = list(&predicted, "rows").iter().filter(is_such).collect();
        assert!(!rows.is_empty());
        assert!(
            rows.iter().all(|row| near(number(row, "bytes_per_cycle"), bytes)),
            "{storage}: {bytes}, {rows:?}"
        );
    }
    let rows = list(&predicted, "rows");
    for row in rows {
        // No prediction is below its floor; for cached data the cache's floor applies instead of the
        // memory's.
        let cache = row["cache_floor_us"].as_f64();
        let floor = cache.unwrap_or(number(row, "memory_floor_us")).max(number(row, "issue_floor_us"));
        assert!(floor > 0.0 && number(row, "predicted_us") > floor + number(row, "f64_us"), "{row}");
        // A warp's f64 instruction takes 16 clocks on the 2 f64 units per multiprocessor that most chips
        // have, or half a clock on 64 units.
        let pays = number(row, "f64_us") / number(row, "robots");
        assert!(if row["device"] == "H200" { pays < 0.2 } else { pays > 0.2 }, "{row}");
        // Each robot has its own copy of all bulk data.
        let bytes = |row: &Value| number(row, "bytes_per_cycle");
        let alike = |other: &&Value| other["storage"] == row["storage"] && other["robots"] == 1;
        let one = rows.iter().find(alike).expect("a row for one robot");
        assert!(near(bytes(row), number(row, "robots") * bytes(one)), "{row}");
    }
}
