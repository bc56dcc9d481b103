//! The keys, joins and sessions of the robots, without a socket: datagrams in, datagrams out. When a robot
//! joins again, its old session stays until the first datagram of the new one is opened. A robot's address is
//! that of its newest authentic datagram. Every dropped datagram is counted.

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
use limit::{AnswerLimits, CheckLimits};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Maximum number of sessions that a robot was offered but has not used: each answer to a join offers one,
/// and the answer may be lost.
const OFFERED_MOST: usize = 4;

/// Why a robot may not join.
#[derive(Debug)]
pub enum JoinRefusal {
    /// The robot has the key of another robot.
    Robot {
        /// Its name in the join.
        name: String,
        /// The name in its key.
        key: String,
    },
    /// The brain cannot read its join request.
    Format(String),
    /// The brain has no board with this name.
    Board {
        /// Its board.
        board: String,
        /// The brain's boards.
        served: String,
    },
    /// Its board differs from the brain's board of the same name.
    Differs(Difference),
    /// The brain cannot serve it.
    Robots(Refusal),
}

impl fmt::Display for JoinRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinRefusal::Robot { name, key } => {
                write!(f, "the robot calls itself `{name}`, but its key belongs to `{key}`")
            }
            JoinRefusal::Format(why) => f.write_str(why),
            JoinRefusal::Board { board, served } => {
                write!(f, "the robot's board is `{board}`, the brain has {served}")
            }
            JoinRefusal::Differs(difference) => difference.fmt(f),
            JoinRefusal::Robots(refusal) => refusal.fmt(f),
        }
    }
}

/// What a datagram turned out to be.
pub enum Incoming {
    /// A request of this robot; this many bytes of it are in the buffer.
    Request(RobotId, usize),
    /// A join; send this reply.
    Reply(Vec<u8>),
    /// A robot was refused.
    Refused {
        /// Its name.
        name: String,
        /// Why it was refused.
        why: JoinRefusal,
        /// The datagram to send; `None`: the system provided no random numbers.
        reply: Option<Vec<u8>>,
    },
    /// Nothing to send: a join that waits for its engine, or a dropped datagram.
    Nothing,
}

/// Index of a robot in the table.
type Index = usize;

/// A session, and its robot's address.
struct ActiveSession {
    known_robot: Index,
    robot: RobotId,
    session: Session,
    peer: SocketAddr,
}

/// What is known about a robot that has proved that it has its key.
#[derive(Default)]
struct KnownRobot {
    robot: Option<RobotId>,
    /// The session that was last used.
    current: Option<Id>,
    /// Newer sessions, which have not been used yet.
    offered: Vec<Id>,
    /// A join that waits for its engine.
    waiting: Option<(Pending, SocketAddr)>,
    limits: AnswerLimits,
    drops: Drops,
}

/// The keys, joins and sessions of all robots.
pub struct Sessions {
    keys: Keys,
    boards: Vec<Arc<ServedBoard>>,
    /// One entry for each robot that has proved that it has its key, so at most one for each key. Entries are
    /// never removed.
    known: Vec<KnownRobot>,
    by_name: HashMap<String, Index>,
    by_robot: HashMap<RobotId, Index>,
    sessions: HashMap<Id, ActiveSession>,
    check_limits: CheckLimits,
    next_session: u64,
    drops: Drops,
}

impl Sessions {
    /// A table in which no robot has joined yet. Sessions are numbered from `first`, which must differ
    /// between runs.
    pub fn new(keys: Keys, boards: Vec<Arc<ServedBoard>>, first: u64) -> Sessions {
        Sessions {
            keys,
            boards,
            known: Vec::new(),
            by_name: HashMap::new(),
            by_robot: HashMap::new(),
            sessions: HashMap::new(),
            check_limits: CheckLimits::new(),
            next_session: first,
            drops: Drops::default(),
        }
    }

