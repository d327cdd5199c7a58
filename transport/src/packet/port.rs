//! A packet socket (*port*): AF_PACKET, bound to one interface and one EtherType.

mod pair;

pub use pair::LaneUse;
use pair::Second;

use super::PortConfig;
use super::error::{DriveError, Errno, OpenError, is_away};
use super::lanes::LaneTerms;
use super::meter::{LinkReadings, Meter};
use super::outage::{Carrier, Outage};
use super::ring::{Geometry, Ring, SlotContent};
use super::send_buffer::set_send_buffer;
use super::sender::Sender;
use super::sleep::{Sleeper, SocketEvents, Waker};
use super::syscall::InterfaceState;
use super::udp::{Addresses, DatagramReceiver, DatagramSender, clear_errors};
use super::{Counters, Interface, Over, interface, served, syscall};
use crate::link::{Blocked, Link, Transmitted};
use crate::lock::Mutex;
use crate::machine::{Kept, SplitFrame};
use crate::wire::{ETHERNET_BYTES, MacAddr};
use crate::{Instant, Machine};
use nix::errno::Errno as SystemErrno;
use nix::poll::PollFlags;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const RECEIVE_BATCH_FRAMES: usize = 256;
/// Most bytes taken from the ring before the machine may send; this limit applies at a large MTU.
const RECEIVE_BATCH_BYTES: usize = 1 << 20;

/// An open port: a packet socket on an Ethernet interface, as a [`Link`](crate::Link).
pub struct Port {
    socket: Arc<OwnedFd>,
    arrivals: Arrivals,
    sender: Sender,
    interface: Interface,
    card: MacAddr,
    config: PortConfig,
    counters: Counters,
    outage: Outage,
    carrier: Carrier,
    was_cut_off: Duration,
    has_other_mtu: Arc<AtomicBool>,
    largest_arrival_bytes: usize,
    meter: Option<Meter>,
    recipients: Recipients,
    second: Option<Box<Second>>,
}

/// Hosts that are to get what is for all from now on, until a port takes them.
pub type Recipients = Arc<Mutex<Option<Vec<IpAddr>>>>;

enum Arrivals {
    Frames(Ring),
    Datagrams(Box<DatagramReceiver>),
}

impl Arrivals {
    fn receive<R>(&mut self, take: impl FnOnce(SlotContent<'_>) -> R) -> Option<R> {
        match self {
            Arrivals::Frames(ring) => ring.receive(take),
            Arrivals::Datagrams(datagrams) => datagrams.receive(take),
        }
    }
}

impl Port {
    /// Opens a port on `interface`, in the network namespace of the calling thread.
    ///
    /// Frames of other EtherTypes or for other hosts are never seen: the socket receives nothing
    /// until its filter is in place and locked.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(interface: &Interface, config: PortConfig) -> Result<Port, OpenError> {
        if config.over.is_udp() {
            return Self::open_udp(interface, config);
        }
        let (socket, ring, sender) = Self::connect(interface, &config)?;
        Ok(Port::new(
            Arc::new(socket),
            Arrivals::Frames(ring),
            sender,
            interface.clone(),
            config,
        ))
    }

    /// Opens a port over UDP; the interface's address becomes that of its own socket.
    fn open_udp(interface: &Interface, config: PortConfig) -> Result<Port, OpenError> {
        let datagrams = DatagramReceiver::open(interface, &config)?;
        let (own, mac) = (Arc::clone(datagrams.own_socket()), datagrams.mac());
        let (name, mtu_bytes) = (&interface.name, interface.mtu_bytes);
        let addresses = datagrams.addresses().clone();
        let unicast = config.over.is_unicast();
        let datagrams_out = DatagramSender::new(config.ether_type, addresses, unicast);
        let mut sender = Sender::new(mtu_bytes, config.send_buffer_bytes, Some(datagrams_out));
        let limit = set_send_buffer(&own, sender.buffer_bytes())
            .map_err(|errno| OpenError::new(name, "set the send buffer", errno))?;
        sender.limit_buffer(limit);
        let card = syscall::interface_state(own.as_fd(), name).map(|state| state.mac);
        let arrivals = Arrivals::Datagrams(Box::new(datagrams));
        let port = Port::new(
            own,
            arrivals,
            sender,
            Interface {
                mac,
                ..interface.clone()
            },
            config,
        );
        Ok(Port {
            card: card.unwrap_or_default(),
            ..port
        })
    }

