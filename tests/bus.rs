//! Several buses, and stop commands that overtake all other transfers: complete simulated robots, as the
//! builder makes them, in virtual time.

use crate::allocation::allocations_in;
use ganglion::base::fault::BusFault;
use ganglion::base::plan::{
    Board, Cause, ChipSensor, GuardHold, I2cPlan, ImuQuantity, Line, Restraint, SensorKind, SensorPlan, Trip,
};
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::deploy::board;
use ganglion::drive::io::RecoveryStep;
use ganglion::hardware::bus::{Absent, Bias, Gpio, Hardware, I2c, LineUse, Op, OpenError, Usage};
use ganglion::runtime::guard::{GuardedHardware, Hold, Link};
use ganglion::runtime::robot::{BuildError, Options, Robot};
use ganglion::runtime::runner;
use ganglion::sim::{Fault, Plant};
use ganglion::system::executor::{Stepper, Worker};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// The desk robot with its tilt sensor on a second bus.
fn two_buses() -> Board {
    let mut board = board::built_in("sim-sonar").expect("built in").expect("sound").board;
    board.i2c.push(I2cPlan { name: "second".into(), ..board.i2c[0].clone() });
    for sensor in &mut board.sensors {
        if matches!(sensor.kind, SensorKind::Chip(ChipSensor::FloatRegister { .. })) {
            sensor.bus = 1;
        }
    }
    board
}

fn options(faults: &[&str]) -> Options {
    let faults = faults.iter().map(|text| Fault::parse(text).expect("a fault")).collect();
    Options { seed: 3, faults, ..Options::default() }
}

/// A robot in virtual time that the test steps.
struct Rig {
    clock: Arc<SimClock>,
    robot: Robot,
    stepper: Stepper,
    plant: Plant,
}

impl Rig {
    fn new(board: &Board, faults: &[&str]) -> Rig {
        let clock = Arc::new(SimClock::new());
        let first = Instant::ZERO + board.period;
        let mut robot =
            Robot::build(board, clock.clone(), first, options(faults)).expect("the robot can be built");
        let mut stepper = Stepper::new(clock.clone());
        for started in robot.workers.drain(..) {
            stepper.add(started.worker, started.waker, Instant::ZERO);
        }
        let plant = robot.plant.clone().expect("a world");
        Rig { clock, robot, stepper, plant }
    }

    /// Runs slots up to `until`; `watch` is called between them.
    fn drive(&mut self, until: Instant, mut watch: impl FnMut(&Plant, Instant)) {
        while self.robot.tick.slot() <= until {
            self.stepper.run_until(self.robot.tick.slot());
            self.robot.tick.run();
            while self.robot.records.pop().is_ok() {}
            watch(&self.plant, self.clock.now());
        }
    }
}

#[test]
fn a_second_bus_that_hangs_stalls_only_itself() {
    let board = two_buses();
    let mut rig = Rig::new(&board, &["i2c-1-stuck@4+60"]);
    rig.drive(Instant::ZERO + ms(3_900), |_, _| ());
    let buses = rig.robot.buses.clone();
    let written = || buses[0].written.load(Ordering::Relaxed);
    let (before, polls) = (written(), buses[0].devices[0].polls.load(Ordering::Relaxed));
    rig.drive(Instant::ZERO + ms(13_900), |_, _| ());
    assert!(written() - before >= 990, "one command per slot: {}", written() - before);
    let polled = buses[0].devices[0].polls.load(Ordering::Relaxed) - polls;
    assert!((495..=505).contains(&polled), "every 20 ms as before: {polled}");
    assert_eq!(buses[0].failures.load(Ordering::Relaxed), 0);
    assert!(buses[1].taken(RecoveryStep::Dead) > 0, "the other bus is declared dead");
    assert!(buses[1].failures.load(Ordering::Relaxed) < 40, "and is retried rarely");
    assert!(rig.plant.motors_still(), "`lean` is required: without it the robot does not drive");
    assert_eq!(rig.plant.report(rig.clock.now()).contacts.all(), 0);
}

#[test]
fn a_second_bus_comes_back_and_the_robot_drives_on() {
    let board = two_buses();
    let mut rig = Rig::new(&board, &["i2c-1-stuck@4+1"]);
    let mut drove = 0;
    rig.drive(Instant::ZERO + ms(13_000), |plant, now| {
        drove += u32::from(now > Instant::ZERO + ms(10_000) && !plant.motors_still());
    });
    assert!(drove > 100, "{drove} of 300 slots");
}

