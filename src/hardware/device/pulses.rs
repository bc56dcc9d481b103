//! What motors need from the chip that makes their pulses. The chips are `hat_pulses.rs`, `pca9685.rs` and
//! `pwm_lines.rs`; `dc_motor.rs` and `servo.rs` define what a pulse means.

use super::{DeviceFault, Ports};
use crate::base::time::Span;

/// A chip that has acknowledged nothing for this long is written to by the next command even if nothing
/// changed: otherwise motors with an unchanged command would hide a dead bus. Shorter than the 30 ms for
/// which a command is valid by default; at 100 kHz one write in 25 ms is 2 % of the bus.
pub const SILENT_FOR: Span = Span::from_millis(25);

/// Channels with pulses.
pub trait Pulses: Send {
    /// From any state to ready: frequencies set, no channel has a pulse. A few hundred milliseconds at most.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Makes `channel` of a drive motor high for `share` of the time, 0 to 1. Costs nothing if it already is.
    fn drive(&mut self, channel: u8, share: f32, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Gives `channel` of a servo pulses of this many microseconds. Costs nothing if it already has them.
    fn aim(&mut self, channel: u8, pulse_us: f64, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// The end of a command: old writes are repeated or checked, a little at a time. A chip on a bus that has
    /// acknowledged nothing for [`SILENT_FOR`] is written to: a command succeeds only on a bus that answers.
    fn renew(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Removes the pulse from every drive channel in the shortest way, whatever the known state. Tries
    /// everything, and returns the first fault.
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// The same behind a frame that broke off, for a chip that counts bytes.
    fn stop_at_any_place(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.stop(ports)
    }
    /// Removes the pulse from every drive channel by a line alone, whatever the bus does, until the next
    /// [`Pulses::set_up`]. Returns whether there is such a line and it obeyed.
    fn hold(&mut self, ports: &mut Ports<'_>) -> bool;
}
