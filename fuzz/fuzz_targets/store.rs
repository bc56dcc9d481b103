//! Fuzzes the entry point `store` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("store");
