//! `probe`: finds the devices on an I2C bus. It reads one byte from each address and writes nothing. It skips
//! addresses that belong to the computer or to a kernel driver.

use super::exit::Failure;
use crate::base::fault::BusFault;
use crate::base::plan::addresses::{Expected, also_answers, expected, holder, moved};
use crate::base::plan::{Board, BusPlan, I2cNode};
use crate::base::time::MonotonicClock;
use crate::deploy::board::{self};
use crate::hardware::bus::OpenError;
use crate::hardware::bus::linux::{Claim, LinuxHardware, Presence};
use crate::hardware::bus::scan::{ADDRESSES, ProbeResult, ask};
use crate::runtime::access;
use crate::runtime::selftest::reset::{Awake, is_held};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion probe /dev/i2c-1                     a bus of this machine; also 1 or adapter:c250000.i2c
  ganglion probe --board boards/picarx-v4.toml  the motors' bus, with the devices expected on it
  ganglion probe side --board jetson-orin-nano  another of the board's buses, by name

If a stopped guard left the controller in reset, probe takes it out of reset for the scan and then
puts it back; that needs --board. Stop the runtime first: probe could read a byte that the runtime
is waiting for.")]
pub struct Args {
    /// A path, a number, 'adapter:' followed by part of its device's name, or with --board the name of a bus
    #[arg(value_name = "BUS")]
    bus: Option<String>,
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board: shows the devices
    /// that the board expects, and skips the addresses that it reserves
    #[arg(long, value_name = "FILE")]
    board: Option<PathBuf>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let (board, bus) = target(&args)?;
    let (found, silence) = {
        let (awake, _claim) = awake(&board, bus)?;
        let found = probe(&board, bus)?;
        let silence = silence(&board, bus, &found, awake.may_be_held());
        (found, silence)
    };
    lines(&board, bus, &found).iter().chain(&silence).for_each(|line| say!("{line}"));
    if args.json {
        super::output::json(&object(&board, bus, &found))?;
    }
    match found.iter().find_map(|(address, presence)| match presence {
        Presence::Refused(fault) => Some((address, fault)),
        _ => None,
    }) {
        None => Ok(()),
        Some((address, fault)) => {
            Err(Failure::unavailable(format!("reading {address:#04x} failed on the bus: {fault:?}"))
                .at(node(&board, bus))
                .fix("power-cycle its devices; look for a device that holds SDA or SCL low"))
        }
    }
}

/// The board, and the index of the bus that the command line names.
fn target(args: &Args) -> Result<(Board, usize), Failure> {
    let board = args.board.as_deref().map(super::arguments::board).transpose()?.map(|loaded| loaded.board);
    match (board, args.bus.as_deref()) {
        (Some(board), _) if board.i2c.is_empty() => {
            Err(Failure::config(format!("board '{}' has no I2C bus", board.name)))
        }
        (Some(board), None) => Ok((board, 0)),
        (Some(board), Some(word)) => {
            let named = board.i2c.iter().position(|bus| bus.name == word);
            let known: Vec<&str> = board.i2c.iter().map(|bus| bus.name.as_str()).collect();
            let at = named.or_else(|| board.i2c.iter().position(|bus| bus.node == place(word)));
            let at = at.ok_or_else(|| {
                Failure::usage(format!("board '{}' has no bus '{word}'", board.name))
                    .fix(format!("its buses: {}", known.join(", ")))
            })?;
            Ok((board, at))
        }
        (None, Some(word)) => Ok((bare(place(word))?, 0)),
        (None, None) => Err(Failure::usage("no bus named")
            .fix("name one, as in 'ganglion probe /dev/i2c-1' ('ganglion doctor' lists them), or --board")),
    }
}

fn place(word: &str) -> I2cNode {
    match word.strip_prefix("adapter:") {
        Some(device) => I2cNode::Adapter(device.to_string()),
        None if word.bytes().all(|b| b.is_ascii_digit()) => I2cNode::Path(format!("/dev/i2c-{word}")),
        None => I2cNode::Path(word.to_string()),
    }
}

