//! Improves a machine's timing. This is the part of a setup that `doctor --fix` also proposes on its own:
//! actions with their reasons, and advice where the user has to decide.
//!
//! All paths are below `root`, so that tests see every byte. A file that already has the wanted content is
//! not a change, so a second run does nothing.

mod core;

use super::action::{SetupAction, SetupActionError, groups_of};
use super::files::{names, text};
use super::programs::OnPath;
use crate::base::plan::Board;
use serde::Serialize;
use std::path::Path;

/// A unit, because a line in tmpfiles.d would come too early: raspi-config.service of Raspberry Pi OS sets
/// 'ondemand' at boot (RPi-Distro/raspi-config, debian/raspi-config.init), and nvpmodel.service sets a
/// Jetson's power mode.
const GOVERNOR_UNIT: &str = "\
# Written by 'ganglion setup' (which takes it back with --undo) or 'ganglion doctor --fix --yes'. By hand: remove
# this file and the link to it in multi-user.target.wants.
[Unit]
Description=Full clock for the cores of this robot
After=raspi-config.service nvpmodel.service
Before=ganglion.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor'
StandardOutput=null

[Install]
WantedBy=multi-user.target
";
const GOVERNOR_PATH: &str = "etc/systemd/system/ganglion-governor.service";
const GOVERNOR_LINK: &str = "etc/systemd/system/multi-user.target.wants/ganglion-governor.service";

/// The package's unit has these lines; this file is for a unit that was written by hand.
const SERVICE_LIMITS: &str = "\
# Written by 'ganglion setup' or 'ganglion doctor --fix --yes'.
[Service]
LimitRTPRIO=99
LimitMEMLOCK=infinity
";
const SERVICE_PATH: &str = "etc/systemd/system/ganglion.service.d/60-limits.conf";
const SERVICE_UNITS: [&str; 3] = [
    "etc/systemd/system/ganglion.service",
    "usr/lib/systemd/system/ganglion.service",
    "lib/systemd/system/ganglion.service",
];

const USER_PATH: &str = "etc/security/limits.d/60-ganglion.conf";

/// The proposal: actions with their reasons, and advice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Actions, each with its reason.
    pub actions: Vec<(SetupAction, &'static str)>,
    /// What the user has to decide.
    pub advice: Vec<String>,
}

/// What the machine in `root` lacks, for `board` and for programs that `user` starts by hand.
pub fn plan(root: &Path, board: Option<&Board>, user: &str) -> Plan {
    let mut plan = Plan::default();
    governor(root, &mut plan);
    limits(root, user, &mut plan);
    core::core(root, board, &mut plan);
    plan
}

fn governor(root: &Path, plan: &mut Plan) {
    const WHY: &str = "a core that clocks down while idle is slow at first: slots after a pause are late";
    let folder = "sys/devices/system/cpu";
    let files = names(root, folder).into_iter().filter(|name| is_core(name));
    let files: Vec<String> = files.map(|name| format!("{folder}/{name}/cpufreq/scaling_governor")).collect();
    let governors: Vec<(&String, String)> =
        files.iter().filter_map(|file| Some((file, text(root, file)?))).collect();
    // A machine that always runs at full clock needs no unit. But if the unit exists, it may be what sets the
    // clock, so it is kept up to date.
    let lasts = std::fs::read_to_string(root.join(GOVERNOR_PATH)).is_ok();
    if governors.iter().all(|(_, governor)| governor == "performance") && !lasts {
        return;
    }
    plan.write(root, GOVERNOR_PATH, GOVERNOR_UNIT, WHY);
    let to = "../ganglion-governor.service".to_string();
    if std::fs::read_link(root.join(GOVERNOR_LINK)).ok().as_deref() != Some(Path::new(&to)) {
        plan.actions
            .push((SetupAction::Link { path: GOVERNOR_LINK.into(), to }, "starts the unit at each boot"));
    }
    for (file, _) in governors.iter().filter(|(_, governor)| governor != "performance") {
        let action = SetupAction::Set { path: file.into(), content: "performance".to_string() };
        plan.actions.push((action, "takes effect now, without a reboot"));
    }
}

fn is_core(name: &str) -> bool {
    name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok())
}

fn limits(root: &Path, user: &str, plan: &mut Plan) {
    let unit = SERVICE_UNITS.iter().find_map(|path| text(root, path));
    let has = |key: &str| {
        let folder = "etc/systemd/system/ganglion.service.d";
        let drop_ins =
            names(root, folder).into_iter().filter_map(|name| text(root, &format!("{folder}/{name}")));
        let own = format!("{folder}/60-limits.conf");
        let others = drop_ins.filter(|said| Some(said) != text(root, &own).as_ref());
        unit.iter().cloned().chain(others).any(|said| said.lines().any(|line| line.starts_with(key)))
    };
    if unit.is_some() && !(has("LimitRTPRIO=") && has("LimitMEMLOCK=")) {
        let why = "the service's unit does not allow its threads real-time priority and locked memory";
        plan.write(root, SERVICE_PATH, SERVICE_LIMITS, why);
    }
    if user == "root" || granted(root, user) {
        return;
    }
    let content = format!(
        "# Written by 'ganglion setup' or 'ganglion doctor --fix --yes': real-time priority and locked memory for programs \
         started by hand.\n\
         {user} - rtprio 99\n{user} - memlock unlimited\n"
    );
    let why = "programs that this user starts by hand may not use real-time priority or lock memory; \
               takes effect at the next login";
    plan.write(root, USER_PATH, &content, why);
}

