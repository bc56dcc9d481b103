//! The server: accepts viewers and passes the robot's updates to each. It never waits for any of them.

use super::channels::{Channels, Followed};
use super::protocol::{advertise, answers_again, server_info, silent};
use super::viewer::serve;
use crate::base::time::Instant;
use crate::runtime::control::Status;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// Maximum simultaneous viewers; each costs a thread.
const MOST_VIEWERS: usize = 8;
/// Maximum number of updates queued for a viewer: two seconds of them. Older ones are of no use to a live
/// viewer.
const QUEUE: usize = 20;

/// A server's counters.
#[derive(Debug, Default)]
pub struct Counts {
    /// Viewers that have connected and completed the handshake.
    pub viewers: AtomicU64,
    /// Viewers that were turned away, because they speak another protocol or there were too many.
    pub refused: AtomicU64,
    /// Messages that were sent.
    pub messages: AtomicU64,
    /// Updates dropped because a viewer was too slow.
    pub dropped: AtomicU64,
}

/// The first messages to a viewer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hello {
    pub info: String,
    pub channels: String,
}

/// The messages of one moment, by channel.
pub(super) struct Batch {
    pub time_ns: u64,
    pub messages: [Option<Vec<u8>>; Channels::COUNT],
}

/// An update for viewers.
#[derive(Clone)]
pub(super) enum News {
    Batch(Arc<Batch>),
    /// For all viewers, whatever they have subscribed to.
    Notice(Arc<str>),
}

/// The server.
pub struct Server {
    listener: TcpListener,
    session: String,
    /// How often the robot or its run has changed; part of the session identifier that viewers receive.
    runs: u64,
    hello: Hello,
    viewers: Vec<Sender<News>>,
    /// Number of threads that serve viewers.
    serving: Arc<AtomicUsize>,
    counts: Arc<Counts>,
    /// Whether the robot did not answer the last request.
    silent: bool,
    /// What is known of the robot.
    followed: Followed,
    /// Number of slots that the robot had run at the last status.
    slots: u64,
}

/// Removes a thread from the count of serving threads when the thread ends, also after a panic.
struct Serving(Arc<AtomicUsize>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    /// Listens on `address` for viewers of the robot with this status. `session` differs from server to
    /// server.
    pub fn listen(address: SocketAddr, status: &Status, session: &str) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let channels = advertise(&Channels::of(status).advertised());
        let hello = Hello { info: server_info(&status.board, session), channels };
        let (serving, counts) = Default::default();
        let (viewers, followed) = (Vec::new(), Followed::new(status.shape.clone()));
        let session = session.to_string();
        Ok(Server {
            listener,
            session,
            runs: 0,
            hello,
            viewers,
            serving,
            counts,
            silent: false,
            followed,
            slots: 0,
        })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The server's counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Accepts waiting viewers. Returns whether any viewer is being served. While none is, nothing follows
    /// the robot, so the path begins anew with the next one.
    pub fn accept(&mut self) -> io::Result<bool> {
        if self.serving.load(Ordering::Relaxed) == 0 {
            self.followed.scene.forget_path();
        }
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The viewer has already given up.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.serving.load(Ordering::Relaxed) > 0)
    }

    fn admit(&mut self, stream: TcpStream) -> io::Result<()> {
        if self.serving.load(Ordering::Relaxed) >= MOST_VIEWERS {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Ok(()); // the connection is closed
        }
        let (sender, news): (Sender<News>, Receiver<News>) = crossbeam_channel::bounded(QUEUE);
        self.serving.fetch_add(1, Ordering::Relaxed);
        let serving = Serving(self.serving.clone());
        let (hello, counts) = (self.hello.clone(), self.counts.clone());
        thread::Builder::new().name("viewer".into()).spawn(move || {
            let _serving = serving;
            let mut is_greeted = false;
            let greeted = || {
                is_greeted = true;
                counts.viewers.fetch_add(1, Ordering::Relaxed);
            };
            match serve(stream, &hello, &news, &counts, greeted) {
                Ok(end) => log::debug!("a viewer's connection ended: {end:?}"),
                Err(error) => log::debug!("a viewer's connection failed: {error}"),
            }
            if !is_greeted {
                counts.refused.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        self.viewers.push(sender);
        Ok(())
    }

    /// Passes on the robot's status as of `now`. If the robot or its run has changed, the viewers are
    /// disconnected: they reconnect, get the new channels, and discard what they drew of the earlier session.
    pub fn show(&mut self, status: &Status, now: Instant) {
        let channels = advertise(&Channels::of(status).advertised());
        let is_new_run = std::mem::replace(&mut self.slots, status.slots_run) > status.slots_run;
        if is_new_run || channels != self.hello.channels {
            self.runs += 1;
            let info = server_info(&status.board, &format!("{}-{}", self.session, self.runs));
            self.hello = Hello { info, channels };
            self.viewers.clear();
            self.followed = Followed::new(status.shape.clone());
        }
        if std::mem::take(&mut self.silent) {
            self.tell(&News::Notice(answers_again().into()));
        }
        let batch =
            Batch { time_ns: now.as_nanos(), messages: Channels::messages(status, &mut self.followed, now) };
        self.tell(&News::Batch(Arc::new(batch)));
    }

    /// Tells the viewers that the robot does not answer.
    pub fn show_silence(&mut self, why: &str) {
        if !std::mem::replace(&mut self.silent, true) {
            self.tell(&News::Notice(silent(why).into()));
        }
    }

    fn tell(&mut self, news: &News) {
        let counts = &self.counts;
        self.viewers.retain(|viewer| match viewer.try_send(news.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                counts.dropped.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        });
    }
}

#[cfg(test)]
mod tests;
