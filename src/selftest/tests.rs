//! The self-test of the simulated car, whole and with faults: behind its own wires and through ones that were
//! tampered with.

use super::*;
use crate::board::{built_in, from_text};
use crate::bus::{Edge, Gpio, I2c, LineUse, Op};
use crate::device::sysfs::tree::Tree;
use crate::fault::BusFault;
use crate::plan::Line;
use crate::sim::{Fault, Plant};
use crate::time::{SimClock, Span};
use std::sync::{Arc, Mutex};

/// The wires of a simulated car that were tampered with.
struct Tampered {
    plant: Plant,
    /// A line that is tied to ground.
    grounded: Option<Line>,
    /// A device that no board knows of.
    stranger: Option<u8>,
    /// Addresses that were asked, bus by bus, and lines that were requested.
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    asked: Vec<u8>,
    lines: Vec<Line>,
}

impl Hardware for Tampered {
    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        let (inner, seen) = (Hardware::i2c(&self.plant, bus)?, self.seen.clone());
        Ok(Box::new(TamperedBus { inner, stranger: self.stranger, seen }))
    }
    fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        self.seen.lock().unwrap().lines.extend(lines.iter().map(|line| line.line));
        let inner = Hardware::gpio(&self.plant, owner, lines)?;
        Ok(Box::new(TamperedLines { inner, grounded: self.grounded }))
    }
}

struct TamperedBus {
    inner: Box<dyn I2c>,
    stranger: Option<u8>,
    seen: Arc<Mutex<Seen>>,
}

impl I2c for TamperedBus {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        self.seen.lock().unwrap().asked.push(address);
        if self.stranger == Some(address) { Ok(()) } else { self.inner.transfer(address, ops) }
    }
}

struct TamperedLines {
    inner: Box<dyn Gpio>,
    grounded: Option<Line>,
}

impl Gpio for TamperedLines {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        self.inner.set(line, high)
    }
    fn get(&mut self, line: Line) -> Result<bool, BusFault> {
        if self.grounded == Some(line) { Ok(false) } else { self.inner.get(line) }
    }
    fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault> {
        self.inner.next_edge(wait)
    }
}

/// A car, what is wrong with it, and its test's result.
struct Car {
    board: Board,
    clock: Arc<SimClock>,
    hardware: Tampered,
}

impl Car {
    fn of(board: Board, faults: &[&str]) -> Car {
        let clock = Arc::new(SimClock::new());
        let faults: Vec<Fault> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        let plant = Plant::new(&board, 7, &faults, clock.clone());
        let hardware = Tampered { plant, grounded: None, stranger: None, seen: Arc::default() };
        Car { board, clock, hardware }
    }
    fn sim(faults: &[&str]) -> Car {
        Car::of(built_in("sim").unwrap().unwrap().board, faults)
    }
    fn checks(&self) -> Vec<Check> {
        let nowhere = Tree::of(&[]);
        self_test(&self.board, &self.hardware, nowhere.root(), self.clock.as_ref())
    }
}

fn of<'c>(checks: &'c [Check], what: &str) -> &'c Check {
    let found = checks.iter().find(|check| check.what == what);
    found.unwrap_or_else(|| panic!("no {what} in {checks:#?}"))
}

fn not_passed(checks: &[Check]) -> Vec<&str> {
    checks.iter().filter(|check| check.verdict != Verdict::Passed).map(|check| check.what.as_str()).collect()
}

