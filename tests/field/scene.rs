//! A laptop that has only bash, coreutils and a simulated `ssh`, and robots that are folders. ssh runs its
//! command in the robot's folder with stand-ins for `ganglion`, `sudo`, `dpkg`; every call that would change
//! a robot is logged as a line.

use crate::folder::Folder;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What the scripts may use on the laptop besides bash and ssh: coreutils.
const COREUTILS: &str =
    "base64 cat cp dd dirname head mkdir mktemp mv rm sha256sum stat sync tail timeout tr wc";

/// Bytes of the test package: more than a pipe holds, so that an interruption hits the middle of it.
pub const PACKAGE_BYTES: usize = 300_000;

/// A laptop and its robots, in a folder of their own.
pub struct Scene(pub Folder);

/// The state of a robot that runs 0.1.0 and was never updated.
pub const FRESH: &str = r#"{"schema":1,"installed":"0.1.0","state":"installed","runtime":"active","hold":false,
"staged":null,"unfinished":null,"last":null,"kept":["0.1.0"],"history":["set up"]}"#;

impl Scene {
    /// A laptop with a package, and these robots.
    pub fn new(name: &str, robots: &[&str]) -> Scene {
        let scene = Scene(Folder::new(&format!("field-{name}")));
        for folder in ["laptop", "tools", "packages", "tmp", "robots"] {
            fs::create_dir_all(scene.0.join(folder)).expect("folders");
        }
        for tool in COREUTILS.split(' ') {
            symlink(Path::new("/usr/bin").join(tool), scene.0.join("laptop").join(tool)).expect("coreutils");
        }
        symlink("/bin/bash", scene.0.join("laptop/bash")).expect("bash");
        // The scripts still wait, but each wait is shortened to 20 ms.
        scene.script("laptop/sleep", "exec /bin/sleep 0.02");
        scene.copy_fake("ssh", "laptop/ssh");
        scene.copy_fake("ganglion", "tools/ganglion");
        scene.script("tools/id", "echo 1000");
        scene.script("tools/sudo", "shift; [ ! -e \"$ROBOT/sudo-asks\" ] || exit 1; exec \"$@\"");
        scene.script("tools/getconf", "echo \"glibc $(cat \"$ROBOT/glibc\")\"");
        scene.script("tools/nvidia-smi", "cat \"$ROBOT/driver\"");
        scene.script("tools/systemctl", "case $1 in is-active) echo active ;; esac");
        scene.script(
            "tools/dpkg",
            "case $1 in --print-architecture) cat \"$ROBOT/architecture\" ;; *) exec /usr/bin/dpkg \"$@\" ;; esac",
        );
        scene.script(
            "tools/stat",
            "[ \"$1\" = -f ] || exec /usr/bin/stat \"$@\"; echo \"$(cat \"$ROBOT/free_kib\") * 1024 / 1024\"",
        );
        robots.iter().for_each(|robot| scene.add_robot(robot));
        scene.package("ganglion_0.2.0_arm64.deb", "0.2.0");
        scene
    }
    fn add_robot(&self, name: &str) {
        let robot = self.robot(name);
        for folder in ["home", "bin", "on", "answers", "etc/ganglion", "tree", "run", "update", "share"] {
            fs::create_dir_all(robot.join(folder)).expect("folders");
        }
        let facts = [
            ("architecture", "arm64"),
            ("glibc", "2.36"),
            ("driver", ""),
            ("free_kib", "4194304"),
            ("tree/model", "Raspberry Pi 5 Model B Rev 1.0\0"),
            ("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("etc/machine-id", name),
            ("etc/ganglion/allowed_signers", "fleet ssh-ed25519 AAAA\n"),
            ("etc/ganglion/board.toml", "inherits = \"picarx-v4\"\n"),
            ("status.json", "{\"schema\":1,\"board\":\"board\",\"mode\":\"disarmed\"}\n"),
        ];
        facts.iter().for_each(|(file, text)| self.write(name, file, text));
        self.write(name, "update.json", &FRESH.replace('\n', ""));
        self.copy_fake("ganglion", &format!("robots/{name}/update/rescue"));
    }
    pub fn robot(&self, name: &str) -> PathBuf {
        self.0.join("robots").join(name)
    }
    /// Writes a file of a robot: a fact, or what happens at a call (`on/copy.1`, `answers/update-trial`).
    pub fn write(&self, robot: &str, file: &str, text: &str) {
        fs::write(self.robot(robot).join(file), text).expect("a file of the robot");
    }
    pub fn script(&self, path: &str, does: &str) {
        self.executable(path, format!("#!/bin/sh\n{does}\n").as_bytes());
    }
    fn copy_fake(&self, name: &str, to: &str) {
        let text = fs::read(Path::new("tests/field/fake").join(name)).expect("a stand-in");
        self.executable(to, &text);
    }
    fn executable(&self, path: &str, text: &[u8]) {
        fs::write(self.0.join(path), text).expect("a tool");
        fs::set_permissions(self.0.join(path), fs::Permissions::from_mode(0o755)).expect("permissions");
    }
    /// The package that `new` made.
    pub fn deb(&self) -> PathBuf {
        self.0.join("packages/ganglion_0.2.0_arm64.deb")
    }
    /// A package with its accompanying files.
    pub fn package(&self, name: &str, version: &str) -> PathBuf {
        let path = self.0.join("packages").join(name);
        let body = (0..PACKAGE_BYTES).map(|at| (at * at / 7 % 251) as u8);
        fs::write(&path, b"!<arch>\n".iter().copied().chain(body).collect::<Vec<u8>>()).expect("a package");
        fs::write(
            path.with_extension("deb.sig"),
            "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n",
        )
        .expect("a signature");
        let manifest = format!(
            "{{\"schema\":1,\"package\":\"ganglion\",\"version\":\"{version}\",\"commit\":null,\n\
             \"architecture\":\"arm64\",\"boards\":[\"picarx-v4\",\"sim\"],\"glibc\":\"2.31\",\"driver\":\"525.60\"}}\n"
        );
        fs::write(path.with_extension("manifest.json"), manifest).expect("a manifest");
        let sum = format!("{}  {name}\n", digest(&path));
        fs::write(self.0.join("packages/SHA256SUMS"), sum).expect("sums");
        path
    }
    /// A script of the laptop, without a terminal.
    pub fn script_command(&self, script: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("/bin/bash");
        command.arg(format!("scripts/{script}")).args(arguments).stdin(Stdio::null());
        command.env_clear().env("PATH", self.0.join("laptop")).env("SCENE", &*self.0);
        command.env("TMPDIR", self.0.join("tmp")).env("HOME", &*self.0);
        command
    }
    /// Runs a script of the laptop.
    pub fn run(&self, script: &str, arguments: &[&str]) -> Output {
        self.script_command(script, arguments).output().expect("bash")
    }
    /// Runs `scripts/flash` with the package and `--yes`.
    pub fn flash(&self, arguments: &[&str]) -> Output {
        let deb = self.deb().display().to_string();
        self.run("flash", &[&[deb.as_str(), "--yes"], arguments].concat())
    }
    fn lines(&self, path: PathBuf) -> Vec<String> {
        fs::read_to_string(path).unwrap_or_default().lines().map(str::to_string).collect()
    }
    /// The ssh calls on this robot, in order.
    pub fn calls(&self, robot: &str) -> Vec<String> {
        self.lines(self.robot(robot).join("calls"))
    }
    /// The ssh calls on all robots, `KIND ROBOT`, in order.
    pub fn order(&self) -> Vec<String> {
        self.lines(self.0.join("order"))
    }
    /// How often the laptop had to authenticate at this robot.
    pub fn logins(&self, robot: &str) -> usize {
        self.lines(self.robot(robot).join("logins")).len()
    }
    /// The shared connections that began (`open ROBOT`) and ended (`exit ROBOT`, `cut ROBOT`), in order.
    pub fn masters(&self) -> Vec<String> {
        self.lines(self.0.join("masters"))
    }
    /// The calls that changed the robot, in order.
    pub fn did(&self, robot: &str) -> Vec<String> {
        self.lines(self.robot(robot).join("did"))
    }
    /// Whether nothing was done to the robot and nothing was written there.
    pub fn is_untouched(&self, robot: &str) -> bool {
        let home = fs::read_dir(self.robot(robot).join("home")).expect("its home").count();
        self.did(robot).is_empty() && home == 0
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let left = fs::read_dir(self.0.join("tmp")).map(|folder| folder.count()).unwrap_or(0);
        if !std::thread::panicking() {
            assert_eq!(left, 0, "a script left temporary files behind");
            let masters = self.masters();
            let opened = masters.iter().filter(|line| line.starts_with("open")).count();
            assert_eq!(masters.len(), 2 * opened, "each shared connection ends once: {masters:?}");
            for folder in self.lines(self.0.join("sockets")) {
                assert!(!Path::new(&folder).exists(), "{folder}: a script left its sockets behind");
            }
        }
    }
}

/// SHA-256 of a file, in hexadecimal digits.
pub fn digest(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().expect("sha256sum");
    String::from_utf8(output.stdout).expect("digits")[..64].to_string()
}
