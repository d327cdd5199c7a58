//! Results of the benchmark, as text and as JSON. Repeated runs have tables and statistics of their
//! times.

use crate::cluster::Ceiling;
use ethbcast_lab::format_rate;
use ethbcast_transport::wire::{HEADER_BYTES, OVERHEAD_BYTES};
use serde_json::{Value, json};
use std::fmt::Write;

/// Largest broadcast that is measured in memory, in bytes; larger ones are files.
pub const MAX_MESSAGE: u64 = 1 << 20;

/// Setting of a cell. Unshaped cables have no rate, and 0 as the bytes that a token bucket passes
/// at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub receivers: u16,
    pub mtu_bytes: u32,
    pub rate: Option<u64>,
    pub loss: f64,
    pub size_bytes: u64,
    pub burst_bytes: u64,
}

impl Setting {
    /// Returns the least time of one copy on a cable, in frames with our headers as the lab counts
    /// them; none if cables are unshaped.
    pub fn wire_seconds(&self) -> Option<f64> {
        let payload = u64::from(self.mtu_bytes) - HEADER_BYTES as u64;
        let bytes = self.size_bytes + self.size_bytes.div_ceil(payload) * OVERHEAD_BYTES as u64;
        self.rate.map(|rate| bytes as f64 * 8.0 / rate as f64)
    }

    /// Returns the time below which a broadcast cannot have crossed a cable: that of one copy, less
    /// the burst of the cable's token bucket.
    pub fn least_seconds(&self) -> f64 {
        let burst_seconds = self
            .rate
            .map_or(0.0, |rate| self.burst_bytes as f64 * 8.0 / rate as f64);
        self.wire_seconds()
            .map_or(0.0, |seconds| seconds - burst_seconds)
    }

    pub fn is_file(&self) -> bool {
        self.size_bytes > MAX_MESSAGE
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Median time in seconds: for a file from the first data on the sender's cable to the sender's
    /// end, for a message from the call to the end of its barrier.
    pub seconds: f64,
    /// Processor time of all programs per GiB received, in seconds; unknown for messages.
    pub processor_seconds_per_gib: Option<f64>,
    pub verified: u16,
    /// Whether the interface of every receiver counted at least the bytes of all broadcasts.
    pub is_counted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub tool: String,
    pub is_own: bool,
    pub outcome: Result<Figures, String>,
}

impl Run {
    /// Returns the time in seconds, if all receivers have correct data.
    pub fn seconds(&self, receivers: u16) -> Option<f64> {
        self.outcome
            .as_ref()
            .ok()
            .filter(|figures| figures.verified == receivers)
            .map(|figures| figures.seconds)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub setting: Setting,
    pub raw: Ceiling,
    pub runs: Vec<Run>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Winner<'a> {
    pub tool: &'a str,
    pub is_own: bool,
    /// Ratio of the best other tool's time to the winner's, of ours if the winner is not ours;
    /// `None` if no other finished.
    pub factor: Option<f64>,
}

impl Cell {
    /// Whether the bytes of a run that finished crossed the cables: the receivers' interfaces
    /// counted them, and it took no less than a cable takes. Hosts of a lab are on one machine, and
    /// some tools find its shared memory.
    pub fn is_over_wire(&self, figures: &Figures) -> bool {
        figures.is_counted && figures.seconds >= self.setting.least_seconds()
    }

    pub fn seconds(&self, run: &Run) -> Option<f64> {
        let figures = run.outcome.as_ref().ok()?;
        run.seconds(self.setting.receivers)
            .filter(|_| self.is_over_wire(figures))
    }

