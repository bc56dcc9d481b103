//! The drawing as SVG: one file that loads no other, for light and dark pages.

use super::marks::{RADIUS, colour, points};
use super::{About, TripMark, Trips, places};
use crate::base::plan::Cause;
use crate::runtime::control::RoomStatus;
use crate::sim::{Contact, Pose, Report, World};
use crate::system::sanitize;
use std::fmt::Write;

/// The bytes that every picture begins with. A file without them is not overwritten.
pub(super) const BEGIN: &str = "<!-- a picture of a run of ganglion -->\n";
/// Length of the room's longer side, pixels: the picture fits on a screen beside text.
const LONGER_PX: f64 = 800.0;
/// Minimum width between the margins, pixels: the title needs it.
const NARROWEST_PX: f64 = 560.0;
/// Margin around everything, pixels.
const MARGIN_PX: f64 = 24.0;
/// Space above the room, for the title, pixels.
const TOP_PX: f64 = 76.0;
/// Distance from one line of the legend to the next, pixels.
const LINE_PX: f64 = 26.0;
/// Distance from one column of the legend to the next, pixels.
const COLUMN_PX: f64 = 170.0;
/// Radius of the mark of a place that the robot was sent to, pixels: larger than a trip's.
const PLACE_PX: f64 = 10.0;

/// Everything that is drawn.
pub(super) struct Scene<'a> {
    pub(super) board: &'a str,
    pub(super) about: &'a About,
    pub(super) world: &'a World,
    /// The car's size, and its position at the end.
    pub(super) car: RoomStatus,
    pub(super) report: &'a Report,
    /// The first contacts of the run.
    pub(super) contacts: &'a [Contact],
    pub(super) seconds: f64,
    pub(super) driven: &'a [[f64; 2]],
    pub(super) marks: &'a [TripMark],
    pub(super) trips: &'a Trips,
}

