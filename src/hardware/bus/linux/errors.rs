//! Maps the kernel's error numbers to the few kinds of bus fault, and to error messages. Pure functions.

use crate::base::fault::BusFault;
use crate::hardware::bus::OpenError;
use std::io;

/// The bus fault for an error number of a transfer, a line or an attribute.
///
/// Transfer errors are those of the kernel's `Documentation/i2c/fault-codes.rst`; names in brackets are the
/// controller drivers of the supported boards. Any other number is [`BusFault::Io`].
pub(super) fn fault(errno: i32) -> BusFault {
    match errno {
        // No acknowledge (i2c-bcm2835, i2c-designware and i2c-tegra: EREMOTEIO).
        libc::ENXIO | libc::EREMOTEIO => BusFault::Nack,
        libc::EAGAIN => BusFault::ArbitrationLost,
        libc::ETIMEDOUT => BusFault::TimedOut,
        // The controller cannot do this (i2c-bcm2835: a read that is not last), or it was refused.
        libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY | libc::EPERM | libc::EACCES | libc::EBUSY => {
            BusFault::Unsupported
        }
        libc::ENOENT | libc::ENODEV | libc::EBADF => BusFault::Absent,
        _ => BusFault::Io,
    }
}

/// The bus fault for an error of the standard library; an error without a number is [`BusFault::Io`].
pub(super) fn fault_of(error: &io::Error) -> BusFault {
    error.raw_os_error().map_or(BusFault::Io, fault)
}

/// Why `what` could not be opened. `group`: the group that may open it; `absent`: what to do if permission is
/// not the reason.
pub(super) fn refused(what: &str, error: &io::Error, absent: &str, group: &str) -> OpenError {
    let denied = error.kind() == io::ErrorKind::PermissionDenied;
    let (why, fix) = match error.kind() {
        io::ErrorKind::NotFound => ("it does not exist".to_string(), absent.to_string()),
        io::ErrorKind::PermissionDenied => (
            "this user has no permission to open it".to_string(),
            format!(
                "add the user to group '{group}' and log in again; if it still fails, a udev rule is missing"
            ),
        ),
        _ => (error.to_string(), absent.to_string()),
    };
    OpenError { what: what.to_string(), why, fix, denied }
}

/// An error with our own text.
pub(super) fn error(what: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) -> OpenError {
    OpenError { what: what.into(), why: why.into(), fix: fix.into(), denied: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_class_has_its_error_numbers() {
        // Written as numbers: they are the kernel's interface, the same on every architecture supported here.
        let classes: [(&[i32], BusFault); 6] = [
            (&[6, 121], BusFault::Nack),
            (&[11], BusFault::ArbitrationLost),
            (&[110], BusFault::TimedOut),
            (&[5, 4, 71, 74], BusFault::Io),
            (&[95, 22, 25, 1, 13, 16], BusFault::Unsupported),
            (&[2, 19, 9], BusFault::Absent),
        ];
        for (numbers, class) in classes {
            for &number in numbers {
                assert_eq!(fault(number), class, "errno {number}");
            }
        }
    }

    #[test]
    fn missing_and_forbidden_are_different_faults() {
        let refused = |number| refused("x", &io::Error::from_raw_os_error(number), "plug it in", "i2c");
        assert_eq!(refused(libc::ENOENT).fix, "plug it in");
        assert!(refused(libc::EACCES).fix.contains("group 'i2c'"));
        assert!(refused(libc::EIO).why.contains("os error 5"));
        let denied =
            [libc::EACCES, libc::EPERM, libc::ENOENT, libc::EBUSY].map(|number| refused(number).denied);
        assert_eq!(denied, [true, true, false, false]);
    }
}
