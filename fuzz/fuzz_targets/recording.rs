//! Fuzzes the entry point `recording` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("recording");
