//! Faults that `ethbcast doctor` and other commands report, each with its code.

use clap::ValueEnum;
use ethbcast_collectives::communicator::{CommunicatorError, Error as CallError};
use ethbcast_collectives::membership::KeyDifference;
use ethbcast_collectives::membership::live::StationError;
use ethbcast_collectives::session::{Error, Outcome, Refusal, RootFailure};
use ethbcast_transport::packet::{DriveError, InterfaceError, NodeError, OpenError};

/// A fault: its code, and a short description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Fault {
    /// this process may not send raw frames
    #[value(name = "E-CAPABILITY")]
    Capability,
    /// there is no such interface, it does not carry Ethernet, or it has to be chosen
    #[value(name = "E-INTERFACE")]
    Interface,
    /// the interface is switched off
    #[value(name = "E-DOWN")]
    Down,
    /// the interface has no link
    #[value(name = "E-CARRIER")]
    Carrier,
    /// the MTU is too small, or not the same everywhere
    #[value(name = "E-MTU")]
    Mtu,
    /// the link is slow
    #[value(name = "E-SPEED")]
    Speed,
    /// the link is at half duplex
    #[value(name = "E-DUPLEX")]
    Duplex,
    /// the interface is Wi-Fi
    #[value(name = "E-WIFI")]
    Wifi,
    /// the interface is a part of a bridge, bond or team
    #[value(name = "E-MEMBER")]
    Member,
    /// a rule of the firewall drops frames
    #[value(name = "E-FILTER")]
    Filter,
    /// the card has few slots for frames that come
    #[value(name = "E-RING")]
    Ring,
    /// the card keeps frames from this program
    #[value(name = "E-STEERING")]
    Steering,
    /// the card says late that frames have come
    #[value(name = "E-INTERRUPTS")]
    Interrupts,
    /// the card hands over what it should not
    #[value(name = "E-OFFLOAD")]
    Offload,
    /// the interface takes every frame that passes
    #[value(name = "E-PROMISC")]
    Promiscuous,
    /// a queueing discipline holds frames back, or loses them
    #[value(name = "E-SHAPER")]
    Shaper,
    /// the kernel lacks something
    #[value(name = "E-KERNEL")]
    Kernel,
    /// there is no memory for the receive ring
    #[value(name = "E-MEMORY")]
    Memory,
    /// a limit of the process or the system is too low
    #[value(name = "E-LIMIT")]
    Limit,
    /// the process that hands over packet sockets does not
    #[value(name = "E-PORT")]
    Port,
    /// another process has the port of UDP
    #[value(name = "E-TAKEN")]
    Taken,
    /// DEST cannot be written
    #[value(name = "E-DEST")]
    Dest,
    /// DEST has too little room
    #[value(name = "E-SPACE")]
    Space,
    /// DEST's disk is slower than any network
    #[value(name = "E-DISK")]
    Disk,
    /// the clock is wrong by years
    #[value(name = "E-CLOCK")]
    Clock,
    /// the network of this cloud carries IP alone
    #[value(name = "E-CLOUD")]
    Cloud,
    /// nobody is heard, or not everybody
    #[value(name = "E-NOBODY")]
    Nobody,
    /// long frames are lost on the way, short ones are not
    #[value(name = "E-PATH")]
    Path,
    /// frames are lost on the way
    #[value(name = "E-LOSS")]
    Loss,
    /// frames to all are held back on the way, frames to one are not
    #[value(name = "E-STORM")]
    Storm,
    /// frames to a group are dropped on the way, frames to all hosts are not
    #[value(name = "E-MULTICAST")]
    Multicast,
    /// another sender has the group
    #[value(name = "E-GROUP")]
    Group,
    /// the session has started, or is full
    #[value(name = "E-LATE")]
    Late,
    /// another receiver has this host's name or interface
    #[value(name = "E-TWIN")]
    Twin,
    /// the topology does not name this host
    #[value(name = "E-TOPOLOGY")]
    Topology,
    /// the sender has asked for other hosts
    #[value(name = "E-UNWANTED")]
    Unwanted,
    /// the sender is not heard any more
    #[value(name = "E-SILENT")]
    Silent,
    /// the bytes are not the sender's
    #[value(name = "E-DAMAGED")]
    Damaged,
    /// one host has a key, the other has none
    #[value(name = "E-NOKEY")]
    NoKey,
    /// two hosts have different keys
    #[value(name = "E-KEY")]
    Key,
    /// somebody with the cluster's key sends, and may not
    #[value(name = "E-SENDER")]
    Sender,
    /// the key of this host gives no right to send
    #[value(name = "E-NOSEND")]
    NoSend,
    /// this host has a key, and the command speaks without one
    #[value(name = "E-UNKEYED")]
    Unkeyed,
    /// others can read the key file, or this user cannot
    #[value(name = "E-KEYMODE")]
    KeyMode,
    /// the key phrase has a mistake in it
    #[value(name = "E-PHRASE")]
    Phrase,
}

