//! What the script parses from the parts' output, and how it judges the figures.

use super::{Kit, ROBOT_F32, part, results, text, word};
use crate::cli::ganglion;
use crate::cuda::standin;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The program's output for a bench of one robot on the stand-in; `None` without a C++ compiler.
fn object() -> Option<Value> {
    let stand_in = standin::stand_in()?;
    let small = ["--engine", "cuda", "--grid", "8", "--patterns", "5", "--bank", "50", "--seconds", "0.1"];
    let bench = ganglion(&[&["bench", "field", "--json"][..], &small].concat())
        .env("LD_LIBRARY_PATH", stand_in.folder())
        .output()
        .expect("the program starts");
    let text = text(&bench.stdout);
    Some(serde_json::from_str(text.lines().last().unwrap_or_default()).expect("an object"))
}

#[test]
fn figures_are_judged_by_device_name() {
    let Some(mut object) = object() else { return };
    // As if these figures came from a GPU.
    object["emulated"] = json!(false);
    (object["cycle"]["p50_us"], object["evolve_share_of_copy"]) = (json!(50.0), json!(0.4));
    (object["host_cpu_share"], object["share_of_copy"]) = (json!(0.02), json!(0.9));
    let stages = object["stages"].as_array_mut().expect("a list");
    stages.iter_mut().find(|stage| stage["name"] == "bank").expect("a match")["p50_us"] = json!(6.0);
    object["memory_mb"] = json!(100.0);
    let Some(kit) = Kit::new("judged", r#"cat "$(dirname "$0")/object.json""#) else { return };
    // No target reads another part, which only the first check runs.
    let read = ["bench/cuda/32", "bench/cuda/batch-32/f32", "bench/cuda/batch-64/f16"];
    let read: Vec<&str> = read.iter().flat_map(|part| ["--only", *part]).collect();
    let mut judged = |device: &str, only: &[&str]| -> Vec<(String, Value)> {
        object["device"] = json!(device);
        fs::write(kit.path("target/gpu-check/object.json"), object.to_string()).expect("written");
        let (_, report) = kit.check(only);
        assert_eq!(report["device"], device);
        let verdict = |target: &Value| {
            let name =
                target["name"].as_str().expect("a name").split(',').next().expect("a word").to_string();
            (name, json!([target["verdict"], target["aim_reached"]]))
        };
        report["targets"].as_array().expect("a list").iter().map(verdict).collect()
    };
    let (met, reached, missed) = (json!(["pass", false]), json!(["pass", true]), json!(["fail", false]));
    let row = |name: &str, verdict: &Value| (name.to_string(), verdict.clone());
    let cycles = |verdict: &Value| [row("full cycle", verdict), row("full cycle", verdict)];
    let copy = row("evolve + features relative to a copy", &missed);
    let common = [row("GPU memory", &met), row("host CPU at 100 Hz", &met)];
    let h200 = [row("64 robots", &reached), row("match 10", &reached)];
    let expected = [&cycles(&met)[..], std::slice::from_ref(&copy), &h200, &common].concat();
    assert_eq!(judged("NVIDIA H200", &["--only", "bench/cuda"]), expected);
    assert_eq!(judged("NVIDIA H100 80GB HBM3", &read), [&cycles(&met)[..], &[copy], &common].concat());
    let without_aim = json!(["pass", null]);
    assert_eq!(judged("Orin", &read), [&cycles(&without_aim)[..], &[row("GPU memory", &met)]].concat());
    for other in ["NVIDIA GH200 480GB", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GeForce RTX 4090"] {
        let verdicts = judged(other, &read);
        assert!(verdicts.iter().all(|(_, v)| *v == json!(["not judged", null])), "{other}: {verdicts:?}");
    }
}

#[test]
fn an_absent_figure_is_not_measured_rather_than_zero() {
    let bench = r#"echo '{"engine":"cuda","device":"NVIDIA H200","cycle":{"p50_us":null},"memory_mb":true}'"#;
    let Some(kit) = Kit::new("absent", bench) else { return };
    let (said, report) = kit.check(&["--only", "bench/cuda/32"]);
    assert_eq!(said.status.code(), Some(0));
    for target in report["targets"].as_array().expect("a list") {
        assert_eq!(
            (&target["verdict"], &target["value"]),
            (&json!("not measured"), &Value::Null),
            "{target}"
        );
    }
}

/// Output of compute-sanitizer: memcheck with two errors, racecheck with three warnings, initcheck without
/// the tests' summary, and synccheck without its own.
const SANITIZER: &str = r#"case "$*" in
*--version*) exit 0 ;;
*memcheck*) echo '========= ERROR SUMMARY: 2 errors'; echo 'test result: ok. 1 passed; 0 failed'; exit 9 ;;
*racecheck*) echo '========= RACECHECK SUMMARY: 3 hazards displayed (0 errors, 3 warnings)'
  echo 'test result: ok. 1 passed; 0 failed' ;;
