//! The interface between a bus thread and a polled device. It has no board, schedule or retry logic: a call
//! is one set-up or one reading, and a fault is returned.

use super::DeviceFault;
use crate::base::time::Clock;
use crate::hardware::bus::{Gpio, I2c};

/// What a device may use during a call: its bus, the lines of its bus thread, the clock.
pub struct Ports<'a> {
    /// The bus.
    pub i2c: &'a mut dyn I2c,
    /// Lines of this bus thread.
    pub gpio: &'a mut dyn Gpio,
    /// The clock, for timestamps and short waits. A wait ends early when the motors have to stop; no transfer
    /// follows.
    pub clock: &'a dyn Clock,
}

/// Receives the value of one of a device's outputs, by the output's number: 0 for a device with one output,
/// otherwise in the order of the quantities that were requested from the device.
pub type Say<'a> = dyn FnMut(usize, Result<f32, DeviceFault>) + 'a;

/// A device that is polled.
pub trait Polled: Send {
    /// Makes the device ready (again): at the start, and after a reset of its bus or supply. The device is
    /// not polled before this has succeeded. It is written as one sequence including its waits; a bus thread
    /// runs it in steps through a [`Journal`](super::Journal), which calls it again for each step. So it must
    /// make the same calls when it gets the same answers, must not depend on the time except for waits, and
    /// may change the device struct only at its end.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let _ = ports;
        Ok(())
    }

    /// Takes one reading: reports a value or a fault for every output, exactly once each. If a transfer
    /// failed or the device lost its settings ([`DeviceFault::ends_poll`]), also returns that fault. An
    /// implausible answer is reported, but it is not a bus fault.
    ///
    /// The bus may refuse a poll's transfers as
    /// [`BusFault::Preempted`](crate::base::fault::BusFault::Preempted), between any two of them; the poll is
    /// then repeated from its beginning.
    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault>;
}

/// The result of a device with one output: reported, and also returned if it is a fault that ends the poll.
pub(super) trait Report {
    fn report(self, say: &mut Say<'_>) -> Result<(), DeviceFault>;
}

impl Report for Result<f32, DeviceFault> {
    fn report(self, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        say(0, self);
        match self {
            Err(fault) if fault.ends_poll() => Err(fault),
            _ => Ok(()),
        }
    }
}