    /// Returns the time of raw frames for this size, as a broadcast and as a chain.
    pub fn raw_seconds(&self) -> [(&'static str, f64); 2] {
        let bits = self.setting.size_bytes as f64 * 8.0;
        [
            ("raw broadcast", self.raw.broadcast_bits_per_second),
            ("raw chain", self.raw.chain_bits_per_second),
        ]
        .map(|(name, rate)| (name, bits / rate))
    }

    /// Returns the fastest of all that finished over the wire, compared with others if there are
    /// any.
    pub fn winner(&self) -> Option<Winner<'_>> {
        let best = |own: bool| {
            let runs = self.runs.iter().filter(move |run| run.is_own == own);
            let timed = runs.filter_map(|run| Some((run, self.seconds(run)?)));
            timed.min_by(|one, other| one.1.total_cmp(&other.1))
        };
        let (won, other) = match (best(true), best(false)) {
            (Some(ours), Some(theirs)) if ours.1 <= theirs.1 => (ours, Some(theirs)),
            (Some(ours), Some(theirs)) => (theirs, Some(ours)),
            (ours, theirs) => (ours.or(theirs)?, None),
        };
        let (run, seconds) = won;
        Some(Winner {
            tool: &run.tool,
            is_own: run.is_own,
            factor: other.map(|other| other.1 / seconds),
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub machine: Vec<(String, String)>,
    pub skipped: Vec<(String, String)>,
    pub cells: Vec<Cell>,
}

impl Report {
    pub fn all_verified(&self) -> bool {
        let good = |cell: &Cell| {
            let mut own = cell.runs.iter().filter(|run| run.is_own);
            own.all(|run| run.seconds(cell.setting.receivers).is_some())
        };
        self.cells.iter().all(good)
    }

    pub fn tools(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for run in self.cells.iter().flat_map(|cell| &cell.runs) {
            if !names.contains(&run.tool.as_str()) {
                names.push(&run.tool);
            }
        }
        names
    }
}

pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

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
        "runs": cell.runs.iter().map(|of| run(cell, of)).collect::<Vec<_>>(),
    })
}

fn run(cell: &Cell, run: &Run) -> Value {
    match &run.outcome {
        Ok(figures) => json!({
            "tool": run.tool,
            "own": run.is_own,
            "seconds": figures.seconds,
            "processor_seconds_per_gib": figures.processor_seconds_per_gib,
            "verified": figures.verified,
            "over_wire": cell.is_over_wire(figures),
        }),
        Err(why) => json!({ "tool": run.tool, "own": run.is_own, "failed": why }),
    }
}

const WIRE_LIMIT: &str = "wire limit";
const NOT_OVER_WIRE: &str = "not over the wire";

pub fn text(report: &Report) -> String {
    let mut text = table(report).aligned();
    text += "\nFastest:\n";
    for cell in &report.cells {
        text += &format!("  {}: {}\n", place(cell), fastest(cell));
    }
    for (tool, why) in &report.skipped {
        text += &format!("not measured: {tool}: {why}\n");
    }
    text += "\nseconds: files from the first data on the sender's cable to the sender's end, the median of all runs; \
             messages from the call to the end of the barrier behind it, the median.\n\
             wire limit: one copy on a cable in frames with 46 bytes of headers. raw: frames without a protocol, by \
             the same driver, in this run and without loss.\n\
             not over the wire: a receiver's interface did not count the bytes, or it took less than a cable takes.\n\
             CPU s/GiB: processor time of all programs for each GiB at a receiver.\n";
    let machine: Vec<String> = report
        .machine
        .iter()
        .map(|(what, is)| format!("{what} {is}"))
        .collect();
    text + &machine.join(", ")
}

/// Columns of the ratios.
const TIMES_WIRE: usize = 7;
const SHARE_OF_RAW: usize = 8;

pub fn table(report: &Report) -> Table {
    let mut table = Table::under(
        "receivers, MTU, rate, loss, size, tool, seconds, x wire, % of raw, CPU s/GiB, verified, remark",
    );
    for cell in &report.cells {
        let limit = cell.setting.wire_seconds();
        if let Some(limit) = limit {
            table.push(row(cell, WIRE_LIMIT, Some(limit), ["", "", ""]));
        }
        for (name, seconds) in cell.raw_seconds() {
            table.push(row(cell, name, Some(seconds), ["", "", ""]));
        }
        for run in &cell.runs {
            table.push(row_of(cell, run));
        }
    }
    table
}

fn row_of(cell: &Cell, run: &Run) -> Vec<String> {
    let receivers = cell.setting.receivers;
    match &run.outcome {
        Err(why) => row(cell, &run.tool, None, ["-", "-", why]),
        Ok(figures) => {
            let cost = figures
                .processor_seconds_per_gib
                .map_or_else(|| "-".to_owned(), |cost| format!("{cost:.2}"));
            let remark = if figures.verified == receivers {
                ""
            } else {
                "the others' bytes are not the source's"
            };
            let verified = format!("{}/{receivers}", figures.verified);
            let mut row = row(
                cell,
                &run.tool,
                Some(figures.seconds),
                [&cost, &verified, remark],
            );
            if !cell.is_over_wire(figures) {
                // A ratio would compare memory with a cable.
                (row[TIMES_WIRE], row[SHARE_OF_RAW]) = (NOT_OVER_WIRE.to_owned(), "-".to_owned());
            }
            row
        }
    }
}

fn row(
    cell: &Cell,
    tool: &str,
    seconds: Option<f64>,
    [cost, verified, remark]: [&str; 3],
) -> Vec<String> {
    let setting = &cell.setting;
    let times = setting
        .wire_seconds()
        .zip(seconds)
        .map(|(limit, seconds)| format!("{:.3}", seconds / limit));
    // A chain is compared with the raw chain, everything else with the raw broadcast.
    let raw = cell.raw_seconds()[usize::from(tool.contains("chain"))].1;
    let share = seconds
        .filter(|_| tool != WIRE_LIMIT)
        .map(|seconds| raw / seconds);
    let dash = || "-".to_owned();
    vec![
        setting.receivers.to_string(),
        setting.mtu_bytes.to_string(),
        setting
            .rate
            .map_or_else(|| "unshaped".to_owned(), format_rate),
        format!("{} %", setting.loss * 100.0),
        size(setting.size_bytes),
        tool.to_owned(),
        seconds.map_or_else(dash, time),
        times.unwrap_or_else(dash),
        share.map_or_else(dash, |share| format!("{:.0}", share * 100.0)),
        cost.to_owned(),
        verified.to_owned(),
        remark.to_owned(),
    ]
}

pub fn receivers(count: u16) -> String {
    if count == 1 {
        "1 receiver".to_owned()
    } else {
        format!("{count} receivers")
    }
}

pub fn place(cell: &Cell) -> String {
    let setting = &cell.setting;
    let rate = setting
        .rate
        .map_or_else(|| "unshaped".to_owned(), format_rate);
    format!(
        "{} to {}, MTU {}, {rate}, loss {} %",
        size(setting.size_bytes),
        receivers(setting.receivers),
        setting.mtu_bytes,
        setting.loss * 100.0
    )
}

pub fn fastest(cell: &Cell) -> String {
    match cell.winner() {
        None => "nobody finished".to_owned(),
        Some(Winner {
            tool, factor: None, ..
        }) => tool.to_owned(),
        Some(Winner {
            tool,
            is_own: true,
            factor: Some(factor),
        }) => {
            format!("{tool}, {factor:.2} x faster than the best of the others")
        }
        Some(Winner {
            tool,
            is_own: false,
            factor: Some(factor),
        }) => format!("{tool}, {factor:.2} x faster than ours"),
    }
}

pub fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 100.0 => format!("{seconds:.1}"),
        seconds if seconds >= 1.0 => format!("{seconds:.3}"),
        seconds if seconds >= 0.001 => format!("{seconds:.5}"),
        seconds => format!("{seconds:.7}"),
    }
}

