//! A carrier with a minimal brain, in simulated time.

use super::*;
use crate::base::plan::QualityLevel;
use crate::decision::fixture::at;
use crate::field::FieldInput;
use crate::field::remote::message::{CycleAnswer, CycleRequest, Verdict};
use crate::runtime::tether::key::Keys;
use crate::runtime::tether::session::{PAYLOAD_MOST, accept};

fn keys() -> KeyFile {
    KeyFile::new("rover", [1; 32]).unwrap()
}

fn carrier(keys: &KeyFile) -> Carrier {
    let board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
    Carrier::new(keys, Join::of(keys.robot(), &board, [9; 32]))
}

fn request(cycle: u64) -> CycleRequest {
    let input = FieldInput { cycle, quality: QualityLevel::BEST, ..FieldInput::AT_REST };
    CycleRequest::of(&input, 3, at(0), Span::from_millis(40))
}

/// Answers a join; also returns the brain's end of the session.
fn answer_join(keys: &KeyFile, datagram: &[u8], number: u8) -> (Vec<u8>, Session) {
    let id = Header::decode(datagram).unwrap().id;
    let (_, pending) = accept(Keys::from(keys).get(&id).unwrap(), datagram).unwrap();
    let reply = JoinReply::Joined { session: Id([number; 8]), engine: "cpu".into() };
    let (datagram, session) = pending.reply(&reply).unwrap();
    (datagram, session.unwrap())
}

fn answer_cycle(brain: &mut Session, datagram: &[u8]) -> Vec<u8> {
    let mut payload = [0; PAYLOAD_MOST];
    let request = CycleRequest::decode(brain.open(datagram, &mut payload).unwrap()).unwrap();
    let answer = CycleAnswer::without(&request, Verdict::Late).encode();
    brain.seal(&answer, &mut [0; 344]).unwrap().to_vec()
}

fn joined(carrier: &mut Carrier, keys: &KeyFile, number: u8, now: Instant) -> Session {
    assert!(carrier.check(now));
    let first = carrier.attempt(now).unwrap();
    let (second, brain) = answer_join(keys, &first, number);
    assert_eq!(carrier.receive(&second, now), Arrived::Reply);
    assert_eq!(carrier.link().0, LinkPhase::Joined);
    brain
}

#[test]
fn carrier_is_idle_before_and_after_a_runtime() {
    let mut carrier = carrier(&keys());
    assert_eq!((carrier.due(), carrier.check(at(5_000))), (Instant::NEVER, false));
    carrier.start(at(5_000));
    assert_eq!(carrier.due(), at(5_000), "the first attempt is due at once");
    let _ = joined(&mut carrier, &keys(), 1, at(5_000));
    carrier.stop();
    assert_eq!((carrier.due(), carrier.request(&request(1).encode(), at(5_001))), (Instant::NEVER, None));
    assert_eq!(carrier.counts().unjoined, 1);
}

#[test]
fn a_request_is_answered_once_and_measured() {
    let mut carrier = carrier(&keys());
    carrier.start(at(0));
    let mut brain = joined(&mut carrier, &keys(), 1, at(0));
    assert_eq!(carrier.link().1.as_str(), "cpu");
    let datagram = carrier.request(&request(7).encode(), at(10)).unwrap().to_vec();
    let answer = answer_cycle(&mut brain, &datagram);
    let expected = CycleAnswer::without(&request(7), Verdict::Late).encode();
    let arrived = Arrived::Answer { round_trip: Span::from_millis(3), answer: &expected };
    assert_eq!(carrier.receive(&answer, at(13)), arrived);
    assert_eq!(carrier.receive(&answer, at(14)), Arrived::Dropped(Dropped::Stale));
    let counts = *carrier.counts();
    assert_eq!((counts.requests, counts.answers, counts.drops.total()), (1, 1, 1));
}

