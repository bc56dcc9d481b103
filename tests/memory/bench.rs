//! `ganglion bench hrr` prints every figure once, and the figures agree. No duration is asserted.

use crate::cli::{err, ganglion, out, output};
use crate::cuda::standin::alone;
use crate::folder::Folder;
use serde_json::Value;

#[test]
fn every_operation_is_measured_beside_its_baseline() {
    let ended =
        output(&["bench", "hrr", "--dims", "64,100", "--batches", "1,100", "--seconds", "0.001", "--json"]);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let text = out(&ended);
    let object: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("an object");
    assert_eq!(object["schema"], 1);
    let all = object["cells"].as_array().expect("a list");
    let cells: Vec<&Value> = all.iter().filter(|cell| cell["residence"].is_null()).collect();
    // Two lengths, each with five operations on one vector and five on a hundred.
    assert_eq!(cells.len(), 2 * (5 + 5));
    for cell in cells {
        let number =
            |key: &str| cell[key].as_f64().unwrap_or_else(|| panic!("{key} is not a number in {cell}"));
        assert!(number("min_us") > 0.0 && number("min_us") <= number("p50_us"), "{cell}");
        assert!((number("ratio_to_floor") - number("p50_us") / number("floor_us")).abs() < 1e-9, "{cell}");
        let vectors = match cell["operation"].as_str().expect("a word") {
            "bind" | "unbind" | "bind_unit" => 3.0 * number("batch"),
            "superpose_unit" | "clean_up" => number("batch") + 1.0,
            other => panic!("{other}"),
        };
        assert!((number("bytes") - 4.0 * number("d") * vectors).abs() < 0.5, "{cell}");
        assert!(number("n") >= 5.0);
    }
    assert_eq!(object["left_out"].as_array().map(Vec::len), Some(0));
}

#[test]
fn oversized_measurements_are_skipped_and_reported() {
    let ended = output(&[
        "bench",
        "hrr",
        "--dims",
        "512",
        "--batches",
        "1,1000",
        "--seconds",
        "0.001",
        "--memory",
        "1",
        "--json",
    ]);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let text = out(&ended);
    assert!(text.contains("left out: 1000 vectors of 512"), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.contains("\"left_out\":[[512,1000]]")), "{text}");
    for wrong in [["--dims", "63"], ["--batches", "0"]] {
        let ended = output(&[&["bench", "hrr"], &wrong[..]].concat());
        assert_eq!(ended.status.code(), Some(64), "{wrong:?}: {}", err(&ended));
    }
}

/// Runs the program with the stand-in for the CUDA driver and the cache folder `cache`; returns its report.
fn with_stand_in(folder: &std::path::Path, cache: &std::path::Path, arguments: &[&str]) -> Value {
    let ended = ganglion(arguments)
        .env("LD_LIBRARY_PATH", folder)
        .env("CACHE_DIRECTORY", cache)
        .output()
        .expect("it starts");
    let text = out(&ended);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}{}", err(&ended)))
}

