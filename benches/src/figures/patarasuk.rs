//! Figures 11 to 18 of Patarasuk 2008, and the statements of §5 about them.

use super::figure::{Drawn, Figure, Line, Panel};
use super::grids::{doubling, line, mpich, one_to_one};
use super::runs::{Run, Site};
use super::said::Said;
use crate::papers::{Cluster, MESSAGES_BYTES, SEGMENTS_BYTES, actual_column};
use crate::table::Table;
use crate::units::size;
use ethbcast_planning::plan::Via;

const KIB: u64 = 1 << 10;
const BEDS: [&str; 5] = ["fig9-1", "fig9-2", "fig9-3", "fig9-4", "fig9-5"];
const AT_LEAST_1: std::ops::RangeInclusive<f64> = 1.0..=f64::INFINITY;

pub fn patarasuk() -> Vec<Figure> {
    vec![figure_11(), figure_12(), figure_13_14(), figure_15(), figure_16(), figure_17(), figure_18()]
}

/// The model's best of the eight segments, beside the measured best.
fn figure_11() -> Figure {
    let lines = |network, (name, via): (&str, Via)| -> Vec<Line> {
        let run = move |bytes| Run { site: Site::Bed("fig9-4"), network, via, bytes, segment_bytes: None };
        let own = |bytes: u64| SEGMENTS_BYTES.into_iter().filter(move |&segment| segment <= bytes);
        let mut lines: Vec<Line> = Vec::new();
        for segment in SEGMENTS_BYTES {
            let in_segments = move |bytes: u64| run(bytes).in_segments(segment.min(bytes));
            lines.push((format!("{name} {segment}"), Box::new(in_segments)));
        }
        let price = move |bytes, segment: u64| run(bytes).predicted(segment).unwrap_or(f64::INFINITY);
        let best = move |bytes: u64| {
            let cheapest = own(bytes).min_by(|&left, &right| price(bytes, left).total_cmp(&price(bytes, right)));
            run(bytes).in_segments(cheapest.unwrap_or(bytes))
        };
        lines.push((format!("{name}, predicted"), Box::new(best)));
        lines
    };
    let panel = |letter, network: Cluster| Panel {
        letter,
        title: format!("Figure 11 ({letter}): all segments and the predicted one, topology (4), {}", network.name()),
        axis: "bytes",
        points: doubling(8, 2048),
        lines: [("linear", Via::Chain), ("binary", Via::Binary)]
            .into_iter()
            .flat_map(|tree| lines(network, tree))
            .collect(),
    };
    Figure {
        name: "figure11",
        title: "Figure 11 and the \"Actual\" columns of Table 3 of Patarasuk 2008",
        panels: vec![panel("a", Cluster::Fast), panel("b", Cluster::Gigabit)],
        said: |panels| {
            let mut said = Vec::new();
            for panel in panels {
                for tree in ["linear", "binary"] {
                    let mut worst = 0.0_f64;
                    for &bytes in panel.points() {
                        let best = best_segment(panel, tree, bytes)?.1;
                        worst = worst.max(panel.at(&format!("{tree}, predicted"), bytes)? / best);
                    }
                    let what =
                        format!("({}) {tree}: the predicted segment is close to the best, at worst", panel.letter());
                    said.push(Said::new(what, worst, 0.0..=1.10));
                }
            }
            Ok(said)
        },
    }
}

fn best_segment(panel: &Drawn, tree: &str, bytes: u64) -> anyhow::Result<(u64, f64)> {
    let mut best = (0, f64::INFINITY);
    for segment in SEGMENTS_BYTES.into_iter().filter(|&segment| segment <= bytes) {
        let seconds = panel.at(&format!("{tree} {segment}"), bytes)?;
        best = if seconds < best.1 { (segment, seconds) } else { best };
    }
    Ok(best)
}

