//! The thread of an I2C bus: a motor command goes before the next read, stillness before
//! everything, and a command that nobody renews ends by itself.
//!
//! Recovery here is the first step of a ladder: a bus that fails several times in a row has its
//! microcontroller reset and set up again, with pauses that grow; meanwhile readings carry the
//! fault and the tick sees commands unconfirmed. Nothing is retried without bound and no held value
//! is passed off as new.

use super::{Due, Outlet};
use crate::bus::{Gpio, I2c};
use crate::command::{Command, OnWire};
use crate::crew::Worker;
use crate::device::DeviceFault;
use crate::device::actuators::Actuators;
use crate::device::adc::HatAdc;
use crate::device::button::Button;
use crate::device::float_register::FloatRegister;
use crate::frame::Reading;
use crate::rt::slot::Reader;
use crate::time::{Clock, Instant, Span};
use rtrb::Producer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Failed transfers in a row before the microcontroller is reset: one or two are noise from the
/// motors' brushes; ten would be a tenth of a second without command.
const RESET_AFTER: u32 = 4;
/// Pause before setting up again, doubled each time it fails in a row, up to the longest: a
/// controller that browns out needs its rail back first, and a dead one must not eat the bus.
const FIRST_PAUSE: Span = Span::from_millis(50);
const LONGEST_PAUSE: Span = Span::from_millis(2_000);

/// A device on the bus that is polled.
pub enum Polled {
    /// A channel of the Robot HAT's converter.
    Adc(HatAdc),
    /// A float in a co-processor's register.
    Float(FloatRegister),
    /// A button on a line.
    Button(Button),
}

struct Poll {
    channel: u8,
    device: Polled,
    due: Due,
}

/// What a bus has been through, for people.
#[derive(Debug, Default)]
pub struct BusCounters {
    /// Readings that did not fit the ring.
    pub readings_dropped: Arc<AtomicU64>,
    /// Transfers that failed.
    pub failures: AtomicU64,
    /// Times the microcontroller was set up (the first included).
    pub set_ups: AtomicU64,
    /// Commands that had expired before they could be written, or ran out afterwards.
    pub expired: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The actuators have to be set up, not before `at`; `pause` comes after the next failure.
    Down { at: Instant, pause: Span },
    /// Commands and polls run.
    Up,
}

/// Owns one I2C bus and the output lines that go with its devices.
pub struct I2cWorker {
    i2c: Box<dyn I2c>,
    gpio: Box<dyn Gpio>,
    actuators: Actuators,
    polls: Vec<Poll>,
    outlet: Outlet,
    commands: Reader<Command>,
    receipts: Producer<OnWire>,
    receipt: Option<OnWire>,
    state: State,
    failures_in_row: u32,
    pending: Option<Command>,
    obeyed_until: Instant,
    counters: Arc<BusCounters>,
}

impl I2cWorker {
    /// A worker that polls `polls` (channel, device, period).
    #[allow(clippy::too_many_arguments)] // a constructor of parts, called in one place
    pub fn new(
        i2c: Box<dyn I2c>,
        gpio: Box<dyn Gpio>,
        actuators: Actuators,
        polls: Vec<(u8, Polled, Span)>,
        outlet: Outlet,
        commands: Reader<Command>,
        receipts: Producer<OnWire>,
        counters: Arc<BusCounters>,
    ) -> I2cWorker {
        let polls = polls
            .into_iter()
            .map(|(channel, device, period)| Poll { channel, device, due: Due::every(period, Instant::ZERO) })
            .collect();
        I2cWorker {
            i2c,
            gpio,
            actuators,
            polls,
            outlet,
            commands,
            receipts,
            receipt: None,
            state: State::Down { at: Instant::ZERO, pause: FIRST_PAUSE },
            failures_in_row: 0,
            pending: None,
            obeyed_until: Instant::NEVER,
            counters,
        }
    }

    /// Sets the actuators up: reset, timers, everything still.
    fn set_up(&mut self, pause: Span, clock: &dyn Clock) {
        self.counters.set_ups.fetch_add(1, Ordering::Relaxed);
        let (i2c, gpio) = (self.i2c.as_mut(), self.gpio.as_mut());
        self.state = match self.actuators.initialise(i2c, gpio, clock) {
            Ok(()) => State::Up,
            Err(_) => {
                self.counters.failures.fetch_add(1, Ordering::Relaxed);
                let next = Span::from_nanos((pause.as_nanos() * 2).min(LONGEST_PAUSE.as_nanos()));
                State::Down { at: clock.now() + pause, pause: next }
            }
        };
        self.failures_in_row = 0;
        self.obeyed_until = Instant::NEVER; // set up means still
    }

