//! Motors that are not known to have stopped are stopped, whatever else happens on the bus. The chips keep
//! executing the last write. Some take writes in frames, which can be torn, and some do not. They have a
//! stop line, a stop line that fails, or none.

use super::*;
use crate::base::plan::{Line, McuPlan};
use crate::base::seed::{Stream, bits};
use crate::hardware::bus::{Edge, Op};
use crate::hardware::device::robot_hat::RobotHat;
use proptest::prelude::*;

const RESET: Line = Line(5);
/// A register without effect.
const NOTHING: u8 = 0;
/// If a frame lost its last byte, the first byte of the stop completes that frame, which may start the
/// motors before the stop takes effect. They may run for this long, enough for nine frames.
const COMPLETED: Span = Span::from_millis(1);

/// The kind of chip that makes the motors' pulses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Frames of three bytes and a reset line.
    Framed,
    /// Frames of three bytes and a reset line that fails for some time.
    Disobedient,
    /// No frames, and no line at all.
    Bare,
    /// No frames, and an output-enable line.
    OutputEnable,
}

/// The chip. It counts as running after any write that is not known to be harmless.
struct Chip {
    kind: Kind,
    frame: Vec<u8>,
    held: bool,
    runs: bool,
    /// Times at which it started and stopped running, alternately.
    changes: Vec<Instant>,
    /// Times of its transfers, successful or not.
    transfers: Vec<Instant>,
}

impl Chip {
    fn framed(&self) -> bool {
        matches!(self.kind, Kind::Framed | Kind::Disobedient)
    }
    /// Receives the bytes of a transfer: all of them, or those before the transfer broke off.
    fn take(&mut self, bytes: &[u8], now: Instant) {
        if !self.framed() {
            self.obey(bytes[0], bytes.get(1).copied().unwrap_or(1), now);
            return;
        }
        for byte in bytes {
            self.frame.push(*byte);
            if self.frame.len() == 3 {
                let (word, value) = (self.frame[0], self.frame[1] | self.frame[2]);
                self.frame.clear();
                self.obey(word, value, now);
            }
        }
    }
    fn obey(&mut self, word: u8, value: u8, now: Instant) {
        match word {
            NOTHING | SELECT => {}
            STOP | INIT => self.run(false, now),
            WRITE => self.run(value != 0, now),
            _ => self.run(true, now),
        }
    }
    fn run(&mut self, runs: bool, now: Instant) {
        let before = self.moves();
        self.runs = runs;
        self.note(before, now);
    }
    fn hold(&mut self, held: bool, now: Instant) {
        let before = self.moves();
        self.held = held;
        if held && self.framed() {
            self.runs = false; // a reset clears its registers
            self.frame.clear();
        }
        self.note(before, now);
    }
    fn moves(&self) -> bool {
        self.runs && !self.held
    }
    fn note(&mut self, before: bool, now: Instant) {
        if before != self.moves() {
            self.changes.push(now);
        }
    }
    /// The last time at which it started to run for longer than [`COMPLETED`].
    fn began_last(&self) -> Option<Instant> {
        let is_short = |stop: &[Instant]| stop.len() == 2 && stop[1].since(stop[0]) <= COMPLETED;
        self.changes.chunks(2).filter(|stop| !is_short(stop)).map(|stop| stop[0]).next_back()
    }
    /// The last time, up to `end`, at which it ran.
    fn moved_last(&self, end: Instant) -> Instant {
        if self.moves() { end } else { self.changes.last().copied().unwrap_or(Instant::ZERO) }
    }
}

/// A fault on the wire: its start, its end, and which fault.
type Trouble = (Instant, Instant, BusFault);

/// The wires to the chip.
#[derive(Clone)]
struct Wires {
    clock: Arc<SimClock>,
    chip: Arc<Mutex<Chip>>,
    troubles: Arc<Vec<Trouble>>,
    /// The line does not respond from t = 6 s until this time.
    obeys_from: Instant,
    seed: u64,
    nth: u64,
}

