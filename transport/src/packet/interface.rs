//! Selection of the network interface: by its name or an address, or the only one that is up.
//!
//! A user may give any name of the interface: the one in `ip link`, an alternative name, its MAC
//! address, an IP address it has, or the value of a boot loader's `BOOTIF=`.
//!
//! All network interfaces of the calling thread's network namespace, as rtnetlink(7) lists them,
//! with their alternative names and their masters.
//!
//! `/sys/class/net` shows the namespace it was mounted in, not the calling thread's.

use super::error::{Errno, OptionName};
use super::udp::{Over, address_of, header_bytes, mac_of, stand_in};
use crate::MacAddr;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recv, send, socket,
};
use std::net::{IpAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const INNER_BRIDGES: [&str; 7] = ["docker", "br-", "virbr", "lxcbr", "lxdbr", "cni", "podman"];

/// An Ethernet interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, as in `ip link`.
    pub name: String,
    /// Interface index of the kernel.
    pub index: u32,
    /// MAC address.
    pub mac: MacAddr,
    /// Largest payload of one frame in bytes, without the 14 bytes of the Ethernet header.
    pub mtu_bytes: usize,
}

/// Family of addresses of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are their names")]
pub enum IpFamily {
    V4,
    V6,
}

/// Reason why there is no interface to use.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    #[error("there is no interface {name}{}", others(.known))]
    Unknown { name: String, known: Vec<String> },
    #[error("interface {name} is down: bring it up with `ip link set {name} up`")]
    Down { name: String },
    /// The interface does not carry Ethernet frames (or is the loopback interface).
    #[error(
        "interface {name} is not an Ethernet interface: choose another with {}",
        OptionName("interface")
    )]
    NotEthernet { name: String },
    /// The interface has no address for UDP.
    #[error(
        "interface {name} has no {}, which {} udp needs: give it one with `ip address add ADDRESS/PREFIX dev {name}`, \
         or choose another with {}",
        wanted_address(*family),
        OptionName("over"),
        OptionName("interface")
    )]
    NoAddress {
        name: String,
        family: Option<IpFamily>,
    },
    #[error("no Ethernet interface is up{}: bring one up with `ip link set NAME up`", among(.known))]
    NoneUsable { known: Vec<String> },
    #[error("several Ethernet interfaces are up ({}): say which with {}", .usable.join(", "), OptionName("interface"))]
    Ambiguous { usable: Vec<String> },
    #[error(
        "cannot list the interfaces ({errno}): this process needs sockets of AF_NETLINK and AF_PACKET \
         (RestrictAddressFamilies= of a systemd unit, the seccomp profile of a container)"
    )]
    Unlisted { errno: Errno },
}

impl Interface {
    /// Finds the interface called `name`: a name, an alternative name, a MAC or IP address, or the
    /// value of `BOOTIF=`. Without a name, the only Ethernet interface that is up (and has a link,
    /// if several are up) and not a port of another.
    ///
    /// # Errors
    ///
    /// See [`InterfaceError`].
    pub fn find(name: Option<&str>) -> Result<Interface, InterfaceError> {
        let all = all().map_err(|errno| InterfaceError::Unlisted {
            errno: Errno::new(errno),
        })?;
        match name {
            Some(name) => Self::named(name, &all),
            None => Self::only(&all),
        }
    }

    /// Finds the interface like [`find`](Interface::find), for a carrier. Over UDP it has an address
    /// of IP, for which the result's MAC address stands, and need not be of Ethernet; its MTU is that
    /// of frames in datagrams. The address is of IPv4 if it has one, unless `name` is of IPv6.
    ///
    /// # Errors
    /// See [`InterfaceError`].
    pub fn find_over(name: Option<&str>, over: Over) -> Result<Interface, InterfaceError> {
        Interface::find_of(name, over, None)
    }

