//! What `send` says at the end: one line for each receiver and a total, or one JSON object.

use crate::exit::{Code, Failure, report};
use crate::units;
use ethbcast_collectives::group::{ControlStats, MemberReport, Outcome, Root, Trailer};
use ethbcast_collectives::plan::Via;
use ethbcast_transport::Instant;
use ethbcast_transport::stream::StreamStats;
use serde_json::json;

/// The outcome of a session, from the root's side.
#[derive(Debug)]
pub struct Report {
    session: u32,
    via: Via,
    trailer: Option<Trailer>,
    segment_bytes: u16,
    seconds: f64,
    total_seconds: f64,
    stream: StreamStats,
    control: ControlStats,
    receivers: Vec<MemberReport>,
}

impl Report {
    /// Gathers what the root knows.
    pub fn new(root: &Root, session: u32, via: Via, trailer: Option<Trailer>, now: Instant) -> Report {
        Report {
            session,
            via,
            trailer,
            segment_bytes: root.view().map_or(0, |view| view.payload_bytes),
            seconds: root.took().as_secs_f64(),
            total_seconds: now.as_secs_f64(),
            stream: root.stream_stats(),
            control: root.control_stats(),
            receivers: root.reports().cloned().collect(),
        }
    }

    fn verified(&self) -> usize {
        self.receivers.iter().filter(|member| member.outcome == Outcome::Delivered).count()
    }

    fn bytes(&self) -> u64 {
        self.trailer.map_or(0, |trailer| trailer.bytes)
    }

    fn goodput_bits_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes() as f64 * 8.0 / self.seconds } else { 0.0 }
    }

    /// Prints the report on stdout.
    ///
    /// # Errors
    /// A [`Failure`] with code 4 if stdout does not take it.
    pub fn print(&self, as_json: bool, quiet: bool) -> anyhow::Result<()> {
        match (as_json, quiet) {
            (true, _) => report(&self.to_json().to_string()),
            (false, false) => report(&self.to_lines()),
            (false, true) => Ok(()),
        }
    }

    fn to_lines(&self) -> String {
        let line = |report: &MemberReport| {
            let MemberReport { host, outcome, bytes, took, text, .. } = report;
            let text = if text.is_empty() { String::new() } else { format!("  {text}") };
            format!("{host:<16} {:<12} {:>12}  {:>8.3} s{text}\n", outcome.word(), units::bytes(*bytes), took.as_secs_f64())
        };
        let lines: String = self.receivers.iter().map(line).collect();
        format!(
            "{lines}{} of {} receivers verified {} via {} in {:.3} s: {} ({} frames sent, {} again)",
            self.verified(),
            self.receivers.len(),
            units::bytes(self.bytes()),
            self.via,
            self.seconds,
            units::rate(self.goodput_bits_per_second()),
            self.stream.data_sent,
            self.stream.data_resent,
        )
    }

    fn to_json(&self) -> serde_json::Value {
        let receivers: Vec<_> = self.receivers.iter().map(receiver_json).collect();
        json!({
            "schema": 1,
            "session": format!("{:08x}", self.session),
            "bytes": self.bytes(),
            "seconds": self.seconds,
            "total_seconds": self.total_seconds,
            "goodput_bits_per_second": self.goodput_bits_per_second(),
            "blake3": self.trailer.map(|trailer| units::hex(&trailer.digest)),
            "via": self.via.to_string(),
            "segment_bytes": self.segment_bytes,
            // There is no model yet to predict with.
            "predicted_seconds": null,
            "frames": {
                "data_sent": self.stream.data_sent,
                "data_resent": self.stream.data_resent,
                "control_sent": self.control.sent + self.stream.heartbeats_sent,
                "control_received": self.control.received + self.stream.acks_received,
            },
            "receivers": receivers,
        })
    }

    /// Success only if every receiver has verified the bytes.
    ///
    /// # Errors
    /// A [`Failure`] that lists who did not.
    pub fn verdict(&self) -> anyhow::Result<()> {
        let failed: Vec<&MemberReport> = self.receivers.iter().filter(|member| member.outcome != Outcome::Delivered).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = failed.iter().map(|report| format!("{} ({})", report.host, report.outcome.word())).collect();
        let text =
            format!("{} of {} receivers failed: {}; send again to them", failed.len(), self.receivers.len(), names.join(", "));
        Err(Failure::new(Code::SomeFailed, text).into())
    }
}

fn receiver_json(report: &MemberReport) -> serde_json::Value {
    json!({
        "host": report.host,
        "rank": report.rank,
        "status": report.outcome.word(),
        "bytes": report.bytes,
        "blake3": if report.bytes > 0 || report.outcome == Outcome::Delivered { Some(units::hex(&report.digest)) } else { None },
        "seconds": report.took.as_secs_f64(),
    })
}
