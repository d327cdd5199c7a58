//! How a lab's namespaces, interfaces and addresses are called. The names are the lab's only state: a running lab is
//! found again, and taken down, by them alone.
//!
//! A namespace is `ethbcast-<lab>-<host>`. A lab's name holds no `-`, so the first two name the lab and the rest the
//! host, whatever the host is called; the lab `a` never takes the namespaces of a lab `a-b` for its own.

use std::cmp::Ordering;

use crate::LabError;

/// The name of a lab that was given none.
pub const DEFAULT_LAB: &str = "lab";

/// The "host" that holds the bridges.
pub(crate) const SWITCHES: &str = "switches";

/// Every host's one interface.
pub(crate) const HOST_INTERFACE: &str = "eth0";

/// What every namespace of every lab begins with.
const PREFIX: &str = "ethbcast-";

/// The longest lab name: short enough to leave a host name room.
const LONGEST_LAB_BYTES: usize = 64;

/// The longest name `ip netns` takes: one less than a file name's limit.
const LONGEST_NAMESPACE_BYTES: usize = 254;

/// The namespace of `host` in `lab`.
pub(crate) fn namespace_of(lab: &str, host: &str) -> String {
    format!("{PREFIX}{lab}-{host}")
}

/// The lab and host a namespace's name stands for; `None` for a namespace that is no lab's.
pub(crate) fn split_namespace(namespace: &str) -> Option<(&str, &str)> {
    let (lab, host) = namespace.strip_prefix(PREFIX)?.split_once('-')?;
    (check_lab_name(lab).is_ok() && !host.is_empty()).then_some((lab, host))
}

/// Refuses a name that cannot stand in a namespace's name or that would make it ambiguous.
pub(crate) fn check_lab_name(name: &str) -> Result<(), LabError> {
    let fits = (1..=LONGEST_LAB_BYTES).contains(&name.len());
    if fits && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte)) {
        Ok(())
    } else {
        Err(LabError::BadLabName { name: name.to_owned(), longest: LONGEST_LAB_BYTES })
    }
}

/// Refuses a host that cannot be a namespace of `lab`, or that would be taken for its switches.
pub(crate) fn check_host_name(lab: &str, host: &str) -> Result<(), LabError> {
    let longest = LONGEST_NAMESPACE_BYTES - namespace_of(lab, "").len();
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    if (1..=longest).contains(&host.len()) && host.bytes().all(legal) && host != SWITCHES {
        Ok(())
    } else {
        Err(LabError::BadHostName { host: host.to_owned(), longest })
    }
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

/// Orders host names as people do: `n2` before `n10`.
///
/// Names are compared run by run, digits by value and the rest by byte; what only differs in leading zeros, by length.
pub(crate) fn natural_order(left: &str, right: &str) -> Ordering {
    let (mut left_rest, mut right_rest) = (left, right);
    loop {
        let order = match (next_run(&mut left_rest), next_run(&mut right_rest)) {
            (Some(left_run), Some(right_run)) if is_number(left_run) && is_number(right_run) => by_value(left_run, right_run),
            (None, None) => return left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
            // `None`, a name that has ended, comes before every run.
            (left_run, right_run) => left_run.cmp(&right_run),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Whether a run is one of digits: its first letter says so for all.
fn is_number(run: &str) -> bool {
    run.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Takes the longest run of only digits, or of no digits, off the front of `rest`; it is never empty.
fn next_run<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let first_is_digit = rest.chars().next()?.is_ascii_digit();
    let end = rest.find(|letter: char| letter.is_ascii_digit() != first_is_digit).unwrap_or(rest.len());
    let (run, after) = rest.split_at(end);
    *rest = after;
    Some(run)
}

/// Compares two runs of digits of any length by their value.
fn by_value(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_names_its_lab_and_host_without_doubt() {
        assert_eq!(namespace_of("lab", "n0"), "ethbcast-lab-n0");
        assert_eq!(split_namespace("ethbcast-lab-n0"), Some(("lab", "n0")));
        assert_eq!(split_namespace("ethbcast-a-b-c"), Some(("a", "b-c")), "a dash in a host name stays there");
        for foreign in ["ethbcast", "ethbcast-", "ethbcast-lab", "ethbcast-lab-", "ethbcast--n0", "docker-lab-n0", "n0"] {
            assert_eq!(split_namespace(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_name_that_would_break_out_of_a_batch_or_a_path_is_refused() {
        for name in ["", "a-b", "a/b", "a b", "a\nb", "ä", &"x".repeat(65)] {
            let error = check_lab_name(name).expect_err(name).to_string();
            assert!(error.contains("letters, digits"), "{error}");
        }
        check_lab_name("team_1.b").expect("a good name");
        for host in ["", "switches", "n 0", "n0\nlink del eth0", "../n0", "n$0", &"h".repeat(250)] {
            let error = check_host_name("lab", host).expect_err(host).to_string();
            assert!(error.contains("name it with"), "{error}");
        }
        check_host_name("lab", "rack-1.node_02").expect("a good name");
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

    #[test]
    fn hosts_are_listed_as_people_count() {
        let mut hosts = vec!["n10", "n2", "a", "n1", "n01", "n1b", "n1a2", "n001", "n1a10", "10", "9", "n"];
        hosts.sort_by(|left, right| natural_order(left, right));
        assert_eq!(hosts, ["9", "10", "a", "n", "n1", "n01", "n001", "n1a2", "n1a10", "n1b", "n2", "n10"]);
    }
}
