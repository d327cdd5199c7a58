//! Faults that `ethbcast doctor` and other commands report, each with its code.

use clap::ValueEnum;
use ethbcast_collectives::communicator::{CommunicatorError, Error as CallError};
use ethbcast_collectives::membership::KeyDifference;
use ethbcast_collectives::membership::live::StationError;
use ethbcast_collectives::session::{Error, Outcome, Refusal, RootFailure, TurnedAway};
use ethbcast_transport::packet::{DriveError, InterfaceError, NodeError, OpenError};

/// A fault: its code, and a short description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Fault {
    /// this process may not send raw frames
    #[value(name = "E-CAPABILITY")]
    Capability,
    /// there is no such interface, it does not carry Ethernet, or there are several
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
    /// the card's receive ring is small
    #[value(name = "E-RING")]
    Ring,
    /// a rule of the card drops frames
    #[value(name = "E-STEERING")]
    Steering,
    /// the card delays its interrupts
    #[value(name = "E-INTERRUPTS")]
    Interrupts,
    /// the card passes on damaged frames, or frames that nobody sent
    #[value(name = "E-OFFLOAD")]
    Offload,
    /// the interface accepts frames for other hosts
    #[value(name = "E-PROMISC")]
    Promiscuous,
    /// a queueing discipline holds frames back, or loses them
    #[value(name = "E-SHAPER")]
    Shaper,
    /// the kernel lacks a feature
    #[value(name = "E-KERNEL")]
    Kernel,
    /// there is too little memory for the receive ring
    #[value(name = "E-MEMORY")]
    Memory,
    /// a limit of the process or the system is too low
    #[value(name = "E-LIMIT")]
    Limit,
    /// the server of packet sockets does not reply
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
    /// DEST's disk is slower than the network
    #[value(name = "E-DISK")]
    Disk,
    /// the clock is wrong by years
    #[value(name = "E-CLOCK")]
    Clock,
    /// the network of this cloud carries IP alone
    #[value(name = "E-CLOUD")]
    Cloud,
    /// no host replies, or some do not
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
    /// the sender has fallen silent
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
    /// a host with the cluster's key sends without permission
    #[value(name = "E-SENDER")]
    Sender,
    /// the key of this host gives no right to send
    #[value(name = "E-NOSEND")]
    NoSend,
    /// this host has a key, and a library's call names none
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
        self.to_possible_value()
            .expect("none is hidden")
            .get_name()
            .to_owned()
    }

    pub fn description(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    pub fn why(self) -> &'static str {
        self.explained().0
    }

    pub fn help(self) -> &'static str {
        self.explained().1
    }

    fn explained(self) -> (&'static str, &'static str) {
        let found = EXPLAINED.iter().find(|(fault, ..)| *fault == self);
        found
            .map(|(_, why, help)| (*why, *help))
            .expect("a test looks for every fault")
    }
}