    fn new(
        socket: Arc<OwnedFd>,
        arrivals: Arrivals,
        sender: Sender,
        interface: Interface,
        config: PortConfig,
    ) -> Port {
        Port {
            socket,
            arrivals,
            sender,
            card: interface.mac,
            interface,
            config,
            counters: Counters::default(),
            outage: Outage::new(config.outage_limit),
            carrier: Carrier::default(),
            was_cut_off: Duration::ZERO,
            has_other_mtu: Arc::default(),
            largest_arrival_bytes: 0,
            meter: None,
            recipients: Recipients::default(),
            second: None,
        }
    }

    fn connect(
        interface: &Interface,
        config: &PortConfig,
    ) -> Result<(OwnedFd, Ring, Sender), OpenError> {
        let name = interface.name.as_str();
        let failed = |step| move |errno| OpenError::new(name, step, errno);
        let socket = served::filtered_socket(
            interface,
            config.ether_type,
            &config.groups(),
            config.inherited,
        )?;
        let fd = socket.as_fd();
        syscall::ignore_outgoing(fd).map_err(failed("leave out outgoing frames"))?;
        let sender = Sender::new(interface.mtu_bytes, config.send_buffer_bytes, None);
        set_send_buffer(&socket, sender.buffer_bytes()).map_err(failed("set the send buffer"))?;
        if let Some(priority) = config.priority {
            setsockopt(&socket, sockopt::Priority, &priority.into())
                .map_err(failed("set the priority"))?;
        }
        if config.qdisc_bypass {
            syscall::bypass_qdisc(fd).map_err(failed("bypass the queueing discipline"))?;
        }
        let ring = Self::open_ring(fd, interface, config)?;
        for group in config.groups().into_iter().filter(|_| config.hears) {
            syscall::join_multicast(fd, interface.index, group)
                .map_err(failed("join the group address"))?;
        }
        let heard = config.hears.then_some(config.ether_type);
        syscall::bind(fd, interface.index, heard).map_err(failed("bind the packet socket"))?;
        // Binding to an interface that is down succeeds, and leaves this error on the socket.
        pending_error(&socket).map_err(failed("bind the packet socket"))?;
        Ok((socket, ring, sender))
    }

    fn open_ring(
        socket: BorrowedFd,
        interface: &Interface,
        config: &PortConfig,
    ) -> Result<Ring, OpenError> {
        let name = interface.name.as_str();
        let ring_bytes = if config.hears {
            config.receive_ring_bytes
        } else {
            0
        };
        let geometry = Geometry::new(interface.mtu_bytes, ring_bytes);
        let ring = Ring::create(socket, geometry).map_err(|errno| match errno {
            SystemErrno::ENOMEM => OpenError::Memory {
                interface: name.to_owned(),
                ring_bytes: geometry.bytes(),
            },
            errno => OpenError::new(name, "make a receive ring", errno),
        })?;
        log::debug!(
            "{name}: {} receive slots of {} bytes",
            geometry.slots(),
            geometry.slot_bytes
        );
        Ok(ring)
    }

    /// Returns the interface it was opened on.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Returns the largest frame it sends and receives in bytes, Ethernet header included.
    pub fn frame_bytes(&self) -> usize {
        self.sender.frame_bytes()
    }

    /// Returns the carrier of its frames.
    pub fn over(&self) -> Over {
        self.config.over
    }

    /// Sends what is for all to each of these hosts, and hears no others, over UDP by unicast.
    pub fn name_peers<T: Copy + Into<IpAddr>>(&mut self, peers: &[T]) {
        let peers: Vec<IpAddr> = peers.iter().map(|&peer| peer.into()).collect();
        if let Arrivals::Datagrams(datagrams) = &mut self.arrivals {
            datagrams.hear_only(&peers);
            self.sender.name_peers(&peers);
        }
    }

    /// Returns the number of frames of full length that the system keeps until they are received,
    /// where it may give less than was asked for.
    pub fn room_frames(&self) -> Option<u64> {
        match &self.arrivals {
            Arrivals::Frames(_) => None,
            Arrivals::Datagrams(datagrams) => Some(datagrams.room_frames()),
        }
    }

