//! Fuzzes the entry point `board` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("board");
