//! `[rt]`, `[motion]`, `[backing]`, `[wander]`, `[patrol]` and `[sim]`: what is requested from the system,
//! how the robot moves, backs off and wanders, where it patrols, and the simulated room.

use crate::base::plan::{
    BackingPlan, MotionErrors, MotionPlan, RangerFaults, RtPlan, SensorPlan, SimPlan, SonarModule,
    TurnSensor, WanderPlan,
};
use crate::base::time::Span;
use crate::deploy::board::reader::Section;
use crate::drive::backtrack::LONGEST_M;
use crate::field::navigate::goals::{FEWEST_OF_PATROL, MAX_PLACES};
use crate::field::navigate::navigator::FARTHEST_M;

/// The unit of a sensor that measures how fast the robot turns.
const TURN_UNIT: &str = "deg/s";

/// `[rt]`.
pub fn rt(section: &Section<'_>) -> Option<RtPlan> {
    let strict = section.flag("strict").or(false);
    // The bus thread runs 5 above the tick, and SCHED_FIFO ends at 99; 0 requests no real-time priority.
    let priority = section.integer("priority", 0..=94).or(80);
    let cpu = section.integer("cpu", 0..=1023).optional();
    let lock_memory = section.flag("lock_memory").or(true);
    Some(RtPlan { strict, priority: priority as u8, cpu: cpu.map(|cpu| cpu as usize), lock_memory })
}

/// `[motion]`.
pub fn motion(section: &Section<'_>, names: &[String], sensors: &[Option<SensorPlan>]) -> Option<MotionPlan> {
    let full_speed = section.real("full_speed", 0.01..=20.0).required();
    let wheelbase = section.real("wheelbase", 0.01..=5.0).required();
    let lag = section.millis("lag_ms", 0.0..=5_000.0).or(Span::ZERO);
    let track = section.real("track", 0.01..=5.0).optional().map(|track| track as f32);
    let body = section.reals::<2>("body", 0.01..=10.0).optional().map(|sides| sides.map(|side| side as f32));
    let turning = section.name_among("turning", "sensor", names).if_written();
    let channel = |name: String| names.iter().position(|known| *known == name);
    let turning = turning.map(|turning| turning.and_then(channel));
    let scale = section.real("turning_scale", 0.8..=1.25).optional();
    if scale.is_some() && turning == Some(None) {
        section.misfit("turning_scale", "there is no `turning` whose scale this could be".to_string());
    }
    let scale = scale.unwrap_or(1.0) as f32;
    let sensor = turning.flatten().and_then(|channel| sensors.get(channel)?.as_ref());
    if let Some(SensorPlan { name, unit, .. }) = sensor.filter(|sensor| sensor.unit != TURN_UNIT) {
        let rule = format!("\"{name}\" measures {unit}; expected: a sensor that measures {TURN_UNIT}");
        section.misfit("turning", rule);
    }
    let turning = turning?.map(|channel| TurnSensor { channel, scale });
    let (full_speed, wheelbase) = (full_speed? as f32, wheelbase? as f32);
    Some(MotionPlan { full_speed, wheelbase, lag, track, body, turning })
}

/// `[backing]`.
pub fn backing(section: &Section<'_>) -> Option<BackingPlan> {
    // At most half a turn: a larger one would turn the robot back to where it came from.
    let turn_rad = section.real("turn_rad", 0.0..=3.1).required();
    let turn_time = section.millis("turn_ms", 0.0..=60_000.0).required();
    let pass_rad = section.real("pass_rad", 0.0..=3.1).or(0.0);
    let pass_m = section.real("pass_m", 0.0..=10.0).or(0.0);
    let floor = section.real("drive", 0.0..=1.0).required();
    let trail_m = section.real("trail_m", 0.05..=LONGEST_M).required();
    let start_m = section.real("start_m", 0.0..=1.0).or(0.0);
    if let Some(trail_m) = trail_m.filter(|trail_m| start_m > *trail_m) {
        let rule = format!("{start_m} m is more than trail_m ({trail_m} m), the length of the recorded path");
        section.misfit("start_m", rule);
    }
    Some(BackingPlan {
        turn_rad: turn_rad? as f32,
        turn_time: turn_time?,
        pass_rad: pass_rad as f32,
        pass_m: pass_m as f32,
        floor: floor? as f32,
        trail_m: trail_m? as f32,
        start_m: start_m as f32,
    })
}

