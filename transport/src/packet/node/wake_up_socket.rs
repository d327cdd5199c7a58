//! A socket by which one process wakes another on the same host from `poll(2)`.
//!
//! Its name is abstract: it lives in the network namespace and disappears with its process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const MAX_RINGS: usize = 1024;

#[derive(Debug)]
pub(in crate::packet) struct WakeUpSocket {
    socket: UnixDatagram,
}

fn address(nonce: u64) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("ethbcast/{nonce:016x}"))
}

impl WakeUpSocket {
    pub(super) fn new(nonce: u64) -> io::Result<WakeUpSocket> {
        let socket = UnixDatagram::bind_addr(&address(nonce)?)?;
        socket.set_nonblocking(true)?;
        Ok(WakeUpSocket { socket })
    }

    /// Wakes another process. A full socket has woken it already, and a missing one needs no
    /// waking.
    pub(super) fn ring(&self, nonce: u64) {
        if let Ok(address) = address(nonce) {
            let _ = self.socket.send_to_addr(&[1], &address);
        }
    }

    pub(in crate::packet) fn acknowledge(&self) {
        let mut rings = MAX_RINGS;
        while rings > 0 && self.socket.recv(&mut [0]).is_ok() {
            rings -= 1;
        }
    }
}

impl AsFd for WakeUpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
