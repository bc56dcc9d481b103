//! `ganglion setup` as a user types it, on simulated machines: what is shown, what is changed, how it ends.

use super::{err, ganglion, out};
use crate::folder::Folder;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A machine in a folder, and system programs that only record each call.
struct Machine(Folder);

impl Machine {
    fn new(name: &str, files: &[(&str, &str)]) -> Machine {
        let machine = Machine(Folder::new(&format!("setup-{name}")));
        let log = machine.0.join("called");
        for program in ["systemctl", "usermod", "gpasswd", "modprobe"] {
            let path = machine.put(
                &format!("stubs/{program}"),
                &format!("#!/bin/sh\necho \"{program} $*\" >> {}\n", log.display()),
            );
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        for unit in ["ganglion", "ganglion-guard"] {
            let text = std::fs::read_to_string(format!("systemd/{unit}.service")).unwrap();
            machine.put(&format!("root/usr/lib/systemd/system/{unit}.service"), &text);
        }
        machine.put("root/etc/group", "ganglion:x:988:\n");
        machine.put("root/var/lib/.keep", "");
        files.iter().for_each(|(path, content)| drop(machine.put(&format!("root/{path}"), content)));
        machine
    }

    fn put(&self, path: &str, content: &str) -> PathBuf {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// `ganglion setup` with these arguments.
    fn setup(&self, arguments: &[&str]) -> Output {
        let root = self.root().display().to_string();
        let mut command = ganglion(&[&["setup", "--root", &root], arguments].concat());
        command.env("PATH", self.0.join("stubs")).env("SUDO_USER", "ann").stdin(std::process::Stdio::null());
        command.output().expect("the program starts")
    }

    fn called(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join("called")).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }
}

fn pi(name: &str) -> Machine {
    Machine::new(
        name,
        &[
            ("proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0"),
            ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.5\0"),
            ("proc/sys/kernel/random/boot_id", "first\n"),
            ("boot/firmware/config.txt", "#dtparam=i2c_arm=on\ndtparam=audio=on\n"),
        ],
    )
}

fn object(output: &Output) -> Value {
    serde_json::from_str(out(output).lines().last().expect("a last line")).expect("JSON")
}

fn file(machine: &Machine, path: &str) -> Option<String> {
    std::fs::read_to_string(machine.root().join(path)).ok()
}

#[test]
fn without_yes_or_a_terminal_setup_only_shows_its_plan() {
    let pi = pi("plan");
    let shown = pi.setup(&["--board", "picarx-v4"]);
    assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
    let text = out(&shown);
    for words in [
        "Raspberry Pi 4",
        "    + dtparam=i2c_arm=on\n",
        "    why: ",
        "This needs a reboot",
        "Nothing was changed",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!((pi.called(), file(&pi, "etc/ganglion/board.toml")), (vec![], None));
    let json = object(&pi.setup(&["--board", "picarx-v4", "--json"]));
    assert_eq!(
        (&json["schema"], &json["state"], &json["needs_reboot"]),
        (&1.into(), &"planned".into(), &true.into())
    );
    assert_eq!(json["changes"][0]["path"], "/etc/ganglion/board.toml");
}

#[test]
fn setup_announces_its_reboot_and_can_be_undone() {
    let pi = pi("apply");
    let done = pi.setup(&["--board", "picarx-v4", "--yes", "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert!(out(&done).contains("sudo reboot"), "{}", out(&done));
    assert_eq!(object(&done)["state"], "reboot-pending");
    assert_eq!(pi.called(), ["usermod -aG ganglion ann", "systemctl daemon-reload"], "nothing is started");
    assert!(file(&pi, "boot/firmware/config.txt").unwrap().starts_with("dtparam=i2c_arm=on\n"));
    pi.put("root/etc/group", "ganglion:x:988:ann\n");
    pi.put("root/proc/sys/kernel/random/boot_id", "second\n");
    let again = pi.setup(&["--yes", "--json"]);
    assert!(out(&again).contains("Nothing to do"), "{}", out(&again));
    assert_eq!(
        (object(&again)["state"].as_str(), object(&again)["changes"].as_array().unwrap().len()),
        (Some("ready"), 0)
    );
    let undone = pi.setup(&["--undo", "--yes", "--json"]);
    assert_eq!(object(&undone)["left_alone"], Value::Array(vec![]), "{}", out(&undone));
    assert_eq!(file(&pi, "boot/firmware/config.txt").unwrap(), "#dtparam=i2c_arm=on\ndtparam=audio=on\n");
    assert!(!Path::new(&pi.root().join("etc/ganglion")).exists());
    assert!(pi.called().contains(&"gpasswd -d ann ganglion".to_string()), "{:?}", pi.called());
}

#[test]
fn setup_exits_78_on_an_unknown_machine_without_changes() {
    let pc = Machine::new("pc", &[("sys/class/dmi/id/product_name", "Desk 3000\n")]);
    let refused = pc.setup(&["--yes", "--json"]);
    assert_eq!((refused.status.code(), err(&refused).lines().count()), (Some(78), 1), "{}", err(&refused));
    let text = out(&refused);
    assert!(text.contains("Desk 3000") && text.contains("inherits = \"generic-linux\""), "{text}");
    assert!(object(&refused)["board"].is_null(), "the object is the last line: {text}");
    let several = pi("several").setup(&["--yes"]);
    assert_eq!(several.status.code(), Some(78));
    assert!(err(&several).contains("picarx-v4, picarx-v5"), "{}", err(&several));
    assert_eq!((pc.called(), file(&pc, "etc/ganglion/board.toml")), (vec![], None));
}
