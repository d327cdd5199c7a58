//! A whole transfer: one `send`, and a `recv` for each receiver.

use super::{Ethbcast, LIMIT, Outcome, Run, Site, within};
use ethbcast_lab::Lab;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A transfer to be run.
pub struct Transfer<'a> {
    site: &'a Site,
    root: String,
    receivers: Vec<String>,
    via: &'static str,
    group: &'static str,
    max_wait: &'static str,
    send_options: Vec<OsString>,
    receive_options: Vec<OsString>,
    reader: Option<(String, Reader)>,
    content: Arc<Vec<u8>>,
}

impl<'a> Transfer<'a> {
    /// Creates a transfer from the lab's first host to all others, with default algorithm and
    /// group.
    pub fn new(site: &'a Site, content: impl Into<Arc<Vec<u8>>>) -> Self {
        let content = content.into();
        let unset = Transfer {
            site,
            root: String::new(),
            receivers: Vec::new(),
            via: "auto",
            group: "ethbcast",
            max_wait: "20",
            send_options: Vec::new(),
            receive_options: Vec::new(),
            reader: None,
            content,
        };
        let first = site.lab().hosts().swap_remove(0);
        unset.root(&first)
    }

    pub fn root(mut self, root: &str) -> Self {
        self.root = root.to_owned();
        self.receivers = self.site.lab().hosts().into_iter().filter(|host| host != root).collect();
        self
    }

    pub fn receivers(mut self, hosts: &[&str]) -> Self {
        self.receivers = hosts.iter().map(|&host| host.to_owned()).collect();
        self
    }

    pub fn via(mut self, via: &'static str) -> Self {
        self.via = via;
        self
    }

    pub fn group(mut self, group: &'static str) -> Self {
        self.group = group;
        self
    }

    /// Sets the seconds that the root waits for receivers.
    pub fn max_wait(mut self, seconds: &'static str) -> Self {
        self.max_wait = seconds;
        self
    }

    pub fn send_option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.send_options.push(option.as_ref().to_owned());
        self
    }

    pub fn receive_option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.receive_options.push(option.as_ref().to_owned());
        self
    }

    pub fn both_options(self, name: &str, value: &str) -> Self {
        self.send_option(name).send_option(value).receive_option(name).receive_option(value)
    }

    /// Lets this host's receiver write to a pipe with this reader.
    pub fn reader(mut self, host: &str, reader: Reader) -> Self {
        self.reader = Some((host.to_owned(), reader));
        self
    }

    /// Starts all processes, receivers first.
    pub fn start(self) -> Session {
        let directory = tempfile::Builder::new().prefix("transfer-").tempdir_in(self.site.scratch()).expect("made");
        let source = directory.path().join("source.bin");
        fs::write(&source, self.content.as_slice()).expect("written");
        let sent_before_bytes = self.site.lab().counters(&self.root).expect("a host of this lab").sent_bytes;
        let receivers = self.receivers.iter().map(|host| self.start_receiver(host, directory.path())).collect();
        let count = self.receivers.len().to_string();
        let mut send = self
            .site
            .ethbcast(&self.root, ["send", "--json", "-i", "eth0", "-g", self.group, "--via", self.via, "-n", &count]);
        send.args(["--max-wait", self.max_wait]).args(&self.send_options).arg(source);
        let root = Run::start(&self.root, send);
        Session {
            root,
            receivers,
            lab: self.site.lab().clone(),
            sent_before_bytes,
            directory,
            via: self.via,
            content: self.content,
        }
    }

    pub fn run(self) -> Outcome {
        self.start().end(LIMIT)
    }

    fn start_receiver(&self, host: &str, directory: &Path) -> Receiver {
        let directory = directory.join(host);
        fs::create_dir(&directory).expect("made");
        let mut receive = self.site.ethbcast(host, ["recv", "-i", "eth0", "-g", self.group]);
        receive.args(&self.receive_options);
        if !self.receive_options.iter().any(|option| option == "--max-wait") {
            receive.args(["--max-wait", "20"]);
        }
        let reader = self.reader.as_ref().and_then(|(of, reader)| (of == host).then_some(*reader));
        match reader {
            None => receive.arg("--json").arg(directory.join("received.bin")),
            Some(_) => receive.arg("-"),
        };
        let run = match reader {
            None => Run::start(host, receive),
            Some(Reader::Stopped) => Run::unread(host, receive),
            Some(Reader::Slow { bytes_per_second }) => Run::read_slowly(host, receive, bytes_per_second),
        };
        Receiver { host: host.to_owned(), run, directory }
    }
}

/// Reader of a receiver's stdout.
#[derive(Clone, Copy, Debug)]
pub enum Reader {
    /// Reads nothing, so that the pipe is soon full.
    Stopped,
    /// Reads at a limited rate.
    Slow { bytes_per_second: u64 },
}

struct Receiver {
    host: String,
    run: Run,
    directory: PathBuf,
}

/// A running transfer.
pub struct Session {
    pub root: Run,
    receivers: Vec<Receiver>,
    lab: Lab,
    sent_before_bytes: u64,
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

    pub fn receiver(&self, host: &str) -> &Run {
        &self.of(host).run
    }

    /// Waits until a receiver has written `bytes` to its unfinished file.
    pub fn wait_for_bytes(&self, host: &str, bytes: u64) {
        let Receiver { run, directory, .. } = self.of(host);
        let written = || run.open_bytes(directory);
        let seen = within(LIMIT, || written().filter(|&written| written >= bytes));
        seen.unwrap_or_else(|| panic!("{host} never had {bytes} bytes:\n{}", self.all_stderr()));
    }

    /// Waits until the root has sent `bytes` on its cable.
    pub fn wait_for_sent(&self, bytes: u64) {
        let sent = || self.lab.counters(self.root.name()).expect("a host of this lab").sent_bytes;
        let seen = within(LIMIT, || (sent() - self.sent_before_bytes >= bytes).then_some(()));
        seen.unwrap_or_else(|| panic!("the root never sent {bytes} bytes:\n{}", self.all_stderr()));
    }

    /// Waits for the end of all processes, and fails with their output after `limit`.
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