    /// Returns the counters of the port, those of both interfaces if it has two.
    pub fn counters(&mut self) -> Counters {
        let second = self.second.as_mut().map(|second| second.port.counters());
        self.own_counters() + second.unwrap_or_default()
    }

    fn own_counters(&mut self) -> Counters {
        if let Arrivals::Datagrams(datagrams) = &self.arrivals {
            self.counters.kernel_dropped = datagrams.dropped();
            self.counters.kernel_accepted =
                self.counters.frames_received + self.counters.kernel_dropped;
            return self.counters;
        }
        // Reading empties the kernel's own counters, and cannot fail on a packet socket with a
        // ring.
        if let Ok(stats) = syscall::packet_statistics(self.socket.as_fd()) {
            self.counters.kernel_accepted += u64::from(stats.tp_packets);
            self.counters.kernel_dropped += u64::from(stats.tp_drops);
        }
        self.counters
    }

    /// Passes a bounded batch of arrived frames to `take`; returns the number of ring slots
    /// emptied.
    pub fn receive(&mut self, take: impl FnMut(&[u8])) -> usize {
        let Some(mut second) = self.second.take() else {
            return self.receive_up_to(RECEIVE_BATCH_FRAMES, take);
        };
        let slots = self.receive_by_both(&mut second, take);
        self.second = Some(second);
        slots
    }

    pub(super) fn receive_up_to(
        &mut self,
        most_frames: usize,
        mut take: impl FnMut(&[u8]),
    ) -> usize {
        let (counters, largest) = (&mut self.counters, &mut self.largest_arrival_bytes);
        let mut slots = 0;
        let mut bytes = 0;
        while slots < most_frames.min(RECEIVE_BATCH_FRAMES) && bytes < RECEIVE_BATCH_BYTES {
            let arrival = self.arrivals.receive(|arrival| match arrival {
                SlotContent::Frame(frame) => {
                    take(frame);
                    counters.frames_received += 1;
                    bytes += frame.len();
                    *largest = frame.len().max(*largest);
                }
                SlotContent::Truncated => counters.truncated += 1,
                SlotContent::VlanTagged => counters.vlan_tagged += 1,
                SlotContent::Outside => counters.outside += 1,
                SlotContent::Question => {}
            });
            if arrival.is_none() {
                break;
            }
            slots += 1;
        }
        counters.bytes_received += bytes as u64;
        slots
    }

    /// Creates a waiter for a loop that `waker` wakes.
    ///
    /// # Errors
    ///
    /// The kernel's error if there is no file descriptor left.
    pub fn sleeper(&self, waker: Waker) -> Result<Sleeper, Errno> {
        let also = match &self.arrivals {
            Arrivals::Frames(_) => None,
            Arrivals::Datagrams(datagrams) => Some(Arc::clone(datagrams.group_socket())),
        };
        let Some(second) = &self.second else {
            return Sleeper::new(Arc::clone(&self.socket), also, waker).map_err(Errno::new);
        };
        let also = Some(Arc::clone(&second.port.socket));
        let sleeper = Sleeper::new(Arc::clone(&self.socket), also, waker).map_err(Errno::new)?;
        Ok(sleeper.sending_by_both(Arc::clone(&second.full)))
    }

