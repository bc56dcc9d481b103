//! A counting allocator for the whole test binary. It answers two questions: how many allocations this thread
//! made during some work, and how many the whole process made.
use std::process::Command;

use ganglion::system::rt::heap::{CountingHeap, allocations_everywhere, allocations_here, allocations_since};

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

/// Allocations of the calling thread during `work`; growing an allocation counts.
pub fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = allocations_here();
    work();
    allocations_since(before).expect("the counter is installed")
}

/// Allocations of all threads of this process during `work`. Other tests run at the same time, so the number
/// belongs to `work` alone only inside [`alone`].
pub fn allocations_in_process(work: impl FnOnce()) -> u64 {
    let before = allocations_everywhere().expect("the counter is installed");
    work();
    allocations_everywhere().map_or(0, |after| after - before)
}

/// Environment variable that is set in a process that [`run_alone`] started.
const MARK: &str = "GANGLION_TEST_ALONE";

/// Whether this process runs one test only.
pub fn is_alone() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs `body` in its own process, in which the calling test is the only one; fails if the test fails there.
/// `test` is the full name of the calling test, as `cargo test -- --list` shows it.
pub fn alone(test: &str, body: impl FnOnce()) {
    if is_alone() { body() } else { run_alone(test) }
}

/// Runs the test with this full name in its own process; fails if the test fails there.
pub fn run_alone(test: &str) {
    let program = std::env::current_exe().expect("a test binary knows its path");
    let child = Command::new(program)
        // An ignored test also runs, because its caller was requested.
        .args(["--exact", test, "--include-ignored", "--test-threads=1", "--nocapture"])
        .env(MARK, "1")
        .output()
        .expect("a test binary can be started again");
    let said = String::from_utf8_lossy(&child.stdout);
    let complained = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{test} failed alone:\n{said}\n{complained}");
    assert!(said.contains("1 passed"), "no test is called {test}:\n{said}");
}

#[test]
fn allocations_are_counted() {
    let mut kept = Vec::new();
    assert_eq!(allocations_in(|| kept = vec![1_u8; 100]), 1);
    assert_eq!(allocations_in(|| kept.resize(10_000, 0)), 1);
    assert_eq!(allocations_in(|| kept.truncate(1)), 0);
    assert_eq!(allocations_in(|| drop(std::mem::take(&mut kept))), 0, "freeing is not allocating");
}

#[test]
fn other_threads_count_only_in_the_process_total() {
    alone("allocation::other_threads_count_only_in_the_process_total", || {
        let (go, wait) = std::sync::mpsc::sync_channel::<()>(1);
        let (tell, done) = std::sync::mpsc::sync_channel::<usize>(1);
        let thread = std::thread::spawn(move || {
            while wait.recv().is_ok() {
                let _ = tell.send(std::hint::black_box(vec![1_u8; 100]).len());
            }
        });
        let ask = || {
            let _ = go.send(());
            assert_eq!(done.recv(), Ok(100));
        };
        // A channel allocates when a thread blocks on it for the first time, and the asking thread does not
        // block in every round.
        let counts: Vec<(u64, u64)> = (0..20)
            .map(|_| {
                let mut own = 0;
                let all = allocations_in_process(|| own = allocations_in(ask));
                (own, all)
            })
            .collect();
        assert!(
            counts.iter().all(|(own, all)| all > own),
            "the other thread's allocations are always counted: {counts:?}"
        );
        assert!(counts.contains(&(0, 1)), "some round has no other allocation: {counts:?}");
        drop(go);
        thread.join().expect("the thread ends with its channel");
    });
}
