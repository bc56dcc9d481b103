//! Loads a checked board from a path or a name: reads the files, follows `inherits`, merges, checks.

use super::check::check;
use super::finding::{Finding, Problem};
use super::raw::{self, Table, Value};
use super::report::{Report, Setting};
use super::{bounds, effective, inherit, shipped};
use crate::base::plan::Board;
use crate::system::bounded_read;
use crate::system::sanitize::{nearest, quoted};
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

/// Longest board file, bytes: almost a hundred times the largest shipped one. A device file may be endless.
const LONGEST_FILE: u64 = 1 << 20;
/// Longest chain of `inherits`: the deepest built-in board has four; a robot of one's own and its site.
const DEEPEST: usize = 6;
/// A name without a folder is a board file if it ends in this.
const FILE_END: &str = ".toml";

/// A valid board, and its warnings and origins.
#[derive(Debug)]
pub struct Loaded {
    /// The board.
    pub board: Board,
    /// Every effective value with its origin, in the order of the sections.
    pub settings: Vec<Setting>,
    /// Warnings: allowed, but worth checking.
    pub warnings: Vec<Finding>,
    /// BLAKE3 of the effective values: equal boards have equal digests, however they are written.
    pub digest: blake3::Hash,
}

impl Loaded {
    /// The effective values as TOML, one per line, each with its origin in a comment. The text loads to a
    /// board with the same digest.
    pub fn effective(&self) -> Vec<String> {
        effective::lines(&self.settings)
    }
}

/// Why a board could not be loaded.
#[derive(Debug)]
pub enum BoardError {
    /// The file cannot be read.
    Unreadable {
        /// The requested name.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
        /// The built-in board with the most similar name.
        nearest: Option<String>,
    },
    /// No built-in board has that name, and it does not name a file: see [`names_a_file`].
    Unknown {
        /// The requested name.
        name: String,
        /// The built-in board with the most similar name.
        nearest: Option<String>,
    },
    /// The file is not a valid board. There is at least one finding.
    Refused(Vec<Finding>),
}

impl fmt::Display for BoardError {
    /// One paragraph per error; with `{:#}` each shows its source line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BoardError::Unreadable { path, error, nearest } => {
                write!(f, "{}: {error}", path.display())?;
                others(f, nearest)
            }
            BoardError::Unknown { name, nearest } => {
                write!(f, "no built-in board is named `{}`", quoted(name))?;
                others(f, nearest)?;
                write!(
                    f,
                    "; to name a file, write a path with a `/` or a name that ends in `.toml`, as in ./{name}"
                )
            }
            BoardError::Refused(findings) => list(findings, f),
        }
    }
}

impl std::error::Error for BoardError {}

/// Writes one paragraph per finding.
pub(super) fn list(findings: &[Finding], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, finding) in findings.iter().enumerate() {
        let gap = if at == 0 { "" } else { "\n" };
        f.write_str(gap)?;
        fmt::Display::fmt(finding, f)?;
    }
    Ok(())
}

/// Suggests the most similar name, and lists the built-in boards.
fn others(f: &mut fmt::Formatter<'_>, nearest: &Option<String>) -> fmt::Result {
    if let Some(near) = nearest {
        write!(f, "; did you mean `{near}`?")?;
    }
    let names: Vec<&str> = shipped::names().collect();
    write!(f, "; built-in boards: {}", names.join(", "))
}

/// Whether `path` names a board file: it contains a `/` or ends in `.toml`. Any other word names a built-in
/// board, even if the current directory has a file of that name: a leftover file must not change what
/// `--board picarx-v4` means.
pub fn names_a_file(path: &Path) -> bool {
    let words = path.as_os_str().as_encoded_bytes();
    words.contains(&b'/') || words.ends_with(FILE_END.as_bytes())
}

