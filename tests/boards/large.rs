//! Files far larger than any board are refused quickly and with few messages, whatever they contain.

use ganglion::deploy::board;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Almost the maximum size of a board file (1 MiB), bytes.
const FULL: usize = 1_000_000;
/// Limit for the time until the report: long enough for a busy machine, short enough for a person to wait.
const SOON: Duration = Duration::from_secs(30);

/// A board with as many numbered copies of `line` as fit into a file.
fn many(line: impl Fn(usize) -> String) -> String {
    let mut text = String::from("inherits = \"sim\"\n");
    for nth in 0.. {
        let next = line(nth);
        if text.len() + next.len() > FULL {
            break;
        }
        text.push_str(&next);
    }
    text
}

/// The report on `text`. Checks that it comes soon, is short and contains `words`.
#[track_caller]
fn reported(text: &str, words: &str) -> String {
    let began = Instant::now();
    let told = format!("{:#}", board::from_text("large", text).expect_err("no board"));
    assert!(began.elapsed() < SOON, "it took {:?}", began.elapsed());
    assert!(told.len() < 100_000, "the report has {} bytes", told.len());
    assert!(told.contains(words), "wanted {words:?} in: {}", &told[..told.len().min(2_000)]);
    told
}

#[test]
fn too_many_entries_of_a_kind_are_refused_with_the_limit() {
    reported(&many(|nth| format!("key_{nth} = {nth}\n")), " keys; allowed: at most 256");
    reported(&many(|nth| format!("[table-{nth}]\n")), " keys; allowed: at most 256");
    reported(&many(|nth| format!("[[sensor]]\nname = \"s{nth}\"\n")), "sensor: found ");
    reported(
        &many(|nth| if nth == 0 { "x = [".into() } else { "1,".into() }).replace(",1,\n", "]"),
        "not TOML",
    );
    reported(&format!("x = [{}]\n", "1,".repeat(FULL / 4)), "x: found 250000 items; allowed: at most 256");
    reported(&format!("{} = 1\n", "x".repeat(FULL)), "found a key of 1000000 bytes; allowed: at most 64");
    reported(&format!("inherits = \"{}\"\n", "x".repeat(FULL)), "found a string of 1000000 bytes");
    let long = reported(&format!("inherits = \"{}\"\n", "y".repeat(900)), "no built-in board is named `yyy");
    assert!(!long.lines().next().is_some_and(|line| line.contains(&"y".repeat(61))), "{long}");
}

#[test]
fn invalid_toml_is_reported_at_most_a_hundred_times() {
    let words = reported(&"= = =\n".repeat(FULL / 6), "more errors");
    assert_eq!(words.lines().filter(|line| line.starts_with("large.toml:")).count(), 100);
}

#[test]
fn unknown_keys_are_reported_at_most_a_hundred_times() {
    let mut text = String::from("inherits = \"sim\"\n");
    for nth in 0..60 {
        let _ = writeln!(text, "[[sensor]]\nname = \"s{nth}\"\nkind = \"button\"");
        for key in 0..200 {
            let _ = writeln!(text, "key_{key}_{} = 1", "x".repeat(50));
        }
    }
    let words = reported(&text, "more errors");
    assert!(words.lines().filter(|line| line.starts_with("large.toml:")).count() <= 100);
}

#[test]
fn like_cannot_multiply_an_oversized_entry() {
    let blob = format!("blob = [{}]", vec![format!("[{}]", "1, ".repeat(200)); 200].join(", "));
    let mut text = format!("inherits = \"sim\"\n[[sensor]]\nname = \"first\"\n{blob}\n");
    for nth in 0..200 {
        let _ = writeln!(text, "[[sensor]]\nname = \"s{nth}\"\nlike = \"first\"");
    }
    reported(&text, "values in one entry; allowed: at most 256");
}