#[test]
fn a_sound_car_passes_everything_and_stays_where_it_is() {
    let car = Car::sim(&[]);
    let checks = car.checks();
    assert_eq!(not_passed(&checks), [""; 0], "{checks:#?}");
    let what: Vec<&str> = checks.iter().map(|check| check.what.as_str()).collect();
    let wanted = [
        "machine",
        "line 23, direction of motor left",
        "line 24, direction of motor right",
        "line 27, trigger of sensor range",
        "0x14 on motors",
        "0x60 on motors",
        "firmware of the Robot HAT",
        "ground-left",
        "ground-middle",
        "ground-right",
        "battery",
        "lean",
        "range",
        "button",
    ];
    assert_eq!(what, wanted);
    let report = car.hardware.plant.report(car.clock.now());
    assert!(car.hardware.plant.motors_still() && report.distance_m == 0.0 && report.mcu_resets == 0);
    assert!(!car.hardware.seen.lock().unwrap().lines.contains(&Line(5)), "the reset line is left alone");
    let took = car.clock.now().since(crate::time::Instant::ZERO);
    assert!(took < Span::from_millis(500), "{took:?}");
}

#[test]
fn a_line_that_does_not_follow_is_told_with_its_number() {
    let mut car = Car::sim(&[]);
    car.hardware.grounded = Some(Line(24));
    let checks = car.checks();
    assert_eq!(not_passed(&checks), ["line 24, direction of motor right"]);
    let check = of(&checks, "line 24, direction of motor right");
    assert_eq!((check.verdict, check.found.as_str()), (Verdict::Failed, "driven high, it stays low"));
    assert!(check.fix.as_ref().unwrap().contains("pinmux"));
}

#[test]
fn a_bus_that_is_held_is_one_failure_and_is_left_alone() {
    let car = Car::sim(&["i2c-stuck@0+60"]);
    let checks = car.checks();
    // The direction lines need the motors to be stopped first, over the same bus.
    let wanted = ["line 23, direction of motor left", "line 24, direction of motor right", "bus motors"];
    assert_eq!(not_passed(&checks), wanted, "{checks:#?}");
    assert_eq!(of(&checks, wanted[0]).verdict, Verdict::Skipped);
    let bus = of(&checks, "bus motors");
    assert!(bus.verdict == Verdict::Failed && bus.found.contains("TimedOut when 0x14 was polled"), "{bus:?}");
    assert_eq!(of(&checks, "range").verdict, Verdict::Passed);
    assert_eq!(car.hardware.seen.lock().unwrap().asked, [0x14, 0x14, 0x14], "twice to stand, once to answer");
}

#[test]
fn who_is_silent_is_named_and_not_asked_for_values() {
    let checks = Car::sim(&["i2c-nack@0+60"]).checks();
    let hat = of(&checks, "0x14 on motors");
    assert_eq!((hat.verdict, hat.found.as_str()), (Verdict::Failed, "Robot HAT does not answer"));
    assert_eq!(of(&checks, "0x60 on motors").found, "lean does not answer");
    assert!(checks.iter().all(|check| check.what != "battery" && check.what != "firmware of the Robot HAT"));
    // A guard that does not trust a runtime yet keeps the controller in reset.
    let text = "inherits = \"sim\"\n[guard]\nholds = \"reset\"\npatience_ms = 100\n";
    let guarded = Car::of(from_text("guarded", text).unwrap().board, &["i2c-nack@0+60"]).checks();
    let hat = of(&guarded, "0x14 on motors");
    assert!(hat.verdict == Verdict::Skipped && hat.found.contains("may hold it in reset"), "{hat:?}");
}

#[test]
fn what_a_reflex_would_hold_is_a_warning() {
    let checks = Car::sim(&["estop@0+60", "battery-low@0"]).checks();
    let button = of(&checks, "button");
    assert_eq!(button.verdict, Verdict::Warned);
    assert!(button.found.contains("EStop"), "{button:?}");
    let battery = of(&checks, "battery");
    assert!(battery.verdict == Verdict::Warned && battery.found.contains("Battery"), "{battery:?}");
}

#[test]
fn a_value_that_cannot_be_true_fails() {
    let checks = Car::sim(&["tilt-nan@0+60", "sonar-silent@0+60"]).checks();
    assert_eq!(not_passed(&checks), ["lean", "range"], "{checks:#?}");
    assert_eq!(of(&checks, "range").found, "line 22 did not answer");
}

