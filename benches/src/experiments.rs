//! Measurements of broadcast algorithms and MPI libraries in network namespaces, as listed in
//! `benches/papers/experiments.toml`.
//!
//! Every way takes its turn, in rounds, so that a machine that gets slower does so for all. All
//! beds are up together for the same reason.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use ethbcast_bench::cluster::cut_segments;
use ethbcast_bench::mpi::{self, Cluster, Loop, Mpi};
use ethbcast_bench::page::{Series, line_chart};
use ethbcast_bench::perf::{Measured, PerfJob, Site};
use ethbcast_bench::process::{Interrupt, Program, Running};
use ethbcast_bench::report::{Table, median};
use ethbcast_bench::transfer::scratch;
use ethbcast_lab::format_rate;
use serde::Deserialize;
use serde_json::Value;

use crate::beds::{Bed, Kind, Way};
use crate::panel::{Panel, Statement, StatementResult, said};
use crate::{Output, milliseconds, parse_size, size};

/// Time for hosts to join, and for a run beyond its prediction.
const PATIENCE: Duration = Duration::from_secs(30);
/// Highest factor on the predicted time: contended cables are the worst case.
const SLOWEST: f64 = 10.0;
/// Assumed time that a broadcast and a barrier wait for processors at most, in seconds.
const PROCESSORS_SECONDS: f64 = 0.02;
/// Predicted seconds of a broadcast above which it is measured only once, and in one round.
const LONG_SECONDS: f64 = 3.0;
const MIN_ITERATIONS: f64 = 3.0;
/// Ratio to the best from which a way beside `auto` is not tried again.
const MAX_RATIO_TO_BEST: f64 = 3.0;
const SIMULATED_WITHIN: Duration = Duration::from_secs(300);

#[derive(Debug, Deserialize)]
struct Experiments {
    experiment: Vec<Experiment>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    pub name: String,
    title: String,
    beds: Vec<String>,
    rate: Option<String>,
    sizes: Vec<String>,
    ways: Vec<String>,
    figure: String,
    #[serde(default = "one")]
    ranks_per_host: usize,
    #[serde(default = "one")]
    rounds: usize,
    /// Broadcasts of each size; without it as many as fit into the budget by prediction.
    iterations: Option<u32>,
    #[serde(default)]
    budget_seconds: f64,
    #[serde(default)]
    most_iterations: u32,
    /// Predicted seconds of a broadcast from which it is left out.
    longest_seconds: Option<f64>,
    /// Whether the costs are probed beforehand.
    #[serde(default)]
    calibrated: bool,
    /// Lines of model and simulator beside those of the ways.
    #[serde(default)]
    expected: Vec<String>,
    /// Rest of the root before each broadcast shorter than 64 KiB.
    #[serde(default)]
    pause_seconds: f64,
    #[serde(default)]
    chart: String,
    /// Whether times are so short that the tables have microseconds.
    #[serde(default)]
    in_microseconds: bool,
    /// Sizes with a picture over the hosts of the beds.
    #[serde(default)]
    over_beds: Vec<String>,
    said: Vec<Statement>,
}

fn one() -> usize {
    1
}

pub fn experiments() -> Vec<Experiment> {
    toml::from_str::<Experiments>(include_str!("../papers/experiments.toml"))
        .expect("the tests read the experiments")
        .experiment
}

