//! Compares the whole round trip of a remote field's cycle with a bare UDP echo of the same size, in
//! alternating blocks on the same thread. The round trip is the engine's request, the local socket, the
//! tether, UDP over loopback, a brain, and back. The echo's thread has the tether's priority and core.

use super::ended;
use crate::base::plan::{Board, EngineKind, QualityLevel, RtPlan};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::drive::trace::{Latency, latency_histogram, note};
use crate::field::remote::{LinkWords, RemoteEngine, SocketHop};
use crate::field::{FieldEngine, FieldInput};
use crate::runtime::brain::boards::ServedBoard;
use crate::runtime::brain::engine::Unopened;
use crate::runtime::brain::network::Network;
use crate::runtime::brain::robots::{Limits, Robots};
use crate::runtime::brain::sessions::Sessions;
use crate::runtime::brain::workers::Workers;
use crate::runtime::guard::AllowedUser;
use crate::runtime::tether::carrier::Carrier;
use crate::runtime::tether::datagram::{DOWN_BYTES, UP_BYTES};
use crate::runtime::tether::join::Join;
use crate::runtime::tether::key::{KEY_BYTES, KeyFile, Keys};
use crate::runtime::tether::network::Finder;
use crate::runtime::tether::process::Tether;
use crate::system::rt::{Granted, Role, become_real_time, process_time};
use crate::system::seqpacket::listen_at;
use crossbeam_channel::unbounded;
use hdrhistogram::Histogram;
use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Length of a block: long compared with a period, but so short that the load of a shared machine hardly
/// changes from one block to the next.
const TURN: Span = Span::from_millis(250);
/// First cycles of each block, whose times do not count: they find the caches as the other kind of block left
/// them.
const WARM_UP: u64 = 2;
/// Time within which the robot must join its brain.
const JOINED_WITHIN: Span = Span::from_millis(20_000);
/// Admits the robot, however slow this machine is.
const NO_LIMIT: usize = 1 << 16;
/// A datagram that has not come back within this time counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// The settings of the measurement.
pub struct TetherBench {
    /// The robot's board, which has a tether.
    pub board: Board,
    /// Cycles per second.
    pub hz: u32,
    /// The key of the link, drawn for this measurement.
    pub key: [u8; KEY_BYTES],
}

/// Figures of one kind of trip.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Trips {
    /// From a request to its answer, microseconds, without the compute time.
    pub round_trip_us: Option<Latency>,
    /// Requests without an answer in time.
    pub lost: u64,
    /// Share of one core: processor time of this process per second of these blocks, without the compute
    /// time.
    pub share: f64,
}

/// Figures of one measurement.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TetherFigures {
    /// The link.
    pub link: Trips,
    /// The echo.
    pub echo: Trips,
    /// The rights that the system granted each thread.
    pub granted: Vec<(&'static str, Granted)>,
}

/// Why nothing was measured.
#[derive(Debug)]
pub enum NoTetherBench {
    /// The board has no tether.
    Tetherless,
    /// The brain cannot compute the board's field.
    Unopened(Unopened),
    /// The system refused a socket or a thread.
    System(io::Error),
    /// The robot could not join.
    NotJoined,
}

impl fmt::Display for NoTetherBench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTetherBench::Tetherless => f.write_str("the board has no [tether]"),
            NoTetherBench::Unopened(why) => why.fmt(f),
            NoTetherBench::System(error) => write!(f, "cannot open a socket or start a thread: {error}"),
            NoTetherBench::NotJoined => f.write_str("the robot did not join its brain in time"),
        }
    }
}

impl std::error::Error for NoTetherBench {}

impl From<io::Error> for NoTetherBench {
    fn from(error: io::Error) -> NoTetherBench {
        NoTetherBench::System(error)
    }
}

/// The counts for one kind of trip.
struct Tally {
    trips: Histogram<u64>,
    lost: u64,
    busy: Span,
    spent: Span,
}

impl Tally {
    fn new() -> Tally {
        Tally { trips: latency_histogram(), lost: 0, busy: Span::ZERO, spent: Span::ZERO }
    }

