//! The thread of an I2C bus. Each step does one piece of work, in this order of priority: halt, the pending
//! command, the stop after an expired command, polls that a line requests, polls that are due. No transfer is
//! interrupted, but between any two transfers a halt goes first; the work that it overtakes starts again. A
//! device is set up one transfer at a time, and all of the above may come in between. A failing bus goes
//! through the recovery ladder; until it is back, readings carry the fault and the tick sees unconfirmed
//! commands. Between recovery steps, motors that are not known to have stopped are stopped. An old value is
//! never reported as new.

use super::Outlet;
use super::controller_timeout::ControllerTimeout;
use super::counters::{BusCounters, count};
use super::cut::InFlight;
use super::data_ready::DataReady;
use super::fast_stop::FastStops;
use super::halt::{Halt, HaltWatch};
use super::ladder::{Ladder, RecoveryStep};
use super::motors::{MotorEnd, Motors};
use super::polls::{BusOutcome, PollPlan, Polls};
use super::retry::{OvertakenClock, Retrying};
use crate::base::fault::{BusFault, ReadingFault};
use crate::base::plan::Cause;
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::{Gpio, I2c, Repair};
use crate::hardware::device::{DeviceFault, Ports};
use crate::system::executor::Worker;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The parts of a bus thread.
pub struct BusParts {
    /// Name of the thread.
    pub name: &'static str,
    /// The bus.
    pub i2c: Box<dyn I2c>,
    /// GPIO lines of its devices.
    pub gpio: Box<dyn Gpio>,
    /// Recovery measures for the bus.
    pub repair: Box<dyn Repair>,
    /// How long the devices' supply stays off in a power cycle, if it can be switched.
    pub rail_off: Span,
    /// Address of the controller that takes writes in frames, if it is on this bus.
    pub fragile: Option<u8>,
    /// How long the motors' controller may fail to answer before it is reset: a control period. With a
    /// shorter time every brush spark would cause a reset; with a longer one the motors would run on without
    /// control.
    pub timeout: Span,
    /// The motors, if they are on this bus.
    pub motors: Option<MotorEnd>,
    /// Records for the thread that cuts the motors' lines, if the motors have such lines and this bus is
    /// real.
    pub in_flight: Option<Arc<InFlight>>,
    /// Its devices.
    pub polls: Vec<PollPlan>,
    /// Rules that stop the motors at once.
    pub fast_stops: FastStops,
    /// Devices whose lines request polls.
    pub data_ready: Arc<DataReady>,
    /// The halt that readings raise.
    pub halt: Arc<Halt>,
    /// Where readings go.
    pub outlet: Outlet,
    /// Counters of the bus, with a device for each of `polls`.
    pub counters: Arc<BusCounters>,
}

/// Owns one I2C bus and the GPIO lines of its devices.
pub struct I2cWorker {
    name: &'static str,
    wire: Wire,
    repair: Box<dyn Repair>,
    ladder: Ladder,
    motors: Option<Motors>,
    polls: Polls,
    data_ready: Arc<DataReady>,
    demanded: u64,
    halt: Arc<Halt>,
    crossed: Option<Cause>,
    /// The pending command was overtaken once; it is not overtaken a second time.
    overtaken: bool,
    /// Cuts that this thread has handled.
    cuts: u64,
    controller_timeout: ControllerTimeout,
    outlet: Outlet,
    counters: Arc<BusCounters>,
}

/// The bus and the lines: transfers with their retries.
struct Wire {
    i2c: Box<dyn I2c>,
    gpio: Box<dyn Gpio>,
    fragile: Option<u8>,
    in_flight: Option<Arc<InFlight>>,
    /// Receives halts, if the motors are on this bus.
    watch: Option<HaltWatch>,
    /// Successful transfers of the last call.
    answered: u32,
    counters: Arc<BusCounters>,
}

