//! Simulated broadcasts, each played once.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use ethbcast_planning::model::{Job, Shape, best_segment, predict};
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::plan::{self, Costs, Plan, Via};
use ethbcast_planning::topology::Topology;
use serde_json::Value;
use tempfile::TempDir;

use crate::interrupt::Interrupt;
use crate::papers::{Cluster, SEGMENTS_BYTES};
use crate::payload::scratch;
use crate::program::Program;
use crate::running::Running;
use crate::units::FRAME_PAYLOAD_BYTES;

const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// On one of the papers' test beds.
    Bed(&'static str),
    /// Hosts on one switch, by number.
    Switch(usize),
    /// A network by its name and the text of its file.
    File(String, String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub site: Site,
    /// The paper's network whose costs apply.
    pub network: Cluster,
    pub via: Via,
    pub bytes: u64,
    /// Bytes of a segment; the model's best if `None`.
    pub segment_bytes: Option<u64>,
}

impl Site {
    /// Returns the hosts and switches.
    ///
    /// # Errors
    /// Fails if the file describes none.
    pub fn topology(&self) -> anyhow::Result<Topology> {
        Ok(match self {
            Self::Bed(name) => Topology::builtin(name).with_context(|| format!("{name} is no test bed"))?,
            Self::Switch(hosts) => Topology::single_switch((0..*hosts).map(|host| format!("n{host}")))?,
            Self::File(name, text) => Topology::parse(text, name)?,
        })
    }
}

impl Run {
    fn plan(&self, topology: &Topology) -> anyhow::Result<(Plan, Vec<usize>)> {
        let members: Vec<usize> = (0..topology.hosts().len()).collect();
        Ok((plan::make(self.via, topology, 0, &members, &Costs::default())?, members))
    }

    /// Returns the model's time in segments of this length, in seconds.
    ///
    /// # Errors
    /// Fails if there is no such plan.
    pub fn predicted(&self, segment_bytes: u64) -> anyhow::Result<f64> {
        let topology = self.site.topology()?;
        let (plan, members) = self.plan(&topology)?;
        let shape = Shape::of(&plan, &topology, &members);
        let job = Job { size_bytes: self.bytes, segment_bytes, frame_payload_bytes: FRAME_PAYLOAD_BYTES };
        Ok(predict(&shape, &job, &self.network.hosts()))
    }

    /// Returns the time by the paper's equations from its Table 2, in seconds: processor time as
    /// far as L(m) and g(m) include it, and, where the run gives no segment, the best of its eight.
    ///
    /// # Errors
    /// Fails if there is no such plan.
    pub fn by_equations(&self) -> anyhow::Result<f64> {
        let topology = self.site.topology()?;
        let (plan, members) = self.plan(&topology)?;
        let (shape, calibration) = (Shape::of(&plan, &topology, &members), self.network.calibration());
        let price = |segment_bytes| {
            let job = Job { size_bytes: self.bytes, segment_bytes, frame_payload_bytes: SEGMENTS_BYTES[0] };
            predict(&shape, &job, &calibration)
        };
        Ok(match self.segment_bytes {
            Some(segment_bytes) => price(segment_bytes),
            None if !self.via.is_atomic() && !self.via.is_in_blocks() => {
                let all = SEGMENTS_BYTES.into_iter().filter(|&segment| segment <= self.bytes);
                all.map(price).fold(price(self.bytes), f64::min)
            }
            None => best_segment(&shape, self.bytes, SEGMENTS_BYTES[0], &calibration).1,
        })
    }

    /// Returns the run with segments of this length.
    pub fn in_segments(&self, segment_bytes: u64) -> Self {
        Self { segment_bytes: Some(segment_bytes), ..self.clone() }
    }
}

/// Plays broadcasts, and keeps their times.
#[derive(Debug)]
pub struct Runs<'a> {
    program: &'a Program,
    interrupt: &'a Interrupt,
    folder: TempDir,
    seconds: HashMap<Run, f64>,
}

impl<'a> Runs<'a> {
    /// Creates it without results.
    ///
    /// # Errors
    /// Fails if there is no place for files.
    pub fn new(program: &'a Program, interrupt: &'a Interrupt) -> anyhow::Result<Self> {
        let runs = Self { program, interrupt, folder: scratch()?, seconds: HashMap::new() };
        for network in Cluster::ALL {
            fs::write(runs.calibration(network), network.hosts().to_toml())?;
        }
        Ok(runs)
    }

    fn calibration(&self, network: Cluster) -> PathBuf {
        self.folder.path().join(format!("{}.toml", network.name()))
    }

    /// Returns the seconds from the first frame sent to the last one received.
    ///
    /// # Errors
    /// Fails if the simulation does, or if the user interrupts.
    pub fn seconds(&mut self, run: &Run) -> anyhow::Result<f64> {
        if let Some(&seconds) = self.seconds.get(run) {
            return Ok(seconds);
        }
        let mut command = self.program.here("simulate");
        command.args(["--json", "--rate", &run.network.rate().to_string(), "--size", &run.bytes.to_string()]);
        // The calibration has the paper's hosts' wake-up time; they had no naps.
        command.arg("--no-naps").arg("--calibration").arg(self.calibration(run.network));
        match &run.site {
            Site::Bed(name) => command.args(["--topology", name]),
            Site::Switch(hosts) => command.args(["--hosts", &hosts.to_string()]),
            Site::File(name, text) => {
                let file = self.folder.path().join(format!("{name}.toml"));
                fs::write(&file, text)?;
                command.arg("--topology").arg(file)
            }
        };
        match run.segment_bytes {
            Some(segment_bytes) => command.arg("--plan").arg(self.save(run, segment_bytes)?),
            None => command.args(["--via", &run.via.to_string()]),
        };
        let report = match Running::start("ethbcast simulate", command)?.wait(PATIENCE, self.interrupt)? {
            Ok(report) => report,
            Err(words) => bail!("{run:?}: {words}"),
        };
        let report: Value = serde_json::from_str(&report).context("`ethbcast simulate` printed no JSON")?;
        let seconds =
            report["delivered_seconds"].as_f64().context("`ethbcast simulate` reports no delivered_seconds")?;
        self.seconds.insert(run.clone(), seconds);
        Ok(seconds)
    }

    /// Returns the number of broadcasts played.
    pub fn played(&self) -> usize {
        self.seconds.len()
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
