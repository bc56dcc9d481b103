//! A runtime for robots: sensors in, reflexes in every period, a neural field when there is time, motors out.
//! This file is the map: twelve groups in reading order, and the modules of each.
//!
//! The path of a sample: [`sim`] or a Linux bus behind [`hardware::bus`] -> [`hardware::device`] ->
//! [`drive::io`] -> [`decision::admit`] into a [`base::frame`] -> [`decision::reflex`] and [`field`] ->
//! [`drive::backtrack`] -> [`drive::act`] -> [`drive::motor_link`] -> [`drive::io`] again, which writes it.
//! [`runtime::tick`] runs one control period; [`runtime::robot`] assembles the parts; [`runtime::runner`]
//! runs them.
//!
//! Rules: no wait, lock, log or allocation in `tick` or anything it calls; no field in `reflex`, `device` or
//! `bus`; no frame in `device`; no TOML outside `board`; no `unsafe` outside `rt`, `gpu`, `bus::linux` and
//! the vector instructions of `cpu`; no wall clock at all.
//!
//! The feature `workshop` (on by default) adds development tools, which teach and examine a field, and the
//! page of a recorded run. The package for robots is built without it.

// A module may use only modules above it; `tests/tidy.rs` enforces this.

/// Values: units, time, commands, frames, and the contents of a checked board. No I/O, no threads.
pub mod base {
    pub mod units;
    pub mod time;
    pub mod seed;
    pub mod fault;
    pub mod command;
    pub mod frame;
    pub mod driven_path;
    pub mod plan;
}

/// Untrusted input, privileges and resources granted by the operating system, threads, CPU and GPU.
pub mod system {
    pub mod sanitize;
    pub mod bounded_read;
    pub mod rt;
    pub mod codec;
    pub mod checkpoint;
    pub mod executor;
    pub mod cpu;
    pub mod gpu;
    pub mod seqpacket;
}

/// Decisions: pure functions of values.
pub mod decision {
    pub mod admit;
    pub mod reflex;
    pub mod budget;
    pub mod mode;
    pub mod smooth;
    pub mod motion;
    #[cfg(test)]
    pub(crate) mod fixture;
}

/// Buses, and the chips on them.
pub mod hardware {
    pub mod bus;
    pub mod device;
    pub mod gpu_meter;
}

// A simulated robot, behind the same interface as the hardware.
pub mod sim;

// The neural field.
pub mod field;

/// From a decision to the wire, and the record of it.
pub mod drive {
    pub mod backtrack;
    pub mod act;
    pub mod trace;
    pub mod io;
    pub mod motor_link;
    pub mod fast_stop_events;
    pub mod record;
}

// Places, remembered as vectors.
pub mod memory;

/// A running robot: its control period, its processes, a run from start to end, and the last resorts for
/// stopping it.
pub mod runtime {
    pub mod requests;
    pub mod loop_status;
    pub mod guard;
    pub mod rebind;
    pub mod tether;
    pub mod tick;
    pub mod replay;
    pub mod robot;
    pub mod runner;
    pub mod service;
    pub mod control;
    pub mod selftest;
    pub mod access;
    pub mod session;
    pub mod safe_stop;
    pub mod brain;
    pub mod em_brain;
}

/// Development tools: teach and examine a field, and watch a robot. No robot needs them.
#[cfg(feature = "workshop")]
pub mod workshop {
    pub mod learn;
    pub mod teach;
    pub mod ablate;
    pub mod barn;
    pub mod live;
}

/// Board files, setup of a machine, updates, benchmarks, hardware-in-the-loop latency.
pub mod deploy {
    pub mod board;
    pub mod update;
    pub mod setup;
    pub mod bench;
    pub mod hil;
}

// The command line.
pub mod cli;

// How long the tests run, for unit tests too.
#[cfg(test)]
#[path = "../tests/long.rs"]
mod long;
