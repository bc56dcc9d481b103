//! A run that is ended by a panic of any thread, in any call, stops its motors, and a transfer that never
//! returns does not keep a run from ending. The run reports the thread, and whether the motors confirmed the
//! stop. The tests use real threads and the simulated robot.

use crate::cli;
use crate::folder::Folder;
use ganglion::base::fault::BusFault;
use ganglion::base::plan::{Board, RtPlan};
use ganglion::base::time::{Clock, Instant, MonotonicClock, SimClock, Span};
use ganglion::deploy::board;
use ganglion::hardware::bus::{Gpio, Hardware, I2c, LineUse, Op, OpenError};
use ganglion::runtime::robot::{Options, Robot, WorkerThread};
use ganglion::runtime::runner::{self, Ending};
use ganglion::sim::Plant;
use ganglion::system::executor::{Rest, Worker};
use ganglion::system::rt::Role;
use ganglion::workshop::learn::parallel;
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// A plan without real-time requests, so that FIFO threads do not starve a busy test machine.
const MODEST: RtPlan = RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false };
/// Commands that are valid for the whole test: only a worker's last call can stop the motors in time.
const FOR_LONG: Span = Span::from_millis(600_000);
/// Longer than any robot here takes to start driving, however busy the machine is.
const AN_HOUR: Span = Span::from_millis(3_600_000);

fn board() -> Board {
    let mut board = board::built_in("sim").unwrap().unwrap().board;
    board.safety.command_valid = FOR_LONG;
    board
}

/// Where a worker of the test fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Step,
    Publish,
    Finish,
}

/// How many more times something fails, once it is armed.
#[derive(Default)]
struct Mine {
    left: AtomicU32,
    lit: AtomicBool,
}

impl Mine {
    fn of(times: u32) -> Arc<Mine> {
        Arc::new(Mine { left: AtomicU32::new(times), lit: AtomicBool::new(false) })
    }
    fn light(&self) {
        self.lit.store(true, Ordering::Release);
    }
    fn tread(&self, what: &str) {
        let less = |left: u32| left.checked_sub(1);
        if self.lit.load(Ordering::Acquire)
            && self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
        {
            panic!("a panic caused by the test: {what}");
        }
    }
}

/// A worker of the robot that panics in one of its calls.
struct Fails {
    worker: Box<dyn Worker>,
    call: Call,
    mine: Arc<Mine>,
}

impl Fails {
    fn tread(&self, call: Call) {
        if call == self.call {
            self.mine.tread(self.worker.name());
        }
    }
}

impl Worker for Fails {
    fn name(&self) -> &'static str {
        self.worker.name()
    }
    fn has_motors(&self) -> bool {
        self.worker.has_motors()
    }
    fn step(&mut self, clock: &dyn Clock) -> Instant {
        self.tread(Call::Step);
        self.worker.step(clock)
    }
    fn publish(&mut self, clock: &dyn Clock) {
        self.tread(Call::Publish);
        self.worker.publish(clock);
    }
    fn finish(&mut self, clock: &dyn Clock) -> bool {
        self.tread(Call::Finish);
        self.worker.finish(clock)
    }
}

/// A clock that panics in the tick's thread.
struct Stumbles(Arc<Mine>);

impl Clock for Stumbles {
    fn now(&self) -> Instant {
        if std::thread::current().name() == Some("tick") {
            self.0.tread("tick");
        }
        MonotonicClock.now()
    }
    fn sleep_until(&self, at: Instant) {
        MonotonicClock.sleep_until(at);
    }
    fn is_real(&self) -> bool {
        true
    }
}

/// A robot in its world, on hardware that the test may wrap.
struct Rig {
    robot: Robot,
    plant: Plant,
    clock: Arc<dyn Clock>,
}

fn rig(clock: Arc<dyn Clock>, around: impl FnOnce(Plant) -> Arc<dyn Hardware>) -> Rig {
    let board = board();
    let plant = Plant::new(&board, 1, &[], clock.clone());
    let hardware = Some(around(plant.clone()));
    let options = Options { seed: 1, hardware, ..Options::default() };
    let robot = Robot::build(&board, clock.clone(), Instant::ZERO, options).unwrap();
    Rig { robot, plant, clock }
}

