//! The operations wherever they are done fastest: on the processor or, from the batch on that was measured, on a
//! card. The bits are the same, so nobody but the clock can tell. A card that fails is given up for good, once said,
//! and the processor does what it was at.

use super::choice::{CALIBRATION, Choice, Doer, Lies, Wish, Work, file_for};
use super::crew::Verb;
use super::dim::Dim;
use super::fault::Fault;
use super::gpu::{Card, CardFault, Room};
use super::ops::{Length, Workspace};

/// A workspace and, where there is one, a card beside it.
pub struct Workshop {
    workspace: Workspace,
    card: Option<Card>,
    choice: Choice,
    on_card: u64,
}

impl Workshop {
    /// For rows of this length. Opens the GPU, if there is one and it is wished, and measures: up to some seconds.
    pub fn open(dim: Dim, room: Room, wish: Wish) -> Workshop {
        match Card::open(dim, room) {
            Ok(mut card) => {
                let choice = Choice::of(&mut card, wish, file_for(dim).as_deref(), CALIBRATION);
                Workshop::with(dim, Some(card), choice)
            }
            Err(unfit) => Workshop::with(dim, None, Choice::without(unfit)),
        }
    }

    /// With a card and a choice that somebody else made.
    pub fn with(dim: Dim, card: Option<Card>, choice: Choice) -> Workshop {
        Workshop { workspace: Workspace::new(dim), card, choice, on_card: 0 }
    }

    /// Who does what, and why.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Calls that a card has done.
    pub fn on_card(&self) -> u64 {
        self.on_card
    }

    /// Whether there is a card that has not failed.
    pub fn has_card(&self) -> bool {
        self.card.is_some()
    }

    /// As [`Workspace::bind`] and `unbind`.
    pub fn convolve(
        &mut self,
        verb: Verb,
        a: &[f32],
        b: &[f32],
        length: Length,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        let rows = a.len() / self.workspace.dim().get();
        if let Some(done) = self.try_card(Work::Bind, rows, |card| card.convolve(verb, a, b, length, out)) {
            return done;
        }
        match verb {
            Verb::Bind => self.workspace.bind(a, b, length, out),
            Verb::Unbind => self.workspace.unbind(a, b, length, out),
        }
    }

    /// As [`Workspace::superpose`].
    pub fn superpose(
        &mut self,
        rows: &[f32],
        weights: Option<&[f32]>,
        length: Length,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        let count = rows.len() / self.workspace.dim().get();
        let done = self.try_card(Work::Superpose, count, |card| card.superpose(rows, weights, length, out));
        done.unwrap_or_else(|| self.workspace.superpose(rows, weights, length, out))
    }

    /// `None`: the processor is to do it.
    fn try_card(
        &mut self,
        work: Work,
        rows: usize,
        call: impl FnOnce(&mut Card) -> Result<(), CardFault>,
    ) -> Option<Result<(), Fault>> {
        let card = self.card.as_mut().filter(|card| rows <= card.room().rows)?;
        if self.choice.doer(work, Lies::Host, rows) == Doer::Processor {
            return None;
        }
        match call(card) {
            Ok(()) => {
                self.on_card += 1;
                Some(Ok(()))
            }
            Err(CardFault::Wish(fault)) => Some(Err(fault)),
            Err(fault) => {
                log::warn!("the memory's GPU is given up, the processor goes on: {fault}");
                self.card = None;
                None
            }
        }
    }
}
