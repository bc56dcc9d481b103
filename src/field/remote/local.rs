//! The local hop: the messages between the runtime and the tether's process, over a SOCK_SEQPACKET socket,
//! which keeps message boundaries. No message arms the robot, relaxes a limit or sets a reflex.
//!
//! ```text
//! runtime -> tether
//!   1 hello     version (1 byte), digest of the board (32)
//!   2 request   a `CycleRequest` (304); the tether carries it unread
//! tether -> runtime
//!  17 refused   why (1): the tether does not serve this runtime
//!  18 answer    round trip on the network (ns, u64), a `CycleAnswer` (176), also carried unread
//!  19 link      phase (1), text (0..=200, UTF-8 in one line)
//! ```
//!
//! Numbers are little endian. The receiver refuses a whole message if its kind, its length or any byte is
//! invalid.

use super::message::{ANSWER_BYTES, CycleRequest, MESSAGE_VERSION, REQUEST_BYTES};
use crate::base::time::Span;
use std::fmt;

/// The tether's default socket.
pub const TETHER_SOCKET: &str = "/run/ganglion-tether/tether.sock";
/// Longest text about the link, bytes: enough for a refusal with the robot's and the brain's value.
pub const TEXT_MOST: usize = 200;
/// Length of the longest message: a buffer of one byte more detects messages that are too long.
pub const LOCAL_MOST: usize = 1 + REQUEST_BYTES;
/// Bytes in the digest of a board.
pub const DIGEST_BYTES: usize = 32;

const HELLO: u8 = 1;
const REQUEST: u8 = 2;
const REFUSED: u8 = 17;
const ANSWER: u8 = 18;
const LINK: u8 = 19;
const HELLO_BYTES: usize = 2 + DIGEST_BYTES;
const ANSWER_AT: usize = 1 + 8;

/// Messages from the runtime to the tether.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FromRuntime<'a> {
    /// The first message of a connection.
    Hello(Hello),
    /// A cycle's request, to be carried unchanged.
    Request(&'a [u8; REQUEST_BYTES]),
}

/// The first message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`MESSAGE_VERSION`] of the runtime.
    pub version: u8,
    /// Digest of the board's effective values; the tether and the brain compare it with theirs.
    pub digest: [u8; DIGEST_BYTES],
}

/// Messages from the tether to the runtime.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FromTether<'a> {
    /// The tether does not serve this runtime, and closes the connection.
    Refused(Unwanted),
    /// The brain's answer, unchanged.
    Answer {
        /// From the request's departure to the answer's arrival, as the tether measured it.
        round_trip: Span,
        /// A [`CycleAnswer`](super::message::CycleAnswer) in bytes.
        answer: &'a [u8; ANSWER_BYTES],
    },
    /// The state of the link to the brain: sent after the hello, and whenever it changes.
    Link(LinkPhase, Text),
}

/// Why a tether does not serve a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unwanted {
    /// The runtime uses another version of the messages.
    Version = 1,
    /// The tether was started for another board.
    Board = 2,
    /// Another runtime is connected.
    Occupied = 3,
    /// The caller does not run as the runtime's user.
    User = 4,
}

/// The state of the tether's link to its brain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LinkPhase {
    /// The tether asks to join, or waits for the reply.
    Joining = 1,
    /// A session is established; the text names the brain's engine.
    Joined = 2,
    /// The brain refused the robot; the text says why, with the values that differ.
    Refused = 3,
}

/// A line of at most [`TEXT_MOST`] bytes without control characters, safe for a terminal and a log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    length: u8,
    bytes: [u8; TEXT_MOST],
}

/// Why a message of the local hop is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalError {
    /// It is empty, or of a kind that this side does not expect.
    Kind(Option<u8>),
    /// Its length is not valid for its kind.
    Length {
        /// Its length in bytes.
        found: usize,
        /// The longest valid one.
        most: usize,
    },
    /// An unknown code.
    Code(u8),
    /// Its text is not UTF-8, or has control characters.
    Text,
}

impl fmt::Display for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalError::Kind(None) => f.write_str("an empty message"),
            LocalError::Kind(Some(kind)) => write!(f, "a message of unexpected kind {kind}"),
            LocalError::Length { found, most } => {
                write!(f, "{found} bytes is not a valid length; the longest is {most}")
            }
            LocalError::Code(code) => write!(f, "unknown code {code}"),
            LocalError::Text => f.write_str("a text that is not one line of UTF-8"),
        }
    }
}

impl std::error::Error for LocalError {}

impl fmt::Display for Unwanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unwanted::Version => "the tether runs another version of ganglion",
            Unwanted::Board => "the tether was started for another board",
            Unwanted::Occupied => "another runtime uses the tether",
            Unwanted::User => "the tether serves another user's runtime",
        })
    }
}

impl Text {
    /// An empty text.
    pub const EMPTY: Text = Text { length: 0, bytes: [0; TEXT_MOST] };

