//! Reproduction, by simulation, of the figures of Patarasuk 2008 and of Mateescu and Taylor, on
//! their networks. Hosts are as fast as in Table 2 of Patarasuk 2008.
//!
//! A lab of 32 hosts on one machine cannot send at 100 Mbit/s, let alone at 1000. `ethbcast
//! simulate` runs the same engine on a virtual clock, and repeats its results exactly.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use ethbcast_bench::process::{Interrupt, Program, Running};
use ethbcast_bench::report::Table;
use ethbcast_bench::transfer::scratch;
use ethbcast_planning::model::{Job, Shape, best_segment, predict};
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::plan::{self, Costs, Plan, Via};
use ethbcast_planning::topology::Topology;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::panel::{Panel, Statement, StatementResult, said};
use crate::tables::{Network, PAPERS};
use crate::{FRAME_PAYLOAD_BYTES, Output, size};

const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Deserialize)]
struct Figures {
    figure: Vec<Figure>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    name: String,
    title: String,
    /// Title of a panel that has none of its own.
    #[serde(default)]
    panel_title: String,
    /// Test bed of all panels; without it, and without processors, panel N is on `fig9-N`.
    bed: Option<String>,
    network: Option<String>,
    kib: Option<[u64; 2]>,
    /// Numbers of processors, in place of sizes.
    processors: Option<[u64; 2]>,
    /// Size of the message where processors are varied.
    #[serde(default)]
    bytes: u64,
    #[serde(default = "all_topologies")]
    panels: Vec<Shown>,
    lines: Vec<String>,
    /// Whether the statements are sorted by panel.
    #[serde(default)]
    by_panel: bool,
    said: Vec<Statement>,
}

/// The part of a panel that differs from others of its figure.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    letter: String,
    title: Option<String>,
    network: Option<String>,
    kib: Option<[u64; 2]>,
}

fn all_topologies() -> Vec<Shown> {
    (1..=5)
        .map(|number| Shown {
            letter: number.to_string(),
            ..Shown::default()
        })
        .collect()
}