    fn flush<'a>(
        &mut self,
        now: Instant,
        payload: impl Fn(Kept) -> &'a [u8],
    ) -> Result<usize, DriveError> {
        if self.config.over.is_unicast()
            && let Some(recipients) = self.recipients.lock().take()
        {
            self.sender.name_peers(&recipients);
        }
        let (socket, interface) = (self.socket.as_fd(), &self.interface.name);
        let flushed = self
            .sender
            .flush(socket, interface, now, &mut self.counters, &payload)?;
        if flushed.is_away {
            self.outage.notice();
        }
        if let Some((error, lasts)) = self.sender.trouble(now, interface)
            && lasts >= self.config.outage_limit
        {
            return Err(error);
        }
        if let Some(bytes) = self.sender.resize(now) {
            let limit = set_send_buffer(&self.socket, bytes).map_err(|errno| {
                DriveError::new(&self.interface.name, "set the send buffer", errno)
            })?;
            self.sender.limit_buffer(limit);
        }
        Ok(flushed.frames)
    }

    /// Begins another run on this port: earlier refusals do not count for its
    /// [outages](Port::outage).
    pub fn begin_anew(&mut self) {
        self.sender.forget_refusals();
        self.was_cut_off = Duration::ZERO;
        if let Some(second) = &mut self.second {
            second.port.begin_anew();
            second.lanes.set_terms(LaneTerms::default());
        }
    }

    /// Returns the time in this run without an interface or link; of two interfaces, the lesser.
    pub fn cut_off(&self, now: Instant) -> Duration {
        let own = self.was_cut_off
            + self
                .outage
                .lasts(now)
                .or_else(|| self.carrier.lasts(now))
                .unwrap_or_default();
        let second = self.second.as_ref();
        second.map_or(own, |second| own.min(second.port.cut_off(now)))
    }

    /// Whether an interface has a link at this moment; one that is off or gone has none.
    pub fn has_link(&self) -> bool {
        let second = self.second.as_ref();
        interface::has_link(self.interface.index)
            || second.is_some_and(|second| second.port.has_link())
    }

    /// Returns why nothing is received and sent at the moment, if the interface is away; or why no
    /// frames leave, or no long ones.
    pub fn outage(&self, now: Instant) -> Option<DriveError> {
        let second = self.second.as_ref();
        if second.is_some_and(|second| second.is_up()) {
            return None;
        }
        let name = &self.interface.name;
        let away = self
            .outage
            .lasts(now)
            .map(|away| DriveError::InterfaceDown {
                interface: name.clone(),
                away,
            });
        away.or_else(|| self.sender.trouble(now, name).map(|(error, _)| error))
    }

    /// Whether the socket is still bound; the kernel unbinds it when the interface is removed, even
    /// if nothing is sent meanwhile.
    fn is_bound(&self) -> bool {
        // Groups are left when their interface is removed.
        let unbound = || {
            self.config.over.is_udp()
                || syscall::bound_interface(self.socket.as_fd()) != Ok(self.interface.index)
        };
        !(self.outage.is_on() && unbound())
    }

    fn follow_name(&mut self) {
        let found = syscall::interface_name(self.socket.as_fd(), self.interface.index);
        if let Some(name) = found
            .ok()
            .filter(|name| *name != self.interface.name && self.is_bound())
        {
            log::warn!("interface {} is called {name} now", self.interface.name);
            self.interface.name = name;
        }
    }

    /// Begins to read the interface's counters, some times a second. Nothing is read where the
    /// kernel denies it.
    pub fn meter(&mut self) -> LinkReadings {
        self.meter = self.meter.take().or_else(Meter::new);
        self.meter.as_ref().map(Meter::readings).unwrap_or_default()
    }

    fn measure(&mut self, now: Instant) {
        if let Some(mut meter) = self.meter.take_if(|meter| meter.is_due(now)) {
            let interface = Interface {
                mac: self.card,
                ..self.interface.clone()
            };
            let ip_bytes = self.ip_bytes();
            meter.read(now, &interface, ip_bytes, || self.own_counters());
            self.meter = Some(meter);
        }
    }

    /// Returns the bytes of the headers of IP and UDP.
    fn ip_bytes(&self) -> usize {
        self.addresses().map_or(0, Addresses::header_bytes)
    }

    /// Returns the addresses of other hosts, over UDP.
    pub fn addresses(&self) -> Option<&Addresses> {
        match &self.arrivals {
            Arrivals::Frames(_) => None,
            Arrivals::Datagrams(datagrams) => Some(datagrams.addresses()),
        }
    }

    fn is_there(&mut self, now: Instant) -> Result<bool, DriveError> {
        self.measure(now);
        if !self.outage.wants_look(now) {
            return Ok(!self.outage.is_on());
        }
        self.follow_name();
        let name = self.interface.name.as_str();
        match syscall::interface_state(self.socket.as_fd(), name) {
            Ok(state) if state.is_up => {
                self.check(&state)?;
                // An interface that was removed and added again is another one, even with an equal
                // index: the socket was bound to the old.
                if (state.index != self.interface.index || !self.is_bound())
                    && !self.reopen(state.index)
                {
                    return self.is_away(now);
                }
                if let Some(away) = self.outage.is_there(now) {
                    log::warn!("interface {} is back after {away:.1?}", self.interface.name);
                    self.was_cut_off += away;
                }
                if let Some(lost) = self.carrier.note(now, state.has_link) {
                    log::warn!(
                        "interface {} has a link again after {lost:.1?}",
                        self.interface.name
                    );
                    self.was_cut_off += lost;
                }
                Ok(true)
            }
            Ok(_) => self.is_away(now),
            Err(errno) if is_away(errno) => self.is_away(now),
            Err(errno) => Err(DriveError::new(name, "look at the settings", errno)),
        }
    }

    fn is_away(&mut self, now: Instant) -> Result<bool, DriveError> {
        let interface = &self.interface.name;
        if self.outage.begins() {
            self.counters.outages += 1;
            log::warn!(
                "interface {interface} has gone down: waiting for it, {:?} at most",
                self.config.outage_limit
            );
        }
        match self.outage.is_away(now) {
            Some(away) => Err(DriveError::InterfaceDown {
                interface: interface.clone(),
                away,
            }),
            None => Ok(false),
        }
    }

    fn check(&self, state: &InterfaceState) -> Result<(), DriveError> {
        let Interface {
            name,
            mac,
            mtu_bytes,
            ..
        } = &self.interface;
        let ip_bytes = self.ip_bytes();
        if ip_bytes == 0 && state.mac != *mac {
            return Err(DriveError::AddressChanged {
                interface: name.clone(),
                was: *mac,
                is: state.mac,
            });
        }
        let is = state.mtu_bytes.saturating_sub(ip_bytes);
        self.has_other_mtu
            .store(is != *mtu_bytes, Ordering::Relaxed);
        // A frame too large to send is an error of sending.
        if is < *mtu_bytes && self.largest_arrival_bytes > is + ETHERNET_BYTES {
            return Err(DriveError::MtuLowered {
                interface: name.clone(),
                was: *mtu_bytes,
                is,
            });
        }
        Ok(())
    }

    pub(super) fn open_filter(&mut self) -> bool {
        let index = self.interface.index;
        self.config.hears = true;
        let hears = self.reopen(index);
        self.config.hears = hears;
        hears
    }

    /// Binds to the interface that has replaced the old one; frames that the kernel held for the
    /// old one are lost, as on a cable. False if that is not possible yet.
    fn reopen(&mut self, index: u32) -> bool {
        let interface = Interface {
            index,
            ..self.interface.clone()
        };
        if let Arrivals::Datagrams(datagrams) = &self.arrivals {
            let joined = datagrams.join(&interface);
            if joined.is_ok() {
                self.interface = interface;
            }
            return joined.is_ok();
        }
        let reopened = Self::connect(&interface, &self.config).and_then(|(socket, ring, _)| {
            let replaced = syscall::replace(self.socket.as_fd(), socket.as_fd());
            replaced
                .map(|()| ring)
                .map_err(|errno| OpenError::new(&interface.name, "replace the socket", errno))
        });
        match reopened {
            Ok(ring) => (self.arrivals, self.interface) = (Arrivals::Frames(ring), interface),
            Err(error) => {
                log::debug!("not yet: {error}");
                return false;
            }
        }
        true
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Port {
            interface,
            config,
            counters,
            ..
        } = self;
        let mut fields = formatter.debug_struct("Port");
        fields
            .field("interface", interface)
            .field("config", config)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}

