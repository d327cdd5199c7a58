//! Receiving over UDP: turns datagrams into frames, and splits those that the kernel has joined
//! (UDP_GRO).

use super::address::{address_of, mac_of};
use super::sockets::{Sockets, join_groups};
use crate::MacAddr;
use crate::packet::Interface;
use crate::packet::config::PortConfig;
use crate::packet::error::OpenError;
use crate::packet::ring::SlotContent;
use crate::packet::syscall::{Arrival, RECEIVE_MANY, multicast_by, receive_drops, receive_many};
use crate::wire::{ETHERNET_BYTES, EtherType};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Room for one datagram, or several joined ones, behind that for the Ethernet header of the first.
const SLOT_BYTES: usize = ETHERNET_BYTES + (1 << 16);

/// Receiver of datagrams, from any host if there are no `peers`. The present arrivals have come from socket number
/// `from`.
pub(in crate::packet) struct DatagramReceiver {
    sockets: [Arc<OwnedFd>; 2],
    own: MacAddr,
    groups: Vec<(Ipv4Addr, MacAddr)>,
    peers: BTreeSet<Ipv4Addr>,
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
    pub(in crate::packet) fn open(interface: &Interface, config: &PortConfig) -> Result<DatagramReceiver, OpenError> {
        let Sockets { own, group, mac, groups, room_frames } = Sockets::open(interface, config)?;
        Ok(DatagramReceiver {
            sockets: [own, group].map(Arc::new),
            own: mac,
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

    pub(in crate::packet) fn room_frames(&self) -> u64 {
        self.room_frames
    }

    pub(in crate::packet) fn group_socket(&self) -> &Arc<OwnedFd> {
        &self.sockets[1]
    }

    /// Joins the groups again, on an interface that has replaced the old one, and sends to them by it.
    pub(in crate::packet) fn join(&self, interface: &Interface) -> nix::Result<()> {
        let ip = address_of(self.own).map_or(Ipv4Addr::UNSPECIFIED, |address| *address.ip());
        multicast_by(self.sockets[0].as_fd(), interface.index, ip)?;
        join_groups(&self.sockets[1], interface.index, self.groups.iter().map(|(ip, _)| *ip).filter(|_| self.joins))
    }

    pub(in crate::packet) fn hear_only(&mut self, peers: &[Ipv4Addr]) {
        self.peers.extend(peers);
    }

    pub(in crate::packet) fn dropped(&self) -> u64 {
        self.sockets.iter().map(|socket| u64::from(receive_drops(socket.as_fd()).unwrap_or_default())).sum()
    }

    pub(in crate::packet) fn has_arrival(&self) -> bool {
        let [own, group] = [0, 1].map(|at| PollFd::new(self.sockets[at].as_fd(), PollFlags::POLLIN));
        self.next < self.arrivals.len() || poll(&mut [own, group], PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    pub(in crate::packet) fn receive<R>(&mut self, take: impl FnOnce(SlotContent<'_>) -> R) -> Option<R> {
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
        Some(take(self.content(&arrival, at, bytes)))
    }

    /// Fetches arrivals from one socket, the other than before if it has any.
    fn refill(&mut self) -> bool {
        (self.next, self.offset) = (0, 0);
        for _ in 0..2 {
            self.from = 1 - self.from;
            self.arrivals.clear();
            let room = self.memory.chunks_exact_mut(SLOT_BYTES).map(|slot| &mut slot[ETHERNET_BYTES..]);
            // An error is that of an earlier datagram, which a host has refused, and is cleared by being read.
            if receive_many(self.sockets[self.from].as_fd(), room, &mut self.arrivals).is_ok()
                && !self.arrivals.is_empty()
            {
                return true;
            }
        }
        false
    }

    /// Puts an Ethernet header in front of the `bytes` of a datagram: over the end of the one before,
    /// which has been taken.
    fn content(&mut self, arrival: &Arrival, at: usize, bytes: usize) -> SlotContent<'_> {
        let own = (self.from == 0).then_some(self.own);
        let group = || self.groups.iter().find(|(ip, _)| *ip == arrival.destination).map(|(_, mac)| *mac);
        let is_peer = self.peers.is_empty() || self.peers.contains(arrival.source.ip());
        let (true, Some(source), Some(destination)) = (is_peer, mac_of(arrival.source), own.or_else(group)) else {
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
