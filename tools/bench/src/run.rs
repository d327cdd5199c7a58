//! Main loop of the benchmark: its options, the tools found on this machine, and a run for each
//! setting.

use crate::cluster::{
    Ceiling, bring_up_as, give_addresses, measure_raw, received_bytes, set_loss, set_offloads,
};
use crate::mpi::{self, Cluster, Loop, Mpi};
use crate::perf::{Measured, PerfJob, Site};
use crate::process::{Interrupt, Program};
use crate::report::{Cell, Figures, MAX_MESSAGE, Report, Run, Setting, median, size};
use crate::transfer::{
    self, Carrier, Finished, Job, Outcome, Tool, is_installed, make_file, scratch,
};
use anyhow::{Context, bail};
use ethbcast_lab::{Lab, LabConfig, LabGuard, format_rate};
use ethbcast_planning::topology::Topology;
use nix::sys::statvfs::statvfs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest file, in bytes: eight copies must fit in memory.
pub const LARGEST_BYTES: u64 = 1 << 30;
/// Carriers of our frames, as in `send --over`.
pub const CARRIERS: [&str; 2] = ["ethernet", "udp"];
pub const WAYS: [&str; 6] = ["chain", "cast", "binary", "binomial", "flat", "auto"];
/// Limit on the receivers, which all run on this machine.
pub const MAX_RECEIVERS: u16 = 63;
/// Largest MTU, that of a veth, and smallest one, which the other tools need.
pub const LARGEST_MTU_BYTES: u32 = 65_535;
pub const SMALLEST_MTU_BYTES: u32 = 576;

#[derive(Clone, Debug)]
pub struct Options {
    pub ways: Vec<&'static str>,
    /// Some of [`CARRIERS`]. UDP is measured in pieces of 64 KiB, too, where interfaces take them.
    pub over: Vec<&'static str>,
    pub receivers: Vec<u16>,
    pub sizes: Vec<u64>,
    pub mtus: Vec<u32>,
    pub losses: Vec<f64>,
    /// Rates of all cables, in bits per second; `None` for unshaped ones.
    pub rates: Vec<Option<u64>>,
    pub peers: bool,
    /// Timed broadcasts of a message; the report has their median.
    pub iterations: u32,
    pub runs: u32,
    pub raw_time: Duration,
    /// Limit on a run; by default ten times the wire's minimum and at least 30 s.
    pub limit: Option<Duration>,
    pub lab: String,
    pub program: Option<PathBuf>,
}

impl Options {
    /// Returns options that take about a minute: two algorithms, two numbers of receivers, two
    /// message sizes and a file, with and without loss.
    pub fn short(lab: String) -> Self {
        Self {
            ways: vec!["chain", "cast"],
            over: vec!["ethernet"],
            receivers: vec![3, 7],
            sizes: vec![4 << 10, 1 << 20, 16 << 20],
            mtus: vec![1500],
            losses: vec![0.0, 0.01],
            rates: vec![Some(100_000_000)],
            peers: false,
            iterations: 20,
            runs: 1,
            raw_time: Duration::from_millis(300),
            limit: None,
            lab,
            program: None,
        }
    }

    pub fn check(&self) -> Result<(), String> {
        if let Some(receivers) = self
            .receivers
            .iter()
            .find(|&&count| count == 0 || count > MAX_RECEIVERS)
        {
            return Err(format!(
                "{receivers} receivers cannot be measured on one machine: choose 1 to {MAX_RECEIVERS}"
            ));
        }
        if let Some(size) = self
            .sizes
            .iter()
            .find(|&&size| size == 0 || size > LARGEST_BYTES)
        {
            return Err(format!(
                "a broadcast of {size} bytes cannot be measured: choose --sizes from 1 to 1G"
            ));
        }
        if let Some(mtu) = self
            .mtus
            .iter()
            .find(|&&mtu| !(SMALLEST_MTU_BYTES..=LARGEST_MTU_BYTES).contains(&mtu))
        {
            return Err(format!(
                "an MTU of {mtu} is not one of the lab's interfaces, which are veth: choose {SMALLEST_MTU_BYTES} to \
                 {LARGEST_MTU_BYTES}"
            ));
        }
        if let Some(loss) = self.losses.iter().find(|loss| !(0.0..=0.5).contains(*loss)) {
            return Err(format!(
                "a loss of {loss} is no share of frames to measure with: choose 0 to 0.5, such as 0.01"
            ));
        }
        Ok(())
    }

