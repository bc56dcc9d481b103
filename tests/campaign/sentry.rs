//! The guard's process in virtual time: the library's own decisions (`guard::Guard`), its frames, and the
//! line on the simulated board, driven in the same order as by `guard::Server`. The script kills it, pauses
//! it, and asks it for a safe-stop. Only the socket is missing: messages arrive at once, in order, and remain
//! after the other end is gone.

use super::script::{Script, Trouble};
use ganglion::base::plan::{Board, GuardHold};
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::hardware::bus::{Gpio, Hardware, LineUse, Usage};
use ganglion::runtime::guard::frame::{Ask, Bytes, GuardAnswer, Request};
use ganglion::runtime::guard::{BoardDigest, Guard, Hold, Transport};
use ganglion::sim::Plant;
use ganglion::system::executor::{Waker, Worker};
use ganglion::system::seqpacket::Received;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// Number of unread messages that a socket holds: as many of this size as fit in the kernel's default buffer.
const QUEUE: usize = 256;
/// The connections of the runtime and of a safe-stop caller.
const RUNTIME: usize = 0;
const PERSON: usize = 1;

type Spells = Vec<(Instant, Instant)>;

/// A guard, its line, its socket and its faults.
pub struct Sentry {
    guard: Guard,
    hold: Hold,
    timeout: Span,
    digest: BoardDigest,
    gpio: Box<dyn Gpio>,
    is_alive: bool,
    is_hung: bool,
    is_connected: bool,
    inbox: VecDeque<Bytes>,
    outbox: VecDeque<Bytes>,
    /// Requests for a safe-stop that the process has not read yet.
    unread_stops: usize,
    dead: Spells,
    hung: Spells,
    stops: Vec<Instant>,
    next_stop: usize,
}

impl Sentry {
    /// The guard of `board`, started, with the line off. `None`: the board has none.
    pub fn of(board: &Board, plant: &Plant, script: &Script) -> Option<Sentry> {
        let plan = board.guard?;
        let hold = Hold::of(board, &plan).expect("the board's check requires the line");
        let off = Usage::Output { high: hold.level(false) };
        let gpio = Hardware::gpio(plant, "guard", &[LineUse { line: hold.line, usage: off }])
            .expect("a simulated line");
        let digest = [1; 32];
        Some(Sentry {
            guard: Guard::new(&hold, plan.timeout, digest),
            hold,
            timeout: plan.timeout,
            digest,
            gpio,
            is_alive: true,
            is_hung: false,
            is_connected: false,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            unread_stops: 0,
            dead: script.troubles(Trouble::Dies),
            hung: script.troubles(Trouble::Hangs),
            stops: script.safe_stops().collect(),
            next_stop: 0,
        })
    }

    /// What the runtime needs to know about the guard.
    pub fn hold(&self) -> (Hold, BoardDigest) {
        (self.hold, self.digest)
    }

    fn runs(&self) -> bool {
        self.is_alive && !self.is_hung
    }

    fn put(&mut self, high: bool) {
        self.gpio.set(self.hold.line, high).expect("a simulated line can be switched");
    }

    /// Applies what the script and the kernel do to the process: it dies, restarts, pauses or resumes.
    fn change(&mut self, now: Instant) {
        let is_dead = within(&self.dead, now);
        if is_dead && self.is_alive {
            (self.is_alive, self.is_connected, self.unread_stops) = (false, false, 0);
            self.inbox.clear();
            // The kernel releases the line, and its pull resistor sets the level: a reset line is pulled up,
            // an enable line towards off.
            self.put(match self.hold.kind {
                GuardHold::Reset => true,
                GuardHold::Enable => self.hold.level(false),
            });
        } else if !is_dead && !self.is_alive {
            self.is_alive = true;
            self.guard = Guard::new(&self.hold, self.timeout, self.digest);
            self.outbox.clear();
            self.put(self.hold.level(false));
        }
        self.is_hung = within(&self.hung, now);
        while self.stops.get(self.next_stop).is_some_and(|at| *at <= now) {
            self.next_stop += 1;
            self.unread_stops += usize::from(self.is_alive);
        }
    }