    /// Finds the interface like [`find_over`](Interface::find_over), with an address of this family.
    ///
    /// # Errors
    /// See [`InterfaceError`].
    pub fn find_of(
        name: Option<&str>,
        over: Over,
        family: Option<IpFamily>,
    ) -> Result<Interface, InterfaceError> {
        if !over.is_udp() {
            return Interface::find(name);
        }
        let all = all().map_err(|errno| InterfaceError::Unlisted {
            errno: Errno::new(errno),
        })?;
        let addresses = ranked(own_addresses(), family);
        let link = match name {
            Some(name) => Self::up(Self::on(name, &all)?)?,
            None => {
                // Every interface has an address of IPv6 for its own link.
                let is_ethernet = |name: &str| {
                    all.iter()
                        .any(|link| link.name == name && link.is_ethernet())
                };
                let ranks = addresses.iter().map(|(name, ip)| (name, rank(*ip)));
                let best = ranks
                    .clone()
                    .filter(|(name, _)| is_ethernet(name))
                    .map(|(_, rank)| rank)
                    .min();
                let having = |link: &&LinkInfo| {
                    ranks
                        .clone()
                        .any(|(name, rank)| *name == link.name && Some(rank) <= best)
                };
                let with_address: Vec<LinkInfo> = all.iter().filter(having).cloned().collect();
                // Without any, the reason is that of the interface that would be taken.
                let found = Self::only(if with_address.iter().any(LinkInfo::is_ethernet) {
                    &with_address
                } else {
                    &all
                })?;
                all.iter()
                    .find(|link| link.index == found.index)
                    .expect("it is one of them")
            }
        };
        let mut own = addresses
            .iter()
            .filter(|(name, _)| *name == link.name)
            .map(|(_, address)| *address);
        let address = match name.and_then(addresses_in) {
            Some(is_meant) => own.find(|address| is_meant(*address)),
            None => own.next(),
        };
        let address = address.ok_or_else(|| InterfaceError::NoAddress {
            name: link.name.clone(),
            family,
        })?;
        let port = if let Over::Udp {
            port: Some(port), ..
        } = over
        {
            port
        } else {
            u16::MAX
        };
        let stands_for = SocketAddrV4::new(stand_in(address), port);
        let mac = mac_of(stands_for).expect("a port of the range");
        let headers = header_bytes(address.is_ipv6());
        Ok(Interface {
            mac,
            mtu_bytes: link.mtu_bytes.saturating_sub(headers),
            ..Self::of(link)
        })
    }

    /// Returns its address of IP, which it has over UDP: that of IPv6 for which its MAC address
    /// stands, else the one of IPv4 that is in it.
    pub fn ip(&self) -> Option<IpAddr> {
        let stands_for = *address_of(self.mac)?.ip();
        let is_own = |(name, ip): &(String, IpAddr)| {
            *name == self.name && ip.is_ipv6() && stand_in(*ip) == stands_for
        };
        let of_ipv6 = own_addresses().into_iter().find(is_own).map(|(_, ip)| ip);
        Some(of_ipv6.unwrap_or(stands_for.into()))
    }

    /// Returns the bits of the prefix of its address of IP, which it has over UDP; `None` if it has
    /// no other hosts.
    pub fn prefix_bits(&self) -> Option<u8> {
        let own = self.ip()?;
        let is_own = |one: &InterfaceAddress| {
            one.interface_name == self.name && one.address.as_ref().and_then(ip_in) == Some(own)
        };
        let one = getifaddrs().into_iter().flatten().find(is_own)?;
        let (bits, most) = match ip_in(&one.netmask?)? {
            IpAddr::V4(mask) => (mask.to_bits().leading_ones(), 32),
            IpAddr::V6(mask) => (mask.to_bits().leading_ones(), 128),
        };
        Some(bits as u8).filter(|bits| (1..most).contains(bits))
    }

