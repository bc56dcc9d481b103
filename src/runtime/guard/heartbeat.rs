//! The runtime's heartbeat: a small thread that keeps the connection to the guard, sends four heartbeats per
//! timeout, and passes on the drivers' requests for the line. A heartbeat reports progress only if, since the
//! last one that did, the loop has run *and* the motors' bus has confirmed a command. With a dead bus, a
//! running loop alone must not keep the motors on.
//!
//! The thread connects, says hello and asks for permission on its own, repeatedly. That alone moves nothing:
//! the tick keeps the motors stopped until the guard is healthy, and the line goes on when a driver asks.
//!
//! When a stop is requested, the thread makes the tick disarm and says hello again once that is done. If it
//! is the thread's job to switch the line on again, it first waits until the robot is armed.

use super::frame::{Ask, GuardAnswer, GuardRefusal, LENGTH, Phase, Request};
use super::stop_ack::{StopAck, Todo};
use super::transport::{SocketTransport, Transport};
use super::{BEATS_PER_TIMEOUT, BoardDigest, Hold, Link};
use crate::base::plan::{GuardHold, RtPlan};
use crate::base::time::{Clock, Instant, Span};
use crate::runtime::loop_status::{LoopStatus, LoopStatusCell};
use crate::runtime::requests::Requests;
use crate::system::rt::descriptors::own_table;
use crate::system::rt::{Granted, Role, become_real_time};
use crate::system::seqpacket::Received;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Name of the thread, by which a run reports its panic and what the system granted to it.
pub const HEARTBEAT_THREAD: &str = "heartbeat";
/// Delay between attempts to connect: a restarted guard is found within this time.
const CONNECT_AGAIN: Span = Span::from_millis(50);
/// Delay before the next hello to a guard that refused this runtime: if it guards another runtime, that one
/// may have ended by then.
const GREET_AGAIN: Span = Span::from_millis(500);
/// Longest wait for the thread to end. [`Link::end`] wakes the thread, so it usually ends at once.
const END_TIMEOUT: Duration = Duration::from_millis(200);
/// Number of outstanding requests whose stamps are kept. The thread sends four per timeout.
const OUTSTANDING: usize = 8;

/// Settings of a heartbeat.
#[derive(Clone, Debug)]
pub struct HeartbeatPlan {
    /// Where the guard listens.
    pub socket: PathBuf,
    /// Digest of the runtime's board.
    pub board: BoardDigest,
    /// The line that the guard holds.
    pub hold: Hold,
    /// The guard's timeout.
    pub timeout: Span,
    /// No driver asks for the line (on a simulated board), so the heartbeat thread does.
    pub alone: bool,
}

/// The running thread.
pub struct Heartbeat {
    link: Arc<Link>,
    /// Returns whether it panicked.
    thread: Option<JoinHandle<bool>>,
    /// The scheduling and memory settings that the thread was granted.
    pub granted: Granted,
}

impl Heartbeat {
    /// Starts the thread. Sets `end`, which ends the run, if the thread panics: its connection closes then,
    /// so the guard cuts its line, and no stop of the guard would reach the robot any more.
    pub fn start(
        plan: HeartbeatPlan,
        link: Arc<Link>,
        loop_status: Arc<LoopStatusCell>,
        requests: Arc<Requests>,
        clock: Arc<dyn Clock>,
        rt: RtPlan,
        end: Arc<AtomicBool>,
    ) -> std::io::Result<Heartbeat> {
        let (answer, answered) = crossbeam_channel::bounded(1);
        let transport = Box::new(SocketTransport::new(plan.socket.clone()));
        let mut heartbeat_loop =
            HeartbeatLoop::new(plan, transport, link.clone(), loop_status, requests, clock);
        let body = move || {
            // Only this thread owns the connection, so the guard sees it close as soon as this thread is
            // killed. In the process's descriptor table it would stay open until the kernel has freed all
            // memory of the process, which can take longer than the timeout.
            if let Err(error) = own_table(&heartbeat_loop.link.descriptors()) {
                log::info!(
                    "the guard may notice a killed runtime only after its timeout: close_range: {error}"
                );
            }
            let _ = answer.send(become_real_time(&rt, Role::Heartbeat));
            heartbeat_loop.run();
        };
        let thread = thread::Builder::new().name(HEARTBEAT_THREAD.into()).spawn(move || {
            // After a panic nothing of the thread's state is left.
            let has_panicked = catch_unwind(AssertUnwindSafe(body)).is_err();
            if has_panicked {
                end.store(true, Ordering::Release);
            }
            has_panicked
        })?;
        let granted =
            answered.recv().map_err(|_| std::io::Error::other("the heartbeat thread ended at once"))?;
        Ok(Heartbeat { link, thread: Some(thread), granted })
    }

    /// Ends cleanly: tells the guard, which switches the line off. Call it once the motors have stopped.
    /// Returns whether the thread has panicked.
    pub fn end(mut self) -> bool {
        self.stop()
    }

