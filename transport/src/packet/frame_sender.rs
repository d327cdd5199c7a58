//! A socket that only sends, for callers without a driver loop; it has no ring.

use super::error::{Errno, OpenError};
use super::sender::{largest_passing, mtu_of};
use super::{Interface, links, syscall};
use crate::wire::{ETHERNET_BYTES, EtherType};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

/// Sends whole frames on one interface, one at a time.
#[derive(Debug)]
pub struct FrameSender {
    socket: OwnedFd,
    interface: Interface,
}

impl FrameSender {
    /// Opens a socket on `interface`, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(interface: &Interface) -> Result<FrameSender, OpenError> {
        let failed = |step| move |errno| OpenError::new(&interface.name, step, errno);
        let socket = syscall::packet_socket().map_err(failed("open a packet socket"))?;
        syscall::bind(socket.as_fd(), interface.index, None).map_err(failed("bind the packet socket"))?;
        Ok(FrameSender { socket, interface: interface.clone() })
    }

    /// Whether the interface is on and has a link at this moment; a card drops frames given to it
    /// before.
    pub fn has_link(&self) -> bool {
        links::has_link(self.interface.index)
    }

    /// Returns the largest MTU, in bytes, that what the interface leads to takes, where that is not the interface's
    /// own; nothing where all or no frames leave. The frames for it are to this host itself, and go no further than
    /// the next switch.
    pub fn first_hop(&self, ether_type: EtherType) -> Option<usize> {
        let mac = self.interface.mac.octets();
        let mut header = [0; ETHERNET_BYTES];
        header.copy_from_slice(&[&mac[..], &mac, &ether_type.octets()].concat());
        let passes = largest_passing(self.socket.as_fd(), &header, ETHERNET_BYTES + self.interface.mtu_bytes)?;
        Some(mtu_of(passes)).filter(|&mtu_bytes| mtu_bytes > 0)
    }

    /// Sends a frame, Ethernet header first, if the kernel has room for it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let sent = syscall::send_many(self.socket.as_fd(), &[[IoSlice::new(frame), IoSlice::new(&[])]]);
        sent.map(drop).map_err(|errno| Errno::new(errno).into())
    }
}
