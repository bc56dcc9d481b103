//! The maintainer scripts on a simulated machine: its tools only record how they were called, and its files
//! are in a folder (`DPKG_ROOT`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::text;
use crate::folder::Folder;

/// The services, in the order in which a removal stops them.
const UNITS: [&str; 7] = [
    "ganglion",
    "ganglion-rebind",
    "ganglion-guard",
    "ganglion-sleep",
    "ganglion-tether",
    "ganglion-brain",
    "ganglion-metrics",
];

/// The command with which a removal disables all units that start by themselves. The last service is started
/// by its timer, so its timer is disabled instead.
fn disabling() -> String {
    let units = UNITS.map(|unit| match unit {
        "ganglion-metrics" => format!("{unit}.timer"),
        _ => format!("{unit}.service"),
    });
    format!("systemctl --quiet disable {}", units.join(" "))
}

/// A machine with systemd, unless a test removes it.
struct Machine(Folder);

impl Machine {
    fn new(name: &str) -> Machine {
        let machine = Machine(Folder::new(&format!("package-{name}")));
        machine.write("root/run/systemd/system/.keep", "");
        for tool in ["systemctl", "systemd-sysusers", "systemd-tmpfiles", "udevadm"] {
            machine.tool(tool, "");
        }
        // No unit is active except the one that $STUBBORN names, which does not stop.
        machine.tool("systemctl", "[ \"$1\" != is-active ] || [ \"$3\" = \"${STUBBORN-}\" ]");
        machine.tool("timeout", "shift; exec \"$@\"");
        machine
    }
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
    fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, content).expect("a file");
    }
    /// A tool that records its name and arguments, then runs `does`.
    fn tool(&self, name: &str, does: &str) {
        let does = format!("#!/bin/sh\necho \"${{0##*/}} $*\" >> \"$LOG\"\n{does}\n");
        self.write(&format!("bin/{name}"), &does);
        let path = self.path(&format!("bin/{name}"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }
    /// Runs a maintainer script; returns its exit code, and the calls that it made.
    fn run(&self, script: &str, arguments: &[&str], stubborn: &str) -> (i32, Vec<String>) {
        let log = self.path("log");
        fs::write(&log, "").expect("a log");
        let tools = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let mut command = Command::new("/bin/sh");
        command.arg(format!("packaging/{script}")).args(arguments).env("PATH", tools);
        command.env("DPKG_ROOT", self.path("root")).env("LOG", &log).env("STUBBORN", stubborn);
        let run = command.output().expect("a shell");
        let root = format!(" --root={}", self.path("root").display());
        let calls = text(&log).lines().map(|line| line.replace(&root, "")).collect();
        (run.status.code().expect("an exit code"), calls)
    }
    /// The calls of a script that succeeds; each tool that could hang has a time limit.
    fn calls(&self, script: &str, arguments: &[&str]) -> Vec<String> {
        let (code, calls) = self.run(script, arguments, "");
        assert_eq!(code, 0, "{script} {arguments:?}: {calls:?}");
        for (at, call) in calls.iter().enumerate() {
            let may_hang = call.starts_with("systemctl") || call.starts_with("udevadm");
            let bound = at.checked_sub(1).is_some_and(|before| {
                calls[before].starts_with("timeout ")
                    && calls[before].contains(call.split(' ').next().expect("a tool"))
            });
            assert!(!may_hang || bound, "{script} {arguments:?}: {call} may hang");
        }
        calls.into_iter().filter(|call| !call.starts_with("timeout ")).collect()
    }
    fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

#[test]
fn an_upgrade_touches_no_running_unit() {
    let machine = Machine::new("upgrade");
    // The order in which dpkg calls them: the old prerm, the old postrm, the new postinst.
    assert_eq!(machine.calls("prerm", &["upgrade", "0.2.0"]), [""; 0]);
    assert_eq!(machine.calls("postrm", &["upgrade", "0.2.0"]), [""; 0]);
    let set_up = [
        "systemd-sysusers ganglion.conf",
        "systemd-tmpfiles --create ganglion.conf",
        "systemctl daemon-reload",
        "udevadm control --reload",
        "udevadm trigger --action=change --subsystem-match=gpio --subsystem-match=i2c-dev --subsystem-match=pwm",
    ];
    assert_eq!(machine.calls("postinst", &["configure", "0.1.0"]), set_up);
    // The same happens at the first installation, and when dpkg aborts an upgrade or a removal.
    assert_eq!(machine.calls("postinst", &["configure", ""]), set_up);
    assert_eq!(machine.calls("postinst", &["abort-upgrade", "0.2.0"]), set_up);
    assert_eq!(machine.calls("postinst", &["abort-remove"]), set_up);
    for failed in [&["failed-upgrade", "0.1.0"][..], &["deconfigure", "in-favour", "other", "1"]] {
        assert_eq!(machine.calls("prerm", failed), [""; 0]);
    }
    for failed in ["failed-upgrade", "abort-upgrade", "abort-install", "disappear"] {
        assert_eq!(machine.calls("postrm", &[failed, "0.1.0"]), [""; 0]);
    }
}

#[test]
fn a_failed_reload_is_an_error_but_missing_udev_is_not() {
    let machine = Machine::new("fails");
    machine.tool("udevadm", "exit 1");
    assert_eq!(machine.run("postinst", &["configure", ""], "").0, 0);
    machine.tool("systemctl", "exit 1");
    assert_ne!(machine.run("postinst", &["configure", ""], "").0, 0, "the old unit would start");
}

#[test]
fn a_removal_stops_the_robot_first_and_disables_it() {
    let machine = Machine::new("remove");
    let mut expected = vec!["systemctl stop ganglion-metrics.timer".to_string()];
    expected.extend(UNITS.iter().flat_map(|unit| {
        [format!("systemctl stop {unit}.service"), format!("systemctl is-active --quiet {unit}.service")]
    }));
    expected.push(disabling());
    assert_eq!(machine.calls("prerm", &["remove"]), expected);
    // If the runtime does not stop, the guard keeps running and the package stays.
    let (code, calls) = machine.run("prerm", &["remove"], "ganglion.service");
    assert_eq!(code, 1);
    assert!(calls.iter().any(|call| call == "systemctl stop ganglion.service"), "{calls:?}");
    assert!(!calls.iter().any(|call| call.contains("guard") || call.contains("disable")), "{calls:?}");
    assert_eq!(machine.calls("postrm", &["remove"]), ["systemctl daemon-reload"]);
}

#[test]
fn installation_into_an_image_needs_no_systemd() {
    let machine = Machine::new("image");
    fs::remove_dir_all(machine.path("root/run")).expect("no systemd");
    let set_up = ["systemd-sysusers ganglion.conf", "systemd-tmpfiles --create ganglion.conf"];
    assert_eq!(machine.calls("postinst", &["configure", ""]), set_up);
    assert_eq!(machine.calls("prerm", &["remove"]), [disabling()]);
    assert_eq!(machine.calls("postrm", &["remove"]), [""; 0]);
}

/// The folders that the units and tmpfiles create, relative to the root: those that a removal keeps, and
/// those in /run.
fn made_on_a_robot() -> (Vec<String>, Vec<String>) {
    let (mut kept, mut run) = (Vec::new(), Vec::new());
    for unit in UNITS {
        for line in text(format!("systemd/{unit}.service")).lines() {
            match line.split_once('=') {
                Some(("StateDirectory", name)) => kept.push(format!("var/lib/{name}")),
                Some(("CacheDirectory", name)) => kept.push(format!("var/cache/{name}")),
                Some(("RuntimeDirectory", name)) => run.push(format!("run/{name}")),
                _ => {}
            }
        }
    }
    for line in text("packaging/ganglion.tmpfiles").lines() {
        kept.extend(line.strip_prefix("d /").and_then(|rest| rest.split(' ').next()).map(str::to_string));
    }
    assert!(kept.len() >= 5 && run.len() == 5, "{kept:?} {run:?}");
    (kept, run)
}

#[test]
fn removal_keeps_the_robots_data_and_a_purge_deletes_it() {
    let machine = Machine::new("purge");
    let (kept, run) = made_on_a_robot();
    for folder in kept.iter().chain(&run) {
        machine.write(&format!("root/{folder}/deep/file"), "something");
    }
    let system = "root/etc/systemd/system";
    let net = [
        "ganglion-rollback.service",
        "multi-user.target.wants/ganglion-rollback.service",
        "ganglion.service.d/90-trial.conf",
    ];
    net.iter().for_each(|file| machine.write(&format!("{system}/{file}"), "a net"));
    machine.write(&format!("{system}/ganglion.service.d/mine.conf"), "the administrator's");
    machine.write("root/etc/other/file", "another package's");

    machine.calls("postrm", &["remove"]);
    for folder in &kept {
        assert!(machine.exists(&format!("root/{folder}/deep/file")), "{folder}");
    }
    for gone in
        run.iter().map(|folder| format!("root/{folder}")).chain(net.map(|file| format!("{system}/{file}")))
    {
        assert!(!machine.exists(&gone), "{gone}");
    }
    machine.calls("postrm", &["purge"]);
    for folder in &kept {
        assert!(!machine.exists(&format!("root/{folder}")), "{folder}");
    }
    assert!(machine.exists(&format!("{system}/ganglion.service.d/mine.conf")));
    assert!(machine.exists("root/etc/other/file"));
    // A second purge, which finds nothing to delete, succeeds as well.
    machine.calls("postrm", &["purge"]);
}

#[test]
fn an_unknown_dpkg_request_is_an_error() {
    let machine = Machine::new("unknown");
    for script in ["postinst", "prerm", "postrm"] {
        assert_eq!(machine.run(script, &["explode"], ""), (1, Vec::new()), "{script}");
        assert!(Path::new("packaging").join(script).exists());
    }
}
