//! The thread of an I2C bus: one piece of work a step, in this order: halt, the pending command, a
//! command that runs out, polls that a line asks for, polls that are due. No transfer is broken off in
//! its middle. A bus that fails is led up the ladder; readings carry the fault meanwhile, and the tick
//! sees commands unconfirmed. A held value is never passed off as new.

use super::Outlet;
use super::counters::{BusCounters, count};
use super::demand::Demand;
use super::halt::Halt;
use super::ladder::{Ladder, Move, Rung};
use super::motors::{MotorEnd, Motors};
use super::polls::{Outcome, PollPlan, Polls};
use super::retry::Retrying;
use super::snap::Snaps;
use crate::bus::{BusFault, Gpio, I2c, Repair};
use crate::crew::Worker;
use crate::device::{DeviceFault, Ports};
use crate::frame::Fault;
use crate::reflex::Cause;
use crate::time::{Clock, Instant, Span};
use std::sync::Arc;

/// Calls of the motors' controller that fail in a row, each after its retries, before the bus is led up
/// the ladder: one or two are noise from the motors' brushes; ten would be a tenth of a second without command.
const CONTROLLER_FAILURES: u32 = 4;

/// What a bus thread is made of.
pub struct BusParts {
    /// Name of the thread.
    pub name: &'static str,
    /// The bus.
    pub i2c: Box<dyn I2c>,
    /// Lines of its devices.
    pub gpio: Box<dyn Gpio>,
    /// What can be done to it.
    pub repair: Box<dyn Repair>,
    /// How long its devices' supply has to be off, where it can be switched.
    pub rail_off: Span,
    /// Address of the controller that takes writes in frames, if it is here.
    pub fragile: Option<u8>,
    /// The motors, if they are here.
    pub motors: Option<MotorEnd>,
    /// Its devices.
    pub polls: Vec<PollPlan>,
    /// Readings that stop at once.
    pub snaps: Snaps,
    /// Devices that ask.
    pub demand: Arc<Demand>,
    /// Where a reading says stop.
    pub halt: Arc<Halt>,
    /// Where readings leave.
    pub outlet: Outlet,
    /// One of its `devices` for each of `polls`.
    pub counters: Arc<BusCounters>,
}

/// Owns one I2C bus and the lines that go with its devices.
pub struct I2cWorker {
    name: &'static str,
    wire: Wire,
    repair: Box<dyn Repair>,
    ladder: Ladder,
    motors: Option<Motors>,
    polls: Polls,
    demand: Arc<Demand>,
    demanded: u64,
    halt: Arc<Halt>,
    crossed: Option<Cause>,
    controller_failures: u32,
    outlet: Outlet,
    counters: Arc<BusCounters>,
}

/// The wires themselves, transfers with their retries.
struct Wire {
    i2c: Box<dyn I2c>,
    gpio: Box<dyn Gpio>,
    fragile: Option<u8>,
    counters: Arc<BusCounters>,
}

impl Wire {
    fn call<R>(&mut self, clock: &dyn Clock, call: impl FnOnce(&mut Ports<'_>) -> R) -> R {
        let (counters, fragile) = (self.counters.as_ref(), self.fragile);
        let mut i2c = Retrying { i2c: self.i2c.as_mut(), clock, counters, fragile };
        call(&mut Ports { i2c: &mut i2c, gpio: self.gpio.as_mut(), clock })
    }
}

impl I2cWorker {
    /// A worker whose bus has to be set up.
    ///
    /// # Panics
    /// If `counters` does not have a device for each poll: both are made from one list.
    pub fn new(parts: BusParts) -> I2cWorker {
        assert_eq!(parts.polls.len(), parts.counters.devices.len(), "a counter for each device");
        let BusParts { i2c, gpio, repair, counters, fragile, .. } = parts;
        I2cWorker {
            name: parts.name,
            ladder: Ladder::new(|measure| repair.can(measure), parts.rail_off),
            wire: Wire { i2c, gpio, fragile, counters: counters.clone() },
            repair,
            motors: parts.motors.map(Motors::new),
            polls: Polls::new(parts.polls, parts.snaps),
            demand: parts.demand,
            demanded: 0,
            halt: parts.halt,
            crossed: None,
            controller_failures: 0,
            outlet: parts.outlet,
            counters,
        }
    }

    /// One piece of work.
    fn work(&mut self, clock: &dyn Clock) {
        let now = clock.now();
        self.demanded |= self.demand.take();
        let halted = self.motors.as_mut().and_then(Motors::halted);
        if let (Some(motors), Some(to)) = (&mut self.motors, halted) {
            motors.withhold(to);
        }
        if let Some(motors) = &mut self.motors {
            motors.hear(&self.counters);
        }
        if halted.is_some() {
            self.stop_at_once(clock);
        } else if !self.ladder.is_up() {
            self.demanded = 0; // whatever asked is set up again before it is read
            self.climb(clock);
        } else if self.motors.as_ref().is_some_and(Motors::has_pending) {
            self.with_motors(clock, Motors::write);
        } else if self.motors.as_ref().is_some_and(|motors| motors.runs_out() <= now) {
            self.with_motors(clock, Motors::run_out);
        } else if let Some(place) = self.take_demanded() {
            self.poll(place, true, clock);
        } else if let Some(place) = self.polls.due(now) {
            self.poll(place, false, clock);
        }
    }