impl Fault {
    pub fn code(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }

    pub fn description(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_help().map(ToString::to_string).unwrap_or_default()
    }

    pub fn why(self) -> &'static str {
        self.explained().0
    }

    pub fn help(self) -> &'static str {
        self.explained().1
    }

    fn explained(self) -> (&'static str, &'static str) {
        let found = EXPLAINED.iter().find(|(fault, ..)| *fault == self);
        found.map(|(_, why, help)| (*why, *help)).expect("a test looks for every fault")
    }
}

const EXPLAINED: [(Fault, &str, &str); 45] = [
    (
        Fault::Capability,
        "frames go past TCP/IP through a packet socket, which the kernel gives to root and to programs with \
         CAP_NET_RAW",
        "setcap cap_net_raw+ep \"$(command -v ethbcast)\"; or run it as root; or let `ethbcast port --serve` of \
         another user hand the socket over",
    ),
    (
        Fault::Interface,
        "frames leave by one Ethernet interface, which has to be named if there are several",
        "`ip link` shows those there are; choose with -i",
    ),
    (Fault::Down, "an interface that is switched off sends and hears nothing", "ip link set IFACE up"),
    (
        Fault::Carrier,
        "without a link to a switch nothing that is sent arrives anywhere",
        "see to cable, transceiver and switch port; `ip link show IFACE` says NO-CARRIER as long as there is no link",
    ),
    (
        Fault::Mtu,
        "a receiver whose MTU is below the sender's is turned away, and small frames take hosts more work for the same \
         bytes",
        "ip link set IFACE mtu N, the same on all hosts, and no more than the switches carry; or `ethbcast send --mtu \
         N`",
    ),
    (
        Fault::Speed,
        "the slowest cable sets the pace of all who wait for the same bytes",
        "ethtool IFACE says what both ends can; another cable or port; ethtool -s IFACE autoneg on",
    ),
    (
        Fault::Duplex,
        "at half duplex frames collide whenever both ends send, and acknowledgements meet data all the time",
        "let both ends negotiate, or set both: ethtool -s IFACE duplex full autoneg on, and the switch's port likewise",
    ),
    (
        Fault::Member,
        "what a bridge, bond or team takes from its port is not seen there: the port hears nothing, or only some \
         frames",
        "use the bridge or bond itself with -i; or take the interface out of it: ip link set IFACE nomaster",
    ),
    (
        Fault::Filter,
        "a rule that drops these frames makes a host deaf or mute, without any message",
        "let the frames pass before the rule: nft insert rule FAMILY TABLE CHAIN ether type 0x88b5 accept",
    ),
    (
        Fault::Ring,
        "what comes while a processor is busy elsewhere waits in the card's ring, and is lost if that is full",
        "ethtool -g IFACE says what the card can; ethtool -G IFACE rx N (the link goes away for a moment)",
    ),
    (
        Fault::Steering,
        "a rule of the card drops frames before the kernel sees them, and no counter of the firewall tells",
        "ethtool -n IFACE lists the rules; ethtool -N IFACE delete NUMBER",
    ),
    (
        Fault::Interrupts,
        "a relay forwards a frame after the card's interrupt: the card's delay is added at every hop, and to \
         every acknowledgement",
        "ethtool -c IFACE says how long it waits; ethtool -C IFACE adaptive-rx on, or rx-usecs 50",
    ),
    (
        Fault::Offload,
        "frames that came wrong, or that nobody else sent, cost time and are thrown away by their check sums; what \
         cards do with TCP and UDP does not touch these frames",
        "ethtool -k IFACE says what is on; ethtool -K IFACE FEATURE off",
    ),
    (
        Fault::Wifi,
        "Wi-Fi sends frames to all at its lowest rate and acknowledges none of them, so that many are lost, and every \
         frame between two stations takes its air twice",
        "use a cable; or send by --via chain, whose frames are to one host each; --rate keeps air for others",
    ),
    (
        Fault::Promiscuous,
        "whatever floods the network costs this host time for each frame, also those for others",
        "end tcpdump and the like on it; ip link set IFACE promisc off",
    ),
    (
        Fault::Shaper,
        "what a host sends waits in a queue on its own way out, and all others wait for it",
        "tc qdisc show dev IFACE; tc qdisc del dev IFACE root brings the usual one back",
    ),
    (
        Fault::Kernel,
        "frames are received through a ring that is shared with the kernel (AF_PACKET, Linux 4.20)",
        "a newer kernel, with CONFIG_PACKET; modprobe af_packet if it is a module; getrandom(2) must be allowed",
    ),
    (
        Fault::Memory,
        "the ring has to hold all that can come before it is read; it is memory of the kernel, and counts for a \
         container's limit",
        "end other programs, or give the container or unit more memory (MemoryMax=)",
    ),
    (
        Fault::Limit,
        "a limit that is met in the middle of a transfer ends it there",
        "`ulimit -a` shows the limits of a shell; a systemd unit has LimitFSIZE=, LimitNOFILE= and TasksMax=",
    ),
    (
        Fault::Port,
        "with $ETHBCAST_PORT a process without permission gets its socket from another, which has to be running",
        "start `ethbcast port --serve $ETHBCAST_PORT` as root on this host, or unset ETHBCAST_PORT",
    ),
    (
        Fault::Taken,
        "a port of UDP is one process's; that of groups is shared over udp, but over unicast a host has one receiver",
        "`ss -lunp` names the process: end it, or leave out :PORT of --over, or give all hosts another --ether-type",
    ),
    (
        Fault::Dest,
        "what is received is written beside DEST first, so its directory has to be there and open to this user",
        "mkdir -p the directory, let this user write there, or choose another DEST; --force replaces what is there",
    ),
    (
        Fault::Space,
        "a receiver without room for all of it is turned away before the start, or fails in the middle",
        "df DIR and df -i DIR say what is left; make room, or choose another DEST",
    ),
    (
        Fault::Disk,
        "a receiver that takes bytes more slowly than they come holds up all others, until it is served beside them",
        "choose a DEST on a faster disk; see who else writes there (iostat -x 1) and whether it fails (dmesg)",
    ),
    (
        Fault::Clock,
        "files get the sender's times, reports say when they were made, and what has changed since is told by times",
        "timedatectl set-ntp true, or date -s; a flat battery of the mainboard comes back with each start",
    ),
    (
        Fault::Cloud,
        "the virtual networks of clouds are of layer 3: they carry no other EtherType and nothing to a group",
        "send among machines of your own, or by an overlay of layer 2 (VXLAN, GRETAP) between those of the cloud",
    ),
    (
        Fault::Nobody,
        "frames reach only who listens: the same group, the same EtherType, the same VLAN and a network that carries \
         frames (a cloud's mostly does not)",
        "is `ethbcast recv` (or `ethbcast probe --answer`) running there with the same -g? `ethbcast doctor` there; \
         is the switch's port in the same VLAN, and not isolated? `ethbcast dump -i IFACE` shows what comes",
    ),
    (
        Fault::Path,
        "frames longer than a switch or host on the way carries vanish there without a message",
        "raise the MTU on the way, or send shorter frames: `ethbcast send --mtu N`, or ip link set IFACE mtu N",
    ),
    (
        Fault::Loss,
        "what is lost is sent again, and everybody behind it waits meanwhile",
        "`ip -s link show IFACE` at both ends and the switch's counters say where; look at cable, transceiver and \
         duplex",
    ),
    (
        Fault::Storm,
        "a switch that polices frames to all (storm control) throws most of a cast away, and some shut the port",
        "send by --via chain, which needs none; or raise the limit: storm-control multicast level on the switch's \
         ports, or a rule for EtherType 0x88b5",
    ),
    (
        Fault::Multicast,
        "a switch that filters groups passes only those that hosts have asked for by IGMP or MLD, which these frames \
         know nothing of: hosts behind it are found by frames to all hosts, later, and get their bytes by unicast",
        "send by --via chain; or have the switch flood unknown groups: multicast flooding of the port on, a filter of \
         unregistered groups off",
    ),
    (
        Fault::Group,
        "a group has one sender at a time, so that receivers know whose bytes they get",
        "wait until it has ended, or choose another group with -g on all hosts",
    ),
    (
        Fault::Late,
        "who comes when the bytes already flow has missed the first of them",
        "wait for the next session, or let the sender take latecomers: `ethbcast send --late`",
    ),
    (
        Fault::Twin,
        "reports and plans know hosts by name and address: two with the same cannot be told apart",
        "end the other receiver; give each host a name with --host; give cloned machines addresses of their own: ip \
         link set IFACE address 02:…",
    ),
    (
        Fault::Topology,
        "a plan over switches needs the place of every host",
        "add the host to the topology file, or call it what the file calls it with --host",
    ),
    (
        Fault::Unwanted,
        "with --hosts a sender takes these hosts and no others",
        "add this host to --hosts, call it with --host what the sender expects, or choose another group with -g",
    ),
    (
        Fault::Silent,
        "without the sender nobody can say that the bytes are whole, so nothing is put in place",
        "start the sender and this receiver again: what came is kept beside DEST and taken up",
    ),
    (
        Fault::Damaged,
        "bytes whose digest is not the sender's are never shown under DEST's name",
        "send again; if it comes back, look for bad memory or a bad disk on the host that is named",
    ),
    (
        Fault::NoKey,
        "a host with a key believes no frame without a tag, and one without a key reads none with one: there is no \
         session between them",
        "copy the key file to the host without it, as /etc/ethbcast/key or by --key FILE; `ethbcast key receivers \
         FILE` makes that of receivers",
    ),
    (
        Fault::Key,
        "a frame is believed only if whoever sent it has this host's key",
        "`ethbcast key show FILE` on both hosts says which key each has; copy one file to both",
    ),
    (
        Fault::Sender,
        "all hosts of a cluster share its key, and only those in `sender` lines may send",
        "send from a host whose key file has a `sign` line; or add the `sender` line of the new one to all files",
    ),
    (
        Fault::NoSend,
        "a receiver's key has no `sign` line, so that whoever takes a receiver over cannot send",
        "send from a host that has the file of `ethbcast key new`",
    ),
    (
        Fault::Unkeyed,
        "frames of measurements have no tag yet, so that any host can read and forge them",
        "say --no-key if that is meant; it only concerns this run",
    ),
    (
        Fault::KeyMode,
        "whoever reads the key file can join, and send if it has a `sign` line",
        "chown it to root or the user that runs ethbcast, and chmod 600 FILE",
    ),
    (
        Fault::Phrase,
        "the last letters of a phrase check the others, so that no mistyped phrase is taken for another key",
        "type the phrase as `ethbcast key new --phrase` printed it: nine words of five letters",
    ),
];

