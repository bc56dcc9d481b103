//! Proposes the changes that turn a machine into a robot with its board, each with its reason, and lists what
//! the user has to know. Reads only; changes nothing.

use super::action::{SetupAction, SetupActionError, groups_of};
use super::choice::{self, Chosen, NoBoard};
use super::config_txt::{self, Odd};
use super::files::{State, link_on_the_way, names, state, text};
use super::found::{Gpu, MachineFacts};
use super::tuning;
use crate::base::plan::{Board, BusPlan, EngineKind};
use std::io;
use std::path::{Path, PathBuf};

/// The user's options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// A board, by its name or file.
    pub board: Option<PathBuf>,
    /// Whether to enable the hardware watchdog.
    pub watchdog: bool,
    /// The user who will arm the robot.
    pub user: String,
}

/// One change and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The action.
    pub action: SetupAction,
    /// The reason.
    pub why: &'static str,
}

/// Everything that a setup would do.
#[derive(Debug)]
pub struct Proposal {
    /// The machine.
    pub found: MachineFacts,
    /// The board.
    pub board: Chosen,
    /// Changes, in order.
    pub changes: Vec<Change>,
    /// What the user has to know or decide.
    pub notes: Vec<Note>,
}

/// Something that setup leaves to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The robot keeps its own board, although the user named another.
    BoardKept(String),
    /// The board arms the robot by itself.
    ArmsItself,
    /// No user is known who could be added to the group.
    NoUser,
    /// A file stays although its content differs from what setup would write.
    Kept(PathBuf),
    /// A file that setup needs is missing.
    Missing(PathBuf),
    /// There is no hardware watchdog.
    NoWatchdog,
    /// Advice from `tuning`.
    Advice(String),
}

/// Why there is no proposal.
#[derive(Debug)]
pub enum NoProposal {
    /// No board.
    Board(Box<MachineFacts>, NoBoard),
    /// The package's systemd unit is not installed.
    NoUnit(&'static str),
    /// The group whose members may arm the robot does not exist.
    NoGroup,
    /// config.txt cannot be changed automatically.
    ConfigTxt(PathBuf, Odd),
    /// A file that has to be changed is a link, or its path contains one.
    ThroughLink(PathBuf, PathBuf),
    /// A file cannot be read.
    Unreadable(SetupActionError),
    /// An update is unfinished.
    UpdateAtWork,
}

/// Members of this group may arm a running robot.
pub const GROUP: &str = "ganglion";
/// Units that setup enables, each if this robot needs it.
const RUNTIME: &str = "ganglion.service";
const GUARD: &str = "ganglion-guard.service";
const SLEEP: &str = "ganglion-sleep.service";
/// Folders of units; an earlier folder takes precedence over a later one.
const UNIT_FOLDERS: [&str; 3] = ["etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];
/// A unit that is a link to this is masked: systemd does not start it.
const MASKED: &str = "/dev/null";
/// This marker exists while an update is unfinished.
const TRIAL: &str = "var/lib/ganglion-update/trial";

const MODULES_PATH: &str = "etc/modules-load.d/ganglion.conf";
const MODULES: &str = "# Written by 'ganglion setup': /dev/i2c-N.\ni2c-dev\n";
const GPU_PATH: &str = "etc/systemd/system/ganglion.service.d/gpu.conf";
const DROP_INS: &str = "usr/share/ganglion/drop-ins";
const WATCHDOG_PATH: &str = "etc/systemd/system.conf.d/60-ganglion-watchdog.conf";
/// 15 s is the longest timeout of a Raspberry Pi's timer (bcm2835_wdt), and longer than a busy systemd needs.
const WATCHDOG: &str = "\
# Written by 'ganglion setup --watchdog'. If the kernel or systemd hangs for 15 s, the hardware resets the machine: until
# then a motor controller goes on with its last pulses. It counts from the next start of the machine on.
[Manager]
RuntimeWatchdogSec=15s
";
const SIGNERS_PATH: &str = "etc/ganglion/allowed_signers";
const SIGNERS_SHIPPED: &str = "usr/share/ganglion/allowed_signers";

/// Proposes what the machine in `root` lacks.
pub fn propose(root: &Path, wishes: &Wishes) -> Result<Proposal, NoProposal> {
    if root.join(TRIAL).exists() {
        return Err(NoProposal::UpdateAtWork);
    }
    let found = MachineFacts::look(root);
    let board = match choice::choose(root, wishes.board.as_deref()) {
        Ok(board) => board,
        Err(error) => return Err(NoProposal::Board(Box::new(found), error)),
    };
    let mut plan = Plan { root, changes: Vec::new(), notes: Vec::new() };
    plan.board(&board);
    plan.i2c(&found, &board.loaded.board)?;
    plan.group(&wishes.user)?;
    plan.tuning(&board.loaded.board, &wishes.user);
    plan.gpu(found.gpu, &board.loaded.board)?;
    if wishes.watchdog {
        plan.watchdog()?;
    }
    plan.signers()?;
    plan.services(&board.loaded.board)?;
    let Plan { changes, notes, .. } = plan;
    for path in
        changes.iter().filter_map(|change| change.action.path().filter(|_| !is_kernels(&change.action)))
    {
        if let Some(link) = link_on_the_way(root, path).filter(|link| link != path || is_config(path)) {
            return Err(NoProposal::ThroughLink(path.to_path_buf(), link));
        }
    }
    Ok(Proposal { found, board, changes, notes })
}

/// Whether the action changes a kernel setting, whose path may contain links.
fn is_kernels(action: &SetupAction) -> bool {
    matches!(action, SetupAction::Set { .. })
}

/// A file of the boot loader: if it is a link, a person has made it one, and setup does not replace it.
fn is_config(path: &Path) -> bool {
    path.starts_with("boot")
}

/// A proposal that is being assembled.
struct Plan<'r> {
    root: &'r Path,
    changes: Vec<Change>,
    notes: Vec<Note>,
}

impl Plan<'_> {
    /// Adds a change unless it is already in place.
    fn add(&mut self, action: SetupAction, why: &'static str) -> Result<(), NoProposal> {
        if action.now(self.root).map_err(NoProposal::Unreadable)? != action.done() {
            self.changes.push(Change { action, why });
        }
        Ok(())
    }

