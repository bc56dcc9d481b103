//! `run`: the main verb. Loads a board, builds the robot, runs it in real or in virtual time, and reports at
//! the end what was counted and measured.

use super::arguments::{self, EngineChoice};
use super::error_text;
use super::exit::Failure;
use super::go;
use super::interrupt::Interrupt;
use super::picture::{self, Picture};
use super::recording;
use super::report::{Recorded, RunReport};
use super::screen::{self, OwnRun};
use super::simulate::simulate;
use super::status::StatusLine;
use crate::base::plan::{Board, BusPlan, EngineKind, QualityLevel};
use crate::base::time::{MonotonicClock, Span};
use crate::field::Readout;
use crate::field::navigate::goals::{Route, Task};
use crate::field::remote::local::TETHER_SOCKET;
use crate::field::remote::{SocketHop, Tether};
use crate::field::snapshot::{ExistingSnapshot, Snapshot, SnapshotError, UsableSnapshot, previous_of};
use crate::runtime::control::behaviour_names;
use crate::runtime::robot::{Options, SnapshotPlan};
use crate::runtime::session::{self, Session, is_service};
use crate::sim::Fault;
use crate::system::codec::FileError;
use crate::system::gpu::Watch;
use clap::{Args as ClapArgs, ValueEnum};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of a run on a simulated board without `--for`.
const DEFAULT_RUN: Span = Span::from_millis(20_000);
/// Longer than any robot runs, yet short enough to add to any clock reading.
const UNTIL_CTRL_C: Span = Span::from_nanos(u64::MAX / 4);

/// Arguments of `run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  ganglion run                                 the simulated PiCar-X, 20 s in real time
  ganglion run --clock sim --for 60s --seed 7  the same world every time, as fast as possible
  ganglion run --fault sonar-frozen@5s --json  a sensor freezes after 5 s; figures as JSON
  ganglion run --board boards/mine.toml        a board file of your own
  ganglion run --board picarx-v4 --simulate    the board of a real robot, in the simulator
  ganglion run --world my-room.toml            the simulated PiCar-X in a world of your own
  ganglion run --world my-room.toml --goal '2,1;0,0'
                                               the robot goes to a place, and back to its start
  ganglion run --world track.toml --behaviour follow-line
                                               it follows the line on the floor
  ganglion run --snapshot brain.bin            save the brain to a file, resume from it next time
  ganglion run --board picarx-v4-tethered --simulate --tether /tmp/tether.sock
                                               a simulated robot whose brain is remote
  ganglion run --board picarx-v4 --arm         a real robot; it drives as soon as all checks pass
  ganglion run --record drive.mcap             record what it sees and decides, for 'ganglion log'
  ganglion run --clock sim --for 2min --svg drive.svg
                                               draw the room from above with the path that it took

On a terminal, a screen shows the robot; key h explains it. With NO_COLOR, --json or --clock sim, one
line does so instead (with NO_COLOR, --screen shows the screen without colours). With TERM=dumb or
without a terminal, nothing is shown before the summary.

