//! Test helper: runs the program on this machine or on hosts in network namespaces, and whole
//! transfers.

use ethbcast_collectives::session::verified::Form;
use ethbcast_lab::Lab;
use ethbcast_planning::plan::Via;
pub use ethbcast_tests::lab::{
    Ended, LIMIT, PAYLOAD_BYTES, Run, Site, content, lab_name, names_in, one_switch, require_root,
    scratch, shown_in, within,
};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program, built by cargo for these tests.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_ethbcast");
pub const MEBIBYTE: usize = 1 << 20;

pub trait Ethbcast {
    /// Returns a command of `ethbcast` on a host, without stdin.
    fn ethbcast(
        &self,
        host: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command;

    /// Starts it on a host with these arguments, followed by a SOURCE or DEST.
    fn start(&self, host: &str, arguments: &[&str], path: impl AsRef<OsStr>) -> Run {
        let mut command = self.ethbcast(host, arguments);
        command.arg(path);
        Run::start(host, command)
    }

    /// Runs it like `start`, to its end.
    fn run(&self, host: &str, arguments: &[&str], path: impl AsRef<OsStr>) -> Ended {
        self.start(host, arguments, path).end(LIMIT)
    }
}

impl Ethbcast for Site {
    fn ethbcast(
        &self,
        host: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = self.command(host, PROGRAM);
        // The program must find out its host by itself.
        command.args(arguments).env_remove("ETHBCAST_HOST");
        command
    }
}

/// Starts the program on this machine, outside every lab.
pub fn here(arguments: &[&str]) -> Run {
    Run::here(PROGRAM, arguments)
}

/// Runs the program on this machine to its end.
pub fn ended_here(arguments: &[&str]) -> Ended {
    here(arguments).end(LIMIT)
}

/// Returns the namespaces whose names begin with `prefix`.
pub fn namespaces(prefix: &str) -> Vec<String> {
    let mut names = if Path::new("/run/netns").exists() {
        names_in(Path::new("/run/netns"))
    } else {
        Vec::new()
    };
    names.retain(|name| name.starts_with(prefix));
    names
}

/// Returns the number of frames for a content with its hash lists, without the end.
pub fn full_frames(content_bytes: usize, payload_bytes: usize) -> u64 {
    Form::VERIFIED
        .stream_bytes(content_bytes as u64)
        .div_ceil(payload_bytes as u64)
}

/// A finished transfer, whose files are removed on drop.
pub struct Outcome {
    pub root: Ended,
    /// Each receiving host with the end of its process and the directory of its file.
    pub(super) receivers: Vec<(String, Ended, PathBuf)>,
    pub(super) _directory: TempDir,
    pub(super) via: &'static str,
    pub(super) content: Arc<Vec<u8>>,
}

impl Outcome {
    pub fn receiver(&self, host: &str) -> &Ended {
        &self.of(host).1
    }

    fn of(&self, host: &str) -> &(String, Ended, PathBuf) {
        self.receivers
            .iter()
            .find(|(name, ..)| name == host)
            .unwrap_or_else(|| panic!("{host} did not receive"))
    }

    /// Fails unless all succeeded, every receiver has exactly the sent bytes, and the report
    /// agrees.
    #[track_caller]
    pub fn assert_verified(&self) {
        self.root.assert_code(0);
        for (host, ..) in &self.receivers {
            self.assert_delivered(host);
        }
        self.assert_report(&self.root.json());
    }

    /// Fails unless a receiver succeeded and has exactly the sent bytes, with nothing beside them.
    #[track_caller]
    pub fn assert_delivered(&self, host: &str) {
        let (_, ended, directory) = self.of(host);
        ended.assert_code(0);
        assert_eq!(names_in(directory), ["received.bin"], "on {host}");
        let received = fs::read(directory.join("received.bin")).expect("it is there");
        assert_eq!(received.len(), self.content.len(), "bytes on {host}");
        // Whole slices first: byte by byte an unoptimised comparison takes longer than the
        // transfer.
        if received[..] != self.content[..] {
            let wrong = received
                .iter()
                .zip(self.content.iter())
                .position(|(received, sent)| received != sent);
            panic!(
                "on {host} byte {} is wrong first",
                wrong.expect("they differ")
            );
        }
        let report = ended.json();
        assert_eq!(report["status"], "verified", "{report}");
        assert_eq!(report["bytes"], self.content.len(), "{report}");
        assert_eq!(report["blake3"], self.digest().as_str(), "{report}");
    }

