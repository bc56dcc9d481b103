//! The picture of `run --svg` is well-formed, the same for the same seed and in agreement with the report;
//! the option is refused if the picture cannot be drawn or written. The drive in the documents is drawn again
//! and compared.

use crate::cli::{err, out, output, watching};
use crate::folder::Folder;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The picture in `file` of a run with these arguments, and the run's report.
fn drawn(file: &str, arguments: &[&str]) -> (String, Value) {
    let run = output(&[&["run", "--json", "--svg", file], arguments].concat());
    assert_eq!(run.status.code(), Some(0), "{}", err(&run));
    let report = serde_json::from_str(out(&run).lines().last().expect("a line")).expect("JSON");
    let svg = std::fs::read_to_string(file).expect("a picture");
    is_well_formed(&svg);
    (svg, report)
}

/// Checks what an XML reader would: every element is closed in order, attributes are quoted, text is escaped.
fn is_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut elements = 0;
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        assert!(!text.contains('>') && (!open.is_empty() || text.trim().is_empty()), "text: {text}");
        for entity in text.split('&').skip(1) {
            assert!(entity.split_once(';').is_some_and(|(name, _)| name.len() < 6), "a bare '&': {text}");
        }
        if let Some(comment) = tag.strip_prefix("<!--") {
            rest = comment.split_once("-->").expect("a closed comment").1;
            continue;
        }
        let (inside, after) = tag[1..].split_once('>').expect("a closed tag");
        rest = after;
        if let Some(name) = inside.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed in order");
            continue;
        }
        let (name, attributes) = inside.trim_end_matches('/').split_once(' ').unwrap_or((inside, ""));
        assert!(open.is_empty() == (name == "svg"), "one root: {name} in {open:?}");
        assert!(attributes.matches('"').count().is_multiple_of(2), "{attributes}");
        let names = attributes.split('"').step_by(2).filter(|name| !name.trim().is_empty());
        assert!(names.clone().all(|name| name.ends_with('=')), "{attributes}");
        elements += 1;
        if !inside.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty() && elements > 10 && rest.trim().is_empty(), "{open:?}");
}

/// How many trips of each cause are marked in the room.
fn trips(svg: &str) -> BTreeMap<String, u64> {
    let mut trips = BTreeMap::new();
    for line in svg.lines().filter(|line| line.starts_with("<polygon class=\"trip ")) {
        let name = line.split("<title>").nth(1).and_then(|rest| rest.split(',').next()).expect("a cause");
        *trips.entry(name.to_string()).or_default() += 1;
    }
    trips
}

#[test]
fn picture_agrees_with_its_report_and_repeats() {
    let folder = Folder::new("svg-repeats");
    let run = |file: &str, length, seed| {
        drawn(&folder.path(file), &["--clock", "sim", "--for", length, "--seed", seed])
    };
    let (first, report) = run("a.svg", "40s", "3");
    let (again, _) = run("b.svg", "40s", "3");
    let (other, _) = run("a.svg", "5s", "4");
    assert!(first == again, "the same seed, the same bytes");
    assert!(first != other, "an old picture is replaced");
    let counted: BTreeMap<String, u64> = serde_json::from_value(report["reflexes"].clone()).expect("counts");
    assert!(!counted.is_empty() && trips(&first) == counted, "{counted:?}: {:?}", trips(&first));
    for (cause, count) in &counted {
        assert!(first.contains(&format!(">{cause} {count}</text>")), "the legend names {cause}");
    }
    let distance = report["distance_m"].as_f64().expect("metres");
    assert!(first.contains("seed 3, ") && first.contains(&format!("{distance:.1} m driven")));
    assert!(first.contains("board &#39;sim&#39;") && first.contains("prefers-color-scheme:dark"));
    assert!(!first.contains("href") && !first.contains("url(http"), "it loads nothing");
    assert_eq!(folder.names(), ["a.svg", "b.svg"], "nothing else is left");
}

#[test]
fn a_picture_shows_the_world_and_the_goals_of_its_run() {
    let folder = Folder::new("svg-world");
    let (world, file) = (folder.path("room.toml"), folder.path("drive.svg"));
    let text = "size = [6.0, 4.0]\nstart = [1.0, 2.0]\ndiscs = [[3.0, 3.2, 0.2], [4.0, 0.6, 0.1]]\n\
                boxes = [[2.0, 0.5, 2.4, 1.0]]\nwalls = [[4.0, 3.0, 4.0, 4.0]]\n\
                ledges = [[5.5, 3.5, 6.0, 4.0]]\nline = [[0.5, 0.5], [5.0, 0.5]]\n\
                [[mover]]\nradius = 0.2\nspeed = 0.3\nway = [[3.0, 1.5], [5.0, 1.5]]\n";
    std::fs::write(&world, text).expect("a file");
    let run = ["--clock", "sim", "--for", "4s", "--world", &world, "--goal", "1,0;0,0.5"];
    let (svg, _) = drawn(&file, &run);
    let count = |class: &str| svg.matches(&format!("class=\"{class}\"")).count();
    // The line on the floor and the path driven are also in the legend, so each of them counts twice.
    assert_eq!([count("solid"), count("mover"), count("tape"), count("hole")], [3, 1, 2, 1]);
    assert_eq!(count("wall"), 5, "one, and the four sides of the box");
    assert_eq!([count("place"), count("start"), count("end"), count("driven")], [2, 1, 1, 2]);
    assert!(svg.contains(">goal 1</text>") && svg.contains(">goal 2</text>") && svg.contains(">1 m</text>"));
}

