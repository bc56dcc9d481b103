//! Which edges a wheel reaches before a ground sensor sees them, computed from the board's geometry.

use super::{Board, Cause};

/// How well a board's ground sensors cover the edges that its wheels can reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EdgeSight {
    /// No rule stops for an edge.
    NotWatched,
    /// The board does not say where its sensors look (`looks_at`), or where its wheels are (`[motion]` with a
    /// `track`).
    NotStated,
    /// Straight ahead, a sensor reaches every edge before a wheel does, and so it does in a bend with at
    /// least this radius, metres, at the middle of the rear axle. `None`: in no bend.
    Whole(Option<f64>),
    /// Straight ahead, a front wheel reaches an edge unseen if the edge is at less than this angle to the
    /// course, degrees.
    Below(f64),
}

/// How well the ground sensors of `board` cover an edge.
///
/// An edge that runs ahead and inwards from a front wheel, at an angle p to the course, passes outside a
/// sensor's spot if tan p < (the wheel's distance from the centre line - the spot's) / (the spot's lead over
/// the front axle). No sensor sees an edge at less than the smallest of these angles. The worse of the two
/// sides counts.
///
/// In a bend of radius r, the spot (x ahead of the rear axle, y outwards) and the innermost wheel, on that
/// axle (t outwards), go round the same centre, at the distances hypot(r - y, x) and r - t. The spot's
/// circle is the smaller one, so that the sensor sees whatever the wheel comes to, from a radius of (x^2 +
/// y^2 - t^2) / 2(y - t) on, if y > t.
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
    if worse >= 0.1 {
        return EdgeSight::Below(worse);
    }
    let bends_from = |side: f32| {
        let radius = |spot: &[f32; 2]| {
            let [x, y, t] = [spot[0], side * spot[1], track / 2.0].map(f64::from);
            let outside = y - t;
            // A millimetre cannot be measured with a ruler either.
            if outside >= 1e-3 { (x * x + y * y - t * t) / (2.0 * outside) } else { f64::INFINITY }
        };
        spots.iter().map(radius).fold(f64::INFINITY, f64::min)
    };
    EdgeSight::Whole(Some(bends_from(1.0).max(bends_from(-1.0))).filter(|radius| radius.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_ground_module_misses_edges_met_at_a_sharp_angle() {
        let board = |name| crate::deploy::board::built_in(name).expect("built in").expect("sound").board;
        assert_eq!(
            edge_sight(&board("sim-sonar")),
            EdgeSight::Whole(None),
            "its sensors are right ahead of the wheels"
        );
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

    #[test]
    fn sensors_outside_the_wheels_see_edges_in_wide_bends() {
        let mut board = crate::deploy::board::built_in("sim-sonar").expect("built in").expect("sound").board;
        let wheel = board.motion.and_then(|motion| motion.track).expect("it states its track") / 2.0;
        let mut put = |name: &str, spot: [f32; 2]| {
            let sensor = board.sensors.iter_mut().find(|sensor| sensor.name == name).expect("it has one");
            sensor.looks_at = Some(spot);
            edge_sight(&board)
        };
        assert_eq!(put("ground-left", [0.16, 0.08]), EdgeSight::Whole(None), "one side is not enough");
        let EdgeSight::Whole(Some(radius)) = put("ground-right", [0.16, -0.08]) else { panic!("not whole") };
        assert!((0.64..0.68).contains(&radius), "{radius}");
        // In that bend, the sensor follows the track of the inner rear wheel.
        let [sensor, wheel] = [(radius - 0.08).hypot(0.16), radius - f64::from(wheel)];
        assert!((sensor - wheel).abs() < 1e-6, "{sensor} {wheel}");
    }
}