impl Wire {
    /// A call that nothing overtakes: a stop, or any call while the motors are stopped.
    fn call<R>(&mut self, clock: &dyn Clock, call: impl FnOnce(&mut Ports<'_>) -> R) -> R {
        self.through(&OvertakenClock { clock, watch: None, data_ready: None, crossed: None }, call)
    }

    /// A call that yields, between any two transfers, to a halt, to `data_ready`, and to one of its own
    /// readings that trips a stop rule (`crossed`).
    fn yielding<R>(
        &mut self,
        clock: &dyn Clock,
        data_ready: Option<&DataReady>,
        crossed: Option<&AtomicBool>,
        call: impl FnOnce(&mut Ports<'_>) -> R,
    ) -> R {
        let watch = self.watch.take(); // lent for the duration of the call
        let result =
            self.through(&OvertakenClock { clock, watch: watch.as_ref(), data_ready, crossed }, call);
        self.watch = watch;
        result
    }

    fn through<R>(&mut self, clock: &OvertakenClock<'_>, call: impl FnOnce(&mut Ports<'_>) -> R) -> R {
        let (counters, fragile) = (self.counters.as_ref(), self.fragile);
        let in_flight = self.in_flight.as_deref();
        let mut i2c = Retrying { i2c: self.i2c.as_mut(), clock, counters, fragile, answered: 0, in_flight };
        let result = call(&mut Ports { i2c: &mut i2c, gpio: self.gpio.as_mut(), clock });
        self.answered = i2c.answered;
        result
    }
}

impl I2cWorker {
    /// A worker whose bus has to be set up.
    ///
    /// # Panics
    /// If `counters` does not have a device for each poll: both are made from the same list.
    pub fn new(parts: BusParts) -> I2cWorker {
        assert_eq!(parts.polls.len(), parts.counters.devices.len(), "a counter for each device");
        let BusParts { i2c, gpio, repair, counters, fragile, in_flight, .. } = parts;
        let motors = parts.motors.map(|end| Motors::new(end, fragile.is_some(), in_flight.clone()));
        let (motors, watch) = motors.unzip();
        I2cWorker {
            name: parts.name,
            ladder: Ladder::new(|measure| counters.reaches(measure, repair.can(measure)), parts.rail_off),
            wire: Wire { i2c, gpio, fragile, in_flight, watch, answered: 0, counters: counters.clone() },
            repair,
            motors,
            polls: Polls::new(parts.polls, parts.fast_stops),
            data_ready: parts.data_ready,
            demanded: 0,
            halt: parts.halt,
            crossed: None,
            overtaken: false,
            cuts: 0,
            controller_timeout: ControllerTimeout::new(parts.timeout),
            outlet: parts.outlet,
            counters,
        }
    }

    /// One piece of work.
    fn work(&mut self, clock: &dyn Clock) {
        let now = clock.now();
        self.demanded |= self.data_ready.take();
        self.notice_cut(now);
        if self.obey_halt(clock) {
            return;
        }
        if let Some(motors) = &mut self.motors {
            motors.recv(&self.counters);
        }
        if !self.ladder.is_up() {
            self.demanded = 0; // a requesting device is set up again before it is read
            self.recover(clock);
        } else if self.motors.as_ref().is_some_and(Motors::has_pending) {
            self.write_command(clock);
        } else if self.stop_due() <= now {
            self.with_motors(clock, Motors::stop_by_itself);
        } else if let Some(place) = self.take_demanded() {
            self.poll(place, true, clock);
        } else if let Some(place) = self.polls.due(now) {
            self.poll(place, false, clock);
        }
    }

    /// Handles a cut of the motors' lines during a transfer that hung, however that transfer ended: only a
    /// set-up switches the lines on again. A cut may come after the transfer has ended, even after the
    /// set-up. The next step notices it, because the cutter counts the cut after it has switched the lines.
    fn notice_cut(&mut self, now: Instant) {
        let cuts = self.wire.in_flight.as_ref().map_or(0, |in_flight| in_flight.cuts().0);
        if cuts == self.cuts {
            return;
        }
        self.cuts = cuts;
        if let Some(motors) = &mut self.motors {
            motors.were_cut();
        }
        if self.ladder.is_up() {
            count(&self.counters.failures);
            self.go_down(DeviceFault::Bus { register: 0, fault: BusFault::TimedOut }, true, now);
        }
    }

