//! What a release brings: the file that `scripts/build-fatbin` made is taken by the program as it is, and not
//! with one byte of its last line changed; and the script for a machine with a GPU says what it does. Where
//! the file or Python is absent, the tests are skipped.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use ganglion::field::cuda::is_emulated;
use ganglion::system::gpu::{Counts, Gpu, Image, ImageFiles, Source, Watch, probe};
use serde_json::{Value, json};

use super::engine::device;
use super::standin;
use crate::cli::ganglion;
use crate::skips::skip;

const PTX: &str = include_str!("../../kernels/ganglion.ptx");
/// Where the script puts it; GANGLION_IMAGE names another place, as for the program.
const FATBIN: &str = "target/image/ganglion.fatbin";

/// Where the kernels of a process come from that has this file, and what was asked of the driver for it.
fn load(fatbin: PathBuf) -> (Source, Counts) {
    let watch = Arc::new(Watch::new());
    let found = probe().expect("a GPU, or the stand-in");
    let gpu = Gpu::open(&found, watch.clone()).expect("it opens");
    let files = ImageFiles { ptx: PTX, fatbin: Some(fatbin), marks: None };
    let image = Image::load(&gpu, &files).expect("the text is good");
    assert!(image.kernel("sense").is_ok());
    (image.source(), watch.counts())
}

#[test]
fn the_release_image_is_taken_whole_or_not_at_all() {
    let fatbin = std::env::var_os("GANGLION_IMAGE").map_or_else(|| FATBIN.into(), PathBuf::from);
    let Ok(whole) = fs::read(&fatbin) else {
        return skip("no compiled kernels: scripts/build-fatbin makes them");
    };
    let Some(_device) = device() else { return };
    let emulated = is_emulated(&probe().expect("a GPU, or the stand-in"));
    let (source, counts) = load(fatbin);
    // Its envelope is good, so the driver is asked; the stand-in executes no machine code.
    let taken = if emulated { (Source::Ptx, 1) } else { (Source::Fatbin, 0) };
    assert_eq!((source, counts.failures), taken);
    let stamp = PTX.lines().next().expect("a first line").len();
    // Not in the folder of the build: scripts/gpu-check runs this on another machine.
    let damaged = std::env::temp_dir().join(format!("ganglion-release-{}", std::process::id()));
    for from_end in [2, stamp / 2, stamp + 1] {
        let mut bytes = whole.clone();
        let at = bytes.len() - from_end;
        bytes[at] ^= 1;
        fs::write(&damaged, bytes).expect("written");
        let (source, counts) = load(damaged.clone());
        assert_eq!((source, counts.failures), (Source::Ptx, 0), "{from_end}: the driver was not asked");
    }
    fs::remove_file(damaged).expect("it is ours");
}

/// The script for a machine with a GPU; `None` without Python, and the test is skipped.
fn gpu_check(argument: &str) -> Option<Output> {
    let said = Command::new("python3").args(["scripts/gpu-check", argument]).output();
    if said.is_err() {
        skip("no python3");
    }
    said.ok()
}

#[test]
fn the_script_for_a_gpu_lists_its_parts_and_says_how_it_is_built() {
    let (Some(list), Some(help)) = (gpu_check("--list"), gpu_check("--help")) else { return };
    assert!(list.status.success() && help.status.success());
    let (list, help) = (String::from_utf8_lossy(&list.stdout), String::from_utf8_lossy(&help.stdout));
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for part in ["facts", "doctor", "tests", "memcheck", "racecheck"] {
        assert_eq!(names.iter().filter(|name| **name == part).count(), 1, "{part}: {list}");
    }
    // One robot on every rung of three grids in both storages, and two batches.
    let cuda = names.iter().filter(|name| name.starts_with("bench/cuda/")).count();
    assert_eq!(cuda, 3 * 6 * 2 + 2, "{list}");
    let first = help.lines().next().unwrap_or_default();
    assert!(first.contains("--build") && first.contains("cargo"), "{first}");
}

#[test]
fn the_script_for_a_gpu_refuses_what_it_does_not_know() {
    let Some(said) = gpu_check("--lsit") else { return };
    assert_eq!(said.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&said.stderr).contains("--lsit"));
}

/// A checkout of its own with the script and, as program and tests, one shell script of that line. It goes
/// away with the test.
struct Kit(PathBuf);