Ctrl-C stops the motors and prints the summary. A second Ctrl-C, at least 1.5 s later, ends the
program at once. SIGTERM, SIGQUIT and a lost session (SIGHUP) do the same; Ctrl-Z is ignored.")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE", default_value = "sim")]
    pub board: PathBuf,
    /// Drive the board in the simulator, with its own buses, chips, lines and limits, but no real wire
    #[arg(long, conflicts_with = "guard", long_help = SIMULATE_HELP)]
    pub simulate: bool,
    /// World file for the simulated robot: room, obstacles, start, goal (docs/commands.md, "Worlds")
    #[arg(long, value_name = "FILE")]
    pub world: Option<PathBuf>,
    /// Go to these places as soon as the robot is armed: X,Y[;X,Y...], metres ahead and to the left of the
    /// start [default: the goal in the world file, if it has one]
    #[arg(long, value_name = "X,Y;...", value_parser = go::route, allow_hyphen_values = true)]
    pub goal: Option<Route>,
    /// With --goal: patrol these places instead of stopping at the last one
    #[arg(long, requires = "goal")]
    pub repeat: bool,
    /// Start with this behaviour of the board instead, for example follow-line (docs/behaviours.md)
    #[arg(long, value_name = "NAME", conflicts_with = "goal")]
    pub behaviour: Option<String>,
    /// How long to run: 20s, 1500ms, 2min [default: 20s on a simulated board, else until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = arguments::span)]
    pub length: Option<Span>,
    /// Seed of the simulated world and its noise
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = arguments::seed)]
    pub seed: u64,
    /// Real time, or virtual time as fast as the machine allows
    #[arg(long, value_enum, default_value_t = ClockKind::Real)]
    pub clock: ClockKind,
    /// Inject a fault into the simulator: NAME[@START[+LENGTH]]; repeat for several
    #[arg(long = "fault", visible_alias = "inject", value_name = "NAME", value_parser = Fault::parse, long_help = fault_help())]
    pub faults: Vec<Fault>,
    /// The engine that computes the field [default: the board's]
    #[arg(long, value_enum)]
    pub engine: Option<EngineChoice>,
    /// Keep the field at this quality level, 0 (best) to 5 [default: the compute budget chooses]
    #[arg(long, value_name = "N", value_parser = arguments::quality)]
    pub quality: Option<QualityLevel>,
    /// A read-out from 'ganglion learn', or from 'ganglion teach', which corrects the board's starting table
    #[arg(long, value_name = "FILE")]
    pub readout: Option<PathBuf>,
    /// Obey the read-out even if it did not pass its trial
    #[arg(long, requires = "readout")]
    pub untried: bool,
    /// Resume from the brain in this file, if it exists, and save the brain to it: see --snapshot-every
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// How often to write the brain to the snapshot file; it is also written at the end
    #[arg(long, value_name = "TIME", value_parser = arguments::span, requires = "snapshot", default_value = "10s")]
    pub snapshot_every: Span,
    /// Arm as soon as all checks pass, without 'ganglion arm'
    #[arg(long)]
    pub arm: bool,
    /// Socket for arm, disarm, stop and status [default: /run/ganglion/control.sock, if it can be created]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Socket of the guard, if the board asks for one [default: /run/ganglion-guard/guard.sock]
    #[arg(long, value_name = "PATH")]
    pub guard: Option<PathBuf>,
    /// Socket of the tether process, if a remote brain computes the field; a simulated robot uses such a
    /// brain only with this option [default: /run/ganglion-tether/tether.sock]
    #[arg(long, value_name = "PATH")]
    pub tether: Option<PathBuf>,
    /// Exit with 69 if the robot does not become ready within this time [default: 30s on real wires,
    /// otherwise no limit]
    #[arg(long, value_name = "TIME", value_parser = arguments::span)]
    pub ready_within: Option<Span>,
    /// Run even if the board file is for another machine
    #[arg(long)]
    pub any_machine: bool,
    /// What is recorded, and where
    #[command(flatten)]
    pub recording: recording::RecordArgs,
    /// At the end, draw a simulated run from above into this file: room, path, and where reflexes tripped
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Show the screen even if NO_COLOR is set; it then has no colours
    #[arg(long, conflicts_with = "json")]
    pub screen: bool,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    pub json: bool,
}

/// What to do if the folder of a snapshot is missing.
const NEW_FOLDER: &str = "create the folder, or give --snapshot a file in an existing one";

/// Explanation of `--simulate`.
const SIMULATE_HELP: &str = "\
Drive the board in the simulator: its own buses, chips, lines, rules, limits and field, and no real wire.

Works for any board whose motors are on a Robot HAT or a PCA9685, shipped or your own, with either clock and with --fault. No \
device of this machine is opened and no guard is used; the robot arms by itself. If the simulator has no model of a chip, \
it says so: the run continues without its value, or ends with 78 if the board cannot drive without it.";

/// Which clock a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockKind {
    /// CLOCK_MONOTONIC, on threads.
    Real,
    /// Virtual time, in one thread, reproducible.
    Sim,
}

