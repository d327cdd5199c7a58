//! Table 1 of Patarasuk 2008 beside our model for very large messages.
//!
//! `cargo run --release -p ethbcast-benches --bin table1`. Pure arithmetic on the paper's own
//! figures (its Table 2): the time of each algorithm with its best segment, as a multiple of
//! T(msize), which is that of one send from host to host.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Parser;
use ethbcast_benches::chart::{Series, line_chart};
use ethbcast_benches::papers::Cluster;
use ethbcast_benches::results;
use ethbcast_benches::table::Table;
use ethbcast_planning::model::{Shape, best_segment};
use ethbcast_planning::plan::{self, Costs, Via};
use ethbcast_planning::topology::Topology;

/// A "very large" message: the start of a pipeline takes less than a thousandth.
const MESSAGE_BYTES: u64 = 8 << 30;
/// Bytes in a frame: all sizes measured in the paper are multiples or parts of it.
const FRAME_PAYLOAD_BYTES: u64 = 1024;
/// Tolerance for multiples of Table 1: g(m) of Table 2 is not exactly proportional to m.
const TOLERANCE: f64 = 0.04;

/// Write Table 1 of Patarasuk 2008 beside the same from our model, as text, CSV and SVG.
#[derive(Debug, Parser)]
#[command(name = "table1")]
struct Arguments {
    /// Folder for table1.txt, table1.csv and table1.svg.
    #[arg(long, default_value = "docs/results", value_name = "FOLDER")]
    out: PathBuf,
}

struct Row {
    via: Via,
    entry: &'static str,
    multiple: fn(f64) -> f64,
}

/// The paper's entry for blocks rounds twice (P − 1)/P of the message up to 2; ratios are compared
/// with the former here.
const ROWS: [Row; 8] = [
    Row { via: Via::Flat, entry: "P-1", multiple: |ranks| ranks - 1.0 },
    Row { via: Via::Binomial, entry: "log2 P", multiple: f64::log2 },
    Row { via: Via::ScatterAllgather, entry: "2", multiple: |ranks| 2.0 * (ranks - 1.0) / ranks },
    Row { via: Via::RecursiveDoubling, entry: "2", multiple: |ranks| 2.0 * (ranks - 1.0) / ranks },
    Row { via: Via::Chain, entry: "1", multiple: |_| 1.0 },
    Row { via: Via::Binary, entry: "2", multiple: |_| 2.0 },
    Row { via: Via::Kary(3), entry: "k", multiple: |_| 3.0 },
    Row { via: Via::Kary(4), entry: "k", multiple: |_| 4.0 },
];

fn main() -> anyhow::Result<()> {
    let Arguments { out } = Arguments::parse();
    let mut table =
        Table::under("algorithm, network, ranks, segment, predicted s, T s, ratio, expected, off %, Table 1");
    let mut furthest: f64 = 0.0;
    let mut lines: Vec<Series> = Vec::new();
    for network in Cluster::ALL {
        let mut of_network: Vec<Series> = ROWS.iter().map(|row| Series::new(format!("{}", row.via), [])).collect();
        for ranks in [8, 16, 32, 64] {
            for (row, line) in ROWS.iter().zip(&mut of_network) {
                let (ratio, off) = compare(row, network, ranks, &mut table)?;
                line.points.push((ranks as f64, ratio));
                furthest = furthest.max(off.abs());
            }
        }
        if network == Cluster::Fast {
            // `flat` would flatten every other line.
            lines = of_network
                .into_iter()
                .zip(&ROWS)
                .filter(|(_, row)| row.via != Via::Flat)
                .map(|(line, _)| line)
                .collect();
        }
    }
    let text = format!(
        "Table 1 of Patarasuk 2008 from our model: {} GiB on one switch, g(m) and L(m) of the paper's Table 2.\n\
         ratio: predicted time over T(msize), the time of one send of everything from host to host.\n\
         expected: the entry of Table 1 for so many ranks; of blocks 2 (P - 1)/P, which the paper rounds to 2.\n\
         Furthest off: {:.1} %, for the T of 1000Mbps is of long messages, whose bytes cost more than those of 8 \
         KiB.\n\n{}",
        MESSAGE_BYTES >> 30,
        furthest * 100.0,
        table.aligned()
    );
    let title = "Table 1: time of very large messages over T(msize), 100Mbps (flat, P - 1, is left out)";
    let svg = line_chart(title, "ranks", "T(msize)", &lines, true);
    results::publish(&out, "table1", &text, &table, [("svg".to_owned(), svg)])?;
    ensure!(
        furthest <= TOLERANCE,
        "the model is {:.1} % off Table 1, more than {:.0} %",
        furthest * 100.0,
        TOLERANCE * 100.0
    );
    Ok(())
}

fn compare(row: &Row, network: Cluster, ranks: usize, table: &mut Table) -> anyhow::Result<(f64, f64)> {
    let topology = Topology::single_switch((0..ranks).map(|host| format!("n{host}")))?;
    let members: Vec<usize> = (0..ranks).collect();
    let plan = plan::make(row.via, &topology, 0, &members, &Costs::default())?;
    let calibration = network.calibration();
    let shape = Shape::of(&plan, &topology, &members);
    let (segment_bytes, seconds) = best_segment(&shape, MESSAGE_BYTES, FRAME_PAYLOAD_BYTES, &calibration);
    let alone = (calibration.gap_ns(MESSAGE_BYTES) + calibration.latency_ns(MESSAGE_BYTES)) / 1e9;
    let (ratio, expected) = (seconds / alone, (row.multiple)(ranks as f64));
    let off = ratio / expected - 1.0;
    table.push(vec![
        row.via.to_string(),
        network.name().to_owned(),
        ranks.to_string(),
        segment_bytes.to_string(),
        format!("{seconds:.2}"),
        format!("{alone:.2}"),
        format!("{ratio:.3}"),
        format!("{expected:.3}"),
        format!("{:+.2}", off * 100.0),
        row.entry.to_owned(),
    ]);
    Ok((ratio, off))
}
