//! The polling table of one thread: which device feeds which channels, how often, how long a poll took, and
//! whether the device must be set up first. A single device that fails is handled here; the ladder handles a
//! bus that fails.

use super::counters::{DeviceCounters, count};
use super::fast_stop::FastStops;
use super::{Due, Outlet};
use crate::base::fault::ReadingFault;
use crate::base::frame::Reading;
use crate::base::plan::Cause;
use crate::base::time::{Instant, Span};
use crate::hardware::device::{DeviceFault, Journal, Polled, Ports, SetUp};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest pause between retries of a device that does not answer: once plugged in, it is back within this
/// time.
const LONGEST_PAUSE: Span = Span::from_millis(2_000);
/// A device that does not answer gets at most 1/`SHARE` of its thread's time.
const SHARE: u64 = 8;
/// Consecutive invalid readings after which a device counts as lost and is set up again: it may have reset
/// itself.
const INVALID_LIMIT: u32 = 10;
/// Delay after such a set-up before the next one; it doubles, up to the longest, while set-ups do not help.
const FIRST_REVIVAL: Span = Span::from_millis(1_000);
const LONGEST_REVIVAL: Span = Span::from_millis(30_000);
/// Delay before the motors' controller is polled again after it did not answer. A spark is over by then, and
/// whether the controller is still there must be known within a control period.
const CONTROLLER_AGAIN: Span = Span::from_millis(2);

/// A device and what its thread needs to know about it.
pub struct PollPlan {
    /// The device.
    pub device: Box<dyn Polled>,
    /// The channels of its outputs, in order.
    pub channels: Vec<u8>,
    /// How often it is read.
    pub period: Span,
    /// It is part of the motors' controller: when it fails, so do the motors.
    pub controller: bool,
    /// A line requests its polls; it is polled on a timer only while the line is silent.
    pub prompted: bool,
}

/// An entry of the table.
struct Poll {
    plan: PollPlan,
    due: Due,
    /// The device must be set up before its readings count.
    needs_set_up: bool,
    /// Progress of its set-up.
    journal: Journal,
    /// How long its set-up has kept the bus busy.
    held: Span,
    /// Its last poll was overtaken, and must be repeated.
    overtaken: bool,
    /// Pause after its next failure.
    pause: Span,
    invalid: u32,
    revive_at: Instant,
    revival: Span,
}

/// The result of one call of a device.
pub(super) struct BusOutcome {
    /// The transfer's result.
    pub transfer: Result<(), DeviceFault>,
    /// Whether the device is part of the motors' controller.
    pub controller: bool,
    /// The cause of the stop rule that a reading tripped, if one did.
    pub crossed: Option<Cause>,
}

/// The table.
pub(super) struct Polls {
    polls: Vec<Poll>,
    fast_stops: FastStops,
}

impl Polls {
    /// Devices that are all due, none of them set up.
    pub fn new(plans: Vec<PollPlan>, fast_stops: FastStops) -> Polls {
        let poll = |plan: PollPlan| Poll {
            due: Due::every(plan.period, Instant::ZERO),
            needs_set_up: true,
            journal: Journal::new(),
            held: Span::ZERO,
            overtaken: false,
            pause: plan.period,
            invalid: 0,
            revive_at: Instant::ZERO,
            revival: FIRST_REVIVAL,
            plan,
        };
        Polls { polls: plans.into_iter().map(poll).collect(), fast_stops }
    }

    /// The most overdue device, if any is due.
    pub fn due(&self, now: Instant) -> Option<usize> {
        let (place, poll) = self.polls.iter().enumerate().min_by_key(|(_, poll)| poll.due.at)?;
        (poll.due.at <= now).then_some(place)
    }
    /// When the next device is due.
    pub fn next(&self) -> Instant {
        self.polls.iter().map(|poll| poll.due.at).min().unwrap_or(Instant::NEVER)
    }
    /// Whether the device at `place` may be polled out of turn.
    pub fn answers(&self, place: usize) -> bool {
        self.polls.get(place).is_some_and(|poll| !poll.needs_set_up)
    }

    /// Whether a poll of the device at `place` lets a requested poll go first. It never does so twice in a
    /// row; otherwise a chip with a thousand samples a second would leave no time for this device.
    pub fn yields(&self, place: usize) -> bool {
        self.polls.get(place).is_some_and(|poll| !poll.needs_set_up && !poll.overtaken)
    }

    /// Another device did not answer: makes a poll of the motors' controller due now, to see whether the
    /// controller fails too.
    pub fn ask_controller(&mut self, now: Instant) {
        if let Some(poll) = self.polls.iter_mut().find(|poll| poll.plan.controller) {
            poll.due.at = poll.due.at.min(now);
        }
    }

    /// The bus was restarted: every device must be set up again, from the start. Devices in a retry pause
    /// stay in it: one of them may be the one that hangs the bus.
    pub fn restart(&mut self) {
        for poll in &mut self.polls {
            poll.needs_set_up = true;
            poll.journal.clear();
            poll.held = Span::ZERO;
        }
    }

    /// Reports `fault` on every channel.
    pub fn report_lost(&self, fault: ReadingFault, now: Instant, outlet: &mut Outlet) {
        for channel in self.polls.iter().flat_map(|poll| &poll.plan.channels) {
            outlet.stage(Reading { channel: *channel, value: Err(fault), stamp: now });
        }
    }