/// Returns and clears the error that an asynchronous event, such as the interface going down, left
/// on the socket.
pub(super) fn pending_error(socket: &OwnedFd) -> nix::Result<()> {
    match getsockopt(socket, sockopt::SocketError)? {
        0 => Ok(()),
        errno => Err(SystemErrno::from_raw(errno)),
    }
}

#[doc(hidden)]
impl Port {
    pub fn away_flag(&self) -> Arc<AtomicBool> {
        let both = self.second.as_ref().map(|second| &second.are_away);
        both.map_or_else(|| self.outage.flag(), Arc::clone)
    }

    pub fn no_link_flag(&self) -> Arc<AtomicBool> {
        let both = self.second.as_ref().map(|second| &second.have_no_link);
        both.map_or_else(|| self.carrier.flag(), Arc::clone)
    }

    pub fn other_mtu_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_other_mtu)
    }

    /// Returns the handle by which what is for all goes to other hosts over UDP by unicast, while
    /// the port is in use; all are heard.
    pub fn recipients(&self) -> Recipients {
        Arc::clone(&self.recipients)
    }

    pub fn first_hop_flag(&self) -> Arc<AtomicUsize> {
        self.sender.first_hop_flag()
    }
}

impl Link for Port {
    type Error = DriveError;
    type Waiter = Sleeper;

