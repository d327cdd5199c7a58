//! Test helper: a process on a host in a network namespace: its output, signals and end.

use super::{LIMIT, within};
use anyhow::Context;
use ethbcast_lab::Lab;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Wait for a program's last output after its end. (Another process may hold its stderr.)
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// Treatment of a program's stdout.
#[derive(Clone, Debug)]
pub enum Stdout {
    Kept,
    /// Written to a file, at a limited rate and up to a limit.
    Read {
        into: PathBuf,
        /// Rate limit in bytes per second; none if `None`.
        bytes_per_second: Option<u64>,
        /// Number of bytes after which reading stops; never if `None`.
        at_most_bytes: Option<u64>,
    },
}

#[derive(Clone, Debug)]
pub struct Line {
    /// Moment at which it was read.
    pub at: Instant,
    pub text: String,
}

pub struct Process {
    child: Child,
    ended: Option<(Instant, i32)>,
    lines: Arc<Mutex<Vec<Line>>>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stopped: bool,
}

impl Process {
    pub fn start(mut command: Command, stdout: Stdout) -> anyhow::Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("starting a program")?;
        let out = child.stdout.take().context("piped")?;
        let lines = Arc::<Mutex<Vec<Line>>>::default();
        let stderr = BufReader::new(child.stderr.take().context("piped")?);
        let said = Arc::clone(&lines);
        thread::spawn(move || {
            for text in stderr.split(b'\n').map_while(Result::ok) {
                let text = String::from_utf8_lossy(&text).into_owned();
                held(&said).push(Line {
                    at: Instant::now(),
                    text,
                });
            }
        });
        let kept = Arc::default();
        let into = Arc::clone(&kept);
        thread::spawn(move || read(out, &stdout, &into));
        Ok(Self {
            child,
            ended: None,
            lines,
            stdout: kept,
            stopped: false,
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        if self.ended()?.is_none() {
            kill(Pid::from_raw(i32::try_from(self.id())?), signal)?;
            self.stopped = signal == Signal::SIGSTOP || self.stopped && signal != Signal::SIGCONT;
        }
        Ok(())
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns the moment of its end and its exit code, or 128 and the signal that killed it;
    /// `None` if it still runs.
    pub fn ended(&mut self) -> anyhow::Result<Option<(Instant, i32)>> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            let code = status
                .code()
                .or(status.signal().map(|signal| 128 + signal))
                .context("one or the other")?;
            self.ended = Some((Instant::now(), code));
        }
        Ok(self.ended)
    }

