//! The report as JSON.

use serde_json::{Value, json};

use crate::report::{Cell, Report, Run};

/// Converts the report to a JSON object.
pub fn json(report: &Report) -> Value {
    let named = |pairs: &[(String, String)]| -> Value {
        pairs
            .iter()
            .map(|(name, is)| (name.clone(), Value::from(is.as_str())))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    json!({
        "schema": 1,
        "machine": named(&report.machine),
        "skipped": named(&report.skipped),
        "cells": report.cells.iter().map(cell).collect::<Vec<_>>(),
    })
}

fn cell(cell: &Cell) -> Value {
    let setting = &cell.setting;
    let winner = cell.winner();
    json!({
        "receivers": setting.receivers,
        "mtu": setting.mtu_bytes,
        "rate_bits_per_second": setting.rate,
        "loss": setting.loss,
        "size": setting.size_bytes,
        "kind": if setting.is_file() { "file" } else { "message" },
        "wire_seconds": setting.wire_seconds(),
        "raw_broadcast_bits_per_second": cell.raw.broadcast_bits_per_second,
        "raw_chain_bits_per_second": cell.raw.chain_bits_per_second,
        "fastest": winner.as_ref().map(|winner| winner.tool),
        "runs": cell.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

fn run(run: &Run) -> Value {
    match &run.outcome {
        Ok(figures) => json!({
            "tool": run.tool,
            "own": run.is_own,
            "seconds": figures.seconds,
            "processor_seconds_per_gib": figures.processor_seconds_per_gib,
            "verified": figures.verified,
        }),
        Err(why) => json!({ "tool": run.tool, "own": run.is_own, "failed": why }),
    }
}
