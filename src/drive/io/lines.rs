//! The thread of the input lines: buttons, and chip outputs that signal a ready sample. It handles each edge
//! at once. It also polls the level of each button periodically, so that a lost edge is noticed and counted.
//!
//! Even a late thread loses no press: it handles pending edges before it polls a level, and it still reports
//! an edge that is delivered after a poll newer than the edge. A press can be lost only if none of its edges
//! is delivered and it ends before the next poll. The kernel keeps a limited number of edges per handle and
//! drops the oldest during an edge storm ([`STORM`]); edges also stop when the handle fails. Then only
//! levels remain, and a press shorter than its button's polling period may fall between two polls. Storms
//! are counted, and so are levels that changed without an edge.

use super::counters::{SenseCounters, count};
use super::data_ready::DataReady;
use super::fast_stop::FastStops;
use super::halt::Halt;
use super::{Due, Outlet};
use crate::base::frame::Reading;
use crate::base::plan::{Cause, Line};
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::{Edge, Gpio};
use crate::hardware::device::DeviceFault;
use crate::hardware::device::button::Button;
use crate::system::executor::Worker;
use std::sync::Arc;

/// Longest wait for an edge: a thread told to end reacts within this time.
const LONGEST_WAIT: Span = Span::from_millis(50);
/// Maximum number of edges within [`LONGEST_WAIT`]. In that time, a pressed button bounces a dozen times, and
/// the data-ready line of a 1 kHz sensor has fifty rising edges. More edges mean a floating line, which must
/// not take up the processor: edges are then ignored for a while.
const STORM: u32 = 256;

/// A button and its channel.
pub struct ButtonLine {
    /// Channel of the frame.
    pub channel: u8,
    /// The line.
    pub line: Line,
    /// A press pulls the line low.
    pub active_low: bool,
    /// Polling period of its level.
    pub period: Span,
}

/// An output that goes high when a device has a sample; only rising edges matter.
pub struct ReadyLine {
    /// The line.
    pub line: Line,
    /// The poll requests of its bus.
    pub data_ready: Arc<DataReady>,
    /// The device's place in the polling table.
    pub place: usize,
}

struct Watched {
    channel: u8,
    line: Line,
    button: Button,
    due: Due,
    /// The last reported value, and its time.
    reported: Option<(f32, Instant)>,
}

/// Smallest difference between the stamps of two readings, so that the second is newer than the first.
const NEXT: Span = Span::from_nanos(1);

/// Owns the lines of all buttons, and the lines that signal a sample.
pub struct LinesWorker {
    gpio: Box<dyn Gpio>,
    outlet: Outlet,
    buttons: Vec<Watched>,
    readies: Vec<ReadyLine>,
    /// The ready lines that requested a poll in this step, one bit each, by place in `readies`.
    asked: u64,
    fast_stops: FastStops,
    halt: Arc<Halt>,
    crossed: Option<Cause>,
    /// Number of edges, and the time from which they are counted.
    edges: (u32, Instant),
    /// Edges are ignored until this time.
    ignore_edges_until: Instant,
    /// Edges have been ignored since the last poll of every level.
    ignored_edges: bool,
    counters: Arc<SenseCounters>,
}

impl LinesWorker {
    /// A worker on these lines, all of which `gpio` watches.
    pub fn new(
        gpio: Box<dyn Gpio>,
        outlet: Outlet,
        buttons: Vec<ButtonLine>,
        readies: Vec<ReadyLine>,
        fast_stops: FastStops,
        halt: Arc<Halt>,
        counters: Arc<SenseCounters>,
    ) -> LinesWorker {
        let watched = |plan: ButtonLine| Watched {
            channel: plan.channel,
            line: plan.line,
            button: Button::new(plan.line, plan.active_low),
            due: Due::every(plan.period, Instant::ZERO),
            reported: None,
        };
        let buttons = buttons.into_iter().map(watched).collect();
        let (crossed, ignore_edges_until) = (None, Instant::ZERO);
        LinesWorker {
            gpio,
            outlet,
            buttons,
            readies,
            asked: 0,
            fast_stops,
            halt,
            crossed,
            edges: (0, Instant::ZERO),
            ignore_edges_until,
            ignored_edges: false,
            counters,
        }
    }

