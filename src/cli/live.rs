//! `run` in real time: the wires, the guard, the self-test, the control socket and the service
//! manager around the robot, in the order in which they begin and end.
//!
//! Begin: machine, wires, guard, self-test, teaching, threads, ready. End: the motors stand, the
//! workers have ended, the guard takes its line, the socket goes.

use super::auto_arm::AutoArm;
use super::exit::Failure;
use super::interrupt::Interrupt;
use super::report::{Outside, RunReport};
use super::run::{Extras, build};
use super::status::StatusLine;
use super::wires;
use crate::board::Loaded;
use crate::bus::{Gpio, LineUse, Usage, Wires};
use crate::control::{self, CONTROL_SOCKET, Sources, Window, why_disarmed};
use crate::drive::{self, DriveError};
use crate::field::EngineState;
use crate::guard::socket::GUARD_SOCKET;
use crate::guard::{GuardedWires, Hold, Link, Pulse, PulsePlan, Sight};
use crate::mode::Disarm;
use crate::plan::{Board, BusPlan, GuardHold, GuardPlan};
use crate::robot::Options;
use crate::rt::Granted;
use crate::service::{self, Service};
use crate::time::{Clock, Instant, MonotonicClock, Span};
use crate::trace::Recorder;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// From the start of the threads to the first slot: they ask for priorities and lock memory first.
const START_UP: Span = Span::from_millis(50);
/// A guard that runs trusts a runtime within milliseconds; one that is just being started by the
/// service manager needs its process first.
const GUARD_START: Span = Span::from_millis(2_000);
/// How often the guard is looked for meanwhile.
const LOOK_EVERY: Span = Span::from_millis(5);
/// A controller that comes out of its reset answers after this (as `device::robot_hat` has it).
const OUT_OF_RESET: Span = Span::from_millis(220);
/// Longest time that teaching a field takes on the smallest machine that is meant (a Pi 4: tens of seconds).
const TEACHING: Span = Span::from_millis(120_000);

/// Runs the robot of `loaded` for `length`.
pub fn run(
    loaded: &Loaded,
    mut options: Options,
    length: Span,
    interrupt: &Interrupt,
    extras: &Extras,
) -> Result<RunReport, Failure> {
    let board = &loaded.board;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let mut service = Service::attach();
    service.say("self-test");
    if matches!(board.bus, BusPlan::Linux { .. }) && !extras.any_machine {
        wires::is_this_machine(board)?;
    }
    // Kept to the very end: nobody else drives these motors meanwhile.
    let _claim = wires::claim(board)?;
    let opened = match board.bus {
        BusPlan::Linux { .. } => Some(wires::open_wires(board)?),
        BusPlan::Sim | BusPlan::Log => None,
    };
    let guarded = Guarded::begin(loaded, extras, &options, &clock)?;
    if let Some(guarded) = &guarded {
        options.guard = guarded.sight();
    }
    if let Some(opened) = opened {
        let wires = guarded.as_ref().map_or(opened.clone(), |guarded| guarded.around(opened, &clock));
        test(board, extras.any_machine, wires.as_ref(), guarded.as_ref(), clock.as_ref())?;
        options.wires = Some(wires);
    }
    service.extend(TEACHING);
    service.say("teaching the field");
    let mut robot = build(loaded, clock.clone(), Instant::ZERO, options)?;
    let outside = Outside::of(&mut robot);
    let sources = Sources {
        board: board.name.clone(),
        board_digest: loaded.digest.to_hex().to_string(),
        engine: robot.engine_name.clone(),
        engine_state: Arc::new(Mutex::new(EngineState::Running.to_string())),
        vitals: robot.vitals.clone(),
        requests: robot.requests.clone(),
        buses: robot.buses.clone(),
        link: guarded.as_ref().map(|guarded| guarded.link.clone()),
        guard_required: board.guard.is_some_and(|plan| plan.required),
        recollection: robot.recollection.clone(),
        remark: Arc::new(OnceLock::new()),
    };
    let place = (extras.control.as_deref(), Path::new(CONTROL_SOCKET));
    let window = open_window(board, place, sources.clone(), interrupt)?;
    let auto_arm = begin_auto_arm(board, extras.control.as_deref(), &sources);
    // The first slot comes when everything is in memory: what was slow until here is not lateness.
    let first = clock.now() + START_UP;
    robot.tick.start_at(first);
    let mut status = StatusLine::new(length);
    let mut disarmed = None;
    let flag = interrupt.flag();
    let ended = drive::run(robot, &clock, first + length, &flag, board.rt, |recorder| {
        status.show(recorder);
        attend(&mut service, recorder, &sources, clock.now());
        note_disarm(&mut disarmed, sources.vitals.look().disarmed);
        if interrupt.asked() {
            service.stop();
        }
    });
    service.stop();
    let pulse = guarded.map(Guarded::end);
    drop(window);
    status.clear();
    let mut ending = match ended {
        Ok(ending) => ending,
        Err(error) => {
            auto_arm.never_ran();
            return Err(match error {
                DriveError::Thread(_) => Failure::unavailable(error),
                DriveError::Refused { refusal, .. } => Failure::permission(error).fix(refusal.fix()),
            });
        }
    };
    ending.granted.extend(pulse.map(|granted| ("pulse", granted)));
    let report = RunReport::new(board, &ending, &outside, clock.as_ref());
    auto_arm.ended(report.verdict().is_ok() && ending.tick.is_willing());
    Ok(report)
}

