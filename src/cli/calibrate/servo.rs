//! `calibrate servo`: finds the trim at which a servo is straight. The drive motors stay stopped throughout.

use super::{Common, keep};
use crate::base::plan::{Board, MotorKind};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::deploy::board::edit::Change;
use crate::hardware::bus::Hardware;
use crate::hardware::device::servo::Servo;
use crate::hardware::device::{Ports, actuators};
use crate::runtime::access;
use crate::runtime::robot::motor_lines;
use crate::runtime::selftest::{hat, reset};
use crate::system::seqpacket::wait_for;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;

/// The largest trim that a board file allows; a horn that is one tooth off is 18 degrees off.
const MOST_DEG: f32 = 20.0;
/// Change per keystroke.
const STEP_DEG: f32 = 0.5;
/// Longest line that is read at once, in bytes; an answer is only a few bytes long.
const LONGEST_LINE: u64 = 1_000;
/// Time for a servo under load to turn from one end to the other: it takes 0.1 to 0.2 s for 60 degrees.
/// Without this delay, the controller would be put back into reset with the servo half-way.
const SERVO_TRAVEL: Span = Span::from_millis(600);
/// How often to check, while waiting for the user, whether the program should end.
const LOOK_EVERY: Span = Span::from_millis(50);

/// Arguments of `calibrate servo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion calibrate servo steering --board my-car.toml              try trims interactively
  ganglion calibrate servo steering --offset 3.5 --save my-car.toml  set this trim

All servos are centred first, one after the other; the drive motors stay stopped. Stop the
runtime and its guard first.")]
pub struct Args {
    /// The servo's name on the board
    name: String,
    /// Trim in degrees; if absent, trims are tried interactively
    #[arg(long, value_name = "DEG", allow_hyphen_values = true)]
    offset: Option<f32>,
    #[command(flatten)]
    common: Common,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let boards = super::boards(&args.common)?;
    let loaded = &boards.measured;
    let mut board = loaded.board.clone();
    let place = super::index("motor", &args.name, board.motors.iter().map(|motor| motor.name.as_str()))?;
    let MotorKind::Servo { offset_deg: first, .. } = board.motors[place].kind else {
        return Err(Failure::usage(format!("motor '{}' is not a servo", args.name)));
    };
    let interrupt = Interrupt::watch()?;
    let _claim = access::claim(&board)?;
    let hardware = access::open(&board)?;
    let offset = args.offset.map(within).transpose()?;
    board = hat::with_found_address_awake(&board, hardware.as_ref(), &MonotonicClock);
    let was_held = reset::is_held(&board, hardware.as_ref());
    let mut straighten = |offset: f32| {
        let words = straighten(&mut board, place, offset, hardware.as_ref(), &MonotonicClock)?;
        Ok(words + boards.label())
    };
    let chosen = match offset {
        Some(offset) => straighten(offset).map(|words| {
            say!("{words}");
            Some(offset)
        }),
        None => standard_input()
            .and_then(|mut input| ask(first, &mut || line_of(&mut input, &interrupt), &mut straighten)),
    };
    if was_held {
        leave_in_reset(&loaded.board, hardware.as_ref(), &MonotonicClock);
    }
    let chosen = chosen?;
    if interrupt.asked() {
        return Err(Failure::unavailable("interrupted: nothing was saved, and the drive motors are stopped"));
    }
    let Some(offset) = chosen else {
        say!("unchanged: {first} degrees");
        return Ok(());
    };
    // The decimal number as the user typed it: 3.5, not the nearest 32-bit value.
    let value = offset.to_string().parse().unwrap_or(f64::from(offset));
    let changes = [Change { list: "motor", name: args.name.clone(), key: "offset_deg", value }];
    keep::keep(&args.common, &boards, &changes)?;
    if args.common.json {
        let object = json!({
            "schema": 1,
            "board": loaded.board.name,
            "simulated": super::is_simulated(loaded),
            "motor": args.name,
            "changes": keep::objects(&boards, &changes),
            "saved": args.common.save,
        });
        crate::cli::output::json(&object)?;
    }
    Ok(())
}

fn within(offset: f32) -> Result<f32, Failure> {
    if (-MOST_DEG..=MOST_DEG).contains(&offset) {
        return Ok(offset);
    }
    Err(Failure::usage(format!("a trim of {offset} degrees; allowed: {} to {MOST_DEG}", -MOST_DEG))
        .fix("move the servo's horn to another tooth"))
}

/// Centres every servo, the one at `place` with this trim. Returns that servo's shaft angle and pulse
/// as text.
fn straighten(
    board: &mut Board,
    place: usize,
    offset: f32,
    hardware: &dyn Hardware,
    clock: &dyn Clock,
) -> Result<String, Failure> {
    if let MotorKind::Servo { offset_deg, .. } = &mut board.motors[place].kind {
        *offset_deg = offset;
    }
    let motor = &board.motors[place];
    let servo = Servo::of(&motor.kind).ok_or_else(|| Failure::bug("not a servo"))?;
    let mut motors = actuators::of(board, Path::new("/"))?;
    let mut i2c = hardware.i2c(0)?;
    let mut gpio = hardware.gpio("calibrate", &motor_lines(board))?;
    let mut ports = Ports { i2c: i2c.as_mut(), gpio: gpio.as_mut(), clock };
    motors.initialise(&mut ports).map_err(|fault| {
        Failure::unavailable(format!("the servo could not be moved: {fault}"))
            .fix("check its supply and wires; 'ganglion doctor --board FILE --test' checks all of them")
    })?;
    let angle = servo.angle(0.0);
    Ok(format!(
        "{}: straight is {} degrees; with a trim of {offset} the shaft is at {} degrees, a pulse of {:.1} us",
        motor.name,
        angle.0,
        servo.shaft(angle).0,
        servo.pulse_us(0.0),
    ))
}

