//! Opening of the packet socket for a group: checks name and MTU, and sizes the receive ring.

use super::host;
use crate::membership::codec::{MAX_NAME_BYTES, is_shown};
use crate::membership::station::{MAX_GROUP_BYTES, MIN_MTU_BYTES, Station};
use ethbcast_transport::MacAddr;
use ethbcast_transport::packet::OptionName;
use ethbcast_transport::packet::{
    Interface, InterfaceError, OpenError, Port, PortConfig, address_of,
};
use ethbcast_transport::wire::{Guard, HEADER_BYTES, group_mac};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use thiserror::Error;

/// Bytes of a ring's slot beside the interface's MTU: the kernel's header, the address and the
/// Ethernet header.
const SLOT_OVERHEAD_BYTES: usize = 128;

/// Room of a port's ring, in frames: those that the streams' credit lets arrive before any of them
/// is read, and a margin for frames without credit (control messages, acknowledgements, repairs
/// sent twice).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRoom {
    pub credit_frames: u64,
    pub margin_frames: u64,
    pub most_bytes: usize,
}

impl RingRoom {
    /// Returns the room for one stream of a session with `credit_frames`: it cannot overflow the
    /// ring.
    pub const fn for_session(credit_frames: u64) -> RingRoom {
        RingRoom {
            credit_frames,
            margin_frames: 256,
            most_bytes: usize::MAX,
        }
    }

    /// Returns the memory in bytes: an eighth more than the slots, because they do not fill the
    /// kernel's blocks.
    pub const fn bytes(&self, interface_mtu_bytes: usize) -> usize {
        let frames = (self.credit_frames + self.margin_frames) as usize;
        let bytes = frames * (interface_mtu_bytes + SLOT_OVERHEAD_BYTES) * 9 / 8;
        if bytes < self.most_bytes {
            bytes
        } else {
            self.most_bytes
        }
    }
}

/// Error of opening a port. Each sentence says what to do.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationError {
    #[error("the group name has {bytes} bytes: choose one of 1 to {MAX_GROUP_BYTES}")]
    GroupName { bytes: usize },
    #[error("the {what} name {name:?} has control characters: leave them out")]
    ControlCharacters { what: &'static str, name: String },
    #[error("the host name has {bytes} bytes: choose one of 1 to {MAX_NAME_BYTES}")]
    HostName { bytes: usize },
    #[error(
        "an MTU of {wanted} is more than interface {interface} carries: use at most {available}"
    )]
    LargeMtu {
        wanted: usize,
        interface: String,
        available: usize,
    },
    #[error(
        "an MTU of {mtu_bytes} is too small: ethbcast needs at least {MIN_MTU_BYTES} on interface {interface}"
    )]
    SmallMtu { mtu_bytes: usize, interface: String },
    #[error(
        "over unicast a sender has to know its receivers: name each by {}, or `hosts` of its options",
        OptionName("hosts")
    )]
    NoPeers,
    #[error(
        "a sender that is waited for over unicast ({host}) is named only there: leave out {}, or add {} unicast",
        OptionName("sender"),
        OptionName("over")
    )]
    SenderElsewhere { host: String },
    #[error(
        "over unicast a sender that takes receivers {} has to know them: name each by {}",
        OptionName("late"),
        OptionName("hosts")
    )]
    LateCallers,
    #[error(
        "over unicast there is send, cp and recv alone, where {} names who receives: take {} udp",
        OptionName("hosts"),
        OptionName("over")
    )]
    OnlySessions,
    #[error("{interfaces} cannot carry one transfer: {why}")]
    Lanes { interfaces: String, why: String },
    #[error("{} and {} are one host, {address}: name it once", hosts[0], hosts[1])]
    OneAddress {
        hosts: [String; 2],
        address: Ipv4Addr,
    },
    #[error(
        "host {host} has no address ({why}): name it by its IPv4 address, or add it to /etc/hosts here"
    )]
    NoAddress { host: String, why: String },
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Refuses two interfaces that cannot carry one transfer. Nothing says by which of several a host is
/// reached over UDP, whose frames have one address each.
fn check_lanes(named: &str, found: &[Interface], port: &PortConfig) -> Result<(), StationError> {
    let refuse = |why: String| {
        Err(StationError::Lanes {
            interfaces: named.to_owned(),
            why,
        })
    };
    let [first, second] = found else {
        return refuse("it takes one interface, or two".to_owned());
    };
    if port.over.is_udp() {
        return refuse(format!("{} udp takes one interface", OptionName("over")));
    }
    if port.inherited.is_some() {
        return refuse("an inherited socket is of one interface".to_owned());
    }
    if first.index == second.index || first.mac == second.mac {
        return refuse(format!("{} has one address: name it once", first.name));
    }
    let mtus = [first, second].map(|interface| interface.mtu_bytes);
    if mtus[0] != mtus[1] {
        let [one, other] = mtus;
        return refuse(format!(
            "their MTUs are {one} and {other}: `ip link set {} mtu {one}`, or name one",
            second.name
        ));
    }
    Ok(())
}

