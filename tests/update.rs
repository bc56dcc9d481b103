//! `ganglion update` on a simulated machine: a refusal changes nothing, a bad version is rolled back, and
//! after a power cut at any call of another program the right version runs.

mod robot;

use crate::{cli, long};
use robot::Robot;
use std::fs;

/// The calls so far that change the machine.
fn changes(robot: &Robot) -> Vec<String> {
    let harmless = [
        "dpkg --print",
        "dpkg --compare",
        "dpkg --verify",
        "systemctl show --value",
        "program check",
        "program status",
    ];
    let is_harmless = |call: &String| {
        harmless.iter().any(|start| call.starts_with(start))
            || ["dpkg-deb", "dpkg-query", "ssh-keygen"].contains(&call.split(' ').next().unwrap_or_default())
    };
    robot.calls().into_iter().filter(|call| !is_harmless(call)).collect()
}

#[test]
fn a_good_version_is_committed_and_can_be_rolled_back() {
    let robot = Robot::new("good");
    let (code, end) = robot.flash(&robot.package("0.2.0", ""));
    assert_eq!((code, end["outcome"].as_str()), (Some(0), Some("committed")), "{end}");
    let status = robot.status();
    assert_eq!(status["installed"], "0.2.0");
    assert_eq!(status["kept"], serde_json::json!(["0.1.0", "0.2.0"]));
    assert_eq!(
        (&status["unfinished"], &status["staged"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert!(robot.has("system/var/lib/ganglion/hold"), "nothing arms by itself");
    assert!(robot.has("guard-restarted") && robot.has("running"));
    assert!(robot.has("system/etc/systemd/system/ganglion-rollback.service"), "the rollback units stay");

    // The motors are stopped and the rollback is prepared before the service stops; then the files change.
    let calls = changes(&robot);
    let place = |start: &str| {
        calls.iter().position(|call| call.starts_with(start)).unwrap_or_else(|| panic!("{start}: {calls:?}"))
    };
    assert!(place("program safe-stop") < place("systemctl stop ganglion.service"));
    assert!(place("systemctl show --property LoadState") < place("systemctl stop ganglion.service"));
    assert!(place("systemctl stop ganglion.service") < place("dpkg --install"));

    let again = robot.stage(&robot.path("new 0.2.0.deb"));
    assert_eq!((again.status.code(), cli::out(&again).trim()), (Some(0), "0.2.0 is already active"));

    // Only one rollback is possible: versions cannot go back and forth.
    let back = robot.update(&["rollback"]);
    assert_eq!((back.status.code(), robot.installed().as_str()), (Some(0), "0.1.0"), "{}", cli::err(&back));
    assert_eq!(robot.update(&["rollback"]).status.code(), Some(69), "0.2.0 was left");
    assert_eq!(robot.installed(), "0.1.0");
}

#[test]
fn faulty_packages_are_refused() {
    let robot = Robot::new("refused");
    let refused = |package: &std::path::Path, code, words: &str| {
        robot.forget_calls();
        let told = robot.stage(package);
        let said = cli::err(&told);
        assert_eq!(told.status.code(), Some(code), "{words}: {said}");
        assert!(said.contains(words), "{words}: {said}");
        assert_eq!(changes(&robot), Vec::<String>::new(), "{words}");
        let left = fs::read_dir(robot.path("system/var/lib/ganglion-update")).expect("the state");
        let mut left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["history", "packages"], "{words}: nothing is left behind");
        assert_eq!(robot.status()["kept"], serde_json::json!(["0.1.0"]), "{words}");
    };
    refused(&robot.package("0.2.0", "arch=arm64\n"), 65, "arm64; this robot is amd64");
    refused(
        &robot.package("0.2.0", "board=jetson-orin-nx\n"),
        65,
        "based on sim; the package supports jetson-orin-nx",
    );
    refused(&robot.package("0.2.0", "name=other\n"), 65, "'other'");
    refused(&robot.package("0.0.9", ""), 65, "older than the installed 0.1.0");
    refused(&robot.package("0.1.0", "size=7\n"), 65, "another package of that version");
    refused(&robot.package("../0.2.0".replace('/', "_").as_str(), ""), 65, "the version may contain");
    refused(&robot.package("0.2.0", "size=900000000000\n"), 69, "MB are needed");
    let tampered = robot.package("0.2.0", "");
    fs::write(&tampered, fs::read_to_string(&tampered).unwrap() + "more\n").unwrap();
    refused(&tampered, 65, "no valid signature");
    fs::remove_file(tampered.with_extension("deb.sig")).unwrap();
    refused(&tampered, 65, "no valid signature");
    fs::write(&tampered, "truncated").unwrap();
    robot.sign(&tampered);
    refused(&tampered, 65, "not a Debian format archive");
    refused(&robot.path("absent.deb"), 69, "absent.deb");
    refused(&robot.path("system"), 69, "not a regular file");
    robot.write("system/etc/ganglion/board.toml", "bad=yes\n");
    refused(&robot.package("0.2.0", ""), 65, "rejects this robot's board file: line 1: bad");
    fs::remove_file(robot.path("system/etc/ganglion/allowed_signers")).unwrap();
    refused(&robot.package("0.2.0", ""), 78, "not set up");
}

#[test]
fn an_older_version_is_installed_on_request() {
    let robot = Robot::new("older");
    let package = robot.package("0.0.9", "");
    let staged = robot.update(&["stage", package.to_str().unwrap(), "--allow-downgrade"]);
    assert_eq!(staged.status.code(), Some(0), "{}", cli::err(&staged));
    assert_eq!(robot.update(&["trial", "--for", "1ms"]).status.code(), Some(0));
    assert_eq!(robot.installed(), "0.0.9");
}

#[test]
fn a_trial_that_may_not_start_changes_nothing() {
    let robot = Robot::new("not-now");
    let refused = |code, words: &str| {
        robot.forget_calls();
        let told = robot.update(&["trial", "--for", "1ms"]);
        let said = cli::err(&told);
        assert_eq!(told.status.code(), Some(code), "{words}: {said}");
        assert!(said.contains(words), "{words}: {said}");
        let installs = |call: &String| call.starts_with("dpkg --install") || call.contains(" stop ");
        assert!(!changes(&robot).iter().any(installs), "{words}: {:?}", changes(&robot));
        assert!(robot.has("running") && !robot.has("system/var/lib/ganglion-update/trial"), "{words}");
    };
    refused(69, "nothing is staged");
    robot.stage(&robot.package("0.2.0", ""));
    for mode in ["armed", "degraded"] {
        robot.write("mode", mode);
        refused(75, "the robot is armed");
        let staged = robot.stage(&robot.package("0.3.0", ""));
        assert_eq!(staged.status.code(), Some(75), "another package cannot be staged either");
    }
    robot.write("mode", "disarmed");
    robot.write("motors-hang", "");
    refused(75, "did not confirm their stop");
    fs::remove_file(robot.path("motors-hang")).unwrap();
    fs::remove_file(robot.path("system/var/lib/ganglion-update/packages/ganglion_0.1.0.deb")).unwrap();
    refused(78, "no way back");
    let kept = robot.path("system/var/lib/ganglion-update/packages/ganglion_0.2.0.deb");
    fs::write(&kept, fs::read_to_string(&kept).unwrap() + "more\n").unwrap();
    refused(69, "nothing is staged");
}

#[test]
fn a_bad_version_is_rolled_back_with_the_reason() {
    let bad = [
        ("starts=never\n", "did not become ready (exit-code)"),
        ("after=dies\n", "died during the trial"),
        ("answers=never\n", "does not answer"),
        ("postinst=breaks\n", "postinst subprocess failed"),
        ("files=damaged\n", "differ from the package"),
        ("cause=\"guard-lost\"\n", "it reports 'guard-lost'"),
        ("p99_us=10001\n", "targets.cycle_p99_ms is 10 ms, measured 10.0 ms"),
    ];
    // A version that never answers is given half a minute, so only the long form tries this.
    let is_tried =
        |(changes, _): &(&str, &str)| !changes.starts_with("answers") || long::or_in_full(false, true);
    // Side by side: a robot waits most of the time.
    std::thread::scope(|scope| {
        for (changes, words) in bad.into_iter().filter(is_tried) {
            scope.spawn(move || bad_version_is_rolled_back(changes, words));
        }
    });
}

/// Flashes a version with these `changes`: the robot returns to the old version, and its reason contains
/// `words`.
fn bad_version_is_rolled_back(changes: &str, words: &str) {
    let robot = Robot::new(&changes.replace(['=', '\n', '"'], "-"));
    let (code, end) = robot.flash(&robot.package("0.2.0", changes));
    assert_eq!((code, end["outcome"].as_str()), (Some(75), Some("rolled-back")), "{changes}: {end}");
    let why = end["why"].as_str().unwrap_or_default();
    assert!(why.contains(words), "{changes}: {why}");
    assert_eq!(robot.installed(), "0.1.0", "{changes}");
    assert!(robot.has("running") && robot.has("system/var/lib/ganglion/hold"), "{changes}");
    assert!(!robot.has("system/var/lib/ganglion-update/trial"), "{changes}");
    let again = robot.update(&["rollback"]).status.code();
    assert_eq!(again, Some(69), "{changes}: there is nothing before 0.1.0");
}

#[test]
fn if_neither_version_runs_the_motors_stay_stopped() {
    let robot = Robot::new("both");
    fs::write(
        robot.path("installed"),
        fs::read_to_string(robot.path("installed")).unwrap().replace("starts=", "starts=never"),
    )
    .unwrap();
    let first = robot.package("0.1.0", "starts=never\n");
    assert_eq!(robot.update(&["keep", first.to_str().unwrap()]).status.code(), Some(0));
    let (code, end) = robot.flash(&robot.package("0.2.0", "starts=never\n"));
    assert_eq!((code, end["outcome"].as_str()), (Some(70), Some("both-bad")), "{end}");
    assert!(!robot.has("running"));
    assert_eq!(robot.status()["last"]["phase"], "both-bad");
}

/// Flashes a version; returns how often systemd reloads its units for that, which it does only before the
/// runtime stops.
fn reloads(robot: &Robot, version: &str) -> usize {
    robot.forget_calls();
    let (code, end) = robot.flash(&robot.package(version, ""));
    assert_eq!(code, Some(0), "{version}: {end}");
    let calls = robot.calls();
    let stop = calls.iter().position(|call| call == "systemctl stop ganglion.service").expect("the stop");
    let is_reload = |call: &&String| *call == "systemctl daemon-reload";
    assert_eq!(calls[stop..].iter().find(is_reload), None, "{version}");
    calls[..stop].iter().filter(is_reload).count()
}

#[test]
fn systemd_reloads_only_if_it_has_an_older_rollback_unit() {
    let robot = Robot::new("reload");
    let units = robot.path("system/etc/systemd/system");
    let read = |name: &str| fs::read_to_string(units.join(name)).expect("a unit");
    robot.write("old-systemd", "");
    assert_eq!(reloads(&robot, "0.2.0"), 1, "it does not find the new unit by itself");
    assert_eq!(reloads(&robot, "0.2.1"), 0, "the units stay");
    fs::remove_file(robot.path("old-systemd")).unwrap();
    let (died, others) =
        ("ganglion-update-died.service", ["ganglion-rollback.service", "ganglion.service.d/90-trial.conf"]);
    let written = [died, others[0], others[1]].map(read);
    let link = units.join("multi-user.target.wants/ganglion-rollback.service");
    for (name, [differs, is_missing]) in others.iter().zip([["0.3.0", "0.3.1"], ["0.3.2", "0.3.3"]]) {
        fs::write(units.join(name), "of another version\n").unwrap();
        assert_eq!(reloads(&robot, differs), 0, "only a boot reads {name}");
        fs::remove_file(units.join(name)).unwrap();
        fs::remove_file(&link).unwrap();
        assert_eq!(reloads(&robot, is_missing), 0, "only a boot reads {name} and the link");
    }
    fs::write(units.join(died), "of another version\n").unwrap();
    assert_eq!(reloads(&robot, "0.5.0"), 1, "systemd has the other one");
    fs::remove_file(units.join(died)).unwrap();
    assert_eq!(reloads(&robot, "0.5.1"), 1, "systemd has the one that is gone");
    assert_eq!([died, others[0], others[1]].map(read), written);
    assert_eq!(fs::read_link(&link).unwrap().to_str(), Some("../ganglion-rollback.service"));
    fs::remove_dir_all(&units).unwrap();
    fs::remove_file(robot.path("loaded")).unwrap();
    assert_eq!(reloads(&robot, "0.5.2"), 0, "systemd reads a unit that it does not have");
}

#[test]
fn a_power_cut_at_any_call_ends_with_the_right_version() {
    // The short form cuts only every sixth call and the last one.
    power_cuts(false, long::or_in_full(6, 1));
}

#[test]
fn a_power_cut_in_a_second_update_ends_with_the_right_version() {
    power_cuts(true, long::or_in_full(12, 1));
}

/// Cuts the power at every call of a trial whose number is a multiple of `step`, counted from the first one,
/// at the last call, and after the end. No program is called after the commit.
fn power_cuts(is_updated: bool, step: usize) {
    let (robot, [before, new]) = Robot::staged("uncut", is_updated);
    assert_eq!(robot.update(&["run-trial", "--for", "1ms"]).status.code(), Some(0));
    let count = robot.calls().len();
    assert!(count > 20, "{count} calls");
    robot.boot();
    assert_eq!((robot.installed().as_str(), robot.has("running")), (new, true), "after the commit");
    for cut in (1..count).step_by(step).chain([count]) {
        for after in [false, true] {
            let (robot, _) = Robot::staged(&format!("cut-{is_updated}-{cut}-{after}"), is_updated);
            robot.write("cut", &cut.to_string());
            if after {
                robot.write("cut-after", "");
            }
            let killed = robot.update(&["run-trial", "--for", "1ms"]);
            assert_eq!(killed.status.code(), None, "the power cut at call {cut} kills it");
            let place = format!(
                "cut at call {cut}, {}: {:?}",
                if after { "after" } else { "before" },
                robot.calls().last()
            );
            robot.boot();
            let status = robot.status();
            assert_eq!(
                (&status["installed"], &status["state"]),
                (&before.into(), &"installed".into()),
                "{place}"
            );
            assert_eq!(status["unfinished"], serde_json::Value::Null, "{place}");
            assert!(robot.has("running"), "{place}");
            let changed = status["history"]
                .as_array()
                .unwrap()
                .iter()
                .any(|line| line.as_str().unwrap().contains("installing"));
            assert!(robot.has("system/var/lib/ganglion/hold") || !changed, "{place}: the hold");
            // The robot can then be updated again.
            if cut % 5 == 1 {
                let (code, end) = robot.flash(&robot.package(new, ""));
                assert_eq!(code, Some(0), "{place}: {end}");
            }
        }
    }
}

/// The number, counted from 1, of the first call of an undisturbed trial that starts with `call`.
fn number_of(call: &str) -> usize {
    let robot = Robot::new("number");
    robot.stage(&robot.package("0.2.0", ""));
    robot.forget_calls();
    robot.update(&["run-trial", "--for", "1ms"]);
    robot.calls().iter().position(|one| one.starts_with(call)).expect("the call") + 1
}

#[test]
fn an_interrupted_repair_is_repeated_at_most_five_times() {
    let robot = Robot::new("repair");
    robot.stage(&robot.package("0.2.0", ""));
    robot.forget_calls();
    robot.write("cut", &number_of("dpkg --install").to_string());
    robot.write("cut-after", "");
    robot.update(&["run-trial", "--for", "1ms"]);
    assert_eq!(robot.installed(), "0.2.0");
    for attempt in 1..=6 {
        fs::remove_file(robot.path("system/run/ganglion-update.lock")).unwrap();
        robot.forget_calls();
        // The recovery first asks for the installed version and its integrity; the third call would replace
        // that version.
        robot.write("cut", "3");
        let told = robot.update(&["recover", "--boot"]);
        let _ = fs::remove_file(robot.path("cut"));
        let status = robot.status();
        if attempt <= 5 {
            assert_eq!((told.status.code(), status["unfinished"]["tries"].as_u64()), (None, Some(attempt)));
        } else {
            assert_eq!(status["last"]["phase"], "both-bad", "{status}");
            assert!(status["last"]["why"].as_str().unwrap().contains("power lost"), "{status}");
        }
    }
}

#[test]
fn a_killed_updater_is_recovered() {
    let robot = Robot::new("killed");
    robot.stage(&robot.package("0.2.0", ""));
    robot.forget_calls();
    robot.write("cut", &number_of("systemctl start").to_string());
    robot.update(&["run-trial", "--for", "1ms"]);
    let unit =
        fs::read_to_string(robot.path("system/etc/systemd/system/ganglion-update-died.service")).unwrap();
    assert!(unit.contains("rescue update recover\n"), "{unit}");
    let back = robot.update(&["recover"]);
    assert_eq!(back.status.code(), Some(0), "{}", cli::err(&back));
    assert!(cli::out(&back).contains("0.1.0 to 0.2.0: rolled back: the program that ran the update died"));
    assert_eq!(robot.installed(), "0.1.0");
    assert!(robot.has("running"));
}

#[test]
fn two_updates_at_once_are_refused() {
    let robot = Robot::new("two");
    let package = robot.package("0.2.0", "");
    let lock = fs::File::create(robot.path("system/run/ganglion-update.lock")).unwrap();
    lock.lock().unwrap();
    let refused = robot.stage(&package);
    assert_eq!(refused.status.code(), Some(75));
    assert!(cli::err(&refused).contains("another update is in progress"));
    drop(lock);
    assert_eq!(robot.stage(&package).status.code(), Some(0));
}

#[test]
fn a_committed_version_that_keeps_dying_is_rolled_back() {
    let robot = Robot::new("loop");
    for _ in 0..9 {
        robot.service_ends("exit-code");
    }
    assert_eq!(robot.status()["last"], serde_json::Value::Null, "a first installation has nothing before it");
    assert_eq!(robot.flash(&robot.package("0.2.0", "")).0, Some(0));
    for _ in 0..3 {
        (0..4).for_each(|_| robot.service_ends("exit-code"));
        robot.service_ends("success");
    }
    assert_eq!(robot.installed(), "0.2.0", "never five in a row");
    (0..4).for_each(|_| robot.service_ends("signal"));
    assert_eq!(robot.installed(), "0.2.0");
    robot.service_ends("watchdog");
    let status = robot.status();
    assert_eq!(
        (&status["installed"], &status["last"]["phase"]),
        (&"0.1.0".into(), &"returned".into()),
        "{status}"
    );
    assert_eq!(status["last"]["why"], "it died 5 times in a row soon after its start");
    (0..9).for_each(|_| robot.service_ends("exit-code"));
    assert_eq!(robot.installed(), "0.1.0", "and not rolled back any further");
}
