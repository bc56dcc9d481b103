//! Turns a fresh machine into a robot that is ready to be armed: detects the machine, proposes a board and
//! every change with its reason, makes the changes and records them in a journal, and can undo them.
//!
//! The steps: `found` and `choice` -> `proposal` (with `config_txt`, and with `tuning`, which `doctor --fix`
//! also proposes on its own) -> `carry_out`, which writes the `journal` before it performs each `action`
//! through `files` and `programs`. All paths are below a root: `/`, or a test's folder.

pub mod carry_out;
pub mod choice;
mod config_txt;
pub mod action;
pub mod files;
pub mod found;
pub mod journal;
pub mod programs;
pub mod proposal;
pub mod tuning;
#[cfg(test)]
mod tests;
