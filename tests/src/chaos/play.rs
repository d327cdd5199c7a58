//! Fault injection: executes one run, from the start of hosts and programs, through its faults, to
//! the end.

use super::judge::{Verdict, judge};
use super::scenario::{ChaosEvent, Due, OUTSIDER, ROOT, Scenario};
use super::strike::{Attacker, Relay, Strike};
use crate::lab::Program;
use crate::lab::{Process, SmallDisk, Stdout, ThinDisk, content, processes_on, shown_in};
use anyhow::{Context, bail};
use ethbcast_lab::{Lab, LabConfig, LabGuard};
use ethbcast_planning::topology::Topology;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

const LOOK_EVERY: Duration = Duration::from_millis(4);
/// Frame bytes for each payload byte at MTU 1500, because the share that was sent is counted on the
/// cable.
const FRAME_BYTES: f64 = 1514.0 / 1468.0;
/// Share that counts as all: the first frames may have left before counting began.
const ALL: f64 = 0.995;
const HEAD_START: Duration = Duration::from_millis(100);
/// Longest time that descendants of a program may outlive it.
const OUTPUT_GRACE: Duration = Duration::from_secs(3);
/// Longest wait of a root for receivers that can all come, on a machine that may have other work.
const LONG_WAIT: Duration = Duration::from_secs(30);

pub struct Pending {
    pub event: ChaosEvent,
    pub trouble: usize,
    /// Time since which the event is due, except for its extra delay.
    pub ready: Option<Instant>,
    pub struck: Option<Instant>,
}

pub struct ChaosRun<'a> {
    pub scenario: &'a Scenario,
    pub stage: &'a ChaosStage<'a>,
    pub pending: Vec<Pending>,
    pub receivers: Vec<Receiver>,
    pub root: Option<Process>,
    pub second: Option<Process>,
    pub started: Instant,
    pub hung: Vec<String>,
    pub left_processes: usize,
    pub forged_frames: u64,
    pub ended: Option<Instant>,
    pub(super) attacker: Option<Attacker>,
    pub(super) relays: Vec<Relay>,
    pub(super) small_disks: Vec<(String, SmallDisk)>,
    pub(super) thin_disks: Vec<ThinDisk>,
    directory: PathBuf,
    lab: LabGuard,
    sent_before_bytes: u64,
}

pub fn play(stage: &ChaosStage, scenario: &Scenario) -> anyhow::Result<Verdict> {
    let mut play = ChaosRun::set_up(stage, scenario)?;
    play.start()?;
    play.watch()?;
    play.wind_up()?;
    let verdict = judge(&mut play)?;
    let directory = play.directory.clone();
    // Disks are unmounted before the directories below them are removed.
    drop(play);
    fs::remove_dir_all(directory)?;
    Ok(verdict)
}

