//! Which processes a guard guards: those of one user, as the kernel reports the other end of a connection. If
//! guard and runtime are two users, a broken runtime can neither end its guard nor take its socket's place.
//!
//! Users are looked up where `systemd-sysusers` writes them, not in a directory service.

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// The system's users, one per line: name, password, number, ...
const USERS: &str = "/etc/passwd";

/// The user whose processes may be guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedUser(Uid);

/// Why there is no such user.
#[derive(Debug)]
pub enum AllowedUserError {
    /// The list of users cannot be read.
    Users(io::Error),
    /// It has no such name.
    Unknown(String),
}

impl fmt::Display for AllowedUserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllowedUserError::Users(error) => write!(f, "{USERS}: {error}"),
            AllowedUserError::Unknown(name) => write!(f, "no user `{name}` in {USERS}"),
        }
    }
}

impl AllowedUser {
    /// The user of this process itself.
    pub fn own() -> AllowedUser {
        AllowedUser(geteuid())
    }

    /// The user with that name or number.
    pub fn named(name: &str) -> Result<AllowedUser, AllowedUserError> {
        if let Ok(number) = name.parse::<u32>() {
            return Ok(AllowedUser(Uid::from_raw(number)));
        }
        let users = std::fs::read_to_string(USERS).map_err(AllowedUserError::Users)?;
        number_in(&users, name).ok_or_else(|| AllowedUserError::Unknown(name.to_string())).map(AllowedUser)
    }

    /// Whether the process that made `connection` belongs to this user or to root.
    pub fn is_at(self, connection: &OwnedFd) -> bool {
        socket_peercred(connection).is_ok_and(|peer| self.is(peer.uid))
    }

    fn is(self, user: Uid) -> bool {
        user.is_root() || user == self.0
    }
}

/// The number of the user of that name.
fn number_in(users: &str, name: &str) -> Option<Uid> {
    let of = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    };
    users.lines().find_map(of).map(Uid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &str = "root:x:0:0:root:/root:/bin/bash\nganglion-guard:x:998:998::/:/bin/false\nganglion:x:997:997::/:/bin/false\n";

    #[test]
    fn users_are_matched_by_their_full_name() {
        assert_eq!(number_in(SOME, "ganglion"), Some(Uid::from_raw(997)));
        assert_eq!(number_in(SOME, "ganglion-guard"), Some(Uid::from_raw(998)));
        for none in ["gangli", "", "x", "ganglion:x"] {
            assert_eq!(number_in(SOME, none), None, "{none}");
        }
        assert_eq!(number_in("broken:x:many\nshort", "broken"), None);
        assert_eq!(AllowedUser::named("root").expect("every system has it"), AllowedUser(Uid::ROOT));
        assert_eq!(AllowedUser::named("997").expect("a number"), AllowedUser(Uid::from_raw(997)));
        assert!(matches!(AllowedUser::named("no such user"), Err(AllowedUserError::Unknown(_))));
    }

    #[test]
    fn only_the_users_and_roots_processes_are_accepted() {
        let allowed = AllowedUser(Uid::from_raw(997));
        assert!(allowed.is(Uid::from_raw(997)) && allowed.is(Uid::ROOT));
        assert!(!allowed.is(Uid::from_raw(998)), "not even the guard's own user, where another was named");
    }
}
