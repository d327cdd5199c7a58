//! A packet socket bound to one interface and one EtherType.

use super::counters::Counters;
use super::error::{DriveError, OpenError};
use super::ring::{Arrival, Geometry, Ring};
use super::sender::Sender;
use super::{Interface, Waker, filter, syscall};
use crate::{Instant, MacAddr, Machine};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Most frames taken from the ring before the machine gets to send.
const RECEIVE_BATCH_FRAMES: usize = 256;
/// Most bytes taken from the ring before the machine gets to send; at a large MTU this is the limit that counts.
const RECEIVE_BATCH_BYTES: usize = 1 << 20;

/// How to open a port.
#[derive(Clone, Copy, Debug)]
pub struct PortConfig {
    /// The EtherType to receive.
    pub ether_type: u16,
    /// The multicast address to receive beside the interface's own.
    pub group: Option<MacAddr>,
    /// Memory of the receive ring; rounded, and never fewer than 64 frames.
    ///
    /// Default 8 MiB: 5 248 frames at MTU 1500, 63 ms of a 1 Gbit/s link; 120 frames at MTU 65535.
    pub receive_ring_bytes: usize,
    /// Memory for frames the kernel holds before they leave, as `SO_SNDBUF` (the kernel doubles it and counts its own
    /// bookkeeping) at most; at least eight frames. On a link that is slower than the host it is sized to hold 4 ms.
    ///
    /// Default 256 KiB: about 220 frames at MTU 1500, 2.7 ms of a 1 Gbit/s link.
    pub send_buffer_bytes: usize,
    /// Whether to send past the interface's queueing discipline. Faster on some NICs, and blind to traffic shaping.
    pub qdisc_bypass: bool,
    /// How long the loop may sleep through arrivals while they are dense, to be woken once for many frames; zero for never.
    /// Below 20 000 frames/s it sleeps a quarter of this. It lengthens round trips by as much.
    ///
    /// Default 1 ms, the longest delay of an acknowledgement: at 68 000 frames/s one wake-up for 64 frames.
    pub gather: Duration,
}

impl PortConfig {
    /// The defaults, for one EtherType and no group.
    pub const fn new(ether_type: u16) -> Self {
        PortConfig {
            ether_type,
            group: None,
            receive_ring_bytes: 8 << 20,
            send_buffer_bytes: 256 << 10,
            qdisc_bypass: false,
            gather: Duration::from_millis(1),
        }
    }
}

/// An open port: what [`drive`](super::drive()) receives and sends through.
pub struct Port {
    socket: OwnedFd,
    ring: Ring,
    sender: Sender,
    interface: Interface,
    gather: Duration,
    counters: Counters,
}