    fn name(&self) -> &str {
        &self.interface.name
    }

    fn receive(&mut self, take: impl FnMut(&[u8])) -> usize {
        Port::receive(self, take)
    }

    fn send(
        &mut self,
        now: Instant,
        mut write: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Result<usize, DriveError> {
        if let Some(mut second) = self.second.take() {
            let sent = self.send_by_both(&mut second, now, write);
            self.second = Some(second);
            return sent;
        }
        if !self.is_there(now)? {
            return Ok(0);
        }
        // Frames left over have their payloads staged, and so have all frames written here.
        let left_over = self.flush(now, no_payload)?;
        self.sender
            .fill(|buffer| write(buffer).map(SplitFrame::whole));
        Ok(left_over + self.flush(now, no_payload)?)
    }

    fn transmit<M: Machine>(
        &mut self,
        now: Instant,
        machine: &mut M,
    ) -> Result<Transmitted, DriveError> {
        if let Some(mut second) = self.second.take() {
            let transmitted = self.transmit_by_both(&mut second, now, machine);
            self.second = Some(second);
            return transmitted;
        }
        if !self.is_there(now)? {
            return Ok(Transmitted {
                frames: 0,
                exhausted: false,
            });
        }
        let left_over = self.flush(now, no_payload)?;
        let mut exhausted = false;
        self.sender.fill(|buffer| {
            let frame = machine.poll_transmit_split(now, buffer);
            exhausted = frame.is_none();
            frame
        });
        let sent = self.flush(now, |kept| machine.payload(kept));
        // Even for frames that failed: the machine lends no payload beyond this call.
        self.sender.join(|kept| machine.payload(kept));
        Ok(Transmitted {
            frames: left_over + sent?,
            exhausted,
        })
    }

    fn has_arrival(&self) -> bool {
        let own = match &self.arrivals {
            Arrivals::Frames(ring) => ring.has_arrival(),
            Arrivals::Datagrams(datagrams) => datagrams.has_arrival(),
        };
        let second = self.second.as_ref();
        own || second.is_some_and(|second| second.port.has_arrival())
    }

    fn blocked(&self) -> Option<Blocked> {
        let own = self.outage.blocked().or(self.sender.blocked());
        let Some(second) = &self.second else {
            return own;
        };
        second.blocked_or(own)
    }

    fn waited(&mut self, seen: SocketEvents) -> Result<(), DriveError> {
        if let Some(second) = &mut self.second
            && let Err(error) = second.port.waited(seen.of_second())
        {
            second.fail(&error);
        }
        let name = self.interface.name.as_str();
        let events = seen
            .events()
            .map_err(|errno| DriveError::new(name, "wait", errno))?;
        self.counters.poll_wakeups += 1;
        if events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL) {
            if self.config.over.is_udp() {
                // Errors of datagrams, which are lost.
                clear_errors(self.socket.as_fd());
                return Ok(());
            }
            match pending_error(&self.socket) {
                Err(errno) if is_away(errno) => self.outage.notice(),
                result => result.map_err(|errno| DriveError::new(name, "receive", errno))?,
            }
        }
        if events.contains(PollFlags::POLLOUT) {
            self.sender.writable();
        }
        Ok(())
    }

    fn busy_poll(&self) -> Duration {
        self.config.busy_poll
    }

    fn receive_coalescing(&self) -> Duration {
        self.config.receive_coalescing
    }
}

fn no_payload(kept: Kept) -> &'static [u8] {
    unreachable!("the payload of frame {} has been left out", kept.sequence)
}
