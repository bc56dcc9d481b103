//! The motors' side of a bus thread: takes commands and writes them while they are valid, stops the motors
//! when no new command arrives or a halt is raised, and reports to the tick what was on the wire. Talks to
//! the motors only through [`Actuators`]; `i2c.rs` decides what a failure means for the bus.
//!
//! Motors that are not known to have stopped are stopped again every few milliseconds, whatever else happens
//! on the bus. While writes may get through, the stop is a bus write. A controller that takes its writes in
//! frames would misread a write after a torn frame and could drive a motor. In that case, and whenever the
//! bus is down, a line stops the motors, if there is one and it works. Otherwise, the stop is written so
//! that it also takes effect after a torn frame.

use super::counters::{BusCounters, count};
use super::cut::InFlight;
use super::halt::HaltWatch;
use crate::base::command::{Command, OnWire};
use crate::base::fault::BusFault;
use crate::base::time::{Instant, Span};
use crate::hardware::device::actuators::Actuators;
use crate::hardware::device::{DeviceFault, Ports};
use crate::system::rt::triple_buffer::Reader;
use rtrb::Producer;
use std::sync::Arc;

/// At the end of the run, the stop command is written up to this many times before other ways are tried:
/// brush noise may spoil one write, but hardly four.
const LAST_TRIES: u32 = 4;

/// Delay before retrying a failed stop: by then the spark is over, and meanwhile other devices can use the
/// bus.
const STOP_AGAIN: Span = Span::from_millis(1);
/// Delay before retrying a failed stop on a bus that is down. Retries continue until the bus is back or a
/// person intervenes; once the bus is back, motors run on for no longer than this plus the attempt in
/// progress. An attempt that no device acknowledges takes 0.8 ms with its retries, less than a sixth of the
/// thread's time.
const STOP_AGAIN_DOWN: Span = Span::from_millis(5);

/// The motors and their link to the tick.
pub struct MotorEnd {
    /// Their driver.
    pub actuators: Box<dyn Actuators>,
    /// Commands from the tick.
    pub commands: Reader<Command>,
    /// Receipts to the tick.
    pub receipts: Producer<OnWire>,
    /// Halts from any thread.
    pub halt: HaltWatch,
}

/// What the motors do, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MotorState {
    /// Stopped: a stop or a set-up was acknowledged, and nothing was written since.
    Still,
    /// A line keeps them stopped, whatever is on the bus, until they are set up.
    Held,
    /// They obey a command until this time.
    Obeying(Instant),
    /// Unknown; they must be stopped at this time.
    Unknown(Instant),
}

/// The motors at run time.
pub(super) struct Motors {
    actuators: Box<dyn Actuators>,
    commands: Reader<Command>,
    receipts: Producer<OnWire>,
    receipt: Option<OnWire>,
    pending: Option<Command>,
    motion: MotorState,
    /// When the last write reached the motors; `None` once they are known to be stopped.
    written_at: Option<Instant>,
    /// The controller takes writes in frames, which a broken transfer can tear.
    framed: bool,
    /// The fault that tore a frame. Until everything is set up again, only a stop that takes effect at any
    /// position in a frame may be written.
    torn: Option<DeviceFault>,
    /// There is no line, or it failed at the last attempt. It is then not tried first again, because waiting
    /// for a guard's line takes long.
    line_failed: bool,
    /// Cuts of their line that `written_at` already accounts for.
    cuts: u64,
    /// Tells the thread that cuts their line until when they may move.
    in_flight: Option<Arc<InFlight>>,
    /// Commands for slots up to this one are dropped: they were made without knowing why the motors were
    /// stopped.
    withheld_to: Option<Instant>,
}

impl Motors {
    /// Motors in an unknown state, and the halt receiver of their bus thread. `framed`: they are behind a
    /// controller that takes writes in frames. `in_flight`: given if they have a line that is cut while
    /// their bus hangs.
    pub fn new(end: MotorEnd, framed: bool, in_flight: Option<Arc<InFlight>>) -> (Motors, HaltWatch) {
        let MotorEnd { actuators, commands, receipts, halt } = end;
        let motors = Motors {
            actuators,
            commands,
            receipts,
            receipt: None,
            pending: None,
            motion: MotorState::Unknown(Instant::ZERO),
            written_at: None,
            framed,
            torn: None,
            line_failed: false,
            cuts: 0,
            in_flight,
            withheld_to: None,
        };
        (motors, halt)
    }

