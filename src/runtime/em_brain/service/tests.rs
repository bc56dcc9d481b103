//! Tests with clients on loopback, whose frames are written from the protocol's description.

use super::*;
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{EngineKind, QualityLevel, Shape};
use crate::base::time::{MonotonicClock, Span};
use crate::deploy::board::built_in;
use crate::deploy::board::profile::ProfileFile;
use crate::field::FieldInput;
use crate::field::brain::{Before, Brain};
use crate::runtime::brain::robots::{Limits, Robots};
use crate::runtime::brain::sessions::Sessions;
use crate::runtime::brain::workers::Workers;
use crate::runtime::em_brain::profile::Draft;
use crate::runtime::tether::key::Keys;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Instant;

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(20);

struct Rig {
    board: Arc<ServedBoard>,
    outlets: Arc<Outlets>,
    workers: Option<Workers>,
    ends: Arc<AtomicBool>,
    server: Option<JoinHandle<io::Result<()>>>,
}

fn picarx() -> (Profile, Arc<ServedBoard>) {
    let file = ProfileFile::load(Path::new("picarx")).unwrap();
    let loaded = built_in("picarx-v4").unwrap().unwrap();
    let mut board = loaded.board;
    board.field.shape = Shape { grid: 8, patterns: 2, bank: 16, ..board.field.shape };
    // The fastest allowed period, to keep the tests short.
    let draft = Draft { period: Span::from_millis(5), ..file.draft };
    let profile = Profile::check(&draft, &board).unwrap();
    let board = ServedBoard::new(board, *loaded.digest.as_bytes(), EngineKind::Cpu, 1);
    board.takes(Span::from_micros(100));
    (profile, board)
}

impl Rig {
    fn new(robots: usize) -> Rig {
        let (profile, board) = picarx();
        let (tell, _) = crossbeam_channel::unbounded();
        let limits = Limits { robots, threads: 64, state: None };
        let (workers, outlets) = Workers::start(Robots::new(limits), 2, |hub| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let sessions = Sessions::new(Keys::default(), Vec::new(), 1);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let em_brain = Some(EmBrain::new(listener, profile, board.clone(), hub.clone()));
            Arc::new(Outlets { network: Network::new(socket, sessions, hub.clone(), tell), em_brain })
        })
        .unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let (serving, flag) = (outlets.clone(), ends.clone());
        let server = Some(thread::spawn(move || serving.em_brain.as_ref().unwrap().serve(&flag)));
        Rig { board, outlets, workers: Some(workers), ends, server }
    }

    fn status(&self) -> EmBrainStatus {
        self.outlets.status(8, 2).unwrap().em_brain.unwrap()
    }

    fn client(&self, mark: &'static [u8]) -> Robot {
        let address: SocketAddr = self.status().listens;
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Robot { stream, mark }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
        drop(self.workers.take());
    }
}

/// A client with its own implementation of the protocol.
struct Robot {
    stream: TcpStream,
    mark: &'static [u8],
}

impl Robot {
    fn send(&mut self, kind: u8, values: &[f32]) {
        let mut bytes = self.mark.to_vec();
        bytes.extend((5 + 4 * values.len() as u32).to_be_bytes());
        bytes.push(kind);
        bytes.extend((values.len() as u32).to_be_bytes());
        values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        self.stream.write_all(&bytes).unwrap();
    }

    fn receive(&mut self) -> (u8, Vec<f32>) {
        let mut mark = vec![0; self.mark.len()];
        self.stream.read_exact(&mut mark).unwrap();
        assert_eq!(mark, self.mark, "the answer has the framing of the request");
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).unwrap();
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), 5 + 4 * word(5));
        let mut body = vec![0; 4 * word(5) as usize];
        self.stream.read_exact(&mut body).unwrap();
        let values = body.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
        (head[4], values.collect())
    }

    fn ask(&mut self, kind: u8, values: &[f32]) -> (u8, Vec<f32>) {
        self.send(kind, values);
        self.receive()
    }

    fn join(&mut self) {
        let answer = self.ask(2, &[1.0, 16.0, 5.0, 1.0, 1.0]);
        assert_eq!(answer, (2, vec![1.0, 16.0, 5.0, 0.0, 0.0]));
    }

    /// Whether the brain has closed the connection.
    fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// The sensors of a drive along a wall: range, ground, speeds, battery.
fn senses(cycle: u64) -> Vec<f32> {
    let mut vector = vec![0.0; 16];
    vector[0] = 0.2 + cycle as f32 * 0.1;
    vector[1..4].fill(0.2);
    vector[9] = 7.4;
    vector[14] = cycle as f32 * 50.0;
    vector
}