/// Puts the controller back into reset, in which a stopped guard left it: it outputs no pulses, whatever is
/// written to the bus. First waits until the servos have reached their positions.
fn leave_in_reset(board: &Board, hardware: &dyn Hardware, clock: &dyn Clock) {
    clock.sleep_until(clock.now() + SERVO_TRAVEL);
    if let Err(error) = reset::put_back(board, hardware) {
        log::warn!(
            "the controller was found in reset, and could not be put back into it: {error}; {}",
            error.fix
        );
    }
}

/// Standard input as a file of our own: polling cannot see what the standard library has already buffered.
fn standard_input() -> Result<BufReader<File>, Failure> {
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let input = input.map_err(|error| Failure::unavailable(error).at("standard input"))?;
    Ok(BufReader::new(File::from(input)))
}

/// The next line; `None` at the end of the input, or if the program should end.
fn line_of(input: &mut BufReader<File>, interrupt: &Interrupt) -> Result<Option<String>, Failure> {
    while input.buffer().is_empty() && !wait_for(&[input.get_ref()], LOOK_EVERY) {
        if interrupt.asked() {
            return Ok(None);
        }
    }
    let mut line = String::new();
    let read = input.take(LONGEST_LINE).read_line(&mut line);
    let read = read.map_err(|error| Failure::unavailable(error).at("standard input"))?;
    Ok((read > 0 && !interrupt.asked()).then_some(line))
}

/// Lets the user try trims; `None` keeps the trim unchanged.
fn ask(
    first: f32,
    next_line: &mut dyn FnMut() -> Result<Option<String>, Failure>,
    straighten: &mut dyn FnMut(f32) -> Result<String, Failure>,
) -> Result<Option<f32>, Failure> {
    let mut offset = first;
    say!("enter + or - to change the trim by {STEP_DEG} degrees, a number to set it, s to save, q to quit");
    say!("{}", straighten(offset)?);
    loop {
        let Some(line) = next_line()? else { return Ok(None) };
        let asked = match line.trim() {
            "q" => return Ok(None),
            "s" => return Ok(Some(offset)),
            "" => continue,
            word if word.bytes().all(|b| b == b'+') => offset + STEP_DEG * word.len() as f32,
            word if word.bytes().all(|b| b == b'-') => offset - STEP_DEG * word.len() as f32,
            word => match word.parse::<f32>() {
                Ok(number) => number,
                Err(_) => {
                    say!("'{word}': expected +, -, a number, s or q");
                    continue;
                }
            },
        };
        match within(asked) {
            Ok(asked) => {
                offset = asked;
                say!("{}", straighten(offset)?);
            }
            Err(refusal) => say!("{refusal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::SimClock;
    use crate::sim::Plant;
    use std::sync::Arc;

    #[test]
    fn keystrokes_become_a_trim() {
        let run = |keys: &str| {
            let mut tried = Vec::new();
            let mut lines = keys.lines().map(str::to_string);
            let chosen = ask(1.0, &mut || Ok(lines.next()), &mut |offset| {
                tried.push(offset);
                Ok(String::new())
            });
            (chosen.unwrap(), tried)
        };
        assert_eq!(run("+\n++\n-\n\ns\n"), (Some(2.0), vec![1.0, 1.5, 2.5, 2.0]));
        assert_eq!(run("-7.25\nwhat\n21\nNaN\ns\n"), (Some(-7.25), vec![1.0, -7.25]));
        assert_eq!(run("+\nq\n"), (None, vec![1.0, 1.5]));
        assert_eq!(run("+\n").0, None, "nothing is saved at the end of the input");
    }

    #[test]
    fn trimming_turns_the_simulated_steering_and_drives_no_motor() {
        let board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let clock = Arc::new(SimClock::new());
        let plant = Plant::new(&board, 1, &[], clock.clone());
        let place = board.motors.iter().position(|motor| motor.name == "steering").unwrap();
        let mut trimmed = board.clone();
        let words = straighten(&mut trimmed, place, 9.0, &plant, clock.as_ref()).unwrap();
        assert!(words.contains("the shaft is at 9 degrees, a pulse of 1600.0 us"), "{words}");
        // The simulated car needs no trim, so its wheels turn by the trim.
        let report = plant.report(clock.now());
        assert!((report.steering_deg - 9.0).abs() < 0.5, "{}", report.steering_deg);
        assert!(plant.motors_still() && report.distance_m == 0.0);
        leave_in_reset(&board, &plant, clock.as_ref());
        assert!(reset::is_held(&board, &plant) && plant.motors_still());
        assert!(within(f32::NAN).is_err() && within(20.0).is_ok() && within(-20.5).is_err());
    }
}
