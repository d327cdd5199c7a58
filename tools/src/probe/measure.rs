//! `ethbcast probe`: finds hosts that answer, and measures the network to them.

use super::Station;
use super::report::{OWN_RANK, ProbeReport, host_of};
use crate::args::ProbeArgs;
use crate::doctor::Fault;
use crate::exit::{Code, Failure, WithCode};
use crate::route::read_calibration;
use ethbcast_collectives::measure::{
    Finder, ProbeHost, ProbeResult, ProbeSettings, Prober, Search, calibrate, host_costs,
};
use ethbcast_collectives::session::live::{log_counters, processors};
use ethbcast_planning::model::Calibration;
use ethbcast_transport::Alone;
use ethbcast_transport::packet::{processor_time, random_u32};
use ethbcast_transport::wire::{Peer, Rank};
use std::path::Path;
use std::time::Duration;

/// Default duration of the search for hosts.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(5);
/// Message after an interrupt.
pub const INTERRUPTED: &str = "interrupted; nothing was written";

/// Runs the command.
///
/// # Errors
/// A failure whose code is the exit code.
pub fn run(args: &ProbeArgs, mut station: Station) -> anyhow::Result<()> {
    let session = random_u32().code(Code::System)?;
    // Read before measuring, so that an incompatible file is reported early.
    let before = args.update.as_deref().map(read_calibration).transpose()?;
    let hosts = wanted(args, &mut station, session)?;
    if !args.wire.quiet {
        crate::exit::print_line(format_args!("probing {}", names(&hosts).join(", ")));
    }
    let settings = ProbeSettings::full(usize::from(station.wire.station.mtu_bytes));
    let result = measure(&mut station, session, &hosts, settings)?;
    log_counters(&station.wire.port.counters());
    let path = args.out.as_deref().or(args.update.as_deref());
    if let Some(path) = path {
        write_calibration(&measured(&station, &hosts, &result, before)?, path)?;
    }
    let report = ProbeReport { station: &station.wire.station, hosts: &hosts, result: &result, calibration: path };
    report.print(args.wire.json, args.wire.quiet)?;
    verdict(&hosts, &result)
}

/// Searches for answering hosts of the group. Returns those found, shorter names first (n2 before
/// n10), and the missing ones out of `wanted`.
///
/// # Errors
/// A failure whose code is the exit code: a signal, the socket.
pub fn find(station: &mut Station, session: u32, wanted: Search) -> anyhow::Result<(Vec<ProbeHost>, Vec<String>)> {
    look_for(station, session, wanted).map(|(found, missing, _)| (found, missing))
}

/// Searches like [`find`], and also returns the hosts that answered only broadcast and not
/// multicast frames.
///
/// # Errors
/// As for [`find`].
pub fn look_for(
    station: &mut Station,
    session: u32,
    wanted: Search,
) -> anyhow::Result<(Vec<ProbeHost>, Vec<String>, Vec<String>)> {
    let group = station.wire.station.group.clone();
    let finder = Finder::new(station.clock.now(), station.identity(session, OWN_RANK), &group, wanted);
    let mut finder = Alone::new(finder);
    station.drive(&mut finder, |finder, _| finder.part.is_done(), INTERRUPTED)?;
    let Alone { part: finder } = finder;
    let mut found = finder.found().to_vec();
    found.sort_by(|a, b| (a.host.len(), &a.host, a.mac).cmp(&(b.host.len(), &b.host, b.mac)));
    let missing = finder.missing().into_iter().map(str::to_owned).collect();
    let deaf = found.iter().filter(|one| finder.is_deaf_to_group(one.mac)).map(|one| one.host.clone()).collect();
    Ok((found, missing, deaf))
}

/// Returns the hosts to measure: the named ones, or all that answer.
///
/// # Errors
/// A failure with code 3 if one that was named, or all, do not answer.
pub fn wanted(args: &ProbeArgs, station: &mut Station, session: u32) -> anyhow::Result<Vec<ProbeHost>> {
    let group = &args.wire.group;
    let patience = args.max_wait.map_or(DEFAULT_PATIENCE, Duration::from_secs_f64);
    let search = Search { hosts: args.hosts.clone(), count: args.receivers.map(usize::from), patience };
    let (mut found, silent) = find(station, session, search)?;
    let help = format!("run `ethbcast probe --answer -g {group}` on it");
    let nobody = |text: String| Err(Failure::new(Code::Nobody, text).found(Fault::Nobody).into());
    if !silent.is_empty() {
        return nobody(format!("no answer from {} within {patience:?}: {help}", silent.join(", ")));
    }
    if found.is_empty() {
        return nobody(format!(
            "no host of group {group} answers probes: run `ethbcast probe --answer -g {group}` on the others"
        ));
    }
    if let Some(count) = args.receivers.map(usize::from).filter(|&count| found.len() < count) {
        let answered = names(&found).join(", ");
        return nobody(format!(
            "only {} of {count} hosts answered within {patience:?} ({answered}): {help}",
            found.len()
        ));
    }
    if !args.hosts.is_empty() {
        found.retain(|answerer| args.hosts.contains(&answerer.host));
    }
    Ok(found)
}

/// Measures the path to these hosts, broadcast included.
///
/// # Errors
/// As [`find`].
pub fn measure(
    station: &mut Station,
    session: u32,
    hosts: &[ProbeHost],
    settings: ProbeSettings,
) -> anyhow::Result<ProbeResult> {
    let targets = (OWN_RANK.0 + 1..).zip(hosts).map(|(rank, host)| Peer { rank: Rank(rank), mac: host.mac }).collect();
    let settings = settings.with_cast(station.wire.station.group_mac);
    let prober = Prober::new(station.clock.now(), station.identity(session, OWN_RANK), targets, settings)
        .with_processors(Some(processors(processor_time)));
    let mut prober = Alone::new(prober);
    station.drive(&mut prober, |prober, _| prober.part.is_done(), INTERRUPTED)?;
    Ok(prober.part.result())
}

/// Merges the measured values, also of each host, into an earlier calibration.
fn measured(
    station: &Station,
    hosts: &[ProbeHost],
    result: &ProbeResult,
    before: Option<Calibration>,
) -> anyhow::Result<Calibration> {
    let name = |rank| host_of(hosts, rank).host.clone();
    let now =
        calibrate(result).and_then(|table| table.with_hosts(&station.wire.station.host, host_costs(result, name)));
    let now = now.code(Code::Nobody)?;
    match before {
        Some(before) => before.updated_by(now).code(Code::Usage),
        None => Ok(now),
    }
}

fn write_calibration(calibration: &Calibration, path: &Path) -> anyhow::Result<()> {
    std::fs::write(path, calibration.to_toml())
        .map_err(|error| format!("cannot write {}: {error}; choose another place with --out", path.display()))
        .code(Code::System)
}

/// Fails if a host answered the invitation and no probe, whatever the results for others.
fn verdict(hosts: &[ProbeHost], result: &ProbeResult) -> anyhow::Result<()> {
    let silent: Vec<String> = result.silent.iter().map(|&rank| host_of(hosts, rank).host.clone()).collect();
    if silent.is_empty() {
        return Ok(());
    }
    let text = format!(
        "no answer any more from {}: see that `ethbcast probe --answer` is still running there",
        silent.join(", ")
    );
    Err(Failure::new(Code::Nobody, text).found(Fault::Nobody).into())
}

fn names(hosts: &[ProbeHost]) -> Vec<String> {
    hosts.iter().map(|answerer| answerer.host.clone()).collect()
}
