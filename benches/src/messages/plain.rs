//! A bare packet socket: the baseline of round trips.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, bail};
use ethbcast_transport::MacAddr;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrLike, recv, sendto, socket,
};

use crate::cluster::INTERFACE;
use crate::ends::HEADER_BYTES;

/// EtherType of the frames: 255, the number of [`SockProtocol::Raw`], in the byte order in which a
/// packet socket takes it. It is unassigned, and the only such one that `nix` has a name for.
const ETHER_TYPE: u16 = 255_u16.to_be();

/// Way to wait for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    Blocking,
    Spinning,
}

/// A packet socket of one EtherType.
#[derive(Debug)]
pub struct Plain {
    socket: OwnedFd,
    address: LinkAddr,
}

impl Plain {
    /// Opens one on this thread's host.
    ///
    /// # Errors
    /// Fails if there is no interface, or if the kernel refuses the socket.
    pub fn open() -> anyhow::Result<Self> {
        let mut addresses =
            getifaddrs()?.filter(|entry| entry.interface_name == INTERFACE).filter_map(|entry| entry.address);
        let address = addresses.find(|address| address.family() == Some(AddressFamily::Packet));
        let address =
            *address.as_ref().and_then(|address| address.as_link_addr()).context("the lab's host has no interface")?;
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
        Ok(Self { socket, address })
    }

    /// Makes a frame for [`send`](Self::send), from an arbitrary address.
    pub fn frame(to: MacAddr, payload: &[u8]) -> Vec<u8> {
        let from = [2, 0, 0, 0, 0, 1];
        [&to.octets()[..], &from, &ETHER_TYPE.to_be_bytes(), payload].concat()
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// Fails if the kernel does not take it.
    pub fn send(&self, frame: &[u8]) -> anyhow::Result<()> {
        sendto(self.socket.as_raw_fd(), frame, &self.address, MsgFlags::empty())?;
        Ok(())
    }

    /// Waits for the next frame and returns its payload, padding included.
    ///
    /// # Errors
    /// Fails if the interface does.
    pub fn receive<'a>(&self, waiting: Waiting, buffer: &'a mut [u8]) -> anyhow::Result<&'a [u8]> {
        let flags = if waiting == Waiting::Spinning { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() };
        loop {
            match recv(self.socket.as_raw_fd(), buffer, flags) {
                Ok(length) if length >= HEADER_BYTES => return Ok(&buffer[HEADER_BYTES..length]),
                Ok(length) => bail!("a frame of {length} bytes"),
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("receiving from a packet socket"),
            }
        }
    }
}
