//! One run: a board, a script and a length of virtual time, under a judge. The robot is the real one, built
//! as usual and stepped in virtual time. The judge, late threads and suspends are added, and the guard's
//! process and the brain are simulated.

use super::cable::{self, Answers};
use super::judge::facts::Facts;
use super::judge::promise::Watched;
use super::judge::{Breach, Happening, Judge};
use super::pulse::SteppedPulse;
use super::script::{Action, Ask, Script, Sleep, Thread};
use super::sentry::{Knock, Sentinel, Sentry};
use super::site::Site;
use super::tape::{Event, Tape};
use super::temper::Temper;
use ganglion::base::plan::Board;
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::hardware::bus::Hardware;
use ganglion::runtime::guard::{GuardHealth, GuardedHardware, HeartbeatPlan, Link};
use ganglion::runtime::loop_status::LoopStatusCell;
use ganglion::runtime::requests::Requests;
use ganglion::runtime::robot::{Options, Robot};
use ganglion::sim::{FaultKind, Plant};
use ganglion::system::executor::{Stepper, Waker, Worker};
use ganglion::system::rt::Role;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Slots between the request to stop and the end of the process, as in `runner.rs`.
const STOP_SLOTS: u32 = 10;

/// Which promises a run checks and which events it records.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The promises that the judge checks.
    pub watched: Watched,
    /// Record the events between these times.
    pub trace: Option<(Instant, Instant)>,
}

/// The result of a run.
#[derive(Debug)]
pub struct CourseOutcome {
    /// The first promise that was broken.
    pub breach: Option<Breach>,
    /// Virtual time that was judged.
    pub judged: Span,
    /// Distance driven, metres.
    pub distance_m: f64,
    /// How often the motors began to turn.
    pub starts: u64,
    /// How often each promise was put to the test.
    pub exercised: Vec<u64>,
    /// The recorded events, if the view requested them.
    pub trace: String,
}

/// A worker whose thread is not scheduled during `spells`.
struct Late {
    inner: Box<dyn Worker>,
    spells: Vec<(Instant, Instant)>,
}

impl Worker for Late {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let now = clock.now();
        match self.spells.iter().find(|(from, until)| *from <= now && now < *until) {
            Some((_, until)) => *until,
            None => self.inner.step(clock),
        }
    }
    fn has_motors(&self) -> bool {
        self.inner.has_motors()
    }
    fn publish(&mut self, clock: &dyn Clock) {
        self.inner.publish(clock);
    }
    fn finish(&mut self, clock: &dyn Clock) -> bool {
        self.inner.finish(clock)
    }
}

/// The clock of the loop. If the script suspends the machine in the middle of a slot, this happens right
/// after the loop has checked how long the machine slept, so that the loop does not notice it in that slot.
struct Drowsy {
    clock: Arc<SimClock>,
    /// Nanoseconds to sleep at the next check; 0: none.
    due: AtomicU64,
}

impl Clock for Drowsy {
    fn now(&self) -> Instant {
        self.clock.now()
    }
    fn sleep_until(&self, at: Instant) {
        self.clock.sleep_until(at);
    }
    fn slept(&self) -> Span {
        let slept = self.clock.slept();
        self.clock.sleep_machine(Span::from_nanos(self.due.swap(0, Ordering::Relaxed)));
        slept
    }
    fn is_real(&self) -> bool {
        false
    }
}

/// Runs `site` under `script` for `length`, or until a promise is broken.
pub fn run(site: &Site, script: &Script, seed: u64, length: Span, view: &View) -> CourseOutcome {
    let mut run = Run::new(site, script, seed, length, view);
    while !run.is_over() {
        run.slot();
    }
    run.finish()
}

/// The guard's process and the runtime's end of the connection to it.
struct Guarded {
    link: Arc<Link>,
    sentry: Arc<Mutex<Sentry>>,
    plan: HeartbeatPlan,
}

impl Guarded {
    /// The pair for a board that has a guard.
    fn of(board: &Board, plant: &Plant, script: &Script) -> Option<Guarded> {
        let sentry = Sentry::of(board, plant, script)?;
        let timeout = board.guard?.timeout;
        let (hold, digest) = sentry.hold();
        // As on real hardware, the drivers request the line, so the heartbeat does not.
        let (alone, socket) = (false, "no socket: stepped".into());
        let plan = HeartbeatPlan { socket, board: digest, hold, timeout, alone };
        let link = Link::new(alone).expect("two event descriptors");
        Some(Guarded { link, sentry: Arc::new(Mutex::new(sentry)), plan })
    }

    fn around(&self, hardware: Arc<dyn Hardware>, clock: Arc<dyn Clock>) -> Arc<dyn Hardware> {
        Arc::new(GuardedHardware::new(hardware, self.link.clone(), self.plan.hold, clock))
    }

    fn health(&self, board: &Board) -> Option<GuardHealth> {
        let plan = board.guard.filter(|plan| plan.required)?;
        Some(GuardHealth::new(self.link.clone(), plan.timeout))
    }

