//! Errors of opening and using a packet socket.

use crate::MacAddr;
use nix::errno::Errno as SystemErrno;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;
use std::{fmt, io};

/// A kernel error, shown with its name and text: "EPERM: Operation not permitted".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Errno(SystemErrno);

impl Errno {
    pub(super) fn new(errno: SystemErrno) -> Errno {
        Errno(errno)
    }

    /// Returns the number, as in `errno(3)`.
    pub fn number(self) -> i32 {
        self.0 as i32
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.number())
    }
}

/// Name of an option, as in the advice of an error. [`spell_options`] sets how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionName(pub &'static str);

static SPELLING: OnceLock<fn(&str) -> String> = OnceLock::new();

/// Sets how this process writes the names of options in errors, such as `mtu`. Only the first call
/// counts.
pub fn spell_options(spelling: fn(&str) -> String) {
    SPELLING.get_or_init(|| spelling);
}

impl fmt::Display for OptionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SPELLING.get() {
            Some(spelling) => formatter.write_str(&spelling(self.0)),
            None => formatter.write_str(self.0),
        }
    }
}

/// Reason why a port could not be opened.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("raw Ethernet on {interface} is not permitted: {}", permission_help(nix::unistd::geteuid().is_root()))]
    Permission { interface: String },
    #[error(
        "no port on {interface} from {path}: {text}; see whether `ethbcast port --serve {path}` runs on this host"
    )]
    Served {
        interface: String,
        path: String,
        text: String,
    },
    #[error(
        "descriptor {number} is no packet socket for {interface} ({errno}): have root open one, \
         socket(AF_PACKET, SOCK_RAW, 0), and leave it open for this process"
    )]
    Inherited {
        number: i32,
        interface: String,
        errno: Errno,
    },
    #[error("interface {interface} has gone down: bring it up with `ip link set {interface} up`")]
    Down { interface: String },
    #[error(
        "no memory for a receive ring of {ring_bytes} bytes on {interface}: ask for a smaller one"
    )]
    Memory {
        interface: String,
        ring_bytes: usize,
    },
    #[error(
        "UDP port {} of {interface} is another process's: see `ss -lunp`, and take another with {over} udp:PORT, \
         or any that is free with {over} udp",
        .address.port(), over = OptionName("over")
    )]
    PortTaken {
        interface: String,
        address: SocketAddr,
    },
    #[error(
        "UDP port {} of {} is another process's (see `ss -lunp`; by unicast a host has one receiver): end it, or give \
         all hosts another EtherType with {}, which gives groups another port",
        .address.port(),
        .address.ip(),
        OptionName("ether-type")
    )]
    GroupPortTaken { address: SocketAddr },
    #[error(
        "cannot {step} over UDP on {interface} ({errno}): see `ip address show dev {interface}`"
    )]
    Datagrams {
        interface: String,
        step: &'static str,
        errno: Errno,
    },
    #[error(
        "cannot {step} on {interface} ({errno}): this needs Linux 4.20 or later with AF_PACKET sockets"
    )]
    System {
        interface: String,
        step: &'static str,
        errno: Errno,
    },
}

