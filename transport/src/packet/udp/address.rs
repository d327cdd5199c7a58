//! Mapping between UDP addresses and MAC addresses, by arithmetic.
//!
//! An IPv4 address (32 bits) and a port of IANA's dynamic range (14 bits) fill the 46 free bits of
//! a locally administered unicast MAC address. Views, lists and tags thus carry them as MAC
//! addresses. An IPv6 address is hashed to 32 bits, its *stand-in*; a port's table of
//! [neighbours](super::neighbours) leads back. A group's MAC address gives 18 bits of an address of
//! the organization-local scope (RFC 2365), or 47 bits of one of IPv6 (RFC 3307), the EtherType the
//! port of all groups.

use crate::MacAddr;
use crate::wire::EtherType;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Context of the hash of an IPv6 address, which no other hash has.
const STAND_IN_CONTEXT: &str = "ethbcast stand-in of an IPv6 address";
/// Ports of processes, 14 bits: the dynamic range of RFC 6335. Those of groups begin at
/// `GROUP_PORTS`: their range is as large, and no system draws its own ports from it.
const PORTS: RangeInclusive<u16> = 49152..=65535;
const GROUP_PORTS: u16 = 16384;
const LOW_BITS: u16 = 0x3fff;
/// The bits of a first byte that say locally administered, and one host.
const LOCAL: u8 = 2;

/// Carrier of the frames of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Over {
    /// Raw Ethernet frames (AF_PACKET).
    #[default]
    Ethernet,
    /// Datagrams of UDP over IPv4, or over IPv6 where an interface has no address of IPv4.
    Udp {
        /// Port of this process, from 49152 on; without it, any that is free.
        port: Option<u16>,
        /// Whether nothing is sent to multicast addresses, which routers and clouds do not pass;
        /// then frames pass routers, and [`Port::name_peers`](super::super::Port::name_peers) says
        /// who gets those for all.
        unicast: bool,
    },
}

/// Error for a text that names no carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "write `ethernet`, `udp`, `unicast`, or `udp:PORT` or `unicast:PORT` with a port from {} to {}",
    PORTS.start(),
    PORTS.end()
)]
pub struct ParseOverError;

impl Over {
    /// Whether it is UDP.
    pub const fn is_udp(self) -> bool {
        matches!(self, Over::Udp { .. })
    }

    /// Whether it is UDP to single hosts only.
    pub const fn is_unicast(self) -> bool {
        matches!(self, Over::Udp { unicast: true, .. })
    }
}

impl FromStr for Over {
    type Err = ParseOverError;

    fn from_str(text: &str) -> Result<Over, ParseOverError> {
        let (carrier, port) = text
            .split_once(':')
            .map_or((text, None), |(carrier, port)| (carrier, Some(port)));
        let unicast = match carrier {
            "ethernet" if port.is_none() => return Ok(Over::Ethernet),
            "udp" => false,
            "unicast" => true,
            _ => return Err(ParseOverError),
        };
        let own = |port: &str| {
            port.parse()
                .ok()
                .filter(|port| PORTS.contains(port))
                .ok_or(ParseOverError)
        };
        Ok(Over::Udp {
            port: port.map(own).transpose()?,
            unicast,
        })
    }
}

impl fmt::Display for Over {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Over::Udp { port, unicast } = self else {
            return out.write_str("ethernet");
        };
        out.write_str(if *unicast { "unicast" } else { "udp" })?;
        port.map_or(Ok(()), |port| write!(out, ":{port}"))
    }
}

/// Returns the MAC address that stands for a process's address; `None` for a port below 49152.
pub fn mac_of(address: SocketAddrV4) -> Option<MacAddr> {
    if !has_wire_port(address.port()) {
        return None;
    }
    let [high, low] = (address.port() & LOW_BITS).to_be_bytes();
    let [a, b, c, d] = address.ip().octets();
    Some(MacAddr::new(high << 2 | LOCAL, low, a, b, c, d))
}

/// Returns the process's address that a MAC address stands for; `None` for one that stands for
/// none.
pub fn address_of(mac: MacAddr) -> Option<SocketAddrV4> {
    let [high, low, a, b, c, d] = mac.octets();
    let port = PORTS.start() | u16::from_be_bytes([high >> 2, low]);
    (high & 3 == LOCAL).then(|| SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port))
}

/// Returns the multicast address and the port that a group's MAC address stands for, broadcast
/// included, among hosts of one EtherType.
pub fn group_address(mac: MacAddr, ether_type: EtherType) -> SocketAddrV4 {
    let [.., a, b, c] = mac.octets();
    SocketAddrV4::new(
        Ipv4Addr::new(239, 192 | a & 3, b, c),
        GROUP_PORTS | ether_type.number() & LOW_BITS,
    )
}

/// Returns the IPv6 multicast address that a group's MAC address stands for: of the site's scope,
/// and of those that are assigned for a time (RFC 3307).
fn group_ip6(mac: MacAddr) -> Ipv6Addr {
    const FOR_A_TIME: u8 = 0x80;
    let [a, b, c, d, e, f] = mac.octets();
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&[0xff, 0x15]);
    octets[10..].copy_from_slice(&[a, b, c | FOR_A_TIME, d, e, f]);
    octets.into()
}

/// Returns what [`group_address`] does for hosts of IPv4, or of IPv6.
pub fn group_address_of(mac: MacAddr, ether_type: EtherType, is_ipv6: bool) -> SocketAddr {
    let group = group_address(mac, ether_type);
    if is_ipv6 {
        SocketAddr::new(group_ip6(mac).into(), group.port())
    } else {
        group.into()
    }
}

