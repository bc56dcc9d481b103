//! A guard in this process: real sockets, real time, a line that records every level.

use crate::folder::Folder;
use ganglion::base::fault::BusFault;
use ganglion::base::plan::{GuardHold, Line, RtPlan};
use ganglion::base::time::{Clock, Instant, MonotonicClock, Span};
use ganglion::hardware::bus::{Edge, Gpio, Hardware, I2c, LineUse, OpenError, Usage};
use ganglion::runtime::guard::frame::{Ask, GuardAnswer, GuardRefusal, LENGTH, Phase, Reason, Request};
use ganglion::runtime::guard::socket::ask_once;
use ganglion::runtime::guard::{
    Guard, GuardHealth, GuardedHardware, Heartbeat, HeartbeatPlan, HeldLine, Hold, Link, Server,
};
use ganglion::runtime::loop_status::LoopStatusCell;
use ganglion::runtime::requests::Requests;
use ganglion::system::seqpacket::{Received, connect_to, listen_at, receive, send_to, wait_for};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

const BOARD: [u8; 32] = [9; 32];
const HELLO: Ask = Ask::Hello { board: BOARD, acknowledged: 0 };
const STOP: Ask = Ask::Trip { lasting: true };
const HOLD: Hold = Hold { line: Line(11), on_high: true, kind: GuardHold::Enable };
/// Long enough for a loaded machine, short enough to wait for.
const TIMEOUT: Span = Span::from_millis(400);
/// For tests in which nothing may time out, so that no event can be caused by a timeout.
const LONG: Span = Span::from_millis(600_000);
/// How long a test waits for an event that must come.
const SOON: Span = Span::from_millis(20_000);

/// Levels that a line was driven to, in order.
type Levels = Arc<Mutex<Vec<bool>>>;

struct Remembers(Levels);

impl Gpio for Remembers {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        assert_eq!(line, HOLD.line);
        self.0.lock().unwrap().push(high);
        Ok(())
    }
    fn get(&mut self, _line: Line) -> Result<bool, BusFault> {
        Ok(self.0.lock().unwrap().last().copied().unwrap_or(false))
    }
    fn next_edge(&mut self, _wait: Span) -> Result<Option<Edge>, BusFault> {
        Ok(None)
    }
}

