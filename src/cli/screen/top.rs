//! `top`: the screen of a robot that another program runs, or the line of a run if there is no screen.

use super::model::Owner;
use super::robot::Remote;
use super::show::show;
use super::terminal::{Before, check, is_usable, is_wanted};
use crate::cli::control::{StatusArgs, Whom, status, unreachable};
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::status::{REDRAWS_HZ, StatusLine};
use crate::runtime::control::{CONTROL_SOCKET, status_with};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Arguments of `top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion top                                          the robot on this machine
  ganglion top --socket /tmp/robot.sock                 a run with --control /tmp/robot.sock
  ssh -t robot ganglion top                             a robot elsewhere

Keys: a arm, d disarm, s stop and end the robot's program, f slices through the field, space freeze,
h help, q quit. On a real robot, a must be pressed twice. A terminal of 80 x 24 shows everything, a
smaller one what fits.

With NO_COLOR, top shows one line, as 'ganglion run' does then, until Ctrl-C; --screen shows the
screen without colours instead. Without a terminal, or with TERM=dumb, it prints the output of
'ganglion status', once.")]
pub struct Args {
    /// Control socket of the runtime
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    socket: PathBuf,
    /// Show the screen even if NO_COLOR is set; it then has no colours
    #[arg(long)]
    screen: bool,
}

/// Runs the command.
pub fn run(Args { socket, screen }: Args) -> Result<(), Failure> {
    check(screen)?;
    if !is_usable() {
        return status(StatusArgs::of(Whom::at(socket)));
    }
    let interrupt = Interrupt::watch()?;
    if !is_wanted(screen) {
        return follow(&socket, &interrupt);
    }
    let before = Before::read().map_err(|error| Failure::unavailable(error).at("the terminal"))?;
    let mut robot = Remote::new(socket.clone());
    show(Owner::Top, &mut robot, before, || interrupt.asked()).map_err(|error| unreachable(&socket, &error))
}

/// Shows the robot on one line until the user asks to end. Fails if the robot does not answer.
fn follow(socket: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut line = None;
    while !interrupt.asked() {
        let status = status_with(socket, false, false).map_err(|error| unreachable(socket, &error))?;
        line.get_or_insert_with(|| StatusLine::new(None, status.simulated)).show_status(&status);
        thread::sleep(Duration::from_secs(1) / u32::from(REDRAWS_HZ));
    }
    Ok(())
}