/// Returns the "Actual" columns of Table 3: the best segments here, the paper's in brackets, and
/// the extra time of those here.
///
/// # Errors
/// Fails if these are not the panels of Figure 11.
pub fn actual(panels: &[Drawn]) -> anyhow::Result<Table> {
    let mut table = Table::new(&["message", "100Mbps linear", "100Mbps binary", "1000Mbps linear", "1000Mbps binary"]);
    for (row, bytes) in MESSAGES_BYTES.into_iter().enumerate() {
        let mut cells = vec![size(bytes)];
        for (panel, network) in panels.iter().zip(Cluster::ALL) {
            for tree in ["linear", "binary"] {
                let (ours, seconds) = best_segment(panel, tree, bytes)?;
                let papers = actual_column(network, tree == "linear")[row];
                let excess = panel.at(&format!("{tree} {papers}"), bytes)? / seconds - 1.0;
                cells.push(format!("{ours}B ({papers}B +{:.1} %)", excess * 100.0));
            }
        }
        table.push(cells);
    }
    Ok(table)
}

fn trees(
    name: &'static str,
    number: u8,
    title: &'static str,
    network: Cluster,
    said: fn(&[Drawn]) -> anyhow::Result<Vec<Said>>,
) -> Figure {
    let site = || Site::Bed("fig9-1");
    let panel = |letter, what, points| Panel {
        letter,
        title: format!("Figure {number} ({letter}): trees on topology (1), {}, {what} messages", network.name()),
        axis: "bytes",
        points,
        lines: vec![
            line("linear", site(), network, Via::Chain),
            line("binary", site(), network, Via::Binary),
            line("3-ary", site(), network, Via::Kary(3)),
            one_to_one(network),
        ],
    };
    let panels = vec![panel("a", "medium", doubling(4, 32)), panel("b", "large", doubling(64, 2048))];
    Figure { name, title, panels, said }
}

fn figure_12() -> Figure {
    trees("figure12", 12, "Figure 12 of Patarasuk 2008: trees on topology (1), 100 Mbit/s", Cluster::Fast, |panels| {
        let (medium, large) = (&panels[0], &panels[1]);
        let all = |_| true;
        Ok(vec![
            Said::new(
                "8 to 16 KiB: binary is best, linear / binary at least",
                medium.ratios("linear", "binary", |bytes| (8..=16).contains(&(bytes / KIB)))?.0,
                AT_LEAST_1,
            ),
            Said::new(
                "from 32 KiB on linear is best, binary / linear at 32 KiB",
                medium.at("binary", 32 * KIB)? / medium.at("linear", 32 * KIB)?,
                AT_LEAST_1,
            ),
            Said::new("and above, binary / linear at least", large.ratios("binary", "linear", all)?.0, AT_LEAST_1),
            Said::new(
                "3-ary is always worse than binary, at least (medium)",
                medium.ratios("3-ary", "binary", all)?.0,
                AT_LEAST_1,
            ),
            Said::new(
                "3-ary is always worse than binary, at least (large)",
                large.ratios("3-ary", "binary", all)?.0,
                AT_LEAST_1,
            ),
            Said::new(
                "from 128 KiB on linear is very close to pingpong/2, at most",
                large.ratios("linear", "pingpong/2", |bytes| bytes >= 128 * KIB)?.1,
                0.0..=1.25,
            ),
            Said::new(
                "binary is about twice pingpong/2, at 1 MiB",
                large.at("binary", 1024 * KIB)? / large.at("pingpong/2", 1024 * KIB)?,
                1.8..=2.2,
            ),
        ])
    })
}

fn figure_17() -> Figure {
    trees(
        "figure17",
        17,
        "Figure 17 of Patarasuk 2008: trees on topology (1), 1000 Mbit/s",
        Cluster::Gigabit,
        |panels| {
            let (medium, large) = (&panels[0], &panels[1]);
            let all = |_| true;
            Ok(vec![
                Said::new(
                    "linear beats binary only above 1 MiB, linear / binary up to 256 KiB at least",
                    large.ratios("linear", "binary", |bytes| bytes <= 256 * KIB)?.0,
                    AT_LEAST_1,
                ),
                Said::new(
                    "and at 2 MiB at most",
                    large.at("linear", 2048 * KIB)? / large.at("binary", 2048 * KIB)?,
                    0.0..=1.0,
                ),
                Said::new(
                    "3-ary is always worse than binary, at least (medium)",
                    medium.ratios("3-ary", "binary", all)?.0,
                    AT_LEAST_1,
                ),
                Said::new(
                    "3-ary is always worse than binary, at least (large)",
                    large.ratios("3-ary", "binary", all)?.0,
                    AT_LEAST_1,
                ),
                Said::new(
                    "linear does not approach pingpong/2 at 2 MiB, at least",
                    large.at("linear", 2048 * KIB)? / large.at("pingpong/2", 2048 * KIB)?,
                    1.3..=f64::INFINITY,
                ),
                Said::new(
                    "binary at 128 KiB in the paper 7.8 ms, ours in ms",
                    large.at("binary", 128 * KIB)? * 1e3,
                    7.8 * 0.75..=7.8 * 1.25,
                ),
                Said::new(
                    "binary at 512 KiB in the paper 24.3 ms, ours in ms",
                    large.at("binary", 512 * KIB)? * 1e3,
                    24.3 * 0.75..=24.3 * 1.25,
                ),
            ])
        },
    )
}