    /// Returns the interface that this one is a port of, with the kind of port, such as `bridge`:
    /// that interface receives the frames that arrive here.
    pub fn port_of(&self) -> Option<(String, String)> {
        let all = all().ok()?;
        let own = all
            .iter()
            .find(|link| link.index == self.index)
            .filter(|link| link.is_port())?;
        let master = all.iter().find(|link| Some(link.index) == own.master)?;
        Some((master.name.clone(), own.port_kind.clone()))
    }

    fn named(name: &str, all: &[LinkInfo]) -> Result<Interface, InterfaceError> {
        let found = Self::on(name, all)?;
        if !found.is_ethernet() {
            return Err(InterfaceError::NotEthernet {
                name: found.name.clone(),
            });
        }
        Ok(Self::of(Self::up(found)?))
    }

    fn up(found: &LinkInfo) -> Result<&LinkInfo, InterfaceError> {
        if found.has(libc::IFF_UP) {
            Ok(found)
        } else {
            Err(InterfaceError::Down {
                name: found.name.clone(),
            })
        }
    }

    fn on<'a>(name: &str, all: &'a [LinkInfo]) -> Result<&'a LinkInfo, InterfaceError> {
        match &meant(name, all)[..] {
            [] => {
                let known = names(all.iter().filter(|link| link.is_ethernet()));
                Err(InterfaceError::Unknown {
                    name: name.to_owned(),
                    known,
                })
            }
            [found] => Ok(*found),
            several => Err(InterfaceError::Ambiguous {
                usable: names(several.iter().copied()),
            }),
        }
    }

    fn only(all: &[LinkInfo]) -> Result<Interface, InterfaceError> {
        let mut usable: Vec<_> = all
            .iter()
            .filter(|link| link.has(libc::IFF_UP) && link.is_ethernet())
            .collect();
        // These are ignored as long as there is another interface: a port, whose frames another
        // interface receives; an interface without a link; a bridge that leads only to containers.
        let worse: [fn(&LinkInfo) -> bool; 3] = [
            LinkInfo::is_port,
            |link| !link.has(libc::IFF_LOWER_UP),
            leads_inside,
        ];
        for is_worse in worse {
            if usable.len() > 1 && usable.iter().any(|link| !is_worse(link)) {
                usable.retain(|link| !is_worse(link));
            }
        }
        match usable[..] {
            [] => Err(InterfaceError::NoneUsable { known: names(all) }),
            [link] => Ok(Self::of(link)),
            _ => Err(InterfaceError::Ambiguous {
                usable: names(usable),
            }),
        }
    }

    fn of(link: &LinkInfo) -> Interface {
        Interface {
            name: link.name.clone(),
            index: link.index,
            mac: link.mac,
            mtu_bytes: link.mtu_bytes,
        }
    }
}

fn leads_inside(link: &LinkInfo) -> bool {
    link.kind == "bridge" && INNER_BRIDGES.iter().any(|name| link.name.starts_with(name))
}

fn meant<'a>(word: &str, all: &'a [LinkInfo]) -> Vec<&'a LinkInfo> {
    let of = |is_meant: &dyn Fn(&LinkInfo) -> bool| {
        all.iter().filter(|link| is_meant(link)).collect::<Vec<_>>()
    };
    // `ip link` appends the underlying interface to the name.
    let name = word.split_once('@').map_or(word, |(name, _)| name);
    let named = of(&|link| link.name == name || link.other_names.iter().any(|other| other == name));
    if !named.is_empty() {
        return named;
    }
    if let Some(mac) = mac_in(word) {
        let mut found = of(&|link| link.mac == mac && link.is_ethernet());
        // Interfaces built on others share their address; the card is meant.
        for is_made in [LinkInfo::is_port as fn(&LinkInfo) -> bool, |link| {
            link.kind == "vlan"
        }] {
            if found.iter().any(|link| !is_made(link)) {
                found.retain(|link| !is_made(link));
            }
        }
        return found;
    }
    let Some(is_wanted) = addresses_in(word) else {
        return Vec::new();
    };
    let addresses = getifaddrs().into_iter().flatten();
    let having: Vec<String> = addresses
        .filter(|one| {
            let own = one.address.as_ref().and_then(ip_in);
            own.is_some_and(&is_wanted)
        })
        .map(|one| one.interface_name)
        .collect();
    // Of a link's own address, as `fe80::1%eth0`.
    let scope = word.split_once('%').map(|(_, scope)| scope);
    let is_there = |link: &LinkInfo| scope.is_none_or(|scope| scope == link.name);
    of(&|link| having.contains(&link.name) && is_there(link))
}

