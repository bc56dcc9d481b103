//! The phases of backing off: the robot follows the field, passes something near, backs off, or turns away.
//! Each transition has a name; the distances and angles are the board's.

use crate::base::plan::BackingPlan;
use crate::base::time::Instant;

/// What the robot is doing.
///
/// ```text
///   Following -- 1 near --> Passing -- 2 past --> Turning (a little)
///   any       -- 3 back --> Backing -- 4 turn --> Turning (away)     (3: also if it has to back off)
///   Passing, Backing: 5 go on --> Following       (nothing was near, or another rule forbids forwards)
///   Turning:          6 end   --> Following       (turned enough, or tried for long enough)
///                     7 wait  --> Backing         (a reflex forbids forwards again, or there is no room)
///   any but Turning:  8 go round --> Turning      (the robot should back off, but no path leads back)
/// ```
///
/// The field's request to reverse does not end a turn: the turn is already the way out of what the field
/// sees ahead, and going back would undo it. A robot that did so in a narrow place went to and fro between
/// two sides until its front corner touched one of them.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Phase {
    /// The robot follows the field's request.
    Following,
    /// The robot follows the field's request, with an obstacle near ahead. Once the obstacle is out of sight,
    /// it may be beside the robot.
    Passing,
    /// The robot backs off, or waits at the edge or obstacle.
    Backing {
        /// A turn follows: an edge or obstacle rule was active, the robot was stuck, or it was passing or
        /// turning before.
        due: bool,
    },
    /// The robot drives forwards and turns to one side, even if the field wants to reverse.
    Turning {
        /// The robot's heading at the start of the turn, radians.
        from: f64,
        /// When the turn began.
        since: Instant,
        /// The angle of the turn, radians.
        by: f32,
    },
}

/// What decides the next phase.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// The field requests reverse.
    pub wants_back: bool,
    /// A path back exists.
    pub has_way: bool,
    /// The reflexes allow driving forwards.
    pub forward: bool,
    /// No remembered obstacle or edge is in the way of the turn.
    pub can_turn: bool,
    /// An obstacle rule is active.
    pub near: bool,
    /// The rule of a ranger that looks to one side forbids driving forwards.
    pub beside: bool,
    /// An edge rule is active.
    pub edge: bool,
    /// The robot is stuck: its commands are forwards, but the sonar's echo does not change.
    pub stuck: bool,
    /// The robot has backed off as far as needed this time, or as far as it can.
    pub enough: bool,
    /// By how much the robot turns away, radians.
    pub turn_rad: f32,
    /// Heading by dead reckoning, radians.
    pub heading: f64,
    /// Start of the slot.
    pub slot: Instant,
}

impl Scene {
    /// Whether the robot has to back off, whatever the field requests.
    fn must_back(&self) -> bool {
        self.edge || self.beside || self.stuck
    }
}

impl Phase {
    /// The next phase.
    pub fn next(self, scene: &Scene, plan: &BackingPlan) -> Phase {
        let is_turning = matches!(self, Phase::Turning { .. });
        let wants_back = scene.wants_back && !is_turning || scene.must_back();
        if wants_back && (scene.has_way || !scene.forward) {
            return self.back(scene);
        }
        match self {
            Phase::Turning { .. } => self.turn_on(scene, plan),
            _ if wants_back => Phase::turn(scene, scene.turn_rad), // 8 go round
            Phase::Following | Phase::Passing if scene.near => Phase::Passing, // 1 near
            Phase::Following => Phase::Following,
            Phase::Passing if scene.forward => Phase::turn(scene, plan.pass_rad), // 2 past
            Phase::Passing => Phase::Following,                                   // 5 go on
            Phase::Backing { due: true } if scene.forward && scene.enough => {
                Phase::turn(scene, scene.turn_rad) // 4 turn
            }
            Phase::Backing { due: true } => self,
            Phase::Backing { due: false } => Phase::Following, // 5 go on
        }
    }

    /// 3: the field wants to reverse, or the robot has to back off. It remembers that it has to turn away
    /// until it has done so.
    fn back(self, scene: &Scene) -> Phase {
        let before = !matches!(self, Phase::Following | Phase::Backing { due: false });
        Phase::Backing { due: before || scene.near || scene.must_back() }
    }

    /// The start of a turn.
    fn turn(scene: &Scene, by: f32) -> Phase {
        Phase::Turning { from: scene.heading, since: scene.slot, by }
    }

