//! Datagrams cause no allocation at either end, whether they are accepted or dropped.

use crate::allocation::allocations_in;
use ganglion::base::time::{Instant, Span};
use ganglion::deploy::board;
use ganglion::field::remote::message::{ANSWER_BYTES, REQUEST_BYTES};
use ganglion::runtime::tether::Dropped;
use ganglion::runtime::tether::carrier::{Arrived, Carrier};
use ganglion::runtime::tether::datagram::{Id, UP_BYTES};
use ganglion::runtime::tether::join::{Join, JoinReply};
use ganglion::runtime::tether::key::Key;
use ganglion::runtime::tether::session::{Joining, PAYLOAD_MOST, Session, accept};

/// The robot's and the brain's end of a session.
fn pair() -> (Session, Session) {
    let key = Key { robot: "rover".into(), secret: [1; 32] };
    let join = Join {
        message_version: 1,
        robot: "rover".into(),
        board: "sim".into(),
        digest: [0; 32],
        period: Span::from_millis(20),
        sensor_count: 0,
        motor_count: 0,
        sensors: Vec::new(),
        motors: Vec::new(),
        channels: [0; 32],
    };
    let (first, mut joining) = Joining::begin(&key, &join).expect("random numbers");
    let (_, pending) = accept(&key, &first).expect("its key");
    let reply = JoinReply::Joined { session: Id([1; 8]), engine: "cpu".into() };
    let (second, brain) = pending.reply(&reply).expect("random numbers");
    let (_, robot) = joining.answer(&second).expect("the answer");
    (robot.expect("joined"), brain.expect("joined"))
}

#[test]
fn a_tethered_cycle_allocates_nothing() {
    let board = board::built_in("sim").expect("a built-in board").expect("and sound").board;
    let keys = super::stage::keys();
    let key = keys.keys().next().expect("one key");
    let mut carrier = Carrier::new(&keys, Join::of("rover", &board, [0; 32]));
    carrier.start(Instant::ZERO);
    let first = carrier.attempt(Instant::ZERO).expect("random numbers");
    let (_, pending) = accept(&key, &first).expect("its key");
    let reply = JoinReply::Joined { session: Id([1; 8]), engine: "cpu".into() };
    let (second, brain) = pending.reply(&reply).expect("random numbers");
    assert_eq!(carrier.receive(&second, Instant::ZERO), Arrived::Reply);
    let mut brain = brain.expect("joined");
    let (mut request, mut down) = ([0; PAYLOAD_MOST], [0; UP_BYTES]);
    let (mut answers, mut dropped) = (0, 0);
    let allocated = allocations_in(|| {
        for _ in 0..1_000 {
            let datagram = carrier.request(&[1; REQUEST_BYTES], Instant::ZERO).expect("the link is joined");
            brain.open(datagram, &mut request).expect("it is the robot's");
            let datagram = brain.seal(&[2; ANSWER_BYTES], &mut down).expect("an answer");
            answers += u64::from(matches!(carrier.receive(datagram, Instant::ZERO), Arrived::Answer { .. }));
            dropped += u64::from(matches!(carrier.receive(datagram, Instant::ZERO), Arrived::Dropped(_)));
        }
    });
    assert_eq!((answers, dropped, allocated), (1_000, 1_000, 0));
}

#[test]
fn datagrams_cost_no_allocation() {
    let (mut robot, mut brain) = pair();
    let (mut up, mut down) = ([0; UP_BYTES], [0; UP_BYTES]);
    let (mut request, mut answer) = ([0; PAYLOAD_MOST], [0; PAYLOAD_MOST]);
    let mut taken = 0;
    let allocated = allocations_in(|| {
        for _ in 0..1_000 {
            let datagram = robot.seal(&[1; REQUEST_BYTES], &mut up).expect("a request");
            taken += usize::from(brain.open(datagram, &mut request).is_ok());
            assert_eq!(brain.open(datagram, &mut request), Err(Dropped::Stale));
            let datagram = brain.seal(&[2; ANSWER_BYTES], &mut down).expect("an answer");
            let mut forged = [0; UP_BYTES];
            forged[..datagram.len()].copy_from_slice(datagram);
            forged[100] ^= 1;
            assert_eq!(robot.open(&forged[..datagram.len()], &mut answer), Err(Dropped::Forged));
            taken += usize::from(robot.open(datagram, &mut answer).is_ok());
        }
    });
    assert_eq!((taken, allocated), (2_000, 0));
}
