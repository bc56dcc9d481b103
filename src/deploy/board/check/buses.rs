//! `[bus]`, `[[i2c]]`: the buses, and how the runtime may recover one that does not answer.

use super::claims::{Claims, Thing};
use super::wires::{line, optional_line};
use crate::base::plan::{
    Access, BusPlan, ClearPlan, I2cNode, I2cPlan, I2cTiming, OwnTime, RailPlan, RecoveryPlan, ReservedAddress,
};
use crate::base::time::Span;
use crate::deploy::board::reader::Section;

/// Name of the first bus, which `[bus]` describes.
const FIRST: &str = "motors";
/// Prefix of an adapter's device name, used instead of a path.
const ADAPTER: &str = "adapter:";
/// Maximum number of I2C buses per board: the largest supported carrier has this many.
const MOST: usize = 8;
/// How long a supply stays off by default: a few time constants of the load behind a module's regulator.
const RAIL_OFF: Span = Span::from_millis(100);

/// Reads `[bus]` and `[[i2c]]`; `None` if one of them is invalid.
pub fn buses(root: &Section<'_>, claims: &mut Claims) -> Option<(BusPlan, Vec<I2cPlan>)> {
    let bus = bus(&root.section("bus"), claims);
    let mut i2c = vec![];
    if let Some((_, Some(plan))) = &bus {
        claims.buses.push(plan.name.clone());
        i2c.push(Some(plan.clone()));
    }
    for (name, section) in root.entries("i2c", "name") {
        match &bus {
            None => section.give_up(),
            Some((BusPlan::Log, _)) => {
                section.misfit("name", "the bus kind \"log\" has no wires".to_string());
                section.give_up();
            }
            Some((bus, _)) => {
                if name == FIRST {
                    let rule = format!("\"{FIRST}\" is the bus that [bus] describes; expected: another name");
                    section.misfit("name", rule);
                }
                claims.buses.push(name.clone());
                i2c.push(further(name, bus, &section, claims));
            }
        }
    }
    if claims.buses.len() > MOST {
        root.misfit("i2c", format!("found {} buses; allowed: at most {MOST}", claims.buses.len()));
    }
    Some((bus?.0, i2c.into_iter().collect::<Option<_>>()?))
}

fn bus(section: &Section<'_>, claims: &mut Claims) -> Option<(BusPlan, Option<I2cPlan>)> {
    #[derive(Clone, Copy)]
    enum Kind {
        Sim,
        Linux,
        Log,
    }
    let kinds = [("sim", Kind::Sim), ("linux", Kind::Linux), ("log", Kind::Log)];
    let Some((_, kind)) = section.choice("kind", "bus kind", &kinds).required() else {
        section.give_up();
        return None;
    };
    let name = FIRST.to_string();
    Some(match kind {
        Kind::Log => (BusPlan::Log, None),
        Kind::Sim => {
            let (timing, recovery) = (timing(section), recovery(section, claims));
            let node = I2cNode::Path(String::new());
            (BusPlan::Sim, Some(I2cPlan { name, node, driver: None, timing, recovery: recovery? }))
        }
        Kind::Linux => {
            let node = node(section);
            let gpio_labels = section.texts("gpio_labels").sound_or(Vec::new());
            let access = access(section);
            let driver = driver(section);
            let (timing, recovery) = (timing(section), recovery(section, claims));
            let plan = I2cPlan { name, node: node?, driver, timing, recovery: recovery? };
            (BusPlan::Linux { gpio_labels: gpio_labels?, access }, Some(plan))
        }
    })
}

fn further(name: String, bus: &BusPlan, section: &Section<'_>, claims: &mut Claims) -> Option<I2cPlan> {
    let (node, driver) = match bus {
        BusPlan::Linux { .. } => (node(section), driver(section)),
        _ => (Some(I2cNode::Path(String::new())), None),
    };
    let (timing, recovery) = (timing(section), recovery(section, claims));
    Some(I2cPlan { name, node: node?, driver, timing, recovery: recovery? })
}

/// The adapter's driver. A board states it only for a driver that has its own timeout.
fn driver(section: &Section<'_>) -> Option<OwnTime> {
    let known = OwnTime::ALL.map(|driver| (driver.name(), driver));
    section.choice("driver", "kernel driver with a timeout of its own", &known).optional().map(|(_, d)| d)
}

