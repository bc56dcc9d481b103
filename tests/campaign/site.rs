//! A random board, such as a person could have written: text that is loaded through the normal check. If the
//! check refuses a board, another one is drawn. Does not decide what happens to the robot.

use super::draw::Draw;
use ganglion::base::plan::Board;
use ganglion::deploy::board::{self, Loaded};
use ganglion::field::Readout;
use ganglion::field::readout::Origin;
use std::fmt::Write;

/// Weights of a row of the read-out: one per feature, then the constant.
const READOUT_COLUMNS: usize = ganglion::field::shape::READOUT_COLUMNS;
/// Maximum number of draws until a board passes the check. More than a few refused draws mean that this
/// generator has a bug.
const DRAWS: u64 = 50;

/// Purpose of the random numbers that retreats are drawn with.
const RETREAT: u64 = 0x7265;
const RETREAT_KEY: &str = "retreat_ms";

/// Purpose of the random numbers that rangers are drawn with, and the share of the boards that have some.
const RANGERS: u64 = 0x7261;
const RANGED: f64 = 0.35;

/// Purpose of the random numbers that tethers are drawn with, and the share of the boards that have one.
const TETHER: u64 = 0x7465;
const TETHERED: f64 = 0.25;

/// Share of the seeds in which the CPU engine computes the field.
const OWN_ENGINE: f64 = 0.08;

/// A board and everything that belongs to it.
pub struct Site {
    /// The text that it was loaded from.
    pub text: String,
    /// The board.
    pub board: Board,
    /// Every effective value by its key, for values that `Board` does not hold under their own names.
    pub settings: Vec<(String, String)>,
    /// The read-out for the CPU engine: it always requests motion.
    pub readout: Readout,
    /// The preferred direction of the substitute engine, if there is one.
    pub temper: Option<f64>,
}

impl Site {
    /// The board of `seed`.
    pub fn of_seed(seed: u64) -> Site {
        let mut refusals = String::new();
        for attempt in 0..DRAWS {
            let mut draw = Draw::new(seed, 1 + attempt);
            let (text, bent) = Text::of(&mut draw);
            // With the CPU engine, the field takes most of a run's time, so few seeds use it.
            let temper = (!draw.chance(OWN_ENGINE)).then_some(bent);
            match Site::of_text(text, bent, temper) {
                Ok(site) => return site.maybe_tethered(bent, Draw::new(seed, TETHER)),
                Err(why) => refusals = why,
            }
        }
        panic!("no board of seed {seed} passes the check; the last was refused: {refusals}");
    }

    /// This board, sometimes changed so that a brain on another computer computes its field.
    fn maybe_tethered(self, bent: f64, mut draw: Draw) -> Site {
        if self.temper.is_none() || !draw.chance(TETHERED) {
            return self;
        }
        let field_ms = self.board.field.dt.as_secs_f64() * 1e3;
        let silence = (field_ms * draw.between(3.0, 9.0)).clamp(20.0, 1_000.0);
        let mut text = self.text.replace("engine = \"cpu\"", "engine = \"remote\"");
        let _ = write!(
            text,
            "[tether]\naddress = \"10.0.0.2:4747\"\nsilence_ms = {silence:.1}\nlatched = {}\n",
            draw.chance(0.3)
        );
        Site::of_text(text, bent, self.temper).expect("a tether changes nothing else")
    }

    /// The board of `text`, whose field prefers this direction.
    pub fn of_text(text: String, bent: f64, temper: Option<f64>) -> Result<Site, String> {
        let Loaded { board, settings, .. } =
            board::from_text("campaign", &text).map_err(|error| format!("{error}"))?;
        let mut weights = vec![0.0; board.motors.len() * READOUT_COLUMNS];
        for (motor, row) in weights.chunks_exact_mut(READOUT_COLUMNS).enumerate() {
            // All drive motors get about the same request; steering varies.
            row[READOUT_COLUMNS - 1] =
                if board.motors[motor].kind.drives() { 2.0 * bent as f32 } else { 0.3 };
        }
        let readout = Readout::new(&board, weights, Origin::Given).map_err(|error| format!("{error}"))?;
        let settings = settings.into_iter().map(|setting| (setting.key, setting.value)).collect();
        Ok(Site { text, board, settings, readout, temper })
    }

