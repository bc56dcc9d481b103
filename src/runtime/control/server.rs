//! The robot's side of the control socket: one thread, one `poll`, a limited number of callers. No caller
//! makes another wait: the thread reads lines as they arrive, stop and disarm take effect as soon as their
//! line is complete, and answers are made one at a time after that. If all places are taken, the caller that
//! has been idle longest is disconnected.

use super::caller::{Caller, Connection};
use super::{Ask, Sources};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::system::seqpacket::SocketLock;
use crate::system::seqpacket::{drain, timespec};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::SocketType;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Name of the thread, by which a run reports its panic.
pub const CONTROL_THREAD: &str = "control";
/// Maximum number of simultaneous callers. Users and scripts need a handful; the rest leaves room for clients
/// that send nothing.
const MOST_CALLERS: usize = 128;
/// A caller keeps its place for at least this long. A caller with a request sends its line right after it
/// connects, so it is served, however many idle callers connect.
const LEAST_TIME: Span = Span::from_millis(2);
/// Connections that may wait to be accepted; further callers block in `connect`.
const BACKLOG: i32 = 128;
/// Polling interval of the loop status while a result is pending; slots are some milliseconds apart.
const LOOK_EVERY: Span = Span::from_millis(1);
/// Delay before accepting again when the system has no file descriptor left.
const ACCEPT_AGAIN: Span = Span::from_millis(50);
/// The longest wait for this thread at the end of the process. The thread never blocks, and one answer takes
/// some milliseconds.
const END_TIMEOUT: Duration = Duration::from_millis(200);

/// Listens at `path`; processes of the socket's owner and group may connect. Replaces a socket that a dead
/// process left behind, but not one on which a process listens.
pub fn listen_at(path: &Path) -> io::Result<(SocketLock, UnixListener)> {
    let mut lock = SocketLock::take(path)?;
    let socket = lock.listen(SocketType::STREAM, BACKLOG)?;
    Ok((lock, socket.into()))
}

/// The running thread.
pub struct Server {
    shutdown: Arc<Shutdown>,
    /// Returns whether it panicked.
    thread: Option<JoinHandle<bool>>,
    _place: SocketLock,
}

/// Tells the thread to end.
struct Shutdown {
    flag: AtomicBool,
    wake: OwnedFd,
}

impl Server {
    /// Serves `listener`, which listens at `place`. Sets `end` when a stop is requested, and if the thread
    /// panics: from then on nobody could stop the robot over the socket.
    pub fn open(
        listening: (SocketLock, UnixListener),
        sources: Sources,
        end: Arc<AtomicBool>,
    ) -> io::Result<Server> {
        Server::open_by(Arc::new(MonotonicClock), listening, sources, end)
    }

    fn open_by(
        clock: Arc<dyn Clock>,
        (place, listener): (SocketLock, UnixListener),
        sources: Sources,
        end: Arc<AtomicBool>,
    ) -> io::Result<Server> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shutdown = Arc::new(Shutdown { flag: AtomicBool::new(false), wake });
        let alarm = end.clone();
        let mut responder = Responder {
            clock,
            listener,
            sources,
            end,
            shutdown: shutdown.clone(),
            callers: Vec::with_capacity(MOST_CALLERS),
            accept_after: Instant::ZERO,
        };
        let thread = thread::Builder::new().name(CONTROL_THREAD.into()).spawn(move || {
            // After a panic the thread's state is only dropped.
            let has_panicked = catch_unwind(AssertUnwindSafe(|| responder.serve())).is_err();
            if has_panicked {
                alarm.store(true, Ordering::Release);
            }
            has_panicked
        })?;
        Ok(Server { shutdown, thread: Some(thread), _place: place })
    }

    /// Ends the thread; returns whether it has panicked.
    pub fn end(mut self) -> bool {
        self.stop()
    }

    fn stop(&mut self) -> bool {
        self.shutdown.flag.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.shutdown.wake, &1u64.to_ne_bytes()); // if this fails, the thread is awake already
        let Some(thread) = self.thread.take() else { return false };
        let until = std::time::Instant::now() + END_TIMEOUT;
        while !thread.is_finished() && std::time::Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        thread.is_finished() && thread.join().unwrap_or(true)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Responder {
    clock: Arc<dyn Clock>,
    listener: UnixListener,
    sources: Sources,
    end: Arc<AtomicBool>,
    shutdown: Arc<Shutdown>,
    callers: Vec<Caller>,
    /// When the next caller may be accepted.
    accept_after: Instant,
}

