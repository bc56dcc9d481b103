//! A tether on bad networks, and under attack: only the brain's own answers get through, and the link
//! recovers.

use super::relay::{Direction, Weather};
use super::stage::{Runtime, Stage, TIMEOUT, TetherMessage, check};
use ganglion::base::seed::{Stream, bits};
use ganglion::base::time::Span;
use ganglion::field::remote::local::LinkPhase;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[test]
fn on_a_bad_network_answers_arrive_unchanged_and_once() {
    let stage = Stage::new("bad", 7);
    let runtime = Runtime::connect(&stage);
    let mut cycle = runtime.until(LinkPhase::Joined, 1);
    let ms = Duration::from_millis;
    let base = Weather { loss: 50, doubles: 100, changes: 100, jitter: ms(4), ..Weather::default() };
    for weather in [
        Weather { loss: 10, ..Weather::default() },
        base,
        Weather { loss: 500, burst: 3, ..base },
        Weather { delay: ms(50), jitter: ms(50), ..base },
    ] {
        stage.relay.set(weather);
        let (mut newest, mut answers, first) = (0, 0, cycle);
        let began = Instant::now();
        // Runs until enough answers have come: the number of requests depends on the network.
        while answers < 30 {
            assert!(began.elapsed() < TIMEOUT, "{weather:?}: {answers} answers");
            runtime.ask(cycle);
            cycle += 1;
            while let Some(heard) = runtime.recv(Span::from_millis(2)) {
                let TetherMessage::Answer(answer) = heard else { continue };
                check(&answer);
                assert!(answer.cycle < cycle, "no request was sent for {}", answer.cycle);
                if answer.cycle >= first {
                    answers += 1;
                    newest = newest.max(answer.cycle);
                }
            }
        }
        assert!(newest >= first);
    }
    let status = stage.status();
    let drops = &status["counts"]["drops"];
    let dropped = |name: &str| drops[name].as_u64().unwrap_or_else(|| panic!("{status}"));
    assert!(dropped("forged") > 0, "some were changed: {status}");
    assert!(dropped("stale") > 0, "some came twice, or late: {status}");
}

#[test]
fn a_pulled_cable_is_noticed_and_the_link_comes_back() {
    let stage = Stage::new("cable", 8);
    let runtime = Runtime::connect(&stage);
    let mut cycle = runtime.until(LinkPhase::Joined, 1);
    for _ in 0..3 {
        cycle = runtime.until_answered(cycle);
        stage.relay.set(Weather { is_cut: true, ..Weather::default() });
        cycle = runtime.until(LinkPhase::Joining, cycle);
        stage.relay.set(Weather::default());
        cycle = runtime.until(LinkPhase::Joined, cycle);
        cycle = runtime.until_answered(cycle);
    }
    let counts = &stage.status()["counts"];
    assert!(counts["lost"].as_u64() >= Some(3), "{counts}");
}

#[test]
fn a_restarted_brain_computer_is_joined_again() {
    let mut stage = Stage::new("again", 9);
    let runtime = Runtime::connect(&stage);
    let cycle = runtime.until(LinkPhase::Joined, 1);
    let cycle = runtime.until_answered(cycle);
    let address = stage.brain.as_ref().expect("it runs").address;
    stage.brain = None;
    let cycle = runtime.until(LinkPhase::Joining, cycle);
    stage.brain = Some(super::stage::Brain::at(address));
    let cycle = runtime.until(LinkPhase::Joined, cycle);
    runtime.until_answered(cycle);
    assert!(stage.status()["counts"]["joined"].as_u64() >= Some(2));
}

/// Number of forged and replayed datagrams that are sent to the robot.
const ATTACKS: u64 = 100_000;
/// Datagrams sent before each check that all were received: fewer than a socket's buffer holds.
const BATCH: u64 = 64;

#[test]
fn none_of_100_000_forged_or_replayed_datagrams_passes() {
    let stage = Stage::new("attack", 10);
    let runtime = Runtime::connect(&stage);
    let mut cycle = runtime.until(LinkPhase::Joined, 1);
    (0..20).for_each(|_| cycle = runtime.until_answered(cycle));
    let robot = stage.relay.robot().expect("it has sent something");
    let attacker = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let (downs, ups) = (stage.relay.kept(Direction::Down), stage.relay.kept(Direction::Up));
    let began = Instant::now();
    for number in 0..ATTACKS {
        attacker.send_to(&attack(&downs, &ups, number), robot).expect("loopback accepts it");
        if number % BATCH == BATCH - 1 || number == ATTACKS - 1 {
            while stage.status()["counts"]["drops"]
                .as_object()
                .expect("counts")
                .values()
                .filter_map(|n| n.as_u64())
                .sum::<u64>()
                < number + 1
            {
                assert!(began.elapsed() < TIMEOUT, "{}", stage.status());
            }
        }
        if number % 10_000 == 0 {
            cycle = runtime.until_answered(cycle);
        }
    }
    while let Some(heard) = runtime.recv(Span::from_millis(10)) {
        assert!(matches!(&heard, TetherMessage::Answer(answer) if { check(answer); true }), "{heard:?}");
    }
    let counts = stage.status()["counts"].clone();
    assert_eq!(counts["joined"].as_u64(), Some(1), "and the session continued: {counts}");
}

/// A datagram that was sent before, or a forgery made from one.
fn attack(downs: &[Vec<u8>], ups: &[Vec<u8>], number: u64) -> Vec<u8> {
    let draw = |of: u64, below: usize| (bits(3, Stream::Fault, number * 8 + of) % below as u64) as usize;
    let mut datagram =
        if draw(0, 4) == 0 { &ups[draw(1, ups.len())] } else { &downs[draw(1, downs.len())] }.clone();
    let length = datagram.len();
    match draw(2, 6) {
        0 => {}                                                                        // replayed, or reflected
        1 => datagram[draw(3, length)] ^= 1 << draw(4, 8),                             // one bit
        2 => datagram[16..24].copy_from_slice(&(u64::MAX - number % 3).to_le_bytes()), // a newer counter
        3 => datagram.truncate(draw(3, length)),
        4 => datagram[24..]
            .iter_mut()
            .enumerate()
            .for_each(|(at, byte)| *byte = draw(at as u64 % 7, 256) as u8),
        _ => datagram[8..16].copy_from_slice(&number.to_le_bytes()), // another session
    }
    datagram
}
