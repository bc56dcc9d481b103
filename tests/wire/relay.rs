//! A separate network on loopback, between one robot and its brain, as bad as a test wants: it loses,
//! duplicates, delays, reorders and changes datagrams, or is cut. Every random draw comes from a seed; the
//! kernel decides in which order datagrams arrive.

use ganglion::base::seed::{Stream, bits};
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the network does to each datagram, in either direction. Probabilities are per thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Nothing passes: a pulled cable.
    pub is_cut: bool,
    /// Chance that a datagram is lost.
    pub loss: u64,
    /// How many datagrams after a lost one are lost as well.
    pub burst: u64,
    /// Chance that it arrives twice.
    pub doubles: u64,
    /// Chance that one of its bits is changed.
    pub changes: u64,
    /// Delay of each datagram.
    pub delay: Duration,
    /// Maximum of an additional random delay, which lets datagrams overtake each other.
    pub jitter: Duration,
}

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the robot to the brain.
    Up,
    /// From the brain to the robot.
    Down,
}

/// How many datagrams are kept for a test to send again.
const KEPT: usize = 256;
/// Longest sleep of the relay between checks for datagrams.
const NAP: Duration = Duration::from_micros(300);

struct Shared {
    weather: Mutex<Weather>,
    kept: Mutex<VecDeque<(Direction, Vec<u8>)>>,
    robot: Mutex<Option<SocketAddr>>,
    is_over: AtomicBool,
}

/// The network; it ends when this is dropped.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// A network between one robot, which takes it for the brain, and the brain at `brain`. `seed` decides
    /// every draw.
    pub fn before(brain: SocketAddr, seed: u64) -> Relay {
        let [front, back] = [(); 2].map(|()| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
            socket.set_nonblocking(true).expect("it can be set to non-blocking");
            socket
        });
        let address = front.local_addr().expect("the socket is bound");
        let shared = Arc::new(Shared {
            weather: Mutex::default(),
            kept: Mutex::default(),
            robot: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let mut road = Road { front, back, brain, seed, drawn: 0, burst: 0, under_way: Vec::new() };
        let of_thread = shared.clone();
        let thread = Some(std::thread::spawn(move || road.run(&of_thread)));
        Relay { address, shared, thread }
    }

    /// The address at which the robot reaches its brain.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the network's behaviour from now on.
    pub fn set(&self, weather: Weather) {
        *self.shared.weather.lock().expect("no panic while it was held") = weather;
    }

    /// The last datagrams that the relay received in this direction, unchanged, oldest first.
    pub fn kept(&self, way: Direction) -> Vec<Vec<u8>> {
        let kept = self.shared.kept.lock().expect("no panic while it was held");
        kept.iter().filter(|(of, _)| *of == way).map(|(_, datagram)| datagram.clone()).collect()
    }

    /// The robot's own address, for an attacker.
    pub fn robot(&self) -> Option<SocketAddr> {
        *self.shared.robot.lock().expect("no panic while it was held")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic fails the test, because the relay no longer passes anything
        }
    }
}

/// The relay's thread and its state.
struct Road {
    front: UdpSocket,
    back: UdpSocket,
    brain: SocketAddr,
    seed: u64,
    drawn: u64,
    /// How many of the next datagrams are lost whatever is drawn for them.
    burst: u64,
    under_way: Vec<(Instant, Direction, Vec<u8>)>,
}

impl Road {
    fn run(&mut self, shared: &Shared) {
        let mut bytes = [0; 2048];
        while !shared.is_over.load(Ordering::Relaxed) {
            let weather = *shared.weather.lock().expect("no panic while it was held");
            let mut came = 0;
            while let Ok((length, from)) = self.front.recv_from(&mut bytes) {
                *shared.robot.lock().expect("no panic while it was held") = Some(from);
                self.take(shared, &weather, Direction::Up, &bytes[..length]);
                came += 1;
            }
            while let Ok((length, _)) = self.back.recv_from(&mut bytes) {
                self.take(shared, &weather, Direction::Down, &bytes[..length]);
                came += 1;
            }
            self.deliver(shared);
            if came == 0 {
                std::thread::sleep(NAP);
            }
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.drawn += 1;
        bits(self.seed, Stream::Fault, self.drawn) % below.max(1)
    }

    fn take(&mut self, shared: &Shared, weather: &Weather, way: Direction, datagram: &[u8]) {
        let mut kept = shared.kept.lock().expect("no panic while it was held");
        kept.push_back((way, datagram.to_vec()));
        while kept.len() > KEPT {
            kept.pop_front();
        }
        drop(kept);
        let in_burst = self.burst > 0;
        self.burst = self.burst.saturating_sub(1);
        let is_lost = self.draw(1000) < weather.loss;
        if weather.is_cut || in_burst || is_lost {
            if is_lost {
                self.burst = weather.burst;
            }
            return;
        }
        let copies = 1 + u64::from(self.draw(1000) < weather.doubles);
        for _ in 0..copies {
            let mut datagram = datagram.to_vec();
            if self.draw(1000) < weather.changes {
                let bit = self.draw(8 * datagram.len() as u64) as usize;
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            let jitter = Duration::from_micros(self.draw(weather.jitter.as_micros() as u64 + 1));
            self.under_way.push((Instant::now() + weather.delay + jitter, way, datagram));
        }
    }

    fn deliver(&mut self, shared: &Shared) {
        let now = Instant::now();
        let mut due: Vec<_> = self.under_way.extract_if(.., |(at, ..)| *at <= now).collect();
        due.sort_by_key(|(at, ..)| *at);
        for (_, way, datagram) in due {
            let robot = *shared.robot.lock().expect("no panic while it was held");
            let _ = match (way, robot) {
                (Direction::Up, _) => self.back.send_to(&datagram, self.brain), // a full queue drops it, as networks do
                (Direction::Down, Some(robot)) => self.front.send_to(&datagram, robot),
                (Direction::Down, None) => Ok(0),
            };
        }
    }
}
