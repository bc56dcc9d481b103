//! `ganglion bench hrr` gives every figure once and the figures agree. How long anything takes is not
//! asserted.

use crate::cli::{err, ganglion, out, output};
use crate::cuda::standin::alone;
use serde_json::Value;

#[test]
fn every_operation_is_measured_beside_its_floor() {
    let ended =
        output(&["bench", "hrr", "--dims", "64,100", "--batches", "1,100", "--seconds", "0.001", "--json"]);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let text = out(&ended);
    let object: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("an object");
    assert_eq!(object["schema"], 1);
    let all = object["cells"].as_array().expect("a list");
    let cells: Vec<&Value> = all.iter().filter(|cell| cell["residence"].is_null()).collect();
    // Two lengths: five operations on one vector and on a hundred.
    assert_eq!(cells.len(), 2 * (5 + 5));
    for cell in cells {
        let number = |key: &str| cell[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {cell}"));
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
fn what_takes_too_much_memory_is_left_out_and_said() {
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
    assert!(text.contains("left out, 1000 vectors of 512"), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.contains("\"left_out\":[[512,1000]]")), "{text}");
    for wrong in [["--dims", "63"], ["--batches", "0"]] {
        let ended = output(&[&["bench", "hrr"], &wrong[..]].concat());
        assert_eq!(ended.status.code(), Some(64), "{wrong:?}: {}", err(&ended));
    }
}

/// The program with the stand-in for the driver, and a cache folder of its own.
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

#[test]
fn where_there_is_a_gpu_it_is_measured_too_and_what_is_chosen_is_said_and_kept() {
    let Some(alone) = alone() else { return };
    let cache = std::env::temp_dir().join(format!("ganglion-hrr-cache-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&cache);
    let bench = |more: &[&str]| {
        let plain = ["bench", "hrr", "--dims", "128", "--batches", "1,8", "--seconds", "0.001"];
        with_stand_in(alone.folder(), &cache, &[&plain, more, &["--json"]].concat())
    };
    let object = bench(&[]);
    let on_gpu = |residence: &str| {
        let cells = object["cells"].as_array().expect("a list").iter();
        cells.filter(|cell| cell["residence"] == residence && cell["threads"] == 0).count()
    };
    assert_eq!((on_gpu("host"), on_gpu("gpu")), (2 * 4, 2 * 5), "a store lies on the GPU in any case");
    let choice = |object: &Value| object["choices"][0][1].as_str().unwrap_or_default().to_string();
    assert!(choice(&object).starts_with("measured now; bind, rows here: "), "{}", choice(&object));
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
        let own = findings.iter().find(|finding| finding["topic"] == "vectors").expect("it is looked at");
        own["found"].as_str().unwrap_or_default().to_string()
    };
    assert_eq!(found(&["--memory-gpu", "never"]), "of 512 numbers: on the processor, as requested");
    let tried = |name: &str| format!("; tried {name} of 3: the GPU has the CPU's bits");
    let all = ["bind", "superpose", "clean-up"].map(tried).concat();
    let from = format!("of 512 numbers: on the GPU from 3 rows on, as requested{all}");
    assert_eq!(found(&["--memory-gpu", "3"]), from);
    let _ = std::fs::remove_dir_all(&cache);
}
