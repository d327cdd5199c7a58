//! The built `ethbcast` on the hosts of a lab: one run of it, whole transfers, and what they must leave behind (nothing).
//!
//! These tests need root, and fail without it: a test that skips itself says nothing. Files live in memory where there is
//! such a place, because all hosts of a lab share one disk.

use blake3::Hasher;
use ethbcast_collectives::topology::Topology;
use ethbcast_lab::{Lab, LabConfig, LabGuard};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a transfer may take before its processes are killed and the test fails; also what receivers wait for a sender.
pub const LIMIT: Duration = Duration::from_secs(60);
/// How often a process, a file or a text is looked at while it is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of payload in a full frame at MTU 1500.
pub const PAYLOAD_BYTES: usize = 1468;

/// The program, built once for each test process, with the profile and into the target directory of the test itself.
pub fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(build);
    &PROGRAM
}

/// `<target>/<profile>`; the test is `<target>/<profile>/deps/<test>-<hash>`.
fn profile_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.ancestors().nth(2).expect("cargo puts tests two directories deep").to_owned()
}

/// Cargo builds the programs of another package for nobody's tests, so it is asked to.
fn build() -> PathBuf {
    let directory = profile_directory();
    let profile = match directory.file_name().and_then(OsStr::to_str).expect("profiles have ASCII names") {
        "debug" => "dev",
        profile => profile,
    };
    let target = directory.parent().expect("a profile's directory is in the target directory");
    let cargo = |network: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--package", "ethbcast", "--bin", "ethbcast", "--profile", profile, "--target-dir"]).arg(target);
        cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")]).args(network);
        cargo.stdin(Stdio::null()).output().expect("cargo starts")
    };
    // Without the network first: it is not needed once the dependencies are there, and a machine without one is not held up.
    if !cargo(&["--offline"]).status.success() {
        let output = cargo(&[]);
        assert!(output.status.success(), "cannot build ethbcast:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    directory.join("ethbcast")
}

/// Fails a test that is not run as root, in one sentence.
pub fn require_root() {
    assert!(
        Uid::effective().is_root(),
        "these tests make network namespaces and raw sockets: run `cargo test -p ethbcast-tests` as root"
    );
}

/// A lab of `hosts` hosts `n0…` on one switch: unshaped, MTU 1500, no loss.
pub fn one_switch(hosts: usize) -> LabConfig {
    LabConfig::new(Topology::single_switch((0..hosts).map(|host| format!("n{host}"))).expect("good names"))
}

/// A name for a lab that no other test of this or another process has.
pub fn lab_name(story: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("t{}.{}.{story}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// `bytes` bytes that differ everywhere, so that a frame in the wrong place shows; another `seed`, other bytes.
pub fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Hasher::new().update(&seed.to_be_bytes()).finalize_xof().fill(&mut content);
    content
}

/// A directory that is gone when it is dropped, in memory if there is a place for it, and open to every user.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = tempfile::Builder::new().prefix("ethbcast-tests-").tempdir_in(parent).expect("a temporary directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    directory
}

/// Waits until `found` says something; `None` if it does not within `limit`.
pub fn within<T>(limit: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        match found() {
            None if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
            result => return result,
        }
    }
}

/// What is in a directory, hidden files included.
pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A lab and a place for files. When it ends, also in a panic, the lab is taken down; a test that has succeeded so far fails
/// if a process is still there then, or a temporary file.
pub struct Site {
    lab: LabGuard,
    scratch: TempDir,
    transfers: AtomicUsize,
    _turn: Flock<File>,
}

impl Site {
    /// Brings up a lab for a test that moves many bytes: no other site is up meanwhile, in this or another test process.
    pub fn alone(story: &str, config: LabConfig) -> Site {
        Site::up(story, config, FlockArg::LockExclusive)
    }

    /// Brings up a lab for a test that moves few bytes, beside others of this kind.
    pub fn beside(story: &str, config: LabConfig) -> Site {
        Site::up(story, config, FlockArg::LockShared)
    }

