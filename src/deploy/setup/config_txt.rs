//! Turns on the I2C bus on the header of a Raspberry Pi, in config.txt, which the firmware reads before the
//! kernel starts.
//!
//! Source: Raspberry Pi documentation, config_txt.adoc and device-tree.adoc. A filter such as `[pi4]` applies
//! until the next one; `[all]` ends it. `dtparam=` takes `name` or `name=value`, separated by commas. `i2c`
//! is another name for `i2c_arm`. A dtparam after a dtoverlay may belong to the overlay, so a new line goes
//! to the top.

use std::fmt;

/// The line that turns the bus on.
const ON: &str = "dtparam=i2c_arm=on";
/// The commented-out line that Raspberry Pi OS ships.
const SHIPPED: &str = "#dtparam=i2c_arm=on";
/// Names of the parameter.
const NAMES: [&str; 2] = ["i2c_arm", "i2c"];

/// Why a config.txt cannot be changed automatically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// Line number, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// The filter that applies to it.
    pub filter: String,
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is below [{}], so it applies only to some machines", self.text, self.filter)
    }
}

/// `text` with the bus turned on; `None`: it is already on.
pub fn with_i2c(text: &str) -> Result<Option<String>, Odd> {
    let mut filter = "all";
    let (mut last, mut shipped) = (None, None);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            filter = name;
        } else if let Some(on) = i2c_of(line) {
            if filter != "all" {
                return Err(Odd { line: number + 1, text: line.to_string(), filter: filter.to_string() });
            }
            last = Some((number, on));
        } else if line == SHIPPED && filter == "all" {
            shipped = shipped.or(Some(number));
        }
    }
    match (last, shipped) {
        (Some((_, true)), _) => Ok(None),
        (Some((number, false)), _) | (None, Some(number)) => Ok(Some(with_line(text, number))),
        (None, None) => {
            let end = if text.lines().next().is_some() && text.contains("\r\n") { "\r\n" } else { "\n" };
            Ok(Some(format!("{ON}{end}{text}")))
        }
    }
}

/// Whether a line turns the bus on or off; `None`: the line is about something else.
fn i2c_of(line: &str) -> Option<bool> {
    let parameters = line.strip_prefix("dtparam=")?;
    let mut said = parameters.split(',').filter_map(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, "on"));
        NAMES.contains(&name.trim()).then(|| ["on", "true", "yes", "1", "y"].contains(&value.trim()))
    });
    said.next_back()
}

/// `text` with the bus turned on in line `number`; other parameters in that line stay.
fn with_line(text: &str, number: usize) -> String {
    let mut all = String::with_capacity(text.len());
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if at != number {
            all.push_str(line);
            continue;
        }
        let end = &line[line.trim_end().len()..];
        all.push_str(&switched_on(line.trim()));
        all.push_str(end);
    }
    all
}

fn switched_on(line: &str) -> String {
    let Some(parameters) = line.strip_prefix("dtparam=") else { return ON.to_string() };
    let is_ours = |parameter: &&str| NAMES.contains(&parameter.split('=').next().unwrap_or_default().trim());
    let others: Vec<&str> = parameters.split(',').filter(|parameter| !is_ours(parameter)).collect();
    let all: Vec<&str> = others.into_iter().chain(["i2c_arm=on"]).collect();
    format!("dtparam={}", all.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_line_changes() {
        for (old, new) in [
            ("# top\n#dtparam=i2c_arm=on\n#dtparam=spi=on\n", "# top\ndtparam=i2c_arm=on\n#dtparam=spi=on\n"),
            ("arm_64bit=1\n", "dtparam=i2c_arm=on\narm_64bit=1\n"),
            ("", "dtparam=i2c_arm=on\n"),
            ("a=1\r\n#dtparam=i2c_arm=on\r\nb=2", "a=1\r\ndtparam=i2c_arm=on\r\nb=2"),
            ("a=1\r\n", "dtparam=i2c_arm=on\r\na=1\r\n"),
            ("dtparam=audio=on,i2c_arm=off\nx=1", "dtparam=audio=on,i2c_arm=on\nx=1"),
            ("dtparam=i2c_arm=on\n[all]\ndtparam=i2c=off", "dtparam=i2c_arm=on\n[all]\ndtparam=i2c_arm=on"),
            ("[cm4]\n#dtparam=i2c_arm=on\n", "dtparam=i2c_arm=on\n[cm4]\n#dtparam=i2c_arm=on\n"),
            ("dtparam=i2c_arm_baudrate=400000\n", "dtparam=i2c_arm=on\ndtparam=i2c_arm_baudrate=400000\n"),
        ] {
            assert_eq!(with_i2c(old), Ok(Some(new.to_string())), "{old:?}");
            assert_eq!(with_i2c(new), Ok(None), "a second time: {new:?}");
        }
    }

    #[test]
    fn a_bus_that_is_on_is_left_alone() {
        for on in [
            "dtparam=i2c_arm=on",
            "dtparam=i2c_arm",
            "dtparam=i2c=on,spi=on\n",
            "[pi4]\nx=1\n[all]\ndtparam=i2c_arm=1\n",
        ] {
            assert_eq!(with_i2c(on), Ok(None), "{on:?}");
        }
    }

    #[test]
    fn a_setting_below_a_filter_is_left_to_the_user() {
        let odd = with_i2c("a=1\n[pi4]\ndtparam=i2c_arm=off\n").unwrap_err();
        assert_eq!((odd.line, odd.filter.as_str()), (3, "pi4"));
        assert!(odd.to_string().contains("[pi4]"), "{odd}");
    }
}
