//! The marks of the causes: each has its own shape, because colour must not be the only distinction.

use crate::base::plan::Cause;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI, TAU};

/// Radius of a mark, pixels: large enough to tell the shapes apart.
pub(super) const RADIUS: f64 = 7.0;
/// Number of corners of the polygon that stands for a circle of that size.
const ROUND: usize = 16;

/// A regular polygon or a star, by its corners.
struct Shape {
    corners: usize,
    /// Distance from the centre to the notches between the corners, as a share of the distance to the
    /// corners; `None`: a polygon.
    notch: Option<f64>,
    /// Direction of the first corner, radians clockwise from the right.
    turn: f64,
}

/// Directions on the page: upwards and downwards.
const UP: f64 = -FRAC_PI_2;
const DOWN: f64 = FRAC_PI_2;

fn shape(cause: Cause) -> Shape {
    let polygon = |corners, turn| Shape { corners, notch: None, turn };
    let star = |corners, notch, turn| Shape { corners, notch: Some(notch), turn };
    match cause {
        Cause::FieldLate => polygon(ROUND, 0.0),
        Cause::FieldMissing => star(4, 0.3, FRAC_PI_4),
        Cause::Battery => polygon(4, FRAC_PI_4),
        Cause::Obstacle => polygon(3, UP),
        Cause::SensorLost => polygon(5, UP),
        Cause::SensorLying => star(5, 0.4, UP),
        Cause::GuardLost => polygon(3, PI),
        Cause::LinkLost => star(3, 0.25, UP),
        Cause::BusLost => star(3, 0.25, DOWN),
        Cause::LoopLate => polygon(3, 0.0),
        Cause::Cliff => polygon(3, DOWN),
        Cause::Tilt => polygon(4, 0.0),
        Cause::EStop => polygon(8, FRAC_PI_4 / 2.0),
    }
}

/// Number of colours: blue, orange, green, purple, red.
const COLOURS: usize = 5;

/// The number of the CSS class, `c0` to `c4`, that gives `cause` its colour. Causes of adjacent severity have
/// different colours.
pub(super) fn colour(cause: Cause) -> usize {
    match cause {
        Cause::Obstacle => 1,
        Cause::Cliff => 4,
        Cause::LoopLate => 0,
        other => other as usize % COLOURS,
    }
}

/// The `points` attribute of the mark of `cause` around a point of the page.
pub(super) fn points(cause: Cause, [x, y]: [f64; 2]) -> String {
    let Shape { corners, notch, turn } = shape(cause);
    let count = if notch.is_some() { 2 * corners } else { corners };
    let point = |nth: usize| {
        let far = RADIUS * notch.filter(|_| nth % 2 == 1).unwrap_or(1.0);
        let angle = turn + TAU * nth as f64 / count as f64;
        format!("{:.1},{:.1}", x + far * libm::cos(angle), y + far * libm::sin(angle))
    };
    (0..count).map(point).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_causes_have_the_same_shape() {
        let shapes: BTreeSet<String> = Cause::ALL.map(|cause| points(cause, [0.0, 0.0])).into();
        assert_eq!(shapes.len(), Cause::ALL.len());
        assert!(Cause::ALL.into_iter().all(|cause| colour(cause) < COLOURS));
        assert!(Cause::ALL.windows(2).all(|two| colour(two[0]) != colour(two[1])), "adjacent severities");
        assert_eq!(points(Cause::Tilt, [10.0, 20.0]), "17.0,20.0 10.0,27.0 3.0,20.0 10.0,13.0");
    }
}
