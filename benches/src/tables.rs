//! Reproduction of Tables 1, 3 and 4 of Patarasuk 2008 from the figures in its Table 2.

use std::sync::LazyLock;

use anyhow::Context;
use ethbcast_bench::page::{Series, line_chart};
use ethbcast_bench::report::Table;
use ethbcast_planning::model::{Calibration, Job, Point, Processing, Shape, best_segment, predict};
use ethbcast_planning::plan::{self, Costs, Via};
use ethbcast_planning::topology::{BUILTIN_NAMES, Topology};
use serde::Deserialize;

use crate::{Output, size, verdict};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Papers {
    pub segments_bytes: Vec<u64>,
    pub table_3_bytes: Vec<u64>,
    table_4_bytes: Vec<u64>,
    #[serde(rename = "network")]
    pub networks: Vec<Network>,
}

/// The network of one of the paper's clusters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub name: String,
    pub rate: u64,
    wake_up_ns: u64,
    gap_us: Vec<u64>,
    latency_us: Vec<i64>,
    linear: Segments,
    binary: Segments,
    good_bytes: u64,
    table_4_ms: Vec<Vec<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segments {
    model: Vec<u64>,
    pub actual: Vec<u64>,
}

pub static PAPERS: LazyLock<Papers> = LazyLock::new(|| {
    toml::from_str(include_str!("../papers/patarasuk2008.toml"))
        .expect("the tests read the papers' figures")
});

impl Network {
    /// Returns the columns of Table 3 for the linear or the binary tree.
    pub fn segments(&self, linear: bool) -> &Segments {
        if linear { &self.linear } else { &self.binary }
    }

    /// Returns g(m) and L(m) as measured (Table 2).
    pub fn calibration(&self) -> Calibration {
        let rows = self.gap_us.iter().zip(&self.latency_us);
        let point = |(&bytes, (&gap_us, &latency_us)): (&u64, (&u64, &i64))| Point {
            bytes,
            gap_ns: gap_us * 1000,
            latency_ns: latency_us * 1000,
        };
        let points = PAPERS.segments_bytes.iter().zip(rows).map(point).collect();
        Calibration::from_points(points).expect("Table 2 has eight rising sizes and gaps")
    }

    /// Returns [`calibration`](Self::calibration) with the costs of the hosts' processors, by Table
    /// 2, too.
    ///
    /// At 1000 Mbit/s they could not keep up with the cable (§5.1), so g(m) there is their time to
    /// send or receive a message: a fit by least relative squares gives 11.6 µs a frame and 8.5 ns
    /// a byte, within 7 % of seven of the eight sizes and 19 % of one. Both clusters had the same
    /// machines.
    pub fn hosts(&self) -> Calibration {
        let processing = Processing {
            send_frame_ns: 11_590,
            send_byte_ps: 8_490,
            receive_frame_ns: 11_590,
            receive_byte_ps: 8_490,
            wake_up_ns: self.wake_up_ns,
            ..Processing::default()
        };
        self.calibration()
            .with_processing(processing)
            .expect("it is less than a second")
    }
}

fn shape(via: Via, topology: &Topology) -> anyhow::Result<Shape> {
    let members: Vec<usize> = (0..topology.hosts().len()).collect();
    Ok(Shape::of(
        &plan::make(via, topology, 0, &members, &Costs::default())?,
        topology,
        &members,
    ))
}

/// A "very large" message: the start of a pipeline takes less than a thousandth.
const LARGE_BYTES: u64 = 8 << 30;
/// Bytes in a frame: all sizes measured in the paper are multiples or parts of it.
const FRAME_PAYLOAD_BYTES: u64 = 1024;
/// Tolerance for multiples of Table 1: g(m) of Table 2 is not exactly proportional to m.
const TABLE_1_TOLERANCE: f64 = 0.04;

