//! `send --dry-run`: how the bytes would travel, and why.

use crate::exit::{Form, report, report_object};
use crate::units;
use ethbcast_planning::duration;
use ethbcast_planning::model::{Choice, Estimate};
use serde_json::json;

/// Prints the choice and what else there was.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 4 if stdout does not take it.
pub fn print(choice: &Choice, form: Form) -> anyhow::Result<()> {
    if form != Form::Lines {
        return report_object(&to_json(choice), form);
    }
    let lines: Vec<String> = choice.candidates.iter().map(line).collect();
    report(&format!(
        "{}\n{:<20} {:>12} {:>10} {:>7} {:>7}\n{}",
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

fn to_json(choice: &Choice) -> serde_json::Value {
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
        "candidates": choice.candidates.iter().map(candidate).collect::<Vec<_>>(),
    })
}
