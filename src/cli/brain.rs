//! `brain`: computes the fields of many robots that join over the network. The module `brain` of the runtime
//! serves them; this file gives it boards, keys, a socket and words.

mod words;

use super::arguments;
use super::exit::Failure;
use super::interrupt::Interrupt;
use super::output;
use crate::base::plan::EngineKind;
use crate::base::time::{Clock, MonotonicClock};
use crate::deploy::board::{BUILT_IN, Loaded, built_in};
use crate::field::device::{self, NoDevice};
use crate::runtime::brain::boards::ServedBoard;
use crate::runtime::brain::network::{BrainStatus, Network};
use crate::runtime::brain::reception::Reception;
use crate::runtime::brain::robots::{Limits, Robots};
use crate::runtime::brain::status::{BRAIN_SOCKET, StatusSocket};
use crate::runtime::brain::workers::{Event, Workers};
use crate::runtime::tether::key::Keys;
use crate::system::gpu::Watch;
use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use words::Words;

/// How often the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments of `brain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion tether key rover-7 -o /etc/ganglion/brain-keys/rover-7.key    a key for a robot, once; it needs the same file
  ganglion brain                                    serve every shipped board that has a remote field, on port 4747
  ganglion brain --board mine.toml --engine cuda --state /var/lib/ganglion-brain
  ganglion status --brain                           a row for each robot
  ganglion bench brain --robots 40                  how many robots this machine serves in time