    /// Stops the motors if a halt was raised since the last call. Returns whether there was a halt.
    fn obey_halt(&mut self, clock: &dyn Clock) -> bool {
        let Some(to) = self.wire.watch.as_mut().and_then(HaltWatch::take) else { return false };
        if let Some(motors) = &mut self.motors {
            motors.withhold(to);
            motors.recv(&self.counters);
        }
        self.stop_at_once(clock);
        true
    }

    /// When the motors must be stopped without a request.
    fn stop_due(&self) -> Instant {
        self.motors.as_ref().map_or(Instant::NEVER, Motors::stop_due)
    }

    /// Performs `action`, which stops the motors; its second argument says whether the bus is down. Records
    /// the result.
    fn with_motors(
        &mut self,
        clock: &dyn Clock,
        action: impl FnOnce(&mut Motors, bool, &mut Ports<'_>, &BusCounters) -> Result<(), DeviceFault>,
    ) {
        let Some(motors) = &mut self.motors else { return };
        let (counters, began, down) = (self.counters.as_ref(), clock.now(), !self.ladder.is_up());
        let result = self.wire.call(clock, |ports| action(motors, down, ports, counters));
        motors.record_write_gap(false, clock.now(), counters);
        self.account(result, true, began, clock.now());
    }

    /// A halt. It is also carried out while the bus is down, because some motors can be stopped without the
    /// bus.
    fn stop_at_once(&mut self, clock: &dyn Clock) {
        self.with_motors(clock, Motors::stop);
    }

    /// Writes the pending command, frame by frame. A halt drops the rest; a device that requests a poll may
    /// overtake the command once.
    fn write_command(&mut self, clock: &dyn Clock) {
        let Some(motors) = &mut self.motors else { return };
        let (counters, began) = (self.counters.as_ref(), clock.now());
        let data_ready = (!self.overtaken).then_some(self.data_ready.as_ref());
        let result = self.wire.yielding(clock, data_ready, None, |ports| motors.write(ports, counters));
        motors.record_write_gap(result.is_ok(), clock.now(), counters);
        self.overtaken = result.is_err_and(DeviceFault::gave_way);
        self.account(result, true, began, clock.now());
        if !self.obey_halt(clock) && self.overtaken {
            self.demanded |= self.data_ready.take();
            if let Some(place) = self.take_demanded() {
                self.poll(place, true, clock);
            }
        }
    }

    /// The next device that requested a poll.
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
        let began = clock.now();
        let data_ready = (!asked && polls.yields(place)).then_some(self.data_ready.as_ref());
        let crossing = AtomicBool::new(false);
        let stop = self.motors.is_some().then_some(&crossing);
        let result = self.wire.yielding(clock, data_ready, stop, |ports| {
            polls.call(place, asked, ports, outlet, devices, stop)
        });
        let BusOutcome { transfer, controller, crossed } = result;
        self.account(transfer, controller, began, clock.now());
        if asked && transfer.is_err_and(DeviceFault::gave_way) {
            self.demanded |= 1 << place; // it still needs its poll
        }
        if crossed.is_some() {
            self.crossed = self.crossed.max(crossed);
            // Without motors on this bus this does nothing: the halt is raised with the reading.
            self.stop_at_once(clock);
        }
        self.obey_halt(clock);
    }

    /// Handles the result of a call that began at `began`. A wire failure takes the bus down, and so does a
    /// motors' controller that fails to answer for too long or has lost its set-up. Any other device that
    /// fails alone does not.
    fn account(&mut self, result: Result<(), DeviceFault>, controller: bool, began: Instant, now: Instant) {
        let Err(fault) = result else {
            if controller {
                self.controller_timeout.worked(self.wire.answered);
            }
            self.ladder.worked();
            return;
        };
        if fault.gave_way() {
            return;
        }
        if !self.ladder.is_up() {
            return; // recovery is in progress, and failed stops have a counter of their own
        }
        count(&self.counters.failures);
        let silent = controller && self.controller_timeout.failed(fault, began, now);
        if !controller {
            self.polls.ask_controller(now);
        }
        let gone = matches!(fault, DeviceFault::Bus { fault: BusFault::Absent, .. });
        // A controller that lost its set-up still accepts stops, so its failures would never add up.
        let forgot = controller && fault.needs_set_up();
        if fault.needs_reset() || gone || forgot || silent {
            self.go_down(fault, controller, now);
        }
    }