/// Looks whether the robot may arm by itself. Where not, it is disarmed in its first slot, and whoever asks is told why.
fn begin_auto_arm(board: &Board, control: Option<&Path>, sources: &Sources) -> AutoArm {
    let auto_arm = AutoArm::begin(board, control);
    if let Some(words) = auto_arm.off() {
        sources.requests.disarm.store(true, Ordering::Release);
        let _ = sources.remark.set(words.to_string());
    }
    auto_arm
}

/// What the service manager is told, on the slow thread.
fn attend(service: &mut Service, recorder: &Recorder, sources: &Sources, now: Instant) {
    log::logger().flush(); // what was left out of a flood is told when it is over
    let signs = sources.vitals.look();
    let ready = service.is_ready();
    service.tend(&signs, now, || {
        let newest = recorder.summary().last.as_ref().and_then(|record| record.field);
        let mut state = sources.engine_state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(field) = newest {
            *state = field.state.to_string();
        }
        drop(state);
        let missing: Vec<&str> = service::missing(&signs).reasons().collect();
        match ready || missing.is_empty() {
            true => format!("{}, field {}", sources.account().line(), sources.engine),
            false => format!("not ready: {}", missing.join("; ")),
        }
    });
}

/// Writes into the journal why the robot was disarmed, where nobody asked for it.
fn note_disarm(before: &mut Option<Disarm>, now: Option<Disarm>) {
    if let Some(why) = now.filter(|why| *before != now && *why != Disarm::Asked) {
        log::warn!("disarmed: {}; it stands until it is armed again", why_disarmed(why));
    }
    *before = now;
}

/// The control socket. Where none was named, it is served if its usual place is there and ours. A real robot that another
/// runtime keeps from its usual place is not run: whoever asks there means another one.
fn open_window(
    board: &Board,
    (asked, usual): (Option<&Path>, &Path),
    sources: Sources,
    interrupt: &Interrupt,
) -> Result<Option<Window>, Failure> {
    let path = asked.unwrap_or(usual);
    let listener = match (control::listen_at(path), asked) {
        (Ok(listener), _) => listener,
        (Err(error), Some(_)) => return Err(Failure::file(path, &error)),
        (Err(error), None) if error.kind() == ErrorKind::AddrInUse => match board.bus {
            BusPlan::Linux { .. } => {
                let fix = "end that runtime first, or name another socket with --control";
                return Err(Failure::file(path, &error).fix(fix));
            }
            BusPlan::Sim | BusPlan::Log => {
                log::warn!("this run cannot be armed or asked from outside: {}: {error}", path.display());
                return Ok(None);
            }
        },
        (Err(error), None) => {
            log::info!("nobody can arm or ask from outside: {}: {error}", path.display());
            return Ok(None);
        }
    };
    Window::open(listener, sources, interrupt.flag())
        .map(Some)
        .map_err(|error| Failure::unavailable(format!("a thread cannot be started: {error}")))
}

/// The self-test, with the controller out of its reset. It writes no pulse, and neither has anybody since.
fn test(
    board: &Board,
    any_machine: bool,
    wires: &dyn Wires,
    guarded: Option<&Guarded>,
    clock: &dyn Clock,
) -> Result<(), Failure> {
    let released = match guarded {
        Some(guarded) if guarded.hold.kind == GuardHold::Reset => Some(release(guarded.hold, wires, clock)?),
        _ => None,
    };
    let tested = wires::self_test(board, any_machine, wires, clock);
    if let (Some(mut gpio), Some(guarded)) = (released, guarded) {
        // Back until the bus thread sets the controller up. Should it fail, the guard takes it back.
        let _ = gpio.set(guarded.hold.line, guarded.hold.level(false));
    }
    tested
}