#[derive(Clone, Debug)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(heading: &[impl AsRef<str>]) -> Self {
        Self {
            heading: heading
                .iter()
                .map(|cell| cell.as_ref().to_owned())
                .collect(),
            rows: Vec::new(),
        }
    }

    pub fn under(heading: &str) -> Self {
        Self::new(&heading.split(',').map(str::trim).collect::<Vec<_>>())
    }

    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(
            row.len(),
            self.heading.len(),
            "a row has one cell per column"
        );
        self.rows.push(row);
    }

    /// Formats the table in columns, two blanks apart. The first column and the last, which may be
    /// long, are left-aligned, the others right-aligned.
    pub fn aligned(&self) -> String {
        let last = self.heading.len().saturating_sub(1);
        let lines = || self.lines();
        let width = |column: usize| {
            lines()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        let mut text = String::new();
        for line in lines() {
            let cells = line
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ if column == last => (*cell).to_owned(),
                    _ => format!("{cell:>width$}"),
                });
            writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
                .expect("writing to a String cannot fail");
        }
        text
    }

    pub fn csv(&self) -> String {
        self.lines()
            .map(|line| {
                line.iter()
                    .map(|cell| quoted(cell))
                    .collect::<Vec<_>>()
                    .join(",")
                    + "\n"
            })
            .collect()
    }

    pub fn lines(&self) -> impl Iterator<Item = Vec<&str>> {
        std::iter::once(&self.heading)
            .chain(&self.rows)
            .map(|line| line.iter().map(String::as_str).collect())
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Returns the median, the mean of the two middle values for an even number; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Mean without the lowest and the highest tenth, as in the EQA paper (§4).
    pub middle80: f64,
    pub median: f64,
    pub p99: f64,
}