/// A board with one bus and no devices on it.
fn bare(node: I2cNode) -> Result<Board, Failure> {
    let generic = board::built_in("generic-linux").and_then(Result::ok);
    let mut board = generic.ok_or_else(|| Failure::bug("no built-in board 'generic-linux'"))?.board;
    board.i2c.truncate(1);
    board.i2c[0].node = node;
    board.sensors.clear();
    board.motors.clear();
    board.pwm = None;
    Ok(board)
}

/// Takes the motors' controller out of reset if no process holds it there. That drives a line, so this
/// process claims the motors as long as the returned values live.
fn awake(board: &Board, bus: usize) -> Result<(Awake, Option<Claim>), Failure> {
    if bus != 0 || !matches!(board.bus, BusPlan::Linux { .. }) {
        return Ok((Awake::AsFound, None));
    }
    let hardware = access::open(board)?;
    let claim = if is_held(board, hardware.as_ref()) { access::claim(board)? } else { None };
    Ok((Awake::wake(board, hardware.as_ref(), &MonotonicClock), claim))
}

/// A note if the motors' controller does not answer: whether the reset line may be why, and what to do.
fn silence(
    board: &Board,
    bus: usize,
    found: &[(u8, Presence)],
    may_be_held: Option<&OpenError>,
) -> Option<String> {
    let mcu = board.mcu.as_ref().filter(|_| bus == 0)?;
    let is_silent = |address| found.contains(&(address, Presence::Silent));
    if !mcu.addresses().all(is_silent) {
        return None;
    }
    Some(match may_be_held {
        Some(held) => format!("      it may be held in reset: {held}; to do: {}", held.fix),
        None => {
            "      nothing holds it in reset: check its switch, its battery, and that it sits properly on its pins".to_string()
        }
    })
}

/// The state of each address. Stops early if the bus is stuck: every further address would take the full
/// timeout.
fn probe(board: &Board, bus: usize) -> Result<Vec<(u8, Presence)>, Failure> {
    match board.bus {
        BusPlan::Linux { .. } => {
            let hardware = LinuxHardware::open(board)?;
            each(|address| hardware.probe(bus, address))
        }
        _ => {
            let hardware = access::open(board)?;
            let mut i2c = hardware.i2c(bus)?;
            each(|address| {
                if let Some(holder) = holder(board, bus, address) {
                    return Ok(Presence::Reserved(holder.to_string()));
                }
                Ok(match ask(i2c.as_mut(), address) {
                    ProbeResult::Answers => Presence::Answers,
                    ProbeResult::Silent => Presence::Silent,
                    ProbeResult::Refused(fault) => Presence::Refused(fault),
                })
            })
        }
    }
}

fn each(mut ask: impl FnMut(u8) -> Result<Presence, OpenError>) -> Result<Vec<(u8, Presence)>, Failure> {
    let mut found = Vec::new();
    for address in ADDRESSES {
        let presence = ask(address)?;
        let held = matches!(presence, Presence::Refused(BusFault::TimedOut | BusFault::Absent));
        found.push((address, presence));
        if held {
            break;
        }
    }
    Ok(found)
}

/// The result as text: a map in the format of i2cdetect, then every address with something to report.
fn lines(board: &Board, bus: usize, found: &[(u8, Presence)]) -> Vec<String> {
    let mut lines = vec![
        format!("bus {} ({})", board.i2c[bus].name, node(board, bus)),
        "     0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f".to_string(),
    ];
    for row in 0..8_u8 {
        let cells: Vec<String> = (0..16_u8).map(|column| cell(found, 16 * row + column)).collect();
        lines.push(format!("{:02x}: {}", 16 * row, cells.join(" ")).trim_end().to_string());
    }
    let expected = expected(board, bus);
    let told = found.iter().filter_map(|(address, presence)| {
        Some(format!("{address:#04x}  {}", describe(board, bus, &expected, *address, presence)?))
    });
    lines.extend(told);
    lines
}

