//! The thread of one client: reads its frames, lets the brain compute its cycles, and writes the answers.

use super::super::client::{Client, ClientError, ClientRequest};
use super::super::frame::{Frame, FrameReader, Framing};
use super::{EmBrain, LOOK_EVERY, Message};
use crate::base::time::{self, Clock, MonotonicClock, Span};
use crate::field::FieldInput;
use crate::field::remote::message::{CycleAnswer, CycleRequest, Verdict};
use crate::runtime::brain::robots::{Arrival, Joined, RobotId};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A frame must be complete within this time after its first byte. On a good network that takes some
/// microseconds.
const FRAME_WITHIN: Duration = Duration::from_secs(5);
/// A client that sends nothing for this long is gone; the earlier service had the same limit.
const SILENCE_MOST: Duration = Duration::from_secs(60);
/// A client that does not read an answer within this time is gone.
const WRITE_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait for an engine, which may have to read a large snapshot. Clients wait five seconds for the
/// answer to their handshake and then try again.
const OPENS_WITHIN: Duration = Duration::from_secs(20);
/// A cycle that is not computed within this time is answered with an error. Twice the longest period of a
/// profile, because a client that sends before its period is over has to wait. Clients wait ten seconds.
const DEADLINE: Span = Span::from_millis(1_000);
/// Longest wait for the brain's answer. The brain answers by the deadline; the other second is a margin for
/// its thread.
const ANSWERED_WITHIN: Duration = Duration::from_millis(2_000);
/// Bytes per read.
const READ_BYTES: usize = 4096;

/// The state of a client's thread.
pub(super) struct ClientThread<'a> {
    service: &'a EmBrain,
    name: String,
    robot: Option<RobotId>,
    messages: Option<Receiver<Message>>,
}

/// Why a client was disconnected.
#[derive(Debug)]
pub(super) enum Disconnect {
    Io,
    Silent,
    Slow,
    InvalidFrame,
}

impl From<io::Error> for Disconnect {
    fn from(_: io::Error) -> Disconnect {
        Disconnect::Io
    }
}