#[derive(Clone, Debug, Default, clap::Args)]
pub struct Changes {
    /// Beds: fig9-1 to fig9-5, star:N, mixed; `:policed` behind one.
    #[arg(long, value_delimiter = ',', value_name = "BEDS")]
    beds: Vec<String>,
    /// Rate of every cable; `none` for as fast as the machine copies.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Sizes of the messages.
    #[arg(long, value_delimiter = ',', value_name = "SIZES")]
    sizes: Vec<String>,
    /// Ways to send, in the order of the table's columns.
    #[arg(long, value_delimiter = ',', value_name = "WAYS")]
    ways: Vec<String>,
    /// Rounds in which everything takes its turn.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Broadcasts of each size, instead of as many as fit into the budget.
    #[arg(long, value_name = "K")]
    iterations: Option<u32>,
    /// Time for the broadcasts of one turn, in seconds; three are measured at least, but one that
    /// takes over 3 s once.
    #[arg(long, value_name = "SECONDS")]
    budget: Option<f64>,
    /// Skip broadcasts that are predicted to take longer than this, in seconds.
    #[arg(long, value_name = "SECONDS")]
    longest: Option<f64>,
    /// Probe the costs beforehand.
    #[arg(long)]
    calibrated: bool,
    /// Have hosts cut TCP's data into frames of 1500 bytes, as a wire carries it; without it they
    /// leave that to the network card, and veth, which has none, carries pieces of up to 64 KiB.
    #[arg(long)]
    cut: bool,
    /// The MPI drop-in, its back ends beside it; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

impl Experiment {
    fn changed(mut self, changes: &Changes) -> Self {
        let replace = |old: &mut Vec<String>, new: &[String]| {
            if !new.is_empty() {
                *old = new.to_vec();
            }
        };
        replace(&mut self.beds, &changes.beds);
        replace(&mut self.sizes, &changes.sizes);
        replace(&mut self.ways, &changes.ways);
        self.rate = changes
            .rate
            .clone()
            .or(self.rate)
            .filter(|rate| rate != "none");
        self.rounds = changes.rounds.unwrap_or(self.rounds);
        self.iterations = changes.iterations.or(self.iterations);
        self.budget_seconds = changes.budget.unwrap_or(self.budget_seconds);
        self.longest_seconds = changes.longest.or(self.longest_seconds);
        self.calibrated |= changes.calibrated;
        // Statements about a bed that is not measured say nothing.
        self.said.retain(|statement| {
            statement
                .panels
                .iter()
                .chain(&statement.over_panel)
                .all(|bed| self.beds.contains(bed))
        });
        self
    }

    fn sizes(&self) -> anyhow::Result<Vec<u64>> {
        self.sizes
            .iter()
            .map(|text| parse_size(text).map_err(anyhow::Error::msg))
            .collect()
    }

    /// Returns the number of broadcasts of a turn: as many as fit into the budget, but at least
    /// three, or one if they are long.
    fn iterations(&self, predicted_seconds: f64) -> u32 {
        let fitting = (self.budget_seconds / predicted_seconds)
            .max(MIN_ITERATIONS)
            .min(f64::from(self.most_iterations));
        match self.iterations {
            Some(iterations) => iterations,
            None if predicted_seconds > LONG_SECONDS => 1,
            // Saturates for a prediction of zero.
            None => fitting as u32,
        }
    }