    /// Fails unless a receiver ended with this code and left no visible file.
    #[track_caller]
    pub fn assert_nothing(&self, host: &str, code: i32) {
        let (_, ended, directory) = self.of(host);
        ended.assert_code(code);
        assert_eq!(shown_in(directory), [""; 0], "on {host}");
    }

    /// Fails unless a receiver left no data to resume.
    #[track_caller]
    pub fn assert_nothing_hidden(&self, host: &str) {
        assert_eq!(names_in(&self.of(host).2), [""; 0], "on {host}");
    }

    /// Fails unless every receiver but these has exactly the sent bytes.
    #[track_caller]
    pub fn assert_others_delivered(&self, but: &[&str]) {
        let others = self
            .receivers
            .iter()
            .map(|(host, ..)| host.as_str())
            .filter(|host| !but.contains(host));
        others.for_each(|host| self.assert_delivered(host));
    }

    /// Fails unless every receiver but one has exactly the sent bytes. That one must have them too,
    /// or fail without a file and be named on the root's stderr with one of these words.
    #[track_caller]
    pub fn assert_all_but(&self, culprit: &str, words: &[&str]) {
        self.assert_others_delivered(&[culprit]);
        let ended = self.receiver(culprit);
        if ended.code() == 0 {
            self.assert_delivered(culprit);
            return self.root.assert_code(0);
        }
        assert!(
            [1, 3].contains(&ended.code()),
            "{culprit} ended with {}:\n{}",
            ended.code(),
            ended.stderr
        );
        self.assert_nothing(culprit, ended.code());
        self.root.assert_code(1);
        assert_ne!(self.status(culprit), "verified");
        self.assert_named(culprit, words);
    }

    /// Fails unless a line of the root's stderr names a host and contains one of these words.
    #[track_caller]
    pub fn assert_named(&self, host: &str, words: &[&str]) {
        let is_named = |line: &str| {
            line.split(|letter: char| !letter.is_alphanumeric())
                .any(|word| word == host)
        };
        let says = |line: &str| words.iter().any(|word| line.contains(word));
        let named = self
            .root
            .stderr
            .lines()
            .any(|line| is_named(line) && says(line));
        assert!(
            named,
            "no line names {host} with one of {words:?}:\n{}",
            self.root.stderr
        );
    }

    /// Returns a host's status in the root's report.
    pub fn status(&self, host: &str) -> String {
        self.row(host)["status"]
            .as_str()
            .expect("a word")
            .to_owned()
    }

    /// Returns a host's entry in the root's report.
    pub fn row(&self, host: &str) -> Value {
        let report = self.root.json();
        let receivers = report["receivers"].as_array().expect("a list");
        let found = receivers.iter().find(|receiver| receiver["host"] == host);
        found
            .unwrap_or_else(|| panic!("{host} is not in {report}"))
            .clone()
    }

    /// Fails unless a host was killed and left no visible file.
    pub fn forget_dead(&self, host: &str) {
        self.assert_nothing(host, 128 + Signal::SIGKILL as i32);
    }

    fn digest(&self) -> String {
        blake3::hash(&self.content).to_hex().to_string()
    }