*initcheck*) echo '========= ERROR SUMMARY: 0 errors' ;;
*) echo 'test result: ok. 1 passed; 0 failed' ;;
esac"#;

#[test]
fn sanitizer_counts_are_kept_when_the_part_failed() {
    let checks = ["--only", "memcheck", "--only", "racecheck", "--only", "initcheck", "--only", "synccheck"];
    let Some(kit) = Kit::new("sanitizer", "exit 0") else { return };
    kit.program("bin/compute-sanitizer", SANITIZER);
    let (said, report) = kit.check(&checks);
    assert_eq!(said.status.code(), Some(1));
    assert_eq!(results(&report), ["failed", "passed", "failed", "failed"]);
    let output = |name: &str| &part(&report, name)["output"];
    assert_eq!(
        (&output("memcheck")["errors"], &output("memcheck")["tests"]["passed"]),
        (&json!(2), &json!(1))
    );
    assert!(word(&report, "memcheck", "why").starts_with("exit code 9"), "{report}");
    let race = output("racecheck");
    assert_eq!((&race["errors"], &race["hazards"], &race["warnings"]), (&json!(0), &json!(3), &json!(3)));
    assert_eq!(word(&report, "initcheck", "why"), "no test has run");
    assert_eq!(output("initcheck")["errors"], 0);
    assert_eq!(word(&report, "synccheck", "why"), "compute-sanitizer printed no summary");
    // A tool that is installed but cannot run counts as absent, with the reason.
    kit.program("bin/compute-sanitizer", "exit 127");
    let (said, report) = kit.check(&checks);
    assert_eq!((said.status.code(), results(&report)), (Some(0), vec!["skipped"; 4]));
    let why = "absent: compute-sanitizer is installed but does not run (exit code 127)";
    assert_eq!(word(&report, "synccheck", "why"), why);
}

/// Nsight Compute's CSV between its messages: two launches of one kernel and one of another, in base units.
const PROFILE: &str = r#"case "$*" in
*--version*) exit 0 ;;
esac
echo '==PROF== Connected to process 7'
echo '{"engine":"cuda"}'
echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","sense(const Brain *, Launch)","gpu__time_duration.sum","ns","7,600"'
echo '"0","sense(const Brain *, Launch)","sm__warps_active.avg.pct_of_peak_sustained_active","%","3.5"'
echo '"1","evolve_32(const Brain *, Launch)","gpu__time_duration.sum","ns","17,900"'
echo '"1","evolve_32(const Brain *, Launch)","sm__warps_active.avg.pct_of_peak_sustained_active","%","20"'
echo '"2","sense(const Brain *, Launch)","gpu__time_duration.sum","ns","7,800"'"#;

#[test]
fn a_profile_lists_each_kernel_with_the_slowest_first() {
    let Some(kit) = Kit::new("profile", "exit 0") else { return };
    kit.program("bin/ncu", PROFILE);
    let (said, report) = kit.check(&["--only", "profile"]);
    assert_eq!((said.status.code(), results(&report)), (Some(0), vec!["passed"]), "{report}");
    let kernel = |name: &str, count: u32, p50_ns: f64, warps: f64| json!({"kernel": name, "count": count, "p50_ns": p50_ns, "warps_percent": warps});
    let expected = json!([kernel("evolve_32", 1, 17_900.0, 20.0), kernel("sense", 2, 7_700.0, 3.5)]);
    assert_eq!(part(&report, "profile")["output"], expected);
    // Without a kernel in the table, as when the filter matches no name, the part fails.
    kit.program("bin/ncu", &PROFILE.replace("echo '\"", ": '"));
    let (_, report) = kit.check(&["--only", "profile"]);
    assert_eq!(word(&report, "profile", "why"), "no kernel was profiled");
}

#[test]
fn tests_that_fail_or_hang_are_counted_and_named() {
    let Some(kit) = Kit::new("tests", "exit 0") else { return };
    let ended = |prints: &str| {
        kit.program("target/gpu-check/tests", prints);
        let (_, report) = kit.check(&["--only", "tests", "--minutes", "0.03"]);
        part(&report, "tests").clone()
    };
    let failed = ended(
        "printf 'failures:\\n\\n---- a::b stdout ----\\n\\nfailures:\\n    a::b\\n    c\\n\\n'
        echo 'test result: FAILED. 5 passed; 2 failed'; exit 101",
    );
    assert_eq!(failed["output"], json!({"passed": 5, "failed": 2, "failed_tests": ["a::b", "c"]}));
    assert_eq!(failed["result"], "failed");
    let hung = ended("echo 'test a ... ok'; printf 'test b ... '; exec sleep 600");
    assert_eq!(hung["output"], json!({"begun": 2, "last": "b"}));
    let skipped = ended("echo 'skipped: no GPU'; echo 'test result: ok. 1 passed; 0 failed'");
    assert_eq!((&skipped["result"], &skipped["why"]), (&json!("failed"), &json!("skipped: no GPU")));
}