    fn up(story: &str, config: LabConfig, turn: FlockArg) -> Site {
        require_root();
        program();
        // A directory can be locked like a file, and this one all test processes of a build share.
        let directory = File::open(profile_directory()).expect("the test lies in it");
        let turn = Flock::lock(directory, turn).map_err(|(_, errno)| errno).expect("a lock to wait for");
        let config = LabConfig { name: lab_name(story), ..config };
        let lab = LabGuard::up(&config).unwrap_or_else(|error| panic!("bringing up `{}`: {error}", config.name));
        Site { lab, scratch: scratch(), transfers: AtomicUsize::new(0), _turn: turn }
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// A path in the place for files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A file there.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("written");
        path
    }

    /// A new directory there.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("made");
        path
    }

    /// `program` on a host, with nothing on its stdin.
    pub fn command(&self, host: &str, program: &str) -> Command {
        let mut command = self.lab.command(host, program).expect("a host of this lab");
        command.env_remove("RUST_LOG").env_remove("ETHBCAST_HOST").stdin(Stdio::null());
        command
    }

    /// `ethbcast` on a host, with nothing on its stdin.
    pub fn ethbcast(&self, host: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = self.command(host, program().to_str().expect("target directories have UTF-8 names"));
        command.args(arguments);
        command
    }

    /// Starts `ethbcast` on a host, with these arguments and, last, a SOURCE or DEST.
    pub fn start(&self, host: &str, arguments: &[&str], path: impl AsRef<OsStr>) -> Run {
        let mut command = self.ethbcast(host, arguments);
        command.arg(path);
        Run::start(host, command)
    }

    /// The same, to its end.
    pub fn run(&self, host: &str, arguments: &[&str], path: impl AsRef<OsStr>) -> Ended {
        self.start(host, arguments, path).end(LIMIT)
    }

    /// Runs another program on a host, which must succeed.
    pub fn set_up(&self, host: &str, program: &str, arguments: &[&str]) {
        let mut command = self.command(host, program);
        command.args(arguments);
        Run::start(host, command).end(LIMIT).assert_code(0);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let removed = Lab::remove(self.lab.name()).expect("the lab goes down");
        assert_eq!(removed.processes, 0, "processes were left in the lab");
        let left = temporary_files(self.scratch.path());
        assert!(left.is_empty(), "temporary files were left: {left:?}");
    }
}

/// The temporary files of receivers in a directory and below.
fn temporary_files(directory: &Path) -> Vec<PathBuf> {
    let paths = names_in(directory).into_iter().map(|name| directory.join(name));
    let (directories, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let is_temporary = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "part");
    files.into_iter().filter(is_temporary).chain(directories.iter().flat_map(|directory| temporary_files(directory))).collect()
}

/// A process and what it has written so far; it is killed when this is dropped.
pub struct Run {
    name: String,
    child: Child,
    unread: Option<ChildStdout>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
    started: Instant,
}

impl Run {
    /// Starts a command; `name` is what failures call it.
    pub fn start(name: &str, command: Command) -> Run {
        let mut run = Run::unread(name, command);
        let pipe = run.unread.take().expect("not read yet");
        run.readers.push(collect(pipe, &run.stdout));
        run
    }

    /// Starts a command whose stdout is a pipe that nobody reads: soon it is full.
    pub fn unread(name: &str, mut command: Command) -> Run {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let (unread, stderr) = (child.stdout.take(), Arc::default());
        let readers = vec![collect(child.stderr.take().expect("piped"), &stderr)];
        Run { name: name.to_owned(), child, unread, stdout: Arc::default(), stderr, readers, started: Instant::now() }
    }