/// Loads the board file at `path`, or the built-in board of that name; [`names_a_file`] decides which.
pub fn load(path: &Path) -> Result<Loaded, BoardError> {
    if !names_a_file(path) {
        let name = path.to_string_lossy().into_owned();
        let nearest = nearest(&name, shipped::names());
        return built_in(&name).unwrap_or(Err(BoardError::Unknown { name, nearest }));
    }
    match read_text(path) {
        Ok(text) => {
            let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
            let folder = path.parent().map(Path::to_path_buf);
            assemble(&name, &path.display().to_string(), text, folder)
        }
        Err(error) => {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
            let nearest = missing.then(|| nearest(&stem, shipped::names())).flatten();
            Err(BoardError::Unreadable { path: path.to_path_buf(), error, nearest })
        }
    }
}

/// Loads the built-in board with that name, if there is one.
pub fn built_in(name: &str) -> Option<Result<Loaded, BoardError>> {
    let text = shipped::text(name)?;
    Some(assemble(name, &built_in_file(name), text.to_string(), None))
}

/// Loads a board from its text; `inherits` finds built-in boards only. For tests and tools.
pub fn from_text(name: &str, text: &str) -> Result<Loaded, BoardError> {
    assemble(name, &format!("{name}.toml"), text.to_string(), None)
}

/// Loads a board from its text as if it were a file in `folder`, where `inherits` looks for files.
pub fn from_text_in(name: &str, text: &str, folder: &Path) -> Result<Loaded, BoardError> {
    assemble(name, &format!("{name}.toml"), text.to_string(), Some(folder.to_path_buf()))
}

/// The file name that messages use for a built-in board.
fn built_in_file(name: &str) -> String {
    format!("built-in/{name}.toml")
}

/// The text of the board file at `path`.
pub fn read_text(path: &Path) -> Result<String, std::io::Error> {
    bounded_read::text(path, LONGEST_FILE)
}

/// Loads a board from its text. Inherited files must be in `folder`; with `None`, only built-in boards can be
/// inherited.
fn assemble(name: &str, file: &str, text: String, folder: Option<PathBuf>) -> Result<Loaded, BoardError> {
    let mut report = Report::default();
    let Some(table) = merged(name, file, text, folder, &mut report) else {
        return Err(refused(report, file));
    };
    let shared = RefCell::new(report);
    let board = check(name, &table, &shared);
    let report = shared.into_inner();
    match board {
        Some(board) => Ok(Loaded {
            board,
            digest: digest(&report.settings),
            settings: report.settings,
            warnings: report.warnings,
        }),
        None => Err(refused(report, file)),
    }
}

fn digest(settings: &[Setting]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for setting in settings {
        hasher.update(format!("{} = {}\n", setting.key, setting.value).as_bytes());
    }
    hasher.finalize()
}

/// The reported errors as the reason why the board was refused.
fn refused(report: Report, own: &str) -> BoardError {
    BoardError::Refused(told(report, own))
}

/// The reported errors, and at the end the number of those left out.
pub(super) fn told(report: Report, own: &str) -> Vec<Finding> {
    let untold = report.untold;
    let mut findings = in_order(report.findings, own);
    if untold > 0 {
        let rule = format!("and {untold} more errors");
        findings.push(Finding { key: String::new(), problem: Problem::Misfit { rule }, spot: None });
    }
    findings
}

/// Sorts by file and line, the board's own file first, so that the user can work from top to bottom.
fn in_order(mut findings: Vec<Finding>, own: &str) -> Vec<Finding> {
    findings.sort_by_key(|finding| {
        finding.spot.as_ref().map(|s| (&*s.file != own, s.file.clone(), s.line, s.column))
    });
    // An error in one entry occurs again, at the same place, in every entry that copies it with `like`.
    findings.dedup_by(|a, b| a.spot.is_some() && a.spot == b.spot && a.problem == b.problem);
    findings
}

/// One file of the chain; the board itself is the first.
struct Link {
    file: String,
    text: String,
    folder: Option<PathBuf>,
}

