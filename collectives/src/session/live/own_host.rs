//! Senders on the own host: what one interface sends does not come back to it, so a receiver there
//! would wait for ever.

use crate::membership::Station;
use ethbcast_transport::packet::Interface;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Interval at which a waiting receiver looks for a sender on its own host.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The name of a group's sender behind an interface, which processes of this network namespace see;
/// by default none.
#[derive(Default)]
pub(super) struct OwnHost(Option<SocketAddr>);

impl OwnHost {
    pub(super) fn of(interface: &Interface, station: &Station) -> OwnHost {
        let Station { group_mac, ether_type, .. } = station;
        let name = format!("ethbcast/sender/{}/{group_mac}/{ether_type:?}", interface.index);
        OwnHost(SocketAddr::from_abstract_name(name).ok())
    }

    /// Shows that a sender is here, as long as the result lives. A failure shows nothing.
    pub(super) fn show_sender(&self) -> Option<UnixDatagram> {
        UnixDatagram::bind_addr(self.0.as_ref()?).ok()
    }

    pub(super) fn has_sender(&self) -> bool {
        let asks = |name: &SocketAddr| UnixDatagram::unbound().and_then(|socket| socket.connect_addr(name));
        self.0.as_ref().is_some_and(|name| asks(name).is_ok())
    }
}