#[test]
fn clients_of_every_framing_get_the_fields_output() {
    const CYCLES: u64 = 6;
    let rig = Rig::new(8);
    let mut robots = [&b""[..], b"ROBO", &[0xDE, 0xAD, 0xBE, 0xEF]].map(|mark| rig.client(mark));
    robots.iter_mut().for_each(Robot::join);
    let (profile, served) = picarx();
    let clock = Arc::new(MonotonicClock);
    let mut board = served.board.clone();
    board.field.engine = EngineKind::Cpu;
    let mut brain = Brain::new(&board, None, None, Before::default(), clock).unwrap();
    for cycle in 1..=CYCLES {
        let vector = senses(cycle);
        let (sensors, reward) = profile.sense(&vector).unwrap();
        let input = FieldInput { cycle, sensors, reward, quality: QualityLevel::BEST, place: None };
        let mut response = brain.engine.cycle(&input).unwrap();
        brain.request(&mut response, &sensors);
        let expected = profile.act(&response.motors);
        for robot in &mut robots {
            assert_eq!(robot.ask(0, &vector), (1, expected.clone()), "cycle {cycle}");
        }
    }
    let drives = |range: f32| {
        let mut vector = senses(1);
        vector[0] = range;
        let (sensors, _) = profile.sense(&vector).unwrap();
        let mut motors = [0.0; MAX_MOTORS];
        board.field.correct_start(&mut motors, &sensors);
        profile.act(&motors)[0]
    };
    assert!(drives(3.0) > drives(0.1), "the starting table drives where there is room");
    let status = rig.status();
    assert_eq!((status.accepted, status.actions, status.errors), (3, 3 * CYCLES, 0));
    assert_eq!(rig.outlets.status(8, 2).unwrap().robots.len(), 3, "each has its own engine");
}

#[test]
fn invalid_requests_get_error_frames_and_later_ones_answers() {
    let rig = Rig::new(8);
    let mut robot = rig.client(b"ROBO");
    let error = |code: f32| (255, vec![code]);
    assert_eq!(robot.ask(0, &senses(0)), error(2.0), "before the handshake");
    assert_eq!(robot.ask(2, &[1.0, 24.0, 4.0, 1.0, 1.0]), error(2.0), "dimensions of another robot");
    assert_eq!(robot.ask(2, &[]), error(2.0), "16 and 4 are assumed");
    robot.join();
    assert_eq!(robot.ask(0, &senses(0)[..15]), error(2.0));
    assert_eq!(robot.ask(0, &[]), error(3.0));
    assert_eq!(robot.ask(7, &senses(0)), error(1.0));
    assert_eq!(robot.ask(1, &[0.0; 5]), error(1.0), "an action from a client");
    let mut infinite = senses(0);
    infinite[3] = f32::INFINITY;
    assert_eq!(robot.ask(0, &infinite), error(2.0));
    let rewarded: Vec<f32> = senses(1).into_iter().chain([0.5]).collect();
    assert_eq!(robot.ask(0, &rewarded).0, 1);
    let status = rig.status();
    assert_eq!((status.actions, status.errors, status.let_go), (1, 8, 0));
}

#[test]
fn an_invalid_frame_ends_the_connection_with_an_error() {
    let rig = Rig::new(8);
    let mut robot = rig.client(b"");
    robot.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(robot.receive(), (255, vec![2.0]));
    assert!(robot.is_closed());
    let mut other = rig.client(b"ROBO");
    other.join();
    other.stream.write_all(&[0, 0, 0, 5, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(other.receive(), (255, vec![2.0]), "without its mark");
    assert!(other.is_closed());
}

#[test]
fn a_client_beyond_the_limits_is_turned_away() {
    let rig = Rig::new(1);
    let mut first = rig.client(b"");
    first.join();
    let mut second = rig.client(b"");
    assert_eq!(second.ask(2, &[1.0, 16.0, 5.0]), (255, vec![5.0]), "the brain accepts only one robot");
    let mut idle: Vec<Robot> = (2..CLIENTS_MOST).map(|_| rig.client(b"")).collect();
    // The listener accepts them in order: once the last one is answered, all are connected.
    assert_eq!(idle.last_mut().unwrap().ask(0, &[]), (255, vec![2.0]));
    assert!(rig.client(b"").is_closed());
    assert_eq!(first.ask(0, &senses(1)).0, 1, "the others are not affected");
    assert_eq!(rig.status().clients, CLIENTS_MOST);
}

#[test]
fn a_client_that_reconnects_finds_its_engine() {
    let rig = Rig::new(8);
    let mut robot = rig.client(b"");
    robot.join();
    robot.ask(0, &senses(1));
    drop(robot);
    let begun = Instant::now();
    while rig.status().clients > 0 && begun.elapsed() < TIMEOUT {
        thread::sleep(LOOK_EVERY);
    }
    let mut again = rig.client(b"ROBO");
    again.join();
    assert_eq!(again.ask(0, &senses(2)).0, 1);
    let robots = rig.outlets.status(8, 2).unwrap().robots;
    let rows: Vec<_> = robots.iter().map(|robot| (robot.row.name.as_str(), robot.row.cycles)).collect();
    assert_eq!(rows, [("_em-127.0.0.1", 2)]);
    assert_eq!(rig.board.board.name, robots[0].row.board);
}
