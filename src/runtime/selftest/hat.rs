//! Which Robot HAT the device tree reports, and at which of the board's addresses the HAT's controller
//! answers. A board file for another HAT would drive lines that are not the motors': GPIO23 sets
//! the direction of a v4's left motor, but is the charger's output on a v5.
//!
//! Sources: SunFounder's robot-hat library (device.py: uuids and where they are; adc.py, pwm.py: addresses,
//! tried in order) and its pages on both HATs; its fusion-hat repository. The firmware of a Raspberry Pi
//! copies a HAT's EEPROM into the device tree. A v4 has no EEPROM.

use super::Check;
use super::machine::TREES;
use super::reset::Awake;
use crate::base::fault::BusFault;
use crate::base::plan::{Board, BusPlan, McuPlan};
use crate::base::time::Clock;
use crate::hardware::bus::scan::{ProbeResult, ask};
use crate::hardware::bus::{Hardware, I2c};
use std::fmt;
use std::path::Path;

/// The vendor's HATs, by the uuid in their EEPROM.
const KNOWN: [(&str, Kind); 3] = [
    ("9daeea78-0000-076e-0032-582369ac3e02", Kind::V5),
    ("9daeea78-0000-076e-003c-582369ac3e02", Kind::Unsupported("Robot HAT v6")),
    ("9daeea78-0000-0774-000a-582369ac3e02", Kind::Unsupported("Fusion HAT")),
];

/// A kind of HAT, with or without a board file for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Robot HAT v4: four timers, motors with a direction line.
    V4,
    /// Robot HAT v5: seven timers, motors on pairs of channels.
    V5,
    /// Another HAT with the vendor's controller, for which there is no board file.
    Unsupported(&'static str),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::V4 => "Robot HAT v4",
            Kind::V5 => "Robot HAT v5",
            Kind::Unsupported(name) => name,
        })
    }
}

impl Kind {
    /// The HAT that a board file with this controller is for.
    fn of(mcu: &McuPlan) -> Kind {
        // A v4 has four timers, a v5 seven; `board/check/wires.rs` allows no other number.
        if mcu.timers == 4 { Kind::V4 } else { Kind::V5 }
    }
}

/// A HAT that the device tree names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// `None`: unreadable.
    pub uuid: Option<String>,
    /// Its name.
    pub product: String,
    /// Who made it.
    pub vendor: Option<String>,
    /// The vendor's product number.
    pub product_id: Option<String>,
}

/// A board file for another HAT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongHat {
    /// The HAT of the device tree, and its uuid.
    pub found: (Kind, String),
    /// The HAT that the board file is for.
    pub wanted: Kind,
}

impl fmt::Display for WrongHat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, uuid) = &self.found;
        write!(f, "the device tree names a {found} (uuid {uuid}); the board file is for a {}", self.wanted)
    }
}

impl std::error::Error for WrongHat {}

impl WrongHat {
    /// What to do about it.
    pub fn fix(&self) -> &'static str {
        match self.found.0 {
            Kind::V4 => "use the board 'picarx-v4', or inherit it",
            Kind::V5 => "use the board 'picarx-v5', or inherit it: its motors are on other channels",
            Kind::Unsupported(_) => {
                "there is no board file for this HAT: take it off, or use a Robot HAT v4 or v5"
            }
        }
    }
}

/// Checks that `board` is for the Robot HAT that the files under `root` report. If they report none that is
/// known, any board passes.
pub fn matches(board: &Board, root: &Path) -> Result<(), WrongHat> {
    match wanted(board) {
        Some(wanted) => known_hat(&named(root), wanted).map(drop),
        None => Ok(()),
    }
}

/// The HAT that `board` is for; `None`: the board has no HAT, or its wires are not real.
fn wanted(board: &Board) -> Option<Kind> {
    board.mcu.as_ref().filter(|_| matches!(board.bus, BusPlan::Linux { .. })).map(Kind::of)
}

/// The known HAT among `hats`, if there is one; an error if it is not the `wanted` one.
fn known_hat(hats: &[Named], wanted: Kind) -> Result<Option<(Kind, String)>, WrongHat> {
    match hats.iter().find_map(Named::known) {
        Some(found) if found.0 != wanted => Err(WrongHat { found, wanted }),
        found => Ok(found),
    }
}

