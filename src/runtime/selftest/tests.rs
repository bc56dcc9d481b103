//! The self-test of the simulated car, with and without faults, through its own wires and tampered ones.

use super::*;
use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::{Clock, SimClock, Span};
use crate::deploy::board::{built_in, from_text};
use crate::hardware::bus::{Edge, Gpio, I2c, LineState, LineUse, Op, Usage};
use crate::hardware::device::sysfs::tree::Tree;
use crate::sim::{Fault, Plant};
use std::sync::{Arc, Mutex};

/// The tampered wires of a simulated car.
struct Tampered {
    plant: Plant,
    /// A line that is shorted to ground.
    grounded: Option<Line>,
    /// A line that another process holds.
    taken: Option<Line>,
    /// Address of a device that no board has.
    unexpected: Option<u8>,
    /// The I2C addresses that the self-test accessed.
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    asked: Vec<u8>,
}

fn taken() -> OpenError {
    let [what, why, fix] = ["line 5", "ganglion-guard is using it", "stop it"].map(String::from);
    OpenError { what, why, fix, denied: false }
}

impl Hardware for Tampered {
    fn line_state(&self, line: Line) -> Result<LineState, OpenError> {
        if self.taken == Some(line) { Ok(LineState::Taken(taken())) } else { self.plant.line_state(line) }
    }
    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        let (inner, seen) = (Hardware::i2c(&self.plant, bus)?, self.seen.clone());
        Ok(Box::new(TamperedBus { inner, unexpected: self.unexpected, seen }))
    }
    fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        if lines.iter().any(|line| self.taken == Some(line.line)) {
            return Err(taken());
        }
        let inner = Hardware::gpio(&self.plant, owner, lines)?;
        Ok(Box::new(TamperedLines { inner, grounded: self.grounded }))
    }
}

struct TamperedBus {
    inner: Box<dyn I2c>,
    unexpected: Option<u8>,
    seen: Arc<Mutex<Seen>>,
}

