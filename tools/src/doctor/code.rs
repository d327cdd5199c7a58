//! The codes of findings, and what there is to say of each.

use crate::args::ExplainArgs;
use crate::exit::{Code as Exit, Failure, report};

/// What can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No permission for raw frames.
    Capability,
    /// No interface, or none that will do.
    Interface,
    /// It is switched off.
    Down,
    /// No cable, or nobody at its other end.
    Carrier,
    /// Frames are shorter than they could be.
    Mtu,
    /// Frames are slow, or collide.
    Speed,
    /// The interface is a part of another one.
    Member,
    /// A rule of the firewall drops the frames.
    Filter,
    /// The kernel has no receive ring.
    Kernel,
    /// DEST cannot be written to.
    Dest,
    /// DEST has too little room.
    Space,
}

impl Code {
    const ALL: [Code; 11] = [
        Code::Capability,
        Code::Interface,
        Code::Down,
        Code::Carrier,
        Code::Mtu,
        Code::Speed,
        Code::Member,
        Code::Filter,
        Code::Kernel,
        Code::Dest,
        Code::Space,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Code::Capability => "E-CAPABILITY",
            Code::Interface => "E-INTERFACE",
            Code::Down => "E-DOWN",
            Code::Carrier => "E-CARRIER",
            Code::Mtu => "E-MTU",
            Code::Speed => "E-SPEED",
            Code::Member => "E-MEMBER",
            Code::Filter => "E-FILTER",
            Code::Kernel => "E-KERNEL",
            Code::Dest => "E-DEST",
            Code::Space => "E-SPACE",
        }
    }

    /// Why it matters.
    pub fn why(self) -> &'static str {
        match self {
            Code::Capability => {
                "frames go past TCP/IP through a packet socket, which the kernel gives to root or to \
                 a program with CAP_NET_RAW only"
            }
            Code::Interface => "frames need an Ethernet interface, named if there are several",
            Code::Down => "an interface that is switched off sends and hears nothing",
            Code::Carrier => "without a link to a switch nothing that is sent arrives anywhere",
            Code::Mtu => {
                "every frame costs hosts the same work whatever it carries; and hosts whose MTU is below the \
                 sender's are refused"
            }
            Code::Speed => {
                "the slowest cable sets the pace for all, and half duplex loses frames whenever both ends \
                 send"
            }
            Code::Member => {
                "frames that a bridge, bond or team takes from its port are not seen there: the port hears \
                 nothing, or only some of them"
            }
            Code::Filter => "a rule that drops these frames makes a host deaf or mute, without a word to anybody",
            Code::Kernel => "frames are received through a ring that is shared with the kernel (AF_PACKET, Linux 4.20)",
            Code::Dest => "what is received is written beside DEST first, in the same directory",
            Code::Space => "a receiver without room for all of it is refused before the start, or fails in the middle",
        }
    }

    /// What is done about it in general; a finding has the command.
    fn help(self) -> &'static str {
        match self {
            Code::Capability => {
                "setcap cap_net_raw+ep $(command -v ethbcast); or run as root, or let `ethbcast port \
                 --serve` hand the socket over"
            }
            Code::Interface => "ip link shows those there are; choose with -i",
            Code::Down => "ip link set IFACE up",
            Code::Carrier => "see to cable, transceiver and switch port; ethtool IFACE says what is there",
            Code::Mtu => "ip link set IFACE mtu N, the same on all hosts, and at least as much on the switches",
            Code::Speed => "another cable or port; ethtool -s IFACE autoneg on",
            Code::Member => "use the bridge or bond itself with -i, or ip link set IFACE nomaster",
            Code::Filter => "nft delete rule FAMILY TABLE CHAIN handle N",
            Code::Kernel => "a newer kernel, with CONFIG_PACKET; modprobe af_packet",
            Code::Dest => "make the directory, or have another user own it",
            Code::Space => "free some room, or choose another DEST",
        }
    }
}

/// Runs `ethbcast explain`.
///
/// # Errors
/// A [`Failure`] with code 2 if there is no such code.
pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let names = || Code::ALL.map(Code::name);
    let Some(asked) = &args.code else {
        let lines = Code::ALL.map(|code| format!("{:<13} {}", code.name(), code.why()));
        return report(&lines.join("\n"));
    };
    let found = Code::ALL.into_iter().find(|code| code.name().eq_ignore_ascii_case(asked));
    let code = found.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("there is no code {asked:?}: it is one of {}", names().join(", ")))
    })?;
    report(&format!("{}\nwhy   {}\nhelp  {}", code.name(), code.why(), code.help()))
}