    /// The effective value of a time in milliseconds, if the board knows the key.
    pub fn millis(&self, key: &str) -> Option<f64> {
        self.settings.iter().find(|(known, _)| known == key)?.1.parse().ok()
    }
}

/// How a sensor is polled: its interval, milliseconds; the range of its `max_age_ms`, in periods; how likely
/// it is to be required.
struct Poll {
    period: f64,
    ages: [f64; 2],
    required: f64,
}

/// A board's text while it is being written.
struct Text {
    out: String,
    lines: Vec<u32>,
    sonars: usize,
}

impl Text {
    /// A whole board and its field's preferred direction, -1..=1.
    fn of(draw: &mut Draw) -> (String, f64) {
        let mut text = Text { out: String::new(), lines: (6..28).collect(), sonars: 0 };
        let period = draw.pick(&[5.0, 8.0, 10.0, 10.0, 12.5, 16.0, 20.0, 25.0, 40.0]);
        let hat = draw.chance(0.6);
        let two_buses = draw.chance(0.35);
        text.frame(draw, period, hat, two_buses);
        text.motors(draw, hat);
        text.sensors(draw, period, hat, two_buses);
        text.rest(draw, period);
        let bent = match draw.below(10) {
            0..=6 => draw.between(0.3, 1.0),
            7 => draw.between(-0.3, 0.3),
            _ => draw.between(-1.0, -0.3),
        };
        text.guard(draw, period, hat);
        // Rangers have their own stream of random numbers, so that everything else stays as it was.
        let mut apart = Draw::new(draw.clone().bits(), RANGERS);
        if apart.chance(RANGED) {
            text.rangers(&mut apart, two_buses);
        }
        (text.out, bent)
    }

    fn send(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn key(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.out, "{key} = {value}");
    }

    fn line(&mut self, draw: &mut Draw, key: &str) {
        let line = draw.take(&mut self.lines);
        self.key(key, line);
    }

    /// The parts that everything else depends on.
    fn frame(&mut self, draw: &mut Draw, period: f64, hat: bool, two_buses: bool) {
        self.key("compatible", "[]");
        self.key("period_ms", format!("{period:?}"));
        self.send("[rt]\nstrict = false\npriority = 0\nlock_memory = false");
        self.send("[bus]\nkind = \"sim\"");
        self.key("speed_hz", if hat { 100_000 } else { draw.pick(&[100_000, 400_000]) });
        self.key("timeout_ms", draw.pick(&["5.0", "10.0", "20.0", "35.0"]));
        if two_buses {
            self.send("[[i2c]]\nname = \"second\"");
            self.key("speed_hz", draw.pick(&[100_000, 400_000]));
            self.key("timeout_ms", draw.pick(&["5.0", "20.0", "35.0"]));
        }
        if hat {
            self.send("[mcu]\naddress = 0x14\nclock_hz = 72000000");
            self.key("timers", draw.pick(&[4, 7]));
            self.line(draw, "reset");
        } else {
            self.send("[pca9685]\naddress = 0x40");
            self.key("hz", draw.pick(&["50.0", "200.0", "1000.0"]));
            if draw.chance(0.4) {
                self.line(draw, "output_enable");
            }
        }
        if draw.chance(0.25) {
            self.send("[enable]");
            self.line(draw, "line");
            self.key("on_high", draw.chance(0.5));
        }
    }

    /// A guard, on half of the boards that have a line for it to hold.
    fn guard(&mut self, draw: &mut Draw, period: f64, hat: bool) {
        let enable = self.out.contains("[enable]");
        let holds: &[&str] = match (hat, enable) {
            (true, true) => &["reset", "enable"],
            (true, false) => &["reset"],
            (false, true) => &["enable"],
            (false, false) => return,
        };
        if draw.chance(0.5) {
            self.send("[guard]");
            self.key("holds", format!("\"{}\"", draw.pick(holds)));
            self.key("patience_ms", format!("{:.1}", period * draw.between(4.1, 12.0)));
            self.key("required", draw.chance(0.8));
        }
    }

