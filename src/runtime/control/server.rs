//! The robot's side of the control socket: one thread, one `poll`, a fixed number of callers. No caller makes
//! another wait: lines are read as they arrive, stop and disarm take effect as soon as their line is
//! complete, and answers are made one at a time after that. If all places are taken, the caller that has been
//! silent longest makes room.

use super::caller::{Caller, Visit};
use super::{Ask, Sources};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::system::seqpacket::SocketLock;
use crate::system::seqpacket::{drain, timespec};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::SocketType;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Simultaneous callers. People and scripts need a handful; the rest is for clients that send nothing.
const MOST_CALLERS: usize = 128;
/// A caller sends its line right after it connects. One that has had less time than this stays, and the next
/// one waits outside. So every caller with a request is served, however many silent ones connect.
const LEAST_STAY: Span = Span::from_millis(2);
/// Connections that wait to be accepted; the kernel queues further ones.
const BACKLOG: i32 = 128;
/// Polling interval of the loop status while an outcome is pending: a slot is some milliseconds.
const LOOK_EVERY: Span = Span::from_millis(1);
/// Delay before accepting again when the system has no file descriptor left.
const ACCEPT_AGAIN: Span = Span::from_millis(50);
/// The longest wait for this thread at the end of the process. It never waits; one answer takes some
/// milliseconds.
const END_PATIENCE: Duration = Duration::from_millis(200);

/// Listens at `path`, for its owner and its group. Replaces a socket that a dead process left behind, but not
/// one on which a process listens.
pub fn listen_at(path: &Path) -> io::Result<(SocketLock, UnixListener)> {
    let mut lock = SocketLock::take(path)?;
    let socket = lock.listen(SocketType::STREAM, BACKLOG)?;
    Ok((lock, socket.into()))
}

/// The running thread.
pub struct Server {
    closed: Arc<Closed>,
    thread: Option<JoinHandle<()>>,
    _place: SocketLock,
}

/// The request to the thread to end.
struct Closed {
    flag: AtomicBool,
    bell: OwnedFd,
}

impl Server {
    /// Serves `listener`, which listens at `place`. Sets `end` when a stop is requested.
    pub fn open(
        (place, listener): (SocketLock, UnixListener),
        sources: Sources,
        end: Arc<AtomicBool>,
    ) -> io::Result<Server> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let closed = Arc::new(Closed { flag: AtomicBool::new(false), bell });
        let mut responder = Responder {
            listener,
            sources,
            end,
            closed: closed.clone(),
            callers: Vec::with_capacity(MOST_CALLERS),
            deaf_until: Instant::ZERO,
        };
        let thread = thread::Builder::new().name("control".into()).spawn(move || responder.serve())?;
        Ok(Server { closed, thread: Some(thread), _place: place })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closed.flag.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.closed.bell, &1u64.to_ne_bytes()); // one wake-up too many does no harm
        let Some(thread) = self.thread.take() else { return };
        let until = std::time::Instant::now() + END_PATIENCE;
        while !thread.is_finished() && std::time::Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

struct Responder {
    listener: UnixListener,
    sources: Sources,
    end: Arc<AtomicBool>,
    closed: Arc<Closed>,
    callers: Vec<Caller>,
    /// No caller is accepted before this.
    deaf_until: Instant,
}

impl Responder {
    fn serve(&mut self) {
        while !self.closed.flag.load(Ordering::Acquire) {
            self.wait();
            self.receive();
            self.let_in();
            self.conclude();
            self.speak();
            self.send_away();
        }
        self.take_leave();
    }

    fn now(&self) -> Instant {
        MonotonicClock.now()
    }

    /// Waits for any event.
    fn wait(&self) {
        let now = self.now();
        let mut waits: Vec<PollFd<'_>> = self.callers.iter().map(Caller::poll_fd).collect();
        waits.push(PollFd::new(&self.closed.bell, PollFlags::IN));
        let mut until = self.callers.iter().map(Caller::until).min().unwrap_or(Instant::NEVER);
        if self.callers.iter().any(|caller| caller.asks().is_some()) {
            until = until.min(now + LOOK_EVERY);
        }
        let room_at = self.room_at().max(self.deaf_until);
        if room_at <= now {
            waits.push(PollFd::new(&self.listener, PollFlags::IN));
        } else {
            until = until.min(room_at);
        }
        let longest = (until != Instant::NEVER).then(|| timespec(until.since(now)));
        let _ = poll(&mut waits, longest.as_ref()); // interrupted or timed out: everything is checked anyway
        drain(&self.closed.bell);
    }

    /// When the next caller can be accepted: now, or when the longest silent one has had its time. Never
    /// while all of them wait for the robot; that ends by itself.
    fn room_at(&self) -> Instant {
        if self.callers.len() < MOST_CALLERS {
            return Instant::ZERO;
        }
        let silent = self.callers.iter().filter_map(Caller::quiet_since).min();
        silent.map_or(Instant::NEVER, |since| since + LEAST_STAY)
    }

