//! The two UDP sockets of a host: one for unicast, one for frames to the group.

use super::address::{Over, drawn_port, group_address, mac_of, stand_in};
use super::neighbours::{Addresses, QUESTION_BYTES, Question};
use super::sender::family;
use crate::MacAddr;
use crate::packet::error::{Errno, OpenError};
use crate::packet::ring::SlotContent;
use crate::packet::syscall::{
    Arrival, IpNumber, RECEIVE_MANY, attach_filter, join_ip_multicast, multicast_by, receive_drops,
    receive_many, set_ip_number, take_ipv6_only, take_probing_mtu,
};
use crate::packet::{Interface, PortConfig, filter, random_u32};
use crate::wire::{ETHERNET_BYTES, EtherType};
use nix::errno::Errno as SystemErrno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    SockFlag, SockType, SockaddrStorage, bind, getsockopt, setsockopt, socket, sockopt,
};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

const DRAWS: usize = 100;
const CHARGE_BYTES: usize = 768;

/// Sockets of a port over UDP, each with room for `room_frames` datagrams of full length. The
/// kernel charges `CHARGE_BYTES` for a datagram beside its own bytes, which it rounds up to a power
/// of two. A free port is drawn in at most `DRAWS` tries.
pub(super) struct Sockets {
    pub(super) own: OwnedFd,
    pub(super) group: OwnedFd,
    pub(super) ip: IpAddr,
    pub(super) mac: MacAddr,
    pub(super) addresses: Addresses,
    pub(super) groups: Vec<(IpAddr, MacAddr)>,
    pub(super) room_frames: u64,
}

impl Sockets {
    pub(super) fn open(interface: &Interface, config: &PortConfig) -> Result<Sockets, OpenError> {
        let name = interface.name.as_str();
        let failed = |step| move |errno| OpenError::datagrams(name, step, errno);
        let of_interface = interface.ip().ok_or(SystemErrno::EADDRNOTAVAIL);
        let ip = of_interface.map_err(failed("find its address"))?;
        let addresses = Addresses::of(ip, interface.index);
        let is_ipv6 = addresses.is_ipv6();
        let make = || {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let socket = socket(family(is_ipv6), SockType::Datagram, flags, None)?;
            if is_ipv6 {
                take_ipv6_only(socket.as_fd())?;
            }
            Ok(socket)
        };
        let [own, group] = [make(), make()];
        let (own, group) = (
            own.map_err(failed("open a socket"))?,
            group.map_err(failed("open a socket"))?,
        );
        let at = |port| addresses.host(ip, port).expect("it has its own");
        let address = bind_own(&own, at, config.over).map_err(|(address, errno)| match errno {
            SystemErrno::EADDRINUSE => OpenError::PortTaken {
                interface: name.to_owned(),
                address,
            },
            errno => OpenError::datagrams(name, "bind a port", errno),
        })?;
        set_up_own(&own, interface, ip, config).map_err(|(step, errno)| failed(step)(errno))?;
        let unicast = config.over.is_unicast();
        let macs = config
            .group
            .into_iter()
            .chain(config.also)
            .chain([MacAddr::BROADCAST]);
        let joined = macs.map(|mac| (addresses.group(mac, config.ether_type).ip(), mac));
        let groups: Vec<_> = if unicast {
            vec![(ip, MacAddr::BROADCAST)]
        } else {
            joined.collect()
        };
        let group_port = match config.is_called || !unicast {
            true => group_address(MacAddr::BROADCAST, config.ether_type).port(),
            // Any.
            false => 0,
        };
        let any: IpAddr = match is_ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let of_groups = if unicast {
            at(group_port)
        } else {
            SocketAddr::new(any, group_port)
        };
        set_up_group(&group, address, of_groups).map_err(|(step, errno)| match errno {
            SystemErrno::EADDRINUSE => OpenError::GroupPortTaken { address: of_groups },
            errno => OpenError::datagrams(name, step, errno),
        })?;
        let multicast = groups.iter().map(|(ip, _)| *ip).filter(|_| !unicast);
        join_groups(&group, interface.index, multicast).map_err(failed("join the group"))?;
        let room = [&own, &group].map(|socket| make_room(socket, config.receive_ring_bytes));
        let [own_bytes, group_bytes] = room;
        let bytes = own_bytes
            .and_then(|own| group_bytes.map(|group| own.min(group)))
            .map_err(failed("make room"))?;
        warn_of_small(interface, bytes, config.receive_ring_bytes);
        let stands_for = SocketAddrV4::new(stand_in(ip), address.port());
        let mac = mac_of(stands_for).expect("it was drawn or given from the range");
        let room_frames = (bytes / (interface.mtu_bytes.next_power_of_two() + CHARGE_BYTES)) as u64;
        Ok(Sockets {
            own,
            group,
            ip,
            mac,
            addresses,
            groups,
            room_frames,
        })
    }
}