fn release(hold: Hold, wires: &dyn Wires, clock: &dyn Clock) -> Result<Box<dyn Gpio>, Failure> {
    let off = Usage::Output { high: hold.level(false) };
    let mut gpio = wires
        .gpio("self-test", &[LineUse { line: hold.line, usage: off }])
        .map_err(|error| wires::closed(&error))?;
    gpio.set(hold.line, hold.level(true)).map_err(|_| {
        Failure::unavailable("the guard does not let the motors' controller out of its reset")
            .fix("look at 'ganglion guard --status'")
    })?;
    clock.sleep_until(clock.now() + OUT_OF_RESET);
    Ok(gpio)
}

/// The guard's side of a run.
struct Guarded {
    plan: GuardPlan,
    hold: Hold,
    link: Arc<Link>,
    pulse: Pulse,
}

impl Guarded {
    /// Greets the guard that the board asks for. `None`: it asks for none, or for one that it does
    /// without and that is not there.
    fn begin(
        loaded: &Loaded,
        extras: &Extras,
        options: &Options,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Guarded>, Failure> {
        let board = &loaded.board;
        let Some(plan) = board.guard else { return Ok(None) };
        let Some(hold) = Hold::of(board, &plan) else { return Ok(None) };
        let socket = extras.guard.clone().unwrap_or_else(|| PathBuf::from(GUARD_SOCKET));
        let thread = |error: std::io::Error| Failure::unavailable(format!("the guard's pulse: {error}"));
        let alone = matches!(board.bus, BusPlan::Sim);
        let link = Link::new(alone).map_err(thread)?;
        let pulse_plan = PulsePlan {
            socket: socket.clone(),
            board: *loaded.digest.as_bytes(),
            hold,
            patience: plan.patience,
            alone,
        };
        let (vitals, requests) = (options.vitals.clone(), options.requests.clone());
        let pulse = Pulse::start(pulse_plan, link.clone(), vitals, requests, clock.clone(), board.rt)
            .map_err(thread)?;
        if let Err(refusal) = pulse.granted.enough(&board.rt) {
            return Err(refusal.into());
        }
        let guarded = Guarded { plan, hold, link, pulse };
        if guarded.is_trusted(clock.as_ref()) {
            return Ok(Some(guarded));
        }
        let refused = guarded.link.look().refused.map_or("it does not answer", |refused| refused.words());
        let fix = "start it first: 'ganglion guard --board BOARD', or systemctl start ganglion-guard";
        match (plan.required, &board.bus) {
            (true, BusPlan::Linux { .. }) => {
                Err(Failure::unavailable(format!("no guard: {refused}")).at(socket.display()).fix(fix))
            }
            (true, _) => {
                log::warn!("no guard at {}: {refused}; standing still until there is one", socket.display());
                Ok(Some(guarded))
            }
            (false, _) => {
                log::warn!("no guard at {}: {refused}; going on without ({fix})", socket.display());
                drop(guarded);
                Ok(None)
            }
        }
    }

    /// Waits until the guard trusts this runtime, for as long as one takes to start.
    fn is_trusted(&self, clock: &dyn Clock) -> bool {
        let until = clock.now() + GUARD_START;
        while !self.link.is_trusted() && clock.now() < until {
            clock.sleep_until(clock.now() + LOOK_EVERY);
        }
        self.link.is_trusted()
    }

    /// What the tick looks at, where the board does not drive without its guard.
    fn sight(&self) -> Option<Sight> {
        self.plan.required.then(|| Sight::new(self.link.clone(), self.plan.patience))
    }

    /// The wires without the guard's line.
    fn around(&self, wires: Arc<dyn Wires>, clock: &Arc<dyn Clock>) -> Arc<dyn Wires> {
        Arc::new(GuardedWires::new(wires, self.link.clone(), self.hold, clock.clone()))
    }

    /// The motors stand: the guard takes its line. Returns what the pulse was granted.
    fn end(self) -> Granted {
        let granted = self.pulse.granted.clone();
        self.pulse.end();
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn a_real_robot_does_not_go_without_the_usual_socket_because_another_runtime_has_it() {
        let path = std::env::temp_dir().join(format!("ganglion-usual-{}", std::process::id()));
        let board = |name| crate::board::built_in(name).unwrap().unwrap().board;
        let open = |board: &Board, asked| {
            open_window(board, (asked, &path), Sources::standing(), &Interrupt::default())
                .map(|window| window.is_some())
                .map_err(|failure| failure.exit())
        };
        let (sim, real) = (board("sim"), board("picarx-v4"));
        let other = control::listen_at(&path).unwrap();
        assert_eq!(open(&real, None), Err(Exit::Unavailable));
        assert_eq!(open(&sim, None), Ok(false), "it says so and runs");
        assert_eq!(open(&sim, Some(&path)), Err(Exit::Unavailable), "it was named");
        drop(other);
        assert_eq!((open(&real, None), open(&sim, None)), (Ok(true), Ok(true)));
        std::fs::remove_file(path.with_extension("lock")).unwrap();
    }
}