    fn motors(&mut self, draw: &mut Draw, hat: bool) {
        // A Robot HAT's first timer is left to servos: a timer has one frequency.
        let mut channels: Vec<u32> = if hat { (4..14).collect() } else { (1..16).collect() };
        let name = |number: u32| if hat { format!("\"P{number}\"") } else { number.to_string() };
        let slew = format!("{:.1}", draw.decades(0.5, 40.0));
        let min_duty = format!("{:.2}", draw.between(0.0, 0.6));
        for motor in ["left", "right", "third"].into_iter().take(draw.pick(&[1, 2, 2, 2, 3])) {
            self.send("[[motor]]");
            self.key("name", format!("\"{motor}\""));
            if draw.chance(0.5) {
                self.send("kind = \"dc-dir\"");
                self.key("pwm", name(draw.take(&mut channels)));
                self.line(draw, "dir");
                self.key("mirrored", draw.chance(0.5));
            } else {
                self.send("kind = \"dc-pair\"");
                self.key("forward", name(draw.take(&mut channels)));
                self.key("backward", name(draw.take(&mut channels)));
            }
            self.key("min_duty", &min_duty);
            self.key("slew_per_s", &slew);
            if draw.chance(0.2) {
                self.key("limit", format!("{:.2}", draw.between(0.3, 1.0)));
            }
        }
        if hat && draw.chance(0.6) {
            self.send("[[motor]]\nname = \"steering\"\nkind = \"servo\"\npwm = \"P2\"\nmin_deg = -30.0\nmax_deg = 30.0\nslew_per_s = 2.5");
        }
    }

    fn sensor(&mut self, draw: &mut Draw, name: &str, kind: &str, unit: &str, poll: Poll) {
        let Poll { period, ages, required } = poll;
        self.send("[[sensor]]");
        self.key("name", format!("\"{name}\""));
        self.key("kind", format!("\"{kind}\""));
        self.key("unit", format!("\"{unit}\""));
        self.key("period_ms", format!("{period:.1}"));
        self.key("max_age_ms", format!("{:.1}", period * draw.between(ages[0], ages[1])));
        self.key("required", draw.chance(required));
    }

    fn sensors(&mut self, draw: &mut Draw, period: f64, hat: bool, two_buses: bool) {
        self.send("[[sensor]]\nname = \"echo\"\nkind = \"motor-echo\"\nmotor = \"left\"\nunit = \"1\"\nvalid = [-1.0, 1.0]\ninput = { low = -1.0, high = 1.0 }");
        for name in ["range", "range-back"].into_iter().take(draw.pick(&[0, 1, 1, 1, 2])) {
            self.sonar(draw, name);
        }
        if hat {
            for (channel, name) in ["ground-left", "ground-middle", "ground-right"].into_iter().enumerate() {
                if draw.chance(0.4) {
                    self.ground(draw, channel, name);
                }
            }
            if draw.chance(0.4) {
                self.battery(draw);
            }
        }
        let bus = |draw: &mut Draw| two_buses && draw.chance(0.5);
        if draw.chance(0.6) {
            let second = bus(draw);
            self.lean(draw, "lean", "0x60", second);
        }
        if draw.chance(0.2) {
            let second = bus(draw);
            self.lean(draw, "lean-too", "0x61", second);
        }
        if draw.chance(0.3) {
            let second = bus(draw);
            self.roll(draw, period, second);
        }
        for name in ["button", "button-back"].into_iter().take(draw.pick(&[0, 1, 1, 1, 1, 2])) {
            self.button(draw, name);
        }
    }

    fn sonar(&mut self, draw: &mut Draw, name: &str) {
        self.sonars += 1;
        let period = draw.between(60.0, 130.0);
        self.sensor(draw, name, "hc-sr04", "m", Poll { period, ages: [2.0, 6.0], required: 0.6 });
        self.line(draw, "trig");
        self.line(draw, "echo");
        self.send("valid = [0.02, 4.0]\ninput = { low = 0.05, high = 4.0 }");
        self.key("worst_per_s", draw.pick(&["0.0", "-0.3", "-1.0"]));
        self.key("frozen_after", draw.pick(&[0, 0, 20, 60]));
        self.rule(
            draw,
            name,
            "obstacle",
            "below = 0.15\nclear = 0.20",
            &["no-forward", "no-forward", "still"],
            0.3,
        );
        if draw.chance(0.5) {
            self.rule(draw, name, "obstacle", "below = 0.5\nclear = 0.6", &["slow"], 0.0);
        }
    }

