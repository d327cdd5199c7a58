//! Common parts of transfers and communicators on a real host: its name and the packet socket. Like
//! every `live` folder this one uses sockets and the system; the rest of `membership` does not.

mod key;
mod open;

pub use key::{
    KeyError, KeyFault, UnusedKey, check_unkeyed, key_of_file, key_of_host, key_of_phrase,
    key_of_system,
};
pub use open::{Forked, Opener};
pub use open::{HostAddresses, addresses_of};
pub use open::{Opening, RingRoom, StationError, check_group};

/// Properties of this host: its name, and the processors that this process may use.
pub mod host {
    use ethbcast_transport::MacAddr;
    use nix::ifaddrs::{InterfaceAddress, getifaddrs};
    use nix::net::if_::InterfaceFlags;
    use nix::sys::stat::stat;

    /// Whether the computer's name was chosen by someone: every form of `localhost` is a default.
    fn is_given(name: &str) -> bool {
        let label = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
        !["", "(none)", "localhost", "localhost4", "localhost6"].contains(&label.as_str())
    }

    /// Returns `given`, or `$ETHBCAST_HOST`, or the name of this process's network namespace (so
    /// that hosts on one machine differ), or the hostname. If no name was chosen, returns the
    /// address of an interface: network-booted hosts differ in nothing else.
    pub fn name(given: Option<&str>) -> String {
        given
            .map(str::to_owned)
            .or_else(|| std::env::var("ETHBCAST_HOST").ok())
            .or_else(namespace)
            .or_else(hostname)
            .or_else(address)
            .unwrap_or_else(|| "localhost".to_owned())
    }

    /// Returns the computer's own name, whatever `$ETHBCAST_HOST` says: launchers pass that of one
    /// host to all.
    pub fn own_name() -> String {
        hostname().unwrap_or_else(|| name(None))
    }

    /// Returns the number of processors that this process may use.
    pub fn cores() -> u32 {
        std::thread::available_parallelism()
            .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
    }

    /// Returns an identifier of the computer across namespaces: the kernel's boot id; 0 if unknown.
    pub fn computer() -> u64 {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = text
            .chars()
            .filter(char::is_ascii_hexdigit)
            .take(16)
            .collect();
        u64::from_str_radix(&digits, 16).unwrap_or(0)
    }

    fn hostname() -> Option<String> {
        nix::unistd::gethostname()
            .ok()?
            .into_string()
            .ok()
            .filter(|name| is_given(name))
    }

    fn address() -> Option<String> {
        let is_card =
            |interface: &InterfaceAddress| !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        let octets = |interface: InterfaceAddress| interface.address?.as_link_addr()?.addr();
        let mut cards = getifaddrs().ok()?.filter(is_card).filter_map(octets);
        let [a, b, c, d, e, f] = cards.find(|octets| *octets != [0; 6])?;
        Some(MacAddr::new(a, b, c, d, e, f).to_string())
    }

    fn namespace() -> Option<String> {
        let own = stat("/proc/self/ns/net").ok()?;
        if stat("/proc/1/ns/net").is_ok_and(|init| init.st_ino == own.st_ino) {
            return None;
        }
        let entries = std::fs::read_dir("/run/netns").ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.into_iter().find(|name| {
            stat(format!("/run/netns/{name}").as_str())
                .is_ok_and(|at| at.st_ino == own.st_ino && at.st_dev == own.st_dev)
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn localhost_in_any_form_is_no_name() {
            for name in [
                "",
                "(none)",
                "localhost",
                "LOCALHOST",
                "localhost.localdomain",
                "localhost6.localdomain6",
            ] {
                assert!(!is_given(name), "{name}");
            }
            assert!(
                ["n1", "localhost1", "n1.localdomain"]
                    .into_iter()
                    .all(is_given)
            );
        }
    }
}