impl ClientThread<'_> {
    /// A client called `name`, without an engine yet.
    pub(super) fn new(service: &EmBrain, name: String) -> ClientThread<'_> {
        ClientThread { service, name, robot: None, messages: None }
    }

    /// Answers frames until the client closes the connection or the brain ends.
    pub(super) fn serve(&mut self, mut stream: TcpStream, ends: &AtomicBool) -> Result<(), Disconnect> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        stream.set_write_timeout(Some(WRITE_WITHIN))?;
        let (mut client, mut reader) = (Client::new(self.service.profile.clone()), FrameReader::default());
        let mut bytes = [0; READ_BYTES];
        // When the client's current silence or its incomplete frame began.
        let mut since = Instant::now();
        while !ends.load(Ordering::Acquire) {
            let (within, late) = match reader.has_partial_frame() {
                true => (FRAME_WITHIN, Disconnect::Slow),
                false => (SILENCE_MOST, Disconnect::Silent),
            };
            if since.elapsed() > within {
                return Err(late);
            }
            match stream.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(length) => {
                    if !reader.has_partial_frame() {
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
                        self.send(&mut stream, &self.error_frame(ClientError::Frame(fault)), framing)?;
                        return Err(Disconnect::InvalidFrame);
                    }
                };
                let Some(framing) = reader.framing() else { break };
                self.send(&mut stream, &answer.unwrap_or_else(|error| self.error_frame(error)), framing)?;
                since = Instant::now();
            }
        }
        Ok(())
    }

    fn send(&self, stream: &mut TcpStream, frame: &Frame, framing: Framing) -> io::Result<()> {
        stream.write_all(&frame.encode(framing))
    }

    fn error_frame(&self, error: ClientError) -> Frame {
        let before = self.service.counts.errors.fetch_add(1, Ordering::Relaxed);
        // Logs only the service's first ten: a faulty client usually gets every frame wrong.
        if before < 10 {
            log::warn!("em-brain client {}: {error}", self.name);
        }
        error.frame()
    }

    fn answer(
        &mut self,
        client: &mut Client,
        frame: &Frame,
        ends: &AtomicBool,
    ) -> Result<Frame, ClientError> {
        match client.take(frame)? {
            ClientRequest::Join => {
                let engine = self.join(ends)?;
                Ok(client.handshake_answer(engine.starts_with("cuda")))
            }
            ClientRequest::Cycle(input) => {
                let answer = self.cycle(&input, ends)?;
                let mut response = answer.response().ok_or(ClientError::NoAnswer)?;
                self.service.requests.apply(&mut response, &input.sensors);
                self.service.counts.actions.fetch_add(1, Ordering::Relaxed);
                Ok(client.action(&response.motors))
            }
        }
    }

    /// Gets an engine for the client: the one that it had, or a new one.
    fn join(&mut self, ends: &AtomicBool) -> Result<String, ClientError> {
        let EmBrain { hub, board, profile, .. } = self.service;
        let joined = {
            let mut robots = hub.robots();
            let joined = robots.join(&self.name, board, profile.period, MonotonicClock.now());
            if let Ok(Joined::Ready(robot) | Joined::Waits(robot) | Joined::Opens(robot, _)) = &joined {
                self.register(*robot); // before any message can be sent
            }
            joined
        };
        match joined {
            Ok(Joined::Ready(robot)) => Ok(hub.robots().engine_name_of(robot).unwrap_or_default()),
            Ok(Joined::Waits(_)) => self.opened(ends),
            Ok(Joined::Opens(robot, opener)) => {
                hub.open(robot, opener);
                self.opened(ends)
            }
            Err(refusal) => {
                log::warn!("em-brain client {} is refused: {refusal}", self.name);
                Err(ClientError::NoAnswer)
            }
        }
    }

    /// Routes the messages for `robot` to this thread.
    fn register(&mut self, robot: RobotId) {
        if self.robot == Some(robot) {
            return;
        }
        // Room for one answer, and the message that the engine was opened.
        let (sender, messages) = bounded(2);
        let mut clients = self.service.clients();
        self.robot.iter().for_each(|before| _ = clients.by_robot.remove(before));
        clients.by_robot.insert(robot, sender);
        drop(clients);
        (self.robot, self.messages) = (Some(robot), Some(messages));
    }

    fn opened(&self, ends: &AtomicBool) -> Result<String, ClientError> {
        self.wait(OPENS_WITHIN, ends, |messages| match messages {
            Message::Opened(opened) => Some(opened),
            Message::Answer(_) => None,
        })
        .and_then(|opened| opened.map_err(|_| ClientError::NoAnswer))
    }

    /// Lets the brain compute a cycle.
    fn cycle(&mut self, input: &FieldInput, ends: &AtomicBool) -> Result<CycleAnswer, ClientError> {
        let (now, arrival) = match self.ask(input)? {
            // The robot was parked while the client was silent: joining again resumes it from its snapshot.
            (_, Arrival::Dropped) => {
                self.join(ends)?;
                self.ask(input)?
            }
            asked => asked,
        };
        let answer = match arrival {
            Arrival::Answer(answer) => answer,
            Arrival::Waits => self.wait(ANSWERED_WITHIN, ends, |messages| match messages {
                Message::Answer(answer) => (answer.sent == now).then_some(answer),
                Message::Opened(_) => None,
            })?,
            Arrival::Dropped => return Err(ClientError::NoAnswer),
        };
        if answer.verdict == Verdict::Answered { Ok(answer) } else { Err(ClientError::NoAnswer) }
    }

    fn ask(&self, input: &FieldInput) -> Result<(time::Instant, Arrival), ClientError> {
        let robot = self.robot.ok_or(ClientError::NoHandshake)?;
        let now = MonotonicClock.now();
        let count = self.service.board.board.field.shape.sensors;
        let request = CycleRequest::of(input, count, now, DEADLINE);
        Ok((now, self.service.hub.receive(robot, &request.encode(), now)))
    }

    /// Waits for a message that `select` accepts, and drops all others.
    fn wait<T>(
        &self,
        within: Duration,
        ends: &AtomicBool,
        mut select: impl FnMut(Message) -> Option<T>,
    ) -> Result<T, ClientError> {
        let messages = self.messages.as_ref().ok_or(ClientError::NoHandshake)?;
        let until = Instant::now() + within;
        while !ends.load(Ordering::Acquire) && Instant::now() < until {
            match messages.recv_timeout(LOOK_EVERY) {
                Ok(message) => {
                    if let Some(found) = select(message) {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(ClientError::NoAnswer)
    }
}

/// Frees the name. The robot stays with the brain for a while, like one whose link was lost.
impl Drop for ClientThread<'_> {
    fn drop(&mut self) {
        let mut clients = self.service.clients();
        self.robot.iter().for_each(|robot| _ = clients.by_robot.remove(robot));
        clients.names.remove(&self.name);
    }
}

/// Whether an error only means that nothing arrived.
fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
