//! The words of `setup`: the machine, the plan, what is left to a person, and why there is no plan.

use std::path::Path;

use super::Site;
use super::finish::Package;
use crate::cli::check;
use crate::cli::exit::Failure;
use crate::deploy::setup::carry_out::CarryOutError;
use crate::deploy::setup::choice::{self, NoBoard, Origin};
use crate::deploy::setup::deed::Deed;
use crate::deploy::setup::files::{State, names};
use crate::deploy::setup::found::{Found, Gpu};
use crate::deploy::setup::journal::JournalError;
use crate::deploy::setup::proposal::{Change, GROUP, NoProposal, Note, Proposal};
use crate::system::outside::quoted;

/// What kind of machine it is.
pub(super) fn machine(found: &Found) {
    let model = found.machine.model.as_deref().unwrap_or("unknown model");
    let system = found.system.as_ref().map_or(String::new(), |system| format!(", {}", quoted(system)));
    say!("machine  {} ({}{system})", quoted(model), found.architecture);
    for hat in &found.hats {
        let vendor = hat.vendor.as_ref().map_or(String::new(), |vendor| format!(" by {vendor}"));
        let uuid = hat.uuid.as_deref().unwrap_or("unreadable");
        say!("HAT      {}{vendor} (uuid {uuid})", hat.product);
    }
    match found.gpu {
        Gpu::Jetson => say!("GPU      the Jetson's own"),
        Gpu::Card => say!("GPU      a card by NVIDIA"),
        Gpu::None => {}
    }
}

/// The whole plan.
pub(super) fn plan(site: &Site, proposal: &Proposal, package: &Package) {
    machine(&proposal.found);
    let board = match &proposal.board.origin {
        Origin::Own | Origin::OwnInsteadOf(_) => format!("/{}, which this robot has already", choice::PATH),
        Origin::Named(name) => name.clone(),
        Origin::Only(name) => format!("{name}, the only one for this machine"),
    };
    say!("board    {board}");
    if proposal.changes.is_empty() {
        say!("\nNothing to do: this machine has all that setup would change.");
    }
    changes(site, &proposal.changes);
    match package {
        Package::Kept => {}
        Package::At(path) => say!("\nkeep {}\n    why: the first update can go back to it", path.display()),
        Package::NotFound(name) => say!(
            "\nnote: {name} is not here, so the first update will have no way back. Give it with --package FILE, or keep it \
             later: 'sudo ganglion update keep {name}'"
        ),
    }
    proposal.notes.iter().for_each(|note| say!("\nnote: {}", self::note(note)));
    if proposal.changes.iter().any(|change| change.deed.needs_reboot()) {
        say!("\nThis needs a reboot at the end.");
    }
}

/// Each change with its reason; the same setting of several cores is one.
fn changes(site: &Site, changes: &[Change]) {
    let mut rest = changes;
    while let [first, ..] = rest {
        let alike = rest.iter().take_while(|change| alike(first, change)).count();
        let more = if alike > 1 { format!(" ({alike} cores)") } else { String::new() };
        say!("\n{}{more}\n    why: {}", whole(&site.root, &first.deed), first.why);
        rest = &rest[alike.max(1)..];
    }
}

fn alike(first: &Change, other: &Change) -> bool {
    let is_set = |change: &Change| matches!(change.deed, Deed::Set { .. });
    is_set(first) && is_set(other) && first.deed.done() == other.deed.done()
}

/// A change with its content: of a file that is there, the lines that differ.
fn whole(root: &Path, deed: &Deed) -> String {
    let (Deed::Write { path, content }, Ok(State::File(old))) = (deed, deed.now(root)) else {
        return deed.to_string();
    };
    let lacks = |text: &str, line: &&str| !text.lines().any(|other| other == *line);
    let gone = old.lines().filter(|line| lacks(content, line)).map(|line| format!("\n    - {line}"));
    let new = content.lines().filter(|line| lacks(&old, line)).map(|line| format!("\n    + {line}"));
    format!("change /{}:{}", path.display(), gone.chain(new).collect::<String>())
}

/// A change in one line.
pub(super) fn brief(deed: &Deed) -> String {
    match deed {
        Deed::Write { path, .. } => format!("/{}", path.display()),
        Deed::Link { .. } | Deed::Set { .. } | Deed::Remove { .. } => deed.to_string(),
        Deed::Join { user, group } => format!("{user} in the group {group}"),
    }
}

