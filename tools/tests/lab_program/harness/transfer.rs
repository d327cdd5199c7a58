//! A whole transfer: one `send` and a `recv` for each receiver.

use super::{Ethbcast, LIMIT, Outcome, Run, Site, within};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A transfer to be made: one `send` and a `recv` for each receiver.
pub struct Transfer<'a> {
    site: &'a Site,
    root: String,
    receivers: Vec<String>,
    via: &'static str,
    group: &'static str,
    send_options: Vec<OsString>,
    content: Arc<Vec<u8>>,
}

impl<'a> Transfer<'a> {
    /// From the lab's first host to all others, by the path that the size decides, in the default group.
    pub fn new(site: &'a Site, content: impl Into<Arc<Vec<u8>>>) -> Self {
        let content = content.into();
        let unset = Transfer {
            site,
            root: String::new(),
            receivers: Vec::new(),
            via: "auto",
            group: "ethbcast",
            send_options: Vec::new(),
            content,
        };
        let first = site.lab().hosts().swap_remove(0);
        unset.root(&first)
    }

    /// From this host to all others.
    pub fn root(mut self, root: &str) -> Self {
        self.root = root.to_owned();
        self.receivers = self.site.lab().hosts().into_iter().filter(|host| host != root).collect();
        self
    }

    /// To these hosts.
    pub fn receivers(mut self, hosts: &[&str]) -> Self {
        self.receivers = hosts.iter().map(|&host| host.to_owned()).collect();
        self
    }

    /// By this path.
    pub fn via(mut self, via: &'static str) -> Self {
        self.via = via;
        self
    }

    /// In this group.
    pub fn group(mut self, group: &'static str) -> Self {
        self.group = group;
        self
    }

    /// With another argument to `send`.
    pub fn send_option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.send_options.push(option.as_ref().to_owned());
        self
    }

    /// Starts all its processes, receivers first.
    pub fn start(self) -> Session {
        let directory = tempfile::Builder::new().prefix("transfer-").tempdir_in(self.site.scratch()).expect("made");
        let source = directory.path().join("source.bin");
        fs::write(&source, self.content.as_slice()).expect("written");
        let receivers =
            self.receivers.iter().map(|host| start_receiver(self.site, host, self.group, directory.path())).collect();
        let count = self.receivers.len().to_string();
        let mut send = self
            .site
            .ethbcast(&self.root, ["send", "--json", "-i", "eth0", "-g", self.group, "--via", self.via, "-n", &count]);
        send.args(["--max-wait", "20"]).args(&self.send_options).arg(source);
        let root = Run::start(&self.root, send);
        Session { root, receivers, directory, via: self.via, content: self.content }
    }

    /// Makes the transfer.
    pub fn run(self) -> Outcome {
        self.start().end(LIMIT)
    }
}

fn start_receiver(site: &Site, host: &str, group: &str, directory: &Path) -> Receiver {
    let directory = directory.join(host);
    fs::create_dir(&directory).expect("made");
    let mut receive = site.ethbcast(host, ["recv", "--json", "-i", "eth0", "-g", group, "--max-wait", "20"]);
    receive.arg(directory.join("received.bin"));
    Receiver { host: host.to_owned(), run: Run::start(host, receive), directory }
}

struct Receiver {
    host: String,
    run: Run,
    directory: PathBuf,
}

/// A transfer under way.
pub struct Session {
    /// The process that sends.
    pub root: Run,
    receivers: Vec<Receiver>,
    directory: TempDir,
    via: &'static str,
    content: Arc<Vec<u8>>,
}

impl Session {
    fn of(&self, host: &str) -> &Receiver {
        self.receivers
            .iter()
            .find(|receiver| receiver.host == host)
            .unwrap_or_else(|| panic!("{host} does not receive"))
    }

    /// The process that receives on a host.
    pub fn receiver(&self, host: &str) -> &Run {
        &self.of(host).run
    }

    /// Waits until a receiver has written so many bytes to its unfinished file.
    pub fn wait_for_bytes(&self, host: &str, bytes: u64) {
        let Receiver { run, directory, .. } = self.of(host);
        let written = || run.open_bytes(directory);
        let seen = within(LIMIT, || written().filter(|&written| written >= bytes));
        seen.unwrap_or_else(|| panic!("{host} never had {bytes} bytes:\n{}", self.all_stderr()));
    }

    /// Waits for the end of all processes; if it does not come within `limit`, fails with all they have said.
    pub fn end(mut self, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        let mut runs: Vec<&mut Run> = self.receivers.iter_mut().map(|receiver| &mut receiver.run).collect();
        runs.push(&mut self.root);
        let late: Vec<String> = runs
            .into_iter()
            .filter_map(|run| run.ended_by(deadline).is_none().then(|| run.name().to_owned()))
            .collect();
        assert!(late.is_empty(), "{late:?} did not end within {limit:?}:\n{}", self.all_stderr());
        let receivers =
            self.receivers.into_iter().map(|receiver| (receiver.host, receiver.run.end(LIMIT), receiver.directory));
        Outcome {
            receivers: receivers.collect(),
            root: self.root.end(LIMIT),
            _directory: self.directory,
            via: self.via,
            content: self.content,
        }
    }

    fn all_stderr(&self) -> String {
        let runs = self.receivers.iter().map(|receiver| &receiver.run).chain([&self.root]);
        runs.map(|run| format!("--- {}\n{}", run.name(), run.stderr())).collect()
    }
}
