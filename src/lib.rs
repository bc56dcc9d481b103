//! The runtime that runs on a robot: sensors in, reflexes always, a neural field when there is time, motors
//! out. This is the map; the modules are listed in reading order.
//!
//! The path of a sample: `sim` or a Linux bus behind [`bus`] -> [`device`] -> [`io`] -> [`admit`] into a
//! [`frame`] -> [`reflex`] and [`field`] -> [`trail`] -> [`act`] -> [`motor_link`] -> [`io`] again, which
//! writes it. [`tick`] is the order of one control period; [`robot`] joins the parts; [`runner`] runs them.
//!
//! What is not allowed: no wait, lock, log or allocation in [`tick`] or anything it calls; no field in
//! [`reflex`], [`device`] or [`bus`]; no frame in [`device`]; no TOML outside [`board`]; no `unsafe` outside
//! [`rt`], [`gpu`], [`bus::linux`] and the vector instructions of [`cpu`]; no wall clock at all.

// A module may use only modules above it; `tests/tidy.rs` enforces this.

// Basic types: no I/O, no threads.
pub mod units;
pub mod time;
pub mod seed;
pub mod fault;
pub mod command;
pub mod frame;

// Outside input, what the system grants, and where to compute.
pub mod outside;
pub mod intake;
pub mod rt;
pub mod codec;
pub mod cpu;
pub mod gpu;

// The contents of a checked board: data for all parts. `board` makes it.
pub mod plan;

// Decisions: pure functions of the basic types.
pub mod admit;
pub mod reflex;
pub mod budget;
pub mod mode;
pub mod smooth;
pub mod motion;

#[cfg(test)]
pub(crate) mod fixture;

// Threads, and how they exchange data.
pub mod executor;
pub mod requests;
pub mod loop_status;

// Wires and chips, and a simulated robot behind the same interface.
pub mod bus;
pub mod device;
pub mod sim;

// The neural field, and what it learns from.
pub mod field;
pub mod learn;

// From a decision to the wire, and the record of it.
pub mod trail;
pub mod act;
pub mod trace;
pub mod io;
pub mod motor_link;
pub mod alarm;
pub mod memory;

// Running it all.
pub mod guard;
pub mod rebind;
pub mod tick;
pub mod robot;
pub mod runner;
pub mod teach;
pub mod ablate;
pub mod service;
pub mod control;
pub mod bench;
pub mod hil;
pub mod selftest;

// A robot at work: which process has its wires, a run from begin to end, the last resorts for stopping.
pub mod access;
pub mod session;
pub mod safe_stop;

// Around it: robots as files, the machine made ready for one, and the command line.
pub mod board;
pub mod update;
pub mod setup;
pub mod cli;
