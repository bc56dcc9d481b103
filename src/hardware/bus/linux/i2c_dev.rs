//! The kernel's I2C character device, `/dev/i2c-N`: each transfer is one ioctl.
//!
//! The interface is the kernel's `linux/i2c.h` and `linux/i2c-dev.h`. A transfer does not retry, log or
//! allocate.
#![allow(unsafe_code)]

use super::errors::fault_of;
use crate::base::fault::BusFault;
use crate::base::time::Span;
use crate::hardware::bus::Op;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Most operations per transfer; the drivers here use at most two. The kernel's limit of 42
/// (I2C_RDWR_IOCTL_MAX_MSGS) would take too much stack.
const MAX_OPS: usize = 8;
/// Most bytes per operation that the kernel accepts (i2c-dev.c).
const MAX_BYTES: usize = 8192;
/// The flag of a read message; a write has none.
const I2C_M_RD: u16 = 0x0001;

// ioctl requests to the adapter.
const I2C_RETRIES: u64 = 0x0701;
const I2C_TIMEOUT: u64 = 0x0702;
const I2C_FUNCS: u64 = 0x0705;
const I2C_RDWR: u64 = 0x0707;
/// The adapter transfers plain I2C messages, not only SMBus commands.
pub(super) const I2C_FUNC_I2C: u64 = 0x0000_0001;
/// The kernel's unit for an adapter's timeout.
const TIMEOUT_UNIT: Span = Span::from_millis(10);

/// `struct i2c_msg`: one message, and the bytes that it borrows.
#[repr(C)]
#[derive(Debug)]
struct Message<'m> {
    address: u16,
    flags: u16,
    length: u16,
    bytes: *mut u8,
    borrowed: PhantomData<&'m mut [u8]>,
}

impl<'m> Message<'m> {
    /// A message for 7-bit `address`; `None` if it is empty or longer than the kernel accepts.
    fn new(address: u8, op: &'m mut Op<'_>) -> Option<Message<'m>> {
        let (flags, length, bytes) = match op {
            // The kernel only reads the buffer of a message without I2C_M_RD.
            Op::Write(bytes) => (0, bytes.len(), bytes.as_ptr().cast_mut()),
            Op::Read(bytes) => (I2C_M_RD, bytes.len(), bytes.as_mut_ptr()),
        };
        // An empty message is SMBus Quick, which some chips treat as a command.
        if length == 0 || length > MAX_BYTES {
            return None;
        }
        let length = u16::try_from(length).ok()?;
        Some(Message { address: u16::from(address), flags, length, bytes, borrowed: PhantomData })
    }
}

/// `struct i2c_rdwr_ioctl_data`: the messages of one transfer.
#[repr(C)]
struct Transfer<'m> {
    messages: *mut Message<'m>,
    count: u32,
}

/// Opens the adapter at `node`.
pub(super) fn open(node: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(node)
}

/// Sets the adapter's timeout, rounded up to [`TIMEOUT_UNIT`].
pub(super) fn set_timeout(device: &File, timeout: Span) -> io::Result<()> {
    set(device, I2C_TIMEOUT, timeout_units(timeout))
}

/// Sets how often the kernel itself repeats a transfer after a lost arbitration.
pub(super) fn set_retries(device: &File, retries: u64) -> io::Result<()> {
    set(device, I2C_RETRIES, retries)
}

/// `timeout` in [`TIMEOUT_UNIT`]s, rounded up and at least one: with zero, transfers would time out at once.
fn timeout_units(timeout: Span) -> u64 {
    timeout.as_nanos().div_ceil(TIMEOUT_UNIT.as_nanos()).max(1)
}

