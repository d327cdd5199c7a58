//! Addresses of hosts at one port over UDP: IPv4 by arithmetic, IPv6 by a small table of neighbours.
//!
//! A MAC address has room for a hash of an IPv6 address, its [stand-in](stand_in). The table leads
//! back: an address enters it as the source that the kernel gives for a datagram, or by the user's
//! word, and never takes the place of another with its stand-in. Those that the user has named stay;
//! of the others, those that have not been needed for long are forgotten.
//!
//! A view names hosts that have not been heard, such as the next of a chain. A port that has a frame
//! for one *asks*: it sends a datagram shorter than any frame to all, and the host in question
//! answers. Where no multicast goes it asks the processes it has heard; the sender of the session,
//! which knows all, passes the question on, and the host answers to the asker. All are equally long,
//! so that a forged source is sent no more than it sent.

use super::address::{address_of, group_address_of, has_wire_port, header_bytes, mac_of, stand_in};
use crate::MacAddr;
use crate::lock::Mutex;
use crate::wire::{EtherType, HEADER_BYTES};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Neighbours that were heard lately, and as many that were before.
const MAX_HEARD: usize = 4096;
/// Processes that are asked one by one.
const MAX_ASKED: usize = 64;

/// Addresses of hosts, and MAC addresses that stand for their processes.
#[derive(Clone, Debug)]
pub enum Addresses {
    /// IPv4, by arithmetic.
    V4,
    /// IPv6, by a table.
    V6(Arc<Neighbours>),
}

impl Addresses {
    /// Returns the addresses of a port at `own` on an interface of this index.
    pub(in crate::packet) fn of(own: IpAddr, interface_index: u32) -> Addresses {
        match own {
            IpAddr::V4(_) => Addresses::V4,
            IpAddr::V6(own) => Addresses::V6(Arc::new(Neighbours::new(own, interface_index))),
        }
    }

    pub(in crate::packet) fn is_ipv6(&self) -> bool {
        matches!(self, Addresses::V6(_))
    }

    pub(in crate::packet) fn header_bytes(&self) -> usize {
        header_bytes(self.is_ipv6())
    }

    /// Takes the interface that has replaced the old one.
    pub(in crate::packet) fn move_to(&self, interface_index: u32) {
        if let Addresses::V6(neighbours) = self {
            neighbours.scope.store(interface_index, Ordering::Relaxed);
        }
    }

    /// Keeps addresses that the user has named.
    pub(in crate::packet) fn name(&self, hosts: &[IpAddr]) {
        if let Addresses::V6(neighbours) = self {
            neighbours.name(hosts);
        }
    }

    /// Returns the MAC address for the source of a datagram, which is noted; `None` if there is
    /// none, or another address has it.
    pub(in crate::packet) fn mac_of(&self, source: SocketAddr) -> Option<MacAddr> {
        match (self, source) {
            (Addresses::V4, SocketAddr::V4(source)) => mac_of(source),
            (Addresses::V6(neighbours), SocketAddr::V6(source)) if has_wire_port(source.port()) => {
                let ip = neighbours.note(source)?;
                mac_of(SocketAddrV4::new(ip, source.port()))
            }
            _ => None,
        }
    }

    /// Returns the process that a MAC address stands for, if its address is known.
    pub(in crate::packet) fn process(&self, mac: MacAddr) -> Option<SocketAddr> {
        let of = address_of(mac)?;
        self.host((*of.ip()).into(), of.port())
    }

    /// Returns the address of the host that a MAC address stands for, if it is known.
    pub fn host_of(&self, mac: MacAddr) -> Option<IpAddr> {
        self.process(mac).map(|address| address.ip())
    }

    /// Returns a port of a host; in a network of IPv6 an IPv4 address is that of a stand-in.
    pub(in crate::packet) fn host(&self, ip: IpAddr, port: u16) -> Option<SocketAddr> {
        match (self, ip) {
            (Addresses::V4, ip) => Some(SocketAddr::new(ip, port)),
            (Addresses::V6(neighbours), IpAddr::V4(ip)) => {
                Some(neighbours.at(neighbours.find(ip)?, port).into())
            }
            (Addresses::V6(neighbours), IpAddr::V6(ip)) => Some(neighbours.at(ip, port).into()),
        }
    }

    pub(in crate::packet) fn group(&self, mac: MacAddr, ether_type: EtherType) -> SocketAddr {
        group_address_of(mac, ether_type, self.is_ipv6())
    }
}

/// Table of neighbours by their stand-ins. `scope` is the index of the interface, for addresses that
/// count only on its link.
#[derive(Debug)]
pub struct Neighbours {
    scope: AtomicU32,
    table: Mutex<Table>,
}