    /// Adds the heartbeat and the guard to the robot's own workers. Only the heartbeat is a thread of the
    /// runtime, so only it can be late.
    fn join(
        self,
        stepper: &mut Stepper,
        script: &Script,
        loop_status: Arc<LoopStatusCell>,
        requests: Arc<Requests>,
        clock: &Arc<SimClock>,
    ) {
        let (waker, guards): (Arc<Waker>, Arc<Waker>) = Default::default();
        let knock = Knock::new(self.sentry.clone(), clock.clone(), guards.clone());
        let pulse =
            SteppedPulse::new(self.plan, Box::new(knock), self.link, loop_status, requests, clock.clone());
        stepper.add(Box::new(Sentinel::new(self.sentry, waker.clone())), guards, Instant::ZERO);
        let pulse = Late { inner: Box::new(pulse), spells: script.late(Thread::All) };
        stepper.add(Box::new(pulse), waker, Instant::ZERO);
    }
}

struct Run<'a> {
    clock: Arc<SimClock>,
    drowsy: Arc<Drowsy>,
    robot: Robot,
    stepper: Stepper,
    plant: Plant,
    tape: Tape,
    judge: Judge,
    requests: Arc<Requests>,
    script: &'a Script,
    view: &'a View,
    asks: Vec<(Instant, Ask)>,
    next_ask: usize,
    sleeps: Vec<(Instant, Sleep)>,
    next_sleep: usize,
    answers: Option<Answers>,
    late: Vec<(Instant, Instant)>,
    until: Instant,
    /// Slots since a request to stop.
    stopping: Option<u32>,
    breach: Option<Breach>,
    events: Vec<Event>,
    trace: String,
}

impl<'a> Run<'a> {
    fn new(site: &Site, script: &'a Script, seed: u64, length: Span, view: &'a View) -> Run<'a> {
        let clock = Arc::new(SimClock::new());
        let first = Instant::ZERO + site.board.period;
        let (faults, readout) = (script.faults(), Some(site.readout.clone()));
        let bent = site.temper.unwrap_or_default();
        let (tether, answers) = cable::tether(&site.board, script, seed, bent, &clock).unzip();
        let device = site.temper.filter(|_| tether.is_none()).map(|bent| Temper::open(seed, bent));
        let readout = readout.filter(|_| tether.is_none());
        let mut options = Options { seed, readout, device, tether, ..Options::default() };
        let drowsy = Arc::new(Drowsy { clock: clock.clone(), due: AtomicU64::new(0) });
        let plant = Plant::new(&site.board, seed, &faults, drowsy.clone());
        let guarded = Guarded::of(&site.board, &plant, script);
        options.faults = faults;
        options.hardware = Some(match &guarded {
            Some(guarded) => guarded.around(Arc::new(plant.clone()), drowsy.clone()),
            None => Arc::new(plant.clone()),
        });
        options.guard = guarded.as_ref().and_then(|guarded| guarded.health(&site.board));
        let (loop_status, requests) = (options.loop_status.clone(), options.requests.clone());
        let mut robot =
            Robot::build(&site.board, drowsy.clone(), first, options).expect("a board that passed the check");
        let tape = Tape::new(&site.board);
        plant.tell(Box::new(tape.clone()));
        let mut stepper = Stepper::new(clock.clone());
        let mut is_motors = true; // the motors' bus is the first
        for started in robot.workers.drain(..) {
            let thread = match started.role {
                Role::Bus if std::mem::take(&mut is_motors) => Thread::Bus,
                Role::Lines => Thread::Lines,
                Role::Edges => Thread::Edges,
                _ => Thread::All,
            };
            let worker = Late { inner: started.worker, spells: script.late(thread) };
            stepper.add(Box::new(worker), started.waker, Instant::ZERO);
        }
        if let Some(guarded) = guarded {
            guarded.join(&mut stepper, script, loop_status, requests, &clock);
        }
        let mut judge = Judge::new(Facts::new(site, script), view.watched);
        for (from, until) in script.spells(&[FaultKind::EStop], None) {
            judge.tell(from, Happening::Button { pressed: true });
            judge.tell(until, Happening::Button { pressed: false });
        }
        for at in script.safe_stops() {
            judge.tell(at, Happening::SafeStop);
        }
        let (asks, late) = (script.asks().collect(), script.late(Thread::Tick));
        let sleeps = script.sleeps().collect();
        let (requests, until) = (robot.requests.clone(), Instant::ZERO + length);
        Run {
            clock,
            drowsy,
            robot,
            stepper,
            plant,
            tape,
            judge,
            requests,
            script,
            view,
            asks,
            next_ask: 0,
            sleeps,
            next_sleep: 0,
            answers,
            late,
            until,
            stopping: None,
            breach: None,
            events: Vec::new(),
            trace: String::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.breach.is_some() || self.stopping.is_some_and(|slots| slots >= STOP_SLOTS)
    }

