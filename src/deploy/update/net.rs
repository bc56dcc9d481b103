//! The safety net, in place before an update changes anything: a copy of the proven program that runs now,
//! and two systemd units in the administrator's folder. None of it needs a file of the new package.
//!
//! The units are the same for every version, do nothing without a marker, and stay until the package is
//! removed. So systemd rarely has to read all unit files again, which takes seconds.

use super::command::{self, SHORT};
use super::state::{sync, systemctl};
use super::{Layout, UpdateError, at};
use crate::system::{bounded_read, codec};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Goes back if a boot finds an unfinished update.
pub const AT_BOOT: &str = "ganglion-rollback.service";
/// Goes back when the program that runs the update dies.
pub const ON_DEATH: &str = "ganglion-update-died.service";
/// Makes the runtime start after the unit [`AT_BOOT`].
const DROP_IN: &str = "90-trial.conf";
/// The folder of [`DROP_IN`].
const DROP_INS: &str = "ganglion.service.d";
/// Starts the unit [`AT_BOOT`] at boot, whatever happens to the runtime's unit.
const WANTED: &str = "multi-user.target.wants/ganglion-rollback.service";
/// Time limit for systemd to reload its unit files, which takes a second or two on a Pi.
pub(super) const RELOAD: Duration = Duration::from_secs(60);
/// Largest program, in bytes.
const LARGEST: u64 = 512 << 20;
/// Largest unit file that can be one of these, in bytes; they have less than one thousand.
const LONGEST: u64 = 64 << 10;

/// Puts the net in place, on disk.
pub fn put_up(layout: &Layout) -> Result<(), UpdateError> {
    copy_program(layout)?;
    let units = layout.units();
    let drop_ins = units.join(DROP_INS);
    put_unit(&units.join(AT_BOOT), &at_boot(layout))?;
    put_unit(&units.join(ON_DEATH), &on_death(layout))?;
    put_unit(&drop_ins.join(DROP_IN), &drop_in())?;
    let wanted = units.join(WANTED);
    make_folder(&wanted)?;
    codec::replace_with_link(&wanted, &Path::new("..").join(AT_BOOT)).map_err(at(&wanted))?;
    // A program that put up the net before may have been killed before it synced these folders, and the
    // folders created above are entries of `units`.
    sync(&drop_ins)?;
    sync(&units)?;
    // The others matter only to a boot, which reads all unit files.
    match is_loaded(ON_DEATH) {
        true => Ok(()),
        false => systemctl(&["daemon-reload"], RELOAD).map_err(|words| failed("systemctl", words)),
    }
}

/// Makes sure that a unit file with this text is on the disk. The caller syncs the folder.
fn put_unit(path: &Path, text: &str) -> Result<(), UpdateError> {
    if bounded_read::text(path, LONGEST).is_ok_and(|found| found == text) {
        return sync(path);
    }
    make_folder(path)?;
    codec::replace(path, text.as_bytes()).map_err(at(path))
}

/// Whether systemd has the present file of this unit. systemd 252 reads a new unit when it is asked for it; a
/// changed one it reads only when it reloads.
fn is_loaded(unit: &str) -> bool {
    let words =
        ["show", "--property", "LoadState", "--property", "NeedDaemonReload", unit].map(AsRef::as_ref);
    let shown = command::demand("systemctl", &words, SHORT).unwrap_or_default();
    ["LoadState=loaded", "NeedDaemonReload=no"].iter().all(|wanted| shown.lines().any(|line| line == *wanted))
}

fn failed(program: &str, words: String) -> UpdateError {
    command::CommandError::Failed(program.to_string(), words).into()
}

/// Copies the running program byte for byte; the file in `/usr/bin` may already be a different one.
fn copy_program(layout: &Layout) -> Result<(), UpdateError> {
    let own = Path::new("/proc/self/exe");
    let path = layout.rescue();
    // If the rescue copy is what is running, it already is the proven program.
    if std::fs::read_link(own).is_ok_and(|running| running == path) {
        return Ok(());
    }
    let bytes = bounded_read::bytes(own, LARGEST).map_err(at(own))?;
    codec::replace(&path, &bytes).map_err(at(&path))?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(at(&path))?;
    sync(&path)
}

fn make_folder(path: &Path) -> Result<(), UpdateError> {
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    std::fs::create_dir_all(&folder).map_err(at(&folder))
}

fn at_boot(layout: &Layout) -> String {
    let (state, marker, lock) = (layout.state(), layout.marker(), layout.lock());
    format!(
        "# Written by 'ganglion update', removed with the package. Does nothing unless an update is
# unfinished.
[Unit]
Description=Return to the proven version of ganglion
# An unfinished update, and no process that runs it: the power failed.
ConditionPathExists={}
ConditionPathExists=!{}
RequiresMountsFor={} /usr
Before=ganglion-guard.service ganglion.service ganglion-rebind.service
Before=apt-daily.service apt-daily-upgrade.service unattended-upgrades.service

[Service]
Type=oneshot
ExecStart={} update recover --boot
TimeoutStartSec=600
StandardOutput=journal+console
StandardError=journal+console
",
        marker.display(),
        lock.display(),
        state.display(),
        layout.rescue().display()
    )
}

fn on_death(layout: &Layout) -> String {
    format!(
        "# Written by 'ganglion update', removed with the package. Does nothing unless an update is
# unfinished.
[Unit]
Description=Return to the proven version of ganglion after its updater died
ConditionPathExists={}

[Service]
Type=oneshot
ExecStart={} update recover
TimeoutStartSec=600
StandardOutput=journal+console
StandardError=journal+console
",
        layout.marker().display(),
        layout.rescue().display()
    )
}

fn drop_in() -> String {
    format!(
        "# Written by 'ganglion update', removed with the package. Does nothing unless an update is
# unfinished.
[Unit]
Wants={AT_BOOT}
After={AT_BOOT}
"
    )
}
