//! `ganglion bench barn`: the counts of each driver agree with its runs, the same command gives the same
//! runs, rough conditions give others, and the drawing shows one of them.

use super::{number, object};
use crate::cli::{err, out, output};
use crate::folder::Folder;
use serde_json::Value;

/// Two worlds of the course.
const TWO: [&str; 7] = ["bench", "barn", "--worlds", "tests/data/barn", "--count", "2", "--json"];

fn report(more: &[&str]) -> Value {
    let ended = output(&[&TWO[..], more].concat());
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    object(&ended)
}

/// The runs of the driver at this place of the list.
fn runs(report: &Value, driver: usize) -> &Vec<Value> {
    report["drivers"][driver]["runs"].as_array().expect("runs")
}

fn digests(report: &Value) -> Vec<&Value> {
    runs(report, 0).iter().map(|run| &run["digest"]).collect()
}

#[test]
fn barn_counts_agree_with_the_runs_of_each_driver() {
    let folder = Folder::new("barn");
    let picture = folder.path("drive.svg");
    let report = report(&["--driver", "follow-gap,navigator", "--rough", "--svg", &picture]);
    assert_eq!((&report["rough"], &report["worlds"]), (&true.into(), &2.into()));
    for (at, driver) in ["follow-gap", "navigator"].into_iter().enumerate() {
        let (row, runs) = (&report["drivers"][at], runs(&report, at));
        assert_eq!((&row["driver"], runs.len()), (&driver.into(), 2), "{report}");
        let ended = |how: &str| runs.iter().filter(|run| run["outcome"] == how).count() as u64;
        for (key, how) in [("reached", "reached"), ("contacts", "contact"), ("timeouts", "timeout")] {
            assert_eq!(row[key].as_u64(), Some(ended(how)), "{driver}: {key}");
        }
        let success = &row["success"];
        assert_eq!(number(success, "mean"), ended("reached") as f64 / 2.0, "{driver}");
        assert!(number(success, "low") <= number(success, "mean"), "{driver}: its interval");
        assert!(runs.iter().all(|run| number(run, "driven_m") > 1.0), "{driver}: it drove");
    }
    assert_eq!(report["drivers"][1]["reached"], 2, "the navigator crosses both");
    let drawn = std::fs::read_to_string(picture).expect("a drawing");
    assert!(drawn.starts_with("<svg ") && drawn.matches("<polyline").count() == 1);
}

#[test]
fn barn_runs_repeat_and_rough_ones_differ() {
    let navigator = ["--driver", "navigator", "--threads"];
    let on = |threads, more: &[&str]| report(&[&navigator[..], &[threads], more].concat());
    let (one, two, rough) = (on("1", &[]), on("2", &[]), on("2", &["--rough"]));
    assert_eq!(digests(&one), digests(&two));
    assert!(digests(&one).iter().zip(digests(&rough)).all(|(smooth, rough)| *smooth != rough));
}

#[test]
fn barn_rooms_of_the_board_are_driven_and_bad_worlds_refused() {
    let rooms =
        output(&["bench", "barn", "--rooms", "3", "--board", "sim", "--driver", "navigator", "--json"]);
    let rooms = object(&rooms);
    assert_eq!((&rooms["board"], runs(&rooms, 0).len()), (&"sim".into(), 3), "{rooms}");
    let none = output(&["bench", "barn", "--worlds", "tests/data"]);
    assert_eq!(none.status.code(), Some(69), "{}", err(&none));
    assert!(err(&none).contains("worlds.csv") && out(&none).is_empty(), "{}", err(&none));
}
