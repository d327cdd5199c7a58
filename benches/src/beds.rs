//! Networks on which the benchmarks compare broadcast algorithms, with each algorithm's predicted
//! time.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ethbcast_bench::cluster::{INTERFACE, bring_up_as};
use ethbcast_bench::mpi::Mpi;
use ethbcast_bench::perf::Site;
use ethbcast_bench::process::{Interrupt, Program};
use ethbcast_lab::{LabConfig, LabGuard, format_rate};
use ethbcast_planning::model::{Calibration, Situation, price};
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::plan::{self, Costs, Via};
use ethbcast_planning::topology::{BUILTIN_NAMES, Topology};

use crate::{FRAME_PAYLOAD_BYTES, copy_seconds};

/// Suffix of a test bed whose switches police broadcast, with their frames a second and their
/// burst.
const POLICED: &str = ":policed";
const POLICED_FRAMES_PER_SECOND: u32 = 500;
const POLICED_BURST_FRAMES: u32 = 20;
/// Part of the rate of one host of the bed `mixed`.
const MIXED_PART: u64 = 4;
/// Rate for predictions where cables are as fast as the machine copies.
const ASSUMED_RATE: u64 = 1_000_000_000;
const PROBE_WITHIN: Duration = Duration::from_secs(120);

pub struct Bed {
    pub name: String,
    pub lab: LabGuard,
    /// Value of `--topology`; hosts on one switch need none.
    pub topology_option: Option<String>,
    /// Rate of the cables in bits per second; without it, as fast as the machine copies.
    pub rate: Option<u64>,
    pub calibration: Calibration,
    /// File of the measured costs; without it every session begins with its own short probe, as it
    /// does for users.
    pub calibration_file: Option<PathBuf>,
    topology: Topology,
    members: Vec<usize>,
}

impl Bed {
    /// Brings up `fig9-1` to `fig9-5`, `mixed` or `star:N`, perhaps `:policed`.
    pub fn up(
        bench: &str,
        number: usize,
        name: &str,
        rate: Option<u64>,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let place = name.trim_end_matches(POLICED);
        let (topology, option) = topology(place, rate, directory)?;
        let lab = format!("{bench}{}.{number}", std::process::id());
        let config = LabConfig {
            name: lab,
            rate_bits_per_second: rate,
            ..LabConfig::new(topology.clone())
        };
        let lab = bring_up_as(config)?;
        // Sessions give ranks by the names of hosts, in the natural order that the lab uses, too;
        // the first is the root.
        let members = lab
            .hosts()
            .iter()
            .filter_map(|host| topology.host_named(host))
            .collect();
        let mut calibration =
            Calibration::assumed(rate.unwrap_or(ASSUMED_RATE), FRAME_PAYLOAD_BYTES);
        let mut bed = Self {
            name: name.to_owned(),
            lab,
            topology_option: option,
            rate,
            calibration: calibration.clone(),
            calibration_file: None,
            topology,
            members,
        };
        if name.ends_with(POLICED) {
            bed.police()?;
            calibration = calibration.with_cast_max(POLICED_FRAMES_PER_SECOND.into())?;
        }
        bed.calibration = calibration;
        Ok(bed)
    }