/// Returns the addresses of IP of all interfaces.
fn own_addresses() -> Vec<(String, IpAddr)> {
    let addresses = getifaddrs().into_iter().flatten();
    let of_ip = |one: InterfaceAddress| Some((one.interface_name, ip_in(&one.address?)?));
    addresses.filter_map(of_ip).collect()
}

fn ip_in(address: &SockaddrStorage) -> Option<IpAddr> {
    let of_ipv4 = address.as_sockaddr_in().map(|of| IpAddr::V4(of.ip()));
    of_ipv4.or_else(|| address.as_sockaddr_in6().map(|of| of.ip().into()))
}

/// Returns how early an address is taken: IPv4 comes first, one that counts only on its link last.
fn rank(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => 0,
        IpAddr::V6(ip) if !ip.is_unicast_link_local() => 1,
        IpAddr::V6(_) => 2,
    }
}

/// Returns the addresses of one family, or of both, in the order in which they are taken.
fn ranked(mut addresses: Vec<(String, IpAddr)>, family: Option<IpFamily>) -> Vec<(String, IpAddr)> {
    let is_of = |ip: IpAddr| family.is_none_or(|family| ip.is_ipv6() == (family == IpFamily::V6));
    addresses.retain(|(_, ip)| is_of(*ip));
    addresses.sort_by_key(|(_, ip)| rank(*ip));
    addresses
}

fn wanted_address(family: Option<IpFamily>) -> &'static str {
    match family {
        Some(IpFamily::V4) => "IPv4 address, as the hosts have that are named",
        Some(IpFamily::V6) => "IPv6 address, as the hosts have that are named",
        None => "IPv4 address, nor one of IPv6",
    }
}

/// Parses an IP address, or a network as `10.1.0.0/16`; returns whether an address is meant.
fn addresses_in(word: &str) -> Option<impl Fn(IpAddr) -> bool> {
    let word = word.split_once('%').map_or(word, |(word, _)| word);
    let (address, length) = word
        .split_once('/')
        .map_or((word, None), |(address, length)| (address, Some(length)));
    let (wanted, length) = (
        address.parse::<IpAddr>().ok()?,
        length.map(str::parse::<u32>).transpose().ok()?,
    );
    let network = move |address: IpAddr| {
        let (bits, all) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32_u32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let others = all.checked_sub(length.unwrap_or(all))?;
        Some((all, bits.checked_shr(others).unwrap_or(0)))
    };
    let wanted = network(wanted)?;
    Some(move |address| network(address) == Some(wanted))
}

/// Parses a MAC address: six bytes separated by colons or hyphens, or preceded by the hardware type
/// as in `BOOTIF=01-52-54-00-12-34-56`.
fn mac_in(word: &str) -> Option<MacAddr> {
    let bytes: Option<Vec<u8>> = word
        .split([':', '-'])
        .map(|part| {
            u8::from_str_radix(part, 16)
                .ok()
                .filter(|_| part.len() == 2)
        })
        .collect();
    match bytes?[..] {
        [a, b, c, d, e, f] | [1, a, b, c, d, e, f] => Some(MacAddr::new(a, b, c, d, e, f)),
        _ => None,
    }
}

fn names<'a>(all: impl IntoIterator<Item = &'a LinkInfo>) -> Vec<String> {
    let mut names: Vec<String> = all.into_iter().map(|link| link.name.clone()).collect();
    names.sort();
    names
}

