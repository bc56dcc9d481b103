//! The text of `setup`: the machine, the plan, what is left to the user, and why there is no plan.

use std::path::Path;

use super::Site;
use super::finish::Package;
use crate::cli::check;
use crate::cli::exit::Failure;
use crate::deploy::setup::action::SetupAction;
use crate::deploy::setup::carry_out::CarryOutError;
use crate::deploy::setup::choice::{self, NoBoard, Origin};
use crate::deploy::setup::files::{State, names};
use crate::deploy::setup::found::{Gpu, MachineFacts};
use crate::deploy::setup::journal::JournalError;
use crate::deploy::setup::proposal::{Change, GROUP, NoProposal, Note, Proposal};
use crate::system::sanitize::quoted;

/// Prints what kind of machine it is.
pub(super) fn machine(found: &MachineFacts) {
    let model = found.machine.model.as_deref().unwrap_or("unknown model");
    let system = found.system.as_ref().map_or(String::new(), |system| format!(", {}", quoted(system)));
    say!("machine  {} ({}{system})", quoted(model), found.architecture);
    for hat in &found.hats {
        let vendor = hat.vendor.as_ref().map_or(String::new(), |vendor| format!(" by {vendor}"));
        let uuid = hat.uuid.as_deref().unwrap_or("unreadable");
        say!("HAT      {}{vendor} (uuid {uuid})", hat.product);
    }
    match found.gpu {
        Gpu::Jetson => say!("GPU      integrated in the Jetson"),
        Gpu::Card => say!("GPU      an NVIDIA card"),
        Gpu::None => {}
    }
}

/// Prints the whole plan.
pub(super) fn plan(site: &Site, proposal: &Proposal, package: &Package) {
    machine(&proposal.found);
    let board = match &proposal.board.origin {
        Origin::Own | Origin::OwnInsteadOf(_) => format!("/{}, which this robot already has", choice::PATH),
        Origin::Named(name) => name.clone(),
        Origin::Only(name) => format!("{name}, the only one for this machine"),
    };
    say!("board    {board}");
    if proposal.changes.is_empty() {
        say!("\nNothing to do: this machine already has everything that setup would change.");
    }
    changes(site, &proposal.changes);
    match package {
        Package::Kept => {}
        Package::At(path) => say!("\nkeep {}\n    why: the first update can go back to it", path.display()),
        Package::NotFound(name) => say!(
            "\nnote: {name} was not found, so the first update will have no way back. Name it with --package FILE, or keep it \
             later: 'sudo ganglion update keep {name}'"
        ),
    }
    proposal.notes.iter().for_each(|note| say!("\nnote: {}", self::note(note)));
    if proposal.changes.iter().any(|change| change.action.needs_reboot()) {
        say!("\nThis needs a reboot at the end.");
    }
}

/// Prints each change with its reason. The same setting on several cores counts as one change.
fn changes(site: &Site, changes: &[Change]) {
    let mut rest = changes;
    while let [first, ..] = rest {
        let alike = rest.iter().take_while(|change| alike(first, change)).count();
        let more = if alike > 1 { format!(" ({alike} cores)") } else { String::new() };
        say!("\n{}{more}\n    why: {}", whole(&site.root, &first.action), first.why);
        rest = &rest[alike.max(1)..];
    }
}

fn alike(first: &Change, other: &Change) -> bool {
    let is_set = |change: &Change| matches!(change.action, SetupAction::Set { .. });
    is_set(first) && is_set(other) && first.action.done() == other.action.done()
}

/// A change with its content; for an existing file, only the lines that differ.
fn whole(root: &Path, action: &SetupAction) -> String {
    let (SetupAction::Write { path, content }, Ok(State::File(old))) = (action, action.now(root)) else {
        return action.to_string();
    };
    let lacks = |text: &str, line: &&str| !text.lines().any(|other| other == *line);
    let gone = old.lines().filter(|line| lacks(content, line)).map(|line| format!("\n    - {line}"));
    let new = content.lines().filter(|line| lacks(&old, line)).map(|line| format!("\n    + {line}"));
    format!("change /{}:{}", path.display(), gone.chain(new).collect::<String>())
}

/// A change in one line.
pub(super) fn brief(action: &SetupAction) -> String {
    match action {
        SetupAction::Write { path, .. } => format!("/{}", path.display()),
        SetupAction::Link { .. } | SetupAction::Set { .. } | SetupAction::Remove { .. } => action.to_string(),
        SetupAction::Join { user, group } => format!("{user} in the group {group}"),
    }
}

/// A note as a sentence.
pub(super) fn note(note: &Note) -> String {
    match note {
        Note::BoardKept(asked) => format!(
            "/{0} exists and is not {asked}: it stays, and setup uses it. To change the board, move it away: 'sudo mv \
             /{0} /{0}.old'",
            choice::PATH
        ),
        Note::ArmsItself => {
            "this board has auto_arm: the robot drives as soon as its service starts, so setup does not \
                             start it"
                .to_string()
        }
        Note::NoUser => format!(
            "no user is added to the group {GROUP}, whose members may arm the robot: run setup with sudo as the user who \
             will arm it, or run 'sudo usermod -aG {GROUP} NAME'"
        ),
        Note::Kept(path) => {
            format!("{} already exists with other content, so it is left unchanged", path.display())
        }
        Note::Missing(path) => format!("{} is missing, so changes that need it are left out", path.display()),
        Note::NoWatchdog => {
            "this machine has no hardware watchdog (/dev/watchdog): --watchdog does nothing".to_string()
        }
        Note::Advice(advice) => format!("left to you: {advice}"),
    }
}

