//! What the root of `perf` says: one line for each size, or one JSON object.

use crate::args::PerfArgs;
use crate::exit::report;
use crate::units;
use ethbcast_collectives::group::Root;
use serde_json::json;
use std::time::Duration;

/// The measurements of one size, times in seconds.
#[derive(Clone, Debug)]
pub struct Row {
    size_bytes: u64,
    via: String,
    segment_bytes: u64,
    predicted: f64,
    /// Mean of broadcast + barrier.
    broadcast: f64,
    /// Mean of a barrier alone.
    barrier: f64,
    min: f64,
    median: f64,
    p99: f64,
    /// Mean of the middle 80 %: what the EQA paper quotes.
    middle: f64,
}

impl Row {
    /// Sums up what the root measured.
    pub fn new(size_bytes: u64, root: &Root, broadcasts: &[Duration], barriers: &[Duration]) -> Row {
        let sorted = sorted_seconds(broadcasts);
        let choice = root.choice();
        Row {
            size_bytes,
            via: choice.map_or(String::new(), |choice| choice.plan.via().to_string()),
            segment_bytes: choice.map_or(0, |choice| choice.segment_bytes),
            predicted: choice.map_or(f64::NAN, |choice| choice.predicted_seconds),
            broadcast: mean(&sorted),
            barrier: mean(&sorted_seconds(barriers)),
            min: quantile(&sorted, 0.0),
            median: quantile(&sorted, 0.5),
            p99: quantile(&sorted, 0.99),
            middle: mean(&sorted[sorted.len() / 10..sorted.len() - sorted.len() / 10]),
        }
    }

    fn line(&self) -> String {
        let Row { size_bytes, via, segment_bytes, predicted, broadcast, barrier, min, median, p99, .. } = self;
        let times = [broadcast, barrier, min, median, p99, predicted].map(|seconds| format!("{:>11.1}", seconds * 1e6)).concat();
        format!("{:>10}  {via:<18} {segment_bytes:>7}{times}", units::bytes(*size_bytes))
    }
}

fn sorted_seconds(durations: &[Duration]) -> Vec<f64> {
    let mut seconds: Vec<f64> = durations.iter().map(Duration::as_secs_f64).collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The smallest value that so large a part of all values does not exceed.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// All sizes.
#[derive(Debug)]
pub struct Report {
    ranks: u16,
    via: String,
    json: bool,
    quiet: bool,
    rows: Vec<Row>,
}

const HEAD: &str =
    "      size  via                segment   bcast+bar    barrier        min     median        p99  predicted   (times in µs)";

impl Report {
    /// An empty report.
    pub fn new(args: &PerfArgs) -> Report {
        Report { ranks: args.ranks, via: args.via.clone(), json: args.wire.json, quiet: args.wire.quiet, rows: Vec::new() }
    }

    /// Adds a size.
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Says on stderr what has just been measured, if the report itself comes much later.
    pub fn progress(&self) {
        if let Some(row) = self.rows.last().filter(|_| self.json && !self.quiet) {
            eprintln!("{}", row.line());
        }
    }

    /// Prints the report on stdout.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 4 if stdout does not take it.
    pub fn print(&self) -> anyhow::Result<()> {
        if self.json {
            return report(&self.to_json().to_string());
        }
        let lines: Vec<String> = self.rows.iter().map(Row::line).collect();
        report(&format!("{} ranks, every broadcast verified by every rank\n{HEAD}\n{}", self.ranks, lines.join("\n")))
    }

    fn to_json(&self) -> serde_json::Value {
        let result = |row: &Row| {
            json!({
                "size": row.size_bytes,
                "via": row.via,
                "segment_bytes": row.segment_bytes,
                "predicted_seconds": row.predicted,
                "bcast_seconds": row.broadcast,
                "barrier_seconds": row.barrier,
                "min": row.min,
                "median": row.median,
                "p99": row.p99,
                "middle_80_percent_mean": row.middle,
            })
        };
        json!({
            "schema": 1,
            "ranks": self.ranks,
            "via": self.via,
            "results": self.rows.iter().map(result).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let sorted: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| quantile(&sorted, part)), [1.0, 10.0, 20.0, 20.0]);
        assert_eq!(quantile(&[3.0], 0.99), 3.0);
    }
}
