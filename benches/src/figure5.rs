//! Figure 5 of Patarasuk 2008: heights of the contention-free binary trees of Algorithm 2 on random
//! clusters.
//!
//! Clusters are made as in §4.1.2: random links between switches "until a tree that connects all
//! nodes is formed (links that violate the tree property are not added)"; then each machine is put
//! on a random switch. That can be read in two ways, see [`Links`], and the paper does not say which
//! machine is the root, see [`Root`]: the heights depend on both. For comparison the results hold
//! the least height of any tree over a depth-first line, which Algorithm 2 keeps to, and that of the
//! lowest tree of any kind that a search of bounded time finds.

use anyhow::ensure;
use ethbcast_bench::chart::{Series, line_chart};
use ethbcast_bench::table::Table;
use ethbcast_planning::plan::{self, Costs, Via};
use ethbcast_planning::topology::Topology;

use crate::results::Output;

const SIZES: [usize; 13] = [16, 32, 64, 128, 192, 256, 384, 512, 640, 768, 896, 960, 1024];
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
    Case { links: Links::Growing, each: 8, root: Root::Any, name: "growing, 8/switch" },
    Case { links: Links::Growing, each: 16, root: Root::Any, name: "growing, 16/switch" },
    Case { links: Links::Joining, each: 8, root: Root::Any, name: "joining, 8/switch" },
    Case { links: Links::Joining, each: 16, root: Root::Any, name: "joining, 16/switch" },
    Case { links: Links::Joining, each: 8, root: Root::Central, name: "joining, 8/switch, central root" },
    Case { links: Links::Joining, each: 16, root: Root::Central, name: "joining, 16/switch, central root" },
];

/// Random clusters of each size, and the seed of all.
const CLUSTERS: u32 = 20;
const SEED: u64 = 5;

/// Measures all heights.
pub fn figure_5() -> anyhow::Result<Output> {
    let rows = SIZES.iter().map(|&size| Row::measure(size)).collect::<anyhow::Result<Vec<_>>>()?;
    let (text, csv, more) = (report(&rows), every_number(&rows), vec![("svg".to_owned(), svg(&rows))]);
    Ok(Output { name: "figure5".to_owned(), text, csv, more, is_met: true })
}

struct Row {
    machines: usize,
    complete: u32,
    averages: [Averages; CASES.len()],
}

#[derive(Clone, Copy, Default)]
struct Averages {
    height: f64,
    least: f64,
    best: f64,
}

impl Row {
    fn measure(machines: usize) -> anyhow::Result<Self> {
        let mut row = Self { machines, complete: machines.ilog2(), averages: Default::default() };
        for (averages, case) in row.averages.iter_mut().zip(&CASES) {
            for number in 0..CLUSTERS {
                // Each cluster has random numbers of its own: another size or case does not change
                // it, and the root changes none.
                let kind = 2 * u64::from(case.links == Links::Joining) + u64::from(case.each == 16);
                let mut dice = Dice::seeded([SEED, machines as u64, kind, number.into()]);
                let cluster = cluster(case.links, machines.div_ceil(case.each), machines, &mut dice)?;
                let root = if case.root == Root::Any { 0 } else { central(&cluster) };
                let (by_algorithm_2, least) = (height(Via::Binary, &cluster, root)?, least(&cluster, root)?);
                ensure!(least <= by_algorithm_2, "{by_algorithm_2} is lower than the {least} of a part of the line");
                let best = height(Via::BinaryBest, &cluster, root)?;
                ensure!(best <= by_algorithm_2, "the search found {best}, and Algorithm 2 {by_algorithm_2}");
                averages.height += by_algorithm_2 as f64 / f64::from(CLUSTERS);
                averages.best += best as f64 / f64::from(CLUSTERS);
                averages.least += least as f64 / f64::from(CLUSTERS);
            }
        }
        Ok(row)
    }

