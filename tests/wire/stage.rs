//! A tether in this process between a minimal runtime and a minimal brain.

use super::relay::Relay;
use crate::folder::Folder;
use ganglion::base::plan::QualityLevel;
use ganglion::base::time::{Instant, MonotonicClock, Span};
use ganglion::deploy::board;
use ganglion::field::FieldInput;
use ganglion::field::remote::local::{FromTether, Hello, LinkPhase, encode_request};
use ganglion::field::remote::message::{CycleAnswer, CycleRequest, Verdict};
use ganglion::runtime::guard::AllowedUser;
use ganglion::runtime::tether::carrier::Carrier;
use ganglion::runtime::tether::datagram::{Header, Id, Kind, UP_BYTES};
use ganglion::runtime::tether::join::{Join, JoinReply};
use ganglion::runtime::tether::key::{KeyFile, Keys};
use ganglion::runtime::tether::network::Finder;
use ganglion::runtime::tether::process::{Tether, ask_status};
use ganglion::runtime::tether::session::{PAYLOAD_MOST, Session, accept};
use ganglion::system::seqpacket::{Received, SocketLock, connect_to, listen_at, receive, send_to, wait_for};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Digest of the board that all of them use.
pub const DIGEST: [u8; 32] = [9; 32];
/// Every expected event comes within this time, even on the slowest machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The robot's key.
pub fn keys() -> KeyFile {
    KeyFile::new("rover", [0x5d; 32]).expect("a name")
}

/// The answer of the test's brain to a request: no other code produces such numbers.
pub fn answer_to(request: &CycleRequest) -> CycleAnswer {
    let mut answer = CycleAnswer::without(request, Verdict::Answered);
    answer.count = 2;
    answer.motors[0] = (request.cycle as f32 * 0.7).sin();
    answer.motors[1] = (request.cycle as f32 * 1.3).cos();
    answer.confidence = 0.5;
    answer
}

/// The request of a cycle.
pub fn request(cycle: u64) -> CycleRequest {
    let input = FieldInput { cycle, quality: QualityLevel::BEST, ..FieldInput::AT_REST };
    CycleRequest::of(&input, 3, Instant::from_nanos(cycle), Span::from_millis(40))
}

/// A brain that answers everything at once, until it is dropped.
pub struct Brain {
    /// Where it listens.
    pub address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Brain {
    /// Starts on a free port.
    pub fn start() -> Brain {
        Brain::at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts at `address`, as after a restart.
    pub fn at(address: SocketAddr) -> Brain {
        let socket = UdpSocket::bind(address).expect("a socket on loopback");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let address = socket.local_addr().expect("the socket is bound");
        let is_over = Arc::new(AtomicBool::new(false));
        let until = is_over.clone();
        let thread = Some(std::thread::spawn(move || answer_all(&socket, &until)));
        Brain { address, is_over, thread }
    }
}

impl Drop for Brain {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join); // a panic there looks like a silent brain
    }
}

fn answer_all(socket: &UdpSocket, is_over: &AtomicBool) {
    let keys = Keys::from(&keys());
    let (mut sessions, mut joined) = (HashMap::<Id, Session>::new(), 0u64);
    let mut bytes = [0; 2048];
    while !is_over.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
        let datagram = &bytes[..length];
        let answer = match Header::decode(datagram) {
            Ok(Header { kind: Kind::Join, id }) => keys.get(&id).and_then(|key| {
                let (_, pending) = accept(key, datagram).ok()?;
                joined += 1;
                let session = Id(joined.to_le_bytes());
                let reply = JoinReply::Joined { session, engine: "stage".into() };
                let (answer, end) = pending.reply(&reply).ok()?;
                sessions.insert(session, end?);
                Some(answer)
            }),
            Ok(Header { kind: Kind::Up, id }) => sessions.get_mut(&id).and_then(|session| {
                let mut payload = [0; PAYLOAD_MOST];
                let request = CycleRequest::decode(session.open(datagram, &mut payload).ok()?).ok()?;
                session.seal(&answer_to(&request).encode(), &mut [0; UP_BYTES]).map(<[u8]>::to_vec)
            }),
            _ => None,
        };
        if let Some(answer) = answer {
            let _ = socket.send_to(&answer, from); // a full queue drops it, as networks do
        }
    }
}

/// A tether in a thread, with its own socket.
pub struct Stage {
    pub path: PathBuf,
    /// The brain, behind [`Stage::relay`].
    pub brain: Option<Brain>,
    pub relay: Relay,
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    _place: SocketLock,
    _folder: Folder,
}

