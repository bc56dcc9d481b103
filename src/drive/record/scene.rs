//! An outside view of the robot, for 3-D panels: body, what its range sensors measure, goal and path, as
//! messages of the type `foxglove.SceneUpdate` (<https://docs.foxglove.dev/docs/sdk/schemas/scene-update>).
//! Everything is drawn where the robot believes it to be, in metres ahead and to the left of its start.

mod schema;

pub use schema::scene_schema;

use super::due::is_due;
use crate::base::driven_path::DrivenPath;
use crate::base::plan::Board;
use crate::base::time::{Instant, Span};
use crate::decision::motion::OdometryPose;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Type of the messages, by which viewers recognise them.
pub const SCENE_TYPE: &str = "foxglove.SceneUpdate";
/// Name of the coordinate frame: x ahead and y left of where the run began, z up.
pub const SCENE_FRAME: &str = "start";

/// Anything not redrawn within this many seconds disappears, so that nothing outdated stays on the screen.
const LIFETIME_S: u64 = 1;
/// Minimum distance between two points of the path, metres: a curve of a small car still looks round.
const PATH_STEP_M: f64 = 0.1;
/// Maximum number of its points. The newer half is the last 50 m.
const PATH_POINTS: usize = 1_000;
/// Interval between messages with the whole path: at most 32 kB each.
const PATHS: Span = Span::from_millis(5_000);
/// With more range sensors than this, only the far end of each cone is drawn: a ring of 64 would hide the
/// robot.
const WHOLE_CONES: usize = 4;
/// Height of a drawn body, and height above the floor of the arrow that shows the heading, metres.
const HEIGHT_M: f64 = 0.1;
/// Length of that arrow for a robot whose board does not state its size, metres.
const ARROW_M: f64 = 0.3;
/// Radius of the ball that marks a goal, metres.
const GOAL_M: f64 = 0.08;
/// How far beside a goal its text is, metres: the text has a background, which would hide the ball.
const TEXT_BESIDE_M: f64 = 0.3;

/// How a robot looks: its size, and its range sensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RobotShape {
    /// Length and width of the body, metres, if the board states them.
    pub body: Option<[f32; 2]>,
    /// From the rear axle to the front end of the body, metres.
    pub front: f32,
    /// Each sensor that measures a distance in metres.
    pub beams: Vec<Beam>,
}

/// A range sensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beam {
    /// Name of the sensor.
    pub sensor: String,
    /// Where it is mounted: metres ahead of the rear axle, and metres left of the centre line.
    pub at: [f32; 2],
    /// Where it looks: degrees from straight ahead, positive to the left.
    pub bearing_deg: f32,
    /// Half its opening angle, degrees.
    pub half_cone_deg: f32,
    /// A reading of this many metres or more means that the sensor sees nothing.
    pub reach: f32,
}

impl RobotShape {
    /// The shape of the robot that `board` describes.
    pub fn of(board: &Board) -> RobotShape {
        let motion = board.motion.as_ref();
        let body = motion.and_then(|motion| motion.body);
        let front = motion.zip(body).map_or(0.0, |(motion, [length, _])| (motion.wheelbase + length) / 2.0);
        let metric = board.sensors.iter().filter(|sensor| sensor.unit == "m");
        let beams = metric.filter_map(|sensor| {
            let beam = sensor.beam?;
            Some(Beam {
                sensor: sensor.name.clone(),
                at: beam.at,
                bearing_deg: beam.bearing_deg,
                half_cone_deg: beam.half_cone_deg,
                reach: beam.reach,
            })
        });
        RobotShape { body, front, beams: beams.collect() }
    }
}

/// What the robot knows at one moment.
#[derive(Clone, Copy, Debug)]
pub struct SceneMoment<'a> {
    /// Its time.
    pub time: Instant,
    /// Where the robot believes it is.
    pub pose: OdometryPose,
    /// The place that the robot is driving to.
    pub goal: Option<[f64; 2]>,
    /// What the robot is doing about its goal, as text.
    pub doing: &'a str,
}

/// The messages for a moment.
#[derive(Clone, Debug)]
pub struct SceneMessages {
    /// The robot, and its path since the last `path`.
    pub scene: Value,
    /// The whole path, once every five seconds, so that a viewer that connects late or jumps in a recording
    /// shows it after at most that time.
    pub path: Option<Value>,
}