type Entry = (Via, &'static str, fn(f64) -> f64);

/// Table 1: ways, their entries, and multiples of T(msize) for P ranks. The paper's entry for
/// blocks rounds 2·(P − 1)/P up to 2; here ratios are compared with 2·(P − 1)/P.
const TABLE_1: [Entry; 8] = [
    (Via::Flat, "P-1", |ranks| ranks - 1.0),
    (Via::Binomial, "log2 P", f64::log2),
    (Via::ScatterAllgather, "2", |ranks| {
        2.0 * (ranks - 1.0) / ranks
    }),
    (Via::RecursiveDoubling, "2", |ranks| {
        2.0 * (ranks - 1.0) / ranks
    }),
    (Via::Chain, "1", |_| 1.0),
    (Via::Binary, "2", |_| 2.0),
    (Via::Kary(3), "k", |_| 3.0),
    (Via::Kary(4), "k", |_| 4.0),
];

/// Computes Table 1: the time of each algorithm with its best segment, as a multiple of T(msize).
/// T(msize) is the time of one send from host to host.
pub fn table_1() -> anyhow::Result<Output> {
    let mut csv = Table::under(
        "algorithm, network, ranks, segment, predicted s, T s, ratio, expected, off %, Table 1",
    );
    let (mut furthest, mut lines) = (0.0_f64, Vec::new());
    for network in &PAPERS.networks {
        let calibration = network.calibration();
        let alone = (calibration.gap_ns(LARGE_BYTES) + calibration.latency_ns(LARGE_BYTES)) / 1e9;
        let mut of_network: Vec<Series> = TABLE_1
            .iter()
            .map(|(via, ..)| Series::new(via.to_string(), []))
            .collect();
        for ranks in [8, 16, 32, 64] {
            let topology = Topology::single_switch((0..ranks).map(|host| format!("n{host}")))?;
            for ((via, entry, multiple), line) in TABLE_1.iter().zip(&mut of_network) {
                let shape = shape(*via, &topology)?;
                let (segment, seconds) =
                    best_segment(&shape, LARGE_BYTES, FRAME_PAYLOAD_BYTES, &calibration);
                let (ratio, expected) = (seconds / alone, multiple(ranks as f64));
                let off = ratio / expected - 1.0;
                let named = [
                    via.to_string(),
                    network.name.clone(),
                    ranks.to_string(),
                    segment.to_string(),
                ];
                let times = [format!("{seconds:.2}"), format!("{alone:.2}")];
                let ratios = [
                    format!("{ratio:.3}"),
                    format!("{expected:.3}"),
                    format!("{:+.2}", off * 100.0),
                ];
                csv.push([&named[..], &times, &ratios, &[(*entry).to_owned()]].concat());
                line.points.push((ranks as f64, ratio));
                furthest = furthest.max(off.abs());
            }
        }
        // `flat`, the first, would flatten every other line.
        lines.push(of_network.split_off(1));
    }
    let text = format!(
        "Table 1 of Patarasuk 2008 from our model: {} GiB on one switch, g(m) and L(m) of the paper's Table 2.\n\
         ratio: predicted time over T(msize), the time of one send of everything from host to host.\n\
         expected: the entry of Table 1 for so many ranks; of blocks 2 (P - 1)/P, which the paper rounds to 2.\n\
         Furthest off: {:.1} %, for the T of 1000Mbps is of long messages, whose bytes cost more than those of 8 \
         KiB.\n\n{}",
        LARGE_BYTES >> 30,
        furthest * 100.0,
        csv.aligned()
    );
    let title =
        "Table 1: time of very large messages over T(msize), 100Mbps (flat, P - 1, is left out)";
    let svg = line_chart(title, "ranks", "T(msize)", &lines[0], true);
    let more = vec![("svg".to_owned(), svg)];
    Ok(Output {
        name: "table1".to_owned(),
        text,
        csv,
        more,
        is_met: furthest <= TABLE_1_TOLERANCE,
    })
}

/// Least number of equal cells of Table 3.
const MIN_EQUAL: usize = 31;
/// Highest permitted excess of the paper's choice over ours in our model.
const MAX_EXCESS: f64 = 0.025;

/// A cell of Table 3: the best segment of a message by the paper's model, by ours, and as the paper
/// measured it, with our prediction for each in seconds.
struct Cell {
    network: &'static str,
    tree: &'static str,
    message_bytes: u64,
    paper: (u64, f64),
    ours: (u64, f64),
    actual: (u64, f64),
}

impl Cell {
    fn is_equal(&self) -> bool {
        self.paper.0 == self.ours.0
    }

    /// Returns the excess of the paper's choice over ours, as a share of our time.
    fn excess(&self) -> f64 {
        self.paper.1 / self.ours.1 - 1.0
    }

    fn actual_excess(&self) -> f64 {
        self.actual.1 / self.ours.1 - 1.0
    }

    fn words(&self) -> String {
        match self.is_equal() {
            true => format!("{}B", self.ours.0),
            false => format!(
                "{}B ({}B +{:.2} %)",
                self.ours.0,
                self.paper.0,
                self.excess() * 100.0
            ),
        }
    }

    fn actual_text(&self) -> String {
        format!("{}B +{:.2} %", self.actual.0, self.actual_excess() * 100.0)
    }
}

/// Computes the cells: by network, then tree, then message.
fn cells(linear: &Shape, binary: &Shape) -> Vec<Cell> {
    let mut cells = Vec::new();
    for network in &PAPERS.networks {
        let calibration = network.calibration();
        for (shape, is_linear) in [(linear, true), (binary, false)] {
            let Segments { model, actual } = network.segments(is_linear);
            for ((&message_bytes, &paper), &actual) in
                PAPERS.table_3_bytes.iter().zip(model).zip(actual)
            {
                let price = |segment_bytes: u64| {
                    let frame_payload_bytes = PAPERS.segments_bytes[0];
                    let job = Job {
                        size_bytes: message_bytes,
                        segment_bytes,
                        frame_payload_bytes,
                    };
                    (segment_bytes, predict(shape, &job, &calibration))
                };
                let own = PAPERS
                    .segments_bytes
                    .iter()
                    .filter(|&&bytes| bytes <= message_bytes);
                let ours = own
                    .map(|&bytes| price(bytes))
                    .reduce(|best, next| if next.1 < best.1 { next } else { best });
                cells.push(Cell {
                    network: &network.name,
                    tree: if is_linear { "linear" } else { "binary" },
                    message_bytes,
                    paper: price(paper),
                    ours: ours.expect("every message has 8 KiB or more"),
                    actual: price(actual),
                });
            }
        }
    }
    cells
}

/// Computes Table 3, the best segments for a linear and a binary tree: 32 hosts on topology (4),
/// the trees of Algorithms 1 and 2, and the eight segment sizes that the paper chose from.
pub fn table_3() -> anyhow::Result<Output> {
    let topology = Topology::builtin("fig9-4").context("topology (4) is built in")?;
    let cells = cells(
        &shape(Via::Chain, &topology)?,
        &shape(Via::Binary, &topology)?,
    );
    let equal = cells.iter().filter(|cell| cell.is_equal()).count();
    let worst = cells.iter().map(Cell::excess).fold(0.0, f64::max);
    let within = cells
        .iter()
        .filter(|cell| cell.actual_excess() <= 0.1)
        .count();
    let text = format!(
        "Table 3 of Patarasuk 2008, the segment of least predicted time, from its Table 2: P = 32, topology (4).\n\
         A cell that differs has the paper's in brackets, and by how much that takes longer in our model.\n\n{}\n\
         {equal} of {} \"Model\" cells are equal. The paper's choice takes at most {:.2} % longer than ours.\n\n\
         \"Actual\", the segment that the paper measured to be best, and how much longer it takes in our model than \
         the one of least\npredicted time (Figure 11, whose own figures the text does not give):\n\n{}\n\
         In {within} of {} cells it takes at most 10 % longer.\n",
        side_by_side(&cells, Cell::words).aligned(),
        cells.len(),
        worst * 100.0,
        side_by_side(&cells, Cell::actual_text).aligned(),
        cells.len(),
    );
    let mut csv = Table::under(
        "network, tree, message_bytes, paper_bytes, actual_bytes, ours_bytes, paper_seconds, actual_seconds, \
         ours_seconds",
    );
    for Cell {
        network,
        tree,
        message_bytes,
        paper,
        ours,
        actual,
    } in &cells
    {
        let named = [
            (*network).to_owned(),
            (*tree).to_owned(),
            message_bytes.to_string(),
        ];
        let bytes = [paper, actual, ours].map(|choice| choice.0.to_string());
        csv.push(
            [
                named,
                bytes,
                [paper, actual, ours].map(|choice| format!("{:.6}", choice.1)),
            ]
            .concat(),
        );
    }
    let is_met = equal >= MIN_EQUAL && worst <= MAX_EXCESS;
    Ok(Output {
        name: "table3".to_owned(),
        text,
        csv,
        more: Vec::new(),
        is_met,
    })
}

fn row(cells: &[Cell], message_bytes: u64) -> impl Iterator<Item = &Cell> {
    cells
        .iter()
        .filter(move |cell| cell.message_bytes == message_bytes)
}

fn in_kib(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{}KB", bytes >> 10)
    } else {
        format!("{}MB", bytes >> 20)
    }
}