/// Returns the fault of a session error, if it has a code; mistakes on the command line have none.
pub fn of_session(error: &Error) -> Option<Fault> {
    Some(match error {
        Error::Station(error) => return of_station(error),
        Error::Drive(error) => of_drive(error),
        Error::Resources(_) => Fault::Limit,
        Error::Random(_) => Fault::Kernel,
        Error::NotInTopology { .. } => Fault::Topology,
        Error::NotStarted(RootFailure::TooFew { missing, refused, .. }) => {
            // Refused receivers were present.
            let why = only(refused.iter().map(|away| Some(of_refusal(away.why))));
            why.filter(|_| missing.is_empty()).unwrap_or(Fault::Nobody)
        }
        Error::NobodyThere => Fault::Nobody,
        Error::Undelivered(report) => return only(report.failed().map(|member| of_outcome(member.outcome))),
        Error::NotStarted(RootFailure::GroupTaken { .. }) => Fault::Group,
        Error::Refused { why, .. } => of_refusal(*why),
        Error::SenderSilent | Error::Unconfirmed => Fault::Silent,
        Error::Damaged(_) => Fault::Damaged,
        Error::MayNotSend => Fault::NoSend,
        Error::Write { outcome, .. } => return of_outcome(*outcome),
        _ => return None,
    })
}

