//! The running guard: one thread that waits in one `poll` for messages, for the end of a connection, for the
//! end of the timeout and for the signal to end. After each of these it switches the line first and answers
//! second. It allocates, logs and starts nothing. It reports to a callback that must not wait either.
//!
//! However it ends, the line goes off: the guard switches it off at its end and in a panic; otherwise the
//! kernel releases the lines of the dead process.

use super::allowed_user::AllowedUser;
use super::frame::{Answer, Ask, GuardRefusal, GuardStatus, LENGTH, Request};
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
/// Messages read from one connection before the others, the timeout and the line have their turn. A runtime
/// sends four per timeout.
const AT_ONCE: usize = 16;
/// Delay before a line that does not follow is switched again.
const LINE_AGAIN: Span = Span::from_millis(5);

/// The line, and its last known state. Goes off when dropped.
pub struct HeldLine {
    gpio: Box<dyn Gpio>,
    hold: Hold,
    on: Option<bool>,
}

impl HeldLine {
    /// Holds the line of `hold` through `gpio`, and switches it off.
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
        self.on = None; // until it is known
        self.gpio.set(self.hold.line, self.hold.level(on))?;
        self.on = Some(on);
        Ok(())
    }
}

impl Drop for HeldLine {
    fn drop(&mut self) {
        self.on = None;
        // If this fails, only the kernel's release of the line and the board's own pull remain.
        let _ = self.put(false);
    }
}

/// An event worth reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The guard's status changed from the first to the second, in more than its heartbeats.
    Changed(GuardStatus, GuardStatus),
    /// A request was refused.
    Refused(GuardRefusal),
}

struct Client {
    connection: OwnedFd,
    /// It may be guarded; others may ask and trip the guard.
    allowed: bool,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stir {
    /// The guard is to end.
    end: bool,
    /// A client waits to be accepted. Checked before accepting: where none waits, the kernel would make a
    /// socket and take it down again at each heartbeat.
    knock: bool,
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
    /// A guard that is ready; it accepts nothing before [`Server::serve`]. `end` becomes readable when the
    /// guard is to end.
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

    /// The same, for a runtime that belongs to another user than the guard.
    pub fn guarding(self, allowed: AllowedUser) -> Server {
        Server { allowed, ..self }
    }

    /// Runs until its end is requested; then the line is off.
    pub fn serve(&mut self, mut report: impl FnMut(Event)) {
        let mut known = self.guard.standing(self.line_sound);
        loop {
            let stir = self.wait();
            if stir.end {
                break;
            }
            if stir.knock {
                self.let_in();
            }
            for client in 0..CLIENTS {
                self.attend(client, &mut report);
            }
            self.guard.look(self.clock.now());
            self.drive();
            let standing = self.guard.standing(self.line_sound);
            // All but the heartbeats, of which there are many.
            if (GuardStatus { beats: known.beats, ..standing }) != known {
                report(Event::Changed(known, standing));
                known = standing;
            }
        }
        self.line_sound = self.line.put(false).is_ok();
    }

    /// Whether the line followed until the end.
    pub fn line_sound(&self) -> bool {
        self.line_sound
    }

    /// Waits for any event.
    fn wait(&self) -> Stir {
        let again = if self.line_sound { Instant::NEVER } else { self.clock.now() + LINE_AGAIN };
        let until = self.guard.deadline().min(again);
        let timeout = (until != Instant::NEVER).then(|| timespec(until.since(self.clock.now())));
        let mut waited_for = heapless::Vec::<PollFd<'_>, { CLIENTS + 2 }>::new();
        let connections = self.clients.iter().flatten().map(|client| &client.connection);
        for descriptor in [&self.end, &self.listener].into_iter().chain(connections) {
            let _ = waited_for.push(PollFd::new(descriptor, PollFlags::IN)); // as many places as descriptors
        }
        // Interrupted or timed out: check everything anyway.
        let _ = poll(&mut waited_for, timeout.as_ref());
        let stirred = |place: usize| waited_for.get(place).is_some_and(|one| !one.revents().is_empty());
        Stir { end: stirred(0), knock: stirred(1) }
    }

    fn let_in(&mut self) {
        while let Some(connection) = next_of(&self.listener) {
            let allowed = self.allowed.is_at(&connection);
            let place = self.clients.iter().position(Option::is_none);
            // When all places are taken, a client that does not drive makes room.
            let place = place.or_else(|| (0..CLIENTS).find(|&client| !self.guard.is_holder(client)));
            if let Some(place) = place {
                self.clients[place] = Some(Client { connection, allowed });
            }
        }
    }

    /// Reads every message that `client` has sent.
    fn attend(&mut self, client: usize, report: &mut impl FnMut(Event)) {
        let mut bytes = [0; LENGTH + 1]; // one byte more, to detect a message that is too long
        for _ in 0..AT_ONCE {
            let Some(Client { connection, allowed }) = &self.clients[client] else { return };
            let (allowed, heard) = (*allowed, receive(connection, &mut bytes));
            let request = match heard {
                Received::Nothing => return,
                Received::Message(length) => Request::decode(&bytes[..length.min(bytes.len())]),
                Received::Closed => return self.dismiss(client),
            };
            // A client that sends an invalid frame is not our runtime.
            let Ok(request) = request else { return self.dismiss(client) };
            let outcome = self.guard.recv(client, allowed, &request, self.clock.now());
            self.drive();
            let outcome = outcome.and(if self.line_sound { Ok(()) } else { Err(GuardRefusal::Line) });
            // A runtime that has lost the line keeps sending heartbeats until it has read the report of that.
            if let Err(refused) = outcome
                && !matches!(request.ask, Ask::Heartbeat { .. })
            {
                report(Event::Refused(refused));
            }
            self.answer(client, &request, outcome);
        }
    }

    fn dismiss(&mut self, client: usize) {
        self.guard.gone(client);
        self.drive();
        self.clients[client] = None;
    }

    /// Switches the line to where the guard wants it.
    fn drive(&mut self) {
        self.line_sound = self.line.put(self.guard.line_on()).is_ok();
    }

    fn answer(&mut self, client: usize, request: &Request, outcome: Result<(), GuardRefusal>) {
        let standing = self.guard.standing(self.line_sound);
        let answer = Answer { sequence: request.sequence, refused: outcome.err(), standing };
        if let Some(client) = &self.clients[client] {
            // A client that does not read its answers misses them; the guard does not wait for it.
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
    fn one_clients_message_admits_no_other_client() {
        let path = std::env::temp_dir().join(format!("ganglion-knock-{}.sock", std::process::id()));
        let hold = Hold { line: Line(5), on_high: true, kind: GuardHold::Reset };
        let line = HeldLine::take(Box::new(FakeGpio::new(Arc::new(SimClock::new()))), hold).unwrap();
        let (end, go) = UnixStream::pair().unwrap();
        let guard = Guard::new(&hold, Span::from_millis(50), [0; 32]);
        let (place, listener) = listen_at(&path).unwrap();
        let mut server = Server::new(guard, line, listener, end.into(), Arc::new(MonotonicClock));
        let caller = connect_to(&path).unwrap();
        assert_eq!(server.wait(), Stir { end: false, knock: true });
        server.let_in();
        assert!(send_to(&caller, b"anything"));
        assert_eq!(server.wait(), Stir { end: false, knock: false }, "a message is no knock");
        let _another = connect_to(&path).unwrap();
        assert_eq!(server.wait(), Stir { end: false, knock: true });
        drop(go);
        assert!(server.wait().end);
        drop(place);
        std::fs::remove_file(path.with_extension("sock.lock")).unwrap();
    }
}
