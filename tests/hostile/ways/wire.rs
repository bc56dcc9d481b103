//! The entry points of the link to a brain computer: datagrams, the contents of a join, key files.

use super::reported;
use ganglion::base::time::{Instant, Span};
use ganglion::deploy::board;
use ganglion::runtime::tether::carrier::{Arrived, Carrier};
use ganglion::runtime::tether::datagram::{DOWN_BYTES, Header, Id, Kind, UP_BYTES};
use ganglion::runtime::tether::join::{Join, JoinReply};
use ganglion::runtime::tether::key::{Key, KeyFile};
use ganglion::runtime::tether::session::{Joining, PAYLOAD_MOST, Session, accept};
use std::cell::RefCell;

fn keys() -> KeyFile {
    KeyFile::new("rover-7", [0x5d; 32]).expect("a name")
}

fn key() -> Key {
    keys().keys().next().expect("one key")
}

fn join() -> Join {
    let board = board::built_in("picarx-v4").expect("a built-in board").expect("and sound").board;
    Join::of("rover-7", &board, [9; 32])
}

fn reply() -> JoinReply {
    JoinReply::Joined { session: Id([5; 8]), engine: "cpu".into() }
}

/// Both ends of an established link.
struct Ends {
    robot: Carrier,
    brain: Session,
}

impl Ends {
    fn new() -> Ends {
        let mut robot = Carrier::new(&keys(), join());
        robot.start(Instant::ZERO);
        let first = robot.attempt(Instant::ZERO).expect("random numbers");
        let (_, pending) = accept(&key(), &first).expect("its key");
        let (second, brain) = pending.reply(&reply()).expect("random numbers");
        assert_eq!(robot.receive(&second, Instant::ZERO), Arrived::Reply);
        // The robot joins again, so that it also handles answers to that join.
        robot.attempt(Instant::ZERO).expect("random numbers");
        Ends { robot, brain: brain.expect("a session") }
    }
}

thread_local!(static ENDS: RefCell<Ends> = RefCell::new(Ends::new()));

pub fn datagrams() -> Vec<Vec<u8>> {
    let data = |kind, length| {
        let mut bytes = Header { kind, id: Id([5; 8]) }.encode().to_vec();
        bytes.resize(length, 1);
        bytes
    };
    let (first, _) = Joining::begin(&key(), &join()).expect("random numbers");
    let (_, pending) = accept(&key(), &first).expect("its key");
    let (second, _) = pending.reply(&reply()).expect("random numbers");
    vec![first, second, data(Kind::Up, UP_BYTES), data(Kind::Down, DOWN_BYTES)]
}

/// Whatever arrives, neither end of a session accepts anything that its peer did not seal. Only a join may be
/// a replay.
pub fn take_datagram(bytes: &[u8]) -> bool {
    ENDS.with_borrow_mut(|ends| {
        let arrived = ends.robot.receive(bytes, Instant::ZERO + Span::from_millis(1));
        assert!(matches!(arrived, Arrived::Dropped(_)), "{arrived:?}");
        let opened = ends.brain.open(bytes, &mut [0; PAYLOAD_MOST]).map(<[u8]>::len);
        assert!(opened.is_err(), "{opened:?}");
    });
    if let Ok((said, _)) = accept(&key(), bytes) {
        assert_eq!(said, Ok(join()), "accepted a join that was not sealed with the key");
    }
    Header::decode(bytes).is_ok_and(|header| header.encode()[..] == bytes[..header.encode().len()])
}

pub fn joins() -> Vec<Vec<u8>> {
    vec![join().encode(), reply().encode(), JoinReply::refused(&"sensor 3 is `a`, not `b`").encode()]
}

/// An accepted join or reply encodes to the same bytes, and every difference between joins can be reported.
pub fn take_join(bytes: &[u8]) -> bool {
    let joined = Join::decode(bytes).inspect_err(|error| reported(error)).ok();
    let replied = JoinReply::decode(bytes).inspect_err(|error| reported(error)).ok();
    if let Some(said) = &joined {
        assert_eq!(said.encode(), bytes);
        assert_eq!(said.difference(said), None);
        said.difference(&join()).iter().for_each(|difference| reported(difference));
    }
    if let Some(reply) = &replied {
        assert_eq!(reply.encode(), bytes);
    }
    joined.is_some() || replied.is_some()
}

pub fn key_files() -> Vec<Vec<u8>> {
    let two = keys().with([0xa1; 32]).expect("another key");
    [keys(), two].map(|file| file.text().into_bytes()).to_vec()
}

pub fn take_key_file(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match KeyFile::parse(text) {
        Ok(file) => {
            assert_eq!(KeyFile::parse(&file.text()).as_ref(), Ok(&file));
            assert!((1..=2).contains(&file.keys().len()));
            true
        }
        Err(fault) => {
            reported(&fault);
            false
        }
    }
}
