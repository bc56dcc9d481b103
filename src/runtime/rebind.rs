//! The process that rebinds the drivers of I2C adapters for a runtime that lacks the permission: one thread
//! that waits for a request, lets the [`Rebinder`] of its board decide and act, and answers. It runs as root
//! so that the runtime need not. It opens no bus, drives no line and writes only a driver's two files
//! `bind` and `unbind`.

use crate::base::time::{Clock, Span};
use crate::hardware::bus::linux::{Grant, LONGEST_REQUEST, Rebinder};
use crate::runtime::guard::AllowedUser;
use crate::system::seqpacket::{Received, next_of, receive, send_to, wait_for};
use std::os::fd::OwnedFd;

/// Longest wait for the request of a caller that has connected.
const REQUEST_WITHIN: Span = Span::from_millis(100);
/// Longest wait without a caller; callers and signals end it earlier.
const IDLE: Span = Span::from_millis(60_000);

/// Serves callers until `end` becomes readable. `report` gets each answer to an allowed caller; other callers
/// get no answer.
pub fn serve(
    rebinder: &mut Rebinder,
    listener: &OwnedFd,
    end: &OwnedFd,
    allowed: AllowedUser,
    clock: &dyn Clock,
    mut report: impl FnMut(Grant),
) {
    loop {
        wait_for(&[listener, end], IDLE);
        if wait_for(&[end], Span::ZERO) {
            return;
        }
        // Checks for the end after each caller: an endless stream of callers must not keep the process alive.
        if let Some(caller) = next_of(listener).filter(|caller| allowed.is_at(caller))
            && let Some(grant) = answer(rebinder, &caller, clock)
        {
            report(grant);
        }
    }
}

fn answer(rebinder: &mut Rebinder, caller: &OwnedFd, clock: &dyn Clock) -> Option<Grant> {
    let mut request = [0; LONGEST_REQUEST + 1]; // one extra byte, to detect a request that is too long
    wait_for(&[caller], REQUEST_WITHIN);
    let Received::Message(length) = receive(caller, &mut request) else { return None };
    let grant = rebinder.grant(&request[..length.min(request.len())], clock);
    send_to(caller, &[grant as u8]);
    Some(grant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::{Board, I2cNode};
    use crate::base::time::MonotonicClock;
    use crate::hardware::bus::linux::{LinuxHardware, REBIND_SOCKET, Reach};
    use crate::hardware::bus::{Hardware, Measure};
    use crate::system::seqpacket::listen_at;
    use std::fs;
    use std::os::unix::net::UnixStream;
    use std::path::{Path, PathBuf};

    const DRIVER: &str = "sys/bus/platform/drivers/i2c_designware";

    /// The files of a Pi 5's bus that the code reads; `files`: the driver's files exist and are writable.
    fn machine(name: &str, files: bool) -> PathBuf {
        let root = std::env::temp_dir().join(format!("ganglion-{name}-{}", std::process::id()));
        let device = root.join("sys/devices/platform/1f00074000.i2c");
        for folder in
            [&device.join("i2c-1"), &root.join(DRIVER), &root.join("dev"), &root.join("sys/bus/i2c/devices")]
        {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(root.join("dev/i2c-1"), "").unwrap();
        let link = |from: &Path, to: &str| std::os::unix::fs::symlink(to, from).unwrap();
        link(&device.join("driver"), "../../../bus/platform/drivers/i2c_designware");
        link(&root.join("sys/bus/i2c/devices/i2c-1"), "../../../devices/platform/1f00074000.i2c/i2c-1");
        for file in ["bind", "unbind"].iter().filter(|_| files) {
            fs::write(root.join(DRIVER).join(file), "").unwrap();
        }
        root
    }

    fn board(rebind: bool) -> Board {
        let mut board = crate::deploy::board::built_in("picarx-v4").unwrap().unwrap().board;
        board.i2c[0].node = I2cNode::Adapter("1f00074000.i2c".to_string());
        board.i2c[0].recovery.rebind = rebind;
        board
    }

    /// Two views of one machine: root's, and that of the runtime's user, who cannot write the driver's files.
    #[test]
    fn an_unprivileged_runtime_gets_only_its_own_adapter_rebound() {
        let (roots, users) = (machine("rebind-root", true), machine("rebind-user", false));
        let path = users.join(REBIND_SOCKET.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let asked = |board: &Board| LinuxHardware::with_root(board, &users).unwrap().reach(0).unwrap();
        assert_eq!(asked(&board(false)), Reach::NotWanted);
        assert!(matches!(asked(&board(true)), Reach::Not(_)), "no process listens yet");

        let (place, listener) = listen_at(&path).unwrap();
        let (end, go) = UnixStream::pair().unwrap();
        let mut rebinder = Rebinder::new(&board(true), &roots);
        let server = std::thread::spawn(move || {
            let mut answers = Vec::new();
            let report = |grant| answers.push(grant);
            serve(&mut rebinder, &listener, &end.into(), AllowedUser::own(), &MonotonicClock, report);
            answers
        });
        assert_eq!(asked(&board(true)), Reach::ByAnother);
        let mut repair = LinuxHardware::with_root(&board(true), &users).unwrap().repair(0).unwrap();
        assert_eq!(repair.take(Measure::Rebind), Ok(()));
        for file in ["unbind", "bind"] {
            assert_eq!(
                fs::read_to_string(roots.join(DRIVER).join(file)).unwrap(),
                "1f00074000.i2c",
                "{file}"
            );
        }
        assert!(repair.take(Measure::Rebind).is_err(), "too soon");
        drop(go);
        // Two queries (one of them when the repair was opened) and two attempts to rebind.
        let answers = server.join().unwrap();
        assert_eq!(answers, [Grant::Yes, Grant::Yes, Grant::Yes, Grant::TooSoon]);
        drop((place, repair));
        fs::remove_dir_all(&roots).unwrap();
        fs::remove_dir_all(&users).unwrap();
    }
}
