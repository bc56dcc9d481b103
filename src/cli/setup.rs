//! `setup`: turns this machine into a robot that is ready to be armed. Shows what it will change and why,
//! asks, makes the changes with a journal, tests the hardware and starts the services. `--undo` undoes the
//! changes. It arms nothing and moves no motor.

mod finish;
mod object;
mod undo;
mod words;

use std::io::{BufRead, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::exit::Failure;
use crate::deploy::setup::action::SetupAction;
use crate::deploy::setup::carry_out::{self, Step};
use crate::deploy::setup::choice::NoBoard;
use crate::deploy::setup::programs::{OnPath, Programs};
use crate::deploy::setup::proposal::{NoProposal, Proposal, Wishes, propose};
use crate::deploy::setup::tuning;

/// Arguments of `setup`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion setup                         show every change and why; change nothing
  sudo ganglion setup                    ask, change, test the hardware, start the robot disarmed
  sudo ganglion setup --board picarx-v4  for this board, if several fit this machine or none does
  sudo ganglion setup --board my-car.toml --watchdog --yes
                                         without asking; a watchdog resets the machine if it hangs
  sudo ganglion setup --undo             undo every change, except in files that were edited since
  ganglion setup --json                  the plan as one JSON object on the last line

Without --yes, setup asks first; without a terminal or with --json, it then only shows the plan. You
can interrupt it at any moment and run it again to finish; after that, another run changes nothing.
If a change needs a reboot, setup says so: reboot, then run it again to see whether the robot is
ready. It never arms the robot.

Exit code 69 if the hardware test fails or the package is not installed; 77 without root; 78 if no
board fits this machine, several do, or you have to edit a file first: then nothing was changed.")]
pub struct Args {
    /// The robot's board: a built-in board's name, or a file (its name has a '/' or ends in '.toml')
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "undo")]
    board: Option<PathBuf>,
    /// Also enable the hardware watchdog, which resets the machine if the system hangs for 15 s
    #[arg(long, conflicts_with = "undo")]
    watchdog: bool,
    /// The installed version's package, to be kept as the way back from the first update
    #[arg(long, value_name = "FILE", conflicts_with = "undo")]
    package: Option<PathBuf>,
    /// Make the changes without asking
    #[arg(long)]
    yes: bool,
    /// Undo what setup has changed, newest first
    #[arg(long)]
    undo: bool,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
    /// A folder to use as '/': for tests
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

/// The root folder that `setup` works in, and the programs that it runs.
struct Site<'p> {
    root: PathBuf,
    /// Whether `root` is this machine's own root folder, and not another one for tests.
    is_here: bool,
    programs: &'p dyn Programs,
}

impl Site<'_> {
    /// Whether this process may change the machine.
    fn may_change(&self) -> bool {
        !self.is_here || rustix::process::geteuid().is_root()
    }
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let is_here = args.root.is_none();
    let root = args.root.clone().unwrap_or_else(|| PathBuf::from("/"));
    let site = Site { root, is_here, programs: &OnPath };
    if args.undo { undo::run(&site, args.yes, args.json) } else { set_up(&site, &args) }
}

fn set_up(site: &Site, args: &Args) -> Result<(), Failure> {
    let may_ask = !args.yes && !args.json && is_terminal();
    let proposal = proposal(site, args, may_ask)?;
    let package = finish::Package::look(&site.root, args.package.as_deref())?;
    words::plan(site, &proposal, &package);
    let agreed = args.yes || may_ask && agreed(site, &proposal)?;
    let mut outcome = Ok(finish::State::Planned);
    if agreed {
        outcome = do_it(site, &proposal, &package);
    } else if !proposal.changes.is_empty() && !may_ask {
        say!(
            "\nNothing was changed. 'sudo ganglion setup --yes' makes all these changes{}.",
            with_board(args)
        );
    }
    if args.json {
        super::output::json(&object::plan(&proposal, outcome.as_ref().ok()))?;
    }
    outcome.map(drop)
}

/// The board option to repeat when the command is run again.
fn with_board(args: &Args) -> String {
    let board = args.board.as_ref().map(|board| format!(" (with --board {})", board.display()));
    board.unwrap_or_default()
}

/// What this machine needs. If several boards fit and a person is at the terminal, asks which.
fn proposal(site: &Site, args: &Args, may_ask: bool) -> Result<Proposal, Failure> {
    let wish = |board| Wishes { board, watchdog: args.watchdog, user: tuning::user() };
    let first = propose(&site.root, &wish(args.board.clone()));
    let answer = match first {
        Err(NoProposal::Board(found, NoBoard::Several(names))) if may_ask => {
            words::machine(&found);
            let board = ask_board(&names)?;
            propose(&site.root, &wish(Some(board.into())))
        }
        answer => answer,
    };
    answer.map_err(|error| {
        let failure = words::no_proposal(&error);
        if let (NoProposal::Board(found, no_board), true) = (&error, args.json) {
            let _ = super::output::json(&object::no_board(found, no_board));
        }
        failure
    })
}

fn ask_board(names: &[&str]) -> Result<String, Failure> {
    say!("\nSeveral boards fit this machine:");
    names.iter().enumerate().for_each(|(at, name)| say!("  {}  {name}", at + 1));
    let answer = ask(&format!("Which one is this robot? [1-{}] ", names.len()))?;
    let chosen = answer.parse::<usize>().ok().and_then(|number| names.get(number.checked_sub(1)?));
    let chosen = chosen.or_else(|| names.iter().find(|name| **name == answer));
    chosen.map(|name| name.to_string()).ok_or_else(|| {
        Failure::usage("no board was chosen, and nothing was changed").fix("name it: --board NAME")
    })
}

/// Whether the user agrees to the changes; without any changes there is nothing to ask.
fn agreed(site: &Site, proposal: &Proposal) -> Result<bool, Failure> {
    if !site.may_change() {
        say!(
            "\nNothing was changed: only root can do this. 'sudo ganglion setup' asks, then makes the changes."
        );
        return Ok(false);
    }
    if proposal.changes.is_empty() {
        return Ok(true);
    }
    let yes = is_yes(&ask("\nMake all these changes? [y/N] ")?);
    if !yes {
        say!("Nothing was changed.");
    }
    Ok(yes)
}

fn do_it(site: &Site, proposal: &Proposal, package: &finish::Package) -> Result<finish::State, Failure> {
    let changes = proposal.changes.len();
    if !site.may_change() {
        let what = if changes == 0 {
            "only root can test the hardware and start the services"
        } else {
            "only root can do this"
        };
        return Err(Failure::permission(what).fix("sudo ganglion setup"));
    }
    let actions: Vec<&SetupAction> = proposal.changes.iter().map(|change| &change.action).collect();
    if changes > 0 {
        say!();
    }
    carry_out::apply(&site.root, &actions, site.programs, &mut |step| {
        if let Step::Done(action) = step {
            say!("done: {}", words::brief(action));
        }
        ControlFlow::Continue(())
    })
    .map_err(|error| {
        words::cut_off(error, "run 'sudo ganglion setup' again to finish, or with --undo to undo everything")
    })?;
    finish::finish(site, proposal, package)
}

/// Whether both standard input and output are a terminal.
fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Asks one question; the end of input counts as an empty answer.
fn ask(question: &str) -> Result<String, Failure> {
    let refused = |error: std::io::Error| Failure::file(Path::new("standard input"), &error);
    let mut out = std::io::stdout().lock();
    out.write_all(question.as_bytes()).and_then(|()| out.flush()).map_err(refused)?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(refused)?;
    Ok(line.trim().to_string())
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.to_ascii_lowercase().as_str())
}
