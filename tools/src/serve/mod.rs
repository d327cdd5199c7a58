//! `ethbcast recv --serve`: a receiver as a daemon, which takes one transfer after another.
//!
//! Each group has a worker thread and a port of its own; a shared registry limits the sessions. The
//! main thread handles signals, notifies the system's supervisor and reloads
//! the configuration.

mod registry;
mod supervisor;
mod worker;

use crate::args::RecvArgs;
use crate::doctor::Fault;
use crate::exit::{Code, Failure, WithCode, fail};
use crate::udpcast::print_ignored;
use crate::{config, key, recv, rights, signals};
use ethbcast_collectives::keys::Keys;
use ethbcast_content::dest::lacking_device;
use ethbcast_transport::packet::{Over, keep_little_memory};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use registry::Registry;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
pub use supervisor::Severity;
use supervisor::{Rounds, ServeEvent, ServeLog, Supervisor};
use worker::Worker;

/// Longest wait for the workers to end, which may have to sync a disk or run a command.
const END_LIMIT: Duration = Duration::from_secs(20);
const IDLE_WAIT: Duration = Duration::from_secs(3600);

/// A group on one carrier, with the name under which messages show it.
#[derive(Clone, Debug)]
struct Served {
    name: String,
    group: String,
    over: Over,
}

struct Server {
    args: Arc<RecvArgs>,
    keys: Option<Arc<Keys>>,
    served: Vec<Served>,
    registry: Arc<Registry>,
    workers: BTreeMap<String, Arc<Worker>>,
    serve_log: ServeLog,
    heard: Receiver<ServeEvent>,
    supervisor: Supervisor,
    rounds: Rounds,
    /// Groups without an open port, and whether each waits for its interface.
    unopened: BTreeMap<String, bool>,
    is_ready: bool,
    delivered: u64,
    failed: u64,
    until: Option<Instant>,
}

pub fn run(args: RecvArgs) -> anyhow::Result<()> {
    args.unused
        .given()
        .into_iter()
        .for_each(|names| print_ignored(&names));
    let served = check(&args)?;
    let keys = key::serving(&args.key)?;
    rights::confine(&recv::needs(&args, keys.is_some(), None))?;
    keep_little_memory();
    let (serve_log, heard) = ServeLog::channel();
    let ear = serve_log.clone();
    let signals = [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGINT];
    signals::listen(&signals, move |signal| ear.send(ServeEvent::Signal(signal)))
        .code(Code::System)?;
    let supervisor = Supervisor::of_environment().code(Code::System)?;
    let until = args
        .patience
        .timeout
        .map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let mut server = Server {
        registry: Arc::new(Registry::new(args.serve.max_sessions.into())),
        args: Arc::new(args),
        keys,
        served,
        workers: BTreeMap::new(),
        serve_log,
        heard,
        supervisor,
        rounds: Rounds::default(),
        unopened: BTreeMap::new(),
        is_ready: false,
        delivered: 0,
        failed: 0,
        until,
    };
    server.start_workers()?;
    server.work()
}

fn check(args: &RecvArgs) -> anyhow::Result<Vec<Served>> {
    let groups = registry::served(&args.wire.group, &args.serve.allow_group)?;
    if args.expect.is_some() {
        let text = "--expect accepts one content, --serve one after the other: leave out --serve, and recv refuses all \
                    other contents and ends after the expected one";
        return fail(Code::Usage, text);
    }
    let dest = args.dest.clone().unwrap_or_default();
    if let Some(text) = lacking_device(Path::new(&dest)).filter(|_| args.pipe.is_none()) {
        return Err(Failure::new(Code::System, text).found(Fault::Dest).into());
    }
    if args.pipe.is_none() && !Path::new(&dest).is_dir() {
        let text = "--serve needs a directory, and {} is none: make it with `mkdir -p {}`";
        return fail(
            Code::System,
            text.replace("{}", &dest.display().to_string()),
        );
    }
    if args.pipe.is_some() && args.verify.is_some() {
        recv::dest(args)?;
    }
    // Each session checks again whether DEST can be written.
    if let Ok(dest) = recv::dest(args) {
        recv::print_warnings(&dest, &args.accepted());
    }
    let sockets = args.port_fd.len();
    if sockets > 0 && sockets != groups.len() {
        let text = format!(
            "{sockets} packet sockets for {} groups: give --port-fd once for each",
            groups.len()
        );
        return fail(Code::Usage, text);
    }
    let also = args.serve.also_over;
    if also.is_some_and(|also| also.is_udp() == args.wire.over.is_udp()) {
        let text =
            "--also-over is another carrier than that of --over: one of raw frames, one of UDP";
        return fail(Code::Usage, text);
    }
    let is_unicast = args.wire.over.is_unicast() || also.is_some_and(Over::is_unicast);
    if args.from.is_some() && !is_unicast {
        let text = "only receivers over unicast ask a sender (--from): add --over unicast";
        return fail(Code::Usage, text);
    }
    if is_unicast && groups.len() > 1 {
        let text = "by unicast a host has one receiver, which serves one group: name one, or serve --over udp";
        return fail(Code::Usage, text);
    }
    let own = groups.iter().map(|group| Served {
        name: group.clone(),
        group: group.clone(),
        over: args.wire.over,
    });
    let others = also.into_iter().flat_map(|over| {
        groups.iter().map(move |group| Served {
            name: format!("{group} over {over}"),
            group: group.clone(),
            over,
        })
    });
    Ok(own.chain(others).collect())
}