#[test]
fn button_stops_the_motors_before_the_tick_reads_it() {
    // Pressed 4.3 ms after a slot: the tick would see it 5.7 ms later.
    let mut rig = Rig::new(&two_buses(), &["estop@6.0043+60"]);
    let pressed = rig.plant.zero() + Span::from_micros(6_004_300);
    let mut driving = false;
    rig.drive(Instant::ZERO + ms(6_000), |plant, _| driving = !plant.motors_still());
    assert!(driving, "with this seed the robot is driving at that moment");
    // Long enough at 100 kHz for a poll that is on the wire (0.8 ms) and both stop frames (0.8 ms).
    rig.stepper.run_until(pressed + Span::from_micros(1_700));
    assert!(rig.plant.motors_still());
    assert_eq!(rig.robot.halt.counts().collect::<Vec<_>>(), [(Cause::EStop, 1)]);
    assert_eq!(rig.robot.buses[0].halts.load(Ordering::Relaxed), 1);
    assert_eq!(rig.robot.senses.edges_lost.load(Ordering::Relaxed), 0);
    rig.drive(Instant::ZERO + ms(9_000), |plant, _| assert!(plant.motors_still(), "the tick keeps them off"));
}

#[test]
fn robots_with_several_buses_are_deterministic() {
    let board = two_buses();
    let digest = || {
        let clock = Arc::new(SimClock::new());
        let first = Instant::ZERO + board.period;
        let robot = Robot::build(&board, clock.clone(), first, options(&["estop@3+1", "i2c-1-stuck@1+1"]));
        let robot = robot.expect("the robot can be built");
        let ending = runner::step(robot, &clock, first + ms(5_000), &AtomicBool::new(false), |_| ());
        ending.recorder.digest()
    };
    assert_eq!(digest(), digest());
}

/// Counts the allocations in a worker's `step` and `publish`, from `after` on, when it has settled.
struct Weighed {
    worker: Box<dyn Worker>,
    sum: Arc<AtomicU64>,
    after: Instant,
}

impl Worker for Weighed {
    fn name(&self) -> &'static str {
        self.worker.name()
    }
    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let (settled, mut next) = (clock.now() > self.after, Instant::NEVER);
        let allocations = allocations_in(|| next = self.worker.step(clock));
        self.sum.fetch_add(if settled { allocations } else { 0 }, Ordering::Relaxed);
        next
    }
    fn publish(&mut self, clock: &dyn Clock) {
        let allocations = allocations_in(|| self.worker.publish(clock));
        self.sum.fetch_add(if clock.now() > self.after { allocations } else { 0 }, Ordering::Relaxed);
    }
    fn finish(&mut self, clock: &dyn Clock) -> bool {
        self.worker.finish(clock)
    }
}

#[test]
fn no_bus_thread_allocates_with_or_without_faults() {
    let board = two_buses();
    let clock = Arc::new(SimClock::new());
    let first = Instant::ZERO + board.period;
    // Halts, lost devices, recovery on two buses: none of it allocates.
    let faults = ["estop@3+0.5", "i2c-nack@4+1", "i2c-1-stuck@6+2", "i2c-stuck@9+2"];
    let mut robot =
        Robot::build(&board, clock.clone(), first, options(&faults)).expect("the robot can be built");
    let sum = Arc::default();
    let mut stepper = Stepper::new(clock.clone());
    let mut weighed = Vec::new();
    for started in robot.workers.drain(..) {
        let name = started.worker.name();
        if name == "field" {
            stepper.add(started.worker, started.waker, Instant::ZERO);
            continue;
        }
        weighed.push(name);
        let after = Instant::ZERO + ms(1_000);
        let worker = Weighed { worker: started.worker, sum: Arc::clone(&sum), after };
        stepper.add(Box::new(worker), started.waker, Instant::ZERO);
    }
    assert_eq!(weighed, ["i2c", "i2c-1", "edges", "lines"]);
    while robot.tick.slot() < Instant::ZERO + ms(14_000) {
        stepper.run_until(robot.tick.slot());
        robot.tick.run();
        while robot.records.pop().is_ok() {}
    }
    assert_eq!(sum.load(Ordering::Relaxed), 0);
    assert!(robot.buses.iter().all(|bus| bus.taken(RecoveryStep::Reset) > 1), "there were enough faults");
}

