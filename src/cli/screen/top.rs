//! `top`: the screen of a robot that another program runs.

use super::model::Owner;
use super::robot::Remote;
use super::show::show;
use super::terminal::{Before, is_usable};
use crate::cli::control::{StatusArgs, Whom, status, unreachable};
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::runtime::control::CONTROL_SOCKET;
use std::path::PathBuf;

/// Arguments of `top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion top                                          the robot on this machine
  ganglion top --socket /tmp/robot.sock                 a run with --control /tmp/robot.sock
  ssh -t robot ganglion top                             a robot elsewhere

Keys: a arm, d disarm, s stop and end the robot's program, f slices through the field, space freeze,
h help, q quit. On a real robot, a must be pressed twice. Needs a terminal of at least 80 x 24;
NO_COLOR=1 turns colours off. Without a terminal it prints the output of 'ganglion status', once.")]
pub struct Args {
    /// Control socket of the runtime
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    socket: PathBuf,
}

/// Runs the command.
pub fn run(Args { socket }: Args) -> Result<(), Failure> {
    if !is_usable() {
        return status(StatusArgs::of(Whom::at(socket)));
    }
    let interrupt = Interrupt::watch()?;
    let before = Before::read().map_err(|error| Failure::unavailable(error).at("the terminal"))?;
    let mut robot = Remote::new(socket.clone());
    show(Owner::Top, &mut robot, before, || interrupt.asked()).map_err(|error| unreachable(&socket, &error))
}