/// Joins groups on an interface; those that it is in already stay.
pub(super) fn join_groups(
    socket: &OwnedFd,
    interface_index: u32,
    groups: impl Iterator<Item = IpAddr>,
) -> nix::Result<()> {
    for group in groups {
        match join_ip_multicast(socket.as_fd(), interface_index, group) {
            Err(errno) if errno != SystemErrno::EADDRINUSE => return Err(errno),
            _ => {}
        }
    }
    Ok(())
}

fn bind_own(
    socket: &OwnedFd,
    at: impl Fn(u16) -> SocketAddr,
    over: Over,
) -> Result<SocketAddr, (SocketAddr, SystemErrno)> {
    let try_port = |port| {
        let address = at(port);
        bind(socket.as_raw_fd(), &SockaddrStorage::from(address))
            .map(|()| address)
            .map_err(|errno| (address, errno))
    };
    if let Over::Udp {
        port: Some(port), ..
    } = over
    {
        return try_port(port);
    }
    let mut tried = Err((at(0), SystemErrno::EADDRINUSE));
    for _ in 0..DRAWS {
        let drawn = random_u32().map_err(|_| (at(0), SystemErrno::EAGAIN))?;
        tried = try_port(drawn_port(drawn));
        if !matches!(tried, Err((_, SystemErrno::EADDRINUSE))) {
            break;
        }
    }
    tried
}

fn set_up_own(
    socket: &OwnedFd,
    interface: &Interface,
    ip: IpAddr,
    config: &PortConfig,
) -> Result<(), (&'static str, SystemErrno)> {
    let fd = socket.as_fd();
    let set = |option, value| set_ip_number(fd, ip.is_ipv6(), option, value);
    multicast_by(socket.as_fd(), interface.index, ip).map_err(|errno| ("send to groups", errno))?;
    set(IpNumber::MulticastHops, config.ttl)
        .map_err(|errno| ("limit groups to this network", errno))?;
    if !config.over.is_unicast() {
        // Nothing passes a router unless the user says so: frames beyond have no congestion
        // control, and a sender that names no peers answers the short JOIN of any address with long
        // frames.
        set(IpNumber::Hops, config.ttl).map_err(|errno| ("limit frames to this network", errno))?;
    }
    // Other processes of this host may be of the group.
    set(IpNumber::Loopback, 1).map_err(|errno| ("send to this host", errno))?;
    take_probing_mtu(fd, ip.is_ipv6()).map_err(|errno| ("forbid fragments", errno))?;
    set(IpNumber::Errors, 1).map_err(|errno| ("have errors reported", errno))?;
    if let Some(priority) = config.priority {
        setsockopt(socket, sockopt::Priority, &priority.into())
            .map_err(|errno| ("set the priority", errno))?;
    }
    join_datagrams(socket);
    Ok(())
}

fn set_up_group(
    socket: &OwnedFd,
    own: SocketAddr,
    of_groups: SocketAddr,
) -> Result<(), (&'static str, SystemErrno)> {
    let failed = |step| move |errno| (step, errno);
    let set = |option, value| set_ip_number(socket.as_fd(), own.is_ipv6(), option, value);
    // What is sent to one host reaches one socket, so that port is not shared.
    let is_shared = of_groups.ip().is_unspecified();
    setsockopt(socket, sockopt::ReuseAddr, &is_shared).map_err(failed("share the groups' port"))?;
    set(IpNumber::ForeignGroups, 0).map_err(failed("leave out groups of others"))?;
    set(IpNumber::Destination, 1).map_err(failed("tell groups apart"))?;
    attach_filter(socket.as_fd(), &filter::but_from(own))
        .map_err(failed("leave out outgoing frames"))?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(of_groups))
        .map_err(failed("bind the groups' port"))?;
    join_datagrams(socket);
    Ok(())
}

/// Lets the kernel join arriving datagrams of one sender, where it can.
fn join_datagrams(socket: &OwnedFd) {
    if let Err(errno) = setsockopt(socket, sockopt::UdpGroSegment, &true) {
        log::info!("datagrams arrive one by one: {errno}");
    }
}

