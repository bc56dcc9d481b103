//! Boards as data: checks the written TOML and turns it into the plans that each part takes. No other
//! module reads TOML.
//!
//! The path of a board: `load` opens the texts, `raw` parses them, `inherit` merges them into one table,
//! `check` reads every value from it in order through a `reader` and applies the rules; the result
//! is a `plan`. Errors and warnings go into a `report`; `finding` has their words.

mod bounds;
mod check;
mod effective;
pub mod finding;
mod answer;
mod inherit;
mod load;
pub mod profile;
mod raw;
mod reader;
mod report;
mod schema;
mod shape;
mod shipped;
pub mod edit;
pub mod source;
mod spelling;

pub use load::{BoardError, Loaded, built_in, from_text, from_text_in, load, names_a_file, read_text};
pub use report::Setting;
pub use schema::schema;
pub use shipped::{BUILT_IN, names};
