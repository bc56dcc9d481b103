//! Which runtimes a guard accepts: those of one user, by the peer credentials that the kernel reports for the
//! connection. If guard and runtime run as different users, a broken runtime can neither kill its guard nor
//! replace its socket.
//!
//! Users are looked up in the file that `systemd-sysusers` writes, not in a directory service.

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// The system's users, one per line: name, password, user ID, ...
const USERS: &str = "/etc/passwd";

/// The user whose processes may be guarded; root's always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedUser(Uid);

/// Why a user cannot be found.
#[derive(Debug)]
pub enum AllowedUserError {
    /// The list of users cannot be read.
    Users(io::Error),
    /// The list has no user with this name.
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

    /// The user with this name or user ID.
    pub fn named(name: &str) -> Result<AllowedUser, AllowedUserError> {
        if let Ok(number) = name.parse::<u32>() {
            return Ok(AllowedUser(Uid::from_raw(number)));
        }
        let users = std::fs::read_to_string(USERS).map_err(AllowedUserError::Users)?;
        uid_in(&users, name).ok_or_else(|| AllowedUserError::Unknown(name.to_string())).map(AllowedUser)
    }

    /// Whether the process that made `connection` belongs to this user or to root.
    pub fn is_at(self, connection: &OwnedFd) -> bool {
        socket_peercred(connection).is_ok_and(|peer| self.is(peer.uid))
    }

    fn is(self, user: Uid) -> bool {
        user.is_root() || user == self.0
    }
}

/// The ID of the user with this name.
fn uid_in(users: &str, name: &str) -> Option<Uid> {
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
    fn users_are_found_by_their_whole_name() {
        assert_eq!(uid_in(SOME, "ganglion"), Some(Uid::from_raw(997)));
        assert_eq!(uid_in(SOME, "ganglion-guard"), Some(Uid::from_raw(998)));
        for none in ["gangli", "", "x", "ganglion:x"] {
            assert_eq!(uid_in(SOME, none), None, "{none}");
        }
        assert_eq!(uid_in("broken:x:many\nshort", "broken"), None);
        assert_eq!(AllowedUser::named("root").expect("every system has it"), AllowedUser(Uid::ROOT));
        assert_eq!(AllowedUser::named("997").expect("a number"), AllowedUser(Uid::from_raw(997)));
        assert!(matches!(AllowedUser::named("no such user"), Err(AllowedUserError::Unknown(_))));
    }

    #[test]
    fn only_processes_of_the_user_and_root_are_allowed() {
        let allowed = AllowedUser(Uid::from_raw(997));
        assert!(allowed.is(Uid::from_raw(997)) && allowed.is(Uid::ROOT));
        assert!(!allowed.is(Uid::from_raw(998)), "not even the guard's own user, once another is named");
    }
}