/// The failure if there is no plan. What was found, and the template of a board, go to standard output.
pub(super) fn no_proposal(error: &NoProposal) -> Failure {
    const REINSTALL: &str = "install the package: 'sudo apt install ./ganglion_*.deb'";
    match error {
        NoProposal::Board(found, error) => no_board(found, error),
        NoProposal::NoUnit(unit) => Failure::unavailable(format!("{unit} is not installed")).fix(REINSTALL),
        NoProposal::NoGroup => Failure::unavailable(format!("there is no group {GROUP}")).fix(REINSTALL),
        NoProposal::ConfigTxt(path, odd) => Failure::config(odd)
            .at(format!("{}:{}", path.display(), odd.line))
            .fix("make that line 'dtparam=i2c_arm=on' under [all], or remove it, and run setup again"),
        NoProposal::ThroughLink(path, link) => {
            let what = format!("/{} is a link, and setup does not write through links", link.display());
            Failure::config(what)
                .at(format!("/{}", path.display()))
                .fix("replace the link with a file or folder")
        }
        NoProposal::Unreadable(error) => Failure::unavailable(error),
        NoProposal::UpdateAtWork => Failure::not_now("an update is not finished")
            .fix("wait for it to end: 'sudo ganglion update status'"),
    }
}

fn no_board(found: &MachineFacts, error: &NoBoard) -> Failure {
    const NAME: &str = "name the board of this machine: 'sudo ganglion setup --board NAME'";
    match error {
        NoBoard::Unknown => {
            machine(found);
            own_board(found);
            Failure::config("no built-in board fits this machine, and nothing was changed")
                .fix("write a board file and name it with --board FILE")
        }
        NoBoard::Several(names) => {
            machine(found);
            Failure::config(format!("several boards fit this machine: {}", names.join(", ")))
                .fix("name yours: 'sudo ganglion setup --board NAME', or a board file of your own")
        }
        NoBoard::Unsound(path, error) => check::failure(path, error),
        NoBoard::OtherMachine(name, mismatch) => {
            Failure::config(mismatch).at(format!("board '{name}'")).fix(NAME)
        }
        NoBoard::OtherHat(name, wrong) => {
            Failure::config(wrong).at(format!("board '{name}'")).fix(wrong.fix())
        }
        NoBoard::Log(name) => Failure::config(format!(
            "board '{name}' reads a log and drives no motor: there is no robot to set up"
        ))
        .fix(NAME),
        NoBoard::Inherits(path) => Failure::config("it inherits a file that the robot's copy could not find")
            .at(path.display())
            .fix(format!("turn it into one file: 'ganglion check {} > robot.toml'", path.display())),
        NoBoard::Odd(path, error) => Failure::config(error).at(path.display()).fix("put a board file there"),
    }
}

/// Prints a template of a board file for a machine without a built-in board.
fn own_board(found: &MachineFacts) {
    let nodes = |start: &str| {
        let all: Vec<String> =
            names(Path::new("/"), "dev").into_iter().filter(|name| name.starts_with(start)).collect();
        if all.is_empty() { "none".to_string() } else { all.join(", ") }
    };
    say!("\nNo built-in board fits this machine. Write a board file that states how the robot is wired:\n");
    say!(
        "    inherits = \"generic-linux\"        # two wheels on a PCA9685, a ranger, an inertial sensor, a power monitor"
    );
    if let Some(word) = found.machine.compatible.first() {
        say!("    compatible = [\"{}\"]    # so that it runs only on this machine", quoted(word));
    }
    say!("    [bus]");
    say!("    i2c = \"/dev/i2c-1\"                # found: {}", nodes("i2c-"));
    say!("    gpio_labels = [\"LABEL\"]           # only for lines; 'ganglion doctor' lists the chips");
    say!("    [enable]                          # the line that cuts the motors' current");
    say!("    line = \"NAME\"");
    say!("    on_high = false");
    say!("    [guard]                           # a second process that holds that line");
    say!("    holds = \"enable\"");
    say!("    patience_ms = 100.0");
    say!("    [[motor]]                         # and [[sensor]], [[reflex]]: only what differs, by name");
    say!("\n'ganglion check generic-linux' shows every key. Then:");
    say!("    ganglion check my-robot.toml");
    say!("    ganglion run --board my-robot.toml --simulate");
    say!("    sudo ganglion setup --board my-robot.toml\n");
}

/// Why the changes were interrupted, and what to do.
pub(super) fn cut_off(error: CarryOutError, fix: &str) -> Failure {
    match error {
        CarryOutError::Action(error) => Failure::from(error).fix(fix),
        CarryOutError::Journal(error) => journal(error),
        CarryOutError::Ended => Failure::bug("interrupted between two steps").fix(fix),
    }
}

/// The failure if the journal cannot be used.
pub(super) fn journal(error: JournalError) -> Failure {
    match error {
        JournalError::File(path, error) => Failure::file(&path, &error),
        JournalError::Content(path, why) => Failure::data(why)
            .at(path.display())
            .fix("nothing can be undone without it; move it away to set up again"),
        JournalError::Busy(holder) => {
            Failure::not_now(format!("another setup is running: {holder}")).fix("wait for it to end")
        }
    }
}
