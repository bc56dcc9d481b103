//! The tether's side of the network: a UDP socket for the brain's address family, and the lookup of the
//! brain's address. Names are looked up on a separate thread, because a lookup may take arbitrarily long.

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::sockopt::{set_ip_tos, set_ipv6_tclass};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// DSCP "expedited forwarding" (46), at its place in the IP header's byte: switches and Wi-Fi that honour it
/// send such packets first. For IPv4, Linux also derives the priority in its own queues from it.
const EXPEDITED: u8 = 46 << 2;

/// A socket for brains whose addresses belong to one family (IPv4 or IPv6).
pub struct Network {
    socket: UdpSocket,
    is_ipv4: bool,
}

impl Network {
    /// A socket that can reach `address`.
    pub fn for_address(address: SocketAddr) -> io::Result<Network> {
        let is_ipv4 = address.is_ipv4();
        let any = if is_ipv4 {
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
        } else {
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        // If the system refuses the marking, datagrams are sent without it.
        let _ = set_ip_tos(&socket, EXPEDITED);
        if !is_ipv4 {
            let _ = set_ipv6_tclass(&socket, u32::from(EXPEDITED));
        }
        Ok(Network { socket, is_ipv4 })
    }

    /// Whether this socket can reach `address`.
    pub fn reaches(&self, address: SocketAddr) -> bool {
        self.is_ipv4 == address.is_ipv4()
    }

    /// Sends a datagram; `false`: the system did not accept it.
    pub fn send(&self, datagram: &[u8], to: SocketAddr) -> bool {
        self.socket.send_to(datagram, to).is_ok_and(|sent| sent == datagram.len())
    }

    /// The length of the next datagram, truncated to `into`, and its source; `None`: nothing is waiting, or
    /// the system reports an error.
    pub fn receive(&self, into: &mut [u8]) -> Option<(usize, SocketAddr)> {
        loop {
            match self.socket.recv_from(into) {
                Ok(received) => return Some(received),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for Network {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Finds the address of a brain.
pub struct Finder {
    target: String,
    known: Option<SocketAddr>,
    /// The thread that looks up the name; `None`: an address needs no lookup.
    lookup: Option<Lookup>,
}

struct Lookup {
    start: SyncSender<()>,
    found: Receiver<SocketAddr>,
    event: OwnedFd,
}

impl Finder {
    /// A finder for `target`, which is HOST:PORT.
    pub fn new(target: &str) -> io::Result<Finder> {
        let known = target.parse::<SocketAddr>().ok();
        let lookup = if known.is_some() { None } else { Some(Lookup::start(target.to_string())?) };
        Ok(Finder { target: target.to_string(), known, lookup })
    }

    /// The target as it was given.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Requests another lookup of the name, unless one is already waiting to start.
    pub fn look_up(&self) {
        if let Some(lookup) = &self.lookup {
            let _ = lookup.start.try_send(()); // full: one is already waiting
        }
    }

    /// Becomes readable when a lookup has found an address; `None`: there is no name to look up.
    pub fn found_event(&self) -> Option<&OwnedFd> {
        self.lookup.as_ref().map(|lookup| &lookup.event)
    }

    /// The newest known address.
    pub fn address(&mut self) -> Option<SocketAddr> {
        if let Some(lookup) = &self.lookup {
            crate::system::seqpacket::drain(&lookup.event);
            self.known = lookup.found.try_iter().last().or(self.known);
        }
        self.known
    }
}

impl Lookup {
    fn start(target: String) -> io::Result<Lookup> {
        let (start, started) = sync_channel(1);
        // Holds two results that have not been taken yet; further ones are dropped.
        let (result, found) = sync_channel(2);
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let signal = event.try_clone()?;
        let work = move || {
            while started.recv().is_ok() {
                let address = target.to_socket_addrs().ok().and_then(|mut all| all.next());
                if let Some(address) = address
                    && result.try_send(address).is_ok()
                {
                    let _ = rustix::io::write(&signal, &1_u64.to_ne_bytes()); // full: already signalled
                }
            }
        };
        thread::Builder::new().name("find-brain".into()).spawn(work)?;
        Ok(Lookup { start, found, event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Span;
    use crate::system::seqpacket::wait_for;

    #[test]
    fn addresses_are_known_at_once_and_names_after_a_lookup() {
        let mut finder = Finder::new("127.0.0.1:4747").unwrap();
        assert!(finder.found_event().is_none());
        assert_eq!(finder.address(), Some(SocketAddr::from(([127, 0, 0, 1], 4747))));
        let mut finder = Finder::new("localhost:4747").unwrap();
        assert_eq!(finder.address(), None, "not looked up yet");
        finder.look_up();
        assert!(wait_for(&[finder.found_event().unwrap()], Span::from_millis(60_000)), "it is signalled");
        assert_eq!(finder.address().map(|found| found.port()), Some(4747));
        assert!(!wait_for(&[finder.found_event().unwrap()], Span::ZERO), "it is signalled only once");
    }

    #[test]
    fn datagrams_are_sent_with_priority_and_received_with_source() {
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = there.local_addr().unwrap();
        let here = Network::for_address(to).unwrap();
        assert!(here.reaches(to) && !here.reaches(SocketAddr::from((Ipv6Addr::LOCALHOST, 1))));
        assert_eq!(rustix::net::sockopt::ip_tos(&here).unwrap(), EXPEDITED);
        assert_eq!(here.receive(&mut [0; 8]), None);
        assert!(here.send(b"up", to));
        let mut buffer = [0; 8];
        let (length, from) = there.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"up");
        there.send_to(b"down", from).unwrap();
        assert!(wait_for(&[&here], Span::from_millis(60_000)));
        assert_eq!(here.receive(&mut buffer), Some((4, to)));
    }
}
