//! Boards as data: the shipped ones match their hardware, boards inherit from each other by fixed rules, and
//! anything else is refused with file, line, key and allowed values.

mod bad;
mod bad_behaviours;
mod bad_wires;
mod barn;
mod behaviours;
mod capacity;
mod facts;
mod fuzz;
mod inherit;
mod large;
mod schema;
mod schema_subset;
mod start;
mod variants;

use ganglion::deploy::board::{self, BoardError, Loaded};

/// The shipped board with this name.
fn shipped(name: &str) -> Loaded {
    match board::built_in(name) {
        Some(Ok(loaded)) => loaded,
        Some(Err(error)) => panic!("{name}:\n{error:#}"),
        None => panic!("no board is named {name}"),
    }
}

/// The text of the shipped board with this name.
fn text_of(name: &str) -> &'static str {
    board::BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).unwrap()
}

/// The faults of `text`, one line each.
fn faults(text: &str) -> Vec<String> {
    match board::from_text("bad", text) {
        Ok(_) => Vec::new(),
        Err(BoardError::Refused(findings)) => findings.iter().map(|finding| finding.to_string()).collect(),
        Err(error) => panic!("a text is always readable: {error}"),
    }
}