    /// Calls the device at `place`: takes the next step of its set-up if it needs one, otherwise polls it.
    /// `asked`: its line requested the poll. `stop`, given if this bus has the motors, is set as soon as a
    /// reading trips a stop rule, because the rest of the poll can wait.
    pub fn call(
        &mut self,
        place: usize,
        asked: bool,
        ports: &mut Ports<'_>,
        outlet: &mut Outlet,
        counts: &[DeviceCounters],
        stop: Option<&AtomicBool>,
    ) -> BusOutcome {
        let poll = &mut self.polls[place];
        let counts = &counts[place];
        let controller = poll.plan.controller;
        if poll.needs_set_up {
            return BusOutcome { transfer: poll.set_up(ports, outlet, counts), controller, crossed: None };
        }
        let (transfer, crossed) = poll.read(asked, ports, outlet, &mut self.fast_stops, counts, stop);
        BusOutcome { transfer, controller, crossed }
    }
}

impl Poll {
    /// The next step of the device's set-up, which holds the bus for at most one transfer. When the set-up is
    /// complete, the device is polled next.
    fn set_up(
        &mut self,
        ports: &mut Ports<'_>,
        outlet: &mut Outlet,
        counts: &DeviceCounters,
    ) -> Result<(), DeviceFault> {
        let (began, device) = (ports.clock.now(), &mut self.plan.device);
        let step = self.journal.step(ports, |ports| device.set_up(ports));
        let ended = ports.clock.now();
        self.held = self.held + ended.since(began);
        match step {
            Ok(SetUp::Again(at)) => {
                self.due.at = at.max(ended);
                return Ok(());
            }
            Err(fault) if fault.gave_way() => return Err(fault), // the step is repeated
            Ok(SetUp::Done) => (self.needs_set_up, self.due.at) = (false, ended),
            Err(fault) => {
                count(&counts.failures);
                counts.lose();
                for &channel in &self.plan.channels {
                    outlet.stage(Reading { channel, value: Err(fault.into()), stamp: began });
                }
                self.back_off(ended, self.held);
            }
        }
        count(&counts.set_ups);
        self.held = Span::ZERO;
        step.map(drop)
    }

    /// One reading.
    fn read(
        &mut self,
        asked: bool,
        ports: &mut Ports<'_>,
        outlet: &mut Outlet,
        fast_stops: &mut FastStops,
        counts: &DeviceCounters,
        stop: Option<&AtomicBool>,
    ) -> (Result<(), DeviceFault>, Option<Cause>) {
        let stamp = ports.clock.now();
        let (mut crossed, mut valid) = (None, false);
        let channels = &self.plan.channels;
        let transfer = self.plan.device.poll(ports, &mut |output, value| {
            let Some(&channel) = channels.get(output) else { return };
            if value.is_err_and(DeviceFault::gave_way) {
                return; // its last reading stays valid
            }
            if let Ok(value) = value {
                valid |= value.is_finite();
                crossed = crossed.max(fast_stops.look(channel, value));
                if let (Some(stop), Some(_)) = (stop, crossed) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            outlet.stage(Reading { channel, value: value.map_err(DeviceFault::into), stamp });
        });
        self.overtaken = transfer.is_err_and(DeviceFault::gave_way);
        if self.overtaken {
            return (transfer, crossed); // still due
        }
        let ended = ports.clock.now();
        count(&counts.polls);
        if stamp.since(self.due.at) >= self.plan.period {
            count(&counts.late);
        }
        counts.took(ended.since(stamp));
        self.schedule(asked, ended, counts);
        match transfer {
            Ok(()) => self.judge(valid, ended, counts),
            Err(_) => {
                count(&counts.failures);
                counts.lose();
                if self.plan.controller {
                    self.due.at = self.due.at.min(ended + CONTROLLER_AGAIN);
                } else {
                    self.needs_set_up = true; // it may have lost its supply, and so its register contents
                    self.back_off(ended, ended.since(stamp));
                }
            }
        }
        (transfer, crossed)
    }

    /// Sets when the device is due again. A device with a line is polled on a timer once its line has been
    /// silent for a period and a half, and then once per period until the line signals again.
    fn schedule(&mut self, asked: bool, now: Instant, counts: &DeviceCounters) {
        if asked {
            let period = self.plan.period;
            self.due.at = now + period + Span::from_nanos(period.as_nanos() / 2);
            return;
        }
        if self.plan.prompted {
            count(&counts.unprompted);
        }
        self.due.advance(now);
    }

    /// Judges a reading. A device that keeps returning invalid readings counts as lost until it returns a
    /// valid one, and is set up again at intervals.
    fn judge(&mut self, valid: bool, now: Instant, counts: &DeviceCounters) {
        self.pause = self.plan.period;
        if valid {
            counts.find();
            (self.invalid, self.revival) = (0, FIRST_REVIVAL);
            return;
        }
        self.invalid = self.invalid.saturating_add(1);
        if self.invalid >= INVALID_LIMIT {
            counts.lose();
        }
        if self.invalid >= INVALID_LIMIT && now >= self.revive_at && !self.plan.controller {
            self.needs_set_up = true;
            self.invalid = 0;
            self.revive_at = now + self.revival;
            self.revival = self.revival.times(2).min(LONGEST_REVIVAL);
        }
    }

    /// Pauses after a failure: longer each time, and long enough to leave time for the other devices.
    fn back_off(&mut self, now: Instant, cost: Span) {
        self.due.at = now + self.pause.max(cost.times(SHARE));
        self.pause = self.pause.times(2).min(LONGEST_PAUSE.max(self.plan.period));
    }
}