    /// Its process id: `ip netns exec` and the like become the program they run.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("a process id"));
        kill(pid, signal).unwrap_or_else(|errno| panic!("{signal} to {}: {errno}", self.name));
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        text(&self.stderr)
    }

    /// Waits until a line of stderr contains `part`.
    pub fn wait_for_line(&self, part: &str) {
        self.wait_for_lines(1, part);
    }

    /// Waits until so many lines of stderr contain `part`.
    pub fn wait_for_lines(&self, count: usize, part: &str) {
        let lines = || self.stderr().lines().filter(|line| line.contains(part)).count();
        let seen = within(LIMIT, || (lines() >= count).then_some(()));
        seen.unwrap_or_else(|| panic!("{} did not say {part:?} {count} times, but:\n{}", self.name, self.stderr()));
    }

    /// The end of it; `None` if that does not come before the deadline.
    fn ended_by(&mut self, deadline: Instant) -> Option<ExitStatus> {
        within(deadline.saturating_duration_since(Instant::now()), || self.child.try_wait().expect("our child"))
    }

    /// Waits for its end.
    pub fn end(mut self, limit: Duration) -> Ended {
        let status = self.ended_by(Instant::now() + limit);
        let status = status.unwrap_or_else(|| panic!("{} did not end within {limit:?}:\n{}", self.name, self.stderr()));
        let took = self.started.elapsed();
        self.readers.drain(..).for_each(|reader| reader.join().expect("reading a pipe"));
        let stdout = std::mem::take(&mut *self.stdout.lock().unwrap_or_else(PoisonError::into_inner));
        Ended { name: self.name.clone(), status, stdout, stderr: self.stderr(), took }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Only fails for a process that has ended, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Reads a pipe to its end on a thread, so that the process never waits for the test.
fn collect(mut pipe: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
        }
    })
}

fn text(bytes: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    name: String,
    status: ExitStatus,
    /// All it wrote to stdout.
    pub stdout: Vec<u8>,
    /// All it wrote to stderr.
    pub stderr: String,
    /// From its start to its end.
    pub took: Duration,
}

impl Ended {
    /// Its exit code, or 128 and the number of the signal that killed it, as shells have it.
    pub fn code(&self) -> i32 {
        self.status.code().or(self.status.signal().map(|signal| 128 + signal)).expect("one or the other")
    }

    /// Fails with all it said unless it ended with this code.
    #[track_caller]
    pub fn assert_code(&self, code: i32) {
        assert_eq!(self.code(), code, "exit code of {}, which said:\n{}{}", self.name, self.stdout_text(), self.stderr);
    }

    /// Fails unless it ended with this code and every one of these parts is in what it said on stderr, in one line of its own.
    #[track_caller]
    pub fn assert_refusal(&self, code: i32, parts: &[&str]) {
        self.assert_code(code);
        let said = self.stderr.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(said, "{} said no line with all of {parts:?}, but:\n{}", self.name, self.stderr);
        assert_eq!(self.stdout_text(), "", "stdout of {}: a refusal belongs on stderr", self.name);
    }

