//! Chips, one per file: registers, conversion, errors, and a call that returns a value in a unit. The chip
//! drivers do not use frames. This file maps the sensors of a board to devices and computes how many bits a
//! reading takes on the wire. It opens no bus: a device gets its bus with each call, and looks for its chip
//! or file during set-up.

pub mod actuators;
pub mod adapter;
pub mod adc;
pub mod ads1115;
#[cfg(test)]
pub(crate) mod bench;
pub mod button;
pub mod dc_motor;
pub mod enable;
mod fault;
pub mod float_register;
pub mod gpu_sysfs;
pub mod hat_pulses;
pub mod hc_sr04;
pub mod hwmon;
pub mod ina219;
pub mod ina226;
mod journal;
pub mod mpu6050;
pub mod pca9685;
mod polled;
mod power;
pub mod pulses;
pub mod pwm_lines;
pub mod registers;
pub mod robot_hat;
pub mod servo;
pub(crate) mod sysfs;
pub mod thermal;
pub mod vl53l0x;

pub use fault::DeviceFault;
pub use journal::{Journal, SetUp};
pub use polled::{Polled, Ports, Say};

use crate::base::plan::{
    Board, ChipSensor, FileSensor, ImuQuantity, PowerChip, PowerQuantity, SensorKind, SensorPlan,
};
use std::path::Path;

/// The device for `plans`: either sensors that share one chip ([`crate::base::plan::same_chip`]) or a single
/// sensor. Its outputs are numbered in the order of `plans`. `/sys` is looked up in `root`. `None`: there are
/// no plans, or sensors of this kind are not polled.
pub fn open(plans: &[&SensorPlan], board: &Board, root: &Path) -> Option<Box<dyn Polled>> {
    let first = plans.first()?;
    Some(match &first.kind {
        SensorKind::Chip(ChipSensor::HatAdc { channel, per_count }) => {
            Box::new(adc::HatAdc::new(board.mcu.as_ref()?.address, *channel, *per_count))
        }
        SensorKind::Chip(ChipSensor::FloatRegister { address, register }) => {
            Box::new(float_register::FloatRegister::new(*address, *register))
        }
        SensorKind::Chip(ChipSensor::Mpu6050 { address, .. }) => {
            let quantities = plans.iter().filter_map(|plan| imu_quantity(&plan.kind)).collect();
            let rings = plans.iter().any(|plan| {
                matches!(plan.kind, SensorKind::Chip(ChipSensor::Mpu6050 { ready: Some(_), .. }))
            });
            let period = plans.iter().map(|plan| plan.period).min();
            Box::new(mpu6050::Mpu6050::new(*address, quantities, period.filter(|_| rings)))
        }
        SensorKind::Chip(ChipSensor::Vl53l0x { address, shutdown }) => {
            Box::new(vl53l0x::Vl53l0x::new(*address, *shutdown))
        }
        SensorKind::Chip(ChipSensor::PowerMonitor { chip, address, shunt_ohms, .. }) => {
            let quantities = plans.iter().filter_map(|plan| power_quantity(&plan.kind)).collect();
            match chip {
                PowerChip::Ina219 => Box::new(ina219::Ina219::new(*address, *shunt_ohms, quantities)),
                PowerChip::Ina226 => Box::new(ina226::Ina226::new(*address, *shunt_ohms, quantities)),
            }
        }
        SensorKind::Chip(ChipSensor::Ads1115 { address, .. }) => Box::new(ads1115::Ads1115::new(
            *address,
            plans.iter().filter_map(|plan| input(&plan.kind)).collect(),
        )),
        SensorKind::File(FileSensor::Hwmon { chip, label, per_unit }) => {
            Box::new(hwmon::Hwmon::new(root, chip, label, *per_unit))
        }
        SensorKind::File(FileSensor::Thermal { zone }) => Box::new(thermal::Thermal::new(root, zone)),
        SensorKind::File(FileSensor::GpuSysfs { quantity }) => {
            Box::new(gpu_sysfs::GpuSysfs::new(root, *quantity))
        }
        SensorKind::Lines(_) | SensorKind::Computed(_) | SensorKind::LogColumn { .. } => return None,
    })
}