    /// Handles a datagram that came from `from`; the payload of a request goes into `out`.
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
        let active = self.sessions.get_mut(&id).ok_or(Dropped::Foreign)?;
        let (robot, known_robot) = (active.robot, &mut self.known[active.known_robot]);
        let length = match active.session.open(datagram, out) {
            Ok(payload) => payload.len(),
            Err(why) => {
                known_robot.drops.count(why); // counts for the robot that it claims to come from
                return Ok(Incoming::Nothing);
            }
        };
        active.peer = from;
        known_robot.limits.set_home(from.ip());
        if known_robot.current != Some(id) {
            let old = known_robot.current.replace(id);
            let unused = std::mem::take(&mut known_robot.offered);
            for older in old.into_iter().chain(unused).filter(|other| *other != id) {
                self.sessions.remove(&older);
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
        self.check_limits.admit(from.ip(), now)?;
        let (join, pending) = accept(&key, datagram)?;
        // The message is authentic: it comes from the robot, or it replays one of the robot's messages.
        let index = self.index_of(&key.robot);
        self.known[index].limits.admit(datagram, from.ip(), now)?;
        let refuse = |why: JoinRefusal, pending: Pending| {
            let reply = pending.reply(&JoinReply::refused(&why)).ok().map(|(datagram, _)| datagram);
            Ok(Incoming::Refused { name: key.robot.clone(), why, reply })
        };
        let (board, join) = match self.board_of(&key, join) {
            Ok(found) => found,
            Err(why) => return refuse(why, pending),
        };
        let joined = hub.robots().join(&key.robot, &board, join.period, now);
        match joined {
            Err(why) => refuse(JoinRefusal::Robots(why), pending),
            Ok(Joined::Ready(robot)) => {
                let engine = hub.robots().engine_name_of(robot).unwrap_or_default();
                Ok(self.offer(index, robot, pending, from, engine).map_or(Incoming::Nothing, Incoming::Reply))
            }
            Ok(Joined::Waits(robot)) => {
                self.keep_waiting(index, robot, (pending, from));
                Ok(Incoming::Nothing)
            }
            Ok(Joined::Opens(robot, opener)) => {
                self.keep_waiting(index, robot, (pending, from));
                hub.open(robot, opener);
                Ok(Incoming::Nothing)
            }
        }
    }

    /// Index of the robot with this name; adds an entry for a new name.
    fn index_of(&mut self, name: &str) -> Index {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        self.known.push(KnownRobot::default());
        let index = self.known.len() - 1;
        self.by_name.insert(name.to_string(), index);
        index
    }

    /// Keeps `waiting`, the join of `robot` (number `index` in the table), until the robot has an engine.
    fn keep_waiting(&mut self, index: Index, robot: RobotId, waiting: (Pending, SocketAddr)) {
        self.set_robot(index, robot);
        self.known[index].waiting = Some(waiting);
    }

    /// Sets the ID of the robot at `index`. A new ID means a new engine, so the old sessions end.
    fn set_robot(&mut self, index: Index, robot: RobotId) {
        let known_robot = &mut self.known[index];
        if known_robot.robot == Some(robot) {
            return;
        }
        let before = known_robot.robot.replace(robot);
        before.iter().for_each(|before| _ = self.by_robot.remove(before));
        let old = known_robot.current.take().into_iter().chain(known_robot.offered.drain(..));
        old.for_each(|old| _ = self.sessions.remove(&old));
        self.by_robot.insert(robot, index);
    }

    /// The brain's board for this robot, and the robot's join request.
    fn board_of(
        &self,
        key: &Key,
        join: Result<Join, crate::runtime::tether::join::JoinError>,
    ) -> Result<(Arc<ServedBoard>, Join), JoinRefusal> {
        let join = join.map_err(|error| JoinRefusal::Format(error.to_string()))?;
        if join.robot != key.robot {
            return Err(JoinRefusal::Robot { name: join.robot, key: key.robot.clone() });
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
                Err(JoinRefusal::Board { board: join.board, served: names.join(", ") })
            }
        }
    }

    /// Answers a join with a session.
    fn offer(
        &mut self,
        index: Index,
        robot: RobotId,
        pending: Pending,
        peer: SocketAddr,
        engine: String,
    ) -> Option<Vec<u8>> {
        let id = Id(self.next_session.to_le_bytes());
        self.next_session = self.next_session.wrapping_add(1);
        let (datagram, session) = pending.reply(&JoinReply::Joined { session: id, engine }).ok()?;
        self.set_robot(index, robot);
        let known_robot = &mut self.known[index];
        if known_robot.offered.len() >= OFFERED_MOST {
            self.sessions.remove(&known_robot.offered.remove(0));
        }
        known_robot.offered.push(id);
        self.sessions.insert(id, ActiveSession { known_robot: index, robot, session: session?, peer });
        Some(datagram)
    }

    /// The engine of `robot` was opened, or the robot may not join. Returns the reply, if the robot waits for
    /// one.
    pub fn opened(
        &mut self,
        robot: RobotId,
        opened: &Result<String, Refusal>,
    ) -> Option<(Vec<u8>, SocketAddr)> {
        let index = *self.by_robot.get(&robot)?;
        let (pending, peer) = self.known[index].waiting.take()?;
        let datagram = match opened {
            Ok(engine) => self.offer(index, robot, pending, peer, engine.clone())?,
            Err(why) => pending.reply(&JoinReply::refused(why)).ok()?.0,
        };
        Some((datagram, peer))
    }

    /// Seals an answer; returns the datagram and its destination. `None`: the robot has no session any more.
    pub fn seal<'a>(
        &mut self,
        robot: RobotId,
        answer: &CycleAnswer,
        out: &'a mut DataBuffer,
    ) -> Option<(&'a [u8], SocketAddr)> {
        let current = self.known[*self.by_robot.get(&robot)?].current?;
        let active = self.sessions.get_mut(&current)?;
        Some((active.session.seal(&answer.encode(), out)?, active.peer))
    }

    /// Drops the sessions of robots that are gone.
    pub fn forget_gone(&mut self, is_here: impl Fn(RobotId) -> bool) {
        self.sessions.retain(|_, active| is_here(active.robot));
        self.by_robot.retain(|robot, _| is_here(*robot));
        for known_robot in &mut self.known {
            if known_robot.robot.is_some_and(|robot| !is_here(robot)) {
                (known_robot.robot, known_robot.current, known_robot.waiting) = (None, None, None);
                known_robot.offered.clear();
            }
        }
    }

    /// A robot's address, and the datagrams that were dropped on its sessions.
    pub fn of_robot(&self, name: &str) -> (Option<SocketAddr>, Drops) {
        let Some(index) = self.by_name.get(name) else { return (None, Drops::default()) };
        let known_robot = &self.known[*index];
        let active =
            known_robot.current.or(known_robot.offered.last().copied()).and_then(|id| self.sessions.get(&id));
        (active.map(|active| active.peer), known_robot.drops)
    }

    /// Dropped datagrams that belong to no session.
    pub fn drops(&self) -> Drops {
        self.drops
    }
}
