//! Encodes slots and decodes them again; also provides a slot with every part filled in to other tests.

use super::*;
use crate::base::command::Requester;
use crate::base::fault::ReadingFault;
use crate::base::frame::Health;
use crate::decision::fixture::{at, ms};
use crate::decision::motion::OdometryPose;
use crate::field::navigate::navigator::{Reason, State};

/// A slot with every part filled in.
pub fn full(index: u64) -> Slot {
    let slot = at(10 * index + 100);
    let value = |value| Reading { channel: 1, value, stamp: slot - ms(3) };
    Slot {
        slot,
        index,
        began: slot + Span::from_micros(40),
        ended: slot + Span::from_micros(60),
        lost: 2,
        asked: Asked { arm: true, ..Asked::default() },
        signals: Signals { halts: 4, slept: Some(ms(70)), ..Signals::default() },
        readings: vec![value(Ok(-0.0)), value(Err(ReadingFault::Frozen)), value(Ok(f32::NAN))],
        untold: 1,
        receipts: vec![OnWire { seq: index, slot: slot - ms(10), at: slot - ms(9), complete: true }],
        field: Some(FieldRecord {
            answer: Some(RecordedAnswer {
                cycle: index,
                scores: vec![0.0, 0.5],
                motors: vec![-0.25],
                confidence: 0.5,
                skill: -0.5,
                novelty: 0.1,
            }),
            span: ms(2),
            took: ms(3),
            age: ms(10),
            quality: QualityLevel::BEST,
            state: None,
            times: None,
            link: Some(LinkHealth { heard: Some(slot - ms(20)), ..LinkHealth::default() }),
            goal: Some(GoalReport {
                order: 2,
                pose: OdometryPose { at: [0.5, -0.25], heading: 1.5 },
                turns_measured: Some(0.75),
                goal: Some([2.0, 1.0]),
                left: 1,
                state: State::GivenUp(Reason::NoWay),
                requester: Requester::Navigator,
            }),
        }),
        mode: Mode::Degraded { since: at(50), why: 4 },
        active: 4,
        tripped: 4,
        latched: 0,
        limits: Limits::STILL,
        quality: QualityLevel::WORST,
        frame: vec![Sample { value: 1.0, worst: 0.5, stamp: slot - ms(3), health: Health::Good }; 3],
        seq: index + 1,
        valid_until: Instant::NEVER,
        source: Source::Reflex,
        motors: vec![0.5, -0.0],
    }
}

#[test]
fn a_slot_survives_encoding_bit_for_bit() {
    let slot = full(9);
    let bytes = slot.bytes().unwrap();
    let read = Slot::read(&bytes).unwrap();
    // Compared by their text: NaN does not equal itself, and -0.0 equals 0.0.
    assert_eq!(format!("{read:?}"), format!("{slot:?}"));
    assert!(bytes.len() < 300, "{} bytes", bytes.len());
    for cut in 0..bytes.len() {
        assert!(Slot::read(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(Slot::read(&longer), Err(CodecError::TrailingBytes { extra: 1, .. })));
}

#[test]
fn lengths_beyond_any_robot_are_refused() {
    let long = Slot { motors: vec![0.0; MAX_MOTORS + 1], frame: vec![Sample::NEVER; 65], ..full(1) };
    assert!(long.command().is_none() && long.whole_frame().is_none());
    assert_eq!(full(1).command().map(|command| command.len), Some(2));
    let answer = RecordedAnswer { scores: vec![0.0; 17], ..full(1).field.unwrap().answer.unwrap() };
    assert!(answer.response().is_none());
}

#[test]
fn signed_distances_are_zigzag_encoded() {
    for distance in [0, 1, u64::MAX, u64::MAX / 2, 1 << 63, 12_345] {
        assert_eq!(unfolded(folded(distance)), distance);
    }
    assert_eq!((folded(0), folded(u64::MAX), folded(1)), (0, 1, 2));
}