/// Parameters of a port. By default it is on the only Ethernet interface that is up and has that
/// interface's MTU, in bytes, and the host has [`host::name`]. Group and ring of `port` are set
/// here.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    pub interface: Option<&'a str>,
    pub host: Option<&'a str>,
    pub group: &'a str,
    pub group_mac: MacAddr,
    pub mtu_bytes: Option<u32>,
    pub port: PortConfig,
}

impl<'a> Opening<'a> {
    /// Returns the defaults, with the group's usual address.
    pub fn new(group: &'a str, port: PortConfig) -> Opening<'a> {
        Opening {
            interface: None,
            host: None,
            group,
            group_mac: group_mac(group),
            mtu_bytes: None,
            port,
        }
    }

    /// Finds the interface and opens its port. `ring` returns the room needed for frames with this
    /// many bytes of payload.
    ///
    /// # Errors
    /// See [`StationError`].
    pub fn open(
        &self,
        ring: impl FnOnce(usize) -> RingRoom,
    ) -> Result<(Port, Station), StationError> {
        let (interface, config, station) = self.prepare(ring)?;
        let port = Port::open(&interface, config)?;
        let mac = port.interface().mac;
        Ok((port, Station { mac, ..station }))
    }

    /// Opens the port like [`open`](Opening::open), but on two interfaces if two are named, with a
    /// comma between them.
    ///
    /// # Errors
    /// See [`StationError`].
    pub fn open_lanes(
        &self,
        ring: impl FnOnce(usize) -> RingRoom,
    ) -> Result<(Port, Station), StationError> {
        let Some(named) = self.interface.filter(|named| named.contains(',')) else {
            return self.open(ring);
        };
        let words = named.split(',').filter(|word| !word.is_empty());
        let found: Vec<Interface> = words
            .clone()
            .map(|word| Interface::find_over(Some(word), self.port.over))
            .collect::<Result<_, _>>()?;
        check_lanes(named, &found, &self.port)?;
        let (first, config, station) = Opening {
            interface: words.clone().next(),
            ..*self
        }
        .prepare(ring)?;
        Ok((Port::open_two([&first, &found[1]], config)?, station))
    }

    /// Returns the interface, its port's configuration, and this host's station.
    ///
    /// # Errors
    /// See [`StationError`].
    pub fn prepare(
        &self,
        ring: impl FnOnce(usize) -> RingRoom,
    ) -> Result<(Interface, PortConfig, Station), StationError> {
        check_group(self.group)?;
        let host = host::name(self.host);
        check_host(&host)?;
        let interface = Interface::find_over(self.interface, self.port.over).map_err(|error| {
            match self.interface.filter(|named| named.contains(',')) {
                Some(named) => StationError::Lanes {
                    interfaces: named.to_owned(),
                    why: "only `send` and `recv` take two interfaces".to_owned(),
                },
                None => error.into(),
            }
        })?;
        let mtu_bytes = check_mtu(&interface, self.mtu_bytes)?;
        // Slots hold the interface's MTU, even if this group's frames are shorter.
        let receive_ring_bytes =
            ring(interface.mtu_bytes - HEADER_BYTES).bytes(interface.mtu_bytes);
        let mut config = self.port;
        (config.group, config.receive_ring_bytes) = (Some(self.group_mac), receive_ring_bytes);
        let station = Station {
            host,
            group: self.group.to_owned(),
            mac: interface.mac,
            // By unicast no datagram says to which group it goes, and checksums cover the address.
            group_mac: if self.port.over.is_unicast() {
                MacAddr::BROADCAST
            } else {
                self.group_mac
            },
            ether_type: self.port.ether_type,
            mtu_bytes,
            guard: Guard::Plain,
        };
        let Station {
            host,
            group,
            group_mac,
            ..
        } = &station;
        log::info!(
            "{host} on {} ({}), MTU {mtu_bytes}, group {group} at {group_mac}",
            interface.name,
            interface.mac
        );
        Ok((interface, config, station))
    }
}

/// Checks a group's name.
///
/// # Errors
/// [`StationError::GroupName`].
pub fn check_group(group: &str) -> Result<(), StationError> {
    check_shown("group", group)?;
    let bytes = group.len();
    if (1..=MAX_GROUP_BYTES).contains(&bytes) {
        Ok(())
    } else {
        Err(StationError::GroupName { bytes })
    }
}

/// Refuses characters that are not shown, so that different names cannot look alike.
fn check_shown(what: &'static str, name: &str) -> Result<(), StationError> {
    let is_shown = name.chars().all(is_shown);
    is_shown
        .then_some(())
        .ok_or_else(|| StationError::ControlCharacters {
            what,
            name: name.to_owned(),
        })
}

fn check_host(host: &str) -> Result<(), StationError> {
    check_shown("host", host)?;
    let bytes = host.len();
    if (1..=MAX_NAME_BYTES).contains(&bytes) {
        Ok(())
    } else {
        Err(StationError::HostName { bytes })
    }
}

fn check_mtu(interface: &Interface, wanted: Option<u32>) -> Result<u16, StationError> {
    let available = interface.mtu_bytes.min(usize::from(u16::MAX));
    let wanted = wanted.map_or(available, |mtu_bytes| mtu_bytes as usize);
    let interface = interface.name.clone();
    if wanted > available {
        Err(StationError::LargeMtu {
            wanted,
            interface,
            available,
        })
    } else if wanted < usize::from(MIN_MTU_BYTES) {
        Err(StationError::SmallMtu {
            mtu_bytes: wanted,
            interface,
        })
    } else {
        Ok(wanted as u16)
    }
}

/// The process that opened something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener(u32);

/// A call in a forked child on an object that its parent has opened. Nothing was sent, and the
/// parent's object is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "this process is a fork of process {parent}, which opened this and still has it: open one here, or start this \
     process anew instead (in Python by multiprocessing's spawn or forkserver)"
)]
pub struct Forked {
    pub parent: u32,
}

