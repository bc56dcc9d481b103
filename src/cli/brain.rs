//! `brain`: computes the fields of many robots that join over the network. The runtime's module `brain`
//! serves the robots; this file provides boards, keys, sockets and messages.

mod words;

use super::arguments;
use super::exit::Failure;
use super::interrupt::Interrupt;
use super::output;
use crate::base::plan::EngineKind;
use crate::base::time::{Clock, MonotonicClock};
use crate::deploy::board::profile::ProfileFile;
use crate::deploy::board::{BUILT_IN, Loaded, built_in};
use crate::field::device::{self, NoDevice};
use crate::runtime::brain::boards::ServedBoard;
use crate::runtime::brain::network::{BrainStatus, Network};
use crate::runtime::brain::robots::{Limits, Robots};
use crate::runtime::brain::sessions::Sessions;
use crate::runtime::brain::status::{BRAIN_SOCKET, StatusSocket};
use crate::runtime::brain::workers::{Event, Workers};
use crate::runtime::em_brain::profile::Profile;
use crate::runtime::em_brain::service::{EmBrain, Outlets};
use crate::runtime::tether::key::KeyError;
use crate::runtime::tether::key::Keys;
use crate::system::gpu::Watch;
use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use words::EventPrinter;

/// How often to check whether the program should end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments of `brain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion tether key rover-7 -o /etc/ganglion/brain-keys/rover-7.key  a key, also for the robot
  ganglion brain                                    serve all shipped boards with a remote field
  ganglion brain --board mine.toml --engine cuda --state /var/lib/ganglion-brain
  ganglion status --brain                           a row for each robot
  ganglion bench brain --robots 40                  how many robots this machine serves in time
  ganglion brain --em-brain 9999 --em-profile picarx   robots of the em-brain service, here
  ganglion brain --em-brain 10.0.0.2:9999 --em-profile mine.toml  from a network, not encrypted

A robot joins with its key, and its board must have the same values as one of the brain's boards. Each robot has its own
engine. With --state the brain saves each robot every half minute, after a minute of silence and at the end; a robot that
joins again continues from there. Ctrl-C or SIGTERM ends the brain and saves every robot.

With --em-brain the brain also speaks the TCP protocol of the earlier em-brain service. The profile defines what the values
in a client's vectors mean; 'picarx' is built in. These clients need no keys: --keys may then be empty or missing.")]
pub struct Args {
    /// Board that robots may join with: a file, or the name of a built-in board; repeat for several [default:
    /// every built-in board with a remote field]
    #[arg(long = "board", value_name = "FILE")]
    boards: Vec<PathBuf>,
    /// Folder of the robots' keys: files whose names end in .key
    #[arg(long, value_name = "DIR", default_value = "/etc/ganglion/brain-keys")]
    keys: PathBuf,
    /// What computes the fields; auto: a GPU if there is one that computes correctly, else the CPU
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:4747")]
    listen: SocketAddr,
    /// Maximum number of robots that may join at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_robots: u16,
    /// Number of compute threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Folder where the robots' brains are saved, one file for each
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Socket that answers 'ganglion status --brain' [default: /run/ganglion-brain/brain.sock, if it can be
    /// created]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Port on loopback for clients of the em-brain protocol, or an address and port
    #[arg(long, value_name = "PORT|ADDR:PORT", value_parser = em_address, requires = "em_profile")]
    em_brain: Option<SocketAddr>,
    /// Meaning of the values in the clients' vectors: a file, or a built-in profile (picarx)
    #[arg(long, value_name = "FILE", requires = "em_brain")]
    em_profile: Option<PathBuf>,
    /// Print JSON: one line for each event, and the table at the end
    #[arg(long)]
    json: bool,
}

/// What computes the fields.
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
    let em_client = args.em_profile.as_deref().map(em_profile).transpose()?;
    let keys = keys(&args.keys, em_client.is_some())?;
    let engine = engine(args.engine, &loaded)?;
    if let Some(folder) = &args.state {
        std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
    }
    let interrupt = Interrupt::watch()?;
    let socket = UdpSocket::bind(args.listen).map_err(|error| of_socket(args.listen, &error))?;
    let control = control(args.control.as_deref())?;
    let em_listener = args.em_brain.map(|address| {
        TcpListener::bind(address).map_err(|error| {
            of_socket(address, &error)
                .fix("choose an address of this machine and a free port with --em-brain")
        })
    });
    let em_listener = em_listener.transpose()?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    let served: Vec<Arc<ServedBoard>> = loaded.into_iter().map(served_by(engine, threads)).collect();
    let most = usize::from(args.max_robots);
    let mut printer = EventPrinter::new(args.json);
    let listens = socket.local_addr().map_err(|error| of_socket(args.listen, &error))?;
    printer.begin(&listens, &served, keys.len(), most, threads)?;
    if !args.boards.is_empty() {
        // Prepares the named boards now, so that the first robot does not have to wait.
        for board in &served {
            let cycle = board.prepare().map_err(Failure::unavailable)?;
            printer.prepared(board, cycle)?;
        }
    }
    let em_client = em_client.map(|(profile, loaded)| (profile, served_by(engine, threads)(loaded)));
    if let (Some(listener), Some((profile, board))) = (&em_listener, &em_client) {
        let cycle = board.prepare().map_err(Failure::unavailable)?;
        printer.prepared(board, cycle)?;
        let address = listener.local_addr().map_err(Failure::unavailable)?;
        printer.em_brain(&address, profile, board)?;
    }
    let (tell, events) = unbounded();
    let limits = Limits { robots: most, threads, state: args.state.clone() };
    // The first session number differs in each run, so sessions of an earlier run are not accepted.
    let sessions = Sessions::new(keys, served, MonotonicClock.now().as_nanos());
    let started = Workers::start(Robots::new(limits), threads, |hub| {
        let em_brain = em_listener.zip(em_client);
        let em_brain =
            em_brain.map(|(listener, (profile, board))| EmBrain::new(listener, profile, board, hub.clone()));
        Arc::new(Outlets { network: Network::new(socket, sessions, hub.clone(), tell), em_brain })
    });
    let (workers, outlets) =
        started.map_err(|error| Failure::unavailable(format!("cannot start a thread: {error}")))?;
    let ended = serve(&outlets, control.as_ref(), (most, threads), &interrupt, &events, &mut printer);
    let status = outlets.status(most, threads);
    workers.end(); // saves every robot
    let reported = printer.print_remaining(&events);
    ended.and(reported)?;
    printer.end(&status.map_err(Failure::unavailable)?)
}