fn others(names: &[String]) -> String {
    if names.is_empty() {
        ", nor any Ethernet interface".to_owned()
    } else {
        format!(
            ": choose one of {} with {}",
            names.join(", "),
            OptionName("interface")
        )
    }
}

fn among(names: &[String]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!(" among {}", names.join(", "))
    }
}

const ALIGNMENT: usize = 4;
const HEADER_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const ANSWER_BYTES: usize = 1 << 18;
const INFO_KIND: u16 = 1;
const INFO_SLAVE_KIND: u16 = 4;
const STATS64: u16 = 23;
const PROPERTIES: u16 = 52;
const OTHER_NAME: u16 = 53;
const TYPE_MASK: u16 = 0x3fff;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkInfo {
    pub index: u32,
    pub name: String,
    pub other_names: Vec<String>,
    pub hardware: u16,
    pub flags: u32,
    pub mac: MacAddr,
    pub mtu_bytes: usize,
    pub kind: String,
    pub master: Option<u32>,
    pub port_kind: String,
}

impl LinkInfo {
    pub(super) fn has(&self, flag: libc::c_int) -> bool {
        self.flags & flag as u32 != 0
    }

    pub(super) fn is_ethernet(&self) -> bool {
        self.hardware == libc::ARPHRD_ETHER && !self.has(libc::IFF_LOOPBACK)
    }

    /// Whether another interface receives its frames; a VRF concerns only IP.
    pub(super) fn is_port(&self) -> bool {
        self.master.is_some() && self.port_kind != "vrf"
    }
}

pub(super) fn all() -> nix::Result<Vec<LinkInfo>> {
    let socket = netlink()?;
    send(socket.as_raw_fd(), &request(), MsgFlags::empty())?;
    let (mut links, mut answer) = (Vec::new(), vec![0; ANSWER_BYTES]);
    loop {
        let bytes = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        if read(&answer[..bytes], &mut links)? {
            return Ok(links);
        }
    }
}

/// Whether the interface is on and has a link at this moment. `IFF_RUNNING`, as ioctl(2) reports
/// it, may lag by a second.
pub(super) fn has_link(index: u32) -> bool {
    let is_it = |link: &LinkInfo| {
        link.index == index && link.has(libc::IFF_UP) && link.has(libc::IFF_LOWER_UP)
    };
    all().is_ok_and(|links| links.iter().any(is_it))
}

/// Reads an interface's counters of received and sent bytes over a netlink `socket`; `None` if the
/// kernel refuses, or the thread's own namespace has another interface of that index: a port may
/// come from a server in another one.
pub(super) fn passed_bytes(
    socket: BorrowedFd,
    interface: &Interface,
    answer: &mut [u8],
) -> Option<[u64; 2]> {
    let mut request = request();
    request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&interface.index.to_ne_bytes());
    send(socket.as_raw_fd(), &request, MsgFlags::empty()).ok()?;
    // The kernel has answered when the request returns.
    let bytes = recv(socket.as_raw_fd(), answer, MsgFlags::MSG_DONTWAIT).ok()?;
    counted_bytes(answer.get(..bytes)?, interface.mac)
}

fn counted_bytes(answer: &[u8], mac: MacAddr) -> Option<[u64; 2]> {
    let is_link = u16_at(answer, 4) == Some(libc::RTM_NEWLINK);
    let body = answer
        .get(HEADER_BYTES..u32_at(answer, 0)? as usize)
        .filter(|_| is_link)?;
    let attribute =
        |wanted: u16| attributes(body.get(LINK_BYTES..)?).find(|(kind, _)| *kind == wanted);
    let (_, stats) = attribute(libc::IFLA_ADDRESS)
        .filter(|(_, address)| *address == mac.octets())
        .and(attribute(STATS64))?;
    let number = |at: usize| Some(u64::from_ne_bytes(stats.get(at..at + 8)?.try_into().ok()?));
    // Behind the numbers of packets.
    Some([number(16)?, number(24)?])
}