#[test]
fn a_handle_gets_only_the_edges_of_its_lines() {
    let clock = Arc::new(SimClock::new());
    let board = two_buses();
    let plant = Plant::new(&board, 1, &[Fault::parse("estop@0.001+1").unwrap()], clock.clone());
    let hardware: &dyn Hardware = &plant;
    let watched = |line| LineUse { line, usage: Usage::Watched { bias: Bias::AsIs, debounce: Span::ZERO } };
    let trig = LineUse { line: Line(27), usage: Usage::Output { high: false } };
    let mut sonar = hardware.gpio("edges", &[trig, watched(Line(22))]).expect("a sonar");
    let mut button = hardware.gpio("lines", &[watched(Line(25))]).expect("a button");
    sonar.set(Line(27), true).unwrap();
    clock.sleep_until(clock.now() + Span::from_micros(10));
    sonar.set(Line(27), false).unwrap();
    let edges = |gpio: &mut dyn Gpio| {
        let mut edges = Vec::new();
        while let Some(edge) = gpio.next_edge(ms(60)).expect("no fault") {
            edges.push((edge.line.0, edge.high));
        }
        edges
    };
    let start = clock.now();
    assert_eq!(edges(sonar.as_mut()), [(22, true), (22, false)]);
    clock.set(start);
    assert_eq!(button.next_edge(ms(60)).unwrap().map(|edge| (edge.line.0, edge.high)), Some((25, false)));
    assert_eq!(clock.now(), plant.zero() + ms(1), "the edge arrives at the time of the press");
    clock.set(plant.zero() + ms(990));
    assert_eq!(edges(button.as_mut()), [(25, true)], "released a second later");
}

#[test]
fn missing_hardware_is_named_and_real_boards_need_some() {
    let clock = Arc::new(SimClock::new());
    let board = two_buses();
    let plant = Plant::new(&board, 1, &[], clock.clone());
    let hardware: &dyn Hardware = &plant;
    assert!(hardware.i2c(1).is_ok());
    assert!(hardware.i2c(2).is_err_and(|error| error.what.contains("bus 2")));
    let none = LineUse { line: Line(99), usage: Usage::Input { bias: Bias::AsIs } };
    assert!(hardware.gpio("test", &[none]).is_err_and(|error| error.what.contains("99")));

    let real = board::built_in("picarx-v4").expect("built in").expect("sound").board;
    let build = |hardware| {
        let options = Options { hardware, ..Options::default() };
        Robot::build(&real, clock.clone(), Instant::ZERO, options).map(drop)
    };
    assert!(matches!(build(None), Err(BuildError::NoBus { .. })));
    struct Nothing;
    impl Hardware for Nothing {
        fn i2c(&self, _: usize) -> Result<Box<dyn I2c>, OpenError> {
            Err(OpenError {
                what: "/dev/i2c-1".into(),
                why: "no such file".into(),
                fix: "enable it".into(),
                denied: false,
            })
        }
        fn gpio(&self, _: &'static str, _: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
            Err(OpenError { what: "gpio".into(), why: "none".into(), fix: "none".into(), denied: false })
        }
    }
    let refused = build(Some(Arc::new(Nothing)));
    assert!(matches!(refused, Err(BuildError::Wires(OpenError { what, .. })) if what == "/dev/i2c-1"));
    // The same board on hardware that answers: the simulated car.
    let plant = Plant::new(&real, 1, &[], clock.clone());
    assert!(build(Some(Arc::new(plant))).is_ok());
}