    pub fn messages_and_files(&self) -> (Vec<u64>, Vec<u64>) {
        self.sizes.iter().partition(|&&size| size <= MAX_MESSAGE)
    }
}

/// An MPI; `is_cut` without TCP offloads, so that frames have the MTU's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MpiPeer {
    mpi: Mpi,
    is_cut: bool,
}

impl MpiPeer {
    fn name(self) -> String {
        let name = match self.mpi {
            Mpi::OpenMpi => "Open MPI",
            Mpi::Mpich => "MPICH",
        };
        format!(
            "{name}{}",
            if self.is_cut {
                ", wire-size frames"
            } else {
                ""
            }
        )
    }
}

/// The other tools that are measured: those that send files, those that send messages, and the
/// missing ones with advice.
#[derive(Clone, Debug, Default)]
struct Peers {
    tools: Vec<Tool>,
    mpis: Vec<MpiPeer>,
    skipped: Vec<(String, String)>,
}

impl Peers {
    fn find() -> anyhow::Result<Self> {
        let mut peers = Self::default();
        for tool in Tool::PEERS {
            match tool.missing() {
                None => peers.tools.push(tool),
                Some(why) => peers.skipped.push((tool.name(), why)),
            }
        }
        for mpi in Mpi::ALL {
            let [whole, cut] = [false, true].map(|is_cut| MpiPeer { mpi, is_cut });
            match mpi::missing(mpi) {
                Some(why) => peers.skipped.push((whole.name(), why)),
                None if is_installed("ethtool") => peers.mpis.extend([whole, cut]),
                None => {
                    peers.mpis.push(whole);
                    peers.skipped.push((
                        cut.name(),
                        "no ethtool here: install the package ethtool".to_owned(),
                    ));
                }
            }
        }
        let is_foreign = |tool: &Tool| !matches!(tool, Tool::TcpChain | Tool::TcpChainCut);
        if peers.mpis.is_empty() && !peers.tools.iter().any(is_foreign) {
            bail!(
                "none of the other tools is installed here: `apt install udpcast uftp` for files, `openmpi-bin \
                 libopenmpi-dev` or `mpich libmpich-dev` for messages, or leave out --peers"
            );
        }
        Ok(peers)
    }

    fn versions(&self) -> Vec<(String, String)> {
        let whole = self.mpis.iter().filter(|peer| !peer.is_cut);
        let version = |peer: &MpiPeer| {
            let said = mpi::version(peer.mpi).ok()?;
            Some((
                peer.name(),
                said.trim_start_matches(&peer.name()).trim().to_owned(),
            ))
        };
        whole.filter_map(version).collect()
    }
}

/// Untimed broadcasts of an MPI; the first ones establish connections.
const MPI_WARM_UPS: u32 = 10;
/// Default limit on a run, as a multiple of the wire's minimum.
const PATIENCE: f64 = 10.0;
const MIN_LIMIT_SECONDS: f64 = 30.0;
/// Rate assumed for unshaped cables when the duration is estimated, in bits per second.
const ASSUMED_RATE: u64 = 500_000_000;
/// Fraction of the free memory that files may take.
const MAX_OF_MEMORY: f64 = 0.7;

