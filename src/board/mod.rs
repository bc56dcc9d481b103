//! Boards as data: TOML as written, checked into the plans that each part takes. TOML lives here
//! and nowhere else.

pub mod plan;
