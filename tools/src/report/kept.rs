//! A transfer's saved report (JSON): written by `send`, and read again to make the HTML page.
//!
//! The file is untrusted: only its types are checked, and missing fields are not shown.

use crate::config;
use ethbcast_collectives::session::live::{Incident as LiveIncident, Moment, Track as LiveTrack};
use ethbcast_collectives::session::{MemberState, OtherTraffic, SendReport};
use ethbcast_planning::model::Choice;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::packet::processor_time;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;

const SCHEMA: u64 = 1;

/// Parses the report's object, or returns an error that follows the file's name.
pub fn object(text: &str) -> Result<Value, String> {
    let report: Value =
        serde_json::from_str(text).map_err(|error| format!("is no report of `send`: {error}"))?;
    match report["schema"].as_u64() {
        Some(SCHEMA) => Ok(report),
        Some(other) => Err(format!(
            "is a report of version {other}, this program reads version {SCHEMA}"
        )),
        None => Err("is no report of `send`: it names no schema".to_owned()),
    }
}

/// Report of a run of `send`. `seconds` are from the first data frame to the last verdict,
/// `total_seconds` from the first invitation to the end. Older programs did not record
/// circumstances, plan and timeline.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Kept {
    pub session: String,
    /// Number of sessions: more than one are rounds of a carousel. Older programs recorded none.
    pub rounds: u64,
    pub bytes: u64,
    pub seconds: f64,
    pub total_seconds: f64,
    pub goodput_bits_per_second: f64,
    pub sent_bytes: Option<u64>,
    pub blake3: Option<String>,
    pub via: String,
    pub rerouted: bool,
    pub preset: String,
    pub rate_limit_bits_per_second: Option<u64>,
    pub nice: bool,
    pub segment_bytes: Option<u64>,
    pub predicted_seconds: Option<f64>,
    pub not_predicted: Option<Vec<String>>,
    pub reason: Option<String>,
    pub surprise: Option<String>,
    /// Reason for which the sender gave the transfer up.
    pub error: Option<String>,
    pub contention: Option<Vec<Contended>>,
    pub frames: Frames,
    pub receivers: Vec<Receiver>,
    pub damaged: Vec<Damaged>,
    pub left_out: Vec<KeptLeftOut>,
    pub run: Option<Run>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Contended {
    pub from: String,
    pub to: String,
    pub senders: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Frames {
    pub data_sent: u64,
    pub data_resent: u64,
    pub control_sent: u64,
    pub control_received: u64,
}

/// Outcome of a receiver, with the seconds from the first data frame to its verdict, and those of
/// its frames that had been lost before.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Receiver {
    pub host: String,
    pub rank: u64,
    pub status: String,
    pub bytes: u64,
    pub seconds: f64,
    pub reason: Option<String>,
    pub frames: Option<u64>,
    pub repaired_frames: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Damaged {
    pub bytes: u64,
    /// Sender of the damaged bytes, if it was a single host.
    pub from: Option<String>,
    pub to: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeptLeftOut {
    pub host: String,
    pub reason: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Run {
    pub version: String,
    pub command: Vec<String>,
    pub began: Option<String>,
    pub source: String,
    pub group: String,
    pub root: String,
    pub interface: String,
    pub mtu_bytes: u64,
    /// Switches and hosts as a topology file; without it, all hosts were assumed on one switch.
    pub topology: Option<String>,
    pub plan: Option<PlanRecord>,
    pub candidates: Vec<Candidate>,
    pub slow_cable: Option<String>,
    pub held_up_by: Option<String>,
    #[serde(rename = "aside")]
    pub demoted: Vec<String>,
    /// Seconds of one copy over the path between two hosts alone, as measured before the start.
    pub copy_seconds: Option<f64>,
    pub processor_seconds: Option<f64>,
    pub cut_off_seconds: f64,
    pub others: Option<Others>,
    pub timeline: Timeline,
}

/// Other traffic on the link with most of it: the time for which it lasted, and its share of the
/// link in that time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Others {
    pub host: String,
    pub seconds: f64,
    pub share: f64,
    pub sessions: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlanRecord {
    pub via: String,
    pub hosts: Vec<String>,
    pub edges: Vec<Edge>,
}

/// Sender and receiver, each sender's in sending order; `half` is 1 in the second of two trees.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Edge {
    pub from: String,
    pub to: String,
    pub half: usize,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Candidate {
    pub via: String,
    pub predicted_seconds: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Timeline {
    pub seconds: Vec<f64>,
    /// Bytes that the root had sent or had ready, at each moment.
    pub sent_bytes: Vec<u64>,
    pub resent_frames: Vec<u64>,
    pub receivers: Vec<Track>,
    pub incidents: Vec<Incident>,
    pub incidents_left_out: u64,
}

/// Bytes that had arrived in order at a host, and its state as a letter, at each moment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Track {
    pub host: String,
    pub bytes: Vec<u64>,
    pub states: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Incident {
    pub seconds: f64,
    pub kind: String,
    pub hosts: Vec<String>,
    pub text: String,
}

impl Kept {
    pub fn read(object: Value) -> Result<Kept, String> {
        if object["receivers"].as_array().is_none() {
            return Err("is no report of `send`: it names no receivers".to_owned());
        }
        let kept: Kept = serde_json::from_value(object)
            .map_err(|error| format!("is no report of `send`: {error}"))?;
        if kept.receivers.is_empty() {
            return Err("is the report of a run without receivers".to_owned());
        }
        Ok(kept)
    }

    /// Whether the times are those of one session. Those of several show nothing of a cable.
    pub fn is_of_one_round(&self) -> bool {
        self.rounds <= 1
    }

    pub fn has_all(receiver: &Receiver) -> bool {
        receiver.status == "verified"
    }

    pub fn failed(&self) -> impl Iterator<Item = &Receiver> {
        self.receivers.iter().filter(|one| !Kept::has_all(one))
    }

    /// Returns the bytes sent to every receiver: all, or the missing ones if receivers had some.
    /// The furthest position counts for a stream that was not read to its end.
    pub fn length(&self) -> u64 {
        let timeline = self.run.iter().map(|run| &run.timeline);
        let furthest = timeline
            .flat_map(|timeline| timeline.sent_bytes.iter().copied())
            .max()
            .unwrap_or_default();
        let known = if self.sent_bytes.is_some() && furthest > 0 {
            furthest
        } else {
            self.bytes
        };
        if known > 0 { known } else { furthest.max(1) }
    }
}

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
    let command: Vec<String> = config::own_line()
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
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
        "aside": sent.demoted,
        "copy_seconds": choice.and_then(|choice| choice.copy_seconds(sent.sent_bytes.unwrap_or(sent.bytes()))),
        "processor_seconds": to_millis(processor_time().as_secs_f64()),
        "cut_off_seconds": to_millis(sent.cut_off.as_secs_f64()),
        "others": sent.other_traffic.as_ref().map(others),
        "timeline": timeline(sent),
    })
}

fn plan(choice: &Choice, sent: &SendReport, root: &str) -> Value {
    let plan = &choice.plan;
    // A receiver that returned has another rank, and the plan contains the former one.
    let tracks = sent
        .history
        .tracks()
        .iter()
        .enumerate()
        .map(|(at, track)| (at + 1, track.host.as_str()));
    let receivers = sent
        .receivers
        .iter()
        .map(|one| (one.rank.index(), one.host.as_str()));
    let hosts: HashMap<usize, &str> = tracks.chain(receivers).chain([(0, root)]).collect();
    let name = |rank: usize| {
        hosts
            .get(&rank)
            .map_or_else(|| format!("rank {rank}"), |&host| host.to_owned())
    };
    json!({
        "via": plan.via().to_string(),
        "hosts": (0..plan.ranks()).map(name).collect::<Vec<_>>(),
        "edges": crate::plan::edges(plan, name),
    })
}

fn others(seen: &OtherTraffic) -> Value {
    let (seconds, share) = (to_millis(seen.lasted.as_secs_f64()), to_millis(seen.share));
    json!({ "host": seen.host, "seconds": seconds, "share": share, "sessions": seen.sessions })
}

fn candidates(choice: &Choice) -> Vec<Value> {
    let one = |via: String, seconds: f64| json!({ "via": via, "predicted_seconds": seconds });
    choice
        .candidates
        .iter()
        .map(|candidate| one(candidate.via.to_string(), candidate.predicted_seconds))
        .collect()
}

fn timeline(sent: &SendReport) -> Value {
    let history = &sent.history;
    let of_moments =
        |what: fn(&Moment) -> Value| history.moments().iter().map(what).collect::<Vec<Value>>();
    json!({
        "seconds": of_moments(|moment| json!(to_millis(moment.at.as_secs_f64()))),
        "sent_bytes": of_moments(|moment| json!(moment.sent_bytes)),
        "resent_frames": of_moments(|moment| json!(moment.resent_frames)),
        "receivers": history.tracks().iter().map(track).collect::<Vec<_>>(),
        "incidents": history.incidents().iter().map(incident).collect::<Vec<_>>(),
        "incidents_left_out": history.left_out(),
    })
}

fn track(track: &LiveTrack) -> Value {
    let states: String = track.states.iter().copied().map(letter).collect();
    json!({ "host": track.host, "bytes": track.bytes, "states": states })
}

fn incident(incident: &LiveIncident) -> Value {
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