impl Responder {
    fn serve(&mut self) {
        while !self.shutdown.flag.load(Ordering::Acquire) {
            self.wait();
            self.receive();
            self.accept();
            self.make_one_answer();
            self.write_answers();
            self.drop_expired();
        }
        self.finish();
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Waits for any event.
    fn wait(&self) {
        let now = self.now();
        let mut waits: Vec<PollFd<'_>> = self.callers.iter().map(Caller::poll_fd).collect();
        waits.push(PollFd::new(&self.shutdown.wake, PollFlags::IN));
        let mut until = self.callers.iter().map(Caller::until).min().unwrap_or(Instant::NEVER);
        if self.callers.iter().any(|caller| caller.pending_ask().is_some()) {
            until = until.min(now + LOOK_EVERY);
        }
        let room_after = self.room_after().max(self.accept_after);
        if room_after <= now {
            waits.push(PollFd::new(&self.listener, PollFlags::IN));
        } else {
            until = until.min(room_after);
        }
        let longest = (until != Instant::NEVER).then(|| timespec(until.since(now)));
        let _ = poll(&mut waits, longest.as_ref()); // interrupted or timed out: everything is checked anyway
        drain(&self.shutdown.wake);
    }

    /// When there is room for the next caller: now, or [`LEAST_TIME`] after the longest idle caller became
    /// idle. Never while all callers wait for the robot; such a wait ends by itself.
    fn room_after(&self) -> Instant {
        if self.callers.len() < MOST_CALLERS {
            return Instant::ZERO;
        }
        let idle = self.callers.iter().filter_map(Caller::idle_since).min();
        idle.map_or(Instant::NEVER, |since| since + LEAST_TIME)
    }

    /// Accepts waiting callers as far as there is room, and reads from each at once, so that a line that was
    /// sent early is not lost if the caller soon has to make room.
    fn accept(&mut self) {
        for _ in 0..MOST_CALLERS {
            let now = self.now();
            if self.room_after().max(self.accept_after) > now {
                return;
            }
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // For example, no file descriptor is left: the caller keeps waiting, and this thread must not
                // spin.
                Err(_) => return self.accept_after = now + ACCEPT_AGAIN,
            };
            let Ok(mut caller) = Caller::new(stream, now) else { continue };
            if caller.recv(&self.sources, &self.end, now) == Connection::Done {
                continue;
            }
            if self.callers.len() == MOST_CALLERS {
                self.make_room();
            }
            self.callers.push(caller);
        }
    }

    /// Disconnects the longest idle caller.
    fn make_room(&mut self) {
        let idle = self.callers.iter().enumerate();
        let idle = idle.filter_map(|(place, caller)| Some((caller.idle_since()?, place)));
        if let Some((_, place)) = idle.min() {
            self.callers.swap_remove(place);
        }
    }

    /// Reads everything that the callers have sent.
    fn receive(&mut self) {
        let now = self.now();
        let (sources, end) = (&self.sources, &self.end);
        self.callers.retain_mut(|caller| caller.recv(sources, end, now) == Connection::Open);
    }

    /// Makes one answer; status requests come after all others. Only one, because no line is read meanwhile.
    fn make_one_answer(&mut self) {
        let now = self.now();
        for statuses in [false, true] {
            for caller in &mut self.callers {
                let due = caller.pending_ask().is_some_and(|ask| (ask == Ask::Status) == statuses);
                if due && caller.make_answer(&self.sources, now, false) {
                    return;
                }
            }
        }
    }

    fn write_answers(&mut self) {
        let now = self.now();
        self.callers.retain_mut(|caller| caller.write_answer(now) == Connection::Open);
    }

