//! Which sensors share a chip, which lines their bus thread needs, and which driver the motors have. Opens no
//! wire.

use super::BuildError;
use super::computer::SimulatedFile;
use crate::base::plan::{
    Attachment, Board, ChipSensor, ComputedSensor, Line, LineRole, MotorKind, SensorKind, SensorPlan, chips,
};
use crate::base::time::Span;
use crate::drive::io::PollPlan;
use crate::hardware::bus::{LineUse, Usage};
use crate::hardware::device;
use crate::hardware::device::actuators::{self, Actuators};
use crate::memory::map::Thing;
use std::path::Path;

/// The root of the file system, where the drivers look up `/sys`.
const ROOT: &str = "/";

/// A named entry of a polling table.
pub(super) struct Planned {
    pub poll: PollPlan,
    pub name: String,
    /// The line on which the device signals that data is ready.
    pub ready: Option<Line>,
}

/// The polling table of the values that the simulated computer provides in place of kernel files.
pub(super) fn simulated_files(board: &Board) -> Vec<Planned> {
    let planned = |group: Vec<usize>| {
        let first = &board.sensors[group[0]]; // a group has at least one sensor; no two values share a file
        Planned {
            poll: PollPlan {
                device: Box::new(SimulatedFile::of(first)),
                channels: group.iter().map(|&channel| channel as u8).collect(), // at most 64 sensors
                period: first.period,
                controller: false,
                prompted: false,
            },
            name: first.name.clone(),
            ready: None,
        }
    };
    chips(board, Attachment::Files).into_iter().map(planned).collect()
}

/// The polling table of `attachment`.
pub(super) fn polls(board: &Board, attachment: Attachment) -> Result<Vec<Planned>, BuildError> {
    chips(board, attachment).into_iter().map(|chip| planned(board, &chip)).collect()
}

fn planned(board: &Board, group: &[usize]) -> Result<Planned, BuildError> {
    let plans: Vec<&SensorPlan> = group.iter().map(|&channel| &board.sensors[channel]).collect();
    let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    let name = names.join("+");
    let device = device::open(&plans, board, Path::new(ROOT)).ok_or_else(|| BuildError::Misfit {
        what: format!("sensor '{name}' of board '{}' has no driver here", board.name),
    })?;
    let ready = plans.iter().find_map(|plan| plan.kind.line(LineRole::Ready));
    let poll = PollPlan {
        device,
        channels: group.iter().map(|&channel| channel as u8).collect(), // at most 64 sensors
        // The shortest period of its sensors: one poll serves them all.
        period: plans.iter().map(|plan| plan.period).min().unwrap_or(board.period),
        controller: matches!(plans[0].kind, SensorKind::Chip(ChipSensor::HatAdc { .. })),
        prompted: ready.is_some(),
    };
    Ok(Planned { poll, name, ready })
}

/// What the map remembers, and how often it is queried.
pub(super) fn things(board: &Board) -> (Vec<Thing>, Span) {
    let recall = |(channel, sensor): (usize, &SensorPlan)| {
        let SensorKind::Computed(ComputedSensor::Recall { by, below, ahead_m }) = sensor.kind else {
            return None;
        };
        Some(Thing {
            name: sensor.name.clone(),
            channel: channel as u8, // at most 64 sensors
            by,
            below,
            ahead_m: ahead_m.into(),
            in_metres: board.sensors[by].unit == "m",
        })
    };
    let things: Vec<Thing> = board.sensors.iter().enumerate().filter_map(recall).collect();
    let period = things.iter().map(|thing| board.sensors[usize::from(thing.channel)].period).min();
    (things, period.unwrap_or(board.period))
}

/// The driver of the motors.
pub(crate) fn actuators(board: &Board) -> Result<Box<dyn Actuators>, BuildError> {
    let recorded = board.motors.iter().all(|motor| matches!(motor.kind, MotorKind::Recorded { .. }));
    if board.mcu.is_none() && board.pwm.is_none() && !recorded {
        let what = format!("board '{}' has motors but neither [mcu] nor [pwm] to drive them", board.name);
        return Err(BuildError::Misfit { what });
    }
    actuators::of(board, Path::new(ROOT)).map_err(BuildError::Wires)
}

