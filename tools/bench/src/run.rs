//! The measuring loop over all settings.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ethbcast_lab::{LabConfig, LabGuard, format_rate};
use ethbcast_planning::topology::Topology;
use nix::sys::statvfs::statvfs;

use crate::cluster::{bring_up_as, give_addresses, set_loss, set_offloads};
use crate::interrupt::Interrupt;
use crate::messages;
use crate::mpi::{Cluster, Loop};
use crate::options::Options;
use crate::payload::{make_file, scratch};
use crate::peers::{MpiPeer, Peers};
use crate::program::Program;
use crate::raw::{self, Ceiling};
use crate::report::{Cell, Figures, Report, Run, Setting};
use crate::table::median;
use crate::tools::{Job, Tool};
use crate::transfer::{self, Finished, Outcome};

/// Untimed broadcasts of an MPI; the first ones establish connections.
const MPI_WARM_UPS: u32 = 10;
/// Default limit on a run, as a multiple of the wire's minimum, and its lower bound.
const PATIENCE: f64 = 10.0;
const MIN_LIMIT_SECONDS: f64 = 30.0;
/// Fraction of the free memory that files may take.
const MAX_OF_MEMORY: f64 = 0.7;

/// Measures all settings of `options` and reports progress to `say`. A tool's failure is recorded
/// in the report.
///
/// # Errors
/// If nothing can be measured, a lab does not come up, or the user interrupts.
pub fn run(options: &Options, interrupt: &Interrupt, say: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    options.check().map_err(anyhow::Error::msg)?;
    let peers = if options.peers { Peers::find()? } else { Peers::default() };
    let bench = Bench { options, program: Program::find(options.program.as_deref())?, interrupt, peers };
    let mut cells = Vec::new();
    for &rate in &options.rates {
        for &mtu_bytes in &options.mtus {
            for &receivers in &options.receivers {
                let setting = Setting { receivers, mtu_bytes, rate, loss: 0.0, size_bytes: 0 };
                cells.extend(bench.in_one_lab(setting, say)?);
            }
        }
    }
    Ok(Report { machine: bench.machine(), skipped: bench.peers.skipped().to_vec(), cells })
}

struct Bench<'a> {
    options: &'a Options,
    program: Program,
    interrupt: &'a Interrupt,
    peers: Peers,
}

struct Place {
    lab: LabGuard,
    raw: Ceiling,
    setting: Setting,
}

impl Place {
    /// Returns a cable's rate, or that of raw frames if it is unshaped.
    fn rate_bits_per_second(&self) -> u64 {
        self.setting.rate.unwrap_or(self.raw.broadcast_bits_per_second as u64).max(1)
    }
}