/// `[wander]`.
pub fn wander(section: &Section<'_>) -> Option<WanderPlan> {
    // The navigator looks at least 0.6 m along each arc.
    let clear_m = section.real("clear_m", 0.05..=0.6).required();
    let new_ground = section.real("new_ground", 0.0..=10.0).or(0.0);
    Some(WanderPlan { clear_m: clear_m? as f32, new_ground: new_ground as f32 })
}

/// `[patrol]`.
pub fn patrol(section: &Section<'_>) -> Option<Vec<[f64; 2]>> {
    let places = section.rows::<2>("places", -FARTHEST_M..=FARTHEST_M).required()?;
    let allowed = FEWEST_OF_PATROL..=MAX_PLACES;
    if !allowed.contains(&places.len()) {
        let rule = format!("a patrol has {FEWEST_OF_PATROL} to {MAX_PLACES} places; found {}", places.len());
        section.misfit("places", rule);
        return None;
    }
    Some(places)
}

/// Variants of the HC-SR04, by how long they hold their echo line when no echo returns.
const SONARS: [(&str, SonarModule); 3] =
    [("38-ms", SonarModule::Ms38), ("200-ms", SonarModule::Ms200), ("endless", SonarModule::Endless)];

/// `[sim]`.
pub fn sim(section: &Section<'_>) -> Option<SimPlan> {
    let room = section.reals::<2>("room", 0.5..=100.0).required();
    let discs = section.integer("discs", 0..=100).or(0);
    let disc_radius = section.real("disc_radius", 0.01..=5.0).or(0.1);
    let cliffs = section.rows::<4>("cliffs", 0.0..=100.0).or(Vec::new());
    let line = section.rows::<2>("line", 0.0..=100.0).or(Vec::new());
    let wheelbase = section.real("wheelbase", 0.01..=5.0).required();
    let track = section.real("track", 0.01..=5.0).required();
    let body = section.reals::<2>("body", 0.01..=5.0).required();
    let full_speed = section.real("full_speed", 0.01..=20.0).required();
    let battery = section.real("battery_v", 0.0..=60.0).required();
    let edge_counts = section.real("edge_counts", -1000.0..=4095.0).optional();
    let counts_every_byte = section.flag("counts_every_byte").optional();
    // Part of the digest only if present, as is everything below.
    let errors = MotionErrors {
        steering_deg: section.real("steering_error_deg", -10.0..=10.0).optional().unwrap_or(0.0),
        left_slower: section.real("left_slower", -0.5..=0.5).optional().unwrap_or(0.0),
        gyro_zero_deg_s: section.real("gyro_zero_deg_s", -20.0..=20.0).optional().unwrap_or(0.0),
        gyro_scale: section.real("gyro_scale_error", -0.1..=0.1).optional().unwrap_or(0.0),
    };
    let sonar = section.choice("sonar", "sonar module", &SONARS).optional();
    if let (Some([width, depth]), Some([length, _])) = (room, body) {
        if length * 2.0 > width.min(depth) {
            section.misfit(
                "room",
                format!(
                    "{width} m by {depth} m is too small for a body of {length} m; must be at least twice its length"
                ),
            );
        }
        for [x0, y0, x1, y1] in &cliffs {
            if x0 >= x1 || y0 >= y1 || *x1 > width || *y1 > depth {
                let rule = format!(
                    "[{x0}, {y0}, {x1}, {y1}]: must have x0 < x1 and y0 < y1 within the room ({width} by {depth})"
                );
                section.misfit("cliffs", rule);
            }
        }
        if let Some([x, y]) = line.iter().find(|[x, y]| *x > width || *y > depth) {
            section.misfit("line", format!("[{x}, {y}] is outside the room ({width} by {depth})"));
        }
    }
    let metres = |row: &[f64; 2]| row.map(|value| value as f32);
    Some(SimPlan {
        room: metres(&room?),
        discs: discs as u32,
        disc_radius: disc_radius as f32,
        cliffs: cliffs.iter().map(|row| row.map(|value| value as f32)).collect(),
        line: line.iter().map(metres).collect(),
        wheelbase: wheelbase? as f32,
        track: track? as f32,
        body: metres(&body?),
        full_speed: full_speed? as f32,
        battery_v: battery? as f32,
        edge_counts: edge_counts.map_or(SimPlan::default().edge_counts, |counts| counts as f32),
        counts_every_byte: counts_every_byte.unwrap_or(false),
        sonar: sonar.map_or(SonarModule::default(), |(_, module)| module),
        errors,
        rangers: RangerFaults::default(),
        world: None,
    })
}
