//! A capture socket for diagnostic tools: all frames of one EtherType that arrive or leave on an
//! interface.

use super::error::{Errno, OpenError};
use super::ring::{Geometry, Ring, SlotContent};
use super::{Interface, filter, syscall};
use crate::MacAddr;
use crate::wire::EtherType;
use nix::errno::Errno as SystemErrno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

const RING_BYTES: usize = 24 << 20;
const BATCH_FRAMES: usize = 1024;
const PATIENCE_MILLIS: u8 = 100;

/// An open capture socket on one interface, which sends nothing. It does not turn on promiscuous
/// mode; it joins only the multicast groups it was opened with.
///
/// The memory of its ring lasts for 190 ms of a 1 Gbit/s link. Frames are `missed` if the ring is
/// full or they are longer than a slot. Frames with a VLAN tag, which no host accepts, count as
/// `tagged`.
pub struct Capture {
    socket: OwnedFd,
    ring: Ring,
    missed: u64,
    tagged: u64,
}

impl fmt::Debug for Capture {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Capture")
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}

impl Capture {
    /// Opens a capture socket in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(
        interface: &Interface,
        ether_type: EtherType,
        groups: &[MacAddr],
    ) -> Result<Capture, OpenError> {
        let failed = |step| move |errno| OpenError::new(&interface.name, step, errno);
        let socket = syscall::packet_socket().map_err(failed("open a packet socket"))?;
        let fd = socket.as_fd();
        syscall::attach_filter(fd, &filter::of_type(ether_type))
            .map_err(failed("attach the frame filter"))?;
        let geometry = Geometry::new(interface.mtu_bytes, RING_BYTES);
        let ring = Ring::create(fd, geometry).map_err(|errno| match errno {
            SystemErrno::ENOMEM => OpenError::Memory {
                interface: interface.name.clone(),
                ring_bytes: geometry.bytes(),
            },
            errno => OpenError::new(&interface.name, "make a receive ring", errno),
        })?;
        for &group in groups {
            syscall::join_multicast(fd, interface.index, group)
                .map_err(failed("join the group address"))?;
        }
        syscall::bind_to_all(fd, interface.index).map_err(failed("bind the packet socket"))?;
        Ok(Capture {
            socket,
            ring,
            missed: 0,
            tagged: 0,
        })
    }

    /// Passes waiting frames to `take`, after a wait of at most a tenth of a second; returns
    /// whether there were any.
    ///
    /// # Errors
    /// The kernel's, if the interface has gone down or away.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8])) -> Result<bool, Errno> {
        if !self.ring.has_arrival() {
            let mut entries = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut entries, PollTimeout::from(PATIENCE_MILLIS)) {
                Ok(_) | Err(SystemErrno::EINTR) => {}
                Err(errno) => return Err(Errno::new(errno)),
            }
            if entries[0]
                .revents()
                .is_some_and(|events| events.contains(PollFlags::POLLERR))
            {
                super::port::pending_error(&self.socket).map_err(Errno::new)?;
            }
        }
        let (missed, tagged) = (&mut self.missed, &mut self.tagged);
        for taken in 0..BATCH_FRAMES {
            let slot = self.ring.receive(|slot| match slot {
                SlotContent::Frame(frame) => take(frame),
                SlotContent::Truncated => *missed += 1,
                SlotContent::VlanTagged => *tagged += 1,
                SlotContent::Outside | SlotContent::Question => {}
            });
            if slot.is_none() {
                return Ok(taken > 0);
            }
        }
        Ok(true)
    }

    pub fn missed(&mut self) -> u64 {
        // Reading empties the kernel's own counters, and cannot fail on a packet socket with a
        // ring.
        if let Ok(stats) = syscall::packet_statistics(self.socket.as_fd()) {
            self.missed += u64::from(stats.tp_drops);
        }
        self.missed
    }

    pub fn tagged(&self) -> u64 {
        self.tagged
    }
}