    /// `words`, cut to [`TEXT_MOST`] bytes; control characters become spaces.
    pub fn of(words: &str) -> Text {
        let mut text = Text::EMPTY;
        for c in words.chars() {
            let c = if c.is_control() { ' ' } else { c };
            let (start, end) = (usize::from(text.length), usize::from(text.length) + c.len_utf8());
            if end > TEXT_MOST {
                break;
            }
            c.encode_utf8(&mut text.bytes[start..end]);
            text.length = end as u8;
        }
        text
    }

    fn from_bytes(bytes: &[u8]) -> Option<Text> {
        let words = std::str::from_utf8(bytes).ok()?;
        (bytes.len() <= TEXT_MOST && !words.chars().any(char::is_control)).then(|| Text::of(words))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default() // it is always UTF-8
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message ready to be sent.
#[derive(Clone, Copy)]
pub struct LocalMessage {
    length: usize,
    bytes: [u8; LOCAL_MOST],
}

impl LocalMessage {
    fn of(kind: u8, parts: &[&[u8]]) -> LocalMessage {
        let mut message = LocalMessage { length: 1, bytes: [kind; LOCAL_MOST] };
        for part in parts {
            let end = message.length + part.len();
            message.bytes[message.length..end].copy_from_slice(part);
            message.length = end;
        }
        message
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Hello {
    /// The hello of this program, for the board with `digest`.
    pub const fn new(digest: [u8; DIGEST_BYTES]) -> Hello {
        Hello { version: MESSAGE_VERSION, digest }
    }

    /// Encodes as a message.
    pub fn encode(&self) -> LocalMessage {
        LocalMessage::of(HELLO, &[&[self.version], &self.digest])
    }
}

/// A request as a message.
pub fn encode_request(request: &CycleRequest) -> LocalMessage {
    LocalMessage::of(REQUEST, &[&request.encode()])
}

impl<'a> FromRuntime<'a> {
    /// Decodes bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<FromRuntime<'a>, LocalError> {
        match bytes.first() {
            Some(&HELLO) => {
                let bytes: &[u8; HELLO_BYTES] = exactly(bytes)?;
                let digest = std::array::from_fn(|index| bytes[2 + index]);
                Ok(FromRuntime::Hello(Hello { version: bytes[1], digest }))
            }
            Some(&REQUEST) => {
                let bytes: &[u8; 1 + REQUEST_BYTES] = exactly(bytes)?;
                Ok(FromRuntime::Request(bytes.last_chunk().expect("it is longer than a request")))
            }
            other => Err(LocalError::Kind(other.copied())),
        }
    }
}

impl<'a> FromTether<'a> {
    /// Encodes as a message.
    pub fn encode(&self) -> LocalMessage {
        match self {
            FromTether::Refused(why) => LocalMessage::of(REFUSED, &[&[*why as u8]]),
            FromTether::Answer { round_trip, answer } => {
                LocalMessage::of(ANSWER, &[&round_trip.as_nanos().to_le_bytes(), *answer])
            }
            FromTether::Link(phase, text) => {
                LocalMessage::of(LINK, &[&[*phase as u8], text.as_str().as_bytes()])
            }
        }
    }

    /// Decodes bytes. [`CycleAnswer::decode`](super::message::CycleAnswer::decode) checks the content of an
    /// answer.
    pub fn decode(bytes: &'a [u8]) -> Result<FromTether<'a>, LocalError> {
        match bytes.first() {
            Some(&REFUSED) => Ok(FromTether::Refused(unwanted(exactly::<2>(bytes)?[1])?)),
            Some(&ANSWER) => {
                let bytes: &[u8; ANSWER_AT + ANSWER_BYTES] = exactly(bytes)?;
                let nanos = u64::from_le_bytes(std::array::from_fn(|index| bytes[1 + index]));
                let answer = bytes.last_chunk().expect("it is longer than an answer");
                Ok(FromTether::Answer { round_trip: Span::from_nanos(nanos), answer })
            }
            Some(&LINK) => {
                let (code, text) = bytes[1..].split_first().ok_or(length_of(bytes, 2 + TEXT_MOST))?;
                if text.len() > TEXT_MOST {
                    return Err(length_of(bytes, 2 + TEXT_MOST));
                }
                Ok(FromTether::Link(phase(*code)?, Text::from_bytes(text).ok_or(LocalError::Text)?))
            }
            other => Err(LocalError::Kind(other.copied())),
        }
    }
}

fn exactly<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], LocalError> {
    bytes.try_into().map_err(|_| length_of(bytes, N))
}

fn length_of(bytes: &[u8], most: usize) -> LocalError {
    LocalError::Length { found: bytes.len(), most }
}

fn unwanted(code: u8) -> Result<Unwanted, LocalError> {
    let all = [Unwanted::Version, Unwanted::Board, Unwanted::Occupied, Unwanted::User];
    all.into_iter().find(|why| *why as u8 == code).ok_or(LocalError::Code(code))
}

fn phase(code: u8) -> Result<LinkPhase, LocalError> {
    let all = [LinkPhase::Joining, LinkPhase::Joined, LinkPhase::Refused];
    all.into_iter().find(|phase| *phase as u8 == code).ok_or(LocalError::Code(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldInput;
    use crate::field::remote::message::{CycleAnswer, Verdict};
    use proptest::prelude::*;

    fn request() -> CycleRequest {
        CycleRequest::of(&FieldInput::AT_REST, 3, crate::base::time::Instant::ZERO, Span::from_millis(40))
    }

    #[test]
    fn every_message_survives_a_round_trip() {
        let hello = Hello::new([7; DIGEST_BYTES]);
        assert_eq!(FromRuntime::decode(hello.encode().as_bytes()), Ok(FromRuntime::Hello(hello)));
        let bytes = request().encode();
        assert_eq!(
            FromRuntime::decode(encode_request(&request()).as_bytes()),
            Ok(FromRuntime::Request(&bytes))
        );
        let answer = CycleAnswer::without(&request(), Verdict::Late).encode();
        let round_trip = Span::from_nanos(123_456_789_012);
        for message in [
            FromTether::Refused(Unwanted::Version),
            FromTether::Refused(Unwanted::Board),
            FromTether::Refused(Unwanted::Occupied),
            FromTether::Refused(Unwanted::User),
            FromTether::Answer { round_trip, answer: &answer },
            FromTether::Link(LinkPhase::Joining, Text::EMPTY),
            FromTether::Link(LinkPhase::Joined, Text::of("cuda")),
            FromTether::Link(LinkPhase::Refused, Text::of(&"é".repeat(TEXT_MOST))),
        ] {
            assert_eq!(FromTether::decode(message.encode().as_bytes()), Ok(message));
        }
    }

    #[test]
    fn text_is_cut_to_its_length_and_one_line() {
        let long = Text::of(&format!("a{}", "é".repeat(TEXT_MOST)));
        assert_eq!((long.as_str().len(), long.as_str().chars().count()), (199, 100), "no split character");
        assert_eq!(Text::of("one\nt\u{1b}wo").as_str(), "one t wo");
        let link = |text: &[u8]| FromTether::decode(&[&[LINK, 1], text].concat()).err();
        assert_eq!(link(b"fine"), None);
        assert_eq!(link(b"\x1b[2J"), Some(LocalError::Text), "no escape sequence reaches a terminal");
        assert_eq!(link(b"\xff"), Some(LocalError::Text));
        assert_eq!(link(&[b'x'; TEXT_MOST + 1]), Some(LocalError::Length { found: 203, most: 202 }));
    }

    #[test]
    fn invalid_messages_are_refused_with_their_content() {
        assert_eq!(FromRuntime::decode(&[]), Err(LocalError::Kind(None)));
        assert_eq!(
            FromRuntime::decode(&[ANSWER]),
            Err(LocalError::Kind(Some(ANSWER))),
            "the runtime does not send it"
        );
        assert_eq!(
            FromTether::decode(&[REQUEST]),
            Err(LocalError::Kind(Some(REQUEST))),
            "the tether does not send it"
        );
        assert_eq!(FromTether::decode(&[REFUSED, 9]), Err(LocalError::Code(9)));
        assert_eq!(FromTether::decode(&[LINK, 0]), Err(LocalError::Code(0)));
        assert_eq!(FromTether::decode(&[LINK]), Err(LocalError::Length { found: 1, most: 202 }));
        assert_eq!(FromTether::decode(&[ANSWER, 0]), Err(LocalError::Length { found: 2, most: 185 }));
        assert_eq!(FromRuntime::decode(&[HELLO; 35]), Err(LocalError::Length { found: 35, most: 34 }));
    }

    proptest! {
        #[test]
        fn decoded_messages_encode_to_the_same_bytes(
            kind in prop_oneof![Just(HELLO), Just(REQUEST), Just(REFUSED), Just(ANSWER), Just(LINK), any::<u8>()],
            rest in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..=LOCAL_MOST),
                prop::collection::vec(1..100u8, 1..=4),
                prop::collection::vec(any::<u8>(), ANSWER_AT + ANSWER_BYTES - 1),
                prop::collection::vec(any::<u8>(), HELLO_BYTES - 1),
            ],
        ) {
            let bytes = [&[kind][..], &rest].concat();
            match FromRuntime::decode(&bytes) {
                Ok(FromRuntime::Hello(hello)) => {
                    let again = hello.encode();
                    prop_assert_eq!(again.as_bytes(), &bytes);
                }
                Ok(FromRuntime::Request(request)) => prop_assert_eq!(&request[..], &bytes[1..]),
                Err(_) => (),
            }
            if let Ok(message) = FromTether::decode(&bytes) {
                let again = message.encode();
                prop_assert_eq!(again.as_bytes(), &bytes);
            }
        }
    }
}
