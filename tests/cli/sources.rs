//! Every figure that was not measured is labelled where it is printed, in text and in JSON; measured ones are
//! not.

use super::{err, out, output};
use serde_json::Value;

/// The output of the program with `arguments`: the text without its last line, and the object in the last
/// line.
fn said(arguments: &[&str]) -> (String, Value) {
    let ended = output(arguments);
    let all = out(&ended);
    let (text, last) = all.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{all}{}", err(&ended)));
    (text.to_string(), serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}")))
}

/// Checks that at least one line has `part`, and that each such line is labelled.
fn is_labelled(text: &str, part: &str, label: &str) {
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(part)).collect();
    assert!(!lines.is_empty(), "no line with '{part}': {text}");
    lines.iter().for_each(|line| assert!(line.contains(label), "not {label}: {line}"));
}

/// Checks that each of `keys` is in the report (a `.` leads into an object or a list), and that the report
/// gives `source` as its source.
fn has_sources(report: &Value, keys: &[&str], source: &str) {
    for key in keys {
        assert_eq!(report["sources"][key], source, "{key}: {}", report["sources"]);
        let top = key.split('.').next().unwrap_or_default();
        assert!(!report[top].is_null(), "'{top}' is not in the report: {report}");
    }
}

const TIMES: [&str; 4] = ["field_us", "answer_us", "exec_us", "release_late_us"];
const WIRES: [&str; 2] = ["end_late_us", "buses.longest_us"];

#[test]
fn every_time_of_a_virtual_run_is_labelled() {
    let (text, report) = said(&["run", "--clock", "sim", "--for", "2s", "--json"]);
    is_labelled(&text, "  field      ", "virtual us (modelled)");
    is_labelled(&text, "  answer     ", "virtual us (modelled)");
    is_labelled(&text, " us", "(modelled)");
    is_labelled(&text, "m driven", "(simulated)");
    is_labelled(&text, "% standing", "(simulated)");
    is_labelled(&text, "along the recorded path", "(computed)");
    has_sources(&report, &[&TIMES[..], &WIRES].concat(), "modelled");
    has_sources(&report, &["distance_m", "contacts", "falls", "cells_visited"], "simulated");
    has_sources(&report, &["backing.metres"], "computed");
}

#[test]
fn only_wire_times_are_simulated_in_a_real_time_run() {
    let (text, report) = said(&["run", "--for", "1s", "--json"]);
    assert!(!text.contains("(modelled)"), "{text}");
    TIMES.iter().for_each(|key| assert_eq!(report["sources"].get(key), None, "{key} was measured"));
    has_sources(&report, &WIRES, "simulated");
    is_labelled(&text, "  on wire ", "us (simulated)");
    let field = text.lines().find(|line| line.starts_with("  field ")).expect("it exists");
    assert!(field.contains(" us (n "), "{field}");
}

#[test]
fn computed_figures_are_labelled_as_computed() {
    let text = out(&output(&["check", "picarx-v4"]));
    let report = out(&output(&["check", "picarx-v4", "--json"]));
    let report: Value = serde_json::from_str(report.trim()).expect("one object");
    is_labelled(&text, "MB of memory", "(computed)");
    is_labelled(&text, "together at least", "(computed)");
    is_labelled(&text, "a front wheel reaches an edge", "(computed)");
    has_sources(&report, &["field_bytes", "bus_load", "unseen_edges_below_deg"], "computed");

    let field = ["bench", "field", "--grid", "8", "--seconds", "0.3", "--patterns", "2", "--bank", "50"];
    let (text, report) = said(&[&field[..], &["--json"]].concat());
    is_labelled(&text, "MB read and written", "(computed)");
    is_labelled(&text, "MB of memory", "(computed)");
    has_sources(&report, &["bytes_per_cycle", "floor_us", "ratio_to_floor", "memory_mb"], "computed");
    assert_eq!(report["sources"].get("copy_gbps"), None, "it was measured");

    let hrr = ["bench", "hrr", "--dims", "64", "--batches", "1000", "--seconds", "0.02"];
    let (text, report) = said(&[&hrr[..], &["--json"]].concat());
    is_labelled(&text, "a store of", "(computed)");
    has_sources(&report, &["store_bytes"], "computed");

    let (text, report) = said(&["bench", "all", "--board", "sim", "--seconds", "2", "--json"]);
    for name in ["memory of the field", "cycle at level 0 over a copy of its bytes"] {
        is_labelled(&text, name, "(computed)");
        let rows = report["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["name"] == name).expect("its row");
        assert_eq!(row["source"], "computed", "{row}");
    }
}
