//! Bytes that somebody else wrote, taken as the way in `readout` of tests/hostile/ways.rs takes them.
#![no_main]
ganglion_fuzz::way_in!("readout");