    /// A ranger that keeps its first address, or one or two that are given theirs at the start.
    fn rangers(&mut self, draw: &mut Draw, two_buses: bool) {
        let places: &[(&str, Option<&str>)] = match draw.below(3) {
            0 => &[("ranger", None)],
            1 => &[("ranger", Some("0x30"))],
            _ => &[("ranger-left", Some("0x30")), ("ranger-right", Some("0x31"))],
        };
        let second = two_buses && draw.chance(0.5);
        for (name, address) in places {
            let period = draw.between(34.0, 60.0);
            self.sensor(draw, name, "vl53l0x", "m", Poll { period, ages: [2.5, 6.0], required: 0.6 });
            self.key("address", address.unwrap_or("0x29"));
            if address.is_some() {
                self.line(draw, "shutdown");
            }
            self.send("valid = [0.03, 1.2]\ninput = { low = 0.03, high = 1.2 }");
            self.key("worst_per_s", draw.pick(&["0.0", "-0.3", "-1.0"]));
            self.key("frozen_after", draw.pick(&[0, 25, 100]));
            if second {
                self.send("bus = \"second\"");
            }
            let limits = "below = 0.08\nclear = 0.11";
            self.rule(draw, name, "obstacle", limits, &["no-forward", "no-forward", "still"], 0.3);
        }
    }

    fn ground(&mut self, draw: &mut Draw, channel: usize, name: &str) {
        let period = draw.between(15.0, 60.0);
        self.sensor(draw, name, "hat-adc", "counts", Poll { period, ages: [2.5, 6.0], required: 0.6 });
        self.key("channel", format!("\"A{channel}\""));
        self.send("full_scale = 4095.0\nvalid = [0.0, 4095.0]\ninput = { low = 0.0, high = 2000.0 }");
        self.key("frozen_after", draw.pick(&[0, 10, 25]));
        self.rule(draw, name, "cliff", "below = 500.0\nclear = 600.0", &["no-forward", "still"], 0.3);
    }

    fn battery(&mut self, draw: &mut Draw) {
        let period = draw.between(100.0, 500.0);
        self.sensor(draw, "battery", "hat-adc", "V", Poll { period, ages: [2.5, 6.0], required: 0.6 });
        self.send("channel = \"A4\"\nfull_scale = 9.9\nvalid = [4.5, 9.0]");
        self.rule(draw, "battery", "battery", "below = 7.0\nclear = 7.3", &["slow", "still"], 0.5);
    }

    fn lean(&mut self, draw: &mut Draw, name: &str, address: &str, second: bool) {
        let period = draw.between(10.0, 60.0);
        self.sensor(draw, name, "float-register", "deg", Poll { period, ages: [2.5, 8.0], required: 0.6 });
        self.key("address", address);
        self.send("register = 0\nvalid = [-90.0, 90.0]\ninput = { low = -30.0, high = 30.0 }");
        self.key("frozen_after", draw.pick(&[0, 50, 250]));
        if second {
            self.send("bus = \"second\"");
        }
        self.rule(draw, name, "tilt", "above = 20.0\nclear = 15.0", &["still"], 0.5);
        if draw.chance(0.5) {
            self.rule(draw, name, "tilt", "below = -20.0\nclear = -15.0", &["still"], 0.1);
        }
    }

    fn roll(&mut self, draw: &mut Draw, period: f64, second: bool) {
        self.sensor(
            draw,
            "roll",
            "mpu6050",
            "deg",
            Poll { period: period.max(10.0), ages: [4.0, 10.0], required: 0.6 },
        );
        self.send("address = 0x68\nquantity = \"roll\"\nvalid = [-90.0, 90.0]\ninput = { low = -30.0, high = 30.0 }");
        if second {
            self.send("bus = \"second\"");
        }
        self.rule(draw, "roll", "tilt", "above = 20.0\nclear = 15.0", &["still"], 0.5);
    }