    /// Runs one block of trips. `trip` returns the time of a trip and the compute time in it; `None`: lost.
    fn turn(&mut self, period: Span, mut trip: impl FnMut() -> Option<(Span, Span)>) {
        let (begun, before) = (MonotonicClock.now(), process_time());
        let (mut due, mut computed, mut nth) = (begun + period, Span::ZERO, 0);
        while due < begun + TURN {
            MonotonicClock.sleep_until(due);
            match trip() {
                Some((took, own)) => {
                    computed = computed + own;
                    if nth >= WARM_UP {
                        note(&mut self.trips, took.less(own));
                    }
                }
                None => self.lost += 1,
            }
            nth += 1;
            due += period;
        }
        self.busy = self.busy + process_time().less(before).less(computed);
        self.spent = self.spent + MonotonicClock.now().since(begun);
    }

    fn figures(&self) -> Trips {
        let share = self.busy.as_secs_f64() / self.spent.as_secs_f64().max(f64::MIN_POSITIVE);
        Trips { round_trip_us: Latency::of(&self.trips), lost: self.lost, share }
    }
}

/// A folder for the tether's socket and the lock beside it. Only this user can enter it.
struct SocketFolder(PathBuf);

impl SocketFolder {
    fn new() -> io::Result<SocketFolder> {
        let path = std::env::temp_dir().join(format!("ganglion-bench-tether-{}", std::process::id()));
        // Refuses an existing path: another user may have put it there.
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(SocketFolder(path)),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl TetherBench {
    /// Measures for `length`, or until `interrupted`.
    pub fn run(&self, length: Span, interrupted: &AtomicBool) -> Result<TetherFigures, NoTetherBench> {
        let mut board = self.board.clone();
        board.field.dt = Span::from_nanos(1_000_000_000 / u64::from(self.hz.max(1)));
        let plan = board.tether.clone().ok_or(NoTetherBench::Tetherless)?;
        let digest = [0; 32];
        let served = ServedBoard::new(board.clone(), digest, EngineKind::Cpu, 1);
        served.prepare().map_err(NoTetherBench::Unopened)?;
        let keys = KeyFile::new("bench", self.key).expect("a valid name of a robot");
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let address = socket.local_addr()?;
        let (tell, _events) = unbounded();
        let limits = Limits { robots: 1, threads: NO_LIMIT, state: None };
        let sessions = Sessions::new(Keys::from(&keys), vec![served], MonotonicClock.now().as_nanos());
        let (workers, network) = Workers::start(Robots::new(limits), 1, |hub| {
            Arc::new(Network::new(socket, sessions, hub.clone(), tell))
        })?;
        let folder = SocketFolder::new()?; // declared first, so dropped last, also on an error
        let path = folder.0.join("socket");
        let (_place, listener) = listen_at(&path)?;
        let (end, ring) = UnixStream::pair()?;
        let carrier = Carrier::new(&keys, Join::of("bench", &board, digest));
        let finder = Finder::new(&address.to_string())?;
        let clock = Arc::new(MonotonicClock);
        let (allowed, ending) = (AllowedUser::own(), end.into());
        let mut tether =
            Tether::new(carrier, "bench", finder, listener, ending, allowed, digest, clock.clone());
        let echo = UdpSocket::bind("127.0.0.1:0")?;
        let here = UdpSocket::bind("127.0.0.1:0")?;
        here.connect(echo.local_addr()?)?;
        here.set_read_timeout(Some(LOST_AFTER))?;
        echo.set_read_timeout(Some(LOST_AFTER))?;
        let hop = Box::new(SocketHop::new(path, MonotonicClock));
        let mut engine =
            RemoteEngine::new(&board.field, &plan, digest, hop, Arc::<LinkWords>::default(), clock);
        let ends = AtomicBool::new(false);
        let rt = board.rt;
        thread::scope(|scope| {
            scope.spawn(|| network.serve(&ends));
            let carries = scope.spawn(|| {
                let granted = become_real_time(&rt, Role::Tether);
                tether.run(|_| {});
                granted
            });
            let echoes = scope.spawn(|| {
                let granted = become_real_time(&rt, Role::Tether);
                answer_until(&ends, &echo);
                granted
            });
            let asks = scope.spawn(|| measure(&mut engine, &here, board.field.dt, rt, length, interrupted));
            let measured = asks.join();
            ends.store(true, Ordering::Release);
            drop(ring); // ends the tether
            let granted = [("tether", carries.join()), ("echo", echoes.join())];
            workers.end();
            let mut measured = measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            for (name, granted) in granted {
                let granted = granted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                measured.granted.push((name, granted));
            }
            Ok(measured)
        })
    }
}

/// The work of the requesting thread: it joins, then alternates between blocks of cycles and of echoes.
fn measure(
    engine: &mut RemoteEngine,
    echo: &UdpSocket,
    period: Span,
    rt: RtPlan,
    length: Span,
    interrupted: &AtomicBool,
) -> Result<TetherFigures, NoTetherBench> {
    let granted = become_real_time(&rt, Role::Tick);
    let mut cycle = 0;
    let joined_by = MonotonicClock.now() + JOINED_WITHIN;
    while link_trip(engine, &mut cycle).is_none() {
        if MonotonicClock.now() >= joined_by || ended(interrupted) {
            return Err(NoTetherBench::NotJoined);
        }
        thread::sleep(Duration::from_nanos(period.as_nanos()));
    }
    let (mut link, mut bare) = (Tally::new(), Tally::new());
    let until = MonotonicClock.now() + length;
    while MonotonicClock.now() < until && !ended(interrupted) {
        link.turn(period, || link_trip(engine, &mut cycle));
        bare.turn(period, || echo_trip(echo, &mut cycle));
    }
    Ok(TetherFigures { link: link.figures(), echo: bare.figures(), granted: vec![("asking", granted)] })
}

/// Runs one cycle. Returns the time from the request to the answer, and the brain's compute time.
fn link_trip(engine: &mut RemoteEngine, cycle: &mut u64) -> Option<(Span, Span)> {
    *cycle += 1;
    let input = FieldInput { cycle: *cycle, quality: QualityLevel::BEST, ..FieldInput::AT_REST };
    let begun = MonotonicClock.now();
    let answered = engine.cycle(&input).is_ok();
    let now = MonotonicClock.now();
    let times = engine.condition(now).link.and_then(|link| link.times)?;
    answered.then(|| (now.since(begun), times.computed))
}

/// Sends a datagram and waits for its echo; echoes of earlier datagrams are dropped.
fn echo_trip(socket: &UdpSocket, number: &mut u64) -> Option<(Span, Span)> {
    *number += 1;
    let mut bytes = [0; UP_BYTES];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    let begun = MonotonicClock.now();
    socket.send(&bytes).ok()?;
    loop {
        let length = socket.recv(&mut bytes).ok()?;
        if length == DOWN_BYTES && bytes[..8] == number.to_le_bytes() {
            return Some((MonotonicClock.now().since(begun), Span::ZERO));
        }
    }
}

/// Answers each datagram with one as long as a brain's answer.
fn answer_until(ends: &AtomicBool, socket: &UdpSocket) {
    let mut bytes = [0; UP_BYTES];
    while !ends.load(Ordering::Acquire) {
        if let Ok((_, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..DOWN_BYTES], from); // a failure counts as a lost datagram
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Shape;
    use crate::deploy::board::built_in;

    #[test]
    fn link_and_echo_are_measured_alternately() {
        let mut board = built_in("picarx-v4-tethered").unwrap().unwrap().board;
        board.field.shape = Shape { grid: 8, ..board.field.shape };
        board.rt = RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false };
        let bench = TetherBench { board, hz: 50, key: [7; KEY_BYTES] };
        let figures = bench.run(Span::from_millis(1_000), &AtomicBool::new(false)).unwrap();
        for trips in [&figures.link, &figures.echo] {
            let answered = trips.round_trip_us.map_or(0, |latency| latency.n);
            // Even on a busy machine, each kind gets at least one block of twelve trips; two do not count.
            assert!(answered + trips.lost >= 10, "{figures:?}");
        }
        let names: Vec<_> = figures.granted.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["asking", "tether", "echo"]);
        let own = format!("ganglion-bench-tether-{}", std::process::id());
        let entries = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let mut left = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        // Not those of a process whose number begins with this one's.
        let is_own = |name: &String| {
            name.strip_prefix(&own).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
        };
        assert_eq!(left.find(is_own), None, "the socket's folder is removed");
    }
}
