//! What wakes a process that sleeps: a datagram to a socket of its own, which `poll(2)` waits for beside its others.
//!
//! Its name is abstract: it lies in the network namespace, and is gone with its process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Most rings that are taken note of at once: the kernel keeps fewer.
const MOST_RINGS: usize = 1024;

/// A process's own bell, with which it also rings the others'.
#[derive(Debug)]
pub(in crate::packet) struct Doorbell {
    socket: UnixDatagram,
}

/// Where the process of a nonce is rung.
fn address(nonce: u64) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("ethbcast/{nonce:016x}"))
}

impl Doorbell {
    /// That of the process of this nonce.
    pub(super) fn new(nonce: u64) -> io::Result<Doorbell> {
        let socket = UnixDatagram::bind_addr(&address(nonce)?)?;
        socket.set_nonblocking(true)?;
        Ok(Doorbell { socket })
    }

    /// Rings that of another process. One that is full has been rung, and one that is not there needs no waking.
    pub(super) fn ring(&self, nonce: u64) {
        if let Ok(address) = address(nonce) {
            let _ = self.socket.send_to_addr(&[1], &address);
        }
    }

    /// Takes note of all rings so far.
    pub(in crate::packet) fn acknowledge(&self) {
        let mut rings = MOST_RINGS;
        while rings > 0 && self.socket.recv(&mut [0]).is_ok() {
            rings -= 1;
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
