//! The tree as text: Rust files with comments and strings blanked, so that a sentence does not violate a rule
//! about code.

use std::fs;
use std::path::Path;

/// One Rust file.
pub struct Source {
    /// Relative to the root of the repository, with `/`.
    pub path: String,
    /// The original text.
    pub text: String,
    /// The text with comments and literals replaced by blanks; line breaks are kept.
    pub code: String,
}

impl Source {
    /// Whether the file is this module or belongs to it: `src/x` is `src/x.rs` and `src/x/...`.
    pub fn is_in(&self, room: &str) -> bool {
        let rest = self.path.strip_prefix(room);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    /// The code before its unit tests, which may use more than the code they test; empty for a file of
    /// tests.
    pub fn without_tests(&self) -> &str {
        if self.path.ends_with("tests.rs") || self.path.contains("/tests/") {
            return "";
        }
        let marks = self.code.match_indices("#[cfg(test)]");
        let ends = marks.filter(|(at, mark)| self.code[at + mark.len()..].trim_start().starts_with("mod "));
        ends.map(|(at, _)| at).next().map_or(&self.code, |end| &self.code[..end])
    }
}

/// All Rust files below the given folders, in order.
pub fn sources(folders: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in folders {
        assert!(Path::new(folder).is_dir(), "no {folder}/: the tests run in the root of the repository");
        walk(Path::new(folder), &mut paths);
    }
    let rust = paths.into_iter().filter(|path| path.ends_with(".rs"));
    rust.map(|path| {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Source { code: code_only(&text), path, text }
    })
    .collect()
}

/// The text files in the root and in these folders of the repository, each as its path and content.
pub fn texts() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for folder in ["src", "tests", "docs", "boards", "data", "kernels", "hil", "scripts", "systemd", ".ci"] {
        walk(Path::new(folder), &mut paths);
    }
    let top = fs::read_dir(".").expect("the root").flatten();
    paths.extend(top.filter(|entry| entry.path().is_file()).map(|entry| name_of(&entry.path())));
    // Cargo.lock names third-party crates, and .git is a file in a second work tree; a file that is not UTF-8
    // is not a text file.
    let ours = paths.into_iter().filter(|path| path != "Cargo.lock" && path != ".git");
    ours.filter_map(|path| Some((fs::read_to_string(&path).ok()?, path)))
        .map(|(text, path)| (path, text))
        .collect()
}

fn name_of(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches("./").to_string()
}

fn walk(folder: &Path, into: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() { walk(&path, into) } else { into.push(name_of(&path)) }
    }
}

/// `text` with comments, string literals and character literals replaced by blanks.
pub fn code_only(text: &str) -> String {
    let all: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < all.len() {
        let end = literal_or_comment(&all, at);
        if end == at {
            code.push(all[at]);
            at += 1;
        } else {
            code.extend(all[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the literal or comment that starts at `at` ends; `at` itself if none starts there.
fn literal_or_comment(all: &[char], at: usize) -> usize {
    let starts =
        |from: usize, with: &str| with.chars().enumerate().all(|(i, c)| all.get(from + i) == Some(&c));
    let find = |from: usize, with: &str| (from..all.len()).find(|&i| starts(i, with));
    if starts(at, "//") {
        return find(at, "\n").unwrap_or(all.len());
    }
    if starts(at, "/*") {
        let (mut depth, mut i) = (1, at + 2);
        while depth > 0 && i < all.len() {
            if starts(i, "/*") {
                depth += 1;
            } else if starts(i, "*/") {
                depth -= 1;
            }
            i += if starts(i, "/*") || starts(i, "*/") { 2 } else { 1 };
        }
        return i;
    }
    let in_a_word = at > 0 && (all[at - 1].is_alphanumeric() || all[at - 1] == '_');
    if all[at] == 'r' && !in_a_word {
        let hashes = all[at + 1..].iter().take_while(|&&c| c == '#').count();
        if all.get(at + 1 + hashes) == Some(&'"') {
            let close: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            return find(at + 2 + hashes, &close).map_or(all.len(), |i| i + close.len());
        }
    }
    let quoted = |quote: char| {
        let mut i = at + 1;
        while i < all.len() && all[i] != quote {
            i += if all[i] == '\\' { 2 } else { 1 };
        }
        (i + 1).min(all.len())
    };
    match all[at] {
        '"' => quoted('"'),
        // A lifetime has no closing quote after one character.
        '\'' if all.get(at + 1) == Some(&'\\') || all.get(at + 2) == Some(&'\'') => quoted('\''),
        _ => at,
    }
}

/// Paths of this crate that code names, without `crate::`: `use crate::{a, b::{c, d}}` gives `a`, `b::c` and
/// `b::d`.
pub fn crate_paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (start, word) in code.match_indices("crate::") {
        expand("", &code[start + word.len()..], &mut paths);
    }
    paths
}

/// Paths that the code of the module at `path` (below `src`, without `.rs`) names through `super`s that lead
/// to the crate root.
pub fn paths_of_the_root(code: &str, path: &str) -> Vec<String> {
    let depth = path.trim_end_matches("/mod").split('/').count();
    let mut paths = Vec::new();
    let climb = "super::".repeat(depth);
    for (start, _) in code.match_indices(&climb) {
        expand("", &code[start + climb.len()..], &mut paths);
    }
    paths
}

/// The paths at the start of `text`, each after `prefix`. Returns where they end.
fn expand(prefix: &str, text: &str, into: &mut Vec<String>) -> usize {
    let path: String = text.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
    let named = format!("{prefix}{path}");
    let mut at = path.len();
    if !text[at..].starts_with('{') {
        into.push(named);
        return at;
    }
    loop {
        at += 1; // the brace or the comma
        at += text[at..].len() - text[at..].trim_start().len();
        if text[at..].starts_with('}') {
            return at + 1; // after a trailing comma
        }
        at += expand(&named, &text[at..], into);
        at += text[at..].len() - text[at..].trim_start().len();
        if !text[at..].starts_with(',') {
            return (at + 1).min(text.len()); // the closing brace, or not a use group after all
        }
    }
}

#[test]
fn comments_and_strings_are_not_code() {
    let text = "a // unsafe\nb /* x /* y */ \n z */ c \"un\\\"safe\" r#\"q\"q\"# 'x' '\\'' &'a d";
    let code = code_only(text);
    assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "&'a", "d"]);
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn a_use_group_names_each_of_its_members() {
    let code =
        "use crate::{bus::{I2c, fake::{A, B},}, time}; use crate::frame::Frame; crate::units::Metres(1.0)";
    let paths = ["bus::I2c", "bus::fake::A", "bus::fake::B", "time", "frame::Frame", "units::Metres"];
    assert_eq!(crate_paths(code), paths);
}

#[test]
fn paths_to_the_root_through_super_are_resolved() {
    let deep = "use super::super::{io::Outlet, trace}; use super::own; super::super::act::Act";
    assert_eq!(paths_of_the_root(deep, "plan/bus"), ["io::Outlet", "trace", "act::Act"]);
    assert_eq!(paths_of_the_root("use super::tick::Tick;", "plan/mod"), ["tick::Tick"]);
}

#[test]
fn a_module_is_a_file_and_its_folder() {
    let of = |path: &str| Source { path: path.into(), text: String::new(), code: String::new() };
    assert!(
        of("src/decision/reflex.rs").is_in("src/decision/reflex")
            && of("src/decision/reflex/rule.rs").is_in("src/decision/reflex")
    );
    assert!(
        !of("src/reflexes.rs").is_in("src/decision/reflex")
            && !of("src/reflexes/a.rs").is_in("src/decision/reflex")
    );
}
