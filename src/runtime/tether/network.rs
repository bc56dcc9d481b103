//! The tether's side of the network: a UDP socket for the brain's family of addresses, and where the brain is
//! found. A name is looked up by a thread of its own, because that may take as long as it likes.

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::sockopt::{set_ip_tos, set_ipv6_tclass};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// DSCP "expedited forwarding" (46), in the byte that IP has for it: switches and Wi-Fi that heed it send
/// these first. For IPv4, Linux derives the priority in its own queues from it.
const EXPEDITED: u8 = 46 << 2;

/// A socket toward brains at addresses of one family.
pub struct Network {
    socket: UdpSocket,
    is_ipv4: bool,
}

impl Network {
    /// A socket that reaches `address`.
    pub fn toward(address: SocketAddr) -> io::Result<Network> {
        let is_ipv4 = address.is_ipv4();
        let any = if is_ipv4 {
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
        } else {
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        // Where one of these is refused, datagrams go without.
        let _ = set_ip_tos(&socket, EXPEDITED);
        if !is_ipv4 {
            let _ = set_ipv6_tclass(&socket, u32::from(EXPEDITED));
        }
        Ok(Network { socket, is_ipv4 })
    }

    /// Whether it reaches `address`.
    pub fn reaches(&self, address: SocketAddr) -> bool {
        self.is_ipv4 == address.is_ipv4()
    }

    /// Sends a datagram; `false`: the system did not take it.
    pub fn send(&self, datagram: &[u8], to: SocketAddr) -> bool {
        self.socket.send_to(datagram, to).is_ok_and(|sent| sent == datagram.len())
    }

    /// The next datagram, cut off at the end of `into`, and where it came from; `None`: none waits.
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
    written: String,
    known: Option<SocketAddr>,
    /// The thread that looks names up; `None`: an address needs none.
    search: Option<Search>,
}

struct Search {
    ask: SyncSender<()>,
    found: Receiver<SocketAddr>,
    bell: OwnedFd,
}

impl Finder {
    /// For `written`, which is HOST:PORT.
    pub fn new(written: &str) -> io::Result<Finder> {
        let known = written.parse::<SocketAddr>().ok();
        let search = if known.is_some() { None } else { Some(Search::start(written.to_string())?) };
        Ok(Finder { written: written.to_string(), known, search })
    }

    /// As it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Looks the name up anew, unless that is under way.
    pub fn ask(&self) {
        if let Some(search) = &self.search {
            let _ = search.ask.try_send(()); // full: it is under way
        }
    }

    /// Readable when a name was looked up; `None`: there is none to look up.
    pub fn bell(&self) -> Option<&OwnedFd> {
        self.search.as_ref().map(|search| &search.bell)
    }

    /// The address that is known last.
    pub fn address(&mut self) -> Option<SocketAddr> {
        if let Some(search) = &self.search {
            crate::system::seqpacket::drain(&search.bell);
            self.known = search.found.try_iter().last().or(self.known);
        }
        self.known
    }
}

impl Search {
    fn start(written: String) -> io::Result<Search> {
        let (ask, asked) = sync_channel(1);
        // As many as are asked for before they are taken.
        let (tell, found) = sync_channel(2);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let ring = bell.try_clone()?;
        let look = move || {
            while asked.recv().is_ok() {
                let address = written.to_socket_addrs().ok().and_then(|mut all| all.next());
                if let Some(address) = address
                    && tell.try_send(address).is_ok()
                {
                    let _ = rustix::io::write(&ring, &1_u64.to_ne_bytes()); // full: it rings already
                }
            }
        };
        thread::Builder::new().name("find-brain".into()).spawn(look)?;
        Ok(Search { ask, found, bell })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Span;
    use crate::system::seqpacket::wait_for;

    #[test]
    fn addresses_are_known_at_once_and_names_after_the_look_up() {
        let mut finder = Finder::new("127.0.0.1:4747").unwrap();
        assert!(finder.bell().is_none());
        assert_eq!(finder.address(), Some(SocketAddr::from(([127, 0, 0, 1], 4747))));
        let mut finder = Finder::new("localhost:4747").unwrap();
        assert_eq!(finder.address(), None, "nobody asked");
        finder.ask();
        assert!(wait_for(&[finder.bell().unwrap()], Span::from_millis(60_000)), "it rings");
        assert_eq!(finder.address().map(|found| found.port()), Some(4747));
        assert!(!wait_for(&[finder.bell().unwrap()], Span::ZERO), "once");
    }

    #[test]
    fn datagrams_are_marked_and_carry_their_senders_address() {
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = there.local_addr().unwrap();
        let here = Network::toward(to).unwrap();
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