    /// `controller`: the failed call was to the motors' controller.
    fn go_down(&mut self, fault: DeviceFault, controller: bool, now: Instant) {
        if let Some(motors) = &mut self.motors {
            motors.lose_bus(Some(fault).filter(|_| controller), now);
        }
        let deaths = self.ladder.deaths();
        self.ladder.failed(now);
        self.log_if_given_up(deaths);
        self.controller_timeout.restart();
        self.polls.report_lost(fault.into(), now, &mut self.outlet);
    }

    fn log_if_given_up(&self, before: u64) {
        if self.ladder.deaths() > before {
            count(&self.counters.steps_taken[RecoveryStep::Dead as usize]);
        }
    }

    /// One piece of work while the bus is down: the next recovery step or, before any step that may take
    /// longer, a stop of motors that are not known to have stopped. (A reset itself begins with a stop.)
    fn recover(&mut self, clock: &dyn Clock) {
        let now = clock.now();
        match self.ladder.next(now) {
            Some(RecoveryStep::Reset) => self.climb(RecoveryStep::Reset, clock),
            _ if self.stop_due() <= now => self.with_motors(clock, Motors::stop_by_itself),
            Some(step) => self.climb(step, clock),
            None => {}
        }
    }

    /// Performs recovery step `step`.
    fn climb(&mut self, step: RecoveryStep, clock: &dyn Clock) {
        let result = match step.measure() {
            None => self.set_up(clock),
            Some(measure) => self.repair.take(measure).and_then(|()| match step {
                RecoveryStep::Rebind => self.wire.i2c.reopen(),
                _ => Ok(()),
            }),
        };
        let now = clock.now();
        count(&self.counters.steps_taken[step as usize]);
        let deaths = self.ladder.deaths();
        self.ladder.taken(result.is_ok(), now);
        self.log_if_given_up(deaths);
        match result {
            Ok(()) if self.ladder.is_up() => self.polls.restart(),
            Ok(()) => {}
            Err(fault) => self.polls.report_lost(ReadingFault::Bus(fault), now, &mut self.outlet),
        }
    }

    /// Sets the motors up. On a bus without motors this does nothing; whether such a bus works shows in its
    /// devices.
    fn set_up(&mut self, clock: &dyn Clock) -> Result<(), BusFault> {
        count(&self.counters.set_ups);
        let (Some(motors), counters) = (&mut self.motors, self.counters.as_ref()) else { return Ok(()) };
        let set_up = self.wire.call(clock, |ports| motors.set_up(ports, counters));
        motors.record_write_gap(false, clock.now(), counters);
        set_up.map_err(|fault| {
            count(&self.counters.failures);
            match fault {
                DeviceFault::Bus { fault, .. } | DeviceFault::Line { fault, .. } => fault,
                _ => BusFault::Io, // it answered with invalid data
            }
        })
    }

    /// When the next step is due.
    fn next(&self) -> Instant {
        if !self.ladder.is_up() {
            return self.ladder.due().min(self.stop_due());
        }
        if self.demanded != 0 || self.motors.as_ref().is_some_and(Motors::has_pending) {
            return Instant::ZERO; // at once
        }
        self.polls.next().min(self.stop_due())
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

    fn has_motors(&self) -> bool {
        self.motors.is_some()
    }

    fn publish(&mut self, clock: &dyn Clock) {
        // The tick can know the cause only from now on: its earlier decisions are void.
        if let Some((cause, at)) = self.outlet.publish_with(&mut self.crossed, clock) {
            match &mut self.motors {
                Some(motors) => {
                    motors.withhold(at);
                    self.halt.note(cause);
                }
                None => self.halt.raise(cause, at),
            }
        }
        if let Some(motors) = &mut self.motors {
            motors.confirm();
        }
    }

    fn finish(&mut self, clock: &dyn Clock) -> bool {
        let (Some(motors), counters) = (&mut self.motors, self.counters.as_ref()) else { return true };
        self.wire.call(clock, |ports| motors.finish(ports, counters))
    }
}

#[cfg(test)]
mod tests;
