//! Rebinds an adapter's driver through a process that has the permission: the requests that a runtime without
//! root sends, and the answers. One message each way over a Unix socket (SOCK_SEQPACKET): the request is a
//! command byte and the name of the adapter's device, the answer is one byte.
//!
//! The granting process decides by its own board file, not by the message: the name in the message only
//! selects one of that board's buses with `rebind`. So an attacker who has taken over the runtime's user can
//! at worst have those buses rebound, each once per [`REST`].

use super::adapters;
use super::repair::Driver;
use super::sysfs::below;
use crate::base::plan::{Board, I2cNode};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use std::io;
use std::path::{Path, PathBuf};

/// Socket of the process that may rebind, in a directory owned by root.
pub const REBIND_SOCKET: &str = "/run/ganglion-rebind/rebind.sock";
/// Longest request: a command byte and a device name (`1f00074000.i2c` has 14 bytes).
pub const LONGEST: usize = 64;
/// Minimum time from the end of a rebind to the next one of the same adapter. A bus that fails again takes
/// longer than this to reach its next rebind: it has worked in between, and its recovery starts with two
/// resets.
const REST: Span = Span::from_millis(2_000);
/// Timeout for asking whether a rebind is permitted; the answer only requires a look at /sys.
pub(super) const MAY_TIMEOUT: Span = Span::from_millis(200);
/// Timeout for a rebind: a driver is bound within tens of milliseconds.
pub(super) const DO_TIMEOUT: Span = Span::from_millis(2_500);

/// A request about an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ask {
    /// Ask whether the adapter would be rebound.
    May = b'?',
    /// Rebind it.
    Do = b'!',
}

impl Ask {
    const ALL: [Ask; 2] = [Ask::May, Ask::Do];
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Grant {
    /// The rebind is permitted, or was done.
    Yes,
    /// There is no such adapter, or the board does not permit its rebind.
    NotOnBoard,
    /// The adapter's driver was rebound less than two seconds ago.
    TooSoon,
    /// The system refused.
    Failed,
    /// The request cannot be parsed.
    Mangled,
}

impl Grant {
    const ALL: [Grant; 5] = [Grant::Yes, Grant::NotOnBoard, Grant::TooSoon, Grant::Failed, Grant::Mangled];

    /// Text for messages.
    pub fn message(self) -> &'static str {
        match self {
            Grant::Yes => "granted",
            Grant::NotOnBoard => "its board has no such adapter with 'rebind = true'",
            Grant::TooSoon => "the driver was rebound less than two seconds ago",
            Grant::Failed => "the system refused it",
            Grant::Mangled => "the request cannot be read",
        }
    }
}

/// Encodes a request.
fn request(ask: Ask, device: &str) -> Vec<u8> {
    let mut bytes = vec![ask as u8];
    bytes.extend_from_slice(device.as_bytes());
    bytes
}

