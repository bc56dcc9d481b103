//! A descriptor table for one thread alone. The kernel closes the files of such a thread when that thread
//! dies, not only when the last thread of the process is gone and all its memory is freed. So the other end
//! of a connection learns at once that a process was killed.

#![allow(unsafe_code)] // libc's close_range: rustix does not have it

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Maximum number of descriptors that a thread keeps, including the three standard streams.
const MOST: usize = 16;

/// Gives the calling thread its own table, in which only the standard streams and `keep` are open. Other
/// files stay open for the other threads only, and files that they open later are not visible here.
///
/// Call it first thing in a thread. From then on the thread must neither use nor close a descriptor that it
/// did not open or `keep`, and must not pass one to another thread, where its number means nothing.
///
/// # Errors
///
/// `keep` has more than 13 descriptors, or `close_range` (Linux 5.9) is missing or forbidden; nothing has
/// changed then.
pub fn own_table(keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut open: heapless::Vec<u32, MOST> = (0..3).collect();
    for descriptor in keep {
        let number = descriptor.as_raw_fd().cast_unsigned();
        open.push(number).map_err(|_| io::Error::other("too many descriptors to keep"))?;
    }
    open.sort_unstable();
    let mut first = 0;
    for number in open {
        close(first, number.checked_sub(1))?;
        first = number + 1;
    }
    close(first, Some(u32::MAX))
}

/// Closes the descriptors from `first` to `last`, if any, in this thread's own table.
fn close(first: u32, last: Option<u32>) -> io::Result<()> {
    let Some(last) = last.filter(|last| *last >= first) else { return Ok(()) };
    // SAFETY: three plain numbers. With CLOSE_RANGE_UNSHARE the kernel copies the table first if it is
    // shared, so that no descriptor of another thread is closed; the caller uses only those that were kept.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_UNSHARE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::thread;

    fn is_closed(stream: &UnixStream) -> bool {
        let mut waits = [PollFd::new(stream, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut waits, Some(&at_once)).is_ok_and(|found| found == 1)
    }

    #[test]
    fn kept_descriptors_work_and_the_others_are_unshared() {
        let (mut kept, mut kept_far) = UnixStream::pair().unwrap();
        let (other, other_far) = UnixStream::pair().unwrap();
        let (ready, is_ready) = channel();
        let (go, may_go) = channel::<()>();
        let thread = thread::spawn(move || {
            let done = own_table(&[kept.as_fd()]);
            ready.send(done.is_ok()).unwrap();
            may_go.recv().unwrap();
            kept.write_all(b"here").unwrap();
            drop(kept);
            done
        });
        assert!(is_ready.recv().unwrap());
        assert!(!is_closed(&other_far));
        drop(other);
        assert!(is_closed(&other_far), "the thread kept a descriptor that it was not told to keep");
        go.send(()).unwrap();
        thread.join().unwrap().unwrap();
        let mut heard = [0; 4];
        kept_far.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"here");
    }

    #[test]
    fn descriptors_a_thread_opened_close_with_it() {
        let socket = std::env::temp_dir().join(format!("ganglion-table-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let at = socket.clone();
        // No code closes the connection: the kernel does it when the thread is gone.
        let thread = thread::spawn(move || {
            own_table(&[]).map(|()| std::mem::forget(UnixStream::connect(at).unwrap()))
        });
        let (far, _) = listener.accept().unwrap();
        thread.join().unwrap().unwrap();
        std::fs::remove_file(&socket).unwrap();
        let mut nothing = [0; 1];
        assert_eq!((&far).read(&mut nothing).unwrap(), 0);
    }
}
