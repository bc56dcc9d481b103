//! A test that lacks data or a tool reports it here and ends. `tests/skipped`, which `cargo test` runs last,
//! counts and names those tests, so that none of them looks as if it had passed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The file in which the tests of one `cargo test` leave their notes. It is named after the id of that
/// process, which is the parent of every test program.
pub fn notes() -> PathBuf {
    let name = format!("skipped-{}", std::os::unix::process::parent_id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Notes that the calling test is skipped, and why.
///
/// # Panics
/// If the note cannot be written: the test would pass without having checked anything.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    // The test program names a test's thread after the test.
    let test = thread.name().filter(|name| *name != "main").unwrap_or("a test");
    println!("skipped: {why}");
    note(&notes(), test, why).expect("a note can be written");
}

/// One write in append mode, so that notes of concurrent tests do not interleave.
fn note(notes: &Path, test: &str, why: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(notes)?;
    file.write_all(format!("{test}: {why}\n").as_bytes())
}

/// Removes the notes. Returns their number and text, sorted and without duplicates.
pub fn summary(notes: &Path) -> io::Result<String> {
    let text = match fs::read_to_string(notes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok("0 tests skipped".into()),
        text => text?,
    };
    fs::remove_file(notes)?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    let tests = if lines.len() == 1 { "test" } else { "tests" };
    Ok(format!("{} {tests} skipped:\n    {}", lines.len(), lines.join("\n    ")))
}

#[cfg(test)]
#[test]
fn skipped_tests_are_named_and_counted_once() {
    let notes = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("skips-{}", std::process::id()));
    for (test, why) in [("b", "no compiler"), ("a::b", "no data"), ("b", "no compiler")] {
        note(&notes, test, why).expect("a note can be written");
    }
    let said = summary(&notes).expect("the notes can be read");
    assert_eq!(said, "2 tests skipped:\n    a::b: no data\n    b: no compiler");
    assert_eq!(summary(&notes).expect("none are left"), "0 tests skipped");
}