impl Kit {
    fn new(name: &str, line: &str) -> Kit {
        let root = std::env::temp_dir().join(format!("ganglion-gpu-check-{name}-{}", std::process::id()));
        let kit = root.join("target/gpu-check");
        fs::create_dir_all(&kit).and_then(|()| fs::create_dir_all(root.join("scripts"))).expect("folders");
        fs::copy("scripts/gpu-check", root.join("scripts/gpu-check")).expect("the script");
        // Written by another process: a file that one of this process's threads has open for writing while
        // another starts a child is "busy".
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" >ganglion; chmod +x ganglion; cp -p ganglion tests";
        let written = Command::new("sh").args(["-c", write, "sh", line]).current_dir(&kit).status();
        assert!(written.expect("a shell").success());
        Kit(root)
    }

    /// How the script ended and what it wrote; `None` without Python, and the test is skipped.
    fn check(&self, minutes: &str) -> Option<(Output, Value)> {
        let script = self.0.join("scripts/gpu-check");
        let Ok(said) = Command::new("python3").arg(script).args(["--minutes", minutes]).output() else {
            skip("no python3");
            return None;
        };
        let report = fs::read_to_string(self.0.join("target/gpu-check/report.json")).expect("written");
        Some((said, serde_json::from_str(&report).expect("JSON")))
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_part_that_hangs_is_killed_and_the_others_are_in_the_file() {
    // A program that answers doctor and hangs in all else, and tests that run none.
    let answers =
        r#"case "$0 $1" in *'/tests '*) ;; *doctor) echo '{"here":1}' ;; *) exec sleep 600 ;; esac"#;
    let Some((said, report)) = Kit::new("hang", answers).check("0.05") else { return };
    assert_eq!(said.status.code(), Some(1), "{}", String::from_utf8_lossy(&said.stderr));
    let parts = report["parts"].as_array().expect("a list");
    let part = |name: &str| parts.iter().find(|part| part["name"] == name).expect("every part is in it");
    assert_eq!((&part("doctor")["result"], &part("doctor")["output"]["here"]), (&json!("passed"), &json!(1)));
    assert_eq!(
        (&part("tests")["result"], &part("tests")["why"]),
        (&json!("failed"), &json!("no test has run"))
    );
    let hung = part("bench/cuda/32/f32/rung-0");
    assert_eq!((&hung["result"], &hung["exit_code"]), (&json!("failed"), &json!(-9)));
    assert!(part("bench/cpu/64/f16/rung-5")["why"].as_str().is_some_and(|why| why.contains("not begun")));
    let targets = report["targets"].as_array().expect("a list");
    assert!(targets.len() == 7 && targets.iter().all(|target| target["verdict"] == "not measured"));
}

#[test]
fn the_figures_that_are_judged_are_those_of_the_programs_object() {
    let Some(stand_in) = standin::stand_in() else { return };
    let small = ["--engine", "cuda", "--grid", "8", "--patterns", "5", "--bank", "50", "--seconds", "0.1"];
    let bench = ganglion(&[&["bench", "field", "--json"][..], &small].concat())
        .env("LD_LIBRARY_PATH", stand_in.folder())
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&bench.stdout);
    let mut object: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).expect("an object");
    // As if it were the GPU that the table is of, and had these figures.
    (object["emulated"], object["device"]) = (json!(false), json!("NVIDIA H200"));
    (object["cycle"]["p50_us"], object["evolve_share_of_copy"]) = (json!(50.0), json!(0.4));
    (object["share_of_copy"], object["memory_mb"]) = (json!(0.9), json!(60.0));
    let kit = Kit::new("judged", r#"cat "$(dirname "$0")/object.json""#);
    fs::write(kit.0.join("target/gpu-check/object.json"), object.to_string()).expect("written");
    let Some((_, report)) = kit.check("1") else { return };
    let targets = report["targets"].as_array().expect("a list");
    assert!(targets.iter().all(|target| target["verdict"] != "not measured"), "{targets:?}");
    let verdict = |number: usize| (&targets[number]["verdict"], &targets[number]["aim_reached"]);
    let (missed, met, aimed_at) =
        ((&json!("fail"), &json!(false)), (&json!("pass"), &json!(false)), (&json!("pass"), &json!(true)));
    assert_eq!([verdict(0), verdict(1), verdict(3)], [met, met, aimed_at], "50 us for 100, 100 and 1000");
    assert_eq!(verdict(2), missed, "0.4 for 0.5: of evolve and features, not of all kernels");
    assert_eq!(verdict(5), aimed_at, "60 MB for 256, and 64");
}
