//! Fuzzes the entry point `datagram` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("datagram");