    /// Takes the newest command, if there is one.
    pub fn recv(&mut self, counters: &BusCounters) {
        if let Some(command) = self.commands.take() {
            self.pending = Some(command);
        }
        self.withhold_overtaken(counters);
    }

    /// Drops the pending command if a halt overtook it.
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
    /// When to stop the motors without a request: the command on the wire expires, or a stop is due again.
    pub fn stop_due(&self) -> Instant {
        match self.motion {
            MotorState::Still | MotorState::Held => Instant::NEVER,
            MotorState::Obeying(until) => until,
            MotorState::Unknown(at) => at,
        }
    }
    /// Sets what the motors do from now on.
    fn go(&mut self, motion: MotorState) {
        self.motion = motion;
        self.note(self.stop_due());
    }
    /// Tells the cutter that the motors must not move from `at` on; [`Instant::NEVER`]: they are stopped.
    fn note(&self, at: Instant) {
        if let Some(in_flight) = &self.in_flight {
            in_flight.stop_at(at);
        }
    }
    /// Another thread has switched the motors' lines off.
    pub fn were_cut(&mut self) {
        self.go(MotorState::Held);
    }
    /// Whether the motors are known to be stopped.
    pub fn stopped(&self) -> bool {
        matches!(self.motion, MotorState::Still | MotorState::Held)
    }
    /// The bus failed at `now`; `fault` is given if it failed in a transfer with the controller. Motors that
    /// may be moving must be stopped at once.
    pub fn lose_bus(&mut self, fault: Option<DeviceFault>, now: Instant) {
        self.torn = fault.and_then(|fault| self.tears(fault)).or(self.torn);
        if !self.stopped() {
            self.go(MotorState::Unknown(now));
        }
    }
    /// Drops commands for slots up to `to`, now and later.
    pub fn withhold(&mut self, to: Instant) {
        self.withheld_to = self.withheld_to.max(Some(to));
    }

    /// Records for how long, up to `at`, the motors received nothing although they may have been moving.
    /// `wrote`: a write has just got through.
    pub fn record_write_gap(&mut self, wrote: bool, at: Instant, counters: &BusCounters) {
        // A cut reached the motors when the line was switched, not when the transfer returned.
        if let Some((cuts, cut)) = self.in_flight.as_ref().map(|in_flight| in_flight.cuts())
            && cuts != self.cuts
        {
            self.cuts = cuts;
            if let Some(since) = self.written_at.take() {
                counters.count_write_gap(cut.since(since));
            }
        }
        if !wrote && !self.stopped() {
            return;
        }
        if let Some(since) = self.written_at {
            counters.count_write_gap(at.since(since));
        }
        self.written_at = (!self.stopped()).then_some(at);
    }

    /// Stops the motors, then sets everything up. If a line stops them, they are known to be stopped from
    /// then on; otherwise, only from the end of the set-up.
    pub fn set_up(&mut self, ports: &mut Ports<'_>, counters: &BusCounters) -> Result<(), DeviceFault> {
        if !self.stopped() && !self.line_failed && self.hold(ports) {
            self.record_write_gap(false, ports.clock.now(), counters);
        }
        let set_up = self.actuators.initialise(ports);
        match set_up {
            Ok(()) => {
                self.go(MotorState::Still);
                (self.torn, self.line_failed) = (None, false);
            }
            // It is unknown how far the set-up got and whether a line still holds the motors.
            Err(fault) => {
                self.torn = self.tears(fault).or(self.torn);
                self.go(MotorState::Unknown(ports.clock.now()));
            }
        }
        set_up
    }

    /// Stops at once, on request. `down`: the bus is down.
    pub fn stop(
        &mut self,
        down: bool,
        ports: &mut Ports<'_>,
        counters: &BusCounters,
    ) -> Result<(), DeviceFault> {
        count(&counters.halts);
        self.stop_now(down, ports)
    }