fn plain() -> Rig {
    rig(Arc::new(MonotonicClock), |plant| Arc::new(plant))
}

impl Rig {
    /// Places `mine` under `call` of the worker `name`, without arming it.
    fn mined(mut self, name: &str, call: Call, mine: &Arc<Mine>) -> Rig {
        let place = self.robot.workers.iter().position(|started| started.worker.name() == name).expect(name);
        let mut started = self.robot.workers.remove(place);
        started.worker = Box::new(Fails { worker: started.worker, call, mine: mine.clone() });
        self.robot.workers.insert(place, started);
        self
    }

    /// Runs the robot until the run ends on its own; `driving` is called after each slot in which the motors
    /// run.
    fn run(self, mut driving: impl FnMut()) -> (Ending, Plant) {
        let Rig { mut robot, plant, clock } = self;
        let first = clock.now() + Span::from_millis(20);
        robot.tick.start_at(first);
        let never = Arc::new(AtomicBool::new(false));
        let ending = runner::run(robot, &clock, first + AN_HOUR, &never, MODEST, |_| {
            if !plant.motors_still() {
                driving();
            }
        });
        (ending.unwrap(), plant)
    }
}

/// Checks that the motors stand still, and stay still: no thread is left that could write.
fn assert_stopped(plant: &Plant) {
    for _ in 0..10 {
        assert!(plant.motors_still());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn panic_of_any_worker_ends_the_run_with_stopped_motors() {
    let cases = [
        ("i2c", Call::Step),
        ("i2c", Call::Publish),
        ("edges", Call::Step),
        ("lines", Call::Publish),
        ("field", Call::Step),
    ];
    parallel::map(5, &cases, |&(name, call)| {
        let mine = Mine::of(1);
        let (ending, plant) = plain().mined(name, call, &mine).run(|| mine.light());
        assert!(plant.motors_still(), "{name}, {call:?}");
        assert_eq!((ending.panicked, ending.rest), (vec![name], Rest::Heard), "{call:?}");
        assert!(ending.hung.is_empty(), "{:?}", ending.hung);
        assert_stopped(&plant);
    });
}

/// The bus panics in the middle of a transfer, then in the transfers of the last call: the last call is
/// retried.
#[test]
fn panic_in_the_last_call_does_not_prevent_the_motor_stop() {
    // The step and two attempts at the last call panic; then the step and all three attempts.
    for (panics, rest) in [(3, Rest::Heard), (4, Rest::Unheard)] {
        let mine = Mine::of(panics);
        let on_transfer = mine.clone();
        let rig = rig_behind(move || on_transfer.tread("a transfer"));
        let (ending, plant) = rig.run(|| mine.light());
        assert_eq!((ending.panicked, ending.rest), (vec!["i2c"], rest));
        assert_eq!(plant.motors_still(), rest == Rest::Heard, "{panics} panics");
    }
}

#[test]
fn a_tick_panic_is_named_and_the_motors_stop() {
    let mine = Mine::of(1);
    let rig = rig(Arc::new(Stumbles(mine.clone())), |plant| Arc::new(plant));
    let (ending, plant) = rig.run(|| mine.light());
    assert!(plant.motors_still());
    assert_eq!((ending.panicked, ending.rest), (vec!["tick"], Rest::Heard));
    assert!(ending.tick.grid().slots_run() > 0, "its figures are in the report");
    assert_stopped(&plant);
}

#[test]
fn watching_threads_panic_resumes_after_motors_and_threads_stop() {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let rig = rig(clock.clone(), |plant| Arc::new(plant));
    let plant = rig.plant.clone();
    let panicked =
        catch_unwind(AssertUnwindSafe(|| rig.run(|| panic!("a panic caused by the test: the watcher"))));
    assert!(panicked.is_err());
    assert!(plant.motors_still());
    // Only this reference and the world's are left: no thread holds one any more.
    assert_eq!(Arc::strong_count(&clock), 2);
    assert_stopped(&plant);
}

/// A gate in front of the bus: while it is shut, a transfer does not return.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    /// A transfer is stuck at the gate.
    stuck: AtomicBool,
}

impl Gate {
    fn shut(&self) {
        *self.shut.lock().unwrap() = true;
    }
    fn open(&self) {
        *self.shut.lock().unwrap() = false;
        self.opened.notify_all();
    }
    fn pass(&self) {
        let shut = self.shut.lock().unwrap();
        self.stuck.store(*shut, Ordering::Release);
        drop(self.opened.wait_while(shut, |shut| *shut).unwrap());
    }
    fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Acquire)
    }
}