    /// One slot, on time or late.
    fn slot(&mut self) {
        let slot = self.robot.tick.slot();
        let late = self.late.iter().find(|(from, until)| *from <= slot && slot < *until);
        let wake = late.map_or(slot, |(_, until)| *until);
        if wake >= self.until && self.stopping.is_none() {
            self.ask(Ask::Stop, wake);
        }
        while let Some(&(at, ask)) = self.asks.get(self.next_ask).filter(|(at, _)| *at <= wake) {
            self.next_ask += 1;
            self.ask(ask, at);
        }
        self.sleep_up_to(wake);
        self.stepper.run_until(wake);
        self.robot.tick.run();
        while self.robot.records.pop().is_ok() {}
        self.stopping.iter_mut().for_each(|slots| *slots += 1);
        self.judge.tell(wake, Happening::Slot(slot));
        self.note(wake, || format!("slot of {:.4}", seconds(slot)));
        let mode = self.robot.tick.mode();
        self.note(wake, || format!("  (the loop reports {mode:?})"));
        self.judge_up_to(wake);
    }

    /// Suspends the machine as scripted up to `wake`: between two steps of the workers, or in the slot at
    /// `wake`.
    fn sleep_up_to(&mut self, wake: Instant) {
        while let Some(&(at, sleep)) = self.sleeps.get(self.next_sleep).filter(|(at, _)| *at <= wake) {
            self.next_sleep += 1;
            let at = if sleep.in_tick { wake } else { at };
            if sleep.in_tick {
                self.drowsy.due.fetch_add(sleep.lasted.as_nanos(), Ordering::Relaxed);
            } else {
                self.stepper.run_until(at);
                self.clock.sleep_machine(sleep.lasted);
            }
            self.judge.tell(at, Happening::Woke);
            self.note(at, || format!("the machine was suspended for {:.1} s", sleep.lasted.as_secs_f64()));
        }
    }

    fn ask(&mut self, ask: Ask, at: Instant) {
        let flag = match ask {
            Ask::Arm => &self.requests.arm,
            Ask::Disarm => &self.requests.disarm,
            Ask::Stop => &self.requests.stop,
        };
        flag.store(true, Ordering::Release);
        if ask == Ask::Stop {
            self.stopping.get_or_insert(0);
        }
        self.judge.tell(at, Happening::Asked(ask));
        self.note(at, || format!("a caller asks: {ask:?}"));
    }

    fn judge_up_to(&mut self, now: Instant) {
        self.plant.advance(now);
        self.tape.take(now, &mut self.events);
        for event in std::mem::take(&mut self.events) {
            self.note(event.at, || format!("{:?}", event.what));
            self.judge.tell(event.at, Happening::Seen(event.what));
        }
        self.tell_answers();
        self.breach = self.judge.look(now).cloned();
    }

    /// Tells the judge when answers of a brain could be read.
    fn tell_answers(&mut self) {
        for at in self.answers.as_ref().map(Answers::take).unwrap_or_default() {
            self.note(at, || "an answer from the brain".to_string());
            self.judge.tell(at, Happening::Answered);
        }
    }

    /// The process ends: every worker gets its last call, and then none touches the hardware any more.
    fn finish(mut self) -> CourseOutcome {
        let mut at = self.clock.now();
        if self.breach.is_none() {
            self.stepper.run_until(self.robot.tick.slot());
            self.stepper.finish();
            at = self.clock.now().max(self.robot.tick.slot()) + Span::from_millis(1_000);
            self.plant.advance(at);
            self.tape.take(at, &mut self.events);
            for event in std::mem::take(&mut self.events) {
                self.note(event.at, || format!("{:?}", event.what));
                self.judge.tell(event.at, Happening::Seen(event.what));
            }
            self.tell_answers();
            // The judge also checks that the motors stand still at the end, when no process controls the
            // hardware.
            self.breach = self.judge.end(at).cloned();
        }
        self.write_script();
        CourseOutcome {
            breach: self.breach,
            judged: at.since(Instant::ZERO),
            distance_m: self.plant.report(at).distance_m,
            starts: self.judge.starts,
            exercised: self.judge.exercised.to_vec(),
            trace: self.trace,
        }
    }

    fn note(&mut self, at: Instant, words: impl FnOnce() -> String) {
        if self.view.trace.is_some_and(|(from, until)| from <= at && at <= until) {
            let _ = writeln!(self.trace, "{:.6} {}", seconds(at), words());
        }
    }

    /// Records what the script does in the traced stretch.
    fn write_script(&mut self) {
        let Some((from, until)) = self.view.trace else { return };
        for line in &self.script.lines {
            let (start, end) = (Instant::ZERO + line.start, Instant::ZERO + line.end);
            if start <= until && end >= from && !matches!(line.action, Action::Ask(_) | Action::Sleep(_)) {
                for (at, word) in [(start, "begins"), (end, "ends")] {
                    if from <= at && at <= until {
                        let _ = writeln!(self.trace, "{:.6} {} {word}", seconds(at), line.name());
                    }
                }
            }
        }
        let mut lines: Vec<&str> = self.trace.lines().collect();
        lines.sort_by(|a, b| time_of(a).total_cmp(&time_of(b)));
        self.trace = lines.join("\n");
    }
}

fn time_of(line: &str) -> f64 {
    line.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0.0)
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}
