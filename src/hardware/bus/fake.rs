//! Fake buses and lines for tests. On a [`FakeI2c`], every transfer must be the next one in the script, and
//! the whole script must be used; a [`LooseI2c`] has no script. The fakes do not behave like a device;
//! simulated devices are in `sim/`.

use super::{Edge, Gpio, I2c, Op};
use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::{Clock, Instant, SimClock, Span};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, PartialEq)]
enum Part {
    /// The driver must write exactly these bytes.
    Write(Vec<u8>),
    /// The driver must read exactly this many bytes, and gets these.
    Read(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Scripted {
    address: u8,
    /// The expected operations, or the fault with which the transfer fails, whatever its operations are.
    outcome: Result<Vec<Part>, BusFault>,
}

/// An I2C adapter that follows a script. The test fails if it is dropped before the whole script was used.
#[derive(Debug, Default)]
pub struct FakeI2c {
    script: VecDeque<Scripted>,
    /// The writes so far. Only a fake from [`FakeI2c::recording`] records them; it accepts every write.
    pub written: Vec<(u8, Vec<u8>)>,
    records: bool,
}

impl FakeI2c {
    /// An empty script: any transfer fails the test.
    pub fn new() -> FakeI2c {
        FakeI2c::default()
    }
    /// No script: accepts and records any write; reads fail the test.
    pub fn recording() -> FakeI2c {
        FakeI2c { script: VecDeque::new(), written: Vec::new(), records: true }
    }
    /// Expects a write of `bytes` next.
    pub fn write(self, address: u8, bytes: &[u8]) -> FakeI2c {
        self.then(address, Ok(vec![Part::Write(bytes.to_vec())]))
    }
    /// Expects a read of `reply.len()` bytes next and returns `reply`.
    pub fn read(self, address: u8, reply: &[u8]) -> FakeI2c {
        self.then(address, Ok(vec![Part::Read(reply.to_vec())]))
    }
    /// Expects a write of `bytes`, a repeated start and a read of `reply` next.
    pub fn write_read(self, address: u8, bytes: &[u8], reply: &[u8]) -> FakeI2c {
        self.then(address, Ok(vec![Part::Write(bytes.to_vec()), Part::Read(reply.to_vec())]))
    }
    /// Expects any transfer with `address` next, and makes it fail.
    pub fn fault(self, address: u8, fault: BusFault) -> FakeI2c {
        self.then(address, Err(fault))
    }
    fn then(mut self, address: u8, outcome: Result<Vec<Part>, BusFault>) -> FakeI2c {
        self.script.push_back(Scripted { address, outcome });
        self
    }
    /// Returns and clears the recorded writes.
    pub fn take_written(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.written).into_iter().map(|(_, bytes)| bytes).collect()
    }

    fn record(&mut self, address: u8, ops: &[Op<'_>]) {
        for op in ops {
            match op {
                Op::Write(bytes) => self.written.push((address, bytes.to_vec())),
                Op::Read(_) => panic!("a recording fake cannot be read"),
            }
        }
    }
}

impl I2c for FakeI2c {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let Some(scripted) = self.script.pop_front() else {
            assert!(self.records, "transfer with {address:#04x} after the script's end: {}", show(ops));
            self.record(address, ops);
            return Ok(());
        };
        assert_eq!(address, scripted.address, "address of {}", show(ops));
        let parts = scripted.outcome?;
        assert_eq!(parts.len(), ops.len(), "script has {parts:02x?}, driver did {}", show(ops));
        for (op, part) in ops.iter_mut().zip(&parts) {
            match (op, part) {
                (Op::Write(bytes), Part::Write(expected)) => assert_eq!(*bytes, &expected[..]),
                (Op::Read(bytes), Part::Read(reply)) => bytes.copy_from_slice(reply),
                (op, part) => panic!("script has {part:02x?}, driver did {}", show(&[op_shape(op)])),
            }
        }
        Ok(())
    }
}

fn op_shape<'a>(op: &'a mut Op<'_>) -> Op<'a> {
    match op {
        Op::Write(bytes) => Op::Write(bytes),
        Op::Read(bytes) => Op::Read(bytes),
    }
}

fn show(ops: &[Op<'_>]) -> String {
    let parts: Vec<String> = ops
        .iter()
        .map(|op| match op {
            Op::Write(bytes) => format!("write {bytes:02x?}"),
            Op::Read(bytes) => format!("read {} bytes", bytes.len()),
        })
        .collect();
    parts.join(", ")
}

impl Drop for FakeI2c {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.script.is_empty(), "never transferred: {:?}", self.script);
        }
    }
}

/// One transfer on a [`LooseI2c`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it began.
    pub at: Instant,
    /// Address of the device.
    pub address: u8,
    /// First byte written; `None`: the transfer only read.
    pub wrote: Option<u8>,
    /// Whether it succeeded.
    pub worked: bool,
}

/// Runs during a transfer; its argument is the time in the middle of the transfer.
type During = Box<dyn FnOnce(Instant) + Send>;

#[derive(Default)]
struct Loose {
    seen: Vec<Seen>,
    faults: BTreeMap<u8, BusFault>,
    once: BTreeMap<u8, BusFault>,
    hung: bool,
    value: u8,
    during: Option<(u32, During)>,
}

/// A bus without a script, shared with the test: accepts everything, answers every read with the same byte,
/// and fails when the test says so. A transfer takes 0.1 ms; one that times out takes 20 ms.
#[derive(Clone)]
pub struct LooseI2c {
    clock: Arc<SimClock>,
    state: Arc<Mutex<Loose>>,
}

