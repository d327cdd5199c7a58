//! Help texts for errors of the disk.

use ethbcast_collectives::session::live::{StorageError, is_full};
use nix::libc;
use std::io::{self, ErrorKind};

/// Returns the error of `doing` something at DEST, with advice for the user.
pub fn trouble(doing: &str, error: io::Error) -> StorageError {
    let help = match error.kind() {
        ErrorKind::QuotaExceeded => "; the quota is used up: make room, ask for more, or choose another DEST",
        ErrorKind::FileTooLarge => "; raise the limit (`ulimit -f`), or choose a DEST whose file system takes the size",
        _ if is_full(&error) => "; make room or choose another DEST",
        ErrorKind::ResourceBusy => "; unmount it, or end what uses it",
        ErrorKind::CrossesDevices => {
            "; it is on another file system than what holds it, or in a lower layer of a container's: use --in-place"
        }
        ErrorKind::PermissionDenied => "; let this user write there, or choose another DEST",
        ErrorKind::AlreadyExists => "; remove it, or replace it with --force",
        ErrorKind::IsADirectory => "; a directory took its place meanwhile: remove it, or choose another DEST",
        ErrorKind::ReadOnlyFilesystem => "; the disk may have failed (see `dmesg`): choose another DEST",
        _ if error.raw_os_error() == Some(libc::EIO) => "; the disk is failing (see `dmesg`): choose another DEST",
        _ => "",
    };
    StorageError::system(doing, error, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_common_error_of_a_disk_says_what_to_do() {
        for (errno, help) in [
            (libc::ENOSPC, "make room"),
            (libc::EDQUOT, "quota"),
            (libc::EFBIG, "ulimit -f"),
            (libc::EIO, "dmesg"),
            (libc::EROFS, "dmesg"),
            (libc::EEXIST, "--force"),
            (libc::EISDIR, "choose another DEST"),
            (libc::EXDEV, "--in-place"),
            (libc::EACCES, "this user"),
        ] {
            let error = trouble("write", io::Error::from_raw_os_error(errno));
            assert!(error.to_string().contains(help), "{error}");
        }
    }
}
