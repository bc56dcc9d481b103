//! A run from start to end: the wires, the guard, the self-test, the control socket and the service manager
//! around the robot, in the order in which they start and end. In virtual time there is only the robot.
//!
//! Start: machine, wires, guard, self-test, field, threads, ready. End: the motors stop, the workers end, the
//! guard switches its line off, the socket is removed.

mod auto_arm;
mod guarded;
mod hold;
mod outcome;

use crate::base::plan::{Board, BusPlan};
use crate::base::time::{Clock, Instant, MonotonicClock, SimClock, Span};
use crate::decision::mode::Disarm;
use crate::drive::record::{Recording, RobotShape};
use crate::drive::trace::Recorder;
use crate::hardware::bus::Hardware;
use crate::runtime::access::{self, AccessError};
use crate::runtime::control::{
    self, CONTROL_SOCKET, CONTROL_THREAD, Instruments, Observer, Room, Server, Sources, Status,
    behaviour_names, why_disarmed,
};
use crate::runtime::guard::HEARTBEAT_THREAD;
use crate::runtime::guard::frame::GuardRefusal;
use crate::runtime::robot::{BuildError, Options, Robot};
use crate::runtime::runner::{self, RunnerError, START_UP};
use crate::runtime::selftest::machine::{self, Mismatch};
use crate::runtime::selftest::{Afterwards, Check, Verdict, self_test};
use crate::runtime::service::{self, Service};
use crate::system::rt::Refusal;
use auto_arm::AutoArm;
pub use auto_arm::is_service;
use guarded::Guarded;
pub use guarded::{START_GUARD, why_untrusted};
use hold::Hold;
pub use outcome::{RunHandles, RunOutcome};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The longest time that building a robot takes: a GPU's driver may first have to compile the kernels, for
/// which the program waits up to a minute.
const BUILDING: Span = Span::from_millis(120_000);

/// A sound robot is ready after its `settle_ms` and the first results of its field: within a second, or a few
/// seconds if a GPU must be opened first. A part that is not ready within this time counts as missing.
pub const READY_WITHIN: Span = Span::from_millis(30_000);
/// How often the status is written to the recording.
const STATUS_EVERY: Span = Span::from_millis(1_000);
/// Time that a run needs to end cleanly if it never became ready.
const ENDING: Span = Span::from_millis(10_000);

/// A run in real time.
pub struct Session<'a> {
    /// The robot's board.
    pub board: &'a Board,
    /// BLAKE3 of its effective values, by which the guard and callers identify it.
    pub digest: blake3::Hash,
    /// How long the robot runs.
    pub length: Span,
    /// Set to end the run earlier.
    pub interrupted: Arc<AtomicBool>,
    /// Socket for callers, if one was named; the run then requires it.
    pub control: Option<PathBuf>,
    /// The guard's socket, if it is not at its default path.
    pub guard: Option<PathBuf>,
    /// The folder that the service keeps between runs, where an update leaves its hold file; `None` for a run
    /// by hand.
    pub state: Option<PathBuf>,
    /// Run although the board is for another machine.
    pub any_machine: bool,
    /// Ends the run if the robot has not been ready within this time after its first slot. `None`: within
    /// [`READY_WITHIN`] on real wires, without a limit otherwise.
    pub ready_within: Option<Span>,
    /// The recording of this run, if there is one: it gets the robot's status once a second.
    pub recording: Option<&'a Recording>,
}

