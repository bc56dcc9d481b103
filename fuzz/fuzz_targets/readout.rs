//! Fuzzes the entry point `readout` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("readout");