pub fn figures() -> Vec<Figure> {
    toml::from_str::<Figures>(include_str!("../papers/figures.toml"))
        .expect("the tests read the figures")
        .figure
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Site {
    Bed(String),
    Switch(usize),
    /// Number of processors of five workstations on two networks.
    Processors(usize),
}

impl Site {
    fn topology(&self) -> anyhow::Result<Topology> {
        Ok(match self {
            Self::Bed(name) => {
                Topology::builtin(name).with_context(|| format!("{name} is no test bed"))?
            }
            Self::Switch(hosts) => {
                Topology::single_switch((0..*hosts).map(|host| format!("n{host}")))?
            }
            Self::Processors(number) => Topology::parse(&two_networks(*number), "two networks")?,
        })
    }
}

/// Network of each workstation, and its number of processors.
const WORKSTATIONS: [(usize, usize); 5] = [(0, 2), (1, 2), (1, 2), (0, 2), (1, 1)];

fn two_networks(processors: usize) -> String {
    let rounds = (0..2).flat_map(|round| WORKSTATIONS.iter().filter(move |(_, has)| *has > round));
    let networks: Vec<usize> = rounds
        .map(|&(network, _)| network)
        .take(processors)
        .collect();
    let hosts = |network: usize| {
        let own = networks
            .iter()
            .enumerate()
            .filter(|(_, other)| **other == network);
        own.map(|(rank, _)| format!("n{rank}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    format!(
        "schema = 1\n[[switch]]\nname = \"here\"\nhosts = \"{}\"\nlinks = [\"there\"]\n[[switch]]\nname = \
         \"there\"\nhosts = \"{}\"\n",
        hosts(0),
        hosts(1)
    )
}

/// A simulated broadcast; without a segment in the model's best.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    site: Site,
    /// Name of the paper's network whose costs apply.
    network: &'static str,
    via: Via,
    bytes: u64,
    segment_bytes: Option<u64>,
}

impl Run {
    fn network(&self) -> &'static Network {
        PAPERS
            .networks
            .iter()
            .find(|network| network.name == self.network)
            .expect("its name is that of one")
    }

    fn plan(&self, topology: &Topology) -> anyhow::Result<(Plan, Vec<usize>)> {
        let members: Vec<usize> = (0..topology.hosts().len()).collect();
        Ok((
            plan::make(self.via, topology, 0, &members, &Costs::default())?,
            members,
        ))
    }

    fn shape(&self) -> anyhow::Result<Shape> {
        let topology = self.site.topology()?;
        let (plan, members) = self.plan(&topology)?;
        Ok(Shape::of(&plan, &topology, &members))
    }

    /// Returns the eight segments of the paper that are no longer than the message.
    fn segments(&self) -> impl Iterator<Item = u64> {
        PAPERS
            .segments_bytes
            .iter()
            .copied()
            .filter(|&segment| segment <= self.bytes)
    }

    /// Returns the run in the segment that the model takes for the best of the eight.
    fn predicted(self) -> anyhow::Result<Self> {
        let shape = self.shape()?;
        let price = |segment_bytes| {
            let job = Job {
                size_bytes: self.bytes,
                segment_bytes,
                frame_payload_bytes: FRAME_PAYLOAD_BYTES,
            };
            predict(&shape, &job, &self.network().hosts())
        };
        let cheapest = self
            .segments()
            .min_by(|&left, &right| price(left).total_cmp(&price(right)));
        Ok(Self {
            segment_bytes: Some(cheapest.unwrap_or(self.bytes)),
            ..self
        })
    }

    /// Returns the time by the paper's equations from its Table 2, in seconds. It has processor
    /// time as far as L(m) and g(m) include it. Where the run gives no segment, the best of the
    /// paper's eight is taken.
    fn by_equations(&self) -> anyhow::Result<f64> {
        let (shape, calibration, frame) = (
            self.shape()?,
            self.network().calibration(),
            PAPERS.segments_bytes[0],
        );
        let price = |segment_bytes| {
            let job = Job {
                size_bytes: self.bytes,
                segment_bytes,
                frame_payload_bytes: frame,
            };
            predict(&shape, &job, &calibration)
        };
        Ok(match self.segment_bytes {
            Some(segment_bytes) => price(segment_bytes),
            None if !self.via.is_atomic() && !self.via.is_in_blocks() => {
                self.segments().map(price).fold(price(self.bytes), f64::min)
            }
            None => best_segment(&shape, self.bytes, frame, &calibration).1,
        })
    }
}

impl Figure {
    fn points(&self, panel: &Shown) -> Vec<u64> {
        match (panel.kib.or(self.kib), self.processors) {
            (Some([from, to]), _) => {
                let doubling = std::iter::successors(Some(from), |kib| Some(kib * 2));
                doubling
                    .take_while(|&kib| kib <= to)
                    .map(|kib| kib << 10)
                    .collect()
            }
            (None, Some([from, to])) => (from..=to).collect(),
            (None, None) => Vec::new(),
        }
    }

    fn run(&self, panel: &Shown, line: &str, point: u64) -> anyhow::Result<Run> {
        let network = panel
            .network
            .as_ref()
            .or(self.network.as_ref())
            .context("a panel has a network")?;
        let known = PAPERS.networks.iter().find(|known| known.name == *network);
        let network = known.with_context(|| format!("{network} is no network of the paper"))?;
        let (site, bytes) = match (&self.bed, self.processors) {
            (_, Some(_)) => (Site::Processors(point as usize), self.bytes),
            (Some(bed), _) => (Site::Bed(bed.clone()), point),
            (None, _) => (Site::Bed(format!("fig9-{}", panel.letter)), point),
        };
        let run = |site: Site, via| Run {
            site,
            network: &network.name,
            via,
            bytes,
            segment_bytes: None,
        };
        if line == "pingpong/2" {
            return Ok(run(Site::Switch(2), Via::Flat));
        }
        if let Some(tree) = line.strip_suffix(", predicted") {
            return run(site, way(tree, network, bytes)?).predicted();
        }
        // A number behind the tree, or in place of it.
        let (tree, number) = line.rsplit_once(' ').unwrap_or(("linear", line));
        Ok(match number.parse::<u64>() {
            Ok(segment) => Run {
                segment_bytes: Some(segment.min(bytes)),
                ..run(site, way(tree, network, bytes)?)
            },
            Err(_) => run(site, way(line, network, bytes)?),
        })
    }

    fn panel(
        &self,
        panel: &Shown,
        mut time: impl FnMut(&Run) -> anyhow::Result<f64>,
    ) -> anyhow::Result<Panel> {
        let points = self.points(panel);
        let mut lines = Vec::new();
        for line in &self.lines {
            let seconds = points
                .iter()
                .map(|&point| Ok(Some(time(&self.run(panel, line, point)?)?)));
            lines.push((line.clone(), seconds.collect::<anyhow::Result<_>>()?));
        }
        let network = panel
            .network
            .as_ref()
            .or(self.network.as_ref())
            .map_or("", |name| name.as_str());
        let title = panel.title.as_ref().unwrap_or(&self.panel_title);
        Ok(Panel {
            title: title
                .replace("{panel}", &panel.letter)
                .replace("{network}", network),
            axis: if self.processors.is_some() {
                "processors"
            } else {
                "bytes"
            }
            .to_owned(),
            letter: panel.letter.clone(),
            points,
            lines,
            hosts: 0,
        })
    }

    /// Plays all broadcasts and compares what came out with what the paper says.
    pub fn draw(&self, runs: &mut Runs) -> anyhow::Result<Output> {
        let drawn = self
            .panels
            .iter()
            .map(|panel| self.panel(panel, |run| runs.seconds(run)));
        let drawn = drawn.collect::<anyhow::Result<Vec<_>>>()?;
        let computed = self
            .panels
            .iter()
            .map(|panel| self.panel(panel, Run::by_equations));
        let computed = computed.collect::<anyhow::Result<Vec<_>>>()?;
        let mut text = format!(
            "{}.\nSimulated, in ms, from the first frame sent to the last one taken; hosts take what Table 2 of \
             Patarasuk 2008 says of theirs, segments are what suits best.\n",
            self.title
        );
        let (mut csv, mut more) = (
            Table::under("panel, title, line, point, seconds"),
            Vec::new(),
        );
        for panel in &drawn {
            text += &panel.in_milliseconds();
            for (name, seconds) in &panel.lines {
                for (point, seconds) in panel.points.iter().zip(seconds.iter().flatten()) {
                    let named = [&panel.letter, &panel.title, name].map(String::clone);
                    csv.push([&named[..], &[point.to_string(), format!("{seconds:.7}")]].concat());
                }
            }
            let ending = if panel.letter.is_empty() {
                "svg".to_owned()
            } else {
                format!("{}.svg", panel.letter)
            };
            more.extend(
                panel
                    .svg("ms", |_, _, seconds| Some(seconds * 1e3))
                    .map(|svg| (ending, svg)),
            );
        }
        if self.name == "figure11" {
            text += "\nTable 3, \"Actual\": the best of the eight segments here, in brackets the paper's and how much \
                     longer that takes here\n";
            text += &actual(&drawn)?.aligned();
        }
        let found = said(&self.said, &drawn, self.by_panel)?;
        let computed = said(&self.said, &computed, self.by_panel)?;
        text += "\nWhat the paper says, what came out here, and what the paper's equations make of its Table 2:\n";
        let line = |(said, computed): (&StatementResult, &StatementResult)| {
            format!("{said}; by the equations {:.2}\n", computed.ours)
        };
        text += &found.iter().zip(&computed).map(line).collect::<String>();
        Ok(Output {
            name: self.name.clone(),
            text,
            csv,
            more,
            is_met: found.iter().all(StatementResult::holds),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Returns the way of a line's name. MPICH is 2-1.0.1 by §5: a binomial tree; at 1000 Mbit/s from
/// 32 KiB on scatter and recursive doubling; from 512 KiB on scatter and a ring.
fn way(tree: &str, network: &Network, bytes: u64) -> anyhow::Result<Via> {
    Ok(match tree {
        "linear" => Via::Chain,
        "3-ary" => Via::Kary(3),
        "LAM (binomial)" | "MPI_Bcast (binomial)" => Via::Binomial,
        "proposed method (latency)" => Via::Latency,
        "MPICH" => match bytes >> 10 {
            512.. => Via::ScatterAllgather,
            32.. if network.name == "1000Mbps" => Via::RecursiveDoubling,
            _ => Via::Binomial,
        },
        name => name.parse().with_context(|| format!("{name} is no line"))?,
    })
}

/// Returns the "Actual" columns of Table 3: the best segments by our model, the paper's in
/// brackets, and the extra time of ours.
fn actual(panels: &[Panel]) -> anyhow::Result<Table> {
    let mut table = Table::new(&[
        "message",
        "100Mbps linear",
        "100Mbps binary",
        "1000Mbps linear",
        "1000Mbps binary",
    ]);
    for (row, &bytes) in PAPERS.table_3_bytes.iter().enumerate() {
        let mut cells = vec![size(bytes)];
        for (panel, network) in panels.iter().zip(&PAPERS.networks) {
            for tree in ["linear", "binary"] {
                let seconds = |segment: u64| {
                    panel
                        .at(&format!("{tree} {segment}"), bytes)
                        .context("it was simulated")
                };
                let own = PAPERS
                    .segments_bytes
                    .iter()
                    .filter(|&&segment| segment <= bytes);
                let all = own
                    .map(|&segment| Ok((segment, seconds(segment)?)))
                    .collect::<anyhow::Result<Vec<_>>>()?;
                let less =
                    |best: (u64, f64), next: (u64, f64)| if next.1 < best.1 { next } else { best };
                let (ours, least) = all
                    .into_iter()
                    .reduce(less)
                    .context("a message has a segment")?;
                let papers = network.segments(tree == "linear").actual[row];
                let excess = seconds(papers)? / least - 1.0;
                cells.push(format!("{ours}B ({papers}B +{:.1} %)", excess * 100.0));
            }
        }
        table.push(cells);
    }
    Ok(table)
}

#[derive(Debug)]
pub struct Runs<'a> {
    /// Given place of the program; it is looked for when it is needed.
    given: Option<&'a Path>,
    interrupt: &'a Interrupt,
    folder: TempDir,
    seconds: HashMap<Run, f64>,
}

impl<'a> Runs<'a> {
    /// Creates it without results.
    pub fn new(given: Option<&'a Path>, interrupt: &'a Interrupt) -> anyhow::Result<Self> {
        let folder = scratch()?;
        for network in &PAPERS.networks {
            fs::write(
                folder.path().join(format!("{}.toml", network.name)),
                network.hosts().to_toml(),
            )?;
        }
        Ok(Self {
            given,
            interrupt,
            folder,
            seconds: HashMap::new(),
        })
    }

    /// Returns the seconds from the first frame sent to the last one received.
    fn seconds(&mut self, run: &Run) -> anyhow::Result<f64> {
        if let Some(&seconds) = self.seconds.get(run) {
            return Ok(seconds);
        }
        let mut command = Program::find(self.given)?.here("simulate");
        command.args([
            "--json",
            "--rate",
            &run.network().rate.to_string(),
            "--size",
            &run.bytes.to_string(),
        ]);
        // The calibration has the paper's hosts' wake-up time; they had no naps.
        command
            .arg("--no-naps")
            .arg("--calibration")
            .arg(self.folder.path().join(format!("{}.toml", run.network)));
        match &run.site {
            Site::Bed(name) => command.args(["--topology", name]),
            Site::Switch(hosts) => command.args(["--hosts", &hosts.to_string()]),
            Site::Processors(number) => {
                let file = self
                    .folder
                    .path()
                    .join(format!("two-networks-{number}.toml"));
                fs::write(&file, two_networks(*number))?;
                command.arg("--topology").arg(file)
            }
        };
        match run.segment_bytes {
            Some(segment_bytes) => command.arg("--plan").arg(self.save(run, segment_bytes)?),
            None => command.args(["--via", &run.via.to_string()]),
        };
        let report =
            match Running::start("ethbcast simulate", command)?.wait(PATIENCE, self.interrupt)? {
                Ok(report) => report,
                Err(words) => bail!("{run:?}: {words}"),
            };
        let report: Value =
            serde_json::from_str(&report).context("`ethbcast simulate` printed no JSON")?;
        let seconds = report["delivered_seconds"]
            .as_f64()
            .context("`ethbcast simulate` reports no delivered_seconds")?;
        self.seconds.insert(run.clone(), seconds);
        Ok(seconds)
    }

    fn save(&self, run: &Run, segment_bytes: u64) -> anyhow::Result<PathBuf> {
        let topology = run.site.topology()?;
        let (plan, _) = run.plan(&topology)?;
        let names: Vec<&str> = topology.hosts().iter().map(String::as_str).collect();
        let file = self.folder.path().join("plan.toml");
        let saved = SavedPlan::from_plan(&plan, &names, segment_bytes, Some(run.bytes));
        fs::write(&file, saved.to_toml()).with_context(|| format!("writing {}", file.display()))?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_figure_is_a_run_and_every_statement_has_its_numbers() {
        for figure in figures() {
            let computed = figure
                .panels
                .iter()
                .map(|panel| figure.panel(panel, Run::by_equations));
            let panels = computed
                .collect::<anyhow::Result<Vec<_>>>()
                .expect(&figure.name);
            for statement in &figure.said {
                let panels_of = if statement.panels.is_empty() {
                    panels.len()
                } else {
                    statement.panels.len()
                };
                assert_eq!(
                    statement.of(&panels).expect(&figure.name).len(),
                    panels_of,
                    "{}",
                    statement.says
                );
            }
        }
    }

    #[test]
    fn nine_processors_are_those_of_five_workstations() {
        let topology = Site::Processors(9).topology().expect("a tree");
        let on = |switch| topology.hosts_on(switch).count();
        assert_eq!((topology.hosts().len(), on(0), on(1)), (9, 4, 5));
        assert!(
            Site::Processors(2)
                .topology()
                .is_ok_and(|two| two.cables().len() == 1)
        );
    }
}
