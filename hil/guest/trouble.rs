//! The faults and events to which a row exposes a driving robot, and how each is undone.

use super::bench::Bench;
use super::far::Echo;
use super::record::Record;
use super::scene::{Scene, Who};
use super::wire::{Command, FOR_EVER, Fault};
use ganglion::base::time::{Instant, Span};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command as Program, Stdio};

/// The controller's address.
pub const MCU: u8 = 0x14;
/// The inertial sensor's address.
pub const IMU: u8 = 0x68;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Transfers with a device fail in this way until the trouble is undone.
    Transfers(u8, Fault, i32),
    /// This many transfers with a device fail in this way.
    Some(u8, Fault, i32, i32),
    /// Every transfer on the bus fails in this way until the trouble is undone.
    Bus(Fault, i32),
    /// SDA is held low until SCL has risen nine times.
    SdaLow,
    /// The controller is disconnected from the bus; its pulses continue.
    McuUnplugged,
    /// The controller resets itself.
    BrownOut,
    /// The inertial sensor is disconnected; it comes back asleep.
    ImuUnplugged,
    /// The echo behaves in this way.
    Echo(Echo),
    /// The stop button is pressed.
    Press,
    /// The stop button's contact bounces, and it stays pressed.
    Chatter,
    /// The car leans, degrees.
    Lean(i32),
    /// A process receives a signal; undone by SIGCONT, or by a restart.
    Signal(Who, Signal),
    /// The guard is killed. The kernel keeps driving its line (true), as on Raspberry Pi OS, or lets it float
    /// (false).
    GuardDies(bool),
    /// A program computes at this priority for this long, and nothing with a lower priority runs.
    Hog(u8, Span),
}

impl Trouble {
    /// Text for the table.
    pub fn text(self) -> String {
        let bus = |kind: Fault, argument: i32| match kind {
            Fault::NackAddress => "NACK of the address".to_string(),
            Fault::NackData => format!("NACK after {argument} bytes"),
            Fault::Stuck if argument > 0 => format!("stuck for {argument} ms, whatever timeout is set"),
            Fault::Stuck => "stuck until the adapter gives up".into(),
            Fault::ArbitrationLost if argument > 0 => format!("arbitration lost after {argument} bytes"),
            Fault::ArbitrationLost => "arbitration lost".into(),
            Fault::StretchUs => format!("clock stretched by {argument} us"),
            Fault::Xor => format!("byte {} of reads XOR {:#04x}", argument >> 8, argument & 0xFF),
            Fault::AllOnes => "reads return ones".into(),
            Fault::Freeze => "registers frozen".into(),
            Fault::SdaLow => "SDA held low until nine clocks".into(),
            Fault::Rebind => "stuck until the driver is rebound".into(),
        };
        match self {
            Trouble::Transfers(address, kind, argument) => format!("{address:#04x}: {}", bus(kind, argument)),
            Trouble::Some(address, kind, argument, count) => {
                format!("{address:#04x}: {}, {count} times", bus(kind, argument))
            }
            Trouble::Bus(kind, argument) => format!("every address: {}", bus(kind, argument)),
            Trouble::SdaLow => bus(Fault::SdaLow, 0),
            Trouble::McuUnplugged => "controller off the bus, its pulses continue".into(),
            Trouble::BrownOut => "controller resets itself".into(),
            Trouble::ImuUnplugged => "sensor off the bus; it comes back asleep".into(),
            Trouble::Echo(echo) => match echo {
                Echo::Sound => "correct echo".into(),
                Echo::Lost => "no echo edge".into(),
                Echo::Short => "echo of 50 us".into(),
                Echo::Late => "echo 10 ms late".into(),
                Echo::Double => "two pulses of 200 us, 3 ms apart".into(),
                Echo::Held => "echo stays high".into(),
                Echo::Open(ms) => format!("nothing within range: a pulse of {ms} ms"),
            },
            Trouble::Press => "pressed".into(),
            Trouble::Chatter => "ten presses in 1 ms, then pressed".into(),
            Trouble::Lean(degrees) => format!("{degrees} degrees"),
            Trouble::Signal(who, signal) => {
                let who = if who == Who::Guard { "guard" } else { "runtime" };
                format!("{who} gets {}", if signal == Signal::STOP { "SIGSTOP" } else { "SIGKILL" })
            }
            Trouble::GuardDies(true) => "guard gets SIGKILL, the kernel keeps its line".into(),
            Trouble::GuardDies(false) => "guard gets SIGKILL, its line floats".into(),
            Trouble::Hog(priority, time) => {
                format!("a program computes at FIFO {priority} for {:.0} ms", time.as_micros_f64() / 1e3)
            }
        }
    }

