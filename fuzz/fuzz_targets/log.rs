//! Fuzzes the entry point `log` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("log");
