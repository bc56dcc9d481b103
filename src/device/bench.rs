//! A bench for tests of polled devices: ports around a script, and what the device says.

use super::{DeviceFault, Polled, Ports};
use crate::bus::fake::{FakeGpio, FakeI2c};
use crate::time::{Clock, Instant, SimClock, Span};
use std::sync::Arc;

/// What a poll says, in order, and what it returns.
pub type Told = (Vec<(usize, Result<f32, DeviceFault>)>, Result<(), DeviceFault>);

/// Time and lines that last over several calls.
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
    pub fn poll(&mut self, device: &mut dyn Polled, i2c: &mut FakeI2c) -> Told {
        let mut said = Vec::new();
        let mut ports = Ports { i2c, gpio: &mut self.gpio, clock: self.clock.as_ref() };
        let outcome = device.poll(&mut ports, &mut |nth, value| said.push((nth, value)));
        (said, outcome)
    }
    /// Sets `device` up; returns how long that took.
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

/// One poll of `device` on a bench of its own.
pub fn polled(device: &mut dyn Polled, i2c: &mut FakeI2c) -> Told {
    Bench::new().poll(device, i2c)
}

/// One set-up of `device` on a bench of its own.
pub fn set_up(device: &mut dyn Polled, i2c: &mut FakeI2c) -> Result<Span, DeviceFault> {
    Bench::new().set_up(device, i2c)
}
