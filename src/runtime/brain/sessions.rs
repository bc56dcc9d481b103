//! Datagrams in, datagrams out: keys, joins and sessions of the robots, without a socket. The session of a
//! robot that joins again stays until the first datagram of the new one opens; a robot's address follows its
//! newest authentic datagram. Each thing that is dropped is counted.

mod limit;

use super::boards::ServedBoard;
use super::robots::{Joined, Refusal, RobotId};
use super::workers::Hub;
use crate::base::time::Instant;
use crate::field::remote::message::CycleAnswer;
use crate::runtime::tether::datagram::{Header, Id, Kind};
use crate::runtime::tether::join::{Difference, Join, JoinReply};
use crate::runtime::tether::key::{Key, Keys};
use crate::runtime::tether::session::{DataBuffer, PayloadBuffer, Pending, Session, accept};
use crate::runtime::tether::{Dropped, Drops};
use limit::{Limits, Proofs};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Sessions that a robot may have been offered and not used: each attempt to join that was answered offers
/// one, and an answer may be lost.
const OFFERED_MOST: usize = 4;

/// Why a robot may not join.
#[derive(Debug)]
pub enum JoinRefusal {
    /// Its key is of another robot.
    Robot {
        /// What it calls itself.
        said: String,
        /// Whose key it has.
        key: String,
    },
    /// Its message is of a format that the brain does not speak.
    Format(String),
    /// No board of the brain has that name.
    Board {
        /// Its board.
        said: String,
        /// The brain's boards.
        served: String,
    },
    /// Its board is another one than the brain's of that name.
    Differs(Difference),
    /// The brain cannot take it.
    Robots(Refusal),
}

impl fmt::Display for JoinRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinRefusal::Robot { said, key } => {
                write!(f, "the robot calls itself `{said}`, its key is that of `{key}`")
            }
            JoinRefusal::Format(why) => f.write_str(why),
            JoinRefusal::Board { said, served } => {
                write!(f, "the robot's board is `{said}`, the brain has {served}")
            }
            JoinRefusal::Differs(difference) => difference.fmt(f),
            JoinRefusal::Robots(refusal) => refusal.fmt(f),
        }
    }
}

/// What a datagram turned out to be.
pub enum Incoming {
    /// A request of this robot: so many bytes are in the buffer.
    Request(RobotId, usize),
    /// To be answered with this datagram.
    Reply(Vec<u8>),
    /// A robot was refused with this datagram.
    Refused {
        /// Its name.
        name: String,
        /// Why.
        why: JoinRefusal,
        /// What it is told; `None`: the system gave no random numbers.
        reply: Option<Vec<u8>>,
    },
    /// It waits for an engine, or was dropped.
    Nothing,
}

/// Where a guest stands among all.
type Place = usize;

/// A session with where its robot is.
struct Line {
    guest: Place,
    robot: RobotId,
    session: Session,
    peer: SocketAddr,
}

/// What the reception knows of a robot by its key.
#[derive(Default)]
struct Guest {
    robot: Option<RobotId>,
    /// The session that was last used.
    current: Option<Id>,
    /// Newer ones, none of which was used yet.
    offered: Vec<Id>,
    /// A join that waits for its engine.
    waiting: Option<(Pending, SocketAddr)>,
    limits: Limits,
    drops: Drops,
}

/// Keys, joins, sessions.
pub struct Reception {
    keys: Keys,
    boards: Vec<Arc<ServedBoard>>,
    /// One for each name that a key has proven, so no more than there are keys. They stay.
    guests: Vec<Guest>,
    by_name: HashMap<String, Place>,
    by_robot: HashMap<RobotId, Place>,
    lines: HashMap<Id, Line>,
    proofs: Proofs,
    next_session: u64,
    drops: Drops,
}

impl Reception {
    /// Nobody has joined. Sessions are numbered from `first`, which has to be another one in each run.
    pub fn new(keys: Keys, boards: Vec<Arc<ServedBoard>>, first: u64) -> Reception {
        Reception {
            keys,
            boards,
            guests: Vec::new(),
            by_name: HashMap::new(),
            by_robot: HashMap::new(),
            lines: HashMap::new(),
            proofs: Proofs::new(),
            next_session: first,
            drops: Drops::default(),
        }
    }