impl Port {
    /// Opens a port on `interface`, in the network namespace of the calling thread.
    ///
    /// No frame of another EtherType or for another host is ever seen: the socket listens to nothing until its filter is in
    /// place and locked.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(interface: &Interface, config: PortConfig) -> Result<Port, OpenError> {
        let name = interface.name.as_str();
        let failed = |step| move |errno| OpenError::new(name, step, errno);
        let socket = syscall::packet_socket().map_err(failed("open a packet socket"))?;
        let fd = socket.as_fd();
        let program = filter::program(config.ether_type, interface.mac, config.group);
        syscall::attach_filter(fd, &program).map_err(failed("attach the frame filter"))?;
        syscall::lock_filter(fd).map_err(failed("lock the frame filter"))?;
        syscall::ignore_outgoing(fd).map_err(failed("leave out outgoing frames"))?;
        let sender = Sender::new(interface.mtu_bytes, config.send_buffer_bytes);
        set_send_buffer(&socket, sender.buffer_bytes()).map_err(failed("set the send buffer"))?;
        if config.qdisc_bypass {
            syscall::bypass_qdisc(fd).map_err(failed("bypass the queueing discipline"))?;
        }
        let geometry = Geometry::new(interface.mtu_bytes, config.receive_ring_bytes);
        let ring = Ring::create(fd, geometry).map_err(|errno| match errno {
            Errno::ENOMEM => OpenError::Memory { interface: name.to_owned(), ring_bytes: geometry.bytes() },
            errno => OpenError::new(name, "make a receive ring", errno),
        })?;
        if let Some(group) = config.group {
            syscall::join_multicast(fd, interface.index, group).map_err(failed("join the group address"))?;
        }
        syscall::bind(fd, interface.index, config.ether_type).map_err(failed("bind the packet socket"))?;
        // Binding to an interface that is down succeeds, and leaves this behind.
        pending_error(&socket).map_err(failed("bind the packet socket"))?;
        log::debug!("{name}: {} receive slots of {} bytes", geometry.slots(), geometry.slot_bytes);
        Ok(Port { socket, ring, sender, interface: interface.clone(), gather: config.gather, counters: Counters::default() })
    }

    /// The interface it was opened on.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The largest frame it sends and receives, Ethernet header included.
    pub fn frame_bytes(&self) -> usize {
        self.sender.frame_bytes()
    }

    /// What it has done so far.
    pub fn counters(&mut self) -> Counters {
        // Reading empties the kernel's own counters, and cannot fail on a packet socket with a ring.
        if let Ok(stats) = syscall::packet_statistics(self.socket.as_fd()) {
            self.counters.kernel_accepted += u64::from(stats.tp_packets);
            self.counters.kernel_dropped += u64::from(stats.tp_drops);
        }
        self.counters
    }

    /// Hands a bounded batch of arrived frames to `take`, and says how many slots of the ring that emptied.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let counters = &mut self.counters;
        let mut slots = 0;
        let mut bytes = 0;
        while slots < RECEIVE_BATCH_FRAMES && bytes < RECEIVE_BATCH_BYTES {
            let arrival = self.ring.receive(|arrival| match arrival {
                Arrival::Frame(frame) => {
                    take(frame);
                    counters.frames_received += 1;
                    bytes += frame.len();
                }
                Arrival::Truncated => counters.truncated += 1,
                Arrival::VlanTagged => counters.vlan_tagged += 1,
            });
            if arrival.is_none() {
                break;
            }
            slots += 1;
        }
        counters.bytes_received += bytes as u64;
        slots
    }

    /// Sends a bounded batch of the machine's frames, and says how many the kernel took.
    ///
    /// Frames the kernel has no room for stay staged, in order, and go first next time.
    ///
    /// # Errors
    ///
    /// See [`DriveError`].
    pub fn transmit<M: Machine>(&mut self, machine: &mut M, now: Instant) -> Result<usize, DriveError> {
        let left_over = self.flush(now)?;
        self.sender.fill(machine, now);
        Ok(left_over + self.flush(now)?)
    }

    /// Whether frames are staged that the kernel has not taken.
    pub(super) fn has_staged(&self) -> bool {
        !self.sender.is_empty()
    }

    /// Whether only [`wait`](Self::wait) can find out that there is room to send again.
    pub(super) fn awaits_writable(&self) -> bool {
        self.sender.awaits_writable()
    }

    /// When to try to send again, if time alone decides.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.sender.retry_at()
    }

    /// Sends what is staged, as far as the kernel takes it, and says how many frames that were.
    pub(super) fn flush(&mut self, now: Instant) -> Result<usize, DriveError> {
        let sent = self.sender.flush(self.socket.as_fd(), &self.interface.name, now, &mut self.counters)?;
        if let Some(bytes) = self.sender.resize(now) {
            set_send_buffer(&self.socket, bytes)
                .map_err(|errno| DriveError::new(&self.interface.name, "set the send buffer", errno))?;
        }
        Ok(sent)
    }

    /// See [`PortConfig::gather`].
    pub(super) fn gather(&self) -> Duration {
        self.gather
    }

    /// Waits until a frame is in the ring, there is room to send again, or `waker` is used; `limit` at most.
    pub(super) fn wait(&mut self, waker: &Waker, limit: Option<Duration>) -> Result<(), DriveError> {
        self.wait_for(PollFlags::POLLIN, waker, limit)
    }

    /// The same, but lets frames gather in the ring meanwhile; a socket nobody sleeps on costs the senders no wake-up.
    pub(super) fn nap(&mut self, waker: &Waker, limit: Duration) -> Result<(), DriveError> {
        if self.sender.awaits_writable() {
            return self.wait_for(PollFlags::empty(), waker, Some(limit));
        }
        let mut ready = [PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
        let woken = poll(&mut ready, Some(limit)).map_err(|errno| DriveError::new(&self.interface.name, "wait", errno))?;
        if woken {
            waker.acknowledge();
        }
        self.counters.poll_wakeups += 1;
        Ok(())
    }

    fn wait_for(&mut self, input: PollFlags, waker: &Waker, limit: Option<Duration>) -> Result<(), DriveError> {
        let mut ready = [self.poll_entry(input), PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
        let woken = poll(&mut ready, limit).map_err(|errno| DriveError::new(&self.interface.name, "wait", errno))?;
        let [socket_events, waker_events] = ready.map(|entry| events(&entry, woken));
        if !waker_events.is_empty() {
            waker.acknowledge();
        }
        self.counters.poll_wakeups += 1;
        self.polled(socket_events)
    }

    /// Waits until there is room to send again, `limit` at most; leaves frames in the ring.
    pub(super) fn wait_to_send(&mut self, limit: Duration) -> Result<(), DriveError> {
        let mut ready = [self.poll_entry(PollFlags::empty())];
        let woken = poll(&mut ready, Some(limit)).map_err(|errno| DriveError::new(&self.interface.name, "wait", errno))?;
        let [socket_events] = ready.map(|entry| events(&entry, woken));
        self.counters.poll_wakeups += 1;
        self.polled(socket_events)
    }

    fn poll_entry(&self, input: PollFlags) -> PollFd<'_> {
        let output = if self.sender.awaits_writable() { PollFlags::POLLOUT } else { PollFlags::empty() };
        PollFd::new(self.socket.as_fd(), input | output)
    }

    fn polled(&mut self, events: PollFlags) -> Result<(), DriveError> {
        if events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL) {
            pending_error(&self.socket).map_err(|errno| DriveError::new(&self.interface.name, "receive", errno))?;
        }
        if events.contains(PollFlags::POLLOUT) {
            self.sender.writable();
        }
        Ok(())
    }
}

/// `ppoll(2)` without a signal mask; says whether anything is ready (a signal ends the wait, too).
fn poll(entries: &mut [PollFd], limit: Option<Duration>) -> nix::Result<bool> {
    match ppoll(entries, limit.map(TimeSpec::from), None) {
        Ok(count) => Ok(count > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// What happened to an entry, if anything did (after a signal its field means nothing).
fn events(entry: &PollFd, any: bool) -> PollFlags {
    if any { entry.revents().unwrap_or(PollFlags::POLLERR) } else { PollFlags::empty() }
}

/// The error an asynchronous event, such as the interface going down, left on the socket; clears it.
fn pending_error(socket: &OwnedFd) -> nix::Result<()> {
    match getsockopt(socket, sockopt::SocketError)? {
        0 => Ok(()),
        errno => Err(Errno::from_raw(errno)),
    }
}

/// Sets the send buffer; only CAP_NET_ADMIN may exceed the system's limit, others get that limit.
fn set_send_buffer(socket: &OwnedFd, bytes: usize) -> nix::Result<()> {
    setsockopt(socket, sockopt::SndBufForce, &bytes).or_else(|_| setsockopt(socket, sockopt::SndBuf, &bytes))
}
