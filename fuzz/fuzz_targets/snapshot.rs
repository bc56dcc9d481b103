//! Fuzzes the entry point `snapshot` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("snapshot");
