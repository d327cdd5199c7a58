//! Senders on the own host: frames that an interface sends do not come back to it, so a receiver there
//! would wait for ever.

use crate::membership::Station;
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Interface;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Interval at which a waiting receiver looks for a sender on its own host.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The name of a group's sender behind an interface, which processes of this network namespace see;
/// by default none.
#[derive(Default)]
pub(super) struct OwnHost {
    name: Option<SocketAddr>,
    look_at: Option<Instant>,
}

/// A look for a sender, and the time of the next one.
#[derive(Default)]
pub(super) struct Look {
    pub has_sender: bool,
    pub again_at: Option<Instant>,
}

impl OwnHost {
    pub(super) fn of(interface: &Interface, station: &Station) -> OwnHost {
        let Station { group_mac, ether_type, .. } = station;
        let name = format!("ethbcast/sender/{}/{group_mac}/{ether_type:?}", interface.index);
        OwnHost { name: SocketAddr::from_abstract_name(name).ok(), look_at: None }
    }

    /// Shows that a sender is here, as long as the result lives. A failure shows nothing.
    pub(super) fn show_sender(&self) -> Option<UnixDatagram> {
        UnixDatagram::bind_addr(self.name.as_ref()?).ok()
    }

    /// Looks from time to time while a receiver waits.
    pub(super) fn look(&mut self, now: Instant, is_waiting: bool) -> Look {
        let Some(name) = self.name.as_ref().filter(|_| is_waiting) else { return Look::default() };
        if self.look_at.is_some_and(|at| at > now) {
            return Look { has_sender: false, again_at: self.look_at };
        }
        self.look_at = Some(now + LOOK_EVERY);
        let asked = UnixDatagram::unbound().and_then(|socket| socket.connect_addr(name));
        Look { has_sender: asked.is_ok(), again_at: self.look_at }
    }
}