#[test]
fn ready_lines_watch_rising_edges_and_buttons_both() {
    #[derive(Default)]
    struct Noted(Mutex<Vec<(&'static str, LineUse)>>);
    impl Hardware for Noted {
        fn i2c(&self, _: usize) -> Result<Box<dyn I2c>, OpenError> {
            Ok(Box::new(Absent))
        }
        fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
            self.0.lock().unwrap().extend(lines.iter().map(|line| (owner, *line)));
            Ok(Box::new(Absent))
        }
    }
    let board = board::built_in("virtual-bench").expect("built in").expect("sound").board;
    let noted = Arc::new(Noted::default());
    let hardware = Some(noted.clone() as Arc<dyn Hardware>);
    let options = Options { hardware, ..Options::default() };
    assert!(Robot::build(&board, Arc::new(SimClock::new()), Instant::ZERO, options).is_ok());
    let noted = noted.0.lock().unwrap();
    let asked = |line| noted.iter().find(|(owner, one)| *owner == "lines" && one.line == line);
    let ready = asked(Line(10)).map(|one| one.1.usage);
    assert_eq!(
        ready,
        Some(Usage::Rising { bias: Bias::AsIs }),
        "rising only: half as many interrupts, and no rising edge is reported as falling"
    );
    let buttons = noted.iter().filter(|(owner, one)| *owner == "lines" && one.line != Line(10));
    assert!(buttons.clone().count() > 0);
    assert!(buttons.clone().all(|(_, one)| matches!(one.usage, Usage::Watched { .. })), "{buttons:?}");
}

#[test]
fn overlong_bus_names_are_refused() {
    let mut board = two_buses();
    let spare = board.i2c[1].clone();
    board.i2c.resize(20, spare);
    let refused = Robot::build(&board, Arc::new(SimClock::new()), Instant::ZERO, options(&[])).map(drop);
    assert!(matches!(refused, Err(BuildError::Misfit { what }) if what.contains("buses")));
}

#[test]
fn equal_addresses_on_two_buses_are_two_chips() {
    let mut board = two_buses();
    let lean = board.sensors.iter().position(|sensor| sensor.bus == 1).expect("the lean");
    let twin = SensorPlan { name: "twin".into(), bus: 0, required: false, ..board.sensors[lean].clone() };
    board.sensors.push(twin);
    let clock = Arc::new(SimClock::new());
    let plant = Plant::new(&board, 1, &[Fault::parse("i2c-1-stuck@0").unwrap()], clock.clone());
    let hardware: &dyn Hardware = &plant;
    let mut back = [0; 4];
    assert_eq!(hardware.i2c(0).unwrap().write_read(0x60, &[0], &mut back), Ok(()));
    assert_eq!(hardware.i2c(1).unwrap().write_read(0x60, &[0], &mut back), Err(BusFault::TimedOut));
}

#[test]
fn an_external_halt_stops_the_motors() {
    // A halt that no reading caused, such as one that a control socket or a guard requests.
    let mut rig = Rig::new(&two_buses(), &[]);
    rig.drive(Instant::ZERO + ms(6_000), |_, _| ());
    assert!(!rig.plant.motors_still());
    rig.robot.halt.raise(Cause::EStop, rig.clock.now());
    rig.stepper.run_until(rig.clock.now() + ms(3));
    assert!(rig.plant.motors_still());
}

const IMU: u8 = 0x68;

/// The desk robot with an inertial sensor on the motors' bus.
fn with_imu() -> Board {
    let mut board = board::built_in("sim").expect("built in").expect("sound").board;
    let lean = board
        .sensors
        .iter()
        .find(|sensor| matches!(sensor.kind, SensorKind::Chip(ChipSensor::FloatRegister { .. })));
    let kind =
        SensorKind::Chip(ChipSensor::Mpu6050 { address: IMU, quantity: ImuQuantity::Roll, ready: None });
    let lean = lean.expect("the lean").clone();
    board.sensors.push(SensorPlan { name: "roll".into(), kind, required: false, input: None, ..lean });
    board
}

/// Simulated hardware whose inertial sensor does not acknowledge its next `misses` transfers.
struct Moody {
    plant: Plant,
    clock: Arc<SimClock>,
    misses: Arc<AtomicU64>,
}

struct MoodyI2c(Box<dyn I2c>, Arc<SimClock>, Arc<AtomicU64>);

impl I2c for MoodyI2c {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let left = self.2.load(Ordering::Relaxed);
        if address != IMU || left == 0 {
            return self.0.transfer(address, ops);
        }
        self.2.store(left - 1, Ordering::Relaxed);
        self.1.sleep_until(self.1.now() + Span::from_micros(110));
        Err(BusFault::Nack)
    }
}

impl Hardware for Moody {
    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        Ok(Box::new(MoodyI2c(Hardware::i2c(&self.plant, bus)?, self.clock.clone(), self.misses.clone())))
    }
    fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        Hardware::gpio(&self.plant, owner, lines)
    }
}