    /// 6: a turn ends when the robot has turned enough, or has tried for long enough. 7: it backs off again
    /// if a reflex forbids driving forwards or the turn is not clear.
    fn turn_on(self, scene: &Scene, plan: &BackingPlan) -> Phase {
        let Phase::Turning { from, since, by } = self else { return self };
        let turned = (scene.heading - from).abs() >= f64::from(by);
        match (turned || scene.slot.since(since) >= plan.turn_time, scene.forward && scene.can_turn) {
            (true, _) => Phase::Following,
            (false, true) => self,
            (false, false) => Phase::Backing { due: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::{at, ms};

    const PLAN: BackingPlan = BackingPlan {
        turn_rad: 0.9,
        turn_time: ms(4_000),
        pass_rad: 0.3,
        pass_m: 0.0,
        floor: 0.35,
        trail_m: 3.0,
        start_m: 0.1,
    };
    const FREE: Scene = Scene {
        wants_back: false,
        has_way: true,
        forward: true,
        can_turn: true,
        near: false,
        beside: false,
        edge: false,
        stuck: false,
        enough: true,
        turn_rad: PLAN.turn_rad,
        heading: 0.0,
        slot: Instant::ZERO,
    };

    /// The phase after each scene in turn.
    fn phases(scenes: &[Scene]) -> Vec<Phase> {
        let next = |phase: &mut Phase, scene: &Scene| {
            *phase = phase.next(scene, &PLAN);
            Some(*phase)
        };
        scenes.iter().scan(Phase::Following, next).collect()
    }

    fn turning(from: f64, since: u64) -> Phase {
        Phase::Turning { from, since: at(since), by: PLAN.turn_rad }
    }

    #[test]
    fn after_an_edge_it_backs_waits_for_reflexes_and_turns() {
        let back = Scene { wants_back: true, forward: false, edge: true, ..FREE };
        let quiet = Scene { edge: false, ..back };
        let waits = Scene { wants_back: false, ..quiet };
        let clear = Scene { heading: 0.2, slot: at(50), ..FREE };
        let found = phases(&[
            back,
            quiet,
            waits,
            clear,
            Scene { heading: -0.69, ..clear },
            Scene { heading: -0.71, ..clear },
        ]);
        let due = Phase::Backing { due: true };
        assert_eq!(found, [due, due, due, turning(0.2, 50), turning(0.2, 50), Phase::Following]);
    }

    #[test]
    fn beside_an_obstacle_it_backs_off_unasked_and_turns() {
        let beside = Scene { beside: true, forward: false, ..FREE };
        let found = phases(&[FREE, beside, FREE]);
        assert_eq!(found, [Phase::Following, Phase::Backing { due: true }, turning(0.0, 0)]);
        let waits = Scene { has_way: false, ..beside };
        assert_eq!(phases(&[waits, waits])[1], Phase::Backing { due: true }, "without a path it waits");
    }

    #[test]
    fn turn_ends_after_its_time_or_for_a_reflex() {
        let back = Scene { wants_back: true, edge: true, ..FREE };
        let at_ms = |ms| Scene { slot: at(ms), ..FREE };
        let found = phases(&[back, at_ms(10), at_ms(4_009), at_ms(4_010)]);
        assert_eq!(found[1..], [turning(0.0, 10), turning(0.0, 10), Phase::Following]);
        let stopped = Scene { forward: false, ..at_ms(20) };
        let again = Scene { heading: 0.5, ..at_ms(30) };
        let found = phases(&[back, at_ms(10), stopped, again]);
        assert_eq!(found[2..], [Phase::Backing { due: true }, turning(0.5, 30)], "it starts again");
    }

    #[test]
    fn backing_without_edge_or_obstacle_adds_no_phase() {
        let back = Scene { wants_back: true, ..FREE };
        assert_eq!(phases(&[back, FREE]), [Phase::Backing { due: false }, Phase::Following]);
    }

    #[test]
    fn without_a_path_back_it_turns_if_allowed_or_waits() {
        let lost = Scene { wants_back: true, has_way: false, edge: true, ..FREE };
        let stuck = Scene { forward: false, ..lost };
        let late = Scene { slot: at(5_000), ..lost };
        let found = phases(&[stuck, lost, lost, late, late]);
        let turned = [turning(0.0, 0), turning(0.0, 0), Phase::Following, turning(0.0, 5_000)];
        assert_eq!(found[0], Phase::Backing { due: true });
        assert_eq!(found[1..], turned, "it turns again, as long as the field wants to reverse");
    }

    #[test]
    fn a_request_to_reverse_does_not_end_a_turn() {
        let due = Phase::Backing { due: true };
        for has_way in [true, false] {
            let asked = Scene { wants_back: true, has_way, near: true, ..FREE };
            let turned = Scene { heading: 0.91, ..asked };
            let begins = Scene { wants_back: false, ..asked };
            let stopped = Scene { forward: false, ..asked };
            let found = phases(&[stopped, begins, asked, turned]);
            assert_eq!(found, [due, turning(0.0, 0), turning(0.0, 0), Phase::Following], "{has_way}");
            for ends in [
                stopped,
                Scene { can_turn: false, ..asked },
                Scene { edge: true, has_way: true, ..asked },
                Scene { beside: true, has_way: true, ..asked },
                Scene { stuck: true, has_way: true, ..asked },
            ] {
                assert_eq!(phases(&[stopped, begins, ends])[2], due, "{ends:?}");
            }
        }
        let asked = Scene { wants_back: true, ..FREE };
        let turned = Scene { heading: 0.91, ..asked };
        assert_eq!(
            phases(&[Scene { edge: true, forward: false, ..asked }, FREE, turned, turned])[3],
            Phase::Backing { due: false },
            "after the turn it may back off again"
        );
    }

    #[test]
    fn obstacle_out_of_sight_is_passed_with_a_little_more_turn() {
        let near = Scene { near: true, ..FREE };
        let past = Scene { heading: 0.1, slot: at(10), ..FREE };
        let on = Scene { heading: -0.19, ..past };
        let found = phases(&[near, near, past, on, Scene { heading: -0.21, ..on }]);
        let little = Phase::Turning { from: 0.1, since: at(10), by: PLAN.pass_rad };
        assert_eq!(found, [Phase::Passing, Phase::Passing, little, little, Phase::Following]);
        let edge = Scene { forward: false, edge: true, ..FREE };
        assert_eq!(phases(&[near, edge])[1], Phase::Backing { due: true }, "an edge has priority");
        let waits = Scene { forward: false, ..FREE };
        assert_eq!(phases(&[near, waits])[1], Phase::Following, "something else forbids driving on");
        let back = Scene { wants_back: true, ..FREE };
        assert_eq!(phases(&[near, back]), [Phase::Passing, Phase::Backing { due: true }]);
    }
}