/// A note as a sentence.
pub(super) fn note(note: &Note) -> String {
    match note {
        Note::BoardKept(asked) => format!(
            "/{0} is there and is not {asked}: it stays, and setup goes by it. To change the board, move it away: 'sudo mv \
             /{0} /{0}.old'",
            choice::PATH
        ),
        Note::ArmsItself => {
            "this board has auto_arm: the robot drives as soon as its service starts, and setup does not \
                             start it"
                .to_string()
        }
        Note::Nobody => format!(
            "no user is put into the group {GROUP}, whose members may arm the robot: run setup with sudo as the person who \
             will, or 'sudo usermod -aG {GROUP} NAME'"
        ),
        Note::Kept(path) => format!("{} is there with another content: it stays", path.display()),
        Note::Missing(path) => format!("{} is missing, so what needs it is left out", path.display()),
        Note::NoWatchdog => {
            "this machine has no hardware watchdog (/dev/watchdog): --watchdog does nothing".to_string()
        }
        Note::Advice(advice) => format!("left to you: {advice}"),
    }
}

/// Why nothing can be done. What was found, and what a board has to say, goes to standard output.
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
            let what = format!("/{} is a link, and setup writes through none", link.display());
            Failure::config(what)
                .at(format!("/{}", path.display()))
                .fix("put a file or folder in the link's place")
        }
        NoProposal::Unreadable(error) => Failure::unavailable(error),
        NoProposal::UpdateAtWork => Failure::not_now("an update is not finished")
            .fix("wait for its end: 'sudo ganglion update status'"),
    }
}

fn no_board(found: &Found, error: &NoBoard) -> Failure {
    const NAME: &str = "name the board of this machine: 'sudo ganglion setup --board NAME'";
    match error {
        NoBoard::Unknown => {
            machine(found);
            own_board(found);
            Failure::config("no built-in board is for this machine, and nothing was changed")
                .fix("write a board file and give it with --board FILE")
        }
        NoBoard::Several(names) => {
            machine(found);
            Failure::config(format!("several boards are for this machine: {}", names.join(", ")))
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
        NoBoard::Inherits(path) => Failure::config("it inherits a file that the robot's copy would not find")
            .at(path.display())
            .fix(format!("make it one file: 'ganglion check {} > robot.toml'", path.display())),
        NoBoard::Odd(path, error) => Failure::config(error).at(path.display()).fix("put a board file there"),
    }
}

/// What a person writes for a machine that no board knows.
fn own_board(found: &Found) {
    let nodes = |start: &str| {
        let all: Vec<String> =
            names(Path::new("/"), "dev").into_iter().filter(|name| name.starts_with(start)).collect();
        if all.is_empty() { "none".to_string() } else { all.join(", ") }
    };
    say!("\nNo built-in board is for this machine. A board file of yours says what the robot is wired to:\n");
    say!(
        "    inherits = \"generic-linux\"        # two wheels on a PCA9685, a ranger, an inertial sensor, a power monitor"
    );
    if let Some(word) = found.machine.compatible.first() {
        say!("    compatible = [\"{}\"]    # so that it runs on no other machine", quoted(word));
    }
    say!("    [bus]");
    say!("    i2c = \"/dev/i2c-1\"                # there are: {}", nodes("i2c-"));
    say!("    gpio_labels = [\"LABEL\"]           # only for lines; 'ganglion doctor' lists the chips");
    say!("    [enable]                          # the line that cuts the motors' current");
    say!("    line = \"NAME\"");
    say!("    on_high = false");
    say!("    [guard]                           # a second process that holds that line");
    say!("    holds = \"enable\"");
    say!("    patience_ms = 100.0");
    say!("    [[motor]]                         # and [[sensor]], [[reflex]]: by name, what differs");
    say!("\n'ganglion check generic-linux' shows every key. Then:");
    say!("    ganglion check my-robot.toml");
    say!("    ganglion run --board my-robot.toml --simulate");
    say!("    sudo ganglion setup --board my-robot.toml\n");
}

/// What ended the changes, and what to do.
pub(super) fn cut_off(error: CarryOutError, fix: &str) -> Failure {
    match error {
        CarryOutError::Deed(error) => Failure::from(error).fix(fix),
        CarryOutError::Journal(error) => journal(error),
        CarryOutError::Ended => Failure::bug("ended between two steps").fix(fix),
    }
}

/// What is wrong with the journal.
pub(super) fn journal(error: JournalError) -> Failure {
    match error {
        JournalError::File(path, error) => Failure::file(&path, &error),
        JournalError::Content(path, why) => Failure::data(why)
            .at(path.display())
            .fix("nothing can be taken back without it; move it away to set up anew"),
        JournalError::Busy(holder) => {
            Failure::not_now(format!("another setup is at work: {holder}")).fix("wait for its end")
        }
    }
}
