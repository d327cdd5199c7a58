//! Test beds: a topology, its lab, and the model's predictions for it.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use ethbcast_lab::{LabConfig, LabGuard};
use ethbcast_planning::model::{Calibration, Situation, price};
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::{BUILTIN_NAMES, Topology};

use crate::cluster::{INTERFACE, bring_up_named};
use crate::units::FRAME_PAYLOAD_BYTES;

/// A lab, taken down on drop.
#[derive(Debug)]
pub struct Bed {
    /// Value of `--topology`; `None` for hosts on one switch, which need no topology.
    pub name: Option<String>,
    pub lab: LabGuard,
    topology: Topology,
    members: Vec<usize>,
}

impl Bed {
    /// Brings up one of the papers' test beds, `fig9-1` to `fig9-5`.
    ///
    /// # Errors
    /// Fails for another name, without root, or if the lab does not come up.
    pub fn builtin(bench: &str, name: &str, rate_bits_per_second: u64) -> anyhow::Result<Self> {
        let unknown = || format!("{name} is no test bed: choose one of {}", BUILTIN_NAMES.join(", "));
        let topology = Topology::builtin(name).with_context(unknown)?;
        // A lab's name holds no `-`.
        let lab = format!("{bench}{}.{}", std::process::id(), name.replace('-', "."));
        Self::up(lab, Some(name.to_owned()), topology, Some(rate_bits_per_second))
    }

    /// Brings up the cluster of a topology file; cables without a rate there get
    /// `rate_bits_per_second`.
    ///
    /// # Errors
    /// Fails for a bad file, without root, or if the lab does not come up.
    pub fn of_file(bench: &str, file: &Path, rate_bits_per_second: u64) -> anyhow::Result<Self> {
        let name = file.to_str().context("the path of the topology is not valid UTF-8")?;
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {name}"))?;
        let topology = Topology::parse(&text, name)?;
        let lab = format!("{bench}{}", std::process::id());
        Self::up(lab, Some(name.to_owned()), topology, Some(rate_bits_per_second))
    }

    /// Limits the group frames at every host's port, as storm control does.
    ///
    /// # Errors
    /// Fails if `nft` does on a host.
    pub fn police(&self, frames_per_second: u32, burst_frames: u32) -> anyhow::Result<()> {
        let rules = format!(
            "add table netdev storm; add chain netdev storm in {{ type filter hook ingress device {INTERFACE} priority \
             0; }}; add rule netdev storm in meta pkttype multicast limit rate over {frames_per_second}/second burst \
             {burst_frames} packets drop"
        );
        for host in self.hosts() {
            let output = self.lab.command(&host, "nft")?.arg(&rules).stdin(Stdio::null()).output()?;
            if !output.status.success() {
                bail!("`nft` failed on {host}: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
        }
        Ok(())
    }

    /// Brings up `hosts` hosts on one switch; without a rate, as fast as the machine copies.
    ///
    /// # Errors
    /// Fails without root, or if the lab does not come up.
    pub fn one_switch(bench: &str, hosts: usize, rate_bits_per_second: Option<u64>) -> anyhow::Result<Self> {
        let topology = Topology::single_switch((0..hosts).map(|host| format!("n{host}")))?;
        Self::up(format!("{bench}{}", std::process::id()), None, topology, rate_bits_per_second)
    }

    fn up(
        lab: String,
        name: Option<String>,
        topology: Topology,
        rate_bits_per_second: Option<u64>,
    ) -> anyhow::Result<Self> {
        let lab = bring_up_named(lab, topology.clone(), rate_bits_per_second)?;
        // Sessions give ranks by the names of hosts, in the natural order that the lab uses, too;
        // the first is the root.
        let members = lab.hosts().iter().filter_map(|host| topology.host_named(host)).collect();
        Ok(Self { name, lab, topology, members })
    }

    /// Returns the bytes that the token bucket of a cable of this rate passes at once.
    pub fn burst_bytes(&self, rate_bits_per_second: u64) -> u64 {
        LabConfig::new(self.topology.clone()).burst_bytes(rate_bits_per_second)
    }

    /// Returns the names of its hosts, the root first.
    pub fn hosts(&self) -> Vec<String> {
        self.lab.hosts()
    }

    /// Returns the model's time for a message in its best segments, in seconds.
    ///
    /// # Errors
    /// Fails if there is no such plan for this number of hosts.
    pub fn predict(&self, via: Via, size_bytes: u64, calibration: &Calibration) -> anyhow::Result<f64> {
        let situation = Situation {
            topology: &self.topology,
            root_host: self.members[0],
            members: &self.members,
            size_bytes: Some(size_bytes),
            frame_payload_bytes: FRAME_PAYLOAD_BYTES,
            calibration,
        };
        Ok(price(via, &situation)?.estimate.predicted_seconds)
    }
}
