//! The tether of a board: whether its process and its key are present, and whether the route to the brain is
//! wireless.

use super::{Finding, text};
use crate::base::plan::{Board, EngineKind, TetherPlan};
use crate::field::remote::local::TETHER_SOCKET;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Published measurements of raw UDP between a Pi 4 and an access point at 5 GHz.
const WIRELESS: &str = "published figures for raw UDP on a Pi 4 over 5 GHz: 99.9 % within 11 ms when idle, within 67 ms under load";

/// What a robot with a tether needs of this machine.
pub(super) fn look(root: &Path, board: &Board) -> Vec<Finding> {
    match &board.tether {
        Some(tether) if board.field.engine == EngineKind::Remote => {
            vec![socket(root), key(root, tether), way(root, &tether.address)]
        }
        _ => Vec::new(),
    }
}

fn under(root: &Path, path: &Path) -> std::path::PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn socket(root: &Path) -> Finding {
    let path = Path::new(TETHER_SOCKET);
    match std::fs::metadata(under(root, path)) {
        Ok(_) => Finding::ok("tether", format!("its socket is at {TETHER_SOCKET}")),
        Err(error) => Finding::refused(
            "tether",
            format!("no tether process is running: {TETHER_SOCKET}: {error}"),
            "start the tether process, under a user account of its own",
        ),
    }
}

/// Whether only the key's owner can read the key. Shows the owner, who should not be the runtime's user.
fn key(root: &Path, tether: &TetherPlan) -> Finding {
    let path = tether.key.display();
    match std::fs::metadata(under(root, &tether.key)) {
        Ok(key) if key.mode() & 0o077 != 0 => Finding::refused(
            "tether key",
            format!(
                "{path} has mode {:04o}: users other than its owner can read the robot's key",
                key.mode() & 0o7777
            ),
            format!("chmod 0400 {path}, and make a new key for the robot and its brain"),
        ),
        Ok(key) => Finding::ok("tether key", format!("{path}, readable only by user {}", key.uid())),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Finding::ok("tether key", format!("{path} is hidden from this user, as it should be"))
        }
        Err(error) => Finding::refused(
            "tether key",
            format!("{path}: {error}"),
            "make a key for this robot, and give it to the brain as well",
        ),
    }
}

/// The interface over which the brain is reached; warns if it is wireless.
fn way(root: &Path, address: &str) -> Finding {
    let Some(own) = own_address(address) else {
        let found = format!("{address}: no route to it, or its name cannot be resolved");
        return Finding::warn("tether route", found, "check the cable, and [tether] address of the board");
    };
    match interface_of(root, own) {
        Some(name) if under(root, Path::new("/sys/class/net")).join(&name).join("wireless").exists() => {
            let found = format!("{address} is reached over {name}, which is wireless; {WIRELESS}");
            Finding::warn("tether route", found, "use a cable, or expect stops after the board's silence_ms")
        }
        Some(name) => {
            Finding::ok("tether route", format!("{address} is reached over {name}, which is wired"))
        }
        None => Finding::ok("tether route", format!("{address} is reached from {own}")),
    }
}

/// The address from which the kernel would send to `address`; nothing is sent.
fn own_address(address: &str) -> Option<IpAddr> {
    let there = address.to_socket_addrs().ok()?.next()?;
    let any: IpAddr = if there.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(there).ok()?;
    socket.local_addr().ok().map(|own| own.ip())
}

/// The interface with this address of the machine, from the kernel's routing table; IPv4 only.
fn interface_of(root: &Path, own: IpAddr) -> Option<String> {
    let IpAddr::V4(own) = own else { return None };
    if own.is_loopback() {
        return Some("lo".to_string());
    }
    let routes = text(root, "proc/net/route")?;
    best_route(&routes, u32::from(own)).map(str::to_string)
}

/// The interface of the most specific route in `routes` (as in /proc/net/route) whose network contains
/// `address`. The machine's own address is in the network of its interface.
fn best_route(routes: &str, address: u32) -> Option<&str> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    let fitting = routes.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (network, mask) = (number(columns.get(1)?)?, number(columns.get(7)?)?);
        (address & mask == network).then_some((mask, columns[0]))
    });
    fitting.max_by_key(|(mask, _)| *mask).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                          wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
                          wlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n\
                          eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n";

    #[test]
    fn the_interface_of_an_address_is_that_of_its_closest_network() {
        let by = |address: [u8; 4]| best_route(ROUTES, u32::from_be_bytes(address));
        assert_eq!(by([192, 168, 1, 7]), Some("wlan0"));
        assert_eq!(by([10, 0, 0, 7]), Some("eth0"));
        assert_eq!(by([8, 8, 8, 8]), Some("wlan0"), "the default route");
        assert_eq!(best_route("", 0), None);
    }
}