    fn button(&mut self, draw: &mut Draw, name: &str) {
        let period = draw.between(5.0, 50.0);
        self.sensor(draw, name, "button", "1", Poll { period, ages: [2.5, 10.0], required: 0.7 });
        self.line(draw, "line");
        self.key("active_low", draw.chance(0.5));
        self.send("valid = [0.0, 1.0]");
        let number = self.rules();
        let _ = write!(
            self.out,
            "[[reflex]]\nname = \"rule-{number}\"\ncause = \"e-stop\"\nsensor = \"{name}\"\nabove = 0.5\nclear = 0.4\nrestraint = \"still\"\nlatched = true\n"
        );
    }

    fn rules(&self) -> usize {
        self.out.matches("[[reflex]]").count()
    }

    /// A rule on `sensor`, sometimes left out.
    fn rule(
        &mut self,
        draw: &mut Draw,
        sensor: &str,
        cause: &str,
        limits: &str,
        restraints: &[&str],
        latched: f64,
    ) {
        if draw.chance(0.1) {
            return;
        }
        let number = self.rules();
        self.send("[[reflex]]");
        self.key("name", format!("\"rule-{number}\""));
        self.key("cause", format!("\"{cause}\""));
        self.key("sensor", format!("\"{sensor}\""));
        self.send(limits);
        let restraint = draw.pick(restraints);
        self.key("restraint", format!("\"{restraint}\""));
        if restraint == "slow" {
            self.key("share", format!("{:.2}", draw.between(0.1, 0.9)));
        }
        self.key("hold_ms", draw.pick(&["0.0", "100.0", "500.0", "1500.0"]));
        self.key("latched", draw.chance(latched));
        // The retreat has its own stream of random numbers, so that everything drawn afterwards stays the
        // same.
        let mut apart = Draw::new(draw.clone().bits(), RETREAT);
        if restraint != "still" && apart.chance(0.6) {
            self.key(RETREAT_KEY, apart.pick(&["150.0", "250.0", "400.0"]));
        }
    }

    /// Timeouts, field, world.
    fn rest(&mut self, draw: &mut Draw, period: f64) {
        let every = draw.pick(&[1.0, 2.0, 2.0, 3.0, 4.0]);
        let field = every * period;
        self.send("[safety]");
        let valid = period * draw.pick(&[2.0, 3.0, 3.0, 5.0]);
        self.key("command_valid_ms", format!("{valid:.1}"));
        self.key("wire_lost_ms", format!("{:.1}", valid.max(40.0) * draw.between(1.0, 3.0)));
        self.key("field_fresh_ms", format!("{:.1}", field * draw.between(2.0, 4.0)));
        self.key("field_fade_ms", format!("{:.1}", field * draw.between(0.0, 6.0)));
        self.key("late_slots", draw.pick(&[1, 3, 5, 10]));
        self.key("settle_ms", draw.pick(&["0.0", "100.0", "300.0", "800.0"]));
        let reverse = draw.pick(&["0.0", "300.0", "700.0", "2000.0"]);
        self.key("reverse_max_ms", reverse);
        if reverse == "0.0" {
            let kept = self.out.lines().filter(|line| !line.starts_with(RETREAT_KEY));
            self.out = kept.map(|line| format!("{line}\n")).collect(); // a robot that never backs cannot retreat
        }
        self.key("disarm_after_ms", draw.pick(&["1000.0", "2000.0", "5000.0", "5000.0"]));
        self.key("auto_arm", draw.chance(0.4));
        self.send("[field]\nengine = \"cpu\"\ngrid = 8\npatterns = 1\nbank = 1\nthreads = 1\nlearn = false");
        self.key("every_ticks", every);
        self.key("explore", draw.pick(&["0.0", "0.0", "0.3", "1.0", "1.0"]));
        self.send("[budget]");
        self.key("target_ms", format!("{:.2}", field * draw.between(0.2, 0.8)));
        self.send("[sim]\ndisc_radius = 0.12\nline = [[0.8, 0.6], [3.2, 0.6]]\nwheelbase = 0.0872\ntrack = 0.1167\nbody = [0.25, 0.13]\nbattery_v = 7.9");
        let side = draw.between(3.0, 12.0);
        self.key("room", format!("[{side:.1}, {:.1}]", side * draw.between(0.6, 1.0)));
        self.key("discs", draw.below(6));
        self.key("full_speed", format!("{:.2}", draw.between(0.1, 0.8)));
        if draw.chance(0.4) {
            self.send("cliffs = [[1.0, 1.0, 1.6, 1.4]]");
        }
    }
}
