//! The devices that a board expects on its I2C buses, by address, with names. For probes and tests.

use super::{Board, PwmPlan, SensorPlan};

/// A device that a board expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// 7 bits.
    pub address: u8,
    /// The kind of device, or the sensors that it provides.
    pub what: String,
    /// The robot cannot drive without it.
    pub required: bool,
}

/// Every device that `board` expects on I2C bus `bus`, each once, by address.
pub fn expected(board: &Board, bus: usize) -> Vec<Expected> {
    let mut found: Vec<Expected> = Vec::new();
    let mut add = |address: u8, what: String, required: bool| match found
        .iter_mut()
        .find(|other| other.address == address)
    {
        Some(other) => {
            other.what = format!("{}, {what}", other.what);
            other.required |= required;
        }
        None => found.push(Expected { address, what, required }),
    };
    if bus == 0 {
        if let Some(mcu) = &board.mcu {
            add(mcu.address, "Robot HAT".to_string(), true);
        }
        if let Some(PwmPlan::Pca9685 { address, .. }) = board.pwm {
            add(address, "PCA9685 of the motors".to_string(), true);
        }
    }
    for sensor in board.sensors.iter().filter(|sensor| sensor.bus == bus) {
        if let Some(address) = sensor.kind.i2c_address() {
            add(address, sensor.name.clone(), sensor.required);
        }
    }
    found.sort_by_key(|expected| expected.address);
    found
}

/// Whether a device of the board may answer at `address` besides its own: expected, but not required.
pub fn also_answers(board: &Board, bus: usize, address: u8) -> bool {
    // A PCA9685 answers its "all call" after power-on; a VL53L0X wakes up at 0x29 before its set-up.
    let all_call = bus == 0 && address == 0x70 && matches!(board.pwm, Some(PwmPlan::Pca9685 { .. }));
    let mut here = board.sensors.iter().filter(|sensor| sensor.bus == bus);
    all_call || here.any(|sensor| sensor.kind.wakes_at() == Some(address))
}

/// The sensors on bus `bus` whose set-up gives their chip another address: each with the addresses at which
/// it answers after power-on and after its set-up.
pub fn moved(board: &Board, bus: usize) -> impl Iterator<Item = (&SensorPlan, u8, u8)> {
    let here = board.sensors.iter().filter(move |sensor| sensor.bus == bus);
    let each = here.filter_map(|sensor| Some((sensor, sensor.kind.wakes_at()?, sensor.kind.i2c_address()?)));
    each.filter(|(_, first, own)| first != own)
}

/// The holder of the reserved `address` on bus `bus`.
pub fn holder(board: &Board, bus: usize, address: u8) -> Option<&str> {
    let reserved = board.reserved_addresses.iter().find(|r| (r.bus, r.address) == (bus, address))?;
    Some(&reserved.holder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::board::built_in;

    #[test]
    fn a_chip_with_several_values_is_one_device() {
        let board = built_in("generic-linux").unwrap().unwrap().board;
        let found: Vec<(u8, String, bool)> =
            expected(&board, 0).into_iter().map(|e| (e.address, e.what, e.required)).collect();
        let wanted = [
            (0x29, "range".to_string(), true),
            (0x40, "PCA9685 of the motors".to_string(), true),
            (0x41, "battery, current".to_string(), true),
            (0x68, "roll, pitch, turning".to_string(), true),
        ];
        assert_eq!(found, wanted);
        assert!(also_answers(&board, 0, 0x70) && !also_answers(&board, 0, 0x71));
    }

    #[test]
    fn reserved_addresses_are_on_their_own_bus() {
        let board = built_in("jetson-orin-nano").unwrap().unwrap().board;
        assert_eq!(holder(&board, 1, 0x40), Some("ina3221"));
        assert_eq!(holder(&board, 0, 0x40), None, "on the first bus this address is the motors' PCA9685");
        assert_eq!(expected(&board, 1), []);
    }
}
