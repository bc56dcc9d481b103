//! Names of code in the documents still exist. A document writes `module::path`, `Type::method`,
//! `file/path.rs` or `scripts/x` between backticks; a name that is missing in the tree was renamed or
//! removed, and the sentence about it is outdated.

use super::source::{Source, sources, texts};
use super::{none, words};
use std::collections::BTreeSet;
use std::path::Path;

/// Documents other than `docs/*.md` and `systemd/`.
const DOCUMENTS: &[&str] =
    &["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "boards/README.md"];

/// Folders to which the paths in a document may be relative.
const FOLDERS: &[&str] = &[
    "",
    "src/",
    "src/base/",
    "src/system/",
    "src/decision/",
    "src/hardware/",
    "src/drive/",
    "src/runtime/",
    "src/workshop/",
    "src/deploy/",
    "tests/",
    "scripts/",
    "kernels/",
    "hil/",
    "hil/guest/",
    "docs/",
    "boards/",
];

/// File endings of this tree.
const ENDS: &[&str] = &[
    "rs", "cu", "cuh", "hpp", "cpp", "c", "h", "md", "toml", "py", "sh", "service", "rules", "sysusers",
    "readout",
];

/// Names that look like ours but are not: a document, a name, and whose it is.
const OTHERS: &[(&str, &str, &str)] = &[
    ("docs/service.md", "drivers/i2c/busses/i2c-tegra.c", "of the kernel"),
    ("docs/virtual-bench.md", "drivers/i2c/i2c-core-base.c", "of the kernel"),
    ("CONTRIBUTING.md", "x/tests.rs", "stands for any module"),
];

/// A document that names files and functions of other crates, as they were in the reviewed version.
const ABOUT_OTHERS: &str = "docs/dependencies.md";

/// The part of a text that describes the current code: all of it, or a changelog up to the end of the
/// unreleased section.
fn present<'t>(path: &str, text: &'t str) -> &'t str {
    if path != "CHANGELOG.md" {
        return text;
    }
    let from = text.find("## [Unreleased]").map_or(0, |at| at + 3);
    let end = text[from..].find("\n## [").map_or(text.len(), |end| from + end);
    &text[..end]
}

/// Texts between backticks in prose, with their line numbers. Fenced blocks are skipped: they hold programs
/// or output.
fn quoted(text: &str) -> Vec<(usize, &str)> {
    let (mut all, mut fenced) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            all.extend(line.split('`').skip(1).step_by(2).map(|quoted| (number + 1, quoted)));
        }
    }
    all
}

/// Modules, items and crates of the tree.
struct Tree {
    sources: Vec<Source>,
    /// Crates of the lock file, as code writes them, and the standard library's.
    crates: BTreeSet<String>,
}

impl Tree {
    fn read() -> Tree {
        let lock = std::fs::read_to_string("Cargo.lock").expect("the lock file");
        let names = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        let ours = |name: &&str| *name != "ganglion";
        let mut crates: BTreeSet<String> = names.filter(ours).map(|name| name.replace('-', "_")).collect();
        crates.extend(["std", "core", "alloc"].map(String::from));
        Tree { sources: sources(&["src", "tests", "hil"]), crates }
    }

    /// Whether `a::b::c` exists. The path starts with a module (the end of a module's path is enough) or a
    /// type; each further part is a word of that module, or of one below it.
    fn has(&self, parts: &[&str]) -> bool {
        if self.crates.contains(parts[0]) {
            return true;
        }
        let modules = (1..=parts.len()).rev().any(|count| {
            let (module, rest) = parts.split_at(count);
            let here = |source: &&Source| is_in_module(&source.path, module);
            let inside: Vec<&Source> = self.sources.iter().filter(here).collect();
            !inside.is_empty() && rest.iter().all(|part| inside.iter().any(|source| has_word(source, part)))
        });
        modules || self.has_type(parts)
    }

    /// Whether some file defines or extends the type, and contains the other parts.
    fn has_type(&self, parts: &[&str]) -> bool {
        let kinds = ["struct", "enum", "trait", "type", "union", "impl", "for", "mod"];
        self.sources.iter().any(|source| {
            let found: Vec<&str> = words(&source.code).collect();
            let defines = found.windows(2).any(|two| kinds.contains(&two[0]) && two[1] == parts[0]);
            defines && parts[1..].iter().all(|part| found.contains(part))
        })
    }
}

/// Whether a file is the module, or belongs to it: `io::ladder` and `ladder` are src/drive/io/ladder.rs and
/// its children.
fn is_in_module(path: &str, module: &[&str]) -> bool {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    parts.windows(module.len()).any(|some| some == module)
}