impl I2c for Wires {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let now = self.clock.now();
        self.nth += 1;
        let draw = bits(self.seed, Stream::Fault, self.nth);
        let mut chip = self.chip.lock().unwrap();
        let trouble = self.troubles.iter().find(|(from, until, _)| *from <= now && now < *until);
        let deaf = address == HAT && chip.framed() && chip.held;
        let fault = trouble.map(|trouble| trouble.2).or(deaf.then_some(BusFault::Nack));
        if address == HAT {
            chip.transfers.push(now);
        }
        for op in ops {
            match op {
                Op::Read(bytes) => bytes.fill(100),
                Op::Write(bytes) if address == HAT => match fault {
                    None => chip.take(bytes, now),
                    Some(BusFault::Nack) => {}
                    // The transfer broke off after some of its bytes.
                    Some(_) => {
                        let whole = draw as usize % bytes.len();
                        if whole > 0 && !deaf {
                            chip.take(&bytes[..whole], now);
                        }
                    }
                },
                Op::Write(_) => {}
            }
        }
        drop(chip);
        let took = if fault == Some(BusFault::TimedOut) { 20_000 } else { 100 };
        self.clock.sleep_until(now + Span::from_micros(took));
        fault.map_or(Ok(()), Err)
    }
}

impl Gpio for Wires {
    /// Low stops the motors, for both kinds of lines.
    fn set(&mut self, _: Line, high: bool) -> Result<(), BusFault> {
        let now = self.clock.now();
        let mut chip = self.chip.lock().unwrap();
        if chip.kind == Kind::Disobedient && (at(6_000)..self.obeys_from).contains(&now) {
            drop(chip);
            self.clock.sleep_until(now + ms(100)); // like a guard that does not answer
            return Err(BusFault::TimedOut);
        }
        chip.hold(!high, now);
        Ok(())
    }
    fn get(&mut self, _: Line) -> Result<bool, BusFault> {
        Err(BusFault::Unsupported)
    }
    fn next_edge(&mut self, _: Span) -> Result<Option<Edge>, BusFault> {
        Err(BusFault::Unsupported)
    }
}

/// The driver of the chip.
struct Wheels(Kind);

impl Wheels {
    fn set(high: bool, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        ports.gpio.set(RESET, high).map_err(|fault| DeviceFault::Line { line: RESET, fault })
    }
}

impl Actuators for Wheels {
    fn initialise(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        match self.0 {
            Kind::Bare => TwoWheels::send(INIT, ports),
            Kind::OutputEnable => {
                Wheels::set(false, ports)?;
                TwoWheels::send(INIT, ports)?;
                Wheels::set(true, ports)
            }
            Kind::Framed | Kind::Disobedient => {
                Wheels::set(false, ports)?;
                ports.clock.sleep_until(ports.clock.now() + ms(10));
                Wheels::set(true, ports)?;
                ports.clock.sleep_until(ports.clock.now() + ms(20));
                TwoWheels::send(INIT, ports)
            }
        }
    }
    fn write(&mut self, _: &Command, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        ports.i2c.write(HAT, &[WRITE, 0x0F, 0]).map_err(bus_fault(WRITE))
    }
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        TwoWheels::send(STOP, ports)
    }
    fn stop_at_any_place(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let plan = McuPlan { address: HAT, others: [None; 3], clock_hz: 72_000_000, timers: 4, reset: RESET };
        RobotHat::new(&plan).write_at_any_place(&[[STOP, 0, 0]], ports.i2c)
    }
    fn hold(&mut self, ports: &mut Ports<'_>) -> bool {
        self.0 != Kind::Bare && Wheels::set(false, ports).is_ok()
    }
}

/// An analogue-to-digital converter in the motors' controller. A poll writes a frame that selects the
/// channel, then reads a byte.
struct Converter;
const SELECT: u8 = 0x17;

impl Polled for Converter {
    fn poll(&mut self, ports: &mut Ports<'_>, send: &mut Say<'_>) -> Result<(), DeviceFault> {
        let mut byte = [0];
        let read = ports.i2c.write(HAT, &[SELECT, 0, 0]).and_then(|()| ports.i2c.read(HAT, &mut byte));
        let read = read.map_err(bus_fault(SELECT));
        send(0, read.map(|()| byte[0].into()));
        read
    }
}

/// A robot with such a chip. It drives from t = 6 s until `commands_end`, ms.
struct Scene {
    rig: Rig,
    chip: Arc<Mutex<Chip>>,
    commands_end: u64,
    /// Validity of a command, ms.
    valid: u64,
}

