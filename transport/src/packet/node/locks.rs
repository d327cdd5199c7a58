//! Locks on the node's file; the kernel releases them when their process ends, however it does.
//!
//! They are open file description locks (`F_OFD_SETLK`), and are only tried, never waited for.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use std::os::fd::AsFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// Membership lock: held while a process joins or the last one leaves.
    Door,
    /// Receive lock: held by the process that receives from the wire for all.
    Ear,
    Seat(u8),
}

impl Lock {
    fn range(self, kind: libc::c_int) -> libc::flock {
        let at = match self {
            Lock::Door => 0,
            Lock::Ear => 1,
            Lock::Seat(seat) => 16 + i64::from(seat),
        };
        libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: at as _, l_len: 1, l_pid: 0 }
    }

    pub(super) fn take(self, file: impl AsFd) -> nix::Result<bool> {
        match fcntl(file, FcntlArg::F_OFD_SETLK(&self.range(libc::F_WRLCK))) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn release(self, file: impl AsFd) {
        let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&self.range(libc::F_UNLCK)));
    }
}
