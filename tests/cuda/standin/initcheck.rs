//! The stand-in that checks reads (`driver/initialised.hpp`), as compute-sanitizer's initcheck does on a GPU.
//! Each test runs a child process that loads it as the machine's driver.

use super::raw::{Bench, cu, empty_brain, kernel, launch, module};
use super::{NO_COMPILER, compile};
use crate::cuda::tables::BRAIN;
use crate::skips::skip;
use std::process::{Command, Output};

/// Set in a child process of these tests.
const CHILD: &str = "GANGLION_TEST_INITCHECK";

/// Runs tests of this binary on the checking stand-in, and returns what they print; `None` (with a message)
/// if it cannot be compiled.
fn run_checked(tests: &[&str]) -> Option<String> {
    let Some(folder) = compile("initcheck") else {
        skip(NO_COMPILER);
        return None;
    };
    let child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "--test-threads", "1", "--nocapture"])
        .args(tests)
        .env("LD_LIBRARY_PATH", folder)
        .env("GANGLION_GPU", "1")
        // A cycle with checked reads takes several times as long.
        .env("GANGLION_PATIENCE_S", "60")
        .env(CHILD, "1")
        .output();
    let Output { stdout, stderr, .. } = child.expect("it starts");
    Some([stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
}

#[test]
fn initcheck_refuses_reads_of_unwritten_memory() {
    if std::env::var_os(CHILD).is_none() {
        let test = "cuda::standin::initcheck::initcheck_refuses_reads_of_unwritten_memory";
        let Some(said) = run_checked(&[test]) else { return };
        assert!(said.contains("1 passed"), "{said}");
        assert!(said.contains("thread 0: reads memory that nothing has written"), "{said}");
        return;
    }
    let refused = |bench: &Bench| {
        assert_eq!(cu!(cuStreamSynchronize(bench.low)), 719);
        assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0)) + cu!(cuDevicePrimaryCtxRelease_v2(0)), 0);
    };
    // A kernel for which all memory is written, then one whose table points to memory that is not.
    let mut bench = Bench::new(1 << 20);
    let (table, _) = empty_brain(&mut bench, 1 << 19);
    assert_eq!(launch(kernel(module(), c"sense"), 64, table, bench.low), 0);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(bench.at(0), bench.device, bench.bytes, bench.low)), 0);
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0, "all of it was written");
    let mut fresh = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut fresh, bench.bytes)), 0);
    let lost: Vec<u8> = fresh.to_le_bytes().repeat(BRAIN / 8);
    bench.page()[..BRAIN].copy_from_slice(&lost);
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(table, bench.at(0), BRAIN, bench.low)), 0);
    assert_eq!(launch(kernel(module(), c"sense"), 64, table, bench.low), 0);
    refused(&bench);
    // Copies the 100 written bytes to the host, then one byte more.
    let bench = Bench::new(4096);
    assert_eq!(cu!(cuMemsetD8Async(bench.device, 0, 100, bench.low)), 0);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(bench.at(0), bench.device, 100, bench.low)), 0);
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(bench.at(0), bench.device, 101, bench.low)), 0);
    refused(&bench);
}

#[test]
fn the_engine_reads_no_unwritten_device_memory() {
    let tests = [
        "cuda::engine::changes_between_cycles_apply_in_the_next",
        "cuda::engine::saving::an_asynchronous_save_gives_the_state_at_its_start",
        "cuda::engine::the_cpu_engine_takes_over_from_the_device_and_back",
        "cuda::engine::timing_stages_does_not_change_answers",
    ];
    let Some(said) = run_checked(&tests) else { return };
    assert!(said.contains("4 passed"), "{said}");
}
