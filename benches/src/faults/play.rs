//! One transfer with its trouble: starts it, watches it, and ends it.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ethbcast_lab::{Lab, LabGuard};
use ethbcast_tests::lab::{Process, Stdout, faults, power_off};
use nix::sys::signal::Signal;

use super::cell::{Cell, Terms};
use super::moment::{Due, Event, events};
use super::trouble::Trouble;
use crate::cluster::INTERFACE;
use crate::interrupt::Interrupt;
use crate::program::Program;

const LOOK_EVERY: Duration = Duration::from_millis(4);
/// Frame bytes for each payload byte at MTU 1500: the share that was sent is counted on the cable.
const FRAME_BYTES: f64 = 1514.0 / 1468.0;

pub const ROOT: &str = "n0";

/// Settings shared by all runs.
pub struct Stage<'a> {
    pub program: &'a Program,
    pub source: &'a Path,
    pub source_bytes: u64,
    pub directory: &'a Path,
    /// Number of hosts, including the sender.
    pub hosts: usize,
    pub rate_bits_per_second: u64,
    pub terms: &'a Terms,
    /// Time that a run may take beyond its trouble's duration.
    pub limit: Duration,
    /// More options for `send` and for `recv`.
    pub options: [Vec<String>; 2],
    pub interrupt: &'a Interrupt,
}

pub struct Receiver {
    pub host: String,
    pub process: Process,
    pub dest: PathBuf,
    pub placed: Option<Instant>,
}

pub struct Play<'a> {
    pub cell: &'a Cell,
    pub root: Process,
    pub started: Instant,
    pub receivers: Vec<Receiver>,
    pub victims: Vec<String>,
    pub troubled: Option<Instant>,
    pub lifted: Option<Instant>,
    pub taken_frames: u64,
    pub is_over_time: bool,
    lab: LabGuard,
    waiting: Vec<Event>,
    complete_since: Option<Instant>,
}

impl<'a> Play<'a> {
    pub(super) fn start(
        stage: &Stage,
        cell: &'a Cell,
        lab: LabGuard,
        directory: &Path,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let mut hosts = lab.hosts();
        let root_host = hosts.remove(0);
        let receivers = hosts.iter().map(|host| receiver(stage, cell, &lab, host, directory));
        let receivers = receivers.collect::<anyhow::Result<Vec<_>>>()?;
        let mut waiting = events(cell, hosts.len(), seed);
        let at_once: Vec<_> = waiting.extract_if(.., |event| event.due == Due::Start).collect();
        if let Trouble::Frames(which, way, fraction) = cell.trouble {
            at_once.iter().try_for_each(|event| lab.set_faults(&event.host, &faults(&lab, which, way, fraction)?))?;
        }
        // The programs must be running before the root announces itself.
        thread::sleep(Duration::from_millis(100));
        let mut send = stage.program.on(&lab, &root_host, "send")?;
        send.args(["--json", "-i", INTERFACE, "--via", cell.via]).args(stage.terms.of_both(cell));
        send.args(stage.terms.of_root(cell, hosts.len())).args(&stage.options[0]).arg(stage.source);
        let started = Instant::now();
        let root = Process::start(send, Stdout::Kept)?;
        Ok(Self {
            cell,
            root,
            started,
            receivers,
            troubled: (!at_once.is_empty()).then_some(started),
            victims: at_once.into_iter().map(|event| event.host).collect(),
            lifted: None,
            taken_frames: 0,
            is_over_time: false,
            lab,
            waiting,
            complete_since: None,
        })
    }

    pub(super) fn watch(&mut self, stage: &Stage) -> anyhow::Result<()> {
        let deadline = self.started + stage.limit + self.cell.extra(stage.source_bytes);
        let mut turn = 0_u32;
        while !self.is_over()? {
            if Instant::now() > deadline {
                self.is_over_time = true;
                break;
            }
            let share = self.sent_share(stage)?;
            self.complete_since = self.complete_since.or((share >= 0.999).then(Instant::now));
            for event in self.now_due(share) {
                self.strike(&event)?;
            }
            self.lift_if_due()?;
            self.throttle(turn)?;
            let now = Instant::now();
            for receiver in &mut self.receivers {
                receiver.placed = receiver.placed.or(receiver.dest.exists().then_some(now));
            }
            thread::sleep(LOOK_EVERY);
            stage.interrupt.check()?;
            turn += 1;
        }
        self.taken_frames = self.taken_frames.max(self.lab.faulted_frames(self.cell.host)?);
        Ok(())
    }

    /// Whether all processes have ended, except stopped ones that cannot.
    fn is_over(&mut self) -> anyhow::Result<bool> {
        let is_for_ever = self.cell.lasts.is_none();
        let mut over = true;
        for process in self.receivers.iter_mut().map(|receiver| &mut receiver.process).chain([&mut self.root]) {
            over &=
                process.ended()?.is_some() || is_for_ever && process.is_stopped() && self.cell.trouble.ends_nothing();
        }
        Ok(over)
    }

