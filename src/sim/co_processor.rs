//! A co-processor on the I2C bus that serves little-endian floats from its registers: the lean of the car in
//! degrees, and ranges in metres. A one-byte write selects the register; reads continue from there.

use super::eye::Eye;
use super::noise::Noise;
use super::world::{Pose, World};
use crate::base::plan::{BeamPlan, RangerFaults};
use crate::base::time::Instant;

/// Standard deviation of a range, metres: that of a good time-of-flight chip.
const NOISE_M: f64 = 0.005;
/// A ranger that sees nothing reports its reach plus this much. [`NOISE_M`] cannot cancel it, because noise
/// is clipped at three standard deviations.
const BEYOND_M: f64 = 0.05;

/// What a ranger reports during a gap: farther than any board allows.
const FAULTY_M: f32 = 1e6;

/// Meaning of one of the device's floats.
#[derive(Clone, Debug)]
pub enum Quantity {
    /// How far the car leans, degrees.
    Lean,
    /// The distance to the nearest thing in a beam.
    Range(Box<Ranger>),
}

/// One ranger of the device.
#[derive(Clone, Debug)]
pub struct Ranger {
    eye: Eye,
    /// Metres.
    reach: f32,
    faults: RangerFaults,
    noise: Noise,
    /// The bytes of the last measurement, so that all bytes of a float belong to one measurement although the
    /// world moves on while they are read.
    last: [u8; 4],
}

impl Ranger {
    /// A ranger that is mounted as `beam` says.
    pub fn new(beam: BeamPlan, faults: RangerFaults, noise: Noise) -> Ranger {
        Ranger { eye: Eye::of_beam(beam), reach: beam.reach, faults, noise, last: [0; 4] }
    }

    fn measure(&mut self, world: &World, pose: &Pose, now: Instant) {
        let (nearest, reach) = (self.eye.nearest(world, pose), f64::from(self.reach));
        let seen = nearest.min(reach + BEYOND_M);
        let noise = libm::hypot(NOISE_M, f64::from(self.faults.noise) * seen.min(reach));
        let seen = (seen + self.noise.draw(noise)).clamp(0.0, reach + 2.0 * BEYOND_M);
        let is_gap = self.faults.gaps.is_some_and(|[period, part]| {
            now.since(Instant::ZERO).as_nanos() % period.as_nanos() + part.as_nanos() >= period.as_nanos()
        });
        self.last = (if is_gap { FAULTY_M } else { seen as f32 }).to_le_bytes();
    }
}

/// A co-processor.
#[derive(Clone, Debug)]
pub struct CoProcessor {
    address: u8,
    pointer: u8,
    /// Each float with its first register.
    floats: Vec<(u8, Quantity)>,
}

impl CoProcessor {
    /// A device at `address` without floats.
    pub fn new(address: u8) -> CoProcessor {
        CoProcessor { address, pointer: 0, floats: Vec::new() }
    }
    /// Adds a float whose first byte is at `register`.
    pub fn serve(&mut self, register: u8, quantity: Quantity) {
        self.floats.push((register, quantity));
    }
    /// Its address.
    pub fn address(&self) -> u8 {
        self.address
    }
    /// Takes one written byte, which selects the register.
    pub fn take(&mut self, byte: u8) {
        self.pointer = byte;
    }
    /// The next byte to read while the car is at `pose` and leans by `lean_deg`; nonexistent registers read
    /// as zero.
    pub fn give(&mut self, lean_deg: f32, world: &World, pose: &Pose, now: Instant) -> u8 {
        let pointer = self.pointer;
        self.pointer = pointer.wrapping_add(1);
        for (register, quantity) in &mut self.floats {
            let offset = usize::from(pointer.wrapping_sub(*register));
            if offset >= size_of::<f32>() {
                continue;
            }
            return match quantity {
                Quantity::Lean => lean_deg.to_le_bytes()[offset],
                Quantity::Range(ranger) => {
                    if offset == 0 {
                        ranger.measure(world, pose, now);
                    }
                    ranger.last[offset]
                }
            };
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::SimPlan;

    fn room() -> World {
        World::new(&SimPlan { room: [10.0, 10.0], discs: 0, cliffs: vec![], ..SimPlan::default() }, 1)
    }

    fn read(device: &mut CoProcessor, register: u8, pose: &Pose) -> f32 {
        device.take(register);
        f32::from_le_bytes([0; 4].map(|_: u8| device.give(-10.0, &room(), pose, Instant::ZERO)))
    }

    #[test]
    fn register_reads_follow_the_pointer() {
        let mut device = CoProcessor::new(0x60);
        device.serve(0x10, Quantity::Lean);
        device.take(0x10);
        let (world, pose) = (room(), Pose { x: 1.0, y: 1.0, heading: 0.0 });
        let bytes = [0; 5].map(|_: u8| device.give(-10.0, &world, &pose, Instant::ZERO));
        assert_eq!(bytes, [0x00, 0x00, 0x20, 0xC1, 0x00]);
        device.take(0x00);
        assert_eq!(device.give(-10.0, &world, &pose, Instant::ZERO), 0);
    }

    #[test]
    fn rangers_look_where_they_are_mounted() {
        let mut device = CoProcessor::new(0x60);
        for (register, bearing_deg) in [(0, 0.0), (4, 90.0), (8, 180.0)] {
            let beam = BeamPlan { at: [0.1, 0.05], bearing_deg, half_cone_deg: 7.0, reach: 6.0 };
            device.serve(
                register,
                Quantity::Range(Box::new(Ranger::new(beam, RangerFaults::default(), Noise::new(1, 0)))),
            );
        }
        let pose = Pose { x: 7.0, y: 5.0, heading: 0.0 };
        let found = [0, 4, 8].map(|register| read(&mut device, register, &pose));
        for (found, expected) in found.into_iter().zip([2.9, 4.95, 6.05]) {
            assert!((found - expected).abs() <= 0.016, "{found} is not {expected}");
        }
        assert!(found[2] >= 6.0, "the wall behind it is out of reach: {}", found[2]);
    }
}
