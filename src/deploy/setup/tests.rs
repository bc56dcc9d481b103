//! Sets up factory-fresh machines and undoes the setup, also with a power cut after any step.

mod machines;

use super::action::SetupAction;
use super::carry_out::{CarryOutError, Step, apply, undo};
use super::choice::{NoBoard, Origin};
use super::journal::{self, Journal};
use super::proposal::{NoProposal, Note, Proposal, Wishes, propose};
use crate::hardware::device::sysfs::tree::Tree;
use machines::{CONFIG, CONFIG_TEXT, InTree, make_link, orin_nano, pc, pi4, pi5, snapshot};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn wishes(board: Option<&str>) -> Wishes {
    Wishes { board: board.map(PathBuf::from), watchdog: false, user: "ann".to_string() }
}

fn proposed(tree: &Tree, wishes: &Wishes) -> Proposal {
    propose(tree.root(), wishes).unwrap_or_else(|error| panic!("{error:?}"))
}

/// The changes, each as its path or its action.
fn lines(proposal: &Proposal) -> Vec<String> {
    let line = |action: &SetupAction| match action {
        SetupAction::Write { path, .. } => path.display().to_string(),
        SetupAction::Link { .. }
        | SetupAction::Set { .. }
        | SetupAction::Remove { .. }
        | SetupAction::Join { .. } => action.to_string(),
    };
    proposal.changes.iter().map(|change| line(&change.action)).collect()
}

fn actions(proposal: &Proposal) -> Vec<&SetupAction> {
    proposal.changes.iter().map(|change| &change.action).collect()
}

/// Applies the proposal, at most `steps` steps of it. Returns the number of steps, and whether it finished.
fn set_up(tree: &Tree, wishes: &Wishes, steps: usize) -> (usize, bool) {
    let (proposal, programs) = (proposed(tree, wishes), InTree::new(tree.root()));
    let mut count = 0;
    let ended = apply(tree.root(), &actions(&proposal), &programs, &mut |step| {
        if let Step::Noted(action) = step
            && count + 1 == steps
            && let Some(folder) =
                action.path().and_then(Path::parent).filter(|_| !matches!(action, SetupAction::Set { .. }))
        {
            // The power is cut after the file's folders were created, but before the file.
            std::fs::create_dir_all(tree.root().join(folder)).unwrap();
        }
        cut(&mut count, steps)
    });
    (count, !matches!(ended, Err(CarryOutError::Ended)) && ended.is_ok())
}