    /// Its stdout as text.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The one JSON object that is all of its stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        let text = self.stdout_text();
        assert_eq!(text.lines().count(), 1, "{} printed more or less than one object: {text:?}\n{}", self.name, self.stderr);
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error} in {text}", self.name));
        assert!(value.is_object(), "{text}");
        value
    }
}

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
        let first = site.lab.hosts().swap_remove(0);
        unset.root(&first)
    }

    /// From this host to all others.
    pub fn root(mut self, root: &str) -> Self {
        self.root = root.to_owned();
        self.receivers = self.site.lab.hosts().into_iter().filter(|host| host != root).collect();
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
        let number = self.site.transfers.fetch_add(1, Ordering::Relaxed);
        let directory =
            tempfile::Builder::new().prefix(&format!("transfer{number}-")).tempdir_in(self.site.scratch.path()).expect("made");
        let source = directory.path().join("source.bin");
        fs::write(&source, self.content.as_slice()).expect("written");
        let receivers = self.receivers.iter().map(|host| start_receiver(self.site, host, self.group, directory.path())).collect();
        let count = self.receivers.len().to_string();
        let mut send =
            self.site.ethbcast(&self.root, ["send", "--json", "-i", "eth0", "-g", self.group, "--via", self.via, "-n", &count]);
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
        self.receivers.iter().find(|receiver| receiver.host == host).unwrap_or_else(|| panic!("{host} does not receive"))
    }

    /// The process that receives on a host.
    pub fn receiver(&self, host: &str) -> &Run {
        &self.of(host).run
    }

    /// Waits until a receiver has written so many bytes to its temporary file.
    pub fn wait_for_bytes(&self, host: &str, bytes: u64) {
        let directory = &self.of(host).directory;
        let written = || {
            let paths = names_in(directory).into_iter().map(|name| directory.join(name));
            // A file may be renamed between being listed and being looked at.
            paths.filter_map(|path| fs::metadata(path).ok()).map(|metadata| metadata.len()).max()
        };
        let seen = within(LIMIT, || written().filter(|&written| written >= bytes));
        seen.unwrap_or_else(|| panic!("{host} never had {bytes} bytes:\n{}", self.all_stderr()));
    }

    /// Waits for the end of all processes; if it does not come within `limit`, fails with all they have said.
    pub fn end(mut self, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        let mut runs: Vec<&mut Run> = self.receivers.iter_mut().map(|receiver| &mut receiver.run).collect();
        runs.push(&mut self.root);
        let late: Vec<String> =
            runs.into_iter().filter_map(|run| run.ended_by(deadline).is_none().then(|| run.name.clone())).collect();
        assert!(late.is_empty(), "{late:?} did not end within {limit:?}:\n{}", self.all_stderr());
        let receivers = self.receivers.into_iter().map(|receiver| (receiver.host, receiver.run.end(LIMIT), receiver.directory));
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
        runs.map(|run| format!("--- {}\n{}", run.name, run.stderr())).collect()
    }
}

/// A transfer that is over. Its files are gone when it is dropped.
pub struct Outcome {
    /// The end of the process that sent.
    pub root: Ended,
    receivers: Vec<(String, Ended, PathBuf)>,
    _directory: TempDir,
    via: &'static str,
    content: Arc<Vec<u8>>,
}

impl Outcome {
    /// The end of the process that received on a host.
    pub fn receiver(&self, host: &str) -> &Ended {
        &self.of(host).1
    }

    fn of(&self, host: &str) -> &(String, Ended, PathBuf) {
        self.receivers.iter().find(|(name, ..)| name == host).unwrap_or_else(|| panic!("{host} did not receive"))
    }

    /// Fails unless all succeeded, every receiver has exactly the bytes that were sent, and the report says so.
    #[track_caller]
    pub fn assert_verified(&self) {
        self.root.assert_code(0);
        for (host, ..) in &self.receivers {
            self.assert_delivered(host);
        }
        self.assert_report(&self.root.json());
    }

    /// Fails unless a receiver succeeded and has exactly the bytes that were sent, and nothing beside them.
    #[track_caller]
    pub fn assert_delivered(&self, host: &str) {
        let (_, ended, directory) = self.of(host);
        ended.assert_code(0);
        assert_eq!(names_in(directory), ["received.bin"], "on {host}");
        let received = fs::read(directory.join("received.bin")).expect("it is there");
        assert_eq!(received.len(), self.content.len(), "bytes on {host}");
        let wrong = received.iter().zip(self.content.iter()).position(|(received, sent)| received != sent);
        assert_eq!(wrong, None, "first wrong byte on {host}");
        let report = ended.json();
        assert_eq!(report["status"], "verified", "{report}");
        assert_eq!(report["bytes"], self.content.len(), "{report}");
        assert_eq!(report["blake3"], self.digest().as_str(), "{report}");
    }

    /// Fails unless a receiver ended with this code and left nothing where its file would have been.
    #[track_caller]
    pub fn assert_nothing(&self, host: &str, code: i32) {
        let (_, ended, directory) = self.of(host);
        ended.assert_code(code);
        assert_eq!(names_in(directory), [""; 0], "on {host}");
    }

    /// What became of a host by the root's report.
    pub fn status(&self, host: &str) -> String {
        let report = self.root.json();
        let receivers = report["receivers"].as_array().expect("a list");
        let found =
            receivers.iter().find(|receiver| receiver["host"] == host).unwrap_or_else(|| panic!("{host} is not in {report}"));
        found["status"].as_str().expect("a word").to_owned()
    }

