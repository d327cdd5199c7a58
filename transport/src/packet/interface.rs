//! Selection of the network interface, in the calling thread's network namespace.
//!
//! A user may give any name of the interface: the one in `ip link`, an alternative name, its MAC
//! address, an IP address it has, or the value of a boot loader's `BOOTIF=`.

use super::error::Errno;
use super::links::{self, LinkInfo};
use crate::MacAddr;
use nix::ifaddrs::getifaddrs;
use std::net::IpAddr;

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

/// Reason why there is no interface to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// No interface has that name.
    #[error("there is no interface {name}{}", others(.known))]
    Unknown {
        /// The name given.
        name: String,
        /// Names of the Ethernet interfaces that exist.
        known: Vec<String>,
    },
    /// The interface exists but is switched off.
    #[error("interface {name} is down: bring it up with `ip link set {name} up`")]
    Down {
        /// The interface.
        name: String,
    },
    /// The interface does not carry Ethernet frames (or is the loopback interface).
    #[error("interface {name} is not an Ethernet interface: choose another with -i")]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// No name was given and no interface is usable.
    #[error("no Ethernet interface is up{}: bring one up with `ip link set NAME up`", among(.known))]
    NoneUsable {
        /// Names of the interfaces that exist.
        known: Vec<String>,
    },
    /// No name was given and several interfaces are usable.
    #[error("several Ethernet interfaces are up ({}): say which with -i", .usable.join(", "))]
    Ambiguous {
        /// The usable interfaces.
        usable: Vec<String>,
    },
    /// The kernel does not list interfaces.
    #[error(
        "cannot list the interfaces ({errno}): this process needs sockets of AF_NETLINK and AF_PACKET \
         (RestrictAddressFamilies= of a systemd unit, the seccomp profile of a container)"
    )]
    Unlisted {
        /// The kernel's reason.
        errno: Errno,
    },
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
        let all = links::all().map_err(|errno| InterfaceError::Unlisted { errno: Errno::new(errno) })?;
        match name {
            Some(name) => Self::named(name, &all),
            None => Self::only(&all),
        }
    }

    /// Returns the interface that this one is a port of, with the kind of port, such as `bridge`:
    /// that interface receives the frames that arrive here.
    pub fn port_of(&self) -> Option<(String, String)> {
        let all = links::all().ok()?;
        let own = all.iter().find(|link| link.index == self.index).filter(|link| link.is_port())?;
        let master = all.iter().find(|link| Some(link.index) == own.master)?;
        Some((master.name.clone(), own.port_kind.clone()))
    }

    fn named(name: &str, all: &[LinkInfo]) -> Result<Interface, InterfaceError> {
        let found = match &meant(name, all)[..] {
            [] => {
                let known = names(all.iter().filter(|link| link.is_ethernet()));
                return Err(InterfaceError::Unknown { name: name.to_owned(), known });
            }
            [found] => *found,
            several => return Err(InterfaceError::Ambiguous { usable: names(several.iter().copied()) }),
        };
        if !found.is_ethernet() {
            return Err(InterfaceError::NotEthernet { name: found.name.clone() });
        }
        if !found.has(libc::IFF_UP) {
            return Err(InterfaceError::Down { name: found.name.clone() });
        }
        Ok(Self::of(found))
    }

    fn only(all: &[LinkInfo]) -> Result<Interface, InterfaceError> {
        let mut usable: Vec<_> = all.iter().filter(|link| link.has(libc::IFF_UP) && link.is_ethernet()).collect();
        // None of these makes the choice ambiguous, as long as there is another: a port, whose
        // frames another interface receives; one without a link; a bridge that leads only to
        // containers.
        let worse: [fn(&LinkInfo) -> bool; 3] = [LinkInfo::is_port, |link| !link.has(libc::IFF_LOWER_UP), leads_inside];
        for is_worse in worse {
            if usable.len() > 1 && usable.iter().any(|link| !is_worse(link)) {
                usable.retain(|link| !is_worse(link));
            }
        }
        match usable[..] {
            [] => Err(InterfaceError::NoneUsable { known: names(all) }),
            [link] => Ok(Self::of(link)),
            _ => Err(InterfaceError::Ambiguous { usable: names(usable) }),
        }
    }

    fn of(link: &LinkInfo) -> Interface {
        Interface { name: link.name.clone(), index: link.index, mac: link.mac, mtu_bytes: link.mtu_bytes }
    }
}

fn leads_inside(link: &LinkInfo) -> bool {
    link.kind == "bridge" && INNER_BRIDGES.iter().any(|name| link.name.starts_with(name))
}

