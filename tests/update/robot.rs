//! A robot with simulated dpkg, systemd and ssh-keygen (`tools.sh`), and packages that behave as a test
//! wants.

use crate::cli;
use crate::folder::Folder;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

/// The machine, in a folder of its own.
pub struct Robot(Folder);

impl Robot {
    /// A machine with `ganglion` 0.1.0 installed, kept, running and disarmed, set up for updates.
    pub fn new(name: &str) -> Robot {
        let robot = Robot(Folder::new(&format!("update-{name}")));
        for part in ["bin", "system/run", "system/etc/ganglion", "system/usr/bin", "system/var/lib/ganglion"]
        {
            fs::create_dir_all(robot.path(part)).expect("folders");
        }
        let tools = robot.path("bin/tools");
        fs::write(&tools, include_str!("tools.sh")).expect("the tools");
        fs::set_permissions(&tools, fs::Permissions::from_mode(0o755)).expect("their mode");
        for tool in ["dpkg", "dpkg-deb", "dpkg-query", "systemctl", "systemd-run", "ssh-keygen", "program"] {
            symlink("tools", robot.path("bin").join(tool)).expect("a tool");
        }
        symlink(robot.path("bin/program"), robot.path("system/usr/bin/ganglion")).expect("the program");
        robot.write("system/etc/ganglion/board.toml", "inherits = \"sim\"\n");
        robot.write("system/etc/ganglion/allowed_signers", "");
        robot.write("guard", "active\n");
        robot.write("mode", "disarmed");
        robot.write("running", "100\n");
        robot.write("state", "");
        let first = robot.package("0.1.0", "");
        fs::copy(&first, robot.path("installed")).expect("the first version");
        let kept = robot.update(&["keep", first.to_str().expect("UTF-8")]);
        assert_eq!(kept.status.code(), Some(0), "{}", cli::err(&kept));
        robot
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file of the machine");
    }
    pub fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// A signed package of `version` for this robot; `changes` has lines that override the usual ones.
    pub fn package(&self, version: &str, changes: &str) -> PathBuf {
        // The first line distinguishes a package from a damaged file.
        let usual = format!(
            "version={version}\narch=amd64\nsize=1000\nboard=sim\nfiles=\npostinst=\nstarts=\nanswers=\nafter=\ncause=\np99_us=5000\n"
        );
        let path = self.path(&format!("new {version}.deb"));
        let name = if changes.starts_with("name=") { "" } else { "name=ganglion\n" };
        fs::write(&path, format!("{name}{changes}{usual}")).expect("a package");
        self.sign(&path);
        path
    }
    pub fn sign(&self, package: &Path) {
        fs::copy(package, self.path("signature")).expect("a signature");
        fs::rename(self.path("signature"), package.with_extension("deb.sig")).expect("its name");
    }

    /// `ganglion update ARGUMENTS` on this machine.
    pub fn update(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = cli::ganglion(&["update"]);
        command.args(arguments).arg("--root").arg(self.path("system"));
        command.env("FAKE", &*self.0).env("PATH", path).output().expect("ganglion update")
    }
    /// Makes the service end with this result.
    pub fn service_ends(&self, result: &str) {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = cli::ganglion(&["update", "ended", "--root"]);
        command
            .arg(self.path("system"))
            .env("FAKE", &*self.0)
            .env("PATH", path)
            .env("SERVICE_RESULT", result);
        let ended = command.output().expect("ganglion update ended");
        assert_eq!(ended.status.code(), Some(0), "{}", cli::err(&ended));
    }
    pub fn stage(&self, package: &Path) -> Output {
        self.update(&["stage", package.to_str().expect("UTF-8")])
    }
    /// Stages and tries `package`; returns the exit code and the last line of the JSON answer.
    pub fn flash(&self, package: &Path) -> (Option<i32>, Value) {
        let staged = self.stage(package);
        assert_eq!(staged.status.code(), Some(0), "{}", cli::err(&staged));
        let tried = self.update(&["trial", "--for", "1ms", "--json"]);
        let said = cli::out(&tried).lines().last().map(str::to_string).unwrap_or_default();
        (tried.status.code(), serde_json::from_str(&said).unwrap_or(Value::String(cli::err(&tried))))
    }
    pub fn status(&self) -> Value {
        let told = self.update(&["status", "--json"]);
        serde_json::from_str(cli::out(&told).trim()).unwrap_or_else(|_| panic!("{}", cli::err(&told)))
    }
    /// A robot with a version staged, after one update or none before. Returns also the versions before and
    /// after the staged one's trial.
    pub fn staged(name: &str, is_updated: bool) -> (Robot, [&'static str; 2]) {
        let robot = Robot::new(name);
        let versions = if is_updated { ["0.2.0", "0.3.0"] } else { ["0.1.0", "0.2.0"] };
        if is_updated {
            let (code, end) = robot.flash(&robot.package(versions[0], ""));
            assert_eq!(code, Some(0), "{end}");
        }
        assert_eq!(robot.stage(&robot.package(versions[1], "")).status.code(), Some(0));
        robot.forget_calls();
        (robot, versions)
    }
    pub fn installed(&self) -> String {
        self.status()["installed"].as_str().unwrap_or_default().to_string()
    }
    /// The calls of the machine's tools so far.
    pub fn calls(&self) -> Vec<String> {
        fs::read_to_string(self.path("calls")).unwrap_or_default().lines().map(str::to_string).collect()
    }
    pub fn forget_calls(&self) {
        let _ = fs::remove_file(self.path("calls"));
    }

    /// The power fails: running programs and the contents of `/run` are lost. Then the machine boots, and the
    /// recovery unit runs if systemd would run it.
    pub fn boot(&self) -> Option<Output> {
        let _ = fs::remove_file(self.path("cut"));
        let _ = fs::remove_file(self.path("cut-after"));
        let _ = fs::remove_file(self.path("running"));
        let _ = fs::remove_file(self.path("system/run/ganglion-update.lock"));
        let _ = fs::remove_file(self.path("loaded"));
        let state = "system/var/lib/ganglion-update";
        let wanted = self.has("system/etc/systemd/system/multi-user.target.wants/ganglion-rollback.service")
            && self.has(&format!("{state}/trial"));
        if !wanted {
            fs::write(self.path("running"), "100\n").expect("systemd starts the runtime");
            return None;
        }
        assert!(self.has(&format!("{state}/rescue")), "the unit's program exists");
        Some(self.update(&["recover", "--boot"]))
    }
}
