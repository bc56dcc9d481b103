//! The sensors of the simulated robot that a board lists, and transfers with those on an I2C bus.

use super::super::chip::{Chip, Surroundings};
use super::super::co_processor::{self, CoProcessor, Quantity};
use super::super::eye::Eye;
use super::super::faults::FaultKind;
use super::super::imu::{CarMotion, Imu};
use super::super::noise::Noise;
use super::super::power_monitor::PowerMonitor;
use super::super::ranger::{HALF_VIEW_DEG, Ranger};
use super::super::sonar::{Condition, HALF_CONE_DEG, Sonar};
use super::super::world::Outline;
use super::{NOISE_IMU, NOISE_POWER, NOISE_RANGER, NOISE_RING, NOISE_SONAR, Robot};
use crate::base::plan::{Board, ChipSensor, LineSensor, MotionErrors, SensorKind, SonarModule};
use crate::base::time::Instant;
use crate::hardware::bus::Op;

/// The co-processors, each with its bus.
pub fn co_processors(board: &Board, seed: u64) -> Vec<(usize, CoProcessor)> {
    let mut devices: Vec<(usize, CoProcessor)> = Vec::new();
    let mut rangers = 0;
    for sensor in &board.sensors {
        let SensorKind::Chip(ChipSensor::FloatRegister { address, register }) = sensor.kind else { continue };
        let quantity = match sensor.beam {
            Some(beam) => {
                rangers += 1;
                let noise = Noise::new(seed, NOISE_RING + rangers - 1);
                let faults = board.sim.as_ref().map(|plan| plan.rangers).unwrap_or_default();
                Quantity::Range(Box::new(co_processor::Ranger::new(beam, faults, noise)))
            }
            None => Quantity::Lean,
        };
        let here =
            |(bus, device): &&mut (usize, CoProcessor)| (*bus, device.address()) == (sensor.bus, address);
        match devices.iter_mut().find(here) {
            Some((_, device)) => device.serve(register, quantity),
            None => {
                let mut device = CoProcessor::new(address);
                device.serve(register, quantity);
                devices.push((sensor.bus, device));
            }
        }
    }
    devices
}

/// The sonars of a car with this outline, in the board's order.
pub fn sonars(board: &Board, outline: &Outline, module: SonarModule, seed: u64) -> Vec<Sonar> {
    let mut sonars = Vec::new();
    for sensor in &board.sensors {
        if let SensorKind::Lines(LineSensor::HcSr04 { echo, .. }) = sensor.kind {
            let noise = Noise::new(seed, NOISE_SONAR + sonars.len() as u64);
            let eye = Eye::mounted(sensor.beam, outline, HALF_CONE_DEG);
            sonars.push(Sonar::new(echo, module, eye, noise));
        }
    }
    sonars
}

/// The sensors' other I2C chips, each with its bus; a chip with several sensors is created once. The motors'
/// controller and the lines are not created from sensors, but from the board itself. The rehearsal excludes
/// chips that have no model here.
pub fn chips(board: &Board, outline: &Outline, seed: u64) -> Vec<(usize, Chip)> {
    let mut made: Vec<(usize, u8)> = Vec::new();
    let mut chips: Vec<(usize, Chip)> = Vec::new();
    for sensor in &board.sensors {
        let Some(place) = sensor.kind.i2c_address().map(|address| (sensor.bus, address)) else { continue };
        let count = |is: fn(&Chip) -> bool| chips.iter().filter(|(_, chip)| is(chip)).count() as u64;
        if made.contains(&place) {
            continue;
        }
        let chip = match sensor.kind {
            SensorKind::Chip(ChipSensor::Mpu6050 { address, .. }) => {
                let nth = count(|chip| matches!(chip, Chip::Imu(_)));
                let errors = board.sim.as_ref().map_or_else(MotionErrors::default, |sim| sim.errors);
                Chip::Imu(Imu::new(address, &errors, Noise::new(seed, NOISE_IMU + nth)))
            }
            SensorKind::Chip(ChipSensor::Vl53l0x { .. }) => {
                let nth = count(|chip| matches!(chip, Chip::Ranger(_)));
                let eye = Eye::mounted(sensor.beam, outline, HALF_VIEW_DEG);
                Chip::Ranger(Box::new(Ranger::new(eye, Noise::new(seed, NOISE_RANGER + nth))))
            }
            SensorKind::Chip(ChipSensor::PowerMonitor { chip, address, shunt_ohms, .. }) => {
                let nth = count(|chip| matches!(chip, Chip::Monitor(_)));
                let noise = Noise::new(seed, NOISE_POWER + nth);
                Chip::Monitor(PowerMonitor::new(chip, address, shunt_ohms, noise))
            }
            // Created by the functions above or from the board itself. A kind of chip that was just added to
            // the program has no model yet, so nothing answers at its address.
            SensorKind::Chip(_)
            | SensorKind::Lines(_)
            | SensorKind::File(_)
            | SensorKind::Computed(_)
            | SensorKind::LogColumn { .. } => continue,
        };
        made.push(place);
        chips.push((sensor.bus, chip));
    }
    chips
}

