//! The simulator's ends of the wires: handles that implement the bus traits, take as long as a real wire
//! takes, and query the robot behind them. A handle has no state of its own.

use super::plant::Plant;
use super::robot::Wire;
use crate::base::fault::BusFault;
use crate::base::plan::{I2cTiming, Line};
use crate::base::time::Span;
use crate::hardware::bus::{Edge, Gpio, I2c, Op};

/// An I2C bus whose transfers last as long as on a real bus: nine bits per byte, one bit for each START and
/// STOP. System calls and gaps between bytes take no time.
pub struct SimI2c {
    plant: Plant,
    bus: usize,
    timing: I2cTiming,
}

impl SimI2c {
    /// A handle on bus number `bus` of `plant`.
    pub fn new(plant: Plant, bus: usize, timing: I2cTiming) -> SimI2c {
        SimI2c { plant, bus, timing }
    }

    fn spend(&self, time: Span) {
        let clock = self.plant.clock();
        clock.sleep_until(clock.now() + time);
    }
}

/// Bits of a transfer that no device acknowledges: START, address, STOP.
const NACK_BITS: u64 = 11;

/// Bits of a transfer: START and address of each operation, its bytes, and one STOP.
fn bits(ops: &[Op<'_>]) -> u64 {
    let length = |op: &Op<'_>| match op {
        Op::Write(bytes) => bytes.len(),
        Op::Read(bytes) => bytes.len(),
    };
    ops.iter().map(|op| 1 + 9 * (1 + length(op) as u64)).sum::<u64>() + 1
}

impl I2c for SimI2c {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let (bus, timing) = (self.bus, self.timing);
        let bit = Span::from_nanos(1_000_000_000 / u64::from(timing.speed_hz.max(1)));
        let start = self.plant.clock().now();
        let wire = self.plant.robot_at(start).begin_transfer(bus, address, ops, start);
        match wire {
            Wire::Held => {
                self.spend(timing.timeout);
                Err(BusFault::TimedOut)
            }
            Wire::Nack => {
                self.spend(bit.times(NACK_BITS));
                Err(BusFault::Nack)
            }
            Wire::Free => {
                self.spend(bit.times(bits(ops)));
                let end = self.plant.clock().now();
                self.plant.robot_at(end).end_transfer(bus, address, ops, end)
            }
        }
    }
}

/// The lines of the simulated robot. Driving or reading a line takes no simulated time: on a real computer it
/// is a register access.
pub struct SimGpio {
    plant: Plant,
    /// Number of this handle's watch in the robot.
    watch: usize,
}

impl SimGpio {
    /// A handle on `plant` that receives the edges of the watch with this number.
    pub fn new(plant: Plant, watch: usize) -> SimGpio {
        SimGpio { plant, watch }
    }
}

impl Gpio for SimGpio {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        let now = self.plant.clock().now();
        self.plant.robot_at(now).set_line(line, high, now)
    }

    fn get(&mut self, line: Line) -> Result<bool, BusFault> {
        let now = self.plant.clock().now();
        self.plant.robot_at(now).line_is_high(line, now)
    }

    fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault> {
        let clock = self.plant.clock();
        let now = clock.now();
        let end = now + wait;
        // Do not advance the world while this handle waits: other handles still act on it.
        let edge = self.plant.robot_at(now).take_edge(self.watch, now, end);
        clock.sleep_until(edge.map_or(end, |edge| edge.stamp));
        Ok(edge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_bits_are_those_of_the_timing_diagram() {
        let mut back = [0; 4];
        assert_eq!(bits(&[Op::Write(&[0x2D, 0, 0])]), 38);
        assert_eq!(bits(&[Op::Write(&[0x17, 0, 0])]) + 2 * bits(&[Op::Read(&mut back[..1])]), 78);
        assert_eq!(bits(&[Op::Write(&[0]), Op::Read(&mut back)]), 66);
        assert_eq!(bits(&[Op::Write(&[])]), NACK_BITS);
    }
}
