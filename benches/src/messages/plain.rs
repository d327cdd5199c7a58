//! A packet socket without anything around it: the baseline of round trips.

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

/// The EtherType of the frames: 255, the number of [`SockProtocol::Raw`], in the order of bytes in which a packet
/// socket takes it. It is nobody's, and the only one of its kind that `nix` has a name for.
const ETHER_TYPE: u16 = 255_u16.to_be();

/// How to wait for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// In `recv(2)`.
    Blocking,
    /// By asking again and again (`MSG_DONTWAIT`).
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
    /// If there is no interface, or the kernel refuses the socket.
    pub fn open() -> anyhow::Result<Self> {
        let mut addresses =
            getifaddrs()?.filter(|entry| entry.interface_name == INTERFACE).filter_map(|entry| entry.address);
        let address = addresses.find(|address| address.family() == Some(AddressFamily::Packet));
        let address =
            *address.as_ref().and_then(|address| address.as_link_addr()).context("the lab's host has no interface")?;
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
        Ok(Self { socket, address })
    }

    /// A frame for [`send`](Self::send), from nobody in particular.
    pub fn frame(to: MacAddr, payload: &[u8]) -> Vec<u8> {
        let from = [2, 0, 0, 0, 0, 1];
        [&to.octets()[..], &from, &ETHER_TYPE.to_be_bytes(), payload].concat()
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// If the kernel does not take it.
    pub fn send(&self, frame: &[u8]) -> anyhow::Result<()> {
        sendto(self.socket.as_raw_fd(), frame, &self.address, MsgFlags::empty())?;
        Ok(())
    }

    /// Waits for the next frame and returns its payload, padding included.
    ///
    /// # Errors
    /// If the interface fails.
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