pub fn of_keys(difference: KeyDifference) -> Fault {
    match difference {
        KeyDifference::OnlyTheirs(_) | KeyDifference::OnlyOwn(_) => Fault::NoKey,
        KeyDifference::Both { .. } => Fault::Key,
        KeyDifference::NoSender => Fault::Sender,
    }
}

pub fn of_call(error: &CallError) -> Option<Fault> {
    Some(match error {
        CallError::Station(error) => return of_station(error),
        CallError::Node(NodeError::Open(error)) => of_open(error),
        CallError::Drive(error) => of_drive(error),
        CallError::Unkeyed(_) => Fault::Unkeyed,
        CallError::Thread(_) => Fault::Limit,
        CallError::Random(_) => Fault::Kernel,
        CallError::OtherGroups { .. } | CallError::Call(CommunicatorError::Missing { .. }) => Fault::Nobody,
        CallError::Call(CommunicatorError::Mtu { .. }) => Fault::Mtu,
        CallError::Call(CommunicatorError::OtherBuild(other)) => of_keys(other.keys?),
        _ => return None,
    })
}

pub fn of_station(error: &StationError) -> Option<Fault> {
    Some(match error {
        StationError::LargeMtu { .. } | StationError::SmallMtu { .. } => Fault::Mtu,
        StationError::Interface(error) => of_interface(error),
        StationError::Open(error) => of_open(error),
        _ => return None,
    })
}