fn algorithms(network: Cluster, bed: &'static str) -> Vec<Line> {
    let site = || Site::Bed(bed);
    vec![
        line("linear", site(), network, Via::Chain),
        line("binary", site(), network, Via::Binary),
        line("LAM (binomial)", site(), network, Via::Binomial),
        mpich(site(), network),
    ]
}

fn topology(bed: &str) -> &str {
    bed.trim_start_matches("fig9-")
}

fn of_algorithms(numbers: &str, network: Cluster, letters: [&'static str; 5], points: Vec<u64>) -> Vec<Panel> {
    let panel = |(letter, bed): (&'static str, &'static str)| Panel {
        letter,
        title: format!("Figure {numbers} ({letter}): algorithms on topology ({}), {}", topology(bed), network.name()),
        axis: "bytes",
        points: points.clone(),
        lines: algorithms(network, bed),
    };
    letters.into_iter().zip(BEDS).map(panel).collect()
}

fn figure_13_14() -> Figure {
    Figure {
        name: "figures13-14",
        title: "Figures 13 and 14 of Patarasuk 2008: algorithms on all topologies, 100 Mbit/s",
        panels: of_algorithms("13-14", Cluster::Fast, ["1", "2", "3", "4", "5"], doubling(8, 1024)),
        said: |panels| {
            let mut said = Vec::new();
            for panel in panels {
                for other in ["LAM (binomial)", "MPICH"] {
                    let what = format!("topology ({}): {other} / linear from 8 KiB on at least", panel.letter());
                    said.push(Said::new(what, panel.ratios(other, "linear", |_| true)?.0, AT_LEAST_1));
                }
                let long = |bytes| bytes >= 512 * KIB;
                if ["1", "4"].contains(&panel.letter()) {
                    let what =
                        format!("topology ({}): MPICH / binary from 512 KiB on is about 1, at most", panel.letter());
                    said.push(Said::new(what, panel.ratios("MPICH", "binary", long)?.1, 0.7..=1.3));
                }
                let what = format!(
                    "topology ({}): MPICH / linear from 512 KiB on is about 2 or more, at least",
                    panel.letter()
                );
                said.push(Said::new(what, panel.ratios("MPICH", "linear", long)?.0, 1.6..=f64::INFINITY));
            }
            Ok(said)
        },
    }
}

fn figure_15() -> Figure {
    let lines = |bed: &'static str| -> Vec<Line> {
        [Via::Chain, Via::ChainUnaware, Via::Binary, Via::BinaryUnaware]
            .into_iter()
            .map(|via| line(&via.to_string(), Site::Bed(bed), Cluster::Fast, via))
            .collect()
    };
    let panel = |(letter, bed): (&'static str, &'static str)| Panel {
        letter,
        title: format!("Figure 15: contention-free and topology-unaware trees, topology ({letter}), 100Mbps"),
        axis: "bytes",
        points: doubling(32, 1024),
        lines: lines(bed),
    };
    Figure {
        name: "figure15",
        title: "Figure 15 of Patarasuk 2008: contention-free trees beside topology-unaware ones, 100 Mbit/s",
        panels: ["1", "2", "3", "4", "5"].into_iter().zip(BEDS).map(panel).collect(),
        said: |panels| {
            let mut said = Vec::new();
            let all = |_| true;
            let (_, most) = panels[1].ratios("chain-unaware", "chain", all)?;
            said.push(Said::new("topology (2): the unaware chain is exactly as fast, at most", most, 0.95..=1.05));
            let five = &panels[4];
            let mib = 1024 * KIB;
            said.push(Said::new(
                "topology (5), 1 MiB: the unaware chain takes 3.82 times as long (409.7 ms), ours",
                five.at("chain-unaware", mib)? / five.at("chain", mib)?,
                3.0..=f64::INFINITY,
            ));
            said.push(Said::new(
                "topology (5), 1 MiB: the chain takes 107.3 ms, ours in ms",
                five.at("chain", mib)? * 1e3,
                107.3 * 0.8..=107.3 * 1.2,
            ));
            for panel in &panels[1..] {
                let what =
                    format!("topology ({}): the unaware binary tree is significantly worse, at least", panel.letter());
                said.push(Said::new(
                    what,
                    panel.ratios("binary-unaware", "binary", |bytes| bytes >= 128 * KIB)?.0,
                    1.2..=f64::INFINITY,
                ));
            }
            Ok(said)
        },
    }
}

