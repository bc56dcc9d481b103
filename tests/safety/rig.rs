//! The real tick between queues and slots that a test fills and empties: readings, answers of the field,
//! receipts of the bus and requests go in, commands and records come out. It does not depend on the order of
//! work within the tick.

use super::{PERIOD, Slot, motors, rules, safety, sensors, well};
use ganglion::base::command::{Command, MAX_MOTORS, OnWire};
use ganglion::base::frame::Reading;
use ganglion::base::plan::{BudgetPlan, Cause, QualityLevel};
use ganglion::base::time::{Clock, Grid, Instant, Span};
use ganglion::decision::admit::Admission;
use ganglion::decision::budget::Budget;
use ganglion::decision::mode::{Asked, Modes};
use ganglion::decision::reflex::Reflexes;
use ganglion::drive::act::Arbiter;
use ganglion::drive::backtrack::Backtrack;
use ganglion::drive::fast_stop_events::FastStopReceiver;
use ganglion::drive::io::Halt;
use ganglion::drive::motor_link::MotorLink;
use ganglion::drive::trace::Record;
use ganglion::field::FieldOutput;
use ganglion::field::link::FieldLink;
use ganglion::field::sensor_ring::{SensorRing, SensorWriter};
use ganglion::field::worker::{FieldRequest, FieldResult};
use ganglion::runtime::guard::frame::{GuardStatus, Phase};
use ganglion::runtime::guard::{GuardHealth, Link};
use ganglion::runtime::loop_status::LoopStatusCell;
use ganglion::runtime::requests::Requests;
use ganglion::runtime::tick::{Deciders, Parts, Tick};
use ganglion::system::executor::Waker;
use ganglion::system::rt::triple_buffer::{Reader, Writer, triple_buffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that a test sets; it may jump after it was read once, as if the work of a slot took that long, and
/// it can report that the machine slept.
#[derive(Debug, Default)]
struct TestClock {
    at: AtomicU64,
    jump: AtomicU64,
    looks: AtomicU64,
    slept: AtomicU64,
}

impl TestClock {
    fn set(&self, at: Instant, jump: Span) {
        self.at.store(at.as_nanos(), Ordering::Relaxed);
        self.jump.store(jump.as_nanos(), Ordering::Relaxed);
        self.looks.store(0, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        let first = self.looks.fetch_add(1, Ordering::Relaxed) == 0;
        let jump = if first { 0 } else { self.jump.load(Ordering::Relaxed) };
        Instant::from_nanos(self.at.load(Ordering::Relaxed) + jump)
    }
    fn sleep_until(&self, _: Instant) {}
    fn slept(&self) -> Span {
        Span::from_nanos(self.slept.load(Ordering::Relaxed))
    }
    fn is_real(&self) -> bool {
        false
    }
}

/// A tick, and the other ends of everything that it is connected to.
pub struct Robot {
    clock: Arc<TestClock>,
    tick: Tick,
    requests: Arc<Requests>,
    readings: rtrb::Producer<Reading>,
    halt: Arc<Halt>,
    outcomes: Writer<FieldResult>,
    _orders: Reader<FieldRequest>,
    commands: Reader<Command>,
    receipts: rtrb::Producer<OnWire>,
    guard: Arc<Link>,
    records: rtrb::Consumer<Record>,
    pub loop_status: Arc<LoopStatusCell>,
    /// The newest command for the motors.
    pub command: Command,
    /// The slot that ran last.
    pub now: Instant,
}

/// Less than a period, so a guard that is not healthy in a slot counts as lost in the same slot.
const GUARD_TIMEOUT: Span = Span::from_millis(5);
const GUARD_WELL: GuardStatus =
    GuardStatus { phase: Phase::Trusted, line_on: true, line_sound: true, trips: 0, beats: 0, stop: 0 };

impl Robot {
    pub fn new() -> Robot {
        let clock = Arc::new(TestClock::default());
        let first = Instant::ZERO + Span::from_millis(1_000);
        let (readings, taken) = rtrb::RingBuffer::new(64);
        let (orders, _orders) = triple_buffer(FieldRequest::EMPTY);
        let (outcomes, collected) = triple_buffer(FieldResult::EMPTY);
        let (put, commands) = triple_buffer(Command::still(3));
        let (receipts, confirmed) = rtrb::RingBuffer::new(64);
        let (trace, records) = rtrb::RingBuffer::new(4);
        let (halt, guard) = (Arc::new(Halt::new(Arc::default())), Link::new(true).unwrap());
        let (requests, loop_status): (Arc<Requests>, Arc<LoopStatusCell>) = Default::default();
        let floor = QualityLevel::WORST;
        let budget = BudgetPlan { target: PERIOD, headroom: 0.8, dwell: PERIOD.times(100), floor };
        let deciders = Deciders {
            admission: Admission::new(&sensors()),
            reflexes: Reflexes::new(&rules(), &sensors(), safety()),
            budget: Budget::new(budget),
            modes: Modes::new(safety()),
            backtrack: Backtrack::default(),
            arbiter: Arbiter::new(&motors(), safety(), PERIOD),
            navigation: None,
        };
        let tick = Tick::new(Parts {
            deciders,
            clock: clock.clone(),
            requests: requests.clone(),
            grid: Grid::new(first, PERIOD),
            readings: [taken].into_iter().collect(),
            fast_stops: FastStopReceiver::new(halt.clone(), Arc::default()),
            field: FieldLink::new(
                orders,
                collected,
                SensorWriter::new(SensorRing::new()),
                Arc::<Waker>::default(),
                1,
            ),
            motor_link: MotorLink::new(&motors(), put, confirmed, Arc::<Waker>::default()),
            trace,
            records_dropped: Arc::default(),
            loop_status: loop_status.clone(),
            guard: Some(GuardHealth::new(guard.clone(), GUARD_TIMEOUT)),
        });
        let (command, now) = (Command::still(3), first);
        Robot {
            clock,
            tick,
            requests,
            readings,
            halt,
            outcomes,
            _orders,
            commands,
            receipts,
            guard,
            records,
            loop_status,
            command,
            now,
        }
    }

    /// A robot that a caller armed, after everything had been good for long enough.
    pub fn armed() -> Robot {
        let mut robot = Robot::new();
        let mut last = None;
        for step in 0..10 {
            let asked = Asked { arm: step == 9, ..Asked::default() };
            last = Some(robot.step(&Slot { asked, ..well(step) }));
        }
        let mode = last.map(|record| record.mode);
        assert!(mode.is_some_and(|mode| mode.obeys_since().is_some()), "{mode:?}");
        robot
    }

    /// Runs one slot with these events; returns its record.
    pub fn step(&mut self, slot: &Slot) -> Record {
        self.now = self.tick.slot();
        let now = self.now;
        // A slot's own period is available for its work; longer work costs the slots that come due in the
        // meantime.
        let work = if slot.overrun > 0 { PERIOD.times(slot.overrun + 1) } else { Span::ZERO };
        self.clock.set(now, work);
        self.clock.slept.fetch_add(slot.slept.as_nanos(), Ordering::Relaxed);
        for &(channel, value, offset_ms) in &slot.readings {
            let span = Span::from_millis(offset_ms.unsigned_abs());
            let stamp = if offset_ms < 0 { now - span } else { now + span };
            self.readings.push(Reading { channel, value, stamp }).expect("the tick empties it");
        }
        if let Some((motors, age)) = slot.request {
            let (response, taken) = (response(motors), now - Span::from_millis(age));
            self.outcomes.put(FieldResult { response: Some(response), slot: taken, ..FieldResult::EMPTY });
        }
        if let Some((age, complete)) = slot.receipt {
            let receipt = OnWire { seq: 1, slot: now - age, at: now - age, complete };
            self.receipts.push(receipt).expect("the tick empties it");
        }
        if slot.e_stop {
            self.halt.raise(Cause::EStop, now);
        }
        let standing = match slot.guard_lost {
            true => GuardStatus { line_on: false, ..GUARD_WELL },
            false => GUARD_WELL,
        };
        self.guard.update(&standing, None, now);
        self.requests.stop.fetch_or(slot.asked.stop, Ordering::Relaxed);
        self.requests.disarm.store(slot.asked.disarm, Ordering::Relaxed);
        self.requests.arm.store(slot.asked.arm, Ordering::Relaxed);
        self.tick.run();
        self.command = self.commands.take().expect("one command per slot");
        let record = self.records.pop().expect("one record per slot");
        assert_eq!(record.command, self.command, "the record equals the handed-over command");
        record
    }
}

fn response(motors: [f32; 3]) -> FieldOutput {
    let mut all = [0.0; MAX_MOTORS];
    all[..3].copy_from_slice(&motors);
    FieldOutput { cycle: 0, scores: all, motors: all, confidence: 0.0, skill: 0.0, novelty: 0.0 }
}