const EXPLAINED: [(Fault, &str, &str); 45] = [
    (
        Fault::Capability,
        "frames go past TCP/IP through a packet socket, which the kernel gives to root and to programs with \
         CAP_NET_RAW",
        "setcap cap_net_raw+ep \"$(command -v ethbcast)\", by which every user who may start it may send any frame; or \
         run it as root; or let `ethbcast port --serve` of another user hand the socket over",
    ),
    (
        Fault::Interface,
        "frames leave by one Ethernet interface; if there are several, name one",
        "`ip link` lists them; choose with -i",
    ),
    (
        Fault::Down,
        "an interface that is switched off neither sends nor receives",
        "ip link set IFACE up",
    ),
    (
        Fault::Carrier,
        "without a link to a switch no frame arrives anywhere",
        "check cable, transceiver and switch port; `ip link show IFACE` says NO-CARRIER while there is no link",
    ),
    (
        Fault::Mtu,
        "a receiver whose MTU is below the sender's is refused, and small frames cost hosts more work for the same \
         bytes",
        "ip link set IFACE mtu N, the same on all hosts, and no more than the switches carry; or `ethbcast send \
         --mtu N`",
    ),
    (
        Fault::Speed,
        "the slowest cable sets the pace of all hosts that wait for the same bytes",
        "ethtool IFACE shows what both ends can do; use another cable or port; ethtool -s IFACE autoneg on",
    ),
    (
        Fault::Duplex,
        "at half duplex frames collide whenever both ends send, and acknowledgements meet data all the time",
        "let both ends negotiate, or set both: ethtool -s IFACE duplex full autoneg on, and the switch's port likewise",
    ),
    (
        Fault::Member,
        "a bridge, bond or team takes the frames of its ports: the port itself receives none, or only some",
        "use the bridge or bond itself with -i; or take the interface out of it: ip link set IFACE nomaster",
    ),
    (
        Fault::Filter,
        "a rule that drops these frames cuts the host off without any message",
        "let the frames pass before the rule: nft insert rule FAMILY TABLE CHAIN ether type 0x88b5 accept",
    ),
    (
        Fault::Ring,
        "while a processor is busy elsewhere, frames wait in the card's ring, and are lost if that is full",
        "ethtool -g IFACE shows what the card can hold; ethtool -G IFACE rx N (the link goes away for a moment)",
    ),
    (
        Fault::Steering,
        "a rule of the card drops frames before the kernel sees them, and no counter of the firewall shows it",
        "ethtool -n IFACE lists the rules; ethtool -N IFACE delete NUMBER",
    ),
    (
        Fault::Interrupts,
        "a relay forwards a frame after the card's interrupt: the card's delay is added at every hop, and to every \
         acknowledgement",
        "ethtool -c IFACE shows how long it waits; ethtool -C IFACE adaptive-rx on, or rx-usecs 50",
    ),
    (
        Fault::Offload,
        "frames that were damaged or never sent cost time until their checksums expose them; over UDP the processor \
         does what the card is not let do",
        "ethtool -k IFACE lists the features that are on; ethtool -K IFACE FEATURE off, or on",
    ),
    (
        Fault::Wifi,
        "Wi-Fi sends broadcasts at its lowest rate and without acknowledgements, so many are lost, and every frame \
         between two stations takes twice the airtime",
        "use a cable; or send by --via chain, whose frames go to one host each; --rate leaves airtime to others",
    ),
    (
        Fault::Promiscuous,
        "every frame that floods the network, also frames for others, costs this host time",
        "end tcpdump and similar programs on it; ip link set IFACE promisc off",
    ),
    (
        Fault::Shaper,
        "the frames of this host wait in its own queue, and all others wait for them",
        "tc qdisc show dev IFACE; tc qdisc del dev IFACE root restores the default",
    ),
    (
        Fault::Kernel,
        "frames are received through a ring that is shared with the kernel (AF_PACKET, Linux 4.20)",
        "a newer kernel, with CONFIG_PACKET; modprobe af_packet if it is a module; getrandom(2) must be allowed",
    ),
    (
        Fault::Memory,
        "the ring must hold all frames that arrive before they are read; it is kernel memory, and counts towards a \
         container's limit",
        "end other programs, or give the container or unit more memory (MemoryMax=)",
    ),
    (
        Fault::Limit,
        "a transfer that reaches a limit ends there",
        "`ulimit -a` shows the limits of a shell; a systemd unit has LimitFSIZE=, LimitNOFILE= and TasksMax=",
    ),
    (
        Fault::Port,
        "with $ETHBCAST_PORT a process without permission gets its socket from a server, which must be running",
        "start `ethbcast port --serve $ETHBCAST_PORT` as root on this host, or unset ETHBCAST_PORT",
    ),
    (
        Fault::Taken,
        "one process at a time can use a UDP port; over udp the port of groups is shared, but over unicast a host \
         has one receiver",
        "`ss -lunp` names the process: end it, or leave out :PORT of --over, or give all hosts another --ether-type",
    ),
    (
        Fault::Dest,
        "data is first written beside DEST, so its directory must exist and be writable for this user",
        "mkdir -p the directory, let this user write there, or choose another DEST; --force replaces an existing one",
    ),
    (
        Fault::Space,
        "a receiver without enough room is refused before the start, or fails in the middle",
        "df DIR and df -i DIR show what is left; make room, or choose another DEST",
    ),
    (
        Fault::Disk,
        "a receiver whose disk is slower than the network holds up all others, until it is served separately",
        "choose a DEST on a faster disk; check who else writes there (iostat -x 1) and whether it fails (dmesg)",
    ),
    (
        Fault::Clock,
        "files get the sender's times, reports have the time of the run, and changed files are recognised by their \
         times",
        "timedatectl set-ntp true, or date -s; if the mainboard's battery is flat, the clock is wrong again after \
         each start",
    ),
    (
        Fault::Cloud,
        "the virtual networks of clouds are of layer 3: they carry no other EtherType and nothing to a group",
        "send among machines of your own, or by an overlay of layer 2 (VXLAN, GRETAP) between those of the cloud",
    ),
    (
        Fault::Nobody,
        "frames reach only hosts of the same group, EtherType and VLAN, on a network that carries them (most clouds \
         do not)",
        "is `ethbcast recv` (or `ethbcast probe --answer`) running there with the same -g? `ethbcast doctor` there; \
         is the switch's port in the same VLAN, and not isolated? `ethbcast dump -i IFACE` shows what arrives",
    ),
    (
        Fault::Path,
        "frames that are longer than a switch or host on the way can carry vanish there without a message",
        "raise the MTU on the way, or send shorter frames: `ethbcast send --mtu N`, or ip link set IFACE mtu N",
    ),
    (
        Fault::Loss,
        "lost frames are sent again, and all hosts behind that cable wait meanwhile",
        "`ip -s link show IFACE` at both ends and the switch's counters show where; check cable, transceiver and \
         duplex",
    ),
    (
        Fault::Storm,
        "a switch that polices broadcasts (storm control) drops most of a cast, and some switches shut the port",
        "send by --via chain, which needs none; or raise the limit: storm-control multicast level on the switch's \
         ports, or a rule for EtherType 0x88b5",
    ),
    (
        Fault::Multicast,
        "a switch that filters groups passes only groups that hosts have joined by IGMP or MLD, which these frames \
         do not use: hosts behind it are found later, by frames to all hosts, and are served by unicast",
        "send by --via chain; or let the switch flood unknown groups: multicast flooding of the port on, a filter of \
         unregistered groups off",
    ),
    (
        Fault::Group,
        "a group has one sender at a time, so that receivers know whose data they get",
        "wait until it has ended, or choose another group with -g on all hosts",
    ),
    (
        Fault::Late,
        "a host that joins during a transfer has missed its beginning",
        "wait for the next session, or let the sender accept late receivers: `ethbcast send --late`",
    ),
    (
        Fault::Twin,
        "reports and plans identify hosts by name and address, so two hosts must not share both",
        "end the other receiver; give each host a name with --host; give cloned machines addresses of their own: ip \
         link set IFACE address 02:…",
    ),
    (
        Fault::Topology,
        "a plan over switches needs the place of every host",
        "add the host to the topology file, or use the file's name for it with --host",
    ),
    (
        Fault::Unwanted,
        "with --hosts a sender accepts only these hosts",
        "add this host to --hosts, give it the expected name with --host, or choose another group with -g",
    ),
    (
        Fault::Silent,
        "without the sender a receiver cannot know that the data is complete, so it does not put it in place",
        "start the sender and this receiver again: the received data is kept beside DEST, and only the rest is sent",
    ),
    (
        Fault::Damaged,
        "data whose digest differs from the sender's never appears under DEST's name",
        "send again; if it happens again, look for bad memory or a bad disk on the host that is named",
    ),
    (
        Fault::NoKey,
        "a host with a key ignores frames without a tag, and a host without a key ignores frames with one, so the \
         two have no session",
        "copy the key file to the host without it, as /etc/ethbcast/key or by --key FILE; `ethbcast key receivers \
         FILE` makes that of receivers",
    ),
    (
        Fault::Key,
        "a host with a key accepts only frames of hosts with the same key",
        "`ethbcast key show FILE` on both hosts shows which key each has; copy one file to both",
    ),
    (
        Fault::Sender,
        "all hosts of a cluster share its key, and only those in `sender` lines may send",
        "send from a host whose key file has a `sign` line; or add the `sender` line of the new one to all files",
    ),
    (
        Fault::NoSend,
        "a receiver's key has no `sign` line, so that an attacker on a receiver cannot send",
        "send from a host that has the file of `ethbcast key new`",
    ),
    (
        Fault::Unkeyed,
        "frames without a tag can be read and forged by any host",
        "name the key with the option `key`, or set `unkeyed` if you accept that; it only concerns this call",
    ),
    (
        Fault::KeyMode,
        "every user who can read the key file can join, and send if it has a `sign` line",
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
        Error::NotStarted(RootFailure::TooFew {
            missing, refused, ..
        }) => {
            // Refused receivers were present.
            let why = only(refused.iter().map(|away| Some(of_away(away))));
            why.filter(|_| missing.is_empty()).unwrap_or(Fault::Nobody)
        }
        Error::NobodyThere | Error::NobodyElse(_) => Fault::Nobody,
        Error::Undelivered(report) => {
            return only(report.failed().map(|member| of_outcome(member.outcome)));
        }
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
        CallError::OtherGroups { .. } | CallError::Call(CommunicatorError::Missing { .. }) => {
            Fault::Nobody
        }
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
    if matches!(error, InterfaceError::Down { .. }) {
        Fault::Down
    } else {
        Fault::Interface
    }
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

fn of_away(away: &TurnedAway) -> Fault {
    match away.why {
        // A relay says all that goes wrong behind it.
        Refusal::Behind if !away.text.contains("receivers joined") => Fault::Dest,
        why => of_refusal(why),
    }
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
        Refusal::Behind => Fault::Nobody,
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