/// Whether another pam_limits file grants both limits to `user` (limits.conf(5)).
fn granted(root: &Path, user: &str) -> bool {
    let groups: Vec<String> = groups_of(root, user).iter().map(|name| format!("@{name}")).collect();
    let folder = "etc/security/limits.d";
    let files = names(root, folder).into_iter().map(|name| format!("{folder}/{name}"));
    let files = files.filter(|path| path != USER_PATH).chain(["etc/security/limits.conf".to_string()]);
    let lines: Vec<String> = files
        .filter_map(|path| text(root, &path))
        .flat_map(|said| said.lines().map(str::to_string).collect::<Vec<_>>())
        .collect();
    let grants = |item: &str, enough: &dyn Fn(&str) -> bool| {
        lines.iter().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [who, _, what, value, ..] = words[..] else { return false };
            let is_his = who == user || who == "*" || groups.iter().any(|group| group == who);
            is_his && what == item && enough(value)
        })
    };
    // The guard's priority is eight above the tick's, which is usually 80.
    let rtprio = |value: &str| value.parse::<u32>().is_ok_and(|value| value >= 88);
    grants("rtprio", &rtprio) && grants("memlock", &|value| ["unlimited", "infinity", "-1"].contains(&value))
}

impl Plan {
    /// Writes a file unless it already has that content.
    fn write(&mut self, root: &Path, path: &str, content: &str, why: &'static str) {
        if std::fs::read_to_string(root.join(path)).ok().as_deref() != Some(content) {
            self.actions.push((SetupAction::Write { path: path.into(), content: content.to_string() }, why));
        }
    }

    /// Carries out everything in order below `root`; stops at the first failure.
    pub fn carry_out(&self, root: &Path) -> Result<usize, SetupActionError> {
        self.actions.iter().try_for_each(|(action, _)| action.perform(root, &OnPath))?;
        Ok(self.actions.len())
    }
}

/// The user who started this process; under sudo, the user who called sudo.
pub fn user() -> String {
    let names = ["SUDO_USER", "USER"].map(|name| std::env::var(name).unwrap_or_default());
    user_of(names)
}

