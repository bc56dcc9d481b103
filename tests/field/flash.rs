//! `scripts/flash` brings a package to robots as planned, or refuses to before anything changes.

use super::scene::{FRESH, PACKAGE_BYTES, Scene, digest};
use crate::cli::{err, out};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

const ROBOT: &str = "pi@car-7";
const TARGET: [&str; 2] = ["--target", ROBOT];

/// Checks that the run ended with `code`; returns both of its output streams.
fn ended(output: &Output, code: i32) -> String {
    let said = format!("{}{}", out(output), err(output));
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[test]
fn a_robot_receives_the_whole_package_and_commits_it() {
    let scene = Scene::new("commits", &[ROBOT]);
    let said = ended(&scene.flash(&TARGET), 0);
    let staged = format!("stage {} -----BEGIN SSH SIGNATURE----- ", digest(&scene.deb()));
    assert_eq!(scene.did(ROBOT), [staged.as_str(), "trial --for 60s"]);
    for shown in
        ["Raspberry Pi 5", "glibc 2.36 (needs 2.31)", "picarx-v4", "0.1.0 -> 0.2.0", "installing   4 s"]
    {
        assert!(said.contains(shown), "{shown}: {said}");
    }
    assert!(said.contains("pi@car-7  committed (copy "), "{said}");
    // A second run: the version is installed, so there is nothing to copy, stage or ask.
    let deb = scene.deb().display().to_string();
    let said = ended(&scene.run("flash", &[&[deb.as_str()], &TARGET[..]].concat()), 0);
    assert!(said.contains("already active"), "{said}");
    assert_eq!(scene.did(ROBOT).len(), 2);
    assert_eq!(scene.calls(ROBOT).iter().filter(|kind| *kind == "copy").count(), 1);
}

#[test]
fn an_interrupted_copy_resumes_where_it_stopped() {
    let scene = Scene::new("resume", &[ROBOT]);
    // 100 000 bytes arrive, then the connection breaks; the second copy is kept, so that its bytes can be
    // counted.
    scene.write(ROBOT, "on/copy.1", "head -c 100000 | pass; exit 255");
    scene.write(ROBOT, "on/copy.2", "tee \"$robot/second\" | pass");
    let said = ended(&scene.flash(&TARGET), 0);
    assert!(said.contains("resuming an earlier copy at 33 %"), "{said}");
    assert_eq!(scene.calls(ROBOT)[..5], ["facts", "where", "copy", "where", "copy"]);
    let second = fs::metadata(scene.robot(ROBOT).join("second")).expect("the rest").len() as usize;
    assert_eq!(second, PACKAGE_BYTES + 8 - 100_000);
    assert!(scene.did(ROBOT)[0].contains(&digest(&scene.deb())), "{:?}", scene.did(ROBOT));
}

#[test]
fn a_partial_copy_of_another_package_is_not_resumed() {
    let scene = Scene::new("prefix", &[ROBOT]);
    scene.write(ROBOT, "on/copy.1", "head -c 100000 | pass; exit 255");
    // The partial file has the right length, but other content.
    scene.write(
        ROBOT,
        "on/where.2",
        "part=$(find \"$robot/home\" -name '*.part'); head -c 100000 /dev/zero > \"$part\"; pass",
    );
    let said = ended(&scene.flash(&TARGET), 0);
    assert!(said.contains("not the beginning of this package; starting over"), "{said}");
    assert!(scene.did(ROBOT)[0].contains(&digest(&scene.deb())), "{:?}", scene.did(ROBOT));
}

#[test]
fn a_corrupted_copy_is_repeated_then_given_up() {
    let scene = Scene::new("mismatch", &[ROBOT]);
    // The robot notices by the signature, which it verifies before it does anything else.
    let whole = digest(&scene.deb());
    let verify = format!(
        "[ \"$(sha256sum < \"$3\" | cut -c 1-64)\" = {whole} ] ||\n\
         {{ echo no valid signature >&2; exit 65; }}\n\
         echo staged >> \"$ROBOT/did\""
    );
    scene.write(ROBOT, "answers/update-stage", &verify);
    scene.write(ROBOT, "on/copy.1", "tr 'a' 'b' | pass");
    let said = ended(&scene.flash(&TARGET), 0);
    assert!(said.contains("another SHA-256") && !said.contains("valid signature"), "{said}");
    let again = ["facts", "where", "copy", "stage", "where", "copy", "stage"];
    assert_eq!(scene.calls(ROBOT), [&again[..], &["trial"]].concat());
    assert_eq!(scene.did(ROBOT)[0], "staged", "the second copy");

    let scene = Scene::new("mismatch-twice", &[ROBOT]);
    scene.write(ROBOT, "answers/update-stage", &verify);
    scene.write(ROBOT, "on/copy", "tr 'a' 'b' | pass");
    let said = ended(&scene.flash(&TARGET), 69);
    assert!(said.contains("another SHA-256") && said.contains("twice"), "{said}");
    assert_eq!(scene.calls(ROBOT), again);
    assert_eq!(scene.did(ROBOT), [""; 0], "nothing was staged");
}

/// Robots that are refused: a file of the robot, its text, the exit code, and parts of the message.
const REFUSALS: &[(&str, &str, i32, &[&str])] = &[
    ("architecture", "amd64", 65, &["for arm64", "amd64"]),
    ("etc/ganglion/board.toml", "inherits = \"scitos-g5\"\n", 65, &["scitos-g5", "picarx-v4 sim"]),
    ("glibc", "2.28", 65, &["glibc 2.31", "2.28"]),
    ("driver", "470.42.01", 65, &["525.60", "470.42.01"]),
    ("free_kib", "9000", 69, &["too little space", "8.7 MiB free", "needed"]),
    ("sudo-asks", "", 77, &["sudo", "password"]),
    ("status.json", "{\"mode\":\"armed\"}", 75, &["armed", "ganglion disarm"]),
    ("status.json", "{\"mode\":\"degraded\"}", 75, &["degraded"]),
    ("update.json", "{\"schema\":1,\"installed\":\"0.3.0\",\"unfinished\":null}", 65, &["0.2.0", "0.3.0"]),
    (
        "update.json",
        "{\"schema\":1,\"installed\":\"0.1.0\",\"unfinished\":{\"phase\":\"trying\",\"to\":\"0.2.0\"}}",
        75,
        &["in progress", "trying, to 0.2.0"],
    ),
    ("answers/update-status", "echo no such verb >&2; exit 64", 69, &["not set up", "ganglion setup"]),
    // An answer that breaks off in the middle does not count.
    ("on/facts", "pass | head -n 8", 69, &["broke off"]),
    (
        "on/facts",
        "echo 'pi@car-7: Permission denied (publickey,password).' >&2; exit 255",
        77,
        &["ssh-copy-id"],
    ),
    ("on/facts", "echo 'Host key verification failed.' >&2; exit 255", 77, &["host key"]),
    ("on/facts", "echo 'ssh: connect: No route to host' >&2; exit 255", 69, &["unreachable", "No route"]),
];

#[test]
fn each_refusal_has_its_exit_code_and_changes_nothing() {
    // The good robot that is listed before the refused one is not touched either.
    for (file, text, code, says) in REFUSALS {
        let scene = Scene::new("refusal", &[ROBOT, "good"]);
        scene.write(ROBOT, file, text);
        let said = ended(&scene.flash(&["--target", "good", "--target", ROBOT]), *code);
        for part in *says {
            assert!(said.contains(part), "{file}: {part}: {said}");
        }
        assert!(said.contains("nothing was changed"), "{said}");
        for robot in [ROBOT, "good"] {
            assert_eq!(scene.calls(robot), ["facts"], "{file}");
            assert!(scene.is_untouched(robot), "{file}: {robot}");
        }
    }
}

#[test]
fn a_robot_that_was_not_set_up_is_refused() {
    for file in ["etc/ganglion/board.toml", "etc/ganglion/allowed_signers"] {
        let scene = Scene::new("bare", &[ROBOT]);
        fs::remove_file(scene.robot(ROBOT).join(file)).expect("it existed");
        assert!(ended(&scene.flash(&TARGET), 69).contains("not set up"), "{file}");
        assert!(scene.is_untouched(ROBOT));
    }
}

#[test]
fn a_held_lock_is_an_update_in_progress() {
    let scene = Scene::new("lock", &[ROBOT]);
    let lock = fs::File::create(scene.robot(ROBOT).join("run/ganglion-update.lock")).expect("a lock file");
    lock.lock().expect("the lock");
    assert!(ended(&scene.flash(&TARGET), 75).contains("in progress"));
    assert!(scene.is_untouched(ROBOT));
    drop(lock);
    ended(&scene.flash(&TARGET), 0);
}

#[test]
fn two_laptops_never_copy_into_the_same_file() {
    let scene = Scene::new("two", &[ROBOT]);
    // Another copy holds the robot's lock during the first attempt, and has finished before the second one.
    let other = "exec 8>> \"$robot/home/.cache/ganglion-flash/lock\"; flock 8; pass";
    scene.write(ROBOT, "on/copy.1", other);
    ended(&scene.flash(&TARGET), 0);
    assert_eq!(scene.calls(ROBOT)[..5], ["facts", "where", "copy", "where", "copy"]);
    assert!(scene.did(ROBOT)[0].contains(&digest(&scene.deb())), "{:?}", scene.did(ROBOT));
}

#[test]
fn a_downgrade_needs_its_flag_and_tells_the_robot() {
    let scene = Scene::new("downgrade", &[ROBOT]);
    scene.write(ROBOT, "update.json", &FRESH.replace('\n', "").replace("0.1.0", "0.3.0"));
    assert!(ended(&scene.flash(&TARGET), 65).contains("--allow-downgrade"));
    ended(&scene.flash(&["--target", ROBOT, "--allow-downgrade"]), 0);
    assert!(scene.did(ROBOT)[0].ends_with(" --allow-downgrade"), "{:?}", scene.did(ROBOT));
}

#[test]
fn an_old_gpu_driver_is_accepted_if_no_gpu_is_used() {
    let scene = Scene::new("driver", &[ROBOT]);
    scene.write(ROBOT, "driver", "470.42.01");
    scene.write(
        ROBOT,
        "answers/check",
        r#"echo '{"settings":[{"key":"field.engine","origin":"b:1","value":"\"cpu\""}]}'"#,
    );
    ended(&scene.flash(&TARGET), 0);
}

#[test]
fn without_a_terminal_only_the_yes_option_confirms() {
    let scene = Scene::new("terminal", &[ROBOT]);
    let deb = scene.deb().display().to_string();
    assert!(ended(&scene.run("flash", &[&deb, "--target", ROBOT]), 64).contains("--yes"));
    let said = ended(&scene.run("flash", &[&deb, "--target", ROBOT, "--dry-run"]), 0);
    assert!(said.contains("0.1.0 -> 0.2.0"), "{said}");
    assert!(scene.is_untouched(ROBOT));
}

#[test]
fn a_damaged_package_contacts_no_robot() {
    let scene = Scene::new("package", &[ROBOT]);
    let refused = |path: &str, code: i32, says: &str| {
        let said = ended(&scene.run("flash", &[path, "--yes", "--target", ROBOT]), code);
        assert!(said.contains(says) && said.lines().count() == 1, "{path}: {said}");
        assert_eq!(scene.calls(ROBOT), [""; 0], "{path}");
    };
    let deb = scene.deb();
    let name = deb.display().to_string();
    refused("-x.deb", 64, "./-x.deb");
    refused("/nowhere/x.deb", 64, "no such file");
    refused("Cargo.toml", 64, ".deb");
    let link = deb.with_file_name("link.deb");
    symlink(&deb, &link).expect("a link");
    refused(&link.display().to_string(), 65, "symbolic link");
    let whole = fs::read(&deb).expect("the package");
    fs::write(&deb, &whole[..whole.len() / 2]).expect("half of it");
    refused(&name, 65, "cut short");
    fs::write(&deb, &whole).expect("the package");
    for (beside, text, says) in [
        ("deb.sig", "", "not a signature"),
        ("manifest.json", "{\"schema\":1", "one JSON object"),
        ("manifest.json", "{\"schema\":1,\"package\":\"ganglion\",\"version\":\"../../x\"}", "\"version\""),
        ("manifest.json", "{\"schema\":1,\"package\":\"ganglion\",\"version\":\"1;reboot\"}", "\"version\""),
    ] {
        let path = deb.with_extension(beside);
        let before = fs::read(&path).expect("a file beside it");
        fs::write(&path, text).expect("another text");
        refused(&name, 65, says);
        fs::remove_file(&path).expect("it existed");
        refused(&name, 65, "there is no");
        fs::write(&path, before).expect("unchanged");
    }
}

#[test]
fn package_names_may_contain_spaces() {
    let scene = Scene::new("spaces", &[ROBOT]);
    let deb = scene.package("a build of today.deb", "0.2.0").display().to_string();
    ended(&scene.run("flash", &[&deb, "--yes", "--target", ROBOT]), 0);
    assert_eq!(scene.did(ROBOT).len(), 2);
}

#[test]
fn arguments_are_checked_before_anything_else() {
    let scene = Scene::new("arguments", &[ROBOT]);
    let fleet = scene.0.join("fleet");
    let fleet_name = fleet.display().to_string();
    let refused = |arguments: &[&str], says: &str| {
        let said = ended(&scene.flash(arguments), 64);
        assert!(said.contains(says) && said.lines().count() == 1, "{arguments:?}: {said}");
    };
    refused(&[], "which robot");
    refused(&["--target"], "--target needs a value");
    refused(&["--target", "-oProxyCommand=reboot"], "not a valid ssh host");
    refused(&["--target", "a;reboot"], "not a valid ssh host");
    refused(&["--target", "a", "--target", "a"], "named twice");
    refused(&["--target", "a", "--for", "soon"], "--for");
    refused(&["--target", "a", "--wave", "0"], "--wave");
    refused(&["--target", "a", "--fly"], "--fly");
    refused(&["--target", "a", "other.deb"], "one package");
    for (text, says) in [
        ("# none\n", "names no robot"),
        ("pi@car-7\n\npi@car-8 yes\n", "fleet:3: one robot per line"),
        ("pi@car-7\n$(reboot)\n", "fleet:2: '$(reboot)'"),
        ("pi@car-7\npi@car-7 # again\n", "fleet:2: pi@car-7 is named twice"),
    ] {
        fs::write(&fleet, text).expect("a fleet");
        refused(&["--fleet", &fleet_name], says);
    }
    assert_eq!(scene.order(), [""; 0]);
}

#[test]
fn waves_start_with_one_robot_and_stop_at_the_first_failure() {
    let robots = ["one", "two", "three", "four"];
    let scene = Scene::new("waves", &robots);
    let fleet = scene.0.join("fleet");
    fs::write(&fleet, "# the hall\none\ntwo # with a camera\n\nthree\nfour").expect("a fleet");
    scene.write("two", "answers/update-trial", "finish rolled-back 0.1.0 0.2.0 'no value of range'; exit 75");
    let fleet = fleet.display().to_string();
    let said = ended(&scene.flash(&["--fleet", &fleet, "--wave", "2"]), 75);
    assert!(said.contains("two    rolled back: no value of range; 0.1.0 runs"), "{said}");
    assert!(said.contains("not touched: four"), "{said}");
    assert_eq!(scene.did("one").len(), 2);
    assert_eq!(scene.did("three").len(), 2, "it was in the wave of the failed robot, and finished");
    assert!(scene.is_untouched("four"));
    let order = scene.order();
    let place = |what: &str| order.iter().position(|call| call == what).unwrap_or_else(|| panic!("{what}"));
    assert!(place("trial one") < place("where two").min(place("where three")), "{order:?}");
}

#[test]
fn each_failed_robot_of_a_wave_has_its_own_result() {
    let scene = Scene::new("both", &["one", "two", "three"]);
    scene.write("two", "answers/update-trial", "finish rolled-back 0.1.0 0.2.0 'no beat'; exit 75");
    // The laptop's process for this robot is killed: the parent of this `ssh`, beyond `timeout`.
    scene.write("three", "on/where", "read -r _ _ _ parent _ < /proc/$PPID/stat; kill -9 $parent; sleep 1");
    let said = ended(&scene.flash(&["--target", "one", "--target", "two", "--target", "three"]), 75);
    assert!(said.contains("two    rolled back: no beat"), "{said}");
    assert!(said.contains("three  failed: this script broke off"), "{said}");
}

#[test]
fn a_trial_survives_an_ssh_drop_and_its_result_is_read() {
    for (phase, code, word) in [("committed", 0, "committed"), ("rolled-back", 75, "rolled back: no beat")] {
        let scene = Scene::new("dropped", &[ROBOT]);
        // The ssh connection breaks at once; the robot is still busy in the next two status answers.
        let trying = "{\"schema\":1,\"installed\":\"0.1.0\",\"unfinished\":{\"phase\":\"trying\"}}";
        let starts =
            format!("echo '{trying}' > \"$ROBOT/update.json\"; echo \"trial $3 $4\" >> \"$ROBOT/did\"");
        scene.write(ROBOT, "answers/update-trial", &starts);
        scene.write(ROBOT, "on/trial", "pass; exit 255");
        scene.write(ROBOT, "on/status.2", "exit 255");
        let ends = format!("finish {phase} 0.1.0 0.2.0 'no beat'");
        let looks = format!(
            "echo x >> \"$ROBOT/looks\"; [ $(wc -l < \"$ROBOT/looks\") -ne 5 ] || {ends}; cat \"$ROBOT/update.json\""
        );
        scene.write(ROBOT, "answers/update-status", &looks);
        let said = ended(&scene.flash(&TARGET), code);
        assert!(said.contains("the robot goes on by itself") && said.contains(word), "{said}");
        assert_eq!(scene.did(ROBOT).iter().filter(|line| line.starts_with("trial")).count(), 1, "once");
        assert!(scene.calls(ROBOT).iter().filter(|kind| *kind == "status").count() >= 3);
    }
}

#[test]
fn an_unreachable_robot_is_given_up_after_ten_tries() {
    let scene = Scene::new("away", &[ROBOT]);
    scene.write(ROBOT, "on/trial", "pass; exit 255");
    scene.write(ROBOT, "on/status", "echo 'ssh: connect: No route to host' >&2; exit 255");
    let said = ended(&scene.flash(&TARGET), 69);
    assert!(
        said.contains("unreachable: No route to host (10 attempts)") || said.contains("No route"),
        "{said}"
    );
    assert!(said.contains("the robot goes on by itself"), "{said}");
    assert_eq!(scene.calls(ROBOT).iter().filter(|kind| *kind == "status").count(), 10);
}

#[test]
fn a_connection_lost_before_the_trial_is_not_a_commit() {
    let scene = Scene::new("before", &[ROBOT]);
    // An older update to the same version that was rolled back: its result must not be taken for that of this
    // update.
    let older = r#"{"schema":1,"installed":"0.1.0","unfinished":null,"history":["set up"],
        "last":{"phase":"rolled-back","from":"0.1.0","to":"0.2.0","why":"then"}}"#;
    scene.write(ROBOT, "update.json", &older.replace('\n', ""));
    scene.write(ROBOT, "on/trial", "exit 255");
    let said = ended(&scene.flash(&TARGET), 69);
    assert!(said.contains("before the trial began") && !said.contains("rolled back"), "{said}");
}

