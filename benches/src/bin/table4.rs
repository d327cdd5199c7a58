//! Table 4 of Patarasuk 2008 (the cost of cutting a message into segments) from the figures of its
//! Table 2, and §5.4's rule for a message that is long enough.
//!
//! `cargo run --release -p ethbcast-benches --bin table4`. Pure arithmetic. The paper measured
//! X·T(msize/X); beside it is X·g(msize/X), the model's time for X consecutive segments. A segment
//! is good from the length on from which that is within 10 % of the message in one piece. A message
//! is long enough if X ≥ 2·(H − 1): the pipeline then fills in a third of the time or less.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use ethbcast_benches::chart::{Series, line_chart};
use ethbcast_benches::papers::{Cluster, SEGMENTS_BYTES, TABLE_4_MESSAGES_BYTES, table_4};
use ethbcast_benches::results::{self, verdict};
use ethbcast_benches::table::Table;
use ethbcast_benches::units::size;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::{self, Costs, Via};
use ethbcast_planning::topology::{BUILTIN_NAMES, Topology};

/// Highest cost of a good segment relative to the message in one piece.
const GOOD: f64 = 1.10;
/// The paper's good segments, in bytes, by [`Cluster::ALL`].
const PAPERS_GOOD_BYTES: [u64; 2] = [1024, 8192];

/// Write Table 4 of Patarasuk 2008 beside the same from our model, and the messages that are long enough.
#[derive(Debug, Parser)]
#[command(name = "table4")]
struct Arguments {
    /// Folder for table4.txt, table4.csv and table4.svg.
    #[arg(long, default_value = "docs/results", value_name = "FOLDER")]
    out: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let Arguments { out } = Arguments::parse();
    let mut text =
        "Table 4 of Patarasuk 2008: X segments one after the other, in ms: as the paper measured them, and in \
                    brackets X·g of its Table 2.\n"
            .to_owned();
    let mut csv = Table::under("network, segment_bytes, message_bytes, paper_ms, ours_ms");
    let mut good = Vec::new();
    for network in Cluster::ALL {
        let rows = Rows::of(network);
        text += &format!("\n{}\n{}", network.name(), rows.table().aligned());
        rows.add_to(&mut csv);
        good.push((rows.good(|row| row.paper), rows.good(|row| row.ours)));
    }
    text += "\nThe least segment from which on every message is within 10 % of itself in one piece:\n\n";
    let mut table = Table::new(&["network", "paper says", "its table", "our model", "verdict"]);
    let mut all_met = true;
    for ((network, says), &(paper, ours)) in Cluster::ALL.into_iter().zip(PAPERS_GOOD_BYTES).zip(&good) {
        let met = ours <= says.saturating_mul(2) && says <= ours.saturating_mul(2);
        all_met &= met;
        let words = [says, paper, ours].map(|bytes| format!("{bytes}B"));
        table.push([vec![network.name().to_owned()], words.to_vec(), vec![verdict(met).to_owned()]].concat());
    }
    text += &table.aligned();
    text += "\nMet where ours is the paper's or the next to it. Messages that are long enough, from 2·(H − 1) segments \
             of 1 KiB (100Mbps) and 8 KiB\n(1000Mbps) on; the paper's H is that of 32 ranks, P and log2 P, ours that \
             of the plan, a chain's P likewise:\n\n";
    text += &long_enough()?.aligned();
    results::publish(&out, "table4", &text, &csv, [("svg".to_owned(), chart())])?;
    Ok(results::exit_code(all_met))
}

struct Row {
    /// `None` for the message in one piece.
    segment_bytes: Option<u64>,
    paper: [f64; 4],
    ours: [f64; 4],
}

struct Rows {
    network: Cluster,
    rows: Vec<Row>,
}