fn meant<'a>(word: &str, all: &'a [LinkInfo]) -> Vec<&'a LinkInfo> {
    let of = |is_meant: &dyn Fn(&LinkInfo) -> bool| all.iter().filter(|link| is_meant(link)).collect::<Vec<_>>();
    // `ip link` appends the underlying interface to the name.
    let name = word.split_once('@').map_or(word, |(name, _)| name);
    let named = of(&|link| link.name == name || link.other_names.iter().any(|other| other == name));
    if !named.is_empty() {
        return named;
    }
    if let Some(mac) = mac_in(word) {
        let mut found = of(&|link| link.mac == mac && link.is_ethernet());
        // Interfaces built on others share their address; the card is meant.
        for is_made in [LinkInfo::is_port as fn(&LinkInfo) -> bool, |link| link.kind == "vlan"] {
            if found.iter().any(|link| !is_made(link)) {
                found.retain(|link| !is_made(link));
            }
        }
        return found;
    }
    let Ok(wanted) = word.parse::<IpAddr>() else { return Vec::new() };
    let addresses = getifaddrs().into_iter().flatten();
    let having: Vec<String> = addresses
        .filter(|one| {
            let address = one.address.as_ref();
            let own4 = address.and_then(|address| address.as_sockaddr_in()).map(|own| IpAddr::V4(own.ip()));
            let own6 = address.and_then(|address| address.as_sockaddr_in6()).map(|own| IpAddr::V6(own.ip()));
            own4.or(own6) == Some(wanted)
        })
        .map(|one| one.interface_name)
        .collect();
    of(&|link| having.contains(&link.name))
}

/// Parses a MAC address: six bytes separated by colons or hyphens, or preceded by the hardware type
/// as in `BOOTIF=01-52-54-00-12-34-56`.
fn mac_in(word: &str) -> Option<MacAddr> {
    let bytes: Option<Vec<u8>> =
        word.split([':', '-']).map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2)).collect();
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

/// Returns what else `-i` may name.
fn others(names: &[String]) -> String {
    if names.is_empty() {
        ", nor any Ethernet interface".to_owned()
    } else {
        format!(": choose one of {} with -i", names.join(", "))
    }
}

fn among(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" among {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        Interface::only(all).map(|found| found.name).map_err(|error| error.to_string())
    }

    #[test]
    fn what_another_interface_takes_the_frames_of_is_no_candidate() {
        let bridge = LinkInfo { kind: "bridge".to_owned(), ..link(1, "br0", 1) };
        let port = |index, name| LinkInfo { master: Some(1), port_kind: "bridge".to_owned(), ..link(index, name, 2) };
        assert_eq!(chosen(&[bridge.clone(), port(2, "eth0"), port(3, "vnet0")]).as_deref(), Ok("br0"));
        let docker = LinkInfo { name: "docker0".to_owned(), ..bridge };
        let card = link(9, "eno1", 9);
        assert_eq!(chosen(&[docker.clone(), port(2, "veth12"), card.clone()]).as_deref(), Ok("eno1"));
        assert_eq!(chosen(&[docker]).as_deref(), Ok("docker0"), "there is no other");
        let unplugged = LinkInfo { flags: libc::IFF_UP as u32, ..link(3, "eno2", 3) };
        assert_eq!(chosen(&[card.clone(), unplugged]).as_deref(), Ok("eno1"));
        let several = chosen(&[card, link(4, "eno3", 4)]).expect_err("which?");
        assert!(several.contains("eno1, eno3") && several.contains("-i"), "{several}");
    }

    #[test]
    fn an_interface_is_found_by_each_of_its_names_and_by_its_address() {
        let card = LinkInfo { other_names: vec!["enp1s0".to_owned()], ..link(1, "eth0", 1) };
        let above = LinkInfo { kind: "vlan".to_owned(), ..link(2, "eth0.7", 1) };
        let all = [card, above, link(3, "eth1", 3)];
        let found = |word| Interface::named(word, &all).map(|found| found.name).map_err(|error| error.to_string());
        for word in ["eth0", "eth0@if3", "enp1s0", "02:00:00:00:00:01", "02-00-00-00-00-01", "01-02-00-00-00-00-01"] {
            assert_eq!(found(word).as_deref(), Ok("eth0"), "{word}");
        }
        assert_eq!(found("eth0.7@eth0").as_deref(), Ok("eth0.7"));
        let unknown = found("ETH0").expect_err("names have case");
        assert!(unknown.contains("no interface ETH0") && unknown.contains("eth0"), "{unknown}");
        assert!(found("02:00:00:00:00:09").is_err() && found("01-02-03").is_err() && found("10.255.0.1").is_err());
    }
}
