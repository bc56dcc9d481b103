//! The tick's end of the link to the motors: commands out, confirmations in. Never waits for a bus.

use crate::command::{Command, OnWire};
use crate::executor::Waker;
use crate::rt::triple_buffer::Writer;
use crate::time::{Instant, Span};
use crate::trace::WIRES;
use rtrb::Consumer;
use std::sync::Arc;

/// A bus thread that confirmed a command this recently is working, in steps of a transfer or two, and passes
/// a wake-up on in time. One that sets up or resets its controller (half a second) does not.
const PROMPT: Span = Span::from_millis(25);

/// The tick's end.
pub struct MotorLink {
    commands: Writer<Command>,
    receipts: Consumer<OnWire>,
    waker: Arc<Waker>,
    next_seq: u64,
    confirmed_at: Option<Instant>,
    confirmed: u64,
    replaced: u64,
}

impl MotorLink {
    /// A link on which nothing has been sent.
    pub fn new(commands: Writer<Command>, receipts: Consumer<OnWire>, waker: Arc<Waker>) -> MotorLink {
        MotorLink { commands, receipts, waker, next_seq: 1, confirmed_at: None, confirmed: 0, replaced: 0 }
    }

    /// Receipts since the last call, at most [`WIRES`] of them; the rest wait for the next call.
    pub fn receipts(&mut self) -> heapless::Vec<OnWire, WIRES> {
        let mut taken = heapless::Vec::new();
        while !taken.is_full() {
            let Ok(receipt) = self.receipts.pop() else { break };
            if receipt.complete {
                self.confirmed_at = Some(receipt.at);
                self.confirmed += 1;
            }
            let _ = taken.push(receipt); // cannot fail: checked above
        }
        taken
    }

    /// Time since a command was last confirmed; `None` before the first.
    pub fn unconfirmed_for(&self, now: Instant) -> Option<Span> {
        self.confirmed_at.map(|at| now.since(at))
    }

    /// Commands that were confirmed so far.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Whether the bus thread is known to wake often enough to pass on the tick's wake-ups.
    pub fn is_prompt(&self, now: Instant) -> bool {
        self.unconfirmed_for(now).is_some_and(|age| age <= PROMPT)
    }

    /// Numbers `command` and hands it over; the newest always wins. The bus thread has priority over the tick
    /// and preempts it at once on a shared core, so the command is written without delay.
    pub fn hand_over(&mut self, command: &mut Command) {
        command.seq = self.next_seq;
        self.next_seq += 1;
        self.replaced += u64::from(self.commands.put(*command));
        self.waker.wake();
    }

    /// Commands that newer ones replaced before the bus read them.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, ms};
    use crate::rt::triple_buffer::{Reader, triple_buffer};
    use rtrb::{Producer, RingBuffer};

    /// The tick's end, and the bus thread's.
    fn link() -> (MotorLink, Reader<Command>, Producer<OnWire>, Arc<Waker>) {
        let (commands, taken) = triple_buffer(Command::still(2));
        let (confirm, receipts) = RingBuffer::new(4 * WIRES);
        let waker: Arc<Waker> = Arc::default();
        (MotorLink::new(commands, receipts, waker.clone()), taken, confirm, waker)
    }

    fn receipt(seq: u64, ms: u64, complete: bool) -> OnWire {
        OnWire { seq, slot: at(ms), at: at(ms), complete }
    }

    #[test]
    fn commands_are_numbered_from_one_and_the_newest_wins() {
        let (mut link, mut taken, _confirm, _bell) = link();
        let mut command = Command::still(2);
        for (seq, replaced) in [(1, 0), (2, 1), (3, 2)] {
            link.hand_over(&mut command);
            assert_eq!((command.seq, link.replaced()), (seq, replaced));
        }
        assert_eq!(taken.take().map(|command| command.seq), Some(3));
        link.hand_over(&mut command);
        assert_eq!((command.seq, link.replaced()), (4, 2));
    }

    #[test]
    fn a_command_that_not_every_motor_took_confirms_nothing() {
        let (mut link, _taken, mut confirm, _bell) = link();
        assert_eq!((link.unconfirmed_for(at(9)), link.confirmed(), link.is_prompt(at(9))), (None, 0, false));
        confirm.push(receipt(1, 10, true)).unwrap();
        confirm.push(receipt(2, 20, false)).unwrap();
        let seen: Vec<u64> = link.receipts().iter().map(|receipt| receipt.seq).collect();
        assert_eq!(seen, [1, 2], "the trace gets both");
        assert_eq!((link.unconfirmed_for(at(30)), link.confirmed()), (Some(ms(20)), 1));
        confirm.push(receipt(3, 30, true)).unwrap();
        link.receipts();
        assert_eq!((link.unconfirmed_for(at(30)), link.confirmed()), (Some(Span::ZERO), 2));
        assert_eq!([55, 56].map(|now| link.is_prompt(at(now))), [true, false], "25 ms");
    }

    #[test]
    fn receipts_beyond_a_record_wait_for_the_next() {
        let (mut link, _taken, mut confirm, _bell) = link();
        for seq in 0..=WIRES as u64 {
            confirm.push(receipt(seq, seq, true)).unwrap();
        }
        assert_eq!([link.receipts().len(), link.receipts().len(), link.receipts().len()], [WIRES, 1, 0]);
    }
}
