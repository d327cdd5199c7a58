//! What `recv` says at the end: a line, or one JSON object.

use super::sink::Concluded;
use crate::exit::report;
use crate::units;
use ethbcast_collectives::session::{Outcome, Receiver};
use serde_json::json;
use std::time::Duration;

/// The outcome of a session, from a receiver's side.
#[derive(Debug)]
pub struct Report {
    line: Option<String>,
    json: serde_json::Value,
}

impl Report {
    /// Gathers what the receiver knows.
    pub fn new(receiver: &Receiver, host: &str, source: String, concluded: Option<Concluded>, took: Duration) -> Report {
        let stats = receiver.stream_stats();
        let control = receiver.control_stats();
        let delivered = concluded.as_ref().filter(|concluded| concluded.outcome == Outcome::Delivered);
        let line = delivered.map(|concluded| {
            let path = concluded.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
            let rate = concluded.bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9);
            format!("{path}: {} verified in {:.3} s, {}", units::bytes(concluded.bytes), took.as_secs_f64(), units::rate(rate))
        });
        let json = json!({
            "schema": 1,
            "host": host,
            "source": source,
            "rank": receiver.rank(),
            "via": receiver.view().map(|view| view.via.to_string()),
            "status": concluded.as_ref().map_or("failed", |concluded| concluded.outcome.word()),
            "bytes": concluded.as_ref().map_or(0, |concluded| concluded.bytes),
            "blake3": concluded.as_ref().map(|concluded| units::hex(&concluded.digest)),
            "path": concluded.as_ref().and_then(|concluded| concluded.path.as_ref().map(|path| path.display().to_string())),
            "seconds": took.as_secs_f64(),
            "frames": {
                "data_received": stats.data_received,
                "duplicates": stats.duplicates,
                "out_of_order_dropped": stats.out_of_order_dropped,
                "data_sent": stats.data_sent,
                "data_resent": stats.data_resent,
                "control_sent": control.sent + stats.acks_sent + stats.heartbeats_sent,
                "control_received": control.received + stats.acks_received + stats.heartbeats_received,
                "strangers": control.strangers,
                "malformed": control.malformed + stats.malformed,
            },
        });
        Report { line, json }
    }

    /// Prints the report on stdout.
    ///
    /// # Errors
    /// A failure with code 4 if stdout does not take it.
    pub fn print(&self, as_json: bool, quiet: bool) -> anyhow::Result<()> {
        match &self.line {
            _ if as_json => report(&self.json.to_string()),
            Some(line) if !quiet => report(line),
            _ => Ok(()),
        }
    }
}