    fn sent_share(&self, stage: &Stage) -> anyhow::Result<f64> {
        let (sent_bytes, _) = self.lab.sent_bytes(ROOT)?;
        Ok(sent_bytes as f64 / (stage.source_bytes as f64 * FRAME_BYTES))
    }

    fn now_due(&mut self, share: f64) -> Vec<Event> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let lines = self.root.lines();
        let is_joined = |host: &str| lines.iter().any(|line| line.text.contains(&format!("{host} joined")));
        let since = self.complete_since;
        let is_due = |event: &Event| match event.due {
            Due::Start => true,
            Due::Joined => is_joined(&event.host),
            Due::Share(wanted, after) if wanted >= 1.0 => since.is_some_and(|since| since.elapsed() >= after),
            Due::Share(wanted, after) if after.is_zero() => share >= wanted,
            Due::Share(wanted, after) => {
                share >= wanted && self.troubled.is_some_and(|troubled| troubled.elapsed() >= after)
            }
        };
        let mut due = Vec::new();
        self.waiting.retain(|event| {
            if is_due(event) {
                due.push(event.clone());
            }
            !is_due(event)
        });
        due
    }

    fn process_on(&mut self, host: &str) -> &mut Process {
        let of = self.receivers.iter_mut().find(|receiver| receiver.host == host);
        of.map_or(&mut self.root, |receiver| &mut receiver.process)
    }

    fn strike(&mut self, event: &Event) -> anyhow::Result<()> {
        self.troubled = self.troubled.or(Some(Instant::now()));
        self.victims.push(event.host.clone());
        match self.cell.trouble {
            Trouble::Frames(which, way, fraction) => {
                self.lab.set_faults(&event.host, &faults(&self.lab, which, way, fraction)?)?;
            }
            Trouble::Port => self.lab.set_port(&event.host, false)?,
            Trouble::Interface => self.lab.set_link(&event.host, false)?,
            Trouble::Stopped => self.process_on(&event.host).signal(Signal::SIGSTOP)?,
            Trouble::Killed(..) => self.process_on(&event.host).signal(Signal::SIGKILL)?,
            Trouble::PoweredOff => power_off(&self.lab, &event.host)?,
            Trouble::Nothing | Trouble::SlowReader(_) | Trouble::StoppedReader(_) | Trouble::LittleCpu(_) => {}
        }
        Ok(())
    }

    fn lift_if_due(&mut self) -> anyhow::Result<()> {
        let (Some(troubled), Some(lasts), None) = (self.troubled, self.cell.lasts, self.lifted) else { return Ok(()) };
        if troubled.elapsed() < lasts {
            return Ok(());
        }
        self.lifted = Some(Instant::now());
        let host = self.cell.host;
        match self.cell.trouble {
            Trouble::Frames(..) => {
                self.taken_frames = self.lab.faulted_frames(host)?;
                self.lab.set_faults(host, &[])?;
            }
            Trouble::Port => self.lab.set_port(host, true)?,
            Trouble::Interface => self.lab.set_link(host, true)?,
            Trouble::Stopped => self.process_on(host).signal(Signal::SIGCONT)?,
            _ => {}
        }
        Ok(())
    }

    fn throttle(&mut self, turn: u32) -> anyhow::Result<()> {
        let Trouble::LittleCpu(parts) = self.cell.trouble else { return Ok(()) };
        let signal = if turn.is_multiple_of(parts) { Signal::SIGCONT } else { Signal::SIGSTOP };
        let process = self.process_on(self.cell.host);
        if process.is_stopped() == (signal == Signal::SIGCONT) { process.signal(signal) } else { Ok(()) }
    }
}

fn receiver(stage: &Stage, cell: &Cell, lab: &Lab, host: &str, directory: &Path) -> anyhow::Result<Receiver> {
    let own = directory.join(host);
    fs::create_dir(&own)?;
    let dest = own.join("received.bin");
    let mut command = stage.program.on(lab, host, "recv")?;
    command.args(["-i", INTERFACE, "--max-wait", "10"]).args(stage.terms.of_both(cell)).args(&stage.options[1]);
    let stdout = if host == cell.host && cell.trouble.is_of_reader() {
        command.arg("-");
        let (bytes_per_second, at_most_bytes) = match cell.trouble {
            Trouble::SlowReader(rate) => (Some(rate), None),
            Trouble::StoppedReader(bytes) => (None, Some(bytes)),
            _ => (None, None),
        };
        Stdout::Read { into: own.join("piped.bin"), bytes_per_second, at_most_bytes }
    } else {
        command.arg("--json").arg(&dest);
        Stdout::Kept
    };
    let dest = if matches!(stdout, Stdout::Kept) { dest } else { own.join("piped.bin") };
    Ok(Receiver { host: host.to_owned(), process: Process::start(command, stdout)?, dest, placed: None })
}