/// The first valid name in `names`, otherwise `root`. It becomes a word in a file that programs of root read.
fn user_of(names: [String; 2]) -> String {
    let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let is_name = |name: &String| !name.is_empty() && is_word(name) && !name.starts_with('-');
    names.into_iter().find(is_name).unwrap_or_else(|| "root".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::device::sysfs::tree::Tree;
    use std::io::ErrorKind;

    /// A factory-fresh Raspberry Pi: 'ondemand', no limits, no isolated core.
    fn pi() -> Tree {
        let tree = Tree::of(&[
            ("proc/device-tree/compatible", "raspberrypi,5-model-b\0brcm,bcm2712\0"),
            ("sys/devices/system/cpu/isolated", "\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/x", ""),
            ("boot/firmware/cmdline.txt", "console=tty1 root=PARTUUID=1\n"),
            ("etc/group", "root:x:0:\ngpio:x:986:ann\n"),
            ("etc/security/limits.conf", "# nothing\n"),
        ]);
        for core in 0..4 {
            tree.put(&format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"), "ondemand\n");
        }
        tree
    }
    fn read(tree: &Tree, path: &str) -> String {
        std::fs::read_to_string(tree.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn applying_writes_the_proposal_and_a_repeat_changes_nothing() {
        let tree = pi();
        let proposed = plan(tree.root(), None, "ann");
        assert_eq!(proposed.actions.len(), 7, "{proposed:#?}");
        assert!(!tree.root().join(GOVERNOR_PATH).exists(), "a proposal writes nothing");
        let advice =
            "append ' isolcpus=3 nohz_full=3 rcu_nocbs=3' to the only line of /boot/firmware/cmdline.txt";
        assert!(proposed.advice.len() == 1 && proposed.advice[0].contains(advice), "{:?}", proposed.advice);
        assert_eq!(proposed.carry_out(tree.root()).unwrap(), 7);
        assert_eq!(read(&tree, GOVERNOR_PATH), GOVERNOR_UNIT);
        let link = std::fs::read_link(tree.root().join(GOVERNOR_LINK)).unwrap();
        assert_eq!(link, Path::new("../ganglion-governor.service"));
        assert_eq!(read(&tree, GOVERNOR_LINK), GOVERNOR_UNIT, "the link points to the unit");
        let limits = "# Written by 'ganglion setup' or 'ganglion doctor --fix --yes': real-time priority and locked memory for \
                      programs started by hand.\nann - rtprio 99\nann - memlock unlimited\n";
        assert_eq!(read(&tree, USER_PATH), limits);
        for core in 0..4 {
            let governor = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
            assert_eq!(read(&tree, &governor), "performance");
        }
        assert_eq!(
            read(&tree, "boot/firmware/cmdline.txt"),
            "console=tty1 root=PARTUUID=1\n",
            "advice is not carried out"
        );
        assert_eq!(plan(tree.root(), None, "ann").actions, []);
        // After a reboot with another governor, only the running kernel is changed again.
        tree.put("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "schedutil\n");
        let again = plan(tree.root(), None, "ann").actions;
        assert!(
            matches!(&again[..], [(SetupAction::Set { path, .. }, _)] if path.to_string_lossy().contains("cpu2")),
            "{again:?}"
        );
    }

    /// Runs the unit's command line in `sh`, as systemd would, but with the `/sys` of the simulated machine.
    #[test]
    fn the_units_command_sets_the_governor() {
        let tree = pi();
        let command =
            GOVERNOR_UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=/bin/sh -c '")).unwrap();
        let command = command.strip_suffix('\'').unwrap();
        assert!(!command.contains(['$', '%', '\'']), "systemd would expand these itself: {command}");
        let there = command.replace("/sys/", &format!("{}/sys/", tree.root().display()));
        assert!(std::process::Command::new("sh").args(["-c", &there]).status().unwrap().success());
        for core in 0..4 {
            let governor = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
            assert_eq!(read(&tree, &governor), "performance\n");
        }
    }

    #[test]
    fn a_tuned_machine_is_left_alone() {
        let tree = pi();
        for core in 0..4 {
            tree.put(&format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"), "performance\n");
        }
        tree.put("sys/devices/system/cpu/isolated", "3\n");
        tree.put("etc/security/limits.d/audio.conf", "@gpio - rtprio 95\n@gpio - memlock unlimited\n");
        tree.put(
            "usr/lib/systemd/system/ganglion.service",
            "[Service]\nLimitRTPRIO=99\nLimitMEMLOCK=infinity\n",
        );
        assert_eq!(plan(tree.root(), None, "ann"), Plan::default());
        let bob: Vec<_> = plan(tree.root(), None, "bob").actions;
        assert!(
            matches!(&bob[..], [(SetupAction::Write { path, .. }, _)] if path == Path::new(USER_PATH)),
            "not a member: {bob:?}"
        );
        assert_eq!(plan(tree.root(), None, "root").actions, [], "root has no such limit");
        assert_eq!(plan(Tree::of(&[]).root(), None, "root"), Plan::default(), "an empty tree needs nothing");
    }

    #[test]
    fn service_limits_come_from_its_unit_or_a_drop_in() {
        let tree = Tree::of(&[(
            "etc/systemd/system/ganglion.service",
            "[Service]\nExecStart=/usr/bin/ganglion run\n",
        )]);
        let first = plan(tree.root(), None, "root");
        assert_eq!(first.actions.len(), 1);
        first.carry_out(tree.root()).unwrap();
        assert_eq!(read(&tree, SERVICE_PATH), SERVICE_LIMITS);
        assert_eq!(plan(tree.root(), None, "root").actions, []);
        let other = Tree::of(&[
            ("etc/systemd/system/ganglion.service", "[Service]\nLimitRTPRIO=99\n"),
            ("etc/systemd/system/ganglion.service.d/memory.conf", "[Service]\nLimitMEMLOCK=infinity\n"),
        ]);
        assert_eq!(plan(other.root(), None, "root").actions, []);
    }

    /// A file is where a folder should be, so that writing below it fails for every user, even for root.
    #[test]
    fn a_failure_names_the_file_and_stops_the_rest() {
        let tree = pi();
        tree.put("etc/systemd/system", "no folder");
        let refused = plan(tree.root(), None, "ann").carry_out(tree.root()).unwrap_err();
        let SetupActionError::File(path, error) = refused else { panic!("{refused}") };
        assert_eq!(path, Path::new("/").join(GOVERNOR_PATH));
        assert!(matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::AlreadyExists), "{error}");
        assert!(!tree.root().join(USER_PATH).exists());
        assert_eq!(read(&tree, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), "ondemand\n");
    }

    #[test]
    fn the_user_is_the_sudo_caller_and_a_single_word() {
        for (sudo, own, expected) in [
            ("ann", "root", "ann"),
            ("", "bob", "bob"),
            ("", "", "root"),
            ("x - rtprio 99\n*", "bob", "bob"),
            ("-x", "a b", "root"),
            ("@gpio", "*", "root"),
        ] {
            assert_eq!(user_of([sudo.to_string(), own.to_string()]), expected, "{sudo:?} {own:?}");
        }
    }

    #[test]
    fn each_action_shows_its_path_and_content() {
        let action = SetupAction::Write { path: "etc/x".into(), content: "a\nb\n".to_string() };
        assert_eq!(action.to_string(), "write /etc/x:\n    | a\n    | b");
    }
}