/// Neighbours that the user has named, this host among them; those that were heard since the last
/// change, each with the process heard last; and those before. `has_warned` of two with one
/// stand-in.
#[derive(Debug, Default)]
struct Table {
    named: HashMap<Ipv4Addr, Ipv6Addr>,
    heard: HashMap<Ipv4Addr, SocketAddrV6>,
    before: HashMap<Ipv4Addr, SocketAddrV6>,
    has_warned: bool,
}

impl Neighbours {
    fn new(own: Ipv6Addr, interface_index: u32) -> Neighbours {
        let neighbours = Neighbours {
            scope: AtomicU32::new(interface_index),
            table: Mutex::default(),
        };
        neighbours.name(&[own.into()]);
        neighbours
    }

    fn name(&self, hosts: &[IpAddr]) {
        let mut table = self.table.lock();
        for host in hosts {
            if let IpAddr::V6(ip) = *host {
                table.named.entry(stand_in(*host)).or_insert(ip);
            }
        }
    }

    fn note(&self, source: SocketAddrV6) -> Option<Ipv4Addr> {
        let ip = stand_in((*source.ip()).into());
        let mut table = self.table.lock();
        if let Some(known) = table.find(ip).filter(|known| known != source.ip()) {
            if !std::mem::replace(&mut table.has_warned, true) {
                log::warn!(
                    "frames from {} are ignored, because {known} has the same hash: give one of both another address",
                    source.ip()
                );
            }
            return None;
        }
        table.keep(ip, source);
        Some(ip)
    }

    fn find(&self, ip: Ipv4Addr) -> Option<Ipv6Addr> {
        self.table.lock().find(ip)
    }

    fn at(&self, ip: Ipv6Addr, port: u16) -> SocketAddrV6 {
        let scope = match ip.is_unicast_link_local() {
            true => self.scope.load(Ordering::Relaxed),
            false => 0,
        };
        SocketAddrV6::new(ip, port, 0, scope)
    }

    /// Returns processes that may know others.
    pub(super) fn heard(&self) -> Vec<SocketAddr> {
        let table = self.table.lock();
        let heard = table.heard.values().chain(table.before.values());
        heard
            .take(MAX_ASKED)
            .map(|from| self.at(*from.ip(), from.port()).into())
            .collect()
    }
}

impl Table {
    fn find(&mut self, ip: Ipv4Addr) -> Option<Ipv6Addr> {
        if let Some(named) = self.named.get(&ip) {
            return Some(*named);
        }
        if let Some(heard) = self.heard.get(&ip) {
            return Some(*heard.ip());
        }
        // It is needed, so it stays.
        let before = *self.before.get(&ip)?;
        self.keep(ip, before);
        Some(*before.ip())
    }

    fn keep(&mut self, ip: Ipv4Addr, heard: SocketAddrV6) {
        if self.heard.len() >= MAX_HEARD && !self.heard.contains_key(&ip) {
            self.before = std::mem::take(&mut self.heard);
        }
        self.heard.insert(ip, heard);
    }
}

pub(super) const QUESTION_BYTES: usize = 28;
const _: () = assert!(QUESTION_BYTES < HEADER_BYTES, "no frame is that short");
const ASK: u8 = 1;
const PASS: u8 = 2;
const ANSWER: u8 = 3;
const IPV6: u8 = 6;

/// A datagram between ports, which is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Asks for the address of a process.
    Ask(MacAddr),
    /// Tells a process to answer the asker.
    Pass(MacAddr, SocketAddrV6),
    /// Answers by its source alone.
    Answer(MacAddr),
}