    /// Removes what a host that was killed left behind, as its user will have to.
    pub fn forget_dead(&self, host: &str) {
        let (_, ended, directory) = self.of(host);
        ended.assert_code(128 + Signal::SIGKILL as i32);
        assert!(
            names_in(directory).iter().all(|name| name.ends_with(".part")),
            "a host that died has delivered: {:?}",
            names_in(directory)
        );
        fs::remove_dir_all(directory).expect("removed");
    }

    fn digest(&self) -> String {
        blake3::hash(&self.content).to_hex().to_string()
    }

    /// Checks the report of a transfer that succeeded: all fields of DESIGN §10, none of which contradicts another.
    #[track_caller]
    fn assert_report(&self, report: &Value) {
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no number in {report}"));
        let bytes = self.content.len();
        let (seconds, total_seconds) = (number(&report["seconds"]), number(&report["total_seconds"]));
        assert_eq!(report["schema"], 1, "{report}");
        let session = report["session"].as_str().expect("the session is a text");
        assert!(session.len() == 8 && u32::from_str_radix(session, 16).is_ok(), "{session}");
        assert_eq!(report["bytes"], bytes, "{report}");
        assert!(0.0 < seconds && seconds <= total_seconds, "{report}");
        let goodput = bytes as f64 * 8.0 / seconds;
        assert!((number(&report["goodput_bits_per_second"]) - goodput).abs() <= goodput * 1e-6, "{goodput}: {report}");
        assert_eq!(report["blake3"], self.digest().as_str(), "{report}");
        let via = report["via"].as_str().expect("a word");
        assert!(if self.via == "auto" { ["chain", "cast"].contains(&via) } else { via == self.via }, "{report}");
        assert!(report["segment_bytes"].as_u64().is_some_and(|segment_bytes| segment_bytes > 0), "{report}");
        assert!(report.get("predicted_seconds").is_some_and(|value| value.is_null() || value.is_f64()), "{report}");
        for name in ["data_sent", "data_resent", "control_sent", "control_received"] {
            assert!(report["frames"][name].is_u64(), "{name}: {report}");
        }
        self.assert_receivers(report, total_seconds);
    }

    #[track_caller]
    fn assert_receivers(&self, report: &Value, total_seconds: f64) {
        let listed = report["receivers"].as_array().expect("a list");
        let ranks: Vec<_> = listed.iter().map(|receiver| receiver["rank"].as_u64().expect("a number")).collect();
        assert_eq!(ranks, (1..=self.receivers.len() as u64).collect::<Vec<_>>(), "ranks, in this order: {report}");
        let mut hosts: Vec<_> = listed.iter().map(|receiver| receiver["host"].as_str().expect("a name")).collect();
        let mut expected: Vec<_> = self.receivers.iter().map(|(host, ..)| host.as_str()).collect();
        hosts.sort_unstable();
        expected.sort_unstable();
        assert_eq!(hosts, expected);
        for receiver in listed {
            assert_eq!(receiver["status"], "verified", "{report}");
            assert_eq!(receiver["bytes"], self.content.len(), "{report}");
            assert_eq!(receiver["blake3"], self.digest().as_str(), "{report}");
            let seconds = receiver["seconds"].as_f64().expect("a number");
            assert!((0.0..=total_seconds).contains(&seconds), "{report}");
            let own = self.receiver(receiver["host"].as_str().expect("a name")).json();
            assert_eq!(own["rank"], receiver["rank"], "what a receiver says of itself: {own}");
        }
    }

    /// One of the frame counts of the root's report.
    pub fn frames(&self, name: &str) -> u64 {
        self.root.json()["frames"][name].as_u64().expect("a number")
    }

    /// The `seconds` of the root's report.
    pub fn seconds(&self) -> f64 {
        self.root.json()["seconds"].as_f64().expect("a number")
    }
}
