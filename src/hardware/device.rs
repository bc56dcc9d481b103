//! Chips, one per file: registers, conversion, errors, and a call that returns a unit. Knows no frame.

pub mod actuators;
pub mod adapter;
pub mod adc;
pub mod ads1115;
#[cfg(test)]
pub(crate) mod bench;
pub mod button;
pub mod dc_motor;
pub mod enable;
mod fault;
pub mod float_register;
pub mod gpu_sysfs;
pub mod hat_pulses;
pub mod hc_sr04;
pub mod hwmon;
pub mod ina219;
pub mod ina226;
mod journal;
pub mod mpu6050;
pub mod open;
pub mod pca9685;
mod polled;
mod power;
pub mod pulses;
pub mod pwm_lines;
pub mod registers;
pub mod robot_hat;
pub mod servo;
pub(crate) mod sysfs;
pub mod thermal;
pub mod vl53l0x;

pub use fault::DeviceFault;
pub use journal::{Journal, SetUp};
pub use polled::{Polled, Ports, Say};