fn side_by_side(cells: &[Cell], words: fn(&Cell) -> String) -> Table {
    let mut table = Table::new(&[
        "message",
        "100Mbps linear",
        "100Mbps binary",
        "1000Mbps linear",
        "1000Mbps binary",
    ]);
    for &message in &PAPERS.table_3_bytes {
        table.push(
            std::iter::once(in_kib(message))
                .chain(row(cells, message).map(words))
                .collect(),
        );
    }
    table
}

/// Highest cost of a good segment relative to the message in one piece.
const GOOD: f64 = 1.10;

/// Rows of Table 4 for one network: a segment, or the message in one piece; the paper's
/// milliseconds and ours.
type Rows = Vec<(Option<u64>, Vec<f64>, Vec<f64>)>;

fn rows(network: &Network) -> Rows {
    let calibration = network.calibration();
    let pieces_ms = |message: u64, segment: u64| {
        message as f64 / segment as f64 * calibration.gap_ns(segment) / 1e6
    };
    let segments = PAPERS
        .segments_bytes
        .iter()
        .copied()
        .map(Some)
        .chain([None]);
    let row = |(segment, paper): (Option<u64>, &Vec<f64>)| {
        let ours = PAPERS
            .table_4_bytes
            .iter()
            .map(|&message| pieces_ms(message, segment.unwrap_or(message)));
        (segment, paper.clone(), ours.collect())
    };
    segments.zip(&network.table_4_ms).map(row).collect()
}