    /// Lets the motors do `deed` and looks at how it went.
    fn with_motors(
        &mut self,
        clock: &dyn Clock,
        deed: impl FnOnce(&mut Motors, &mut Ports<'_>, &BusCounters) -> Result<(), DeviceFault>,
    ) {
        let Some(motors) = &mut self.motors else { return };
        let counters = self.counters.as_ref();
        let outcome = self.wire.call(clock, |ports| deed(motors, ports, counters));
        self.account(outcome, true, clock.now());
    }

    /// A halt: also where the bus is down, because some motors can be stopped without it.
    fn stop_at_once(&mut self, clock: &dyn Clock) {
        self.with_motors(clock, Motors::stop);
    }

    /// The next of the devices that asked.
    fn take_demanded(&mut self) -> Option<usize> {
        while self.demanded != 0 {
            let place = self.demanded.trailing_zeros() as usize;
            self.demanded &= self.demanded - 1;
            if self.polls.answers(place) {
                return Some(place);
            }
        }
        None
    }

    fn poll(&mut self, place: usize, asked: bool, clock: &dyn Clock) {
        let (polls, outlet, devices) = (&mut self.polls, &mut self.outlet, &self.counters.devices);
        let outcome = self.wire.call(clock, |ports| polls.call(place, asked, ports, outlet, devices));
        let Outcome { transfer, controller, crossed } = outcome;
        self.account(transfer, controller, clock.now());
        if crossed.is_some() {
            self.crossed = self.crossed.max(crossed);
            self.stop_at_once(clock); // nothing happens here on a bus without motors: the word goes out with the reading
        }
    }

    /// The outcome of a call: a failure of the wire takes the bus down, and so do several in a row of
    /// the motors' controller. A device that fails alone does not.
    fn account(&mut self, outcome: Result<(), DeviceFault>, controller: bool, now: Instant) {
        let Err(fault) = outcome else {
            if controller {
                self.controller_failures = 0;
            }
            self.ladder.worked();
            return;
        };
        count(&self.counters.failures);
        self.controller_failures += u32::from(controller);
        let gone = matches!(fault, DeviceFault::Bus { fault: BusFault::Absent, .. });
        let forgot = controller && fault.needs_set_up(); // it takes a stop all the same, so failures do not add up
        if fault.needs_reset() || gone || forgot || self.controller_failures >= CONTROLLER_FAILURES {
            self.go_down(fault, now);
        }
    }

    fn go_down(&mut self, fault: DeviceFault, now: Instant) {
        if !self.ladder.is_up() {
            return;
        }
        let deaths = self.ladder.deaths();
        self.ladder.failed(now);
        self.note_death(deaths);
        self.controller_failures = 0;
        self.polls.say_lost(fault.into(), now, &mut self.outlet);
    }

    fn note_death(&self, before: u64) {
        if self.ladder.deaths() > before {
            count(&self.counters.rungs[Rung::Dead as usize]);
        }
    }

    /// Takes the rung that is due, if one is.
    fn climb(&mut self, clock: &dyn Clock) {
        let Some(step) = self.ladder.next(clock.now()) else { return };
        let Move::Take(rung) = step else {
            let _ = self.set_up(clock); // it is set up again before it counts
            return;
        };
        let outcome = match rung.measure() {
            None => self.set_up(clock),
            Some(measure) => self.repair.take(measure).and_then(|()| match rung {
                Rung::Rebind => self.wire.i2c.reopen(),
                _ => Ok(()),
            }),
        };
        let now = clock.now();
        count(&self.counters.rungs[rung as usize]);
        let deaths = self.ladder.deaths();
        self.ladder.taken(outcome.is_ok(), now);
        self.note_death(deaths);
        match outcome {
            Ok(()) if self.ladder.is_up() => self.polls.begin_anew(),
            Ok(()) => {}
            Err(fault) => self.polls.say_lost(Fault::Bus(fault), now, &mut self.outlet),
        }
    }

    /// Sets the motors up; a bus without any has nothing to be asked, its devices tell.
    fn set_up(&mut self, clock: &dyn Clock) -> Result<(), BusFault> {
        count(&self.counters.set_ups);
        let Some(motors) = &mut self.motors else { return Ok(()) };
        self.wire.call(clock, |ports| motors.set_up(ports)).map_err(|fault| {
            count(&self.counters.failures);
            match fault {
                DeviceFault::Bus { fault, .. } | DeviceFault::Line { fault, .. } => fault,
                _ => BusFault::Io, // it answered, and what it said made no sense
            }
        })
    }

    /// When to be called again.
    fn next(&self) -> Instant {
        if !self.ladder.is_up() {
            return self.ladder.due();
        }
        let motors = self.motors.as_ref();
        if self.demanded != 0 || motors.is_some_and(Motors::has_pending) {
            return Instant::ZERO; // at once
        }
        self.polls.next().min(motors.map_or(Instant::NEVER, Motors::runs_out))
    }
}

impl Worker for I2cWorker {
    fn name(&self) -> &'static str {
        self.name
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        self.work(clock);
        self.next()
    }

    fn publish(&mut self, now: Instant) {
        self.outlet.publish();
        if let Some(cause) = self.crossed.take() {
            // Only now can the tick know the reason: what it decided before is overtaken.
            match &mut self.motors {
                Some(motors) => {
                    motors.withhold(now);
                    self.halt.note(cause);
                }
                None => self.halt.raise(cause, now),
            }
        }
        if let Some(motors) = &mut self.motors {
            motors.confirm();
        }
    }

    fn finish(&mut self, clock: &dyn Clock) {
        if let Some(motors) = &mut self.motors {
            self.wire.call(clock, |ports| motors.finish(ports));
        }
    }
}
