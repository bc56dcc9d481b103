//! `--help` of the shell scripts: each prints the comment at its top, whole and without notes to shellcheck.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::text;

/// The shell scripts that answer `--help`.
fn scripts() -> Vec<PathBuf> {
    let entries = fs::read_dir("scripts").expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    found.retain(|path| {
        let text = text(path);
        let shebang = text.lines().next().unwrap_or_default();
        (shebang.ends_with("sh") || shebang.ends_with("bash")) && text.contains("--help)")
    });
    // These two answer it in a part that they share.
    found.extend(["scripts/flash", "scripts/rollback"].map(PathBuf::from));
    found.sort();
    found.dedup();
    found
}

/// The last line of the comment at the top of `script`.
fn last_line(script: &str) -> &str {
    let comment = script.lines().skip(1).take_while(|line| line.starts_with('#'));
    let lines = comment.filter(|line| !line.starts_with("# shellcheck "));
    lines.last().expect("a comment").trim_start_matches('#').trim()
}

#[test]
fn every_script_prints_its_whole_comment_as_help() {
    let scripts = scripts();
    assert!(scripts.len() >= 14, "{scripts:?}");
    for script in scripts {
        let helped = Command::new(fs::canonicalize(&script).expect("a path")).arg("--help").output();
        let helped = helped.expect("the script starts");
        let said = String::from_utf8_lossy(&helped.stdout).into_owned();
        let name = script.display();
        assert_eq!(helped.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&helped.stderr));
        let text = text(&script);
        assert!(said.lines().any(|line| line.trim() == last_line(&text)), "{name}: {said}");
        assert!(!said.contains("shellcheck"), "{name}: {said}");
    }
}
