//! Measurement by `ethbcast probe`: finds hosts that reply, and measures the network to them.

use super::Station;
use crate::args::ProbeArgs;
use crate::doctor::Fault;
use crate::exit::{Code, Failure, WithCode, report};
use crate::inputs::read_calibration;
use crate::units;
use ethbcast_collectives::measure::{
    CastFinding, Finder, Point, ProbeHost, ProbeResult, ProbeSettings, Prober, Search,
    TargetResult, WorkPoint, calibrate, host_costs,
};
use ethbcast_collectives::session::Station as HostStation;
use ethbcast_collectives::session::live::{log_counters, processors};
use ethbcast_planning::model::Calibration;
use ethbcast_transport::Alone;
use ethbcast_transport::packet::{processor_time, random_u32};
use ethbcast_transport::wire::{Peer, Rank};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const DEFAULT_PATIENCE: Duration = Duration::from_secs(5);
pub const INTERRUPTED: &str = "interrupted; nothing was written";

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
    let report = ProbeReport {
        station: &station.wire.station,
        hosts: &hosts,
        result: &result,
        calibration: path,
    };
    report.print(args.wire.json, args.wire.quiet)?;
    verdict(&hosts, &result)
}

/// Searches for answering hosts of the group. Returns those found, shorter names first (n2 before
/// n10), and the missing ones out of `wanted`.
pub fn find(
    station: &mut Station,
    session: u32,
    wanted: Search,
) -> anyhow::Result<(Vec<ProbeHost>, Vec<String>)> {
    look_for(station, session, wanted).map(|(found, missing, _)| (found, missing))
}

/// Searches like [`find`], and also returns the hosts that answered only broadcast and not
/// multicast frames.
pub fn look_for(
    station: &mut Station,
    session: u32,
    wanted: Search,
) -> anyhow::Result<(Vec<ProbeHost>, Vec<String>, Vec<String>)> {
    let group = station.wire.station.group.clone();
    let finder = Finder::new(
        station.clock.now(),
        station.identity(session, OWN_RANK),
        &group,
        wanted,
    );
    let mut finder = station.machine(finder);
    station.drive(&mut finder, |finder, _| finder.part.is_done(), INTERRUPTED)?;
    let Alone { part: finder, .. } = finder;
    let mut found = finder.found().to_vec();
    found.sort_by(|a, b| (a.host.len(), &a.host, a.mac).cmp(&(b.host.len(), &b.host, b.mac)));
    let missing = finder.missing().into_iter().map(str::to_owned).collect();
    let deaf = found
        .iter()
        .filter(|one| finder.is_deaf_to_group(one.mac))
        .map(|one| one.host.clone())
        .collect();
    Ok((found, missing, deaf))
}

pub fn wanted(
    args: &ProbeArgs,
    station: &mut Station,
    session: u32,
) -> anyhow::Result<Vec<ProbeHost>> {
    let group = &args.wire.group;
    let patience = args
        .max_wait
        .map_or(DEFAULT_PATIENCE, Duration::from_secs_f64);
    let search = Search {
        hosts: args.hosts.clone(),
        count: args.receivers.map(usize::from),
        patience,
    };
    let (mut found, silent) = find(station, session, search)?;
    let help = format!("run `ethbcast probe --answer -g {group}` on it");
    let nobody = |text: String| Err(Failure::new(Code::Nobody, text).found(Fault::Nobody).into());
    if !silent.is_empty() {
        return nobody(format!(
            "no answer from {} within {patience:?}: {help}",
            silent.join(", ")
        ));
    }
    if found.is_empty() {
        return nobody(format!(
            "no host of group {group} answers probes: run `ethbcast probe --answer -g {group}` on the others"
        ));
    }
    if let Some(count) = args
        .receivers
        .map(usize::from)
        .filter(|&count| found.len() < count)
    {
        let answered = names(&found).join(", ");
        return nobody(format!(
            "only {} of {count} hosts answered within {patience:?} ({answered}): {help}",
            found.len()
        ));
    }
    if !args.hosts.is_empty() {
        found.retain(|responder| args.hosts.contains(&responder.host));
    }
    Ok(found)
}

pub fn measure(
    station: &mut Station,
    session: u32,
    hosts: &[ProbeHost],
    settings: ProbeSettings,
) -> anyhow::Result<ProbeResult> {
    let targets = (OWN_RANK.0 + 1..)
        .zip(hosts)
        .map(|(rank, host)| Peer {
            rank: Rank(rank),
            mac: host.mac,
        })
        .collect();
    let settings = settings
        .with_cast(station.wire.station.group_mac)
        .guarded(&station.wire.station.guard);
    let prober = Prober::new(
        station.clock.now(),
        station.identity(session, OWN_RANK),
        targets,
        settings,
    )
    .with_tokens(hosts)
    .with_processors(Some(processors(processor_time)));
    let mut prober = station.machine(prober);
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
    let now = calibrate(result)
        .and_then(|table| table.with_hosts(&station.wire.station.host, host_costs(result, name)));
    let now = now.code(Code::Nobody)?;
    match before {
        Some(before) => before.updated_by(now).code(Code::Usage),
        None => Ok(now),
    }
}