impl Question {
    pub(super) fn encode(self) -> [u8; QUESTION_BYTES] {
        let none = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0);
        let (kind, mac, asker) = match self {
            Question::Ask(mac) => (ASK, mac, none),
            Question::Pass(mac, asker) => (PASS, mac, asker),
            Question::Answer(mac) => (ANSWER, mac, none),
        };
        let mut bytes = [0; QUESTION_BYTES];
        bytes[..2].copy_from_slice(&[kind, IPV6]);
        bytes[2..8].copy_from_slice(&mac.octets());
        bytes[8..10].copy_from_slice(&asker.port().to_be_bytes());
        bytes[12..].copy_from_slice(&asker.ip().octets());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Question> {
        let bytes: &[u8; QUESTION_BYTES] = bytes.try_into().ok()?;
        let mac = MacAddr::from(*bytes[2..].first_chunk::<6>()?);
        let port = u16::from_be_bytes([bytes[8], bytes[9]]);
        let ip = Ipv6Addr::from(*bytes[12..].first_chunk::<16>()?);
        match bytes[..2] {
            [ASK, IPV6] => Some(Question::Ask(mac)),
            [PASS, IPV6] if has_wire_port(port) && !ip.is_multicast() => {
                Some(Question::Pass(mac, SocketAddrV6::new(ip, port, 0, 0)))
            }
            [ANSWER, IPV6] => Some(Question::Answer(mac)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host)
    }

    fn from(host: u16) -> SocketAddr {
        SocketAddrV6::new(ip(host), 50_000, 0, 0).into()
    }

    #[test]
    fn a_neighbour_is_known_once_it_was_heard_and_others_are_not() {
        let addresses = Addresses::of(ip(1).into(), 7);
        let mac = |host| mac_of(SocketAddrV4::new(stand_in(ip(host).into()), 50_000));
        let of_two = mac(2).expect("a port of the range");
        assert_eq!(addresses.process(of_two), None);
        assert_eq!(addresses.mac_of(from(2)), Some(of_two));
        assert_eq!(addresses.process(of_two), Some(from(2)));
        assert_eq!(
            addresses.host_of(mac(1).expect("its own")),
            Some(ip(1).into())
        );
        assert_eq!(addresses.host_of(mac(3).expect("not heard")), None);
        let low = SocketAddr::new(ip(3).into(), 80);
        let of_ipv4 = SocketAddr::new([10, 0, 0, 1].into(), 50_000);
        assert_eq!(
            [low, of_ipv4].map(|other| addresses.mac_of(other)),
            [None; 2]
        );
        addresses.name(&[ip(4).into()]);
        let stands_for = IpAddr::V4(stand_in(ip(4).into()));
        assert_eq!(
            addresses.host(stands_for, 18613),
            Some(SocketAddr::new(ip(4).into(), 18613))
        );
    }

    #[test]
    fn addresses_of_a_link_have_the_interface_as_scope_and_follow_it() {
        let link_local = |host: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host);
        let addresses = Addresses::of(link_local(1).into(), 7);
        let to = |scope| Some(SocketAddrV6::new(link_local(2), 50_000, 0, scope).into());
        let scoped = SocketAddrV6::new(link_local(2), 50_000, 0, 3);
        let mac = addresses.mac_of(scoped.into()).expect("a process");
        assert_eq!(addresses.process(mac), to(7));
        addresses.move_to(9);
        assert_eq!(addresses.process(mac), to(9));
        assert_eq!(addresses.host(link_local(2).into(), 50_000), to(9));
    }

    #[test]
    fn of_two_addresses_with_one_stand_in_the_first_counts() {
        let mut table = Table::default();
        let stands_for = Ipv4Addr::new(1, 2, 3, 4);
        table.named.insert(stand_in(ip(2).into()), ip(9));
        table
            .heard
            .insert(stands_for, SocketAddrV6::new(ip(5), 50_000, 0, 0));
        let neighbours = Neighbours {
            scope: AtomicU32::new(1),
            table: Mutex::new(table),
        };
        assert_eq!(
            neighbours.note(SocketAddrV6::new(ip(2), 50_000, 0, 0)),
            None
        );
        assert_eq!(neighbours.find(stand_in(ip(2).into())), Some(ip(9)));
        assert_eq!(neighbours.find(stands_for), Some(ip(5)));
    }

    #[test]
    fn strangers_in_any_number_push_out_neither_who_is_named_nor_who_is_needed() {
        let addresses = Addresses::of(ip(1).into(), 7);
        addresses.name(&[ip(2).into()]);
        let needed = addresses.mac_of(from(3)).expect("a process");
        let not_needed = addresses.mac_of(from(4)).expect("a process");
        for stranger in 0..3 * MAX_HEARD as u128 {
            let ip = Ipv6Addr::from_bits(0x2001 << 112 | stranger);
            addresses.mac_of(SocketAddrV6::new(ip, 50_000, 0, 0).into());
            if stranger % 1000 == 0 {
                assert_eq!(addresses.process(needed), Some(from(3)));
            }
        }
        let named = IpAddr::V4(stand_in(ip(2).into()));
        assert!(addresses.host(named, 1).is_some() && addresses.process(not_needed).is_none());
        let Addresses::V6(neighbours) = addresses else {
            unreachable!("it is of IPv6")
        };
        let table = neighbours.table.lock();
        assert!(table.heard.len() + table.before.len() <= 2 * MAX_HEARD);
    }

    #[test]
    fn a_question_is_read_as_it_was_written_and_nothing_else_is_one() {
        let (mac, asker) = (
            MacAddr::new(2, 1, 2, 3, 4, 5),
            SocketAddrV6::new(ip(2), 50_000, 0, 0),
        );
        let all = [
            Question::Ask(mac),
            Question::Pass(mac, asker),
            Question::Answer(mac),
        ];
        for question in all {
            let bytes = question.encode();
            assert_eq!(Question::decode(&bytes), Some(question));
            assert_eq!(Question::decode(&bytes[1..]), None);
        }
        let to_a_low_port = Question::Pass(mac, SocketAddrV6::new(ip(2), 53, 0, 0));
        let to_all = SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 50_000, 0, 0);
        for bytes in [
            [0; QUESTION_BYTES],
            [0xff; QUESTION_BYTES],
            to_a_low_port.encode(),
            Question::Pass(mac, to_all).encode(),
        ] {
            assert_eq!(Question::decode(&bytes), None);
        }
    }
}