    fn stop(&mut self) -> bool {
        let Some(thread) = self.thread.take() else { return false };
        self.link.end();
        let until = std::time::Instant::now() + END_TIMEOUT;
        while !thread.is_finished() && std::time::Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        thread.is_finished() && thread.join().unwrap_or(true)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The counters that must advance between two heartbeats that report progress.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    slots: u64,
    confirmed: u64,
}

impl Progress {
    /// Whether both have advanced since this last returned true.
    fn made(&mut self, status: &LoopStatus) -> bool {
        let made = status.slots > self.slots && status.confirmed > self.confirmed;
        if made {
            *self = Progress { slots: status.slots, confirmed: status.confirmed };
        }
        made
    }
}

/// The part that runs in the thread; in virtual time its owner calls [`HeartbeatLoop::step`].
pub struct HeartbeatLoop {
    plan: HeartbeatPlan,
    link: Arc<Link>,
    loop_status: Arc<LoopStatusCell>,
    requests: Arc<Requests>,
    clock: Arc<dyn Clock>,
    transport: Box<dyn Transport>,
    /// When the next action is due: a heartbeat, a hello or an attempt to connect.
    next: Instant,
    sequence: u64,
    /// Sequence numbers and send times of the outstanding requests.
    sent: [(u64, Instant); OUTSTANDING],
    /// Number of the driver's request that was forwarded last, and of the message that carried it.
    forwarded: Option<(u64, u64)>,
    progress: Progress,
    advanced: bool,
    /// Progress of a requested stop.
    stop_ack: StopAck,
    /// Earliest time to say hello again to a guard that refused this runtime or switched the line off.
    greet_at: Instant,
}

impl HeartbeatLoop {
    /// A heartbeat that is not connected yet; the first step connects over `transport`.
    pub fn new(
        plan: HeartbeatPlan,
        transport: Box<dyn Transport>,
        link: Arc<Link>,
        loop_status: Arc<LoopStatusCell>,
        requests: Arc<Requests>,
        clock: Arc<dyn Clock>,
    ) -> HeartbeatLoop {
        HeartbeatLoop {
            plan,
            link,
            loop_status,
            requests,
            clock,
            transport,
            next: Instant::ZERO,
            sequence: 0,
            sent: [(0, Instant::ZERO); OUTSTANDING],
            forwarded: None,
            progress: Progress::default(),
            advanced: false,
            stop_ack: StopAck::default(),
            greet_at: Instant::ZERO,
        }
    }

    fn run(&mut self) {
        while !self.link.ending() {
            if self.clock.now() >= self.next {
                self.beat();
            }
            self.pass_on_request();
            self.transport.wait(&self.link.asked, self.next.since(self.clock.now()));
            self.listen();
        }
        self.leave();
    }

    /// Does everything that is due, without waiting; returns when the next action is due.
    pub fn step(&mut self) -> Instant {
        self.listen();
        if self.clock.now() >= self.next {
            self.beat();
        }
        // Twice: a request may be waiting for the answer to a hello.
        for _ in 0..2 {
            self.pass_on_request();
            self.listen();
        }
        self.next
    }

    /// A clean end: the guard switches the line off.
    pub fn leave(&mut self) {
        if self.transport.is_connected() {
            self.send(Ask::Bye);
        }
    }

    /// Does what is due: connects, handles a stop, says hello or sends a heartbeat.
    fn beat(&mut self) {
        let now = self.clock.now();
        self.next = now + Span::from_nanos(self.plan.timeout.as_nanos() / BEATS_PER_TIMEOUT);
        if !self.transport.is_connected() {
            self.next = now + CONNECT_AGAIN;
            if !self.transport.connect() {
                return;
            }
            self.link.connected();
            self.greet_at = now;
            self.greet(now);
        } else if self.stop_ack.is_pending() {
            self.handle_stop(now);
        } else if self.link.is_trusted() {
            let status = self.loop_status.load();
            if status.is_armed() {
                self.link.wait_for_arming(false);
            }
            self.advanced = self.progress.made(&status);
            let advanced = self.advanced;
            self.send(Ask::Heartbeat { advanced });
        } else if now >= self.greet_at {
            self.greet(now);
        }
    }

    fn greet(&mut self, now: Instant) {
        self.greet_at = now + GREET_AGAIN;
        self.send(Ask::Hello { board: self.plan.board, acknowledged: self.stop_ack.acknowledged() });
    }

    /// A stop is in progress: says hello once the robot has disarmed, not before.
    fn handle_stop(&mut self, now: Instant) {
        match self.stop_ack.check(&self.loop_status.load()) {
            Todo::Nothing => {}
            Todo::Disarm => self.disarm(),
            Todo::Report => self.greet(now),
        }
    }