pub fn of_interface(error: &InterfaceError) -> Fault {
    if matches!(error, InterfaceError::Down { .. }) { Fault::Down } else { Fault::Interface }
}

pub fn of_open(error: &OpenError) -> Fault {
    match error {
        OpenError::Permission { .. } => Fault::Capability,
        OpenError::PortTaken { .. } | OpenError::GroupPortTaken { .. } => Fault::Taken,
        OpenError::Served { .. } | OpenError::Inherited { .. } => Fault::Port,
        OpenError::Down { .. } => Fault::Down,
        OpenError::Memory { .. } => Fault::Memory,
        _ => Fault::Kernel,
    }
}

fn of_drive(error: &DriveError) -> Fault {
    match error {
        DriveError::InterfaceDown { .. } => Fault::Down,
        DriveError::NothingLeaves { .. } => Fault::Filter,
        DriveError::FirstHop { .. } => Fault::Path,
        DriveError::MtuLowered { .. } | DriveError::FrameTooLong { .. } => Fault::Mtu,
        _ => Fault::Interface,
    }
}

/// Returns the common fault of all, if they are equal.
fn only(mut faults: impl Iterator<Item = Option<Fault>>) -> Option<Fault> {
    let first = faults.next()?;
    faults.all(|other| other == first).then_some(first)?
}

pub fn of_outcome(outcome: Outcome) -> Option<Fault> {
    Some(match outcome {
        Outcome::NoSpace => Fault::Space,
        Outcome::WriteFailed => Fault::Dest,
        Outcome::Damaged => Fault::Damaged,
        _ => return None,
    })
}

fn of_refusal(why: Refusal) -> Fault {
    match why {
        Refusal::SmallMtu => Fault::Mtu,
        Refusal::NoSpace => Fault::Space,
        Refusal::Late => Fault::Late,
        Refusal::Twin => Fault::Twin,
        Refusal::NotInTopology => Fault::Topology,
        Refusal::Path => Fault::Path,
        Refusal::NotWanted => Fault::Unwanted,
        Refusal::Declined => Fault::Dest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_fault_is_explained_once_and_every_explanation_is_of_one() {
        let explained: HashSet<_> = EXPLAINED.iter().map(|(fault, ..)| *fault).collect();
        assert_eq!(explained.len(), EXPLAINED.len(), "twice");
        for fault in Fault::value_variants() {
            assert!(explained.contains(fault), "{}", fault.code());
            assert!(fault.code().starts_with("E-") && !fault.description().is_empty());
        }
    }
}
