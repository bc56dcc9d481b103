//! The steps after the changes: keeps the package for the way back, asks for a reboot if one is due, tests
//! the hardware, suggests calibrations, starts the services, and says what to type next.

use std::path::{Path, PathBuf};

use super::Site;
use crate::base::plan::{BusPlan, Cause, ChipSensor, MotorKind, SensorKind};
use crate::cli::exit::Failure;
use crate::cli::{doctor, update};
use crate::deploy::board::Loaded;
use crate::deploy::setup::choice;
use crate::deploy::setup::files::names;
use crate::deploy::setup::journal::Journal;
use crate::deploy::setup::proposal::Proposal;
use crate::deploy::update::{Layout, package};

/// How far a setup got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// Nothing was changed.
    Planned,
    /// All changes are made, and the machine must be rebooted.
    RebootPending,
    /// All changes are made, and the service is running. If setup started it, the robot is disarmed.
    Running,
    /// All changes are made, but the service was not started: it would arm the robot, or this is not the
    /// machine itself.
    Ready,
}

/// The package of the first installation, to which the first update can go back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Package {
    /// The package is already kept.
    Kept,
    /// The package was found here and will be kept.
    At(PathBuf),
    /// The package was not found; this is its file name.
    NotFound(String),
}

/// Where apt keeps downloaded packages.
const ARCHIVES: &str = "var/cache/apt/archives";

impl Package {
    /// Looks for the package. If the user named a file (`asked`), that is the package. Otherwise it may be in
    /// the current folder, from an installation by hand, or where apt keeps its downloads.
    pub(super) fn look(root: &Path, asked: Option<&Path>) -> Result<Package, Failure> {
        if let Some(path) = asked {
            let full = std::fs::canonicalize(path).map_err(|error| Failure::file(path, &error))?;
            return Ok(Package::At(full));
        }
        // If dpkg does not know the package, use this program's own version.
        let installed = package::installed().ok().filter(|found| found.state == "installed");
        let version = installed.map_or_else(|| env!("CARGO_PKG_VERSION").to_string(), |found| found.version);
        if Layout::new(root).package(&version).exists() {
            return Ok(Package::Kept);
        }
        let architecture = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            "x86_64" => "amd64",
            other => other,
        };
        let name = format!("ganglion_{version}_{architecture}.deb");
        let places = [Path::new("").join(&name), root.join(ARCHIVES).join(&name)];
        let found = places.into_iter().find(|path| path.is_file());
        Ok(found.map_or(Package::NotFound(name), |path| {
            Package::At(std::fs::canonicalize(&path).unwrap_or(path))
        }))
    }

    /// Keeps the package. A failure does not stop the setup.
    fn keep(&self, site: &Site) {
        let Package::At(path) = self else { return };
        match package::keep(&Layout::new(&site.root), path) {
            Ok(version) => say!("kept {version}: the first update has a way back"),
            Err(error) => {
                say!("not kept, so the first update has no way back: {}", update::words::failure(&error))
            }
        }
    }
}

/// Everything after the changes.
pub(super) fn finish(site: &Site, proposal: &Proposal, package: &Package) -> Result<State, Failure> {
    let loaded = &proposal.board.loaded;
    run(site, "systemctl", &["daemon-reload"])?;
    package.keep(site);
    let journal = Journal::load(&site.root).map_err(super::words::journal)?;
    if journal.waits_for_reboot(&site.root) {
        say!("\nReboot this machine now: 'sudo reboot'. The robot starts with it, disarmed.");
        say!("Then run 'sudo ganglion setup' again to see whether it is ready.");
        return Ok(State::RebootPending);
    }
    load_i2c_dev(site, loaded);
    if !site.is_here {
        say!("\nWith --root this is not the running system: nothing was tested or started.");
        return Ok(State::Ready);
    }
    if site.programs.run("systemctl", &["is-active", "--quiet", "ganglion.service"]).is_ok() {
        say!("\nThe robot is running; its hardware was tested when it started.");
        next();
        return Ok(State::Running);
    }
    say!("\nTest of this robot's hardware (the motors stay stopped):\n");
    doctor::test(&Path::new("/").join(choice::PATH))?;
    calibration(loaded);
    start(site, loaded)
}

