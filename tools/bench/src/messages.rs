//! `ethbcast perf` on all hosts of a lab: broadcast and barrier, comparable with an MPI program.

use std::time::Duration;

use anyhow::Context;
use ethbcast_lab::Lab;
use serde_json::Value;

use crate::cluster::INTERFACE;
use crate::interrupt::Interrupt;
use crate::program::Program;
use crate::running::Running;

/// Longest wait for the other ranks' end after the root's.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// A measurement of broadcasts of several sizes in turn.
#[derive(Clone, Copy, Debug)]
pub struct MessageJob<'a> {
    /// The lab; its first host is the root.
    pub lab: &'a Lab,
    /// The program `ethbcast`.
    pub program: &'a Program,
    /// The `--via` algorithm.
    pub via: &'a str,
    /// Sizes of the broadcasts, in bytes.
    pub sizes: &'a [u64],
    /// Number of broadcasts of each size.
    pub iterations: u32,
}

/// Runs the measurement. Returns the median time of a broadcast with its barrier for each size, in
/// seconds, or the failure of the program.
///
/// # Errors
/// If a program cannot be started, its report cannot be read, or the user interrupts.
pub fn measure(job: &MessageJob, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Result<Vec<f64>, String>> {
    let hosts = job.lab.hosts();
    let ranks = hosts.len().to_string();
    let sizes: Vec<String> = job.sizes.iter().map(u64::to_string).collect();
    let (sizes, iterations) = (sizes.join(","), job.iterations.to_string());
    let told = ["--root", "--json", "--via", job.via, "--sizes", &sizes, "--iterations", &iterations];
    let mut running = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let mut command = job.program.on(job.lab, host, "perf")?;
        command.args(["--quiet", "-i", INTERFACE, "-n", &ranks]);
        if number == 0 {
            command.args(told);
        }
        running.push(Running::start(format!("ethbcast perf on {host}"), command)?);
    }
    let (root, members) = running.split_first_mut().context("a lab has hosts")?;
    match root.wait(limit, interrupt)? {
        Err(words) => Ok(Err(words)),
        Ok(report) => {
            // The root's report includes their results.
            members.iter_mut().try_for_each(|member| member.wait(AFTERWARDS, interrupt).map(drop))?;
            read(&report, job.sizes.len()).map(Ok)
        }
    }
}

/// Reads the medians of a report on `sizes` sizes.
fn read(report: &str, sizes: usize) -> anyhow::Result<Vec<f64>> {
    let report: Value = serde_json::from_str(report).context("`ethbcast perf` printed no JSON")?;
    let median = |at: usize| report["results"][at]["median"].as_f64().context("`ethbcast perf` reports no median");
    (0..sizes).map(median).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_median_for_each_size_or_is_none() {
        let report = r#"{"schema": 1, "results": [{"size": 256, "median": 0.5}, {"size": 4096, "median": 0.75}]}"#;
        assert_eq!(read(report, 2).expect("a report"), [0.5, 0.75]);
        assert_eq!(read(report, 3).expect_err("too short").to_string(), "`ethbcast perf` reports no median");
        assert_eq!(read("", 0).expect_err("nothing").to_string(), "`ethbcast perf` printed no JSON");
    }
}
