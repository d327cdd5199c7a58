//! `ethbcast hosts`: lists the receivers that listen on this Ethernet.

use crate::args::HostsArgs;
use crate::exit::{Code, Failure, WithCode, fail, report};
use crate::inputs::read_topology;
use crate::interface::chosen;
use crate::session::{print_interface, station_failure};
use crate::signals::Interrupt;
use crate::{doctor, inputs, key, units};
use ethbcast_collectives::census::{About, Busy, CensusQuery, CensusReply, LastSession, Present};
use ethbcast_collectives::keys::Keys;
use ethbcast_collectives::membership::live::{
    HostAddresses, Opening, RingRoom, StationError, addresses_of, check_group,
};
use ethbcast_planning::topology::{Topology, nodeset};
use ethbcast_planning::{HostNames, format_rate, natural_order};
use ethbcast_transport::MacAddr;
use ethbcast_transport::packet::{
    Clock, Interface, Over, Port, PortConfig, Waker, drive, random_u64, stand_in,
};
use ethbcast_transport::wire::{EtherType, Identity, Rank};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::net::Ipv6Addr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Minimum duration of a round, in which a reply can arrive.
const MIN_WAIT: Duration = Duration::from_millis(100);
/// Extension of a round after all hosts were found, in which hosts of equal names may reply.
const NAMESAKES_WAIT: Duration = Duration::from_millis(200);
const MAX_ANSWERS: u64 = 4096;
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub fn about(interface: &Interface) -> About {
    let megabits = doctor::megabits_per_second(interface).and_then(|mbit| u32::try_from(mbit).ok());
    let version = concat!("ethbcast ", env!("CARGO_PKG_VERSION")).to_owned();
    About {
        version,
        megabits_per_second: megabits,
        last: None,
    }
}

pub struct Search<'a> {
    pub interface: Option<&'a str>,
    pub group: Option<&'a str>,
    pub ether_type: EtherType,
    pub over: Over,
    pub wait: Duration,
    pub keys: Option<Arc<Keys>>,
    pub enough: Option<&'a [String]>,
}

pub struct Census<'a> {
    search: &'a Search<'a>,
    port: Port,
    asker: CensusQuery,
    waker: Waker,
    clock: Clock,
    /// Handler of the signals that end a round. Without it, signals act on the process.
    interrupt: Option<Interrupt>,
}

