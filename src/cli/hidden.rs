//! Board files that the user can see but the service cannot: its units have `ProtectHome=yes`, which hides
//! /home, /root and /run/user from them (systemd.exec(5)). For a file in a user's home, the service gets "not
//! found" or "permission denied", and neither error explains why.

use std::path::{Path, PathBuf};

/// The folders that `ProtectHome=yes` hides.
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];
/// Where the units look for the board file.
pub(super) const BOARD: &str = "/etc/ganglion/board.toml";
/// Longest chain of symbolic links that is followed.
const LINKS: usize = 4;

/// The fix to suggest if `path` could not be opened here; `None` unless this is a service and the path is
/// hidden from it.
pub(super) fn fix(path: &Path, in_service: bool) -> Option<String> {
    let place = home_of(path).filter(|_| in_service)?;
    Some(format!(
        "the unit's ProtectHome= hides {} from the service: put the board at {BOARD} (sudo install -m 644 FILE {BOARD}), \
         or use another path outside the homes of users",
        place.display()
    ))
}

/// The note to print after a board was saved at `path`, if the service cannot see that path.
pub(super) fn note(path: &Path) -> Option<String> {
    home_of(path).map(|place| {
        format!(
            "note: the service will not see it there: its units hide {} (ProtectHome=); for the service: \
             sudo install -m 644 {} {BOARD}",
            place.display(),
            path.display()
        )
    })
}

/// The hidden folder that contains `path` or the target of a link at `path`.
fn home_of(path: &Path) -> Option<PathBuf> {
    let mut path = std::path::absolute(path).ok()?;
    for _ in 0..=LINKS {
        let real = path.canonicalize();
        let inside =
            |home: &&&str| path.starts_with(home) || real.as_ref().is_ok_and(|real| real.starts_with(home));
        if let Some(home) = HOMES.iter().find(inside) {
            return Some(PathBuf::from(home));
        }
        // The link's target cannot be opened, but the link can be read.
        let to = std::fs::read_link(&path).ok()?;
        path = path.parent()?.join(to);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_in_a_home_is_hidden_only_from_the_service() {
        for hidden in ["/home/pi", "/root", "/run/user/1000"].map(|home| Path::new(home).join("robot.toml")) {
            let words = fix(&hidden, true).unwrap();
            assert!(words.contains("ProtectHome=") && words.contains("/etc/ganglion/board.toml"), "{words}");
            assert_eq!(fix(&hidden, false), None, "a user's typing error");
        }
        for seen in ["/etc/ganglion/board.toml", "/homer/robot.toml", "/run/ganglion/robot.toml"] {
            assert_eq!(fix(Path::new(seen), true), None, "{seen}");
            assert_eq!(note(Path::new(seen)), None, "{seen}");
        }
    }

    #[test]
    fn a_link_into_a_home_is_hidden_as_well() {
        let link = std::env::temp_dir().join(format!("ganglion-hidden-{}.toml", std::process::id()));
        std::os::unix::fs::symlink("/home/nobody-here/robot.toml", &link).unwrap();
        let words = fix(&link, true);
        std::fs::remove_file(&link).unwrap();
        assert!(words.unwrap().contains("hides /home from"));
    }

    #[test]
    fn saving_a_board_in_a_home_warns_with_a_fix() {
        let words = note(Path::new("/home/pi/my-car.toml")).unwrap();
        assert!(words.contains("will not see it"), "{words}");
        assert!(
            words.ends_with("sudo install -m 644 /home/pi/my-car.toml /etc/ganglion/board.toml"),
            "{words}"
        );
    }
}
