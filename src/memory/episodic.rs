//! Remembers what was where. A meeting binds a thing to the pointer of the place where it was met; a page is
//! the sum of a fixed number of meetings. When all pages are full, the oldest one is forgotten. The memory
//! answers "where was X", "what is near (x, y)" and "how similar is this place to where X was" (a number that
//! can be a field's input).
//!
//! A thing is a number that the caller assigns; a place is in metres in the caller's frame.
//! Not for a real-time thread: pointers and decoding are f64 and allocate.

use super::dim::Dim;
use super::fault::Fault;
use super::nearest::{Best, Match};
use super::ops::{Length, Workspace};
use super::spatial::{DecodedPlace, Decoder};
use super::store::Store;
use super::vector::random_unitary;
use crate::field::snapshot::PlacesPage;
use crate::field::state::StateError;

/// Numbers in a vector for each meeting on a page: on a full page, the cosine of a recalled item is 8 times
/// the standard deviation of a chance cosine, 1/sqrt(d).
const NUMBERS_PER_MEETING: usize = 64;
/// An answer is believed if its cosine is at least this many times the standard deviation of a chance cosine.
/// The largest of some hundred chance cosines, and of the peaks between their places, stays below 4.5
/// standard deviations.
const BELIEVED: f64 = 5.0;

/// Meetings that are superposed in one vector.
#[derive(Clone, Debug)]
struct Page {
    trace: Vec<f32>,
    meetings: usize,
}

/// The memory of meetings.
#[derive(Debug)]
pub struct Episodes {
    decoder: Decoder,
    things: Store,
    pages: Vec<Page>,
    /// The page that is being written.
    open: usize,
    forgotten: u64,
    workspace: Workspace,
    pointer: Vec<f32>,
    bound: Vec<f32>,
    cosines: Vec<f32>,
    likeness: Vec<f32>,
}

impl Episodes {
    /// A memory for `things` things and `pages` pages; refused if it would take more than `limit` bytes, not
    /// counting the decoder's grid.
    pub fn new(
        decoder: Decoder,
        things: usize,
        pages: usize,
        seed: u64,
        limit: usize,
    ) -> Result<Episodes, Fault> {
        let dim = decoder.plane().dim();
        if pages == 0 {
            return Err(Fault::Range { what: "pages", found: 0, least: 1, most: limit / (dim.get() * 4) });
        }
        let row = dim.get() * size_of::<f32>();
        let wanted = Store::bytes_for(dim, things).saturating_add(pages.saturating_mul(row));
        if wanted > limit {
            return Err(Fault::Limit { wanted, limit });
        }
        let mut store = Store::new(dim, things, limit)?;
        (0..things as u64).try_for_each(|thing| store.push(&random_unitary(seed, thing, dim)).map(drop))?;
        let blank = || vec![0.0; dim.get()];
        Ok(Episodes {
            decoder,
            things: store,
            pages: vec![Page { trace: blank(), meetings: 0 }; pages],
            open: 0,
            forgotten: 0,
            workspace: Workspace::new(dim),
            pointer: blank(),
            bound: blank(),
            cosines: vec![0.0; things],
            likeness: vec![0.0; things],
        })
    }

    /// Numbers in its vectors.
    pub fn dim(&self) -> Dim {
        self.workspace.dim()
    }

    /// Meetings that fit on a page.
    pub fn per_page(&self) -> usize {
        (self.dim().get() / NUMBERS_PER_MEETING).max(1)
    }

    /// Meetings that are stored.
    pub fn meetings(&self) -> usize {
        self.pages.iter().map(|page| page.meetings).sum()
    }

    /// Meetings that were forgotten to make room for newer ones.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The lowest cosine at which an answer is believed.
    pub fn believed(&self) -> f64 {
        BELIEVED / (self.dim().get() as f64).sqrt()
    }

    /// Remembers that `thing` was met at `place` (metres).
    pub fn observe(&mut self, thing: usize, place: [f64; 2]) -> Result<(), Fault> {
        self.known(thing)?;
        self.decoder.plane().pointer(place, &mut self.pointer)?;
        let what = self.things.row(thing).unwrap_or_default();
        self.workspace.bind(&self.pointer, what, Length::AsIs, &mut self.bound)?;
        if self.pages[self.open].meetings == self.per_page() {
            self.open = (self.open + 1) % self.pages.len();
            let page = &mut self.pages[self.open];
            self.forgotten += page.meetings as u64;
            page.trace.fill(0.0);
            page.meetings = 0;
        }
        let page = &mut self.pages[self.open];
        self.workspace.add(&self.bound, 1.0, &mut page.trace)?;
        page.meetings += 1;
        Ok(())
    }