impl Times {
    pub fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        // Nearest-rank quantile, as in `ethbcast perf`.
        let quantile = |part: f64| {
            seconds
                .get(((part * seconds.len() as f64).ceil() as usize).saturating_sub(1))
                .copied()
        };
        let tenth = seconds.len() / 10;
        let middle = &seconds[tenth..seconds.len() - tenth];
        Some(Self {
            middle80: middle.iter().sum::<f64>() / middle.len() as f64,
            median: quantile(0.5)?,
            p99: quantile(0.99)?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn cell(setting: Setting, times: &[(&str, Option<f64>)]) -> Cell {
        let run = |&(tool, seconds): &(&str, Option<f64>)| Run {
            tool: tool.to_owned(),
            is_own: tool.starts_with("ethbcast"),
            outcome: seconds
                .ok_or_else(|| "it <failed>".to_owned())
                .map(|seconds| Figures {
                    seconds,
                    processor_seconds_per_gib: setting.is_file().then_some(1.5),
                    verified: setting.receivers,
                    is_counted: true,
                }),
        };
        let raw = Ceiling {
            broadcast_bits_per_second: 1e9,
            chain_bits_per_second: 5e8,
        };
        Cell {
            setting,
            raw,
            runs: times.iter().map(run).collect(),
        }
    }

    pub(crate) fn setting(receivers: u16, size_bytes: u64, loss: f64) -> Setting {
        Setting {
            receivers,
            mtu_bytes: 1500,
            rate: Some(100_000_000),
            loss,
            size_bytes,
            burst_bytes: 6250,
        }
    }

    #[test]
    fn the_fastest_tool_is_named_even_if_it_is_another() {
        let winner = |times: &[(&str, Option<f64>)]| {
            let cell = cell(setting(3, 1 << 24, 0.0), times);
            cell.winner()
                .map(|winner| (winner.tool.to_owned(), winner.is_own, winner.factor))
        };
        let (chain, cast) = ("ethbcast chain", "ethbcast cast");
        assert_eq!(
            winner(&[
                (chain, Some(2.0)),
                (cast, Some(3.0)),
                ("udpcast", Some(5.0)),
                ("uftp", None)
            ]),
            Some((chain.to_owned(), true, Some(2.5)))
        );
        assert_eq!(
            winner(&[(chain, Some(4.0)), ("TCP chain", Some(2.0))]),
            Some(("TCP chain".to_owned(), false, Some(2.0)))
        );
        assert_eq!(
            winner(&[(chain, Some(2.0)), (cast, None)]),
            Some((chain.to_owned(), true, None))
        );
        assert_eq!(winner(&[(chain, None)]), None);
    }

    #[test]
    fn a_run_whose_receivers_do_not_all_have_the_bytes_has_no_time() {
        let mut broken = cell(setting(3, 1 << 24, 0.0), &[("ethbcast chain", Some(2.0))]);
        let report = |cell: &Cell| Report {
            machine: vec![],
            skipped: vec![],
            cells: vec![cell.clone()],
        };
        assert!(report(&broken).all_verified());
        broken.runs[0].outcome.as_mut().expect("finished").verified = 2;
        assert_eq!(
            (broken.winner(), report(&broken).all_verified()),
            (None, false)
        );
    }

    #[test]
    fn a_run_faster_than_the_cable_or_not_counted_is_no_winner_and_has_no_ratio() {
        // 1 MiB at 100 Mbit/s takes 86.5 ms, of which a full bucket saves 0.5.
        let setting = setting(7, 1 << 20, 0.0);
        let mut cell = cell(
            setting,
            &[
                ("ethbcast cast", Some(0.0861)),
                ("MPICH", Some(0.0068)),
                ("uftp", Some(0.3)),
            ],
        );
        cell.runs.push(Run {
            tool: "udpcast".to_owned(),
            ..cell.runs[0].clone()
        });
        cell.runs[3].outcome.as_mut().expect("finished").is_counted = false;
        assert_eq!(
            cell.winner().map(|winner| (winner.tool, winner.is_own)),
            Some(("ethbcast cast", true))
        );
        let report = Report {
            machine: vec![],
            skipped: vec![],
            cells: vec![cell],
        };
        let marks = |report: &Report| -> Vec<String> {
            table(report)
                .lines()
                .skip(4)
                .map(|line| format!("{} {}", line[TIMES_WIRE], line[SHARE_OF_RAW]))
                .collect()
        };
        assert_eq!(
            marks(&report),
            [
                "0.995 10",
                "not over the wire -",
                "3.468 3",
                "not over the wire -"
            ]
        );
        let runs = json(&report)["cells"][0]["runs"].clone();
        assert_eq!(
            [0, 1, 2, 3].map(|at| runs[at]["over_wire"] == true),
            [true, false, true, false]
        );
        // Without a rate only the counters say it.
        let mut unshaped = report;
        unshaped.cells[0].setting.rate = None;
        assert_eq!(
            unshaped.cells[0].winner().map(|winner| winner.tool),
            Some("MPICH")
        );
    }

    #[test]
    fn the_wire_limit_counts_every_frames_headers() {
        assert_eq!(
            setting(1, 1468, 0.0).wire_seconds(),
            Some(1514.0 * 8.0 / 1e8)
        );
        assert_eq!(
            Setting {
                rate: None,
                ..setting(1, 1468, 0.0)
            }
            .wire_seconds(),
            None
        );
    }

    #[test]
    fn every_table_has_the_limits_of_the_same_run_and_says_who_failed() {
        let times = [
            ("ethbcast chain", Some(2.0)),
            ("TCP chain", Some(1.5)),
            ("uftp", None),
        ];
        let report = Report {
            machine: vec![("Linux".to_owned(), "6".to_owned())],
            skipped: vec![("udpcast".to_owned(), "install it".to_owned())],
            cells: vec![cell(setting(7, 16 << 20, 0.01), &times)],
        };
        let text = text(&report);
        let line = |tool: &str| {
            text.lines()
                .find(|line| line.contains(tool))
                .unwrap_or_else(|| panic!("{tool}: {text}"))
        };
        for tool in [
            "wire limit",
            "raw broadcast",
            "raw chain",
            "ethbcast chain",
            "TCP chain",
            "uftp",
        ] {
            let words: Vec<&str> = line(tool).split_whitespace().collect();
            assert_eq!(
                words[..7],
                ["7", "1500", "100mbit", "1", "%", "16", "MiB"],
                "{tool}"
            );
        }
        // 16 MiB at 500 Mbit/s take 0.268 s.
        assert!(
            line("ethbcast chain").contains(" 13 ") && line("ethbcast chain").ends_with("7/7"),
            "{text}"
        );
        assert!(line("uftp").ends_with("it <failed>"), "{text}");
        assert!(
            text.contains("TCP chain, 1.33 x faster than ours")
                && text.contains("not measured: udpcast"),
            "{text}"
        );
    }

    #[test]
    fn numbers_line_up_on_the_right_and_remarks_on_the_left() {
        let mut table = Table::new(&["tool", "seconds", "remark"]);
        table.push(vec!["a".into(), "10.5".into(), String::new()]);
        table.push(vec!["longer".into(), "-".into(), "none, here".into()]);
        assert_eq!(
            table.aligned(),
            "tool    seconds  remark\na          10.5\nlonger        -  none, here\n"
        );
        assert_eq!(
            table.csv(),
            "tool,seconds,remark\na,10.5,\nlonger,-,\"none, here\"\n"
        );
    }

    #[test]
    fn a_median_does_not_care_for_order() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn the_middle_leaves_out_a_tenth_at_either_end_and_quantiles_are_times_that_were_taken() {
        let seconds: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(
            Times::of(seconds),
            Some(Times {
                middle80: 10.5,
                median: 10.0,
                p99: 20.0
            })
        );
        assert_eq!(
            Times::of(vec![3.0]),
            Some(Times {
                middle80: 3.0,
                median: 3.0,
                p99: 3.0
            })
        );
        assert_eq!(Times::of(vec![]), None);
    }
}
