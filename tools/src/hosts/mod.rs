//! `ethbcast hosts`: who listens.

mod table;

use crate::args::HostsArgs;
use crate::doctor;
use crate::exit::{Code, Failure, WithCode, fail, report};
use crate::session::station_failure;
use crate::signals::Interrupt;
use crate::topology_file::read_topology;
use ethbcast_collectives::census::{About, Asker, Present};
use ethbcast_collectives::membership::live::{Opening, RingRoom, check_group};
use ethbcast_planning::natural_order;
use ethbcast_planning::topology::{Topology, nodeset};
use ethbcast_transport::packet::{Clock, Interface, Port, PortConfig, Waker, drive};
use ethbcast_transport::wire::{Identity, Rank};
use serde_json::json;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

/// The least time for a list: an answer has to come back.
const LEAST_WAIT: Duration = Duration::from_millis(100);
/// Answers that may come at once.
const MOST_ANSWERS: u64 = 4096;
/// Clears a terminal, and begins at its top.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// What a receiver on this interface says of its host.
pub fn about(interface: &Interface) -> About {
    let megabits = doctor::megabits_per_second(interface).and_then(|mbit| u32::try_from(mbit).ok());
    let version = concat!("ethbcast ", env!("CARGO_PKG_VERSION")).to_owned();
    About { version, megabits_per_second: megabits, last: None }
}

/// Runs the command.
///
/// # Errors
/// A [`Failure`] with code 3 if nobody listens, 1 if somebody who should does not.
pub fn run(args: &HostsArgs) -> anyhow::Result<()> {
    let topology = args.topology.as_deref().map(read_topology).transpose()?;
    let expected = args.expect.as_deref().map_or(Ok(Vec::new()), nodeset::expand);
    let expected = expected.map_err(|error| Failure::new(Code::Usage, format!("--expect: {error}")))?;
    if let Some(group) = &args.group {
        check_group(group).map_err(|error| station_failure(&error))?;
    }
    let (mut port, identity) = open(args)?;
    let waker = Waker::new().code(Code::System)?;
    let interrupt = Interrupt::wake(&waker).code(Code::System)?;
    interrupt.heed();
    let clock = Clock::start();
    let nonce = getrandom::u64().map_err(std::io::Error::other).code(Code::System)?;
    let wait = Duration::from_secs_f64(args.wait).max(LEAST_WAIT);
    let mut asker = Asker::new(clock.now(), identity, args.group.as_deref().unwrap_or_default(), wait, nonce);
    loop {
        let round = asker.rounds();
        drive(&mut port, &mut asker, &waker, &clock, |asker, _| {
            let is_over = asker.rounds() > round || interrupt.signal().is_some();
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .code(Code::System)?;
        let present = sorted(&asker);
        let missing = missing(&expected, &present);
        show(args, &present, &missing, topology.as_ref())?;
        if !args.watch || interrupt.signal().is_some() {
            return verdict(args, &present, &missing);
        }
    }
}

/// A port that hears what is for this host alone.
fn open(args: &HostsArgs) -> anyhow::Result<(Port, Identity)> {
    let opening =
        Opening { interface: args.interface.as_deref(), ..Opening::new("census", PortConfig::new(args.ether_type)) };
    let room = |_| RingRoom { margin_frames: MOST_ANSWERS, ..RingRoom::for_session(0) };
    let (port, station) = opening.open(room).map_err(|error| station_failure(&error))?;
    Ok((port, station.identity(0, Rank::NONE)))
}

/// By host, as people count them, and group.
fn sorted(asker: &Asker) -> Vec<Present> {
    let mut present: Vec<Present> = asker.present().cloned().collect();
    present.sort_by(|a, b| {
        let (one, other) = (&a.answer, &b.answer);
        let hosts = natural_order(&one.host, &other.host);
        hosts.then_with(|| natural_order(&one.group, &other.group)).then_with(|| a.mac.cmp(&b.mac))
    });
    present
}

fn missing(expected: &[String], present: &[Present]) -> Vec<String> {
    let is_there = |host: &String| present.iter().any(|present| present.answer.host == *host);
    expected.iter().filter(|host| !is_there(host)).cloned().collect()
}

fn show(args: &HostsArgs, present: &[Present], missing: &[String], topology: Option<&Topology>) -> anyhow::Result<()> {
    if args.json {
        let hosts: Vec<_> = present.iter().map(|present| table::to_json(present, topology)).collect();
        return report(&json!({ "schema": 1, "hosts": hosts, "missing": missing }).to_string());
    }
    let clears = args.watch && std::io::stdout().is_terminal();
    let text = table::text(present, topology);
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
        let text =
            format!("not there: {}; see `ethbcast recv --serve` and `ethbcast doctor` there", nodeset::fold(missing));
        return fail(Code::SomeFailed, text);
    }
    if present.is_empty() && !args.watch {
        let of = args.group.as_ref().map_or(String::new(), |group| format!(" to group {group}"));
        let text =
            format!("nobody listens{of}: start `ethbcast recv --serve DIR` on the hosts, or wait longer with --wait");
        return Err(Failure::new(Code::Nobody, text).found(doctor::Fault::Nobody).into());
    }
    Ok(())
}