impl LooseI2c {
    /// A bus on which every transfer succeeds.
    pub fn new(clock: Arc<SimClock>) -> LooseI2c {
        LooseI2c { clock, state: Arc::default() }
    }
    /// From now on, transfers with `address` fail with this fault; `None`: they succeed.
    pub fn fail(&self, address: u8, fault: Option<BusFault>) {
        let mut state = self.state.lock().unwrap();
        match fault {
            Some(fault) => state.faults.insert(address, fault),
            None => state.faults.remove(&address),
        };
    }
    /// The next transfer with `address` fails with this fault.
    pub fn fail_once(&self, address: u8, fault: BusFault) {
        self.state.lock().unwrap().once.insert(address, fault);
    }
    /// Runs `action` in the middle of the `nth` transfer from now on, counted from one.
    pub fn during(&self, nth: u32, action: impl FnOnce(Instant) + Send + 'static) {
        self.state.lock().unwrap().during = Some((nth, Box::new(action)));
    }
    /// `true`: from now on, every transfer times out; `false`: ends this.
    pub fn hang(&self, hung: bool) {
        self.state.lock().unwrap().hung = hung;
    }
    /// From now on, reads return this byte.
    pub fn answer(&self, value: u8) {
        self.state.lock().unwrap().value = value;
    }
    /// The transfers since the last call.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.lock().unwrap().seen)
    }
}

impl I2c for LooseI2c {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let at = self.clock.now();
        let mut state = self.state.lock().unwrap();
        let once = state.once.remove(&address);
        let fault =
            if state.hung { Some(BusFault::TimedOut) } else { once.or(state.faults.get(&address).copied()) };
        let action = match &mut state.during {
            Some((1, _)) => state.during.take(),
            Some((nth, _)) => {
                *nth -= 1;
                None
            }
            None => None,
        };
        let mut wrote = None;
        for op in ops {
            match op {
                Op::Write(bytes) => wrote = bytes.first().copied(),
                Op::Read(bytes) => bytes.fill(state.value),
            }
        }
        state.seen.push(Seen { at, address, wrote, worked: fault.is_none() });
        drop(state);
        if let Some((_, action)) = action {
            action(at + Span::from_micros(50));
        }
        let time = if fault == Some(BusFault::TimedOut) { 20_000 } else { 100 };
        self.clock.sleep_until(at + Span::from_micros(time));
        fault.map_or(Ok(()), Err)
    }
}

/// One call of [`Gpio::set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// Which line.
    pub line: Line,
    /// The new level.
    pub high: bool,
    /// When the call was made.
    pub at: Instant,
}

/// Lines in virtual time: sets are recorded, levels and edges are scripted.
#[derive(Debug)]
pub struct FakeGpio {
    clock: Arc<SimClock>,
    /// The calls of `set`, in order.
    pub sets: Vec<Set>,
    levels: BTreeMap<Line, bool>,
    edges: VecDeque<Edge>,
    broken: BTreeMap<Line, BusFault>,
}

impl FakeGpio {
    /// Lines that are all low and never change by themselves.
    pub fn new(clock: Arc<SimClock>) -> FakeGpio {
        let (levels, broken) = (BTreeMap::new(), BTreeMap::new());
        FakeGpio { clock, sets: Vec::new(), levels, edges: VecDeque::new(), broken }
    }
    /// Holds `line` at this level until it is driven or an edge on it is delivered.
    pub fn level(mut self, line: Line, high: bool) -> FakeGpio {
        self.levels.insert(line, high);
        self
    }
    /// Adds an edge at `stamp`. Edges must be added in time order.
    pub fn edge(mut self, line: Line, high: bool, stamp: Instant) -> FakeGpio {
        assert!(self.edges.back().is_none_or(|last| last.stamp <= stamp), "edges must be added in order");
        self.edges.push_back(Edge { line, high, stamp });
        self
    }
    /// Makes driving and reading `line` fail.
    pub fn broken(mut self, line: Line, fault: BusFault) -> FakeGpio {
        self.broken.insert(line, fault);
        self
    }
    fn check(&self, line: Line) -> Result<(), BusFault> {
        self.broken.get(&line).map_or(Ok(()), |fault| Err(*fault))
    }
}

impl Gpio for FakeGpio {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        self.check(line)?;
        self.sets.push(Set { line, high, at: self.clock.now() });
        self.levels.insert(line, high);
        Ok(())
    }

    fn get(&mut self, line: Line) -> Result<bool, BusFault> {
        self.check(line)?;
        Ok(self.levels.get(&line).copied().unwrap_or(false))
    }

    fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault> {
        let end = self.clock.now() + wait;
        let Some(&edge) = self.edges.front().filter(|edge| edge.stamp <= end) else {
            self.clock.sleep_until(end);
            return Ok(None);
        };
        self.edges.pop_front();
        self.clock.sleep_until(edge.stamp);
        self.levels.insert(edge.line, edge.high);
        Ok(Some(edge))
    }
}

mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "after the script's end: write [2d, 00, 00]")]
    fn a_transfer_that_is_not_in_the_script_fails_the_test() {
        let mut i2c = FakeI2c::new().write(0x14, &[0x2C, 0, 0]);
        assert_eq!(I2c::write(&mut i2c, 0x14, &[0x2C, 0, 0]), Ok(()));
        let _ = I2c::write(&mut i2c, 0x14, &[0x2D, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "never transferred")]
    fn an_unfinished_script_fails_the_test() {
        drop(FakeI2c::new().read(0x14, &[1]));
    }

    #[test]
    #[should_panic(expected = "address of write [2c, 00, 00]")]
    fn another_address_fails_the_test() {
        let mut i2c = FakeI2c::new().write(0x15, &[0x2C, 0, 0]);
        let _ = I2c::write(&mut i2c, 0x14, &[0x2C, 0, 0]);
    }
}
