//! The running guard: one thread that waits in a single `poll` for messages, for closed connections, for the
//! timeout and for the signal to end. After each of these it switches the line first and answers second. It
//! does not allocate, log or start anything. It reports to a callback, which must not block.
//!
//! The guard switches the line off when it ends or panics. If it is killed, the kernel either releases the
//! line, so that the board's pull resistor sets its level, or keeps driving it (docs/service.md).

use super::allowed_user::AllowedUser;
use super::frame::{Ask, GuardAnswer, GuardRefusal, GuardStatus, LENGTH, Request};
use super::{Guard, Hold};
use crate::base::fault::BusFault;
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::Gpio;
use crate::system::seqpacket::{Received, next_of, receive, send_to, timespec};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Simultaneous connections: the runtime, a `safe-stop`, a `status`, and one spare.
const CLIENTS: usize = 4;
/// Messages read from one connection before the other connections and the timeout are handled. A runtime
/// sends four heartbeats per timeout.
const AT_ONCE: usize = 16;
/// Connections accepted before the clients and the timeout are handled: as many as there are places. More may
/// wait, and callers may connect faster than the guard accepts.
const ACCEPTED_AT_ONCE: usize = CLIENTS;
/// Delay before retrying a line that could not be switched.
const LINE_AGAIN: Span = Span::from_millis(5);

/// The line, and its last known state. Dropping it switches the line off.
pub struct HeldLine {
    gpio: Box<dyn Gpio>,
    hold: Hold,
    on: Option<bool>,
}

impl HeldLine {
    /// Takes over the line of `hold` through `gpio`, and switches it off.
    pub fn take(gpio: Box<dyn Gpio>, hold: Hold) -> Result<HeldLine, BusFault> {
        let mut line = HeldLine { gpio, hold, on: None };
        line.put(false)?;
        Ok(line)
    }

    /// Switches the line, unless it already has the requested level.
    fn put(&mut self, on: bool) -> Result<(), BusFault> {
        if self.on == Some(on) {
            return Ok(());
        }
        self.on = None; // unknown if the next statement fails
        self.gpio.set(self.hold.line, self.hold.level(on))?;
        self.on = Some(on);
        Ok(())
    }
}

impl Drop for HeldLine {
    fn drop(&mut self) {
        self.on = None;
        // If this fails, the board's pull resistor still sets the level, provided that the kernel releases
        // the line.
        let _ = self.put(false);
    }
}

/// An event worth reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The guard's status changed from the first to the second, not counting heartbeats.
    Changed(GuardStatus, GuardStatus),
    /// A request was refused.
    Refused(GuardRefusal),
}

struct Client {
    connection: OwnedFd,
    /// Whether this client may be guarded. Any other client may only query and trip the guard.
    allowed: bool,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Woken {
    /// The guard must end.
    end: bool,
    /// A client waits to be accepted. Checked first, because each `accept` without a waiting client makes the
    /// kernel create and destroy a socket, which would happen at every heartbeat.
    incoming: bool,
}

/// A guard with its line and its socket.
pub struct Server {
    guard: Guard,
    line: HeldLine,
    line_sound: bool,
    listener: OwnedFd,
    end: OwnedFd,
    clients: [Option<Client>; CLIENTS],
    /// Where the search for the next client to replace begins.
    replace_from: usize,
    clock: Arc<dyn Clock>,
    allowed: AllowedUser,
}

impl Server {
    /// A guard that is ready, but accepts no client before [`Server::serve`]. `end` becomes readable when the
    /// guard must end.
    pub fn new(
        guard: Guard,
        line: HeldLine,
        listener: OwnedFd,
        end: OwnedFd,
        clock: Arc<dyn Clock>,
    ) -> Server {
        let (clients, allowed) = ([const { None }; CLIENTS], AllowedUser::own());
        Server { guard, line, line_sound: true, listener, end, clients, replace_from: 0, clock, allowed }
    }

    /// Accepts `allowed` instead of the guard's own user: for a runtime that runs as another user.
    pub fn guarding(self, allowed: AllowedUser) -> Server {
        Server { allowed, ..self }
    }