pub(super) fn netlink() -> nix::Result<OwnedFd> {
    socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
}

fn request() -> [u8; HEADER_BYTES + LINK_BYTES] {
    let mut request = [0; HEADER_BYTES + LINK_BYTES];
    request[..4].copy_from_slice(&((HEADER_BYTES + LINK_BYTES) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request
}

fn read(mut answer: &[u8], links: &mut Vec<LinkInfo>) -> nix::Result<bool> {
    while let (Some(length), Some(kind)) = (u32_at(answer, 0), u16_at(answer, 4)) {
        let Some(body) = answer.get(HEADER_BYTES..length as usize) else {
            break;
        };
        match libc::c_int::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                return Err(nix::errno::Errno::from_raw(
                    u32_at(body, 0).map_or(0, |error| -(error as i32)),
                ));
            }
            _ if kind == libc::RTM_NEWLINK => links.extend(link(body)),
            _ => {}
        }
        answer = answer
            .get((length as usize).next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
    }
    Ok(false)
}

fn link(body: &[u8]) -> Option<LinkInfo> {
    let mut link = LinkInfo {
        hardware: u16_at(body, 2)?,
        index: u32_at(body, 4)?,
        flags: u32_at(body, 8)?,
        ..LinkInfo::default()
    };
    for (kind, value) in attributes(body.get(LINK_BYTES..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu_bytes = u32_at(value, 0)? as usize,
            libc::IFLA_MASTER => link.master = u32_at(value, 0),
            libc::IFLA_ADDRESS => {
                if let &[a, b, c, d, e, f] = value {
                    link.mac = MacAddr::new(a, b, c, d, e, f);
                }
            }
            libc::IFLA_LINKINFO => {
                for (kind, value) in attributes(value) {
                    match kind {
                        INFO_KIND => link.kind = text(value),
                        INFO_SLAVE_KIND => link.port_kind = text(value),
                        _ => {}
                    }
                }
            }
            PROPERTIES => {
                let names = attributes(value).filter(|(kind, _)| *kind == OTHER_NAME);
                link.other_names.extend(names.map(|(_, value)| text(value)));
            }
            _ => {}
        }
    }
    Some(link)
}

fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(ALIGNMENT..length)?;
        bytes = bytes
            .get(length.next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
        Some((kind & TYPE_MASK, value))
    })
}

