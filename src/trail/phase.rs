//! What the robot is at: it follows the field, backs off, or turns away from what it backed off from. Each
//! transition has a name; the numbers are the board's.

use crate::plan::BackingPlan;
use crate::time::Instant;

/// What the robot is at.
///
/// ```text
///              1 back                  2 turn
///   Following --------> Backing ----------------> Turning
///      ^  ^               |  ^                     |  |  |
///      |  |   3 go on     |  |      1 back, 4 wait |  |  |
///      |  +---------------+  +---------------------+  |  |
///      |                       5 end                  |  |
///      +----------------------------------------------+  |
///   Following, Backing: 6 go round --> Turning  (nothing leads back)
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// It does as the field requests.
    Following,
    /// It backs off, or waits before what it backed off from.
    Backing {
        /// An edge or an obstacle was active meanwhile: a turn follows.
        due: bool,
    },
    /// It turns to one side, forwards.
    Turning {
        /// Its heading when that began, radians.
        from: f64,
        /// When that began.
        since: Instant,
    },
}

/// What decides the next phase.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// The field requests to drive backwards.
    pub wants_back: bool,
    /// There is a way back.
    pub has_way: bool,
    /// The reflexes allow driving forwards.
    pub forward: bool,
    /// An edge or an obstacle is active.
    pub alarmed: bool,
    /// Heading by dead reckoning, radians.
    pub heading: f64,
    /// The slot.
    pub slot: Instant,
}

impl Phase {
    /// The next phase.
    pub fn next(self, scene: &Scene, plan: &BackingPlan) -> Phase {
        if scene.wants_back && !scene.has_way && scene.forward {
            return self.go_round(scene, plan);
        }
        match self {
            _ if scene.wants_back => self.back(scene),
            Phase::Following => Phase::Following,
            Phase::Backing { due: true } if scene.forward => Phase::turn(scene),
            Phase::Backing { due: true } => self,
            Phase::Backing { due: false } => Phase::Following, // go on
            Phase::Turning { .. } if !scene.forward => Phase::Backing { due: true }, // wait
            Phase::Turning { .. } => self.turn_on(scene, plan),
        }
    }

    /// 1: the field wants backwards. What it backs off from is remembered until it has turned away.
    fn back(self, scene: &Scene) -> Phase {
        let before = !matches!(self, Phase::Following | Phase::Backing { due: false });
        Phase::Backing { due: before || scene.alarmed }
    }

    /// 2: it begins to turn.
    fn turn(scene: &Scene) -> Phase {
        Phase::Turning { from: scene.heading, since: scene.slot }
    }

    /// 5: a turn ends when it has turned enough, or has tried for long enough.
    fn turn_on(self, scene: &Scene, plan: &BackingPlan) -> Phase {
        let Phase::Turning { from, since } = self else { return self };
        let turned = (scene.heading - from).abs() >= f64::from(plan.turn_rad);
        let over = turned || scene.slot.since(since) >= plan.turn_time;
        if over { Phase::Following } else { self }
    }

    /// 6: the field wants backwards, nothing leads back, and forwards is free: it turns there instead.
    fn go_round(self, scene: &Scene, plan: &BackingPlan) -> Phase {
        match self {
            Phase::Turning { .. } => self.turn_on(scene, plan),
            Phase::Following | Phase::Backing { .. } => Phase::turn(scene),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, ms};

    const PLAN: BackingPlan =
        BackingPlan { turn_rad: 0.9, turn_time: ms(4_000), floor: 0.35, trail_m: 3.0, start_m: 0.1 };
    const FREE: Scene = Scene {
        wants_back: false,
        has_way: true,
        forward: true,
        alarmed: false,
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
        Phase::Turning { from, since: at(since) }
    }

    #[test]
    fn after_an_edge_it_backs_waits_for_the_reflexes_and_turns_until_it_has_turned() {
        let back = Scene { wants_back: true, forward: false, alarmed: true, ..FREE };
        let quiet = Scene { alarmed: false, ..back };
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
    fn a_turn_gets_no_longer_than_its_time_and_stops_for_a_reflex() {
        let back = Scene { wants_back: true, alarmed: true, ..FREE };
        let at_ms = |ms| Scene { slot: at(ms), ..FREE };
        let found = phases(&[back, at_ms(10), at_ms(4_009), at_ms(4_010)]);
        assert_eq!(found[1..], [turning(0.0, 10), turning(0.0, 10), Phase::Following]);
        let stopped = Scene { forward: false, ..at_ms(20) };
        let again = Scene { heading: 0.5, ..at_ms(30) };
        let found = phases(&[back, at_ms(10), stopped, again]);
        assert_eq!(found[2..], [Phase::Backing { due: true }, turning(0.5, 30)], "it begins anew");
    }

    #[test]
    fn backing_without_an_edge_or_an_obstacle_is_followed_by_nothing() {
        let back = Scene { wants_back: true, ..FREE };
        assert_eq!(phases(&[back, FREE]), [Phase::Backing { due: false }, Phase::Following]);
    }

    #[test]
    fn where_nothing_leads_back_it_turns_if_it_may_and_waits_if_not() {
        let lost = Scene { wants_back: true, has_way: false, alarmed: true, ..FREE };
        let stuck = Scene { forward: false, ..lost };
        let late = Scene { slot: at(5_000), ..lost };
        let found = phases(&[stuck, lost, lost, late, late]);
        let turned = [turning(0.0, 0), turning(0.0, 0), Phase::Following, turning(0.0, 5_000)];
        assert_eq!(found[0], Phase::Backing { due: true });
        assert_eq!(found[1..], turned, "and again, as long as the field wants it");
    }
}