/// Returns the least segment from which on all times are within a tenth of those of the message in
/// one piece.
fn good(rows: &[(Option<u64>, &[f64])]) -> u64 {
    let Some((_, whole)) = rows.last() else {
        return u64::MAX;
    };
    let is_good = |row: &&(Option<u64>, &[f64])| {
        row.1
            .iter()
            .zip(*whole)
            .all(|(time, whole)| *time <= whole * GOOD)
    };
    rows.iter()
        .rev()
        .take_while(is_good)
        .filter_map(|row| row.0)
        .last()
        .unwrap_or(u64::MAX)
}

/// Computes Table 4, the cost of cutting a message into X segments: X·T(msize/X) as measured, and
/// X·g(msize/X). Also checks §5.4's rule for a message that is long enough, X ≥ 2·(H − 1). The
/// pipeline then fills in a third of the time or less.
pub fn table_4() -> anyhow::Result<Output> {
    let mut text = "Table 4 of Patarasuk 2008: X segments one after the other, in ms: as the paper measured them, and \
                    in brackets X·g of its Table 2.\n"
        .to_owned();
    let mut csv = Table::under("network, segment_bytes, message_bytes, paper_ms, ours_ms");
    let mut verdicts = Table::new(&["network", "paper says", "its table", "our model", "verdict"]);
    let (mut is_met, mut lines) = (true, Vec::new());
    let messages = &PAPERS.table_4_bytes;
    for network in &PAPERS.networks {
        let rows = rows(network);
        let heading: Vec<String> = ["segment".to_owned()]
            .into_iter()
            .chain(messages.iter().copied().map(size))
            .collect();
        let mut table = Table::new(&heading);
        for (segment, paper, ours) in &rows {
            let name = segment.map_or("message".to_owned(), |bytes| bytes.to_string());
            let both = || paper.iter().zip(ours);
            let cells = both().map(|(paper, ours)| format!("{paper:.2} ({ours:.2})"));
            table.push([name].into_iter().chain(cells).collect());
            for (message, (paper, ours)) in messages.iter().zip(both()) {
                let sizes = [segment.unwrap_or(*message), *message].map(|bytes| bytes.to_string());
                csv.push(
                    [
                        &[network.name.clone()][..],
                        &sizes,
                        &[format!("{paper:.2}"), format!("{ours:.3}")],
                    ]
                    .concat(),
                );
            }
        }
        text += &format!("\n{}\n{}", network.name, table.aligned());
        let columns = [
            rows.iter().map(|row| (row.0, &row.1[..])).collect(),
            rows.iter().map(|row| (row.0, &row.2[..])).collect(),
        ];
        let [paper, ours] = columns.each_ref().map(|rows: &Vec<_>| good(rows));
        let says = network.good_bytes;
        let met = ours <= says.saturating_mul(2) && says <= ours.saturating_mul(2);
        is_met &= met;
        let words = [says, paper, ours].map(|bytes| format!("{bytes}B"));
        verdicts.push(
            [
                &[network.name.clone()][..],
                &words,
                &[verdict(met).to_owned()],
            ]
            .concat(),
        );
        for (column, what) in columns.iter().zip(["paper", "g"]) {
            lines.push(of_512_kib(&format!("{}, {what}", network.name), column));
        }
    }
    text += &format!(
        "\nThe least segment from which on every message is within 10 % of itself in one piece:\n\n{}\
         \nMet where ours is the paper's or the next to it. Messages that are long enough, from 2·(H − 1) segments \
         of 1 KiB (100Mbps) and 8 KiB\n(1000Mbps) on; the paper's H is that of 32 ranks, P and log2 P, ours that \
         of the plan, a chain's P likewise:\n\n{}",
        verdicts.aligned(),
        long_enough()?.aligned()
    );
    let svg = line_chart(
        "512 KiB in segments",
        "bytes of a segment",
        "time / time in one piece",
        &lines,
        true,
    );
    Ok(Output {
        name: "table4".to_owned(),
        text,
        csv,
        more: vec![("svg".to_owned(), svg)],
        is_met,
    })
}

