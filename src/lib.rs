//! The runtime that lives on a robot: sensors in, reflexes always, a neural field while there is
//! time, motors out. This is the map; the modules stand in the order to read them in.
//!
//! A sample's way: `sim` or a Linux bus behind [`bus`] -> [`device`] -> [`io`] -> [`admit`] into a
//! [`frame`] -> [`reflex`] and [`field`] -> [`act`] -> [`motor_link`] -> [`io`] again, which writes it.
//! [`tick`] is the order of one control period; [`robot`] joins the parts; [`runner`] runs them.
//!
//! What is nowhere: no wait, lock, log or allocation in [`tick`] or anything it calls; no field in
//! [`reflex`], [`device`] or [`bus`]; no frame in [`device`]; no TOML outside [`board`]; no `unsafe`
//! outside [`rt`], [`gpu`], [`bus::linux`] and the vector instructions of [`cpu`]; no wall clock at all.

// A module names only those above it; `tests/tidy.rs` holds them to it.

// Words: no I/O, no threads.
pub mod units;
pub mod time;
pub mod seed;
pub mod fault;
pub mod command;
pub mod frame;

// What comes from outside, what the system grants, and where to compute.
pub mod outside;
pub mod intake;
pub mod rt;
pub mod codec;
pub mod cpu;
pub mod gpu;

// What a checked board means: data that every part takes. `board` makes it.
pub mod plan;

// Decisions: pure functions of the words.
pub mod admit;
pub mod reflex;
pub mod budget;
pub mod mode;
pub mod smooth;

#[cfg(test)]
pub(crate) mod fixture;

// Threads, and what they leave for each other.
pub mod executor;
pub mod requests;
pub mod loop_status;

// Wires and chips, and a simulated robot behind the same wires.
pub mod bus;
pub mod device;
pub mod sim;

// The neural field, and what it learns from.
pub mod field;
pub mod learn;

// From a decision to the wire, and the record of it.
pub mod act;
pub mod trace;
pub mod io;
pub mod motor_link;
pub mod alarm;
pub mod memory;

// Running it all.
pub mod guard;
pub mod tick;
pub mod robot;
pub mod runner;
pub mod service;
pub mod control;
pub mod bench;
pub mod hil;
pub mod selftest;

// A robot at work: who may have its wires, a run from begin to end, the last resorts for stopping.
pub mod access;
pub mod session;
pub mod safe_stop;

// Around it: robots as files, the command line.
pub mod board;
pub mod cli;
