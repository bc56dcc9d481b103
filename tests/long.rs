//! How long the tests run. `cargo test` runs a short form of the longest ones; with GANGLION_LONG=1 in the
//! environment they run in full, which `scripts/long-tests` does. docs/tests.md lists them.

/// A test's length: `short` in daily use, `full` if GANGLION_LONG is 1.
pub fn or_in_full<N>(short: N, full: N) -> N {
    if std::env::var_os("GANGLION_LONG").is_some_and(|value| value == "1") { full } else { short }
}
