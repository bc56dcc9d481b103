//! A drawing of one drive: the world, the path, and the place of a contact.

use super::course::Course;
use super::drive::{Outcome, Run};
use crate::system::sanitize::markup;
use std::fmt::Write;

/// Pixels per metre.
const SCALE: f64 = 60.0;

/// The drawing of `run` through `course`; `title` is its caption.
pub fn drawing(course: &Course, run: &Run, title: &str) -> String {
    let plan = &course.plan;
    let [width, height] = plan.size.map(|side| side * SCALE);
    let at = |[x, y]: [f64; 2]| [x * SCALE, height - y * SCALE]; // y points up
    let mut svg = String::new();
    let mut put = |line: String| {
        let _ = writeln!(svg, "{line}"); // writing to a string cannot fail
    };
    put(format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}">"#
    ));
    put(r##"<rect width="100%" height="100%" fill="#fff" stroke="#444"/>"##.to_string());
    put(format!(r#"<text x="10" y="24" font-family="sans-serif" font-size="16">{}</text>"#, markup(title)));
    let disc = |centre: [f64; 2], radius: f64, style: &str| {
        let [x, y] = at(centre);
        format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{:.1}" {style}/>"#, radius * SCALE)
    };
    for [x, y, radius] in &plan.discs {
        put(disc([*x, *y], *radius, r##"fill="#555""##));
    }
    for (list, style) in [(&plan.boxes, r##"fill="#555""##), (&plan.ledges, r##"fill="#cce""##)] {
        for [x0, y0, x1, y1] in list {
            let ([left, top], [right, bottom]) = (at([*x0, *y1]), at([*x1, *y0]));
            let (wide, high) = (right - left, bottom - top);
            put(format!(
                r#"<rect x="{left:.1}" y="{top:.1}" width="{wide:.1}" height="{high:.1}" {style}/>"#
            ));
        }
    }
    for [x0, y0, x1, y1] in &plan.walls {
        let ([x0, y0], [x1, y1]) = (at([*x0, *y0]), at([*x1, *y1]));
        put(format!(r##"<path d="M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}" stroke="#555" stroke-width="3"/>"##));
    }
    put(disc(plan.start, 0.1, r##"fill="#07c""##));
    if let Some(goal) = plan.goal {
        // The distance at which the goal counts as reached.
        put(disc(goal, course.rules.near_m, r##"fill="none" stroke="#2a2" stroke-dasharray="6 4""##));
        put(disc(goal, 0.1, r##"fill="#2a2""##));
    }
    let points: Vec<String> =
        run.path.iter().map(|point| at(*point)).map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    put(format!(r##"<polyline points="{}" fill="none" stroke="#07c" stroke-width="2"/>"##, points.join(" ")));
    if let (Outcome::Contact, Some(last)) = (run.outcome, run.path.last()) {
        put(disc(*last, 0.2, r##"fill="none" stroke="#d00" stroke-width="3""##));
    }
    put("</svg>".to_string());
    svg
}

#[cfg(test)]
mod tests {
    use super::super::course::{BARN_RULES, Rules, empty};
    use super::*;

    #[test]
    fn a_drawing_shows_every_obstacle_the_path_and_the_contact() {
        let mut plan = empty();
        plan.discs = vec![[5.0, 9.0, 0.1], [7.0, 9.0, 0.1]];
        plan.walls = vec![[1.0, 1.0, 2.0, 2.0]];
        let course = Course { number: 1, plan, path_m: 10.0, rules: Rules { near_m: 0.3, ..BARN_RULES } };
        let mut run = Run {
            world: 1,
            outcome: Outcome::Contact,
            seconds: 3.0,
            shortest_m: 10.0,
            driven_m: 1.0,
            reversals: 0,
            swings: 0,
            why: None,
            digest: String::new(),
            path: vec![[6.0, 6.0], [6.0, 7.0]],
        };
        let svg = drawing(&course, &run, "a < b");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("a &lt; b"));
        // Two discs, start, goal and the circle around it, the contact.
        assert_eq!((svg.matches("<circle").count(), svg.matches("<path").count()), (6, 1));
        assert!(
            svg.contains(r##"r="18.0" fill="none" stroke="#2a2""##),
            "the goal counts as reached within 0.3 m"
        );
        assert!(svg.contains(r#"points="360.0,840.0 360.0,780.0""#), "{svg}");
        run.outcome = Outcome::Reached;
        assert_eq!(drawing(&course, &run, "").matches("<circle").count(), 5);
    }
}