    fn seconds(&self, measured: &Measured) -> anyhow::Result<f64> {
        let Measured {
            broadcast, barrier, ..
        } = measured;
        Ok(match self.figure.as_str() {
            "median" => broadcast.median,
            "median alone" => broadcast.median - barrier.median,
            "middle" => broadcast.middle80,
            "middle alone" => broadcast.middle80 - barrier.middle80,
            other => bail!("{other} is no figure"),
        })
    }
}

struct Trial {
    bed: usize,
    way: usize,
    size_bytes: u64,
    predicted: f64,
    iterations: u32,
    rounds: Vec<Measured>,
    seconds: Vec<f64>,
    simulated: Option<f64>,
    remark: Option<String>,
}

impl Trial {
    fn median(&self) -> Option<f64> {
        median(self.seconds.clone()).filter(|_| self.remark.is_none())
    }
}

struct Course<'a> {
    experiment: &'a Experiment,
    ways: Vec<Way>,
    beds: &'a [Bed],
    clusters: HashMap<(usize, &'static str), Cluster<'a>>,
    program: &'a Program,
    interrupt: &'a Interrupt,
    library: Option<PathBuf>,
    directory: &'a Path,
}

pub fn perform(
    experiment: &Experiment,
    changes: &Changes,
    program: &Program,
    interrupt: &Interrupt,
) -> anyhow::Result<Output> {
    let experiment = &experiment.clone().changed(changes);
    let ways = experiment
        .ways
        .iter()
        .map(|way| Way::parse(way))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let rate = experiment
        .rate
        .as_deref()
        .map(ethbcast_lab::parse_rate)
        .transpose()?;
    let needed: Vec<Mpi> = Mpi::ALL
        .into_iter()
        .filter(|mpi| ways.iter().any(|way| way.is_by(*mpi)))
        .collect();
    if let Some(text) = needed.iter().find_map(|mpi| mpi::missing(*mpi)) {
        bail!(text);
    }
    let load = fs::read_to_string("/proc/loadavg").context("reading /proc/loadavg")?;
    let directory = scratch()?;
    let up =
        |(number, name): (usize, &String)| Bed::up("lab", number, name, rate, directory.path());
    let mut beds = experiment
        .beds
        .iter()
        .enumerate()
        .map(up)
        .collect::<anyhow::Result<Vec<_>>>()?;
    for bed in &mut beds {
        if changes.cut {
            cut_segments(&bed.lab)?;
        }
        if experiment.calibrated {
            eprintln!("probing {}", bed.name);
            bed.calibrate(program, interrupt, directory.path())?;
        }
    }
    let mut clusters = HashMap::new();
    for (number, bed) in beds.iter().enumerate() {
        for &mpi in &needed {
            clusters.insert(
                (number, mpi.name()),
                Cluster::prepare(&bed.lab, mpi, experiment.ranks_per_host)?,
            );
        }
    }
    let library = match ways
        .iter()
        .any(|way| matches!(&way.kind, Kind::Mpi { variant, .. } if !variant.is_empty()))
    {
        true => Some(drop_in(changes.library.as_deref())?),
        false => None,
    };
    let directory = directory.path();
    let course = Course {
        experiment,
        ways,
        beds: &beds,
        clusters,
        program,
        interrupt,
        library,
        directory,
    };
    let mut trials = course.planned()?;
    course.measure(&mut trials)?;
    let versions = needed
        .iter()
        .map(|mpi| mpi::version(*mpi))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let cut = if changes.cut {
        ["TCP in frames of 1500 bytes".to_owned()].to_vec()
    } else {
        Vec::new()
    };
    let load = format!("load {} before", load.split(' ').next().unwrap_or_default());
    course.output(&trials, &[versions, cut, vec![load]].concat())
}

fn drop_in(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("libethbcast_mpi.so");
    let library = given.unwrap_or(&beside);
    library.canonicalize().with_context(|| {
        format!(
            "there is no {}: `cargo build --release -p ethbcast-mpi`, then collectives/mpi/build-backends",
            library.display()
        )
    })
}

impl Course<'_> {
    fn planned(&self) -> anyhow::Result<Vec<Trial>> {
        let mut trials = Vec::new();
        for size_bytes in self.experiment.sizes()? {
            for (way, how) in self.ways.iter().enumerate() {
                for (number, bed) in self.beds.iter().enumerate() {
                    let predicted = how.predict(bed, size_bytes)?;
                    let is_long = self
                        .experiment
                        .longest_seconds
                        .is_some_and(|longest| predicted > longest);
                    trials.push(Trial {
                        bed: number,
                        way,
                        size_bytes,
                        predicted,
                        iterations: self.experiment.iterations(predicted),
                        rounds: Vec::new(),
                        seconds: Vec::new(),
                        simulated: None,
                        remark: is_long
                            .then(|| format!("{} left out, {predicted:.0} s predicted", how.name)),
                    });
                }
            }
        }
        Ok(trials)
    }

    fn measure(&self, trials: &mut [Trial]) -> anyhow::Result<()> {
        let own = trials.iter().filter(|trial| trial.remark.is_none());
        let turn = own
            .map(|trial| trial.predicted * f64::from(trial.iterations) + 0.7)
            .sum::<f64>();
        eprintln!(
            "{} points: about {:.1} min",
            trials.len(),
            turn * self.experiment.rounds as f64 / 60.0
        );
        for round in 0..self.experiment.rounds {
            for at in 0..trials.len() {
                if trials[at].remark.is_some() || (round > 0 && self.is_hopeless(trials, at)) {
                    continue;
                }
                let outcome = self.turn(&trials[at])?;
                let trial = &mut trials[at];
                let (bed, way) = (&self.beds[trial.bed].name, &self.ways[trial.way].name);
                match outcome {
                    Ok(measured) => {
                        let seconds = self.experiment.seconds(&measured)?;
                        eprintln!(
                            "{bed:<8} {way:<19} {:>5}  {} ms",
                            size(trial.size_bytes),
                            milliseconds(seconds)
                        );
                        trial.seconds.push(seconds);
                        trial.rounds.push(measured);
                    }
                    Err(words) => trial.remark = Some(format!("{way} failed: {words}")),
                }
            }
        }
        // Afterwards: the simulator would take a processor from the labs.
        if self
            .experiment
            .expected
            .iter()
            .any(|what| what == "simulated")
        {
            for trial in trials {
                trial.simulated = Some(self.simulate(trial)?);
            }
        }
        Ok(())
    }

