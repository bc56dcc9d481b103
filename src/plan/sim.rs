//! The simulated world and the car in it.

/// The world and the car in it, as the board file states them.
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
    /// Distance of the axles, metres.
    pub wheelbase: f32,
    /// Distance of the wheels of one axle, metres.
    pub track: f32,
    /// Outer size of the car, metres (length, width).
    pub body: [f32; 2],
    /// Speed at full duty, metres a second.
    pub full_speed: f32,
    /// Battery when the run starts, volts.
    pub battery_v: f32,
}

impl Default for SimPlan {
    /// A PiCar-X (the vendor's wheelbase, track and size) in an empty part of a flat, with a stair.
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
        }
    }
}
