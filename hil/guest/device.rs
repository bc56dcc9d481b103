//! `/dev/hilplant` as a [`Port`]: each open file has its own queue of events. Needs the kernel module; does
//! not interpret the events.

use super::wire::{COMMAND_BYTES, Command, EVENT_BYTES, Event, Port};
use ganglion::base::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

/// Events fetched in one read: more would only wait here instead of in the kernel.
const AT_ONCE: usize = 64;
/// Commands sent in one write; the kernel module accepts up to 512.
const COMMANDS: usize = 64;

/// An open plant device.
pub struct Device {
    file: OwnedFd,
    fetched: VecDeque<Event>,
}

impl Device {
    /// Opens the device; its queue of events starts now.
    pub fn open() -> io::Result<Device> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open("/dev/hilplant", flags, Mode::empty())?;
        Ok(Device { file, fetched: VecDeque::with_capacity(AT_ONCE) })
    }

    /// Whether something can be read within `wait`.
    fn is_readable(&self, wait: Span) -> io::Result<bool> {
        let timeout = Timespec {
            tv_sec: (wait.as_nanos() / 1_000_000_000) as i64,
            tv_nsec: (wait.as_nanos() % 1_000_000_000) as _,
        };
        let mut waits = [PollFd::new(&self.file, PollFlags::IN)];
        match poll(&mut waits, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn fetch(&mut self) -> io::Result<()> {
        let mut bytes = [0; AT_ONCE * EVENT_BYTES];
        match rustix::io::read(&self.file, &mut bytes) {
            Ok(length) => {
                self.fetched.extend(bytes[..length].as_chunks().0.iter().map(Event::decode));
                Ok(())
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Port for Device {
    fn send(&mut self, commands: &[Command]) -> io::Result<()> {
        for some in commands.chunks(COMMANDS) {
            let bytes: Vec<u8> = some.iter().flat_map(Command::encode).collect();
            let written = rustix::io::write(&self.file, &bytes)?;
            if written != some.len() * COMMAND_BYTES {
                return Err(io::Error::other("the plant device accepted only some of the commands"));
            }
        }
        Ok(())
    }

    fn next(&mut self, wait: Span) -> io::Result<Option<Event>> {
        if self.fetched.is_empty() && (wait == Span::ZERO || self.is_readable(wait)?) {
            self.fetch()?;
        }
        Ok(self.fetched.pop_front())
    }
}