    /// Waits for the last output of a process that has ended.
    pub fn drain_output(&self) {
        let deadline = Instant::now() + OUTPUT_GRACE;
        while Arc::strong_count(&self.lines) + Arc::strong_count(&self.stdout) > 2
            && Instant::now() < deadline
        {
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn lines(&self) -> Vec<Line> {
        held(&self.lines).clone()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&held(&self.stdout)).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a process that has ended and been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the ids of all processes in a host's namespace.
pub fn processes_on(lab: &Lab, host: &str) -> anyhow::Result<Vec<Pid>> {
    let mut command = Command::new("ip");
    command.args(["netns", "pids", &lab.namespace(host)?]);
    let ids = Run::to_end(command, LIMIT).stdout_text();
    ids.split_whitespace()
        .map(|id| Ok(Pid::from_raw(id.parse()?)))
        .collect()
}

/// Kills every process in a host's namespace at once, as a power failure does.
pub fn power_off(lab: &Lab, host: &str) -> anyhow::Result<()> {
    for id in processes_on(lab, host)? {
        match kill(id, Signal::SIGKILL) {
            // The process has ended meanwhile.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => return Err(errno).context("ending all processes of a host"),
        }
    }
    Ok(())
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a program's stdout as configured. After the limit the pipe stays open while `kept` is
/// shared.
fn read(mut from: ChildStdout, how: &Stdout, kept: &Arc<Mutex<Vec<u8>>>) {
    let Stdout::Read {
        into,
        bytes_per_second,
        at_most_bytes,
    } = how
    else {
        let mut all = Vec::new();
        if from.read_to_end(&mut all).is_ok() {
            *held(kept) = all;
        }
        return;
    };
    let Ok(mut file) = std::fs::File::create(into) else {
        return;
    };
    let (started, mut done, mut buffer) = (Instant::now(), 0, vec![0; 16 << 10]);
    while at_most_bytes.is_none_or(|most| done < most) {
        let Ok(count @ 1..) = from.read(&mut buffer) else {
            return;
        };
        if file.write_all(&buffer[..count]).is_err() {
            return;
        }
        done += count as u64;
        if let Some(rate) = bytes_per_second {
            let due = Duration::from_secs_f64(done as f64 / *rate as f64);
            thread::sleep(due.saturating_sub(started.elapsed()));
        }
    }
    while Arc::strong_count(kept) > 1 {
        thread::sleep(OUTPUT_GRACE);
    }
}

/// A process and its output so far, killed on drop.
pub struct Run {
    name: String,
    child: Child,
    unread: Option<ChildStdout>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
    started: Instant,
}

/// No test learns from another.
const NO_CACHE: (&str, &str) = ("ETHBCAST_CACHE", "");

impl Run {
    pub fn start(name: &str, command: Command) -> Run {
        let mut run = Run::unread(name, command);
        let pipe = run.unread.take().expect("not read yet");
        run.readers.push(collect(pipe, &run.stdout));
        run
    }

    /// Runs a command without stdin to its end, which must come within `limit`.
    pub fn to_end(mut command: Command, limit: Duration) -> Ended {
        command.stdin(Stdio::null());
        Run::start(&format!("{command:?}"), command).end(limit)
    }

    /// Starts a command whose stdout is a pipe that is not read and soon full.
    pub fn unread(name: &str, mut command: Command) -> Run {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if !command.get_envs().any(|(name, _)| name == NO_CACHE.0) {
            command.env(NO_CACHE.0, NO_CACHE.1);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().unwrap_or_else(|error| match error.kind() {
            ErrorKind::NotFound => panic!("{program} is missing: ./test installs it"),
            _ => panic!("{name}: {error}"),
        });
        let (unread, stderr) = (child.stdout.take(), Arc::default());
        let readers = vec![collect(child.stderr.take().expect("piped"), &stderr)];
        Run {
            name: name.to_owned(),
            child,
            unread,
            stdout: Arc::default(),
            stderr,
            readers,
            started: Instant::now(),
        }
    }

    /// Starts a command whose stdout is a pipe that is read at `bytes_per_second`.
    pub fn read_slowly(name: &str, command: Command, bytes_per_second: u64) -> Run {
        let mut run = Run::unread(name, command);
        let pipe = run.unread.take().expect("not read yet");
        run.readers.push(collect(
            Paced {
                pipe,
                bytes_per_second,
                done_bytes: 0,
                started: run.started,
            },
            &run.stdout,
        ));
        run
    }

    /// Runs a program on this machine, outside every lab, without stdin.
    pub fn here(program: &str, arguments: &[&str]) -> Run {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null());
        Run::start(&arguments.join(" "), command)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its process id: `ip netns exec` and the like become the program they run.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("a process id"));
        kill(pid, signal).unwrap_or_else(|errno| panic!("{signal} to {}: {errno}", self.name));
    }

    /// Returns the size so far of the largest file below `directory` that it has open, whether the
    /// file has a name or not.
    pub fn open_bytes(&self, directory: &Path) -> Option<u64> {
        self.open_files(directory)
            .iter()
            .filter_map(|link| fs::metadata(link).ok())
            .map(|file| file.len())
            .max()
    }

    /// Returns paths of the files below `directory` that it has open, whether they have names or
    /// not.
    pub fn open_files(&self, directory: &Path) -> Vec<PathBuf> {
        let Ok(opened) = fs::read_dir(format!("/proc/{}/fd", self.pid())) else {
            return Vec::new();
        };
        let links = opened.flatten().map(|entry| entry.path());
        links
            .filter(|link| fs::read_link(link).is_ok_and(|file| file.starts_with(directory)))
            .collect()
    }

    pub fn stderr(&self) -> String {
        text(&self.stderr)
    }

    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    pub fn say(&mut self, words: &str) {
        let stdin = self.child.stdin.as_mut().expect("its stdin is a pipe");
        stdin
            .write_all(words.as_bytes())
            .unwrap_or_else(|error| panic!("to {}: {error}", self.name));
    }

    /// Waits until the process handles `signal`. While it is still starting, the signal would kill
    /// it.
    pub fn wait_until_it_hears(&self, signal: Signal) {
        let bit = 1 << (signal as u64 - 1);
        let status =
            || fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let mask = |line: &str| {
            line.strip_prefix("SigBlk:")
                .or(line.strip_prefix("SigCgt:"))
                .map(str::trim)
                .map(hex)
        };
        let hears = || {
            status()
                .lines()
                .filter_map(mask)
                .any(|mask| mask & bit != 0)
                .then_some(())
        };
        within(LIMIT, hears)
            .unwrap_or_else(|| panic!("{} never heard {signal}:\n{}", self.name, self.stderr()));
    }

    pub fn wait_for_line(&self, part: &str) {
        self.wait_for_lines(1, part);
    }

    pub fn wait_for_lines(&self, count: usize, part: &str) {
        let lines = || {
            self.stderr()
                .lines()
                .filter(|line| line.contains(part))
                .count()
        };
        let seen = within(LIMIT, || (lines() >= count).then_some(()));
        seen.unwrap_or_else(|| {
            panic!(
                "{} did not say {part:?} {count} times, but:\n{}",
                self.name,
                self.stderr()
            )
        });
    }

    /// Waits for its end; returns `None` if that does not come before the deadline.
    pub fn ended_by(&mut self, deadline: Instant) -> Option<ExitStatus> {
        within(deadline.saturating_duration_since(Instant::now()), || {
            self.child.try_wait().expect("our child")
        })
    }

    pub fn end(mut self, limit: Duration) -> Ended {
        let status = self.ended_by(Instant::now() + limit);
        let status = status.unwrap_or_else(|| {
            panic!(
                "{} did not end within {limit:?}:\n{}",
                self.name,
                self.stderr()
            )
        });
        let took = self.started.elapsed();
        // A descendant that outlives it may hold its pipes.
        let is_read = || {
            self.readers
                .iter()
                .all(JoinHandle::is_finished)
                .then_some(())
        };
        within(LIMIT, is_read)
            .unwrap_or_else(|| panic!("somebody else holds the pipes of {}", self.name));
        self.readers
            .drain(..)
            .for_each(|reader| reader.join().expect("reading a pipe"));
        let stdout =
            std::mem::take(&mut *self.stdout.lock().unwrap_or_else(PoisonError::into_inner));
        Ended {
            name: self.name.clone(),
            status,
            stdout,
            stderr: self.stderr(),
            took,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Fails only for a process that has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Paced<R> {
    pipe: R,
    bytes_per_second: u64,
    done_bytes: u64,
    started: Instant,
}

impl<R: Read> Read for Paced<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let due = Duration::from_secs_f64(self.done_bytes as f64 / self.bytes_per_second as f64);
        thread::sleep(due.saturating_sub(self.started.elapsed()));
        let count = self.pipe.read(buffer)?;
        self.done_bytes += count as u64;
        Ok(count)
    }
}

fn collect(mut pipe: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            into.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend_from_slice(&buffer[..count]);
        }
    })
}

fn hex(mask: &str) -> u64 {
    u64::from_str_radix(mask, 16).unwrap_or(0)
}

fn text(bytes: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

#[derive(Debug)]
pub struct Ended {
    name: String,
    status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub took: Duration,
}

impl Ended {
    /// Returns its exit code, or 128 and the number of the signal that killed it, as shells do.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .or(self.status.signal().map(|signal| 128 + signal))
            .expect("one or the other")
    }

    /// Panics with its output unless it ended with this code.
    #[track_caller]
    pub fn assert_code(&self, code: i32) {
        assert_eq!(
            self.code(),
            code,
            "exit code of {}, which said:\n{}{}",
            self.name,
            self.stdout_text(),
            self.stderr
        );
    }

    /// Panics unless it ended with this code, and each of `parts` is on a line of stderr.
    #[track_caller]
    pub fn assert_refusal(&self, code: i32, parts: &[&str]) {
        self.assert_code(code);
        let said = self
            .stderr
            .lines()
            .any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(
            said,
            "{} said no line with all of {parts:?}, but:\n{}",
            self.name, self.stderr
        );
        assert_eq!(
            self.stdout_text(),
            "",
            "stdout of {}: a refusal belongs on stderr",
            self.name
        );
    }

    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns the one JSON object on its stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        let text = self.stdout_text();
        assert_eq!(
            text.lines().count(),
            1,
            "{} printed more or less than one object: {text:?}\n{}",
            self.name,
            self.stderr
        );
        let value: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error} in {text}", self.name));
        assert!(value.is_object(), "{text}");
        value
    }
}