fn write_calibration(calibration: &Calibration, path: &Path) -> anyhow::Result<()> {
    std::fs::write(path, calibration.to_toml())
        .map_err(|error| {
            format!(
                "cannot write {}: {error}; choose another place with --out",
                path.display()
            )
        })
        .code(Code::System)
}

/// Fails if a host answered the invitation and no probe, whatever the results for others.
fn verdict(hosts: &[ProbeHost], result: &ProbeResult) -> anyhow::Result<()> {
    let silent: Vec<String> = result
        .silent
        .iter()
        .map(|&rank| host_of(hosts, rank).host.clone())
        .collect();
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
    hosts
        .iter()
        .map(|responder| responder.host.clone())
        .collect()
}

/// Rank of this host; the measured hosts follow.
pub const OWN_RANK: Rank = Rank(0);

pub struct ProbeReport<'a> {
    pub station: &'a HostStation,
    pub hosts: &'a [ProbeHost],
    pub result: &'a ProbeResult,
    pub calibration: Option<&'a Path>,
}

impl ProbeReport<'_> {
    pub fn print(&self, as_json: bool, quiet: bool) -> anyhow::Result<()> {
        match (as_json, quiet) {
            (true, _) => report(&self.json().to_string()),
            (false, true) => Ok(()),
            (false, false) => report(self.table().trim_end()),
        }
    }

    fn table(&self) -> String {
        let mut text = format!(
            "{:>9} {:>12} {:>12} {:>12}\n",
            "bytes", "g(m)", "RTT(m)", "L(m)"
        );
        for point in &self.result.points {
            let times = [point.gap_nanos, point.round_trip_nanos, point.latency_nanos].map(micros);
            text += &format!(
                "{:>9} {:>12} {:>12} {:>12}\n",
                point.bytes, times[0], times[1], times[2]
            );
        }
        let ProbeResult {
            rate_bits_per_second,
            path_mtu_bytes,
            loss,
            ..
        } = *self.result;
        text += &format!(
            "\nlink rate   {}\npath MTU    {}\nloss        {}\nbroadcast   {}\n\n",
            rate(rate_bits_per_second),
            known(path_mtu_bytes),
            percent(loss),
            cast(self.result.cast)
        );
        text += &self.work();
        text += &row("host", "rate", "g(frame)", "RTT(least)", "MTU", "loss");
        text.extend(
            self.result
                .targets
                .iter()
                .map(|target| self.host_line(target)),
        );
        for (rank, slow, usual) in self.result.slow_hosts() {
            let (host, [slow, usual]) = (
                &host_of(self.hosts, rank).host,
                [slow, usual].map(|one| rate(Some(one))),
            );
            text += &format!("\n{host} is slow: {slow}, the others {usual}\n");
        }
        if let Some(path) = self.calibration {
            text += &format!("\ncalibration written to {}\n", path.display());
        }
        text
    }

    fn work(&self) -> String {
        let takes = |what: String, (sending, receiving): (u64, u64)| {
            format!(
                "{what} takes a processor {} to send, {} to receive",
                micros(sending),
                micros(receiving)
            )
        };
        let streamed = self.result.bulk.and_then(|bulk| {
            let text = takes(
                format!("a frame of a stream, with {} bytes,", bulk.payload_bytes),
                bulk.work_nanos?,
            );
            let more = [
                ("pass on", bulk.relaying_nanos),
                ("send to all", bulk.casting_nanos),
            ];
            let more = more
                .map(|(what, nanos)| nanos.map(|nanos| format!(", {} to {what}", micros(nanos))));
            Some(text + &more.into_iter().flatten().collect::<String>() + "\n\n")
        });
        let alone = || {
            let frame = self.result.work.iter().rfind(|point| point.frames == 1)?;
            let what = format!("a frame of {} bytes", frame.bytes);
            let takes = takes(what, (frame.sending_nanos, frame.receiving_nanos));
            Some(takes + " (from trains: no stream of 200 frames gave a result)\n\n")
        };
        streamed.or_else(alone).unwrap_or_default()
    }

    fn host_line(&self, target: &TargetResult) -> String {
        let host = &host_of(self.hosts, target.peer.rank).host;
        let frame_bytes = target
            .path_mtu_bytes
            .map(|mtu_bytes| self.station.guard.payload_bytes(mtu_bytes));
        let frame = target
            .points
            .iter()
            .find(|point| Some(point.bytes) == frame_bytes);
        let gap = frame.map_or("?".to_owned(), |point| micros(point.gap_nanos));
        let least = target
            .points
            .first()
            .map_or("?".to_owned(), |point| micros(point.round_trip_nanos));
        let (rate, mtu, loss) = (
            rate(target.rate_bits_per_second),
            known(target.path_mtu_bytes),
            percent(target.loss),
        );
        row(host, &rate, &gap, &least, &mtu, &loss)
    }

    fn json(&self) -> Value {
        let result = self.result;
        let (cast, threshold) = match result.cast {
            CastFinding::FullRate => ("full-rate", None),
            CastFinding::Slower {
                is_copied: true,
                frames_per_second,
                ..
            } => ("copied", Some(frames_per_second)),
            CastFinding::Slower {
                frames_per_second, ..
            } => ("slower", Some(frames_per_second)),
            CastFinding::Policed {
                threshold_frames_per_second,
            } => ("policed", Some(threshold_frames_per_second)),
            CastFinding::NotMeasured => ("not-measured", None),
        };
        let hosts = result.targets.iter().map(|target| {
            let responder = host_of(self.hosts, target.peer.rank);
            json!({
                "host": responder.host,
                "mac": responder.mac.to_string(),
                "rate_bits_per_second": target.rate_bits_per_second,
                "path_mtu_bytes": target.path_mtu_bytes,
                "loss": target.loss,
                "points": points(&target.points),
            })
        });
        let slow = result.slow_hosts().into_iter();
        json!({
            "schema": 1,
            "host": self.station.host,
            "group": self.station.group,
            "points": points(&result.points),
            "rate_bits_per_second": result.rate_bits_per_second,
            "path_mtu_bytes": result.path_mtu_bytes,
            "loss": result.loss,
            "spread": result.spread,
            "cast": { "status": cast, "knee_frames_per_second": threshold },
            "work": result.work.iter().map(work).collect::<Vec<_>>(),
            "slow": slow.map(|(rank, ..)| host_of(self.hosts, rank).host.as_str()).collect::<Vec<_>>(),
            "silent": result.silent.iter().map(|&rank| host_of(self.hosts, rank).host.as_str()).collect::<Vec<_>>(),
            "hosts": hosts.collect::<Vec<_>>(),
            "calibration": self.calibration.map(|path| path.display().to_string()),
        })
    }
}