/// Why a run could not begin, or never became ready; the motors have not moved.
#[derive(Debug)]
pub enum SessionError {
    /// The board with this name is for another machine.
    Machine(String, Mismatch),
    /// Its wires cannot be opened.
    Access(AccessError),
    /// The heartbeat thread cannot be started.
    Heartbeat(io::Error),
    /// The board is strict and the system refused a request of the heartbeat thread.
    Refused(Refusal),
    /// The board requires the guard at this socket, but the guard refuses; `None`: it does not answer.
    NoGuard(PathBuf, Option<GuardRefusal>),
    /// The failed checks of the self-test.
    Unfit(Vec<Check>),
    /// The robot ran for this long and was never ready, for these reasons. The run has ended with the motors
    /// stopped.
    NotReady(Span, Vec<&'static str>),
    /// The robot cannot be built.
    Build(BuildError),
    /// The requested control socket is not available.
    Control(PathBuf, io::Error),
    /// Another runtime is using the default control socket.
    Occupied(PathBuf, io::Error),
    /// The thread for the control socket cannot be started.
    Server(io::Error),
    /// The robot's threads cannot be started.
    Drive(RunnerError),
}

impl From<AccessError> for SessionError {
    fn from(error: AccessError) -> SessionError {
        SessionError::Access(error)
    }
}

/// Runs `board` in virtual time; `watch` is called after each slot, with the room if the robot is simulated.
pub fn step(
    board: &Board,
    options: Options,
    length: Span,
    interrupted: &AtomicBool,
    mut watch: impl FnMut(&Recorder, Option<&Room>),
) -> Result<RunOutcome, SessionError> {
    let clock = Arc::new(SimClock::new());
    let first = Instant::ZERO + board.period;
    let mut robot = Robot::build(board, clock.clone(), first, options).map_err(SessionError::Build)?;
    let handles = RunHandles::of(&mut robot);
    let room = robot.plant.as_ref().map(|plant| Room::of(plant, board));
    let watch = |recorder: &Recorder| watch(recorder, room.as_ref());
    let ending = runner::step(robot, &clock, first + length, interrupted, watch);
    Ok(RunOutcome::new(ending, handles, clock.as_ref()))
}

impl Session<'_> {
    /// Runs the robot. The calling, non-real-time thread calls `watch`, and drops it before it evaluates how
    /// the run ended.
    pub fn run(
        self,
        mut options: Options,
        mut watch: impl FnMut(&Recorder, &Sources),
    ) -> Result<RunOutcome, SessionError> {
        let board = self.board;
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
        let mut service = Service::attach();
        service.send("self-test");
        if matches!(board.bus, BusPlan::Linux { .. }) && !self.any_machine {
            machine::matches(board, Path::new("/"))
                .map_err(|mismatch| SessionError::Machine(board.name.clone(), mismatch))?;
        }
        access::check(board)?;
        // Held until the very end, so that no other process can drive these motors.
        let _claim = access::claim(board)?;
        let opened = match board.bus {
            BusPlan::Linux { .. } => Some(access::open_wires(board)?),
            BusPlan::Sim | BusPlan::Log => None,
        };
        let guarded = Guarded::begin(&self, &options, &clock)?;
        if let Some(guarded) = &guarded {
            options.guard = guarded.health();
        }
        let mut found = board.clone();
        if let Some(opened) = opened {
            let hardware = guarded.as_ref().map_or(opened.clone(), |guarded| guarded.around(opened, &clock));
            found = check_hardware(board, self.any_machine, hardware.as_ref(), clock.as_ref())?;
            options.hardware = Some(hardware);
        }
        let quality = options.quality;
        service.extend(BUILDING);
        service.send("building the field");
        let robot = Robot::build(&found, clock.clone(), Instant::ZERO, options);
        let mut robot = robot.map_err(SessionError::Build)?;
        let handles = RunHandles::of(&mut robot);
        let sources = self.sources(&robot, guarded.as_ref());
        let instruments = Instruments::of(board, quality, robot.device.clone())
            .with_link(robot.link_words.clone())
            .with_gpu_meter();
        let usage = self.recording.map(Recording::usage).unwrap_or_default();
        let mut observer = Observer::new(instruments, sources.measured.clone(), usage);
        let place = (self.control.as_deref(), Path::new(CONTROL_SOCKET));
        let server = open_server(board, place, sources.clone(), &self.interrupted)?;
        let mut hold = Hold::find(self.state.as_deref());
        let auto_arm = begin_auto_arm(board, self.control.as_deref(), &hold, &sources);
        // The first slot comes after all slow preparation, which would otherwise count as lateness.
        let first = clock.now() + START_UP;
        robot.tick.start_at(first);
        let (mut disarmed, mut status_due) = (None, first);
        let ready_within = self.ready_within.or(match board.bus {
            BusPlan::Linux { .. } => Some(READY_WITHIN),
            BusPlan::Sim | BusPlan::Log => None,
        });
        let mut never_ready = None;
        if let Some(within) = ready_within {
            service.extend(within + ENDING);
        }
        let ended =
            runner::run(robot, &clock, first + self.length, &self.interrupted, board.rt, |recorder| {
                watch(recorder, &sources);
                observer.observe(recorder, clock.now());
                record_status(self.recording, &mut status_due, &sources, clock.now());
                report_to(&mut service, &sources, clock.now());
                let status = sources.loop_status.load();
                note_disarm(&mut disarmed, status.disarmed);
                if status.armings > 0 {
                    hold.release();
                }
                let is_late = ready_within.is_some_and(|within| clock.now().since(first) >= within);
                if is_late && !service.is_ready() && !self.interrupted.swap(true, Ordering::Relaxed) {
                    never_ready = Some(service::missing(&sources.loop_status.load()).reasons().collect());
                }
                if self.interrupted.load(Ordering::Relaxed) {
                    service.stop();
                }
            });
        service.stop();
        let heartbeat = guarded.map(Guarded::end);
        let control_panicked = server.is_some_and(Server::end);
        drop(watch);
        let mut ending = match ended {
            Ok(ending) => ending,
            Err(error) => {
                auto_arm.never_ran();
                return Err(SessionError::Drive(error));
            }
        };
        ending.panicked.extend(control_panicked.then_some(CONTROL_THREAD));
        if let Some((granted, has_panicked)) = heartbeat {
            ending.panicked.extend(has_panicked.then_some(HEARTBEAT_THREAD));
            ending.granted.push((HEARTBEAT_THREAD, granted));
        }
        let outcome = RunOutcome::new(ending, handles, clock.as_ref());
        auto_arm.ended(outcome.is_sound() && outcome.ending.tick.is_willing());
        match (never_ready, ready_within) {
            (Some(reasons), Some(within)) => Err(SessionError::NotReady(within, reasons)),
            _ => Ok(outcome),
        }
    }

