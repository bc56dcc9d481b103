//! Boards as data: checks a board file's TOML and turns it into plans for the other parts of the program. No
//! other module reads TOML.
//!
//! How a board file is processed: `load` opens the files, `raw` parses them, `inherit` merges them into one
//! table, and `check` reads every value from it through a `reader` and applies the rules. The result is a
//! `plan`. Errors and warnings go into a `report`; `finding` contains their wording. `world_file` reads
//! worlds in the same way.

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
mod world_file;

pub use check::is_host_and_port;
pub use load::{BoardError, Loaded, built_in, from_text, from_text_in, load, names_a_file, read_text};
pub use report::Setting;
pub use schema::schema;
pub use shipped::{BUILT_IN, names};
pub use world_file::{WorldError, world, world_from_text};
