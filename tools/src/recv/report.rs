//! Final output of `recv`: a line or a JSON object.

use crate::exit::{Form, report, report_object};
use crate::units;
use ethbcast_collectives::session::ReceiveReport;
use ethbcast_content::dest::Landed;
use ethbcast_content::disk::Privilege;
use ethbcast_content::name::shown;
use serde_json::{Map, Value, json};

/// Prints a session's outcome on stdout.
///
/// # Errors
/// A failure with code 4 if writing to stdout fails.
pub fn print(received: &ReceiveReport, landed: &Landed, form: Form, quiet: bool) -> anyhow::Result<()> {
    if form != Form::Lines {
        return report_object(&to_json(received, landed), form);
    }
    if quiet || !received.is_delivered() {
        return Ok(());
    }
    report(&line(received, landed))
}

/// Formats the line about bytes delivered to DEST.
pub fn line(received: &ReceiveReport, landed: &Landed) -> String {
    let seconds = received.took.as_secs_f64();
    let rate = units::rate(received.bytes() as f64 * 8.0 / seconds.max(1e-9));
    // A command has no path, and a path may contain characters that a line cannot show.
    let path = landed.path().map_or(received.source.as_bytes(), |path| path.as_os_str().as_encoded_bytes());
    let (path, bytes) = (shown(path), units::bytes(received.bytes()));
    let again = match received.pieces_again {
        0 => String::new(),
        1 => "; 1 piece came damaged and was sent again".to_owned(),
        pieces => format!("; {pieces} pieces came damaged and were sent again"),
    };
    format!("{path}: {bytes} verified in {seconds:.3} s, {rate}{again}")
}

pub fn to_json(received: &ReceiveReport, landed: &Landed) -> Value {
    let ReceiveReport { verdict, stream, control, .. } = received;
    let left_out = landed.not_accepted();
    let not_accepted: Map<String, Value> =
        Privilege::ALL.into_iter().map(|one| (one.word().to_owned(), left_out.count(one).into())).collect();
    json!({
        "schema": 1,
        "host": received.host,
        "source": received.source,
        "rank": received.rank.map(|rank| rank.0),
        "via": received.via.map(|via| via.to_string()),
        "status": verdict.as_ref().map_or("failed", |verdict| verdict.outcome.status_and_reason(&verdict.text).0),
        "bytes": received.bytes(),
        "blake3": verdict.as_ref().map(|verdict| units::hex(&verdict.digest)),
        "reason": received.check().err().map(|error| error.to_string()),
        "path": landed.path().map(|path| path.display().to_string()),
        "not_accepted": not_accepted,
        "note": verdict.as_ref().filter(|own| received.is_delivered() && !own.text.is_empty()).map(|own| &own.text),
        "pieces_again": received.pieces_again,
        "seconds": received.took.as_secs_f64(),
        "frames": {
            "data_received": stream.data_received,
            "duplicates": stream.duplicates,
            "out_of_order_dropped": stream.out_of_order_dropped,
            "data_sent": stream.data_sent,
            "data_resent": stream.data_resent,
            "control_sent": control.sent + stream.acks_sent + stream.heartbeats_sent,
            "control_received": control.received + stream.acks_received + stream.heartbeats_received,
            "strangers": control.strangers,
            "malformed": control.malformed + stream.malformed,
        },
    })
}