    /// Whether a way took several times as long as the best, or is long, so that one round is
    /// enough.
    fn is_hopeless(&self, trials: &[Trial], at: usize) -> bool {
        let trial = &trials[at];
        if trial.predicted > LONG_SECONDS {
            return true;
        }
        let is_beside = |other: &&Trial| {
            (other.bed, other.size_bytes) == (trial.bed, trial.size_bytes) && other.way > 0
        };
        let best = trials
            .iter()
            .filter(is_beside)
            .filter_map(Trial::median)
            .fold(f64::INFINITY, f64::min);
        let may_rest = self.experiment.chart == "over best" && trial.way > 0;
        may_rest
            && trial
                .median()
                .is_some_and(|seconds| seconds > MAX_RATIO_TO_BEST * best)
    }

    fn turn(&self, trial: &Trial) -> anyhow::Result<Result<Measured, String>> {
        let bed = &self.beds[trial.bed];
        let is_short = trial.size_bytes < 64 << 10;
        let pause = if is_short {
            self.experiment.pause_seconds
        } else {
            0.0
        };
        let each = trial.predicted * SLOWEST + 2.0 * (pause + PROCESSORS_SECONDS);
        let limit = PATIENCE + Duration::from_secs_f64(each * f64::from(trial.iterations));
        let sizes = [trial.size_bytes];
        let (via, preset, frames) = match &self.ways[trial.way].kind {
            Kind::Own {
                via,
                preset,
                segment_frames,
            } => (via, preset, segment_frames),
            Kind::Mpi { mpi, variant } => {
                let cluster = &self.clusters[&(trial.bed, mpi.name())];
                let interface = if variant == "refused" {
                    "nosuch0"
                } else {
                    "eth0"
                };
                let library = self
                    .library
                    .as_ref()
                    .and_then(|path| path.to_str())
                    .unwrap_or_default();
                let set = [
                    ("LD_PRELOAD", library),
                    ("ETHBCAST_MPI_INTERFACE", interface),
                ];
                let set = if variant.is_empty() { &[][..] } else { &set };
                let warm_ups = (trial.iterations / 5).clamp(2, 100);
                let what = Loop {
                    warm_ups,
                    iterations: trial.iterations,
                    sizes: &sizes,
                };
                return Ok(cluster
                    .measure(set, what, limit, self.interrupt)?
                    .and_then(first));
            }
        };
        let plan = self.directory.join("plan.toml");
        let mut root_options = match frames {
            Some(frames) => {
                bed.save_plan(via.parse()?, trial.size_bytes, *frames, &plan)?;
                vec!["--plan", plan.to_str().context("the path is UTF-8")?]
            }
            None => vec!["--via", via],
        };
        let pause = pause.to_string();
        root_options.extend(
            (pause != "0")
                .then_some(["--pause", &pause])
                .into_iter()
                .flatten(),
        );
        root_options.extend(
            bed.topology_option
                .iter()
                .flat_map(|name| ["--topology", name]),
        );
        let file = bed.calibration_file.as_ref().and_then(|file| file.to_str());
        root_options.extend(file.iter().flat_map(|file| ["--calibration", file]));
        let options = preset
            .iter()
            .flat_map(|preset| ["--preset", preset])
            .collect();
        let ranks_per_host = self.experiment.ranks_per_host;
        let job = PerfJob {
            root_options,
            options,
            ranks_per_host,
            sizes: &sizes,
            iterations: trial.iterations,
        };
        let site = Site {
            lab: &bed.lab,
            program: self.program,
            interrupt: self.interrupt,
        };
        Ok(site.perf(&job, limit)?.and_then(first))
    }

    fn simulate(&self, trial: &Trial) -> anyhow::Result<f64> {
        let bed = &self.beds[trial.bed];
        let rate = bed.rate.context("the simulator has cables of a rate")?;
        let mut command = self.program.here("simulate");
        command.args([
            "--lab",
            "--json",
            "--hosts",
            &bed.lab.hosts().len().to_string(),
            "--rate",
            &format_rate(rate),
        ]);
        command.args([
            "--via",
            &self.ways[trial.way].name,
            "--size",
            &trial.size_bytes.to_string(),
        ]);
        command.args(
            bed.calibration_file
                .iter()
                .flat_map(|file| ["--calibration".as_ref(), file.as_os_str()]),
        );
        let ended =
            Running::start("ethbcast simulate", command)?.wait(SIMULATED_WITHIN, self.interrupt)?;
        let report: Value = serde_json::from_str(&ended.map_err(|words| anyhow!(words))?)?;
        // The measured time ends with the last byte, too: perf has no verdicts.
        report["delivered_seconds"]
            .as_f64()
            .context("`ethbcast simulate` reports no delivered_seconds")
    }