    /// The state from which replies to callers are built.
    fn sources(&self, robot: &Robot, guarded: Option<&Guarded>) -> Sources {
        Sources {
            board: self.board.name.clone(),
            board_digest: self.digest.to_hex().to_string(),
            simulated: robot.plant.is_some(),
            engine: robot.engine_name.clone(),
            measured: Arc::default(),
            loop_status: robot.loop_status.clone(),
            requests: robot.requests.clone(),
            buses: robot.buses.clone(),
            senses: robot.senses.clone(),
            link: guarded.map(|guarded| guarded.link.clone()),
            guard_required: self.board.guard.is_some_and(|plan| plan.required),
            recollection: robot.recollection.clone(),
            room: robot.plant.as_ref().map(|plant| Room::of(plant, self.board)),
            records_dropped: robot.records_dropped.clone(),
            remark: Arc::new(OnceLock::new()),
            recording: self.recording.map(Recording::counts),
            goals: robot.goals.clone(),
            patrol: self.board.patrol.clone(),
            behaviours: behaviour_names(self.board),
            shape: RobotShape::of(self.board),
            slices: robot.slices.clone(),
        }
    }
}

/// Checks whether the robot may arm by itself. If not, its first slot disarms it, and callers get the reason.
fn begin_auto_arm(board: &Board, control: Option<&Path>, hold: &Hold, sources: &Sources) -> AutoArm {
    let auto_arm = AutoArm::begin(board, control, hold.why());
    if let Some(words) = auto_arm.off() {
        // Nobody asked to disarm, so a request to arm that waits already stays valid.
        sources.requests.disarm.store(true, Ordering::Release);
        let _ = sources.remark.set(words.to_string());
    }
    auto_arm
}

/// Reports to the service manager, on a non-real-time thread.
fn report_to(service: &mut Service, sources: &Sources, now: Instant) {
    let status = sources.loop_status.load();
    let ready = service.is_ready();
    service.maintain(&status, now, || {
        let missing: Vec<&str> = service::missing(&status).reasons().collect();
        match ready || missing.is_empty() {
            true => format!("{}, field {}", sources.status().line(), sources.engine),
            false => format!("not ready: {}", missing.join("; ")),
        }
    });
}