    /// Writes the pending command or, if that has expired, the stop command.
    pub fn write(&mut self, ports: &mut Ports<'_>, counters: &BusCounters) -> Result<(), DeviceFault> {
        let Some(command) = self.pending.take() else { return Ok(()) };
        let fresh = ports.clock.now() <= command.valid_until;
        let written = if fresh {
            self.go(MotorState::Obeying(command.valid_until));
            self.actuators.write(&command, ports)
        } else {
            count(&counters.expired);
            self.stop_now(false, ports)
        };
        let at = ports.clock.now();
        if written.is_err_and(DeviceFault::gave_way) {
            // The write continues in a later step: the driver does not repeat the frames that it has already
            // written. After a halt, the rest is dropped.
            self.pending = Some(command);
            self.go(MotorState::Unknown(at));
            return written;
        }
        let complete = fresh && written.is_ok();
        self.receipt = Some(OnWire { seq: command.seq, slot: command.slot, at, complete });
        match written {
            Ok(()) if fresh => count(&counters.written),
            Ok(()) => {}
            Err(_) if !fresh => {}
            // The motors' state is now unknown: a stop is due until it or a command gets through.
            Err(_) => self.go(MotorState::Unknown(at)),
        }
        written
    }

    /// A stop without a request: the last command expired, or the motors are not known to be stopped.
    pub fn stop_by_itself(
        &mut self,
        down: bool,
        ports: &mut Ports<'_>,
        counters: &BusCounters,
    ) -> Result<(), DeviceFault> {
        let again = matches!(self.motion, MotorState::Unknown(_));
        count(if again { &counters.stops_again } else { &counters.expired });
        self.stop_now(down, ports)
    }

    /// Stops the motors in whatever way remains, and records whether they stopped. If the bus is `down`, a
    /// line is tried before a write; a line that failed at the last attempt is tried only after a write that
    /// failed. If the bus is up, the stop is only written.
    fn stop_now(&mut self, down: bool, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let line_first = down && !self.line_failed;
        if self.motion == MotorState::Held || (line_first && self.hold(ports)) {
            return Ok(());
        }
        self.note(ports.clock.now()); // this write itself may hang
        let Err(fault) = self.write_stop(down, ports) else {
            self.go(MotorState::Still);
            return Ok(());
        };
        self.torn = self.tears(fault).or(self.torn);
        if down && !line_first && self.hold(ports) {
            return Ok(());
        }
        let pause = if down { STOP_AGAIN_DOWN } else { STOP_AGAIN };
        self.go(MotorState::Unknown(ports.clock.now() + pause));
        Err(fault)
    }

    /// Writes the stop. After a torn frame, nothing is written on a bus that is up: the fault is returned
    /// and takes the bus down. On a bus that is `down`, the stop is written so that it takes effect at any
    /// position in a frame.
    fn write_stop(&mut self, down: bool, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        match self.torn {
            Some(fault) if !down => Err(fault),
            Some(_) => self.actuators.stop_at_any_place(ports),
            None => self.actuators.stop(ports),
        }
    }

    /// Stops the motors by a line, if one works. Returns whether a line holds them now.
    fn hold(&mut self, ports: &mut Ports<'_>) -> bool {
        let held = self.actuators.hold(ports);
        self.line_failed = !held;
        if held {
            self.go(MotorState::Held);
        }
        held
    }

    /// The fault, if it may have torn a frame.
    fn tears(&self, fault: DeviceFault) -> Option<DeviceFault> {
        Some(fault).filter(|fault| self.framed && fault.needs_reset())
    }

    /// Hands the receipt to the tick.
    pub fn confirm(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            // A full ring means that the tick has stopped; a lost receipt is then the smaller problem.
            let _ = self.receipts.push(receipt);
        }
    }

    /// The last call: tries to stop the motors by a write, a few times, then by a line, then by setting
    /// everything up again, then by a write that also works after a torn frame. Returns whether they are
    /// known to be stopped.
    pub fn finish(&mut self, ports: &mut Ports<'_>, counters: &BusCounters) -> bool {
        let mut by_word = false;
        for _ in 0..LAST_TRIES {
            match self.stop_now(false, ports) {
                Ok(()) => by_word = true,
                // A spark does not make a transfer hang, so the next write would hang just as long; a line
                // does not hang.
                Err(DeviceFault::Bus { fault: BusFault::TimedOut, .. }) => {}
                Err(_) => continue,
            }
            break;
        }
        by_word
            || self.hold(ports)
            || self.set_up(ports, counters).is_ok()
            || self.stop_now(true, ports).is_ok()
    }
}
