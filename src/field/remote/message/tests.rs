//! Requests and answers survive a round trip; anything else is refused, and the error names the place.

use super::*;
use proptest::prelude::*;

fn request() -> CycleRequest {
    let mut input =
        FieldInput { cycle: 7, reward: -0.5, quality: QualityLevel::WORST, ..FieldInput::AT_REST };
    input.sensors[..3].copy_from_slice(&[0.25, -1.0, 1.0]);
    CycleRequest::of(&input, 3, Instant::from_nanos(123_456_789), Span::from_millis(40))
}

fn answer() -> CycleAnswer {
    let mut response = FieldOutput {
        cycle: 7,
        scores: [0.0; MAX_MOTORS],
        motors: [0.0; MAX_MOTORS],
        confidence: 0.75,
        skill: -0.25,
        novelty: 0.75,
    };
    response.scores[..2].copy_from_slice(&[3.5, -2.0]);
    response.motors[..2].copy_from_slice(&[0.9, -0.9]);
    let answer = CycleAnswer::answered(&request(), &response, 2);
    CycleAnswer { computed: Span::from_micros(310), waited: Span::from_micros(20), ..answer }
}

#[test]
fn both_messages_survive_a_round_trip() {
    assert_eq!(CycleRequest::decode(&request().encode()), Ok(request()));
    assert_eq!(CycleAnswer::decode(&answer().encode()), Ok(answer()));
    assert_eq!(request().input().sensors[..3], [0.25, -1.0, 1.0]);
    assert_eq!(answer().response().unwrap().motors[..2], [0.9, -0.9]);
    for verdict in [Verdict::Refused, Verdict::Failed, Verdict::Late] {
        let without = CycleAnswer::without(&request(), verdict);
        assert_eq!(CycleAnswer::decode(&without.encode()), Ok(without));
        assert!(without.response().is_none());
    }
}

#[test]
fn every_wrong_field_is_refused_with_its_place() {
    let wrong = |at: usize, value: u8| {
        let mut bytes = request().encode();
        bytes[at] = value;
        CycleRequest::decode(&bytes)
    };
    assert_eq!(wrong(0, 2), Err(MessageError::Version(2)));
    assert_eq!(wrong(1, 9), Err(MessageError::Byte { at: 1, value: 9 }));
    assert_eq!(wrong(2, 65), Err(MessageError::Byte { at: 2, value: 65 }));
    assert_eq!(wrong(40, 1), Err(MessageError::Byte { at: 40, value: 1 }));
    let unused = 48 + 4 * 3;
    assert_eq!(wrong(unused, 1), Err(MessageError::Byte { at: unused, value: 1 }), "after the last sensor");
    let short = CycleRequest::decode(&request().encode()[1..]);
    assert_eq!(short, Err(MessageError::Length { found: REQUEST_BYTES - 1, expected: REQUEST_BYTES }));
    let mut bytes = CycleAnswer::without(&request(), Verdict::Late).encode();
    bytes[2] = 1;
    let numbers = CycleAnswer::decode(&bytes);
    assert_eq!(numbers, Err(MessageError::Byte { at: 2, value: 1 }), "a late answer has no numbers");
}

/// A read-out's weights may be so large that a score exceeds what a robot accepts.
#[test]
fn scores_of_extreme_weights_are_limited_not_refused() {
    let mut response = answer().response().unwrap();
    response.scores[..3].copy_from_slice(&[1.7e10, -1.7e10, -3.0]);
    let sent = CycleAnswer::answered(&request(), &response, 3);
    let received = CycleAnswer::decode(&sent.encode()).expect("the robot accepts it");
    assert_eq!(received.scores[..3], [SCORE_MOST, -SCORE_MOST, -3.0]);
    response.scores[0] = f32::NAN;
    let broken = CycleAnswer::answered(&request(), &response, 3).encode();
    assert!(CycleAnswer::decode(&broken).is_err(), "NaN stays NaN, and is refused");
}

#[test]
fn number_out_of_range_or_nan_is_refused() {
    for (at, most) in [(32, 1.0), (36, 1.0), (40, 1.0), (SCORES, SCORE_MOST), (MOTORS + 4, 1.0)] {
        for value in [most * 1.001, -most * 1.001, f32::INFINITY, f32::NAN] {
            let mut bytes = answer().encode();
            put_f32(&mut bytes, at, value);
            let found = CycleAnswer::decode(&bytes);
            let Err(MessageError::Number { at: place, .. }) = found else { panic!("{value}: {found:?}") };
            assert_eq!(place, at);
        }
    }
}

proptest! {
    #[test]
    fn decoded_messages_encode_to_the_same_bytes(
        bytes in prop::collection::vec(prop_oneof![4 => Just(0), 1 => any::<u8>()], REQUEST_BYTES),
        version in prop_oneof![Just(MESSAGE_VERSION), any::<u8>()],
    ) {
        let mut bytes = bytes;
        bytes[0] = version;
        if let Ok(request) = CycleRequest::decode(&bytes) {
            prop_assert_eq!(&request.encode()[..], &bytes[..]);
        }
        if let Ok(answer) = CycleAnswer::decode(&bytes[..ANSWER_BYTES]) {
            prop_assert_eq!(&answer.encode()[..], &bytes[..ANSWER_BYTES]);
        }
    }
}
