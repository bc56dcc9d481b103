//! One client: its thread reads its frames, has its cycles computed and writes the answers.

use super::super::client::{Asked, Client, Trouble};
use super::super::frame::{Frame, FrameReader, Framing};
use super::{EmBrain, LOOK_EVERY, News};
use crate::base::time::{self, Clock, MonotonicClock, Span};
use crate::field::FieldInput;
use crate::field::remote::message::{CycleAnswer, CycleRequest, Verdict};
use crate::runtime::brain::robots::{Arrival, Joined, RobotId};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A frame that has begun has to end within this time; one takes some microseconds on a sound network.
const FRAME_WITHIN: Duration = Duration::from_secs(5);
/// A client that says nothing for so long is gone; the earlier service waited as long.
const SILENCE_MOST: Duration = Duration::from_secs(60);
/// A client that does not take an answer for so long is gone.
const WRITE_WITHIN: Duration = Duration::from_secs(5);
/// Opening an engine may read a large snapshot. Clients wait five seconds for their handshake and try again.
const OPENS_WITHIN: Duration = Duration::from_secs(20);
/// A cycle that is not computed by then is answered with an error: twice the longest period of a profile,
/// since a client that is faster waits for its turn. Clients wait for ten seconds.
const DEADLINE: Span = Span::from_millis(1_000);
/// The brain answers at the deadline at the latest; this is for the thread that does.
const ANSWERED_WITHIN: Duration = Duration::from_millis(2_000);
/// Bytes that are read at once.
const READ_BYTES: usize = 4096;

/// A client at its brain.
pub(super) struct Seat<'a> {
    service: &'a EmBrain,
    name: String,
    robot: Option<RobotId>,
    news: Option<Receiver<News>>,
}

/// Why a client was let go.
#[derive(Debug)]
pub(super) enum LetGo {
    Io,
    Silent,
    Slow,
    OutOfStep,
}

impl From<io::Error> for LetGo {
    fn from(_: io::Error) -> LetGo {
        LetGo::Io
    }
}