    fn write(&mut self, path: &str, content: &str, why: &'static str) -> Result<(), NoProposal> {
        self.add(SetupAction::Write { path: path.into(), content: content.to_string() }, why)
    }

    /// Proposes a file only if it does not exist: once it has been written, it belongs to the user.
    fn write_once(&mut self, path: &str, content: &str, why: &'static str) -> Result<(), NoProposal> {
        match self.state(path)? {
            State::Absent => self.write(path, content, why),
            State::File(text) if text == content => Ok(()),
            State::File(_) | State::Link(_) | State::Member => {
                self.notes.push(Note::Kept(Path::new("/").join(path)));
                Ok(())
            }
        }
    }

    fn state(&self, path: &str) -> Result<State, NoProposal> {
        let unreadable = |error: io::Error| SetupActionError::File(Path::new("/").join(path), error);
        state(self.root, Path::new(path)).map_err(|error| NoProposal::Unreadable(unreadable(error)))
    }

    fn board(&mut self, chosen: &Chosen) {
        if let choice::Origin::OwnInsteadOf(asked) = &chosen.origin {
            self.notes.push(Note::BoardKept(asked.clone()));
        }
        if chosen.loaded.board.safety.auto_arm {
            self.notes.push(Note::ArmsItself);
        }
        let there = self.root.join(choice::PATH).exists();
        if let Some(content) = chosen.text.clone().filter(|_| !there) {
            let action = SetupAction::Write { path: choice::PATH.into(), content };
            self.changes.push(Change { action, why: "the services read this robot's board from there" });
        }
    }

    fn i2c(&mut self, found: &MachineFacts, board: &Board) -> Result<(), NoProposal> {
        if !matches!(board.bus, BusPlan::Linux { .. }) || board.i2c.is_empty() {
            return Ok(());
        }
        if found.is_pi() {
            let new = "boot/firmware/config.txt";
            let path = if self.root.join(new).exists() { new } else { "boot/config.txt" };
            if self.root.join(path).is_symlink() {
                let path = PathBuf::from(path);
                return Err(NoProposal::ThroughLink(path.clone(), path));
            }
            match self.state(path)? {
                State::File(text) => {
                    let changed = config_txt::with_i2c(&text)
                        .map_err(|odd| NoProposal::ConfigTxt(Path::new("/").join(path), odd))?;
                    let why = "the I2C bus on pins 3 and 5 is off; this turns it on at the next boot";
                    changed.map_or(Ok(()), |content| self.write(path, &content, why))?;
                }
                State::Absent | State::Link(_) | State::Member => {
                    self.notes.push(Note::Missing(Path::new("/").join(path)));
                }
            }
        }
        let has_nodes = names(self.root, "dev").iter().any(|name| name.starts_with("i2c-"));
        if !self.loads_i2c_dev() && (found.is_pi() || !has_nodes) {
            self.write(MODULES_PATH, MODULES, "the kernel provides /dev/i2c-N only with this module")?;
        }
        Ok(())
    }

    /// Whether some file loads i2c-dev at each boot: modules(5), modules-load.d(5).
    fn loads_i2c_dev(&self) -> bool {
        let folders = ["etc/modules-load.d", "usr/lib/modules-load.d", "lib/modules-load.d"];
        let files = folders.iter().flat_map(|folder| {
            names(self.root, folder).into_iter().map(move |name| format!("{folder}/{name}"))
        });
        let says = |path: &String| {
            let said = text(self.root, path).unwrap_or_default();
            said.lines().any(|line| ["i2c-dev", "i2c_dev"].contains(&line.trim()))
        };
        files.chain(["etc/modules".to_string()]).any(|path| says(&path))
    }

