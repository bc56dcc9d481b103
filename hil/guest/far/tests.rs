//! The far side, driven by made-up events on a clock that the test sets.

use super::super::wire::DATA;
use super::super::wire::tests::event;
use super::*;
use ganglion::base::plan::{ImuQuantity, SensorPlan};
use ganglion::deploy::board;

const READY: Line = Line(10);
const ENABLE: EnablePlan = EnablePlan { line: Line(11), on_high: true };

/// A PiCar-X with the additions of the bench.
fn bench_board() -> Board {
    let mut board = board::built_in("picarx-v4").unwrap().unwrap().board;
    let quantity = ImuQuantity::Roll;
    let kind = SensorKind::Chip(ChipSensor::Mpu6050 { address: 0x68, quantity, ready: Some(READY) });
    let roll = SensorPlan { kind, name: "roll".into(), ..board.sensors[0].clone() };
    board.sensors.push(roll);
    board.enable = Some(ENABLE);
    board
}

/// The far side on a clock that the test sets.
struct Wires {
    far: FarSide,
    now: Instant,
    out: Vec<Command>,
}

impl Wires {
    fn new() -> Wires {
        let now = Instant::from_nanos(5_000_000_000);
        let mut wires = Wires { far: FarSide::new(&bench_board(), 1, now), now, out: Vec::new() };
        wires.far.begin(now, &mut wires.out);
        wires
    }
    fn pass(&mut self, ms: u64) -> Vec<Command> {
        self.out.clear();
        let end = self.now + Span::from_millis(ms);
        while self.now < end {
            self.now += REFRESH;
            self.far.refresh(self.now, &mut self.out);
        }
        std::mem::take(&mut self.out)
    }
    fn take(&mut self, what: Happening, place: u16, bytes: &[u8]) -> Vec<Command> {
        let event = event(what, place, self.now.as_nanos(), bytes);
        self.out.clear();
        self.far.take(&event, self.now, &mut self.out);
        std::mem::take(&mut self.out)
    }
    fn frame(&mut self, register: u8, value: u16) {
        let [high, low] = value.to_be_bytes();
        assert_eq!(self.take(Happening::Write, 0x14, &[register, high, low]), []);
    }
    /// Sets the timer as the runtime does, then full duty and the direction forward on both motors.
    fn drive_on(&mut self) {
        self.frame(0x43, 9);
        self.frame(0x47, 4095);
        self.take(Happening::Out(true), 24, &[]);
        self.frame(0x2C, 4095);
        self.frame(0x2D, 4095);
    }
    /// Whether no current can flow into a drive motor.
    fn is_still(&self) -> bool {
        !self.far.enabled || self.far.plant.motors_still()
    }
    fn way(&self) -> f64 {
        self.far.report(self.now).distance_m
    }
}

fn set_of(out: &[Command], at: u8, first: u8) -> Option<[u8; DATA]> {
    out.iter().rev().find_map(|command| match command {
        Command::Set { address, register, data, .. } if (*address, *register) == (at, first) => Some(*data),
        _ => None,
    })
}

#[test]
fn motors_stop_without_enable_line_whatever_the_registers_say() {
    let mut wires = Wires::new();
    wires.drive_on();
    wires.pass(500);
    assert!(wires.is_still() && wires.way() < 1e-9);
    wires.take(Happening::Out(true), 11, &[]);
    wires.pass(500);
    let driven = wires.way();
    assert!(!wires.is_still() && driven > 0.05, "{driven}");
    wires.take(Happening::Floats(false), 11, &[]);
    assert!(wires.is_still(), "the owner of the enable line died");
    wires.pass(500);
    let rolled_out = wires.way();
    wires.pass(500);
    assert!((wires.way() - rolled_out).abs() < 1e-3);
    wires.take(Happening::Out(true), 11, &[]);
    wires.pass(100);
    assert!(wires.way() > rolled_out, "the registers still have the pulses");
}

#[test]
fn a_reset_clears_the_controller_and_silences_it_while_it_boots() {
    let mut wires = Wires::new();
    wires.take(Happening::Out(true), 11, &[]);
    wires.drive_on();
    wires.pass(100);
    let out = wires.take(Happening::Out(false), 5, &[]);
    assert_eq!(out, [Command::Reset(0x14), Command::Mute(0x14, true)]);
    assert!(wires.is_still());
    wires.now += Span::from_millis(10);
    wires.take(Happening::Out(true), 5, &[]);
    assert!(!wires.pass(100).contains(&Command::Mute(0x14, false)), "it is still booting");
    let out = wires.pass(100);
    assert!(out.contains(&Command::Mute(0x14, false)));
    assert_eq!(set_of(&out, 0x14, FIRMWARE).map(|data| [data[0], data[1], data[2]]), Some([1, 1, 4]));
    assert!(wires.is_still(), "the pulses are gone");
}