fn start(site: &Site, loaded: &Loaded) -> Result<State, Failure> {
    if loaded.board.safety.auto_arm {
        say!(
            "\nThe board sets auto_arm, so the robot drives as soon as it is started: 'sudo systemctl start ganglion'."
        );
        return Ok(State::Ready);
    }
    let guard = loaded.board.guard.map(|_| "ganglion-guard.service");
    let units: Vec<&str> = ["start"].into_iter().chain(guard).chain(["ganglion.service"]).collect();
    run(site, "systemctl", &units).map_err(|failure| failure.fix("'systemctl status ganglion' says why"))?;
    say!("\nThe robot is ready and running, disarmed.");
    next();
    Ok(State::Running)
}

fn next() {
    say!("\nNext:");
    say!("  ganglion status             what it senses, and what prevents arming");
    say!("  ganglion arm                from now on it drives; keep clear of its wheels");
    say!("  ganglion stop               motors off, the program ends");
}

/// Provides `/dev/i2c-N` now; from the next boot on it exists without this step.
fn load_i2c_dev(site: &Site, loaded: &Loaded) {
    let wants = matches!(loaded.board.bus, BusPlan::Linux { .. }) && !loaded.board.i2c.is_empty();
    if wants && !names(&site.root, "dev").iter().any(|name| name.starts_with("i2c-")) {
        // If this fails, the hardware test that follows reports what is missing.
        let _ = site.programs.run("modprobe", &["i2c-dev"]);
    }
}

/// Prints the calibrations that this robot needs: their results differ even between robots of the same kind.
fn calibration(loaded: &Loaded) {
    let hints = hints(loaded);
    if hints.is_empty() {
        return;
    }
    say!(
        "\nCalibrate once per robot: 'sudo systemctl stop ganglion ganglion-guard' before, and 'start' after:"
    );
    let file = format!("/{}", choice::PATH);
    hints.iter().for_each(|hint| say!("  sudo ganglion calibrate {hint} --board {file} --save {file}"));
}

/// The calibrations that suit a board.
pub(super) fn hints(loaded: &Loaded) -> Vec<String> {
    let board = &loaded.board;
    let servos = board.motors.iter().filter(|motor| matches!(motor.kind, MotorKind::Servo { .. }));
    let mut hints: Vec<String> = servos.map(|motor| format!("servo {}", motor.name)).collect();
    for (channel, sensor) in board.sensors.iter().enumerate() {
        if !matches!(
            sensor.kind,
            SensorKind::Chip(ChipSensor::HatAdc { .. }) | SensorKind::Chip(ChipSensor::Ads1115 { .. })
        ) {
            continue;
        }
        let is_floor =
            board.reflexes.iter().any(|rule| rule.channel == channel && rule.cause == Cause::Cliff);
        match reflex_of(loaded, &sensor.name).filter(|_| is_floor) {
            Some(reflex) => hints.push(format!("adc {} --threshold {reflex}", sensor.name)),
            None => hints.push(format!("adc {} --reference VALUE", sensor.name)),
        }
    }
    hints
}

/// The first reflex that watches a sensor.
fn reflex_of(loaded: &Loaded, sensor: &str) -> Option<String> {
    let value = format!("\"{sensor}\"");
    let setting = loaded.settings.iter().find(|setting| {
        setting.key.starts_with("reflex.") && setting.key.ends_with(".sensor") && setting.value == value
    })?;
    Some(setting.key.strip_prefix("reflex.")?.strip_suffix(".sensor")?.to_string())
}

pub(super) fn run(site: &Site, program: &str, arguments: &[&str]) -> Result<(), Failure> {
    site.programs.run(program, arguments).map_err(|error| Failure::unavailable(error.why).at(error.command))
}