    /// Injects the fault; returns the time at which it began.
    pub fn begin(self, bench: &mut Bench, scene: &mut Scene) -> io::Result<Instant> {
        let now = bench.now();
        match self {
            Trouble::Transfers(address, kind, argument) => {
                bench.fault(Some(address), kind, argument, FOR_EVER)?;
            }
            Trouble::Some(address, kind, argument, count) => {
                bench.fault(Some(address), kind, argument, count)?
            }
            Trouble::Bus(kind, argument) => bench.fault(None, kind, argument, FOR_EVER)?,
            Trouble::SdaLow => bench.fault(None, Fault::SdaLow, 0, FOR_EVER)?,
            Trouble::McuUnplugged => bench.act(|far, _, out| far.unplug_mcu(true, out))?,
            Trouble::BrownOut => {
                bench.act(|far, now, out| far.brown_out(now, out))?;
                bench.seen(|record| record.browned_out(now));
            }
            Trouble::ImuUnplugged => bench.act(|far, _, out| far.unplug_imu(true, out))?,
            Trouble::Echo(echo) => bench.act(|far, _, out| far.echo(echo, out))?,
            Trouble::Press => bench.act(|far, _, out| far.press(true, out))?,
            Trouble::Chatter => bench.act(|far, now, out| far.chatter(now, out))?,
            Trouble::Lean(degrees) => bench.act(|far, _, _| far.lean(Some(degrees.into())))?,
            Trouble::Signal(who, signal) => scene.who(who)?.signal(signal)?,
            Trouble::GuardDies(kept) => {
                bench.send(&[Command::Persist(kept)])?;
                scene.who(Who::Guard)?.signal(Signal::KILL)?;
            }
            Trouble::Hog(priority, time) => hog(priority, time)?,
        }
        Ok(now)
    }

    /// Undoes the trouble.
    pub fn end(self, bench: &mut Bench, scene: &mut Scene, board: &str) -> io::Result<()> {
        match self {
            Trouble::Transfers(..) | Trouble::Some(..) | Trouble::Bus(..) | Trouble::SdaLow => {
                bench.send(&[Command::ClearFaults])
            }
            Trouble::McuUnplugged => bench.act(|far, _, out| far.unplug_mcu(false, out)),
            Trouble::ImuUnplugged => bench.act(|far, _, out| far.unplug_imu(false, out)),
            Trouble::Echo(_) => bench.act(|far, _, out| far.echo(Echo::Sound, out)),
            Trouble::Press | Trouble::Chatter => bench.act(|far, _, out| far.press(false, out)),
            Trouble::Lean(_) => bench.act(|far, _, _| far.lean(None)),
            Trouble::Signal(who, Signal::STOP) => scene.who(who)?.signal(Signal::CONT),
            Trouble::Signal(who, _) => scene.start_again(bench, board, who),
            Trouble::GuardDies(_) => {
                bench.send(&[Command::Persist(true)])?;
                scene.start_again(bench, board, Who::Guard)
            }
            Trouble::BrownOut | Trouble::Hog(..) => Ok(()),
        }
    }