    /// The outcome of any transfer: enough failures in a row take the bus down, and so does one
    /// after which the controller may be out of step with its frames.
    fn account(&mut self, outcome: Result<(), DeviceFault>, now: Instant) {
        let Err(fault) = outcome else {
            self.failures_in_row = 0;
            return;
        };
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        self.failures_in_row += 1;
        if fault.needs_reset() || self.failures_in_row >= RESET_AFTER {
            self.state = State::Down { at: now, pause: FIRST_PAUSE };
        }
    }

    /// Writes the pending command, or stillness where it has expired.
    fn write(&mut self, command: Command, clock: &dyn Clock) {
        let (i2c, gpio) = (self.i2c.as_mut(), self.gpio.as_mut());
        let fresh = clock.now() <= command.valid_until;
        let written = if fresh {
            self.obeyed_until = command.valid_until;
            self.actuators.write(&command, i2c, gpio, clock)
        } else {
            self.counters.expired.fetch_add(1, Ordering::Relaxed);
            self.obeyed_until = Instant::NEVER;
            self.actuators.stop(i2c)
        };
        let at = clock.now();
        let complete = fresh && written.is_ok();
        self.receipt = Some(OnWire { seq: command.seq, slot: command.slot, at, complete });
        if written.is_err() {
            // What is on the motors now is unknown: stillness is due until a command gets through.
            self.obeyed_until = at;
        }
        self.account(written, at);
    }

    /// The last command ran out and nobody renewed it: still.
    fn run_out(&mut self, clock: &dyn Clock) {
        self.counters.expired.fetch_add(1, Ordering::Relaxed);
        let stopped = self.actuators.stop(self.i2c.as_mut());
        let now = clock.now();
        self.obeyed_until = if stopped.is_ok() { Instant::NEVER } else { now };
        self.account(stopped, now);
    }

    fn poll(&mut self, index: usize, clock: &dyn Clock) {
        let poll = &mut self.polls[index];
        let stamp = clock.now();
        let (i2c, gpio) = (self.i2c.as_mut(), self.gpio.as_mut());
        let value = match &mut poll.device {
            Polled::Adc(adc) => adc.read(i2c),
            Polled::Float(register) => register.read(i2c),
            Polled::Button(button) => button.read(gpio),
        };
        let channel = poll.channel;
        poll.due.advance(clock.now());
        self.outlet.stage(Reading { channel, value: value.map_err(DeviceFault::into), stamp });
        // An answer that makes no sense is the sensor's trouble; only a failed transfer is the bus's.
        let transfer = match value {
            Err(fault @ DeviceFault::Bus { .. }) => Err(fault),
            _ => Ok(()),
        };
        self.account(transfer, clock.now());
    }

    fn due_poll(&self, now: Instant) -> Option<usize> {
        let (index, poll) = self.polls.iter().enumerate().min_by_key(|(_, poll)| poll.due.at)?;
        (poll.due.at <= now).then_some(index)
    }

    /// When to be called again.
    fn next(&self) -> Instant {
        let polls = self.polls.iter().map(|poll| poll.due.at).min().unwrap_or(Instant::NEVER);
        match self.state {
            State::Down { at, .. } => at,
            State::Up => polls.min(self.obeyed_until),
        }
    }
}

impl Worker for I2cWorker {
    fn name(&self) -> &'static str {
        "i2c"
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        if let Some(command) = self.commands.take() {
            self.pending = Some(command);
        }
        let now = clock.now();
        if let State::Down { at, pause } = self.state {
            if now >= at {
                self.set_up(pause, clock);
            }
            return self.next();
        }
        if let Some(command) = self.pending.take() {
            self.write(command, clock);
        } else if self.obeyed_until <= now {
            self.run_out(clock);
        } else if let Some(index) = self.due_poll(now) {
            self.poll(index, clock);
        }
        self.next()
    }

    fn publish(&mut self, _now: Instant) {
        self.outlet.publish();
        if let Some(receipt) = self.receipt.take() {
            // A full ring means a tick that stands still; it has worse to worry about than a receipt.
            let _ = self.receipts.push(receipt);
        }
    }

    fn finish(&mut self, clock: &dyn Clock) {
        for _ in 0..RESET_AFTER {
            if self.actuators.stop(self.i2c.as_mut()).is_ok() {
                return;
            }
        }
        // The bus does not answer: the reset line stops every pulse at once.
        let _ = self.actuators.initialise(self.i2c.as_mut(), self.gpio.as_mut(), clock);
    }
}
