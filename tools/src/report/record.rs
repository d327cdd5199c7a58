//! Extension of the report's object by circumstances, plan and timeline.

use crate::config;
use ethbcast_collectives::session::live::{Incident, Moment, Track};
use ethbcast_collectives::session::{MemberState, SendReport};
use ethbcast_planning::model::Choice;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::packet::processor_time;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;

#[derive(Clone, Debug)]
pub struct Circumstances<'a> {
    pub group: &'a str,
    pub source: &'a str,
    pub root: &'a str,
    pub interface: &'a str,
    pub mtu_bytes: u32,
    pub topology: Option<&'a Topology>,
}

pub fn record(sent: &SendReport, about: &Circumstances<'_>) -> Value {
    let began = Timestamp::now().checked_sub(sent.total).ok();
    let command: Vec<String> = config::own_line().iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let choice = sent.choice.as_ref();
    let slow = choice.and_then(|choice| choice.candidates.first()?.slow_cable.as_ref());
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "command": command,
        "began": began.map(|began| format!("{began:.0}")),
        "source": about.source,
        "group": about.group,
        "root": about.root,
        "interface": about.interface,
        "mtu_bytes": about.mtu_bytes,
        "topology": about.topology.map(Topology::to_toml),
        "plan": choice.map(|choice| plan(choice, sent, about.root)),
        "candidates": choice.map_or_else(Vec::new, candidates),
        "slow_cable": slow.map(|slow| slow.cable.as_str()),
        "held_up_by": sent.held_up_by,
        "aside": sent.aside,
        "copy_seconds": choice.and_then(|choice| choice.copy_seconds(sent.sent_bytes.unwrap_or(sent.bytes()))),
        "processor_seconds": to_millis(processor_time().as_secs_f64()),
        "cut_off_seconds": to_millis(sent.cut_off.as_secs_f64()),
        "timeline": timeline(sent),
    })
}

fn plan(choice: &Choice, sent: &SendReport, root: &str) -> Value {
    let plan = &choice.plan;
    // A receiver that returned has another rank, and the plan contains the former one.
    let tracks = sent.history.tracks().iter().enumerate().map(|(at, track)| (at + 1, track.host.as_str()));
    let receivers = sent.receivers.iter().map(|one| (one.rank.index(), one.host.as_str()));
    let hosts: HashMap<usize, &str> = tracks.chain(receivers).chain([(0, root)]).collect();
    let name = |rank: usize| hosts.get(&rank).map_or_else(|| format!("rank {rank}"), |&host| host.to_owned());
    let children = |from: usize| plan.children(from).iter().enumerate().map(move |(order, &to)| (from, to, order));
    let edges = (0..plan.ranks()).flat_map(children);
    json!({
        "via": plan.via().to_string(),
        "hosts": (0..plan.ranks()).map(name).collect::<Vec<_>>(),
        "edges": edges
            .map(|(from, to, order)| json!({ "from": name(from), "to": name(to), "order": order }))
            .collect::<Vec<_>>(),
    })
}

fn candidates(choice: &Choice) -> Vec<Value> {
    let one = |via: String, seconds: f64| json!({ "via": via, "predicted_seconds": seconds });
    choice.candidates.iter().map(|candidate| one(candidate.via.to_string(), candidate.predicted_seconds)).collect()
}

fn timeline(sent: &SendReport) -> Value {
    let history = &sent.history;
    let of_moments = |what: fn(&Moment) -> Value| history.moments().iter().map(what).collect::<Vec<Value>>();
    json!({
        "seconds": of_moments(|moment| json!(to_millis(moment.at.as_secs_f64()))),
        "sent_bytes": of_moments(|moment| json!(moment.sent_bytes)),
        "resent_frames": of_moments(|moment| json!(moment.resent_frames)),
        "receivers": history.tracks().iter().map(track).collect::<Vec<_>>(),
        "incidents": history.incidents().iter().map(incident).collect::<Vec<_>>(),
        "incidents_left_out": history.left_out(),
    })
}

fn track(track: &Track) -> Value {
    let states: String = track.states.iter().copied().map(letter).collect();
    json!({ "host": track.host, "bytes": track.bytes, "states": states })
}

fn incident(incident: &Incident) -> Value {
    json!({
        "seconds": to_millis(incident.at.as_secs_f64()),
        "kind": incident.kind.name(),
        "hosts": incident.hosts,
        "text": incident.text,
    })
}

fn to_millis(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// Returns a member's state as a letter; `-` before it joined and after it left.
fn letter(state: Option<MemberState>) -> char {
    match state {
        None => '-',
        Some(MemberState::Alive) => 'a',
        Some(MemberState::Blocked) => 'b',
        Some(MemberState::WaitsForChild) => 'c',
        Some(MemberState::Starved) => 's',
        Some(MemberState::Verifying) => 'v',
        Some(MemberState::Syncing) => 'y',
        Some(MemberState::Settled) => 't',
        Some(MemberState::Done) => 'd',
    }
}
