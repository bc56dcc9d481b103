//! A session between a robot and its brain: a handshake of one message each way, then sealed datagrams with
//! increasing counters.
//!
//! `snow` accepts replayed and reordered datagrams, and would seal two datagrams with the same counter; both
//! are prevented here. A received counter is compared before its datagram is opened, because that is cheap,
//! and stored only afterwards, so that a forged datagram cannot advance it. [`Session::seal`] and
//! [`Session::open`] do not allocate.

use super::Dropped;
use super::datagram::{
    DATA_HEADER_BYTES, HANDSHAKE_PAYLOAD_MOST, HEADER_BYTES, Header, Id, Kind, MOST_BYTES, TAG_BYTES,
    UP_BYTES, WIRE_VERSION, counter_of,
};
use super::join::{Join, JoinError, JoinReply};
use super::key::Key;
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, StatelessTransportState};
use std::fmt;

/// The cryptography: Noise pattern, curve, cipher and hash.
const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Both ends mix this into the handshake, so the handshake fails between different protocols or versions. The
/// last byte is [`WIRE_VERSION`].
const PROLOGUE: [u8; 16] = {
    let mut prologue = *b"ganglion tether\0";
    prologue[15] = WIRE_VERSION;
    prologue
};
/// Maximum payload of a cycle datagram, bytes.
pub const PAYLOAD_MOST: usize = UP_BYTES - DATA_HEADER_BYTES - TAG_BYTES;
/// A buffer for any cycle datagram.
pub type DataBuffer = [u8; UP_BYTES];
/// A buffer for the payload of any cycle datagram.
pub type PayloadBuffer = [u8; PAYLOAD_MOST];

/// The system provided no random numbers, without which no handshake is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRandom;

impl fmt::Display for NoRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system provides no random numbers; no session is safe without them")
    }
}

impl std::error::Error for NoRandom {}

impl From<NoRandom> for Dropped {
    fn from(_: NoRandom) -> Dropped {
        Dropped::NoRandom
    }
}

/// A robot's handshake, while the brain's reply is pending.
pub struct Joining {
    key: Id,
    /// `None` once it is answered.
    noise: Option<HandshakeState>,
}

impl Joining {
    /// Begins to join with `key`: returns the datagram to send, and the state that accepts the reply. Each
    /// attempt has a new ephemeral key.
    pub fn begin(key: &Key, join: &Join) -> Result<(Vec<u8>, Joining), NoRandom> {
        let mut noise = builder(key)?.build_initiator().map_err(|_| NoRandom)?;
        let datagram = written(&mut noise, Header { kind: Kind::Join, id: key.id() }, &join.encode())?;
        Ok((datagram, Joining { key: key.id(), noise: Some(noise) }))
    }

    /// Takes a datagram that may be the reply. A forged one changes nothing. If no session is returned, the
    /// brain has refused.
    pub fn answer(&mut self, datagram: &[u8]) -> Result<(JoinReply, Option<Session>), Dropped> {
        let header = Header::decode(datagram)?;
        if header.kind != Kind::Joined {
            return Err(Dropped::Kind);
        }
        if header.id != self.key {
            return Err(Dropped::Foreign);
        }
        let mut payload = [0; HANDSHAKE_PAYLOAD_MOST];
        let noise = self.noise.as_mut().ok_or(Dropped::Stale)?;
        let length =
            noise.read_message(&datagram[HEADER_BYTES..], &mut payload).map_err(|_| Dropped::Forged)?;
        let noise = self.noise.take().ok_or(Dropped::Stale)?;
        let reply = JoinReply::decode(&payload[..length]).map_err(|_| Dropped::Content)?;
        let session = match &reply {
            JoinReply::Joined { session, .. } => Some(Session::new(*session, End::Robot, noise)),
            JoinReply::Refused(_) => None,
        };
        Ok((reply, session))
    }
}

/// A join that the brain has not answered yet.
pub struct Pending {
    key: Id,
    noise: HandshakeState,
}

/// Opens a robot's first message with `key`, the key that the datagram's ID names. If the join has an unknown
/// format, the robot can still be told so, because the message is authentic.
///
/// A replayed message is accepted again: the caller must detect it by [`super::datagram::ephemeral_of`].
/// Detecting a forged message takes only symmetric cryptography; [`Pending::reply`] is expensive, because it
/// multiplies points on the curve.
pub fn accept(key: &Key, datagram: &[u8]) -> Result<(Result<Join, JoinError>, Pending), Dropped> {
    let header = Header::decode(datagram)?;
    if header.kind != Kind::Join {
        return Err(Dropped::Kind);
    }
    if header.id != key.id() {
        return Err(Dropped::UnknownKey);
    }
    let mut noise = builder(key)?.build_responder().map_err(|_| NoRandom)?;
    let mut payload = [0; HANDSHAKE_PAYLOAD_MOST];
    let length = noise.read_message(&datagram[HEADER_BYTES..], &mut payload).map_err(|_| Dropped::Forged)?;
    Ok((Join::decode(&payload[..length]), Pending { key: key.id(), noise }))
}

