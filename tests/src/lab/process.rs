//! A program on a host of the lab, with the moment of each line of its stderr and of its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{LIMIT, Run};
use anyhow::Context;
use ethbcast_lab::Lab;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Wait for a program's last output after its end. (Another process may hold its stderr.)
const LAST_WORDS: Duration = Duration::from_secs(1);

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

/// A process, killed on drop.
pub struct Process {
    child: Child,
    ended: Option<(Instant, i32)>,
    lines: Arc<Mutex<Vec<Line>>>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stopped: bool,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(mut command: Command, stdout: Stdout) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting a program")?;
        let out = child.stdout.take().context("piped")?;
        let lines = Arc::<Mutex<Vec<Line>>>::default();
        let stderr = BufReader::new(child.stderr.take().context("piped")?);
        let said = Arc::clone(&lines);
        thread::spawn(move || {
            for text in stderr.split(b'\n').map_while(Result::ok) {
                let text = String::from_utf8_lossy(&text).into_owned();
                held(&said).push(Line { at: Instant::now(), text });
            }
        });
        let kept = Arc::default();
        let into = Arc::clone(&kept);
        thread::spawn(move || read(out, &stdout, &into));
        Ok(Self { child, ended: None, lines, stdout: kept, stopped: false })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, unless it has ended.
    ///
    /// # Errors
    /// The error of the system.
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
    ///
    /// # Errors
    /// The error of the system.
    pub fn ended(&mut self) -> anyhow::Result<Option<(Instant, i32)>> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            let code = status.code().or(status.signal().map(|signal| 128 + signal)).context("one or the other")?;
            self.ended = Some((Instant::now(), code));
        }
        Ok(self.ended)
    }

    /// Waits for the last output of a process that has ended.
    pub fn hear_out(&self) {
        let deadline = Instant::now() + LAST_WORDS;
        while Arc::strong_count(&self.lines) + Arc::strong_count(&self.stdout) > 2 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns its lines on stderr so far.
    pub fn lines(&self) -> Vec<Line> {
        held(&self.lines).clone()
    }

    /// Returns its stdout, if kept.
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
///
/// # Errors
/// Fails if `ip` does.
pub fn processes_on(lab: &Lab, host: &str) -> anyhow::Result<Vec<Pid>> {
    let mut command = Command::new("ip");
    command.args(["netns", "pids", &lab.namespace(host)?]);
    let ids = Run::to_end(command, LIMIT).stdout_text();
    ids.split_whitespace().map(|id| Ok(Pid::from_raw(id.parse()?))).collect()
}

/// Kills every process in a host's namespace at once, as a power failure does.
///
/// # Errors
/// Fails if they cannot be listed or killed.
pub fn power_off(lab: &Lab, host: &str) -> anyhow::Result<()> {
    for id in processes_on(lab, host)? {
        match kill(id, Signal::SIGKILL) {
            // It has ended meanwhile.
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
    let Stdout::Read { into, bytes_per_second, at_most_bytes } = how else {
        let mut all = Vec::new();
        if from.read_to_end(&mut all).is_ok() {
            *held(kept) = all;
        }
        return;
    };
    let Ok(mut file) = std::fs::File::create(into) else { return };
    let (started, mut done, mut buffer) = (Instant::now(), 0, vec![0; 16 << 10]);
    while at_most_bytes.is_none_or(|most| done < most) {
        let Ok(count @ 1..) = from.read(&mut buffer) else { return };
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
        thread::sleep(LAST_WORDS);
    }
}
