//! The tether's process: one thread that waits in a single `poll` for the runtime, the network, a deadline
//! and the request to end. It passes messages between both ends, and reads only the cycle number in them.
//!
//! It serves one runtime at a time, which must run as the permitted user and have the same board as the
//! tether. Another process of that user may ask for the status ([`STATUS`]).

use super::carrier::{Arrived, Carrier};
use super::datagram::MOST_BYTES;
use super::figures::{Counts, RoundTrips};
use super::network::{Finder, Network};
use crate::base::time::{Clock, Instant, Span};
use crate::field::remote::local::{
    DIGEST_BYTES, FromRuntime, FromTether, Hello, LOCAL_MOST, LinkPhase, Text, Unwanted,
};
use crate::field::remote::message::MESSAGE_VERSION;
use crate::runtime::guard::AllowedUser;
use crate::system::seqpacket::{Received, connect_to, next_of, receive, send_to, timespec, wait_for};
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Asks for the status. It is the only message on its connection, and a runtime never sends it.
pub const STATUS: &[u8] = b"?";
/// Longest status, in bytes.
const STATUS_MOST: usize = 4096;
/// Maximum number of connections that have not sent their first message yet.
const CALLERS: usize = 3;
/// Maximum number of messages that are read from the network or the runtime before the other gets its turn.
const AT_ONCE: usize = 32;

/// An event worth reporting.
#[allow(clippy::large_enum_variant)] // passed on at once and never stored
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A runtime has connected.
    Runtime,
    /// The runtime has disconnected.
    Gone,
    /// A caller was refused.
    Refused(Unwanted),
    /// The link to the brain has changed to this state.
    Link(LinkPhase, Text),
    /// The system provides no random numbers, so the robot cannot join.
    NoRandom,
    /// The socket to the brain cannot be opened.
    NoSocket,
}

/// The tether's status, for the user.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The robot's name, from its key.
    pub robot: String,
    /// The brain's address as it was given.
    pub brain: String,
    /// Whether a runtime is connected.
    pub runtime: bool,
    /// State of the link.
    pub link: &'static str,
    /// A line of text about the link.
    pub text: String,
    /// The counters.
    pub counts: Counts,
    /// Round trips on the network.
    pub round_trips: RoundTrips,
}

/// A tether with its sockets.
pub struct Tether {
    carrier: Carrier,
    robot: String,
    finder: Finder,
    network: Option<Network>,
    /// Where the newest authentic datagram came from.
    peer: Option<SocketAddr>,
    listener: OwnedFd,
    end: OwnedFd,
    allowed: AllowedUser,
    digest: [u8; DIGEST_BYTES],
    clock: Arc<dyn Clock>,
    runtime: Option<OwnedFd>,
    callers: heapless::Vec<OwnedFd, CALLERS>,
    reported: (LinkPhase, Text),
}

/// What ended a wait.
struct Woken {
    end: bool,
    incoming: bool,
    runtime: bool,
    network: bool,
    found: bool,
    callers: bool,
}

impl Tether {
    /// A tether that is ready to run. Runtimes connect to `listener`; they must run as `allowed`, and their
    /// board must have `digest`. `end` becomes readable when the process must end.
    #[allow(clippy::too_many_arguments)] // there is only one caller
    pub fn new(
        carrier: Carrier,
        robot: &str,
        finder: Finder,
        listener: OwnedFd,
        end: OwnedFd,
        allowed: AllowedUser,
        digest: [u8; DIGEST_BYTES],
        clock: Arc<dyn Clock>,
    ) -> Tether {
        let reported = carrier.link();
        let (runtime, callers, network, peer) = (None, heapless::Vec::new(), None, None);
        let robot = robot.to_string();
        Tether {
            carrier,
            robot,
            finder,
            network,
            peer,
            listener,
            end,
            allowed,
            digest,
            clock,
            runtime,
            callers,
            reported,
        }
    }

    /// Runs until `end` becomes readable.
    pub fn run(&mut self, mut report: impl FnMut(Event)) {
        loop {
            let woken = self.wait();
            if woken.end {
                return;
            }
            if woken.runtime {
                self.read_runtime(&mut report);
            }
            if woken.network {
                self.read_network();
            }
            if woken.callers {
                self.read_callers(&mut report);
            }
            if woken.incoming {
                self.accept(&mut report);
            }
            let now = self.clock.now();
            // The first address is used as soon as it is found, without waiting for the next attempt.
            let is_new = woken.found && self.finder.address().is_some() && self.peer.is_none();
            if self.carrier.check(now) || (is_new && self.carrier.due() != Instant::NEVER) {
                self.join(now, &mut report);
            }
            self.report_link(&mut report);
        }
    }

