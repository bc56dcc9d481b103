//! How much motion one cause allows, and how much several causes allow together.

/// The motion that a cause allows, ordered from loose to tight: a later variant is tighter, and a smaller
/// share is tighter than a larger one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Restraint {
    /// Everything.
    Free,
    /// Drive motors run at most at this share of full scale (0..=1).
    Slow(f32),
    /// Drive motors may turn backwards or stop, never forwards; steering is free.
    NoForward,
    /// Drive motors are stopped; steering stays where it is.
    Still,
}

impl Restraint {
    fn rank(self) -> u8 {
        match self {
            Restraint::Free => 0,
            Restraint::Slow(_) => 1,
            Restraint::NoForward => 2,
            Restraint::Still => 3,
        }
    }

    /// The same restraint with its share clamped to 0..=1; NaN allows nothing.
    pub fn sane(self) -> Restraint {
        match self {
            Restraint::Slow(share) if share.is_nan() => Restraint::Still,
            Restraint::Slow(share) => Restraint::Slow(share.clamp(0.0, 1.0)),
            other => other,
        }
    }

    /// Its limits.
    pub fn limits(self) -> Limits {
        match self.sane() {
            Restraint::Free => Limits::FREE,
            Restraint::Slow(share) => Limits { forward: share, backward: share, steer: true },
            Restraint::NoForward => Limits { forward: 0.0, ..Limits::FREE },
            Restraint::Still => Limits::STILL,
        }
    }
}

impl PartialOrd for Restraint {
    fn partial_cmp(&self, other: &Restraint) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Restraint::Slow(own), Restraint::Slow(others)) => others.partial_cmp(own),
            _ => Some(self.rank().cmp(&other.rank())),
        }
    }
}

/// What several restraints allow together. A single [`Restraint`] cannot always express that: a low battery
/// (`Slow`) and an obstacle (`NoForward`) together allow only slow driving backwards.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Largest share of full scale at which drive motors may turn forwards, 0..=1.
    pub forward: f32,
    /// The same backwards, 0..=1.
    pub backward: f32,
    /// Whether motors that do not drive the robot, but steer or aim, may move.
    pub steer: bool,
}

impl Limits {
    /// No limit.
    pub const FREE: Limits = Limits { forward: 1.0, backward: 1.0, steer: true };
    /// No motion.
    pub const STILL: Limits = Limits { forward: 0.0, backward: 0.0, steer: false };

    /// What both allow.
    pub fn and(self, other: Limits) -> Limits {
        Limits {
            forward: self.forward.min(other.forward),
            backward: self.backward.min(other.backward),
            steer: self.steer && other.steer,
        }
    }

    /// Whether the restraints let the robot move at all.
    pub fn allow_motion(&self) -> bool {
        self.forward > 0.0 || self.backward > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_restraints_and_smaller_shares_are_stricter() {
        let loose_to_tight = [
            Restraint::Free,
            Restraint::Slow(1.0),
            Restraint::Slow(0.5),
            Restraint::Slow(0.0),
            Restraint::NoForward,
            Restraint::Still,
        ];
        for (index, looser) in loose_to_tight.iter().enumerate() {
            for tighter in &loose_to_tight[index + 1..] {
                assert!(tighter > looser, "{tighter:?} is not tighter than {looser:?}");
            }
        }
    }

    #[test]
    fn invalid_shares_never_allow_extra_motion() {
        assert_eq!(Restraint::Slow(f32::NAN).limits(), Limits::STILL);
        assert_eq!(Restraint::Slow(f32::INFINITY).limits(), Limits::FREE);
        assert!(!Restraint::Slow(-0.5).limits().allow_motion());
        assert!(Limits { forward: 0.1, ..Limits::STILL }.allow_motion());
        assert!(Limits { backward: 0.1, ..Limits::STILL }.allow_motion());
        assert!(!Limits { steer: true, ..Limits::STILL }.allow_motion());
    }

    #[test]
    fn slow_and_no_forward_combine_to_slow_backwards_only() {
        let limits = Restraint::Slow(0.25).limits().and(Restraint::NoForward.limits());
        assert_eq!(limits, Limits { forward: 0.0, backward: 0.25, steer: true });
        assert_eq!(limits.and(Limits::STILL), Limits::STILL);
        assert_eq!(limits.and(Limits::FREE), limits);
    }
}