    /// Handles every message to the guard, setting the line before it answers; then checks the timeout.
    fn attend(&mut self, now: Instant) {
        while self.runs() && self.unread_stops > 0 {
            self.unread_stops -= 1;
            let stop = Request { sequence: 0, stamp: now, ask: Ask::Trip { lasting: true } };
            let _ = self.guard.recv(PERSON, true, &stop, now);
            self.drive();
        }
        while self.runs()
            && let Some(bytes) = self.inbox.pop_front()
        {
            let request = Request::decode(&bytes).expect("the runtime sends valid frames");
            let refused = self.guard.recv(RUNTIME, true, &request, now).err();
            self.drive();
            let status = self.guard.status(true);
            let answer = GuardAnswer { sequence: request.sequence, refused, status };
            if self.outbox.len() < QUEUE {
                self.outbox.push_back(answer.encode());
            }
        }
        if self.runs() {
            self.guard.check_timeout(now);
            self.drive();
        }
    }

    fn drive(&mut self) {
        let high = self.hold.level(self.guard.line_on());
        if self.gpio.get(self.hold.line) != Ok(high) {
            self.put(high);
        }
    }

    /// When the process next has something to do, if no message comes.
    fn next(&self, now: Instant) -> Instant {
        let edges = self.dead.iter().chain(&self.hung).flat_map(|(from, until)| [*from, *until]);
        let events = edges.chain(self.stops.iter().copied()).filter(|at| *at > now);
        let deadline = if self.runs() { self.guard.deadline() } else { Instant::NEVER };
        events.fold(deadline, Instant::min)
    }
}

fn within(spells: &Spells, now: Instant) -> bool {
    spells.iter().any(|(from, until)| *from <= now && now < *until)
}

/// The process as a worker.
pub struct Sentinel {
    sentry: Arc<Mutex<Sentry>>,
    /// Wakes the runtime's heartbeat when there is something to receive.
    pulse: Arc<Waker>,
}

impl Sentinel {
    /// Steps `sentry`; wakes `pulse` when it has answered or is gone.
    pub fn new(sentry: Arc<Mutex<Sentry>>, pulse: Arc<Waker>) -> Sentinel {
        Sentinel { sentry, pulse }
    }
}

impl Worker for Sentinel {
    fn name(&self) -> &'static str {
        "guard"
    }
    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let (now, mut sentry) = (clock.now(), self.sentry.lock().expect("no panic while it was locked"));
        let before = (sentry.is_connected, sentry.outbox.len());
        sentry.change(now);
        sentry.attend(now);
        if before != (sentry.is_connected, sentry.outbox.len()) {
            self.pulse.wake();
        }
        sentry.next(now)
    }
    fn publish(&mut self, _clock: &dyn Clock) {}
}

/// The runtime's end of the socket.
pub struct Knock {
    sentry: Arc<Mutex<Sentry>>,
    clock: Arc<SimClock>,
    /// Wakes the guard's worker, which may have a new deadline.
    bell: Arc<Waker>,
    is_connected: bool,
}

impl Knock {
    /// A connection to `sentry`, whose worker is woken by `bell`.
    pub fn new(sentry: Arc<Mutex<Sentry>>, clock: Arc<SimClock>, bell: Arc<Waker>) -> Knock {
        Knock { sentry, clock, bell, is_connected: false }
    }
}

impl Transport for Knock {
    fn connect(&mut self) -> bool {
        let mut sentry = self.sentry.lock().expect("no panic while it was locked");
        // A connection to a paused guard succeeds as well: the kernel queues it until the guard accepts it.
        sentry.is_connected = sentry.is_alive;
        sentry.outbox.clear();
        self.is_connected = sentry.is_connected;
        self.is_connected
    }
    fn disconnect(&mut self) {
        self.is_connected = false;
    }
    fn is_connected(&self) -> bool {
        self.is_connected
    }
    fn send(&mut self, bytes: &[u8]) {
        let mut sentry = self.sentry.lock().expect("no panic while it was locked");
        if sentry.is_connected && sentry.inbox.len() < QUEUE {
            sentry.inbox.push_back(bytes.try_into().expect("a whole frame"));
            // A driver may be stepped ahead of the guard, so the script decides whether the guard is running
            // at this time.
            let now = self.clock.now();
            if !within(&sentry.dead, now) && !within(&sentry.hung, now) {
                sentry.attend(now);
            }
            self.bell.wake();
        }
    }
    fn receive(&mut self, into: &mut [u8]) -> Received {
        let mut sentry = self.sentry.lock().expect("no panic while it was locked");
        match sentry.outbox.pop_front() {
            Some(bytes) => {
                into[..bytes.len()].copy_from_slice(&bytes);
                Received::Message(bytes.len())
            }
            None if sentry.is_connected => Received::Nothing,
            None => Received::Closed,
        }
    }
    fn wait(&mut self, _asked: &OwnedFd, _longest: Span) {}
}
