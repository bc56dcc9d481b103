//! One viewer: the handshake, what it has subscribed to, and its messages. A thread serves it; updates that
//! it is too slow to receive are dropped and counted, and if it receives nothing for some seconds, its
//! connection is closed.

use super::channels::Channels;
use super::protocol::{Level, Request, SUBPROTOCOLS, Subscription, message_data, notice};
use super::server::{Counts, Hello, News};
use crossbeam_channel::{Receiver, TryRecvError};
use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tungstenite::handshake::server::{ErrorResponse, Request as Upgrade, Response};
use tungstenite::http::{HeaderValue, StatusCode, header};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

/// Timeout for a viewer's handshake, and for sending it a message.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the thread waits for a request before it checks for updates: too short for a person to notice.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longest request, bytes: a subscription to every channel takes less than one kilobyte.
const LONGEST_REQUEST: usize = 64 << 10;
/// Maximum subscriptions per viewer; several panels may each subscribe to the same channel.
const MOST_SUBSCRIPTIONS: usize = 256;

/// Why a viewer is no longer served.
#[derive(Debug)]
pub(super) enum End {
    /// The viewer closed the connection.
    Gone,
    /// The server has ended, or has disconnected all viewers because the robot or its run has changed.
    ServerEnded,
}

/// Serves the viewer on `stream` until either side ends the connection. `greeted` is called after the
/// handshake.
pub(super) fn serve(
    stream: TcpStream,
    hello: &Hello,
    news: &Receiver<News>,
    counts: &Counts,
    greeted: impl FnOnce(),
) -> Result<End, Error> {
    stream.set_nonblocking(false)?; // the listener's non-blocking mode may be inherited
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(LONGEST_REQUEST))
        .max_frame_size(Some(LONGEST_REQUEST));
    let socket = tungstenite::accept_hdr_with_config(stream, choose_subprotocol, Some(config));
    let mut socket = socket.map_err(|error| match error {
        tungstenite::HandshakeError::Failure(error) => error,
        tungstenite::HandshakeError::Interrupted(_) => Error::Io(io::ErrorKind::TimedOut.into()),
    })?;
    socket.send(Message::text(hello.info.clone()))?;
    socket.send(Message::text(hello.channels.clone()))?;
    socket.get_ref().set_read_timeout(Some(LOOK_EVERY))?;
    greeted();
    Viewer { socket, subscriptions: BTreeMap::new() }.live(news, counts)
}

/// Answers with the newest version of the protocol that both sides speak.
#[allow(clippy::result_large_err)] // the library's own type
fn choose_subprotocol(request: &Upgrade, mut response: Response) -> Result<Response, ErrorResponse> {
    let asked = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let asked = asked.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let asked: Vec<&str> = asked.map(str::trim).collect();
    let Some(both) = SUBPROTOCOLS.into_iter().find(|ours| asked.contains(ours)) else {
        let text = format!("this server speaks {}: open it in Foxglove\n", SUBPROTOCOLS.join(" and "));
        let mut refusal = ErrorResponse::new(Some(text));
        *refusal.status_mut() = StatusCode::BAD_REQUEST;
        return Err(refusal);
    };
    response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(both));
    Ok(response)
}

struct Viewer {
    socket: WebSocket<TcpStream>,
    /// The channel of each subscription.
    subscriptions: BTreeMap<u32, usize>,
}

impl Viewer {
    fn live(&mut self, news: &Receiver<News>, counts: &Counts) -> Result<End, Error> {
        loop {
            loop {
                match news.try_recv() {
                    Ok(news) => self.tell(&news, counts)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        self.socket.close(None)?;
                        let _ = self.socket.flush(); // the viewer may be gone already
                        return Ok(End::ServerEnded);
                    }
                }
            }
            match self.socket.read() {
                Ok(Message::Text(text)) => self.take(text.as_str())?,
                Ok(_) => {} // pings are answered by the library; binary requests need a capability
                Err(Error::Io(error)) if is_timeout(&error) => {}
                Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Ok(End::Gone),
                Err(error) => return Err(error),
            }
        }
    }

    fn tell(&mut self, news: &News, counts: &Counts) -> Result<(), Error> {
        let batch = match news {
            News::Notice(text) => return self.socket.send(Message::text(text.as_ref())),
            News::Batch(batch) => batch,
        };
        for (id, channel) in &self.subscriptions {
            if let Some(payload) = &batch.messages[*channel] {
                self.socket.write(Message::binary(message_data(*id, batch.time_ns, payload)))?;
                counts.messages.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.socket.flush()
    }

    fn take(&mut self, text: &str) -> Result<(), Error> {
        let refused = match serde_json::from_str(text) {
            Ok(Request::Subscribe { subscriptions }) => {
                subscriptions.into_iter().find_map(|subscription| self.subscribe(subscription).err())
            }
            Ok(Request::Unsubscribe { subscription_ids }) => {
                self.subscriptions.retain(|id, _| !subscription_ids.contains(id));
                None
            }
            Ok(Request::Other) => Some((Level::Warning, "this server only shows the robot".to_string())),
            Err(error) => Some((Level::Error, format!("not a request: {error}"))),
        };
        match refused {
            Some((level, text)) => self.socket.send(Message::text(notice(level, &text))),
            None => Ok(()),
        }
    }

    fn subscribe(&mut self, Subscription { id, channel_id }: Subscription) -> Result<(), (Level, String)> {
        let channel = usize::try_from(channel_id).ok().filter(|channel| *channel < Channels::COUNT);
        let channel = channel.ok_or_else(|| (Level::Error, format!("there is no channel {channel_id}")))?;
        if self.subscriptions.len() >= MOST_SUBSCRIPTIONS && !self.subscriptions.contains_key(&id) {
            return Err((Level::Error, format!("at most {MOST_SUBSCRIPTIONS} subscriptions")));
        }
        self.subscriptions.insert(id, channel);
        Ok(())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