#[test]
fn old_session_resumes_if_it_is_received_first_after_silence() {
    let mut carrier = carrier(&keys());
    carrier.start(at(0));
    let mut brain = joined(&mut carrier, &keys(), 1, at(0));
    assert_eq!(carrier.due(), Instant::NEVER, "without a request, silence is normal");
    let first = carrier.request(&request(1).encode(), at(100)).unwrap().to_vec();
    assert_eq!((carrier.due(), carrier.check(at(349))), (at(350), false));
    assert!(carrier.check(at(350)));
    assert_eq!(carrier.link().0, LinkPhase::Joining);
    let _ = carrier.attempt(at(350)).unwrap();
    assert!(!carrier.check(at(351)) && carrier.check(at(450)), "the next attempt is due after about 50 ms");
    // The brain was only slow.
    let answer = answer_cycle(&mut brain, &first);
    assert!(matches!(carrier.receive(&answer, at(451)), Arrived::Answer { .. }));
    assert_eq!((carrier.link().0, carrier.due()), (LinkPhase::Joined, Instant::NEVER));
    assert_eq!((carrier.counts().lost, carrier.counts().joined), (1, 1));
}

#[test]
fn new_session_makes_the_old_ones_answers_foreign() {
    let mut carrier = carrier(&keys());
    carrier.start(at(0));
    let mut old = joined(&mut carrier, &keys(), 1, at(0));
    let first = carrier.request(&request(1).encode(), at(100)).unwrap().to_vec();
    let late = answer_cycle(&mut old, &first);
    let mut new = joined(&mut carrier, &keys(), 2, at(350));
    assert_eq!(carrier.receive(&late, at(351)), Arrived::Dropped(Dropped::Foreign));
    let second = carrier.request(&request(2).encode(), at(360)).unwrap().to_vec();
    let answer = answer_cycle(&mut new, &second);
    assert!(matches!(carrier.receive(&answer, at(361)), Arrived::Answer { .. }));
}

#[test]
fn a_refusal_is_reported_and_retried_later() {
    let keys = keys();
    let mut carrier = carrier(&keys);
    carrier.start(at(0));
    assert!(carrier.check(at(0)));
    let first = carrier.attempt(at(0)).unwrap();
    let (_, pending) = accept(&keys.keys().next().unwrap(), &first).unwrap();
    let (second, _) = pending.reply(&JoinReply::refused(&"12 robots need 61 ms every 50 ms")).unwrap();
    assert_eq!(carrier.receive(&second, at(1)), Arrived::Reply);
    let (phase, text) = carrier.link();
    assert_eq!((phase, text.as_str()), (LinkPhase::Refused, "12 robots need 61 ms every 50 ms"));
    assert!(carrier.due() >= at(751) && carrier.due() <= at(1_251), "{:?}", carrier.due());
    let again = carrier.due();
    let _ = joined(&mut carrier, &keys, 2, again);
}

#[test]
fn two_keys_are_tried_in_turn_newest_first() {
    let keys = keys().with([2; 32]).unwrap();
    let mut carrier = carrier(&keys);
    carrier.start(at(0));
    let ids: Vec<Id> = (0..4).map(|_| Header::decode(&carrier.attempt(at(0)).unwrap()).unwrap().id).collect();
    let [oldest, newest] = [0, 1].map(|at| keys.keys().nth(at).unwrap().id());
    assert_eq!(ids, [newest, oldest, newest, oldest]);
}

#[test]
fn only_a_limited_number_of_forged_replies_is_checked() {
    let mut carrier = carrier(&keys());
    carrier.start(at(0));
    let first = carrier.attempt(at(0)).unwrap();
    let (second, _) = answer_join(&keys(), &first, 1);
    let mut forged = second.clone();
    forged[60] ^= 1;
    (0..1_000).for_each(|_| assert!(matches!(carrier.receive(&forged, at(1)), Arrived::Dropped(_))));
    let drops = carrier.counts().drops;
    assert_eq!(
        (drops.forged, drops.limited),
        (u64::from(REPLIES_CHECKED), 1_000 - u64::from(REPLIES_CHECKED))
    );
    assert_eq!(carrier.receive(&second, at(1)), Arrived::Dropped(Dropped::Limited), "until the next attempt");
    let again = carrier.due();
    let _ = joined(&mut carrier, &keys(), 1, again);
}