impl Scene {
    fn new(kind: Kind, troubles: &[Trouble], obeys_from: Instant, commands_end: u64, seed: u64) -> Scene {
        let clock = Arc::new(SimClock::new());
        let chip = Chip { kind, frame: vec![], held: false, runs: false, changes: vec![], transfers: vec![] };
        let framed = chip.framed();
        let chip = Arc::new(Mutex::new(chip));
        let troubles = Arc::new(troubles.to_vec());
        let wires = Wires { clock: clock.clone(), chip: chip.clone(), troubles, obeys_from, seed, nth: 0 };
        let (bus, i2c) = (LooseI2c::new(clock.clone()), Box::new(wires.clone()));
        let polls = vec![
            PollPlan { controller: true, ..plan(Box::new(Converter), 0, 20) },
            plan(Box::new(Byte(0x41)), 1, 10),
        ];
        let rig =
            rig_on(clock, bus, i2c, Box::new(wires), framed.then_some(HAT), Box::new(Wheels(kind)), polls);
        Scene { rig, chip, commands_end, valid: 30 }
    }

    /// Runs up to `until` ms, with a halt at each of `halts`.
    fn run(&mut self, until: u64, halts: &[u64]) {
        for slot in (0..until).step_by(10) {
            self.rig.stepper.run_until(at(slot));
            if (6_000..self.commands_end).contains(&slot) {
                self.rig.command_for(self.valid, slot, slot);
            }
            if halts.iter().any(|halt| (slot..slot + 10).contains(halt)) {
                self.rig.halt.raise(Cause::EStop, at(slot));
            }
            while self.rig.receipts.pop().is_ok() {}
            while self.rig.readings.pop().is_ok() {}
        }
        self.rig.stepper.run_until(at(until));
    }

    fn moved_last(&self) -> Instant {
        self.chip.lock().unwrap().moved_last(self.rig.clock.now())
    }
}

/// The longest time until the motors have stopped, counted from when a write or a line gets through again:
/// the rest of the call in progress (a transfer that hangs takes 20 ms, a line that fails 100 ms, and one
/// set-up may contain two of either), a pause, and the stop.
fn within(kind: Kind) -> Span {
    if kind == Kind::Disobedient { ms(250) } else { ms(50) }
}

#[test]
fn motors_without_a_line_stop_as_soon_as_their_bus_is_back() {
    for length in [15, 60, 300, 1_200, 3_000, 9_000, 14_000, 23_456] {
        let hangs = (at(6_203), at(6_203 + length), BusFault::TimedOut);
        let mut scene = Scene::new(Kind::Bare, &[hangs], Instant::ZERO, 6_210, 1);
        scene.run(6_203 + length + 8_000, &[]);
        let (back, last) = (hangs.1, scene.moved_last());
        assert!(last >= at(6_203), "the motors ran when the fault began");
        assert!(last <= back + within(Kind::Bare), "{length} ms: moved until {last:?}, back at {back:?}");
        let again = scene.rig.count(|c| &c.stops_again);
        assert!(length < 60 || again > 0, "the repeated stops are counted");
        assert!(again <= 2 + length / 5, "{again} stops in {length} ms");
    }
}

#[test]
fn line_stops_the_motors_at_once_while_the_bus_hangs() {
    for kind in [Kind::Framed, Kind::OutputEnable] {
        // The second fault comes less than 5 s after the first, so the ladder waits before its next step.
        let hangs = |from, until| (at(from), at(until), BusFault::TimedOut);
        let troubles = [hangs(6_203, 6_225), hangs(6_503, 7_100)];
        let mut scene = Scene::new(kind, &troubles, Instant::ZERO, 6_500, 1);
        scene.valid = 1_000; // no command expires; a poll meets the fault first
        scene.run(6_800, &[]);
        let chip = scene.chip.lock().unwrap();
        // The first transfer during the fault is the next poll's; it hangs for 20 ms.
        let last = chip.moved_last(at(6_800));
        assert!(at(6_503) < last && last <= at(6_532), "{kind:?}: {last:?}");
        // Allowed: one transfer that began before the bus was known to be down, and those of the set-ups,
        // which are at least 50 ms apart.
        let transfers = chip.transfers.iter().filter(|word| **word > at(6_503)).count();
        assert!(transfers <= 5, "{kind:?}: {transfers} transfers");
    }
}

#[test]
fn set_up_is_not_a_write_gap_if_a_line_holds_the_motors() {
    for (kind, most) in [(Kind::Framed, ms(25)), (Kind::OutputEnable, ms(25))] {
        let silent = (at(6_203), at(6_303), BusFault::Nack);
        let mut scene = Scene::new(kind, &[silent], Instant::ZERO, 7_000, 1);
        scene.run(7_000, &[]);
        assert!(scene.rig.count(|c| &c.set_ups) > 1, "{kind:?}: it was reset");
        let gap = scene.rig.counters.longest_write_gap();
        assert!(gap <= most, "{kind:?}: {gap:?} from the last command to the line");
    }
}