    fn group(&mut self, user: &str) -> Result<(), NoProposal> {
        let groups = text(self.root, "etc/group").unwrap_or_default();
        if !groups.lines().any(|line| line.split(':').next() == Some(GROUP)) {
            return Err(NoProposal::NoGroup);
        }
        if user == "root" {
            self.notes.push(Note::NoUser);
            return Ok(());
        }
        if groups_of(self.root, user).iter().any(|group| group == GROUP) {
            return Ok(());
        }
        let action = SetupAction::Join { user: user.to_string(), group: GROUP.to_string() };
        self.add(
            action,
            "members of this group may arm the robot and read its status; takes effect at the next login",
        )
    }

    /// Adds what `doctor --fix` proposes.
    fn tuning(&mut self, board: &Board, user: &str) {
        let tuning::Plan { actions, advice } = tuning::plan(self.root, Some(board), user);
        self.changes.extend(actions.into_iter().map(|(action, why)| Change { action, why }));
        self.notes.extend(advice.into_iter().map(Note::Advice));
    }

    fn gpu(&mut self, gpu: Gpu, board: &Board) -> Result<(), NoProposal> {
        let file = match gpu {
            Gpu::None => return Ok(()),
            Gpu::Jetson => "jetson.conf",
            Gpu::Card => "nvidia.conf",
        };
        if !matches!(board.field.engine, EngineKind::Auto | EngineKind::Cuda) {
            return Ok(());
        }
        let shipped = format!("{DROP_INS}/{file}");
        match self.state(&shipped)? {
            State::File(content) => {
                self.write_once(GPU_PATH, &content, "the service cannot open the GPU without it")
            }
            State::Absent | State::Link(_) | State::Member => {
                self.notes.push(Note::Missing(Path::new("/").join(shipped)));
                Ok(())
            }
        }
    }

    fn watchdog(&mut self) -> Result<(), NoProposal> {
        if names(self.root, "dev").iter().any(|name| name.starts_with("watchdog")) {
            let why = "requested with --watchdog: if the machine hangs, it is reset and the motors stop";
            return self.write(WATCHDOG_PATH, WATCHDOG, why);
        }
        self.notes.push(Note::NoWatchdog);
        Ok(())
    }

    fn signers(&mut self) -> Result<(), NoProposal> {
        let State::File(content) = self.state(SIGNERS_SHIPPED)? else { return Ok(()) };
        self.write_once(SIGNERS_PATH, &content, "the robot accepts updates from the signer of this package")
    }

    /// Masks the guard's unit if the board has no guard; otherwise unmasks and enables it. Enables the other
    /// units that this robot needs.
    fn services(&mut self, board: &Board) -> Result<(), NoProposal> {
        let mask = PathBuf::from(format!("{}/{GUARD}", UNIT_FOLDERS[0]));
        let is_masked = self.state(&mask.to_string_lossy())? == State::Link(MASKED.to_string());
        match (board.guard.is_some(), is_masked) {
            (false, false) => self.add(
                SetupAction::Link { path: mask, to: MASKED.to_string() },
                "the board has no [guard]: without this the runtime would start a guard that ends at once",
            )?,
            (true, true) => {
                self.add(SetupAction::Remove { path: mask }, "the board has a [guard], whose unit is masked")?
            }
            (false, true) | (true, false) => {}
        }
        if board.guard.is_some() {
            self.enable(GUARD, "the guard starts at boot")?;
        }
        if text(self.root, "sys/power/state").is_some_and(|states| !states.is_empty()) {
            self.enable(SLEEP, "this machine can sleep: the unit stops the motors before that")?;
        }
        self.enable(RUNTIME, "the robot starts at boot, disarmed")
    }

    /// Adds the links that `systemctl enable` would make for a unit.
    fn enable(&mut self, unit: &'static str, why: &'static str) -> Result<(), NoProposal> {
        let file = UNIT_FOLDERS.iter().map(|folder| format!("{folder}/{unit}"));
        let is_unit = |path: &String| self.root.join(path).is_file();
        let file = file.into_iter().find(is_unit).ok_or(NoProposal::NoUnit(unit))?;
        let said = text(self.root, &file).unwrap_or_default();
        for line in said.lines() {
            let Some((key, targets)) = line.split_once('=') else { continue };
            let kind = match key {
                "WantedBy" => "wants",
                "RequiredBy" => "requires",
                _ => continue,
            };
            for target in targets.split_whitespace() {
                let path = PathBuf::from(format!("{}/{target}.{kind}/{unit}", UNIT_FOLDERS[0]));
                // An existing link may have any target: systemd uses only the link's name.
                if !self.root.join(&path).is_symlink() {
                    self.add(SetupAction::Link { path, to: format!("/{file}") }, why)?;
                }
            }
        }
        Ok(())
    }
}