    fn panel(&self, trials: &[Trial], bed: usize) -> anyhow::Result<Panel> {
        let points = self.experiment.sizes()?;
        let at = |way: usize, point: u64| {
            trials
                .iter()
                .find(|trial| (trial.bed, trial.way, trial.size_bytes) == (bed, way, point))
        };
        let mut lines = Vec::new();
        for (way, how) in self.ways.iter().enumerate() {
            let line = |of: &dyn Fn(&Trial) -> Option<f64>| {
                points.iter().map(|&point| of(at(way, point)?)).collect()
            };
            lines.push((how.name.clone(), line(&Trial::median)));
            for what in &self.experiment.expected {
                let own = |trial: &Trial| {
                    if what == "simulated" {
                        trial.simulated
                    } else {
                        Some(trial.predicted)
                    }
                };
                lines.push((format!("{} {what}", how.name), line(&own)));
            }
        }
        let bed = &self.beds[bed];
        if bed.rate.is_some() {
            lines.push((
                "copy".to_owned(),
                points
                    .iter()
                    .map(|&point| bed.copy_seconds(point))
                    .collect(),
            ));
        }
        let cables = bed.rate.map_or("unshaped cables".to_owned(), |rate| {
            format!("cables of {}", format_rate(rate))
        });
        Ok(Panel {
            letter: bed.name.clone(),
            title: format!("{}, {cables}", bed.name),
            axis: "bytes".to_owned(),
            points,
            lines,
            hosts: bed.lab.hosts().len(),
        })
    }

    fn output(&self, trials: &[Trial], remarks: &[String]) -> anyhow::Result<Output> {
        let experiment = self.experiment;
        let panels = (0..self.beds.len())
            .map(|bed| self.panel(trials, bed))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut text = format!(
            "{}.\nTimes in {}, {} of a broadcast and barrier{}, {} rounds; copy: a cable's time for the message \
             once, less the\nburst of its token bucket. {}.\n",
            experiment.title,
            if experiment.in_microseconds {
                "µs"
            } else {
                "ms"
            },
            experiment.figure.split(' ').next().unwrap_or_default(),
            if experiment.figure.ends_with("alone") {
                " less that of a barrier"
            } else {
                ""
            },
            experiment.rounds,
            remarks.join("; ")
        );
        for (bed, panel) in panels.iter().enumerate() {
            let of = |point: &u64| {
                let own = trials
                    .iter()
                    .filter(|trial| (trial.bed, trial.size_bytes) == (bed, *point));
                own.filter_map(|trial| trial.remark.clone())
                    .collect::<Vec<_>>()
                    .join("; ")
            };
            let remarks: Vec<String> = panel.points.iter().map(of).collect();
            let shown = |seconds: f64| match experiment.in_microseconds {
                true => format!("{:.1}", seconds * 1e6),
                false => milliseconds(seconds),
            };
            text += &panel.table(|seconds, _| shown(seconds), &remarks);
            if experiment.chart == "copies" {
                let copies = |seconds: f64, point| {
                    panel
                        .at("copy", point)
                        .map(|copy| format!("{:.2}", seconds / copy))
                };
                text += &panel.table(
                    |seconds, point| copies(seconds, point).unwrap_or("-".to_owned()),
                    &[],
                );
            }
        }
        let found = said(&experiment.said, &panels, false)?;
        text += "\nWhat was expected, and what came out:\n";
        text += &found
            .iter()
            .map(|said| format!("{said}\n"))
            .collect::<String>();
        let failed = trials.iter().any(|trial| {
            trial
                .remark
                .as_ref()
                .is_some_and(|remark| remark.contains(" failed: "))
        });
        let more = self.pictures(&panels)?;
        let is_met = !failed && found.iter().all(StatementResult::holds);
        Ok(Output {
            name: experiment.name.clone(),
            text,
            csv: self.csv(trials),
            more,
            is_met,
        })
    }

