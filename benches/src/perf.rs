//! `ethbcast perf` on all hosts of a lab: the papers' loop of broadcast and barrier (Patarasuk
//! 2008, Figure 10), as numbers.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ethbcast_planning::model::Calibration;
use serde_json::Value;

use crate::bed::Bed;
use crate::cluster::INTERFACE;
use crate::interrupt::Interrupt;
use crate::program::Program;
use crate::running::{Ended, Running};
use crate::times::Times;

/// Time for the hosts of a lab to join, and for a run beyond its prediction.
const PATIENCE: Duration = Duration::from_secs(30);
/// Highest factor on the predicted time: contended cables are the worst case.
const SLOWEST: f64 = 10.0;
/// Time for the other ranks to end after the root.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// Time for a process to become the first of its host.
const SEATED_WITHIN: Duration = Duration::from_millis(300);

/// Predicted seconds of a broadcast above which it is measured only once.
pub const LONG_SECONDS: f64 = 3.0;
/// Least number of other broadcasts: a median needs them.
const MIN_ITERATIONS: f64 = 3.0;

/// Place and programs of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The hosts; the first is the root.
    pub bed: &'a Bed,
    pub program: &'a Program,
    /// File with the network's costs; without it, every session begins with a short probe of its
    /// own.
    pub calibration: Option<&'a Path>,
    pub interrupt: &'a Interrupt,
}

impl Site<'_> {
    /// Starts one of `ethbcast`'s commands on a host.
    ///
    /// # Errors
    /// Fails if there is no such host or the program cannot be started.
    pub fn start(&self, host: &str, subcommand: &str, arguments: &[&str]) -> anyhow::Result<Running> {
        let mut command = self.program.on(&self.bed.lab, host, subcommand)?;
        command.args(["--quiet", "-i", INTERFACE]).args(arguments);
        Running::start(format!("ethbcast {subcommand} on {host}"), command)
    }
}

/// A measurement: one broadcast, several times.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// A kind of plan, or `auto`.
    pub via: &'a str,
    /// Preset of the cast's protocol, equal on all ranks.
    pub preset: &'a str,
    pub size_bytes: u64,
    pub iterations: u32,
    /// Predicted seconds of one broadcast; limits the run.
    pub predicted_seconds: f64,
    /// Rest of the root before each broadcast.
    pub pause: Duration,
}

/// Results, with times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Kind of the plan used.
    pub via: String,
    pub segment_bytes: u64,
    pub iterations: u32,
    /// The session's prediction, by its calibration or probe.
    pub predicted: f64,
    /// Median of a broadcast with the barrier behind it.
    pub median: f64,
    /// Mean of a barrier alone.
    pub barrier: f64,
    /// Broadcasts with the barrier behind each.
    pub broadcasts: Times,
    pub barriers: Times,
}

impl Measured {
    /// Returns the time of the broadcast alone: by medians, because means include other load of the
    /// machine.
    pub fn broadcast(&self) -> f64 {
        self.median - self.barriers.median
    }
}

/// Returns the number of broadcasts that fit into `budget_seconds`, three to `most`; one if they
/// are long.
pub fn iterations(predicted_seconds: f64, budget_seconds: f64, most: u32) -> u32 {
    if predicted_seconds > LONG_SECONDS {
        return 1;
    }
    // Saturates for a prediction of zero.
    (budget_seconds / predicted_seconds).max(MIN_ITERATIONS).min(f64::from(most)) as u32
}

/// Runs `ethbcast perf` on all hosts. A failed run is a result, not an error.
///
/// # Errors
/// Fails if a program cannot be started, prints no valid report, or the user interrupts.
pub fn measure(site: &Site, job: &Job) -> anyhow::Result<Result<Measured, String>> {
    measure_ranks(site, job, 1)
}

/// Runs `ethbcast perf` with `per_host` ranks on each host.
///
/// # Errors
/// As [`measure`].
pub fn measure_ranks(site: &Site, job: &Job, per_host: usize) -> anyhow::Result<Result<Measured, String>> {
    let hosts = site.bed.hosts();
    let ranks = (hosts.len() * per_host).to_string();
    let mut members = Vec::new();
    // The root's process is the first on the first host: rank 0.
    let mut root = start_root(site, &hosts, job, &ranks)?;
    if per_host > 1 {
        std::thread::sleep(SEATED_WITHIN);
    }
    for host in hosts.iter().flat_map(|host| std::iter::repeat_n(host, per_host)).skip(1) {
        members.push(site.start(host, "perf", &["-n", &ranks, "--preset", job.preset])?);
    }
    let each = Duration::from_secs_f64(job.predicted_seconds * SLOWEST) + job.pause * 2;
    let limit = PATIENCE + each * job.iterations;
    let ended = root.wait(limit, site.interrupt)?;
    if ended.is_ok() {
        // The root's report has their verdicts; their own output does not matter.
        members.iter_mut().try_for_each(|member| member.wait(AFTERWARDS, site.interrupt).map(drop))?;
    }
    ended.map(|report| read(&report, job.iterations)).map_or_else(|words| Ok(Err(words)), |measured| measured.map(Ok))
}

