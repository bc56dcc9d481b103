//! The GPIO chips of the machine, and where each line of the board is. A chip is found by its label, never by
//! its number; a line by its offset or its name.

use super::errors::{error, refused};
use super::gpio::number;
use super::sysfs::numbered;
use crate::base::plan::Line;
use crate::hardware::bus::OpenError;
use gpiocdev::Chip;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One GPIO chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChipPlace {
    /// The character device.
    pub path: PathBuf,
    /// The driver's name for the chip (`pinctrl-rp1`). Unlike the number, it stays the same.
    pub label: String,
    /// Number of lines.
    pub lines: u32,
}

/// The chips of a machine, and the labels and names from the board file.
pub(super) struct Chips {
    /// The chips, in the order of their numbers.
    pub found: Vec<ChipPlace>,
    /// Chips that this process could not open, so their labels are unknown, each with the reason.
    closed: Vec<(PathBuf, gpiocdev::Error)>,
    labels: Vec<String>,
    names: Vec<String>,
}

impl Chips {
    /// Asks every chip in `root`/dev for its label. `labels` and `names` come from the board.
    pub(super) fn look(root: &Path, labels: &[String], names: &[String]) -> Chips {
        let mut chips =
            Chips { found: Vec::new(), closed: Vec::new(), labels: labels.to_vec(), names: names.to_vec() };
        let mut seen = Vec::new();
        for (_, path) in numbered(&root.join("dev"), "gpiochip") {
            // Old numbers remain as links (Pi 5); each chip gets one entry.
            let path = fs::canonicalize(&path).unwrap_or(path);
            if seen.contains(&path) {
                continue;
            }
            seen.push(path.clone());
            match Chip::from_path(&path).and_then(|chip| chip.info()) {
                Ok(info) => chips.found.push(ChipPlace { path, label: info.label, lines: info.num_lines }),
                Err(failure) => chips.closed.push((path, failure)),
            }
        }
        chips
    }

    /// The board's chips, in the order of its labels.
    fn ours(&self) -> impl Iterator<Item = &ChipPlace> {
        self.labels.iter().filter_map(|label| self.found.iter().find(|chip| chip.label == *label))
    }

    /// Finds `line` on the first of the board's chips that has it. `offset_of` looks up a name on a chip.
    pub(super) fn locate(
        &self,
        line: Line,
        offset_of: impl Fn(&ChipPlace, &str) -> Option<u32>,
    ) -> Result<(&ChipPlace, u32), OpenError> {
        if self.ours().next().is_none() {
            return Err(self.no_chip());
        }
        match line.name().map(|nth| self.names.get(nth)) {
            None => {
                let chip = self.ours().find(|chip| line.0 < chip.lines);
                chip.map(|chip| (chip, line.0)).ok_or_else(|| self.no_line(&format!("GPIO line {}", line.0)))
            }
            Some(Some(name)) => {
                let found = self.ours().find_map(|chip| Some((chip, offset_of(chip, name)?)));
                found.ok_or_else(|| self.no_line(&format!("GPIO line '{name}'")))
            }
            Some(None) => Err(self.no_line(&self.spoken(line))),
        }
    }

    /// The usual name of `line`, for messages.
    pub(super) fn spoken(&self, line: Line) -> String {
        match line.name() {
            None => format!("GPIO line {}", line.0),
            Some(nth) => match self.names.get(nth) {
                Some(name) => format!("GPIO line '{name}'"),
                None => format!("GPIO line name {nth}"),
            },
        }
    }

    fn no_chip(&self) -> OpenError {
        let what = format!("GPIO chip {}", self.labels.join(" or "));
        if let Some((path, failure)) = self.closed.first() {
            return not_opened(&format!("{what} ({})", path.display()), failure);
        }
        let there: Vec<&str> = self.found.iter().map(|chip| chip.label.as_str()).collect();
        let there = if there.is_empty() { "none".to_string() } else { there.join(", ") };
        let fix = "put the label of this machine's chip in the board file (bus.gpio_labels)";
        error(what, format!("no such chip; this machine has: {there}"), fix)
    }

    fn no_line(&self, what: &str) -> OpenError {
        let there: Vec<String> =
            self.ours().map(|chip| format!("{} with {} lines", chip.label, chip.lines)).collect();
        let why = format!("none of the board's chips has this line: {}", there.join(", "));
        error(what, why, "use another line in the board file, or add the label of the chip that has it")
    }
}