fn cell(found: &[(u8, Presence)], address: u8) -> String {
    match found.iter().find(|(at, _)| *at == address).map(|(_, presence)| presence) {
        None => "  ".to_string(),
        Some(Presence::Answers) => format!("{address:02x}"),
        Some(Presence::Silent) => "--".to_string(),
        Some(Presence::Reserved(_)) => "RR".to_string(),
        Some(Presence::Kernel(_)) => "UU".to_string(),
        Some(Presence::Refused(_)) => "??".to_string(),
    }
}

/// What to report about an address; nothing if no device answers there and none is expected.
fn describe(
    board: &Board,
    bus: usize,
    expected: &[Expected],
    address: u8,
    presence: &Presence,
) -> Option<String> {
    let known = expected.iter().find(|device| device.address == address).map(|device| device.what.as_str());
    let of_chip = also_answers(board, bus, address);
    let waking = moved(board, bus).filter(|(_, first, _)| *first == address);
    let waking: Vec<&str> = waking.map(|(sensor, ..)| sensor.name.as_str()).collect();
    Some(match (presence, known) {
        (Presence::Silent, None) => return None,
        (Presence::Silent, Some(what)) if moved(board, bus).any(|(.., own)| own == address) => {
            format!(
                "{what}: gets this address in its set-up; 'ganglion doctor --test' sets it up and reads it"
            )
        }
        (Presence::Silent, Some(what)) => format!("{what}: expected, but silent"),
        (Presence::Answers, Some(what)) => what.to_string(),
        (Presence::Answers, None) if !waking.is_empty() => {
            format!("before their set-up: {}", waking.join(", "))
        }
        (Presence::Answers, None) if of_chip => "a second address of one of the board's chips".to_string(),
        (Presence::Answers, None) => "not known to the board".to_string(),
        (Presence::Reserved(holder), _) => format!("reserved for {holder}, skipped"),
        (Presence::Kernel(driver), None) => format!("in use by the kernel ({driver}), skipped"),
        (Presence::Kernel(driver), Some(what)) => {
            format!("in use by the kernel ({driver}), skipped: {what} cannot be here")
        }
        (Presence::Refused(fault), _) => format!("bus fault {fault:?}"),
    })
}

fn node(board: &Board, bus: usize) -> String {
    match (&board.bus, &board.i2c[bus].node) {
        (BusPlan::Linux { .. }, I2cNode::Path(path)) => path.clone(),
        (BusPlan::Linux { .. }, I2cNode::Adapter(device)) => format!("adapter {device}"),
        _ => "simulated".to_string(),
    }
}

