//! Detection of a sender and a receiver of a group on one host. An interface does not receive the
//! frames it sends, so that both would wait silently.
//!
//! Each of them binds a socket with an abstract name made of interface and group. Such names belong
//! to a network namespace, as interfaces do, and vanish with their process.

use ethbcast_collectives::session::live::Session;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Marker socket, by which the other side is noticed while it exists.
pub struct Present {
    _socket: Option<UnixDatagram>,
}

fn name(session: &Session, group: &str, side: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("ethbcast/{side}/{}/{group}", session.interface().name))
}

/// Binds the marker socket; a failure is ignored.
fn present(session: &Session, group: &str, side: &str) -> Present {
    let bound = name(session, group, side).and_then(|name| UnixDatagram::bind_addr(&name));
    if let Err(error) = &bound {
        log::debug!("the other side on this host will not know of this {side}: {error}");
    }
    Present { _socket: bound.ok() }
}

fn is_there(session: &Session, group: &str, side: &str) -> bool {
    UnixDatagram::unbound().and_then(|socket| socket.connect_addr(&name(session, group, side)?)).is_ok()
}

/// Marks a receiver, and reports a sender of the group on this host.
pub fn receive(session: &Session, group: &str, quiet: bool) -> Present {
    if !quiet && is_there(session, group, "sender") {
        crate::exit::print_line(format_args!(
            "ethbcast: a sender of group {group} runs on this host, too: frames do not come back to the interface that \
             sends them, and nothing of it will be heard here; copy SOURCE"
        ));
    }
    present(session, group, "receiver")
}

/// Marks a sender, and reports a receiver of the group on this host.
pub fn send(session: &Session, group: &str, quiet: bool) -> Present {
    if !quiet && is_there(session, group, "receiver") {
        crate::exit::print_line(format_args!(
            "ethbcast: a receiver of group {group} runs on this host, too: frames do not come back to the interface \
             that sends them, and it will hear nothing; here SOURCE is already"
        ));
    }
    present(session, group, "sender")
}