/// A program whose driver caches compiled kernels if the environment allows it.
const STARTS: &str = r#"image=ptx ms=900
[ -e "$GANGLION_IMAGE" ] && image=fatbin ms=20
if [ "$CUDA_CACHE_DISABLE" = 0 ]; then
  [ -e "$CUDA_CACHE_PATH/kernels" ] && ms=30
  printf 12345 >"$CUDA_CACHE_PATH/kernels"
fi
echo "{\"engine\":\"cuda\",\"image\":\"$image\",\"image_ms\":$ms,\"cycle\":{\"p50_us\":7}}""#;

#[test]
fn jit_and_image_and_both_starts_are_listed_side_by_side() {
    let Some(kit) = Kit::new("kernels", STARTS) else { return };
    let (_, report) = kit.check(&["--only", "start"]);
    assert_eq!(results(&report), ["skipped", "passed"], "without an image there is nothing to compare");
    assert!(word(&report, "start/image-and-jit", "why").contains("no release image"), "{report}");
    fs::write(kit.path("target/gpu-check/ganglion.fatbin"), "machine code").expect("written");
    for _ in 0..2 {
        let (said, report) = kit.check(&["--only", "start"]);
        assert_eq!((said.status.code(), results(&report)), (Some(0), vec!["passed"; 2]));
        let start = |image: &str, ms: u32| json!({"image": image, "image_ms": ms, "p50_us": 7});
        let both = json!({"with_image": start("fatbin", 20), "through_the_jit": start("ptx", 900)});
        assert_eq!(part(&report, "start/image-and-jit")["output"], both);
        // Also in the second check: each begins with an empty cache.
        let cache = &part(&report, "start/cache")["output"];
        assert_eq!((&cache["first"], &cache["second"]), (&start("ptx", 900), &start("ptx", 30)));
        assert_eq!(
            (&cache["second_is_faster"], &cache["cache"]),
            (&json!(true), &json!({"files": 1, "bytes": 5}))
        );
    }
    // A device that does not accept the image.
    kit.program("target/gpu-check/ganglion", &STARTS.replace("image=fatbin", "image=ptx"));
    let (_, report) = kit.check(&["--only", "start"]);
    assert_eq!(results(&report), ["failed", "passed"]);
    assert_eq!(word(&report, "start/image-and-jit", "why"), "the kernels came from ptx, not from fatbin");
}

#[test]
fn a_rehearsal_runs_the_real_program_without_judging() {
    let Some(stand_in) = standin::stand_in() else { return };
    let Some(kit) = Kit::new("rehearsal", "exit 0") else { return };
    kit.link(Path::new(env!("CARGO_BIN_EXE_ganglion")), "target/gpu-check/ganglion");
    kit.link(&std::env::current_exe().expect("this test program"), "target/gpu-check/tests");
    // Does what `scripts/stand-in-driver` does, but without compiling the driver again.
    let library = stand_in.folder().join("libcuda.so");
    kit.program(
        "scripts/stand-in-driver",
        &format!("mkdir -p \"$1\" && ln -s '{}' \"$1\"", library.display()),
    );
    let only = ["bench/cuda/8/f32/level-0", "bench/cuda/batch-2/f32", "start/cache"];
    let arguments = only.iter().flat_map(|name| ["--only", *name]);
    let (said, report) = kit.check(&["--emulated"].into_iter().chain(arguments).collect::<Vec<_>>());
    assert_eq!(results(&report), vec!["passed"; 3], "{report}");
    assert_eq!(said.status.code(), Some(0));
    assert_eq!((&report["emulated"], &part(&report, only[1])["output"]["batch"]), (&json!(true), &json!(2)));
    assert_eq!(part(&report, "start/cache")["output"]["first"]["image"], "ptx");
    let verdicts = report["targets"].as_array().expect("a list").iter().map(|target| &target["verdict"]);
    assert!(verdicts.clone().all(|verdict| verdict == "not judged" || verdict == "not measured"), "{report}");
    // Without `--emulated`, the stand-in does not count as a GPU.
    let name = &only[0].replace("/8/", "/32/");
    let bench = r#"echo '{"engine":"cuda","emulated":true}'"#;
    let _ = fs::remove_file(kit.path("target/gpu-check/ganglion"));
    kit.program("target/gpu-check/ganglion", bench);
    let (_, report) = kit.check(&["--only", name]);
    assert_eq!(word(&report, ROBOT_F32, "why"), "on the stand-in driver");
}
