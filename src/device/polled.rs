//! What a bus thread asks of a device that is polled. Knows no board, no schedule and no retry: a call is one set-up or
//! one reading, and a fault is passed on.

use super::DeviceFault;
use crate::bus::{Gpio, I2c};
use crate::time::Clock;

/// What a device may use during a call: its bus, the lines that its bus thread holds, the time.
pub struct Ports<'a> {
    /// The bus.
    pub i2c: &'a mut dyn I2c,
    /// Lines of this bus thread.
    pub gpio: &'a mut dyn Gpio,
    /// For stamps and short waits. A wait ends early once the motors have to be stopped, and no transfer begins after it.
    pub clock: &'a dyn Clock,
}

/// Takes the value of one of a device's outputs, by the output's number: 0 for a device that has one, else in the order
/// in which the device was told which quantities are wanted.
pub type Say<'a> = dyn FnMut(usize, Result<f32, DeviceFault>) + 'a;

/// A device that is polled.
pub trait Polled: Send {
    /// Makes it ready (again): after the start, after a reset of its bus or supply. Nothing is polled before this has
    /// succeeded. Written from beginning to end, waits and all; a bus thread takes it in steps through a
    /// [`Journal`](super::Journal), which calls it anew for each of them. So it has to ask the same when it is answered the
    /// same, must not go by what the time is but for waits, and may change the device only at its end.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let _ = ports;
        Ok(())
    }

    /// A poll may find its transfers refused as [`BusFault::Preempted`](crate::fault::BusFault::Preempted), between any
    /// two of them, and is then made again from its beginning.
    ///
    /// One reading: says a value or a fault for every output, exactly once each. The returned fault is one of the transfer
    /// or of a device that lost its settings ([`DeviceFault::ends_poll`]), if there was one: an answer that makes no sense
    /// is said, and is no fault of the bus.
    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault>;
}

/// The outcome of a device with one output: said, and passed on where it is a fault of the transfer.
pub(super) trait Told {
    fn told(self, say: &mut Say<'_>) -> Result<(), DeviceFault>;
}

impl Told for Result<f32, DeviceFault> {
    fn told(self, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        say(0, self);
        match self {
            Err(fault) if fault.ends_poll() => Err(fault),
            _ => Ok(()),
        }
    }
}
