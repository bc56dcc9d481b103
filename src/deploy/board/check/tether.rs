//! `[tether]`: the link to a remote brain that computes the field.

use super::{Periods, millis};
use crate::base::plan::{EngineKind, FieldPlan, OnLoss, TetherPlan};
use crate::base::time::Span;
use crate::deploy::board::reader::Section;
use std::path::{Path, PathBuf};

/// Limits of `silence_ms`. Below 20 ms a busy core looks like a pulled cable; in a second the robot travels
/// half a metre.
const SILENCE_MS: std::ops::RangeInclusive<f64> = 20.0..=1000.0;
/// Minimum of `silence_ms` in field periods: one lost datagram causes one miss, and the next datagram comes a
/// period and a round trip later.
const LEAST_PERIODS: u64 = 3;
const GRIDS: [i64; 4] = [8, 16, 32, 64];

/// Reads the section. `field` is what the brain computes, as `[field]` states it.
pub fn tether(
    field_section: &Section<'_>,
    section: Section<'_>,
    field: Option<&FieldPlan>,
    periods: &Periods,
) -> Option<Option<TetherPlan>> {
    let engine = field.map(|field| field.engine);
    if !section.is_written() {
        if engine == Some(EngineKind::Remote) {
            let rule = "\"remote\" needs a [tether] table: where the brain is, and the robot's key";
            field_section.misfit("engine", rule.to_string());
            return None;
        }
        return Some(None);
    }
    let address = section.text("address").required().filter(|address| is_address(&section, address));
    let key = section.text("key").or("/etc/ganglion/tether.key".to_string());
    if !Path::new(&key).is_absolute() {
        section.misfit("key", format!("found {key:?}; expected: an absolute path"));
    }
    let silence = section.millis("silence_ms", SILENCE_MS).or(Span::from_millis(100));
    let least = periods.dt.times(LEAST_PERIODS);
    if periods.sound && silence < least {
        let (found, least) = (millis(silence), millis(least));
        let rule = format!("found {found} ms; must not be below three periods of the field ({least} ms)");
        section.misfit("silence_ms", rule);
    }
    let latched = section.flag("latched").or(false);
    let on_loss = on_loss(&section, field);
    if engine.is_some_and(|engine| engine != EngineKind::Remote) {
        section.warn("address", "the tether is not used: field.engine is not \"remote\"".to_string());
    }
    Some(Some(TetherPlan { address: address?, key: PathBuf::from(key), silence, latched, on_loss: on_loss? }))
}

fn is_address(section: &Section<'_>, address: &str) -> bool {
    let fits = is_host_and_port(address);
    if !fits {
        section
            .misfit("address", format!("found {address:?}; expected: \"HOST:PORT\", a port from 1 to 65535"));
    }
    fits
}

/// Whether `address` is `HOST:PORT`, where HOST is a name, an IPv4 address, or an IPv6 address in brackets.
pub fn is_host_and_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c)),
        };
        !host.is_empty() && host.len() <= 253 && is_host && port.parse().is_ok_and(|port: u16| port > 0)
    })
}

fn on_loss(section: &Section<'_>, field: Option<&FieldPlan>) -> Option<OnLoss> {
    let choices = [("stop", false), ("local", true)];
    let (_, is_local) = section.choice("on_loss", "choice", &choices).or(("stop", false));
    let local = section.section("local");
    if !is_local {
        if local.is_written() {
            local.give_up();
            section.misfit("local", "only used with on_loss = \"local\"".to_string());
        }
        return Some(OnLoss::Stop);
    }
    let grid = local.integer("grid", 8..=64).or(8);
    let bank = local.integer("bank", 1..=100_000).or(1);
    if !GRIDS.contains(&grid) {
        local.misfit("grid", format!("found {grid}; allowed: 8, 16, 32 or 64 cells per axis"));
        return None;
    }
    if field.is_some_and(|field| field.start.is_empty()) {
        let rule = "\"local\" needs a starting table ([[start]]): a local field learns its read-out from it";
        section.misfit("on_loss", rule.to_string());
    }
    if field.is_some_and(|field| grid as usize > field.shape.grid) {
        local.warn(
            "grid",
            "larger than the remote brain's field, although this computer is the smaller one".to_string(),
        );
    }
    Some(OnLoss::Local { grid: grid as usize, bank: bank as usize })
}
