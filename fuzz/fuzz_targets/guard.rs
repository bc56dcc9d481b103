//! Fuzzes the entry point `guard` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("guard");