    fn next_poll(&self) -> Instant {
        self.buttons.iter().map(|button| button.due.at).min().unwrap_or(Instant::NEVER)
    }

    /// Polls every level that is due.
    fn look(&mut self, now: Instant) {
        for button in self.buttons.iter_mut().filter(|button| button.due.at <= now) {
            button.due.advance(now);
            let value = button.button.read(self.gpio.as_mut());
            if let Ok(pressed) = value {
                let differs = |(reported, _): (f32, Instant)| (reported - pressed).abs() > 0.5;
                if button.reported.is_some_and(differs) {
                    count(&self.counters.edges_lost);
                }
                button.reported = Some((pressed, now));
                self.crossed = self.crossed.max(self.fast_stops.look(button.channel, pressed));
            }
            let value = value.map_err(DeviceFault::into);
            self.outlet.stage(Reading { channel: button.channel, value, stamp: now });
        }
    }

    /// Waits for one edge; returns whether there was one.
    fn wait_for_edge(&mut self, wait: Span, clock: &dyn Clock) -> bool {
        let edge = self.gpio.next_edge(wait);
        let now = clock.now();
        match edge {
            Ok(Some(edge)) => {
                self.recv(edge);
                self.count_edge(now);
                true
            }
            Ok(None) => false,
            Err(_) => {
                self.ignore_edges(now); // only levels remain
                false
            }
        }
    }

    /// Ignores edges for a while. Polls the levels now, and once more at the end of that time.
    fn ignore_edges(&mut self, now: Instant) {
        self.ignore_edges_until = now + LONGEST_WAIT;
        self.ignored_edges = true;
        self.poll_all_now(now);
    }

    fn poll_all_now(&mut self, now: Instant) {
        self.buttons.iter_mut().for_each(|button| button.due.at = button.due.at.min(now));
    }

    /// Counts an edge, and ignores edges for a while if they come too fast.
    fn count_edge(&mut self, now: Instant) {
        let (edges, since) = &mut self.edges;
        if now.since(*since) >= LONGEST_WAIT {
            (*edges, *since) = (0, now);
        }
        *edges += 1;
        if *edges > STORM {
            count(&self.counters.edge_storms);
            self.ignore_edges(now);
        }
    }

    fn recv(&mut self, edge: Edge) {
        for (place, ready) in self.readies.iter().enumerate() {
            if ready.line == edge.line && edge.high {
                self.asked |= 1 << place;
            }
        }
        for button in self.buttons.iter_mut().filter(|button| button.line == edge.line) {
            let pressed = button.button.value(edge.high);
            match button.reported {
                // Older than a poll that saw the other level: a change came and went before that poll. It is
                // reported with a later stamp, because a reading older than the newest known one is ignored.
                Some((seen, at)) if edge.stamp <= at => {
                    if (seen - pressed).abs() > 0.5 {
                        for (value, stamp) in [(pressed, at + NEXT), (seen, at + NEXT + NEXT)] {
                            self.crossed = self.crossed.max(button.send(
                                value,
                                stamp,
                                &mut self.fast_stops,
                                &mut self.outlet,
                            ));
                        }
                    }
                }
                _ => {
                    let crossed = button.send(pressed, edge.stamp, &mut self.fast_stops, &mut self.outlet);
                    self.crossed = self.crossed.max(crossed);
                }
            }
        }
    }
}

impl Watched {
    /// Reports a level; returns the worst cause of the rules that it trips.
    fn send(
        &mut self,
        value: f32,
        stamp: Instant,
        fast_stops: &mut FastStops,
        outlet: &mut Outlet,
    ) -> Option<Cause> {
        self.reported = Some((value, stamp));
        outlet.stage(Reading { channel: self.channel, value: Ok(value), stamp });
        fast_stops.look(self.channel, value)
    }
}