impl Stage {
    /// Starts the brain, the relay and the tether; `name` is that of the test.
    pub fn new(name: &str, seed: u64) -> Stage {
        let brain = Brain::start();
        let relay = Relay::before(brain.address, seed);
        let folder = Folder::new(&format!("wire-{name}"));
        let path = folder.join("tether");
        let (place, listener) = listen_at(&path).expect("a place for the socket");
        let (end, until) = UnixStream::pair().expect("a pair of sockets");
        let board = board::built_in("sim").expect("a built-in board").expect("and sound").board;
        let carrier = Carrier::new(&keys(), Join::of("rover", &board, DIGEST));
        let finder = Finder::new(&relay.address().to_string()).expect("an address");
        let clock = Arc::new(MonotonicClock);
        let mut tether =
            Tether::new(carrier, "rover", finder, listener, until.into(), AllowedUser::own(), DIGEST, clock);
        let thread = Some(std::thread::spawn(move || tether.run(|event| eprintln!("{event:?}"))));
        Stage { path, brain: Some(brain), relay, end: Some(end), thread, _place: place, _folder: folder }
    }

    /// The tether's counters.
    pub fn status(&self) -> serde_json::Value {
        let bytes = ask_status(&self.path, Span::from_millis(60_000)).expect("it answers");
        serde_json::from_slice(&bytes).expect("it is JSON")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end = None; // hangs up, which ends the tether
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A message from the tether.
#[derive(Clone, Debug, PartialEq)]
pub enum TetherMessage {
    /// The brain's answer to a cycle.
    Answer(CycleAnswer),
    /// The link's state.
    Link(LinkPhase, String),
    /// This runtime is not served.
    Refused,
    /// The connection is closed.
    Closed,
}

/// A runtime that greets the tether and sends requests.
pub struct Runtime(pub OwnedFd);

impl Runtime {
    /// Connects and sends its greeting.
    pub fn connect(stage: &Stage) -> Runtime {
        Runtime::with(stage, DIGEST)
    }

    /// Connects as a runtime with another board.
    pub fn with(stage: &Stage, digest: [u8; 32]) -> Runtime {
        Runtime::at(&stage.path, digest)
    }

    /// Connects to the tether at the socket `path`, as a runtime whose board has this digest.
    pub fn at(path: &Path, digest: [u8; 32]) -> Runtime {
        let began = std::time::Instant::now();
        // The listener's backlog is short, so a connection may be refused at first.
        let socket = std::iter::repeat_with(|| connect_to(path))
            .take_while(|_| began.elapsed() < TIMEOUT)
            .find_map(Result::ok)
            .expect("it listens");
        assert!(send_to(&socket, Hello::new(digest).encode().as_bytes()));
        Runtime(socket)
    }

    /// Sends the request of `cycle`.
    pub fn ask(&self, cycle: u64) {
        assert!(send_to(&self.0, encode_request(&request(cycle)).as_bytes()), "the tether reads");
    }

    /// The next message within `longest`.
    pub fn recv(&self, longest: Span) -> Option<TetherMessage> {
        let mut bytes = [0; 512];
        wait_for(&[&self.0], longest);
        match receive(&self.0, &mut bytes) {
            Received::Nothing => None,
            Received::Closed => Some(TetherMessage::Closed),
            Received::Message(length) => Some(match FromTether::decode(&bytes[..length]).expect("sound") {
                FromTether::Answer { answer, .. } => TetherMessage::Answer(
                    CycleAnswer::decode(answer).expect("what the brain sealed is valid"),
                ),
                FromTether::Link(phase, text) => TetherMessage::Link(phase, text.to_string()),
                FromTether::Refused(_) => TetherMessage::Refused,
            }),
        }
    }

    /// Waits until the link is in this phase, sending requests meanwhile; answers are checked. Returns the
    /// number of the next cycle.
    pub fn until(&self, phase: LinkPhase, mut cycle: u64) -> u64 {
        let began = std::time::Instant::now();
        while began.elapsed() < TIMEOUT {
            self.ask(cycle);
            cycle += 1;
            while let Some(heard) = self.recv(Span::from_millis(5)) {
                match heard {
                    TetherMessage::Link(now, _) if now == phase => return cycle,
                    TetherMessage::Answer(answer) => check(&answer),
                    TetherMessage::Link(..) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        panic!("the link never reached {phase:?}");
    }

    /// Sends requests until there is an answer; returns the number of the next cycle.
    pub fn until_answered(&self, mut cycle: u64) -> u64 {
        let began = std::time::Instant::now();
        while began.elapsed() < TIMEOUT {
            self.ask(cycle);
            cycle += 1;
            if let Some(TetherMessage::Answer(answer)) = self.recv(Span::from_millis(50)) {
                check(&answer);
                return cycle;
            }
        }
        panic!("no answer came");
    }
}

/// Checks that an answer equals the one that the brain gives to this cycle, in every field.
pub fn check(answer: &CycleAnswer) {
    assert_eq!(*answer, answer_to(&request(answer.cycle)), "it is not the brain's answer");
}
