//! `send --dry-run`: the chosen algorithm with its reason, and the amount of data if receivers have
//! some already.

use crate::exit::{Form, report, report_object};
use crate::units;
use ethbcast_collectives::session::Lacking;
use ethbcast_planning::duration;
use ethbcast_planning::model::{Choice, Estimate};
use serde_json::json;

/// Prints the choice and its alternatives, and the missing bytes out of `size` if receivers have
/// some already.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 4 if writing to stdout fails.
pub fn print(choice: &Choice, lacking: Option<Lacking>, size: Option<u64>, form: Form) -> anyhow::Result<()> {
    if form != Form::Lines {
        return report_object(&to_json(choice, lacking), form);
    }
    let lines: Vec<String> = choice.candidates.iter().map(line).collect();
    let lacking = lacking.map_or(String::new(), |lacking| format!("{}\n", words(lacking, size)));
    report(&format!(
        "{lacking}{}\n{:<20} {:>12} {:>10} {:>7} {:>7}\n{}",
        choice.reason,
        "via",
        "predicted",
        "segment",
        "height",
        "degree",
        lines.join("\n")
    ))
}

fn line(candidate: &Estimate) -> String {
    let Estimate { via, segment_bytes, predicted_seconds, height, degree, .. } = candidate;
    let (predicted, segment) = (duration(*predicted_seconds), units::bytes(*segment_bytes));
    format!("{:<20} {predicted:>12} {segment:>10} {height:>7} {degree:>7}", via.to_string())
}

fn words(Lacking { together_bytes, alone_bytes }: Lacking, size: Option<u64>) -> String {
    let bytes = together_bytes + alone_bytes;
    let of = size.filter(|&size| size > 0).map_or(String::new(), |size| {
        format!(" of {} ({:.2} %)", units::bytes(size), bytes as f64 * 100.0 / size as f64)
    });
    let alone = match alone_bytes {
        0 => String::new(),
        alone => format!(", {} of them to single receivers, as nobody else lacks them", units::bytes(alone)),
    };
    format!("{}{of} would be sent: receivers have the rest{alone}; predicted is all of it", units::bytes(bytes))
}

fn to_json(choice: &Choice, lacking: Option<Lacking>) -> serde_json::Value {
    let candidate = |candidate: &Estimate| {
        json!({
            "via": candidate.via.to_string(),
            "segment_bytes": candidate.segment_bytes,
            "predicted_seconds": candidate.predicted_seconds,
            "height": candidate.height,
            "degree": candidate.degree,
        })
    };
    json!({
        "schema": 1,
        "via": choice.plan.via().to_string(),
        "segment_bytes": choice.segment_bytes,
        "predicted_seconds": choice.predicted_seconds,
        "reason": choice.reason,
        "lacking_bytes": lacking.map(|lacking| lacking.together_bytes + lacking.alone_bytes),
        "lacking_alone_bytes": lacking.map(|lacking| lacking.alone_bytes),
        "candidates": choice.candidates.iter().map(candidate).collect::<Vec<_>>(),
    })
}
