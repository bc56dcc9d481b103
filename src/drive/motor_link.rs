//! The tick's end of the link to the motors: it sends commands, collects confirmations and computes from both
//! what the last command did. Never waits for a bus.

use crate::base::command::{Command, Executed, MAX_MOTORS, OnWire};
use crate::base::plan::MotorPlan;
use crate::base::time::{Instant, Span};
use crate::drive::trace::WIRES;
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};
use crate::system::executor::Waker;
use crate::system::rt::triple_buffer::Writer;
use rtrb::Consumer;
use std::sync::Arc;

/// Limit of a restored command number; no robot sends that many: at 10 kHz it would take millions of years.
const MOST_COMMANDS: u64 = 1 << 60;

/// The tick's end.
pub struct MotorLink {
    commands: Writer<Command>,
    receipts: Consumer<OnWire>,
    waker: Arc<Waker>,
    /// The motors whose sign is a direction of travel.
    travels: heapless::Vec<usize, MAX_MOTORS>,
    /// The newest command.
    command: Command,
    confirmed_at: Option<Instant>,
    confirmed: u64,
    replaced: u64,
}

impl MotorLink {
    /// A link on which nothing has been sent.
    pub fn new(
        motors: &[MotorPlan],
        commands: Writer<Command>,
        receipts: Consumer<OnWire>,
        waker: Arc<Waker>,
    ) -> MotorLink {
        let travels = motors.iter().enumerate().filter(|(_, motor)| motor.kind.travels());
        MotorLink {
            commands,
            receipts,
            waker,
            travels: travels.map(|(index, _)| index).collect(),
            command: Command::still(motors.len()),
            confirmed_at: None,
            confirmed: 0,
            replaced: 0,
        }
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

    /// The newest command.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// What the newest command has done up to `slot`, as known at `now`.
    pub fn executed(&self, slot: Instant, now: Instant) -> Executed {
        let sum: f64 = self.travels.iter().map(|&motor| f64::from(self.command.motors[motor])).sum();
        let travel = sum / self.travels.len().max(1) as f64;
        Executed { command: self.command, until: slot, unconfirmed: self.unconfirmed_for(now), travel }
    }

    /// Time since a command was last confirmed; `None` before the first confirmation.
    fn unconfirmed_for(&self, now: Instant) -> Option<Span> {
        self.confirmed_at.map(|at| now.since(at))
    }

    /// Commands that were confirmed so far.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Numbers `command` and hands it over; the newest always wins. The bus thread has priority over the tick
    /// and preempts it at once on a shared core, so the command is written without delay.
    pub fn hand_over(&mut self, command: Command) {
        self.command = Command { seq: self.command.seq + 1, ..command };
        self.replaced += u64::from(self.commands.put(self.command));
        self.waker.wake();
    }

    /// Commands that were replaced by newer ones before the bus thread took them.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }
}

impl Remembers for MotorLink {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        archive.part("motor link");
        let MotorLink {
            commands: _,
            receipts: _,
            waker: _,
            travels: _,
            command,
            confirmed_at,
            confirmed: _,
            replaced: _,
        } = self;
        let motors = command.len;
        remember!(archive: command, confirmed_at);
        archive.demand("command", command.len == motors && command.seq < MOST_COMMANDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::{at, ms, servo, wheel};
    use crate::system::rt::triple_buffer::{Reader, triple_buffer};
    use rtrb::{Producer, RingBuffer};

    /// The tick's end of a link, and the bus thread's.
    fn link() -> (MotorLink, Reader<Command>, Producer<OnWire>, Arc<Waker>) {
        let (commands, taken) = triple_buffer(Command::still(3));
        let (confirm, receipts) = RingBuffer::new(4 * WIRES);
        let waker: Arc<Waker> = Arc::default();
        let motors = [wheel(), wheel(), servo()];
        (MotorLink::new(&motors, commands, receipts, waker.clone()), taken, confirm, waker)
    }

    fn receipt(seq: u64, ms: u64, complete: bool) -> OnWire {
        OnWire { seq, slot: at(ms), at: at(ms), complete }
    }

    #[test]
    fn commands_are_numbered_from_one_and_the_newest_wins() {
        let (mut link, mut taken, _confirm, _bell) = link();
        for (seq, replaced) in [(1, 0), (2, 1), (3, 2)] {
            link.hand_over(Command::still(3));
            assert_eq!((link.command().seq, link.replaced()), (seq, replaced));
        }
        assert_eq!(taken.take().map(|command| command.seq), Some(3));
        link.hand_over(Command::still(3));
        assert_eq!((link.command().seq, link.replaced()), (4, 2));
    }

    #[test]
    fn partly_accepted_command_confirms_nothing() {
        let (mut link, _taken, mut confirm, _bell) = link();
        assert_eq!((link.unconfirmed_for(at(9)), link.confirmed()), (None, 0));
        confirm.push(receipt(1, 10, true)).unwrap();
        confirm.push(receipt(2, 20, false)).unwrap();
        let seen: Vec<u64> = link.receipts().iter().map(|receipt| receipt.seq).collect();
        assert_eq!(seen, [1, 2], "the trace gets both");
        assert_eq!((link.unconfirmed_for(at(30)), link.confirmed()), (Some(ms(20)), 1));
        confirm.push(receipt(3, 30, true)).unwrap();
        link.receipts();
        assert_eq!((link.unconfirmed_for(at(30)), link.confirmed()), (Some(Span::ZERO), 2));
    }

    /// What a link reports at `slot` about a command of slot 100 that was valid for 30 ms. The last
    /// confirmation is `age` ms old.
    fn executed(left: f32, right: f32, slot: u64, age: Option<u64>) -> Executed {
        let (mut link, _taken, mut confirm, _bell) = link();
        let mut command = Command { slot: at(100), valid_until: at(130), ..Command::still(3) };
        command.motors[..3].copy_from_slice(&[left, right, -1.0]);
        link.hand_over(command);
        if let Some(age) = age {
            confirm.push(receipt(1, slot - age, true)).unwrap();
        }
        link.receipts();
        link.executed(at(slot), at(slot))
    }

    #[test]
    fn executed_is_the_time_weighted_mean_of_written_commands() {
        let (link, ..) = link();
        let before = link.executed(at(10), at(10));
        assert_eq!(
            (before.backed(), before.travel.abs() > 0.0),
            (Span::ZERO, false),
            "nothing commanded yet"
        );
        let backed = |left, right, slot, age| executed(left, right, slot, age).backed();
        assert_eq!(backed(-1.0, -0.5, 110, Some(5)), Span::from_micros(7_500));
        assert_eq!(backed(-1.0, 1.0, 110, Some(5)), Span::ZERO, "a turn on the spot");
        assert_eq!(backed(1.0, 1.0, 110, Some(5)), Span::ZERO);
        assert_eq!(backed(-1.0, -1.0, 600, Some(5)), ms(30), "the command expired after 30 ms");
        assert_eq!(executed(-1.0, -1.0, 600, Some(5)).elapsed(), ms(500), "though no command followed");
        assert_eq!(backed(-1.0, -1.0, 110, Some(29)), ms(10));
        for unheard in [Some(30), None] {
            let unheard = executed(-1.0, -1.0, 110, unheard);
            let found = (unheard.is_confirmed(), unheard.backed(), unheard.travel < 0.0);
            assert_eq!(found, (false, Span::ZERO, true), "it may or may not have moved");
        }
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
