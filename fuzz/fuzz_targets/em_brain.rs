//! Bytes that somebody else wrote, taken as the way in `em_brain` of tests/hostile/ways.rs takes them.
#![no_main]
ganglion_fuzz::way_in!("em_brain");