fn figure_16() -> Figure {
    let lines = |bed: &'static str| -> Vec<Line> {
        SEGMENTS_BYTES
            .into_iter()
            .map(|segment| -> Line {
                let run = move |bytes: u64| Run {
                    site: Site::Bed(bed),
                    network: Cluster::Fast,
                    via: Via::Chain,
                    bytes,
                    segment_bytes: Some(segment.min(bytes)),
                };
                (segment.to_string(), Box::new(run))
            })
            .collect()
    };
    let panel = |(letter, bed): (&'static str, &'static str)| Panel {
        letter,
        title: format!("Figure 16: a linear tree in segments of so many bytes, topology ({letter}), 100Mbps"),
        axis: "bytes",
        points: doubling(32, 1024),
        lines: lines(bed),
    };
    Figure {
        name: "figure16",
        title: "Figure 16 of Patarasuk 2008: linear trees in segments of several lengths, 100 Mbit/s",
        panels: ["1", "2", "3", "4", "5"].into_iter().zip(BEDS).map(panel).collect(),
        said: |panels| {
            let ratio = |panel: &Drawn| -> anyhow::Result<Said> {
                let (least, most) = panel.ratios("2048", "512", |bytes| bytes >= 128 * KIB)?;
                let what =
                    format!("topology ({}): 512 to 2048 bytes make no great difference, at most", panel.letter());
                Ok(Said::new(what, most.max(1.0 / least), 0.0..=1.4))
            };
            panels.iter().map(ratio).collect()
        },
    }
}

fn figure_18() -> Figure {
    Figure {
        name: "figure18",
        title: "Figure 18 of Patarasuk 2008: algorithms on all topologies, 1000 Mbit/s",
        panels: of_algorithms("18", Cluster::Gigabit, ["1", "2", "3", "4", "5"], doubling(32, 2048)),
        said: |panels| {
            let mut said = Vec::new();
            let (one, four) = (&panels[0], &panels[3]);
            let papers = [
                (one, "MPICH", 128, 8.7),
                (one, "MPICH", 512, 27.8),
                (four, "binary", 1024, 47.2),
                (four, "LAM (binomial)", 1024, 87.4),
                (four, "MPICH", 1024, 57.4),
            ];
            for (panel, line, kib, paper_ms) in papers {
                let what =
                    format!("topology ({}), {kib} KiB: {line} {paper_ms} ms in the paper, ours in ms", panel.letter());
                said.push(Said::new(what, panel.at(line, kib * KIB)? * 1e3, paper_ms * 0.7..=paper_ms * 1.3));
            }
            let what = "topology (4), 32 to 256 KiB: recursive doubling is extremely poor, MPICH / binary at least";
            said.push(Said::new(
                what,
                four.ratios("MPICH", "binary", |bytes| bytes <= 256 * KIB)?.0,
                1.5..=f64::INFINITY,
            ));
            for other in ["LAM (binomial)", "MPICH"] {
                let what = format!("topology (5): {other} / binary at every size at least");
                said.push(Said::new(what, panels[4].ratios(other, "binary", |_| true)?.0, 1.5..=f64::INFINITY));
            }
            Ok(said)
        },
    }
}