/// Draws a robot, and remembers its path.
#[derive(Clone, Debug)]
pub struct Scene {
    shape: RobotShape,
    path: DrivenPath,
    path_drawn: Option<Instant>,
}

impl Default for Scene {
    fn default() -> Scene {
        Scene::new(RobotShape::default())
    }
}

impl Scene {
    /// A robot of this shape that has not moved yet.
    pub fn new(shape: RobotShape) -> Scene {
        Scene { shape, path: DrivenPath::new(PATH_STEP_M, PATH_POINTS), path_drawn: None }
    }

    /// Begins a new path: the robot was not followed for some time.
    pub fn forget_path(&mut self) {
        *self = Scene::new(std::mem::take(&mut self.shape));
    }

    /// The messages for a moment. `range` returns the distance that a sensor measures, metres, if its value
    /// is valid.
    pub fn messages(
        &mut self,
        moment: SceneMoment<'_>,
        range: impl Fn(&str) -> Option<f64>,
    ) -> SceneMessages {
        self.path.follow(moment.pose.at);
        let path = is_due(&mut self.path_drawn, moment.time, PATHS).then(|| {
            let path =
                Entity::new("path", moment.time).with("lines", lines(Lines::Strip, &self.path.whole(), BLUE));
            json!({"entities": [path.0]})
        });
        let robot = Entity::new("robot", moment.time).expires();
        let ranges = Entity::new("ranges", moment.time).expires();
        let newest = Entity::new("newest-path", moment.time).expires();
        let entities = [
            Some(self.body(robot, moment.pose)),
            self.ranges(ranges, moment.pose, range),
            moment.goal.map(|goal| goal_ball(Entity::new("goal", moment.time).expires(), goal, moment.doing)),
            Some(newest.with("lines", lines(Lines::Strip, &self.path.newest(), BLUE))),
        ];
        let entities: Vec<Value> = entities.into_iter().flatten().map(|entity| entity.0).collect();
        SceneMessages { scene: json!({"entities": entities}), path }
    }

    fn body(&self, entity: Entity, pose: OdometryPose) -> Entity {
        let Some([length, width]) = self.shape.body.map(|size| size.map(f64::from)) else {
            return entity.with("arrows", arrow(pose.at, pose.heading, ARROW_M));
        };
        let front = f64::from(self.shape.front);
        let middle = ahead(pose, front - length / 2.0, 0.0);
        let cube = json!([{
            "pose": place(middle, HEIGHT_M / 2.0, pose.heading),
            "size": {"x": mm(length), "y": mm(width), "z": HEIGHT_M},
            "color": colour(GREEN, 0.5),
        }]);
        entity.with("cubes", cube).with("arrows", arrow(pose.at, pose.heading, front))
    }

    /// The cones of the sensors that see something; `None` if none does.
    fn ranges(
        &self,
        entity: Entity,
        pose: OdometryPose,
        range: impl Fn(&str) -> Option<f64>,
    ) -> Option<Entity> {
        let mut points = Vec::new();
        for beam in &self.shape.beams {
            let seen = range(&beam.sensor).filter(|metres| *metres >= 0.0 && *metres < f64::from(beam.reach));
            let Some(metres) = seen else { continue };
            let [x, y] = beam.at.map(f64::from);
            let end = |degrees: f32| {
                let (sin, cos) = f64::from(degrees).to_radians().sin_cos();
                ahead(pose, x + metres * cos, y + metres * sin)
            };
            let (left, right) =
                (end(beam.bearing_deg + beam.half_cone_deg), end(beam.bearing_deg - beam.half_cone_deg));
            points.extend([left, right]);
            if self.shape.beams.len() <= WHOLE_CONES {
                let mount = ahead(pose, x, y);
                points.extend([mount, left, mount, right]);
            }
        }
        (!points.is_empty()).then(|| entity.with("lines", lines(Lines::List, &points, YELLOW)))
    }
}

/// The point `forward` metres ahead of the rear axle and `left` metres to the left.
fn ahead(pose: OdometryPose, forward: f64, left: f64) -> [f64; 2] {
    let (sin, cos) = pose.heading.sin_cos();
    [pose.at[0] + forward * cos - left * sin, pose.at[1] + forward * sin + left * cos]
}

