//! Runs `ethbcast perf` on all hosts of the benchmark, and parses its times of broadcast and
//! barrier. They are comparable with an MPI program's (Patarasuk 2008, Figure 10).

use crate::cluster::INTERFACE;
use crate::process::{Ended, Interrupt, Program, Running};
use crate::report::Times;
use anyhow::Context;
use ethbcast_lab::Lab;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Longest wait for the other ranks' end after the root's.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// Time for a process to become the first of its host, rank 0.
const FIRST_WITHIN: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    pub lab: &'a Lab,
    pub program: &'a Program,
    pub interrupt: &'a Interrupt,
}

#[derive(Clone, Debug)]
pub struct PerfJob<'a> {
    /// More options of the root, such as `--via`.
    pub root_options: Vec<&'a str>,
    pub options: Vec<&'a str>,
    pub ranks_per_host: usize,
    pub sizes: &'a [u64],
    pub iterations: u32,
}

/// Kind of plan and bytes of a segment (empty and 0 for an MPI), and the times of broadcasts, each
/// followed by a barrier, and of barriers.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub via: String,
    pub segment_bytes: u64,
    pub predicted_seconds: Option<f64>,
    pub broadcast: Times,
    pub barrier: Times,
}

impl Site<'_> {
    pub fn start(
        &self,
        host: &str,
        subcommand: &str,
        arguments: &[&str],
    ) -> anyhow::Result<Running> {
        let mut command = self.program.on(self.lab, host, subcommand)?;
        // They use no keys yet.
        command
            .args(["--quiet", "--no-key", "-i", INTERFACE])
            .args(arguments);
        Running::start(format!("ethbcast {subcommand} on {host}"), command)
    }

    /// Runs `ethbcast perf` on all hosts. Returns the times of each size, or the failure of the
    /// program.
    pub fn perf(
        &self,
        job: &PerfJob,
        limit: Duration,
    ) -> anyhow::Result<Result<Vec<Measured>, String>> {
        let hosts = self.lab.hosts();
        let ranks = (hosts.len() * job.ranks_per_host).to_string();
        let sizes = job
            .sizes
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(",");
        let iterations = job.iterations.to_string();
        let own = [
            "--root",
            "--json",
            "-n",
            &ranks,
            "--sizes",
            &sizes,
            "--iterations",
            &iterations,
        ];
        let root_options = [&own[..], &job.root_options, &job.options].concat();
        let mut root = self.start(
            hosts.first().context("a lab has hosts")?,
            "perf",
            &root_options,
        )?;
        if job.ranks_per_host > 1 {
            std::thread::sleep(FIRST_WITHIN);
        }
        let mut members = Vec::new();
        for host in hosts
            .iter()
            .flat_map(|host| std::iter::repeat_n(host, job.ranks_per_host))
            .skip(1)
        {
            members.push(self.start(
                host,
                "perf",
                &[&["-n", &ranks][..], &job.options].concat(),
            )?);
        }
        let ended: Ended = root.wait(limit, self.interrupt)?;
        if ended.is_ok() {
            // The root's report has their verdicts; their own output does not matter.
            members
                .iter_mut()
                .try_for_each(|member| member.wait(AFTERWARDS, self.interrupt).map(drop))?;
        }
        match ended {
            Ok(report) => read(&report, job.sizes.len()).map(Ok),
            Err(words) => Ok(Err(words)),
        }
    }

    pub fn calibrate(&self, others: &[String], file: &Path, limit: Duration) -> anyhow::Result<()> {
        let answering = others
            .iter()
            .map(|host| self.start(host, "probe", &["--answer"]))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let name = file
            .to_str()
            .context("the path of the calibration is not valid UTF-8")?;
        let count = others.len().to_string();
        let root = &self.lab.hosts()[0];
        let mut probe = self.start(
            root,
            "probe",
            &["-n", &count, "--max-wait", "20", "--out", name],
        )?;
        let ended: Ended = probe.wait(limit, self.interrupt)?;
        drop(answering);
        ended.map(drop).map_err(anyhow::Error::msg)
    }
}

fn read(report: &str, sizes: usize) -> anyhow::Result<Vec<Measured>> {
    let report: Value = serde_json::from_str(report).context("`ethbcast perf` printed no JSON")?;
    let result = |at: usize| {
        let result = &report["results"][at];
        let times = |of: &str| {
            let key = |key: &str| format!("{of}{key}");
            let number = |key: String| {
                result[&key]
                    .as_f64()
                    .with_context(|| format!("`ethbcast perf` reports no {key}"))
            };
            let (middle80, median, p99) =
                (key("middle_80_percent_mean"), key("median"), key("p99"));
            anyhow::Ok(Times {
                middle80: number(middle80)?,
                median: number(median)?,
                p99: number(p99)?,
            })
        };
        anyhow::Ok(Measured {
            via: result["via"].as_str().unwrap_or_default().to_owned(),
            segment_bytes: result["segment_bytes"].as_u64().unwrap_or_default(),
            predicted_seconds: result["predicted_seconds"].as_f64(),
            broadcast: times("")?,
            barrier: times("barrier_")?,
        })
    };
    (0..sizes).map(result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_times_of_each_size_or_is_none() {
        let report = r#"{"schema": 1, "ranks": 8, "via": "auto", "results": [{"size": 65536, "via": "chain",
            "segment_bytes": 1468, "predicted_seconds": 0.25, "bcast_seconds": 9.0, "barrier_seconds": 0.125,
            "min": 0.5, "median": 0.75, "p99": 1.0, "middle_80_percent_mean": 0.875,
            "barrier_median": 0.1, "barrier_p99": 0.3, "barrier_middle_80_percent_mean": 0.2}]}"#;
        let measured = read(report, 1).expect("a report");
        assert_eq!(
            (measured[0].via.as_str(), measured[0].segment_bytes),
            ("chain", 1468)
        );
        assert_eq!(measured[0].predicted_seconds, Some(0.25));
        assert_eq!(
            measured[0].broadcast,
            Times {
                middle80: 0.875,
                median: 0.75,
                p99: 1.0
            }
        );
        assert_eq!(
            measured[0].barrier,
            Times {
                middle80: 0.2,
                median: 0.1,
                p99: 0.3
            }
        );
        let error = |report: &str, sizes| read(report, sizes).expect_err("no report").to_string();
        assert_eq!(
            error(report, 2),
            "`ethbcast perf` reports no middle_80_percent_mean"
        );
        assert_eq!(error("", 0), "`ethbcast perf` printed no JSON");
    }
}
