//! Test helper: faults on the cable of a host in a network namespace, and a tap that reads its
//! frames.

use anyhow::Context;
use ethbcast_collectives::session::kind;
use ethbcast_lab::{Lab, LabError, LinkFault};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Kind;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvfrom, sendto,
    setsockopt, socket, sockopt,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Position of the kind in a frame: behind the Ethernet header, the magic and the version.
pub const KIND_BYTE: usize = 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    To,
    From,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    All,
    Kind(Kind),
    /// Frames to a host's address.
    Unicast,
    /// Frames to the group's address.
    Multicast,
    /// Frames with more than this number of bytes behind their Ethernet header.
    Large(u32),
    /// Frames from or to this host.
    Peer(&'static str),
}

impl Which {
    /// Returns its part of a cell's name.
    pub fn name(self) -> String {
        match self {
            Which::All => "all".into(),
            Which::Unicast => "unicast".into(),
            Which::Multicast => "multicast".into(),
            Which::Large(_) => "large".into(),
            Which::Peer(host) => format!("pair-{host}"),
            Which::Kind(of) => name_of(of).into(),
        }
    }
}

fn name_of(of: Kind) -> &'static str {
    match of {
        Kind::DATA => "data",
        Kind::ACK => "ack",
        Kind::HEARTBEAT => "heartbeat",
        kind::ANNOUNCE => "announce",
        kind::JOIN => "join",
        kind::VIEW => "view",
        kind::READY => "ready",
        kind::STATUS => "status",
        kind::DONE => "done",
        kind::VERDICT => "verdict",
        kind::ORPHAN => "orphan",
        _ => "other",
    }
}

/// Returns the cable's faults that lose these frames.
pub fn faults(
    lab: &Lab,
    which: Which,
    way: Way,
    fraction: f64,
) -> Result<Vec<LinkFault>, LabError> {
    let both = [
        (Way::To, LinkFault::arriving()),
        (Way::From, LinkFault::leaving()),
    ];
    let wanted = both
        .into_iter()
        .filter(|(of, _)| way == Way::Both || way == *of);
    let limited = |fault: LinkFault| {
        Ok(match which {
            Which::All => fault,
            Which::Kind(of) => fault.byte(KIND_BYTE, &[of.0]),
            Which::Unicast => fault.unicast(),
            Which::Multicast => fault.multicast(),
            Which::Large(bytes) => fault.longer_than(bytes),
            Which::Peer(host) => fault.peer(lab.mac(host)?),
        })
    };
    wanted
        .map(|(_, fault)| limited(fault.fraction(fraction)))
        .collect()
}

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
    pub fn on(interface: &str) -> anyhow::Result<Self> {
        let address = getifaddrs()?.find_map(|entry| {
            (entry.interface_name == interface).then_some(entry.address?.as_link_addr().copied()?)
        });
        let address = address.with_context(|| format!("{interface} has no link address"))?;
        let tap = Self {
            interface: Some(address),
            ..Self::everywhere()?
        };
        bind(tap.socket.as_raw_fd(), &address)?;
        Ok(tap)
    }

    pub fn mac(&self) -> MacAddr {
        let [a, b, c, d, e, f] = self
            .interface
            .and_then(|it| it.addr())
            .expect("one interface, of Ethernet");
        MacAddr::new(a, b, c, d, e, f)
    }

    /// Opens a tap on all interfaces, for receiving only.
    pub fn everywhere() -> anyhow::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            flags,
            SockProtocol::EthAll,
        )?;
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES)?;
        Ok(Self {
            socket,
            interface: None,
        })
    }

    /// Reads the next incoming frame, if any; returns its length.
    pub fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<Option<usize>> {
        loop {
            match recvfrom::<LinkAddr>(self.socket.as_raw_fd(), buffer) {
                Ok((_, Some(from))) if from.pkttype() == OUTGOING => {}
                Ok((length, _)) => return Ok(Some(length)),
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
                // An interface that is switched off is like a cable without frames.
                Err(Errno::ENETDOWN) => return Ok(None),
                Err(errno) => return Err(errno).context("listening on a cable"),
            }
        }
    }

    /// Sends a frame; returns `false` if there was no room for it.
    pub fn send(&self, frame: &[u8]) -> anyhow::Result<bool> {
        let interface = self.interface.as_ref().context("a tap on one interface")?;
        match sendto(
            self.socket.as_raw_fd(),
            frame,
            interface,
            MsgFlags::MSG_DONTWAIT,
        ) {
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

pub fn destination(frame: &[u8]) -> MacAddr {
    let [a, b, c, d, e, f] = *frame
        .first_chunk::<6>()
        .expect("a frame begins with an Ethernet header");
    MacAddr::new(a, b, c, d, e, f)
}
