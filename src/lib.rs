//! The runtime that lives on a robot: sensors in, reflexes always, a neural field while there is
//! time, motors out. The order below is the order to read in.

pub mod act;
pub mod board;
pub mod budget;
pub mod bus;
pub mod command;
pub mod device;
pub mod field;
pub mod frame;
pub mod mode;
pub mod reflex;
pub mod rt;
pub mod seed;
pub mod sim;
pub mod time;
pub mod units;
