//! Whether somebody receives on the host that sends: frames that leave an interface do not come back to it, and both
//! would wait without a word.
//!
//! Each of the two holds a socket with an abstract name, of its interface and group. Such names belong to a network
//! namespace, as interfaces do, and are gone with their process.

use ethbcast_collectives::session::live::Session;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// While this is kept, the other side on this host knows that somebody of this side is here.
pub struct Present {
    _socket: Option<UnixDatagram>,
}

fn name(session: &Session, group: &str, side: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("ethbcast/{side}/{}/{group}", session.interface().name))
}

/// Lets it be known. That it cannot be is no reason not to go on.
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

/// Lets senders of the group on this host know of this receiver; says so if there is one.
pub fn receive(session: &Session, group: &str, quiet: bool) -> Present {
    if !quiet && is_there(session, group, "sender") {
        crate::exit::say(format_args!(
            "ethbcast: a sender of group {group} runs on this host, too: frames do not come back to the interface that \
             sends them, and nothing of it will be heard here; copy SOURCE"
        ));
    }
    present(session, group, "receiver")
}

/// Lets receivers of the group on this host know of this sender; says so if there is one.
pub fn send(session: &Session, group: &str, quiet: bool) -> Present {
    if !quiet && is_there(session, group, "receiver") {
        crate::exit::say(format_args!(
            "ethbcast: a receiver of group {group} runs on this host, too: frames do not come back to the interface \
             that sends them, and it will hear nothing; here SOURCE is already"
        ));
    }
    present(session, group, "sender")
}
