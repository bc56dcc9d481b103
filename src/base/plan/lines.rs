//! Every GPIO line that a board uses, with its role, for diagnosing a machine.

use super::{Board, GuardHold, Line, LineRole, PwmPlan};

/// A line as the board file writes it: its name, or its number.
pub fn name_of(board: &Board, line: Line) -> String {
    let name = line.name().and_then(|at| board.line_names.get(at));
    name.map_or_else(|| line.0.to_string(), String::clone)
}

/// The lines that `board` uses, each with its role.
pub fn lines(board: &Board) -> Vec<(Line, String)> {
    let mut lines = Vec::new();
    let mut add = |line: Line, role: String| lines.push((line, role));
    let guarded = |hold| board.guard.is_some_and(|guard| guard.holds == hold);
    let owner = |hold| if guarded(hold) { ", the guard's" } else { "" };
    if let Some(mcu) = &board.mcu {
        add(mcu.reset, format!("reset of the Robot HAT{}", owner(GuardHold::Reset)));
    }
    if let Some(enable) = &board.enable {
        add(enable.line, format!("enable of the motors{}", owner(GuardHold::Enable)));
    }
    if let Some(line) = board.pwm.as_ref().and_then(PwmPlan::output_enable) {
        add(line, "output enable of the PCA9685".to_string());
    }
    for motor in &board.motors {
        if let Some(dir) = motor.kind.direction() {
            add(dir, format!("direction of {}", motor.name));
        }
    }
    for sensor in &board.sensors {
        for (line, role) in sensor.kind.lines() {
            let of = if role == LineRole::Button { "" } else { "of " };
            add(line, format!("{} {of}{}", role.name(), sensor.name));
        }
    }
    for bus in &board.i2c {
        if let Some(clear) = bus.recovery.clear {
            add(clear.scl, format!("SCL of {}, for the bus clear", bus.name));
            add(clear.sda, format!("SDA of {}, for the bus clear", bus.name));
        }
        if let Some(rail) = bus.recovery.rail {
            add(rail.line, format!("supply of {}", bus.name));
        }
    }
    // Sensors on one chip share its lines.
    let mut seen = Vec::new();
    lines.retain(|(line, _)| {
        !seen.contains(line) && {
            seen.push(*line);
            true
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::board::built_in;

    #[test]
    fn each_line_is_listed_once_with_its_role() {
        let board = built_in("virtual-bench").unwrap().unwrap().board;
        let found: Vec<String> =
            lines(&board).iter().map(|(line, role)| format!("{} {role}", name_of(&board, *line))).collect();
        let wanted = [
            "5 reset of the Robot HAT",
            "11 enable of the motors, the guard's",
            "23 direction of left",
            "24 direction of right",
            "27 trigger of range",
            "22 echo of range",
            "25 button button",
            "10 data-ready of roll",
            "12 SCL of motors, for the bus clear",
            "13 SDA of motors, for the bus clear",
        ];
        assert_eq!(found, wanted);
        let jetson = built_in("jetson-orin-nano").unwrap().unwrap().board;
        assert_eq!(name_of(&jetson, lines(&jetson)[0].0), "PQ.06");
    }
}
