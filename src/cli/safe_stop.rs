//! `safe-stop`: stills the motors of a board once, without a loop. What a service runs after the
//! main process has died, whatever it died of.

use super::exit::Failure;
use crate::board::plan::BusPlan;
use crate::device::actuators::Actuators;
use crate::sim::Plant;
use crate::time::{Clock, MonotonicClock};
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `safe-stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion safe-stop --board boards/picarx-v4.toml     no pulse on any drive motor, or an exit code
  ganglion safe-stop                                   the same on the simulator

Tries to write stillness to every drive motor; where the bus does not answer, pulls the
controller's reset line. Exit 0 only when one of the two has worked.")]
pub struct Args {
    /// Board file, or the name of a built-in board
    #[arg(long, value_name = "FILE", default_value = "sim")]
    board: PathBuf,
}

/// Times that stillness is written before the reset line is pulled: a brush on the wire spoils one
/// write, hardly three.
const TRIES: usize = 3;

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let loaded = super::arguments::board(&args.board)?;
    let board = &loaded.board;
    if matches!(board.bus, BusPlan::Log) {
        say!("board '{}' has no motors on a bus: nothing to stop", board.name);
        return Ok(());
    }
    if matches!(board.bus, BusPlan::Linux { .. }) {
        return Err(Failure::unavailable("this build does not drive real I2C and GPIO yet")
            .at(format!("board '{}'", board.name))
            .fix("cut the motors' power by hand"));
    }
    let Some(mcu) = &board.mcu else {
        return Err(Failure::config(
            "the board has no [mcu], so there is nothing that could stop its motors",
        ));
    };
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let plant = Plant::new(board, 1, &[], clock.clone());
    let (mut i2c, mut gpio) = (plant.i2c(), plant.gpio());
    let mut actuators = Actuators::new(&board.motors, mcu);
    for _ in 0..TRIES {
        if actuators.stop(i2c.as_mut()).is_ok() {
            say!("drive motors of board '{}' are still", board.name);
            return Ok(());
        }
    }
    actuators.initialise(i2c.as_mut(), gpio.as_mut(), clock.as_ref()).map_err(|fault| {
        Failure::unavailable(format!("the motors could not be stilled: {fault}")).fix("cut their power")
    })?;
    say!("the bus did not answer; the controller of board '{}' was reset, its motors are still", board.name);
    Ok(())
}