/// How lines and buses are accessed. If the key is missing, it is not part of the board's digest.
fn access(section: &Section<'_>) -> Access {
    let known = [("character-devices", Access::CharacterDevices), ("rppal", Access::Rppal)];
    section.choice("access", "bus interface", &known).optional().map_or_else(Access::default, |(_, a)| a)
}

/// Where the bus is: a path, or part of the adapter's device name.
fn node(section: &Section<'_>) -> Option<I2cNode> {
    let word = section.text("i2c").required()?;
    match word.strip_prefix(ADAPTER) {
        Some(device) if !device.trim().is_empty() && !device.contains('/') => {
            Some(I2cNode::Adapter(device.to_string()))
        }
        None if word.starts_with('/') => Some(I2cNode::Path(word)),
        _ => {
            let rule = "expected: an absolute path, as in \"/dev/i2c-1\", or \"adapter:\" and part of the \
                        adapter's device name, as in \"adapter:c250000.i2c\"";
            section.misfit("i2c", rule.to_string());
            None
        }
    }
}

fn timing(section: &Section<'_>) -> I2cTiming {
    // 100 kHz is the Raspberry Pi's default, which the vendor's installer keeps; 1 MHz is Fast-mode Plus.
    let speed = section.integer("speed_hz", 10_000..=1_000_000).or(100_000);
    // The kernel's default of one second is far too long: a hung transfer must not outlive the lost-bus
    // limit.
    let timeout = section.millis("timeout_ms", 1.0..=1000.0).or(Span::from_millis(20));
    I2cTiming { speed_hz: speed as u32, timeout }
}

/// The permitted recovery measures of this bus: only those that the board states.
fn recovery(section: &Section<'_>, claims: &mut Claims) -> Option<RecoveryPlan> {
    let rebind = section.flag("rebind").optional().unwrap_or(false);
    let scl = optional_line(section, "clear_scl", claims);
    let sda = optional_line(section, "clear_sda", claims);
    let rail = section.section("rail");
    let rail = match rail.is_written() {
        true => rail_plan(&rail, claims).map(Some),
        false => Some(None),
    };
    if section.states("clear_scl") != section.states("clear_sda") {
        let (stated, missing) = match section.states("clear_scl") {
            true => ("clear_scl", "clear_sda"),
            false => ("clear_sda", "clear_scl"),
        };
        section.misfit(stated, format!("a bus clear needs both lines: {missing} is missing"));
    }
    let clear = match (scl?, sda?) {
        (Some(scl), Some(sda)) => Some(ClearPlan { scl, sda }),
        _ => None,
    };
    Some(RecoveryPlan { clear, rebind, rail: rail? })
}

fn rail_plan(section: &Section<'_>, claims: &mut Claims) -> Option<RailPlan> {
    let line = line(section, "line", claims);
    let on_high = section.flag("on_high").required();
    // If a power cycle takes longer than five seconds, the robot should stay stopped.
    let off = section.millis("off_ms", 1.0..=5000.0).or(RAIL_OFF);
    Some(RailPlan { line: line?, on_high: on_high?, off })
}

/// Reports an error if a role uses a GPIO line but the board names no chip: the runtime looks for lines only
/// on chips with these labels.
pub fn chips_for_lines(bus: &BusPlan, claims: &Claims, section: &Section<'_>) {
    let BusPlan::Linux { gpio_labels, .. } = bus else { return };
    if let (true, Some(key)) = (gpio_labels.is_empty(), claims.first_line()) {
        let rule =
            format!("found no label; expected: at least the label of the chip that has the line of {key}");
        section.report().borrow_mut().misfit("bus.gpio_labels", rule);
    }
}

/// `[reserved_i2c]`: addresses that the computer or its carrier board uses itself. Each key names the user.
/// No role may use these addresses.
pub fn reserved(section: &Section<'_>, claims: &mut Claims) -> Vec<ReservedAddress> {
    if claims.buses.is_empty() {
        // A log has no bus; an invalid `[bus]` is already reported.
        section.give_up();
        return Vec::new();
    }
    let mut reserved = Vec::new();
    for holder in section.free_names() {
        let Some((bus, address)) = section.address_on(&holder, &claims.buses) else { continue };
        claims.take(Thing::Address(bus, address), section.path(&holder));
        reserved.push(ReservedAddress { holder, bus, address });
    }
    reserved
}
