//! A report of `send` as it is read again. Whoever wrote the file may be anybody: nothing in it is believed but by its
//! type, and what is missing is not shown.

use serde::Deserialize;
use serde_json::Value;

/// The version of the reports that can be read.
const SCHEMA: u64 = 1;

/// The object of a report, if it is of the version that this program reads.
///
/// # Errors
/// What it is instead, to be read after the file's name.
pub fn object(text: &str) -> Result<Value, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| format!("is no report of `send`: {error}"))?;
    match report["schema"].as_u64() {
        Some(SCHEMA) => Ok(report),
        Some(other) => Err(format!("is a report of version {other}, this program reads version {SCHEMA}")),
        None => Err("is no report of `send`: it names no schema".to_owned()),
    }
}

/// A report.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// The session's number, in hexadecimal.
    pub session: String,
    /// Bytes that were sent.
    pub bytes: u64,
    /// From the first data frame to the last verdict.
    pub seconds: f64,
    /// From the first invitation to the end.
    pub total_seconds: f64,
    /// The bytes' bits by the time they took.
    pub goodput_bits_per_second: f64,
    /// Bytes that went for it, if receivers had some already.
    pub sent_bytes: Option<u64>,
    /// Their digest, if all were read.
    pub blake3: Option<String>,
    /// How they travelled.
    pub via: String,
    /// Whether they went on another way.
    pub rerouted: bool,
    /// The protocol of a cast.
    pub preset: String,
    /// Bytes of a segment.
    pub segment_bytes: Option<u64>,
    /// What it was predicted to take.
    pub predicted_seconds: Option<f64>,
    /// Why it went that way.
    pub reason: Option<String>,
    /// Why it took another time than predicted.
    pub surprise: Option<String>,
    /// Cables that several hosts sent over.
    pub contention: Option<Vec<Contended>>,
    /// Frames of the root.
    pub frames: Frames,
    /// Receivers, by rank.
    pub receivers: Vec<Receiver>,
    /// What came damaged.
    pub damaged: Vec<Damaged>,
    /// Who did not take part.
    pub left_out: Vec<LeftOut>,
    /// What is not of the outcome: circumstances, plan, course. Reports of earlier programs have none.
    pub run: Option<Run>,
}

/// A cable that several hosts sent over.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Contended {
    /// The end that frames enter.
    pub from: String,
    /// The other.
    pub to: String,
    /// Different hosts that sent over it.
    pub senders: u64,
}

/// Frames of the root.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Frames {
    /// Data, for the first time.
    pub data_sent: u64,
    /// Data, again.
    pub data_resent: u64,
    /// Others.
    pub control_sent: u64,
    /// Of others.
    pub control_received: u64,
}

/// What became of a receiver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Receiver {
    /// Its name.
    pub host: String,
    /// Its rank.
    pub rank: u64,
    /// How it fared, in a word.
    pub status: String,
    /// Bytes that it received.
    pub bytes: u64,
    /// From the first data frame to its verdict.
    pub seconds: f64,
    /// Why it failed.
    pub reason: Option<String>,
    /// Data frames that it took, as it says.
    pub frames: Option<u64>,
    /// Those of them that had been lost on the way before.
    pub repaired_frames: Option<u64>,
}

/// Bytes that came damaged over a hop.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Damaged {
    /// How many.
    pub bytes: u64,
    /// Who sent them, if it was one host alone.
    pub from: Option<String>,
    /// To whom they came damaged.
    pub to: Vec<String>,
}

/// Somebody who did not take part.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    /// Its name.
    pub host: String,
    /// Why.
    pub reason: String,
}

/// How the run was, and how to repeat it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Run {
    /// The program's version.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it began.
    pub began: Option<String>,
    /// What the bytes are called.
    pub source: String,
    /// The group.
    pub group: String,
    /// The host that sent.
    pub root: String,
    /// Its interface.
    pub interface: String,
    /// The MTU of the frames.
    pub mtu_bytes: u64,
    /// The switches and hosts, as a topology file; without it all hosts were taken to be on one switch.
    pub topology: Option<String>,
    /// Who sent to whom.
    pub plan: Option<PlanRecord>,
    /// All ways that were priced.
    pub candidates: Vec<Candidate>,
    /// The cable or host that decides how long the plan takes, if not all are alike.
    pub slow_cable: Option<String>,
    /// Who most often took frames more slowly than they came.
    pub held_up_by: Option<String>,
    /// Who was served beside the others.
    pub aside: Vec<String>,
    /// How long the root's own interface was away, or had no link.
    pub cut_off_seconds: f64,
    /// How it went.
    pub timeline: Timeline,
}

/// Who sends to whom.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlanRecord {
    /// The way.
    pub via: String,
    /// The hosts, by rank.
    pub hosts: Vec<String>,
    /// Who sends to whom, each sender's in sending order.
    pub edges: Vec<Edge>,
}

/// One host sends to another.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Edge {
    /// The one.
    pub from: String,
    /// The other.
    pub to: String,
}

/// A way that was priced.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Candidate {
    /// The way.
    pub via: String,
    /// What it would take.
    pub predicted_seconds: f64,
}

/// Moments, and where everybody was.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// The moments.
    pub seconds: Vec<f64>,
    /// What the root had sent, or held ready.
    pub sent_bytes: Vec<u64>,
    /// Frames that it had sent again.
    pub resent_frames: Vec<u64>,
    /// The receivers, by rank.
    pub receivers: Vec<Track>,
    /// What happened.
    pub incidents: Vec<Incident>,
    /// What more there was.
    pub incidents_left_out: u64,
}

/// Where a receiver was at each moment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Track {
    /// Its name.
    pub host: String,
    /// What had arrived in order.
    pub bytes: Vec<u64>,
    /// A letter for each moment: what it was busy with.
    pub states: String,
}

/// Something that happened.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Incident {
    /// When.
    pub seconds: f64,
    /// What, in a word.
    pub kind: String,
    /// To whom.
    pub hosts: Vec<String>,
    /// What, in a sentence.
    pub text: String,
}

impl Kept {
    /// Reads the object of a report.
    ///
    /// # Errors
    /// What is wrong with it, to be read after its name.
    pub fn read(object: Value) -> Result<Kept, String> {
        if object["receivers"].as_array().is_none() {
            return Err("is no report of `send`: it names no receivers".to_owned());
        }
        let kept: Kept = serde_json::from_value(object).map_err(|error| format!("is no report of `send`: {error}"))?;
        if kept.receivers.is_empty() {
            return Err("is the report of a run without receivers".to_owned());
        }
        Ok(kept)
    }

    /// Whether a receiver has everything.
    pub fn has_all(receiver: &Receiver) -> bool {
        receiver.status == "verified"
    }

    /// Those who have not got everything.
    pub fn failed(&self) -> impl Iterator<Item = &Receiver> {
        self.receivers.iter().filter(|one| !Kept::has_all(one))
    }

    /// What went to all, in bytes: everything, or if receivers had some already, the rest. Of a stream that was not
    /// read to its end, what got furthest.
    pub fn length(&self) -> u64 {
        let timeline = self.run.iter().map(|run| &run.timeline);
        let furthest = timeline.flat_map(|timeline| timeline.sent_bytes.iter().copied()).max().unwrap_or_default();
        let known = if self.sent_bytes.is_some() && furthest > 0 { furthest } else { self.bytes };
        if known > 0 { known } else { furthest.max(1) }
    }
}
