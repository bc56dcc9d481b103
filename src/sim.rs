//! A small seeded world behind the bus traits: production code runs on it unchanged.
//!
//! From the wire inwards: `bus` (handles), `plant` (what a user holds), `robot` (what is behind the
//! wires, in steps of 1 ms), `wiring` (which pin means what), `outputs`, `hat`, `pca9685`, `co_processor`, `imu`, `sonar`, `ground`,
//! `battery` (parts with a wire), `car`, `world` (what moves and what stands). `faults` is the script
//! of what goes wrong, `tape` what was to be seen at the wires, for those who judge.
//!
//! It knows the board and the words, never the drivers, the reflex or the field; its chips are
//! written from the data sheets a second time, not from the drivers. Real robots differ from it
//! in ways that are said where they were left out: it is there to find wrong software, not to
//! predict a robot.

mod battery;
mod bus;
mod car;
mod co_processor;
mod faults;
mod ground;
mod hat;
mod imu;
mod noise;
mod outputs;
mod pca9685;
mod plant;
mod robot;
mod sonar;
mod tape;
mod wiring;
mod world;

pub use car::Contacts;
pub use faults::{Fault, FaultError, FaultKind, FieldFault, FieldFaults};
pub use plant::{Plant, Report};
pub use tape::{Event, What};
pub use world::{Disc, Pose, World};