#[test]
fn the_robots_refusal_is_passed_on_with_its_code() {
    for (verb, code) in
        [("update-stage", 65), ("update-stage", 75), ("update-trial", 75), ("update-stage", 77)]
    {
        let scene = Scene::new("refuses", &[ROBOT]);
        let refuses = format!("echo 'the signature is revoked' >&2; exit {code}");
        scene.write(ROBOT, &format!("answers/{verb}"), &refuses);
        assert!(ended(&scene.flash(&TARGET), code).contains("the signature is revoked"), "{verb} {code}");
        assert!(!scene.did(ROBOT).iter().any(|line| line.starts_with("trial")));
    }
}

#[test]
fn a_hostile_robots_text_is_neither_run_nor_obeyed() {
    let scene = Scene::new("hostile", &[ROBOT]);
    let trap = scene.0.join("sprung").display().to_string();
    let evil =
        format!("\u{1b}]0;owned\u{7}\u{1b}[2J$(touch {trap})`touch {trap}`'; touch {trap}; '\u{9b}A\u{202e}");
    let version = format!("a[$(touch${{IFS}}{trap})]");
    scene.write(ROBOT, "tree/model", &evil);
    scene.write(ROBOT, "etc/os-release", &format!("PRETTY_NAME=\"{evil}\"\n"));
    scene.write(
        ROBOT,
        "answers/update-stage",
        &format!("printf '%s\\n' \"{}\"", evil.replace(['$', '`'], "")),
    );
    scene.write(
        ROBOT,
        "answers/update-trial",
        &format!("cat <<'END'\n{evil}\nEND\nfinish rolled-back 0.1.0 0.2.0 '\u{1b}[2Jwhy'; exit 75"),
    );
    // Numbers from the robot pass through the shell's arithmetic, which would run the command in `version`.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    scene.write(ROBOT, "on/where.1", &format!("echo '{version} {empty}'"));
    scene.write(ROBOT, "on/where", "pass");
    let output = scene.flash(&TARGET);
    assert!(!fs::exists(&trap).expect("a look"), "{}", out(&output));
    for bytes in [&output.stdout, &output.stderr] {
        let odd: Vec<u8> =
            bytes.iter().copied().filter(|byte| !matches!(byte, b'\n' | b' '..=b'~')).collect();
        assert_eq!(odd, [0_u8; 0], "{}", String::from_utf8_lossy(bytes));
    }
    for (file, text) in
        [("glibc", version.as_str()), ("driver", &version), ("free_kib", "9999999999999999999999")]
    {
        let scene = Scene::new("numbers", &[ROBOT]);
        scene.write(ROBOT, file, text);
        scene.flash(&["--target", ROBOT, "--dry-run"]);
        assert!(!fs::exists(&trap).expect("a look"), "{file}");
        if file == "glibc" {
            ended(&scene.flash(&TARGET), 65);
        }
    }
    // An endless answer, and one with deeply nested brackets.
    scene.write(ROBOT, "on/facts", "yes 'fact of a robot'");
    ended(&scene.flash(&TARGET), 69);
    let nested = format!("{{\"schema\":1,\"x\":{}", "[".repeat(60_000));
    let scene = Scene::new("nested", &[ROBOT]);
    scene.write(ROBOT, "update.json", &nested);
    ended(&scene.flash(&TARGET), 69);
}

#[test]
fn json_has_one_object_per_line_and_a_final_summary() {
    let scene = Scene::new("json", &["one", "two"]);
    scene.write(
        "two",
        "answers/update-trial",
        "finish rolled-back 0.1.0 0.2.0 'a \\\"quoted\\\" why'; exit 75",
    );
    let output = scene.flash(&["--target", "one", "--target", "two", "--json"]);
    ended(&output, 75);
    let lines: Vec<serde_json::Value> =
        out(&output).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let last = lines.last().expect("a last line");
    assert_eq!((&last["exit"], &last["version"]), (&75.into(), &"0.2.0".into()));
    assert_eq!(last["robots"][0]["result"], "committed");
    assert_eq!(last["robots"][1]["result"], "rolled-back");
    assert_eq!(last["robots"][1]["why"], "a \"quoted\" why; 0.1.0 runs");
    assert!(last["robots"][1]["seconds"]["trial"].is_u64());
    assert!(lines.iter().any(|line| line["event"] == "stage" && line["host"] == "two"));
}