fn imu_quantity(kind: &SensorKind) -> Option<ImuQuantity> {
    if let SensorKind::Chip(ChipSensor::Mpu6050 { quantity, .. }) = kind { Some(*quantity) } else { None }
}

fn power_quantity(kind: &SensorKind) -> Option<PowerQuantity> {
    if let SensorKind::Chip(ChipSensor::PowerMonitor { quantity, .. }) = kind {
        Some(*quantity)
    } else {
        None
    }
}

fn input(kind: &SensorKind) -> Option<ads1115::Input> {
    let SensorKind::Chip(ChipSensor::Ads1115 { channel, full_scale_v, per_volt, .. }) = *kind else {
        return None;
    };
    Some(ads1115::Input { channel, full_scale_v, per_volt })
}

/// Bits of a transfer that writes `out` bytes: START, address, bytes, STOP; nine bits per byte.
const fn write_bits(out: u32) -> u32 {
    2 + 9 * (1 + out)
}

/// Bits of a transfer that writes a register number and reads `back` bytes after a repeated START.
const fn read_bits(back: u32) -> u32 {
    3 + 9 * (2 + 1 + back)
}

impl SensorKind {
    /// Bits on the wire for one reading of this sensor alone.
    pub fn bits_per_poll(&self) -> u32 {
        let SensorKind::Chip(chip) = self else { return 0 };
        match chip {
            // The channel is selected, then two single bytes are read.
            ChipSensor::HatAdc { .. } => write_bits(3) + 2 * write_bits(1),
            ChipSensor::FloatRegister { .. } => read_bits(4),
            // At most a whole sample: acceleration and temperature, then rotation.
            ChipSensor::Mpu6050 { .. } => read_bits(8) + read_bits(6),
            // Read the result, clear the interrupt.
            ChipSensor::Vl53l0x { .. } => read_bits(13) + write_bits(2),
            // Three registers, one transfer each.
            ChipSensor::PowerMonitor { chip: PowerChip::Ina219, .. } => 3 * read_bits(2),
            ChipSensor::PowerMonitor { chip: PowerChip::Ina226, quantity, .. } => {
                // Each register is selected in one transfer and read in another.
                let registers = if *quantity == PowerQuantity::Watts { 3 } else { 2 };
                registers * (write_bits(1) + write_bits(2))
            }
            // Start, check, fetch. With a single input, no start is needed.
            ChipSensor::Ads1115 { .. } => write_bits(3) + 2 * read_bits(2),
        }
    }