impl<'a> Census<'a> {
    pub fn open(search: &'a Search<'a>) -> anyhow::Result<Census<'a>> {
        if let Some(group) = search.group {
            check_group(group).map_err(|error| station_failure(&error))?;
        }
        let (port, identity) = open(search)?;
        let (waker, clock) = (Waker::new().code(Code::System)?, Clock::start());
        let nonce = random_u64().code(Code::System)?;
        let wait = search.wait.max(MIN_WAIT);
        let asker = CensusQuery::new(
            clock.now(),
            identity,
            search.group.unwrap_or_default(),
            wait,
            nonce,
        );
        let asker = if search.over.is_unicast() {
            asker.by_broadcast()
        } else {
            asker
        };
        let asker = if search.over.is_udp() {
            asker.padded()
        } else {
            asker
        };
        let asker = match &search.keys {
            Some(keys) => asker.with_keys(Arc::clone(keys)),
            None => asker,
        };
        Ok(Census {
            search,
            port,
            asker,
            waker,
            clock,
            interrupt: None,
        })
    }

    pub fn until_interrupted(mut self) -> anyhow::Result<Census<'a>> {
        let interrupt = Interrupt::wake(&self.waker).code(Code::System)?;
        interrupt.begin_polling();
        self.interrupt = Some(interrupt);
        Ok(self)
    }

    /// Performs a round, and returns the receivers sorted by host, in natural order, and group.
    pub fn round(&mut self) -> anyhow::Result<Vec<Present>> {
        let (round, enough, interrupt) = (self.asker.rounds(), self.search.enough, &self.interrupt);
        let settled_at = self.clock.now() + NAMESAKES_WAIT;
        drive(
            &mut self.port,
            &mut self.asker,
            &self.waker,
            &self.clock,
            |asker, now| {
                let has_all = |hosts: &[String]| {
                    now >= settled_at && missing(hosts, asker.present()).is_empty()
                };
                let is_over = asker.rounds() > round
                    || is_heard(interrupt.as_ref())
                    || enough.is_some_and(has_all);
                if is_over {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        )
        .code(Code::System)?;
        Ok(sorted(&self.asker))
    }

    pub fn is_interrupted(&self) -> bool {
        is_heard(self.interrupt.as_ref())
    }
}

fn is_heard(interrupt: Option<&Interrupt>) -> bool {
    interrupt.is_some_and(|interrupt| interrupt.signal().is_some())
}

pub fn run(args: &HostsArgs) -> anyhow::Result<()> {
    let topology = args.topology.as_deref().map(read_topology).transpose()?;
    let expected = args.expect.as_deref().map_or(Ok(Vec::new()), inputs::hosts);
    let expected = expected.map_err(|failure| failure.of_option("--expect"))?;
    let interface = chosen(args.interface.as_deref(), args.over, false);
    let search = Search {
        interface: interface.as_deref(),
        group: args.group.as_deref(),
        ether_type: args.ether_type,
        over: args.over,
        wait: Duration::from_secs_f64(args.wait),
        keys: key::resolve(&args.key)?,
        enough: None,
    };
    let mut census = Census::open(&search)?.until_interrupted()?;
    print_interface(census.port.interface(), false);
    loop {
        let present = census.round()?;
        let missing = missing(&expected, present.iter());
        show(args, &present, &missing, topology.as_ref())?;
        if !args.watch || census.is_interrupted() {
            return verdict(args, &present, &missing);
        }
    }
}

fn open(search: &Search<'_>) -> anyhow::Result<(Port, Identity)> {
    let mut port = PortConfig::new(search.ether_type);
    port.over = search.over;
    let opening = Opening {
        interface: search.interface,
        ..Opening::new("census", port)
    };
    let room = |_| RingRoom {
        margin_frames: MAX_ANSWERS,
        ..RingRoom::for_session(0)
    };
    let refused = |error: &StationError| station_failure(error);
    let peers = search
        .over
        .is_unicast()
        .then(|| addresses_of(search.enough.unwrap_or_default()))
        .transpose();
    let peers = peers.map_err(|error| refused(&error))?;
    let opening = Opening {
        family: peers.as_ref().and_then(HostAddresses::family),
        ..opening
    };
    let (mut port, station) = opening.open(room).map_err(|error| refused(&error))?;
    if let Some(peers) = peers {
        let peers = peers.on(port.interface());
        port.name_peers(&peers.map_err(|error| refused(&error))?);
    }
    Ok((port, station.identity(0, Rank::NONE)))
}

fn sorted(asker: &CensusQuery) -> Vec<Present> {
    let mut present: Vec<Present> = asker.present().cloned().collect();
    present.sort_by(|a, b| {
        let (one, other) = (&a.answer, &b.answer);
        let hosts = natural_order(&one.host, &other.host);
        hosts
            .then_with(|| natural_order(&one.group, &other.group))
            .then_with(|| a.mac.cmp(&b.mac))
    });
    present
}

/// Returns for each named host the present receivers of that name, by distinguishing names.
pub fn found<'a>(
    named: &[String],
    present: impl Iterator<Item = &'a Present>,
) -> Vec<BTreeSet<String>> {
    // Over UDP an address of IPv4 is in that of Ethernet, and stands for one of IPv6.
    let known_as = |host: &String| match host.parse::<Ipv6Addr>() {
        Ok(ip) => stand_in(ip.into()).to_string(),
        Err(_) => host.clone(),
    };
    let known_as: Vec<String> = named.iter().map(known_as).collect();
    let names = HostNames::new(known_as.iter().map(String::as_str));
    let mut found = vec![BTreeSet::new(); named.len()];
    for present in present {
        let node = node_name(present);
        if let Some(at) = names.find(&node) {
            found[at].insert(node);
        }
    }
    found
}

