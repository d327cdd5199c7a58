//! Measurements and predictions of Patarasuk 2008 (Tables 2 and 3), and our predictions beside
//! them.

use ethbcast_planning::model::{Calibration, Job, Point, Processing, Shape, predict};

/// The networks of the paper's clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cluster {
    Fast,
    Gigabit,
}

impl Cluster {
    /// Both networks, in the paper's order.
    pub const ALL: [Self; 2] = [Self::Fast, Self::Gigabit];

    /// Returns the name in the paper's headings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "100Mbps",
            Self::Gigabit => "1000Mbps",
        }
    }

    /// Returns the rate in bits per second.
    pub const fn rate(self) -> u64 {
        match self {
            Self::Fast => 100_000_000,
            Self::Gigabit => 1_000_000_000,
        }
    }

    /// Returns [`calibration`](Self::calibration) with the costs of the hosts' processors, by Table
    /// 2, too.
    ///
    /// At 1000 Mbit/s they could not keep up with the cable (§5.1), so g(m) there is their time to
    /// send or receive a message: the least relative squares have 11.6 µs a frame and 8.5 ns a
    /// byte, within 7 % of seven of the eight sizes and 19 % of one. Both clusters had the same
    /// machines. The wake-up time of a host is the round trip of 256 bytes, less both hosts' work
    /// and two cables.
    pub fn hosts(self) -> Calibration {
        let wake_up_ns = match self {
            Self::Fast => 62_000,
            Self::Gigabit => 28_000,
        };
        let processing = Processing {
            send_frame_ns: 11_590,
            send_byte_ps: 8_490,
            receive_frame_ns: 11_590,
            receive_byte_ps: 8_490,
            wake_up_ns,
            ..Processing::default()
        };
        self.calibration().with_processing(processing).expect("it is less than a second")
    }

    /// Returns g(m) and L(m) as measured (Table 2).
    pub fn calibration(self) -> Calibration {
        let rows: [(u64, i64); 8] = match self {
            Self::Fast => {
                [(30, 110), (51, 156), (89, 250), (177, 318), (351, 317), (695, 324), (1389, 325), (2781, 323)]
            }
            Self::Gigabit => [(13, 46), (17, 54), (25, 68), (39, 83), (69, 82), (133, 78), (267, 62), (541, 30)],
        };
        let point =
            |(&bytes, (gap_us, latency_us))| Point { bytes, gap_ns: gap_us * 1000, latency_ns: latency_us * 1000 };
        let points = SEGMENTS_BYTES.iter().zip(rows).map(point).collect();
        Calibration::from_points(points).expect("Table 2 has eight rising sizes and gaps")
    }
}

/// The eight sizes the paper measured, and chose segments from.
pub const SEGMENTS_BYTES: [u64; 8] = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];

/// The rows of Table 3: sizes of messages.
pub const MESSAGES_BYTES: [u64; 9] =
    [8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];

const fn model_column(network: Cluster, linear: bool) -> [u64; 9] {
    match (network, linear) {
        (Cluster::Fast, true) => [256, 256, 256, 256, 512, 512, 1024, 1024, 1024],
        (Cluster::Fast, false) => [256, 512, 1024, 1024, 1024, 1024, 1024, 2048, 4096],
        (Cluster::Gigabit, true) => [256, 256, 512, 1024, 1024, 2048, 4096, 4096, 4096],
        (Cluster::Gigabit, false) => [512, 1024, 2048, 4096, 4096, 4096, 8192, 8192, 8192],
    }
}

pub(crate) const fn actual_column(network: Cluster, linear: bool) -> [u64; 9] {
    match (network, linear) {
        (Cluster::Fast, true) => [256, 512, 512, 512, 512, 1024, 1024, 2048, 1024],
        (Cluster::Fast, false) => [512, 512, 1024, 1024, 1024, 2048, 4096, 4096, 4096],
        (Cluster::Gigabit, true) => [512, 512, 2048, 2048, 2048, 2048, 2048, 4096, 4096],
        (Cluster::Gigabit, false) => [1024, 2048, 2048, 4096, 8192, 8192, 8192, 16384, 16384],
    }
}

/// Table 4's messages, in bytes.
pub const TABLE_4_MESSAGES_BYTES: [u64; 4] = [32 << 10, 128 << 10, 512 << 10, 2 << 20];

/// Returns Table 4: X·T(msize/X) in milliseconds for a segment of each of [`SEGMENTS_BYTES`] and
/// each message; the last row is T(msize).
pub const fn table_4(network: Cluster) -> [[f64; 4]; 9] {
    match network {
        Cluster::Fast => [
            [3.73, 15.03, 60.28, 200.93],
            [3.35, 13.00, 51.79, 198.61],
            [3.10, 11.82, 46.28, 184.15],
            [3.08, 11.65, 45.60, 181.35],
            [3.01, 11.45, 45.12, 180.00],
            [3.00, 11.41, 46.65, 179.13],
            [2.99, 11.37, 44.86, 178.79],
            [2.99, 11.36, 44.81, 178.60],
            [2.99, 11.35, 44.91, 178.57],
        ],
        Cluster::Gigabit => [
            [2.52, 8.52, 26.87, 102.07],
            [1.51, 5.19, 18.00, 70.55],
            [0.89, 3.40, 13.31, 53.01],
            [0.73, 2.73, 10.75, 42.83],
            [0.63, 2.36, 9.36, 37.31],
            [0.60, 2.17, 8.56, 33.57],
            [0.59, 2.11, 8.26, 32.74],
            [0.57, 2.08, 8.06, 31.93],
            [0.57, 2.10, 8.31, 32.64],
        ],
    }
}