pub fn host_of(hosts: &[ProbeHost], rank: Rank) -> &ProbeHost {
    &hosts[rank.index() - OWN_RANK.index() - 1]
}

fn points(points: &[Point]) -> Vec<Value> {
    let point = |point: &Point| {
        json!({
            "bytes": point.bytes,
            "gap_ns": point.gap_nanos,
            "round_trip_ns": point.round_trip_nanos,
            "latency_ns": point.latency_nanos,
        })
    };
    points.iter().map(point).collect()
}

fn work(point: &WorkPoint) -> Value {
    json!({
        "bytes": point.bytes,
        "frames": point.frames,
        "sending_ns": point.sending_nanos,
        "receiving_ns": point.receiving_nanos,
    })
}

fn row(host: &str, rate: &str, gap: &str, least: &str, mtu: &str, loss: &str) -> String {
    format!("{host:<16} {rate:>14} {gap:>12} {least:>12} {mtu:>9} {loss:>9}\n")
}

fn micros(nanos: u64) -> String {
    format!("{:.1} µs", nanos as f64 / 1e3)
}

fn rate(bits_per_second: Option<u64>) -> String {
    bits_per_second.map_or("?".to_owned(), |rate| units::rate(rate as f64))
}

fn known(number: Option<usize>) -> String {
    number.map_or("?".to_owned(), |number| number.to_string())
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

fn cast(finding: CastFinding) -> String {
    match finding {
        CastFinding::FullRate => "arrives at full rate".to_owned(),
        CastFinding::Policed { threshold_frames_per_second: 0 } => {
            "does not arrive, while unicast does: likely multicast filtering or storm control on the switch".to_owned()
        }
        CastFinding::Policed { threshold_frames_per_second } => format!(
            "only about {threshold_frames_per_second} frames/s get through, while unicast arrives whole: likely storm \
             control on the switch"
        ),
        CastFinding::Slower { times, is_copied: true, .. } => format!(
            "is copied for each host at the sender's end ({times:.1} times the gap of frames to one), as overlays do"
        ),
        CastFinding::Slower { times, .. } => {
            format!("arrives, at {times:.1} times the gap of frames to one, as in a radio cell")
        }
        CastFinding::NotMeasured => "not measured".to_owned(),
    }
}