/// Why the chip `what` could not be opened.
pub(super) fn not_opened(what: &str, failure: &gpiocdev::Error) -> OpenError {
    let fix = "check that the chip's driver is loaded";
    match number(failure) {
        Some(number) => refused(what, &io::Error::from_raw_os_error(number), fix, "gpio"),
        None => error(what, failure.to_string(), fix),
    }
}

/// The offset of the line called `name`, as the chip's driver or the device tree names it.
pub(super) fn offset_of(chip: &ChipPlace, name: &str) -> Option<u32> {
    Chip::from_path(&chip.path).ok()?.find_line_info(name).map(|info| info.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(number: u32, label: &str, lines: u32) -> ChipPlace {
        ChipPlace { path: format!("/dev/gpiochip{number}").into(), label: label.to_string(), lines }
    }

    fn jetson(labels: &[&str]) -> Chips {
        Chips {
            found: vec![chip(0, "tegra234-gpio", 164), chip(1, "tegra234-gpio-aon", 32)],
            closed: Vec::new(),
            labels: labels.iter().map(|label| label.to_string()).collect(),
            names: vec!["PBB.01".to_string(), "PZ.99".to_string()],
        }
    }

    fn names(chip: &ChipPlace, name: &str) -> Option<u32> {
        (chip.label == "tegra234-gpio-aon" && name == "PBB.01").then_some(9)
    }

    fn place(chips: &Chips, line: Line) -> Result<(String, u32), String> {
        let found = chips.locate(line, names).map(|(chip, offset)| (chip.label.clone(), offset));
        found.map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_first_label_that_has_the_line_wins() {
        let main_first = jetson(&["pinctrl-rp1", "tegra234-gpio", "tegra234-gpio-aon"]);
        assert_eq!(place(&main_first, Line(9)), Ok(("tegra234-gpio".to_string(), 9)));
        let aon_first = jetson(&["tegra234-gpio-aon", "tegra234-gpio"]);
        assert_eq!(place(&aon_first, Line(9)), Ok(("tegra234-gpio-aon".to_string(), 9)));
        assert_eq!(place(&aon_first, Line(144)), Ok(("tegra234-gpio".to_string(), 144)));
        let nowhere = place(&aon_first, Line(164)).expect_err("164 lines are 0 to 163");
        assert!(nowhere.contains("tegra234-gpio with 164 lines"), "{nowhere}");
    }

    #[test]
    fn a_line_name_is_searched_on_all_of_the_boards_chips() {
        let chips = jetson(&["tegra234-gpio", "tegra234-gpio-aon"]);
        assert_eq!(place(&chips, Line::named(0)), Ok(("tegra234-gpio-aon".to_string(), 9)));
        assert!(place(&chips, Line::named(1)).expect_err("no such name").contains("GPIO line 'PZ.99'"));
        assert!(place(&chips, Line::named(2)).is_err(), "a name that the board does not have");
        let main_only = jetson(&["tegra234-gpio"]);
        assert!(place(&main_only, Line::named(0)).is_err(), "a chip that is not the board's");
    }

    #[test]
    fn missing_chip_and_unopenable_chip_are_different_errors() {
        let mut chips = jetson(&["pinctrl-rp1"]);
        let missing = chips.locate(Line(5), names).expect_err("another machine");
        assert!(missing.why.contains("has: tegra234-gpio, tegra234-gpio-aon"), "{missing}");
        chips.found.clear();
        let mut closed = |failure: gpiocdev::Error| {
            chips.closed = vec![("/dev/gpiochip0".into(), failure)];
            chips.locate(Line(5), names).expect_err("it cannot be opened")
        };
        let denied = closed(io::Error::from_raw_os_error(libc::EACCES).into());
        assert!(denied.denied && denied.fix.contains("group 'gpio'"), "{denied}");
        let absent = closed(io::Error::from_raw_os_error(libc::ENOENT).into());
        assert!(!absent.denied && absent.why.contains("does not exist"), "{absent}");
        let dead = closed(io::Error::from_raw_os_error(libc::ENODEV).into());
        assert!(!dead.denied && dead.why.contains("os error 19") && dead.fix.contains("driver"), "{dead}");
        let other = gpiocdev::chip::ErrorKind::NotGpioDevice;
        let other = closed(gpiocdev::Error::GpioChip("/dev/gpiochip0".into(), other));
        assert!(!other.denied && other.why.contains("not a GPIO"), "{other}");
    }
}