    /// The current status.
    pub fn status(&self) -> Status {
        let (phase, text) = self.carrier.link();
        Status {
            robot: self.robot.clone(),
            brain: self.finder.target().to_string(),
            runtime: self.runtime.is_some(),
            link: if self.runtime.is_some() { phase_name(phase) } else { "idle" },
            text: text.to_string(),
            counts: *self.carrier.counts(),
            round_trips: self.carrier.round_trips(),
        }
    }

    fn wait(&self) -> Woken {
        let due = self.carrier.due();
        let timeout = (due != Instant::NEVER).then(|| timespec(due.since(self.clock.now())));
        let caller = |at: usize| self.callers.get(at).map(AsFd::as_fd);
        let mut polled = [
            Some(self.end.as_fd()),
            Some(self.listener.as_fd()),
            self.runtime.as_ref().map(AsFd::as_fd),
            self.network.as_ref().map(AsFd::as_fd),
            self.finder.found_event().map(AsFd::as_fd),
            caller(0),
            caller(1),
            caller(2),
        ]
        .map(|descriptor| match descriptor {
            Some(descriptor) => PollFd::from_borrowed_fd(descriptor, PollFlags::IN),
            // A placeholder that waits for nothing.
            None => PollFd::new(&self.end, PollFlags::empty()),
        });
        // Interrupted or timed out: the caller checks the deadlines anyway.
        let _ = poll(&mut polled, timeout.as_ref());
        let [end, incoming, runtime, network, found, callers @ ..] =
            polled.map(|one| !one.revents().is_empty());
        Woken { end, incoming, runtime, network, found, callers: callers.contains(&true) }
    }

    /// Reads the runtime's requests, seals them and sends them.
    fn read_runtime(&mut self, report: &mut impl FnMut(Event)) {
        let mut bytes = [0; LOCAL_MOST + 1]; // one extra byte, to detect a message that is too long
        for _ in 0..AT_ONCE {
            let Some(runtime) = &self.runtime else { return };
            let length = match receive(runtime, &mut bytes) {
                Received::Message(length) => length.min(bytes.len()),
                Received::Nothing => return,
                Received::Closed => {
                    (self.runtime, self.peer) = (None, None);
                    self.carrier.stop();
                    self.reported = self.carrier.link();
                    return report(Event::Gone);
                }
            };
            let Ok(FromRuntime::Request(request)) = FromRuntime::decode(&bytes[..length]) else {
                self.carrier.counts_mut().garbled += 1;
                continue;
            };
            let Some(datagram) = self.carrier.request(request, self.clock.now()) else { continue };
            let sent = match (&self.network, self.peer) {
                (Some(network), Some(peer)) => network.send(datagram, peer),
                _ => false,
            };
            self.carrier.counts_mut().unsent += u64::from(!sent);
        }
    }

    /// Reads datagrams from the network, opens them, and passes the brain's answers on.
    fn read_network(&mut self) {
        let mut bytes = [0; MOST_BYTES + 1];
        for _ in 0..AT_ONCE {
            let Some((length, from)) = self.network.as_ref().and_then(|network| network.receive(&mut bytes))
            else {
                return;
            };
            match self.carrier.receive(&bytes[..length], self.clock.now()) {
                Arrived::Answer { round_trip, answer } => {
                    let message = FromTether::Answer { round_trip, answer }.encode();
                    let reported = self.runtime.as_ref().is_some_and(|to| send_to(to, message.as_bytes()));
                    self.carrier.counts_mut().unread += u64::from(!reported);
                    self.peer = Some(from);
                }
                Arrived::Reply => self.peer = Some(from),
                Arrived::Dropped(_) => {}
            }
        }
    }

    /// Tries to join the brain at its newest known address.
    fn join(&mut self, now: Instant, report: &mut impl FnMut(Event)) {
        self.finder.look_up();
        let datagram = match self.carrier.attempt(now) {
            Ok(datagram) => datagram,
            Err(_) => return report(Event::NoRandom),
        };
        let Some(address) = self.finder.address() else { return };
        if !self.network.as_ref().is_some_and(|network| network.reaches(address)) {
            self.network = Network::for_address(address).ok();
        }
        match &self.network {
            Some(network) => {
                let sent = network.send(&datagram, address);
                self.carrier.counts_mut().unsent += u64::from(!sent);
            }
            None => report(Event::NoSocket),
        }
    }