/// The faults that can be injected, one per line.
fn fault_help() -> String {
    let mut help = String::from(
        "Inject a fault into the simulator: NAME[@START[+LENGTH]], times in seconds; repeat for several.\n",
    );
    for (name, meaning) in Fault::all() {
        help.push_str(&format!("\n  {name:<18}{meaning}"));
    }
    help
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    check_screen(&args)?;
    let mut loaded = arguments::board(&args.board)?;
    let digest = loaded.digest; // the brain compares this digest of the robot's board; a simulated board has a different one
    let simulation = if args.simulate { simulate(&mut loaded)? } else { Default::default() };
    simulation.without_model().for_each(|line| log::warn!("simulated: {line}"));
    let world = args.world.as_ref().map(|path| arguments::world(&mut loaded, path)).transpose()?;
    arguments::engine(&mut loaded.board, args.engine, None);
    loaded.board.safety.auto_arm |= args.arm;
    let task = task(&args, &loaded.board)?;
    let mut picture = picture(&args, &loaded.board, &task)?;
    let readout = args.readout.as_deref().map(arguments::readout).transpose()?;
    let interrupt = Interrupt::watch()?;
    let length = match (args.length, &loaded.board.bus) {
        (Some(length), _) => length,
        (None, BusPlan::Sim) => DEFAULT_RUN,
        (None, _) => UNTIL_CTRL_C,
    };
    let tether = tether(&args, &loaded.board, digest)?;
    let snapshot = args.snapshot.as_ref().filter(|_| tether.is_none());
    if tether.is_some() && args.snapshot.is_some() {
        log::info!("the remote brain saves its own snapshots: --snapshot is not used");
    }
    snapshot.map_or(Ok(()), |path| demand_folder(path))?;
    let (resume, standing) = match snapshot {
        Some(path) => brain_in(path, &loaded.board)?,
        None => (None, ExistingSnapshot::Sound),
    };
    let every = args.snapshot_every;
    let snapshots = snapshot.cloned().map(|path| SnapshotPlan { path, every, existing: standing });
    // A run in virtual time must give the same result on every machine, so the CPU computes the field.
    let watch = Arc::<Watch>::default();
    let device = match args.clock {
        ClockKind::Real => arguments::device(&loaded.board, watch.clone())?,
        ClockKind::Sim => None,
    };
    let faults: Vec<String> = args.faults.iter().map(|fault| format!("{fault:?}")).collect();
    let about = recording::About {
        seed: args.seed,
        faults: faults.join("; "),
        simulated: args.simulate,
        world,
        quality: args.quality,
        engine: engine_of(&loaded.board, device.is_some(), tether.is_some()),
        readout: readout.as_ref().map(Readout::digest),
        resumed: resume.is_some(),
        is_virtual: args.clock == ClockKind::Sim,
    };
    let (recording, sender) = recording::start(&args.recording, &loaded, &about)?.unzip();
    let injected = args.faults.clone();
    let options = Options {
        recording: sender,
        seed: args.seed,
        faults: args.faults,
        readout,
        untried: args.untried,
        resume,
        quality: args.quality,
        snapshots,
        device,
        watch,
        tether,
        task,
        ..Options::default()
    };
    let (board, interrupted) = (&loaded.board, interrupt.flag());
    let is_simulated = matches!(board.bus, BusPlan::Sim);
    let mut status = StatusLine::new(Some(length), is_simulated);
    let mut drawn = picture.as_mut();
    let mut follow = move |recorder: &_, room: Option<&_>| {
        drawn.iter_mut().for_each(|picture| picture.follow(recorder, room));
    };
    let ended = match args.clock {
        ClockKind::Sim => session::step(board, options, length, &interrupted, move |recorder, room| {
            status.show(recorder);
            follow(recorder, room);
        }),
        ClockKind::Real => {
            let Args { control, guard, any_machine, ready_within, .. } = args;
            let digest = loaded.digest;
            let state = state_folder();
            let session = Session {
                board,
                digest,
                length,
                interrupted,
                control,
                guard,
                state,
                any_machine,
                ready_within,
                recording: recording.as_ref(),
            };
            let end = interrupt.flag();
            let mut wants_screen = !args.json && screen::is_wanted(args.screen);
            let mut screen = None;
            session.run(options, move |recorder, sources| {
                if std::mem::take(&mut wants_screen) {
                    screen = OwnRun::open(sources.clone(), end.clone());
                }
                if screen.is_none() {
                    status.show(recorder);
                }
                follow(recorder, sources.room.as_ref());
                log::logger().flush(); // reports the lines that the quota dropped
            })
        }
    };
    let outcome = ended.map_err(|error| error_text::of_session(error, args.snapshot.as_deref()))?;
    let mut report = RunReport::new(board, &outcome, args.clock, simulation, &injected);
    report.print();
    report.recording = recording
        .map(|recording| recording::end(recording, &outcome.ending.granted))
        .as_ref()
        .map(Recorded::of);
    let pictured = picture.map_or(Ok(()), |picture| picture.end(board, &outcome));
    if args.json {
        super::output::json(&report)?;
    }
    report.verdict().and(pictured)
}

/// Fails if `--screen` asks for a screen that there cannot be.
fn check_screen(args: &Args) -> Result<(), Failure> {
    if args.screen && args.clock == ClockKind::Sim {
        return Err(
            Failure::usage("--screen: a run in virtual time has no screen").fix("leave out --clock sim")
        );
    }
    screen::check(args.screen)
}

/// What the robot does once it is armed: the behaviour of `--behaviour`, or it goes where `--goal` or else
/// the world file says, or wanders.
fn task(args: &Args, board: &Board) -> Result<Task, Failure> {
    if let Some(name) = &args.behaviour {
        return go::behaviour(&board.name, &behaviour_names(board), name);
    }
    let world = board.sim.as_ref().and_then(|sim| sim.world.as_ref());
    let Some(route) = args.goal.or_else(|| world.and_then(Route::of_world)) else { return Ok(Task::Wander) };
    go::demand_navigator(board)?;
    if args.repeat { go::patrol(route) } else { Ok(Task::Go(route)) }
}