/// Adds the robot's status to its recording, once a second, leaving out what it has other topics
/// for.
fn record_status(recording: Option<&Recording>, due: &mut Instant, sources: &Sources, now: Instant) {
    let Some(recording) = recording.filter(|_| now >= *due) else { return };
    *due = now + STATUS_EVERY;
    let status = sources.status();
    let status = Status { measured: status.measured.clone().without_topics(), room: None, ..status };
    if let Ok(json) = serde_json::to_string(&status) {
        recording.status(now, json);
    }
}

/// Logs why the robot was disarmed, unless that was requested.
fn note_disarm(before: &mut Option<Disarm>, now: Option<Disarm>) {
    if let Some(why) = now.filter(|why| *before != now && *why != Disarm::Asked) {
        log::warn!("disarmed: {}; the robot stays stopped until it is armed again", why_disarmed(why));
    }
    *before = now;
}

/// Opens the control socket. If none was named, tries the default path and continues without a socket if that
/// fails. A real robot does not run while another runtime uses the default path, because callers would reach
/// that runtime instead.
fn open_server(
    board: &Board,
    (named, default): (Option<&Path>, &Path),
    sources: Sources,
    interrupted: &Arc<AtomicBool>,
) -> Result<Option<Server>, SessionError> {
    let path = named.unwrap_or(default);
    let listener = match (control::listen_at(path), named) {
        (Ok(listener), _) => listener,
        (Err(error), Some(_)) => return Err(SessionError::Control(path.to_path_buf(), error)),
        (Err(error), None) if error.kind() == ErrorKind::AddrInUse => match board.bus {
            BusPlan::Linux { .. } => return Err(SessionError::Occupied(path.to_path_buf(), error)),
            BusPlan::Sim | BusPlan::Log => {
                log::warn!("nothing can arm or query this run: no socket at {}: {error}", path.display());
                return Ok(None);
            }
        },
        (Err(error), None) => {
            log::info!("nothing can arm or query this run: no socket at {}: {error}", path.display());
            return Ok(None);
        }
    };
    Server::open(listener, sources, interrupted.clone()).map(Some).map_err(SessionError::Server)
}

/// Runs the self-test. Required checks must pass; warnings are logged. `any_machine`: the board may be for
/// another machine. Returns the board with the address at which its controller was found.
fn check_hardware(
    board: &Board,
    any_machine: bool,
    hardware: &dyn Hardware,
    clock: &dyn Clock,
) -> Result<Board, SessionError> {
    let compatible = if any_machine { Vec::new() } else { board.compatible.clone() };
    let tested = Board { compatible, ..board.clone() };
    let mut failed = Vec::new();
    let (checks, found) = self_test(&tested, hardware, Path::new("/"), clock, Afterwards::InReset);
    for check in checks {
        match check.verdict {
            Verdict::Failed => failed.push(check),
            Verdict::Warned => log::warn!("self-test: {check}; {}", check.fix.as_deref().unwrap_or("")),
            Verdict::Passed | Verdict::Skipped => log::info!("self-test: {check}"),
        }
    }
    let found = Board { compatible: board.compatible.clone(), ..found };
    if failed.is_empty() { Ok(found) } else { Err(SessionError::Unfit(failed)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_robot_is_refused_while_another_runtime_has_the_socket() {
        let path = std::env::temp_dir().join(format!("ganglion-default-{}", std::process::id()));
        let board = |name| crate::deploy::board::built_in(name).unwrap().unwrap().board;
        let open = |board: &Board, named| {
            open_server(board, (named, &path), Sources::idle(), &Arc::default())
                .map(|server| server.is_some())
        };
        let (sim, real) = (board("sim"), board("picarx-v4"));
        let other = control::listen_at(&path).unwrap();
        assert!(matches!(open(&real, None), Err(SessionError::Occupied(..))));
        assert!(matches!(open(&sim, None), Ok(false)), "it runs without a socket");
        assert!(matches!(open(&sim, Some(&path)), Err(SessionError::Control(..))), "the socket was named");
        drop(other);
        assert!(matches!((open(&real, None), open(&sim, None)), (Ok(true), Ok(true))));
        std::fs::remove_file(path.with_extension("lock")).unwrap();
    }
}
