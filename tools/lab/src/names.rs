//! How a lab's namespaces, interfaces and addresses are called. The names are the lab's only state: a running lab is
//! found again, and taken down, by them alone.
//!
//! A namespace is `ethbcast-<lab>-<host>`. A lab's name holds no `-`, so the first two name the lab and the rest the
//! host, whatever the host is called; the lab `a` never takes the namespaces of a lab `a-b` for its own.

/// The name of a lab that was given none.
pub const DEFAULT_LAB: &str = "lab";

/// The "host" that holds the bridges.
pub(crate) const SWITCHES: &str = "switches";

/// Every host's one interface.
pub(crate) const HOST_INTERFACE: &str = "eth0";

/// What every namespace of every lab begins with.
const PREFIX: &str = "ethbcast-";

/// The longest lab name: short enough to leave a host name room.
pub(crate) const LONGEST_LAB_BYTES: usize = 64;

/// The longest name `ip netns` takes: one less than a file name's limit.
const LONGEST_NAMESPACE_BYTES: usize = 254;

/// The namespace of `host` in `lab`.
pub(crate) fn namespace_of(lab: &str, host: &str) -> String {
    format!("{PREFIX}{lab}-{host}")
}

/// The lab and host a namespace's name stands for; `None` for a namespace that is no lab's.
pub(crate) fn split_namespace(namespace: &str) -> Option<(&str, &str)> {
    let (lab, host) = namespace.strip_prefix(PREFIX)?.split_once('-')?;
    (is_lab_name(lab) && !host.is_empty()).then_some((lab, host))
}

/// Whether a name can stand in a namespace's name, and leaves no doubt there.
pub(crate) fn is_lab_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
    (1..=LONGEST_LAB_BYTES).contains(&name.len()) && name.bytes().all(legal)
}

/// Whether a host can be a namespace of `lab`, and is not taken for its switches.
pub(crate) fn is_host_name(lab: &str, host: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    (1..=longest_host_bytes(lab)).contains(&host.len()) && host.bytes().all(legal) && host != SWITCHES
}

/// The longest name that a host of `lab` can have, in bytes.
pub(crate) fn longest_host_bytes(lab: &str) -> usize {
    LONGEST_NAMESPACE_BYTES - namespace_of(lab, "").len()
}

/// The bridge that is switch number `switch`. Names by number, because an interface's name holds 15 bytes only.
pub(crate) fn bridge(switch: usize) -> String {
    format!("s{switch}")
}

/// The switch port that the cable to host number `host` ends in.
pub(crate) fn host_port(host: usize) -> String {
    format!("p{host}")
}

/// The port on switch number `from` that the cable to switch number `to` ends in.
pub(crate) fn trunk_port(from: usize, to: usize) -> String {
    format!("t{from}-{to}")
}

/// What the third byte of a lab's MAC addresses says about their owner.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    /// A host's `eth0`.
    Host = 0,
    /// The switch port at the other end of a host's cable.
    HostPort = 1,
    /// The port of a cable between switches.
    TrunkPort = 2,
    /// The bridge itself.
    Bridge = 3,
}

/// A locally administered unicast address (`02:…`), the same in every run: owner kind, then its number.
pub(crate) fn mac_address(owner: Owner, number: usize) -> String {
    let [.., high, middle, low] = (number as u64).to_be_bytes();
    format!("02:eb:{:02x}:{high:02x}:{middle:02x}:{low:02x}", owner as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_names_its_lab_and_host_without_doubt() {
        assert_eq!(namespace_of("lab", "n0"), "ethbcast-lab-n0");
        assert_eq!(split_namespace("ethbcast-lab-n0"), Some(("lab", "n0")));
        assert_eq!(split_namespace("ethbcast-a-b-c"), Some(("a", "b-c")), "a dash in a host name stays there");
        for foreign in ["ethbcast", "ethbcast-", "ethbcast-lab", "ethbcast-lab-", "ethbcast--n0", "docker-lab-n0", "n0"]
        {
            assert_eq!(split_namespace(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn interface_names_fit_in_fifteen_bytes_even_in_the_largest_lab() {
        let last = crate::config::MOST_HOSTS - 1;
        for name in [bridge(last), host_port(last), trunk_port(last, last - 1)] {
            assert!(name.len() <= 15, "{name}");
        }
    }

    #[test]
    fn addresses_are_local_unicast_and_all_different() {
        assert_eq!(mac_address(Owner::Host, 5), "02:eb:00:00:00:05");
        assert_eq!(mac_address(Owner::TrunkPort, 0x01_02_03), "02:eb:02:01:02:03");
    }
}