fn cut(count: &mut usize, steps: usize) -> ControlFlow<()> {
    *count += 1;
    if *count == steps { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Undoes everything. Returns how many changes were undone, and which were left alone.
fn take_back(tree: &Tree) -> (usize, Vec<String>) {
    let mut left = Vec::new();
    let count = undo(tree.root(), &InTree::new(tree.root()), &mut |step| {
        if let Step::LeftAlone(action) = step {
            left.push(action.path().unwrap().display().to_string());
        }
        ControlFlow::Continue(())
    });
    (count.unwrap(), left)
}

const ALL: usize = usize::MAX;
const ENABLED: &str = "link /etc/systemd/system/multi-user.target.wants/ganglion.service to \
                       /usr/lib/systemd/system/ganglion.service";
const GUARD: &str = "link /etc/systemd/system/multi-user.target.wants/ganglion-guard.service to \
                     /usr/lib/systemd/system/ganglion-guard.service";
const SLEEP: &str = "link /etc/systemd/system/sleep.target.requires/ganglion-sleep.service to \
                     /usr/lib/systemd/system/ganglion-sleep.service";
const GOVERNOR: [&str; 2] = [
    "etc/systemd/system/ganglion-governor.service",
    "link /etc/systemd/system/multi-user.target.wants/ganglion-governor.service to ../ganglion-governor.service",
];

#[test]
fn a_pi_4_with_a_robot_hat_gets_its_board_and_its_bus() {
    let tree = pi4();
    let proposal = proposed(&tree, &wishes(None));
    assert_eq!(proposal.board.origin, Origin::Only("picarx-v5"));
    let hat = &proposal.found.hats[0];
    assert_eq!((hat.vendor.as_deref(), hat.product_id.as_deref()), (Some("SunFounder"), Some("0x076e")));
    let core = |n| format!("set /sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor to performance");
    let mut expected =
        ["etc/ganglion/board.toml", CONFIG, "etc/modules-load.d/ganglion.conf"].map(String::from).to_vec();
    expected.push("usermod -aG ganglion ann".to_string());
    expected.extend(GOVERNOR.map(String::from));
    expected.extend((0..4).map(core));
    expected.push("etc/security/limits.d/60-ganglion.conf".to_string());
    expected.extend(["etc/ganglion/allowed_signers", GUARD, ENABLED].map(String::from));
    assert_eq!(lines(&proposal), expected);
    let reboot: Vec<&SetupAction> =
        actions(&proposal).into_iter().filter(|action| action.needs_reboot()).collect();
    assert!(
        matches!(reboot[..], [SetupAction::Write { path, .. }] if path == Path::new(CONFIG)),
        "{reboot:?}"
    );
    assert!(!tree.root().join("etc/ganglion").exists(), "a proposal writes nothing");
}

#[test]
fn a_pi_5_without_a_known_hat_asks_for_the_board() {
    let tree = pi5();
    match propose(tree.root(), &wishes(None)) {
        Err(NoProposal::Board(found, NoBoard::Several(names))) => {
            assert_eq!(names, ["picarx-v4", "picarx-v5"]);
            assert!(found.is_pi() && found.hats.is_empty());
        }
        other => panic!("{other:?}"),
    }
    let proposal = proposed(&tree, &wishes(Some("picarx-v4")));
    assert_eq!(proposal.board.origin, Origin::Named("picarx-v4".to_string()));
    let SetupAction::Write { content, .. } = &proposal.changes[0].action else { panic!("{proposal:?}") };
    let own = crate::deploy::board::from_text("board", content).unwrap();
    assert_eq!(own.digest, proposal.board.loaded.digest, "the robot's file inherits that board");
}

#[test]
fn jetson_gets_gpu_rights_and_stops_before_sleep() {
    let tree = orin_nano();
    let proposal = proposed(&tree, &wishes(None));
    assert_eq!(proposal.board.origin, Origin::Only("jetson-orin-nano"));
    let all = lines(&proposal);
    for expected in ["etc/systemd/system/ganglion.service.d/gpu.conf", SLEEP, GUARD, ENABLED] {
        assert!(all.iter().any(|line| line == expected), "{expected}: {all:#?}");
    }
    assert!(!all.iter().any(|line| line.contains("config.txt") || line.contains("modules-load")), "{all:#?}");
    assert_eq!(all.last().unwrap(), ENABLED, "the service is enabled last");
    assert_eq!(set_up(&tree, &wishes(None), ALL), (2 * all.len(), true));
    let drop_in = |path: &str| std::fs::read_to_string(tree.root().join(path)).unwrap();
    assert_eq!(
        drop_in("etc/systemd/system/ganglion.service.d/gpu.conf"),
        drop_in("usr/share/ganglion/drop-ins/jetson.conf")
    );
}

#[test]
fn an_unknown_machine_is_left_as_it_is() {
    let tree = pc();
    let before = snapshot(tree.root());
    let Err(NoProposal::Board(found, NoBoard::Unknown)) = propose(tree.root(), &wishes(None)) else {
        panic!("no built-in board fits a PC")
    };
    assert_eq!(found.machine.model.as_deref(), Some("Desk 3000"));
    assert!(matches!(
        propose(tree.root(), &wishes(Some("picarx-v4"))),
        Err(NoProposal::Board(_, NoBoard::OtherMachine(..)))
    ));
    assert!(matches!(
        propose(tree.root(), &wishes(Some("scitos-g5"))),
        Err(NoProposal::Board(_, NoBoard::Log(_)))
    ));
    assert_eq!(snapshot(tree.root()), before);
}

#[test]
fn a_board_without_a_guard_has_it_masked_and_another_unmasked() {
    let tree = pc();
    let mask = "etc/systemd/system/ganglion-guard.service";
    let sim = lines(&proposed(&tree, &wishes(Some("sim"))));
    assert!(
        sim.contains(&format!("link /{mask} to /dev/null")) && !sim.contains(&GUARD.to_string()),
        "{sim:#?}"
    );
    let pi = pi4();
    std::fs::create_dir_all(pi.root().join("etc/systemd/system")).unwrap();
    std::os::unix::fs::symlink("/dev/null", pi.root().join(mask)).unwrap();
    let before = snapshot(pi.root());
    let all = lines(&proposed(&pi, &wishes(None)));
    assert!(all.contains(&format!("remove /{mask}")) && all.contains(&GUARD.to_string()), "{all:#?}");
    set_up(&pi, &wishes(None), ALL);
    assert!(!pi.root().join(mask).is_symlink());
    take_back(&pi);
    assert_eq!(snapshot(pi.root()), before);
}

#[test]
fn undo_restores_every_byte_and_a_second_setup_does_nothing() {
    for (tree, board) in [(pi4(), None), (pi5(), Some("picarx-v4")), (orin_nano(), None), (pc(), Some("sim"))]
    {
        let wishes = Wishes { watchdog: true, ..wishes(board) };
        let before = snapshot(tree.root());
        let count = proposed(&tree, &wishes).changes.len();
        assert_eq!(set_up(&tree, &wishes, ALL), (2 * count, true));
        let after = snapshot(tree.root());
        assert_ne!(after, before);
        let second = proposed(&tree, &wishes);
        assert_eq!(lines(&second), [""; 0]);
        assert_eq!(set_up(&tree, &wishes, ALL), (0, true));
        assert_eq!(snapshot(tree.root()), after);
        assert_eq!(take_back(&tree), (count, vec![]));
        assert_eq!(snapshot(tree.root()), before);
        assert_eq!(take_back(&tree), (0, vec![]), "nothing is left to undo");
    }
}

/// A cut at any step: undoing restores the original state, running setup again gives the same state as
/// without the cut, and undoing that restores the original state too.
#[test]
fn a_setup_cut_at_any_step_can_be_finished_or_undone() {
    let make = || (pi4(), wishes(None));
    let (whole, wish) = make();
    let before = snapshot(whole.root());
    let (steps, _) = set_up(&whole, &wish, ALL);
    let journal = Path::new(journal::FILE);
    let without_journal = |tree: &Tree| {
        let mut all = snapshot(tree.root());
        all.remove(journal);
        all
    };
    let finished = without_journal(&whole);
    assert!(steps > 20, "{steps}");
    for last in 1..=steps {
        let (tree, wish) = make();
        assert_eq!(set_up(&tree, &wish, last), (last, false), "cut at {last}");
        take_back(&tree);
        assert_eq!(snapshot(tree.root()), before, "undone after a cut at {last}");
        let (tree, wish) = make();
        set_up(&tree, &wish, last);
        assert!(set_up(&tree, &wish, ALL).1);
        assert_eq!(without_journal(&tree), finished, "finished after a cut at {last}");
        take_back(&tree);
        assert_eq!(snapshot(tree.root()), before, "finished and undone after a cut at {last}");
    }
}

#[test]
fn an_interrupted_undo_is_finished_by_the_next() {
    let tree = pi4();
    let before = snapshot(tree.root());
    let count = set_up(&tree, &wishes(None), ALL).0 / 2;
    let (steps, mut seen) = (2 * count, 0);
    for last in 1..steps {
        let mut now = 0;
        let ended = undo(tree.root(), &InTree::new(tree.root()), &mut |_| cut(&mut now, last));
        assert!(matches!(ended, Err(CarryOutError::Ended)), "cut at {last}: {ended:?}");
        seen += 1;
        take_back(&tree);
        assert_eq!(snapshot(tree.root()), before, "cut at {last}");
        set_up(&tree, &wishes(None), ALL);
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn files_edited_since_setup_stay_and_are_listed() {
    let tree = pi4();
    set_up(&tree, &wishes(None), ALL);
    let edited = format!("{}\n[[motor]]\nname = \"steering\"\noffset_deg = 3.5\n", board_of(&tree));
    tree.put("etc/ganglion/board.toml", &edited);
    tree.put(CONFIG, "mine=1\n");
    let (_, left) = take_back(&tree);
    assert_eq!(left, [CONFIG, "etc/ganglion/board.toml"], "the newest first");
    assert_eq!(board_of(&tree), edited);
    let kept = Journal::load(tree.root()).unwrap();
    assert_eq!(kept.changes.len(), 2, "the original of an edited file is not lost");
    // Setup uses the edited board and changes the edited config.txt; undoing that keeps the edits.
    let again = proposed(&tree, &wishes(None));
    assert_eq!(again.board.origin, Origin::Own);
    assert!(lines(&again).contains(&CONFIG.to_string()));
    set_up(&tree, &wishes(None), ALL);
    take_back(&tree);
    assert_eq!(std::fs::read_to_string(tree.root().join(CONFIG)).unwrap(), "mine=1\n");
}

fn board_of(tree: &Tree) -> String {
    std::fs::read_to_string(tree.root().join("etc/ganglion/board.toml")).unwrap()
}

#[test]
fn existing_files_are_not_overwritten() {
    let tree = orin_nano();
    let own = "inherits = \"jetson-orin-nano\"\nperiod_ms = 20.0\n";
    let kept = [
        ("etc/ganglion/board.toml", own),
        ("etc/ganglion/allowed_signers", "fleet ssh-ed25519 BBBB\n"),
        ("etc/systemd/system/ganglion.service.d/gpu.conf", "[Service]\nMemoryDenyWriteExecute=no\n"),
    ];
    kept.iter().for_each(|(path, content)| tree.put(path, content));
    let proposal = proposed(&tree, &wishes(Some("jetson-orin-nano")));
    assert_eq!(proposal.board.origin, Origin::OwnInsteadOf("jetson-orin-nano".to_string()));
    let notes = [
        Note::BoardKept("jetson-orin-nano".to_string()),
        Note::Kept("/etc/systemd/system/ganglion.service.d/gpu.conf".into()),
        Note::Kept("/etc/ganglion/allowed_signers".into()),
    ];
    assert_eq!(proposal.notes, notes);
    set_up(&tree, &wishes(Some("jetson-orin-nano")), ALL);
    for (path, content) in kept {
        assert_eq!(std::fs::read_to_string(tree.root().join(path)).unwrap(), content, "{path}");
    }
}

#[test]
fn nothing_is_written_through_links_or_to_special_files() {
    for path in [CONFIG, "boot/firmware"] {
        let tree = pi4();
        make_link(&tree, path);
        let refused = propose(tree.root(), &wishes(None));
        assert!(
            matches!(&refused, Err(NoProposal::ThroughLink(_, link)) if link == Path::new(path)),
            "{refused:?}"
        );
    }
    let tree = pi4();
    tree.put(CONFIG, &CONFIG_TEXT.replace("otg_mode=1", "dtparam=i2c_arm=off"));
    match propose(tree.root(), &wishes(None)) {
        Err(NoProposal::ConfigTxt(path, odd)) => {
            assert_eq!((path.as_path(), odd.line), (Path::new("/boot/firmware/config.txt"), 9));
        }
        other => panic!("{other:?}"),
    }
    std::fs::write(tree.root().join(CONFIG), [0xff, 0xfe]).unwrap();
    assert!(matches!(propose(tree.root(), &wishes(None)), Err(NoProposal::Unreadable(_))));
    std::fs::remove_file(tree.root().join(CONFIG)).unwrap();
    std::fs::create_dir(tree.root().join(CONFIG)).unwrap();
    assert!(matches!(propose(tree.root(), &wishes(None)), Err(NoProposal::Unreadable(_))));
    // A folder that becomes a link only after the proposal was made.
    let tree = orin_nano();
    let proposal = proposed(&tree, &wishes(None));
    std::fs::create_dir(tree.root().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", tree.root().join("etc/ganglion")).unwrap();
    let applied =
        apply(
            tree.root(),
            &actions(&proposal),
            &InTree::new(tree.root()),
            &mut |_| ControlFlow::Continue(()),
        );
    assert!(matches!(applied, Err(CarryOutError::Action(_))), "{applied:?}");
    assert_eq!(std::fs::read_dir(tree.root().join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_reboot_is_due_until_the_next_boot() {
    let tree = pi4();
    let waits = || Journal::load(tree.root()).unwrap().waits_for_reboot(tree.root());
    assert!(!waits());
    // The power fails once config.txt is written: the board and config.txt take two steps each. The machine
    // boots, and setup continues.
    set_up(&tree, &wishes(None), 4);
    assert!(waits());
    tree.put("proc/sys/kernel/random/boot_id", "second\n");
    set_up(&tree, &wishes(None), ALL);
    assert!(!waits(), "the boot loader has read config.txt");
}

#[test]
fn a_machine_without_the_package_gets_an_error() {
    let without = |path: &str, content: Option<&str>| {
        let tree = pi4();
        match content {
            Some(content) => tree.put(path, content),
            None => std::fs::remove_file(tree.root().join(path)).unwrap(),
        }
        propose(tree.root(), &wishes(None)).unwrap_err()
    };
    let unit = without("usr/lib/systemd/system/ganglion-guard.service", None);
    assert!(matches!(unit, NoProposal::NoUnit("ganglion-guard.service")), "{unit:?}");
    assert!(matches!(without("etc/group", Some("root:x:0:\n")), NoProposal::NoGroup));
    let update = without("var/lib/ganglion-update/trial", Some("installing\n"));
    assert!(matches!(update, NoProposal::UpdateAtWork), "{update:?}");
}

#[test]
fn a_board_file_is_copied_completely_or_refused() {
    let (tree, files) = (pi4(), Tree::of(&[("one.toml", "inherits = \"picarx-v5\"\nperiod_ms = 20.0\n")]));
    files.put("two.toml", "inherits = \"one.toml\"\n");
    files.put("bad.toml", "inherits = \"picarx-v5\"\nperiod_ms = -1\n");
    let with = |name: &str| {
        let board = files.root().join(name);
        propose(tree.root(), &Wishes { board: Some(board), ..wishes(None) })
    };
    let good = with("one.toml").unwrap();
    assert!(
        matches!(&good.changes[0].action, SetupAction::Write { content, .. } if content.ends_with("period_ms = 20.0\n"))
    );
    assert!(matches!(with("two.toml"), Err(NoProposal::Board(_, NoBoard::Inherits(_)))));
    assert!(matches!(with("bad.toml"), Err(NoProposal::Board(_, NoBoard::Unsound(..)))));
    assert!(matches!(with("none.toml"), Err(NoProposal::Board(_, NoBoard::Unsound(..)))));
}

#[test]
fn the_watchdog_is_enabled_only_on_request() {
    let path = "etc/systemd/system.conf.d/60-ganglion-watchdog.conf".to_string();
    let tree = pi4();
    assert!(!lines(&proposed(&tree, &wishes(None))).contains(&path));
    let wish = Wishes { watchdog: true, ..wishes(None) };
    assert!(lines(&proposed(&tree, &wish)).contains(&path));
    let none = proposed(&orin_nano(), &wish);
    assert!(!lines(&none).contains(&path) && none.notes.contains(&Note::NoWatchdog), "{:?}", none.notes);
}

#[test]
fn two_setups_cannot_run_at_once() {
    let tree = pi4();
    let proposal = proposed(&tree, &wishes(None));
    let programs = InTree::new(tree.root());
    let mut second = None;
    apply(tree.root(), &actions(&proposal), &programs, &mut |_| {
        second.get_or_insert_with(|| {
            undo(tree.root(), &InTree::new(tree.root()), &mut |_| ControlFlow::Continue(()))
        });
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(
        matches!(second, Some(Err(CarryOutError::Journal(journal::JournalError::Busy(_))))),
        "{second:?}"
    );
    tree.put(journal::FILE, "{\"schema\": 2, \"changes\": []}");
    let content = Journal::load(tree.root());
    assert!(matches!(&content, Err(journal::JournalError::Content(..))), "{content:?}");
}