/// Asks for room for `bytes`, and returns what the system has given; only CAP_NET_ADMIN may exceed
/// its limit.
fn make_room(socket: &OwnedFd, bytes: usize) -> nix::Result<usize> {
    let bytes = bytes.min(i32::MAX as usize / 2);
    setsockopt(socket, sockopt::RcvBufForce, &bytes)
        .or_else(|_| setsockopt(socket, sockopt::RcvBuf, &bytes))?;
    getsockopt(socket, sockopt::RcvBuf)
}

/// Says what the system should allow where it has given much less than was asked for. The kernel
/// doubles what it is asked for.
fn warn_of_small(interface: &Interface, bytes: usize, asked_bytes: usize) {
    if bytes < asked_bytes {
        log::warn!(
            "{}: the system gives a receive buffer of {} KiB, {} were asked for: more find room after `sysctl -w \
             net.core.rmem_max={asked_bytes}`",
            interface.name,
            bytes >> 10,
            asked_bytes >> 10
        );
    }
}

impl OpenError {
    fn datagrams(interface: &str, step: &'static str, errno: SystemErrno) -> OpenError {
        OpenError::Datagrams {
            interface: interface.to_owned(),
            step,
            errno: Errno::new(errno),
        }
    }
}

/// Room for one datagram, or several joined ones, behind that for the Ethernet header of the first.
const SLOT_BYTES: usize = ETHERNET_BYTES + (1 << 16);

/// Receiver of datagrams, from any host if there are no `peers`. The present arrivals have come
/// from socket number `from`, the last of a host of IPv6 from `last`.
pub(in crate::packet) struct DatagramReceiver {
    sockets: [Arc<OwnedFd>; 2],
    ip: IpAddr,
    own: MacAddr,
    addresses: Addresses,
    last: Option<(SocketAddr, MacAddr)>,
    groups: Vec<(IpAddr, MacAddr)>,
    peers: BTreeSet<IpAddr>,
    joins: bool,
    ether_type: EtherType,
    mtu_bytes: usize,
    room_frames: u64,
    memory: Box<[u8]>,
    arrivals: Vec<Arrival>,
    from: usize,
    next: usize,
    offset: usize,
}

impl DatagramReceiver {
    pub(in crate::packet) fn open(
        interface: &Interface,
        config: &PortConfig,
    ) -> Result<DatagramReceiver, OpenError> {
        let Sockets {
            own,
            group,
            ip,
            mac,
            addresses,
            groups,
            room_frames,
        } = Sockets::open(interface, config)?;
        Ok(DatagramReceiver {
            sockets: [own, group].map(Arc::new),
            ip,
            own: mac,
            addresses,
            last: None,
            groups,
            peers: BTreeSet::new(),
            joins: !config.over.is_unicast(),
            ether_type: config.ether_type,
            mtu_bytes: interface.mtu_bytes,
            room_frames,
            memory: vec![0; RECEIVE_MANY * SLOT_BYTES].into_boxed_slice(),
            arrivals: Vec::with_capacity(RECEIVE_MANY),
            from: 0,
            next: 0,
            offset: 0,
        })
    }

    pub(in crate::packet) fn own_socket(&self) -> &Arc<OwnedFd> {
        &self.sockets[0]
    }

    pub(in crate::packet) fn mac(&self) -> MacAddr {
        self.own
    }

    pub(in crate::packet) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    pub(in crate::packet) fn room_frames(&self) -> u64 {
        self.room_frames
    }

    pub(in crate::packet) fn group_socket(&self) -> &Arc<OwnedFd> {
        &self.sockets[1]
    }

    /// Joins the groups again, on an interface that has replaced the old one, and sends to them by
    /// it.
    pub(in crate::packet) fn join(&self, interface: &Interface) -> nix::Result<()> {
        self.addresses.move_to(interface.index);
        multicast_by(self.sockets[0].as_fd(), interface.index, self.ip)?;
        join_groups(
            &self.sockets[1],
            interface.index,
            self.groups.iter().map(|(ip, _)| *ip).filter(|_| self.joins),
        )
    }

    pub(in crate::packet) fn hear_only(&mut self, peers: &[IpAddr]) {
        self.addresses.name(peers);
        self.peers.extend(peers);
    }

    pub(in crate::packet) fn dropped(&self) -> u64 {
        self.sockets
            .iter()
            .map(|socket| u64::from(receive_drops(socket.as_fd()).unwrap_or_default()))
            .sum()
    }

