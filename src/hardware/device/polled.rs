//! What a bus thread asks of a polled device. Knows no board, no schedule and no retry: a call is one set-up
//! or one reading, and a fault is returned.

use super::DeviceFault;
use crate::base::time::Clock;
use crate::hardware::bus::{Gpio, I2c};

/// What a device may use during a call: its bus, the lines of its bus thread, the time.
pub struct Ports<'a> {
    /// The bus.
    pub i2c: &'a mut dyn I2c,
    /// Lines of this bus thread.
    pub gpio: &'a mut dyn Gpio,
    /// For stamps and short waits. A wait ends early once the motors have to stop; no transfer follows.
    pub clock: &'a dyn Clock,
}

/// Receives the value of one of a device's outputs, by the output's number: 0 for a device with one output,
/// otherwise in the order in which the device was given the wanted quantities.
pub type Say<'a> = dyn FnMut(usize, Result<f32, DeviceFault>) + 'a;

/// A device that is polled.
pub trait Polled: Send {
    /// Makes it ready (again): after the start, after a reset of its bus or supply. Nothing is polled before
    /// this has succeeded. Written from beginning to end, waits and all; a bus thread runs it in steps
    /// through a [`Journal`](super::Journal), which calls it again for each step. So it must make the same
    /// calls when it gets the same answers, must not depend on the time except for waits, and may change the
    /// device only at its end.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let _ = ports;
        Ok(())
    }

    /// The bus may refuse a poll's transfers as
    /// [`BusFault::Preempted`](crate::base::fault::BusFault::Preempted), between any two of them; the poll is
    /// then repeated from its beginning.
    ///
    /// One reading: reports a value or a fault for every output, exactly once each. It returns a fault of the
    /// transfer or of a device that lost its settings ([`DeviceFault::ends_poll`]), if there was one: an
    /// answer that makes no sense is reported, and is not a bus fault.
    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault>;
}

/// The result of a device with one output: reported, and returned if it is a transfer fault.
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