/// Reason why a loop ended before its application broke.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    #[error(
        "interface {interface} went down, and has not come back for {away:.1?}: bring it up with `ip link set \
         {interface} up` and start again"
    )]
    InterfaceDown { interface: String, away: Duration },
    /// The interface has another address than when the port was opened; other hosts still send to
    /// the old one.
    #[error("interface {interface} has changed its address from {was} to {is}: start again")]
    AddressChanged {
        interface: String,
        was: MacAddr,
        is: MacAddr,
    },
    /// The interface no longer receives frames as large as those that arrive.
    #[error(
        "the MTU of interface {interface} was lowered from {was} to {is} bytes, and larger frames come: start again"
    )]
    MtuLowered {
        interface: String,
        was: usize,
        is: usize,
    },
    /// The interface no longer sends frames of the size it took when the port was opened.
    #[error(
        "interface {interface} refuses a frame of {frame_bytes} bytes: its MTU was lowered; start again"
    )]
    FrameTooLong {
        interface: String,
        frame_bytes: usize,
    },
    /// The next hop of the interface (the other end of a veth, or a queueing discipline) takes no
    /// frames of full length.
    #[error(
        "interface {interface} has an MTU of {mtu_bytes}, but its other end (of a veth), or a token bucket, refuses \
         frames of that length: {}",
        first_hop_help(interface, *passes)
    )]
    FirstHop {
        interface: String,
        mtu_bytes: usize,
        /// The largest MTU that passes, in bytes; zero if none was found.
        passes: usize,
    },
    #[error(
        "interface {interface} has taken no frame to send for {lasts:.1?}: see the rules on the way out \
         (`nft list ruleset`) and its queue (`tc -s qdisc show dev {interface}`)"
    )]
    NothingLeaves { interface: String, lasts: Duration },
    #[error("no frame leaves over UDP on {interface} for {lasts:.1?} ({errno}): {}", refusal_help(interface, *errno))]
    Refused {
        interface: String,
        errno: Errno,
        lasts: Duration,
    },
    #[error("cannot {step} on {interface} ({errno}): check it with `ip -s link show {interface}`")]
    System {
        interface: String,
        step: &'static str,
        errno: Errno,
    },
}

impl OpenError {
    pub(super) fn new(interface: &str, step: &'static str, errno: SystemErrno) -> Self {
        let interface = interface.to_owned();
        match errno {
            SystemErrno::EPERM | SystemErrno::EACCES => OpenError::Permission { interface },
            errno if is_away(errno) => OpenError::Down { interface },
            errno => OpenError::System {
                interface,
                step,
                errno: Errno::new(errno),
            },
        }
    }
}

impl DriveError {
    pub(super) fn new(interface: &str, step: &'static str, errno: SystemErrno) -> Self {
        DriveError::System {
            interface: interface.to_owned(),
            step,
            errno: Errno::new(errno),
        }
    }
}

fn permission_help(is_root: bool) -> String {
    let over = OptionName("over");
    if is_root {
        format!(
            "this root lacks CAP_NET_RAW, as in a container (start it with `--cap-add NET_RAW`), or is none outside \
             its user namespace (start it without one, or as root of the namespace that has the interface); or give \
             all hosts {over} udp, which needs no right"
        )
    } else {
        format!(
            "run as root, grant CAP_NET_RAW with `setcap cap_net_raw+ep PROGRAM`, or give all hosts {over} udp, which \
             needs no right"
        )
    }
}

fn refusal_help(interface: &str, errno: Errno) -> String {
    match errno.0 {
        SystemErrno::EPERM | SystemErrno::EACCES => {
            "see the rules on the way out (`nft list ruleset`)".to_owned()
        }
        SystemErrno::ECONNREFUSED => {
            "the process there has ended, or a firewall answers for it".to_owned()
        }
        _ => format!(
            "see `ip address show dev {interface}`, `ip -4 route` and, for IPv6, `ip -6 route`"
        ),
    }
}

fn first_hop_help(interface: &str, passes: usize) -> String {
    match passes {
        0 => {
            format!("see the MTU of its other end (`ip link`), and `tc qdisc show dev {interface}`")
        }
        _ => format!(
            "`ip link set {interface} mtu {passes}`, the same on all hosts, or send with {} {passes}",
            OptionName("mtu")
        ),
    }
}

pub(super) fn is_away(errno: SystemErrno) -> bool {
    matches!(
        errno,
        SystemErrno::ENETDOWN | SystemErrno::ENODEV | SystemErrno::ENXIO
    )
}

#[cfg(test)]
mod tests {
    use super::{OpenError, SystemErrno, permission_help};

    #[test]
    fn a_missing_privilege_is_named() {
        let error = OpenError::new("eth0", "open a packet socket", SystemErrno::EPERM).to_string();
        assert!(
            error.starts_with("raw Ethernet on eth0 is not permitted: "),
            "{error}"
        );
        let user = permission_help(false);
        assert!(
            user.contains("run as root") && user.contains("setcap cap_net_raw+ep"),
            "{user}"
        );
        assert!(
            permission_help(true).contains("--cap-add NET_RAW")
                && !permission_help(true).contains("setcap")
        );
    }
}