/// Sends a request about the adapter of `device` to the process that listens at `socket`; waits at most
/// `timeout`.
pub(super) fn ask(socket: &Path, ask: Ask, device: &str, timeout: Span) -> io::Result<Grant> {
    let clock = MonotonicClock;
    let until = clock.now() + timeout;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let here = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&here, &SocketAddrUnix::new(socket)?)?;
    send(&here, &request(ask, device), SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    loop {
        let left = until.since(clock.now()).as_nanos();
        let wait = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        let mut waited_for = [PollFd::new(&here, PollFlags::IN)];
        // Interrupted: check the time again.
        let _ = poll(&mut waited_for, Some(&wait));
        let mut answer = [0];
        match recv(&here, &mut answer[..], RecvFlags::DONTWAIT) {
            Ok((1, _)) => {
                let grant = Grant::ALL.into_iter().find(|grant| *grant as u8 == answer[0]);
                return grant.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            Ok(_) => return Err(io::ErrorKind::ConnectionReset.into()),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) if clock.now() < until => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The rebind socket of a machine.
pub(super) fn socket_of(root: &Path) -> PathBuf {
    below(root, REBIND_SOCKET)
}

/// An adapter whose driver may be rebound, according to the board.
struct Permitted {
    node: I2cNode,
    /// The driver as last seen: after a rebind that failed half-way, the device has no driver.
    driver: Option<Driver>,
    rested: Instant,
}

/// The privileged process: it rebinds adapters' drivers at the runtime's request.
pub struct Rebinder {
    root: PathBuf,
    adapters: Vec<Permitted>,
}

impl Rebinder {
    /// A rebinder for the buses of `board` that permit a rebind; `/sys` and `/dev` are looked up in `root`.
    pub fn new(board: &Board, root: &Path) -> Rebinder {
        let permitted = board.i2c.iter().filter(|bus| bus.recovery.rebind);
        let adapters =
            permitted.map(|bus| Permitted { node: bus.node.clone(), driver: None, rested: Instant::ZERO });
        let mut rebinder = Rebinder { root: root.to_path_buf(), adapters: adapters.collect() };
        rebinder.look();
        rebinder
    }

    /// Whether the board permits no rebind at all.
    pub fn is_idle(&self) -> bool {
        self.adapters.is_empty()
    }

    /// The devices whose drivers this process may rebind, and those whose drivers it may not.
    pub fn devices(&self) -> (Vec<&str>, Vec<&str>) {
        let drivers = || self.adapters.iter().filter_map(|one| one.driver.as_ref());
        let named = |may: bool| {
            drivers().filter(|driver| driver.writable() == may).map(Driver::device).collect::<Vec<_>>()
        };
        (named(true), named(false))
    }

    fn look(&mut self) {
        for one in &mut self.adapters {
            let found = adapters::find(&self.root, &one.node).ok();
            let driver = found.and_then(|adapter| Driver::of(adapter.device.as_deref()?));
            one.driver = driver.or(one.driver.take());
        }
    }

    /// Carries out a request, or refuses it. A rebind blocks for as long as another process has the adapter
    /// open.
    pub fn grant(&mut self, request: &[u8], clock: &dyn Clock) -> Grant {
        let Some((word, name)) = request.split_first() else { return Grant::Mangled };
        let Some(ask) = Ask::ALL.into_iter().find(|ask| *ask as u8 == *word) else { return Grant::Mangled };
        let Ok(name) = std::str::from_utf8(name) else { return Grant::Mangled };
        if request.len() > LONGEST {
            return Grant::Mangled;
        }
        self.look();
        let mine = |one: &&mut Permitted| one.driver.as_ref().is_some_and(|driver| driver.device() == name);
        let Some(one) = self.adapters.iter_mut().find(mine) else { return Grant::NotOnBoard };
        let Some(driver) = one.driver.as_ref().filter(|driver| driver.writable()) else {
            return Grant::Failed;
        };
        if ask == Ask::May {
            return Grant::Yes;
        }
        if clock.now() < one.rested {
            return Grant::TooSoon;
        }
        let bound = driver.bind_again();
        one.rested = clock.now() + REST;
        if bound.is_ok() { Grant::Yes } else { Grant::Failed }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Tree, i2c_tree};
    use super::*;
    use crate::base::time::SimClock;

    /// A board with two buses, one of which permits a rebind.
    fn rebinder(tree: &Tree) -> Rebinder {
        let mut board = crate::deploy::board::built_in("jetson-orin-nano").unwrap().unwrap().board;
        for (bus, (device, rebind)) in
            board.i2c.iter_mut().zip([("c250000.i2c", true), ("3160000.i2c", false)])
        {
            bus.node = I2cNode::Adapter(device.to_string());
            bus.recovery.rebind = rebind;
        }
        assert_eq!(board.i2c.len(), 2);
        Rebinder::new(&board, tree.root())
    }

    const UNBIND: &str = "sys/bus/platform/drivers/tegra-i2c/unbind";

    #[test]
    fn only_the_boards_adapters_are_rebound() {
        let (tree, clock) = (i2c_tree(), SimClock::new());
        clock.set(Instant::ZERO + REST);
        let mut rebinder = rebinder(&tree);
        assert_eq!(rebinder.devices(), (vec!["c250000.i2c"], vec![]));
        for strange in ["3160000.i2c", "", "virtual", "c250000", "../c250000.i2c", "c250000.i2c\n3160000.i2c"]
        {
            for ask in [Ask::May, Ask::Do] {
                let grant = rebinder.grant(&request(ask, strange), &clock);
                assert_eq!(grant, Grant::NotOnBoard, "{strange:?}");
            }
        }
        for mangled in [&b""[..], b"c250000.i2c", &[b'!', 0xFF], &[b'!'; LONGEST + 1]] {
            assert_eq!(rebinder.grant(mangled, &clock), Grant::Mangled, "{mangled:?}");
        }
        assert_eq!(rebinder.grant(&request(Ask::May, "c250000.i2c"), &clock), Grant::Yes);
        assert_eq!(tree.read(UNBIND), "", "nothing must have been written so far");
        assert_eq!(rebinder.grant(&request(Ask::Do, "c250000.i2c"), &clock), Grant::Yes);
        assert_eq!(tree.read(UNBIND), "c250000.i2c");
    }

    #[test]
    fn repeated_rebind_requests_are_granted_one_per_2_s() {
        let (tree, clock) = (i2c_tree(), SimClock::new());
        clock.set(Instant::ZERO + REST);
        let mut rebinder = rebinder(&tree);
        let mut granted = 0;
        for _ in 0..1_000 {
            match rebinder.grant(&request(Ask::Do, "c250000.i2c"), &clock) {
                Grant::Yes => granted += 1,
                refused => assert_eq!(refused, Grant::TooSoon),
            }
            clock.sleep_until(clock.now() + Span::from_millis(10));
        }
        assert_eq!(granted, 5);
    }

    #[test]
    fn an_adapter_that_lost_its_driver_is_still_known() {
        let (tree, clock) = (i2c_tree(), SimClock::new());
        clock.set(Instant::ZERO + REST);
        let mut rebinder = rebinder(&tree);
        std::fs::remove_file(tree.root().join("sys/devices/platform/c250000.i2c/driver")).unwrap();
        std::fs::remove_file(tree.root().join("sys/bus/i2c/devices/i2c-7")).unwrap();
        assert_eq!(rebinder.grant(&request(Ask::Do, "c250000.i2c"), &clock), Grant::Yes);
        assert_eq!(tree.read("sys/bus/platform/drivers/tegra-i2c/bind"), "c250000.i2c");
    }
}
