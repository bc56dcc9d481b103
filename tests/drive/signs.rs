//! What the tick reports about itself in every slot; and that a hanging cycle of the field lowers quality
//! while it hangs, not only afterwards.

use super::stage::Stage;
use super::{sim_board, sonar_board};
use ganglion::base::time::{Instant, Span};
use ganglion::decision::mode::{ArmRefusal, Disarm, Mode};
use std::sync::atomic::Ordering;

#[test]
fn the_loop_status_matches_the_record_of_its_slot() {
    // Its sensors are ready within a second; rangers take longer.
    let mut board = sonar_board();
    board.safety.auto_arm = false;
    let mut stage = Stage::new(&board, 1, &["estop@3+0.2"]);
    let (mut armings, mut confirmed) = (0, 0);
    for slot in 0..500_u64 {
        match slot {
            100 | 200 => stage.requests.ask_to_arm(Instant::NEVER, stage.requests.disarms()),
            150 => stage.requests.disarm.store(true, Ordering::Release),
            // The robot is latched: this has no effect before a disarm.
            400 => stage.requests.ask_to_arm(Instant::NEVER, stage.requests.disarms()),
            _ => {}
        }
        // A late slot ends after the next one has passed completely.
        let late = if slot == 250 { board.period.times(2) + Span::from_millis(5) } else { Span::ZERO };
        let skipped = stage.tick.grid().slots_skipped();
        let record = stage.slot(late);
        let signs = stage.loop_status.load();
        assert_eq!(signs.slots, slot + 1);
        confirmed += record.receipts.iter().filter(|wire| wire.complete).count() as u64;
        assert_eq!(signs.confirmed, confirmed, "slot {slot}");
        assert_eq!(signs.skipped, skipped, "as of the start of this slot");
        assert_eq!((signs.mode, signs.active), (record.mode.code(), record.active), "slot {slot}");
        armings += u64::from(signs.armings > armings);
        assert_eq!(signs.armings, armings, "one at a time");
        assert_eq!(signs.disarmed, stage.tick.disarmed());
        assert_eq!(signs.latched.is_some(), matches!(record.mode, Mode::Latched { .. }));
        let disarmed = (slot >= 150 && armings < 2).then_some(Disarm::Asked);
        assert_eq!(signs.disarmed, disarmed, "slot {slot}");
        assert_eq!(signs.refused, u64::from(slot >= 400), "slot {slot}");
    }
    let signs = stage.loop_status.load();
    assert_eq!((armings, signs.skipped), (2, 1));
    assert!(confirmed > 400, "{confirmed} of 500 commands");
    assert!(signs.latched.is_some() && !signs.refusal.is_none(), "{signs:?}");
}

#[test]
fn a_robot_refused_real_time_does_not_arm_and_says_so() {
    let mut stage = Stage::new(&sim_board(), 1, &[]);
    stage.tick.refuse_real_time();
    stage.until(2.0);
    assert!(stage.travelled() < 1e-9 && !stage.loop_status.load().is_armed());
    assert!(
        stage.loop_status.load().refusal.has(ArmRefusal::REAL_TIME),
        "{:?}",
        stage.loop_status.load().refusal
    );
}

#[test]
fn a_hanging_cycle_lowers_quality_before_it_ends() {
    let mut stage = Stage::new(&sim_board(), 1, &["field-hang@4+1"]);
    assert_eq!(stage.until(3.9).quality.index(), 0);
    let mut answered = 0;
    let mut seen = None;
    while stage.seconds() < 4.5 {
        let record = stage.slot(Span::ZERO);
        answered += u32::from(stage.seconds() > 4.1 && record.field.is_some());
        if record.quality.index() > 0 {
            seen.get_or_insert(stage.seconds());
        }
    }
    assert_eq!(answered, 0, "the cycle that hangs has not ended");
    let seen = seen.expect("its cost so far is known from its running time");
    // The cycle began no later than 4.02 s, has a budget of 10 ms, and is checked in each slot.
    assert!((4.0..4.1).contains(&seen), "{seen}");
}