    /// Runs until the end is requested, then switches the line off.
    pub fn serve(&mut self, mut report: impl FnMut(Event)) {
        let mut known = self.guard.status(self.line_sound);
        loop {
            let woken = self.wait();
            if woken.end {
                break;
            }
            if woken.incoming {
                self.accept(&mut report);
            }
            for client in 0..CLIENTS {
                self.read_client(client, &mut report);
            }
            self.guard.check_timeout(self.clock.now());
            self.drive_line();
            let status = self.guard.status(self.line_sound);
            // Ignores the heartbeat count, which changes all the time.
            if (GuardStatus { beats: known.beats, ..status }) != known {
                report(Event::Changed(known, status));
                known = status;
            }
        }
        self.line_sound = self.line.put(false).is_ok();
    }

    /// Whether the last attempt to switch the line succeeded. After [`Server::serve`], that was the attempt
    /// to switch it off.
    pub fn line_sound(&self) -> bool {
        self.line_sound
    }

    /// Waits for any event.
    fn wait(&self) -> Woken {
        let again = if self.line_sound { Instant::NEVER } else { self.clock.now() + LINE_AGAIN };
        let until = self.guard.deadline().min(again);
        let timeout = (until != Instant::NEVER).then(|| timespec(until.since(self.clock.now())));
        let mut waited_for = heapless::Vec::<PollFd<'_>, { CLIENTS + 2 }>::new();
        let connections = self.clients.iter().flatten().map(|client| &client.connection);
        for descriptor in [&self.end, &self.listener].into_iter().chain(connections) {
            let _ = waited_for.push(PollFd::new(descriptor, PollFlags::IN)); // there is room for all of them
        }
        // Interrupted or timed out: check everything anyway.
        let _ = poll(&mut waited_for, timeout.as_ref());
        let is_ready = |place: usize| waited_for.get(place).is_some_and(|one| !one.revents().is_empty());
        Woken { end: is_ready(0), incoming: is_ready(1) }
    }

