//! The interface of chips that make the motors' pulses. The chips are `hat_pulses.rs`, `pca9685.rs` and
//! `pwm_lines.rs`; `dc_motor.rs` and `servo.rs` define what a pulse means.

use super::{DeviceFault, Ports};
use crate::base::time::Span;

/// If a chip has acknowledged nothing for this long, the next command writes to it even if nothing changed:
/// otherwise motors with an unchanged command would hide a dead bus. Shorter than the 30 ms for which a
/// command is valid by default; at 100 kHz, one write in 25 ms takes about 2 % of the bus time.
pub const SILENT_FOR: Span = Span::from_millis(25);

/// A chip with pulse channels.
pub trait Pulses: Send {
    /// Makes the chip ready, whatever its state: sets frequencies, and no channel has a pulse afterwards.
    /// Takes at most a few hundred milliseconds.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Makes `channel` of a drive motor high for `share` of the time, 0 to 1. Writes nothing if it already
    /// is.
    fn drive(&mut self, channel: u8, share: f32, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Makes the pulses of a servo's `channel` this many microseconds long. Writes nothing if they already
    /// are.
    fn aim(&mut self, channel: u8, pulse_us: f64, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Called at the end of a command: repeats or checks old writes, a few at a time. Writes to a chip whose
    /// bus has acknowledged nothing for [`SILENT_FOR`], so that a command succeeds only on a bus that
    /// answers.
    fn renew(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Removes the pulse from every drive channel in the fastest way, whatever the known state. Tries every
    /// channel and returns the first fault; only a chip that counts bytes writes nothing more after a frame
    /// broke off.
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Like [`Pulses::stop`], but after an aborted frame, for a chip that counts bytes.
    fn stop_at_any_place(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.stop(ports)
    }
    /// Removes the pulse from every drive channel by a line alone, whatever the bus does, until the next
    /// [`Pulses::set_up`]. Returns whether there is such a line and it could be set.
    fn hold(&mut self, ports: &mut Ports<'_>) -> bool;
}