impl Opener {
    pub fn here() -> Opener {
        Opener(std::process::id())
    }

    /// Fails in every other process.
    ///
    /// # Errors
    /// If this process is a fork of the one that opened it.
    pub fn check(self) -> Result<(), Forked> {
        if self == Opener::here() {
            Ok(())
        } else {
            Err(Forked { parent: self.0 })
        }
    }
}

#[test]
fn another_process_is_told_whose_it_is() {
    assert_eq!(Opener::here().check(), Ok(()));
    let parent = std::process::id() + 1;
    assert_eq!(Opener(parent).check(), Err(Forked { parent }));
}

/// Returns the addresses of hosts, each given by its name, by an IPv4 address, or as `name@MAC`.
/// The system resolves names, once.
///
/// # Errors
/// [`StationError::NoPeers`] if there are no hosts, [`StationError::NoAddress`] for one without an
/// address of IPv4, [`StationError::OneAddress`] for two with the same.
pub fn addresses_of(hosts: &[String]) -> Result<Vec<Ipv4Addr>, StationError> {
    if hosts.is_empty() {
        return Err(StationError::NoPeers);
    }
    let addresses: Vec<Ipv4Addr> = hosts
        .iter()
        .map(|host| address(host))
        .collect::<Result<_, _>>()?;
    let mut known = BTreeMap::new();
    for (&address, host) in addresses.iter().zip(hosts) {
        if let Some(other) = known.insert(address, host).filter(|other| *other != host) {
            return Err(StationError::OneAddress {
                hosts: [other, host].map(String::clone),
                address,
            });
        }
    }
    Ok(addresses)
}

