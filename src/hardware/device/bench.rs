//! A bench for tests of polled devices: scripted ports, the values that the device reports, and a chip whose
//! set-up is too long for a script.

use super::vl53l0x::FIRST_ADDRESS;
use super::{DeviceFault, Polled, Ports};
use crate::base::fault::BusFault;
use crate::base::time::{Clock, Instant, SimClock, Span};
use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
use crate::hardware::bus::{I2c, Op};
use std::sync::Arc;

/// The values that a poll reports, in order, and the poll's result.
pub type Said = (Vec<(usize, Result<f32, DeviceFault>)>, Result<(), DeviceFault>);

/// A clock and lines that persist over several calls.
pub struct Bench {
    /// Virtual time.
    pub clock: Arc<SimClock>,
    /// Lines, all low.
    pub gpio: FakeGpio,
}

impl Bench {
    pub fn new() -> Bench {
        let clock = Arc::new(SimClock::new());
        Bench { gpio: FakeGpio::new(clock.clone()), clock }
    }
    pub fn poll(&mut self, device: &mut dyn Polled, i2c: &mut FakeI2c) -> Said {
        let mut said = Vec::new();
        let mut ports = Ports { i2c, gpio: &mut self.gpio, clock: self.clock.as_ref() };
        let outcome = device.poll(&mut ports, &mut |nth, value| said.push((nth, value)));
        (said, outcome)
    }
    /// Sets `device` up; returns the time that it took.
    pub fn set_up(&mut self, device: &mut dyn Polled, i2c: &mut FakeI2c) -> Result<Span, DeviceFault> {
        let began = self.clock.now();
        let mut ports = Ports { i2c, gpio: &mut self.gpio, clock: self.clock.as_ref() };
        device.set_up(&mut ports)?;
        Ok(self.clock.now().since(began))
    }
    pub fn wait(&self, span: Span) {
        self.clock.sleep_until(self.clock.now() + span);
    }
    pub fn now(&self) -> Instant {
        self.clock.now()
    }
}

/// One poll of `device` on a new bench.
pub fn polled(device: &mut dyn Polled, i2c: &mut FakeI2c) -> Said {
    Bench::new().poll(device, i2c)
}

/// One set-up of `device` on a new bench.
pub fn set_up(device: &mut dyn Polled, i2c: &mut FakeI2c) -> Result<Span, DeviceFault> {
    Bench::new().set_up(device, i2c)
}

const IDENTITY: u8 = 0xC0;
const ADDRESS: u8 = 0x8A;
const RESULT: u8 = 0x13;

/// A VL53L0X that remembers what is written to it: enough for the driver's set-up.
pub struct Ranger {
    pub clock: Arc<SimClock>,
    pub address: u8,
    pub registers: [u8; 256],
    /// Registers that keep their value, whatever is written to them.
    pub settled: Vec<(u8, u8)>,
    /// How many more reads of register 0x83, which the driver polls, return "not ready".
    pub busy: u32,
    pub transfers: u32,
}

impl Ranger {
    pub fn new(clock: Arc<SimClock>) -> Ranger {
        let mut registers = [0; 256];
        registers[usize::from(IDENTITY)] = 0xEE;
        registers[0x92] = 0x85; // five aperture SPADs
        registers[usize::from(RESULT)] = 4;
        for (register, value) in [(0x50, 6), (0x51, 0), (0x52, 0x96), (0x70, 4), (0x71, 1), (0x72, 0xFE)] {
            registers[register] = value;
        }
        Ranger { clock, address: FIRST_ADDRESS, registers, settled: Vec::new(), busy: 3, transfers: 0 }
    }
}

impl I2c for Ranger {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        self.clock.sleep_until(self.clock.now() + Span::from_micros(400));
        self.transfers += 1;
        if address != self.address {
            return Err(BusFault::Nack);
        }
        // Increments after each byte written or read (data sheet, DocID029104, 3.2: sequential write).
        let mut pointer = 0;
        self.settled.iter().for_each(|(register, value)| self.registers[usize::from(*register)] = *value);
        for op in ops {
            match op {
                Op::Write(bytes) => {
                    pointer = usize::from(bytes[0]);
                    for (nth, byte) in bytes[1..].iter().enumerate() {
                        let keeps = pointer + nth != 0x92 && pointer + nth != usize::from(RESULT);
                        if keeps {
                            self.registers[pointer + nth] = *byte;
                        }
                    }
                    if pointer == usize::from(ADDRESS) && bytes.len() == 2 {
                        self.address = bytes[1];
                    }
                    pointer += bytes.len() - 1;
                }
                Op::Read(bytes) => {
                    for (nth, byte) in bytes.iter_mut().enumerate() {
                        *byte = self.registers[(pointer + nth) & 0xFF];
                        if pointer + nth == 0x83 && self.busy > 0 {
                            self.busy -= 1;
                            *byte = 0;
                        } else if pointer + nth == 0x83 {
                            *byte = 0x10;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