/// A guard that runs on a thread.
struct Stand {
    folder: Arc<Folder>,
    socket: PathBuf,
    levels: Levels,
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Stand {
    fn begin(timeout: Span) -> Stand {
        Stand::inside(Arc::new(Folder::new("post")), timeout)
    }

    fn inside(folder: Arc<Folder>, timeout: Span) -> Stand {
        Stand::after(folder, timeout, |_| ())
    }

    /// A guard that starts after `before`, which may already connect to its socket.
    fn after(folder: Arc<Folder>, timeout: Span, before: impl FnOnce(&Path)) -> Stand {
        let socket = folder.join("guard");
        let levels = Levels::default();
        let (place, listener) = listen_at(&socket).unwrap();
        before(&socket);
        let (end, ended) = UnixStream::pair().unwrap();
        let line = HeldLine::take(Box::new(Remembers(levels.clone())), HOLD).unwrap();
        let guard = Guard::new(&HOLD, timeout, BOARD);
        let thread = std::thread::spawn(move || {
            Server::new(guard, line, listener, ended.into(), Arc::new(MonotonicClock)).serve(|_| ());
            drop(place);
        });
        Stand { folder, socket, levels, end: Some(end), thread: Some(thread) }
    }

    fn levels(&self) -> Vec<bool> {
        self.levels.lock().unwrap().clone()
    }

    fn end(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    fn phase(&self) -> Phase {
        ask_once(&self.socket, Ask::Status, SOON).unwrap().status.phase
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until `holds`, or fails.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = MonotonicClock.now() + SOON;
    while !holds() {
        assert!(MonotonicClock.now() < until, "{what}: not within {} s", SOON.as_secs_f64());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// A runtime's end of the connection, driven by the test.
struct Talk {
    connection: OwnedFd,
    sequence: u64,
}

impl Talk {
    fn with(stand: &Stand) -> Talk {
        Talk::at(&stand.socket)
    }

    fn at(socket: &Path) -> Talk {
        Talk { connection: connect_to(socket).unwrap(), sequence: 0 }
    }

    /// Sends a request stamped `stamp` and receives the answer; `None`: the guard closed the connection.
    fn ask_at(&mut self, ask: Ask, stamp: Instant) -> Option<GuardAnswer> {
        self.send(ask, stamp);
        self.answer()
    }

    fn send(&mut self, ask: Ask, stamp: Instant) {
        self.sequence += 1;
        assert!(send_to(&self.connection, &Request { sequence: self.sequence, stamp, ask }.encode()));
    }

    fn answer(&mut self) -> Option<GuardAnswer> {
        let mut bytes = [0; LENGTH];
        loop {
            match receive(&self.connection, &mut bytes) {
                Received::Nothing => _ = wait_for(&[&self.connection], SOON),
                Received::Closed => return None,
                Received::Message(length) => {
                    let answer = GuardAnswer::decode(&bytes[..length]).unwrap();
                    assert_eq!(answer.sequence, self.sequence);
                    return Some(answer);
                }
            }
        }
    }

    fn ask(&mut self, ask: Ask) -> GuardAnswer {
        self.ask_at(ask, MonotonicClock.now()).unwrap()
    }

    fn drive(&mut self) {
        for ask in [HELLO, Ask::Permit, Ask::Set { on: true }] {
            assert_eq!(self.ask(ask).refused, None, "{ask:?}");
        }
    }
}

#[test]
fn the_line_is_on_only_while_the_runtime_is_trusted() {
    let mut stand = Stand::begin(LONG);
    assert_eq!(stand.levels(), [false]);
    let mut talk = Talk::with(&stand);
    talk.drive();
    assert_eq!(stand.levels(), [false, true]);
    assert!(talk.ask(Ask::Heartbeat { advanced: true }).status.line_on);
    stand.end();
    assert_eq!(stand.levels()[..3], [false, true, false]);
    assert_eq!(stand.levels().last(), Some(&false));
}

#[test]
fn closed_connection_cuts_the_line_without_waiting() {
    let stand = Stand::begin(LONG);
    let mut talk = Talk::with(&stand);
    talk.drive();
    drop(talk);
    soon("off", || stand.levels() == [false, true, false]);
    assert_eq!(stand.phase(), Phase::Tripped(Reason::Closed));
}

#[test]
fn silence_or_stale_heartbeats_cut_the_line() {
    let stand = Stand::begin(TIMEOUT);
    let mut talk = Talk::with(&stand);
    talk.drive();
    soon("off", || stand.levels() == [false, true, false]);
    assert_eq!(stand.phase(), Phase::Tripped(Reason::Silent));
    let began = MonotonicClock.now();
    talk.drive();
    // Heartbeats with the same stamp count only once.
    soon("off", || {
        talk.ask_at(Ask::Heartbeat { advanced: true }, began);
        stand.levels() == [false, true, false, true, false]
    });
    assert!(MonotonicClock.now().since(began) >= TIMEOUT);
}

#[test]
fn foreign_runtimes_are_rejected_and_change_nothing() {
    let stand = Stand::begin(LONG);
    let mut talk = Talk::with(&stand);
    talk.drive();
    for nonsense in [&b"hello"[..], &[0; LENGTH], &[0xFF; LENGTH + 1]] {
        let other = connect_to(&stand.socket).unwrap();
        assert!(send_to(&other, nonsense));
        wait_for(&[&other], SOON);
        assert_eq!(receive(&other, &mut [0; 8]), Received::Closed);
        assert!(talk.ask(Ask::Heartbeat { advanced: true }).status.line_on);
    }
    let mut other = Talk::with(&stand);
    assert_eq!(
        other.ask(Ask::Hello { board: [1; 32], acknowledged: 0 }).refused,
        Some(GuardRefusal::OtherBoard)
    );
    assert_eq!(other.ask(HELLO).refused, Some(GuardRefusal::Busy));
    assert_eq!(other.ask(Ask::Set { on: true }).refused, Some(GuardRefusal::NotTrusted));
    // More idle callers than client slots do not displace the runtime.
    let crowd: Vec<OwnedFd> = (0..12).filter_map(|_| connect_to(&stand.socket).ok()).collect();
    soon("answered in a crowd", || ask_once(&stand.socket, Ask::Status, SOON).is_ok());
    assert!(talk.ask(Ask::Heartbeat { advanced: true }).status.line_on);
    drop(crowd);
}

#[test]
fn any_caller_may_cut_the_line_and_only_the_runtime_restores_it() {
    let stand = Stand::begin(LONG);
    let mut talk = Talk::with(&stand);
    talk.drive();
    let answer = ask_once(&stand.socket, STOP, SOON).unwrap();
    assert_eq!((answer.refused, answer.status.phase), (None, Phase::Tripped(Reason::Asked)));
    assert!(!answer.status.line_on, "the line is off before the answer is sent");
    assert_eq!(talk.ask(Ask::Set { on: true }).refused, Some(GuardRefusal::NotTrusted));
    let acknowledged = answer.status.stop;
    for ask in [Ask::Hello { board: BOARD, acknowledged }, Ask::Permit, Ask::Set { on: true }] {
        assert_eq!(talk.ask(ask).refused, None, "{ask:?}");
    }
    assert_eq!(stand.levels(), [false, true, false, true]);
}

/// Five connections wait, one more than the guard has places for, and each has sent its request.
#[test]
fn each_request_of_a_full_queue_is_answered() {
    let mut talks = Vec::new();
    let folder = Arc::new(Folder::new("post"));
    let stand = Stand::after(folder, LONG, |socket| {
        for ask in [STOP, Ask::Status, Ask::Status, Ask::Status, Ask::Status] {
            let mut talk = Talk::at(socket);
            talk.send(ask, MonotonicClock.now());
            talks.push(talk);
        }
    });
    for (nth, talk) in talks.iter_mut().enumerate() {
        let answer = talk.answer().unwrap_or_else(|| panic!("caller {nth} is not answered"));
        assert_eq!(answer.refused, None, "caller {nth}");
        assert_ne!(answer.status.stop, 0, "caller {nth}: the stop was the first request");
    }
    assert_ne!(ask_once(&stand.socket, Ask::Status, SOON).unwrap().status.stop, 0);
}

/// Callers that connect as fast as they can, and send nothing.
struct Flood {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Flood {
    /// Threads that connect; more than there are cores on a small machine.
    const THREADS: usize = 4;

    fn onto(socket: &Path) -> Flood {
        let over = Arc::new(AtomicBool::new(false));
        let connect = |_| {
            let (over, socket) = (over.clone(), socket.to_path_buf());
            std::thread::spawn(move || {
                let mut connected = 0;
                while !over.load(Ordering::Relaxed) {
                    connected += u64::from(connect_to(&socket).is_ok());
                }
                connected
            })
        };
        Flood { threads: (0..Flood::THREADS).map(connect).collect(), over }
    }

    /// Ends the flood, and returns how many connections it made.
    fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    }
}

#[test]
fn a_flood_of_callers_delays_neither_a_cut_nor_a_stop() {
    let stand = Stand::begin(TIMEOUT);
    let mut talk = Talk::with(&stand);
    talk.drive();
    let flood = Flood::onto(&stand.socket);
    soon("off", || stand.levels() == [false, true, false]);
    assert_eq!(talk.ask(Ask::Status).status.phase, Phase::Tripped(Reason::Silent));
    let stopped = ask_once(&stand.socket, STOP, SOON).unwrap();
    assert_eq!((stopped.refused, stopped.status.phase), (None, Phase::Tripped(Reason::Asked)));
    assert!(flood.end() > 0);
}

#[test]
fn a_stop_lasts_until_a_runtime_has_disarmed() {
    let stand = Stand::begin(TIMEOUT);
    let mut talk = Talk::with(&stand);
    talk.drive();
    soon("silent", || stand.phase() == Phase::Tripped(Reason::Silent));
    // The line is off already: the stop applies to later attempts to switch it on.
    assert!(ask_once(&stand.socket, STOP, SOON).unwrap().refused.is_none());
    for _ in 0..3 {
        let answer = talk.ask(HELLO);
        assert_eq!(answer.refused, Some(GuardRefusal::Stopped));
        assert_eq!(answer.status.phase, Phase::Tripped(Reason::Asked));
        assert_eq!(talk.ask(Ask::Permit).refused, Some(GuardRefusal::NotTrusted));
        talk = Talk::with(&stand); // stands for another process, after the first has ended
        soon("let in", || talk.ask(HELLO).refused != Some(GuardRefusal::Busy));
    }
    let acknowledged = talk.ask(Ask::Status).status.stop;
    for ask in [Ask::Hello { board: BOARD, acknowledged }, Ask::Permit, Ask::Set { on: true }] {
        assert_eq!(talk.ask(ask).refused, None, "{ask:?}");
    }
    assert_eq!(stand.levels()[..4], [false, true, false, true]);
}

/// Hardware with the guard's line and another one. It must never be asked for the guard's line.
struct Bare(Levels);

impl Hardware for Bare {
    fn i2c(&self, _bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        Err(OpenError { what: "i2c".into(), why: "none here".into(), fix: String::new(), denied: false })
    }
    fn gpio(&self, _owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        assert!(lines.iter().all(|used| used.line != HOLD.line), "the guard holds that one");
        Ok(Box::new(Other(self.0.clone())))
    }
}

struct Other(Levels);

impl Gpio for Other {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        assert_eq!(line, Line(4));
        self.0.lock().unwrap().push(high);
        Ok(())
    }
    fn get(&mut self, _line: Line) -> Result<bool, BusFault> {
        Ok(true)
    }
    fn next_edge(&mut self, _wait: Span) -> Result<Option<Edge>, BusFault> {
        Ok(None)
    }
}

/// A runtime's side of the connection: its heartbeat thread without a control loop, so that no heartbeat ever
/// reports progress.
struct Side {
    link: Arc<Link>,
    requests: Arc<Requests>,
    heartbeat: Option<Heartbeat>,
    /// Set to end the run.
    end: Arc<AtomicBool>,
}

impl Side {
    fn of(stand: &Stand) -> Side {
        Side::by(Arc::new(MonotonicClock), stand)
    }

    fn by(clock: Arc<dyn Clock>, stand: &Stand) -> Side {
        let link = Link::new(false).unwrap();
        let plan = HeartbeatPlan {
            socket: stand.socket.clone(),
            board: BOARD,
            hold: HOLD,
            timeout: TIMEOUT,
            alone: false,
        };
        let rt = RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false };
        let requests: Arc<Requests> = Arc::default();
        let loop_status: Arc<LoopStatusCell> = Arc::default();
        let end: Arc<AtomicBool> = Arc::default();
        let heartbeat =
            Heartbeat::start(plan, link.clone(), loop_status, requests.clone(), clock, rt, end.clone());
        Side { link, requests, heartbeat: Some(heartbeat.unwrap()), end }
    }
}

#[test]
fn the_driver_switches_the_line_only_through_the_guard() {
    let stand = Stand::begin(LONG);
    let side = Side::of(&stand);
    let others = Levels::default();
    let hardware = GuardedHardware::new(
        Arc::new(Bare(others.clone())),
        side.link.clone(),
        HOLD,
        Arc::new(MonotonicClock),
    );
    let output = |line| LineUse { line, usage: Usage::Output { high: false } };
    let lines = [output(Line(4)), output(HOLD.line)];
    let mut gpio = hardware.gpio("motors", &lines).unwrap();
    assert!(hardware.gpio("thief", &lines).is_err(), "a line has one owner");
    soon("trusted", || side.link.is_trusted());
    soon("on", || gpio.set(HOLD.line, true) == Ok(()));
    assert_eq!(gpio.get(HOLD.line), Ok(true));
    assert_eq!((gpio.set(HOLD.line, false), gpio.set(Line(4), true)), (Ok(()), Ok(())));
    assert_eq!(stand.levels(), [false, true, false]);
    assert_eq!(*others.lock().unwrap(), [true]);
    drop(gpio);
    assert!(hardware.gpio("motors", &lines).is_ok(), "given back");
}

#[test]
fn heartbeats_of_a_stopped_loop_do_not_keep_the_line_on() {
    let stand = Stand::begin(TIMEOUT);
    let side = Side::of(&stand);
    let hardware = GuardedHardware::new(
        Arc::new(Bare(Levels::default())),
        side.link.clone(),
        HOLD,
        Arc::new(MonotonicClock),
    );
    let mut gpio = hardware
        .gpio("motors", &[LineUse { line: HOLD.line, usage: Usage::Output { high: false } }])
        .unwrap();
    soon("on", || gpio.set(HOLD.line, true) == Ok(()));
    let beats = || ask_once(&stand.socket, Ask::Status, SOON).unwrap().status.beats;
    soon("heartbeats arrive", || beats() > 0);
    soon("the line goes off all the same", || stand.levels() == [false, true, false]);
    // The runtime becomes trusted again on its own. The line stays off until heartbeats report a running
    // loop.
    soon("trusted again", || side.link.is_trusted());
    soon("heartbeats continue", || beats() > 10);
    assert_eq!(stand.levels(), [false, true, false]);
}

#[test]
fn a_runtime_survives_its_guards_restart_and_ends_cleanly() {
    let mut stand = Stand::begin(TIMEOUT);
    let mut side = Side::of(&stand);
    let health = GuardHealth::new(side.link.clone(), TIMEOUT);
    let seen = || !health.lost(MonotonicClock.now());
    soon("seen", seen);
    stand.end();
    soon("lost", || !seen());
    assert_eq!(side.link.look().status, None);
    let again = Stand::inside(stand.folder.clone(), TIMEOUT);
    soon("seen again", seen);
    assert_eq!(side.link.look().connections, 2);
    assert!(!side.requests.disarm.load(Ordering::Acquire));
    assert!(!side.heartbeat.take().unwrap().end() && !side.end.load(Ordering::Acquire), "no panic");
    soon("ended", || again.phase() == Phase::Tripped(Reason::Ended));
}

#[test]
fn tripping_the_guard_by_hand_disarms_the_robot() {
    let stand = Stand::begin(LONG);
    let side = Side::of(&stand);
    soon("trusted", || side.link.is_trusted());
    ask_once(&stand.socket, STOP, SOON).unwrap();
    soon("disarmed", || side.requests.disarm.load(Ordering::Acquire));
    soon("trusted again", || side.link.is_trusted());
    assert_eq!(stand.levels(), [false]);
}

/// A clock that panics when it is told to.
#[derive(Default)]
struct Fuse(AtomicBool);

impl Clock for Fuse {
    fn now(&self) -> Instant {
        assert!(!self.0.load(Ordering::Acquire), "a panic caused by the test: the heartbeat thread");
        MonotonicClock.now()
    }
    fn sleep_until(&self, at: Instant) {
        MonotonicClock.sleep_until(at);
    }
    fn is_real(&self) -> bool {
        true
    }
}

#[test]
fn a_panic_of_the_heartbeat_ends_the_run_and_cuts_the_line() {
    let stand = Stand::begin(LONG);
    let fuse: Arc<Fuse> = Arc::default();
    let mut side = Side::by(fuse.clone(), &stand);
    soon("trusted", || side.link.is_trusted());
    fuse.0.store(true, Ordering::Release);
    soon("the run is ended", || side.end.load(Ordering::Acquire));
    soon("the guard sees it", || stand.phase() == Phase::Tripped(Reason::Closed));
    assert!(side.heartbeat.take().unwrap().end(), "it is reported");
}