    /// Disconnects callers whose time is up.
    fn drop_expired(&mut self) {
        let now = self.now();
        let sources = &self.sources;
        self.callers.retain(|caller| {
            let stays = now < caller.until();
            if !stays {
                caller.abandon(sources);
            }
            stays
        });
    }

    /// Answers every caller that has sent its request, with a failure if the result is not known yet. Does
    /// not wait for the callers.
    fn finish(&mut self) {
        let now = self.now();
        self.receive();
        for caller in &mut self.callers {
            caller.make_answer(&self.sources, now, true);
            caller.write_answer(now);
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

    /// A server of a robot whose loop is not running, so that a flag stays set unless it is withdrawn.
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
            Rig { path, sources: Sources::idle(), end: Arc::default(), listening, server: None }
        }

        fn open(mut self) -> Rig {
            let server = Server::open(self.listening.take().unwrap(), self.sources.clone(), self.end.clone());
            self.server = Some(server.unwrap());
            self
        }

        fn caller(&self) -> UnixStream {
            UnixStream::connect(&self.path).unwrap()
        }

        fn send(&self, line: &str) -> UnixStream {
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
        assert!(!rig.arm(), "the caller was told that it failed");
        assert!(!super::super::ask(&rig.path, Ask::Disarm).unwrap().done);
        assert!(rig.disarm());
    }

    #[test]
    fn caller_that_hangs_up_cannot_arm_but_can_disarm_and_stop() {
        // The lines are sent before the server runs, by callers that do not wait for the result.
        let rig = Rig::listening();
        for line in ["{\"ask\":\"arm\"}\n", "{\"ask\":\"disarm\"}\n", "{\"ask\":\"stop\"}\n"] {
            drop(rig.send(line));
        }
        let rig = rig.open();
        soon("disarmed and stopped", || rig.disarm() && rig.end.load(Ordering::Acquire));
        assert!(!rig.arm());
        let waits = rig.send("{\"ask\":\"arm\"}\n");
        soon("asked", || rig.arm());
        drop(waits);
        soon("withdrawn", || !rig.arm());
    }

    #[test]
    fn a_panic_of_the_thread_ends_the_run_and_is_reported() {
        /// A clock whose first reading panics.
        struct Broken;
        impl Clock for Broken {
            fn now(&self) -> Instant {
                panic!("a panic caused by the test: the control thread")
            }
            fn sleep_until(&self, _at: Instant) {}
            fn is_real(&self) -> bool {
                true
            }
        }
        let mut rig = Rig::listening();
        let listening = rig.listening.take().unwrap();
        let server = Server::open_by(Arc::new(Broken), listening, rig.sources.clone(), rig.end.clone());
        soon("the run is ended", || rig.end.load(Ordering::Acquire));
        assert!(server.unwrap().end(), "it is reported");
        let mut sound = Rig::listening().open();
        assert!(!sound.server.take().unwrap().end() && !sound.end.load(Ordering::Acquire));
    }

    #[test]
    fn silent_callers_do_not_delay_a_request() {
        let rig = Rig::listening().open();
        let idle: Vec<UnixStream> = (0..3 * MOST_CALLERS).map(|_| rig.caller()).collect();
        let slow = rig.send("{\"ask\":\"ar");
        let began = Moment::now();
        let person = rig.send("{\"ask\":\"disarm\"}\n");
        soon("disarmed", || rig.disarm());
        // Well before the idle callers are disconnected, 2 s after they connected.
        assert!(began.elapsed() < Duration::from_nanos(LEAST_TIME.as_nanos()) * 500, "{:?}", began.elapsed());
        drop((idle, slow, person));
    }

    #[test]
    fn the_server_ends_without_waiting_for_callers() {
        let rig = Rig::listening().open();
        let callers: Vec<UnixStream> = (0..MOST_CALLERS).map(|_| rig.send("{\"ask\":")).collect();
        let waits = rig.send("{\"ask\":\"arm\"}\n");
        soon("asked", || rig.arm());
        let mut rig = rig;
        let began = Moment::now();
        rig.server = None;
        assert!(began.elapsed() < 5 * END_TIMEOUT, "{:?}", began.elapsed());
        assert!(!rig.arm() && !rig.path.exists());
        drop((callers, waits));
    }
}