    /// Makes the tick disarm, for the stop in progress.
    fn disarm(&mut self) {
        self.requests.ask_to_disarm();
        self.stop_ack.disarm_requested(&self.loop_status.load()); // read after the request, which the slot in progress may have missed
        self.link.wait_for_arming(self.restores());
    }

    /// Sends a driver's request once, as soon as the guard trusts this runtime. The driver itself withdraws a
    /// request that takes too long.
    fn pass_on_request(&mut self) {
        let Some((number, on)) = self.link.pending() else { return };
        if on && self.link.waits() {
            return self.link.answer(number, true); // the line goes on when the robot is armed
        }
        if self.link.is_trusted() && self.forwarded.is_none_or(|(sent, _)| sent != number) {
            let sequence = self.send(Ask::Set { on });
            self.forwarded = Some((number, sequence));
        }
    }

    /// Switches the line on again, if that is this thread's job, after the guard has switched it off and
    /// trusts this runtime again. A controller that was reset has lost its settings, so its driver switches
    /// it on and sets it up. A driver chip behind an enable line keeps its settings, so this thread switches
    /// its line on once commands reach the motors' bus again. It does the same for a line that no driver asks
    /// for.
    fn restore(&mut self) {
        let wanted = self.link.wanted_on() && !self.link.waits() && self.link.pending().is_none();
        if self.restores() && self.advanced && wanted {
            self.send(Ask::Set { on: true });
        }
    }

    /// Whether this thread, and not a driver, switches the line on again.
    fn restores(&self) -> bool {
        self.plan.alone || self.plan.hold.kind == GuardHold::Enable
    }

    /// Reads everything that the guard has sent.
    fn listen(&mut self) {
        let mut bytes = [0; LENGTH + 1]; // one extra byte, to detect a message that is too long
        while self.transport.is_connected() {
            let answer = match self.transport.receive(&mut bytes) {
                Received::Nothing => return,
                Received::Message(length) => GuardAnswer::decode(&bytes[..length.min(bytes.len())]).ok(),
                Received::Closed => None,
            };
            let Some(answer) = answer else { return self.disconnect() };
            self.handle_answer(&answer);
        }
    }

    fn handle_answer(&mut self, answer: &GuardAnswer) {
        let (sequence, made) = self.sent[answer.sequence as usize % OUTSTANDING];
        let made = if sequence == answer.sequence { made } else { Instant::ZERO }; // too old to count
        self.link.update(&answer.status, answer.refused, made);
        if let Some((number, asked_in)) = self.forwarded
            && asked_in == answer.sequence
        {
            self.link.answer(number, answer.refused.is_none());
        }
        // A stop was requested: the robot stays stopped until it is armed again.
        if answer.refused != Some(GuardRefusal::Busy)
            && self.stop_ack.recv(answer.status.stop) == Todo::Disarm
        {
            self.disarm();
        }
        match answer.status.phase {
            // The answer to an accepted hello.
            Phase::Greeted if answer.refused.is_none() => {
                self.send(Ask::Permit);
            }
            Phase::Trusted if !answer.status.line_on => self.restore(),
            Phase::Tripped(_) if answer.refused.is_some() => self.greet_at = self.clock.now(),
            _ => {}
        }
    }

    /// The guard is gone, or sent an invalid answer.
    fn disconnect(&mut self) {
        self.transport.disconnect();
        self.forwarded = None;
        self.stop_ack = StopAck::default(); // a new guard numbers its stops from 1 again
        self.link.lost();
        self.next = self.clock.now() + CONNECT_AGAIN;
    }

    /// Sends a message and records when. A failed send needs no handling: no answer comes, so the tick sees a
    /// lost guard, and a driver's request times out.
    fn send(&mut self, ask: Ask) -> u64 {
        self.sequence += 1;
        let request = Request { sequence: self.sequence, stamp: self.clock.now(), ask };
        self.sent[self.sequence as usize % OUTSTANDING] = (self.sequence, request.stamp);
        self.transport.send(&request.encode());
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::mode::ArmRefusal;

    #[test]
    fn a_loop_without_a_bus_and_a_bus_without_a_loop_do_not_advance() {
        let status = |slots, confirmed| LoopStatus {
            slots,
            skipped: 0,
            confirmed,
            mode: 3,
            latched: None,
            active: 0,
            refusal: ArmRefusal::NONE,
            refused: 0,
            armings: 1,
            disarmed: None,
            bus: 0,
        };
        let mut progress = Progress::default();
        assert!(!progress.made(&status(0, 0)));
        assert!(!progress.made(&status(5, 0)));
        assert!(!progress.made(&status(0, 5)));
        assert!(progress.made(&status(5, 1)));
        assert!(!progress.made(&status(5, 1)));
        assert!(!progress.made(&status(50, 1)), "the bus hangs");
        assert!(!progress.made(&status(5, 40)), "the loop hangs");
        assert!(progress.made(&status(51, 41)));
    }
}