    /// Whether one reading of the chip returns all the quantities that the board uses from it.
    pub fn reads_whole_chip(&self) -> bool {
        matches!(
            self,
            SensorKind::Chip(ChipSensor::Mpu6050 { .. })
                | SensorKind::Chip(ChipSensor::Vl53l0x { .. })
                | SensorKind::Chip(ChipSensor::PowerMonitor { chip: PowerChip::Ina219, .. })
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::{Axis, GpuQuantity, Line, same_chip};
    use crate::base::plan::{ComputedSensor, LineSensor};
    use crate::decision::fixture::{ms, range};
    use crate::hardware::bus::fake::FakeI2c;
    use crate::hardware::device::bench::Bench;

    fn plan(kind: SensorKind) -> SensorPlan {
        SensorPlan { kind, period: ms(10), ..range() }
    }

    fn imu(quantity: ImuQuantity, ready: Option<Line>) -> SensorKind {
        SensorKind::Chip(ChipSensor::Mpu6050 { address: 0x68, quantity, ready })
    }

    fn power(chip: PowerChip, quantity: PowerQuantity) -> SensorKind {
        SensorKind::Chip(ChipSensor::PowerMonitor { chip, address: 0x40, shunt_ohms: 0.1, quantity })
    }

    fn input(channel: u8) -> SensorKind {
        SensorKind::Chip(ChipSensor::Ads1115 { address: 0x48, channel, full_scale_v: 4.096, per_volt: 1.0 })
    }

    /// One of each kind that is polled.
    fn each() -> Vec<SensorKind> {
        vec![
            SensorKind::Chip(ChipSensor::HatAdc { channel: 0, per_count: 1.0 }),
            SensorKind::Chip(ChipSensor::FloatRegister { address: 0x60, register: 0 }),
            imu(ImuQuantity::Roll, None),
            SensorKind::Chip(ChipSensor::Vl53l0x { address: 0x29, shutdown: None }),
            power(PowerChip::Ina219, PowerQuantity::Volts),
            power(PowerChip::Ina226, PowerQuantity::Amperes),
            input(0),
            SensorKind::File(FileSensor::Hwmon {
                chip: "ina3221".into(),
                label: "VDD_IN".into(),
                per_unit: 1e-3,
            }),
            SensorKind::File(FileSensor::Thermal { zone: "tj-thermal".into() }),
            SensorKind::File(FileSensor::GpuSysfs { quantity: GpuQuantity::Load }),
        ]
    }

    fn board() -> Board {
        crate::deploy::board::built_in("sim").unwrap().unwrap().board
    }

    #[test]
    fn every_polled_kind_has_its_device_and_no_other_has_one() {
        for kind in each() {
            let plan = plan(kind);
            assert!(open(&[&plan], &board(), Path::new("/nowhere")).is_some(), "{:?}", plan.kind);
        }
        let button = SensorKind::Lines(LineSensor::Button { line: Line(1), active_low: true });
        for kind in [range().kind, button, SensorKind::Computed(ComputedSensor::MotorEcho { motor: 0 })] {
            assert!(open(&[&plan(kind)], &board(), Path::new("/nowhere")).is_none());
        }
        assert!(open(&[], &board(), Path::new("/nowhere")).is_none());
    }

    #[test]
    fn motor_outputs_are_numbered_in_plan_order() {
        let kinds =
            [ImuQuantity::Rotation(Axis::Z), ImuQuantity::Roll].map(|quantity| plan(imu(quantity, None)));
        let mut device = open(&[&kinds[0], &kinds[1]], &board(), Path::new("/nowhere")).unwrap();
        let mut i2c = FakeI2c::new().write_read(0x68, &[0x3B], &[0, 0, 0, 0, 0x20, 0]).write_read(
            0x68,
            &[0x43],
            &[0, 0, 0, 0, 0x02, 0x8F],
        );
        let (said, _) = Bench::new().poll(device.as_mut(), &mut i2c);
        // Reported in the order of measurement, but numbered in the order of the plans.
        assert_eq!(said, [(1, Ok(0.0)), (0, Ok(10.0))]);
    }

    #[test]
    fn chips_are_identified_by_kind_bus_and_address() {
        let one = plan(imu(ImuQuantity::Roll, None));
        assert!(same_chip(&one, &plan(imu(ImuQuantity::Pitch, Some(Line(3))))));
        assert!(!same_chip(&one, &SensorPlan { bus: 1, ..one.clone() }));
        assert!(!same_chip(
            &one,
            &plan(SensorKind::Chip(ChipSensor::Vl53l0x { address: 0x68, shutdown: None }))
        ));
        let float = plan(SensorKind::Chip(ChipSensor::FloatRegister { address: 0x60, register: 0 }));
        assert!(!same_chip(&float, &float));
        let file = plan(SensorKind::File(FileSensor::Thermal { zone: "tj-thermal".into() }));
        assert!(!same_chip(&file, &file));
    }

    #[test]
    fn wire_bits_match_the_i2c_protocol() {
        // Nine bits per byte (eight and the acknowledge), one for each START, STOP, repeated START.
        let bits: Vec<u32> = each().iter().map(SensorKind::bits_per_poll).collect();
        let sample = (11 * 9 + 3) + (9 * 9 + 3);
        assert_eq!(bits[..3], [(4 * 9 + 2) + 2 * (2 * 9 + 2), 2 * 9 + 5 * 9 + 3, sample]);
        assert_eq!(bits[3..7], [15 * 9 + 9 + 3 + 29, 144, 2 * (20 + 29), 38 + 2 * 48]);
        assert_eq!(bits[7..], [0, 0, 0]);
    }
}
