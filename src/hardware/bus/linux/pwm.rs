//! The kernel's PWM in sysfs: finds a chip by its device, opens a channel with a period, and sets its high
//! time with one write.
//!
//! Chip numbers differ between kernels, so a chip is never named by number. A high time is written through a
//! file that stays open, from a buffer on the stack: no allocation, one system call. Dropping a channel
//! switches it off. The kernel does **not** switch a channel off when its owner is killed; a process that
//! then stops the motors opens the channel again, and opening stops it first.

use super::errors::{error, fault_of, refused};
use super::sysfs::{below, leads_to, numbered, text};
use crate::base::fault::BusFault;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::hardware::bus::OpenError;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How long the permissions may take: udev changes the group of a new channel's files some time after the
/// export, which can take seconds while a machine boots.
const RIGHTS_WITHIN: Span = Span::from_millis(2_000);
/// Polling interval for the permissions.
const RIGHTS_EVERY: Span = Span::from_millis(5);
/// Group that may write to a PWM channel.
const GROUP: &str = "gpio";

/// A PWM chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PwmChip {
    folder: PathBuf,
    device: String,
}

impl PwmChip {
    /// The chip whose device's name contains `device` (`1f00098000.pwm`), looked up in `root`/sys (`/` on a
    /// robot). Exactly one chip must match.
    pub fn open(root: &Path, device: &str) -> Result<PwmChip, OpenError> {
        let chips: Vec<PwmChip> = numbered(&below(root, "/sys/class/pwm"), "pwmchip")
            .into_iter()
            .filter_map(|(_, folder)| Some(PwmChip { device: leads_to(&folder.join("device"))?, folder }))
            .collect();
        let mut fitting = chips.iter().filter(|chip| chip.device.contains(device));
        let what = format!("PWM chip {device}");
        match (fitting.next(), fitting.next()) {
            (Some(chip), None) => Ok(chip.clone()),
            (Some(a), Some(b)) => Err(error(
                what,
                format!("both {} and {} match", a.device, b.device),
                "give more of the device's name in the board file",
            )),
            (None, _) => {
                let there: Vec<&str> = chips.iter().map(|chip| chip.device.as_str()).collect();
                let there = if there.is_empty() { "none".to_string() } else { there.join(", ") };
                let fix = "enable the PWM in the device tree (Pi: 'dtoverlay=pwm-2chan' in config.txt), or name \
                           the right device in the board file";
                Err(error(what, format!("no such chip; this machine has: {there}"), fix))
            }
        }
    }

    /// The name of the chip's device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Its folder in /sys/class/pwm.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The chip's number of channels, if it reports that.
    pub fn channels(&self) -> Option<u32> {
        text(&self.folder.join("npwm"))?.parse().ok()
    }

    /// Opens channel `number` with a period of `period_ns`, running with zero high time: its output is low.
    /// If another process left the channel running, this stops it before changing anything else.
    pub fn channel(&self, number: u32, period_ns: u64) -> Result<PwmChannel, OpenError> {
        let what = format!("PWM {} channel {number}", self.device);
        if self.channels().is_some_and(|channels| number >= channels) {
            let why =
                format!("the chip has channels 0 to {}", self.channels().unwrap_or_default().max(1) - 1);
            return Err(error(what, why, "name another channel in the board file"));
        }
        let folder = self.folder.join(format!("pwm{number}"));
        let on =
            |error: io::Error| refused(&what, &error, "check whether another program is using it", GROUP);
        if !folder.exists() {
            export(&self.folder, number).map_err(on)?;
        }
        let duty = writable_in_time(&folder.join("duty_cycle")).map_err(on)?;
        let enable = writable_in_time(&folder.join("enable")).map_err(on)?;
        let channel = PwmChannel { chip: self.folder.clone(), number, period_ns, duty, enable };
        channel
            .begin(&folder)
            .map_err(|error| refused(&what, &error, "check that the chip supports this period", GROUP))?;
        Ok(channel)
    }
}

/// Exports a channel. A channel that is already exported (a race with udev or another start) is fine too.
fn export(chip: &Path, number: u32) -> io::Result<()> {
    match put(&chip.join("export"), u64::from(number)) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
        done => done,
    }
}

/// Opens a file for writing as soon as it exists and its permissions allow it, or returns the reason after
/// [`RIGHTS_WITHIN`].
fn writable_in_time(path: &Path) -> io::Result<File> {
    let clock = MonotonicClock;
    let until = clock.now() + RIGHTS_WITHIN;
    loop {
        match OpenOptions::new().write(true).open(path) {
            Err(error) if clock.now() >= until => return Err(error),
            Err(_) => clock.sleep_until(clock.now() + RIGHTS_EVERY),
            Ok(file) => return Ok(file),
        }
    }
}

/// A running channel; see [`PwmChip::channel`].
#[derive(Debug)]
pub struct PwmChannel {
    chip: PathBuf,
    number: u32,
    period_ns: u64,
    duty: File,
    enable: File,
}

impl PwmChannel {
    /// The order matters: the kernel refuses a period shorter than the high time (`duty_cycle`), and a
    /// polarity change while the channel runs.
    fn begin(&self, folder: &Path) -> io::Result<()> {
        if text(&folder.join("enable")).as_deref() != Some("0") {
            write_number(&self.enable, 0)?;
        }
        // A channel that never had a period refuses even zero (EINVAL); it has no high time to clear.
        if text(&folder.join("duty_cycle")).as_deref() != Some("0") {
            write_number(&self.duty, 0)?;
        }
        put(&folder.join("period"), self.period_ns)?;
        // Chips with only one polarity have no such file, or refuse the write.
        if text(&folder.join("polarity")).is_some_and(|polarity| polarity == "inversed") {
            fs::write(folder.join("polarity"), "normal")?;
        }
        write_number(&self.duty, 0)?;
        write_number(&self.enable, 1)
    }