pub fn node_name(present: &Present) -> String {
    format!("{}@{}", present.answer.host, present.mac)
}

fn missing<'a>(expected: &[String], present: impl Iterator<Item = &'a Present>) -> Vec<String> {
    let found = found(expected, present);
    expected
        .iter()
        .zip(found)
        .filter(|(_, nodes)| nodes.is_empty())
        .map(|(host, _)| host.clone())
        .collect()
}

fn show(
    args: &HostsArgs,
    present: &[Present],
    missing: &[String],
    topology: Option<&Topology>,
) -> anyhow::Result<()> {
    if args.json {
        let hosts: Vec<_> = present
            .iter()
            .map(|present| to_json(present, topology))
            .collect();
        return report(&json!({ "schema": 1, "hosts": hosts, "missing": missing }).to_string());
    }
    let clears = args.watch && std::io::stdout().is_terminal();
    let text = text(present, topology);
    if clears {
        report(&format!("{CLEAR}{text}"))
    } else if text.is_empty() {
        Ok(())
    } else {
        report(&text)
    }
}

fn verdict(args: &HostsArgs, present: &[Present], missing: &[String]) -> anyhow::Result<()> {
    if !missing.is_empty() {
        let text = format!(
            "not there: {}; see `ethbcast recv --serve` and `ethbcast doctor` there",
            nodeset::fold(missing)
        );
        return fail(Code::SomeFailed, text);
    }
    if present.is_empty() && !args.watch {
        let of = args
            .group
            .as_ref()
            .map_or(String::new(), |group| format!(" to group {group}"));
        let text = format!(
            "nobody listens{of}: start `ethbcast recv --serve DIR` on the hosts, or wait longer with --wait"
        );
        return Err(Failure::new(Code::Nobody, text)
            .found(doctor::Fault::Nobody)
            .into());
    }
    Ok(())
}

const HEAD: [&str; 9] = [
    "HOST",
    "GROUP",
    "MAC",
    "PLACE",
    "RATE",
    "MTU",
    "FREE",
    "STATE",
    "LAST SESSION",
];

