//! Bytes that somebody else wrote, taken as the way in `key` of tests/hostile/ways.rs takes them.
#![no_main]
ganglion_fuzz::way_in!("key");
