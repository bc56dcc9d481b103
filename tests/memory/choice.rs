//! Processor or GPU: measured once, kept for the same machine, and the same bits wherever it is done. On the stand-in
//! for the driver, whose times mean nothing: only what is done with them is shown here.

use super::{bits, dim, rows};
use crate::cuda::standin::alone;
use ganglion::gpu::{GpuFault, Watch};
use ganglion::memory::choice::{Because, Choice, Doer, Lies, Wish, Work};
use ganglion::memory::crew::Verb;
use ganglion::memory::gpu::{Card, Room};
use ganglion::memory::workshop::Workshop;
use ganglion::memory::{Fault, Length, Workspace};
use ganglion::time::Span;
use std::path::PathBuf;
use std::sync::Arc;

const SHORT: Span = Span::from_millis(100);

fn card(d: usize, watch: Arc<Watch>) -> Card {
    Card::open_with(dim(d), Room { rows: 16, queries: 1, store: 16 }, watch).expect("the stand-in is a GPU")
}

/// A file that goes away with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let folder = std::env::temp_dir().join(format!("ganglion-choice-{}-{name}", std::process::id()));
        File(folder.join("memory.choice"))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = self.0.parent().map(std::fs::remove_dir_all);
    }
}

#[test]
fn what_was_measured_is_kept_for_the_same_machine_and_rows_and_thrown_away_when_damaged() {
    let Some(alone) = alone() else { return };
    let (file, d) = (File::new("kept"), 128);
    let first = Choice::of(&mut card(d, Arc::default()), Wish::Measured, Some(&file.0), SHORT);
    assert_eq!((&first.because, first.crossings.len()), (&Because::Measured, 5));
    assert!(first.crossings.iter().all(|crossing| (1..=16).contains(&crossing.tried)), "{first}");
    let again = Choice::of(&mut card(d, Arc::default()), Wish::Measured, Some(&file.0), SHORT);
    assert_eq!((again.because, &again.crossings), (Because::Kept, &first.crossings));
    let longer = Choice::of(&mut card(256, Arc::default()), Wish::Measured, Some(&file.0), SHORT);
    assert_eq!(longer.because, Because::Measured, "other rows");
    alone.order("driver=13000");
    let newer = Choice::of(&mut card(256, Arc::default()), Wish::Measured, Some(&file.0), SHORT);
    assert_eq!(newer.because, Because::Measured, "another driver");
    let mut bytes = std::fs::read(&file.0).expect("kept");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file.0, bytes).expect("written");
    let damaged = Choice::of(&mut card(256, Arc::default()), Wish::Measured, Some(&file.0), SHORT);
    assert_eq!(damaged.because, Because::Measured);
    // A wish needs no measurement and leaves the file alone.
    let wished = Choice::of(&mut card(d, Arc::default()), Wish::Processor, Some(&file.0), SHORT);
    assert_eq!((wished.because, wished.crossings.len()), (Because::Wished, 0));
}

#[test]
fn wherever_it_is_done_the_bits_are_the_same_and_a_card_that_fails_is_given_up() {
    let Some(_alone) = alone() else { return };
    let (d, watch) = (128, Arc::new(Watch::new()));
    let mut card = card(d, watch.clone());
    let choice = Choice::of(&mut card, Wish::From(4), None, SHORT);
    assert_eq!(choice.doer(Work::Bind, Lies::Host, 3), Doer::Processor);
    let mut shop = Workshop::with(dim(d), Some(card), choice);
    let (a, b) = (rows(1, 0, 20, d), rows(2, 0, 20, d));
    let mut workspace = Workspace::new(dim(d));
    let mut both = |shop: &mut Workshop, count: usize| {
        let (a, b) = (&a[..count * d], &b[..count * d]);
        let (mut own, mut out) = (vec![0.0; count * d], vec![0.0; count * d]);
        workspace.unbind(a, b, Length::Unit, &mut own).expect("shapes");
        shop.convolve(Verb::Unbind, a, b, Length::Unit, &mut out).expect("shapes");
        assert!(bits(&out) == bits(&own), "{count} rows");
        let (mut own, mut out) = (vec![0.0; d], vec![0.0; d]);
        workspace.superpose(a, None, Length::Unit, &mut own).expect("shapes");
        shop.superpose(a, None, Length::Unit, &mut out).expect("shapes");
        assert!(bits(&out) == bits(&own), "{count} rows");
    };
    // Fewer than wished; as many; more than the card has room for.
    for (count, on_card) in [(3, 0), (4, 2), (16, 4), (20, 4)] {
        both(&mut shop, count);
        assert_eq!(shop.on_card(), on_card, "{count} rows");
    }
    let wrong = shop.convolve(Verb::Bind, &a[..4 * d], &b[..3 * d], Length::AsIs, &mut vec![0.0; 4 * d]);
    assert_eq!(wrong, Err(Fault::Shape { what: "second factor", d, wanted: 4, found: 3 * d }));
    assert!(shop.has_card(), "a wrong wish is no fault of the card");
    watch.inject(Some(GpuFault::Error));
    both(&mut shop, 16);
    watch.inject(None);
    assert!(!shop.has_card() && shop.on_card() == 4);
    both(&mut shop, 16);
}
