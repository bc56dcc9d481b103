//! A tether serves one runtime at a time, which must have the tether's board; all others are told why they
//! are refused.

use super::stage::{Runtime, Stage, TetherMessage};
use ganglion::base::time::Span;
use ganglion::field::remote::local::LinkPhase;
use ganglion::system::seqpacket::{Received, connect_to, receive, send_to, wait_for};
use std::time::Instant;

const LONG: Span = Span::from_millis(60_000);

#[test]
fn runtimes_of_a_board_are_served_one_after_another() {
    let stage = Stage::new("callers", 11);
    assert_eq!(stage.status()["link"], "idle", "without a runtime the brain is not contacted");
    assert_eq!(Runtime::with(&stage, [1; 32]).recv(LONG), Some(TetherMessage::Refused), "another board");
    let first = Runtime::connect(&stage);
    assert_eq!(first.recv(LONG), Some(TetherMessage::Link(LinkPhase::Joining, String::new())));
    let second = Runtime::connect(&stage);
    assert_eq!(second.recv(LONG), Some(TetherMessage::Refused), "occupied");
    let cycle = first.until(LinkPhase::Joined, 1);
    first.until_answered(cycle);
    drop(first);
    while stage.status()["runtime"] == true {
        std::thread::yield_now();
    }
    let third = Runtime::connect(&stage);
    third.until(LinkPhase::Joined, 1);
    assert_eq!(stage.status()["counts"]["joined"], 2, "with its own session");
}

#[test]
fn silent_and_nonsense_callers_block_nobody() {
    let stage = Stage::new("nonsense", 12);
    let silent: Vec<_> = (0..8).map_while(|_| connect_to(&stage.path).ok()).collect();
    assert!(silent.len() >= 3);
    let runtime = Runtime::connect(&stage);
    runtime.until(LinkPhase::Joined, 1);
    assert!(send_to(connect_to(&stage.path).expect("it listens"), b"nonsense"));
    let cycle = runtime.until_answered(1_000);
    drop(silent);
    runtime.until_answered(cycle);
}

#[test]
fn of_too_many_silent_callers_the_oldest_are_dropped() {
    let stage = Stage::new("oldest", 13);
    // Three may wait; the listener's backlog is short, so a connection may be refused at first.
    let began = Instant::now();
    let connect = |_| loop {
        match connect_to(&stage.path) {
            Ok(caller) => return caller,
            Err(error) => assert!(began.elapsed() < std::time::Duration::from_secs(60), "{error}"),
        }
    };
    let callers: Vec<_> = (0..5).map(connect).collect();
    let heard = |caller: &std::os::fd::OwnedFd, longest: Span| {
        wait_for(&[caller], longest);
        receive(caller, &mut [0; 64])
    };
    for caller in &callers[..2] {
        assert!(matches!(heard(caller, LONG), Received::Closed));
    }
    for caller in &callers[2..] {
        assert!(matches!(heard(caller, Span::ZERO), Received::Nothing));
    }
}
