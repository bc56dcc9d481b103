//! Boards as data: TOML as written, checked into the plans that each part takes. TOML lives here
//! and nowhere else.
//!
//! The way of a board: `load` opens the texts, `raw` parses them, `inherit` makes one table of
//! them, `check` has a `reader` ask that table for every value in order and holds the rules, `plan`
//! is what comes out. What is to tell goes into a `report`; `finding` has the words for it.

mod bounds;
mod check;
mod effective;
pub mod finding;
mod answer;
mod inherit;
mod load;
mod raw;
mod reader;
mod report;
mod shipped;
pub mod edit;
pub mod source;
mod spelling;

pub use load::{BoardError, Loaded, built_in, from_text, load, names_a_file, read_text};
pub use report::Setting;
pub use shipped::{BUILT_IN, names};