/// Checks the HAT; `None`: the board has none, or its wires are not real.
pub(super) fn check(board: &Board, root: &Path) -> Option<Check> {
    const WHAT: &str = "HAT";
    let (hats, wanted) = (named(root), wanted(board)?);
    match known_hat(&hats, wanted) {
        Err(wrong) => return Some(Check::failed(WHAT, wrong.to_string(), wrong.fix())),
        Ok(Some((kind, uuid))) => return Some(Check::passed(WHAT, format!("{kind} (uuid {uuid})"))),
        Ok(None) => {}
    }
    let print = "read the version printed on the HAT, and use the board file for it";
    Some(match (hats.first(), wanted) {
        (None, Kind::V4) => Check::passed(WHAT, "none named in the device tree, as with a v4".to_string()),
        (None, _) => Check::warned(
            WHAT,
            "none named in the device tree; a v5 has an EEPROM with its name".to_string(),
            print,
        ),
        (Some(Named { uuid: None, .. }), _) => {
            Check::warned(WHAT, "the device tree names one, but its uuid cannot be read".to_string(), print)
        }
        (Some(Named { uuid: Some(uuid), product, .. }), _) => Check::warned(
            WHAT,
            format!("the device tree names an unknown one: {product} (uuid {uuid})"),
            print,
        ),
    })
}

impl Named {
    fn known(&self) -> Option<(Kind, String)> {
        let uuid = self.uuid.as_ref()?;
        let (_, kind) = KNOWN.iter().find(|(known, _)| known == uuid)?;
        Some((*kind, uuid.clone()))
    }
}

/// Every HAT in the device tree: folders with `hat` in their name and a uuid, which is how the vendor's
/// library finds them.
pub fn named(root: &Path) -> Vec<Named> {
    let entries = TREES.iter().find_map(|tree| std::fs::read_dir(root.join(tree)).ok());
    let mut folders: Vec<_> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains("hat"))
        .map(|entry| entry.path())
        .filter(|folder| folder.join("uuid").exists())
        .collect();
    folders.sort();
    // The device tree's strings end in NUL.
    let text = |path: std::path::PathBuf| {
        let bytes = std::fs::read(path).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim_matches(['\0', '\n', ' ']).to_string();
        (!text.is_empty()).then(|| crate::system::sanitize::quoted(&text).to_string())
    };
    let hat = |folder: std::path::PathBuf| Named {
        uuid: text(folder.join("uuid")).map(|uuid| uuid.to_ascii_lowercase()),
        product: text(folder.join("product")).unwrap_or_else(|| "a HAT without a name".to_string()),
        vendor: text(folder.join("vendor")),
        product_id: text(folder.join("product_id")),
    };
    folders.into_iter().map(hat).collect()
}

/// The first of the controller's addresses that answers on `i2c`, or the first in the board file if none
/// does. `Err`: two addresses answer.
pub fn answering(mcu: &McuPlan, i2c: &mut dyn I2c) -> Result<u8, [u8; 2]> {
    let mut found = None;
    for address in mcu.addresses() {
        match (ask(i2c, address), found) {
            (ProbeResult::Answers, Some(first)) => return Err([first, address]),
            (ProbeResult::Answers, None) => found = Some(address),
            // The bus hangs: each further address would take a whole timeout.
            (ProbeResult::Refused(BusFault::TimedOut), _) => break,
            (ProbeResult::Silent | ProbeResult::Refused(_), _) => {}
        }
    }
    Ok(found.unwrap_or(mcu.address))
}

/// The controller with `address` as its current address and the remaining ones as its `others`.
fn at(mcu: &McuPlan, address: u8) -> McuPlan {
    let mut others = [None; McuPlan::OTHERS];
    let rest = mcu.addresses().filter(|other| *other != address);
    others.iter_mut().zip(rest).for_each(|(slot, other)| *slot = Some(other));
    McuPlan { address, others, ..*mcu }
}

/// `board` with the address at which its controller answers through `hardware`; unchanged if none answers.
/// For programs that do not run the self-test.
pub fn with_found_address(board: &Board, hardware: &dyn Hardware) -> Board {
    let several = board.mcu.is_some_and(|mcu| mcu.addresses().count() > 1);
    match hardware.i2c(0) {
        Ok(mut i2c) if several => found_at(board, i2c.as_mut()).0,
        _ => board.clone(),
    }
}

/// Like [`with_found_address`], for a controller that a stopped guard may have left in reset, where it does
/// not answer: takes it out of reset and puts it back afterwards.
pub fn with_found_address_awake(board: &Board, hardware: &dyn Hardware, clock: &dyn Clock) -> Board {
    let _awake = Awake::wake(board, hardware, clock);
    with_found_address(board, hardware)
}