    pub(in crate::packet) fn has_arrival(&self) -> bool {
        let [own, group] =
            [0, 1].map(|at| PollFd::new(self.sockets[at].as_fd(), PollFlags::POLLIN));
        self.next < self.arrivals.len()
            || poll(&mut [own, group], PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    pub(in crate::packet) fn receive<R>(
        &mut self,
        take: impl FnOnce(SlotContent<'_>) -> R,
    ) -> Option<R> {
        while self.next == self.arrivals.len() {
            if !self.refill() {
                return None;
            }
        }
        let arrival = self.arrivals[self.next];
        let bytes = arrival.each_bytes.min(arrival.bytes - self.offset);
        let at = self.next * SLOT_BYTES + self.offset;
        self.offset += bytes;
        if self.offset == arrival.bytes {
            (self.next, self.offset) = (self.next + 1, 0);
        }
        if self.takes_question(&arrival, at + ETHERNET_BYTES, bytes) {
            return Some(take(SlotContent::Question));
        }
        Some(take(self.content(&arrival, at, bytes)))
    }

    /// Fetches arrivals from one socket, the other than before if it has any.
    fn refill(&mut self) -> bool {
        (self.next, self.offset) = (0, 0);
        for _ in 0..2 {
            self.from = 1 - self.from;
            self.arrivals.clear();
            let room = self
                .memory
                .chunks_exact_mut(SLOT_BYTES)
                .map(|slot| &mut slot[ETHERNET_BYTES..]);
            // An error is that of an earlier datagram, which a host has refused, and is cleared by
            // being read.
            if receive_many(self.sockets[self.from].as_fd(), room, &mut self.arrivals).is_ok()
                && !self.arrivals.is_empty()
            {
                return true;
            }
        }
        false
    }

    /// Returns the MAC address of a sender that is heard, if it has one.
    fn source(&mut self, arrival: &Arrival) -> Option<MacAddr> {
        if !self.peers.is_empty() && !self.peers.contains(&arrival.source.ip()) {
            return None;
        }
        if let Some((_, mac)) = self.last.filter(|(source, _)| *source == arrival.source) {
            return Some(mac);
        }
        let mac = self.addresses.mac_of(arrival.source)?;
        if self.addresses.is_ipv6() {
            self.last = Some((arrival.source, mac));
        }
        Some(mac)
    }

    /// Takes a datagram that asks for the address of a host, or answers; false if it is none.
    fn takes_question(&mut self, arrival: &Arrival, at: usize, bytes: usize) -> bool {
        if bytes != QUESTION_BYTES || !self.addresses.is_ipv6() || arrival.is_truncated {
            return false;
        }
        let question = Question::decode(&self.memory[at..at + bytes]);
        let (Some(question), Some(_), SocketAddr::V6(source)) =
            (question, self.source(arrival), arrival.source)
        else {
            return false;
        };
        let socket = self.sockets[0].as_fd();
        match question {
            Question::Ask(mac) if mac == self.own => {
                Question::Answer(mac).send(socket, arrival.source);
            }
            // All others have heard the question, too.
            Question::Ask(_) if self.joins => {}
            Question::Ask(mac) => {
                if let Some(to) = self.addresses.process(mac) {
                    Question::Pass(mac, source).send(socket, to);
                }
            }
            Question::Pass(mac, asker) if mac == self.own && !self.joins => {
                let to = self.addresses.host((*asker.ip()).into(), asker.port());
                to.into_iter()
                    .for_each(|to| Question::Answer(mac).send(socket, to));
            }
            // The source is noted.
            Question::Pass(..) | Question::Answer(_) => {}
        }
        true
    }

    /// Puts an Ethernet header in front of the `bytes` of a datagram: over the end of the one
    /// before, which has been taken.
    fn content(&mut self, arrival: &Arrival, at: usize, bytes: usize) -> SlotContent<'_> {
        let source = self.source(arrival);
        let own = (self.from == 0).then_some(self.own);
        let group = || {
            self.groups
                .iter()
                .find(|(ip, _)| *ip == arrival.destination)
                .map(|(_, mac)| *mac)
        };
        let (Some(source), Some(destination)) = (source, own.or_else(group)) else {
            return SlotContent::Outside;
        };
        if arrival.is_truncated || bytes > self.mtu_bytes {
            return SlotContent::Truncated;
        }
        let frame = &mut self.memory[at..at + ETHERNET_BYTES + bytes];
        let [to, from] = [destination, source].map(MacAddr::octets);
        frame[..6].copy_from_slice(&to);
        frame[6..12].copy_from_slice(&from);
        frame[12..ETHERNET_BYTES].copy_from_slice(&self.ether_type.octets());
        SlotContent::Frame(frame)
    }
}
