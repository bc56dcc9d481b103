//! Counts the retreats that begin in the same place. In a pocket between an edge and an obstacle, or in a
//! corner, a car that backs off along the path on which it came and turns again comes back to the same place,
//! for minutes. So from the fifth retreat on, each one is longer than the one before.

/// Retreats belong to the same place if they begin within this distance of where the first of them began,
/// metres: a little more than two lengths of the car.
const SAME_PLACE_M: f64 = 0.6;
/// This many retreats in the same place are not made longer, because most often one of their turns leads
/// away. With two, a car with a sonar only, which does not see its corners, touched more discs.
const USUAL: u32 = 4;
/// Each further retreat in the same place is longer by this, metres.
const FURTHER_M: f64 = 0.15;
/// A retreat becomes longer by no more than this, metres: the robot is then in another place.
const FURTHEST_M: f64 = 1.0;

/// The place of the last retreats.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SamePlace {
    /// Where the first of them began, metres, by dead reckoning.
    first: [f64; 2],
    /// How many have begun there; 0: none since the robot was armed.
    retreats: u32,
}

impl SamePlace {
    /// A retreat begins at `at`, metres.
    pub fn retreat(&mut self, at: [f64; 2]) {
        let away = libm::hypot(at[0] - self.first[0], at[1] - self.first[1]);
        if self.retreats == 0 || away >= SAME_PLACE_M {
            *self = SamePlace { first: at, retreats: 0 };
        }
        self.retreats = self.retreats.saturating_add(1);
    }

    /// How much longer than usual the last retreat is, metres.
    pub fn further(&self) -> f64 {
        (FURTHER_M * f64::from(self.retreats.saturating_sub(USUAL))).min(FURTHEST_M)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retreats_in_one_place_become_longer() {
        let mut place = SamePlace::default();
        let mut retreat = |at: [f64; 2]| {
            place.retreat(at);
            (place.further() * 1000.0).round() as i64
        };
        assert_eq!([[5.0, 0.0], [5.0, 0.1], [5.1, 0.1], [5.1, 0.0]].map(&mut retreat), [0; 4]);
        // Each is within 0.6 m of where the first began, even if it is farther from the one before.
        assert_eq!([[5.0, 0.59], [5.4, -0.4], [4.5, 0.3]].map(&mut retreat), [150, 300, 450]);
        assert_eq!([[5.0, 0.0]; 10].map(&mut retreat)[9], 1000);
        assert_eq!([[5.0, 0.61], [5.0, 0.2], [5.0, 0.2], [5.0, 0.2]].map(&mut retreat), [0; 4], "elsewhere");
        assert_eq!(retreat([5.0, 0.2]), 150);
    }
}
