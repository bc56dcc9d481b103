//! Two ends in one process, with a network or an attacker in between.

use super::*;
use crate::base::time::Span;
use crate::field::remote::message::{ANSWER_BYTES, REQUEST_BYTES};
use crate::runtime::tether::datagram::{DOWN_BYTES, ephemeral_of};
use crate::runtime::tether::key::{KeyFile, Keys};

const REQUEST: [u8; REQUEST_BYTES] = [0x5a; REQUEST_BYTES];
const ANSWER: [u8; ANSWER_BYTES] = [0xa5; ANSWER_BYTES];

fn key(first: u8) -> Key {
    Key { robot: "rover".into(), secret: [first; 32] }
}

fn join() -> Join {
    Join {
        message_version: 1,
        robot: "rover".into(),
        board: "sim".into(),
        digest: [3; 32],
        period: Span::from_millis(20),
        sensor_count: 0,
        motor_count: 0,
        sensors: Vec::new(),
        motors: Vec::new(),
        channels: [4; 32],
    }
}

fn joined(session: u8) -> JoinReply {
    JoinReply::Joined { session: Id([session; 8]), engine: "cpu".into() }
}

/// The robot's and the brain's end of a session.
fn pair(number: u8) -> (Session, Session) {
    let (first, mut joining) = Joining::begin(&key(1), &join()).unwrap();
    let (said, pending) = accept(&key(1), &first).unwrap();
    assert_eq!(said, Ok(join()));
    let (second, brain) = pending.reply(&joined(number)).unwrap();
    let (reply, robot) = joining.answer(&second).unwrap();
    assert_eq!(reply, joined(number));
    (robot.unwrap(), brain.unwrap())
}

fn up(robot: &mut Session) -> Vec<u8> {
    robot.seal(&REQUEST, &mut [0; UP_BYTES]).unwrap().to_vec()
}

fn down(brain: &mut Session) -> Vec<u8> {
    brain.seal(&ANSWER, &mut [0; UP_BYTES]).unwrap().to_vec()
}

fn open(end: &mut Session, datagram: &[u8]) -> Result<Vec<u8>, Dropped> {
    end.open(datagram, &mut [0; PAYLOAD_MOST]).map(<[u8]>::to_vec)
}

#[test]
fn requests_and_answers_are_opened_unchanged_and_once() {
    let (mut robot, mut brain) = pair(7);
    for count in 1..=100 {
        let request = up(&mut robot);
        assert_eq!(open(&mut brain, &request), Ok(REQUEST.to_vec()));
        assert_eq!(open(&mut brain, &request), Err(Dropped::Stale), "duplicate");
        let answer = down(&mut brain);
        assert_eq!(open(&mut robot, &answer), Ok(ANSWER.to_vec()));
        assert_eq!(open(&mut robot, &answer), Err(Dropped::Stale), "duplicate");
        assert_eq!((robot.sealed(), brain.newest(), robot.newest()), (count, count, count));
    }
}

#[test]
fn only_strictly_newer_counters_are_taken() {
    let (mut robot, mut brain) = pair(7);
    let sent: Vec<Vec<u8>> = (0..5).map(|_| up(&mut robot)).collect();
    let arrivals = [1, 0, 3, 3, 2, 4, 0, 4];
    let taken = arrivals.map(|at| open(&mut brain, &sent[at]).map(|_| at));
    let stale = Err(Dropped::Stale);
    assert_eq!(taken, [Ok(1), stale, Ok(3), stale, stale, Ok(4), stale, stale]);
    assert_eq!(brain.newest(), 5);
}

#[test]
fn each_changed_bit_is_detected_and_advances_no_counter() {
    let (mut robot, mut brain) = pair(7);
    let (request, answer) = (up(&mut robot), down(&mut brain));
    for (end, datagram) in [(&mut brain, &request), (&mut robot, &answer)] {
        for bit in 0..8 * datagram.len() {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let mut out = [0x77; PAYLOAD_MOST];
            let dropped = end.open(&changed, &mut out).expect_err("it was changed");
            let allowed: &[Dropped] = match bit / 8 {
                0..=2 | 5..=7 => &[Dropped::NotOurs],
                3 => &[Dropped::Version],
                4 => &[Dropped::Kind, Dropped::Short, Dropped::Long],
                8..=15 => &[Dropped::Foreign],
                16..=23 => &[Dropped::Forged, Dropped::Stale],
                _ => &[Dropped::Forged],
            };
            assert!(allowed.contains(&dropped), "bit {bit}: {dropped:?}");
            if dropped == Dropped::Forged {
                assert_eq!(out, [0; PAYLOAD_MOST], "no plaintext is left");
            }
            assert_eq!(end.newest(), 0);
        }
        open(end, datagram).expect("the unchanged one is still accepted");
    }
}

