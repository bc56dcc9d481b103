//! What a datagram costs in allocations: nothing, at both ends, whether it is taken or dropped.

use crate::allocation::allocations_in;
use ganglion::base::time::Span;
use ganglion::field::remote::message::{ANSWER_BYTES, REQUEST_BYTES};
use ganglion::runtime::tether::Dropped;
use ganglion::runtime::tether::datagram::{Id, UP_BYTES};
use ganglion::runtime::tether::join::{Join, JoinReply};
use ganglion::runtime::tether::key::Key;
use ganglion::runtime::tether::session::{Joining, PAYLOAD_MOST, Session, accept};

/// Robot's and brain's end of a session.
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
fn no_datagram_costs_an_allocation() {
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
