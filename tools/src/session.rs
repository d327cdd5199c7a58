//! Common parts of the network commands: opening a transfer, ending it by a signal, exit codes.

use crate::args::{KeySourceArgs, WireArgs};
use crate::doctor::{Fault, WIFI, is_wifi};
use crate::exit::{Code, Failure, WithCode, fail, print_line};
use crate::interface::chosen;
use crate::progress::NO_LINK;
use crate::signals::Interrupt;
use crate::watcher::Watcher;
use crate::{doctor, key};
pub use ethbcast_collectives::communicator::MAX_GROUP_BYTES;
use ethbcast_collectives::communicator::MIN_MTU_BYTES;
use ethbcast_collectives::keys::Keys;
use ethbcast_collectives::membership::host;
use ethbcast_collectives::membership::live::{Opening, RingRoom, StationError};
use ethbcast_collectives::session::{
    Cancel, Error, RunOptions, SendOptions, Session, Station, WireOptions,
};
use ethbcast_transport::Tuning;
use ethbcast_transport::packet::{
    Interface, InterfaceError, LaneUse, OpenError, Port, PortConfig, group_address_of,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Checks that the MTU leaves room for an acknowledgement's bitmap in a frame.
pub fn check_mtu(mtu_bytes: u16) -> anyhow::Result<()> {
    if mtu_bytes >= MIN_MTU_BYTES {
        return Ok(());
    }
    fail(
        Code::Usage,
        format!("an MTU of {mtu_bytes} is too small: choose at least {MIN_MTU_BYTES} with --mtu"),
    )
}

pub fn wire(args: &WireArgs) -> WireOptions {
    WireOptions {
        interface: chosen(args.interface.as_deref(), args.over, args.quiet),
        host: crate::lab::host_name(args.host.as_deref()),
        ether_type: args.ether_type,
        over: args.over,
        ttl: args.ttl,
        ..WireOptions::default()
    }
}

pub fn host_name(args: &WireArgs) -> String {
    host::name(crate::lab::host_name(args.host.as_deref()).as_deref())
}

/// Opens a sender's port. Signals then end the session, and the members are notified of
/// `reason`.
pub fn open(
    group: &str,
    options: &SendOptions,
    reason: &'static str,
) -> anyhow::Result<(Session, Interrupt)> {
    let interrupt = interrupt(&options.run, reason)?;
    Ok((
        Session::open_sender(group, options).map_err(failure)?,
        interrupt,
    ))
}

pub fn interrupt(run: &RunOptions, reason: &'static str) -> anyhow::Result<Interrupt> {
    let cancel: Cancel = run.cancel.clone();
    Interrupt::watch(true, move || cancel.cancel_because(reason)).code(Code::System)
}

/// Whether opening a port may succeed later without an action on this host.
pub fn may_pass(error: &Error) -> bool {
    match error {
        Error::Station(StationError::Interface(error)) => {
            matches!(
                error,
                InterfaceError::Unknown { .. }
                    | InterfaceError::Down { .. }
                    | InterfaceError::NoneUsable { .. }
            )
        }
        Error::Station(StationError::Open(error)) => matches!(error, OpenError::Down { .. }),
        _ => false,
    }
}

/// Starts a process that announces an abnormal end of this one, if possible. Without it, others
/// detect the end by silence.
pub fn watch(session: &Session, run: &mut RunOptions) -> Option<Watcher> {
    match Watcher::start(session) {
        Ok((watcher, abort_notice)) => {
            run.abort_notice = Some(abort_notice);
            Some(watcher)
        }
        Err(error) => {
            log::warn!("no process to watch this one: {error}");
            None
        }
    }
}

/// Returns the name of a session's interface, or of both.
pub fn interfaces(session: &Session) -> String {
    let first = &session.interface().name;
    session.second_interface().map_or_else(
        || first.clone(),
        |second| format!("{first} and {}", second.name),
    )
}

/// Describes the use of both interfaces: the part of the bytes that each has carried, and how long
/// one was lost.
pub fn lane_words(lanes: &[LaneUse; 2]) -> String {
    let bytes = |lane: &LaneUse| lane.sent_bytes + lane.received_bytes;
    let all = lanes.iter().map(bytes).sum::<u64>().max(1);
    let words = |lane: &LaneUse| {
        let LaneUse {
            interface, cut_off, ..
        } = lane;
        let share = bytes(lane) as f64 / all as f64 * 100.0;
        let lost = if cut_off.is_zero() {
            String::new()
        } else {
            format!(", lost for {:.1} s", cut_off.as_secs_f64())
        };
        format!("{interface} {share:.0} %{lost}")
    };
    format!("bytes by {}, by {}", words(&lanes[0]), words(&lanes[1]))
}

pub fn lanes_json(lanes: &[LaneUse; 2]) -> Value {
    let one = |lane: &LaneUse| {
        json!({
            "interface": lane.interface,
            "sent_bytes": lane.sent_bytes,
            "received_bytes": lane.received_bytes,
            "cut_off_seconds": lane.cut_off.as_secs_f64(),
        })
    };
    lanes.iter().map(one).collect()
}

/// Prints a warning about an unsuitable interface that the kernel accepts: Wi-Fi, or a port of
/// another interface, which takes the arriving frames.
pub fn print_interface(interface: &Interface, quiet: bool) {
    let name = &interface.name;
    if !quiet && is_wifi(interface) {
        print_line(format_args!(
            "ethbcast: {name} is Wi-Fi, {WIFI} [{}]",
            Fault::Wifi.code()
        ));
    }
    if let Some((master, kind)) = interface.port_of().filter(|_| !quiet) {
        print_line(format_args!(
            "ethbcast: {name} is a port of the {kind} {master}, which takes its frames: use that with -i {master} \
             [{}]",
            Fault::Member.code()
        ));
    }
}

/// Prints warnings before a session: an unsuitable interface, a missing key.
pub fn print_first(session: &Session, keys: Option<&Arc<Keys>>, args: &KeySourceArgs, quiet: bool) {
    print_interface(session.interface(), quiet);
    key::print_missing(keys, args, quiet);
}

/// Says how receivers reach a sender that does not know them, where no multicast goes.
pub fn print_called(session: &Session, quiet: bool) {
    let is_called = session.over().is_unicast() && session.peers().next().is_none();
    if let (Some(own), false) = (session.interface().ip(), quiet || !is_called) {
        print_line(format_args!(
            "ethbcast: receivers reach this host by: ethbcast recv --over unicast --from {own} DEST"
        ));
    }
}

/// Adds a note to a failure if the interface has no link, or what UDP needs may be missing.
pub fn with_own_link(failure: Failure, session: &Session) -> Failure {
    let is_own = failure
        .fault()
        .is_none_or(|fault| matches!(fault, Fault::Nobody | Fault::Silent));
    let may_be = is_own
        && matches!(
            failure.code(),
            Code::Nobody | Code::SomeFailed | Code::System
        );
    if may_be && !session.has_link() {
        return Failure::new(failure.code(), format!("{failure}; {NO_LINK}")).found(Fault::Carrier);
    }
    if session.over().is_udp() && failure.code() == Code::Nobody {
        let fault = failure.fault().unwrap_or(Fault::Nobody);
        let is_ipv6 = session.interface().ip().is_some_and(|ip| ip.is_ipv6());
        let needs = needs(session.station(), session.over().is_unicast(), is_ipv6);
        return Failure::new(failure.code(), format!("{failure}; {needs}")).found(fault);
    }
    failure
}

/// Names what the network and the firewalls of both hosts let pass over UDP.
fn needs(station: &Station, unicast: bool, is_ipv6: bool) -> String {
    let Station {
        group_mac,
        ether_type,
        ..
    } = station;
    let group = group_address_of(*group_mac, *ether_type, is_ipv6);
    let port = group.port();
    if unicast {
        return format!(
            "both hosts need --over unicast, routes to each other, and firewalls that pass UDP to ports {port} and \
             49152-65535 (`nft add rule inet filter input udp dport {{ {port}, 49152-65535 }} accept`)"
        );
    }
    format!(
        "both hosts need --over udp, and firewalls and switches that pass UDP to ports {port} and 49152-65535 and the \
         group {} (`nft add rule inet filter input udp dport {{ {port}, 49152-65535 }} accept`)",
        group.ip()
    )
}

pub fn failure(error: Error) -> Failure {
    let fault = doctor::of_session(&error);
    let failure = match &error {
        Error::Station(error) => station_failure(error),
        Error::NobodyThere => {
            let help = "start `ethbcast send` with the same -g, or wait longer with --max-wait";
            Failure::new(Code::Nobody, format!("no sender was heard; {help}"))
        }
        _ => Failure::new(error.kind().into(), error),
    };
    failure.found(fault)
}

pub fn station_failure(error: &StationError) -> Failure {
    let failure = match error {
        StationError::GroupName { .. } => Failure::new(Code::Usage, format!("{error} with -g")),
        StationError::HostName { .. } => Failure::new(Code::Usage, format!("{error} with --host")),
        StationError::LargeMtu {
            wanted,
            interface,
            available,
        } => {
            let text = format!(
                "--mtu {wanted} is more than interface {interface} carries: use at most {available}"
            );
            Failure::new(Code::Usage, text)
        }
        _ => Failure::new(error.kind().into(), error),
    };
    failure.found(doctor::of_station(error))
}

pub struct Wire {
    pub port: Port,
    pub station: Station,
}

impl Wire {
    pub fn open(args: &WireArgs, mut port: PortConfig) -> anyhow::Result<Wire> {
        if args.over.is_unicast() {
            return Err(station_failure(&StationError::OnlySessions).into());
        }
        (port.over, port.ttl) = (args.over, args.ttl);
        let host = crate::lab::host_name(args.host.as_deref());
        let interface = chosen(args.interface.as_deref(), args.over, args.quiet);
        let opening = Opening {
            interface: interface.as_deref(),
            host: host.as_deref(),
            ..Opening::new(&args.group, port)
        };
        let ring =
            |payload_bytes| RingRoom::for_session(Tuning::default().feed_frames_for(payload_bytes));
        let (port, station) = opening
            .open(ring)
            .map_err(|error| station_failure(&error))?;
        Ok(Wire { port, station })
    }
}