impl Pending {
    /// The datagram that answers the robot, and the session unless `reply` is a refusal.
    pub fn reply(mut self, reply: &JoinReply) -> Result<(Vec<u8>, Option<Session>), NoRandom> {
        let header = Header { kind: Kind::Joined, id: self.key };
        let datagram = written(&mut self.noise, header, &reply.encode())?;
        let session = match reply {
            JoinReply::Joined { session, .. } => Some(Session::new(*session, End::Brain, self.noise)),
            JoinReply::Refused(_) => None,
        };
        Ok((datagram, session))
    }
}

fn builder(key: &Key) -> Result<Builder<'_>, NoRandom> {
    let params: NoiseParams = NOISE.parse().expect("snow supports this pattern");
    let builder = Builder::new(params).psk(0, &key.secret).and_then(|builder| builder.prologue(&PROLOGUE));
    builder.map_err(|_| NoRandom)
}

fn written(noise: &mut HandshakeState, header: Header, payload: &[u8]) -> Result<Vec<u8>, NoRandom> {
    let mut datagram = vec![0; MOST_BYTES];
    datagram[..HEADER_BYTES].copy_from_slice(&header.encode());
    let length = noise.write_message(payload, &mut datagram[HEADER_BYTES..]).map_err(|_| NoRandom)?;
    datagram.truncate(HEADER_BYTES + length);
    Ok(datagram)
}

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Robot,
    Brain,
}

impl End {
    fn sends(self) -> Kind {
        if self == End::Robot { Kind::Up } else { Kind::Down }
    }

    fn takes(self) -> Kind {
        if self == End::Robot { Kind::Down } else { Kind::Up }
    }
}

/// One end of a session.
pub struct Session {
    id: Id,
    end: End,
    noise: StatelessTransportState,
    /// Counter of the last sealed datagram; 0: none.
    sealed: u64,
    /// Counter of the newest opened datagram; 0: none.
    newest: u64,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Session { id, end, sealed, newest, .. } = self;
        write!(f, "Session {id:?} of the {end:?}, {sealed} sealed, newest {newest}")
    }
}

impl Session {
    fn new(id: Id, end: End, noise: HandshakeState) -> Session {
        let noise = noise.into_stateless_transport_mode().expect("both messages of the handshake are done");
        Session { id, end, noise, sealed: 0, newest: 0 }
    }

    /// Its ID.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Counter of the last datagram that this end sealed; 0: none.
    pub fn sealed(&self) -> u64 {
        self.sealed
    }

    /// Counter of the newest datagram that this end opened; 0: none.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Seals `payload` into `out`; returns the datagram to send. `None`: the payload does not have the length
    /// of the datagrams that this end sends, or all counters are used up.
    pub fn seal<'a>(&mut self, payload: &[u8], out: &'a mut DataBuffer) -> Option<&'a [u8]> {
        let length = DATA_HEADER_BYTES + payload.len() + TAG_BYTES;
        let counter = self.sealed.checked_add(1).filter(|counter| *counter != u64::MAX)?;
        let datagram = out.get_mut(..length)?;
        datagram[..HEADER_BYTES].copy_from_slice(&Header { kind: self.end.sends(), id: self.id }.encode());
        datagram[HEADER_BYTES..DATA_HEADER_BYTES].copy_from_slice(&counter.to_le_bytes());
        Header::decode(datagram).ok()?; // checks the length
        self.noise.write_message(counter, payload, &mut datagram[DATA_HEADER_BYTES..]).ok()?;
        self.sealed = counter;
        Some(datagram)
    }

    /// Opens a datagram of the peer into `out`; returns its payload. A dropped datagram leaves the session
    /// unchanged; a forged one leaves zeros in `out`.
    pub fn open<'a>(&mut self, datagram: &[u8], out: &'a mut PayloadBuffer) -> Result<&'a [u8], Dropped> {
        let header = Header::decode(datagram)?;
        if header.kind != self.end.takes() {
            return Err(Dropped::Kind);
        }
        if header.id != self.id {
            return Err(Dropped::Foreign);
        }
        let counter = counter_of(datagram);
        if counter <= self.newest {
            return Err(Dropped::Stale);
        }
        match self.noise.read_message(counter, &datagram[DATA_HEADER_BYTES..], out) {
            Ok(length) => {
                self.newest = counter;
                Ok(&out[..length])
            }
            Err(_) => {
                out.fill(0);
                Err(Dropped::Forged)
            }
        }
    }
}

#[cfg(test)]
mod tests;
