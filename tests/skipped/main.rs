//! The last program of `cargo test`: prints how many tests were skipped because this machine lacks data or a
//! tool, and which ones.

#[path = "../skips.rs"]
#[allow(dead_code, reason = "tests write notes, this program only collects them")]
mod skips;

fn main() -> std::io::Result<()> {
    // Test runners list a program's tests before they start any; this program has none.
    if std::env::args().any(|argument| argument == "--list") {
        return Ok(());
    }
    println!("\n{}\n", skips::summary(&skips::notes())?);
    Ok(())
}
