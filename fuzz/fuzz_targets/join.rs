//! Fuzzes the entry point `join` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("join");