/// The board's table merged over everything that it inherits.
fn merged(
    name: &str,
    file: &str,
    text: String,
    folder: Option<PathBuf>,
    report: &mut Report,
) -> Option<Table> {
    let mut tables = Vec::new();
    let mut seen = vec![file.to_string()];
    let mut next = Some(Link { file: file.to_string(), text, folder });
    let mut names = vec![name.to_string()];
    while let Some(link) = next.take() {
        let source = report.sources.add(&link.file, link.text);
        let mut table = match raw::parse(&report.sources, source) {
            Ok(table) => table,
            Err(errors) => {
                for (message, place) in errors {
                    report.refuse("", Some(place), Problem::Syntax { message });
                }
                return None;
            }
        };
        if let Some(beyond) = bounds::beyond(&table) {
            report.refuse(&beyond.key, Some(beyond.place), Problem::Misfit { rule: beyond.rule });
            return None;
        }
        if let Some(entry) = table.take("inherits") {
            let place = Some(entry.node.place);
            let Value::Text(parent) = &entry.node.value else {
                let wanted = "a string: the name of another board".to_string();
                report.refuse(
                    "inherits",
                    place,
                    Problem::WrongType { wanted, found: entry.node.value.kind() },
                );
                return None;
            };
            match parent_of(parent, link.folder.as_deref()) {
                Ok(found) if seen.contains(&found.file) => {
                    let rule = format!("inherits itself: {} -> {parent}", names.join(" -> "));
                    report.refuse("inherits", place, Problem::Misfit { rule });
                    return None;
                }
                Ok(_) if seen.len() >= DEEPEST => {
                    let rule = format!("a chain of {} boards; allowed: at most {DEEPEST}", seen.len() + 1);
                    report.refuse("inherits", place, Problem::Misfit { rule });
                    return None;
                }
                Ok(found) => {
                    seen.push(found.file.clone());
                    names.push(parent.clone());
                    next = Some(found);
                }
                Err(problem) => {
                    report.refuse("inherits", place, problem);
                    return None;
                }
            }
        }
        tables.push(table);
    }
    let mut whole = Table::default();
    for table in tables.into_iter().rev() {
        whole = inherit::merge(whole, table, report);
    }
    inherit::fill_likes(&mut whole, report);
    Some(whole)
}

/// The board that `inherits` names: a built-in board, or, if the name ends in `.toml`, a file in the same
/// folder.
fn parent_of(name: &str, folder: Option<&Path>) -> Result<Link, Problem> {
    if name.contains(['/', '\\']) {
        let allowed = "the name of a built-in board, or NAME.toml for a file in the same folder".to_string();
        return Err(Problem::OutOfRange { found: format!("\"{}\"", quoted(name)), allowed });
    }
    if let Some(stem) = name.strip_suffix(FILE_END) {
        let missing =
            || unknown_board("board file in the same folder", name, nearest(stem, shipped::names()));
        let folder = folder.ok_or_else(missing)?;
        let path = folder.join(name);
        return match read_text(&path) {
            Ok(text) => {
                let file = path.display().to_string();
                Ok(Link { file, text, folder: Some(folder.to_path_buf()) })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(missing()),
            Err(error) => Err(Problem::Misfit { rule: format!("{}: {error}", path.display()) }),
        };
    }
    match shipped::text(name) {
        Some(text) => Ok(Link { file: built_in_file(name), text: text.to_string(), folder: None }),
        None => {
            let file = format!("{name}{FILE_END}");
            let beside = folder.is_some_and(|folder| folder.join(&file).exists());
            let nearest = if beside { Some(file) } else { nearest(name, shipped::names()) };
            Err(unknown_board("built-in board", name, nearest))
        }
    }
}

fn unknown_board(what: &'static str, name: &str, nearest: Option<String>) -> Problem {
    let known = shipped::names().map(str::to_string).collect();
    Problem::UnknownName { what, found: name.to_string(), nearest, known }
}