/// The lines that the motors need, each with the level at which they are stopped.
pub fn motor_lines(board: &Board) -> Vec<LineUse> {
    let output = |line, high| LineUse { line, usage: Usage::Output { high } };
    // Requesting a reset line at this level holds the controller in reset, so that it sends no pulse before
    // everything is set up.
    let stops = board.stop_lines().into_iter().map(|stop| output(stop.line, stop.off_high));
    let directions = board.motors.iter().filter_map(|motor| motor.kind.direction());
    stops.chain(directions.map(|line| output(line, false))).collect()
}

/// The lines that the sensors on bus `bus` need.
pub(super) fn sensor_lines(board: &Board, bus: usize) -> Vec<LineUse> {
    let on_bus = board.sensors.iter().filter(|sensor| sensor.attachment() == Attachment::Bus(bus));
    // Each such sensor stays shut down until it is given its own address.
    let shutdowns = on_bus.filter_map(|sensor| sensor.kind.line(LineRole::Shutdown));
    shutdowns.map(|line| LineUse { line, usage: Usage::Output { high: false } }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::FileSensor;
    use crate::base::plan::ImuQuantity::{Pitch, Roll};
    use crate::base::plan::StopLine;
    use crate::decision::fixture::{ms, range};

    fn sensor(name: &str, kind: SensorKind, bus: usize, period: Span) -> SensorPlan {
        SensorPlan { name: name.into(), kind, bus, period, ..range() }
    }

    #[test]
    fn sensors_of_one_chip_share_one_poll_at_the_fastest_rate() {
        let mut board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let imu = |quantity, address| {
            SensorKind::Chip(ChipSensor::Mpu6050 { address, quantity, ready: Some(Line(4)) })
        };
        let float = |register| SensorKind::Chip(ChipSensor::FloatRegister { address: 0x60, register });
        board.sensors = vec![
            sensor("roll", imu(Roll, 0x68), 1, ms(20)),
            sensor("a", float(0), 1, ms(20)),
            sensor("pitch", imu(Pitch, 0x68), 1, ms(10)),
            sensor("other", imu(Roll, 0x69), 1, ms(10)),
            sensor("elsewhere", imu(Roll, 0x68), 0, ms(10)),
            sensor("b", float(4), 1, ms(20)),
            sensor("hot", SensorKind::File(FileSensor::Thermal { zone: "cpu".into() }), 0, ms(500)),
            range(),
        ];
        assert_eq!(chips(&board, Attachment::Bus(1)), [vec![0, 2], vec![1], vec![3], vec![5]]);
        assert_eq!(chips(&board, Attachment::Bus(0)), [vec![4]]);
        assert_eq!(chips(&board, Attachment::Files), [vec![6]]);
        let floats = planned(&board, &[1]).unwrap();
        assert_eq!((floats.poll.channels, floats.name.as_str(), floats.ready), (vec![1], "a", None));
    }

    #[test]
    fn lines_start_at_the_level_at_which_nothing_moves() {
        let board = crate::deploy::board::built_in("picarx-v4").unwrap().unwrap().board;
        let lines: Vec<(u32, Usage)> =
            motor_lines(&board).iter().map(|line| (line.line.0, line.usage)).collect();
        let low = Usage::Output { high: false };
        assert_eq!(lines, [(5, low), (23, low), (24, low)]);
        assert!(sensor_lines(&board, 0).is_empty());
        assert_eq!(board.stop_lines(), [StopLine { line: Line(5), off_high: false }]);
        let board = crate::deploy::board::built_in("jetson-orin-nano").unwrap().unwrap().board;
        assert_eq!(board.stop_lines(), [StopLine { line: Line::named(0), off_high: true }]);
        // Every line that stops motors starts at the level that stops them.
        for stop in board.stop_lines() {
            let begins = Usage::Output { high: stop.off_high };
            assert!(motor_lines(&board).contains(&LineUse { line: stop.line, usage: begins }));
        }
    }
}
