//! A socket path on which one process at a time listens. A lock beside the socket, held for the life of the
//! process, decides which process that is; only its holder replaces what a dead process left behind. The lock
//! file is never removed: otherwise a third process could lock a new file of the same name.

use crate::system::rt::flock::{Flock, LockError};
use rustix::fs::{Mode, OFlags, chmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Owner and group may connect.
const SOCKET_MODE: u32 = 0o660;
/// No process reads the file; the group may open it to see which process holds the lock.
const LOCK_MODE: u32 = 0o660;

/// A socket path that this process owns until the value is dropped.
#[derive(Debug)]
pub struct SocketLock {
    path: PathBuf,
    bound: bool,
    _lock: Flock,
}

impl SocketLock {
    /// Takes the lock for `path`.
    ///
    /// # Errors
    ///
    /// `AddrInUse` with the process's name if another process has the lock. Otherwise the system's error. A
    /// symbolic link in place of the lock is not ours and is refused.
    pub fn take(path: &Path) -> io::Result<SocketLock> {
        let beside = lock_of(path);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::open(&beside, flags, Mode::from_raw_mode(LOCK_MODE));
        let file = opened.map_err(|error| at_lock(&beside, error.into()))?;
        match Flock::take(file) {
            Ok(lock) => Ok(SocketLock { path: path.to_path_buf(), bound: false, _lock: lock }),
            Err(LockError::Held(holder)) => {
                Err(io::Error::new(io::ErrorKind::AddrInUse, format!("{holder} is already listening there")))
            }
            Err(LockError::System(error)) => Err(at_lock(&beside, error)),
        }
    }

    /// Listens at the path, without blocking; the owner and the group may connect. Replaces a socket that a
    /// dead process left behind. Does not replace one on which a process listens without holding the lock,
    /// nor anything that is not a socket.
    pub fn listen(&mut self, kind: SocketType, backlog: i32) -> io::Result<OwnedFd> {
        let address = SocketAddrUnix::new(&self.path)?;
        if is_socket(&self.path) && is_left_behind(&address, kind)? {
            std::fs::remove_file(&self.path)?;
        }
        let socket = open(kind)?;
        bind(&socket, &address)?;
        self.bound = true;
        // Set before the socket listens: until then connections are refused.
        chmod(&self.path, Mode::from_raw_mode(SOCKET_MODE))?;
        listen(&socket, backlog)?;
        Ok(socket)
    }
}

impl Drop for SocketLock {
    fn drop(&mut self) {
        if self.bound {
            let _ = std::fs::remove_file(&self.path); // the next process replaces it in any case
        }
    }
}

/// Path of the lock for the socket at `path`.
fn lock_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

fn at_lock(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("its lock {}: {error}", path.display()))
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

fn is_left_behind(address: &SocketAddrUnix, kind: SocketType) -> io::Result<bool> {
    match connect(open(kind)?, address) {
        Err(Errno::CONNREFUSED) => Ok(true),
        // Another kind of socket, or one whose queue is full: some process owns it.
        Ok(()) | Err(_) => Ok(false),
    }
}

/// A Unix socket that never blocks.
pub(super) fn open(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Barrier};

    /// A temporary path; whatever is there is removed on drop.
    struct Spot(PathBuf);

    impl Spot {
        fn new(name: &str) -> Spot {
            Spot(std::env::temp_dir().join(format!("ganglion-place-{name}-{}", std::process::id())))
        }
        fn listen(&self) -> io::Result<(SocketLock, OwnedFd)> {
            let mut place = SocketLock::take(&self.0)?;
            let socket = place.listen(SocketType::STREAM, 4)?;
            Ok((place, socket))
        }
    }

    impl Drop for Spot {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
            let _ = std::fs::remove_file(lock_of(&self.0));
        }
    }

    #[test]
    fn only_one_of_two_simultaneous_starts_listens() {
        const ROUNDS: u32 = 10_000;
        let spot = Arc::new(Spot::new("race"));
        let (barrier, owners) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU32::new(0)));
        let starters = [0, 1].map(|starter| {
            let (spot, barrier, owners) = (spot.clone(), barrier.clone(), owners.clone());
            std::thread::spawn(move || {
                for round in 0..ROUNDS {
                    if starter == 0 {
                        // As a killed process leaves it: closed, not removed.
                        drop(UnixListener::bind(&spot.0).unwrap());
                        owners.store(0, Ordering::SeqCst);
                    }
                    barrier.wait();
                    let listens = spot.listen();
                    owners.fetch_add(u32::from(listens.is_ok()), Ordering::SeqCst);
                    barrier.wait();
                    assert_eq!(owners.load(Ordering::SeqCst), 1, "owners in round {round}");
                    if let Err(error) = &listens {
                        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
                    }
                    drop(listens);
                    barrier.wait();
                }
            })
        });
        starters.into_iter().for_each(|starter| starter.join().unwrap());
    }

    #[test]
    fn the_holder_is_named_and_leaves_only_its_lock_file() {
        let spot = Spot::new("named");
        let living = spot.listen().unwrap();
        assert_eq!(std::fs::metadata(&spot.0).unwrap().permissions().mode() & 0o777, SOCKET_MODE);
        let refused = spot.listen().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(refused.to_string().contains(&format!("({})", std::process::id())), "{refused}");
        UnixStream::connect(&spot.0).unwrap();
        drop(living);
        assert!(!spot.0.exists() && lock_of(&spot.0).exists());
        spot.listen().unwrap();
    }

    #[test]
    fn a_foreign_listener_or_plain_file_is_left_alone() {
        let spot = Spot::new("older");
        let older = UnixListener::bind(&spot.0).unwrap();
        assert_eq!(spot.listen().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(older);
        spot.listen().unwrap();
        std::fs::write(&spot.0, "a file").unwrap();
        assert!(spot.listen().is_err());
        assert_eq!(std::fs::read(&spot.0).unwrap(), b"a file");
    }

    #[test]
    fn a_symbolic_link_in_place_of_the_lock_is_not_followed() {
        let spot = Spot::new("link");
        let target = Spot::new("target");
        std::os::unix::fs::symlink(&target.0, lock_of(&spot.0)).unwrap();
        assert!(spot.listen().is_err());
        assert!(!target.0.exists());
    }
}