    /// Accepts waiting clients, as many as one round allows, and reads each at once: what it has already sent
    /// counts, even if the next client takes its place.
    fn accept(&mut self, report: &mut impl FnMut(Event)) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(connection) = next_of(&self.listener) else { return };
            let allowed = self.allowed.is_at(&connection);
            if let Some(place) = self.make_room(report) {
                self.clients[place] = Some(Client { connection, allowed });
                self.read_client(place, report);
            }
        }
    }

    /// A place for a new client. If all places are taken, the clients that are not the guarded runtime make
    /// room in turn, each after its messages have been read. Reading may end its connection, or make it the
    /// guarded runtime, and there is only one of those.
    fn make_room(&mut self, report: &mut impl FnMut(Event)) -> Option<usize> {
        let from = self.replace_from;
        for place in (from..from + CLIENTS).map(|nth| nth % CLIENTS) {
            if let Some(empty) = self.clients.iter().position(Option::is_none) {
                return Some(empty);
            }
            if !self.guard.is_holder(place) {
                self.read_client(place, report);
            }
            if !self.guard.is_holder(place) {
                self.replace_from = (place + 1) % CLIENTS;
                return Some(place);
            }
        }
        None
    }

    /// Reads every message that `client` has sent.
    fn read_client(&mut self, client: usize, report: &mut impl FnMut(Event)) {
        let mut bytes = [0; LENGTH + 1]; // one extra byte, to detect a message that is too long
        for _ in 0..AT_ONCE {
            let Some(Client { connection, allowed }) = &self.clients[client] else { return };
            let (allowed, heard) = (*allowed, receive(connection, &mut bytes));
            let request = match heard {
                Received::Nothing => return,
                Received::Message(length) => Request::decode(&bytes[..length.min(bytes.len())]),
                Received::Closed => return self.disconnect(client),
            };
            // A correct runtime never sends an invalid frame.
            let Ok(request) = request else { return self.disconnect(client) };
            let result = self.guard.recv(client, allowed, &request, self.clock.now());
            self.drive_line();
            let result = result.and(if self.line_sound { Ok(()) } else { Err(GuardRefusal::Line) });
            // A runtime that has just lost the line still sends heartbeats until it learns of the loss; their
            // refusal is not worth reporting.
            if let Err(refused) = result
                && !matches!(request.ask, Ask::Heartbeat { .. })
            {
                report(Event::Refused(refused));
            }
            self.answer(client, &request, result);
        }
    }

    fn disconnect(&mut self, client: usize) {
        self.guard.disconnected(client);
        self.drive_line();
        self.clients[client] = None;
    }

    /// Switches the line to the level that the guard wants.
    fn drive_line(&mut self) {
        self.line_sound = self.line.put(self.guard.line_on()).is_ok();
    }

    fn answer(&mut self, client: usize, request: &Request, result: Result<(), GuardRefusal>) {
        let status = self.guard.status(self.line_sound);
        let answer = GuardAnswer { sequence: request.sequence, refused: result.err(), status };
        if let Some(client) = &self.clients[client] {
            // The guard does not wait for a client that does not read its answers.
            let _ = send_to(&client.connection, &answer.encode());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::{GuardHold, Line};
    use crate::base::time::{MonotonicClock, SimClock};
    use crate::hardware::bus::fake::FakeGpio;
    use crate::system::seqpacket::{SocketLock, connect_to, listen_at};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;

    /// A guard at a socket in the temporary directory; removes the socket's lock at its end.
    struct Rig {
        server: Server,
        path: PathBuf,
        place: Option<SocketLock>,
        go: Option<UnixStream>,
    }

    impl Rig {
        fn new(name: &str) -> Rig {
            let path = std::env::temp_dir().join(format!("ganglion-{name}-{}.sock", std::process::id()));
            let hold = Hold { line: Line(5), on_high: true, kind: GuardHold::Reset };
            let line = HeldLine::take(Box::new(FakeGpio::new(Arc::new(SimClock::new()))), hold).unwrap();
            let (end, go) = UnixStream::pair().unwrap();
            let guard = Guard::new(&hold, Span::from_millis(50), [0; 32]);
            let (place, listener) = listen_at(&path).unwrap();
            let server = Server::new(guard, line, listener, end.into(), Arc::new(MonotonicClock));
            Rig { server, path, place: Some(place), go: Some(go) }
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            self.place = None;
            let _ = std::fs::remove_file(self.path.with_extension("sock.lock"));
        }
    }

    #[test]
    fn only_a_waiting_client_wakes_the_accept() {
        let mut rig = Rig::new("incoming");
        let caller = connect_to(&rig.path).unwrap();
        assert_eq!(rig.server.wait(), Woken { end: false, incoming: true });
        rig.server.accept(&mut |_| ());
        assert!(send_to(&caller, b"anything"));
        assert_eq!(rig.server.wait(), Woken { end: false, incoming: false }, "a message is not a new client");
        let _another = connect_to(&rig.path).unwrap();
        assert_eq!(rig.server.wait(), Woken { end: false, incoming: true });
        rig.go = None;
        assert!(rig.server.wait().end);
    }

    #[test]
    fn one_round_accepts_a_limited_number_of_callers() {
        let mut rig = Rig::new("round");
        let callers: Vec<OwnedFd> = (0..=ACCEPTED_AT_ONCE).map(|_| connect_to(&rig.path).unwrap()).collect();
        rig.server.accept(&mut |_| ());
        assert!(next_of(&rig.server.listener).is_some(), "one caller waits for the next round");
        assert!(next_of(&rig.server.listener).is_none(), "only one");
        drop(callers);
    }

    /// A client's message arrives after the guard last read it, and before another client takes its place.
    #[test]
    fn a_replaced_client_is_read_before_it_goes() {
        let mut rig = Rig::new("replaced");
        let stop = Request { sequence: 1, stamp: Instant::ZERO, ask: Ask::Trip { lasting: true } };
        let mut callers: Vec<OwnedFd> = Vec::new();
        for _ in 0..CLIENTS {
            callers.push(connect_to(&rig.path).unwrap());
            rig.server.accept(&mut |_| ());
        }
        assert!(send_to(&callers[0], &stop.encode()));
        for place in 0..CLIENTS {
            let _newer = connect_to(&rig.path).unwrap();
            rig.server.accept(&mut |_| ());
            let mut bytes = [0; LENGTH];
            let answered = receive(&callers[place], &mut bytes);
            let expected = if place == 0 { Received::Message(LENGTH) } else { Received::Closed };
            assert_eq!(answered, expected, "client {place}: they make room in turn");
        }
        assert_ne!(rig.server.guard.status(true).stop, 0);
    }
}