    /// The period, ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Sets the output high for `duty_ns` of every period, from the next period on. Refuses more than the
    /// period ([`BusFault::Unsupported`]): the caller, which knows what the pulse means, must clamp it.
    pub fn set(&self, duty_ns: u64) -> Result<(), BusFault> {
        if duty_ns > self.period_ns {
            return Err(BusFault::Unsupported);
        }
        write_number(&self.duty, duty_ns).map_err(|error| fault_of(&error))
    }
}

impl Drop for PwmChannel {
    fn drop(&mut self) {
        // No caller is left to report a failure to; try every step even if one fails.
        let _ = write_number(&self.duty, 0);
        let _ = write_number(&self.enable, 0);
        let _ = put(&self.chip.join("unexport"), u64::from(self.number));
    }
}

/// Opens an attribute and writes to it.
fn put(path: &Path, number: u64) -> io::Result<()> {
    write_number(&OpenOptions::new().write(true).open(path)?, number)
}

/// Writes a decimal number to an attribute in one write at offset 0, because attributes take each write as a
/// whole.
fn write_number(file: &File, number: u64) -> io::Result<()> {
    // 20 digits of the largest u64 and a newline, filled from the end.
    let mut buffer = *b"00000000000000000000\n";
    let (mut start, mut rest) = (20, number);
    while rest > 0 || start == 20 {
        start -= 1;
        buffer[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    match file.write_at(&buffer[start..], 0)? {
        written if written == buffer.len() - start => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EIO)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Tree;
    use super::*;

    fn chip_tree() -> Tree {
        let tree = Tree::new("pwm");
        for (number, device, channels) in [(0, "1f0009c000.pwm", 4), (2, "1f00098000.pwm", 4)] {
            let chip = format!("sys/devices/{device}/pwm/pwmchip{number}");
            tree.file(&format!("{chip}/npwm"), &channels.to_string());
            tree.file(&format!("{chip}/export"), "");
            tree.file(&format!("{chip}/unexport"), "");
            tree.link(&format!("{chip}/device"), "../..");
            tree.link(
                &format!("sys/class/pwm/pwmchip{number}"),
                &format!("../../devices/{device}/pwm/pwmchip{number}"),
            );
        }
        tree
    }

    /// A newly exported channel that another process left running with inverted polarity.
    fn exported(tree: &Tree, number: u32) -> String {
        let channel = format!("sys/devices/1f00098000.pwm/pwm/pwmchip2/pwm{number}");
        for (file, content) in
            [("period", "1000"), ("duty_cycle", "700"), ("enable", "1"), ("polarity", "inversed")]
        {
            tree.file(&format!("{channel}/{file}"), content);
        }
        channel
    }

    #[test]
    fn a_chip_is_found_by_its_device_whatever_its_number() {
        let tree = chip_tree();
        let chip = PwmChip::open(tree.root(), "1f00098000").expect("a chip");
        assert_eq!((chip.device(), chip.channels()), ("1f00098000.pwm", Some(4)));
        let both = PwmChip::open(tree.root(), ".pwm").expect_err("two chips");
        assert!(both.why.contains("1f0009c000.pwm and 1f00098000.pwm"), "{both}");
        let none = PwmChip::open(tree.root(), "32c0000.pwm").expect_err("no chip");
        assert!(none.why.contains("has: 1f0009c000.pwm, 1f00098000.pwm"), "{none}");
    }

    #[test]
    fn a_channel_starts_low_and_ends_off() {
        let tree = chip_tree();
        let folder = exported(&tree, 1);
        let chip = PwmChip::open(tree.root(), "1f00098000").expect("a chip");
        let channel = chip.channel(1, 20_000_000).expect("a channel");
        let read = |file: &str| tree.number(&format!("{folder}/{file}"));
        assert_eq!((read("period"), read("duty_cycle"), read("enable")), (20_000_000, 0, 1));
        assert_eq!(tree.read(&format!("{folder}/polarity")), "normal");

        assert_eq!(channel.set(1_500_000), Ok(()));
        assert_eq!(read("duty_cycle"), 1_500_000);
        assert_eq!(channel.set(20_000_001), Err(BusFault::Unsupported));
        assert_eq!(channel.set(20_000_000), Ok(()));

        drop(channel);
        assert_eq!((read("duty_cycle"), read("enable")), (0, 0));
        assert_eq!(tree.number("sys/devices/1f00098000.pwm/pwm/pwmchip2/unexport"), 1);
    }

    #[test]
    fn pwm_values_are_written_in_one_piece() {
        let tree = Tree::new("numbers");
        for number in [0, 7, 10, 20_000_000, u64::MAX] {
            tree.file("number", "");
            put(&tree.root().join("number"), number).expect("a write");
            assert_eq!(tree.number("number"), number);
        }
    }

    #[test]
    fn a_channel_that_is_not_there_is_refused() {
        let tree = chip_tree();
        let chip = PwmChip::open(tree.root(), "1f00098000").expect("a chip");
        assert!(chip.channel(4, 1).expect_err("no channel 4").why.contains("0 to 3"));
    }
}
