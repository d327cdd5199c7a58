//! Reproduction of Figure 5 of Patarasuk 2008: heights of binary broadcast trees on random
//! clusters.
//!
//! Clusters are made as in §4.1.2: random links between switches "until a tree that connects all
//! nodes is formed (links that violate the tree property are not added)"; then each machine is put
//! on a random switch. That can be read in two ways (see [`Links`]), and the paper does not say
//! which machine is the root (see [`Root`]). The heights depend on both. For comparison the results
//! hold the least height of any tree over a depth-first line, which Algorithm 2 keeps to, and that
//! of the lowest tree of any kind that a search of bounded time finds.

use anyhow::ensure;
use ethbcast_bench::report::Table;
use ethbcast_planning::plan::{self, Costs, Via};
use ethbcast_planning::topology::Topology;

use crate::Output;
use crate::panel::Panel;

const SIZES: [usize; 13] = [
    16, 32, 64, 128, 192, 256, 384, 512, 640, 768, 896, 960, 1024,
];
/// Highest ratio of the paper's averages to the height of the complete binary tree.
const PAPERS_RATIO: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Links {
    /// Links from a switch of the tree to one outside it, which leave one tree. Trees are shallow.
    Growing,
    /// Links that close no loop: several trees grow together. Trees are deeper.
    Joining,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Root {
    Any,
    /// The first of those from which the way to the farthest machine has the fewest switches.
    Central,
}

struct Case {
    links: Links,
    each: usize,
    root: Root,
    name: &'static str,
}

const CASES: [Case; 6] = [
    Case {
        links: Links::Growing,
        each: 8,
        root: Root::Any,
        name: "growing, 8/switch",
    },
    Case {
        links: Links::Growing,
        each: 16,
        root: Root::Any,
        name: "growing, 16/switch",
    },
    Case {
        links: Links::Joining,
        each: 8,
        root: Root::Any,
        name: "joining, 8/switch",
    },
    Case {
        links: Links::Joining,
        each: 16,
        root: Root::Any,
        name: "joining, 16/switch",
    },
    Case {
        links: Links::Joining,
        each: 8,
        root: Root::Central,
        name: "joining, 8/switch, central root",
    },
    Case {
        links: Links::Joining,
        each: 16,
        root: Root::Central,
        name: "joining, 16/switch, central root",
    },
];

/// Number of random clusters of each size.
const CLUSTERS: u32 = 20;
/// Seed of all random clusters.
const SEED: u64 = 5;

/// Heights that are averaged: of Algorithm 2's tree, the least over a depth-first line, and of the
/// lowest tree found.
const HEIGHTS: [(&str, &str); 3] = [
    (
        "height",
        "Average height of the contention-free binary tree (Algorithm 2):",
    ),
    (
        "least",
        "Least average height over a depth-first line, whatever the order of the search. Others can be lower:",
    ),
    (
        "best",
        "Average height of the lowest tree found by `--via binary-best`: other orders, and trees over no line:",
    ),
];

pub fn figure_5() -> anyhow::Result<Output> {
    let complete: Vec<Option<f64>> = SIZES
        .iter()
        .map(|size| Some(f64::from(size.ilog2())))
        .collect();
    let mut panels = HEIGHTS.map(|(letter, title)| Panel {
        letter: letter.to_owned(),
        title: title.to_owned(),
        axis: "machines".to_owned(),
        points: SIZES.iter().map(|&size| size as u64).collect(),
        lines: vec![("complete binary tree".to_owned(), complete.clone())],
        hosts: 0,
    });
    for case in &CASES {
        let averages = SIZES
            .iter()
            .map(|&size| averages(case, size))
            .collect::<anyhow::Result<Vec<_>>>()?;
        for (which, panel) in panels.iter_mut().enumerate() {
            panel.lines.push((
                case.name.to_owned(),
                averages
                    .iter()
                    .map(|of_size| Some(of_size[which]))
                    .collect(),
            ));
        }
    }
    let mut text = format!(
        "Average heights of binary trees over {CLUSTERS} random clusters of each size, seed {SEED}, beside the \
         complete\n\
         binary tree's: Patarasuk 2008, Figure 5. A growing tree of switches gets only links that leave it one tree;\n\
         joining ones get all that close no loop. The root is any machine, or one on a central switch.\n"
    );
    let mut csv = Table::under("height, case, machines, average");
    for panel in &panels {
        text += &panel.table(|height, _| format!("{height:>5.2}"), &[]);
        for (case, heights) in &panel.lines {
            for (machines, height) in panel.points.iter().zip(heights.iter().flatten()) {
                csv.push(vec![
                    panel.letter.clone(),
                    case.clone(),
                    machines.to_string(),
                    format!("{height:.2}"),
                ]);
            }
        }
    }
    text += &format!(
        "\nThe paper's averages stay within {PAPERS_RATIO} times the complete tree's. Ratios to it, the greatest of \
         all sizes:\n\n{}",
        verdicts(&panels).aligned()
    );
    // The search can improve on trees where switches are joined at random.
    let searched = panels[2]
        .lines
        .iter()
        .filter(|(name, _)| name.starts_with("joining") && !name.contains("central"));
    let searched: Vec<_> = searched
        .map(|(name, line)| (format!("{name}, binary-best"), line.clone()))
        .collect();
    let title =
        "Height of contention-free binary trees (Algorithm 2, and the lowest found)".to_owned();
    let lines = [panels[0].lines.clone(), searched].concat();
    let svg = Panel {
        title,
        lines,
        ..panels[0].clone()
    }
    .svg("average tree height", |_, _, height| Some(height));
    let more = svg.into_iter().map(|svg| ("svg".to_owned(), svg)).collect();
    Ok(Output {
        name: "figure5".to_owned(),
        text,
        csv,
        more,
        is_met: true,
    })
}

/// Returns the averages of [`HEIGHTS`] over random clusters of this size.
fn averages(case: &Case, machines: usize) -> anyhow::Result<[f64; 3]> {
    let mut averages = [0.0; 3];
    for number in 0..CLUSTERS {
        // Each cluster has random numbers of its own: another size or case does not change
        // it, and the root changes none.
        let kind = 2 * u64::from(case.links == Links::Joining) + u64::from(case.each == 16);
        let mut dice = Dice::seeded([SEED, machines as u64, kind, number.into()]);
        let cluster = cluster(
            case.links,
            machines.div_ceil(case.each),
            machines,
            &mut dice,
        )?;
        let root = if case.root == Root::Any {
            0
        } else {
            central(&cluster)
        };
        let [binary, best] = [
            height(Via::Binary, &cluster, root)?,
            height(Via::BinaryBest, &cluster, root)?,
        ];
        let least = least(&cluster, root)?;
        ensure!(
            least <= binary,
            "{binary} is lower than the {least} of a part of the line"
        );
        ensure!(
            best <= binary,
            "the search found {best}, and Algorithm 2 {binary}"
        );
        for (average, height) in averages.iter_mut().zip([binary, least, best]) {
            *average += height as f64 / f64::from(CLUSTERS);
        }
    }
    Ok(averages)
}

fn height(via: Via, cluster: &Topology, root: usize) -> anyhow::Result<usize> {
    let all: Vec<usize> = (0..cluster.hosts().len()).collect();
    let plan = plan::make(via, cluster, root, &all, &Costs::default())?;
    let report = plan::check(cluster, &plan, &all);
    ensure!(report.is_good(), "{via} made a tree that {report}");
    Ok(plan.height())
}

/// Returns a lower bound for trees over any depth-first line, whatever the order of Algorithm 1.
/// The search has no choice along a path of switches, so the bound is the height of the lowest tree
/// over the machines along the path that needs the most, or the complete tree's height. Trees over
/// no such line can be lower.
fn least(cluster: &Topology, root: usize) -> anyhow::Result<usize> {
    let ways = ways(cluster, cluster.switch_of(root));
    let mut least = cluster.hosts().len().ilog2() as usize;
    for way in ways
        .iter()
        .filter(|way| cluster.neighbours(way[way.len() - 1]).len() < 2)
    {
        let members: Vec<usize> = way
            .iter()
            .flat_map(|&switch| cluster.hosts_on(switch))
            .collect();
        least = least.max(plan::kary(cluster, root, &members, 2)?.height());
    }
    Ok(least)
}

fn central(cluster: &Topology) -> usize {
    let farthest = |from: usize| {
        let ways = ways(cluster, from);
        let with_machines = ways
            .iter()
            .filter(|way| cluster.hosts_on(way[way.len() - 1]).next().is_some());
        with_machines.map(Vec::len).max()
    };
    let distances: Vec<Option<usize>> = (0..cluster.switches().len()).map(farthest).collect();
    (0..cluster.hosts().len())
        .min_by_key(|&host| distances[cluster.switch_of(host)])
        .expect("a cluster has a machine")
}

fn ways(cluster: &Topology, start: usize) -> Vec<Vec<usize>> {
    let mut ways = vec![vec![start]];
    let mut seen = 0;
    while let Some(way) = ways.get(seen).cloned() {
        let onward = cluster
            .neighbours(way[way.len() - 1])
            .iter()
            .filter(|next| !way.contains(next));
        ways.extend(onward.map(|&next| [way.as_slice(), &[next]].concat()));
        seen += 1;
    }
    ways
}

fn cluster(
    kind: Links,
    switches: usize,
    machines: usize,
    dice: &mut Dice,
) -> anyhow::Result<Topology> {
    let mut links = vec![Vec::new(); switches];
    // Number of the tree that each switch is in; the growing one is that of switch 0.
    let mut tree: Vec<usize> = (0..switches).collect();
    let mut missing = switches - 1;
    while missing > 0 {
        let (from, to) = (dice.below(switches), dice.below(switches));
        let (kept, gone) = (tree[from].min(tree[to]), tree[from].max(tree[to]));
        if kept != gone && (kind == Links::Joining || kept == 0) {
            tree.iter_mut()
                .filter(|tree| **tree == gone)
                .for_each(|tree| *tree = kept);
            links[from].push(format!("'s{to}'"));
            missing -= 1;
        }
    }
    let mut hosts = vec![Vec::new(); switches];
    for machine in 0..machines {
        hosts[dice.below(switches)].push(format!("'n{machine}'"));
    }
    let mut text = "schema = 1\n".to_owned();
    for (id, (hosts, links)) in hosts.iter().zip(&links).enumerate() {
        text += &format!(
            "[[switch]]\nname = 's{id}'\nhosts = [{}]\nlinks = [{}]\n",
            hosts.join(", "),
            links.join(", ")
        );
    }
    Ok(Topology::parse(&text, "random cluster")?)
}

/// SplitMix64: good enough for clusters, and equal on every machine.
struct Dice(u64);

impl Dice {
    /// Mixes in each number with a step, so that similar lists of small numbers give unrelated
    /// sequences.
    fn seeded(numbers: [u64; 4]) -> Self {
        let mut dice = Self(0);
        for number in numbers {
            dice.0 ^= number;
            dice.0 = dice.throw();
        }
        dice
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        // The high half of a product with the bound: the modulo bias is negligible below 2³²
        // switches.
        ((u128::from(self.throw()) * bound as u128) >> 64) as usize
    }
}

fn verdicts(panels: &[Panel; 3]) -> Table {
    let mut table = Table::under(
        "case, ratio, within 2 at, least on a line, within 2 at, best found, within 2 at, verdict",
    );
    for Case { name, .. } in &CASES {
        let ratios = panels.each_ref().map(|panel| {
            let at = |&point: &u64| {
                Some(panel.at(name, point)? / panel.at("complete binary tree", point)?)
            };
            panel.points.iter().filter_map(at).collect::<Vec<f64>>()
        });
        let [binary, least, _] = ratios
            .each_ref()
            .map(|all| all.iter().all(|&ratio| ratio <= PAPERS_RATIO));
        let verdict = match (binary, least) {
            (true, _) => "as in the paper",
            (false, true) => "higher than in the paper",
            (false, false) => "higher than in the paper, as is any tree over a depth-first line",
        };
        let cells = ratios.iter().flat_map(|all| {
            let within = all.iter().filter(|&&ratio| ratio <= PAPERS_RATIO).count();
            [
                format!("{:.2}", all.iter().copied().fold(0.0, f64::max)),
                format!("{within} of {}", all.len()),
            ]
        });
        table.push(
            [(*name).to_owned()]
                .into_iter()
                .chain(cells)
                .chain([verdict.to_owned()])
                .collect(),
        );
    }
    table
}
