//! `scripts/support-bundle` on a simulated robot: its tools are scripts that answer as a robot's would, with
//! secrets among the answers, and `ssh` runs its command locally.

use crate::folder::Folder;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A laptop and a robot in their own folder.
struct Scene(Folder);

/// What no bundle may contain.
const SECRETS: [&str; 7] =
    ["car-7", "alice", "hunter2", "AbCdKey", "192.168.4.20", "dc:a6:32:01:02:03", "fe80::dea6:32ff:fe01:203"];

impl Scene {
    fn new(name: &str) -> Scene {
        let scene = Scene(Folder::new(&format!("support-{name}")));
        for part in ["bin", "out", "tmp"] {
            fs::create_dir_all(scene.0.join(part)).expect("folders");
        }
        scene.tool("uname", "case $1 in -n) echo car-7.lan ;; *) echo Linux 6.12 aarch64 ;; esac");
        scene.tool(
            "systemctl",
            "case $* in *--value*) echo A=1 GANGLION_BOARD=$BOARD ;; *) echo units ;; esac",
        );
        scene.tool("ganglion", "case $1 in status) echo '{\"board\":\"picarx-v4\"}' ;; guard) echo no guard >&2; exit 69 ;; *) echo fine ;; esac");
        // A journal longer than its limit, with the important part at the end.
        scene.tool(
            "journalctl",
            "yes 'car-7 says: a line of the journal' | head -c 5000000\n\
             echo; echo 'alice@car-7.lan password: hunter2 at /home/alice/x'\n\
             echo 'lease of 192.168.4.20 for dc:a6:32:01:02:03, fe80::dea6:32ff:fe01:203'\n\
             echo '-----BEGIN OPENSSH PRIVATE KEY-----'; echo AbCdKey\n\
             echo '-----END OPENSSH PRIVATE KEY-----'\n\
             echo 'kernel 6.12.117 at 21:37:59.123456: the last line'",
        );
        scene.tool("ssh", "while [ \"$1\" != -- ]; do shift; done; [ \"$2\" = pi@robot ] || exit 255; shift 2; sh -c \"$*\"");
        scene.0.write("car.toml", "inherits = \"picarx-v4\"\n");
        scene
    }
    fn tool(&self, name: &str, does: &str) {
        let path = self.0.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{does}\n")).expect("a tool");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }
    fn run(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:{}", self.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.arg("scripts/support-bundle").args(arguments).env("PATH", path).env("SUDO_USER", "alice");
        command.env("GANGLION_RECORDINGS", self.0.join("recordings"));
        command.env("TMPDIR", self.0.join("tmp")).env("BOARD", self.0.join("car.toml"));
        command.output().expect("a shell")
    }
    fn out(&self) -> String {
        self.0.path("out")
    }
    /// The unpacked folder of the only bundle.
    fn unpacked(&self) -> PathBuf {
        let made: Vec<PathBuf> = list(&self.0.join("out"));
        let [bundle] = &made[..] else { panic!("exactly one bundle, not {made:?}") };
        let name = bundle.file_name().expect("a name").to_string_lossy().into_owned();
        let folder = name.strip_suffix(".tar.gz").unwrap_or_else(|| panic!("{name}"));
        assert!(folder.starts_with("ganglion-support-picarx-v4-"), "{name}");
        let tar = Command::new("tar").arg("-xzf").arg(bundle).arg("-C").arg(&*self.0).status();
        assert!(tar.expect("tar").success());
        self.0.join(folder)
    }
}

fn list(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn bundle_is_bounded_lists_missing_parts_and_names_no_one() {
    let scene = Scene::new("whole");
    let made = scene.run(&["pi@robot", "-o", &scene.out()]);
    assert_eq!(made.status.code(), Some(0), "{}", super::err(&made));
    assert!(super::out(&made).trim().ends_with(".tar.gz"), "{}", super::out(&made));
    let bundle = scene.unpacked();
    let read =
        |name: &str| fs::read_to_string(bundle.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let journal = read("journal.txt");
    assert!(journal.ends_with("the last line\n") && journal.len() <= 3072 * 1024, "{} bytes", journal.len());
    assert!(journal.contains("kernel 6.12.117 at 21:37:59.123456"), "no address, so it is kept");
    assert!(read("board.toml").contains("picarx-v4"), "the board of the service");
    let manifest = read("manifest.txt");
    assert!(manifest.contains("its last 3072 KiB kept"), "{manifest}");
    let guard = manifest.lines().find(|line| line.starts_with("guard.json")).expect("a line");
    assert!(guard.contains("exit 69, 0 bytes") && guard.contains("no guard"), "{guard}");
    assert!(!bundle.join("guard.json").exists());
    let mut whole = 0;
    for part in list(&bundle) {
        let text = String::from_utf8_lossy(&fs::read(&part).expect("a part")).into_owned();
        whole += text.len();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{}: {secret}", part.display());
        }
    }
    assert!(whole <= 8 << 20, "{whole} bytes");
    assert_eq!(list(&scene.0.join("tmp")), Vec::<PathBuf>::new(), "no temporary file");
}

#[test]
fn the_newest_recordings_come_along_on_request() {
    let scene = Scene::new("recordings");
    let folder = scene.0.join("recordings");
    fs::create_dir(&folder).expect("a folder");
    for (name, bytes) in
        [("000010-car.mcap", &b"newest\0car-7"[..]), ("000009-car.mcap", b"older"), ("x", b"")]
    {
        fs::write(folder.join(name), bytes).expect("a file");
    }
    // Too large for the bundle: neither this one nor an older one is included.
    let large = fs::File::create(folder.join("000008-car.mcap")).expect("a file");
    large.set_len(128 << 20).expect("a sparse file");
    fs::write(folder.join("000007-car.mcap"), "oldest").expect("a file");
    let made = scene.run(&["pi@robot", "--recordings", "-o", &scene.out()]);
    assert_eq!(made.status.code(), Some(0), "{}", super::err(&made));
    let bundle = scene.unpacked();
    let mut taken = list(&bundle.join("recordings"));
    taken.sort();
    let taken: Vec<_> = taken.iter().map(|path| fs::read(path).expect("a recording")).collect();
    assert_eq!(taken, [b"older".to_vec(), b"newest\0car-7".to_vec()], "unchanged");
    let manifest = fs::read_to_string(bundle.join("manifest.txt")).expect("a manifest");
    assert!(manifest.contains("recordings/000010-car.mcap   12 bytes"), "{manifest}");
    assert!(!manifest.contains("000008"), "{manifest}");
}

#[test]
fn refused_bundle_leaves_no_file() {
    let scene = Scene::new("refused");
    let out = scene.out();
    let refused = |arguments: &[&str], code: i32, says: &str| {
        let made = scene.run(arguments);
        assert_eq!(made.status.code(), Some(code), "{arguments:?}: {}", super::err(&made));
        assert!(super::err(&made).contains(says), "{arguments:?}: {}", super::err(&made));
        assert_eq!(list(&scene.0.join("out")), Vec::<PathBuf>::new(), "{arguments:?}");
    };
    refused(&["pi@elsewhere", "-o", &out], 69, "pi@elsewhere");
    refused(&["--fly"], 64, "--fly");
    refused(&["-o"], 64, "-o");
    refused(&["a", "b"], 64, "one robot at a time");
    refused(&["pi@robot", "-o", &out, "--board", "x'; reboot; '"], 64, "--board");
    refused(&["pi@robot", "-o", "/nowhere"], 73, "/nowhere");
    // A robot that answers with something else, and one whose bundle would write outside its folder.
    scene.tool("ssh", "echo no archive");
    refused(&["pi@robot", "-o", &out], 69, "not a bundle");
    scene.tool(
        "ssh",
        "cd \"$TMPDIR\" && mkdir -p evil && tar --transform 's#^#../../#' -P -cf - evil; rmdir evil",
    );
    refused(&["pi@robot", "-o", &out], 69, "not a bundle");
}

#[test]
fn a_bundle_lists_updates_and_tests_only_an_idle_robot() {
    let scene = Scene::new("update");
    let program = |status: &str| {
        let does = format!(
            "case $1 in status) {status} ;; update) echo '{{\"state\":\"installed\"}}' ;; *) echo \"$*\" ;; esac"
        );
        scene.tool("ganglion", &does);
    };
    let doctor = |is_active: &str| {
        scene.tool("systemctl", &format!("case $* in is-active*) echo {is_active} ;; *) echo units ;; esac"));
        let made = scene.run(&["-o", &scene.out()]);
        assert_eq!(made.status.code(), Some(0), "{}", super::err(&made));
        let bundle = list(&scene.0.join("out")).remove(0);
        let read = |part: &str| {
            let whole = Command::new("tar").args(["-xOf"]).arg(&bundle).args(["--wildcards", part]).output();
            String::from_utf8(whole.expect("tar").stdout).expect("text")
        };
        let (doctor, update) = (read("*/doctor.txt"), read("*/update.json"));
        assert!(update.contains("installed"), "{update}");
        fs::remove_file(&bundle).expect("it existed");
        doctor.contains("--test")
    };
    program("exit 69");
    assert!(doctor("inactive"), "no runtime is active");
    assert!(!doctor("active"), "a service that does not answer");
    program("echo '{}'");
    assert!(!doctor("inactive"), "a runtime started by hand");
}

#[test]
fn list_names_every_part_and_contacts_no_robot() {
    let scene = Scene::new("list");
    let listed = scene.run(&["--list"]);
    assert_eq!(listed.status.code(), Some(0), "{}", super::err(&listed));
    assert_eq!(list(&scene.0.join("tmp")), Vec::<PathBuf>::new());
    let made = scene.run(&["-o", &scene.out()]);
    assert_eq!(made.status.code(), Some(0), "{}", super::err(&made));
    let bundle = list(&scene.0.join("out")).remove(0);
    let manifest =
        Command::new("tar").arg("-xOf").arg(&bundle).args(["--wildcards", "*/manifest.txt"]).output();
    let manifest = String::from_utf8(manifest.expect("tar").stdout).expect("text");
    let parts = |text: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| name.contains('.')).map(str::to_string).collect()
    };
    assert_eq!(parts(&super::out(&listed)), parts(&manifest));
    assert_eq!(parts(&manifest).len(), 18);
}