impl Worker for LinesWorker {
    fn name(&self) -> &'static str {
        "lines"
    }

    /// A step either polls or waits, never both: in virtual time other workers act while this one waits.
    /// Pending edges are handled before a poll.
    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let now = clock.now();
        let deaf = now < self.ignore_edges_until;
        if self.ignored_edges && !deaf {
            self.ignored_edges = false;
            self.poll_all_now(now);
        }
        let look = self.next_poll();
        if look <= now {
            if deaf || !self.wait_for_edge(Span::ZERO, clock) {
                self.look(clock.now());
            }
        } else if deaf {
            return self.ignore_edges_until.min(look);
        } else {
            self.wait_for_edge(look.since(now).min(LONGEST_WAIT), clock);
        }
        Instant::ZERO // at once
    }

    fn publish(&mut self, clock: &dyn Clock) {
        if let Some((cause, at)) = self.outlet.publish_with(&mut self.crossed, clock) {
            self.halt.raise(cause, at);
        }
        while self.asked != 0 {
            let ready = &self.readies[self.asked.trailing_zeros() as usize];
            ready.data_ready.raise(ready.place);
            self.asked &= self.asked - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::{Restraint, Rule, Trip};
    use crate::base::time::SimClock;
    use crate::decision::fixture::{at, ms, range};
    use crate::hardware::bus::fake::FakeGpio;
    use crate::system::executor::{Stepper, Waker};
    use std::sync::atomic::{AtomicU64, Ordering};

    const BUTTON: Line = Line(25);
    const READY: Line = Line(4);

    struct Rig {
        stepper: Stepper,
        readings: rtrb::Consumer<Reading>,
        halt: Arc<Halt>,
        data_ready: Arc<DataReady>,
        counters: Arc<SenseCounters>,
    }

    /// A stop button that pulls its line low, and an output that signals ready; the lines follow `script`.
    fn rig(script: impl FnOnce(FakeGpio) -> FakeGpio) -> Rig {
        let clock = Arc::new(SimClock::new());
        let gpio = script(FakeGpio::new(clock.clone()).level(BUTTON, true));
        rig_every(10, clock, Box::new(gpio))
    }

    /// Like [`rig`], on the lines of `gpio`, polled every `period` ms.
    fn rig_every(period: u64, clock: Arc<SimClock>, gpio: Box<dyn Gpio>) -> Rig {
        let (worker, mut rig) = rig_of(period, clock, gpio);
        rig.stepper.add(Box::new(worker), Arc::default(), Instant::ZERO);
        rig
    }

    /// Like [`rig_every`], with the worker driven by the test.
    fn rig_of(period: u64, clock: Arc<SimClock>, gpio: Box<dyn Gpio>) -> (LinesWorker, Rig) {
        let (readings, sensed) = rtrb::RingBuffer::new(1024);
        let waker: Arc<Waker> = Arc::default();
        let (halt, data_ready) = (Arc::new(Halt::new(waker.clone())), Arc::new(DataReady::new(waker)));
        let counters: Arc<SenseCounters> = Arc::default();
        let stop = Rule {
            cause: Cause::EStop,
            channel: 0,
            trip: Trip::Above(0.5),
            clear: 0.4,
            hold: Span::ZERO,
            retreat: Span::ZERO,
            restraint: Restraint::Still,
            latched: true,
        };
        let fast_stops = FastStops::of(&[stop], &[range()], [0]);
        let outlet = Outlet::new(readings, Arc::new(AtomicU64::new(0)));
        let buttons = vec![ButtonLine { channel: 0, line: BUTTON, active_low: true, period: ms(period) }];
        let readies = vec![ReadyLine { line: READY, data_ready: data_ready.clone(), place: 3 }];
        let worker =
            LinesWorker::new(gpio, outlet, buttons, readies, fast_stops, halt.clone(), counters.clone());
        (worker, Rig { stepper: Stepper::new(clock), readings: sensed, halt, data_ready, counters })
    }

    impl Rig {
        fn halts(&self) -> u64 {
            self.halt.counts().map(|(_, times)| times).sum()
        }
        fn pressed(&mut self) -> Vec<Instant> {
            let all = std::iter::from_fn(|| self.readings.pop().ok());
            all.filter(|reading| reading.value == Ok(1.0)).map(|reading| reading.stamp).collect()
        }
        fn lost(&self) -> u64 {
            self.counters.edges_lost.load(Ordering::Relaxed)
        }
    }

    fn us(us: u64) -> Instant {
        Instant::ZERO + Span::from_micros(us)
    }

    #[test]
    fn button_press_halts_once_despite_bounces() {
        let mut rig = rig(|gpio| {
            gpio.edge(BUTTON, false, us(13_370)).edge(BUTTON, true, us(313_370)).edge(
                BUTTON,
                false,
                us(513_370),
            )
        });
        rig.stepper.run_until(us(13_369));
        assert_eq!(rig.halts(), 0);
        rig.stepper.run_until(us(13_370));
        assert_eq!(rig.halts(), 1);
        assert_eq!(rig.pressed(), [us(13_370)], "stamped with the time of the edge");
        rig.stepper.run_until(at(513));
        assert_eq!(rig.halts(), 1);
        rig.stepper.run_until(at(600));
        assert_eq!((rig.halts(), rig.lost()), (2, 0));
    }

    #[test]
    fn a_lost_edge_is_noticed_by_the_level_and_counted() {
        // Unlike `FakeGpio`, whose levels change with the edges that it delivers, this line changes its
        // level and delivers no edge.
        struct Lossy {
            clock: Arc<SimClock>,
        }
        impl Gpio for Lossy {
            fn set(&mut self, _: Line, _: bool) -> Result<(), crate::base::fault::BusFault> {
                Ok(())
            }
            fn get(&mut self, _: Line) -> Result<bool, crate::base::fault::BusFault> {
                Ok(self.clock.now() < at(55)) // pressed from then on
            }
            fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, crate::base::fault::BusFault> {
                self.clock.sleep_until(self.clock.now() + wait);
                Ok(None)
            }
        }
        let mut rig = rig(|gpio| gpio);
        let clock = Arc::new(SimClock::new());
        let (readings, mut sensed) = rtrb::RingBuffer::new(64);
        let outlet = Outlet::new(readings, Arc::new(AtomicU64::new(0)));
        let buttons = vec![ButtonLine { channel: 0, line: BUTTON, active_low: true, period: ms(10) }];
        let worker = LinesWorker::new(
            Box::new(Lossy { clock: clock.clone() }),
            outlet,
            buttons,
            vec![],
            FastStops::default(),
            rig.halt.clone(),
            rig.counters.clone(),
        );
        rig.stepper = Stepper::new(clock);
        rig.stepper.add(Box::new(worker), Arc::default(), Instant::ZERO);
        rig.stepper.run_until(at(100));
        assert_eq!(rig.lost(), 1);
        let pressed = std::iter::from_fn(|| sensed.pop().ok()).find(|reading| reading.value == Ok(1.0));
        assert_eq!(pressed.map(|reading| reading.stamp), Some(at(60)), "within a period");
    }

    #[test]
    fn a_rising_ready_line_requests_a_poll_of_its_device() {
        let mut rig = rig(|gpio| gpio.edge(READY, true, us(2_000)).edge(READY, false, us(2_050)));
        rig.stepper.run_until(us(1_999));
        assert_eq!(rig.data_ready.take(), 0);
        rig.stepper.run_until(us(2_000));
        assert_eq!(rig.data_ready.take(), 1 << 3);
        rig.stepper.run_until(us(9_000));
        assert_eq!(rig.data_ready.take(), 0, "the falling edge requests nothing");
    }

    #[test]
    fn an_edge_storm_switches_the_line_to_level_reads() {
        let mut rig = rig(|gpio| {
            (0..2_000).fold(gpio, |gpio, nth| gpio.edge(READY, nth % 2 == 0, us(1_000 + 10 * nth)))
        });
        rig.stepper.run_until(at(40));
        assert_eq!(rig.counters.edge_storms.load(Ordering::Relaxed), 1);
        let looks = std::iter::from_fn(|| rig.readings.pop().ok()).count();
        assert_eq!(looks, 5, "the button's level at 0, at the storm, and every 10 ms from then on");
    }

    /// Lines whose edges are delivered only after this many calls: the kernel has stamped an edge but not
    /// delivered it yet.
    struct Late(FakeGpio, u32);

    impl Gpio for Late {
        fn set(&mut self, line: Line, high: bool) -> Result<(), crate::base::fault::BusFault> {
            self.0.set(line, high)
        }
        fn get(&mut self, line: Line) -> Result<bool, crate::base::fault::BusFault> {
            self.0.get(line)
        }
        fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, crate::base::fault::BusFault> {
            if self.1 == 0 {
                return self.0.next_edge(wait);
            }
            self.1 -= 1;
            Ok(None)
        }
    }

    /// A press of 1 ms that is over before a late thread polls; its edges are delivered only after
    /// `calls` calls.
    fn late_press(calls: u32) -> (Rig, Vec<Reading>) {
        let clock = Arc::new(SimClock::new());
        let gpio = FakeGpio::new(clock.clone()).level(BUTTON, true);
        let gpio = gpio.edge(BUTTON, false, us(8_500)).edge(BUTTON, true, us(9_500));
        let (mut worker, mut rig) = rig_of(10, clock.clone(), Box::new(Late(gpio, calls)));
        for late in [0, 12_000, 12_100, 12_200, 12_300] {
            clock.set(us(late)); // the first poll is at 0, the second was due at 10 ms
            worker.step(clock.as_ref());
            worker.publish(clock.as_ref());
        }
        let reported = std::iter::from_fn(|| rig.readings.pop().ok()).collect();
        (rig, reported)
    }

    #[test]
    fn press_that_ends_before_a_late_poll_is_reported_and_halts() {
        for calls in 0..3 {
            let (rig, reported) = late_press(calls);
            assert_eq!(rig.halts(), 1, "edges {calls} calls late: {reported:?}");
            let values: Vec<_> = reported.iter().map(|reading| reading.value.unwrap()).collect();
            assert_eq!(values.iter().filter(|value| **value == 1.0).count(), 1, "{values:?}");
            assert_eq!(values.last(), Some(&0.0), "the button is released");
            assert!(
                reported.windows(2).all(|pair| pair[0].stamp < pair[1].stamp),
                "the tick would drop an older reading: {reported:?}"
            );
        }
        let (_, reported) = late_press(0);
        let pressed = reported.iter().find(|reading| reading.value == Ok(1.0));
        assert_eq!(
            pressed.map(|reading| reading.stamp),
            Some(us(8_500)),
            "stamped with the time of the edge"
        );
    }

    #[test]
    fn levels_are_read_when_edge_events_stop_and_resume() {
        let storm = |gpio, from: u64, edges: u64| {
            (0..edges).fold(gpio, |gpio: FakeGpio, nth| gpio.edge(READY, nth % 2 == 0, us(from + 10 * nth)))
        };
        // Polls are 17 ms apart. The storm begins at 11 ms and is detected 256 edges later. From then on,
        // edges are ignored for 50 ms.
        let clock = Arc::new(SimClock::new());
        let gpio = storm(FakeGpio::new(clock.clone()).level(BUTTON, true), 11_000, 300);
        let mut rig = rig_every(17, clock, Box::new(gpio));
        rig.stepper.run_until(at(70));
        let looks: Vec<Instant> = std::iter::from_fn(|| rig.readings.pop().ok()).map(|r| r.stamp).collect();
        let deaf = us(11_000 + 2_560);
        assert!(looks.contains(&deaf), "{looks:?}");
        assert!(looks.contains(&(deaf + LONGEST_WAIT)), "{looks:?}");
    }
}