/// The picture's style sheet. The first block is for light pages, the second for dark ones.
const LOOKS: &str = "\
text{font-family:system-ui,sans-serif;font-size:14px;fill:#1b1f24}
.title{font-size:18px;font-weight:600}
.page{fill:#ffffff}.floor{fill:#f6f7f9;stroke:#1b1f24;stroke-width:3}
.solid{fill:#b4bac2;stroke:#1b1f24;stroke-width:1.5}.wall{stroke:#1b1f24;stroke-width:3}
.hole,.edge{stroke:#a33a2a;stroke-width:1.5}.hatch{stroke:#a33a2a;stroke-width:1.5}
.tape{fill:none;stroke:#8b929b}.mover{fill:none;stroke:#5b636d;stroke-dasharray:4 4}
.driven{fill:none;stroke:#1f6fb5;stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round}
.start{fill:#ffffff;stroke:#1b1f24;stroke-width:2}.end{fill:#1b1f24;stroke:#1b1f24;stroke-width:2}
.nose{fill:none;stroke:#1b1f24;stroke-width:2}.nose.dark{stroke:#ffffff}
.contact{fill:none;stroke:#a3186f;stroke-width:2}.place{fill:none;stroke:#1b7a3d;stroke-width:3}.scale{stroke:#1b1f24;stroke-width:2}
.trip{stroke:#1b1f24;stroke-width:1}
.c0{fill:#3b8fd0}.c1{fill:#e69f00}.c2{fill:#1aa37a}.c3{fill:#c26fa3}.c4{fill:#e2542f}
@media (prefers-color-scheme:dark){
text{fill:#e6e9ed}
.page{fill:#0f1216}.floor{fill:#1a1f26;stroke:#e6e9ed}
.solid{fill:#4a525d;stroke:#e6e9ed}.wall{stroke:#e6e9ed}
.hole,.edge,.hatch{stroke:#ff8f7d}.tape{stroke:#7b838d}.mover{stroke:#a5adb7}
.driven{stroke:#6db7f2}
.start{fill:#0f1216;stroke:#e6e9ed}.end{fill:#e6e9ed;stroke:#e6e9ed}
.nose{stroke:#e6e9ed}.nose.dark{stroke:#0f1216}
.contact{stroke:#ff7ac6}.place{stroke:#5fd38a}.scale{stroke:#e6e9ed}
.trip{stroke:#0f1216}
}
";

/// The picture of `scene`.
pub(super) fn svg(scene: &Scene<'_>) -> String {
    let [wide, high] = scene.world.room();
    let scale = LONGER_PX / wide.max(high).max(f64::MIN_POSITIVE);
    let page = Page { scale, left: MARGIN_PX, bottom: TOP_PX + high * scale };
    let width = (wide * scale).max(NARROWEST_PX) + 2.0 * MARGIN_PX;
    let legend = legend(scene, &page, width);
    let height = page.bottom + LINE_PX * (2 + legend.lines) as f64 + MARGIN_PX / 2.0;
    let mut svg = String::from(BEGIN);
    let mut put = |line: &str| {
        let _ = writeln!(svg, "{line}"); // writing to a string cannot fail
    };
    put(&format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" role="img">"#
    ));
    put(&format!("<title>{}</title>", sanitize::markup(&title(scene))));
    put(&format!("<style>\n{LOOKS}</style>"));
    put(HATCH);
    put(&format!(r#"<rect class="page" width="{width:.0}" height="{height:.0}"/>"#));
    put(&text([MARGIN_PX, 34.0], "title", &title(scene)));
    put(&text([MARGIN_PX, 58.0], "facts", &facts(scene)));
    put(&room(scene.world, &page));
    let driven: Vec<String> = scene.driven.iter().map(|at| page.pair(*at)).collect();
    put(&format!(r#"<polyline class="driven" points="{}"/>"#, driven.join(" ")));
    put(&contacts(scene, &page));
    put(&cars(scene, &page));
    put(&marks(scene, &page));
    put(&scale_bar(wide, &page));
    put(&legend.svg);
    put("</svg>");
    svg
}

/// The hatching of the area without floor.
const HATCH: &str = r#"<defs><pattern id="hatch" width="10" height="10" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0V10"/></pattern></defs>"#;

/// Maps metres to pixels of the page.
struct Page {
    /// Pixels per metre.
    scale: f64,
    /// Position on the page of the room's corner where x and y are 0, pixels.
    left: f64,
    bottom: f64,
}

impl Page {
    fn at(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [self.left + x * self.scale, self.bottom - y * self.scale] // y points up
    }

    fn pair(&self, point: [f64; 2]) -> String {
        let [x, y] = self.at(point);
        format!("{x:.1},{y:.1}")
    }

    fn pairs(&self, points: &[[f64; 2]]) -> String {
        points.iter().map(|point| self.pair(*point)).collect::<Vec<_>>().join(" ")
    }

    fn circle(&self, class: &str, centre: [f64; 2], radius: f64) -> String {
        let [x, y] = self.at(centre);
        format!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{:.1}"/>"#, radius * self.scale)
    }

    fn rectangle(&self, class: &str, [x0, y0, x1, y1]: [f64; 4], more: &str) -> String {
        let [left, top] = self.at([x0, y1]);
        let [wide, high] = [(x1 - x0) * self.scale, (y1 - y0) * self.scale];
        format!(
            r#"<rect class="{class}" x="{left:.1}" y="{top:.1}" width="{wide:.1}" height="{high:.1}"{more}/>"#
        )
    }
}

fn text([x, y]: [f64; 2], class: &str, words: &str) -> String {
    format!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, sanitize::markup(words))
}

fn title(scene: &Scene<'_>) -> String {
    format!("A simulated drive of board '{}'", scene.board)
}

/// A one-line summary of the run.
fn facts(scene: &Scene<'_>) -> String {
    let Scene { about, report, seconds, .. } = scene;
    let clock = if about.is_virtual { " of virtual time" } else { "" };
    format!(
        "seed {}, {seconds:.1} s{clock}, {:.1} m driven, contacts {}, of these falls {}",
        about.seed,
        report.distance_m,
        report.contacts.all(),
        report.contacts.falls
    )
}

/// The obstacles in the room, and the areas without floor.
fn room(world: &World, page: &Page) -> String {
    let [wide, high] = world.room();
    let mut lines = vec![page.rectangle("floor", [0.0, 0.0, wide, high], "")];
    let hatched = r#" fill="url(#hatch)""#;
    lines.extend(world.cliffs().iter().map(|hole| page.rectangle("hole", *hole, hatched)));
    if !world.line().is_empty() {
        let (points, width) = (page.pairs(world.line()), World::LINE_WIDTH * page.scale);
        lines.push(format!(r#"<polyline class="tape" points="{points}" stroke-width="{width:.1}"/>"#));
    }
    lines.extend(world.discs().iter().map(|disc| page.circle("solid", disc.at, disc.radius)));
    for (disc, way) in world.movers() {
        lines.push(format!(r#"<polygon class="mover" points="{}"/>"#, page.pairs(way)));
        lines.push(page.circle("solid", disc.at, disc.radius));
    }
    for wall in world.walls() {
        let ([x1, y1], [x2, y2]) = (page.at(wall.from), page.at(wall.to));
        lines.push(format!(r#"<line class="wall" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#));
    }
    lines.join("\n")
}

/// The car at the start and at the end, with its name, and the places that it was sent to.
fn cars(scene: &Scene<'_>, page: &Page) -> String {
    let mut lines = Vec::new();
    let start = scene.world.start();
    if let Some(route) = &scene.about.route {
        for (nth, place) in places(route, &start).into_iter().enumerate() {
            let [x, y] = page.at(place);
            lines.push(format!(r#"<circle class="place" cx="{x:.1}" cy="{y:.1}" r="{PLACE_PX}"/>"#));
            lines.push(text([x + PLACE_PX + 4.0, y + 5.0], "name", &format!("goal {}", nth + 1)));
        }
    }
    // One name above its car and one below: a run may end where it began.
    let (size, end) = (&scene.car, scene.report.pose);
    let half = libm::hypot(size.car[0], size.car[1]) / 2.0 * page.scale;
    for (class, nose, pose, below) in
        [("start", "nose", start, -half - 4.0), ("end", "nose dark", end, half + 14.0)]
    {
        lines.push(car(class, nose, &pose, size, page));
        let [x, y] = page.at(pose.point(size.front - size.car[0] / 2.0, 0.0));
        lines.push(text([x - 14.0, y + below], "name", class)); // about in the middle
    }
    lines.join("\n")
}

/// The outline of the car at each contact; a browser shows the kind and time when the pointer is on it.
fn contacts(scene: &Scene<'_>, page: &Page) -> String {
    let outline = |contact: &Contact| {
        let points = body(&contact.pose, &scene.car, page);
        format!(r#"<polygon class="contact" points="{points}"><title>{contact}</title></polygon>"#)
    };
    scene.contacts.iter().map(outline).collect::<Vec<_>>().join("\n")
}

/// A car with a wedge that shows where its front is.
fn car(class: &str, nose: &str, pose: &Pose, size: &RoomStatus, page: &Page) -> String {
    let ([length, width], front) = (size.car, size.front);
    let (back, half) = (front - length, width / 2.0);
    let wedge = pairs_at(pose, &[[back, half], [front, 0.0], [back, -half]], page);
    let body = body(pose, size, page);
    format!("<polygon class=\"{class}\" points=\"{body}\"/>\n<polyline class=\"{nose}\" points=\"{wedge}\"/>")
}

/// The corners of the car at `pose`, as points of the page.
fn body(pose: &Pose, size: &RoomStatus, page: &Page) -> String {
    let ([length, width], front) = (size.car, size.front);
    let (back, half) = (front - length, width / 2.0);
    pairs_at(pose, &[[front, half], [front, -half], [back, -half], [back, half]], page)
}

/// Points ahead of and to the left of the rear axle at `pose`, as points of the page.
fn pairs_at(pose: &Pose, points: &[[f64; 2]], page: &Page) -> String {
    page.pairs(&points.iter().map(|[ahead, left]| pose.point(*ahead, *left)).collect::<Vec<_>>())
}

/// A mark for each trip; a browser shows its cause and time when the pointer is on it.
fn marks(scene: &Scene<'_>, page: &Page) -> String {
    let mut placed: Vec<(Cause, [f64; 2])> = Vec::with_capacity(scene.marks.len());
    let mark = |mark: &TripMark| {
        let TripMark { cause, at, seconds } = *mark;
        let at = beside(&placed, cause, page.at(at));
        placed.push((cause, at));
        let (class, points, name) = (colour(cause), points(cause, at), cause.name());
        format!(
            r#"<polygon class="trip c{class}" points="{points}"><title>{name}, {seconds:.2} s</title></polygon>"#
        )
    };
    scene.marks.iter().map(mark).collect::<Vec<_>>().join("\n")
}

/// Where to draw the mark of `cause` that belongs at (x, y). If it would overlap a mark of another cause, it
/// is moved to the right.
fn beside(placed: &[(Cause, [f64; 2])], cause: Cause, [mut x, y]: [f64; 2]) -> [f64; 2] {
    let is_hidden = |x: f64| {
        let over = |at: &[f64; 2]| (at[0] - x).abs().max((at[1] - y).abs()) < RADIUS;
        placed.iter().any(|(other, at)| *other != cause && over(at))
    };
    // At most one step per cause: there are rarely marks of that many causes in one place.
    for _ in Cause::ALL {
        if is_hidden(x) {
            x += 2.0 * RADIUS;
        }
    }
    [x, y]
}

/// A bar of a round number of metres, at most a quarter of the room.
fn scale_bar(wide: f64, page: &Page) -> String {
    let metres = round_length(wide / 4.0);
    let ([left, y], length) = ([page.left, page.bottom + LINE_PX], metres * page.scale);
    let right = left + length;
    format!(
        "<path class=\"scale\" d=\"M{left:.1} {:.1}V{:.1}M{left:.1} {y:.1}H{right:.1}M{right:.1} {:.1}V{:.1}\"/>\n{}",
        y - 5.0,
        y + 5.0,
        y - 5.0,
        y + 5.0,
        text([right + 8.0, y + 5.0], "name", &format!("{metres} m"))
    )
}

/// The largest of 1, 2 and 5 times a power of ten that is at most `metres`.
fn round_length(metres: f64) -> f64 {
    const ROUND: [f64; 13] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    ROUND.into_iter().rev().find(|round| *round <= metres).unwrap_or(ROUND[0])
}

/// The legend and its number of lines.
struct Legend {
    svg: String,
    lines: usize,
}

fn legend(scene: &Scene<'_>, page: &Page, width: f64) -> Legend {
    let columns = (((width - 2.0 * MARGIN_PX) / COLUMN_PX) as usize).max(1);
    let place = |nth: usize| {
        let (column, line) = (nth % columns, nth / columns);
        [page.left + COLUMN_PX * column as f64, page.bottom + LINE_PX * (2 + line) as f64]
    };
    let entries = entries(scene);
    let lines = entries.len().div_ceil(columns);
    let entry = |(nth, (sample, words)): (usize, (Sample, String))| {
        let [x, y] = place(nth);
        format!("{}\n{}", sample.svg([x, y]), text([x + 22.0, y + 5.0], "name", &words))
    };
    let entries: Vec<String> = entries.into_iter().enumerate().map(entry).collect();
    Legend { svg: entries.join("\n"), lines }
}

/// A mark that the legend explains.
enum Sample {
    Driven,
    Tape,
    Hole,
    Contact,
    Trip(Cause),
}

impl Sample {
    /// A sample of the mark, to the left of its text.
    fn svg(&self, [x, y]: [f64; 2]) -> String {
        match self {
            Sample::Driven => format!(r#"<path class="driven" d="M{x:.1} {y:.1}h16"/>"#),
            Sample::Tape => format!(r#"<path class="tape" stroke-width="5" d="M{x:.1} {y:.1}h16"/>"#),
            Sample::Hole => format!(
                r##"<rect class="edge" x="{x:.1}" y="{:.1}" width="16" height="14" fill="url(#hatch)"/>"##,
                y - 7.0
            ),
            Sample::Contact => {
                format!(r#"<rect class="contact" x="{x:.1}" y="{:.1}" width="16" height="10"/>"#, y - 5.0)
            }
            Sample::Trip(cause) => {
                let (class, points) = (colour(*cause), points(*cause, [x + 8.0, y]));
                format!(r#"<polygon class="legend trip c{class}" points="{points}"/>"#)
            }
        }
    }
}

fn entries(scene: &Scene<'_>) -> Vec<(Sample, String)> {
    let mut entries = vec![(Sample::Driven, "path driven".to_string())];
    if !scene.world.line().is_empty() {
        entries.push((Sample::Tape, "line on the floor".to_string()));
    }
    if !scene.world.cliffs().is_empty() {
        entries.push((Sample::Hole, "no floor".to_string()));
    }
    let of_all = |drawn: usize, counted: u64| match drawn as u64 {
        drawn if drawn < counted => format!("{counted}, {drawn} drawn"),
        _ => format!("{counted}"),
    };
    let counted = scene.report.contacts.all();
    if counted > 0 {
        entries.push((Sample::Contact, format!("contact {}", of_all(scene.contacts.len(), counted))));
    }
    for cause in Cause::ALL.into_iter().filter(|cause| scene.trips[*cause as usize] > 0) {
        let drawn = scene.marks.iter().filter(|mark| mark.cause == cause).count();
        let counts = of_all(drawn, scene.trips[cause as usize]);
        entries.push((Sample::Trip(cause), format!("{} {counts}", cause.name())));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_bar_has_a_round_length() {
        let lengths = [0.8, 1.2, 0.5, 24.0, 0.001].map(round_length);
        assert_eq!(lengths, [0.5, 1.0, 0.5, 20.0, 0.01]);
    }

    #[test]
    fn marks_of_different_causes_stand_beside_each_other() {
        let placed = [(Cause::Obstacle, [10.0, 10.0]), (Cause::Cliff, [24.0, 12.0])];
        assert_eq!(beside(&placed, Cause::Tilt, [11.0, 10.0]), [39.0, 10.0]);
        assert_eq!(beside(&placed, Cause::Obstacle, [11.0, 10.0]), [11.0, 10.0], "a mark of the same cause");
        assert_eq!(beside(&placed, Cause::Tilt, [10.0, 30.0]), [10.0, 30.0]);
    }

    #[test]
    fn y_points_up_and_the_corner_is_at_the_bottom_left() {
        let page = Page { scale: 100.0, left: 24.0, bottom: 376.0 };
        assert_eq!(
            (page.pair([0.0, 0.0]), page.pair([1.0, 3.0])),
            ("24.0,376.0".into(), "124.0,76.0".into())
        );
        let hole = page.rectangle("hole", [1.0, 1.0, 2.0, 3.0], "");
        assert_eq!(hole, r#"<rect class="hole" x="124.0" y="76.0" width="100.0" height="200.0"/>"#);
    }
}