    /// Checks all documented fields of a successful transfer's report and their consistency.
    #[track_caller]
    fn assert_report(&self, report: &Value) {
        let number = |value: &Value| {
            value
                .as_f64()
                .unwrap_or_else(|| panic!("{value} is no number in {report}"))
        };
        let bytes = self.content.len();
        let (seconds, total_seconds) =
            (number(&report["seconds"]), number(&report["total_seconds"]));
        assert_eq!(report["schema"], 1, "{report}");
        let session = report["session"].as_str().expect("the session is a text");
        assert!(
            session.len() == 8 && u32::from_str_radix(session, 16).is_ok(),
            "{session}"
        );
        assert_eq!(report["bytes"], bytes, "{report}");
        assert!(0.0 < seconds && seconds <= total_seconds, "{report}");
        let goodput = bytes as f64 * 8.0 / seconds;
        assert!(
            (number(&report["goodput_bits_per_second"]) - goodput).abs() <= goodput * 1e-6,
            "{goodput}: {report}"
        );
        assert_eq!(report["blake3"], self.digest().as_str(), "{report}");
        let via = report["via"].as_str().expect("a word");
        assert!(
            if self.via == "auto" {
                via.parse::<Via>().is_ok()
            } else {
                via == self.via
            },
            "{report}"
        );
        assert!(
            report["segment_bytes"]
                .as_u64()
                .is_some_and(|segment_bytes| segment_bytes > 0),
            "{report}"
        );
        assert!(
            report
                .get("predicted_seconds")
                .is_some_and(|value| value.is_null() || value.is_f64()),
            "{report}"
        );
        for name in [
            "data_sent",
            "data_resent",
            "control_sent",
            "control_received",
        ] {
            assert!(report["frames"][name].is_u64(), "{name}: {report}");
        }
        self.assert_receivers(report, total_seconds);
    }

    #[track_caller]
    fn assert_receivers(&self, report: &Value, total_seconds: f64) {
        let listed = report["receivers"].as_array().expect("a list");
        let ranks: Vec<_> = listed
            .iter()
            .map(|receiver| receiver["rank"].as_u64().expect("a number"))
            .collect();
        assert_eq!(
            ranks,
            (1..=self.receivers.len() as u64).collect::<Vec<_>>(),
            "ranks, in this order: {report}"
        );
        let mut hosts: Vec<_> = listed
            .iter()
            .map(|receiver| receiver["host"].as_str().expect("a name"))
            .collect();
        let mut expected: Vec<_> = self
            .receivers
            .iter()
            .map(|(host, ..)| host.as_str())
            .collect();
        hosts.sort_unstable();
        expected.sort_unstable();
        assert_eq!(hosts, expected);
        for receiver in listed {
            assert_eq!(receiver["status"], "verified", "{report}");
            assert_eq!(receiver["bytes"], self.content.len(), "{report}");
            assert_eq!(receiver["blake3"], self.digest().as_str(), "{report}");
            let seconds = receiver["seconds"].as_f64().expect("a number");
            assert!((0.0..=total_seconds).contains(&seconds), "{report}");
            let own = self
                .receiver(receiver["host"].as_str().expect("a name"))
                .json();
            assert_eq!(
                own["rank"], receiver["rank"],
                "what a receiver says of itself: {own}"
            );
        }
    }

    /// Returns the time at which a host was done, in seconds from the first frame, by the root's
    /// report.
    pub fn seconds_of(&self, host: &str) -> f64 {
        self.row(host)["seconds"].as_f64().expect("a number")
    }

    /// Returns a frame count of the root's report.
    pub fn frames(&self, name: &str) -> u64 {
        self.root.json()["frames"][name].as_u64().expect("a number")
    }

    /// Returns the payload of a full frame. With a segment shorter than the content, which the
    /// sender derives from its probe, all frames of a segment have equal length
    /// (docs/protocol/limits.md, segments).
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes_of(PAYLOAD_BYTES)
    }

    /// Returns the payload of a full frame if a frame holds `most` bytes.
    pub fn payload_bytes_of(&self, most: usize) -> usize {
        let segment = self.root.json()["segment_bytes"]
            .as_u64()
            .expect("a number") as usize;
        let alike = segment.div_ceil(segment.div_ceil(most)).clamp(64, most);
        if segment < self.content.len() {
            alike
        } else {
            most
        }
    }

