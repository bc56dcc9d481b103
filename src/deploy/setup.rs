//! Turns a fresh machine into a robot that is ready to be armed, and undoes that: detects the machine,
//! proposes a board and every change with its reason, makes the changes with a journal, undoes them.
//!
//! The steps: `found` and `choice` -> `proposal` (with `tuning`, which `doctor --fix` proposes alone, and
//! `config_txt`) -> `carry_out`, which writes the `journal` before it makes each `action` through `files` and
//! `programs`. All paths are below a root: `/`, or a test's folder.

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
