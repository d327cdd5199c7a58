//! A chain in segments of a given length (Patarasuk 2008, Figure 16): saved plans with another
//! segment.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::chart::{Series, line_chart};
use crate::payload::make_file;
use crate::perf::Site;
use crate::running::Running;
use crate::table::{Table, median};
use crate::units::{FRAME_PAYLOAD_BYTES, milliseconds, size};

const PATIENCE: Duration = Duration::from_secs(60);
const AFTERWARDS: Duration = Duration::from_secs(5);
const RUNS: usize = 3;

/// Results: for each size and segment, seconds from the first data frame to the last verdict.
#[derive(Clone, Debug)]
pub struct Segments {
    sizes: Vec<u64>,
    frames: Vec<u64>,
    times: Vec<Vec<Result<f64, String>>>,
}

impl Segments {
    /// Sends messages of all sizes in segments of all these numbers of frames; `directory` is for
    /// files.
    ///
    /// # Errors
    /// Fails if a program cannot be started, a file cannot be written, or the user interrupts.
    pub fn measure(site: &Site, sizes: &[u64], frames: &[u64], directory: &Path) -> anyhow::Result<Self> {
        let row = |&bytes: &u64| frames.iter().map(|&frames| measure(site, bytes, frames, directory)).collect();
        let times = sizes.iter().map(row).collect::<anyhow::Result<_>>()?;
        Ok(Self { sizes: sizes.to_vec(), frames: frames.to_vec(), times })
    }

    pub fn is_complete(&self) -> bool {
        self.times.iter().flatten().all(Result::is_ok)
    }

    /// Returns a row for each size and segment.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&["size", "segment", "frames", "ms", "x least", "remark"]);
        for (&bytes, times) in self.sizes.iter().zip(&self.times) {
            let least = times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            for (&frames, time) in self.frames.iter().zip(times) {
                let cell = |of: &dyn Fn(f64) -> String| time.as_ref().map_or("-".to_owned(), |&seconds| of(seconds));
                table.push(vec![
                    size(bytes),
                    (frames * FRAME_PAYLOAD_BYTES).to_string(),
                    frames.to_string(),
                    cell(&milliseconds),
                    cell(&|seconds| format!("{:.2}", seconds / least)),
                    time.as_ref().err().cloned().unwrap_or_default(),
                ]);
            }
        }
        table
    }

    /// Draws time over size, in copies of the message, with a line for each segment; `None` if all
    /// transfers failed.
    pub fn chart(&self, title: &str, copy_seconds: impl Fn(u64) -> f64) -> Option<String> {
        let line = |(column, frames): (usize, &u64)| {
            let times = self.sizes.iter().zip(&self.times);
            let point = |(&bytes, times): (&u64, &Vec<Result<f64, String>>)| {
                Some((bytes as f64, *times[column].as_ref().ok()? / copy_seconds(bytes)))
            };
            Series::new(format!("{frames} frames a segment"), times.filter_map(point))
        };
        let series: Vec<Series> =
            self.frames.iter().enumerate().map(line).filter(|series| !series.points.is_empty()).collect();
        (!series.is_empty()).then(|| line_chart(title, "bytes", "time / time of one copy on a cable", &series, true))
    }
}

fn measure(site: &Site, size_bytes: u64, frames: u64, directory: &Path) -> anyhow::Result<Result<f64, String>> {
    let (source, plan) = (directory.join("segments.bin"), directory.join("segments.toml"));
    make_file(&source, size_bytes)?;
    if let Err(words) = save_plan(site, size_bytes, &plan)? {
        return Ok(Err(words));
    }
    set_segment(&plan, frames * FRAME_PAYLOAD_BYTES)?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        match send(site, &plan, &source)? {
            Ok(seconds) => times.push(seconds),
            Err(words) => return Ok(Err(words)),
        }
    }
    Ok(Ok(median(times).expect("there was at least one run")))
}

fn save_plan(site: &Site, size_bytes: u64, file: &Path) -> anyhow::Result<Result<(), String>> {
    let hosts = site.bed.hosts();
    let name = site.bed.name.as_deref().context("a plan is saved for a test bed")?;
    let mut command = site.program.here("plan");
    command.args(["--via", "chain", "--topology", name, "--root", &hosts[0], "--size", &size_bytes.to_string()]);
    command.arg("--out").arg(file);
    Ok(Running::start("ethbcast plan", command)?.wait(PATIENCE, site.interrupt)?.map(drop))
}

fn set_segment(file: &Path, segment_bytes: u64) -> anyhow::Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    fs::write(file, with_segment(&text, segment_bytes)).with_context(|| format!("writing {}", file.display()))
}

fn with_segment(plan: &str, segment_bytes: u64) -> String {
    let line = |line: &str| match line.starts_with("segment_bytes") {
        true => format!("segment_bytes = {segment_bytes}\n"),
        false => format!("{line}\n"),
    };
    plan.lines().map(line).collect()
}

fn send(site: &Site, plan: &Path, source: &Path) -> anyhow::Result<Result<f64, String>> {
    let hosts = site.bed.hosts();
    let receive = |host: &String| site.start(host, "recv", &["--max-wait", "20", "-"]);
    let mut receivers = hosts[1..].iter().map(receive).collect::<anyhow::Result<Vec<_>>>()?;
    let [plan, source] = [plan, source].map(|path| path.to_str().context("the path of a file is not valid UTF-8"));
    let count = (hosts.len() - 1).to_string();
    let arguments = ["--json", "--no-probe", "--max-wait", "20", "-n", &count, "--plan", plan?, source?];
    let report = match site.start(&hosts[0], "send", &arguments)?.wait(PATIENCE, site.interrupt)? {
        Ok(report) => report,
        Err(words) => return Ok(Err(words)),
    };
    receivers.iter_mut().try_for_each(|receiver| receiver.wait(AFTERWARDS, site.interrupt).map(drop))?;
    let report: Value = serde_json::from_str(&report).context("`ethbcast send` printed no JSON")?;
    Ok(Ok(report["seconds"].as_f64().context("`ethbcast send` reports no seconds")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_segment_of_a_plan_is_changed() {
        let plan = "schema = 1\nsegment_bytes = 1468\nsize_bytes = 65536\n";
        assert_eq!(with_segment(plan, 2936), "schema = 1\nsegment_bytes = 2936\nsize_bytes = 65536\n");
    }
}