fn address(host: &str) -> Result<Ipv4Addr, StationError> {
    let (name, mac) = host
        .split_once('@')
        .map_or((host, None), |(name, mac)| (name, Some(mac)));
    if let Some(address) = mac.and_then(|mac| address_of(mac.parse::<MacAddr>().ok()?)) {
        return Ok(*address.ip());
    }
    let refuse = |why: String| StationError::NoAddress {
        host: host.to_owned(),
        why,
    };
    let resolved = (name, 0)
        .to_socket_addrs()
        .map_err(|error| refuse(error.to_string()))?;
    let of_ipv4 = |address: SocketAddr| match address {
        SocketAddr::V4(address) => Some(*address.ip()),
        SocketAddr::V6(_) => None,
    };
    resolved
        .filter_map(of_ipv4)
        .next()
        .ok_or_else(|| refuse("it has none of IPv4".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_room_for_credit_and_margin_and_stays_below_its_limit() {
        assert_eq!(
            RingRoom::for_session(4096).bytes(1500),
            (4096 + 256) * (1500 + 128) * 9 / 8
        );
        assert_eq!(
            RingRoom {
                most_bytes: 1 << 20,
                ..RingRoom::for_session(4096)
            }
            .bytes(1500),
            1 << 20
        );
    }

    #[test]
    fn an_mtu_that_cannot_be_is_refused_with_one_that_can() {
        let mac = MacAddr::new(2, 0, 0, 0, 0, 1);
        let interface = Interface {
            name: "eth0".to_owned(),
            index: 1,
            mac,
            mtu_bytes: 1500,
        };
        assert_eq!(
            check_mtu(&interface, None).expect("the interface's own"),
            1500
        );
        let refused = |wanted| {
            check_mtu(&interface, Some(wanted))
                .expect_err("it cannot be")
                .to_string()
        };
        assert_eq!(
            refused(1501),
            "an MTU of 1501 is more than interface eth0 carries: use at most 1500"
        );
        assert_eq!(
            refused(100),
            "an MTU of 100 is too small: ethbcast needs at least 576 on interface eth0"
        );
        let text = check_host(&"h".repeat(256))
            .expect_err("too long")
            .to_string();
        assert_eq!(text, "the host name has 256 bytes: choose one of 1 to 255");
        assert_eq!(
            check_group("").expect_err("empty").to_string(),
            "the group name has 0 bytes: choose one of 1 to 64"
        );
    }

    #[test]
    fn two_interfaces_that_cannot_carry_one_transfer_are_refused_with_the_reason() {
        let interface = |index: u32, mtu_bytes| Interface {
            name: format!("eth{index}"),
            index,
            mac: MacAddr::new(2, 0, 0, 0, 0, index as u8),
            mtu_bytes,
        };
        let [one, two, large] =
            [(0, 1500), (1, 1500), (2, 9000)].map(|(at, mtu)| interface(at, mtu));
        let port = PortConfig::default();
        let refusal = |found: &[&Interface], port: &PortConfig| {
            let found: Vec<Interface> = found.iter().map(|&one| one.clone()).collect();
            let checked = check_lanes("eth0,eth1", &found, port);
            checked.map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(refusal(&[&one, &two], &port), "");
        assert_eq!(
            refusal(&[&one, &large], &port),
            "eth0,eth1 cannot carry one transfer: their MTUs are 1500 and 9000: `ip link set eth2 mtu 1500`, \
             or name one"
        );
        assert!(refusal(&[&one, &one], &port).ends_with("eth0 has one address: name it once"));
        for found in [&[&one][..], &[&one, &two, &large]] {
            assert!(refusal(found, &port).ends_with("it takes one interface, or two"));
        }
        let mut other = port;
        other.inherited = Some(3);
        assert!(
            refusal(&[&one, &two], &other).ends_with("an inherited socket is of one interface")
        );
        other = port;
        other.over = "udp".parse().expect("a carrier");
        assert!(refusal(&[&one, &two], &other).ends_with("over udp takes one interface"));
    }

    fn resolved(hosts: &[&str]) -> Result<Vec<Ipv4Addr>, String> {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        addresses_of(&hosts).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_are_found_by_address_and_by_what_a_report_calls_them() {
        let found = resolved(&[
            "10.1.0.2",
            "127.0.0.1",
            "no.such.name.invalid@02:00:0a:01:00:03",
        ]);
        assert_eq!(
            found,
            Ok(vec![
                [10, 1, 0, 2].into(),
                Ipv4Addr::LOCALHOST,
                [10, 1, 0, 3].into()
            ])
        );
    }

    #[test]
    fn a_host_without_an_address_is_named_with_what_to_do() {
        for (hosts, words) in [
            (
                &["10.1.0.2", "no.such.name.invalid"][..],
                ["no.such.name.invalid", "/etc/hosts"],
            ),
            (&["::1"], ["::1", "none of IPv4"]),
            (&[], ["unicast", "hosts"]),
            (
                &["n0@02:00:0a:01:00:02", "10.1.0.2"],
                ["n0@02:00:0a:01:00:02 and 10.1.0.2 are one host", "once"],
            ),
        ] {
            let text = resolved(hosts).expect_err("it has none");
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}