fn goal_ball(entity: Entity, at: [f64; 2], doing: &str) -> Entity {
    let size = json!({"x": 2.0 * GOAL_M, "y": 2.0 * GOAL_M, "z": 2.0 * GOAL_M});
    let ball = json!([{"pose": place(at, GOAL_M, 0.0), "size": size, "color": colour(RED, 0.8)}]);
    let text = json!([{
        "pose": place([at[0], at[1] + TEXT_BESIDE_M], GOAL_M, 0.0),
        "billboard": true,
        "font_size": 14.0, // pixels on the screen, because the text is scale-invariant
        "scale_invariant": true,
        "color": colour(RED, 1.0),
        "text": doing,
    }]);
    entity.with("spheres", ball).with("texts", text)
}

fn arrow(at: [f64; 2], heading: f64, length: f64) -> Value {
    let length = if length > 0.0 { length } else { ARROW_M };
    json!([{
        "pose": place(at, HEIGHT_M, heading),
        "shaft_length": mm(0.7 * length),
        "shaft_diameter": 0.02,
        "head_length": mm(0.3 * length),
        "head_diameter": 0.05,
        "color": colour(GREEN, 1.0),
    }])
}

/// A drawn item; it replaces the previous one with the same name.
pub struct Entity(pub Value);

impl Entity {
    /// An item named `id`, at `time`; it stays until it is replaced.
    pub fn new(id: &str, time: Instant) -> Entity {
        Entity(json!({
            "timestamp": timestamp(time),
            "frame_id": SCENE_FRAME,
            "id": id,
            "lifetime": {"sec": 0, "nsec": 0},
            "frame_locked": true,
        }))
    }

    /// It disappears if it is not drawn again.
    pub fn expires(mut self) -> Entity {
        self.0["lifetime"]["sec"] = json!(LIFETIME_S);
        self
    }

    /// Adds these primitives.
    pub fn with(mut self, kind: &str, primitives: Value) -> Entity {
        self.0[kind] = primitives;
        self
    }
}

/// How points are joined; the numbers are those of `foxglove.LineType`.
#[derive(Clone, Copy)]
pub enum Lines {
    /// One after the other.
    Strip = 0,
    /// One after the other, and the last to the first.
    Loop = 1,
    /// In pairs.
    List = 2,
}

// Red, green and blue, 0..=1, from the palette of Okabe and Ito: colour-blind users can tell them apart too.
/// The robot.
const GREEN: [f64; 3] = [0.0, 0.62, 0.45];
/// Its path.
const BLUE: [f64; 3] = [0.0, 0.45, 0.7];
/// What its sensors see.
const YELLOW: [f64; 3] = [0.9, 0.62, 0.0];
/// Its goal, and places without floor.
pub const RED: [f64; 3] = [0.84, 0.37, 0.0];
/// Walls and objects.
pub const GREY: [f64; 3] = [0.5, 0.5, 0.5];

/// Lines on the ground, two pixels wide.
pub fn lines(joined: Lines, points: &[[f64; 2]], rgb: [f64; 3]) -> Value {
    let points: Vec<Value> =
        points.iter().map(|[x, y]| json!({"x": mm(*x), "y": mm(*y), "z": 0.0})).collect();
    json!([{
        "type": joined as u8,
        "pose": place([0.0, 0.0], 0.0, 0.0),
        "thickness": 2.0,
        "scale_invariant": true,
        "points": points,
        "color": colour(rgb, 1.0),
    }])
}

/// A pose at `height` metres, turned by `heading` radians.
pub fn place([x, y]: [f64; 2], height: f64, heading: f64) -> Value {
    let (sin, cos) = (heading / 2.0).sin_cos();
    // An error of one ten-thousandth is a rotation by a hundredth of a degree.
    let [sin, cos] = [sin, cos].map(|part| (part * 1e4).round() / 1e4);
    json!({
        "position": {"x": mm(x), "y": mm(y), "z": mm(height)},
        "orientation": {"x": 0.0, "y": 0.0, "z": sin, "w": cos},
    })
}

/// A colour with its opacity.
pub fn colour([r, g, b]: [f64; 3], a: f64) -> Value {
    json!({"r": r, "g": g, "b": b, "a": a})
}

/// A time in the form that viewers expect.
pub fn timestamp(time: Instant) -> Value {
    let nanos = time.as_nanos();
    json!({"sec": nanos / 1_000_000_000, "nsec": nanos % 1_000_000_000})
}

/// Rounded to millimetres: more digits would only make recordings longer.
fn mm(metres: f64) -> f64 {
    (metres * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests;