/// Measures all settings of `options` and reports progress to `say`. A tool's failure is recorded
/// in the report.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Report> {
    options.check().map_err(anyhow::Error::msg)?;
    let mut peers = if options.peers {
        Peers::find()?
    } else {
        Peers::default()
    };
    let own = own_tools(options, &mut peers.skipped);
    let bench = Bench {
        options,
        program: Program::find(options.program.as_deref())?,
        interrupt,
        own,
        peers,
    };
    let minutes = bench.expected_seconds() / 60.0;
    say(&format!(
        "this takes about {:.0} min{}",
        minutes.max(1.0),
        if minutes > 5.0 {
            ": fewer --sizes, --receivers, --loss or --rate take less"
        } else {
            ""
        }
    ));
    let mut cells = Vec::new();
    for &rate in &options.rates {
        for &mtu_bytes in &options.mtus {
            for &receivers in &options.receivers {
                let setting = Setting {
                    receivers,
                    mtu_bytes,
                    rate,
                    loss: 0.0,
                    size_bytes: 0,
                    burst_bytes: 0,
                };
                cells.extend(bench.in_one_lab(setting, say)?);
            }
        }
    }
    Ok(Report {
        machine: bench.machine(),
        skipped: bench.peers.skipped.clone(),
        cells,
    })
}

struct Bench<'a> {
    options: &'a Options,
    program: Program,
    interrupt: &'a Interrupt,
    own: Vec<Tool>,
    peers: Peers,
}

/// Returns our algorithms by every carrier; what cannot be measured is added to `skipped`.
fn own_tools(options: &Options, skipped: &mut Vec<(String, String)>) -> Vec<Tool> {
    let mut tools = Vec::new();
    for over in &options.over {
        let carriers = match *over {
            "udp" => &[Carrier::Udp, Carrier::UdpCut][..],
            _ => &[Carrier::Ethernet],
        };
        for &carrier in carriers {
            tools.extend(options.ways.iter().map(|&via| Tool::Own(via, carrier)));
        }
    }
    tools.retain(|tool| match tool.missing() {
        None => true,
        Some(why) => {
            skipped.push((tool.name(), why));
            false
        }
    });
    tools
}

struct Place {
    lab: LabGuard,
    raw: Ceiling,
    setting: Setting,
}

impl Place {
    /// Returns a cable's rate, or that of raw frames if it is unshaped.
    fn rate_bits_per_second(&self) -> u64 {
        self.setting
            .rate
            .unwrap_or(self.raw.broadcast_bits_per_second as u64)
            .max(1)
    }
}