#[test]
fn stop_arrives_after_a_torn_frame_without_a_line() {
    // A bus that breaks transfers off, a line that fails for a long time, and a halt every 30 ms.
    for seed in 0..60 {
        let broken = (at(6_203), at(6_330), BusFault::Io);
        let mut scene = Scene::new(Kind::Disobedient, &[broken], at(9_000), 6_250, seed);
        let halts: Vec<u64> = (6_200..12_000).step_by(30).collect();
        scene.run(12_000, &halts);
        let chip = scene.chip.lock().unwrap();
        let began = chip.began_last().expect("it drove");
        assert!(began <= at(6_280), "seed {seed}: a stray write drove the motors at {began:?}");
        let last = chip.moved_last(at(12_000));
        assert!(last <= at(6_330) + within(Kind::Disobedient), "seed {seed}: moved until {last:?}");
    }
}

#[test]
fn finish_stops_the_motors_or_reports_that_it_could_not() {
    for (kind, obeys, stands) in [
        (Kind::Framed, true, true),
        (Kind::Disobedient, false, false),
        (Kind::Bare, true, false),
        (Kind::OutputEnable, true, true),
    ] {
        let hangs = (at(6_203), at(60_000), BusFault::TimedOut);
        let clock = Arc::new(SimClock::new());
        let chip = Chip { kind, frame: vec![], held: false, runs: true, changes: vec![], transfers: vec![] };
        let chip = Arc::new(Mutex::new(chip));
        let obeys_from = if obeys { Instant::ZERO } else { Instant::NEVER };
        let (troubles, seed) = (Arc::new(vec![hangs]), 3);
        let mut i2c = Wires { clock: clock.clone(), chip: chip.clone(), troubles, obeys_from, seed, nth: 0 };
        let mut gpio = i2c.clone();
        let (_commands, taken) = triple_buffer(Command::still(2));
        let (receipts, _confirmed) = rtrb::RingBuffer::new(8);
        let halt = HaltWatch::new(Arc::default());
        let end = MotorEnd { actuators: Box::new(Wheels(kind)), commands: taken, receipts, halt };
        let framed = chip.lock().unwrap().framed();
        let (mut motors, _) = motors::Motors::new(end, framed, None);
        clock.set(at(7_000));
        let counters = BusCounters::new("test", []);
        let stopped =
            motors.finish(&mut Ports { i2c: &mut i2c, gpio: &mut gpio, clock: clock.as_ref() }, &counters);
        assert_eq!(stopped, stands, "{kind:?}");
        assert!(!stopped || !chip.lock().unwrap().moves(), "{kind:?}: the report is true");
    }
}

fn troubles() -> impl Strategy<Value = Vec<Trouble>> {
    let kind = prop::sample::select(vec![BusFault::TimedOut, BusFault::Nack, BusFault::Io]);
    let length = prop::sample::select(vec![3_u64, 12, 50, 400, 2_500, 13_000]);
    let one = (6_000_u64..9_000, length, kind);
    let one = one.prop_map(|(from, length, fault)| (at(from), at(from + length), fault));
    prop::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]
    #[test]
    fn motors_stop_as_soon_as_any_write_or_line_gets_through(
        kind in prop::sample::select(vec![
            Kind::Framed, Kind::Disobedient, Kind::Bare, Kind::OutputEnable,
        ]),
        troubles in troubles(),
        disobeys in 0_u64..6_000,
        commands_end in 6_000_u64..9_000,
        halts in prop::collection::vec(6_000_u64..20_000, 0..40),
        seed in any::<u64>(),
    ) {
        let back = troubles.iter().map(|trouble| trouble.1).max().unwrap();
        let obeys_from = if kind == Kind::Disobedient { at(6_000 + disobeys) } else { Instant::ZERO };
        let commands_over = at(commands_end + 30);
        // A working line does not need the bus.
        let free = match kind {
            Kind::Framed | Kind::OutputEnable => commands_over,
            // Without a working line, the stop gets through as soon as the bus is back, even after a torn
            // frame.
            Kind::Disobedient | Kind::Bare => commands_over.max(back),
        };
        let mut scene = Scene::new(kind, &troubles, obeys_from, commands_end, seed);
        scene.run(30_000, &halts);
        let began = scene.chip.lock().unwrap().began_last();
        prop_assert!(began.is_none_or(|began| began <= commands_over), "driven at {began:?} without a command");
        let last = scene.moved_last();
        prop_assert!(last <= free + within(kind), "moved until {last:?}, could stop from {free:?}");
    }
}