A robot joins with its key; its board has to be one of the brain's, value for value. Each robot has an engine of its own.
With --state its brain is saved every half minute, when it was silent for a minute, and at the end, and goes on from there
when it joins again. Ctrl-C or SIGTERM ends the brain and saves every robot.")]
pub struct Args {
    /// Board that robots may join with: a file, or the name of a built-in one; repeat for several [default:
    /// every built-in board with a remote field]
    #[arg(long = "board", value_name = "FILE")]
    boards: Vec<PathBuf>,
    /// Folder of the robots' keys, files whose names end in .key
    #[arg(long, value_name = "DIR", default_value = "/etc/ganglion/brain-keys")]
    keys: PathBuf,
    /// What computes: auto is a GPU if there is one that computes correctly, else the CPU
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:4747")]
    listen: SocketAddr,
    /// Robots that may have joined at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_robots: u16,
    /// Threads that compute [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Folder where the robots' brains are kept, a file for each
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Socket that answers 'ganglion status --brain' [default: /run/ganglion-brain/brain.sock, if it can be
    /// created]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Print JSON: a line for each event, and at the end the table
    #[arg(long)]
    json: bool,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// A GPU if there is one that computes correctly, else the CPU
    Auto,
    /// The CPU
    Cpu,
    /// A GPU
    Cuda,
}

impl Engine {
    fn kind(self) -> EngineKind {
        match self {
            Engine::Auto => EngineKind::Auto,
            Engine::Cpu => EngineKind::Cpu,
            Engine::Cuda => EngineKind::Cuda,
        }
    }
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let loaded = boards(&args.boards)?;
    let keys = keys(&args.keys)?;
    let engine = engine(args.engine, &loaded)?;
    if let Some(folder) = &args.state {
        std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
    }
    let interrupt = Interrupt::watch()?;
    let socket = UdpSocket::bind(args.listen).map_err(|error| of_socket(args.listen, &error))?;
    let control = control(args.control.as_deref())?;
    let served = |loaded: Loaded| ServedBoard::new(loaded.board, *loaded.digest.as_bytes(), engine);
    let served: Vec<Arc<ServedBoard>> = loaded.into_iter().map(served).collect();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    let most = usize::from(args.max_robots);
    let mut words = Words::new(args.json);
    let listens = socket.local_addr().map_err(|error| of_socket(args.listen, &error))?;
    words.begin(&listens, &served, keys.len(), most, threads)?;
    if !args.boards.is_empty() {
        // Those that were named are made ready now, so that the first robot does not wait for it.
        for board in &served {
            let cycle = board.prepare().map_err(Failure::unavailable)?;
            words.prepared(board, cycle)?;
        }
    }
    let (tell, events) = unbounded();
    let limits = Limits { robots: most, threads, state: args.state.clone() };
    // Another number in each run of the machine: a session of an earlier brain is foreign here.
    let reception = Reception::new(keys, served, MonotonicClock.now().as_nanos());
    let started = Workers::start(Robots::new(limits), threads, |hub| {
        Arc::new(Network::new(socket, reception, hub.clone(), tell))
    });
    let (workers, network) =
        started.map_err(|error| Failure::unavailable(format!("cannot start a thread: {error}")))?;
    let ended = serve(&network, control.as_ref(), (most, threads), &interrupt, &events, &mut words);
    let status = network.status(most, threads);
    workers.end(); // every robot is saved
    let said = words.rest(&events);
    ended.and(said)?;
    words.end(&status.map_err(Failure::unavailable)?)
}

/// Serves until the end is requested, and says what happens.
fn serve(
    network: &Network,
    control: Option<&StatusSocket>,
    (most, threads): (usize, usize),
    interrupt: &Interrupt,
    events: &Receiver<Event>,
    words: &mut Words,
) -> Result<(), Failure> {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| network.serve(&ends));
        if let Some(socket) = control {
            scope.spawn(|| socket.serve(&ends, || network.status(most, threads)));
        }
        let mut said = Ok(());
        while said.is_ok() && !interrupt.asked() && !receiver.is_finished() {
            match events.recv_timeout(LOOK_EVERY) {
                Ok(event) => said = words.tell(&event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        ends.store(true, Ordering::Release);
        let received = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        received.map_err(|error| Failure::unavailable(format!("the network socket: {error}")))?;
        said
    })
}

fn boards(named: &[PathBuf]) -> Result<Vec<Loaded>, Failure> {
    if !named.is_empty() {
        return named.iter().map(|path| arguments::board(path)).collect();
    }
    let shipped = BUILT_IN.iter().filter_map(|(name, _)| built_in(name));
    let all: Result<Vec<Loaded>, _> = shipped.collect();
    let all = all.map_err(|error| super::check::failure(Path::new("built-in"), &error))?;
    Ok(all.into_iter().filter(|loaded| loaded.board.field.engine == EngineKind::Remote).collect())
}

fn keys(folder: &Path) -> Result<Keys, Failure> {
    let make = "make one with 'ganglion tether key NAME', and give the robot the same file";
    let keys = Keys::read_dir(folder).map_err(|error| Failure::config(error).fix(make))?;
    if keys.is_empty() {
        return Err(Failure::config("no robot has a key here").at(folder.display()).fix(make));
    }
    Ok(keys)
}

/// The engine of every robot; refused here if a GPU is asked for and there is none.
fn engine(engine: Engine, loaded: &[Loaded]) -> Result<EngineKind, Failure> {
    let kind = engine.kind();
    let Some(first) = loaded.first() else {
        return Err(Failure::config("no board to serve").fix("name one with --board"));
    };
    let mut plan = first.board.field.clone();
    plan.engine = kind;
    match device::find(&plan, Arc::new(Watch::default())) {
        Err(why) if kind == EngineKind::Cuda => {
            Err(Failure::unavailable(why)
                .fix("use '--engine auto' or '--engine cpu' to compute without a GPU"))
        }
        // The engine's name says why no GPU computes.
        Ok(_) | Err(NoDevice::NotAsked | NoDevice::Absent(_) | NoDevice::Emulated { .. }) => Ok(kind),
    }
}

fn of_socket(listen: SocketAddr, error: &std::io::Error) -> Failure {
    let failure = match error.kind() {
        ErrorKind::PermissionDenied => Failure::permission(error),
        _ => Failure::unavailable(error),
    };
    failure.at(listen).fix("choose an address of this machine and a free port with --listen")
}

/// The socket for the status: the one that was named, or the usual one where that can be made.
fn control(named: Option<&Path>) -> Result<Option<StatusSocket>, Failure> {
    match named {
        Some(path) => StatusSocket::open(path).map(Some).map_err(|error| Failure::file(path, &error)),
        None => Ok(StatusSocket::open(Path::new(BRAIN_SOCKET)).ok()),
    }
}

/// How the brain that answers at `socket` fares.
pub(super) fn status(socket: &Path, json: bool) -> Result<(), Failure> {
    let status = crate::runtime::brain::status::ask(socket).map_err(|error| {
        Failure::file(socket, &error)
            .fix("start it: 'ganglion brain', or systemctl start ganglion-brain; or name its socket")
    })?;
    if json { output::json(&status) } else { page(&status) }
}

fn page(status: &BrainStatus) -> Result<(), Failure> {
    words::table(status);
    Ok(())
}