/// Serves until asked to stop, and reports events.
fn serve(
    outlets: &Outlets,
    control: Option<&StatusSocket>,
    (most, threads): (usize, usize),
    interrupt: &Interrupt,
    events: &Receiver<Event>,
    printer: &mut EventPrinter,
) -> Result<(), Failure> {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| outlets.network.serve(&ends));
        if let Some(socket) = control {
            scope.spawn(|| socket.serve(&ends, || outlets.status(most, threads)));
        }
        if let Some(em_brain) = &outlets.em_brain {
            scope.spawn(|| em_brain.serve(&ends));
        }
        let mut reported = Ok(());
        while reported.is_ok() && !interrupt.asked() && !receiver.is_finished() {
            match events.recv_timeout(LOOK_EVERY) {
                Ok(event) => reported = printer.tell(&event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        ends.store(true, Ordering::Release);
        let received = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        received.map_err(|error| Failure::unavailable(format!("the network socket: {error}")))?;
        reported
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

fn served_by(engine: EngineKind, threads: usize) -> impl Fn(Loaded) -> Arc<ServedBoard> {
    move |loaded| ServedBoard::new(loaded.board, *loaded.digest.as_bytes(), engine, threads)
}

/// The address on which clients of the em-brain protocol connect: loopback unless one is given.
fn em_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse())
        .map_err(|_| "a port, or an address with its port: 9999, 10.0.0.2:9999".into())
}

/// The profile at `path`, with its board.
fn em_profile(path: &Path) -> Result<(Profile, Loaded), Failure> {
    let file = ProfileFile::load(path).map_err(|error| Failure::config(error).at(path.display()))?;
    let loaded = arguments::board(&file.board)?;
    let profile = Profile::check(&file.draft, &loaded.board);
    Ok((profile.map_err(|error| Failure::config(error).at(path.display()))?, loaded))
}

/// The robots' keys; with `optional`, there may be none.
fn keys(folder: &Path, optional: bool) -> Result<Keys, Failure> {
    if optional && !folder.exists() {
        return Ok(Keys::default());
    }
    let make = "make one with 'ganglion tether key NAME', and give the robot the same file";
    let keys = Keys::read_dir(folder).map_err(|error| keys_failure(error, make))?;
    if keys.is_empty() && !optional {
        return Err(Failure::config("no robot has a key here").at(folder.display()).fix(make));
    }
    Ok(keys)
}

/// Why the keys cannot be used; `make` says how to make one.
fn keys_failure(error: KeyError, make: &str) -> Failure {
    match error {
        KeyError::Io(path, error) if error.kind() == ErrorKind::PermissionDenied => {
            Failure::file(&path, &error).fix("let the brain's user read it (as a service: ganglion-brain)")
        }
        error => Failure::config(error).fix(make),
    }
}

/// The engine kind for every robot; an error if a GPU was requested and there is none.
fn engine(engine: Engine, loaded: &[Loaded]) -> Result<EngineKind, Failure> {
    let kind = engine.kind();
    let Some(first) = loaded.first() else {
        return Err(Failure::config("no board to serve").fix("name one with --board"));
    };
    let mut plan = first.board.field.clone();
    plan.engine = kind;
    match device::find(&plan, 1, Arc::new(Watch::default())) {
        Err(why) if kind == EngineKind::Cuda => {
            Err(Failure::unavailable(why)
                .fix("use '--engine auto' or '--engine cpu' to compute without a GPU"))
        }
        // Not an error: the engine's name says why the GPU is not used.
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

/// The status socket: the one that was named, or the default one if it can be created.
fn control(named: Option<&Path>) -> Result<Option<StatusSocket>, Failure> {
    match named {
        Some(path) => StatusSocket::open(path).map(Some).map_err(|error| Failure::file(path, &error)),
        None => Ok(StatusSocket::open(Path::new(BRAIN_SOCKET)).ok()),
    }
}

/// Prints the status of the brain at `socket`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn em_brain_clients_are_on_loopback_unless_an_address_is_given() {
        assert_eq!(em_address("9999"), Ok(SocketAddr::from(([127, 0, 0, 1], 9999))));
        assert_eq!(em_address("0.0.0.0:9999"), Ok(SocketAddr::from(([0, 0, 0, 0], 9999))));
        for wrong in ["", "70000", "localhost:9999", "10.0.0.2"] {
            assert!(em_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_that_may_not_be_read_are_not_missing() {
        let failure = |kind: ErrorKind| keys_failure(KeyError::Io("keys".into(), kind.into()), "make one");
        let (denied, absent) = (failure(ErrorKind::PermissionDenied), failure(ErrorKind::NotFound));
        assert_eq!((denied.exit(), absent.exit()), (Exit::Permission, Exit::Config));
        assert!(!denied.to_string().contains("make one"), "{denied}");
        assert!(absent.to_string().contains("make one"), "{absent}");
    }
}