/// The picture that `--svg` requests.
fn picture(args: &Args, board: &Board, task: &Task) -> Result<Option<Picture>, Failure> {
    let is_virtual = args.clock == ClockKind::Sim;
    let about = picture::About { seed: args.seed, is_virtual, route: task.route().copied() };
    args.svg.clone().map(|path| Picture::begin(path, board, about)).transpose()
}

/// The engine that computes the field.
fn engine_of(board: &Board, has_device: bool, has_tether: bool) -> EngineKind {
    match board.field.engine {
        EngineKind::Reference => EngineKind::Reference,
        _ if has_tether => EngineKind::Remote,
        _ if has_device => EngineKind::Cuda,
        _ => EngineKind::Cpu,
    }
}

/// The connection to the remote brain. `None` if the field is computed here: because the board says so, or
/// because this is a simulation and the command line names no tether.
fn tether(args: &Args, board: &Board, digest: blake3::Hash) -> Result<Option<Tether>, Failure> {
    let is_remote = board.field.engine == EngineKind::Remote;
    let is_named = args.tether.is_some();
    if is_named && !is_remote {
        return Err(Failure::usage("--tether is for boards whose field a remote brain computes")
            .fix("use a board with [field] engine = \"remote\", and no --engine"));
    }
    if is_named && args.clock == ClockKind::Sim {
        return Err(Failure::usage("a remote brain cannot keep up with virtual time")
            .fix("leave out --tether, or use --clock real"));
    }
    let is_real = args.clock == ClockKind::Real && !matches!(board.bus, BusPlan::Sim);
    if !is_remote || !(is_real || is_named) {
        return Ok(None);
    }
    if args.readout.is_some() {
        return Err(Failure::usage("--readout has no effect here: the remote brain has the read-out"));
    }
    let path = args.tether.clone().unwrap_or_else(|| PathBuf::from(TETHER_SOCKET));
    let hop = Box::new(SocketHop::new(path, MonotonicClock));
    Ok(Some(Tether { hop, digest: *digest.as_bytes(), words: Arc::default() }))
}

/// The service's state folder, which the service manager keeps between runs (systemd.exec(5)); the first one
/// if there are several.
fn state_folder() -> Option<PathBuf> {
    let named = std::env::var_os("STATE_DIRECTORY")?.into_string().ok()?;
    named.split(':').next().filter(|first| !first.is_empty()).map(PathBuf::from)
}

/// Fails if there is no folder for the snapshot at `path`, because then no brain would be saved. A service
/// keeps driving: its disk may be broken.
fn demand_folder(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        _ if is_service() => Ok(()),
        Ok(_) => Err(Failure::usage("not a folder").at(folder.display()).fix(NEW_FOLDER)),
        Err(error) => Err(Failure::file(folder, &error).fix(NEW_FOLDER)),
    }
}

/// The brain in the file at `path`, or the previous one if that file is damaged; `None` if there is no file
/// yet.
fn brain_in(path: &Path, board: &Board) -> Result<(Option<Snapshot>, ExistingSnapshot), Failure> {
    match Snapshot::find(path, board) {
        Ok(None) => Ok((None, ExistingSnapshot::Sound)),
        Ok(Some(UsableSnapshot { snapshot, in_place_of: None })) => {
            note_differences(&snapshot, path, board);
            Ok((Some(snapshot), ExistingSnapshot::Sound))
        }
        Ok(Some(UsableSnapshot { snapshot, in_place_of: Some(error) })) => {
            let before = previous_of(path);
            let why = match error {
                SnapshotError::File(error) => error.to_string(), // names the file
                error => format!("{}: {error}", path.display()),
            };
            log::warn!("{why}; the robot resumes from {}", before.display());
            note_differences(&snapshot, &before, board);
            Ok((Some(snapshot), ExistingSnapshot::Refused))
        }
        Err(SnapshotError::File(error @ FileError::Io { .. })) => Err(error_text::of_file(error)),
        Err(SnapshotError::File(error)) => {
            Err(error_text::of_file(error).fix("name another file, or remove this one, to start from rest"))
        }
        Err(error) => Err(error_text::misfit(error, path)),
    }
}

/// Warns of a snapshot that has no map for the robot, or a read-out that the robot cannot use.
fn note_differences(snapshot: &Snapshot, path: &Path, board: &Board) {
    if snapshot.lacks_map(board) {
        log::warn!("{}: this snapshot contains no map; the map begins empty", path.display());
    }
    if snapshot.has_other_readout(board) {
        log::warn!(
            "{}: the read-out in this snapshot was made for a starting table other than the board's; \
             it is not used, but the rest of the brain is",
            path.display()
        );
    }
}