fn object(board: &Board, bus: usize, found: &[(u8, Presence)]) -> Value {
    let expected = expected(board, bus);
    let devices = found.iter().filter_map(|(address, presence)| {
        let words = describe(board, bus, &expected, *address, presence)?;
        let state = match presence {
            Presence::Answers => "answers",
            Presence::Silent => "silent",
            Presence::Reserved(_) => "reserved",
            Presence::Kernel(_) => "kernel",
            Presence::Refused(_) => "refused",
        };
        let wanted = expected.iter().any(|device| device.address == *address);
        Some(json!({ "address": address, "state": state, "expected": wanted, "what": words }))
    });
    json!({
        "schema": 1,
        "bus": board.i2c[bus].name,
        "node": node(board, bus),
        "asked": found.len(),
        "devices": devices.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(bus: Option<&str>, board: Option<&str>) -> Args {
        Args { bus: bus.map(str::to_string), board: board.map(PathBuf::from), json: false }
    }

    #[test]
    fn the_probe_finds_the_simulated_controller_and_tilt_sensor() {
        let (board, bus) = target(&args(None, Some("sim"))).unwrap();
        let found = probe(&board, bus).unwrap();
        assert_eq!(found.len(), 0x70);
        let lines = lines(&board, bus, &found);
        assert_eq!(lines[0], "bus motors (simulated)");
        assert_eq!(lines[3], "10: -- -- -- -- 14 -- -- -- -- -- -- -- -- -- -- --");
        assert_eq!(lines[2], "00:                         -- -- -- -- -- -- -- --");
        let assigned = "gets this address in its set-up; 'ganglion doctor --test' sets it up and reads it";
        let wanted = [
            "0x14  Robot HAT",
            "0x29  before their set-up: corner-left, corner-right",
            &format!("0x30  corner-left: {assigned}"),
            &format!("0x31  corner-right: {assigned}"),
            "0x60  lean",
            "0x68  turning",
        ];
        assert_eq!(lines[10..], wanted);
        let object = object(&board, bus, &found);
        assert_eq!(object["devices"].as_array().map(Vec::len), Some(6));
        assert_eq!(object["devices"][0]["state"], "answers");
    }

    #[test]
    fn a_silent_controller_is_explained_with_a_fix() {
        let (board, bus) = target(&args(None, Some("picarx-v4"))).unwrap();
        let silent = [(0x14, Presence::Silent), (0x15, Presence::Silent)];
        let [what, why, fix] = ["GPIO line 5", "ganglion-guard is using it", "stop it"].map(String::from);
        let held = OpenError { what, why, fix, denied: false };
        let words = silence(&board, bus, &silent, Some(&held)).unwrap();
        assert_eq!(
            words.trim(),
            "it may be held in reset: GPIO line 5: ganglion-guard is using it; to do: stop it"
        );
        assert!(silence(&board, bus, &silent, None).unwrap().contains("switch"));
        for [one, other] in [[0x14, 0x15], [0x15, 0x14]] {
            let found = [(one, Presence::Answers), (other, Presence::Silent)];
            assert_eq!(silence(&board, bus, &found, Some(&held)), None, "the controller is at {one:#04x}");
        }
        assert_eq!(silence(&board, 1, &silent, Some(&held)), None, "the controller is not on that bus");
    }

    #[test]
    fn a_bus_is_given_by_number_path_or_adapter() {
        for (word, wanted) in [
            ("1", I2cNode::Path("/dev/i2c-1".to_string())),
            ("/dev/i2c-7", I2cNode::Path("/dev/i2c-7".to_string())),
            ("adapter:c250000.i2c", I2cNode::Adapter("c250000.i2c".to_string())),
        ] {
            assert_eq!(target(&args(Some(word), None)).unwrap().0.i2c[0].node, wanted);
        }
        let nano = Some("jetson-orin-nano");
        assert_eq!(target(&args(Some("side"), nano)).unwrap().1, 1);
        assert_eq!(target(&args(Some("adapter:c240000.i2c"), nano)).unwrap().1, 1);
        let unknown = target(&args(Some("sied"), nano)).unwrap_err();
        assert!(unknown.to_string().contains("its buses: motors, side"), "{unknown}");
        assert!(target(&args(None, None)).is_err());
        assert!(target(&args(None, Some("scitos-g5"))).is_err());
    }

    #[test]
    fn every_probe_result_has_a_text() {
        let (board, _) = target(&args(None, Some("jetson-orin-nano"))).unwrap();
        let found = vec![
            (0x08, Presence::Silent),
            (0x29, Presence::Silent),
            (0x3C, Presence::Answers),
            (0x40, Presence::Kernel("ina3221".to_string())),
            (0x41, Presence::Reserved("x".to_string())),
            (0x70, Presence::Answers),
            (0x71, Presence::Refused(BusFault::TimedOut)),
        ];
        let wanted = [
            "0x29  range: expected, but silent",
            "0x3c  not known to the board",
            "0x40  in use by the kernel (ina3221), skipped: PCA9685 of the motors cannot be here",
            "0x41  reserved for x, skipped",
            "0x70  a second address of one of the board's chips",
            "0x71  bus fault TimedOut",
        ];
        assert_eq!(lines(&board, 0, &found)[10..], wanted);
    }

    #[test]
    fn a_stuck_bus_ends_the_scan() {
        let mut asked = 0;
        let found = each(|_| {
            asked += 1;
            Ok(if asked == 3 { Presence::Refused(BusFault::TimedOut) } else { Presence::Silent })
        });
        assert_eq!((found.unwrap().len(), asked), (3, 3));
    }
}
