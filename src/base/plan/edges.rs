//! Which edges a front wheel reaches before a ground sensor sees them, computed from the board's geometry.

use super::{Board, Cause};

/// How well a board's ground sensors cover an edge that the robot drives towards in a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EdgeSight {
    /// No rule stops for an edge.
    NotWatched,
    /// The board does not say where its sensors look (`looks_at`), or where its wheels are (`[motion]` with a
    /// `track`).
    NotStated,
    /// A sensor reaches every edge before a wheel does.
    Whole,
    /// A front wheel reaches an edge unseen if the edge is at less than this angle to the course, degrees.
    Below(f64),
}

/// How well the ground sensors of `board` cover an edge.
///
/// An edge that runs ahead and inwards from a front wheel, at an angle p to the course, passes outside a
/// sensor's spot if tan p < (the wheel's distance from the centre line - the spot's) / (the spot's lead over
/// the front axle). No sensor sees an edge at less than the smallest of these angles. The worse of the two
/// sides counts.
pub fn edge_sight(board: &Board) -> EdgeSight {
    let edges: Vec<usize> =
        board.reflexes.iter().filter(|rule| rule.cause == Cause::Cliff).map(|rule| rule.channel).collect();
    if edges.is_empty() {
        return EdgeSight::NotWatched;
    }
    let spots: Option<Vec<[f32; 2]>> = edges.iter().map(|&channel| board.sensors[channel].looks_at).collect();
    let wheels = board.motion.and_then(|motion| Some((motion.wheelbase, motion.track?)));
    let (Some(spots), Some((wheelbase, track))) = (spots, wheels) else { return EdgeSight::NotStated };
    let unseen = |side: f32| {
        let angle = |spot: &[f32; 2]| {
            let (lead, inside) = (spot[0] - wheelbase, track / 2.0 - side * spot[1]);
            // A sensor that looks behind the axle gives no warning of an edge, hence 90.
            if lead > 0.0 { f64::from(inside.max(0.0)).atan2(lead.into()).to_degrees() } else { 90.0 }
        };
        spots.iter().map(angle).fold(90.0, f64::min)
    };
    let worse = unseen(1.0).max(unseen(-1.0));
    // A tenth of a degree cannot be measured with a ruler.
    if worse < 0.1 { EdgeSight::Whole } else { EdgeSight::Below(worse) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_ground_module_misses_edges_met_at_a_sharp_angle() {
        let board = |name| crate::deploy::board::built_in(name).expect("built in").expect("sound").board;
        assert_eq!(edge_sight(&board("sim")), EdgeSight::Whole, "its sensors are right ahead of the wheels");
        let mut narrow = board("picarx-v4");
        // The sensor is 38 mm further inwards than the wheel and 71 mm ahead of it.
        let EdgeSight::Below(degrees) = edge_sight(&narrow) else { panic!("{:?}", edge_sight(&narrow)) };
        assert!((degrees - 28.4).abs() < 0.3, "{degrees}");
        // A better sensor on one side does not help the other; a sensor behind the axle never sees an edge
        // before the wheel.
        let left = narrow.sensors.iter_mut().find(|sensor| sensor.name == "ground-left").expect("it has one");
        left.looks_at = Some([0.158, 0.06]);
        assert_eq!(edge_sight(&narrow), EdgeSight::Below(degrees));
        narrow.sensors.iter_mut().filter(|sensor| sensor.looks_at.is_some()).for_each(|sensor| {
            sensor.looks_at = Some([0.05, 0.0]);
        });
        assert_eq!(edge_sight(&narrow), EdgeSight::Below(90.0));
        narrow.sensors.iter_mut().for_each(|sensor| sensor.looks_at = None);
        assert_eq!(edge_sight(&narrow), EdgeSight::NotStated);
        narrow.reflexes.retain(|rule| rule.cause != Cause::Cliff);
        assert_eq!(edge_sight(&narrow), EdgeSight::NotWatched);
    }
}