    fn ratio(&self, height: f64) -> f64 {
        height / f64::from(self.complete)
    }
}

fn height(via: Via, cluster: &Topology, root: usize) -> anyhow::Result<usize> {
    let all: Vec<usize> = (0..cluster.hosts().len()).collect();
    let plan = plan::make(via, cluster, root, &all, &Costs::default())?;
    let report = plan::check(cluster, &plan, &all);
    ensure!(report.is_good(), "{via} made a tree that {report}");
    Ok(plan.height())
}

/// Returns a lower bound for trees over any depth-first line, whatever the order of Algorithm 1.
/// The search has no choice along one way of switches, so the bound is the height of the lowest
/// tree over the machines along the way that needs the most, or the complete tree's height. Trees
/// over no such line can be lower.
fn least(cluster: &Topology, root: usize) -> anyhow::Result<usize> {
    let ways = ways(cluster, cluster.switch_of(root));
    let mut least = cluster.hosts().len().ilog2() as usize;
    for way in ways.iter().filter(|way| cluster.neighbours(way[way.len() - 1]).len() < 2) {
        let members: Vec<usize> = way.iter().flat_map(|&switch| cluster.hosts_on(switch)).collect();
        least = least.max(plan::kary(cluster, root, &members, 2)?.height());
    }
    Ok(least)
}

fn central(cluster: &Topology) -> usize {
    let farthest = |from: usize| {
        let ways = ways(cluster, from);
        let with_machines = ways.iter().filter(|way| cluster.hosts_on(way[way.len() - 1]).next().is_some());
        with_machines.map(Vec::len).max()
    };
    let distances: Vec<Option<usize>> = (0..cluster.switches().len()).map(farthest).collect();
    (0..cluster.hosts().len()).min_by_key(|&host| distances[cluster.switch_of(host)]).expect("a cluster has a machine")
}

fn ways(cluster: &Topology, start: usize) -> Vec<Vec<usize>> {
    let mut ways = vec![vec![start]];
    let mut seen = 0;
    while let Some(way) = ways.get(seen).cloned() {
        let onward = cluster.neighbours(way[way.len() - 1]).iter().filter(|next| !way.contains(next));
        ways.extend(onward.map(|&next| [way.as_slice(), &[next]].concat()));
        seen += 1;
    }
    ways
}