#[test]
fn sensor_set_up_again_does_not_delay_motors_on_its_bus() {
    let board = with_imu();
    let (clock, misses) = (Arc::new(SimClock::new()), Arc::new(AtomicU64::new(0)));
    let plant = Plant::new(&board, 3, &[], clock.clone());
    let hardware = Moody { plant: plant.clone(), clock: clock.clone(), misses: misses.clone() };
    let hardware = Some(Arc::new(hardware) as Arc<dyn Hardware>);
    let options = Options { seed: 3, hardware, ..Options::default() };
    let mut robot =
        Robot::build(&board, clock.clone(), Instant::ZERO + board.period, options).expect("built");
    let mut stepper = Stepper::new(clock.clone());
    for started in robot.workers.drain(..) {
        stepper.add(started.worker, started.waker, Instant::ZERO);
    }
    let bus = robot.buses[0].clone();
    let device = bus.devices.iter().find(|device| device.name.contains("roll")).expect("the sensor");
    let (mut drove, mut written, mut since, mut longest) = (0, 0, Instant::ZERO, Span::ZERO);
    while robot.tick.slot() < Instant::ZERO + ms(9_000) {
        stepper.run_until(robot.tick.slot());
        robot.tick.run();
        while robot.records.pop().is_ok() {}
        let now = clock.now();
        // From t = 4 s on, the sensor misses three transfers every half second: one transfer and its retries.
        if now >= Instant::ZERO + ms(4_000) && now.as_nanos() / 10_000_000 % 50 == 0 {
            misses.store(3, Ordering::Relaxed);
        }
        let words = bus.written.load(Ordering::Relaxed);
        if words != written || now < Instant::ZERO + ms(3_500) {
            (written, since) = (words, now);
        }
        longest = longest.max(now.since(since));
        drove += u32::from(now > Instant::ZERO + ms(4_000) && !plant.motors_still());
    }
    let set_ups = device.set_ups.load(Ordering::Relaxed);
    assert!(set_ups >= 8, "the sensor was set up {set_ups} times");
    assert!(drove > 250, "and the robot drove in {drove} of 500 slots");
    assert!(longest <= board.safety.command_valid, "{longest:?} without a write");
    assert_eq!(bus.expired.load(Ordering::Relaxed), 0, "no command expired");
    assert_eq!(bus.taken(RecoveryStep::Reset), 1);
}

#[test]
fn a_near_echo_halts_the_robot_before_the_tick() {
    let mut board = two_buses();
    let mut rules = 0;
    for rule in board.reflexes.iter_mut().filter(|rule| rule.cause == Cause::Obstacle) {
        if let (Restraint::NoForward, Trip::Below(_)) = (rule.restraint, rule.trip) {
            (rule.trip, rule.clear) = (Trip::Below(3.9), 3.95); // nearly its whole range is too near
            rules += 1;
        }
    }
    assert_eq!(rules, 1);
    let mut rig = Rig::new(&board, &[]);
    rig.drive(Instant::ZERO + ms(500), |_, _| ());
    assert_eq!(rig.robot.halt.counts().collect::<Vec<_>>(), [(Cause::Obstacle, 1)]);
}

/// A simulated robot whose kernel has dropped seven edges.
struct Overrun(Plant);

impl Hardware for Overrun {
    fn edge_overruns(&self) -> Arc<AtomicU64> {
        Arc::new(AtomicU64::new(7))
    }
    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        Hardware::i2c(&self.0, bus)
    }
    fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        Hardware::gpio(&self.0, owner, lines)
    }
}

#[test]
fn edges_dropped_by_the_kernel_are_counted_also_behind_a_guard() {
    let board = board::built_in("sim").unwrap().unwrap().board;
    let clock = Arc::new(SimClock::new());
    let bare = Arc::new(Overrun(Plant::new(&board, 1, &[], clock.clone())));
    let (link, hold) =
        (Link::new(true).unwrap(), Hold { kind: GuardHold::Enable, line: Line(6), on_high: true });
    let guarded = Arc::new(GuardedHardware::new(bare.clone(), link, hold, clock.clone()));
    for hardware in [bare as Arc<dyn Hardware>, guarded] {
        let options = Options { hardware: Some(hardware), ..Options::default() };
        let robot =
            Robot::build(&board, clock.clone(), Instant::ZERO + board.period, options).expect("built");
        assert_eq!(robot.senses.edge_overruns.load(Ordering::Relaxed), 7);
    }
}
