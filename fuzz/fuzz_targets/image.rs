//! Bytes that somebody else wrote, taken as the way in `image` of tests/hostile/ways.rs takes them.
#![no_main]
ganglion_fuzz::way_in!("image");
