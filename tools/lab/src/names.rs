//! Names of a test network's namespaces, interfaces and addresses. They are its only state: a
//! running one is found and removed by them.
//!
//! A namespace is `ethbcast-<lab>-<host>`. A lab's name contains no `-`, so the first two parts
//! name the lab and the rest the host. The lab `a` never takes the namespaces of a lab `a-b` for
//! its own.

pub const DEFAULT_LAB: &str = "lab";

pub(crate) const SWITCHES: &str = "switches";

pub(crate) const HOST_INTERFACE: &str = "eth0";

const PREFIX: &str = "ethbcast-";

/// Limit on a lab's name, which leaves room for host names.
pub(crate) const MAX_LAB_BYTES: usize = 64;

/// Limit of `ip netns`: one less than a file name's limit.
const MAX_NAMESPACE_BYTES: usize = 254;

pub(crate) fn namespace_of(lab: &str, host: &str) -> String {
    format!("{PREFIX}{lab}-{host}")
}

pub(crate) fn split_namespace(namespace: &str) -> Option<(&str, &str)> {
    let (lab, host) = namespace.strip_prefix(PREFIX)?.split_once('-')?;
    (is_lab_name(lab) && !host.is_empty()).then_some((lab, host))
}

pub(crate) fn is_lab_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
    (1..=MAX_LAB_BYTES).contains(&name.len()) && name.bytes().all(legal)
}

pub(crate) fn is_host_name(lab: &str, host: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    (1..=longest_host_bytes(lab)).contains(&host.len())
        && host.bytes().all(legal)
        && host != SWITCHES
}

pub(crate) fn longest_host_bytes(lab: &str) -> usize {
    MAX_NAMESPACE_BYTES - namespace_of(lab, "").len()
}

/// Returns the name of a switch's bridge. It contains the number, because an interface's name holds
/// only 15 bytes.
pub(crate) fn bridge(switch: usize) -> String {
    format!("s{switch}")
}

pub(crate) fn host_port(host: usize) -> String {
    format!("p{host}")
}

pub(crate) fn trunk_port(from: usize, to: usize) -> String {
    format!("t{from}-{to}")
}

#[derive(Clone, Copy)]
pub(crate) enum Owner {
    Host = 0,
    HostPort = 1,
    TrunkPort = 2,
    Bridge = 3,
}

/// Returns a locally administered unicast address (`02:…`) of owner kind and number, which is equal
/// in every run.
pub(crate) fn mac_address(owner: Owner, number: usize) -> String {
    let [.., high, middle, low] = (number as u64).to_be_bytes();
    format!(
        "02:eb:{:02x}:{high:02x}:{middle:02x}:{low:02x}",
        owner as u8
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_names_its_lab_and_host_without_doubt() {
        assert_eq!(namespace_of("lab", "n0"), "ethbcast-lab-n0");
        assert_eq!(split_namespace("ethbcast-lab-n0"), Some(("lab", "n0")));
        assert_eq!(
            split_namespace("ethbcast-a-b-c"),
            Some(("a", "b-c")),
            "a dash in a host name stays there"
        );
        for foreign in [
            "ethbcast",
            "ethbcast-",
            "ethbcast-lab",
            "ethbcast-lab-",
            "ethbcast--n0",
            "docker-lab-n0",
            "n0",
        ] {
            assert_eq!(split_namespace(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn interface_names_fit_in_fifteen_bytes_even_in_the_largest_lab() {
        let last = crate::config::MAX_HOSTS - 1;
        for name in [bridge(last), host_port(last), trunk_port(last, last - 1)] {
            assert!(name.len() <= 15, "{name}");
        }
    }

    #[test]
    fn addresses_are_local_unicast_and_all_different() {
        assert_eq!(mac_address(Owner::Host, 5), "02:eb:00:00:00:05");
        assert_eq!(
            mac_address(Owner::TrunkPort, 0x01_02_03),
            "02:eb:02:01:02:03"
        );
    }
}
