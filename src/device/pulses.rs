//! What motors ask of the chip that makes their pulses. The chips are `hat_pulses.rs`, `pca9685.rs` and `pwm_lines.rs`;
//! what a pulse means is the business of `dc_motor.rs` and `servo.rs`.

use super::{DeviceFault, Ports};
use crate::time::Span;

/// A chip that acknowledged nothing for so long is written to by the next command even if nothing changed: motors that go
/// on as before would hide a bus that died. Shorter than the 30 ms for which a command is valid unless the board says
/// otherwise; at 100 kHz one write in 25 ms is 2 % of the bus.
pub const SILENT_FOR: Span = Span::from_millis(25);

/// Channels with pulses.
pub trait Pulses: Send {
    /// From whatever state to ready: the frequencies are set, and no channel has a pulse. Bounded; a few hundred
    /// milliseconds at most.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Makes `channel` of a drive motor high for `share` of the time, 0 to 1. Costs nothing where it is so already.
    fn drive(&mut self, channel: u8, share: f32, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Gives `channel` of a servo pulses of so many microseconds. Costs nothing where it is so already.
    fn aim(&mut self, channel: u8, pulse_us: f64, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// The end of a command: what was written long ago is written again or looked at, a little at a time. A chip behind a
    /// bus that acknowledged nothing for [`SILENT_FOR`] is written to: a command succeeds only on a bus that answers.
    fn renew(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Takes the pulse from every drive channel by the shortest way, whatever is believed to be there. Tries everything,
    /// and returns the first fault.
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Takes the pulse from every drive channel by a line alone, whatever the bus does, until the next
    /// [`Pulses::set_up`]. Whether there is such a line and it obeyed.
    fn hold(&mut self, ports: &mut Ports<'_>) -> bool;
}
