//! Fuzzes the entry point `em_brain` of tests/hostile/ways.rs.
#![no_main]
ganglion_fuzz::way_in!("em_brain");