    /// Tells the runtime and `report` about a change of the link.
    fn report_link(&mut self, report: &mut impl FnMut(Event)) {
        let link = self.carrier.link();
        if link == self.reported {
            return;
        }
        self.reported = link;
        self.send_link();
        report(Event::Link(link.0, link.1));
    }

    fn send_link(&mut self) {
        let (phase, text) = self.reported;
        let reported = self
            .runtime
            .as_ref()
            .is_some_and(|to| send_to(to, FromTether::Link(phase, text).encode().as_bytes()));
        self.carrier.counts_mut().unread += u64::from(!reported);
    }

    fn accept(&mut self, report: &mut impl FnMut(Event)) {
        while let Some(caller) = next_of(&self.listener) {
            if !self.allowed.is_at(&caller) {
                refuse(&caller, Unwanted::User, report);
                continue;
            }
            if self.callers.is_full() {
                self.read_callers(report);
            }
            if self.callers.is_full() {
                drop(self.callers.remove(0)); // the oldest: it has not sent its message yet
            }
            let _ = self.callers.push(caller); // there is room
        }
        self.read_callers(report); // most have sent their message already
    }

    /// Reads the first message of each new connection.
    fn read_callers(&mut self, report: &mut impl FnMut(Event)) {
        let mut bytes = [0; LOCAL_MOST + 1];
        let mut at = 0;
        while let Some(caller) = self.callers.get(at) {
            let length = match receive(caller, &mut bytes) {
                Received::Nothing => {
                    at += 1;
                    continue;
                }
                Received::Message(length) => length.min(bytes.len()),
                Received::Closed => 0,
            };
            let caller = self.callers.remove(at);
            match FromRuntime::decode(&bytes[..length]) {
                Ok(FromRuntime::Hello(hello)) => self.accept_runtime(caller, hello, report),
                _ if bytes[..length] == *STATUS => {
                    let status = serde_json::to_vec(&self.status()).unwrap_or_default();
                    let _ = send_to(&caller, &status); // never waits for a caller that does not read
                }
                _ if length > 0 => self.carrier.counts_mut().garbled += 1,
                _ => {}
            }
        }
    }

    fn accept_runtime(&mut self, caller: OwnedFd, hello: Hello, report: &mut impl FnMut(Event)) {
        let unwanted = match hello {
            Hello { version, .. } if version != MESSAGE_VERSION => Some(Unwanted::Version),
            Hello { digest, .. } if digest != self.digest => Some(Unwanted::Board),
            _ if self.runtime.is_some() => Some(Unwanted::Occupied),
            _ => None,
        };
        if let Some(why) = unwanted {
            return refuse(&caller, why, report);
        }
        self.runtime = Some(caller);
        self.carrier.start(self.clock.now());
        self.reported = self.carrier.link();
        self.send_link();
        report(Event::Runtime);
    }
}

fn refuse(caller: &OwnedFd, why: Unwanted, report: &mut impl FnMut(Event)) {
    // If this fails, the caller is gone and needs no answer.
    let _ = send_to(caller, FromTether::Refused(why).encode().as_bytes());
    report(Event::Refused(why));
}

/// Name of a phase in the status and the log.
pub const fn phase_name(phase: LinkPhase) -> &'static str {
    match phase {
        LinkPhase::Joining => "joining",
        LinkPhase::Joined => "joined",
        LinkPhase::Refused => "refused",
    }
}

/// The status of the tether that listens at `socket`, as JSON; waits at most `timeout`.
pub fn ask_status(socket: &Path, timeout: Span) -> io::Result<Vec<u8>> {
    let connection = connect_to(socket)?;
    if !send_to(&connection, STATUS) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    wait_for(&[&connection], timeout);
    let mut bytes = vec![0; STATUS_MOST];
    match receive(&connection, &mut bytes) {
        Received::Message(length) => {
            bytes.truncate(length);
            Ok(bytes)
        }
        Received::Nothing => Err(io::ErrorKind::TimedOut.into()),
        Received::Closed => Err(io::ErrorKind::ConnectionReset.into()),
    }
}
