//! Fuzzes the entry point `key` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("key");
