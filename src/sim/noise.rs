//! Noise of one simulated sensor: its draws depend only on the order of its own reads, not on other sensors.

use crate::base::seed::{Stream, normal};

/// Number of readings that one sensor can take before its draws would overlap those of the next sensor: 2^40,
/// 34 years at 1 kHz.
const ROOM_BITS: u32 = 40;

/// The draws of one sensor.
#[derive(Clone, Debug)]
pub struct Noise {
    seed: u64,
    next: u64,
}

impl Noise {
    /// The noise of sensor number `sensor` in the world with this seed.
    pub fn new(seed: u64, sensor: u64) -> Noise {
        Noise { seed, next: sensor << ROOM_BITS }
    }
    /// A normally distributed error with this standard deviation. It is clipped at three standard deviations,
    /// because data sheets state a maximum error.
    pub fn draw(&mut self, deviation: f64) -> f64 {
        self.next += 1;
        normal(self.seed, Stream::SensorNoise, self.next).clamp(-3.0, 3.0) * deviation
    }
}
