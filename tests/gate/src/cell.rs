//! The cell in which one test runs: nothing of it is left when it has ended, whatever became of it.
//!
//! As root a cell has process ids, mounts, `/run/netns`, `/dev/shm` and `target/tmp` of its own: with its first process
//! all its processes end, and with them its network namespaces, mounts and files in memory go. Without root it is a
//! group of processes that is ended as a whole.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, Uid, getpgrp};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::collect::Test;

/// The first argument of this program when it is a cell's first process.
const ENTER: &str = "--cell";
/// What the first process prints behind everything else: what the test took.
const USED: &str = "\u{1}used ";
/// How often a cell is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Mounts directories that a cell has for itself.
const FURNISH: &str = "for at; do mkdir -p $at && mount -t tmpfs tmpfs $at || exit 1; done";
/// Which these are, beside the one for the files of tests, which this variable names.
const OWN: [&str; 2] = ["/dev/shm", "/run/netns"];
const FILES: &str = "ETHBCAST_CELL_FILES";

/// What became of a test.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; 128 and more: a signal's; `None`: it was ended at the deadline.
    pub code: Option<i32>,
    /// All that it said.
    pub said: String,
    /// From start to end.
    pub took: Duration,
    /// What it took of the processors.
    pub processors: Duration,
    /// Memory of its largest process, in bytes.
    pub memory_bytes: u64,
}

/// A test that runs.
pub struct Cell {
    child: Child,
    log: File,
    begun: Instant,
    deadline: Duration,
    is_root: bool,
}

impl Cell {
    /// Starts a test; what it says goes into a file.
    ///
    /// # Errors
    /// If the system cannot.
    pub fn start(test: &Test, logs: &Path, deadline: Duration, environment: &[(&str, &str)]) -> anyhow::Result<Self> {
        let log = logs.join(format!("{}.log", test.name.replace("::", ".")));
        let file = File::options().create(true).truncate(true).read(true).write(true).open(log)?;
        let own = std::env::current_exe()?;
        let is_root = Uid::effective().is_root() && test.kind.is_lab();
        let mut command = if is_root {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
            // Lab tests come before everything else that wants processors.
            command.args(["--", "nice", "-n", "-10"]).arg(own);
            command
        } else {
            Command::new(own)
        };
        // A pipe that nobody writes to: it ends with this process, and the cell with it.
        command.arg(ENTER).args(&test.command).current_dir(&test.directory).stdin(Stdio::piped());
        command.stdout(file.try_clone()?).stderr(file.try_clone()?).process_group(0);
        command.envs(environment.iter().copied()).env("CARGO_MANIFEST_DIR", &test.directory);
        // Cargo's directory for the files of tests, `target/tmp`.
        command.env(FILES, logs.join("../../tmp"));
        Ok(Self { child: command.spawn()?, log: file, begun: Instant::now(), deadline, is_root })
    }

    /// Waits for its end, for as long as the deadline lets it.
    ///
    /// # Errors
    /// If the system cannot say.
    pub fn end(mut self) -> anyhow::Result<Ended> {
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break Some(status),
                None if self.begun.elapsed() > self.deadline => break None,
                None => std::thread::sleep(LOOK_EVERY),
            }
        };
        self.clear();
        let mut said = Vec::new();
        self.log.rewind()?;
        self.log.read_to_end(&mut said)?;
        let mut said = String::from_utf8_lossy(&said).into_owned();
        let code = status.map(|status| status.code().unwrap_or(128 + status.signal().unwrap_or_default()));
        let (processors, memory_bytes) = used(&mut said).unwrap_or_default();
        Ok(Ended { code, said, took: self.begun.elapsed(), processors, memory_bytes })
    }

    /// Ends whatever is left of it.
    fn clear(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        // Both fail where nothing is left, which is what is wanted. As root the first process ends with `unshare`, and
        // with it all others.
        if !self.is_root {
            killpg(group, Signal::SIGTERM).unwrap_or_default();
        }
        killpg(group, Signal::SIGKILL).unwrap_or_default();
        drop(self.child.wait());
    }
}

/// Takes what the first process has said of what the test took, out of what was said.
fn used(said: &mut String) -> Option<(Duration, u64)> {
    let at = said.rfind(USED)?;
    let text = said.split_off(at);
    let mut numbers = text.strip_prefix(USED)?.split_whitespace().map(|number| number.parse::<u64>().ok());
    Some((Duration::from_millis(numbers.next()??), numbers.next()?? << 10))
}

/// Is a cell's first process, if this process was started as one: starts the test, and reaps whoever ends until it has.
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(ENTER) {
        return None;
    }
    Some(first_process(arguments).unwrap_or_else(|error| {
        eprintln!("the test was not started: {error:#}");
        ExitCode::from(126)
    }))
}

/// Ends the cell when its runner has gone, be it by Ctrl-C.
fn end_with_the_runner() {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap_or_default();
    killpg(getpgrp(), Signal::SIGKILL).unwrap_or_default();
    // The first of all process ids is spared, and ends the others by its end.
    std::process::exit(126);
}

fn first_process(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<ExitCode> {
    std::thread::spawn(end_with_the_runner);
    if std::process::id() == 1 {
        let files = std::env::var(FILES).unwrap_or_default();
        let furnished = Command::new("sh").args(["-c", FURNISH, "sh"]).args(OWN).arg(files).status()?;
        anyhow::ensure!(furnished.success(), "mounts for the test alone cannot be made");
    }
    let program = arguments.next().ok_or_else(|| anyhow::anyhow!("no program"))?;
    let test = Command::new(program).args(arguments).stdin(Stdio::null()).spawn()?;
    let code = loop {
        match waitpid(None, None)? {
            WaitStatus::Exited(pid, code) if pid.as_raw() as u32 == test.id() => break code,
            WaitStatus::Signaled(pid, signal, _) if pid.as_raw() as u32 == test.id() => break 128 + signal as i32,
            _ => {}
        }
    };
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let processors = usage.user_time() + usage.system_time();
    let milliseconds = processors.tv_sec() * 1000 + processors.tv_usec() / 1000;
    println!("{USED}{milliseconds} {}", usage.max_rss());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
