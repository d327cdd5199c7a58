//! The report as text.

use ethbcast_lab::format_rate;

use crate::report::{Cell, Report, Run, Winner};
use crate::run::size;
use crate::table::Table;

const WIRE_LIMIT: &str = "wire limit";

/// Formats the whole report: a table, the winners, and an explanation of the columns.
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
             CPU s/GiB: processor time of all programs for each GiB at a receiver.\n";
    let machine: Vec<String> = report.machine.iter().map(|(what, is)| format!("{what} {is}")).collect();
    text + &machine.join(", ")
}

/// Builds the table of all figures, with the limits among the tools.
pub fn table(report: &Report) -> Table {
    let mut table =
        Table::under("receivers, MTU, rate, loss, size, tool, seconds, x wire, % of raw, CPU s/GiB, verified, remark");
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
            let cost = figures.processor_seconds_per_gib.map_or_else(|| "-".to_owned(), |cost| format!("{cost:.2}"));
            let remark = if figures.verified == receivers { "" } else { "the others' bytes are not the source's" };
            let verified = format!("{}/{receivers}", figures.verified);
            row(cell, &run.tool, Some(figures.seconds), [&cost, &verified, remark])
        }
    }
}

fn row(cell: &Cell, tool: &str, seconds: Option<f64>, [cost, verified, remark]: [&str; 3]) -> Vec<String> {
    let setting = &cell.setting;
    let times = setting.wire_seconds().zip(seconds).map(|(limit, seconds)| format!("{:.3}", seconds / limit));
    // A chain is compared with the raw chain, everything else with the raw broadcast.
    let raw = cell.raw_seconds()[usize::from(tool.contains("chain"))].1;
    let share = seconds.filter(|_| tool != WIRE_LIMIT).map(|seconds| raw / seconds);
    let dash = || "-".to_owned();
    vec![
        setting.receivers.to_string(),
        setting.mtu_bytes.to_string(),
        setting.rate.map_or_else(|| "unshaped".to_owned(), format_rate),
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

/// Returns a number of receivers in words.
pub fn receivers(count: u16) -> String {
    if count == 1 { "1 receiver".to_owned() } else { format!("{count} receivers") }
}

/// Describes the setting of a cell.
pub fn place(cell: &Cell) -> String {
    let setting = &cell.setting;
    let rate = setting.rate.map_or_else(|| "unshaped".to_owned(), format_rate);
    format!(
        "{} to {}, MTU {}, {rate}, loss {} %",
        size(setting.size_bytes),
        receivers(setting.receivers),
        setting.mtu_bytes,
        setting.loss * 100.0
    )
}

/// Describes the winner of a cell and its lead.
pub fn fastest(cell: &Cell) -> String {
    match cell.winner() {
        None => "nobody finished".to_owned(),
        Some(Winner { tool, factor: None, .. }) => tool.to_owned(),
        Some(Winner { tool, is_own: true, factor: Some(factor) }) => {
            format!("{tool}, {factor:.2} x faster than the best of the others")
        }
        Some(Winner { tool, is_own: false, factor: Some(factor) }) => format!("{tool}, {factor:.2} x faster than ours"),
    }
}

/// Formats seconds with four significant digits.
pub fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 100.0 => format!("{seconds:.1}"),
        seconds if seconds >= 1.0 => format!("{seconds:.3}"),
        seconds if seconds >= 0.001 => format!("{seconds:.5}"),
        seconds => format!("{seconds:.7}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{cell, setting};

    #[test]
    fn every_table_has_the_limits_of_the_same_run_and_says_who_failed() {
        let times = [("ethbcast chain", Some(2.0)), ("TCP chain", Some(1.5)), ("uftp", None)];
        let report = Report {
            machine: vec![("Linux".to_owned(), "6".to_owned())],
            skipped: vec![("udpcast".to_owned(), "install it".to_owned())],
            cells: vec![cell(setting(7, 16 << 20, 0.01), &times)],
        };
        let text = text(&report);
        let line =
            |tool: &str| text.lines().find(|line| line.contains(tool)).unwrap_or_else(|| panic!("{tool}: {text}"));
        for tool in ["wire limit", "raw broadcast", "raw chain", "ethbcast chain", "TCP chain", "uftp"] {
            let words: Vec<&str> = line(tool).split_whitespace().collect();
            assert_eq!(words[..7], ["7", "1500", "100mbit", "1", "%", "16", "MiB"], "{tool}");
        }
        // 16 MiB at 500 Mbit/s take 0.268 s.
        assert!(line("ethbcast chain").contains(" 13 ") && line("ethbcast chain").ends_with("7/7"), "{text}");
        assert!(line("uftp").ends_with("it <failed>"), "{text}");
        assert!(
            text.contains("TCP chain, 1.33 x faster than ours") && text.contains("not measured: udpcast"),
            "{text}"
        );
    }
}