impl I2c for TamperedBus {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        self.seen.lock().unwrap().asked.push(address);
        if self.unexpected == Some(address) { Ok(()) } else { self.inner.transfer(address, ops) }
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

/// A simulated car and its wires.
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
        let hardware =
            Tampered { plant, grounded: None, taken: None, unexpected: None, seen: Arc::default() };
        Car { board, clock, hardware }
    }
    fn sim(faults: &[&str]) -> Car {
        Car::of(built_in("sim").unwrap().unwrap().board, faults)
    }
    fn checks(&self) -> Vec<Check> {
        let nowhere = Tree::of(&[]);
        self_test(&self.board, &self.hardware, nowhere.root(), self.clock.as_ref(), Afterwards::AsFound).0
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
fn a_sound_car_passes_every_check_without_moving() {
    let car = Car::sim(&[]);
    let checks = car.checks();
    assert_eq!(not_passed(&checks), [""; 0], "{checks:#?}");
    let what: Vec<&str> = checks.iter().map(|check| check.what.as_str()).collect();
    let wanted = [
        "machine",
        "line 23, direction of motor left",
        "line 24, direction of motor right",
        "line 27, trigger of sensor range",
        "line 17, shut-down of sensor corner-left",
        "line 4, shut-down of sensor corner-right",
        "0x14 on motors",
        "0x60 on motors",
        "0x68 on motors",
        "ground-left",
        "ground-middle",
        "ground-right",
        "battery",
        "corner-left",
        "corner-right",
        "turning",
        "lean",
        "firmware of the Robot HAT",
        "range",
        "button",
    ];
    assert_eq!(what, wanted);
    let report = car.hardware.plant.report(car.clock.now());
    assert!(car.hardware.plant.motors_still() && report.distance_m == 0.0);
    assert_eq!(report.mcu_resets, 2, "before the test, to stop any pulses left running, and after it");
    let took = car.clock.now().since(crate::base::time::Instant::ZERO);
    assert!(took < Span::from_millis(1_000), "{took:?}");
}

#[test]
fn a_stuck_line_is_reported_with_its_number() {
    let mut car = Car::sim(&[]);
    car.hardware.grounded = Some(Line(24));
    let checks = car.checks();
    assert_eq!(not_passed(&checks), ["line 24, direction of motor right"]);
    let check = of(&checks, "line 24, direction of motor right");
    assert_eq!((check.verdict, check.found.as_str()), (Verdict::Failed, "driven high, it stays low"));
    assert!(check.fix.as_ref().unwrap().contains("pinmux"));
}

#[test]
fn a_hung_bus_is_one_failure_and_is_left_alone() {
    let car = Car::sim(&["i2c-stuck@0+60"]);
    let checks = car.checks();
    // The direction lines need the motors to be stopped first, over the same bus.
    let wanted = ["line 23, direction of motor left", "line 24, direction of motor right", "bus motors"];
    assert_eq!(not_passed(&checks), wanted, "{checks:#?}");
    assert_eq!(of(&checks, wanted[0]).verdict, Verdict::Skipped);
    let bus = of(&checks, "bus motors");
    assert!(bus.verdict == Verdict::Failed && bus.found.contains("TimedOut when 0x14 was polled"), "{bus:?}");
    assert_eq!(of(&checks, "range").verdict, Verdict::Passed);
    let asked = &car.hardware.seen.lock().unwrap().asked;
    assert_eq!(
        asked[..],
        [0x14; 4],
        "once to find it, twice to stop the motors, once to check it; no other address"
    );
}

#[test]
fn a_silent_device_is_named_and_not_read() {
    let checks = Car::sim(&["i2c-nack@0+60"]).checks();
    let hat = of(&checks, "0x14 on motors");
    assert_eq!(hat.found, "Robot HAT does not answer (not at 0x15), and its reset is released");
    assert_eq!(hat.verdict, Verdict::Failed);
    assert_eq!(of(&checks, "0x60 on motors").found, "lean does not answer");
    assert!(checks.iter().all(|check| check.what != "battery" && check.what != "firmware of the Robot HAT"));
}

/// A board whose guard holds the reset line, with the HAT switched off. If the test can release the line, a
/// silent controller is dead; if a guard keeps the line, the controller may just be in reset.
#[test]
fn silent_controller_fails_unless_a_guard_holds_its_reset() {
    let text = "inherits = \"sim\"\n[guard]\nholds = \"reset\"\npatience_ms = 100\nrequired = true\n";
    let mut car = Car::of(from_text("guarded", text).unwrap().board, &["i2c-nack:0x14@0+60"]);
    let checks = car.checks();
    assert_eq!(not_passed(&checks).last(), Some(&"0x14 on motors"), "{checks:#?}");
    let hat = of(&checks, "0x14 on motors");
    assert_eq!(hat.verdict, Verdict::Failed);
    for reason in ["its own switch", "battery", "another address"] {
        assert!(hat.fix.as_ref().unwrap().contains(reason), "{reason}: {hat:?}");
    }
    car.hardware.taken = Some(Line(5));
    let checks = car.checks();
    let hat = of(&checks, "0x14 on motors");
    assert!(hat.verdict == Verdict::Skipped && hat.found.contains("may hold it in reset"), "{hat:?}");
    assert_eq!(hat.fix.as_deref(), Some("stop it"), "the fix from the error of the held line");
    // On a board without a guard, no other process should hold that line.
    let mut car = Car::sim(&[]);
    car.hardware.taken = Some(Line(5));
    let checks = car.checks();
    assert_eq!(not_passed(&checks), ["reset line of the Robot HAT"], "{checks:#?}");
    assert!(checks.last().unwrap().found.contains("ganglion-guard is using it"));
}

/// A HAT with newer firmware answers at the second address, and is read and driven there.
#[test]
fn a_controller_is_found_at_whichever_of_its_addresses_answers() {
    let text = |address: &str| format!("inherits = \"sim\"\n[mcu]\naddress = {address}\n");
    let board = |address: &str| from_text("hat", &text(address)).unwrap().board;
    for (at, other) in [(0x14, 0x15), (0x15, 0x14)] {
        let mut car = Car::of(board(&at.to_string()), &[]);
        car.board = board("[0x14, 0x15]");
        let root = Tree::of(&[]);
        let (checks, found) =
            self_test(&car.board, &car.hardware, root.root(), car.clock.as_ref(), Afterwards::AsFound);
        assert_eq!(not_passed(&checks), [""; 0], "{checks:#?}");
        let hat = of(&checks, &format!("{at:#04x} on motors"));
        assert_eq!(hat.found, format!("Robot HAT answers (not at {other:#04x})"));
        assert!(of(&checks, "battery").found.starts_with("7."), "the converter is read there");
        let mcu = found.mcu.unwrap();
        assert_eq!((mcu.address, mcu.addresses().collect::<Vec<_>>()), (at, vec![at, other]));
        assert_eq!(hat::with_found_address(&car.board, &car.hardware), found);
        // A stopped guard has left the controller in reset, so it does not answer.
        let low = [LineUse { line: mcu.reset, usage: Usage::Output { high: false } }];
        drop(Hardware::gpio(&car.hardware, "guard", &low).unwrap());
        assert_eq!(hat::with_found_address(&car.board, &car.hardware), car.board);
        assert_eq!(hat::with_found_address_awake(&car.board, &car.hardware, car.clock.as_ref()), found);
        assert!(reset::is_held(&car.board, &car.hardware), "in reset again");
    }
    // A second device answers at the other address.
    let mut car = Car::of(board("[0x14, 0x15]"), &[]);
    car.hardware.unexpected = Some(0x15);
    let checks = car.checks();
    assert_eq!(not_passed(&checks), ["0x14 on motors"], "{checks:#?}");
    let both = checks.iter().find(|check| check.verdict == Verdict::Failed).unwrap();
    assert!(both.found.starts_with("0x14 and 0x15 both answer"), "{both:?}");
    // If none answers, the first is reported, with the others that were tried.
    let checks = Car::of(board("[0x14, 0x15]"), &["i2c-nack:0x14@0+60"]).checks();
    let hat = of(&checks, "0x14 on motors");
    assert_eq!(hat.found, "Robot HAT does not answer (not at 0x15), and its reset is released");
}

/// With a v4's board file on a v5, no line is driven, not even once.
#[test]
fn the_wrong_hat_is_never_driven() {
    let mut car = Car::sim(&[]);
    car.board = built_in("picarx-v4").unwrap().unwrap().board;
    car.board.compatible.clear();
    let v5 = "9daeea78-0000-076e-0032-582369ac3e02\0";
    let root = Tree::of(&[("proc/device-tree/hat/uuid", v5)]);
    let (checks, _) =
        self_test(&car.board, &car.hardware, root.root(), car.clock.as_ref(), Afterwards::AsFound);
    let what: Vec<(&str, Verdict)> =
        checks.iter().map(|check| (check.what.as_str(), check.verdict)).collect();
    assert_eq!(what, [("machine", Verdict::Passed), ("HAT", Verdict::Failed)]);
    assert!(car.hardware.seen.lock().unwrap().asked.is_empty());
    assert_eq!(car.hardware.plant.report(car.clock.now()).mcu_resets, 0, "not even its reset line");
}

/// This controller counts the byte of a version query towards its next frame, so a converter query after it
/// fails. The self-test therefore queries the version last, before a reset.
#[test]
fn version_query_does_not_disturb_later_queries() {
    let text = "inherits = \"sim\"\n[sim]\ncounts_every_byte = true\n";
    let car = Car::of(from_text("counting", text).unwrap().board, &[]);
    let checks = car.checks();
    assert_eq!(not_passed(&checks), [""; 0], "{checks:#?}");
    assert_eq!(of(&checks, "firmware of the Robot HAT").found, "1.1.4");
    let mut i2c = Hardware::i2c(&car.hardware, 0).unwrap();
    let volts = crate::hardware::device::adc::HatAdc::new(0x14, 4, 9.9 / 4095.0).read(i2c.as_mut()).unwrap();
    assert!((volts - 7.8).abs() < 0.2, "{volts} V");
}

/// If a guard holds the reset line, no reset can follow, so the version is not queried.
#[test]
fn version_is_not_queried_if_no_reset_follows() {
    let text = "inherits = \"sim\"\n[guard]\nholds = \"reset\"\npatience_ms = 100\n[sim]\ncounts_every_byte = true\n";
    let mut car = Car::of(from_text("guarded", text).unwrap().board, &[]);
    car.hardware.taken = Some(Line(5));
    let checks = car.checks();
    assert_eq!(not_passed(&checks), ["firmware of the Robot HAT"], "{checks:#?}");
    assert_eq!(of(&checks, "firmware of the Robot HAT").verdict, Verdict::Skipped);
}

/// After a run's self-test, the controller stays in reset and sends no pulses until the bus thread sets it
/// up.
#[test]
fn controller_ends_in_reset_for_a_run_and_as_found_otherwise() {
    for (afterwards, answers) in [(Afterwards::InReset, false), (Afterwards::AsFound, true)] {
        let car = Car::sim(&[]);
        let root = Tree::of(&[]);
        self_test(&car.board, &car.hardware, root.root(), car.clock.as_ref(), afterwards);
        let answer = Hardware::i2c(&car.hardware, 0).unwrap().read(0x14, &mut [0]);
        assert_eq!(answer.is_ok(), answers, "{afterwards:?}: {answer:?}");
    }
}

/// A stopped guard on Raspberry Pi OS leaves its line low, and no process holds it.
fn left_in_reset() -> Car {
    let car = Car::sim(&[]);
    let low = [LineUse { line: Line(5), usage: Usage::Output { high: false } }];
    drop(Hardware::gpio(&car.hardware, "guard", &low).unwrap());
    assert!(reset::is_held(&car.board, &car.hardware));
    car
}

#[test]
fn controller_left_in_reset_is_tested_and_left_in_reset() {
    let car = left_in_reset();
    assert_eq!(not_passed(&car.checks()), [""; 0]);
    assert!(reset::is_held(&car.board, &car.hardware), "as it was found");
}

#[test]
fn selftest_wakes_an_unheld_controller_and_puts_it_back() {
    let car = left_in_reset();
    let answers = || Hardware::i2c(&car.hardware, 0).unwrap().read(0x14, &mut [0]).is_ok();
    assert!(!answers());
    let resets = car.hardware.plant.report(car.clock.now()).mcu_resets;
    {
        let awake = reset::Awake::wake(&car.board, &car.hardware, car.clock.as_ref());
        assert!(matches!(awake, reset::Awake::Released(_, Line(5))) && awake.may_be_held().is_none());
        assert!(answers() && car.hardware.plant.motors_still());
    }
    assert!(!answers() && reset::is_held(&car.board, &car.hardware));
    assert_eq!(car.hardware.plant.report(car.clock.now()).mcu_resets, resets + 1);
}

/// Another process may be using the controller.
#[test]
fn selftest_touches_no_line_of_a_running_or_held_controller() {
    let mut car = Car::sim(&[]);
    let resets = car.hardware.plant.report(car.clock.now()).mcu_resets;
    drop(reset::Awake::wake(&car.board, &car.hardware, car.clock.as_ref()));
    car.hardware.taken = Some(Line(5));
    let awake = reset::Awake::wake(&car.board, &car.hardware, car.clock.as_ref());
    assert!(awake.may_be_held().unwrap().why.contains("ganglion-guard"));
    drop(awake);
    assert_eq!(car.hardware.plant.report(car.clock.now()).mcu_resets, resets);
}

#[test]
fn a_value_that_trips_a_reflex_is_a_warning() {
    let checks = Car::sim(&["estop@0+60", "battery-low@0"]).checks();
    let button = of(&checks, "button");
    assert_eq!(button.verdict, Verdict::Warned);
    assert!(button.found.contains("EStop"), "{button:?}");
    let battery = of(&checks, "battery");
    assert!(battery.verdict == Verdict::Warned && battery.found.contains("Battery"), "{battery:?}");
}

#[test]
fn an_impossible_value_fails() {
    let checks = Car::sim(&["tilt-nan@0+60", "sonar-silent:0@0+60"]).checks();
    assert_eq!(not_passed(&checks), ["lean", "range"], "{checks:#?}");
    assert_eq!(of(&checks, "range").found, "line 22 did not answer");
    let stuck = Car::sim(&["sonar-stuck@0+60"]).checks();
    assert_eq!(not_passed(&stuck), ["range"], "{stuck:#?}");
    assert!(of(&stuck, "range").found.starts_with("line 22 is high all the time"), "{stuck:#?}");
}

/// The previous program has just sent a ping without an echo, so the module still holds the line high.
#[test]
fn the_test_waits_for_a_busy_sonar() {
    let well = Car::sim(&[]);
    well.checks();
    // The sensors on lines come last, before the controller's reset, which takes 230 ms.
    let pinged = well.clock.now().as_nanos() as f64 / 1e9 - 0.23;
    let checks = Car::sim(&[&format!("sonar-stuck@0+{:.3}", pinged + 0.1)]).checks();
    assert_eq!(of(&checks, "range").verdict, Verdict::Passed, "{checks:#?}");
}

#[test]
fn unexpected_devices_are_reported_and_reserved_ones_skipped() {
    let text = "inherits = \"sim\"\n[reserved_i2c]\ndisplay = 0x3C\n";
    let mut car = Car::of(from_text("reserved", text).unwrap().board, &[]);
    car.hardware.unexpected = Some(0x48);
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
    assert!(checks[0].found.ends_with("the board is for nvidia"), "{}", checks[0].found);
    assert_eq!(checks.len(), 1, "nothing else is checked: {checks:#?}");
    assert_eq!(car.hardware.plant.report(car.clock.now()).mcu_resets, 0);
}

#[test]
fn a_log_board_has_nothing_to_test() {
    let car = Car::of(built_in("scitos-g5").unwrap().unwrap().board, &[]);
    assert_eq!(car.checks().len(), 1);
}

#[test]
fn a_tristated_pad_fails_although_its_line_reads_back() {
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

/// A Jetson's adapter, with a board file that expects a timeout which the adapter ignores.
#[test]
fn an_undeclared_fixed_adapter_timeout_fails() {
    let root = Tree::of(&[
        ("sys/devices/platform/c250000.i2c/i2c-7/name", "c250000.i2c\n"),
        ("sys/bus/platform/drivers/tegra-i2c/bind", ""),
        ("sys/bus/platform/drivers/i2c_designware/bind", ""),
    ]);
    let link = |path: &str, to: &str| {
        let path = root.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(to, path).unwrap();
    };
    link("sys/bus/i2c/devices/i2c-7", "../../../devices/platform/c250000.i2c/i2c-7");
    link("sys/devices/platform/c250000.i2c/driver", "../../../bus/platform/drivers/tegra-i2c");
    let declared = built_in("jetson-orin-nano").unwrap().unwrap().board.i2c[0].clone();
    let undeclared = crate::base::plan::I2cPlan { driver: None, timing: declared.timing, ..declared.clone() };
    assert_eq!(own_time(root.root(), &declared), None);
    let check = own_time(root.root(), &undeclared).unwrap();
    assert_eq!((check.what.as_str(), check.verdict), ("bus motors", Verdict::Failed));
    assert!(check.found.contains("tegra-i2c") && check.found.contains("160 ms"), "{check}");
    assert!(check.fix.as_ref().unwrap().contains("driver = \"tegra-i2c\""), "{check:?}");
    // The whole self-test reports it too: it reads the driver from /sys even if the wires are simulated.
    let mut car = Car::sim(&[]);
    car.board.i2c[0] = undeclared.clone();
    let (checks, _) =
        self_test(&car.board, &car.hardware, root.root(), car.clock.as_ref(), Afterwards::AsFound);
    assert_eq!(not_passed(&checks), ["bus motors"], "{checks:#?}");
    link("sys/devices/platform/c250000.i2c/driver", "../../../bus/platform/drivers/i2c_designware");
    assert_eq!(own_time(root.root(), &undeclared), None, "this driver respects the configured timeout");
    assert_eq!(own_time(root.root(), &declared), None, "the budgets are only longer than needed");
}

#[test]
fn the_computers_supply_is_reported() {
    let pi = |alarm| {
        let files = [
            ("sys/class/hwmon/hwmon2/name", "rpi_volt\n"),
            ("sys/class/hwmon/hwmon2/in0_lcrit_alarm", alarm),
        ];
        supplies::check(Tree::of(&files).root())
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
        supplies::check(Tree::of(&files).root())
    };
    assert_eq!(jetson("0\n")[0].verdict, Verdict::Passed, "peak current alone is not a fault");
    assert!(jetson("2\n")[0].found.starts_with("throttled 2 times for under-voltage"));
    assert_eq!(supplies::check(Tree::of(&[]).root()), []);
}
