//! The simulated world and the car in it.

use crate::base::time::Span;

/// The world and the car in it, as the board file describes them.
#[derive(Clone, Debug, PartialEq)]
pub struct SimPlan {
    /// Inner size of the room, metres (x, y).
    pub room: [f32; 2],
    /// Number of discs scattered in it.
    pub discs: u32,
    /// Radius of a disc in metres.
    pub disc_radius: f32,
    /// Rectangles without floor: [x0, y0, x1, y1] in metres.
    pub cliffs: Vec<[f32; 4]>,
    /// Points of the line on the floor, metres.
    pub line: Vec<[f32; 2]>,
    /// Distance between the axles, metres.
    pub wheelbase: f32,
    /// Distance between the wheels of one axle, metres.
    pub track: f32,
    /// Outer size of the car, metres (length, width).
    pub body: [f32; 2],
    /// Speed at full duty, metres per second.
    pub full_speed: f32,
    /// Battery voltage when the run starts, volts.
    pub battery_v: f32,
    /// Mean reading of the ground sensors where there is no floor, counts. If this is below 0 by more than
    /// the noise, the converter always reads 0.
    pub edge_counts: f32,
    /// The motors' controller counts every byte that it receives towards its three-byte frames, even the
    /// register number before a repeated start.
    pub counts_every_byte: bool,
    /// Which variant of the HC-SR04 its sonars are.
    pub sonar: SonarModule,
    /// How the car differs from its model.
    pub errors: MotionErrors,
    /// Faults of the rangers that a co-processor serves. Not in board files; only studies set this.
    pub rangers: RangerFaults,
    /// A world that was laid out by hand, from a file; it replaces the room above, its discs, cliffs and
    /// line.
    pub world: Option<WorldPlan>,
}

/// How a simulated car and its gyroscope differ from what the board states: a real car does, and its dead
/// reckoning cannot know by how much.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MotionErrors {
    /// The front wheels stand this much farther to the right than commanded, degrees.
    pub steering_deg: f64,
    /// Share by which the left wheels of a differential drive turn more slowly than commanded.
    pub left_slower: f64,
    /// What a gyroscope measures at rest, degrees a second.
    pub gyro_zero_deg_s: f64,
    /// Share by which a gyroscope measures too much.
    pub gyro_scale: f64,
}

/// Faults of simulated rangers, beyond the noise of a good chip.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RangerFaults {
    /// Standard deviation of the additional noise, as a share of the range.
    pub noise: f32,
    /// Dropouts: the period, and the time at the end of each period in which every reading is faulty.
    pub gaps: Option<[Span; 2]>,
}

/// A world that was laid out by hand: a room with four walls. Coordinates are in metres from one corner of
/// the room, with x and y along the walls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorldPlan {
    /// Inner size of the room (x, y).
    pub size: [f64; 2],
    /// Where the robot starts: the middle of its rear axle.
    pub start: [f64; 2],
    /// Its heading there, degrees counter-clockwise from x.
    pub heading_deg: f64,
    /// The robot's goal.
    pub goal: Option<[f64; 2]>,
    /// Discs: x, y, radius.
    pub discs: Vec<[f64; 3]>,
    /// Axis-aligned boxes: two opposite corners, x0, y0, x1, y1.
    pub boxes: Vec<[f64; 4]>,
    /// Thin walls from one point to another: x0, y0, x1, y1.
    pub walls: Vec<[f64; 4]>,
    /// Rectangles without floor: x0, y0, x1, y1.
    pub ledges: Vec<[f64; 4]>,
    /// Points of the line on the floor.
    pub line: Vec<[f64; 2]>,
    /// Discs that move.
    pub movers: Vec<MoverPlan>,
}

/// A disc that moves along a closed path at constant speed.
#[derive(Clone, Debug, PartialEq)]
pub struct MoverPlan {
    /// Its radius.
    pub radius: f64,
    /// Metres per second.
    pub speed: f64,
    /// Points that it visits in turn; after the last one it returns to the first.
    pub way: Vec<[f64; 2]>,
}

/// What a sonar module does with its echo line when no echo comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SonarModule {
    /// Lowers it after 38 ms, as the data sheet says.
    #[default]
    Ms38,
    /// Lowers it after 200 ms.
    Ms200,
    /// Holds it high until an echo comes back, if ever.
    Endless,
}

impl Default for SimPlan {
    /// A PiCar-X (the vendor's wheelbase, track and size) in a room with five discs, a stairwell and a line
    /// on the floor.
    fn default() -> SimPlan {
        SimPlan {
            room: [4.0, 3.0],
            discs: 5,
            disc_radius: 0.12,
            cliffs: vec![[3.4, 2.5, 4.0, 3.0]],
            line: vec![[0.8, 0.6], [3.2, 0.6], [3.2, 1.6], [0.8, 1.6], [0.8, 0.6]],
            wheelbase: 0.08724,
            track: 0.11665,
            body: [0.25, 0.13],
            full_speed: 0.5,
            battery_v: 7.8,
            edge_counts: 120.0, // well below the vendor's limit for "no floor", 500
            counts_every_byte: false,
            sonar: SonarModule::Ms38,
            errors: MotionErrors::default(),
            rangers: RangerFaults::default(),
            world: None,
        }
    }
}