    /// Limits the group frames at every host's port, as storm control does.
    fn police(&self) -> anyhow::Result<()> {
        let rules = format!(
            "add table netdev storm; add chain netdev storm in {{ type filter hook ingress device {INTERFACE} priority \
             0; }}; add rule netdev storm in meta pkttype multicast limit rate over {POLICED_FRAMES_PER_SECOND}/second \
             burst {POLICED_BURST_FRAMES} packets drop"
        );
        for host in self.lab.hosts() {
            let output = self
                .lab
                .command(&host, "nft")?
                .arg(&rules)
                .stdin(Stdio::null())
                .output()?;
            if !output.status.success() {
                bail!(
                    "`nft` failed on {host}: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
            }
        }
        Ok(())
    }

    /// Probes to two hosts, and adds the burst of the token buckets, which no probe measures but
    /// the lab knows. Model, simulator and sessions get the result, so that all use the same
    /// segments.
    pub fn calibrate(
        &mut self,
        program: &Program,
        interrupt: &Interrupt,
        directory: &Path,
    ) -> anyhow::Result<()> {
        let hosts = self.lab.hosts();
        let file = directory.join(format!("{}.calibration.toml", self.name.replace(':', "-")));
        let site = Site {
            lab: &self.lab,
            program,
            interrupt,
        };
        let others = [hosts[1].clone(), hosts[hosts.len() - 1].clone()];
        site.calibrate(&others[..(hosts.len() - 1).min(2)], &file, PROBE_WITHIN)?;
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("reading {}", file.display()))?;
        self.calibration = Calibration::parse(&text, &self.name)?;
        if let Some(rate) = self.rate {
            let burst_ns = self.burst_bytes(rate) * 8_000_000_000 / rate;
            self.calibration = self.calibration.clone().with_burst_ns(burst_ns)?;
            std::fs::write(&file, self.calibration.to_toml())?;
        }
        self.calibration_file = Some(file);
        Ok(())
    }

    fn burst_bytes(&self, rate: u64) -> u64 {
        LabConfig::new(self.topology.clone()).burst_bytes(rate)
    }

    /// Returns the least time of a message on an idle cable: the bytes that its token bucket passes
    /// at once take none.
    pub fn copy_seconds(&self, size_bytes: u64) -> Option<f64> {
        let rate = self.rate?;
        let burst_seconds = self.burst_bytes(rate) as f64 * 8.0 / rate as f64;
        Some(copy_seconds(size_bytes, rate) - burst_seconds).filter(|&seconds| seconds > 0.0)
    }

    /// Returns the model's time for a message in its best segments, in seconds.
    pub fn predict(&self, via: Via, size_bytes: u64) -> anyhow::Result<f64> {
        let situation = Situation {
            topology: &self.topology,
            root_host: self.members[0],
            members: &self.members,
            size_bytes: Some(size_bytes),
            frame_payload_bytes: FRAME_PAYLOAD_BYTES,
            calibration: &self.calibration,
        };
        Ok(price(via, &situation)?.estimate.predicted_seconds)
    }

    pub fn save_plan(
        &self,
        via: Via,
        size_bytes: u64,
        frames: u64,
        file: &Path,
    ) -> anyhow::Result<()> {
        let plan = plan::make(
            via,
            &self.topology,
            self.members[0],
            &self.members,
            &Costs::default(),
        )?;
        let names: Vec<&str> = self.topology.hosts().iter().map(String::as_str).collect();
        let saved = SavedPlan::from_plan(
            &plan,
            &names,
            frames * FRAME_PAYLOAD_BYTES,
            Some(size_bytes),
        );
        std::fs::write(file, saved.to_toml()).with_context(|| format!("writing {}", file.display()))
    }
}

/// Returns the topology of a bed, and the value of `--topology`.
fn topology(
    place: &str,
    rate: Option<u64>,
    directory: &Path,
) -> anyhow::Result<(Topology, Option<String>)> {
    if let Some(hosts) = place.strip_prefix("star:") {
        let hosts: usize = hosts
            .parse()
            .with_context(|| format!("{place} has no number of hosts"))?;
        return Ok((
            Topology::single_switch((0..hosts).map(|host| format!("n{host}")))?,
            None,
        ));
    }
    if place == "mixed" {
        let slower = format_rate(rate.context("a mixed bed has cables of a rate")? / MIXED_PART);
        let hosts = "[[switch]]\nname = \"s0\"\nhosts = \"n[0-7]\"\n";
        let text = format!("schema = 1\n{hosts}\n[[host]]\nname = \"n5\"\nrate = \"{slower}\"\n");
        let file = directory.join("mixed.toml");
        std::fs::write(&file, &text)?;
        return Ok((
            Topology::parse(&text, place)?,
            file.to_str().map(str::to_owned),
        ));
    }
    let unknown = || {
        format!(
            "{place} is no test bed: choose star:N, mixed or one of {}",
            BUILTIN_NAMES.join(", ")
        )
    };
    Ok((
        Topology::builtin(place).with_context(unknown)?,
        Some(place.to_owned()),
    ))
}