fn text(value: &[u8]) -> String {
    let end = value
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_kernel_lists_nothing_what_may_forbid_it_is_named() {
        let text = InterfaceError::Unlisted {
            errno: Errno::new(nix::errno::Errno::EAFNOSUPPORT),
        }
        .to_string();
        assert!(
            text.contains("AF_NETLINK") && text.contains("RestrictAddressFamilies="),
            "{text}"
        );
    }

    #[test]
    fn an_interface_is_found_by_its_address_or_its_network() {
        let own = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (word, address, is_meant) in [
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("10.1.0.0/16", "10.1.2.3", true),
            ("10.1.0.0/16", "10.2.2.3", false),
            ("0.0.0.0/0", "10.2.2.3", true),
            ("0.0.0.0/0", "fd00::1", false),
            ("fd00::/64", "fd00::7", true),
            ("::/0", "fd00::7", true),
            ("fd00::/65", "fd00:0:0:0:8000::7", false),
        ] {
            assert_eq!(
                addresses_in(word).expect(word)(own(address)),
                is_meant,
                "{address} by {word}"
            );
        }
        assert!(
            ["10.1.0.0/33", "10.1.0.0/", "eth0/3", "10.1.0.0/-1"]
                .iter()
                .all(|word| addresses_in(word).is_none())
        );
    }

    fn link(index: u32, name: &str, last: u8) -> LinkInfo {
        LinkInfo {
            index,
            name: name.to_owned(),
            hardware: libc::ARPHRD_ETHER,
            flags: (libc::IFF_UP | libc::IFF_LOWER_UP) as u32,
            mac: MacAddr::new(2, 0, 0, 0, 0, last),
            mtu_bytes: 1500,
            ..LinkInfo::default()
        }
    }

    fn chosen(all: &[LinkInfo]) -> Result<String, String> {
        Interface::only(all)
            .map(|found| found.name)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_interface_whose_frames_another_takes_is_no_candidate() {
        let bridge = LinkInfo {
            kind: "bridge".to_owned(),
            ..link(1, "br0", 1)
        };
        let port = |index, name| LinkInfo {
            master: Some(1),
            port_kind: "bridge".to_owned(),
            ..link(index, name, 2)
        };
        assert_eq!(
            chosen(&[bridge.clone(), port(2, "eth0"), port(3, "vnet0")]).as_deref(),
            Ok("br0")
        );
        let bond = LinkInfo {
            kind: "bond".to_owned(),
            ..link(4, "bond0", 2)
        };
        let slave = |index, name| LinkInfo {
            master: Some(4),
            port_kind: "bond".to_owned(),
            ..link(index, name, 2)
        };
        assert_eq!(
            chosen(&[slave(5, "eno1"), slave(6, "eno2"), bond]).as_deref(),
            Ok("bond0")
        );
        let blue = LinkInfo {
            master: Some(7),
            port_kind: "vrf".to_owned(),
            ..link(5, "eno1", 3)
        };
        assert_eq!(
            chosen(&[blue, port(2, "veth12")]).as_deref(),
            Ok("eno1"),
            "a VRF takes no frames"
        );
        let docker = LinkInfo {
            name: "docker0".to_owned(),
            ..bridge
        };
        let card = link(9, "eno1", 9);
        assert_eq!(
            chosen(&[docker.clone(), port(2, "veth12"), card.clone()]).as_deref(),
            Ok("eno1")
        );
        assert_eq!(
            chosen(&[docker]).as_deref(),
            Ok("docker0"),
            "there is no other"
        );
        let unplugged = LinkInfo {
            flags: libc::IFF_UP as u32,
            ..link(3, "eno2", 3)
        };
        assert_eq!(chosen(&[card.clone(), unplugged]).as_deref(), Ok("eno1"));
        let several = chosen(&[card, link(4, "eno3", 4)]).expect_err("which?");
        assert!(
            several.contains("eno1, eno3") && several.contains("with interface"),
            "{several}"
        );
    }

    #[test]
    fn an_address_of_ipv4_comes_first_and_one_of_the_link_last_unless_a_family_is_wanted() {
        let all = ["fe80::1", "fd00::1", "10.0.0.1"];
        let own = |text: &str| ("eth0".to_owned(), text.parse().expect("an address"));
        let first = |all: &[&str], family| {
            let own = all.iter().map(|text| own(text)).collect();
            ranked(own, family).first().map(|(_, ip)| ip.to_string())
        };
        assert_eq!(first(&all, None).as_deref(), Some("10.0.0.1"));
        assert_eq!(first(&all, Some(IpFamily::V6)).as_deref(), Some("fd00::1"));
        assert_eq!(first(&all[..2], None).as_deref(), Some("fd00::1"));
        assert_eq!(first(&all[..1], None).as_deref(), Some("fe80::1"));
        assert_eq!(first(&all[..2], Some(IpFamily::V4)), None);
        let is_meant = addresses_in("fe80::1%eth0").expect("an address of a link");
        assert!(is_meant(own("fe80::1").1) && !is_meant(own("fe80::2").1));
    }

    #[test]
    fn an_interface_is_found_by_each_of_its_names_and_by_its_address() {
        let card = LinkInfo {
            other_names: vec!["enp1s0".to_owned()],
            ..link(1, "eth0", 1)
        };
        let above = LinkInfo {
            kind: "vlan".to_owned(),
            ..link(2, "eth0.7", 1)
        };
        let all = [card, above, link(3, "eth1", 3)];
        let found = |word| {
            Interface::named(word, &all)
                .map(|found| found.name)
                .map_err(|error| error.to_string())
        };
        for word in [
            "eth0",
            "eth0@if3",
            "enp1s0",
            "02:00:00:00:00:01",
            "02-00-00-00-00-01",
            "01-02-00-00-00-00-01",
        ] {
            assert_eq!(found(word).as_deref(), Ok("eth0"), "{word}");
        }
        assert_eq!(found("eth0.7@eth0").as_deref(), Ok("eth0.7"));
        let unknown = found("ETH0").expect_err("names have case");
        assert!(
            unknown.contains("no interface ETH0") && unknown.contains("eth0"),
            "{unknown}"
        );
        assert!(
            found("02:00:00:00:00:09").is_err()
                && found("01-02-03").is_err()
                && found("10.255.0.1").is_err()
        );
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = ((value.len() + 4) as u16).to_ne_bytes();
        let mut bytes = [&length[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes();
        [&length[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
    }

    #[test]
    fn a_link_is_read_with_its_other_names_and_what_it_is_a_port_of() {
        let mut head = [0; LINK_BYTES];
        head[2..4].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
        head[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        head[8..12].copy_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
        let names = [
            attribute(OTHER_NAME, b"enp1s0\0"),
            attribute(OTHER_NAME, b"lan\0"),
        ]
        .concat();
        let info = [
            attribute(INFO_KIND, b"veth\0"),
            attribute(INFO_SLAVE_KIND, b"bridge\0"),
        ]
        .concat();
        let body = [
            head.to_vec(),
            attribute(libc::IFLA_IFNAME, b"eth0\0"),
            attribute(libc::IFLA_MTU, &1500_u32.to_ne_bytes()),
            attribute(libc::IFLA_MASTER, &3_u32.to_ne_bytes()),
            attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]),
            attribute(libc::IFLA_LINKINFO | 0x8000, &info),
            attribute(PROPERTIES | 0x8000, &names),
        ]
        .concat();
        let answer = [
            message(libc::RTM_NEWLINK, &body),
            message(libc::NLMSG_DONE as u16, &[0; 4]),
        ]
        .concat();
        let mut links = Vec::new();
        assert_eq!(read(&answer, &mut links), Ok(true));
        let eth0 = LinkInfo {
            index: 7,
            name: "eth0".to_owned(),
            other_names: vec!["enp1s0".to_owned(), "lan".to_owned()],
            hardware: libc::ARPHRD_ETHER,
            flags: libc::IFF_UP as u32,
            mac: MacAddr::new(2, 0, 0, 0, 0, 1),
            mtu_bytes: 1500,
            kind: "veth".to_owned(),
            master: Some(3),
            port_kind: "bridge".to_owned(),
        };
        assert_eq!(links, [eth0]);
        assert!(links[0].is_ethernet() && links[0].is_port() && links[0].has(libc::IFF_UP));
        for cut in 0..answer.len() {
            // A truncated answer is read as far as it goes.
            assert!(read(&answer[..cut], &mut Vec::new()).is_ok());
        }
        let stats: Vec<u8> = (1_u64..=24).flat_map(u64::to_ne_bytes).collect();
        let mac = MacAddr::new(2, 0, 0, 0, 0, 7);
        let counted = [
            head.to_vec(),
            attribute(libc::IFLA_ADDRESS, &mac.octets()),
            attribute(STATS64, &stats),
        ]
        .concat();
        let counted = message(libc::RTM_NEWLINK, &counted);
        assert_eq!(counted_bytes(&counted, mac), Some([3, 4]));
        assert_eq!(counted_bytes(&counted, MacAddr::BROADCAST), None);
        assert!((0..counted.len()).all(|cut| counted_bytes(&counted[..cut], mac).is_none()));
        let refused = message(libc::NLMSG_ERROR as u16, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(counted_bytes(&refused, mac), None);
        assert_eq!(read(&refused, &mut links), Err(nix::errno::Errno::EPERM));
    }
}