impl Rows {
    fn of(network: Cluster) -> Self {
        let calibration = network.calibration();
        let segments = SEGMENTS_BYTES.into_iter().map(Some).chain([None]);
        let row = |(segment_bytes, paper): (Option<u64>, [f64; 4])| {
            let ours = TABLE_4_MESSAGES_BYTES
                .map(|message| pieces_ms(&calibration, message, segment_bytes.unwrap_or(message)));
            Row { segment_bytes, paper, ours }
        };
        Self { network, rows: segments.zip(table_4(network)).map(row).collect() }
    }

    fn good(&self, times: fn(&Row) -> [f64; 4]) -> u64 {
        let whole = self.rows.last().map(times).unwrap_or_default();
        let is_good = |row: &&Row| times(row).iter().zip(whole).all(|(time, whole)| *time <= whole * GOOD);
        let from = self.rows.iter().rev().take_while(is_good).filter_map(|row| row.segment_bytes).last();
        from.unwrap_or(u64::MAX)
    }

    fn table(&self) -> Table {
        let heading: Vec<String> = ["segment".to_owned()].into_iter().chain(TABLE_4_MESSAGES_BYTES.map(size)).collect();
        let mut table = Table::new(&heading);
        for Row { segment_bytes, paper, ours } in &self.rows {
            let name = segment_bytes.map_or("message".to_owned(), |bytes| bytes.to_string());
            let cells = paper.iter().zip(ours).map(|(paper, ours)| format!("{paper:.2} ({ours:.2})"));
            table.push([name].into_iter().chain(cells).collect());
        }
        table
    }

    fn add_to(&self, csv: &mut Table) {
        for Row { segment_bytes, paper, ours } in &self.rows {
            for ((message, paper), ours) in TABLE_4_MESSAGES_BYTES.into_iter().zip(paper).zip(ours) {
                csv.push(vec![
                    self.network.name().to_owned(),
                    segment_bytes.unwrap_or(message).to_string(),
                    message.to_string(),
                    format!("{paper:.2}"),
                    format!("{ours:.3}"),
                ]);
            }
        }
    }
}

fn pieces_ms(calibration: &Calibration, message_bytes: u64, segment_bytes: u64) -> f64 {
    message_bytes as f64 / segment_bytes as f64 * calibration.gap_ns(segment_bytes) / 1e6
}

fn long_enough() -> anyhow::Result<Table> {
    let mut table = Table::new(&["hosts", "tree", "H", "100Mbps", "1000Mbps"]);
    let mut row = |hosts: &str, tree: &str, height: usize| {
        let from = PAPERS_GOOD_BYTES.map(|segment| format!("{}K", (2 * (height as u64 - 1) * segment) >> 10));
        table.push([vec![hosts.to_owned(), tree.to_owned(), height.to_string()], from.to_vec()].concat());
    };
    row("the paper's 32", "linear", 32);
    row("the paper's 32", "binary", 5);
    for name in BUILTIN_NAMES {
        let topology = Topology::builtin(name).context("it is built in")?;
        let members: Vec<usize> = (0..topology.hosts().len()).collect();
        row(name, "chain", members.len());
        let binary = plan::make(Via::Binary, &topology, 0, &members, &Costs::default())?;
        row(name, "binary", binary.height());
    }
    Ok(table)
}

fn chart() -> String {
    let message = 2;
    let line = |name: String, rows: &Rows, times: fn(&Row) -> [f64; 4]| {
        let whole = rows.rows.last().map(times).unwrap_or_default()[message];
        let points = rows.rows.iter().filter_map(|row| Some((row.segment_bytes? as f64, times(row)[message] / whole)));
        Series::new(name, points)
    };
    let series: Vec<Series> = Cluster::ALL
        .into_iter()
        .flat_map(|network| {
            let rows = Rows::of(network);
            let name = network.name();
            [line(format!("{name}, paper"), &rows, |row| row.paper), line(format!("{name}, g"), &rows, |row| row.ours)]
        })
        .collect();
    line_chart("512 KiB in segments", "bytes of a segment", "time / time in one piece", &series, true)
}