#[test]
fn a_datagram_of_another_length_is_dropped_unopened() {
    let (mut robot, mut brain) = pair(7);
    let request = up(&mut robot);
    for length in 0..request.len() {
        assert_eq!(open(&mut brain, &request[..length]), Err(Dropped::Short), "{length}");
    }
    for more in 1..=2000 {
        let long = [&request[..], &vec![0; more]].concat();
        assert_eq!(open(&mut brain, &long), Err(Dropped::Long), "{more}");
    }
    assert!(open(&mut brain, &request).is_ok());
}

#[test]
fn the_last_counter_is_neither_sealed_nor_opened() {
    let (mut robot, mut brain) = pair(7);
    robot.sealed = u64::MAX - 2;
    let last = up(&mut robot);
    assert_eq!(robot.sealed(), u64::MAX - 1);
    assert_eq!(robot.seal(&REQUEST, &mut [0; UP_BYTES]), None, "the last counter is reserved");
    let mut beyond = last.clone();
    beyond[16..24].fill(0xff);
    assert_eq!(open(&mut brain, &beyond), Err(Dropped::Forged));
    assert_eq!(open(&mut brain, &last), Ok(REQUEST.to_vec()));
    assert_eq!(open(&mut brain, &beyond), Err(Dropped::Forged));
    assert_eq!(open(&mut brain, &last), Err(Dropped::Stale));
}

#[test]
fn a_reflected_datagram_is_dropped() {
    let (mut robot, mut brain) = pair(7);
    let (request, answer) = (up(&mut robot), down(&mut brain));
    assert_eq!(open(&mut robot, &request), Err(Dropped::Kind));
    assert_eq!(open(&mut brain, &answer), Err(Dropped::Kind));
    // With the kind and length of the other direction, the datagram counts as forged.
    let mut disguised = request[..DOWN_BYTES].to_vec();
    disguised[4] = Kind::Down as u8;
    assert_eq!(open(&mut robot, &disguised), Err(Dropped::Forged));
}

#[test]
fn other_sessions_datagrams_are_foreign_or_forged() {
    let ((mut robot, _), (_, mut brain)) = (pair(7), pair(8));
    let mut request = up(&mut robot);
    assert_eq!(open(&mut brain, &request), Err(Dropped::Foreign));
    request[8..16].copy_from_slice(&brain.id().0);
    assert_eq!(open(&mut brain, &request), Err(Dropped::Forged));
    // A session with the same key and number still has different session keys.
    let (_, mut again) = pair(7);
    assert_eq!(open(&mut again, &up(&mut robot)), Err(Dropped::Forged));
}

#[test]
fn a_payload_of_another_length_is_not_sealed() {
    let (mut robot, mut brain) = pair(7);
    let out = &mut [0; UP_BYTES];
    for length in (0..400).filter(|length| *length != REQUEST_BYTES) {
        assert_eq!(robot.seal(&vec![0; length], out), None, "{length}");
    }
    for length in (0..400).filter(|length| *length != ANSWER_BYTES) {
        assert_eq!(brain.seal(&vec![0; length], out), None, "{length}");
    }
    assert_eq!((robot.sealed(), brain.sealed()), (0, 0), "no counter is used");
}

#[test]
fn a_changed_first_message_is_dropped() {
    let (first, _) = Joining::begin(&key(1), &join()).unwrap();
    for bit in 0..8 * first.len() {
        let mut changed = first.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(accept(&key(1), &changed).is_err(), "bit {bit}");
    }
    for length in 0..first.len() {
        assert!(accept(&key(1), &first[..length]).is_err(), "{length} bytes");
    }
    assert!(accept(&key(1), &first).is_ok());
}

#[test]
fn a_forged_second_message_changes_nothing() {
    let (first, mut joining) = Joining::begin(&key(1), &join()).unwrap();
    let (_, pending) = accept(&key(1), &first).unwrap();
    let (second, brain) = pending.reply(&joined(9)).unwrap();
    for bit in 0..8 * second.len() {
        let mut changed = second.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(joining.answer(&changed).is_err(), "bit {bit}");
    }
    let (_, robot) = joining.answer(&second).expect("the unchanged one is still accepted");
    let (mut robot, mut brain) = (robot.unwrap(), brain.unwrap());
    assert_eq!(open(&mut brain, &up(&mut robot)), Ok(REQUEST.to_vec()));
    assert_eq!(joining.answer(&second).err(), Some(Dropped::Stale), "a reply is accepted only once");
}

