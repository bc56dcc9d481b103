//! The runtime that lives on a robot: sensors in, reflexes always, a neural field while there is
//! time, motors out. This is the map; the modules stand in the order to read them in.
//!
//! A sample's way: `sim` or a Linux bus behind [`bus`] -> [`device`] -> [`sense`] -> [`admit`] into a
//! [`frame`] -> [`reflex`] and [`field`] -> [`act`] -> [`wire`] -> [`sense`] again, which writes it.
//! [`tick`] is the order of one control period; [`robot`] joins the parts; [`drive`] runs them.
//!
//! What is nowhere: no wait, lock, log or allocation in [`tick`] or anything it calls; no field in
//! [`reflex`], [`device`] or [`bus`]; no frame in [`device`]; no TOML outside [`board`]; no `unsafe`
//! outside [`rt`], [`gpu`], [`bus::linux`] and the vector instructions of [`field::cpu`]; no wall clock at all.

// Words: no I/O, no threads.
pub mod units;
pub mod time;
pub mod seed;
pub mod frame;
pub mod command;

// What a checked board means: data that every part takes. `board` makes it.
pub mod plan;

// Decisions: pure functions of the words.
pub mod admit;
pub mod reflex;
pub mod budget;
pub mod mode;
pub mod act;
pub mod smooth;

#[cfg(test)]
pub(crate) mod fixture;

// Wires and chips.
pub mod bus;
pub mod device;
pub mod sense;
pub mod wire;
pub mod alarm;

// The neural field, the GPU it may run on, and what it learns from.
pub mod gpu;
pub mod field;
pub mod learn;
pub mod memory;

// Running it all.
pub mod rt;
pub mod crew;
pub mod trace;
pub mod vitals;
pub mod tick;
pub mod robot;
pub mod guard;
pub mod service;
pub mod control;
pub mod drive;
pub mod bench;
pub mod hil;

// Around it: robots as data, a simulated world, files.
pub mod board;
pub mod selftest;
pub mod sim;
pub mod intake;
pub mod outside;
pub mod codec;

// A robot at work: who may have its wires, a run from begin to end, the last resorts for stopping; the command line.
pub mod access;
pub mod session;
pub mod safe_stop;
pub mod cli;