#[test]
fn each_contact_of_a_run_is_drawn_listed_and_counted() {
    let folder = Folder::new("svg-contacts");
    let (world, file) = (folder.path("narrow.toml"), folder.path("drive.svg"));
    let corridor = "size = [3.0, 2.0]\nstart = [0.4, 1.0]\n\
                    walls = [[0.2, 1.1, 1.4, 1.1], [0.2, 0.9, 1.4, 0.9], [1.4, 0.9, 1.4, 1.1]]\n";
    std::fs::write(&world, corridor).expect("a file");
    // A car that sees its corners touches nothing here.
    let run = ["--board", "sim-sonar", "--clock", "sim", "--for", "10s", "--seed", "3", "--world", &world];
    let (svg, report) = drawn(&file, &run);
    let listed = report["first_contacts"].as_array().expect("a list");
    assert_eq!(report["contacts"], listed.len(), "{report}");
    assert!(listed.len() > 3 && listed.iter().all(|contact| contact["with"] == "wall"), "{listed:?}");
    for contact in listed {
        let way = if contact["backwards"] == true { ", backwards" } else { "" };
        let seconds = contact["after_s"].as_f64().expect("seconds");
        let title = format!("<title>wall after {seconds:.2} s{way}</title>");
        assert!(svg.contains(&title), "{title}");
        let place = ["x_m", "y_m"].map(|key| contact[key].as_f64().expect("metres"));
        assert!((0.2..1.4).contains(&place[0]) && (0.9..1.1).contains(&place[1]), "{contact}");
    }
    let drawn = svg.lines().filter(|line| line.starts_with("<polygon class=\"contact\"")).count();
    assert_eq!(drawn, listed.len());
    assert!(svg.contains(&format!(">contact {drawn}</text>")), "the legend");
    let said = output(&[&["run"], &run[..]].concat());
    assert_eq!(out(&said).matches("  wall after ").count(), 3, "{}", out(&said));
    assert!(out(&said).contains(&format!(" and {} more: ", drawn - 3)), "{}", out(&said));
}

/// The person who arms the car checks 0.15 m of free floor behind it (board file); this floor ends after
/// 0.07 m.
#[test]
fn a_fall_is_listed_with_its_time_and_direction() {
    let folder = Folder::new("svg-fall");
    let (world, file) = (folder.path("edge.toml"), folder.path("drive.svg"));
    let room = "size = [3.0, 2.0]\nstart = [0.4, 1.0]\nwalls = [[0.7, 0.0, 0.7, 2.0]]\n\
                ledges = [[0.0, 0.0, 0.33, 2.0]]\n";
    std::fs::write(&world, room).expect("a file");
    let run = ["--clock", "sim", "--for", "10s", "--seed", "1", "--world", &world];
    let (svg, report) = drawn(&file, &run);
    let listed = report["first_contacts"].as_array().expect("a list");
    assert_eq!((&report["falls"], listed.len()), (&1.into(), 1), "{report}");
    let fall = &listed[0];
    assert_eq!((&fall["with"], &fall["backwards"]), (&"fall".into(), &true.into()));
    let seconds = fall["after_s"].as_f64().expect("seconds");
    let words = format!("fall after {seconds:.2} s, backwards");
    assert!(svg.contains(&format!("<title>{words}</title>")), "{words}");
    assert!(out(&output(&[&["run"], &run[..]].concat())).contains(&format!("  {words}, rear axle at (")));
}

#[test]
fn an_interrupted_run_in_real_time_is_drawn() {
    let folder = Folder::new("svg-interrupted");
    let file = folder.path("drive.svg");
    let run = watching(&[
        "run",
        "--for",
        "600s",
        "--engine",
        "cpu",
        "--simulate",
        "--board",
        "picarx-v4",
        "--svg",
        &file,
    ]);
    run.send(&[Signal::INT]);
    let ended = run.finish();
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    assert!(out(&ended).contains("  picture    "), "{}", out(&ended));
    is_well_formed(&std::fs::read_to_string(&file).expect("a picture"));
}

#[test]
fn pictures_that_cannot_be_made_are_refused_at_the_start() {
    let folder = Folder::new("svg-refused");
    let refused = |board: &str, file: &str| {
        let run = output(&["run", "--board", board, "--clock", "sim", "--for", "1s", "--svg", file]);
        assert!(!out(&run).contains("slots"), "it did not run: {}", out(&run));
        (run.status.code(), err(&run))
    };
    let (code, said) = refused("picarx-v4", &folder.path("real.svg"));
    assert!(code == Some(64) && said.contains("--simulate") && said.contains("--record"), "{said}");
    let recording = folder.path("drive.mcap");
    std::fs::write(&recording, "a recording").expect("a file");
    let (code, said) = refused("sim", &recording);
    assert!(code == Some(64) && said.contains("not overwritten"), "{said}");
    assert_eq!(std::fs::read_to_string(&recording).expect("the file"), "a recording");
    assert_eq!(refused("sim", folder.to_str().expect("a name")).0, Some(64));
    assert_eq!(refused("sim", &folder.path("absent/drive.svg")).0, Some(69));
    assert_eq!(folder.names(), ["drive.mcap"]);
}

#[test]
fn the_drive_in_the_documents_is_what_the_program_draws() {
    let folder = Folder::new("svg-documents");
    let script = std::fs::read_to_string("scripts/pictures").expect("the script");
    let line = script.lines().find_map(|line| line.strip_prefix("DRIVE = \"")).expect("the arguments");
    let arguments: Vec<&str> = line.trim_end_matches('"').split(' ').collect();
    let (svg, _) = drawn(&folder.path("drive.svg"), &arguments);
    let shown = std::fs::read_to_string(Path::new("docs/pictures/drive.svg")).expect("the picture");
    assert!(
        svg == shown,
        "docs/pictures/drive.svg was drawn by another version: run scripts/pictures, and check the picture"
    );
}