#[test]
fn replayed_first_message_is_detected_by_its_ephemeral_key() {
    let (first, mut joining) = Joining::begin(&key(1), &join()).unwrap();
    let (_, pending) = accept(&key(1), &first).unwrap();
    let (second, brain) = pending.reply(&joined(9)).unwrap();
    let (_, robot) = joining.answer(&second).unwrap();
    let (mut robot, mut brain) = (robot.unwrap(), brain.unwrap());
    // An attacker replays the message: the handshake succeeds. This is why the brain remembers ephemeral
    // keys.
    let (_, pending) = accept(&key(1), &first).unwrap();
    let (other, replayed) = pending.reply(&joined(9)).unwrap();
    assert_eq!(ephemeral_of(&first), ephemeral_of(&first.clone()));
    assert_ne!(ephemeral_of(&first), ephemeral_of(&Joining::begin(&key(1), &join()).unwrap().0));
    // The resulting session opens nothing, and the robot does not accept the reply.
    assert_eq!(open(&mut replayed.unwrap(), &up(&mut robot)), Err(Dropped::Forged));
    assert_eq!(joining.answer(&other).err(), Some(Dropped::Stale));
    assert_eq!(open(&mut brain, &up(&mut robot)), Ok(REQUEST.to_vec()), "the original session continues");
}

#[test]
fn a_wrong_key_opens_nothing() {
    let (mut first, mut joining) = Joining::begin(&key(1), &join()).unwrap();
    assert_eq!(accept(&key(2), &first).err(), Some(Dropped::UnknownKey));
    first[8..16].copy_from_slice(&key(2).id().0);
    assert_eq!(accept(&key(2), &first).err(), Some(Dropped::Forged));
    // A brain with another key cannot answer either.
    let (theirs, _) = Joining::begin(&key(2), &join()).unwrap();
    let (mut second, _) = accept(&key(2), &theirs).unwrap().1.reply(&joined(9)).unwrap();
    assert_eq!(joining.answer(&second).err(), Some(Dropped::Foreign));
    second[8..16].copy_from_slice(&key(1).id().0);
    assert_eq!(joining.answer(&second).err(), Some(Dropped::Forged));
}

#[test]
fn the_wires_version_is_part_of_the_handshake() {
    let params: NoiseParams = NOISE.parse().unwrap();
    let mut prologue = PROLOGUE;
    prologue[15] += 1;
    let secret = key(1).secret;
    let newer = Builder::new(params).psk(0, &secret).and_then(|builder| builder.prologue(&prologue));
    let mut noise = newer.and_then(Builder::build_initiator).unwrap();
    let header = Header { kind: Kind::Join, id: key(1).id() };
    let mut first = written(&mut noise, header, &join().encode()).unwrap();
    assert_eq!(accept(&key(1), &first).err(), Some(Dropped::Forged), "though its header says version 1");
    first[3] = WIRE_VERSION + 1;
    assert_eq!(accept(&key(1), &first).err(), Some(Dropped::Version));
}

#[test]
fn two_keys_of_a_robot_are_valid_at_once() {
    let file = KeyFile::new("rover", [1; 32]).and_then(|file| file.with([2; 32])).unwrap();
    let brain = Keys::from(&file);
    for key in file.keys() {
        let (first, _) = Joining::begin(&key, &join()).unwrap();
        let named = Header::decode(&first).unwrap().id;
        assert!(accept(brain.get(&named).unwrap(), &first).is_ok(), "{named:?}");
    }
    let (stranger, _) = Joining::begin(&key(3), &join()).unwrap();
    assert_eq!(brain.get(&Header::decode(&stranger).unwrap().id), None);
}

#[test]
fn a_refusal_is_authentic_and_gives_no_session() {
    let (first, mut joining) = Joining::begin(&key(1), &join()).unwrap();
    let (_, pending) = accept(&key(1), &first).unwrap();
    let refusal = JoinReply::refused(&"sensor 3 is `sonar`, the brain's board has `sonar_cm`");
    let (second, session) = pending.reply(&refusal).unwrap();
    assert!(session.is_none());
    let (reply, session) = joining.answer(&second).unwrap();
    assert_eq!((reply, session.is_none()), (refusal, true));
}

#[test]
fn a_join_of_another_format_can_be_answered() {
    let mut noise = builder(&key(1)).unwrap().build_initiator().unwrap();
    let header = Header { kind: Kind::Join, id: key(1).id() };
    let first = written(&mut noise, header, &[9, 1, 2, 3]).unwrap();
    let (said, pending) = accept(&key(1), &first).unwrap();
    assert_eq!(said, Err(JoinError::Format(9)));
    assert!(pending.reply(&JoinReply::refused(&said.unwrap_err())).is_ok());
}

#[test]
fn a_join_without_random_numbers_is_not_counted_as_too_many() {
    assert_eq!(Dropped::from(NoRandom), Dropped::NoRandom);
}
