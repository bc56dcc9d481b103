//! Saves the result of a calibration in the board file of this robot, atomically.

use super::{Boards, Common};
use crate::cli::exit::Failure;
use crate::deploy::board::edit::{Change, changed};
use crate::deploy::board::{Loaded, names_a_file, read_text};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::Path;

/// Prints the changes, and saves them if a file is named.
pub fn keep(common: &Common, boards: &Boards, changes: &[Change]) -> Result<(), Failure> {
    for change in changes {
        say!("{}: {} -> {:?}", path_of(change), before(boards.old(), change), change.value);
    }
    let Some(path) = &common.save else {
        say!("not saved: use '--save FILE' to save it in this robot's board file");
        return Ok(());
    };
    let folder = folder_of(path);
    let old = match read_text(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::file(path, &error)),
    };
    let board = &boards.path;
    let from_file = names_a_file(board);
    if old.is_none() && from_file && !same_folder(folder_of(board), folder) {
        let beside = folder_of(board).display().to_string();
        return Err(Failure::usage("a board file can only inherit from one in the same folder")
            .fix(format!("save it in {beside}")));
    }
    if old.is_none() && from_file && board.extension().is_none_or(|end| end != "toml") {
        let words = format!("'{}' cannot be inherited: its name does not end in '.toml'", board.display());
        return Err(Failure::usage(words).fix("give it a name that ends in '.toml'"));
    }
    // A board inherits a file by its file name, and a built-in board by its name.
    let parent = board.file_name().filter(|_| from_file).map(|name| name.to_string_lossy());
    let parent = parent.as_deref().unwrap_or(&boards.measured.board.name);
    let text = changed(old.as_deref(), parent, changes, folder)
        .map_err(|error| crate::cli::check::failure(path, &error))?;
    crate::system::codec::replace(path, text.as_bytes()).map_err(|error| Failure::file(path, &error))?;
    say!("saved in {}", path.display());
    if let Some(note) = crate::cli::hidden::note(path) {
        say!("{note}");
    }
    Ok(())
}

/// The changes for `--json`.
pub fn objects(boards: &Boards, changes: &[Change]) -> Vec<Value> {
    let object = |change: &Change| json!({ "key": path_of(change), "before": before(boards.old(), change), "value": change.value });
    changes.iter().map(object).collect()
}

fn path_of(change: &Change) -> String {
    format!("{}.{}.{}", change.list, change.name, change.key)
}

fn before<'l>(loaded: &'l Loaded, change: &Change) -> &'l str {
    let key = path_of(change);
    loaded.settings.iter().find(|setting| setting.key == key).map_or("nothing", |setting| &setting.value)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn same_folder(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