/// Column of Table 4 that is drawn.
const DRAWN: usize = 2;

fn of_512_kib(name: &str, rows: &[(Option<u64>, &[f64])]) -> Series {
    let whole = rows.last().map_or(1.0, |row| row.1[DRAWN]);
    Series::new(
        name,
        rows.iter()
            .filter_map(|row| Some((row.0? as f64, row.1[DRAWN] / whole))),
    )
}

fn long_enough() -> anyhow::Result<Table> {
    let mut table = Table::new(&["hosts", "tree", "H", "100Mbps", "1000Mbps"]);
    let mut row = |hosts: &str, tree: &str, height: usize| {
        let from = |network: &Network| {
            format!("{}K", (2 * (height as u64 - 1) * network.good_bytes) >> 10)
        };
        let named = [hosts.to_owned(), tree.to_owned(), height.to_string()];
        table.push(
            named
                .into_iter()
                .chain(PAPERS.networks.iter().map(from))
                .collect(),
        );
    };
    row("the paper's 32", "linear", 32);
    row("the paper's 32", "binary", 5);
    for name in BUILTIN_NAMES {
        let topology = Topology::builtin(name).context("it is built in")?;
        let members: Vec<usize> = (0..topology.hosts().len()).collect();
        row(name, "chain", members.len());
        row(
            name,
            "binary",
            plan::make(Via::Binary, &topology, 0, &members, &Costs::default())?.height(),
        );
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_1_is_what_very_large_messages_come_to() {
        // On 100Mbps every ratio is within 1 % of Table 1.
        let csv = table_1().expect("it can be computed").csv;
        let lines = csv.lines().skip(1).filter(|line| line[1] == "100Mbps");
        let off: Vec<f64> = lines
            .map(|line| line[8].parse().expect("a number"))
            .collect();
        assert_eq!(off.len(), 32);
        assert!(off.iter().all(|off| off.abs() < 1.0), "{off:?}");
    }

    #[test]
    fn table_3_comes_from_table_2() {
        assert!(
            table_3().expect("it can be computed").is_met
                && table_4().expect("it can be computed").is_met
        );
        let topology = Topology::builtin("fig9-4").expect("fig9-4");
        let [linear, binary] =
            [Via::Chain, Via::Binary].map(|via| shape(via, &topology).expect("a plan"));
        assert_eq!((linear.ranks, binary.height), (32, 6));
        let cells = cells(&linear, &binary);
        assert_eq!(cells.len(), 36);
        // The choice of a session, whose frames have room for 1468 bytes.
        for cell in cells {
            let shape = if cell.tree == "linear" {
                &linear
            } else {
                &binary
            };
            let network = PAPERS
                .networks
                .iter()
                .find(|network| network.name == cell.network)
                .expect("one of two");
            let (_, seconds) =
                best_segment(shape, cell.message_bytes, 1468, &network.calibration());
            assert!(
                seconds <= cell.ours.1 * 1.03,
                "{} bytes: {seconds} s",
                cell.message_bytes
            );
        }
    }
}
