//! A brain on loopback, with robots that consist of a socket and a key.

use super::super::boards::ServedBoard;
use super::super::engine::EngineOpener;
use super::super::robots::{Limits, Robots};
use super::super::sessions::Sessions;
use super::super::tests::fixture::{alone, board, request};
use super::super::workers::Workers;
use super::*;
use crate::field::remote::message::Verdict;
use crate::runtime::tether::join::{Join, JoinReply};
use crate::runtime::tether::key::{Key, KeyFile, Keys};
use crate::runtime::tether::session::{Joining, Session};
use crossbeam_channel::{Receiver, unbounded};
use std::thread::{self, JoinHandle};

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(20);

struct Rig {
    board: Arc<ServedBoard>,
    network: Arc<Network>,
    workers: Option<Workers>,
    events: Receiver<Event>,
    ends: Arc<AtomicBool>,
    receiver: Option<JoinHandle<io::Result<()>>>,
}

fn key(robot: &str) -> Key {
    let digits: String = robot.bytes().cycle().take(32).map(|byte| format!("{byte:02x}")).collect();
    let file = KeyFile::parse(&format!("ganglion-key 1\nrobot {robot}\nkey {digits}\n")).unwrap();
    file.keys().next().unwrap()
}

fn keys(robots: &[&str]) -> Keys {
    let folder =
        std::env::temp_dir().join(format!("ganglion-keys-{}-{}", robots.join("-"), std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for robot in robots {
        use std::os::unix::fs::PermissionsExt;
        let hex: String = key(robot).secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.join(format!("{robot}.key"));
        std::fs::write(&path, format!("ganglion-key 1\nrobot {robot}\nkey {hex}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    }
    let keys = Keys::read_dir(&folder).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    keys
}

impl Rig {
    fn new(robots: &[&str]) -> Rig {
        let board = board();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (tell, events) = unbounded();
        let limits = Limits { robots: 8, threads: 64, state: None };
        let sessions = Sessions::new(keys(robots), vec![board.clone()], 7);
        let (workers, network) = Workers::start(Robots::new(limits), 2, |hub| {
            Arc::new(Network::new(socket, sessions, hub.clone(), tell))
        })
        .unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let (serving, flag) = (network.clone(), ends.clone());
        let receiver = Some(thread::spawn(move || serving.serve(&flag)));
        Rig { board, network, workers: Some(workers), events, ends, receiver }
    }

    fn status(&self) -> BrainStatus {
        self.network.status(8, 2).unwrap()
    }

    /// The status once this many cycles are counted; a cycle is counted after its answer is sent.
    fn status_after(&self, cycles: u64) -> BrainStatus {
        let started = std::time::Instant::now();
        loop {
            let status = self.status();
            let counted = status.robots.iter().map(|robot| robot.row.cycles).sum::<u64>();
            if counted >= cycles || started.elapsed() > TIMEOUT {
                return status;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn client(&self, robot: &str) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.connect(self.status().listens).unwrap();
        Client { socket, robot: robot.to_string(), session: None }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
        drop(self.workers.take());
    }
}

struct Client {
    socket: UdpSocket,
    robot: String,
    session: Option<Session>,
}

impl Client {
    fn receive(&self) -> Vec<u8> {
        let mut bytes = [0; MOST_BYTES];
        let length = self.socket.recv(&mut bytes).expect("an answer");
        bytes[..length].to_vec()
    }

    /// Joins; returns the join datagram.
    fn join(&mut self, join: &Join) -> Result<Vec<u8>, String> {
        let (datagram, mut joining) = Joining::begin(&key(&self.robot), join).unwrap();
        self.socket.send(&datagram).unwrap();
        match joining.answer(&self.receive()).unwrap() {
            (JoinReply::Joined { .. }, session) => self.session = session,
            (JoinReply::Refused(why), _) => return Err(why),
        }
        Ok(datagram)
    }

    fn join_with(&mut self, board: &ServedBoard) {
        self.join(&Join::of(&self.robot, &board.board, board.digest)).unwrap();
    }

    fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut out = [0; UP_BYTES];
        self.session.as_mut().unwrap().seal(payload, &mut out).unwrap().to_vec()
    }

    fn answer(&mut self) -> CycleAnswer {
        let datagram = self.receive();
        let mut payload = [0; PAYLOAD_MOST];
        let answer = self.session.as_mut().unwrap().open(&datagram, &mut payload).unwrap();
        CycleAnswer::decode(answer).unwrap()
    }

    fn cycle(&mut self, board: &ServedBoard, robot: u64, cycle: u64) -> CycleAnswer {
        let mut request = request(board, robot, cycle, Instant::ZERO);
        request.deadline = Span::from_millis(60_000); // long enough on a busy machine
        let datagram = self.seal(&request.encode());
        self.socket.send(&datagram).unwrap();
        self.answer()
    }
}

/// The answer without its times.
fn timeless(answer: CycleAnswer) -> CycleAnswer {
    CycleAnswer { computed: Span::ZERO, waited: Span::ZERO, ..answer }
}

#[test]
fn networked_robots_get_the_same_bits_as_alone() {
    const CYCLES: u64 = 12;
    let names = ["net-a", "net-b", "net-c"];
    let rig = Rig::new(&names);
    let mut clients: Vec<Client> = names.iter().map(|name| rig.client(name)).collect();
    clients.iter_mut().for_each(|client| client.join_with(&rig.board));
    for cycle in 0..CYCLES {
        for (robot, client) in clients.iter_mut().enumerate() {
            let answer = client.cycle(&rig.board, robot as u64, cycle);
            assert_eq!((answer.verdict, answer.cycle), (Verdict::Answered, cycle));
            let mut engine = EngineOpener::at_rest(rig.board.clone()).open(Arc::new(MonotonicClock)).unwrap();
            let expected = alone(&mut engine, &rig.board, robot as u64, 0..cycle + 1).pop().unwrap();
            let expected = CycleAnswer::decode(&expected).unwrap();
            let sent = answer.sent;
            assert_eq!(timeless(answer), CycleAnswer { sent, ..timeless(expected) });
        }
    }
    let status = rig.status_after(CYCLES * names.len() as u64);
    let rows: Vec<_> =
        status.robots.iter().map(|robot| (robot.row.name.as_str(), robot.row.cycles)).collect();
    assert_eq!(rows, names.map(|name| (name, CYCLES)));
    assert_eq!((status.drops.total(), rig.events.try_iter().count()), (0, 3));
}

#[test]
fn a_differing_robot_is_refused_with_both_values() {
    let rig = Rig::new(&["ref-a", "ref-b"]);
    let mut client = rig.client("ref-a");
    let sound = Join::of("ref-a", &rig.board.board, rig.board.digest);
    let refused = |client: &mut Client, join: &Join| client.join(join).unwrap_err();
    let said = refused(&mut client, &Join { robot: "ref-b".into(), ..sound.clone() });
    assert_eq!(said, "the robot calls itself `ref-b`, but its key belongs to `ref-a`");
    let mut other = sound.clone();
    other.sensors[0].unit = "ft".into();
    let said = refused(&mut client, &other);
    assert!(said.contains(" in ft ") && said.contains("the brain's board has"), "{said}");
    let said = refused(&mut client, &Join { digest: [9; 32], ..sound.clone() });
    assert!(said.contains("has digest 0909090909090909, the brain's has"), "{said}");
    let said = refused(&mut client, &Join { digest: [9; 32], board: "mine".into(), ..sound.clone() });
    assert_eq!(said, "the robot's board is `mine`, the brain has `sim`");
    assert!(rig.status().robots.is_empty());
    let told = rig.events.try_iter().filter(|event| matches!(event, Event::Refused { .. })).count();
    assert_eq!(told, 4);
    client.join(&sound).unwrap();
}

#[test]
fn bad_datagrams_are_counted_and_change_nothing() {
    let rig = Rig::new(&["att-a", "att-b"]);
    let [mut good, mut attacker] = ["att-a", "att-b"].map(|name| rig.client(name));
    let join = Join::of("att-a", &rig.board.board, rig.board.digest);
    let replay = good.join(&join).unwrap();
    let first = good.cycle(&rig.board, 1, 0);
    let old = good.seal(&request(&rig.board, 1, 1, Instant::ZERO).encode());
    let mut forged = good.seal(&request(&rig.board, 1, 2, Instant::ZERO).encode());
    *forged.last_mut().unwrap() ^= 1;
    let mut foreign = old.clone();
    foreign[8] ^= 0x55;
    let answer = good.cycle(&rig.board, 1, 1);
    attacker.robot = "nobody".into();
    let (unknown, _) = Joining::begin(&key("nobody"), &join).unwrap();
    for datagram in [&old, &forged, &foreign, &replay, &unknown, &b"gnT\x02".to_vec(), &vec![0; 60]] {
        attacker.socket.send(datagram).unwrap();
    }
    // This is received after all of the bad datagrams.
    let last = good.cycle(&rig.board, 1, 2);
    let mut engine = EngineOpener::at_rest(rig.board.clone()).open(Arc::new(MonotonicClock)).unwrap();
    let expected = alone(&mut engine, &rig.board, 1, 0..3);
    for (answer, expected) in [first, answer, last].into_iter().zip(expected) {
        let expected = CycleAnswer { sent: answer.sent, ..CycleAnswer::decode(&expected).unwrap() };
        assert_eq!(timeless(answer), timeless(expected));
    }
    let status = rig.status();
    let row = &status.robots[0];
    assert_eq!(row.address, Some(good.socket.local_addr().unwrap()), "its address has not changed");
    let named = row.drops;
    // The forged datagram has an old counter by now, so it is not even decrypted.
    assert_eq!((named.stale, named.forged), (2, 0));
    let drops = status.drops;
    assert_eq!(
        (drops.foreign, drops.replayed, drops.unknown_key, drops.short, drops.not_ours),
        (1, 1, 1, 1, 1)
    );
    assert_eq!(status.robots.len(), 1);
}

#[test]
fn old_session_stays_until_the_new_ones_first_datagram() {
    let rig = Rig::new(&["two-a"]);
    let [mut old, mut new] = ["two-a", "two-a"].map(|name| rig.client(name));
    old.join_with(&rig.board);
    old.cycle(&rig.board, 1, 0);
    new.join_with(&rig.board);
    assert_eq!(old.cycle(&rig.board, 1, 1).verdict, Verdict::Answered, "the new session is still unused");
    assert_eq!(new.cycle(&rig.board, 1, 2).cycle, 2);
    let late = old.seal(&request(&rig.board, 1, 3, Instant::ZERO).encode());
    old.socket.send(&late).unwrap();
    let answer = new.cycle(&rig.board, 1, 3);
    let mut engine = EngineOpener::at_rest(rig.board.clone()).open(Arc::new(MonotonicClock)).unwrap();
    let expected = alone(&mut engine, &rig.board, 1, 0..4).pop().unwrap();
    let expected = CycleAnswer { sent: answer.sent, ..CycleAnswer::decode(&expected).unwrap() };
    assert_eq!(timeless(answer), timeless(expected), "both sessions share one engine");
    assert_eq!((rig.status().robots.len(), rig.status().drops.foreign), (1, 1));
}

/// The attacker knows the key's ID and has the robot's address.
#[test]
fn forged_joins_do_not_keep_a_robot_from_joining() {
    let rig = Rig::new(&["fgd-a"]);
    let [mut robot, attacker] = ["fgd-a", "fgd-a"].map(|name| rig.client(name));
    let join = Join::of("fgd-a", &rig.board.board, rig.board.digest);
    for _ in 0..50 {
        let (mut forged, _) = Joining::begin(&key("fgd-a"), &join).unwrap();
        *forged.last_mut().unwrap() ^= 1;
        attacker.socket.send(&forged).unwrap();
    }
    robot.join(&join).unwrap();
    let drops = rig.status().drops;
    assert_eq!((drops.forged, drops.limited), (50, 0));
}
