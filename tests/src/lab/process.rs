//! A program on a host of the lab, with the moment of every line it says and of its end.

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

/// How long a program's last words may take after its end. (Another process may hold its stderr.)
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What becomes of a program's stdout.
#[derive(Clone, Debug)]
pub enum Stdout {
    /// It is kept.
    Kept,
    /// It is written to this file, so many bytes per second, and no more after so many.
    Read {
        /// The file.
        into: PathBuf,
        /// How fast; without it, as fast as it comes.
        bytes_per_second: Option<u64>,
        /// How much; without it, all.
        at_most_bytes: Option<u64>,
    },
}

/// A line on stderr.
#[derive(Clone, Debug)]
pub struct Line {
    /// When it was said.
    pub at: Instant,
    /// The line.
    pub text: String,
}

/// A process; killed when this is dropped.
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
    /// If the system cannot.
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

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, unless it has ended.
    ///
    /// # Errors
    /// What the system says.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        if self.ended()?.is_none() {
            kill(Pid::from_raw(i32::try_from(self.id())?), signal)?;
            self.stopped = signal == Signal::SIGSTOP || self.stopped && signal != Signal::SIGCONT;
        }
        Ok(())
    }

    /// Whether it is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// When and with which code it has ended (128 and the signal that killed it), if it has.
    ///
    /// # Errors
    /// What the system says.
    pub fn ended(&mut self) -> anyhow::Result<Option<(Instant, i32)>> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            let code = status.code().or(status.signal().map(|signal| 128 + signal)).context("one or the other")?;
            self.ended = Some((Instant::now(), code));
        }
        Ok(self.ended)
    }

    /// Waits for what a process that has ended may have said last.
    pub fn hear_out(&self) {
        let deadline = Instant::now() + LAST_WORDS;
        while Arc::strong_count(&self.lines) + Arc::strong_count(&self.stdout) > 2 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// What it has said on stderr so far.
    pub fn lines(&self) -> Vec<Line> {
        held(&self.lines).clone()
    }

    /// What it has printed and was kept.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&held(&self.stdout)).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for one that has ended and been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The ids of all processes in a host's namespace.
///
/// # Errors
/// If `ip` cannot say.
pub fn processes_on(lab: &Lab, host: &str) -> anyhow::Result<Vec<Pid>> {
    let mut command = Command::new("ip");
    command.args(["netns", "pids", &lab.namespace(host)?]);
    let ids = Run::to_end(command, LIMIT).stdout_text();
    ids.split_whitespace().map(|id| Ok(Pid::from_raw(id.parse()?))).collect()
}

/// Ends every process in a host's namespace at once, as a power failure does.
///
/// # Errors
/// If they cannot be found, or not be ended.
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

/// Reads a program's stdout as its reader is told to. Who stops reading keeps the pipe open as long as somebody wants
/// to know what the program has printed.
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
