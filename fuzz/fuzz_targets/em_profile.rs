//! Fuzzes the entry point `em_profile` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("em_profile");