    /// Accepts waiting callers, as far as there is room, and reads from each at once. So a line that was sent
    /// before the connection was accepted is not lost, however soon the place is needed.
    fn let_in(&mut self) {
        for _ in 0..MOST_CALLERS {
            let now = self.now();
            if self.room_at().max(self.deaf_until) > now {
                return;
            }
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // No file descriptor is left, say: the caller keeps waiting, and this thread must not spin.
                Err(_) => return self.deaf_until = now + ACCEPT_AGAIN,
            };
            let Ok(mut caller) = Caller::new(stream, now) else { continue };
            if caller.recv(&self.sources, &self.end, now) == Visit::Over {
                continue;
            }
            if self.callers.len() == MOST_CALLERS {
                self.make_room();
            }
            self.callers.push(caller);
        }
    }

    /// Disconnects the longest silent caller.
    fn make_room(&mut self) {
        let silent = self.callers.iter().enumerate();
        let silent = silent.filter_map(|(place, caller)| Some((caller.quiet_since()?, place)));
        if let Some((_, place)) = silent.min() {
            self.callers.swap_remove(place);
        }
    }

    /// Reads everything that the callers have sent.
    fn receive(&mut self) {
        let now = self.now();
        let (sources, end) = (&self.sources, &self.end);
        self.callers.retain_mut(|caller| caller.recv(sources, end, now) == Visit::Stays);
    }

    /// Makes one answer, requests before status: making one takes time, in which no line is read.
    fn conclude(&mut self) {
        let now = self.now();
        for statuses in [false, true] {
            for caller in &mut self.callers {
                let due = caller.asks().is_some_and(|ask| (ask == Ask::Status) == statuses);
                if due && caller.conclude(&self.sources, now, false) {
                    return;
                }
            }
        }
    }

    fn speak(&mut self) {
        let now = self.now();
        self.callers.retain_mut(|caller| caller.speak(now) == Visit::Stays);
    }

    /// Disconnects callers whose time is up.
    fn send_away(&mut self) {
        let now = self.now();
        let sources = &self.sources;
        self.callers.retain(|caller| {
            let stays = now < caller.until();
            if !stays {
                caller.dismiss(sources);
            }
            stays
        });
    }

    /// The end: callers with a request get the answer that is known, and nothing waits for them.
    fn take_leave(&mut self) {
        let now = self.now();
        self.receive();
        for caller in &mut self.callers {
            caller.conclude(&self.sources, now, true);
            caller.speak(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicU32;
    use std::time::Instant as Moment;

    /// A server in front of a robot whose loop is not running: a flag stays set unless it is withdrawn.
    struct Rig {
        path: PathBuf,
        sources: Sources,
        end: Arc<AtomicBool>,
        listening: Option<(SocketLock, UnixListener)>,
        server: Option<Server>,
    }

    impl Rig {
        fn listening() -> Rig {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let name =
                format!("ganglion-server-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            let listening = Some(listen_at(&path).unwrap());
            Rig { path, sources: Sources::standing(), end: Arc::default(), listening, server: None }
        }

        fn open(mut self) -> Rig {
            let server = Server::open(self.listening.take().unwrap(), self.sources.clone(), self.end.clone());
            self.server = Some(server.unwrap());
            self
        }

        fn caller(&self) -> UnixStream {
            UnixStream::connect(&self.path).unwrap()
        }

        fn says(&self, line: &str) -> UnixStream {
            let mut caller = self.caller();
            caller.write_all(line.as_bytes()).unwrap();
            caller
        }

        fn arm(&self) -> bool {
            self.sources.requests.arm.load(Ordering::Acquire)
        }
        fn disarm(&self) -> bool {
            self.sources.requests.disarm.load(Ordering::Acquire)
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            self.server = None;
            let _ = std::fs::remove_file(self.path.with_extension("lock"));
        }
    }

    fn soon(what: &str, holds: impl Fn() -> bool) {
        let began = Moment::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn unseen_arm_request_is_withdrawn_and_a_disarm_is_not() {
        let rig = Rig::listening().open();
        let refused = super::super::ask(&rig.path, Ask::Arm).unwrap();
        assert!(!refused.done && refused.why == ["the control loop is not running"], "{:?}", refused.why);
        assert!(!rig.arm(), "the answer said that it failed");
        assert!(!super::super::ask(&rig.path, Ask::Disarm).unwrap().done);
        assert!(rig.disarm());
    }

    #[test]
    fn caller_that_hangs_up_cannot_arm_but_can_disarm_and_stop() {
        // Lines that were sent before they could be read, and a caller that does not wait for the outcome.
        let rig = Rig::listening();
        for line in ["{\"ask\":\"arm\"}\n", "{\"ask\":\"disarm\"}\n", "{\"ask\":\"stop\"}\n"] {
            drop(rig.says(line));
        }
        let rig = rig.open();
        soon("disarmed and stopped", || rig.disarm() && rig.end.load(Ordering::Acquire));
        assert!(!rig.arm());
        let waits = rig.says("{\"ask\":\"arm\"}\n");
        soon("asked", || rig.arm());
        drop(waits);
        soon("taken back", || !rig.arm());
    }

    #[test]
    fn silent_callers_do_not_delay_another_callers_command() {
        let rig = Rig::listening().open();
        let silent: Vec<UnixStream> = (0..3 * MOST_CALLERS).map(|_| rig.caller()).collect();
        let slow = rig.says("{\"ask\":\"ar");
        let began = Moment::now();
        let person = rig.says("{\"ask\":\"disarm\"}\n");
        soon("disarmed", || rig.disarm());
        // Long before any of the others has had its time.
        assert!(began.elapsed() < Duration::from_nanos(LEAST_STAY.as_nanos()) * 500, "{:?}", began.elapsed());
        drop((silent, slow, person));
    }

    #[test]
    fn shutdown_waits_for_no_caller() {
        let rig = Rig::listening().open();
        let callers: Vec<UnixStream> = (0..MOST_CALLERS).map(|_| rig.says("{\"ask\":")).collect();
        let waits = rig.says("{\"ask\":\"arm\"}\n");
        soon("asked", || rig.arm());
        let mut rig = rig;
        let began = Moment::now();
        rig.server = None;
        assert!(began.elapsed() < 5 * END_PATIENCE, "{:?}", began.elapsed());
        assert!(!rig.arm() && !rig.path.exists());
        drop((callers, waits));
    }
}