impl Bench<'_> {
    fn in_one_lab(&self, setting: Setting, say: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<Cell>> {
        let topology =
            Topology::single_switch((0..=setting.receivers).map(|host| format!("n{host}")))?;
        let config = LabConfig {
            name: self.options.lab.clone(),
            rate_bits_per_second: setting.rate,
            mtu_bytes: setting.mtu_bytes,
            ..LabConfig::new(topology)
        };
        let burst_bytes = setting.rate.map_or(0, |rate| config.burst_bytes(rate));
        let setting = Setting {
            burst_bytes,
            ..setting
        };
        let lab = bring_up_as(config)?;
        if self.options.peers || self.options.over.contains(&"udp") {
            give_addresses(&lab)?;
        }
        let raw = measure_raw(&lab, setting.mtu_bytes, self.options.raw_time)?;
        let place = Place { lab, raw, setting };
        let clusters = self.clusters(&place)?;
        let mut cells = Vec::new();
        for &loss in &self.options.losses {
            set_loss(&place.lab, loss)?;
            say(&where_it_is(&Setting { loss, ..setting }));
            let (messages, files) = self.options.messages_and_files();
            if !messages.is_empty() {
                cells.extend(self.messages(&place, &clusters, (loss, &messages), say)?);
            }
            for size_bytes in files {
                cells.push(self.file(
                    &place,
                    Setting {
                        loss,
                        size_bytes,
                        ..setting
                    },
                    say,
                )?);
            }
        }
        Ok(cells)
    }

    fn clusters<'l>(&self, place: &'l Place) -> anyhow::Result<Vec<Cluster<'l>>> {
        let is_needed = !self.options.messages_and_files().0.is_empty();
        let whole = self
            .peers
            .mpis
            .iter()
            .filter(|peer| is_needed && !peer.is_cut);
        whole
            .map(|peer| Cluster::prepare(&place.lab, peer.mpi, 1))
            .collect()
    }

    fn messages(
        &self,
        place: &Place,
        clusters: &[Cluster],
        (loss, sizes): (f64, &[u64]),
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Vec<Cell>> {
        let mut told = |tool: &str| say(&format!("  messages by {tool}"));
        let iterations = self.options.iterations;
        let limit = self.limit(place, sizes.iter().sum::<u64>() * u64::from(iterations));
        let messages_bytes = sizes.iter().sum::<u64>() * u64::from(iterations);
        let mut columns = Vec::new();
        for &tool in &self.own {
            let Tool::Own(via, carrier) = tool else {
                continue;
            };
            let name = tool.name();
            told(&name);
            let site = Site {
                lab: &place.lab,
                program: &self.program,
                interrupt: self.interrupt,
            };
            let root_options = vec!["--via", via];
            let job = PerfJob {
                root_options,
                options: carrier.options().to_vec(),
                ranks_per_host: 1,
                sizes,
                iterations,
            };
            if tool.is_cut() {
                set_offloads(&place.lab, false)?;
            }
            let (times, is_counted) =
                counted(&place.lab, messages_bytes, || site.perf(&job, limit))?;
            if tool.is_cut() {
                set_offloads(&place.lab, true)?;
            }
            columns.push((name, true, times, is_counted));
        }
        for peer in &self.peers.mpis {
            told(&peer.name());
            let run = || self.by_mpi(place, clusters, *peer, (sizes, limit));
            let (times, is_counted) = counted(&place.lab, messages_bytes, run)?;
            columns.push((peer.name(), false, times, is_counted));
        }
        let cell = |(at, &size_bytes): (usize, &u64)| {
            let setting = Setting {
                loss,
                size_bytes,
                ..place.setting
            };
            let run = |(tool, is_own, times, is_counted): &(
                String,
                bool,
                Result<Vec<Measured>, String>,
                bool,
            )| {
                let verified = setting.receivers;
                let figures = |seconds| Figures {
                    seconds,
                    processor_seconds_per_gib: None,
                    verified,
                    is_counted: *is_counted,
                };
                let outcome = times
                    .as_ref()
                    .map(|times| figures(times[at].broadcast.median))
                    .map_err(Clone::clone);
                Run {
                    tool: tool.clone(),
                    is_own: *is_own,
                    outcome,
                }
            };
            Cell {
                setting,
                raw: place.raw,
                runs: columns.iter().map(run).collect(),
            }
        };
        Ok(sizes.iter().enumerate().map(cell).collect())
    }

    fn by_mpi(
        &self,
        place: &Place,
        clusters: &[Cluster],
        peer: MpiPeer,
        (sizes, limit): (&[u64], Duration),
    ) -> anyhow::Result<Result<Vec<Measured>, String>> {
        let cluster = clusters
            .iter()
            .find(|cluster| cluster.mpi == peer.mpi)
            .context("each MPI is prepared")?;
        if peer.is_cut {
            set_offloads(&place.lab, false)?;
        }
        let what = Loop {
            warm_ups: MPI_WARM_UPS,
            iterations: self.options.iterations,
            sizes,
        };
        let measured = cluster.measure(&[], what, limit, self.interrupt)?;
        if peer.is_cut {
            set_offloads(&place.lab, true)?;
        }
        Ok(measured)
    }

    fn file(
        &self,
        place: &Place,
        setting: Setting,
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Cell> {
        let directory = scratch()?;
        let source = directory.path().join("source.bin");
        let tools: Vec<Tool> = [&self.own[..], &self.peers.tools].concat();
        let room = has_room(directory.path(), setting)?;
        if room.is_ok() {
            make_file(&source, setting.size_bytes)?;
        }
        let mut runs = Vec::new();
        for tool in tools {
            say(&format!(
                "  {} by {}",
                size(setting.size_bytes),
                tool.name()
            ));
            let outcome = match &room {
                Err(words) => Err(words.clone()),
                Ok(()) => self.transfers(place, setting, tool, &source)?,
            };
            runs.push(Run {
                tool: tool.name(),
                is_own: matches!(tool, Tool::Own(..)),
                outcome,
            });
        }
        Ok(Cell {
            setting,
            raw: place.raw,
            runs,
        })
    }

    /// Runs a tool until it fails or all runs are done, and returns the median of each figure.
    fn transfers(
        &self,
        place: &Place,
        setting: Setting,
        tool: Tool,
        source: &Path,
    ) -> anyhow::Result<Result<Figures, String>> {
        let limit = self.limit(place, setting.size_bytes);
        let (mut runs, mut all_counted): (Vec<Finished>, bool) = (Vec::new(), true);
        for _ in 0..self.options.runs {
            // A separate directory per run, because the receivers' copies are in memory.
            let directory = scratch()?;
            let job = Job {
                tool,
                lab: &place.lab,
                rate_bits_per_second: place.rate_bits_per_second(),
                is_shaped: setting.rate.is_some(),
                mtu_bytes: setting.mtu_bytes,
                program: &self.program,
                source,
                directory: directory.path(),
            };
            let run = || transfer::run(&job, limit, self.interrupt);
            let (outcome, is_counted) = counted(&place.lab, setting.size_bytes, run)?;
            all_counted &= is_counted;
            match outcome {
                Outcome::Failed(words) => return Ok(Err(words)),
                Outcome::Finished(finished) => runs.push(finished),
            }
        }
        let middle = |figure: fn(&Finished) -> f64| median(runs.iter().map(figure).collect());
        let gibibytes =
            setting.size_bytes as f64 * f64::from(setting.receivers) / f64::from(1 << 30);
        let verified = runs.iter().map(|run| run.verified).min().unwrap_or(0);
        Ok(Ok(Figures {
            seconds: middle(|run| run.data_seconds).context("there is at least one run")?,
            processor_seconds_per_gib: middle(|run| run.processor_seconds)
                .map(|seconds| seconds / gibibytes),
            verified: verified as u16,
            is_counted: all_counted,
        }))
    }

    /// Returns about how long all settings take. A run needs two seconds to start and end its
    /// programs, the time of its copies on a cable, and as long again for a barrier or a verdict.
    fn expected_seconds(&self) -> f64 {
        let options = self.options;
        let (messages, files) = options.messages_and_files();
        let mut seconds = 0.0;
        for rate in &options.rates {
            let second = |bytes: u64| bytes as f64 * 8.0 / rate.unwrap_or(ASSUMED_RATE) as f64;
            for &receivers in &options.receivers {
                let hops = f64::from(receivers + 1).log2().ceil();
                let copies = |tool: &Tool| match *tool {
                    Tool::Own("flat", _) => f64::from(receivers),
                    Tool::Own("binomial", _) => hops,
                    Tool::Own("binary", _) => 2.0,
                    _ => 1.1,
                };
                let own: f64 = self.own.iter().map(copies).sum();
                let runs = |peers: usize| 2.0 * (self.own.len() + peers) as f64;
                let message: f64 = messages.iter().map(|&bytes| second(bytes) + 0.001).sum();
                let message = message * 2.0 * f64::from(options.iterations);
                let mut each = message * (own + hops * self.peers.mpis.len() as f64);
                each += if messages.is_empty() {
                    0.0
                } else {
                    runs(self.peers.mpis.len())
                };
                for &bytes in &files {
                    let once = second(bytes) * (own + self.peers.tools.len() as f64)
                        + runs(self.peers.tools.len());
                    each += once * f64::from(options.runs);
                }
                let lab = 1.0 + 0.1 * f64::from(receivers) + 2.0 * options.raw_time.as_secs_f64();
                seconds += (lab + each * options.losses.len() as f64) * options.mtus.len() as f64;
            }
        }
        seconds
    }

    fn limit(&self, place: &Place, bytes: u64) -> Duration {
        let wire_seconds = bytes as f64 * 8.0 / place.rate_bits_per_second() as f64;
        let usual = (wire_seconds * PATIENCE).max(MIN_LIMIT_SECONDS);
        self.options.limit.unwrap_or(Duration::from_secs_f64(usual))
    }

    fn machine(&self) -> Vec<(String, String)> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut known = vec![
            ("processors".to_owned(), cores.to_string()),
            ("Linux".to_owned(), kernel.trim().to_owned()),
            ("ethbcast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        known.extend(self.peers.versions());
        known
    }
}

/// Runs something that brings at least `bytes` to every host but the first, and returns whether
/// their interfaces counted them.
fn counted<T>(
    lab: &Lab,
    bytes: u64,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, bool)> {
    let before = received_bytes(lab)?;
    let outcome = work()?;
    let after = received_bytes(lab)?;
    Ok((
        outcome,
        before
            .iter()
            .zip(after)
            .all(|(before, after)| after - before >= bytes),
    ))
}

fn has_room(directory: &Path, setting: Setting) -> anyhow::Result<Result<(), String>> {
    let place = statvfs(directory)?;
    let free = place.blocks_available() as f64 * place.fragment_size() as f64 * MAX_OF_MEMORY;
    let wanted = setting.size_bytes as f64 * (f64::from(setting.receivers) + 1.0);
    let mib = |bytes: f64| (bytes / f64::from(1 << 20)).round();
    Ok(if wanted <= free {
        Ok(())
    } else {
        Err(format!(
            "all copies take {} MiB, and {} are free for them here",
            mib(wanted),
            mib(free)
        ))
    })
}

fn where_it_is(setting: &Setting) -> String {
    let Setting {
        receivers,
        mtu_bytes,
        rate,
        loss,
        ..
    } = setting;
    let rate = rate.map_or_else(|| "unshaped".to_owned(), format_rate);
    format!("{receivers} receivers, MTU {mtu_bytes}, {rate}, loss {loss}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::short("lab".to_owned());
        options.check().expect("the defaults");
        change(&mut options);
        options.check().expect_err("it should be refused")
    }

    #[test]
    fn an_impossible_measurement_is_refused_with_the_possible_ones() {
        assert!(refusal(|options| options.mtus = vec![1500, 65_536]).contains("576 to 65535"));
        assert!(refusal(|options| options.receivers = vec![64]).contains("1 to 63"));
        assert!(refusal(|options| options.sizes = vec![0]).contains("1 to 1G"));
        assert!(refusal(|options| options.losses = vec![f64::NAN]).contains("such as 0.01"));
    }

    #[test]
    fn the_estimated_duration_grows_with_the_number_of_measurements() {
        let interrupt = Interrupt::hold().expect("signals can be held");
        let program = Program::find(Some(&std::env::current_exe().expect("a test runs")))
            .expect("it is a file");
        let minutes = |change: fn(&mut Options)| {
            let mut options = Options::short("lab".to_owned());
            change(&mut options);
            let bench = Bench {
                options: &options,
                program: program.clone(),
                interrupt: &interrupt,
                own: own_tools(&options, &mut Vec::new()),
                peers: Peers::default(),
            };
            bench.expected_seconds() / 60.0
        };
        let short = minutes(|_| {});
        assert!((0.5..2.0).contains(&short), "about a minute, not {short}");
        assert!(minutes(|options| options.iterations *= 10) > 2.0 * short);
        assert!(minutes(|options| options.over.push("udp")) > 1.5 * short);
        assert!(minutes(|options| options.rates.push(Some(10_000_000))) > 4.0 * short);
    }
}
