//! Every reason for a missing GPU, as `doctor` reports it: each in its own process, because a process keeps
//! the driver that it once opened.

use std::path::Path;
use std::process::Command;

use ganglion::workshop::learn::parallel;
use serde_json::Value;

use crate::cuda::standin::{stand_in, without};
use crate::folder::Folder;

/// What `doctor --json` reports about the GPU if `folder` is the first to be searched for libraries and the
/// stand-in gets `orders`.
fn doctor(folder: &Path, orders: &str) -> Value {
    let told = Command::new(env!("CARGO_BIN_EXE_ganglion"))
        .args(["doctor", "--json"])
        .env("LD_LIBRARY_PATH", folder)
        .env("GANGLION_STAND_IN", orders)
        .output()
        .expect("the program starts");
    let (text, complaint) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success() && !complaint.contains("panicked"), "{complaint}");
    let object: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    let line = text.lines().find(|line| line.contains(" gpu ")).expect("a human-readable line");
    let gpu = object["gpu"].clone();
    let said = gpu["absence"].as_str().or(gpu["name"].as_str()).expect("one of the two");
    assert!(line.contains(said), "{line} must contain {said}");
    gpu
}

#[test]
fn doctor_shows_the_gpu() {
    let Some(stand_in) = stand_in() else { return };
    let gpu = doctor(stand_in.folder(), "memory=2G");
    assert!(gpu["name"].as_str().is_some_and(|name| name.contains("stand-in")), "{gpu}");
    assert_eq!((gpu["driver"].as_str(), gpu["chip"].as_str()), (Some("12.0"), Some("8.7")));
    assert_eq!((gpu["memory_mib"].as_u64(), gpu["absence"].is_null()), (Some(2048), true));
}

#[test]
fn doctor_says_why_there_is_no_gpu() {
    let Some(stand_in) = stand_in() else { return };
    let cases = [
        ("init=100", "sees no GPU"),
        ("devices=0", "sees no GPU"),
        ("init=34", "stub"),
        ("init=803", "different versions"),
        ("init=804", "different versions"),
        ("init=999", "CUDA_ERROR_UNKNOWN (999)"),
        ("init=12345", "cuInit: CUDA error 12345"),
        ("driver=11040", "CUDA 11.4, and 12.0 is the minimum"),
        ("driver=11080", "CUDA 11.8, and 12.0 is the minimum"),
        ("chip=6.1", "compute capability 6.1, and 8.7"),
        ("fail=cuDeviceGetCount:1:3", "cuDeviceGetCount: "),
        ("fail=cuDeviceTotalMem:1:101", "cuDeviceTotalMem_v2: "),
    ];
    // Each case takes most of a second, nearly all of it waiting.
    parallel::map(4, &cases, |(orders, part)| {
        let gpu = doctor(stand_in.folder(), orders);
        let said = gpu["absence"].as_str().unwrap_or_default();
        assert!(said.contains(part) && gpu["name"].is_null(), "{orders}: {said}");
    });
}

#[test]
fn a_driver_without_a_function_causes_no_panic() {
    // The first function that is looked up, one in the middle, one that only graph replays need, and the one
    // for the names of errors.
    parallel::map(4, &["cuInit", "cuMemHostAlloc", "cuGraphUpload", "cuGetErrorName"], |symbol| {
        let Some(folder) = without(symbol) else { return };
        let gpu = doctor(&folder, "");
        assert!(gpu["absence"].as_str().is_some_and(|said| said.contains(symbol)), "{symbol}: {gpu}");
    });
}

#[test]
fn a_library_that_is_not_a_driver_causes_no_panic() {
    let folder = Folder::new("no-driver");
    folder.write("libcuda.so", "this is not a library");
    let gpu = doctor(&folder, "");
    // Whatever GPU this machine has, the report contains either its name or a reason, and nothing panics.
    assert!(gpu["name"].is_string() != gpu["absence"].is_string(), "{gpu}");
}
