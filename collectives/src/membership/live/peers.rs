//! Addresses of hosts given by name, for networks without multicast.

use super::StationError;
use ethbcast_transport::MacAddr;
use ethbcast_transport::packet::address_of;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Returns the addresses of hosts, each given by its name, by an IPv4 address, or as `name@MAC`. The system
/// resolves names, once.
///
/// # Errors
/// [`StationError::NoPeers`] if there are no hosts, [`StationError::NoAddress`] for one without an address of IPv4,
/// [`StationError::OneAddress`] for two with the same.
pub fn addresses_of(hosts: &[String]) -> Result<Vec<Ipv4Addr>, StationError> {
    if hosts.is_empty() {
        return Err(StationError::NoPeers);
    }
    let addresses: Vec<Ipv4Addr> = hosts.iter().map(|host| address(host)).collect::<Result<_, _>>()?;
    let mut known = BTreeMap::new();
    for (&address, host) in addresses.iter().zip(hosts) {
        if let Some(other) = known.insert(address, host).filter(|other| *other != host) {
            return Err(StationError::OneAddress { hosts: [other, host].map(String::clone), address });
        }
    }
    Ok(addresses)
}

fn address(host: &str) -> Result<Ipv4Addr, StationError> {
    let (name, mac) = host.split_once('@').map_or((host, None), |(name, mac)| (name, Some(mac)));
    if let Some(address) = mac.and_then(|mac| address_of(mac.parse::<MacAddr>().ok()?)) {
        return Ok(*address.ip());
    }
    let refuse = |why: String| StationError::NoAddress { host: host.to_owned(), why };
    let resolved = (name, 0).to_socket_addrs().map_err(|error| refuse(error.to_string()))?;
    let of_ipv4 = |address: SocketAddr| match address {
        SocketAddr::V4(address) => Some(*address.ip()),
        SocketAddr::V6(_) => None,
    };
    resolved.filter_map(of_ipv4).next().ok_or_else(|| refuse("it has none of IPv4".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(hosts: &[&str]) -> Result<Vec<Ipv4Addr>, String> {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        addresses_of(&hosts).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_are_found_by_address_and_by_what_a_report_calls_them() {
        let found = resolved(&["10.1.0.2", "127.0.0.1", "no.such.name.invalid@02:00:0a:01:00:03"]);
        assert_eq!(found, Ok(vec![[10, 1, 0, 2].into(), Ipv4Addr::LOCALHOST, [10, 1, 0, 3].into()]));
    }

    #[test]
    fn a_host_without_an_address_is_named_with_what_to_do() {
        for (hosts, words) in [
            (&["10.1.0.2", "no.such.name.invalid"][..], ["no.such.name.invalid", "/etc/hosts"]),
            (&["::1"], ["::1", "none of IPv4"]),
            (&[], ["unicast", "hosts"]),
            (&["n0@02:00:0a:01:00:02", "10.1.0.2"], ["n0@02:00:0a:01:00:02 and 10.1.0.2 are one host", "once"]),
        ] {
            let text = resolved(hosts).expect_err("it has none");
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}