impl Robot {
    /// Updates the inertial sensors with the motion of this step.
    pub(super) fn feel(&mut self, at: Instant) {
        if !self.chips.iter().any(|(_, chip)| matches!(chip, Chip::Imu(_))) {
            return;
        }
        let turn = self.car.turn_rad_s();
        let motion = CarMotion { lean_deg: self.true_lean_deg(at), speed: self.car.speed(), turn };
        for (_, chip) in &mut self.chips {
            if let Chip::Imu(imu) = chip {
                imu.step(motion);
            }
        }
    }

    /// Runs a transfer with chip number `nth`.
    pub(super) fn talk_to_chip(&mut self, nth: usize, ops: &mut [Op<'_>], now: Instant) {
        let (volts, amperes, ranger) =
            (self.volts(now), self.battery.amperes(), self.ranger_condition(nth, now));
        for op in ops {
            match op {
                Op::Write(bytes) => self.chips[nth].1.write(bytes, now),
                Op::Read(bytes) => {
                    let (world, pose) = (&self.world, self.car.pose());
                    let distance = |eye: &Eye| eye.nearest(world, &pose);
                    let around = Surroundings { now, volts, amperes, ranger, distance: &distance };
                    self.chips[nth].1.read(bytes, &around);
                    let address = self.chips[nth].1.address();
                    bytes.iter_mut().for_each(|byte| *byte = self.garble(address, *byte, now));
                }
            }
        }
    }

    /// The condition of chip number `nth`, if it is a ranger, under the present fault: the targets of faults
    /// number the rangers after the sonars.
    fn ranger_condition(&self, nth: usize, now: Instant) -> Condition {
        let is_ranger = |(_, chip): &&(usize, Chip)| matches!(chip, Chip::Ranger(_));
        let place = (self.sonars.len() + self.chips[..nth].iter().filter(is_ranger).count()) as u8;
        if self.script.is_on_at(FaultKind::SonarSilent, place, now) {
            Condition::Silent
        } else if self.script.is_on_at(FaultKind::SonarFrozen, place, now) {
            Condition::Frozen
        } else {
            Condition::Sound
        }
    }

    /// Drives the shut-down input of ranger number `nth`.
    pub(super) fn shut_down(&mut self, nth: usize, high: bool) {
        let rangers = self.chips.iter_mut().filter_map(|(_, chip)| match chip {
            Chip::Ranger(ranger) => Some(ranger),
            Chip::Imu(_) | Chip::Monitor(_) => None,
        });
        rangers.skip(nth).take(1).for_each(|ranger| ranger.set_up(high));
    }

    /// The first pulse of this inertial sensor after `after`, up to and including `until`.
    pub(super) fn next_pulse(
        &self,
        (bus, address): (usize, u8),
        after: Instant,
        until: Instant,
    ) -> Option<Instant> {
        let every = self.chips.iter().find_map(|(its, chip)| match chip {
            Chip::Imu(imu) if (*its, imu.address()) == (bus, address) => imu.pulses_every(),
            _ => None,
        })?;
        let pulses = after.since(self.zero).as_nanos() / every.as_nanos();
        let next = self.zero + every.times(pulses + 1);
        (next <= until).then_some(next)
    }
}