/// Figures derived from the cells of `--dims 128 --batches 1,8` agree with them, and are marked as emulated.
fn assert_compared(object: &Value) {
    assert_eq!((&object["emulated"], &object["gpu_absence"]), (&Value::Bool(true), &Value::Null));
    assert!(
        object["gpu"]["name"].as_str().is_some_and(|name| name.contains("stand-in")),
        "{}",
        object["gpu"]
    );
    let p50 = |one: &Value, residence: Value| {
        let same = |cell: &&Value| {
            ["operation", "d", "batch"].iter().all(|key| cell[key] == one[key])
                && cell["residence"] == residence
        };
        object["cells"]
            .as_array()
            .and_then(|cells| cells.iter().find(same))
            .and_then(|cell| cell["p50_us"].as_f64())
    };
    let compared = object["comparisons"].as_array().expect("a list");
    assert_eq!(compared.len(), 2 * 5, "each operation in each batch");
    for one in compared {
        let (own, there) = (p50(one, Value::Null).expect("a time"), p50(one, "gpu".into()).expect("a time"));
        let near = |key: &str, wanted: f64| {
            assert!(
                one[key].as_f64().is_some_and(|found| (found / wanted - 1.0).abs() < 1e-9),
                "{key}: {one}"
            );
        };
        near("speed_up", own / there);
        assert!(one["efficiency"].as_f64().is_some_and(|share| share > 0.0), "{one}");
        let from_host = p50(one, "host".into());
        assert_eq!(from_host.is_none(), one["operation"] == "clean_up");
        match from_host {
            Some(all) if all > there => {
                near("speed_up_from_host", own / all);
                near("transfer_share", (all - there) / all);
            }
            // If no rows are transferred, or the transfer is within the noise, the figures are absent, not 0.
            _ => assert!(one["transfer_us"].is_null() && one["transfer_share"].is_null(), "{one}"),
        }
    }
    // Five on the CPU, five on the GPU, and four on the GPU with transfers.
    assert_eq!(object["growth"].as_array().map(Vec::len), Some(5 + 5 + 4));
    let memory = &object["memory"][0];
    let bytes = |key: &str| memory[key].as_u64().expect("bytes");
    assert!(
        bytes("allocated_bytes") == bytes("wanted_bytes") && bytes("reserved_bytes") >= bytes("wanted_bytes")
    );
    assert!(bytes("limit_bytes") > bytes("reserved_bytes") && memory["refused"].is_null(), "{memory}");
}

#[test]
fn board_targets_are_judged_only_on_a_real_gpu() {
    let Some(alone) = alone() else { return };
    let cache = Folder::new("hrr-judged");
    let plain = ["bench", "hrr", "--dims", "512", "--batches", "1,100", "--seconds", "0.001"];
    let asked = [&plain[..], &["--gpu-from", "never", "--board", "desktop-gpu", "--json"]].concat();
    let with = |folder: Option<&std::path::Path>| {
        let mut command = ganglion(&asked);
        command.env("CACHE_DIRECTORY", &*cache).env("CUDA_VISIBLE_DEVICES", "").env_remove("LD_LIBRARY_PATH");
        command.envs(folder.map(|folder| ("LD_LIBRARY_PATH", folder)));
        command.output().expect("it starts")
    };
    let rows = |ended: &std::process::Output| -> Vec<Value> {
        assert_eq!(ended.status.code(), Some(69), "nothing is judged: {}", err(ended));
        let object: Value =
            serde_json::from_str(out(ended).lines().last().expect("a line")).expect("an object");
        assert_eq!((&object["board"], &object["pass"]), (&Value::from("desktop-gpu"), &Value::Null));
        object["rows"].as_array().expect("a list").clone()
    };
    let emulated = with(Some(alone.folder()));
    assert!(out(&emulated).starts_with("EMULATED"), "{}", out(&emulated));
    let found = rows(&emulated);
    assert_eq!(found.len(), 6);
    for row in &found {
        assert!(row["pass"].is_null() && row["target"].is_number(), "{row}");
        let why = row["not_judged"].as_str().or(row["not_measured"].as_str()).unwrap_or_default();
        assert!(why.contains("emulated") || why.contains("needs --dims 512"), "{row}");
    }
    let measured: Vec<bool> = found.iter().map(|row| row["measured"].is_number()).collect();
    assert_eq!(
        (&measured[..4], measured[5]),
        (&[true, true, true, false][..], true),
        "a batch of 1000 was not requested"
    );
    for row in rows(&with(None)) {
        assert!(
            row["measured"].is_null() && row["pass"].is_null() && row["not_measured"].is_string(),
            "{row}"
        );
    }
}