fn cluster(kind: Links, switches: usize, machines: usize, dice: &mut Dice) -> anyhow::Result<Topology> {
    let mut links = vec![Vec::new(); switches];
    // Number of the tree that each switch is in; the growing one is that of switch 0.
    let mut tree: Vec<usize> = (0..switches).collect();
    let mut missing = switches - 1;
    while missing > 0 {
        let (from, to) = (dice.below(switches), dice.below(switches));
        let (kept, gone) = (tree[from].min(tree[to]), tree[from].max(tree[to]));
        if kept != gone && (kind == Links::Joining || kept == 0) {
            tree.iter_mut().filter(|tree| **tree == gone).for_each(|tree| *tree = kept);
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
        text +=
            &format!("[[switch]]\nname = 's{id}'\nhosts = [{}]\nlinks = [{}]\n", hosts.join(", "), links.join(", "));
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

fn report(rows: &[Row]) -> String {
    format!(
        "Average height of the contention-free binary tree (Algorithm 2) over {} random clusters of each size, seed \
         {},\n\
         beside the complete binary tree's: Patarasuk 2008, Figure 5. A growing tree of switches gets only links that \
         leave it\n\
         one tree; joining ones get all that close no loop. The root is any machine, or one on a central switch.\n\n\
         {}\n\
         Least average height over a depth-first line, whatever the order of the search: what the machines along one \
         way of\n\
         switches take. Trees over no such line can be lower.\n\n\
         {}\n\
         Average height of the lowest tree found by `--via binary-best`: other orders of children, and trees over no \
         line.\n\n\
         {}\n\
         The paper's averages stay within {PAPERS_RATIO} times the complete tree's. Ratios to it, the greatest of all \
         sizes:\n\n\
         {}",
        CLUSTERS,
        SEED,
        by_size(rows, |averages| averages.height).aligned(),
        by_size(rows, |averages| averages.least).aligned(),
        by_size(rows, |averages| averages.best).aligned(),
        verdicts(rows).aligned()
    )
}

fn by_size(rows: &[Row], number: impl Fn(&Averages) -> f64) -> Table {
    let heading: Vec<&str> = ["machines", "complete"].into_iter().chain(CASES.iter().map(|case| case.name)).collect();
    let mut table = Table::new(&heading);
    for row in rows {
        let heights = row.averages.iter().map(|averages| format!("{:>5.2}", number(averages)));
        table.push([row.machines.to_string(), row.complete.to_string()].into_iter().chain(heights).collect());
    }
    table
}

fn verdicts(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "case",
        "ratio",
        "within 2 at",
        "least on a line",
        "within 2 at",
        "best found",
        "within 2 at",
        "verdict",
    ]);
    for (case, Case { name, .. }) in CASES.iter().enumerate() {
        let summary = |number: &dyn Fn(&Averages) -> f64| {
            let ratios = || rows.iter().map(|row| row.ratio(number(&row.averages[case])));
            (ratios().fold(0.0, f64::max), ratios().filter(|&ratio| ratio <= PAPERS_RATIO).count())
        };
        let (ratio, within) = summary(&|averages| averages.height);
        let (least, could) = summary(&|averages| averages.least);
        let (best, found) = summary(&|averages| averages.best);
        let verdict = match (within == rows.len(), could == rows.len()) {
            (true, _) => "as in the paper",
            (false, true) => "higher than in the paper",
            (false, false) => "higher than in the paper, as is any tree over a depth-first line",
        };
        let of = |count: usize| format!("{count} of {}", rows.len());
        table.push(vec![
            name.to_string(),
            format!("{ratio:.2}"),
            of(within),
            format!("{least:.2}"),
            of(could),
            format!("{best:.2}"),
            of(found),
            verdict.into(),
        ]);
    }
    table
}

fn every_number(rows: &[Row]) -> Table {
    let mut table = Table::under(
        "links, machines_per_switch, root, machines, complete, average, ratio, least, least_ratio, best, best_ratio",
    );
    for (index, case) in CASES.iter().enumerate() {
        for row in rows {
            let Averages { height, least, best } = row.averages[index];
            let named = [format!("{:?}", case.links), case.each.to_string(), format!("{:?}", case.root)];
            let sizes = [row.machines.to_string(), row.complete.to_string()];
            let heights = [height, row.ratio(height), least, row.ratio(least), best, row.ratio(best)];
            let heights = heights.map(|number| format!("{number:.2}"));
            table.push(named.map(|name| name.to_lowercase()).into_iter().chain(sizes).chain(heights).collect());
        }
    }
    table
}

fn svg(rows: &[Row]) -> String {
    let line = |name: &str, height: &dyn Fn(&Row) -> f64| {
        Series::new(name, rows.iter().map(|row| (row.machines as f64, height(row))).collect::<Vec<_>>())
    };
    let measured =
        CASES.iter().enumerate().map(|(index, case)| line(case.name, &move |row| row.averages[index].height));
    // The search can improve on trees where switches are joined at random.
    let searched = CASES.iter().enumerate().filter(|(_, case)| case.links == Links::Joining && case.root == Root::Any);
    let best = searched
        .map(|(index, case)| line(&format!("{}, binary-best", case.name), &move |row| row.averages[index].best));
    let complete = line("complete binary tree", &|row| f64::from(row.complete));
    let series: Vec<Series> = measured.chain(best).chain([complete]).collect();
    line_chart(
        "Height of contention-free binary trees (Algorithm 2, and the lowest found)",
        "machines",
        "average tree height",
        &series,
        false,
    )
}