fn has_word(source: &Source, part: &str) -> bool {
    match part.strip_suffix('*') {
        Some(start) => words(&source.text).any(|word| word.starts_with(start)),
        None => words(&source.text).any(|word| word == part),
    }
}

/// The parts of `a::b::c`, if it looks like a path; a trailing `::` (`a::`) follows a module.
fn path_of(quoted: &str) -> Option<Vec<&str>> {
    let quoted = quoted.strip_suffix("()").unwrap_or(quoted);
    let quoted = quoted.strip_prefix("crate::").or(quoted.strip_prefix("ganglion::")).unwrap_or(quoted);
    if !quoted.contains("::") {
        return None;
    }
    let mut parts: Vec<&str> = quoted.split("::").collect();
    parts.retain(|part| !matches!(*part, "" | "*"));
    let is_name = |part: &&str| {
        let name = part.strip_suffix('*').unwrap_or(part);
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    (!parts.is_empty() && parts.iter().all(is_name)).then_some(parts)
}

/// The path of a file or folder of this tree, if it looks like one.
fn file_of(quoted: &str) -> Option<&str> {
    let word = quoted.split([' ', ':']).next().unwrap_or_default();
    if word.contains("NAME") {
        return None; // a placeholder of a recipe
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if word.starts_with(['/', '.', '-']) || !word.contains('/') || !word.chars().all(plain) {
        return None;
    }
    let ours = ["src/", "tests/", "scripts/", "kernels/", "boards/", "systemd/", "hil/", "docs/", "fuzz/"];
    let ends = word.rsplit_once('.').is_some_and(|(_, end)| ENDS.contains(&end));
    (ends || ours.iter().any(|folder| word.starts_with(folder))).then_some(word)
}

fn is_there(path: &str) -> bool {
    FOLDERS.iter().any(|folder| Path::new(&format!("{folder}{path}")).exists())
}

/// The names in a text that the tree does not have.
fn stale(tree: &Tree, path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (line, name) in quoted(present(path, text)) {
        if OTHERS.iter().any(|(document, other, _)| (*document, *other) == (path, name)) {
            continue;
        }
        let gone = match (path_of(name), file_of(name)) {
            (Some(parts), _) => !tree.has(&parts),
            (None, Some(file)) => !is_there(file),
            (None, None) => false,
        };
        if gone {
            faults.push(format!("{path}:{line}: `{name}` is not in the tree"));
        }
    }
    faults
}

#[test]
fn names_of_code_in_documents_exist() {
    let tree = Tree::read();
    let is_document = |path: &str| {
        let is_in_folder = path.starts_with("docs/") && path.ends_with(".md") || path.starts_with("systemd/");
        DOCUMENTS.contains(&path) || (is_in_folder && path != ABOUT_OTHERS)
    };
    let documents: Vec<(String, String)> =
        texts().into_iter().filter(|(path, _)| is_document(path)).collect();
    assert!(documents.len() > DOCUMENTS.len() + 10, "{} documents", documents.len());
    none(documents.iter().flat_map(|(path, text)| stale(&tree, path, text)).collect());
    for (document, name, reason) in OTHERS {
        let text = std::fs::read_to_string(document).unwrap_or_default();
        assert!(text.contains(&format!("`{name}`")) && !reason.is_empty(), "{document} does not name {name}");
    }
}

#[test]
fn missing_names_are_found_and_existing_ones_pass() {
    let tree = Tree::read();
    let text = "`guard::Server`, `Server::serve`, `src/runtime/guard.rs`, `guard/server.rs`, `scripts/hil --row soak`, \
        `tidy::names::a_name_that_*`, `memory::`, `libm::fmaf`, `a word`, `1 / n`, `I2C/SMBus`, `/dev/i2c-1`";
    assert_eq!(stale(&tree, "docs/x.md", text), [""; 0]);
    let gone = "first\n`guard::Post` `Server::sit` `src/post.rs` `scripts/nothing` `drive::a_test_of_old`";
    assert_eq!(stale(&tree, "docs/x.md", gone).len(), 5);
    assert_eq!(stale(&tree, "docs/x.md", "```\n`guard::Post`\n```"), [""; 0], "a fenced block is not prose");
    let log = "## [Unreleased]\n`guard::Post`\n\n## [0.1.0]\n`guard::Old`";
    assert_eq!(stale(&tree, "CHANGELOG.md", log).len(), 1, "released sections describe the past");
}
