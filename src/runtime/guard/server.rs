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
        Server { guard, line, line_sound: true, listener, end, clients, clock, allowed }
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
                self.accept();
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

    fn accept(&mut self) {
        while let Some(connection) = next_of(&self.listener) {
            let allowed = self.allowed.is_at(&connection);
            let place = self.clients.iter().position(Option::is_none);
            // If all places are taken, replace a client that is not the guarded runtime.
            let place = place.or_else(|| (0..CLIENTS).find(|&client| !self.guard.is_holder(client)));
            if let Some(place) = place {
                self.clients[place] = Some(Client { connection, allowed });
            }
        }
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
    use crate::system::seqpacket::{connect_to, listen_at};
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_a_waiting_client_wakes_the_accept() {
        let path = std::env::temp_dir().join(format!("ganglion-incoming-{}.sock", std::process::id()));
        let hold = Hold { line: Line(5), on_high: true, kind: GuardHold::Reset };
        let line = HeldLine::take(Box::new(FakeGpio::new(Arc::new(SimClock::new()))), hold).unwrap();
        let (end, go) = UnixStream::pair().unwrap();
        let guard = Guard::new(&hold, Span::from_millis(50), [0; 32]);
        let (place, listener) = listen_at(&path).unwrap();
        let mut server = Server::new(guard, line, listener, end.into(), Arc::new(MonotonicClock));
        let caller = connect_to(&path).unwrap();
        assert_eq!(server.wait(), Woken { end: false, incoming: true });
        server.accept();
        assert!(send_to(&caller, b"anything"));
        assert_eq!(server.wait(), Woken { end: false, incoming: false }, "a message is not a new client");
        let _another = connect_to(&path).unwrap();
        assert_eq!(server.wait(), Woken { end: false, incoming: true });
        drop(go);
        assert!(server.wait().end);
        drop(place);
        std::fs::remove_file(path.with_extension("sock.lock")).unwrap();
    }
}
