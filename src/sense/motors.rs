//! The motors' side of a bus thread: takes commands, obeys them while they are valid, stops when nobody
//! renews them or somebody says halt, and tells the tick what was on the wire. Speaks to the motors only
//! through [`Actuators`]; what its failures mean for the bus is `i2c.rs`.

use super::counters::{BusCounters, count};
use super::halt::HaltWatch;
use crate::command::{Command, OnWire};
use crate::device::actuators::Actuators;
use crate::device::{DeviceFault, Ports};
use crate::rt::slot::Reader;
use crate::time::{Instant, Span};
use rtrb::Producer;

/// Times that stillness is written at the end before everything is set up anew: a spark of the brushes spoils one
/// write, hardly four.
const LAST_TRIES: u32 = 4;

/// From a stop that failed to the next try: a spark is over, and the bus has a moment for others.
const STOP_AGAIN: Span = Span::from_millis(1);

/// The motors and their line to the tick.
pub struct MotorEnd {
    /// What drives them.
    pub actuators: Box<dyn Actuators>,
    /// From the tick.
    pub commands: Reader<Command>,
    /// To the tick.
    pub receipts: Producer<OnWire>,
    /// From anybody.
    pub halt: HaltWatch,
}

/// The same at work.
pub(super) struct Motors {
    actuators: Box<dyn Actuators>,
    commands: Reader<Command>,
    receipts: Producer<OnWire>,
    receipt: Option<OnWire>,
    pending: Option<Command>,
    /// Until when the command on the wire may be obeyed; [`Instant::NEVER`]: the motors are still.
    obeyed_until: Instant,
    /// Commands for slots up to here were made without knowing why the motors were stopped.
    withheld_to: Option<Instant>,
}

impl Motors {
    /// Motors of which nothing is known yet, and the ear for a halt, which their bus thread holds.
    pub fn new(end: MotorEnd) -> (Motors, HaltWatch) {
        let MotorEnd { actuators, commands, receipts, halt } = end;
        let (obeyed_until, withheld_to) = (Instant::NEVER, None);
        let motors =
            Motors { actuators, commands, receipts, receipt: None, pending: None, obeyed_until, withheld_to };
        (motors, halt)
    }

    /// Takes the newest command, if there is one.
    pub fn hear(&mut self, counters: &BusCounters) {
        if let Some(command) = self.commands.take() {
            self.pending = Some(command);
        }
        self.withhold_overtaken(counters);
    }

    /// A command that was overtaken by a halt is not kept.
    fn withhold_overtaken(&mut self, counters: &BusCounters) {
        let Some(to) = self.withheld_to else { return };
        if let Some(command) = self.pending.take_if(|command| command.slot <= to) {
            count(&counters.withheld);
            self.receipt = Some(OnWire { seq: command.seq, slot: command.slot, at: to, complete: false });
        }
    }

    /// Whether a command waits to be written.
    pub fn has_pending(&self) -> bool {
        self.pending.is_some()
    }
    /// When the command on the wire runs out.
    pub fn runs_out(&self) -> Instant {
        self.obeyed_until
    }
    /// Commands for slots up to `to` are not obeyed any more.
    pub fn withhold(&mut self, to: Instant) {
        self.withheld_to = self.withheld_to.max(Some(to));
    }

    /// Sets everything up: still.
    pub fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.obeyed_until = Instant::NEVER;
        self.actuators.initialise(ports)
    }

    /// Stops at once.
    pub fn stop(&mut self, ports: &mut Ports<'_>, counters: &BusCounters) -> Result<(), DeviceFault> {
        count(&counters.halts);
        self.still(ports)
    }

    /// Writes the pending command, or stillness where it has expired.
    pub fn write(&mut self, ports: &mut Ports<'_>, counters: &BusCounters) -> Result<(), DeviceFault> {
        let Some(command) = self.pending.take() else { return Ok(()) };
        let fresh = ports.clock.now() <= command.valid_until;
        let written = if fresh {
            self.obeyed_until = command.valid_until;
            self.actuators.write(&command, ports)
        } else {
            count(&counters.expired);
            self.still(ports)
        };
        let at = ports.clock.now();
        if written.is_err_and(DeviceFault::gave_way) {
            // What is written already is not written again; a halt that came in the middle withholds the rest.
            self.pending = Some(command);
            self.obeyed_until = at;
            return written;
        }
        let complete = fresh && written.is_ok();
        self.receipt = Some(OnWire { seq: command.seq, slot: command.slot, at, complete });
        match written {
            Ok(()) if fresh => count(&counters.written),
            Ok(()) => {}
            // What is on the motors now is unknown: stillness is due until a command gets through.
            Err(_) => self.obeyed_until = at,
        }
        written
    }

    /// The last command ran out and nobody renewed it: still.
    pub fn run_out(&mut self, ports: &mut Ports<'_>, counters: &BusCounters) -> Result<(), DeviceFault> {
        count(&counters.expired);
        self.still(ports)
    }

    fn still(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let stopped = self.actuators.stop(ports);
        self.obeyed_until = if stopped.is_ok() { Instant::NEVER } else { ports.clock.now() + STOP_AGAIN };
        stopped
    }

    /// Hands the receipt over.
    pub fn confirm(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            // A full ring means a tick that stands still; it has worse to worry about than a receipt.
            let _ = self.receipts.push(receipt);
        }
    }

    /// The last call: still, and if the bus does not answer, set up anew, which begins with the reset line. Whether the
    /// motors are known to stand: a stop was acknowledged, or they were set up, which leaves them still.
    pub fn finish(&mut self, ports: &mut Ports<'_>) -> bool {
        (0..LAST_TRIES).any(|_| self.actuators.stop(ports).is_ok())
            || self.actuators.initialise(ports).is_ok() // the last thing there is
    }
}