impl Seat<'_> {
    /// The client called `name`, which has no engine yet.
    pub(super) fn new(service: &EmBrain, name: String) -> Seat<'_> {
        Seat { service, name, robot: None, news: None }
    }

    /// Answers frames until the client closes its end or the brain ends.
    pub(super) fn converse(&mut self, mut stream: TcpStream, ends: &AtomicBool) -> Result<(), LetGo> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        stream.set_write_timeout(Some(WRITE_WITHIN))?;
        let (mut client, mut reader) = (Client::new(self.service.profile.clone()), FrameReader::default());
        let mut bytes = [0; READ_BYTES];
        // Since when it says nothing, or what it says is not whole.
        let mut since = Instant::now();
        while !ends.load(Ordering::Acquire) {
            let (within, late) = match reader.is_amid() {
                true => (FRAME_WITHIN, LetGo::Slow),
                false => (SILENCE_MOST, LetGo::Silent),
            };
            if since.elapsed() > within {
                return Err(late);
            }
            match stream.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(length) => {
                    if !reader.is_amid() {
                        since = Instant::now();
                    }
                    reader.push(&bytes[..length]);
                }
                Err(error) if is_nothing(&error) => continue,
                Err(error) => return Err(error.into()),
            }
            loop {
                let answer = match reader.next_frame() {
                    Ok(None) => break,
                    Ok(Some(frame)) => self.answer(&mut client, &frame, ends),
                    Err(fault) => {
                        let framing = reader.framing().unwrap_or(Framing::Plain);
                        self.send(&mut stream, &self.troubled(Trouble::Frame(fault)), framing)?;
                        return Err(LetGo::OutOfStep);
                    }
                };
                let Some(framing) = reader.framing() else { break };
                self.send(&mut stream, &answer.unwrap_or_else(|trouble| self.troubled(trouble)), framing)?;
                since = Instant::now();
            }
        }
        Ok(())
    }

    fn send(&self, stream: &mut TcpStream, frame: &Frame, framing: Framing) -> io::Result<()> {
        stream.write_all(&frame.encode(framing))
    }

    fn troubled(&self, trouble: Trouble) -> Frame {
        let before = self.service.counts.errors.fetch_add(1, Ordering::Relaxed);
        // The first few are said: a client that is wrong is wrong with every frame.
        if before < 10 {
            log::warn!("em-brain client {}: {trouble}", self.name);
        }
        trouble.frame()
    }

    fn answer(&mut self, client: &mut Client, frame: &Frame, ends: &AtomicBool) -> Result<Frame, Trouble> {
        match client.take(frame)? {
            Asked::Join => {
                let engine = self.join(ends)?;
                Ok(client.welcome(engine.starts_with("cuda")))
            }
            Asked::Cycle(input) => {
                let answer = self.cycle(&input, ends)?;
                let mut response = answer.response().ok_or(Trouble::NoAnswer)?;
                self.service.requests.apply(&mut response, &input.sensors);
                self.service.counts.actions.fetch_add(1, Ordering::Relaxed);
                Ok(client.action(&response.motors))
            }
        }
    }

    /// Gets an engine: the one that it had, or a new one.
    fn join(&mut self, ends: &AtomicBool) -> Result<String, Trouble> {
        let EmBrain { hub, board, profile, .. } = self.service;
        let joined = {
            let mut robots = hub.robots();
            let joined = robots.join(&self.name, board, profile.period, MonotonicClock.now());
            if let Ok(Joined::Ready(robot) | Joined::Waits(robot) | Joined::Opens(robot, _)) = &joined {
                self.sit(*robot); // before anything can be told
            }
            joined
        };
        match joined {
            Ok(Joined::Ready(robot)) => Ok(hub.robots().engine_name_of(robot).unwrap_or_default()),
            Ok(Joined::Waits(_)) => self.opened(ends),
            Ok(Joined::Opens(robot, opening)) => {
                hub.open(robot, opening);
                self.opened(ends)
            }
            Err(refusal) => {
                log::warn!("em-brain client {} is refused: {refusal}", self.name);
                Err(Trouble::NoAnswer)
            }
        }
    }

    /// What is told of `robot` is told this thread.
    fn sit(&mut self, robot: RobotId) {
        if self.robot == Some(robot) {
            return;
        }
        // One answer to one frame, and the opening.
        let (sender, news) = bounded(2);
        let mut clients = self.service.clients();
        self.robot.iter().for_each(|before| _ = clients.by_robot.remove(before));
        clients.by_robot.insert(robot, sender);
        drop(clients);
        (self.robot, self.news) = (Some(robot), Some(news));
    }

    fn opened(&self, ends: &AtomicBool) -> Result<String, Trouble> {
        self.wait(OPENS_WITHIN, ends, |news| match news {
            News::Opened(opened) => Some(opened),
            News::Answer(_) => None,
        })
        .and_then(|opened| opened.map_err(|_| Trouble::NoAnswer))
    }

    /// Has a cycle computed.
    fn cycle(&mut self, input: &FieldInput, ends: &AtomicBool) -> Result<CycleAnswer, Trouble> {
        let (now, arrival) = match self.ask(input)? {
            // It was parked while the client said nothing: it goes on from its snapshot.
            (_, Arrival::Dropped) => {
                self.join(ends)?;
                self.ask(input)?
            }
            asked => asked,
        };
        let answer = match arrival {
            Arrival::Answer(answer) => answer,
            Arrival::Waits => self.wait(ANSWERED_WITHIN, ends, |news| match news {
                News::Answer(answer) => (answer.sent == now).then_some(answer),
                News::Opened(_) => None,
            })?,
            Arrival::Dropped => return Err(Trouble::NoAnswer),
        };
        if answer.verdict == Verdict::Answered { Ok(answer) } else { Err(Trouble::NoAnswer) }
    }

    fn ask(&self, input: &FieldInput) -> Result<(time::Instant, Arrival), Trouble> {
        let robot = self.robot.ok_or(Trouble::NoHandshake)?;
        let now = MonotonicClock.now();
        let count = self.service.board.board.field.shape.sensors;
        let request = CycleRequest::of(input, count, now, DEADLINE);
        Ok((now, self.service.hub.receive(robot, &request.encode(), now)))
    }

    /// Waits for what `is_it` takes, and drops all else.
    fn wait<T>(
        &self,
        within: Duration,
        ends: &AtomicBool,
        mut is_it: impl FnMut(News) -> Option<T>,
    ) -> Result<T, Trouble> {
        let news = self.news.as_ref().ok_or(Trouble::NoHandshake)?;
        let until = Instant::now() + within;
        while !ends.load(Ordering::Acquire) && Instant::now() < until {
            match news.recv_timeout(LOOK_EVERY) {
                Ok(news) => {
                    if let Some(found) = is_it(news) {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(Trouble::NoAnswer)
    }
}

/// Its name is free again. The robot stays with the brain for a while, as one whose link is lost.
impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut clients = self.service.clients();
        self.robot.iter().for_each(|robot| _ = clients.by_robot.remove(robot));
        clients.names.remove(&self.name);
    }
}

/// Nothing came while it was waited for.
fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
