//! `ganglion bench hrr` gives every figure once and the figures agree. How long anything takes is not asserted.

use crate::cli::{err, out, output};
use serde_json::Value;

#[test]
fn every_operation_is_measured_beside_its_floor() {
    let ended =
        output(&["bench", "hrr", "--dims", "64,100", "--batches", "1,100", "--seconds", "0.001", "--json"]);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let text = out(&ended);
    let object: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("an object");
    assert_eq!(object["schema"], 1);
    let cells = object["cells"].as_array().expect("a list");
    // Two lengths: five operations on one vector and on a hundred, four of them again on two threads.
    assert_eq!(cells.len(), 2 * (5 + 5 + 4));
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
    for wrong in [["--dims", "63"], ["--batches", "0"], ["--threads", "0"]] {
        let ended = output(&[&["bench", "hrr"], &wrong[..]].concat());
        assert_eq!(ended.status.code(), Some(64), "{wrong:?}: {}", err(&ended));
    }
}