#[test]
fn strangers_are_told_and_reserved_addresses_are_not_asked() {
    let text = "inherits = \"sim\"\n[reserved_i2c]\ndisplay = 0x3C\n";
    let mut car = Car::of(from_text("reserved", text).unwrap().board, &[]);
    car.hardware.stranger = Some(0x48);
    let checks = car.checks();
    let bus = of(&checks, "bus motors");
    assert_eq!((bus.verdict, bus.found.as_str()), (Verdict::Passed, "also answering: 0x48"));
    let asked = &car.hardware.seen.lock().unwrap().asked;
    assert!(!asked.contains(&0x3C) && asked.contains(&0x3B) && asked.contains(&0x77));
}

#[test]
fn another_machine_fails_before_anything_else() {
    let text = "inherits = \"sim\"\ncompatible = [\"nvidia,\"]\n";
    let car = Car::of(from_text("elsewhere", text).unwrap().board, &[]);
    let checks = car.checks();
    assert_eq!(not_passed(&checks), ["machine"]);
    assert!(checks[0].found.ends_with("the board is for nvidia,"), "{}", checks[0].found);
}

#[test]
fn a_log_has_nothing_to_test() {
    let car = Car::of(built_in("scitos-g5").unwrap().unwrap().board, &[]);
    assert_eq!(car.checks().len(), 1);
}

#[test]
fn a_tristated_pad_is_the_failure_behind_a_line_that_reads_back() {
    let groups = "Pin config settings per pin group\nFormat: group (name): configs\n\
                  3 (soc_gpio33_pq6): \n\tpull=0\n\ttristate=1\n\tenable-input=1\n\
                  4 (soc_gpio32_pq5): \n\tpull=2\n\ttristate=0\n\tenable-input=1\n";
    let root = Tree::of(&[("sys/kernel/debug/pinctrl/2430000.pinmux/pinconf-groups", groups)]);
    assert_eq!(pads::lets_out(root.root(), "PQ.06"), Some(false));
    assert_eq!(pads::lets_out(root.root(), "PQ.05"), Some(true));
    for unknown in ["PQ.07", "23", "GPIO23", "PQ.", "Pé.06"] {
        assert_eq!(pads::lets_out(root.root(), unknown), None, "{unknown}");
    }
    let check = pads::check(root.root(), "PQ.06");
    assert_eq!(check.verdict, Verdict::Failed);
    assert!(check.fix.as_ref().unwrap().contains("busybox devmem 0x2430070"), "{check:?}");
    let unseen = pads::check(Tree::of(&[]).root(), "PQ.06");
    assert_eq!(unseen.verdict, Verdict::Warned);
}

#[test]
fn the_computers_supply_is_told() {
    let pi = |alarm| {
        let files = [
            ("sys/class/hwmon/hwmon2/name", "rpi_volt\n"),
            ("sys/class/hwmon/hwmon2/in0_lcrit_alarm", alarm),
        ];
        supplies::look(Tree::of(&files).root())
    };
    assert_eq!(pi("0\n")[0].verdict, Verdict::Passed);
    assert_eq!(pi("1\n")[0].verdict, Verdict::Warned);
    let jetson = |first| {
        let folder = "sys/class/hwmon/hwmon4";
        let files = [
            (format!("{folder}/name"), "soctherm_oc\n"),
            (format!("{folder}/oc1_event_cnt"), first),
            (format!("{folder}/oc3_event_cnt"), "12\n"),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        supplies::look(Tree::of(&files).root())
    };
    assert_eq!(jetson("0\n")[0].verdict, Verdict::Passed, "peak current alone is no fault");
    assert!(jetson("2\n")[0].found.starts_with("throttled 2 times for under-voltage"));
    assert_eq!(supplies::look(Tree::of(&[]).root()), []);
}