/// A "Model" cell of Table 3 and ours.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cell {
    pub network: Cluster,
    /// Whether the column is the linear tree's, not the binary tree's.
    pub linear: bool,
    pub message_bytes: u64,
    /// The paper's best segment, in bytes.
    pub paper_bytes: u64,
    /// Our best of these eight segments, in bytes.
    pub ours_bytes: u64,
    /// The segment that the paper measured to be best, in bytes.
    pub actual_bytes: u64,
    /// Our prediction for the measured best, in seconds.
    pub actual_seconds: f64,
    /// Our prediction for the paper's, in seconds.
    pub paper_seconds: f64,
    /// Our prediction for ours, in seconds.
    pub ours_seconds: f64,
}

impl Cell {
    /// Whether both chose the same segment.
    pub fn is_equal(&self) -> bool {
        self.paper_bytes == self.ours_bytes
    }

    /// Returns the excess of the paper's choice over ours, as a share of our time, in our model.
    pub fn excess(&self) -> f64 {
        self.paper_seconds / self.ours_seconds - 1.0
    }
}

/// Computes the 36 "Model" cells of Table 3 from Table 2's figures: by network, then tree, then
/// message.
pub fn table_3(linear: &Shape, binary: &Shape) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(36);
    for network in Cluster::ALL {
        let calibration = network.calibration();
        for (shape, is_linear) in [(linear, true), (binary, false)] {
            let columns = model_column(network, is_linear).into_iter().zip(actual_column(network, is_linear));
            for (message_bytes, (paper_bytes, actual_bytes)) in MESSAGES_BYTES.into_iter().zip(columns) {
                let price = |segment_bytes: u64| {
                    let job = Job { size_bytes: message_bytes, segment_bytes, frame_payload_bytes: SEGMENTS_BYTES[0] };
                    predict(shape, &job, &calibration)
                };
                let priced = SEGMENTS_BYTES
                    .into_iter()
                    .filter(|&bytes| bytes <= message_bytes)
                    .map(|bytes| (bytes, price(bytes)));
                let (ours_bytes, ours_seconds) = priced
                    .reduce(|best, next| if next.1 < best.1 { next } else { best })
                    .expect("every message has 8 KiB or more");
                let paper_seconds = price(paper_bytes);
                cells.push(Cell {
                    network,
                    linear: is_linear,
                    message_bytes,
                    paper_bytes,
                    ours_bytes,
                    actual_bytes,
                    actual_seconds: price(actual_bytes),
                    paper_seconds,
                    ours_seconds,
                });
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_planning::model::best_segment;
    use ethbcast_planning::plan::{self, Via};
    use ethbcast_planning::topology::Topology;

    fn shape(via: Via, topology: &Topology) -> Shape {
        let members: Vec<usize> = (0..topology.hosts().len()).collect();
        let plan = plan::make(via, topology, 0, &members, &plan::Costs::default()).expect("a plan");
        Shape::of(&plan, topology, &members)
    }

    #[test]
    fn table_1_is_what_very_large_messages_come_to() {
        // Patarasuk 2008, Table 1: multiples of T(msize) for P ranks.
        let size = 8 << 30;
        for ranks in [8usize, 16, 32] {
            let topology = Topology::single_switch((0..ranks).map(|host| format!("n{host}"))).expect("hosts");
            let calibration = Cluster::Fast.calibration();
            let alone = (calibration.gap_ns(size) + calibration.latency_ns(size)) / 1e9;
            let ratio = |via| best_segment(&shape(via, &topology), size, 1024, &calibration).1 / alone;
            let (p, log) = (ranks as f64, ranks.ilog2() as f64);
            let two = 2.0 * (p - 1.0) / p;
            let table = [
                (Via::Flat, p - 1.0),
                (Via::Binomial, log),
                (Via::ScatterAllgather, two),
                (Via::RecursiveDoubling, two),
                (Via::Chain, 1.0),
                (Via::Binary, 2.0),
                (Via::Kary(3), 3.0),
                (Via::Kary(4), 4.0),
            ];
            for (via, expected) in table {
                let ratio = ratio(via);
                assert!((ratio / expected - 1.0).abs() < 0.01, "{via} to {ranks}: {ratio}, expected {expected}");
            }
        }
    }

    #[test]
    fn table_3_comes_from_table_2() {
        let topology = Topology::builtin("fig9-4").expect("fig9-4");
        let (linear, binary) = (shape(Via::Chain, &topology), shape(Via::Binary, &topology));
        assert_eq!((linear.ranks, binary.height), (32, 6));
        let cells = table_3(&linear, &binary);
        assert_eq!(cells.len(), 36);
        let equal = cells.iter().filter(|cell| cell.is_equal()).count();
        let worst = cells.iter().map(Cell::excess).fold(0.0, f64::max);
        assert!(equal >= 31, "{equal} of 36 are equal");
        assert!(worst <= 0.025, "the paper's choice takes up to {worst} longer");
        // The choice of a session, whose frames have room for 1468 bytes.
        for cell in cells {
            let shape = if cell.linear { &linear } else { &binary };
            let (_, seconds) = best_segment(shape, cell.message_bytes, 1468, &cell.network.calibration());
            assert!(seconds <= cell.ours_seconds * 1.03, "{} bytes: {seconds} s", cell.message_bytes);
        }
    }
}