    /// Number of failed transfers that the trouble caused; `None`: it makes no transfer fail.
    pub fn shown(self, record: &Record, since: Instant) -> Option<usize> {
        let failed = |whose: Option<u8>, errno: i32| {
            let mine = |failed: &&super::record::Failed| {
                failed.at >= since
                    && failed.errno == -errno
                    && whose.is_none_or(|a| failed.address == u16::from(a))
            };
            Some(record.failed().iter().filter(mine).count())
        };
        match self {
            Trouble::Transfers(address, kind, _) | Trouble::Some(address, kind, ..) => {
                errno(kind).and_then(|errno| failed(Some(address), errno))
            }
            Trouble::Bus(kind, _) => errno(kind).and_then(|errno| failed(None, errno)),
            Trouble::SdaLow => failed(None, TIMED_OUT),
            Trouble::McuUnplugged => failed(Some(MCU), NO_DEVICE),
            Trouble::ImuUnplugged => failed(Some(IMU), NO_DEVICE),
            _ => None,
        }
    }

    /// When the trouble first had an effect: at the first failed transfer, or at the first ping whose echo it
    /// spoils. On an idle wire, that is later than its beginning.
    pub fn first_failure(self, record: &Record, since: Instant) -> Option<Instant> {
        let whose = match self {
            Trouble::Transfers(_, kind, _) | Trouble::Some(_, kind, ..) if errno(kind).is_none() => {
                return Some(since); // this fault makes no transfer fail
            }
            Trouble::Transfers(address, ..) | Trouble::Some(address, ..) => Some(u16::from(address)),
            Trouble::Bus(..) | Trouble::SdaLow => None,
            Trouble::Echo(_) => return record.ping_after(since),
            Trouble::McuUnplugged => Some(u16::from(MCU)),
            Trouble::ImuUnplugged => Some(u16::from(IMU)),
            _ => return Some(since),
        };
        let mine = |failed: &&super::record::Failed| {
            failed.at >= since && whose.is_none_or(|address| failed.address == address)
        };
        record.failed().iter().find(mine).map(|failed| failed.at)
    }
}

/// ENXIO, EIO, EAGAIN, ETIMEDOUT.
const NO_DEVICE: i32 = 6;
const IO_ERROR: i32 = 5;
const AGAIN: i32 = 11;
const TIMED_OUT: i32 = 110;

/// The errno that the adapter returns for a transfer with this fault; `None`: no error.
fn errno(kind: Fault) -> Option<i32> {
    match kind {
        Fault::NackAddress => Some(NO_DEVICE),
        Fault::NackData => Some(IO_ERROR),
        Fault::Stuck | Fault::SdaLow | Fault::Rebind => Some(TIMED_OUT),
        Fault::ArbitrationLost => Some(AGAIN),
        Fault::StretchUs | Fault::Xor | Fault::AllOnes | Fault::Freeze => None,
    }
}

/// Runs a program that only computes, with the FIFO priority `priority`, and waits until it has ended.
fn hog(priority: u8, time: Span) -> io::Result<()> {
    let myself = std::env::current_exe()?;
    let ms = (time.as_nanos() / 1_000_000).to_string();
    Program::new("chrt")
        .args(["--fifo", &priority.to_string()])
        .arg(myself)
        .args(["hog", &ms])
        .stdin(Stdio::null())
        .spawn()?
        .wait()?;
    Ok(())
}

/// The program that `hog` runs: computes for `ms` milliseconds.
pub fn run_hog(ms: u64) {
    use ganglion::base::time::{Clock, MonotonicClock};
    let until = MonotonicClock.now() + Span::from_millis(ms);
    while MonotonicClock.now() < until {
        std::hint::spin_loop();
    }
}

/// Background load: the processes of hackbench, which send messages to each other without end. It can be
/// paused, because each virtual second of it takes several seconds on the host.
pub struct Load(std::process::Child);

impl Load {
    /// Starts the load in its own process group.
    pub fn start() -> io::Result<Load> {
        let child = Program::new("hackbench")
            .args(["--loops", "100000000", "--groups", "2", "--fds", "4"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Load(child))
    }

    /// Resumes or pauses the load.
    pub fn work(&self, on: bool) -> io::Result<()> {
        let signal = if on { Signal::CONT } else { Signal::STOP };
        Ok(kill_process_group(Pid::from_child(&self.0), signal)?)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Kill the whole group: a killed hackbench leaves its senders and receivers behind.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}
