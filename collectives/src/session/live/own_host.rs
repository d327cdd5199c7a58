//! Detection of a sender and a receiver on the same host, which would wait for each other forever.

use super::report::Error;
use crate::membership::Station;
use ethbcast_planning::HostNames;
use ethbcast_transport::Instant;
use ethbcast_transport::packet::{Interface, Over};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};
use nix::unistd::geteuid;
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Interval at which a waiting host looks for the other side on its own host.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Receivers that are looked at in one turn.
const MOST_AT_ONCE: usize = 128;

/// Local name by which a group's sender is found from its own host, for one interface; only
/// processes of this network namespace see it. Any user can take it, and connect: both ends believe
/// root and their own user alone.
#[derive(Default)]
pub(super) struct OwnHost {
    name: Option<String>,
    look_at: Option<Instant>,
}

/// Result of a search for the other side, and the time of the next one.
#[derive(Default)]
pub(super) struct Look {
    pub has_found: bool,
    pub again_at: Option<Instant>,
}

impl OwnHost {
    /// Creates the search for one interface. Frames over UDP reach the own host, so that there is
    /// nothing to look for.
    pub(super) fn of(interface: &Interface, station: &Station, over: Over) -> OwnHost {
        if over.is_udp() {
            return OwnHost::default();
        }
        let Station {
            group_mac,
            ether_type,
            ..
        } = station;
        let name = format!(
            "ethbcast/sender/{}/{group_mac}/{ether_type:?}",
            interface.index
        );
        OwnHost {
            name: Some(name),
            look_at: None,
        }
    }

    /// Looks for a sender at intervals while a receiver waits, and notifies it of this receiver.
    pub(super) fn look(&mut self, now: Instant, is_waiting: bool) -> Look {
        let looks = self.name.is_some() && is_waiting;
        self.look_with(now, looks, |own| {
            let Some(name) = &own.name else { return false };
            // A sender learns of this receiver by the connection.
            call(name)
                .and_then(|sender| is_trusted(&sender))
                .unwrap_or(false)
        })
    }

    fn look_with(
        &mut self,
        now: Instant,
        looks: bool,
        find: impl FnOnce(&OwnHost) -> bool,
    ) -> Look {
        if !looks {
            return Look::default();
        }
        if self.look_at.is_some_and(|at| at > now) {
            return Look {
                has_found: false,
                again_at: self.look_at,
            };
        }
        self.look_at = Some(now + LOOK_EVERY);
        Look {
            has_found: find(self),
            again_at: self.look_at,
        }
    }
}

/// Connects to a name. Fails at once if the process that has it accepts no connection.
fn call(name: &str) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(
        socket.as_raw_fd(),
        &UnixAddr::new_abstract(name.as_bytes())?,
    )?;
    Ok(socket.into())
}

/// Whether the process at the other end is root's or this user's.
fn is_trusted(other: &UnixStream) -> io::Result<bool> {
    let user = getsockopt(other, PeerCredentials)?.uid();
    Ok(user == 0 || user == geteuid().as_raw())
}

