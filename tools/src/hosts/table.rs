//! The list of the listening receivers.

use super::node_name;
use crate::units;
use ethbcast_collectives::census::{Busy, CensusReply, LastSession, Present};
use ethbcast_planning::format_rate;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::MacAddr;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const HEAD: [&str; 9] = ["HOST", "GROUP", "MAC", "PLACE", "RATE", "MTU", "FREE", "STATE", "LAST SESSION"];

/// Returns a heading and a line for each receiver; nothing if there is none.
pub fn text(present: &[Present], topology: Option<&Topology>) -> String {
    if present.is_empty() {
        return String::new();
    }
    let mut addresses: BTreeMap<String, BTreeSet<MacAddr>> = BTreeMap::new();
    for Present { mac, answer, .. } in present {
        addresses.entry(answer.host.to_ascii_lowercase()).or_default().insert(*mac);
    }
    // Hosts that share a name are shown with their address.
    let is_shared = |host: &str| addresses.get(&host.to_ascii_lowercase()).is_some_and(|all| all.len() > 1);
    let rows = present.iter().map(|one| row(one, is_shared(&one.answer.host), topology));
    let rows: Vec<[String; 9]> = std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    // The column of places is shown with a topology only.
    let shown: Vec<usize> = (0..HEAD.len()).filter(|&column| column != 3 || topology.is_some()).collect();
    let line = |row: &[String; 9]| {
        let cells: Vec<String> = shown.iter().map(|&at| format!("{:<width$}", row[at], width = width(at))).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn row(present: &Present, is_shared: bool, topology: Option<&Topology>) -> [String; 9] {
    let CensusReply { group, host, mtu_bytes, free_bytes, about, .. } = &present.answer;
    let rate = about.megabits_per_second.map(|megabits| format_rate(u64::from(megabits) * 1_000_000));
    let unknown = || "-".to_owned();
    [
        if is_shared { node_name(present) } else { host.clone() },
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
    let CensusReply { busy, bytes, size, .. } = answer;
    match (busy, size.filter(|&size| size > 0)) {
        (Busy::Receiving, Some(size)) => format!("receiving, {} %", u128::from(*bytes) * 100 / u128::from(size)),
        (Busy::Receiving, None) => format!("receiving, {}", units::bytes(*bytes)),
        _ => busy.name().to_owned(),
    }
}

fn last(last: &LastSession) -> String {
    let LastSession { is_delivered, source, seconds_ago } = last;
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
    let CensusReply { group, host, mtu_bytes, free_bytes, busy, bytes, size, about, .. } = &present.answer;
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
    fn what_a_receiver_is_busy_with_and_what_became_of_its_last_session_is_said_shortly() {
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
        assert_eq!(state(&answer(Busy::Receiving, u64::MAX - 1, Some(u64::MAX))), "receiving, 99 %");
        assert_eq!(state(&answer(Busy::Receiving, 1 << 20, None)), "receiving, 1.00 MiB");
        assert_eq!(state(&answer(Busy::Receiving, 0, Some(0))), "receiving, 0 B");
        let ago = |seconds_ago, is_delivered| last(&LastSession { is_delivered, source: "a".to_owned(), seconds_ago });
        assert_eq!(ago(119, true), "has a, 119 s ago");
        assert_eq!((ago(7199, false), ago(7200, true)), ("FAILED a, 119 min ago".into(), "has a, 2 h ago".into()));
        assert_eq!(ago(u32::MAX, true), "has a, 49710 d ago");
        assert_eq!(text(&[], None), "");
    }
}