    fn csv(&self, trials: &[Trial]) -> Table {
        let mut table = Table::under(
            "bed, way, size_bytes, via, segment_bytes, iterations, rounds, seconds, least_round_seconds, \
             greatest_round_seconds, barrier_seconds, predicted_seconds, simulated_seconds, remark",
        );
        for trial in trials {
            let number =
                |value: Option<f64>| value.map_or(String::new(), |seconds| format!("{seconds:.9}"));
            let last = trial.rounds.last();
            let named = [
                self.beds[trial.bed].name.clone(),
                self.ways[trial.way].name.clone(),
            ];
            let used = last.map_or([String::new(), String::new()], |last| {
                [last.via.clone(), last.segment_bytes.to_string()]
            });
            let all = || trial.seconds.iter().copied();
            let times = [
                trial.median(),
                all().reduce(f64::min),
                all().reduce(f64::max),
                median(
                    trial
                        .rounds
                        .iter()
                        .map(|round| round.barrier.median)
                        .collect(),
                ),
                Some(trial.predicted),
                trial.simulated,
            ];
            let counts = [trial.iterations.to_string(), trial.rounds.len().to_string()];
            let row = [
                &named[..],
                &[trial.size_bytes.to_string()],
                &used,
                &counts,
                &times.map(number),
            ]
            .concat();
            table.push(
                row.into_iter()
                    .chain([trial.remark.clone().unwrap_or_default()])
                    .collect(),
            );
        }
        table
    }

    fn pictures(&self, panels: &[Panel]) -> anyhow::Result<Vec<(String, String)>> {
        let mut files = Vec::new();
        for panel in panels {
            let label = match self.experiment.chart.as_str() {
                "copies" => "time / time of one copy on a cable",
                "over best" => "time of auto / time of the best plan",
                "expected" => "expected time / measured time",
                _ => "ms",
            };
            let value = |name: &str, point: u64, seconds: f64| {
                let over = |line: &str| {
                    panel
                        .at(line, point)
                        .map(|other| seconds / other)
                        .filter(|&ratio| ratio > 0.0)
                };
                match self.experiment.chart.as_str() {
                    // A flat tree would flatten every other line.
                    "copies" => over("copy").filter(|_| name != "flat" && name != "copy"),
                    "over best" => over("best").filter(|_| name == self.ways[0].name),
                    "expected" => name.rsplit_once(' ').and_then(|(way, _)| over(way)),
                    _ => Some(seconds.max(0.0) * 1e3),
                }
            };
            let ending = match panels.len() {
                1 => "svg".to_owned(),
                _ => format!("{}.svg", panel.letter.replace(':', "-")),
            };
            files.extend(panel.svg(label, value).map(|svg| (ending, svg)));
        }
        for text in &self.experiment.over_beds {
            let bytes = parse_size(text).map_err(anyhow::Error::msg)?;
            let line = |way: &Way| {
                let own = panels.iter().filter_map(|panel| {
                    Some((
                        panel.hosts as f64,
                        panel.at(&way.name, bytes)?.max(0.0) * 1e3,
                    ))
                });
                Series::new(way.name.clone(), own)
            };
            let series: Vec<Series> = self
                .ways
                .iter()
                .map(line)
                .filter(|line| !line.points.is_empty())
                .collect();
            if !series.is_empty() {
                let svg = line_chart(
                    &format!("{} bytes over the hosts", size(bytes)),
                    "hosts",
                    "ms",
                    &series,
                    false,
                );
                files.push((format!("{text}.svg"), svg));
            }
        }
        Ok(files)
    }
}

fn first(measured: Vec<Measured>) -> Result<Measured, String> {
    measured
        .into_iter()
        .next()
        .ok_or_else(|| "nothing was measured".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_size_and_rate_of_the_experiments_is_one() {
        for experiment in experiments() {
            experiment.sizes().expect(&experiment.name);
            experiment
                .rate
                .as_deref()
                .map(ethbcast_lab::parse_rate)
                .transpose()
                .expect(&experiment.name);
            for way in &experiment.ways {
                Way::parse(way).expect(way);
            }
            let beds = experiment
                .said
                .iter()
                .flat_map(|statement| statement.panels.iter().chain(&statement.over_panel));
            assert!(
                beds.into_iter().all(|bed| experiment.beds.contains(bed)),
                "{}",
                experiment.name
            );
        }
    }

    #[test]
    fn long_broadcasts_are_measured_once_and_short_ones_often() {
        let all = experiments();
        let figures = Experiment {
            most_iterations: 50,
            ..all[0].clone()
        };
        let counts = [0.0, 0.001, 0.1, 1.0, 2.9, 3.1].map(|seconds| figures.iterations(seconds));
        assert_eq!(counts, [50, 50, 20, 3, 3, 1]);
    }
}