    /// Where `thing` was met, if the answer is believed; of several places, the one that is remembered best.
    pub fn where_was(&mut self, thing: usize) -> Result<Option<DecodedPlace>, Fault> {
        self.known(thing)?;
        let mut found: Option<DecodedPlace> = None;
        for page in self.pages.iter().filter(|page| page.meetings > 0) {
            let what = self.things.row(thing).unwrap_or_default();
            self.workspace.unbind(&page.trace, what, Length::Unit, &mut self.bound)?;
            let place = self.decoder.decode(&self.bound)?;
            if found.is_none_or(|best| place.likeness > best.likeness) {
                found = Some(place);
            }
        }
        Ok(found.filter(|place| place.likeness >= self.believed()))
    }

    /// The things that were met nearest to `place`, the most certain first; only those whose cosine is
    /// believed. The cosine falls with the distance between `place` and where a thing was met, as for the
    /// plane's pointers, to about 0 at the plane's scale.
    pub fn what_is_near(&mut self, place: [f64; 2], best: &mut Best) -> Result<(), Fault> {
        self.decoder.plane().pointer(place, &mut self.pointer)?;
        best.clear();
        self.likeness.fill(-1.0);
        for page in self.pages.iter().filter(|page| page.meetings > 0) {
            self.workspace.unbind(&page.trace, &self.pointer, Length::Unit, &mut self.bound)?;
            self.things.cosines(&self.bound, &mut self.cosines)?;
            let both = self.likeness.iter_mut().zip(&self.cosines);
            both.for_each(|(most, cosine)| *most = most.max(*cosine));
        }
        for (row, &cosine) in (0..).zip(&self.likeness) {
            if f64::from(cosine) >= self.believed() {
                best.offer(Match { row, cosine });
            }
        }
        Ok(())
    }

    /// How similar `place` is to the places where `thing` was met: the largest cosine of all pages, 0..=1;
    /// about 0 for a thing that was never met.
    pub fn likeness(&mut self, thing: usize, place: [f64; 2]) -> Result<f32, Fault> {
        self.known(thing)?;
        self.decoder.plane().pointer(place, &mut self.pointer)?;
        let mut most = 0.0_f32;
        for page in self.pages.iter().filter(|page| page.meetings > 0) {
            let what = self.things.row(thing).unwrap_or_default();
            self.workspace.unbind(&page.trace, what, Length::AsIs, &mut self.bound)?;
            most = most.max(self.workspace.cosine(&self.bound, &self.pointer)?);
        }
        Ok(most.min(1.0))
    }

    /// Copies all meetings; `pages` keeps its allocations from one copy to the next.
    pub(super) fn save(&self, pages: &mut Vec<PlacesPage>) {
        pages.resize_with(self.pages.len(), PlacesPage::default);
        for (copy, page) in pages.iter_mut().zip(&self.pages) {
            copy.meetings = page.meetings as u32;
            copy.trace.clone_from(&page.trace);
        }
    }

    /// The page that is being written.
    pub(super) fn open_page(&self) -> usize {
        self.open
    }

    /// Resumes from copied meetings. If they do not fit, nothing changes.
    pub(super) fn restore(
        &mut self,
        pages: &[PlacesPage],
        open: usize,
        forgotten: u64,
    ) -> Result<(), StateError> {
        let (found, wanted) = (pages.len(), self.pages.len());
        if found != wanted {
            return Err(StateError::Count { field: "map pages", found, wanted });
        }
        if open >= wanted {
            return Err(StateError::TooMany { field: "map pages", found: open + 1, most: wanted });
        }
        for page in pages {
            let (found, wanted) = (page.trace.len(), self.dim().get());
            if found != wanted {
                return Err(StateError::Count { field: "numbers of a map page", found, wanted });
            }
            let (found, most) = (page.meetings as usize, self.per_page());
            if found > most {
                return Err(StateError::TooMany { field: "meetings on a map page", found, most });
            }
        }
        for (page, copy) in self.pages.iter_mut().zip(pages) {
            page.meetings = copy.meetings as usize;
            page.trace.copy_from_slice(&copy.trace);
        }
        (self.open, self.forgotten) = (open, forgotten);
        Ok(())
    }

    fn known(&self, thing: usize) -> Result<(), Fault> {
        let rows = self.things.len();
        if thing < rows { Ok(()) } else { Err(Fault::NoRow { row: thing, rows }) }
    }
}