impl Server {
    fn start_workers(&mut self) -> anyhow::Result<()> {
        for (number, served) in self.served.iter().enumerate() {
            let group = &served.name;
            if self.workers.contains_key(group) {
                continue;
            }
            let port_fd = self.args.port_fd.get(number).copied();
            let (registry, args) = (Arc::clone(&self.registry), Arc::clone(&self.args));
            let worker = Arc::new(Worker::new(
                served.clone(),
                registry,
                args,
                self.keys.clone(),
                port_fd,
                self.serve_log.clone(),
            ));
            self.workers.insert(group.clone(), Arc::clone(&worker));
            self.unopened.insert(group.clone(), false);
            let (group, serve_log) = (group.clone(), self.serve_log.clone());
            let thread = std::thread::Builder::new().name("group".to_owned());
            thread
                .spawn(move || serve_log.send(ServeEvent::Ended(group, worker.run())))
                .code(Code::System)?;
        }
        Ok(())
    }

    fn work(mut self) -> anyhow::Result<()> {
        let every = self.supervisor.ticks_every();
        let mut tick = Instant::now();
        loop {
            let next = every
                .map(|every| tick + every)
                .into_iter()
                .chain(self.until)
                .min();
            let wait = next.map_or(IDLE_WAIT, |next| {
                next.saturating_duration_since(Instant::now())
            });
            match self.heard.recv_timeout(wait) {
                Ok(ServeEvent::Signal(Signal::SIGHUP)) => self.reload(),
                Ok(ServeEvent::Signal(signal)) => return self.end(signal.as_ref()),
                Ok(ServeEvent::Ended(group, Err(error))) => {
                    return Err(self.give_up(&group, &error));
                }
                Ok(word) => self.on_event(word),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    unreachable!("this server tells itself things, too")
                }
            }
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return self.end("its time is up");
            }
            if every.is_some_and(|every| tick.elapsed() >= every) {
                self.look();
                tick = Instant::now();
            }
        }
    }

    fn on_event(&mut self, word: ServeEvent) {
        match word {
            ServeEvent::Open(group) => drop(self.unopened.remove(&group)),
            ServeEvent::Waits(group) => drop(self.unopened.insert(group, true)),
            ServeEvent::Over { is_delivered } => {
                *(if is_delivered {
                    &mut self.delivered
                } else {
                    &mut self.failed
                }) += 1
            }
            ServeEvent::Ended(group, _) => {
                self.workers.remove(&group);
                self.unopened.remove(&group);
                if !self.is_served(&group) {
                    self.log(&format!("group {group} is not served any more"));
                } else if let Err(error) = self.start_workers() {
                    // The group was stopping and is wanted again.
                    Severity::Error.print(&format!("{error:#}"));
                }
            }
            ServeEvent::Signal(_) => {}
        }
        // A missing interface of one group does not delay the system's boot.
        if !self.is_ready && self.unopened.values().all(|&waits| waits) {
            self.is_ready = true;
            self.log(&format!("{} into {}", self.served(), self.place()));
            self.supervisor
                .notify(&format!("READY=1\nSTATUS={}", self.status()));
        } else {
            self.supervisor.notify(&format!("STATUS={}", self.status()));
        }
    }

    fn is_served(&self, name: &str) -> bool {
        self.served.iter().any(|served| served.name == name)
    }

    fn log(&self, text: &str) {
        if !self.args.wire.quiet {
            Severity::Info.print(text);
        }
    }

    fn place(&self) -> String {
        let dest = self
            .args
            .dest
            .as_ref()
            .map(|dest| dest.display().to_string());
        dest.or_else(|| self.args.pipe.clone()).unwrap_or_default()
    }

    fn served(&self) -> String {
        let groups = self.workers.keys().cloned().collect::<Vec<_>>();
        let waits = self.unopened.values().filter(|&&waits| waits).count();
        let waits = if waits > 0 {
            format!(", {waits} wait for their interface")
        } else {
            String::new()
        };
        format!("serving {}{waits}", registry::shown(&groups))
    }

    fn status(&self) -> String {
        let (delivered, failed, running) =
            (self.delivered, self.failed, self.registry.running().len());
        format!(
            "{}; sessions: {running} running, {delivered} received, {failed} failed",
            self.served()
        )
    }

    /// Notifies the watchdog if all loops have made progress since the last time.
    fn look(&mut self) {
        let loops = self
            .workers
            .iter()
            .filter_map(|(group, worker)| Some((group.as_str(), worker.turns()?)));
        let stuck = self.rounds.look(loops);
        if stuck.is_empty() {
            self.supervisor.notify("WATCHDOG=1");
        } else {
            Severity::Error.print(&format!("stuck: {}", registry::shown(&stuck)));
        }
        self.registry.wake();
    }

    fn reload(&mut self) {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map(Duration::from)
            .unwrap_or_default();
        self.supervisor
            .notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
        match self.read_again() {
            Ok(()) => self.log(&format!("read the configuration again: {}", self.status())),
            Err(error) => Severity::Error.print(&format!("{error:#}; it goes on as before")),
        }
        self.supervisor
            .notify(&format!("READY=1\nSTATUS={}", self.status()));
    }

    fn read_again(&mut self) -> anyhow::Result<()> {
        let args = config::receiver_again()?;
        let wire = |args: &RecvArgs| {
            (
                args.wire.interface.clone(),
                args.wire.host.clone(),
                args.wire.ether_type,
                args.wire.over,
                args.serve.also_over,
            )
        };
        if !args.serve.serve || wire(&args) != wire(&self.args) || args.port_fd != self.args.port_fd
        {
            return fail(
                Code::Usage,
                "another interface, host name, EtherType, carrier or --port-fd takes a restart",
            );
        }
        let [own, other] =
            [&*self.args, &args].map(|args| recv::needs(args, self.keys.is_some(), None));
        if own.confines() && own != other {
            let text = "another --user, and commands and privileges that take rights which it has given up, take a \
                        restart";
            return fail(Code::Usage, text);
        }
        let served = check(&args)?;
        let is_unicast = served.iter().any(|served| served.over.is_unicast());
        let is_new = |served: &Served| !self.workers.contains_key(&served.name);
        if (!args.port_fd.is_empty() || is_unicast) && served.iter().any(is_new) {
            return fail(
                Code::Usage,
                "other groups take a restart with --port-fd and by unicast",
            );
        }
        self.registry.set_most(args.serve.max_sessions.into());
        self.args = Arc::new(args);
        self.workers
            .values()
            .for_each(|worker| worker.set_args(Arc::clone(&self.args)));
        self.served = served;
        let gone = self
            .workers
            .iter()
            .filter(|(group, _)| !self.is_served(group));
        gone.for_each(|(_, worker)| worker.end_after_session());
        self.start_workers()
    }

    fn end(mut self, why: &str) -> anyhow::Result<()> {
        self.supervisor.notify("STOPPING=1");
        while let Ok(word) = self.heard.try_recv() {
            self.on_event(word);
        }
        let running = self.registry.running();
        let count = running.len();
        let noun = if count == 1 {
            "session is"
        } else {
            "sessions are"
        };
        self.log(&format!("{why}: it ends; {count} {noun} cut off"));
        for (group, running) in &running {
            let text = format!(
                "group {group}: cut off: {}; the received data is kept for the next time",
                running.status_line()
            );
            Severity::Warning.print(&text);
        }
        let failed_before = self.failed;
        self.end_workers();
        // Sessions that were complete at the last moment are not counted.
        match self.failed - failed_before {
            0 => Ok(()),
            1 if count == 1 => fail(
                Code::SomeFailed,
                "the session was cut off; have it sent again",
            ),
            lost => fail(
                Code::SomeFailed,
                format!("{lost} of {count} sessions were cut off; have them sent again"),
            ),
        }
    }

    /// Ends the server if a group cannot be served at all, so that the administrator notices.
    fn give_up(&mut self, group: &str, error: &anyhow::Error) -> anyhow::Error {
        self.supervisor.notify("STOPPING=1");
        self.workers.remove(group);
        self.end_workers();
        worker::lost(group, error).into()
    }

    fn end_workers(&mut self) {
        self.workers.values().for_each(|worker| worker.end());
        let until = Instant::now() + END_LIMIT;
        while !self.workers.is_empty() {
            match self
                .heard
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(ServeEvent::Ended(group, _)) => drop(self.workers.remove(&group)),
                Ok(ServeEvent::Over {
                    is_delivered: false,
                }) => self.failed += 1,
                Ok(
                    ServeEvent::Signal(Signal::SIGHUP)
                    | ServeEvent::Open(_)
                    | ServeEvent::Waits(_)
                    | ServeEvent::Over { .. },
                ) => {}
                Ok(ServeEvent::Signal(_)) => break,
                Err(_) => break,
            }
        }
        if !self.workers.is_empty() {
            let groups = self.workers.keys().cloned().collect::<Vec<_>>();
            let text = format!(
                "not ended, as a disk or a command of --exec keeps it: {}",
                registry::shown(&groups)
            );
            Severity::Warning.print(&text);
        }
        ethbcast_content::command::Unfinished::remove_all();
    }
}
