//! Fuzzes the entry point `control` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("control");