#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    pub name: String,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Own {
        via: String,
        preset: Option<String>,
        segment_frames: Option<u64>,
    },
    Mpi {
        mpi: Mpi,
        variant: String,
    },
}

impl Way {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        // A way of ours may have `=` in it: kary=3.
        let (name, way) = match text.split_once('=') {
            Some((name, way)) if !name.starts_with("kary") => (name, way),
            _ => (text, text),
        };
        let (base, variant) = way.split_once('+').unwrap_or((way, ""));
        let mpi = Mpi::ALL.into_iter().find(|mpi| mpi.name() == base);
        let kind = match mpi {
            Some(mpi) if ["", "drop-in", "refused"].contains(&variant) => Kind::Mpi {
                mpi,
                variant: variant.to_owned(),
            },
            Some(_) => bail!("{way}: choose +drop-in or +refused"),
            None => {
                let (rest, preset) = base
                    .split_once('@')
                    .map_or((base, None), |(rest, preset)| (rest, Some(preset)));
                let (via, frames) = rest
                    .split_once('/')
                    .map_or((rest, None), |(via, frames)| (via, Some(frames)));
                let segment_frames = frames
                    .map(str::parse)
                    .transpose()
                    .with_context(|| format!("{way}: no number"))?;
                ensure!(
                    via == "auto" || via.parse::<Via>().is_ok(),
                    "{via} is no way to send"
                );
                Kind::Own {
                    via: via.to_owned(),
                    preset: preset.map(str::to_owned),
                    segment_frames,
                }
            }
        };
        Ok(Self {
            name: name.to_owned(),
            kind,
        })
    }

    /// Returns the model's time: for `auto` the least of all ways, for an MPI that of a binomial
    /// tree.
    pub fn predict(&self, bed: &Bed, size_bytes: u64) -> anyhow::Result<f64> {
        match &self.kind {
            Kind::Own { via, .. } if via != "auto" => bed.predict(via.parse()?, size_bytes),
            Kind::Own { .. } => {
                let all = [Via::Chain, Via::Cast, Via::Binary, Via::Binomial];
                let times = all
                    .into_iter()
                    .map(|via| bed.predict(via, size_bytes))
                    .collect::<anyhow::Result<Vec<_>>>()?;
                Ok(times.into_iter().fold(f64::INFINITY, f64::min))
            }
            Kind::Mpi { .. } => bed.predict(Via::Binomial, size_bytes),
        }
    }

    pub fn is_by(&self, wanted: Mpi) -> bool {
        matches!(self.kind, Kind::Mpi { mpi, .. } if mpi == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_a_name_a_preset_segments_or_a_variant() {
        let own = |via: &str, preset: Option<&str>, segment_frames| Kind::Own {
            via: via.to_owned(),
            preset: preset.map(str::to_owned),
            segment_frames,
        };
        let kind = |text: &str| {
            Way::parse(text)
                .map(|way| (way.name, way.kind))
                .expect(text)
        };
        assert_eq!(
            kind("kary=3"),
            ("kary=3".to_owned(), own("kary=3", None, None))
        );
        assert_eq!(
            kind("chain/8"),
            ("chain/8".to_owned(), own("chain", None, Some(8)))
        );
        assert_eq!(
            kind("SBCAST=cast@paper"),
            ("SBCAST".to_owned(), own("cast", Some("paper"), None))
        );
        let refused = Kind::Mpi {
            mpi: Mpi::Mpich,
            variant: "refused".to_owned(),
        };
        assert_eq!(kind("mpich+refused"), ("mpich+refused".to_owned(), refused));
        assert!(
            Way::parse("nonsense").is_err()
                && Way::parse("mpich+x").is_err()
                && Way::parse("chain/x").is_err()
        );
    }
}
