//! A small simulated world, made from a seed, behind the bus traits: production code runs on it unchanged.
//!
//! From the wire inwards: `bus` (handles), `plant` (a user's handle), `robot` (what is behind the wires, in
//! steps of 1 ms), `wiring` (which pin means what), `outputs`, `hat`, `pca9685`, `co_processor`, `chip`
//! (`imu`, `ranger`, `power_monitor`), `sonar`, `ground`, `battery` (parts with a wire), `car`, `world` (what
//! moves and what does not), `contact` (what the car ran into). `faults` is the script of faults. `rehearsal`
//! turns any board into one that drives here, and names the parts without a model; `computer` holds the
//! readings of the robot's own computer.
//!
//! The simulator uses the board and its vocabulary, never the drivers, the reflex or the field; its chips are
//! written from the data sheets, independently of the drivers. Each file states how it differs from a real
//! robot: the simulator exists to find software bugs, not to predict a robot.

mod battery;
mod bus;
mod car;
mod chip;
mod co_processor;
mod computer;
mod contact;
mod course;
mod eye;
mod faults;
mod ground;
mod hat;
mod imu;
mod noise;
mod outputs;
mod pca9685;
mod plant;
mod pose_cell;
mod power_monitor;
mod ranger;
mod rehearsal;
mod robot;
mod sonar;
mod wiring;
mod world;

pub use computer::value as computer_value;
pub use contact::{Contact, Contacts, MOST_CONTACTS};
pub use course::Coverage;
pub use faults::{Fault, FaultError, FaultKind, FieldFault, FieldFaults};
pub use plant::{Plant, Report};
pub use pose_cell::{DRAWN_MOVERS, PoseCell};
pub use ranger::HALF_VIEW_DEG;
pub use rehearsal::{Change, NoModel, Rehearsal, Unmodelled, rehearsal};
pub use robot::Witness;
pub use sonar::HALF_CONE_DEG;
pub use world::{Disc, Obstacle, Pose, World};