fn listen(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A sender that can be found from its own host; counts the receivers there that have found it.
pub(super) struct ShownSender {
    listener: Option<UnixListener>,
    receivers: usize,
    needed: usize,
    own_host: OwnHost,
    station: Station,
    interface: Interface,
}

impl ShownSender {
    /// Makes a sender that needs some receivers visible here until the result is dropped. A failure
    /// only leaves it invisible.
    pub(super) fn new(
        interface: &Interface,
        station: &Station,
        over: Over,
        needed: usize,
    ) -> ShownSender {
        let own_host = OwnHost::of(interface, station, over);
        let listener = own_host.name.as_ref().and_then(|name| listen(name).ok());
        let (station, interface) = (station.clone(), interface.clone());
        ShownSender {
            listener,
            receivers: 0,
            needed: needed.max(1),
            own_host,
            station,
            interface,
        }
    }

    pub(super) fn error(&self) -> Error {
        own_receivers(&self.station, &self.interface)
    }

    /// Looks at intervals while a sender waits for its first receiver. It ends the wait if as many
    /// receivers as it needs are on its own host.
    pub(super) fn look(&mut self, now: Instant, is_waiting: bool) -> Look {
        let ShownSender {
            listener: Some(listener),
            receivers,
            needed,
            own_host,
            ..
        } = self
        else {
            return Look::default();
        };
        own_host.look_with(now, is_waiting, |_| {
            // A local process that connects in a loop must not keep the session from its work.
            let come = std::iter::from_fn(|| listener.accept().ok()).take(MOST_AT_ONCE);
            *receivers += come
                .filter(|(receiver, _)| is_trusted(receiver).unwrap_or(false))
                .count();
            receivers >= needed
        })
    }
}

/// Fails with [`Error::OwnReceivers`] if a sender at `station` needs more of the hosts that it
/// names than are not its own.
pub(super) fn check_named(
    hosts: &[String],
    needed: usize,
    station: &Station,
    interface: &Interface,
) -> Result<(), Error> {
    let own = format!("{}@{}", station.host, station.mac);
    let is_own = |name: &&String| HostNames::new([name.as_str()]).find(&own).is_some();
    let others = hosts.iter().filter(|name| !is_own(name)).count();
    if others == hosts.len() || others >= needed {
        Ok(())
    } else {
        Err(own_receivers(station, interface))
    }
}

fn own_receivers(station: &Station, interface: &Interface) -> Error {
    Error::OwnReceivers {
        group: station.group.clone(),
        interface: interface.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::MacAddr;

    fn place(group: &str) -> (Interface, Station) {
        let mac = MacAddr::new(2, 0, 0, 0, 0, 1);
        let interface = Interface {
            name: "eth0".to_owned(),
            index: std::process::id(),
            mac,
            mtu_bytes: 1500,
        };
        (interface, Station::new(group, "n1", mac, 1500))
    }

    #[test]
    fn both_sides_of_one_host_find_each_other_and_a_sender_counts_its_own() {
        let (interface, station) = place("both sides of one host");
        let at = |millis| Instant::START + Duration::from_millis(millis);
        let receiver = |over| OwnHost::of(&interface, &station, over);
        let mut receivers = [receiver(Over::Ethernet), receiver(Over::Ethernet)];
        assert!(
            !receivers[0].look(at(0), true).has_found,
            "there is no sender"
        );
        let mut sender = ShownSender::new(&interface, &station, Over::Ethernet, 2);
        assert!(!sender.look(at(0), true).has_found);
        assert!(
            !receivers[0].look(at(499), true).has_found,
            "it is not time yet"
        );
        assert!(receivers[0].look(at(500), true).has_found);
        assert!(!sender.look(at(500), true).has_found, "one of two");
        assert!(
            !receivers[1].look(at(500), false).has_found
                && receivers[1].look(at(500), true).has_found
        );
        assert_eq!(sender.look(at(999), true).again_at, Some(at(1000)));
        assert!(sender.look(at(1000), true).has_found);
        assert!(
            !receiver(Over::Udp {
                port: None,
                unicast: false
            })
            .look(at(0), true)
            .has_found,
            "UDP reaches the own host"
        );
        assert!(
            !OwnHost::of(&interface, &place("another group").1, Over::Ethernet)
                .look(at(0), true)
                .has_found
        );
    }

    #[test]
    fn a_sender_that_names_its_own_host_is_refused_where_the_others_are_too_few() {
        let (interface, station) = place("named");
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let refuses = |hosts: &[&str], needed| {
            check_named(&names(hosts), needed, &station, &interface).is_err()
        };
        assert!(
            refuses(&["n1"], 1)
                && refuses(&["N1.cluster", "n2"], 2)
                && refuses(&["n1@02:00:00:00:00:01"], 1)
        );
        assert!(
            !refuses(&["n1", "n2"], 1)
                && !refuses(&["n2"], 1)
                && !refuses(&[], 7)
                && !refuses(&["n2"], 3)
        );
    }
}
