//! Why the heartbeat thread has its own file descriptor table: the peer of its connection notices that the
//! process was killed before the kernel has freed the process's memory.

use crate::folder::Folder;
use ganglion::system::rt::descriptors::own_table;
use rustix::event::epoll;
use rustix::process::nice;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const NAME: &str = "guard::killed::a_killed_process_is_noticed_before_its_memory_is_freed";
/// In the environment of the process that is killed: the socket to connect to.
const SOCKET: &str = "GANGLION_TEST_KILLED_SOCKET";
/// In the environment of the process that is killed: whether its thread has its own descriptor table.
const OWN: &str = "GANGLION_TEST_KILLED_OWN";

/// Memory of the process. Freeing this much takes far longer than ending a thread.
const MEMORY: usize = 128 << 20;
const KILLS: usize = 8;

/// The process to kill: it has memory, threads, and three connections, of which one thread opens the second.
fn wait_to_be_killed(socket: &str, own: bool) {
    let mut before = UnixStream::connect(socket).expect("the parent listens");
    before.write_all(b"p").expect("said");
    let (connected, is_connected) = channel();
    let at = socket.to_string();
    thread::spawn(move || {
        if own {
            own_table(&[]).expect("a kernel from 5.9 on");
        }
        let mut connection = UnixStream::connect(at).expect("the parent listens");
        connection.write_all(b"t").expect("said");
        connected.send(()).expect("the process waits");
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    });
    is_connected.recv().expect("the thread connects");
    let memory = vec![1_u8; MEMORY];
    // Like the heartbeat thread on a robot, the thread has a higher priority than all others. It cannot raise
    // its own without privileges, so the others lower theirs. The last thread to end frees the memory.
    nice(5).expect("every program may lower its priority");
    (0..30).for_each(|_| drop(thread::spawn(|| thread::sleep(Duration::from_secs(600)))));
    let mut after = UnixStream::connect(socket).expect("the parent listens");
    after.write_all(if memory[MEMORY - 1] == 1 { b"p" } else { b"-" }).expect("said");
    thread::sleep(Duration::from_secs(600));
}

/// Kills one such process; returns whether the thread's connection ended first.
fn thread_ends_first(own: bool) -> bool {
    let folder = Folder::new("killed");
    let socket = folder.join("socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let mut child = Command::new(std::env::current_exe().expect("this file"))
        .args(["--exact", NAME, "--test-threads=1", "--nocapture"])
        .env(SOCKET, &socket)
        .env(OWN, own.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let connections = [0, 1, 2].map(|_| {
        let (mut connection, _) = listener.accept().expect("it connects");
        let mut name = [0];
        connection.read_exact(&mut name).expect("it sends its name");
        let data = epoll::EventData::new_u64(name[0].into());
        epoll::add(&ready, &connection, data, epoll::EventFlags::RDHUP).expect("watched");
        connection
    });
    child.kill().expect("it runs");
    // The kernel lists ready files in the order in which they became ready, however late this thread is.
    let mut first = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    while epoll::wait(&ready, &mut first, None).is_ok_and(|count| count == 0) {}
    child.wait().expect("it has ended");
    drop(connections);
    let _ = std::fs::remove_file(&socket);
    { first[0].data }.u64() == u64::from(b't')
}

#[test]
fn a_killed_process_is_noticed_before_its_memory_is_freed() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        let own = std::env::var(OWN).is_ok_and(|own| own == "true");
        return wait_to_be_killed(&socket.to_string_lossy(), own);
    }
    let first = |own| (0..KILLS).filter(|_| thread_ends_first(own)).count();
    // The thread may happen to end last; then it frees the memory itself.
    let own = first(true);
    assert!(own > KILLS / 2, "the thread's connection ended first in only {own} of {KILLS} kills");
    // Without its own table, the thread's connection is closed together with the other two, whose descriptor
    // numbers are below and above its own.
    assert_eq!(first(false), 0);
}