    /// Returns the `seconds` of the root's report.
    pub fn seconds(&self) -> f64 {
        self.root.json()["seconds"].as_f64().expect("a number")
    }
}

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
        self.receivers = self
            .site
            .lab()
            .hosts()
            .into_iter()
            .filter(|host| host != root)
            .collect();
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
        self.send_option(name)
            .send_option(value)
            .receive_option(name)
            .receive_option(value)
    }

    /// Lets this host's receiver write to a pipe with this reader.
    pub fn reader(mut self, host: &str, reader: Reader) -> Self {
        self.reader = Some((host.to_owned(), reader));
        self
    }

    /// Starts all processes, receivers first.
    pub fn start(self) -> Session {
        let directory = tempfile::Builder::new()
            .prefix("transfer-")
            .tempdir_in(self.site.scratch())
            .expect("made");
        let source = directory.path().join("source.bin");
        fs::write(&source, self.content.as_slice()).expect("written");
        let sent_before_bytes = self
            .site
            .lab()
            .counters(&self.root)
            .expect("a host of this lab")
            .sent_bytes;
        let receivers = self
            .receivers
            .iter()
            .map(|host| self.start_receiver(host, directory.path()))
            .collect();
        let count = self.receivers.len().to_string();
        let mut send = self.site.ethbcast(
            &self.root,
            [
                "send", "--json", "-i", "eth0", "-g", self.group, "--via", self.via, "-n", &count,
            ],
        );
        send.args(["--max-wait", self.max_wait])
            .args(&self.send_options)
            .arg(source);
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
        let mut receive = self
            .site
            .ethbcast(host, ["recv", "-i", "eth0", "-g", self.group]);
        receive.args(&self.receive_options);
        if !self
            .receive_options
            .iter()
            .any(|option| option == "--max-wait")
        {
            receive.args(["--max-wait", "20"]);
        }
        let reader = self
            .reader
            .as_ref()
            .and_then(|(of, reader)| (of == host).then_some(*reader));
        match reader {
            None => receive.arg("--json").arg(directory.join("received.bin")),
            Some(_) => receive.arg("-"),
        };
        let run = match reader {
            None => Run::start(host, receive),
            Some(Reader::Stopped) => Run::unread(host, receive),
            Some(Reader::Slow { bytes_per_second }) => {
                Run::read_slowly(host, receive, bytes_per_second)
            }
        };
        Receiver {
            host: host.to_owned(),
            run,
            directory,
        }
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

    /// Returns the process of a host, the root's or a receiver's.
    pub fn run(&self, host: &str) -> &Run {
        if self.root.name() == host {
            &self.root
        } else {
            self.receiver(host)
        }
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
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
        let sent = || {
            self.lab
                .counters(self.root.name())
                .expect("a host of this lab")
                .sent_bytes
        };
        let seen = within(LIMIT, || {
            (sent() - self.sent_before_bytes >= bytes).then_some(())
        });
        seen.unwrap_or_else(|| panic!("the root never sent {bytes} bytes:\n{}", self.all_stderr()));
    }

    /// Waits for the end of all processes, and fails with their output after `limit`.
    pub fn end(mut self, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        let mut runs: Vec<&mut Run> = self
            .receivers
            .iter_mut()
            .map(|receiver| &mut receiver.run)
            .collect();
        runs.push(&mut self.root);
        let late: Vec<String> = runs
            .into_iter()
            .filter_map(|run| {
                run.ended_by(deadline)
                    .is_none()
                    .then(|| run.name().to_owned())
            })
            .collect();
        assert!(
            late.is_empty(),
            "{late:?} did not end within {limit:?}:\n{}",
            self.all_stderr()
        );
        let receivers = self
            .receivers
            .into_iter()
            .map(|receiver| (receiver.host, receiver.run.end(LIMIT), receiver.directory));
        Outcome {
            receivers: receivers.collect(),
            root: self.root.end(LIMIT),
            _directory: self.directory,
            via: self.via,
            content: self.content,
        }
    }

    fn all_stderr(&self) -> String {
        let runs = self
            .receivers
            .iter()
            .map(|receiver| &receiver.run)
            .chain([&self.root]);
        runs.map(|run| format!("--- {}\n{}", run.name(), run.stderr()))
            .collect()
    }
}