impl<'a> ChaosRun<'a> {
    fn set_up(stage: &'a ChaosStage, scenario: &'a Scenario) -> anyhow::Result<Self> {
        let hosts = if scenario.has_non_member() { 9 } else { 8 };
        let topology = Topology::single_switch((0..hosts).map(|host| format!("n{host}")))?;
        let rate_bits_per_second = scenario.rate_bits_per_second;
        let lab = LabGuard::up(&LabConfig {
            name: stage.lab.to_owned(),
            rate_bits_per_second,
            ..LabConfig::new(topology)
        })?;
        let directory = stage.directory.join(stage.lab);
        fs::create_dir(&directory)?;
        let own = |(trouble, of): (usize, &super::scenario::Trouble)| {
            let pending = |event: &ChaosEvent| Pending {
                event: event.clone(),
                trouble,
                ready: None,
                struck: None,
            };
            of.events.iter().map(pending).collect::<Vec<_>>()
        };
        Ok(Self {
            scenario,
            stage,
            pending: scenario.troubles.iter().enumerate().flat_map(own).collect(),
            receivers: Vec::new(),
            root: None,
            second: None,
            started: Instant::now(),
            hung: Vec::new(),
            left_processes: 0,
            forged_frames: 0,
            ended: None,
            attacker: None,
            relays: Vec::new(),
            small_disks: Vec::new(),
            thin_disks: Vec::new(),
            directory,
            lab,
            sent_before_bytes: 0,
        })
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    pub fn directory(&self, host: &str) -> PathBuf {
        self.directory.join(host)
    }

    pub fn hosts(&self) -> Vec<String> {
        self.lab
            .hosts()
            .into_iter()
            .filter(|host| host != ROOT && host != OUTSIDER)
            .collect()
    }

    fn start(&mut self) -> anyhow::Result<()> {
        for host in self.hosts() {
            fs::create_dir(self.directory(&host))?;
        }
        self.strike_due(|due| due == Due::Before)?;
        self.prepare_attack()?;
        for host in self.hosts() {
            let receiver =
                Receiver::start(self.stage, &self.lab, &host, &self.directory(&host), false)?;
            self.receivers.push(receiver);
        }
        thread::sleep(HEAD_START);
        self.started = Instant::now();
        self.root = Some(self.sender(ROOT, self.scenario.seed, self.scenario.bytes)?);
        Ok(())
    }

    pub fn sender(&self, host: &str, seed: u64, bytes: u64) -> anyhow::Result<Process> {
        let source = self.source(host);
        fs::write(&source, content(seed, usize::try_from(bytes)?))?;
        let (terms, hosts) = (&self.stage.terms, self.hosts().len());
        let mut send = self.stage.program.on(&self.lab, host, "send")?;
        send.args([
            "--json",
            "-i",
            "eth0",
            "--via",
            self.scenario.via,
            "-n",
            &hosts.to_string(),
        ]);
        send.args(["--patience", &terms.patience.as_secs_f64().to_string()]);
        send.args(["--stall", &terms.stall.as_secs_f64().to_string()]);
        let kept_out = self.scenario.kept_out();
        if kept_out > 0 {
            send.args([
                "--min-receivers",
                &(hosts - kept_out.min(hosts - 1)).to_string(),
            ]);
        }
        // A second sender may find that no receiver waits any more.
        let wait = if kept_out > 0 || host == OUTSIDER {
            terms.send_wait
        } else {
            LONG_WAIT
        };
        send.args(["--max-wait", &wait.as_secs_f64().to_string()]);
        if self.scenario.late {
            send.arg("--late");
        }
        send.arg(source)
            .env_remove("RUST_LOG")
            .env("RUST_BACKTRACE", "1");
        Process::start(send, Stdout::Kept).with_context(|| format!("the sender of {host}"))
    }

    pub fn source(&self, host: &str) -> PathBuf {
        self.directory.join(format!("source-{host}"))
    }

    pub fn start_again(&mut self, host: &str) -> anyhow::Result<()> {
        let receiver = Receiver::start(self.stage, &self.lab, host, &self.directory(host), true)?;
        self.receivers.push(receiver);
        Ok(())
    }

    pub fn processes(&mut self) -> impl Iterator<Item = (&str, &mut Process)> {
        let senders = [(ROOT, &mut self.root), (OUTSIDER, &mut self.second)];
        let senders = senders
            .into_iter()
            .filter_map(|(host, process)| Some((host, process.as_mut()?)));
        senders.chain(
            self.receivers
                .iter_mut()
                .map(|receiver| (receiver.host.as_str(), &mut receiver.process)),
        )
    }

    fn watch(&mut self) -> anyhow::Result<()> {
        let deadline = self.started + self.scenario.limit(&self.stage.terms);
        while !self.is_over()? {
            if Instant::now() > deadline {
                return self.note_hung();
            }
            let lines: Vec<_> = self
                .root
                .iter()
                .flat_map(Process::lines)
                .map(|line| line.text)
                .collect();
            let is_joined = |host: &str| {
                lines
                    .iter()
                    .any(|line| line.contains(&format!("{host} joined")))
            };
            let share = self.sent_share(lines.iter().any(|line| line.starts_with("sending ")))?;
            let now = Instant::now();
            for pending in &mut self.pending {
                let is_ready = match pending.event.due {
                    Due::Before => false,
                    Due::Start => !lines.is_empty(),
                    Due::Joined => is_joined(&pending.event.host),
                    Due::Share(wanted) => share >= wanted.min(ALL),
                };
                pending.ready = pending.ready.or(is_ready.then_some(now));
            }
            self.strike_due(|_| true)?;
            thread::sleep(LOOK_EVERY);
            self.stage.check()?;
        }
        Ok(())
    }

    fn strike_due(&mut self, wanted: impl Fn(Due) -> bool) -> anyhow::Result<()> {
        for index in 0..self.pending.len() {
            let Pending {
                event,
                ready,
                struck,
                ..
            } = &self.pending[index];
            let since = if event.due == Due::Before {
                Some(self.started)
            } else {
                *ready
            };
            let is_due = since.is_some_and(|since| since.elapsed() >= event.then);
            if struck.is_none() && is_due && wanted(event.due) {
                let event = event.clone();
                self.pending[index].struck = Some(Instant::now());
                self.strike(&event)?;
            }
        }
        Ok(())
    }

    fn is_over(&mut self) -> anyhow::Result<bool> {
        let is_coming = |pending: &Pending| {
            pending.struck.is_none()
                && pending.ready.is_some()
                && pending.event.deed.starts_a_program()
        };
        let mut over = !self.pending.iter().any(is_coming);
        for (_, process) in self.processes() {
            over &= process.ended()?.is_some();
        }
        Ok(over)
    }

    /// Returns the share of the file that has left the root. Bytes sent until `began` is true do
    /// not count, because the root measures first.
    fn sent_share(&mut self, began: bool) -> anyhow::Result<f64> {
        let sent_bytes = self.lab.sent_bytes(ROOT)?.0;
        if !began {
            self.sent_before_bytes = sent_bytes;
        }
        let all_bytes = self.scenario.bytes as f64 * FRAME_BYTES * self.scenario.fan_out();
        Ok((sent_bytes - self.sent_before_bytes) as f64 / all_bytes)
    }

    fn note_hung(&mut self) -> anyhow::Result<()> {
        let mut hung = Vec::new();
        for (host, process) in self.processes() {
            if process.ended()?.is_none() {
                hung.push(host.to_owned());
            }
        }
        self.hung = hung;
        Ok(())
    }

    fn wind_up(&mut self) -> anyhow::Result<()> {
        let mut last = self.started;
        for (_, process) in self.processes() {
            last = process.ended()?.map_or(last, |(at, _)| last.max(at));
        }
        self.ended = self.hung.is_empty().then_some(last);
        self.processes()
            .for_each(|(_, process)| process.drain_output());
        self.forged_frames = self
            .attacker
            .take()
            .map_or(0, |attacker| attacker.sent_frames());
        if self.hung.is_empty() {
            let deadline = Instant::now() + OUTPUT_GRACE;
            self.left_processes = self.count_processes()?;
            while self.left_processes > 0 && Instant::now() < deadline {
                thread::sleep(LOOK_EVERY * 10);
                self.left_processes = self.count_processes()?;
            }
        }
        Ok(())
    }

    fn count_processes(&self) -> anyhow::Result<usize> {
        let counts = self
            .lab
            .hosts()
            .into_iter()
            .map(|host| Ok(processes_on(&self.lab, &host)?.len()));
        counts.sum()
    }
}

pub fn digest(path: &Path) -> anyhow::Result<Option<blake3::Hash>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(blake3::hash(&bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

const DESTS: [&str; 2] = ["received.bin", "again.bin"];
/// Names that others put beside the file: the file system, and the process that fills the disk.
const NOT_OURS: [&str; 2] = ["lost+found", "of-somebody-else"];

pub struct Receiver {
    pub host: String,
    pub process: Process,
    pub dest: PathBuf,
}

impl Receiver {
    pub fn start(
        stage: &ChaosStage,
        lab: &Lab,
        host: &str,
        directory: &Path,
        again: bool,
    ) -> anyhow::Result<Self> {
        let dest = directory.join(DESTS[usize::from(again)]);
        let mut command = stage.program.on(lab, host, "recv")?;
        command.args([
            "--json",
            "-i",
            "eth0",
            "--max-wait",
            &stage.terms.receive_wait.as_secs_f64().to_string(),
        ]);
        command
            .args([
                "--patience",
                &stage.terms.patience.as_secs_f64().to_string(),
            ])
            .arg(&dest);
        command.env_remove("RUST_LOG").env("RUST_BACKTRACE", "1");
        let process = Process::start(command, Stdout::Kept)
            .with_context(|| format!("the receiver of {host}"))?;
        Ok(Self {
            host: host.to_owned(),
            process,
            dest,
        })
    }

    pub fn strays(&self) -> Vec<String> {
        let mut names = self.dest.parent().map(shown_in).unwrap_or_default();
        names.retain(|name| !DESTS.contains(&name.as_str()) && !NOT_OURS.contains(&name.as_str()));
        names
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Time without progress after which a receiver is demoted.
    pub stall: Duration,
    /// Time that a silent host is waited for.
    pub patience: Duration,
    /// Time that a root waits for receivers when some may not come.
    pub send_wait: Duration,
    /// Time that a receiver waits for a sender.
    pub receive_wait: Duration,
    /// Factor by which a run may exceed its time: more on a machine that has other work.
    pub slack: f64,
}

#[derive(Debug)]
pub struct ChaosStage<'a> {
    pub program: &'a Program,
    pub directory: &'a Path,
    pub lab: &'a str,
    pub terms: Terms,
    pub interrupted: &'a AtomicBool,
}

impl ChaosStage<'_> {
    pub fn check(&self) -> anyhow::Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; the lab has been taken down");
        }
        Ok(())
    }
}