fn set(device: &File, request: u64, value: u64) -> io::Result<()> {
    // SAFETY: both requests take a number by value, and `device` is open.
    match unsafe { libc::ioctl(device.as_raw_fd(), request as _, value as libc::c_ulong) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The adapter's functions (I2C_FUNC_...).
pub(super) fn functions(device: &File) -> io::Result<u64> {
    let mut functions: libc::c_ulong = 0;
    // SAFETY: I2C_FUNCS writes one unsigned long to the address that it is given, which is `functions`.
    match unsafe { libc::ioctl(device.as_raw_fd(), I2C_FUNCS as _, &mut functions) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(functions as u64), // an unsigned long has 32 bits on a 32-bit Pi
    }
}

/// Runs the whole transfer as one I2C_RDWR: repeated starts between its messages, STOP after the last.
pub(super) fn transfer(device: &File, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
    let mut messages = messages(address, ops)?;
    let asked = messages.len();
    outcome(read_write(device, &mut messages), asked)
}

/// One message per operation, each with its address.
fn messages<'m>(address: u8, ops: &'m mut [Op<'_>]) -> Result<heapless::Vec<Message<'m>, MAX_OPS>, BusFault> {
    let mut messages = heapless::Vec::new();
    for op in ops {
        let message = Message::new(address, op).ok_or(BusFault::Unsupported)?;
        messages.push(message).map_err(|_| BusFault::Unsupported)?;
    }
    if messages.is_empty() { Err(BusFault::Unsupported) } else { Ok(messages) }
}

/// Returns the number of messages that were transferred.
fn read_write(device: &File, messages: &mut [Message<'_>]) -> io::Result<usize> {
    let count = u32::try_from(messages.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let transfer = Transfer { messages: messages.as_mut_ptr(), count };
    // SAFETY: I2C_RDWR reads the `count` messages that `transfer` points to, and for each of them reads or
    // writes `length` bytes, all within what `Message::new` borrowed: exclusively where I2C_M_RD says that
    // the kernel writes. Both structs have the layout of the kernel's headers, and nothing is kept.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), I2C_RDWR as _, &transfer) };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

/// The result of a transfer of `asked` messages.
fn outcome(done: io::Result<usize>, asked: usize) -> Result<(), BusFault> {
    match done {
        Ok(done) if done == asked => Ok(()),
        Ok(_) => Err(BusFault::Io),
        Err(failure) => Err(fault_of(&failure)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn timeouts_are_rounded_up() {
        let units = |ms| timeout_units(Span::from_millis(ms));
        assert_eq!((units(0), units(1), units(10), units(11), units(20), units(1000)), (1, 1, 1, 2, 2, 100));
    }

    #[test]
    fn the_structs_have_the_layout_of_the_kernels_headers() {
        let pointer = size_of::<usize>();
        // __u16 addr, __u16 flags, __u16 len, __u8 *buf: the pointer is aligned to its own size.
        let message = [offset_of!(Message<'_>, address), offset_of!(Message<'_>, flags)];
        assert_eq!(message, [0, 2]);
        assert_eq!([offset_of!(Message<'_>, length), offset_of!(Message<'_>, bytes)], [4, 8]);
        assert_eq!(size_of::<Message<'_>>(), 8 + pointer);
        // struct i2c_msg *msgs, __u32 nmsgs.
        assert_eq!([offset_of!(Transfer<'_>, messages), offset_of!(Transfer<'_>, count)], [0, pointer]);
        assert_eq!(size_of::<Transfer<'_>>(), 2 * pointer);
    }

    #[test]
    fn a_message_has_its_address_direction_length_and_bytes() {
        let written = [0x3B, 0x01, 0x02];
        let mut read = [0; 14];
        let places = [written.as_ptr(), read.as_ptr()];
        let mut ops = [Op::Write(&written), Op::Read(&mut read)];
        let messages = messages(0x68, &mut ops).expect("two messages");
        let fields = messages.iter().map(|m| (m.address, m.flags, m.length, m.bytes.cast_const()));
        assert_eq!(fields.collect::<Vec<_>>(), [(0x68, 0, 3, places[0]), (0x68, 1, 14, places[1])]);
    }

    #[test]
    fn a_message_has_between_one_byte_and_the_kernels_most() {
        let count = |ops: &mut [Op<'_>]| messages(0x68, ops).map(|messages| messages.len());
        let unsupported = Err(BusFault::Unsupported);
        assert_eq!(count(&mut [Op::Write(&[])]), unsupported);
        assert_eq!(count(&mut [Op::Read(&mut [])]), unsupported);
        assert_eq!(count(&mut [Op::Write(&[0x3B]), Op::Read(&mut [])]), unsupported);
        for (length, expected) in [(1, Ok(1)), (MAX_BYTES, Ok(1)), (MAX_BYTES + 1, unsupported)] {
            assert_eq!(count(&mut [Op::Write(&vec![0; length])]), expected, "{length} bytes written");
            assert_eq!(count(&mut [Op::Read(&mut vec![0; length])]), expected, "{length} bytes read");
        }
        // 65536 + 1 would be one byte if the length were cut to 16 bits.
        assert_eq!(count(&mut [Op::Write(&vec![0; 65_537])]), unsupported);
    }

    #[test]
    fn a_transfer_has_between_one_message_and_eight() {
        let count = |number| {
            let mut ops: Vec<Op<'_>> = (0..number).map(|_| Op::Write(&[0])).collect();
            messages(0x68, &mut ops).map(|messages| messages.len())
        };
        assert_eq!([count(1), count(2), count(MAX_OPS)], [Ok(1), Ok(2), Ok(MAX_OPS)]);
        assert_eq!([count(0), count(MAX_OPS + 1)], [Err(BusFault::Unsupported); 2]);
    }

    #[test]
    fn a_transfer_is_done_only_if_all_its_messages_are() {
        assert_eq!(outcome(Ok(2), 2), Ok(()));
        assert_eq!([outcome(Ok(0), 2), outcome(Ok(1), 2)], [Err(BusFault::Io); 2]);
    }

    #[test]
    fn an_error_number_becomes_its_kind_of_fault() {
        let kind = |number| outcome(Err(io::Error::from_raw_os_error(number)), 1);
        // The kernel's error numbers; 0 and 9999 are not error numbers and become the general fault.
        let kinds = [
            (6, BusFault::Nack),
            (121, BusFault::Nack),
            (11, BusFault::ArbitrationLost),
            (110, BusFault::TimedOut),
            (95, BusFault::Unsupported),
            (16, BusFault::Unsupported),
            (19, BusFault::Absent),
            (5, BusFault::Io),
            (0, BusFault::Io),
            (9999, BusFault::Io),
        ];
        for (number, fault) in kinds {
            assert_eq!(kind(number), Err(fault), "errno {number}");
        }
    }

    #[test]
    fn the_kernels_own_error_number_comes_back() {
        // A device that is not an adapter rejects the request (ENOTTY).
        let null = open(Path::new("/dev/null")).expect("a device");
        let failure = |done: io::Result<()>| done.expect_err("no adapter").raw_os_error();
        let mut bytes = [7; 2];
        let mut ops = [Op::Write(&[0x00]), Op::Read(&mut bytes)];
        let sent = messages(0x68, &mut ops).map(|mut sent| {
            assert_eq!(failure(read_write(&null, &mut sent).map(drop)), Some(libc::ENOTTY));
        });
        assert_eq!(sent, Ok(()));
        assert_eq!(transfer(&null, 0x68, &mut ops), Err(BusFault::Unsupported));
        assert_eq!(bytes, [7; 2], "nothing was read");
        assert_eq!(failure(functions(&null).map(drop)), Some(libc::ENOTTY));
        assert_eq!(failure(set_timeout(&null, Span::ZERO)), Some(libc::ENOTTY));
        let missing = open(Path::new("/dev/no-such-adapter")).expect_err("no device");
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
    }
}