    /// Takes a datagram that came from `from`.
    pub fn receive(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        now: Instant,
        hub: &Hub,
        out: &mut PayloadBuffer,
    ) -> Incoming {
        let taken = Header::decode(datagram).and_then(|header| match header.kind {
            Kind::Up => self.open(header.id, datagram, from, out),
            Kind::Join => self.join(header.id, datagram, from, now, hub),
            Kind::Joined | Kind::Down => Err(Dropped::Kind),
        });
        taken.unwrap_or_else(|why| {
            self.drops.count(why);
            Incoming::Nothing
        })
    }

    fn open(
        &mut self,
        id: Id,
        datagram: &[u8],
        from: SocketAddr,
        out: &mut PayloadBuffer,
    ) -> Result<Incoming, Dropped> {
        let line = self.lines.get_mut(&id).ok_or(Dropped::Foreign)?;
        let (robot, guest) = (line.robot, &mut self.guests[line.guest]);
        let length = match line.session.open(datagram, out) {
            Ok(payload) => payload.len(),
            Err(why) => {
                guest.drops.count(why); // with the robot that it claims to be of
                return Ok(Incoming::Nothing);
            }
        };
        line.peer = from;
        guest.limits.is_at_home(from.ip());
        if guest.current != Some(id) {
            let old = guest.current.replace(id);
            let unused = std::mem::take(&mut guest.offered);
            for older in old.into_iter().chain(unused).filter(|other| *other != id) {
                self.lines.remove(&older);
            }
        }
        Ok(Incoming::Request(robot, length))
    }

    fn join(
        &mut self,
        id: Id,
        datagram: &[u8],
        from: SocketAddr,
        now: Instant,
        hub: &Hub,
    ) -> Result<Incoming, Dropped> {
        let key = self.keys.get(&id).ok_or(Dropped::UnknownKey)?.clone();
        self.proofs.admit(from.ip(), now)?;
        let (said, pending) = accept(&key, datagram)?;
        // From here on it is the robot's, or what the robot has sent before.
        let place = self.place_of(&key.robot);
        self.guests[place].limits.admit(datagram, from.ip(), now)?;
        let refuse = |why: JoinRefusal, pending: Pending| {
            let reply = pending.reply(&JoinReply::refused(&why)).ok().map(|(datagram, _)| datagram);
            Ok(Incoming::Refused { name: key.robot.clone(), why, reply })
        };
        let (board, join) = match self.board_of(&key, said) {
            Ok(found) => found,
            Err(why) => return refuse(why, pending),
        };
        let joined = hub.robots().join(&key.robot, &board, join.period, now);
        match joined {
            Err(why) => refuse(JoinRefusal::Robots(why), pending),
            Ok(Joined::Ready(robot)) => {
                let engine = hub.robots().engine_name_of(robot).unwrap_or_default();
                Ok(self.offer(place, robot, pending, from, engine).map_or(Incoming::Nothing, Incoming::Reply))
            }
            Ok(Joined::Waits(robot)) => {
                self.waits(place, robot, (pending, from));
                Ok(Incoming::Nothing)
            }
            Ok(Joined::Opens(robot, opening)) => {
                self.waits(place, robot, (pending, from));
                hub.open(robot, opening);
                Ok(Incoming::Nothing)
            }
        }
    }

    /// Where the guest of that name stands.
    fn place_of(&mut self, name: &str) -> Place {
        if let Some(place) = self.by_name.get(name) {
            return *place;
        }
        self.guests.push(Guest::default());
        let place = self.guests.len() - 1;
        self.by_name.insert(name.to_string(), place);
        place
    }

    /// The guest at `place` is `robot`, whose join `waiting` is answered when it has an engine.
    fn waits(&mut self, place: Place, robot: RobotId, waiting: (Pending, SocketAddr)) {
        self.is_now(place, robot);
        self.guests[place].waiting = Some(waiting);
    }

    /// The guest at `place` is `robot`. If it was another one, its engine is another one, and what was agreed
    /// for the one before is of no use.
    fn is_now(&mut self, place: Place, robot: RobotId) {
        let guest = &mut self.guests[place];
        if guest.robot == Some(robot) {
            return;
        }
        let before = guest.robot.replace(robot);
        before.iter().for_each(|before| _ = self.by_robot.remove(before));
        let old = guest.current.take().into_iter().chain(guest.offered.drain(..));
        old.for_each(|old| _ = self.lines.remove(&old));
        self.by_robot.insert(robot, place);
    }