/// The simulated robot; calls the function before each transfer.
struct Intercepted(Plant, Arc<dyn Fn() + Send + Sync>);

struct InterceptedI2c(Box<dyn I2c>, Arc<dyn Fn() + Send + Sync>);

impl Hardware for Intercepted {
    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        Ok(Box::new(InterceptedI2c(Hardware::i2c(&self.0, bus)?, self.1.clone())))
    }
    fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        Hardware::gpio(&self.0, owner, lines)
    }
}

impl I2c for InterceptedI2c {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        self.1();
        self.0.transfer(address, ops)
    }
}

/// A robot in real time that calls `before` before each transfer.
fn rig_behind(before: impl Fn() + Send + Sync + 'static) -> Rig {
    let before: Arc<dyn Fn() + Send + Sync> = Arc::new(before);
    rig(Arc::new(MonotonicClock), |plant| -> Arc<dyn Hardware> {
        Arc::new(Intercepted(plant, before.clone()))
    })
}

/// A robot in real time whose transfers go through `gate`.
fn rig_at(gate: &Arc<Gate>) -> Rig {
    let gate = gate.clone();
    rig_behind(move || gate.pass())
}

/// A transfer that never returns; the transfers before it succeed.
#[test]
fn bus_hanging_forever_leaves_the_motor_stop_unconfirmed() {
    let gate = Arc::new(Gate::default());
    let Rig { mut robot, plant, clock } = rig_at(&gate);
    let first = clock.now() + Span::from_millis(20);
    robot.tick.start_at(first);
    let asked = Arc::new(AtomicBool::new(false));
    let ending = runner::run(robot, &clock, first + AN_HOUR, &asked, MODEST, |_| {
        if !plant.motors_still() {
            gate.shut();
            asked.store(true, Ordering::Relaxed);
        }
    });
    let ending = ending.unwrap();
    assert_eq!((ending.hung, ending.rest), (vec!["i2c"], Rest::Unheard));
    assert!(ending.panicked.is_empty());
    gate.open();
}

/// The service manager's watchdog watches this counter. On real wires, a thread that only switches lines
/// starts before the bus thread and has the same role.
#[test]
fn bus_counter_stops_while_the_motors_bus_hangs() {
    /// Slots for which the counter is watched: an idle thread wakes up twenty times in them.
    const WATCHED: u64 = 100;
    struct Idle;
    impl Worker for Idle {
        fn name(&self) -> &'static str {
            "cut"
        }
        fn step(&mut self, _clock: &dyn Clock) -> Instant {
            Instant::NEVER
        }
        fn publish(&mut self, _clock: &dyn Clock) {}
    }
    let gate = Arc::new(Gate::default());
    let Rig { mut robot, plant, clock } = rig_at(&gate);
    let bus = robot.workers.iter().position(|started| started.worker.name() == "i2c").expect("a bus");
    robot
        .workers
        .insert(bus, WorkerThread { worker: Box::new(Idle), waker: Arc::default(), role: Role::Bus });
    let first = clock.now() + Span::from_millis(20);
    robot.tick.start_at(first);
    let loop_status = robot.loop_status.clone();
    let (mut at_the_hang, mut later) = (None, None);
    let asked = Arc::new(AtomicBool::new(false));
    let ending = runner::run(robot, &clock, first + AN_HOUR, &asked, MODEST, |_| {
        let status = loop_status.load();
        if gate.is_stuck() {
            let (slots, _) = *at_the_hang.get_or_insert((status.slots, status.bus));
            if status.slots >= slots + WATCHED && later.is_none() {
                later = Some(status.bus);
                asked.store(true, Ordering::Relaxed);
            }
        } else if !plant.motors_still() {
            gate.shut();
        }
    });
    let (_, hung_at) = at_the_hang.expect("a transfer that hangs");
    assert!(hung_at > 0, "it advanced before");
    assert_eq!(later, Some(hung_at));
    assert_eq!(ending.unwrap().hung, ["i2c"]);
    gate.open();
}