#[test]
fn echo_lasts_as_long_as_the_distance_or_the_row_says() {
    let mut wires = Wires::new();
    let ping = |wires: &mut Wires, echo| {
        wires.far.echo(echo, &mut Vec::new());
        wires.pass(60);
        assert_eq!(wires.take(Happening::Out(true), 27, &[]), []);
        wires.now += Span::from_micros(12);
        let out = wires.take(Happening::Out(false), 27, &[]);
        let edges: Vec<(bool, Span)> = out
            .iter()
            .filter_map(|command| match command {
                Command::LineAt(22, high, at) => Some((*high, at.since(wires.now))),
                _ => None,
            })
            .collect();
        assert_eq!(edges.len(), out.len());
        edges
    };
    let sound = ping(&mut wires, Echo::Sound);
    let [(true, rise), (false, fall)] = sound[..] else { panic!("{sound:?}") };
    assert_eq!(rise, Span::from_micros(450));
    let metres = fall.less(rise).as_secs_f64() * 343.3 / 2.0;
    assert!((0.05..4.5).contains(&metres), "{metres}");
    assert_eq!(ping(&mut wires, Echo::Lost), []);
    let short = ping(&mut wires, Echo::Short);
    assert_eq!(short[1].1.less(short[0].1), Span::from_micros(50));
    assert_eq!(ping(&mut wires, Echo::Late)[0].1, Span::from_micros(10_450));
    let double = ping(&mut wires, Echo::Double);
    assert_eq!((double.len(), double[3].1.less(double[0].1)), (4, Span::from_micros(3_200)));
    assert_eq!(ping(&mut wires, Echo::Held).len(), 1);
    for ms in [38, 200] {
        let open = ping(&mut wires, Echo::Open(ms));
        assert_eq!(open[1].1.less(open[0].1), Span::from_millis(ms.into()));
    }
    let deaf = [(); 4].map(|()| ping(&mut wires, Echo::Open(200)).len());
    assert_eq!(deaf, [0, 0, 0, 2], "a ping every 60 ms is ignored while the pulse lasts");
}

#[test]
fn a_late_process_does_not_change_the_length_of_an_echo() {
    let mut wires = Wires::new();
    let trigger = |wires: &mut Wires, late_us| {
        wires.pass(60);
        let began = event(Happening::Out(true), 27, wires.now.as_nanos(), &[]);
        let ended = event(Happening::Out(false), 27, wires.now.as_nanos() + 12_000, &[]);
        wires.now += Span::from_micros(late_us);
        let mut out = Vec::new();
        wires.far.take(&began, wires.now, &mut out);
        wires.far.take(&ended, wires.now, &mut out);
        let [Command::LineAt(_, true, rise), Command::LineAt(_, false, fall)] = out[..] else {
            panic!("{out:?}")
        };
        assert!(rise > wires.now);
        fall.since(rise).as_nanos()
    };
    let (punctual, late) = (trigger(&mut wires, 50), trigger(&mut wires, 3000));
    assert!(punctual.abs_diff(late) < 60_000, "{punctual} {late}: noise of 1 cm is 58 us");
}

#[test]
fn the_adc_reads_ground_and_battery_with_noise() {
    let mut wires = Wires::new();
    let counts = |out: &[Command], register| {
        let data = set_of(out, 0x14, register).unwrap();
        u16::from_be_bytes([data[0], data[1]])
    };
    let first = wires.pass(5);
    let second = wires.pass(5);
    assert!((1300..1500).contains(&counts(&first, 0x17)), "ground-left, A0");
    assert!((3100..3300).contains(&counts(&first, 0x13)), "battery, A4");
    let floor = [0x17, 0x16, 0x15].map(|register| counts(&first, register));
    assert_ne!(floor, [0x17, 0x16, 0x15].map(|register| counts(&second, register)));
}

#[test]
fn imu_sleeps_until_woken_then_announces_its_samples() {
    let mut wires = Wires::new();
    let asleep = wires.pass(20);
    assert_eq!(set_of(&asleep, 0x68, imu::SAMPLE).unwrap()[..14], [0; 14]);
    wires.take(Happening::Write, 0x68, &[imu::POWER, 0]);
    wires.take(Happening::Write, 0x68, &[0x19, 9, 3]);
    wires.take(Happening::Write, 0x68, &[0x38, 1]);
    let awake = wires.pass(100);
    let edges = awake.iter().filter(|command| matches!(command, Command::LineAt(10, true, _))).count();
    assert!((9..=10).contains(&edges), "{edges} samples in 100 ms at 100 Hz");
    let up = set_of(&awake, 0x68, imu::SAMPLE).unwrap();
    let up = i16::from_be_bytes([up[4], up[5]]);
    assert!((up - 16_384).abs() < 50, "1 g upwards: {up}");
    wires.far.announce(false);
    assert!(!wires.pass(50).iter().any(|command| matches!(command, Command::LineAt(10, ..))));
    let mut out = Vec::new();
    wires.far.sample_at(45.0, wires.now, &mut out);
    assert_eq!(out.len(), 3, "the sample and both edges of its pulse");
}

#[test]
fn a_late_refresh_loses_no_data_ready_edge() {
    let mut wires = Wires::new();
    for set in [[0x6B, 0], [0x1A, 3], [0x19, 9], [0x38, 1]] {
        wires.take(Happening::Write, 0x68, &set); // awake, 1 kHz / 10, data-ready interrupt on
    }
    let mut rises = Vec::new();
    for nth in 0..400 {
        let late = Span::from_micros(30 + 40 * (nth % 3));
        wires.now += REFRESH + late;
        wires.out.clear();
        wires.far.refresh(wires.now, &mut wires.out);
        rises.extend(wires.out.iter().filter_map(|command| match command {
            Command::LineAt(line, true, at) if *line == offset(READY) => Some(*at),
            _ => None,
        }));
    }
    assert!(rises.len() > 190);
    assert!(rises.windows(2).all(|two| two[1].since(two[0]) == Span::from_millis(10)), "{rises:?}");
}