/// Returns a heading and a line for each receiver; nothing if there is none.
pub fn text(present: &[Present], topology: Option<&Topology>) -> String {
    if present.is_empty() {
        return String::new();
    }
    let mut addresses: BTreeMap<String, BTreeSet<MacAddr>> = BTreeMap::new();
    for Present { mac, answer, .. } in present {
        addresses
            .entry(answer.host.to_ascii_lowercase())
            .or_default()
            .insert(*mac);
    }
    // Hosts that share a name are shown with their address.
    let is_shared = |host: &str| {
        addresses
            .get(&host.to_ascii_lowercase())
            .is_some_and(|all| all.len() > 1)
    };
    let rows = present
        .iter()
        .map(|one| row(one, is_shared(&one.answer.host), topology));
    let rows: Vec<[String; 9]> = std::iter::once(HEAD.map(str::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    // The column of places is shown with a topology only.
    let shown: Vec<usize> = (0..HEAD.len())
        .filter(|&column| column != 3 || topology.is_some())
        .collect();
    let line = |row: &[String; 9]| {
        let cells: Vec<String> = shown
            .iter()
            .map(|&at| format!("{:<width$}", row[at], width = width(at)))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn row(present: &Present, is_shared: bool, topology: Option<&Topology>) -> [String; 9] {
    let CensusReply {
        group,
        host,
        mtu_bytes,
        free_bytes,
        about,
        ..
    } = &present.answer;
    let rate = about
        .megabits_per_second
        .map(|megabits| format_rate(u64::from(megabits) * 1_000_000));
    let unknown = || "-".to_owned();
    [
        if is_shared {
            node_name(present)
        } else {
            host.clone()
        },
        group.clone(),
        present.mac.to_string(),
        place(&node_name(present), topology).unwrap_or_else(unknown),
        rate.unwrap_or_else(unknown),
        mtu_bytes.to_string(),
        free_bytes.map_or_else(unknown, units::bytes),
        state(&present.answer),
        about.last.as_ref().map_or_else(unknown, last),
    ]
}

fn place(host: &str, topology: Option<&Topology>) -> Option<String> {
    let topology = topology?;
    let number = topology.host_named(host)?;
    Some(topology.switches()[topology.switch_of(number)].clone())
}

fn state(answer: &CensusReply) -> String {
    let CensusReply {
        busy, bytes, size, ..
    } = answer;
    match (busy, size.filter(|&size| size > 0)) {
        (Busy::Receiving, Some(size)) => format!(
            "receiving, {} %",
            u128::from(*bytes) * 100 / u128::from(size)
        ),
        (Busy::Receiving, None) => format!("receiving, {}", units::bytes(*bytes)),
        _ => busy.name().to_owned(),
    }
}

fn last(last: &LastSession) -> String {
    let LastSession {
        is_delivered,
        source,
        seconds_ago,
    } = last;
    let ago = match seconds_ago {
        seconds if *seconds < 120 => format!("{seconds} s"),
        seconds if *seconds < 7200 => format!("{} min", seconds / 60),
        seconds if *seconds < 172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    };
    let word = if *is_delivered { "has" } else { "FAILED" };
    format!("{word} {source}, {ago} ago")
}

pub fn to_json(present: &Present, topology: Option<&Topology>) -> Value {
    let CensusReply {
        group,
        host,
        mtu_bytes,
        free_bytes,
        busy,
        bytes,
        size,
        about,
        ..
    } = &present.answer;
    let last = about.last.as_ref().map(|last| {
        json!({
            "status": if last.is_delivered { "verified" } else { "failed" },
            "source": last.source,
            "seconds_ago": last.seconds_ago,
        })
    });
    json!({
        "host": host,
        "group": group,
        "mac": present.mac.to_string(),
        "place": place(&node_name(present), topology),
        "rate_bits_per_second": about.megabits_per_second.map(|megabits| u64::from(megabits) * 1_000_000),
        "mtu": mtu_bytes,
        "free_bytes": free_bytes,
        "state": busy.name(),
        "bytes": bytes,
        "size": size,
        "last": last,
        "version": about.version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receivers_activity_and_its_last_result_are_printed_shortly() {
        let answer = |busy, bytes, size| CensusReply {
            nonce: 1,
            group: "g".to_owned(),
            host: "n1".to_owned(),
            mtu_bytes: 1500,
            free_bytes: None,
            busy,
            bytes,
            size,
            about: ethbcast_collectives::census::About::default(),
        };
        assert_eq!(state(&answer(Busy::Waiting, 0, None)), "waiting");
        assert_eq!(
            state(&answer(Busy::Receiving, u64::MAX - 1, Some(u64::MAX))),
            "receiving, 99 %"
        );
        assert_eq!(
            state(&answer(Busy::Receiving, 1 << 20, None)),
            "receiving, 1.00 MiB"
        );
        assert_eq!(
            state(&answer(Busy::Receiving, 0, Some(0))),
            "receiving, 0 B"
        );
        let ago = |seconds_ago, is_delivered| {
            last(&LastSession {
                is_delivered,
                source: "a".to_owned(),
                seconds_ago,
            })
        };
        assert_eq!(ago(119, true), "has a, 119 s ago");
        assert_eq!(
            (ago(7199, false), ago(7200, true)),
            ("FAILED a, 119 min ago".into(), "has a, 2 h ago".into())
        );
        assert_eq!(ago(u32::MAX, true), "has a, 49710 d ago");
        assert_eq!(text(&[], None), "");
    }
}
