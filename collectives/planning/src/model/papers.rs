//! What Patarasuk 2008 measured and predicted (Tables 2 and 3), and our predictions beside it.

use super::calibration::{Calibration, Point};
use super::predict::{Job, predict};
use super::shape::Shape;

/// The networks of the paper's clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// 100 Mbit/s.
    Fast,
    /// 1000 Mbit/s.
    Gigabit,
}

impl Cluster {
    /// Both, in the paper's order.
    pub const ALL: [Self; 2] = [Self::Fast, Self::Gigabit];

    /// As the paper's headings have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "100Mbps",
            Self::Gigabit => "1000Mbps",
        }
    }

    /// g(m) and L(m) as measured (Table 2).
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

/// The eight sizes the paper measured and chose segments from.
pub const SEGMENTS_BYTES: [u64; 8] = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];

/// The rows of Table 3: sizes of messages.
pub const MESSAGES_BYTES: [u64; 9] =
    [8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];

/// A column of Table 3: the segments the paper's model finds best, by row.
const fn model_column(network: Cluster, linear: bool) -> [u64; 9] {
    match (network, linear) {
        (Cluster::Fast, true) => [256, 256, 256, 256, 512, 512, 1024, 1024, 1024],
        (Cluster::Fast, false) => [256, 512, 1024, 1024, 1024, 1024, 1024, 2048, 4096],
        (Cluster::Gigabit, true) => [256, 256, 512, 1024, 1024, 2048, 4096, 4096, 4096],
        (Cluster::Gigabit, false) => [512, 1024, 2048, 4096, 4096, 4096, 8192, 8192, 8192],
    }
}

/// A "Model" cell of Table 3 and ours.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cell {
    /// Which cluster.
    pub network: Cluster,
    /// The linear tree's column, not the binary tree's.
    pub linear: bool,
    /// Bytes of the message.
    pub message_bytes: u64,
    /// The best segment, in bytes, as the paper has it.
    pub paper_bytes: u64,
    /// The best of the same eight segments, in bytes, as we have it.
    pub ours_bytes: u64,
    /// What we predict for the paper's, in seconds.
    pub paper_seconds: f64,
    /// What we predict for ours, in seconds.
    pub ours_seconds: f64,
}

impl Cell {
    /// Whether both chose the same.
    pub fn is_equal(&self) -> bool {
        self.paper_bytes == self.ours_bytes
    }

    /// By how much of our time the paper's choice takes longer in our model.
    pub fn excess(&self) -> f64 {
        self.paper_seconds / self.ours_seconds - 1.0
    }
}

/// The 36 "Model" cells of Table 3 from Table 2's figures: by network, then tree, then message.
pub fn table_3(linear: &Shape, binary: &Shape) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(36);
    for network in Cluster::ALL {
        let calibration = network.calibration();
        for (shape, is_linear) in [(linear, true), (binary, false)] {
            for (message_bytes, paper_bytes) in MESSAGES_BYTES.into_iter().zip(model_column(network, is_linear)) {
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
                    paper_seconds,
                    ours_seconds,
                });
            }
        }
    }
    cells
}