/// Returns the IPv4 address that stands for an address of IP: itself, or 32 bits of a hash.
pub fn stand_in(ip: IpAddr) -> Ipv4Addr {
    match ip {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(ip) => {
            let hash = blake3::derive_key(STAND_IN_CONTEXT, &ip.octets());
            let bits: [u8; 4] = *hash.first_chunk().expect("it has 32 bytes");
            bits.into()
        }
    }
}

/// Returns the bytes of the headers of IP and UDP, which an interface's MTU includes.
pub(in crate::packet) const fn header_bytes(is_ipv6: bool) -> usize {
    if is_ipv6 { 48 } else { 28 }
}

/// Whether a process may have the port.
pub(super) fn has_wire_port(port: u16) -> bool {
    PORTS.contains(&port)
}

/// Returns the port number `drawn` at random, within the range of processes.
pub(super) fn drawn_port(drawn: u32) -> u16 {
    PORTS.start() | drawn as u16 & LOW_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::group_mac;

    #[test]
    fn every_address_of_a_process_is_a_mac_address_and_comes_back() {
        for port in [49152, 49153, 50000, 65535] {
            for ip in [[10, 255, 0, 1], [0, 0, 0, 0], [255, 255, 255, 255]] {
                let address = SocketAddrV4::new(ip.into(), port);
                let mac = mac_of(address).expect("a dynamic port");
                assert!(mac.is_local() && !mac.is_multicast(), "{mac}");
                assert_eq!(address_of(mac), Some(address));
            }
        }
        for port in [0, 80, 18613, 49151] {
            assert_eq!(
                mac_of(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)),
                None,
                "{port}"
            );
        }
        let foreign = [
            MacAddr::new(0, 1, 2, 3, 4, 5),
            MacAddr::BROADCAST,
            group_mac("a"),
            MacAddr::ZERO,
        ];
        assert!(foreign.iter().all(|&mac| address_of(mac).is_none()));
        assert_eq!(
            mac_of(SocketAddrV4::new([10, 0, 0, 7].into(), 49152)),
            Some(MacAddr::new(2, 0, 10, 0, 0, 7))
        );
        assert!(
            (0..100_u32).all(|drawn| PORTS.contains(&drawn_port(drawn.wrapping_mul(0x1357_9bdf))))
        );
    }

    #[test]
    fn groups_have_addresses_of_the_organizations_scope_and_the_ether_types_port() {
        let [a, b] =
            ["default", "images"].map(|name| group_address(group_mac(name), EtherType::DEFAULT));
        assert!(a != b && a.port() == 18613 && b.port() == 18613);
        assert!(
            [a, b]
                .iter()
                .all(|group| group.ip().is_multicast() && group.ip().octets()[1] & !3 == 192)
        );
        assert_eq!(
            group_address(MacAddr::BROADCAST, EtherType::DEFAULT).ip(),
            &Ipv4Addr::new(239, 195, 255, 255)
        );
        assert_eq!(
            group_address(group_mac("default"), EtherType::new(0x88B6)).port(),
            18614
        );
    }

    #[test]
    fn groups_of_ipv6_are_of_the_sites_scope_and_keep_the_whole_name() {
        let of = |mac| group_address_of(mac, EtherType::DEFAULT, true).to_string();
        assert_eq!(of(MacAddr::BROADCAST), "[ff15::ffff:ffff:ffff]:18613");
        assert_eq!(
            of(MacAddr::new(3, 0xc3, 2, 0x3e, 0x80, 0x51)),
            "[ff15::3c3:823e:8051]:18613"
        );
        // As in docs/protocol/frames.md.
        assert_eq!(of(group_mac("ethbcast")), "[ff15::3a6:debe:85c9]:18613");
        let mac = group_mac("default");
        assert_eq!(
            group_address_of(mac, EtherType::DEFAULT, false),
            group_address(mac, EtherType::DEFAULT).into()
        );
    }

    #[test]
    fn an_address_of_ipv6_always_has_the_same_stand_in_and_one_of_ipv4_is_its_own() {
        let ip = Ipv4Addr::new(10, 255, 0, 1);
        assert_eq!(stand_in(ip.into()), ip);
        // All hosts must agree, whatever their build.
        let of = |text: &str| stand_in(text.parse().expect("an address"));
        assert_eq!(of("fd00::1"), Ipv4Addr::new(177, 171, 137, 20));
        let hosts = (0..10_000_u128).map(|host| stand_in(Ipv6Addr::from_bits(host).into()));
        let distinct: std::collections::BTreeSet<Ipv4Addr> = hosts.collect();
        assert_eq!(distinct.len(), 10_000);
    }

    #[test]
    fn a_carrier_is_read_as_it_is_written() {
        for text in [
            "ethernet",
            "udp",
            "udp:49152",
            "udp:65535",
            "unicast",
            "unicast:50000",
        ] {
            assert_eq!(text.parse::<Over>().expect(text).to_string(), text);
        }
        for text in [
            "",
            "tcp",
            "udp:",
            "udp:80",
            "udp:65536",
            "UDP",
            "udp:x",
            "ethernet:49152",
            "unicast:80",
        ] {
            assert_eq!(text.parse::<Over>(), Err(ParseOverError), "{text}");
        }
        assert!(ParseOverError.to_string().contains("49152 to 65535"));
    }
}