impl Bench<'_> {
    fn in_one_lab(&self, setting: Setting, say: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<Cell>> {
        let topology = Topology::single_switch((0..=setting.receivers).map(|host| format!("n{host}")))?;
        let lab = bring_up_as(LabConfig {
            name: self.options.lab.clone(),
            rate_bits_per_second: setting.rate,
            mtu_bytes: setting.mtu_bytes,
            ..LabConfig::new(topology)
        })?;
        if self.options.peers {
            give_addresses(&lab)?;
        }
        let raw = raw::measure(&lab, setting.mtu_bytes, self.options.raw_time)?;
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
                cells.push(self.file(&place, Setting { loss, size_bytes, ..setting }, say)?);
            }
        }
        Ok(cells)
    }

    /// Prepares the MPIs with their compiled program, if there are messages to send.
    fn clusters<'l>(&self, place: &'l Place) -> anyhow::Result<Vec<Cluster<'l>>> {
        let is_needed = !self.options.messages_and_files().0.is_empty();
        let whole = self.peers.mpis().iter().filter(|peer| is_needed && !peer.is_cut());
        whole.map(|peer| Cluster::prepare(&place.lab, peer.mpi(), 1)).collect()
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
        let mut columns = Vec::new();
        for &via in &self.options.ways {
            let name = Tool::Own(via).name();
            told(&name);
            let job = messages::MessageJob { lab: &place.lab, program: &self.program, via, sizes, iterations };
            columns.push((name, true, messages::measure(&job, limit, self.interrupt)?));
        }
        for peer in self.peers.mpis() {
            told(&peer.name());
            columns.push((peer.name(), false, self.by_mpi(place, clusters, *peer, (sizes, limit))?));
        }
        let cell = |(at, &size_bytes): (usize, &u64)| {
            let setting = Setting { loss, size_bytes, ..place.setting };
            let run = |(tool, is_own, times): &(String, bool, Result<Vec<f64>, String>)| {
                let verified = setting.receivers;
                let figures = |seconds| Figures { seconds, processor_seconds_per_gib: None, verified };
                let outcome = times.as_ref().map(|times| figures(times[at])).map_err(Clone::clone);
                Run { tool: tool.clone(), is_own: *is_own, outcome }
            };
            Cell { setting, raw: place.raw, runs: columns.iter().map(run).collect() }
        };
        Ok(sizes.iter().enumerate().map(cell).collect())
    }

    fn by_mpi(
        &self,
        place: &Place,
        clusters: &[Cluster],
        peer: MpiPeer,
        (sizes, limit): (&[u64], Duration),
    ) -> anyhow::Result<Result<Vec<f64>, String>> {
        let cluster = clusters.iter().find(|cluster| cluster.mpi() == peer.mpi()).context("each MPI is prepared")?;
        if peer.is_cut() {
            set_offloads(&place.lab, false)?;
        }
        let what = Loop { warm_ups: MPI_WARM_UPS, iterations: self.options.iterations, sizes };
        let measured = cluster.measure(&[], what, limit, self.interrupt)?;
        if peer.is_cut() {
            set_offloads(&place.lab, true)?;
        }
        Ok(measured.map(|all| all.iter().map(|one| one.broadcast.median).collect()))
    }

    fn file(&self, place: &Place, setting: Setting, say: &mut dyn FnMut(&str)) -> anyhow::Result<Cell> {
        let directory = scratch()?;
        let source = directory.path().join("source.bin");
        let own = self.options.ways.iter().map(|&via| Tool::Own(via));
        let tools: Vec<Tool> = own.chain(self.peers.tools().iter().copied()).collect();
        let room = has_room(directory.path(), setting)?;
        if room.is_ok() {
            make_file(&source, setting.size_bytes)?;
        }
        let mut runs = Vec::new();
        for tool in tools {
            say(&format!("  {} by {}", size(setting.size_bytes), tool.name()));
            let outcome = match &room {
                Err(words) => Err(words.clone()),
                Ok(()) => self.transfers(place, setting, tool, &source)?,
            };
            runs.push(Run { tool: tool.name(), is_own: matches!(tool, Tool::Own(_)), outcome });
        }
        Ok(Cell { setting, raw: place.raw, runs })
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
        let mut runs: Vec<Finished> = Vec::new();
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
            match transfer::run(&job, limit, self.interrupt)? {
                Outcome::Failed(words) => return Ok(Err(words)),
                Outcome::Finished(finished) => runs.push(finished),
            }
        }
        let middle = |figure: fn(&Finished) -> f64| median(runs.iter().map(figure).collect());
        let gibibytes = setting.size_bytes as f64 * f64::from(setting.receivers) / f64::from(1 << 30);
        let verified = runs.iter().map(|run| run.verified).min().unwrap_or(0);
        Ok(Ok(Figures {
            seconds: middle(|run| run.data_seconds).context("there is at least one run")?,
            processor_seconds_per_gib: middle(|run| run.processor_seconds).map(|seconds| seconds / gibibytes),
            verified: verified as u16,
        }))
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

/// Checks that the memory holds the file at the sender and every receiver.
fn has_room(directory: &Path, setting: Setting) -> anyhow::Result<Result<(), String>> {
    let place = statvfs(directory)?;
    let free = place.blocks_available() as f64 * place.fragment_size() as f64 * MAX_OF_MEMORY;
    let wanted = setting.size_bytes as f64 * (f64::from(setting.receivers) + 1.0);
    let mib = |bytes: f64| (bytes / f64::from(1 << 20)).round();
    Ok(if wanted <= free {
        Ok(())
    } else {
        Err(format!("all copies take {} MiB, and {} are free for them here", mib(wanted), mib(free)))
    })
}

fn where_it_is(setting: &Setting) -> String {
    let Setting { receivers, mtu_bytes, rate, loss, .. } = setting;
    let rate = rate.map_or_else(|| "unshaped".to_owned(), format_rate);
    format!("{receivers} receivers, MTU {mtu_bytes}, {rate}, loss {loss}")
}

/// Formats a size in the largest unit without a fraction.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}
