//! A raw socket that receives and sends all frames of an interface.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::Context;
use ethbcast_transport::MacAddr;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvfrom, sendto, setsockopt, socket,
    sockopt,
};

/// The kernel's mark for a frame that this host itself sends (`PACKET_OUTGOING`, packet(7)).
const OUTGOING: u8 = 4;
const BUFFER_BYTES: usize = 8 << 20;

/// A socket on one interface, or on all, of the thread's network namespace.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
    interface: Option<LinkAddr>,
}

impl Tap {
    /// Opens it on one interface.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if the kernel refuses.
    pub fn on(interface: &str) -> anyhow::Result<Self> {
        let address = getifaddrs()?
            .find_map(|entry| (entry.interface_name == interface).then_some(entry.address?.as_link_addr().copied()?));
        let address = address.with_context(|| format!("{interface} has no link address"))?;
        let tap = Self { interface: Some(address), ..Self::everywhere()? };
        bind(tap.socket.as_raw_fd(), &address)?;
        Ok(tap)
    }

    /// Opens it on all interfaces, for receiving only.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn everywhere() -> anyhow::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES)?;
        Ok(Self { socket, interface: None })
    }

    /// Reads the next incoming frame, if any; returns its length.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<Option<usize>> {
        loop {
            match recvfrom::<LinkAddr>(self.socket.as_raw_fd(), buffer) {
                Ok((_, Some(from))) if from.pkttype() == OUTGOING => {}
                Ok((length, _)) => return Ok(Some(length)),
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
                // An interface that is switched off is a cable that carries nothing.
                Err(Errno::ENETDOWN) => return Ok(None),
                Err(errno) => return Err(errno).context("listening on a cable"),
            }
        }
    }

    /// Sends a frame; `false` if there was no room for it.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn send(&self, frame: &[u8]) -> anyhow::Result<bool> {
        let interface = self.interface.as_ref().context("a tap on one interface")?;
        match sendto(self.socket.as_raw_fd(), frame, interface, MsgFlags::MSG_DONTWAIT) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENETDOWN) => Ok(false),
            Err(errno) => Err(errno).context("talking on a cable"),
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the destination of a frame.
///
/// # Panics
/// Panics if the frame has no Ethernet header.
pub fn destination(frame: &[u8]) -> MacAddr {
    let [a, b, c, d, e, f] = *frame.first_chunk::<6>().expect("a frame begins with an Ethernet header");
    MacAddr::new(a, b, c, d, e, f)
}
