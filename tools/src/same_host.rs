//! Whether somebody receives on the host that sends: frames that leave an interface do not come back to it, and both
//! would wait without a word.
//!
//! A receiver holds a socket with an abstract name, of its interface and group. Such names belong to a network
//! namespace, as interfaces do, and are gone with their process.

use ethbcast_collectives::session::live::Session;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// While this is kept, senders of the group on this host know that somebody receives here.
pub struct Receiving {
    _socket: Option<UnixDatagram>,
}

fn name(session: &Session, group: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("ethbcast/receiver/{}/{group}", session.interface().name))
}

/// Lets it be known. That it cannot be is no reason not to receive.
pub fn receive(session: &Session, group: &str) -> Receiving {
    let bound = name(session, group).and_then(|name| UnixDatagram::bind_addr(&name));
    if let Err(error) = &bound {
        log::debug!("senders on this host will not know that it receives: {error}");
    }
    Receiving { _socket: bound.ok() }
}

/// What a sender says of a receiver of its group on this host, if there is one.
pub fn warning(session: &Session, group: &str) -> Option<String> {
    let is_there = UnixDatagram::unbound().and_then(|socket| socket.connect_addr(&name(session, group)?)).is_ok();
    is_there.then(|| {
        format!(
            "a receiver of group {group} runs on this host, too: frames do not come back to the interface that sends \
             them, and it will hear nothing; here SOURCE is already"
        )
    })
}
