//! A pack of two lithium cells: its voltage under load. The model does not know what causes the load.

use super::car::STEP_S;
use libm::exp;

/// Resistance of the cells, plugs and wires of a 2S pack, ohms.
const RESISTANCE: f64 = 0.1;
/// Current of the computer, the controller and the servos at rest, amperes at the pack.
const IDLE_A: f64 = 0.7;
/// Additional current of both gear motors at full duty on a flat floor, amperes.
const DRIVE_A: f64 = 1.0;
/// A 2000 mAh pack falls from 8.4 V to 6.4 V: one volt per ampere-hour, modelled as a straight line.
const VOLTS_PER_COULOMB: f64 = 1.0 / 3600.0;
/// A brown-out pulls the pack's voltage down by this much, as a worn cell does under the stall current of two
/// motors.
const DIP_V: f64 = 1.5;
/// Time constant with which the voltage of that cell recovers, seconds.
const DIP_S: f64 = 0.2;
/// The protection circuit cuts off here; the voltage never reads lower while the robot still runs.
const CUT_OFF_V: f64 = 5.0;

/// The pack.
#[derive(Clone, Debug)]
pub struct Battery {
    rest: f64,
    load_a: f64,
    dip: f64,
    fade: f64,
}

impl Battery {
    /// A pack that has `volts` at rest.
    pub fn new(volts: f32) -> Battery {
        Battery { rest: volts.into(), load_a: IDLE_A, dip: 0.0, fade: exp(-STEP_S / DIP_S) }
    }
    /// One step of [`STEP_S`] with the motors at `drive` of full duty, in either direction (-1..=1).
    pub fn step(&mut self, drive: f64) {
        self.load_a = IDLE_A + DRIVE_A * drive.abs().min(1.0);
        self.rest = (self.rest - self.load_a * STEP_S * VOLTS_PER_COULOMB).max(CUT_OFF_V);
        self.dip *= self.fade;
    }
    /// A brown-out: the voltage collapses for a moment.
    pub fn dip(&mut self) {
        self.dip = DIP_V;
    }
    /// Current out of the pack.
    pub fn amperes(&self) -> f64 {
        self.load_a
    }
    /// Voltage at the pack.
    pub fn volts(&self) -> f64 {
        (self.rest - self.load_a * RESISTANCE - self.dip).max(CUT_OFF_V)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn battery_sags_under_load_recovers_and_runs_down() {
        let mut battery = Battery::new(7.8);
        battery.step(0.0);
        let idle = battery.volts();
        battery.step(1.0);
        assert!((idle - battery.volts() - 0.1).abs() < 1e-3);
        for _ in 0..3_600_000 {
            battery.step(0.0);
        }
        // An hour at 0.7 A is 0.7 Ah, hence 0.7 V.
        assert!((idle - battery.volts() - 0.7).abs() < 1e-3, "{}", battery.volts());
    }

    #[test]
    fn a_dip_is_deep_and_short() {
        let mut battery = Battery::new(7.8);
        battery.step(0.0);
        let idle = battery.volts();
        battery.dip();
        assert!((idle - battery.volts() - 1.5).abs() < 1e-9);
        for _ in 0..1000 {
            battery.step(0.0);
        }
        assert!(idle - battery.volts() < 0.02);
    }
}
