//! Where a port's frames arrive, by the driver that was chosen.

use super::error::OpenError;
use super::ring::{Geometry, Ring, SlotContent};
#[cfg(feature = "xdp")]
use super::xdp::XdpRing;
use super::{Interface, PortConfig};
use nix::errno::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How frames get from the interface to a port; they leave by its packet socket either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// By the ring of the packet socket.
    #[default]
    Packet,
    /// By AF_XDP, past the network stack. No other process may receive frames of ours on the interface.
    Xdp,
}

impl Driver {
    /// Both.
    pub const ALL: [Driver; 2] = [Driver::Packet, Driver::Xdp];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Driver::Packet => "packet",
            Driver::Xdp => "xdp",
        }
    }
}

/// What frames arrive in.
pub(super) enum Arrivals {
    Ring(Ring),
    #[cfg(feature = "xdp")]
    Xdp(Box<XdpRing>),
}

impl Arrivals {
    /// Makes it for a packet socket that is not bound yet.
    pub(super) fn open(socket: BorrowedFd, interface: &Interface, config: &PortConfig) -> Result<Self, OpenError> {
        match config.driver {
            Driver::Xdp if config.hears => Self::by_xdp(socket, interface, config),
            _ => Self::by_ring(socket, interface, config).map(Self::Ring),
        }
    }

    fn by_ring(socket: BorrowedFd, interface: &Interface, config: &PortConfig) -> Result<Ring, OpenError> {
        let name = interface.name.as_str();
        let ring_bytes = if config.hears { config.receive_ring_bytes } else { 0 };
        let geometry = Geometry::new(interface.mtu_bytes, ring_bytes);
        let ring = Ring::create(socket, geometry).map_err(|errno| match errno {
            Errno::ENOMEM => OpenError::Memory { interface: name.to_owned(), ring_bytes: geometry.bytes() },
            errno => OpenError::new(name, "make a receive ring", errno),
        })?;
        log::debug!("{name}: {} receive slots of {} bytes", geometry.slots(), geometry.slot_bytes());
        Ok(ring)
    }

    #[cfg(feature = "xdp")]
    fn by_xdp(packet: BorrowedFd, interface: &Interface, config: &PortConfig) -> Result<Self, OpenError> {
        XdpRing::open(packet, interface, config).map(|ring| Self::Xdp(Box::new(ring)))
    }

    #[cfg(not(feature = "xdp"))]
    fn by_xdp(_: BorrowedFd, interface: &Interface, _: &PortConfig) -> Result<Self, OpenError> {
        let why = "this program was built without it (feature `xdp`)".to_owned();
        Err(OpenError::Xdp { interface: interface.name.clone(), why })
    }

    /// Whether the packet socket itself hears nothing.
    pub(super) fn is_elsewhere(&self) -> bool {
        !matches!(self, Self::Ring(_))
    }

    /// What a loop waits with for arrivals, if that is not the packet socket.
    pub(super) fn socket(&self) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Ring(_) => None,
            #[cfg(feature = "xdp")]
            Self::Xdp(ring) => Some(Arc::clone(ring.socket())),
        }
    }

    /// Takes the place of `old`, also for those who wait for its arrivals.
    pub(super) fn take_place_of(&mut self, old: &Self) -> nix::Result<()> {
        match (self, old) {
            #[cfg(feature = "xdp")]
            (Self::Xdp(own), Self::Xdp(old)) => {
                use std::os::fd::AsFd;
                super::syscall::replace(old.socket().as_fd(), own.socket().as_fd())?;
                own.call_it(Arc::clone(old.socket()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether there is an arrival.
    pub(super) fn has_arrival(&self) -> bool {
        match self {
            Self::Ring(ring) => ring.has_arrival(),
            #[cfg(feature = "xdp")]
            Self::Xdp(ring) => ring.has_arrival(),
        }
    }

    /// Lends the oldest arrival to `take`; `None` if nothing has arrived.
    pub(super) fn receive<R>(&mut self, take: impl FnOnce(SlotContent<'_>) -> R) -> Option<R> {
        match self {
            Self::Ring(ring) => ring.receive(take),
            #[cfg(feature = "xdp")]
            Self::Xdp(ring) => ring.receive(take),
        }
    }

    /// Frames that had no room, beside those that the packet socket counts, since it was opened.
    pub(super) fn dropped(&self) -> u64 {
        match self {
            Self::Ring(_) => 0,
            #[cfg(feature = "xdp")]
            Self::Xdp(ring) => ring.dropped(),
        }
    }
}