#[test]
fn panic_in_virtual_time_resumes_after_the_workers_last_call() {
    for by_worker in [true, false] {
        let clock = Arc::new(SimClock::new());
        let mine = Mine::of(1);
        let rig = rig(clock.clone(), |plant| Arc::new(plant)).mined("i2c", Call::Step, &mine);
        let Rig { robot, plant, .. } = rig;
        let until = Instant::ZERO + Span::from_millis(60_000);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            runner::step(robot, &clock, until, &AtomicBool::new(false), |_| {
                if !plant.motors_still() {
                    mine.light();
                    assert!(by_worker, "a panic caused by the test: the watcher");
                }
            })
        }));
        assert!(panicked.is_err() && clock.now() < until, "it never drove");
        assert!(plant.motors_still(), "by a worker: {by_worker}");
    }
}

/// A board whose motors no line can stop: only the bus can.
const NO_LINE: &str = r#"
period_ms = 10.0
[bus]
kind = "sim"
speed_hz = 400000
timeout_ms = 5.0
[pca9685]
address = 0x40
hz = 50.0
[[motor]]
name = "left"
kind = "dc-pair"
forward = 13
backward = 2
min_duty = 0.13
slew_per_s = 30.0
[[sensor]]
name = "echo"
kind = "motor-echo"
motor = "left"
unit = "1"
valid = [-1.0, 1.0]
input = { low = -1.0, high = 1.0 }
[field]
engine = "cpu"
grid = 8
patterns = 1
bank = 1
[sim]
room = [4.0, 4.0]
wheelbase = 0.09
track = 0.12
body = [0.25, 0.13]
full_speed = 0.5
battery_v = 7.8
"#;

/// How a run ends if its bus stops answering after one second, and whether the motors confirmed the stop.
fn dead_at_its_end(board: &str) -> (Option<i32>, String, Value) {
    let arguments =
        ["run", "--board", board, "--for", "3s", "--clock", "sim", "--fault", "i2c-nack@1+60", "--json"];
    let run = cli::output(&arguments);
    let object: Value = serde_json::from_str(cli::out(&run).lines().last().expect("a line")).expect("JSON");
    assert_eq!(object["panicked"], Value::Array(Vec::new()));
    (run.status.code(), cli::err(&run), object["stop_heard"].clone())
}

#[test]
fn silent_bus_at_the_end_exits_69_unless_a_line_holds_motors() {
    let folder = Folder::new("no-line");
    let (code, said, heard) = dead_at_its_end(&folder.write("board.toml", NO_LINE));
    assert_eq!((code, &heard), (Some(69), &false.into()), "{said}");
    assert!(said.contains("cut their power"), "{said}");
    let (code, said, heard) = dead_at_its_end("sim");
    assert_eq!((code, &heard), (Some(0), &true.into()), "its reset line holds the controller: {said}");
}

/// If a panic waited for a reader of standard error, the panicking thread would hang, and could not stop its
/// motors.
#[test]
fn a_panic_does_not_wait_for_its_message_to_be_read() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).expect("flags");
    while rustix::io::write(&writer, &[b'.'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).expect("flags");
    let arguments = ["run", "--for", "3s", "--fault", "field-panic@1+0.3", "--json"];
    let run = cli::ganglion(&arguments).stderr(writer).output().expect("it starts");
    drop(reader);
    assert_eq!(run.status.code(), Some(0));
    let object: Value = serde_json::from_str(cli::out(&run).lines().last().expect("a line")).expect("JSON");
    assert!(object["field"]["unanswered"].as_u64().is_some_and(|cycles| cycles > 0), "it never panicked");
    assert_eq!(object["hung"], Value::Array(Vec::new()));
}