    /// The board that the robot has, as the brain has it.
    fn board_of(
        &self,
        key: &Key,
        said: Result<Join, crate::runtime::tether::join::JoinError>,
    ) -> Result<(Arc<ServedBoard>, Join), JoinRefusal> {
        let join = said.map_err(|error| JoinRefusal::Format(error.to_string()))?;
        if join.robot != key.robot {
            return Err(JoinRefusal::Robot { said: join.robot, key: key.robot.clone() });
        }
        let same = self.boards.iter().find(|board| join.difference(&board.expected).is_none());
        if let Some(board) = same {
            return Ok((board.clone(), join));
        }
        match self.boards.iter().find(|board| board.board.name == join.board) {
            Some(board) => match join.difference(&board.expected) {
                Some(difference) => Err(JoinRefusal::Differs(difference)),
                None => Ok((board.clone(), join)),
            },
            None => {
                let names: Vec<_> =
                    self.boards.iter().map(|board| format!("`{}`", board.board.name)).collect();
                Err(JoinRefusal::Board { said: join.board, served: names.join(", ") })
            }
        }
    }

    /// Answers a join with a session.
    fn offer(
        &mut self,
        place: Place,
        robot: RobotId,
        pending: Pending,
        peer: SocketAddr,
        engine: String,
    ) -> Option<Vec<u8>> {
        let id = Id(self.next_session.to_le_bytes());
        self.next_session = self.next_session.wrapping_add(1);
        let (datagram, session) = pending.reply(&JoinReply::Joined { session: id, engine }).ok()?;
        self.is_now(place, robot);
        let guest = &mut self.guests[place];
        if guest.offered.len() >= OFFERED_MOST {
            self.lines.remove(&guest.offered.remove(0));
        }
        guest.offered.push(id);
        self.lines.insert(id, Line { guest: place, robot, session: session?, peer });
        Some(datagram)
    }

    /// The engine of `robot` was opened, or it may not join: the datagram that tells it, if it waits.
    pub fn opened(
        &mut self,
        robot: RobotId,
        opened: &Result<String, Refusal>,
    ) -> Option<(Vec<u8>, SocketAddr)> {
        let place = *self.by_robot.get(&robot)?;
        let (pending, peer) = self.guests[place].waiting.take()?;
        let datagram = match opened {
            Ok(engine) => self.offer(place, robot, pending, peer, engine.clone())?,
            Err(why) => pending.reply(&JoinReply::refused(why)).ok()?.0,
        };
        Some((datagram, peer))
    }

    /// Seals an answer: the datagram and where to send it. `None`: the robot has no session any more.
    pub fn seal<'a>(
        &mut self,
        robot: RobotId,
        answer: &CycleAnswer,
        out: &'a mut DataBuffer,
    ) -> Option<(&'a [u8], SocketAddr)> {
        let current = self.guests[*self.by_robot.get(&robot)?].current?;
        let line = self.lines.get_mut(&current)?;
        Some((line.session.seal(&answer.encode(), out)?, line.peer))
    }

    /// Forgets the sessions of robots that are gone.
    pub fn forget_gone(&mut self, is_here: impl Fn(RobotId) -> bool) {
        self.lines.retain(|_, line| is_here(line.robot));
        self.by_robot.retain(|robot, _| is_here(*robot));
        for guest in &mut self.guests {
            if guest.robot.is_some_and(|robot| !is_here(robot)) {
                (guest.robot, guest.current, guest.waiting) = (None, None, None);
                guest.offered.clear();
            }
        }
    }

    /// Where a robot is, and what was dropped in its name.
    pub fn of_robot(&self, name: &str) -> (Option<SocketAddr>, Drops) {
        let Some(place) = self.by_name.get(name) else { return (None, Drops::default()) };
        let guest = &self.guests[*place];
        let line = guest.current.or(guest.offered.last().copied()).and_then(|id| self.lines.get(&id));
        (line.map(|line| line.peer), guest.drops)
    }

    /// What was dropped in nobody's name.
    pub fn drops(&self) -> Drops {
        self.drops
    }
}