#[test]
fn rows_beyond_80_percent_of_gpu_memory_are_refused() {
    let Some(alone) = alone() else { return };
    let ended =
        ganglion(&["bench", "hrr", "--dims", "1024", "--batches", "5000", "--seconds", "0.001", "--json"])
            .env("LD_LIBRARY_PATH", alone.folder())
            .env("GANGLION_STAND_IN", "memory=64M")
            .output()
            .expect("it starts");
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let text = out(&ended);
    assert!(text.contains("GPU memory for batches of 5000 x 1024: refused: the rows need "), "{text}");
    let object: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("an object");
    let memory = &object["memory"][0];
    assert!(memory["allocated_bytes"].is_null() && memory["reserved_bytes"].is_null(), "{memory}");
    assert!(memory["share_of_limit"].as_f64().is_some_and(|share| share > 0.8), "{memory}");
    assert!(memory["refused"].as_str().is_some_and(|why| why.contains("more than 80 % of its 67108864")));
    let cells = object["cells"].as_array().expect("a list");
    assert!(cells.len() == 5 && cells.iter().all(|cell| cell["residence"].is_null()), "CPU only");
}

#[test]
fn the_gpu_is_measured_and_the_choice_is_reported_and_kept() {
    let Some(alone) = alone() else { return };
    let cache = Folder::new("hrr-cache");
    let bench = |more: &[&str]| {
        let plain = ["bench", "hrr", "--dims", "128", "--batches", "1,8", "--seconds", "0.001"];
        with_stand_in(alone.folder(), &cache, &[&plain, more, &["--json"]].concat())
    };
    let object = bench(&[]);
    let on_gpu = |residence: &str| {
        let cells = object["cells"].as_array().expect("a list").iter();
        cells.filter(|cell| cell["residence"] == residence && cell["threads"] == 0).count()
    };
    assert_eq!((on_gpu("host"), on_gpu("gpu")), (2 * 4, 2 * 5), "clean-up always has its store on the GPU");
    assert_compared(&object);
    let choice = |object: &Value| object["choices"][0][1].as_str().unwrap_or_default().to_string();
    assert!(choice(&object).starts_with("measured now; bind, rows in host memory: "), "{}", choice(&object));
    assert!(choice(&bench(&[])).starts_with("measured at an earlier start; "));
    let dispatched = |object: &Value| -> Vec<(u64, bool, bool)> {
        let cells = object["dispatched"].as_array().expect("a list").iter();
        let answered = |cell: &Value, who: &str| cell["answered"][who].as_u64().expect("a count") > 0;
        let cell = |cell: &Value| {
            let batch = cell["batch"].as_u64().expect("a size");
            (batch, answered(cell, "processor"), answered(cell, "gpu"))
        };
        cells.map(cell).collect()
    };
    let from = bench(&["--gpu-from", "3"]);
    assert_eq!(choice(&from), "on the GPU from 3 rows on, as requested");
    let own = [[(1, true, false); 5], [(8, false, true); 5]].concat();
    assert_eq!(dispatched(&from), own, "one vector by the processor, eight by the GPU");
    let never = [[(1, true, false); 5], [(8, true, false); 5]].concat();
    assert_eq!(dispatched(&bench(&["--gpu-from", "never"])), never);
    let found = |more: &[&str]| {
        let object = with_stand_in(alone.folder(), &cache, &[&["doctor", "--json"], more].concat());
        let findings = object["findings"].as_array().expect("a list").clone();
        let own = findings.iter().find(|finding| finding["topic"] == "vectors").expect("a finding");
        own["found"].as_str().unwrap_or_default().to_string()
    };
    assert_eq!(found(&["--memory-gpu", "never"]), "of 512 numbers: on the processor, as requested");
    let tried = |name: &str| format!("; tried {name} of 3: the GPU's results equal the CPU's bit for bit");
    let all = ["bind", "superpose", "clean-up"].map(tried).concat();
    let from = format!("of 512 numbers: on the GPU from 3 rows on, as requested{all}");
    assert_eq!(found(&["--memory-gpu", "3"]), from);
}