fn start_root(site: &Site, hosts: &[String], job: &Job, ranks: &str) -> anyhow::Result<Running> {
    let (size, iterations) = (job.size_bytes.to_string(), job.iterations.to_string());
    let mut arguments =
        vec!["--root", "--json", "-n", ranks, "--via", job.via, "--sizes", &size, "--iterations", &iterations];
    if let Some(name) = &site.bed.name {
        arguments.extend(["--topology", name]);
    }
    let file = site
        .calibration
        .map(|path| path.to_str().context("the path of the calibration is not valid UTF-8"))
        .transpose()?;
    let pause = job.pause.as_secs_f64().to_string();
    if job.pause > Duration::ZERO {
        arguments.extend(["--pause", &pause]);
    }
    arguments.extend(["--preset", job.preset]);
    arguments.extend(file.iter().flat_map(|file| ["--calibration", file]));
    site.start(&hosts[0], "perf", &arguments)
}

/// Probes from the root to all `others`, and writes the calibration to `file`.
///
/// # Errors
/// Fails if the probe does, a program cannot be started, or the user interrupts.
pub fn calibrate(site: &Site, others: &[String], file: &Path) -> anyhow::Result<Calibration> {
    let root = &site.bed.hosts()[0];
    let answering =
        others.iter().map(|host| site.start(host, "probe", &["--answer"])).collect::<anyhow::Result<Vec<_>>>()?;
    let name = file.to_str().context("the path of the calibration is not valid UTF-8")?;
    let count = others.len().to_string();
    let mut probe = site.start(root, "probe", &["-n", &count, "--max-wait", "20", "--out", name])?;
    let ended: Ended = probe.wait(PATIENCE * 4, site.interrupt)?;
    drop(answering);
    ended.map_err(anyhow::Error::msg)?;
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {name}"))?;
    Ok(Calibration::parse(&text, name)?)
}

fn read(report: &str, iterations: u32) -> anyhow::Result<Measured> {
    let report: Value = serde_json::from_str(report).context("`ethbcast perf` printed no JSON")?;
    let result = &report["results"][0];
    let number = |key: &str| result[key].as_f64().with_context(|| format!("`ethbcast perf` reports no {key}"));
    let times = |[middle80, median, p99]: [&str; 3]| {
        Ok::<_, anyhow::Error>(Times { middle80: number(middle80)?, median: number(median)?, p99: number(p99)? })
    };
    Ok(Measured {
        via: result["via"].as_str().unwrap_or_default().to_owned(),
        segment_bytes: result["segment_bytes"].as_u64().unwrap_or_default(),
        iterations,
        predicted: number("predicted_seconds")?,
        median: number("median")?,
        barrier: number("barrier_seconds")?,
        broadcasts: times(["middle_80_percent_mean", "median", "p99"])?,
        barriers: times(["barrier_middle_80_percent_mean", "barrier_median", "barrier_p99"])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_and_one_without_times_is_none() {
        let report = r#"{"schema": 1, "ranks": 8, "via": "auto", "results": [{"size": 65536, "via": "chain",
            "segment_bytes": 1468, "predicted_seconds": 0.25, "bcast_seconds": 9.0, "barrier_seconds": 0.125,
            "min": 0.5, "median": 0.75, "p99": 1.0, "middle_80_percent_mean": 0.875,
            "barrier_median": 0.1, "barrier_p99": 0.3, "barrier_middle_80_percent_mean": 0.2}]}"#;
        let measured = read(report, 5).expect("a report");
        assert_eq!((measured.via.as_str(), measured.segment_bytes, measured.iterations), ("chain", 1468, 5));
        assert_eq!((measured.predicted, measured.broadcast()), (0.25, 0.65));
        assert_eq!(measured.broadcasts, Times { middle80: 0.875, median: 0.75, p99: 1.0 });
        assert_eq!(measured.barriers, Times { middle80: 0.2, median: 0.1, p99: 0.3 });
        let error = read(r#"{"results": []}"#, 5).expect_err("no result").to_string();
        assert_eq!(error, "`ethbcast perf` reports no predicted_seconds");
    }

    #[test]
    fn long_broadcasts_are_measured_once_and_short_ones_often() {
        assert_eq!([0.0, 0.001, 0.1, 1.0, 2.9, 3.1].map(|seconds| iterations(seconds, 2.0, 50)), [50, 50, 20, 3, 3, 1]);
    }
}
