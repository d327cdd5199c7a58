//! Check by `ethbcast doctor` of the path to other hosts: short and long frames, losses and
//! broadcast.

use super::{Fault, Findings, Fix, quoted};
use crate::args::DoctorArgs;
use crate::exit::{Code, Failure, WithCode};
use crate::probe::{Station, host_of, look_for, measure};
use crate::units;
use ethbcast_collectives::keys::Keys;
use ethbcast_collectives::measure::{CastFinding, ProbeHost, ProbeResult, ProbeSettings, Search};
use ethbcast_transport::packet::random_u32;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);
const LOSS: f64 = 0.001;

pub fn check(
    (args, keys): (&DoctorArgs, Option<&Keys>),
    hosts: &[String],
    first_hop: Option<usize>,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let mut station = match Station::open(&args.wire, keys) {
        Ok(station) => station,
        // Session errors with a code are findings; errors of the command line are not.
        Err(error)
            if error
                .downcast_ref::<Failure>()
                .is_some_and(|failure| failure.fault().is_some()) =>
        {
            findings.skip(format!("the way to other hosts: {error}"));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let session = random_u32().code(Code::System)?;
    let search = Search {
        hosts: hosts.to_vec(),
        count: None,
        patience: PATIENCE,
    };
    let (mut found, missing, deaf) = look_for(&mut station, session, search)?;
    if !hosts.is_empty() {
        found.retain(|responder| hosts.contains(&responder.host));
    }
    let group = &args.wire.group;
    let answer = format!("ethbcast probe --answer -g {}", quoted(group));
    let fix = Fix::Words(format!(
        "run `{answer}` there; if it runs, `ethbcast doctor` there; see that the switch's ports are in one VLAN, and \
         that each host has an address of its own (`ip link`)"
    ));
    if found.is_empty() && hosts.is_empty() {
        findings.add(
            Fault::Nobody,
            format!("no host of group {group} answers within {PATIENCE:?}"),
            fix.clone(),
        );
    }
    for host in missing {
        findings.add(
            Fault::Nobody,
            format!("{host} of group {group} does not answer within {PATIENCE:?}"),
            fix.clone(),
        );
    }
    for host in deaf
        .iter()
        .filter(|host| found.iter().any(|one| one.host == **host))
    {
        let what = format!("{host} receives frames to all hosts, but none to the group {group}");
        let words = "send --via chain; or have the switch flood unknown groups to its port (multicast flooding, \
                     filters of unregistered groups)";
        findings.add(Fault::Multicast, what, Fix::Words(words.to_owned()));
    }
    if !found.is_empty() {
        let mtu_bytes = usize::from(station.wire.station.mtu_bytes);
        let result = measure(&mut station, session, &found, settings(mtu_bytes))?;
        let (names, own) = (
            found
                .iter()
                .map(|peer| peer.host.clone())
                .collect::<Vec<_>>(),
            &station.wire.station.host,
        );
        findings.skip(format!(
            "losses on the way back: to check them, run `ethbcast doctor --peer {own}` on {}",
            names.join(", ")
        ));
        let interface = &station.wire.port.interface().name;
        judge(
            interface,
            (mtu_bytes, first_hop.unwrap_or(mtu_bytes)),
            &found,
            &result,
            findings,
        );
        slow_links(&found, &result, findings);
        if deaf.is_empty() {
            frames_to_all(&result.cast, findings);
        }
    }
    Ok(())
}

/// Returns settings with just enough frames to detect a loss of one in a thousand.
fn settings(mtu_bytes: usize) -> ProbeSettings {
    let full = ProbeSettings::full(mtu_bytes);
    let longest = *full
        .sizes_bytes
        .iter()
        .filter(|&&bytes| bytes <= mtu_bytes)
        .max()
        .expect("a full frame is one");
    ProbeSettings {
        sizes_bytes: vec![full.sizes_bytes[0], longest],
        trains: Duration::from_millis(300),
        train_max: Duration::from_millis(100),
        bulk: Duration::ZERO,
        budget: Duration::from_secs(10),
        ..full
    }
}

fn judge(
    interface: &str,
    (mtu_bytes, first_hop): (usize, usize),
    hosts: &[ProbeHost],
    result: &ProbeResult,
    findings: &mut Findings,
) {
    for &rank in &result.silent {
        let host = &host_of(hosts, rank).host;
        let words = format!(
            "see that `ethbcast probe --answer` is still running on {host}, and `ethbcast doctor` there"
        );
        findings.add(
            Fault::Nobody,
            format!("{host} was heard, and does not answer any more"),
            Fix::Words(words),
        );
    }
    for target in &result.targets {
        let responder = host_of(hosts, target.peer.rank);
        let host = &responder.host;
        let path_bytes = target.path_mtu_bytes.unwrap_or(mtu_bytes);
        if responder.mtu_bytes != mtu_bytes {
            let what = format!(
                "{host} has an MTU of {}, {interface} here {mtu_bytes}",
                responder.mtu_bytes
            );
            let words =
                "ip link set IFACE mtu N, the same on both; `ethbcast doctor` there says more";
            findings.add(Fault::Mtu, what, Fix::Words(words.to_owned()));
        } else if path_bytes < first_hop {
            let what =
                format!("frames longer than {path_bytes} bytes do not come back from {host}");
            let words = format!(
                "raise the MTU on the way to {mtu_bytes}: switches, and rules that `ethbcast doctor` finds on {host}; \
                 or send with --mtu {path_bytes}"
            );
            findings.add(Fault::Path, what, Fix::Words(words));
        }
        if target.loss >= LOSS {
            let what = format!(
                "{:.1} % of the frames to {host} are lost",
                target.loss * 100.0
            );
            let words = format!(
                "`ethbcast doctor` and `ip -s link` on {host}; the counters of the switch's ports; another cable"
            );
            findings.add(Fault::Loss, what, Fix::Words(words));
        }
    }
}

fn slow_links(hosts: &[ProbeHost], result: &ProbeResult, findings: &mut Findings) {
    for (rank, rate, usual) in result.slow_hosts() {
        let host = &host_of(hosts, rank).host;
        let [rate, usual] = [rate, usual].map(|rate| units::rate(rate as f64));
        let words = format!(
            "`ethbcast doctor` and `ethtool IFACE` on {host}; another cable or port of the switch; until then `send` \
             serves it beside the others"
        );
        findings.add(
            Fault::Speed,
            format!("frames reach {host} at {rate}, the others at {usual}"),
            Fix::Words(words),
        );
    }
}

fn frames_to_all(cast: &CastFinding, findings: &mut Findings) {
    let what = match *cast {
        CastFinding::Policed {
            threshold_frames_per_second: 0,
        } => "no frame to all arrives, while frames to one do".to_owned(),
        CastFinding::Policed {
            threshold_frames_per_second,
        } => {
            format!(
                "only about {threshold_frames_per_second} frames/s to all arrive, while frames to one do"
            )
        }
        CastFinding::Slower {
            times,
            is_copied: true,
            ..
        } => {
            format!(
                "frames to all take {times:.1} times as long as to one: each host gets a copy from the sender's end"
            )
        }
        CastFinding::Slower { times, .. } => {
            format!("frames to all arrive {times:.1} times as slowly as to one, as in a radio cell")
        }
        CastFinding::FullRate => return,
        CastFinding::NotMeasured => {
            return findings.skip("frames to all: nobody could say how many arrived");
        }
    };
    let words = "send --via chain; or see what `ethbcast doctor` says on those hosts, and raise the limit of storm \
                 control on the switch's ports";
    findings.add(Fault::Storm, what, Fix::Words(words.to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_collectives::measure::TargetResult;
    use ethbcast_transport::MacAddr;
    use ethbcast_transport::wire::{Peer, Rank};

    #[test]
    fn a_peer_that_is_five_times_slower_than_the_others_is_named() {
        let mac = |host: u16| MacAddr::new(2, 0, 0, 0, 0, host as u8);
        let said = |megabits: &[u64]| {
            let hosts: Vec<ProbeHost> = (1..=megabits.len() as u16)
                .map(|host| ProbeHost {
                    mac: mac(host),
                    host: format!("n{host}"),
                    mtu_bytes: 1500,
                    token: None,
                })
                .collect();
            let target = |(host, rate): (u16, &u64)| TargetResult {
                peer: Peer {
                    rank: Rank(host),
                    mac: mac(host),
                },
                points: Vec::new(),
                rate_bits_per_second: Some(rate * 1_000_000),
                path_mtu_bytes: None,
                loss: 0.0,
            };
            let result = ProbeResult {
                points: Vec::new(),
                rate_bits_per_second: None,
                path_mtu_bytes: None,
                spread: 0.0,
                loss: 0.0,
                cast: CastFinding::FullRate,
                silent: Vec::new(),
                targets: (1..).zip(megabits).map(target).collect(),
                work: Vec::new(),
                bulk: None,
                shared_cores: 0,
            };
            let mut findings = Findings::default();
            slow_links(&hosts, &result, &mut findings);
            (findings.count(), findings.text(None))
        };
        let (count, text) = said(&[98, 20, 99, 97]);
        assert!(
            count == 1
                && text.contains("E-SPEED  frames reach n2 at 20.0 Mbit/s, the others at 97"),
            "{text}"
        );
        for alike in [&[98, 97, 50][..], &[20, 20, 21], &[98, 20], &[20, 20, 98]] {
            assert_eq!(said(alike).0, 0, "{alike:?}");
        }
    }
}