/// The board with the address at which its controller answers, and a failed check if two addresses answer.
pub(super) fn found_at(board: &Board, i2c: &mut dyn I2c) -> (Board, Option<Check>) {
    let mut board = board.clone();
    let Some(mcu) = board.mcu.as_mut().filter(|mcu| mcu.addresses().count() > 1) else {
        return (board, None);
    };
    match answering(mcu, i2c) {
        Ok(address) => {
            *mcu = at(mcu, address);
            (board, None)
        }
        Err([first, second]) => {
            let what = format!("{first:#04x} on {}", board.i2c[0].name);
            let found =
                format!("{first:#04x} and {second:#04x} both answer: one of them is not the Robot HAT");
            let fix = "take the other device off the bus, or write the HAT's one address under [mcu]";
            (board, Some(Check::failed(&what, found, fix)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::deploy::board::built_in;
    use crate::hardware::device::sysfs::tree::Tree;

    const V5: &str = "9daeea78-0000-076e-0032-582369ac3e02\0";
    const FUSION: &str = "9daeea78-0000-0774-000a-582369ac3e02\0";

    fn board(name: &str) -> Board {
        built_in(name).unwrap().unwrap().board
    }
    fn tree(uuid: &str) -> Tree {
        Tree::of(&[
            ("proc/device-tree/compatible", "raspberrypi,5-model-b\0brcm,bcm2712\0"),
            ("proc/device-tree/hat/uuid", uuid),
            ("proc/device-tree/hat/product", "Robot HAT 5\0"),
            ("proc/device-tree/hat/vendor", "SunFounder\0"),
        ])
    }
    fn verdict(name: &str, tree: &Tree) -> (Verdict, String) {
        let check = check(&board(name), tree.root()).unwrap();
        assert_eq!(check.fix.is_none(), check.verdict == Verdict::Passed, "{check:?}");
        (check.verdict, check.found)
    }

    #[test]
    fn a_v5_is_refused_under_a_v4_board_with_both_names() {
        let v5 = tree(V5);
        assert_eq!(verdict("picarx-v5", &v5).0, Verdict::Passed);
        let (refused, found) = verdict("picarx-v4", &v5);
        assert_eq!(refused, Verdict::Failed);
        let words = "the device tree names a Robot HAT v5 (uuid 9daeea78-0000-076e-0032-582369ac3e02); the board file is for a \
                     Robot HAT v4";
        assert_eq!(found, words);
        assert!(matches(&board("picarx-v4"), v5.root()).unwrap_err().fix().contains("'picarx-v5'"));
        // The uuid is also found at the device tree's other path, in upper case, and in a second folder.
        let other = Tree::of(&[
            ("sys/firmware/devicetree/base/hat/uuid", "00000000-0000-0000-0000-000000000001\0"),
            ("sys/firmware/devicetree/base/hat_1/uuid", &V5.to_uppercase()),
        ]);
        assert_eq!(verdict("picarx-v4", &other).0, Verdict::Failed);
    }

    #[test]
    fn a_hat_with_other_registers_is_refused_under_either_board() {
        for name in ["picarx-v4", "picarx-v5"] {
            let (refused, found) = verdict(name, &tree(FUSION));
            assert!(refused == Verdict::Failed && found.contains("a Fusion HAT"), "{found}");
        }
    }

    #[test]
    fn device_tree_without_a_known_hat_leaves_it_to_a_person() {
        let none = Tree::of(&[("proc/device-tree/compatible", "raspberrypi,4-model-b\0")]);
        assert_eq!(verdict("picarx-v4", &none).0, Verdict::Passed, "a v4 has no EEPROM");
        assert_eq!(verdict("picarx-v5", &none).0, Verdict::Warned);
        let unknown = tree("12345678-0000-0000-0000-000000000001\0");
        let (warned, found) = verdict("picarx-v4", &unknown);
        assert!(warned == Verdict::Warned && found.contains("Robot HAT 5 (uuid 12345678-"), "{found}");
        // Here `uuid` is a folder, so it exists but cannot be read as a file.
        let unreadable = Tree::of(&[("proc/device-tree/hat/uuid/x", "")]);
        let (warned, found) = verdict("picarx-v5", &unreadable);
        assert!(warned == Verdict::Warned && found.contains("cannot be read"), "{found}");
        assert_eq!(check(&board("jetson-orin-nano"), tree(V5).root()), None, "no controller");
        assert_eq!(check(&board("sim"), tree(V5).root()), None, "simulated wires");
    }
}
